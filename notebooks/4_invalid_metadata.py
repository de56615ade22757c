# %% [markdown]
# # 4. Invalid metadata
#
# **What does an H100 do with metadata that PTX leaves undefined?**
#
# 30 minutes. Builds on: lesson 3. You will be able to
#
# * say what an H100 computes from metadata that PTX leaves undefined, and how that is known;
# * test an explanation against recorded results of the chip;
# * choose a policy for undefined cases.
#
# A code of 2:4 metadata has 4 bits, so there are 16, and PTX defines 6 of them (12 for plain `mma.sp`). The others
# arise from a bug in whatever packs metadata, or from a flipped bit. Every code was run in every position on an H100
# 80GB (sm_90, driver 580, November 2026), and a part of what came out, for every form and selector, is in
# [tests/golden](../tests/golden/README.md). This lesson asks it.

# %%
from pathlib import Path
from textwrap import fill

import matplotlib.pyplot as plt
import numpy as np

import isa
import simulator
from simulator.lessons import check, data
from simulator.lessons.recordings import recordings
from simulator.views.plots import COLOURS

plt.rcParams.update({"figure.dpi": 80, "font.size": 9})
figure, axes = plt.subplots(figsize=(4.4, 2.9))
kinds = {
    "ascending: legal": COLOURS[5],
    "descending: legal in plain mma.sp": COLOURS[4],
    "equal: never legal": COLOURS[3],
}
for code in range(16):
    low, high = code & 3, code >> 2
    kind = list(kinds.values())[0 if low < high else 1 if low > high else 2]
    axes.add_patch(
        plt.Rectangle((high - 0.5, low - 0.5), 1, 1, facecolor=kind, edgecolor="white")
    )
    axes.text(high, low, f"{code:04b}", ha="center", va="center")
axes.set(xlim=(-0.5, 3.5), ylim=(3.5, -0.5), xticks=range(4), yticks=range(4))
axes.set(
    xlabel="column of the second element (bits 3..2)",
    ylabel="column of the first (bits 1..0)",
)
handles = [plt.Rectangle((0, 0), 1, 1, facecolor=colour) for colour in kinds.values()]
axes.legend(
    handles, list(kinds), frameon=False, loc="center left", bbox_to_anchor=(1, 0.5)
)
plt.show()

# %% [markdown]
# ## The sixteen codes
#
# Bits 1..0 of a code are the column, in its chunk of four, that the first stored element belongs to; bits 3..2 that of
# the second. Legal with `::ordered_metadata` are those that ascend. Plain `mma.sp` takes descending ones too. Equal
# columns are legal in neither: `metadata_findings` names them. The picture has all 16; what an H100 makes of each is in
# the recordings:

# %%
recorded = list(recordings(data("mma_sp.npz")))
print(len(recorded), "recordings")

# %% [markdown]
# ## A recorded case
#
# A recording has a form, a selector, the kind of its metadata (`valid`, or `random`: any code), the registers that went
# in (A, B, C and the metadata, one after the other) and those of D that came out.

# %%
OPCODE = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
form = isa.mma_form(OPCODE)


def operands(recording):
    """A, B, C as [case, register, lane] and the metadata as [case, lane]."""
    f = recording.form
    *abc, e = np.split(
        recording.inputs,
        np.cumsum([f.a.registers, f.b.registers, f.c.registers]),
        axis=1,
    )
    return *abc, e[:, 0]


recording = next(
    r for r in recorded if (r.form, r.selector, r.metadata) == (form, 0, "random")
)
(a, b, c, e), outputs = operands(recording), recording.outputs
codes = form.metadata.gather(e, selector=0)
print(
    f"{len(outputs)} cases, {codes.size} codes:",
    {
        name: int(found.sum())
        for name, found in isa.metadata_findings(form, codes).items()
    },
)
d = simulator.mma_sp(OPCODE, a, b, c, e, selector=0, target="sm_90a")
print(
    f"{outputs.size} words of D, {int(np.bitwise_count(d ^ outputs).sum())} bits "
    "differ between chip and simulator"
)

# %% [markdown]
# One row of the first case by hand: the codes of its eight chunks, the columns of B that they pick if the hardware is a
# plain multiplexer, and the sum of products in float64. The chip's own sum is truncated ([lesson
# 7](7_truncation_and_error.ipynb)), hence the last digits.


# %%
def as_f16(patterns):
    return patterns.astype(np.uint16).view(np.float16).astype(np.float64)


A, B = as_f16(form.a.gather(a[0])), as_f16(form.b.gather(b[0]))
C, D = (form.d.gather(x[0]).view(np.float32) for x in (c, outputs))
row = int(
    np.argmax(isa.metadata_findings(form, codes[0])["invalid-metadata"].sum(axis=1))
)  # the row with the most equal indices
print(f"row {row}: codes", " ".join(f"{code:04b}" for code in codes[0, row]))
columns = isa.stored_columns(codes[0], isa.TWO_OF_FOUR)[row]
print("columns of B:    ", *columns)
for n in range(3):
    by_hand = float(A[row] @ B[columns, n] + C[row, n])
    print(
        f"D[{row}][{n}]: by hand {by_hand:.9g}, recorded {D[row, n]:.9g} ("
        f"{D[row, n].view(np.uint32):#010x})"
    )

# %% [markdown]
# ## Other explanations
#
# That one explanation fits is worth more if others do not. Three more, each written as a change of the operands or
# codes, and how many of the recorded words they get right, over all recordings of `m16n8k32` with f16 inputs and random
# metadata:


# %%
def as_written(stored, codes):
    return stored, codes


def contributes_nothing(stored, codes):
    """A chunk with equal indices is skipped."""
    equal = np.repeat((codes & 3) == (codes >> 2), 2, axis=-1)
    return np.where(equal, 0, stored), np.where(
        (codes & 3) == (codes >> 2), 0b0100, codes
    )


def sorted_first(stored, codes):
    """The smaller index goes to the first element."""
    low, high = codes & 3, codes >> 2
    return stored, np.minimum(low, high) | np.maximum(low, high) << 2


def next_column(stored, codes):
    """Of two equal indices the second moves on by one."""
    low, high = codes & 3, codes >> 2
    return stored, low | np.where(low == high, (high + 1) % 4, high) << 2


print(f"{'explanation':22}{'words right':>12}{'of':>7}")
for explain in (as_written, contributes_nothing, sorted_first, next_column):
    right = words = 0
    for r in recorded:
        f = r.form
        if (
            r.metadata == "random"
            and f.ordered
            and f.a_type.name == "f16"
            and f.k == 32
        ):
            a_, b_, c_, e_ = operands(r)
            stored, changed = explain(f.a.gather(a_), f.metadata.gather(e_, r.selector))
            found = simulator.mma_sp(
                f.opcode,
                f.a.scatter(stored),
                b_,
                c_,
                f.metadata.scatter(changed, r.selector),
                r.selector,
            )
            right, words = right + int(np.sum(found == r.outputs)), words + found.size
    print(f"{explain.__name__:22}{right:12,}{words:7,}")

# %% [markdown]
# The metadata drives a plain multiplexer: `stored[0]` meets B at the first index and `stored[1]` at the second,
# whatever they are. No trap, no zeroing. So the outcome of every such fault can be computed, and [lesson
# 8](8_fault_campaign.ipynb) does.
#
# All recordings at once, by kind of metadata:

# %%
totals = {}
for r in recorded:
    spelling = "mma.sp::ordered_metadata" if r.form.ordered else "mma.sp"
    forms, words, bits = totals.get((spelling, r.metadata), (set(), 0, 0))
    totals[spelling, r.metadata] = (
        forms | {r.form.opcode},
        words + r.outputs.size,
        bits + r.differing_bits(),
    )
for (spelling, metadata), (forms, words, bits) in totals.items():
    print(
        f"{spelling:25} {metadata:7} {len(forms):3} forms {words:7,} words {bits:2} "
        "differing bits"
    )

# %% [markdown]
# ## tf32: halves are spliced
#
# Of tf32 one element of two is stored, and 0b0100 and 0b1110 are the only legal codes. The multiplexer is the same one,
# 16 bits wide: a chunk of B is four halves h0 to h3, and the operand is h[code & 3] below and h[code >> 2] above. The
# legal codes are (h0, h1) and (h2, h3), whole elements; any other splices. Here A is 1.0 in one place, so D is the
# operand that the multiplier saw (its low 13 bits are ignored):

# %%
TF32 = "mma.sp::ordered_metadata.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
tf32 = isa.mma_form(TF32)
first, second = 0x3F80E000, 0x40904000  # halves E000, 3F80, 4000, 4090
halves = [first & 0xFFFF, first >> 16, second & 0xFFFF, second >> 16]
every = np.arange(16)
stored = np.zeros((16, *tf32.a.shape), np.uint32)
stored[:, 0, 0] = np.float32(1).view(np.uint32)
b_matrix = np.zeros((16, *tf32.b.shape), np.uint32)
b_matrix[:, 0, 0], b_matrix[:, 1, 0] = first, second
changed = np.full((16, *tf32.metadata.shape), 0b0100, np.uint32)
changed[:, 0, 0] = every
d = simulator.mma_sp(
    TF32,
    tf32.a.scatter(stored),
    tf32.b.scatter(b_matrix),
    np.zeros((16, 4, 32), np.uint32),
    tf32.metadata.scatter(changed, 0),
)
seen = tf32.d.gather(d)[:, 0, 0]
predicted = np.array(
    [halves[code >> 2] << 16 | halves[code & 3] & 0xE000 for code in every], np.uint32
)
for code in (0b0100, 0b1110, 0b0000, 0b0110, 0b1101, 0b1011):
    legal = "legal  " if code in isa.ONE_OF_TWO.ordered else "illegal"
    print(
        f"{code:04b} {legal} h{code >> 2} above h{code & 3}: {predicted[code]:08x}, D "
        f"{seen[code]:08x} = {seen.view(np.float32)[code]:.7g}"
    )
print("all 16 as predicted:", bool((seen == predicted).all()))

# %% [markdown]
# A splice can be far from both elements: an exponent of one element with the fraction of the other, or a fraction read
# as an exponent. In the recordings, whose operands are of every kind, taking each code for the nearer whole element is
# wrong:

# %%
for r in recorded:
    f = r.form
    if r.metadata == "random" and f.ordered and f.a_type.name == "tf32":
        a_, b_, c_, e_ = operands(r)
        whole = np.where(f.metadata.gather(e_, r.selector) & 2, 0b1110, 0b0100)
        spliced, nearest = (
            simulator.mma_sp(f.opcode, a_, b_, c_, x, r.selector)
            for x in (e_, f.metadata.scatter(whole, r.selector))
        )
        right = [int(np.sum(found == r.outputs)) for found in (spliced, nearest)]
        print(
            f"m16n8k{f.k:<2} selector {r.selector}: of {r.outputs.size} words right: "
            f"splice {right[0]}, whole element {right[1]}"
        )

# %% [markdown]
# ## Lanes that do not contribute
#
# With selector 0 the metadata of this form is in lanes 0, 1, 4, 5, ... Bits in the other lanes do nothing: random ones
# there leave the recorded words as they are.

# %%
rng = np.random.default_rng(0)
lanes = np.unique(form.metadata.places(0)[0])
others = np.setdiff1d(np.arange(32), lanes)
noisy = e.copy()
noisy[:, others] = rng.integers(0, 2**32, (len(e), len(others)), dtype=np.uint32)
print("contribute:", *lanes)
print(
    "same D with noise in the others:",
    bool((simulator.mma_sp(OPCODE, a, b, c, noisy) == outputs).all()),
)

# %% [markdown]
# ## A selector out of range
#
# The selector is an immediate, so an assembler can refuse it; ptxas 13.0 does, but for this one form, of which it takes
# 2 and 3. An H100 then stops the kernel with an illegal-instruction error. There is no result to compute: the simulator
# raises, under either policy.

# %%
try:
    simulator.mma_sp(OPCODE, a, b, c, e, selector=2, undefined="hardware")
except isa.UndefinedBehavior as error:
    print(fill(str(error), 88))

# %% [markdown]
# ## Policies
#
# `undefined="hardware"` follows the chip, and a run counts what it met. `undefined="raise"` stops at the first case and
# says where it is, down to the bits. Other chips were not measured: that they do the same is a guess.

# %%
import tempfile

text = f""".trace 1
.target sm_90a
.warps 1
.warp 0 {{
    mov.u32 %r12, 0xEEEE0EEE;
    {OPCODE}
        {{%r8, %r9, %r10, %r11}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5, %r6, %r7}},
        {{%r8, %r9, %r10, %r11}}, %r12, 0x0;
}}
"""
path = Path(tempfile.mkdtemp()) / "bad.trace"
path.write_text(text)
print(simulator.run(path).undefined)
try:
    simulator.run(path, undefined="raise")
except isa.UndefinedBehavior as error:
    print(fill(str(error).replace(str(path), "bad.trace"), 88))

# %% [markdown]
# ## Exercises
#
# **1.** Which columns of B does code 0b0101 in chunk 3 pick, and what is the product of that chunk?
#
# Answer: the two columns of B.
#
# <details><summary>Solution</summary>
#
# Both indices are 1: column 4 * 3 + 1 = 13, twice. The chunk gives (stored[6] + stored[7]) * B[13].
#
# ```python
# assert isa.stored_columns(np.array([[14, 14, 14, 0b0101]]), isa.TWO_OF_FOUR)[
#     0, 6:
# ].tolist() == [13, 13]
# answer = (13, 13)
# check("4.1", answer)
# ```
# </details>

# %%
answer = None
check("4.1", answer)

# %% [markdown]
# **2.** Of the 16 codes, how many does a check of legality catch: with `::ordered_metadata`, without, with tf32?
#
# Answer: `(ordered, plain, tf32)`.
#
# <details><summary>Solution</summary>
#
# 10, 4 and 14 of 16. The stricter the rule, the more of all faults are seen.
#
# ```python
# plain = isa.mma_form(OPCODE.replace("::ordered_metadata", ""))
# assert [16 - len(f.metadata.codes) for f in (form, plain, tf32)] == [10, 4, 14]
# answer = tuple(16 - len(f.metadata.codes) for f in (form, plain, tf32))
# check("4.2", answer)
# ```
# </details>

# %%
answer = None
check("4.2", answer)

# %% [markdown]
# **3.** Can a dense A give what a chunk with equal indices gives? Try it with exact arithmetic, for stored elements 1
# and 2, and for 1 and 2^-11.
#
# Answer: `(possible for 1 and 2, possible for 1 and 2^-11)`.
#
# <details><summary>Solution</summary>
#
# Only if the sum of the two stored elements is an element of the type: 3 is an f16, 1 + 2^-11 is not (f16 has 10
# fraction bits).
#
# ```python
# for small, same in ((2.0, True), (2.0**-11, False)):
#     stored = np.zeros((1, 16, 16), np.float16)
#     stored[0, 0, :2] = 1, small
#     codes = np.full((1, 16, 8), 0b0100, np.uint32)
#     codes[0, 0, 0] = 0b0000
#     dense = np.zeros((16, 32))
#     dense[0, 0] = np.float16(1 + small)
#     b_matrix = np.ones((32, 8), np.float16)
#     sparse = simulator.mma_sp(
#         OPCODE,
#         form.a.scatter(stored.view(np.uint16).astype(np.uint32)),
#         form.b.scatter(b_matrix.view(np.uint16).astype(np.uint32))[None],
#         np.zeros((1, 4, 32), np.uint32),
#         form.metadata.scatter(codes, 0),
#         arithmetic="exact",
#     )
#     found = form.d.gather(sparse)[0].view(np.float32)
#     assert bool((found == dense @ b_matrix).all()) == same
# answer = (True, False)
# check("4.3", answer)
# ```
# </details>

# %%
answer = None
check("4.3", answer)
