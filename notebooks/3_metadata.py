# %% [markdown]
# # 3. Metadata
#
# **Which bits of which lane's register say where a stored element of A belongs?**
#
# 35 minutes. Builds on: lessons 1 and 2. You will be able to
#
# * read a word of metadata by hand, for every type;
# * find the lane and the bits that say where a stored element belongs;
# * use selectors to keep the metadata of several instructions in one register.
#
# A sparse form has one more operand, 32 bits a lane, and an immediate, the selector, that says which lanes' bits are
# meant. This is where most first attempts at `mma.sp` go wrong. Codes and owners below were confirmed on an H100, in
# every position ([tests/golden](../tests/golden/README.md)).

# %%
from textwrap import fill

import numpy as np

import isa
import simulator
from simulator.layout.queries import where
from simulator.lessons import check

OPCODE = "mma.sp::ordered_metadata.sync.aligned.{}.row.col.{}"
f32_forms = (("m16n8k32", "f16"), ("m16n8k16", "f16"), ("m16n8k16", "tf32"))
f16, f16_short, tf32 = (
    isa.mma_form(OPCODE.format(shape, f"f32.{t}.{t}.f32")) for shape, t in f32_forms
)
s8, s4 = (
    isa.mma_form(OPCODE.format(shape, f"s32.{t}.{t}.s32"))
    for shape, t in (("m16n8k64", "s8"), ("m16n8k128", "s4"))
)

simulator.drawing.draw(simulator.layout.form_layout(f16.opcode), "e", palette="safe")

# %% [markdown]
# ## Codes
#
# Four bits describe a chunk of a row. How many columns a chunk has depends on the width of an element; so does what an
# index points at.

# %%
for form in (tf32, f16, s8, s4):
    pattern = form.metadata.sparsity
    codes = " ".join(f"{code:04b}" for code in form.metadata.codes)
    chunk = f"chunk of {pattern.chunk} columns, {pattern.stored} stored"
    print(f"{form.a_type.name:5}{pattern.name:14} {chunk}; codes {codes}")

# %% [markdown]
# * 2:4: bits 1..0 are the column of the first stored element, bits 3..2 that of the second.
# * 4:8 in pairs: the same with pairs of columns; a pair is kept or dropped as one.
# * 1:2: 0100 is the first element, 1110 the second. (They are 2:4 codes of 16-bit halves: columns 0 and 1, or 2 and 3.
#   [Lesson 4](4_invalid_metadata.ipynb) shows that the hardware takes them so.)
#
# As a formula, `column` being the stored one:

# %%
for form in (f16, s4, tf32):
    print(f"{form.metadata.sparsity.name}: logical column =")
    print(f"    {form.metadata.sparsity.formula}")
for code in (0b0100, 0b1101, 0b1110):
    picked = [
        isa.stored_columns(np.array([[code]]), form.metadata.sparsity)[0].tolist()
        for form in (f16, s4)
    ]
    print(f"code {code:04b}: 2:4 keeps columns {picked[0]}, 4:8 keeps {picked[1]}")

# %% [markdown]
# ## Compress and expand
#
# `compress` makes stored elements and codes of a matrix; what it does with a chunk that has fewer non-zero elements
# than it may keep is CUTLASS's choice, so that codes are always legal and ascending:

# %%
rows = np.array([[1, 0, 0, 2], [0, 3, 0, 0], [0, 0, 0, 4], [0, 0, 0, 0]], np.uint32)
stored, codes = isa.compress(rows, isa.TWO_OF_FOUR, isa.element_type("s8"))
for row, kept, code in zip(rows, stored, codes[:, 0], strict=True):
    print(f"{row} -> stored {kept}, code {code:04b}")
try:
    isa.compress(
        np.array([[1, 2, 3, 0]], np.uint32), isa.TWO_OF_FOUR, isa.element_type("s8")
    )
except isa.IsaError as error:
    print(fill(str(error), 88))

# %% [markdown]
# ## Owners
#
# Eight codes fit into a lane's register; code q is bits 4q to 4q + 3. m16n8k32 with 16-bit elements has 16 rows of 8
# chunks, 128 codes, so 16 lanes hold them all and the selector says which 16:

# %%
for name, formula in f16.metadata.mapping.formulas().items():
    print(f"{name:9}= {formula}")

# %% [markdown]
# That is the picture at the top of the page.
#
# Rows g and g + 8 share a register: the low half is row g. With 8-bit and narrower elements a register is one row
# instead, and with the larger K of these types all 32 lanes contribute, so the only selector is 0:

# %%
lane, code = s8.metadata.places(0)
print("s8 k64, chunks 0 to 7:")
for row in (0, 1, 8):
    print(
        f"  row {row}:",
        *(
            f"T{lane[row, c]}[{4 * code[row, c] + 3}:{4 * code[row, c]}]"
            for c in range(8)
        ),
    )
print(
    f"\n{'form':9}{'rows x chunks':>13}{'codes':>6}{'lanes':>6}{'selectors':>10}  "
    "lane of (row, chunk)"
)
for form in (f16_short, f16, tf32, s8, s4):
    m = form.metadata
    lanes = len(np.unique(m.places(0)[0]))
    name, size = f"{form.a_type.name} k{form.k}", f"{m.shape[0]} x {m.shape[1]}"
    print(
        f"{name:9}{size:>13}{m.shape[0] * m.shape[1]:6}{lanes:6}{m.selectors:10}  "
        f"{m.mapping.formulas()['lane']}"
    )

# %% [markdown]
# ## What selectors are for
#
# A 16-bit m16n8k16 needs the codes of 8 lanes, and has four selectors. So one register a lane holds the metadata of
# four instructions, which walk along K with selector 0, 1, 2, 3 and no register more. `scatter(..., rest=)` puts them
# together:

# %%
rng = np.random.default_rng(0)
steps = rng.choice(isa.TWO_OF_FOUR.ordered, (4, *f16_short.metadata.shape)).astype(
    np.uint32
)
register = np.zeros(32, np.uint32)
for selector in range(4):
    register = f16_short.metadata.scatter(steps[selector], selector, rest=register)
print(
    "one register of 32 lanes:", " ".join(f"{word:08x}" for word in register[:6]), "..."
)
print(
    "each step's codes are there:",
    all((f16_short.metadata.gather(register, s) == steps[s]).all() for s in range(4)),
)

# %% [markdown]
# The word of one lane, by hand: lane 4g + s has the codes of step s, rows g and g + 8.

# %%
lane, g, s = 6, 1, 2
word = int(register[lane])
print(
    f"lane {lane}: {word:08x} =",
    " ".join(f"{word >> 4 * q & 15:04b}" for q in reversed(range(8))),
    "(code 7 ... code 0)",
)
print(f"row {g} of step {s}:    ", " ".join(f"{c:04b}" for c in reversed(steps[s][g])))
print(
    f"row {g + 8} of step {s}:    ",
    " ".join(f"{c:04b}" for c in reversed(steps[s][g + 8])),
)

# %% [markdown]
# Step 2 of that register as a picture: the codes in their places, the logical matrix with what is kept, the stored one,
# and the word of lane 6.

# %%
step = simulator.layout.form_layout(
    f16_short.opcode, simulator.layout.Choice(selector=2)
)
selection = simulator.layout.select(step, register)
simulator.drawing.draw(step, "e", selection=selection, palette="safe", lane=6)

# %% [markdown]
# One element, asked for by its logical coordinates: where is it, which code decides, or is it pruned? (`tcsim where` on
# the command line.)

# %%
for column in range(4, 8):
    print(where(step, "a", 1, column, selection).text())

# %% [markdown]
# ## From a matrix to a product
#
# All of it together, for three patterns: prune a random matrix, compress it, spread values and codes, multiply, and
# compare with the dense product of the pruned matrix. Small integers, so that sums are exact in every type.


# %%
def encode(values, element):
    """Small integers as patterns of the type."""
    if element.name == "f16":
        return values.astype(np.float16).view(np.uint16).astype(np.uint32)
    if element.name == "tf32":
        return values.astype(np.float32).view(np.uint32)
    return values.astype(np.int32).view(np.uint32) & np.uint32(element.mask)


for form in (f16, tf32, s4):
    a, b = rng.integers(-7, 8, (form.m, form.k)), rng.integers(-7, 8, (form.k, form.n))
    kept = isa.prune(a, form.metadata.sparsity)
    stored, codes = isa.compress(
        encode(a, form.a_type), form.metadata.sparsity, form.a_type, kept
    )
    d = simulator.mma_sp(
        form.opcode,
        form.a.scatter(stored)[None],
        form.b.scatter(encode(b, form.b_type))[None],
        np.zeros((1, form.c.registers, 32), np.uint32),
        form.metadata.scatter(codes, 0)[None],
    )
    found = form.d.gather(d)[0].view(np.float32 if form.d_type.is_float else np.int32)
    same = bool((found == np.where(kept, a, 0) @ b).all())
    print(
        f"{form.a_type.name:5}{form.metadata.sparsity.name:14} {kept.mean():.0%} kept; "
        f"D as numpy has it: {same}"
    )

# %% [markdown]
# ## Exercises
#
# **1.** m16n8k32, f16, selector 1: which bits of which lane say whether A[5][12] is kept?
#
# Answer: `(lane, lowest of the four bits)`.
#
# <details><summary>Solution</summary>
#
# Column 12 is in chunk 3. Row 5 is group 5, chunk 3 is below 4: lane 4 * 5 + 2 = 22, code 3: bits 12 to 15. If either
# half of the code is 0 (12 % 4), A[5][12] is kept.
#
# ```python
# lane, code = (int(x[5, 3]) for x in f16.metadata.places(1))
# assert (lane, 4 * code) == (22, 12)
# answer = (lane, 4 * code)
# check("3.1", answer)
# ```
# </details>

# %%
answer = None
check("3.1", answer)

# %% [markdown]
# **2.** Two words that are often seen in tests are 0x44444444 and 0xEEEEEEEE. Which columns do they keep, for f16 and
# for tf32?
#
# Answer: `(columns of f16 for 0x4, for 0xE, column of tf32 for 0x4, for 0xE)`, pairs and numbers.
#
# <details><summary>Solution</summary>
#
# f16: columns 0 and 1 of every four, or 2 and 3. tf32: the first of every two, or the second.
#
# ```python
# for word, pair, single in ((0x4, [0, 1], 0), (0xE, [2, 3], 1)):
#     assert isa.stored_columns(np.array([[word]]), isa.TWO_OF_FOUR)[0].tolist() == pair
#     assert isa.stored_columns(np.array([[word]]), isa.ONE_OF_TWO)[0].tolist() == [
#         single
#     ]
# answer = ((0, 1), (2, 3), 0, 1)
# check("3.2", answer)
# ```
# </details>

# %%
answer = None
check("3.2", answer)

# %% [markdown]
# **3.** How many bits of metadata does one m16n8k32 f16 read, and how many does a warp's register hold? For which of
# the forms above is nothing left over?
#
# Answer: `(bits read, bits held, {names of the types})`.
#
# <details><summary>Solution</summary>
#
# 128 codes, 512 bits, of 1,024. Nothing is left over where there is one selector: s8 k64 and s4 k128.
#
# ```python
# assert 4 * np.prod(f16.metadata.shape) == 512
# assert [
#     form.a_type.name
#     for form in (f16_short, f16, tf32, s8, s4)
#     if 4 * np.prod(form.metadata.shape) == 1024
# ] == [
#     "s8",
#     "s4",
# ]
# answer = (512, 1024, {"s8", "s4"})
# check("3.3", answer)
# ```
# </details>

# %%
answer = None
check("3.3", answer)
