# %% [markdown]
# # 14. Cores that nobody sells
#
# **What would another sparsity pattern keep, where would its fragments lie, and what would a core for it gain?**
#
# 35 minutes. Builds on: lessons 1, 3 and 9. You will be able to
#
# * weigh patterns by what they keep of a matrix and what their metadata costs;
# * find an element in the fragment of an instruction that no chip has, and say what that rests on;
# * say what a core for a pattern would gain, beside what its authors published;
# * name what the rest of a chip would have to give for it.
#
# 2:4 is one pattern of many. Papers propose 1:4, 2:8, patterns inside patterns, and no pattern at all. Each can be
# pruned to, laid out and multiplied here, and be put into a core whose speed is computed. What of that is published and
# what assumed, stands beside every number: a simulator of chips that do not exist is worth what it says about this.

# %%
from pathlib import Path
from textwrap import fill

import matplotlib.pyplot as plt
import numpy as np

import isa
import simulator
from isa.sparsity.storage import compress, expand, mask
from simulator.arithmetic.compressed import multiply
from simulator.layout.queries import where
from simulator.lessons import check
from simulator.resources import folder
from simulator.studies import designs
from simulator.views.plots import COLOURS

plt.rcParams.update({"figure.dpi": 80, "font.size": 9})
LAYER = np.load(folder("traces") / "digits" / "weights.npz")["w2_dense"]
PATTERNS = ("2:4", "4:8", "1:4", "2:8", "1:8", "64:2:8", "4:8/2:4", "u0.25")
figure, panels = plt.subplots(1, 4, figsize=(7.6, 2.3), layout="constrained")
for axes, name in zip(panels, ("2:4", "2:8", "64:2:8", "u0.25"), strict=True):
    kept = np.abs(np.where(mask(LAYER, name), LAYER, 0)[:24, :32].astype(float))
    axes.imshow(np.ma.masked_where(kept == 0, kept), cmap="viridis", vmin=0, vmax=0.4)
    axes.set(title=name, xticks=np.arange(0, 33, 8) - 0.5, yticks=[])
    axes.set_xticklabels(range(0, 33, 8))
plt.show()

# %% [markdown]
# The upper left corner of the digits network's hidden layer, pruned in four ways; white is gone. `N:M` keeps N of every
# M neighbours in a row. `64:2:8` (VENOM) first chooses four columns of eight for 64 rows together, then two of the four
# in each row: all rows of the picture share their columns. `u0.25` keeps the largest quarter of the whole matrix,
# wherever it is.
#
# ## What is kept, and what it costs
#
# As in [lesson 1](1_sparsity.ipynb): the share of the squared norm that goes, and the bytes that stay, here for f16.
# The more freedom a pattern has, the less it loses, and the more bits it takes to say what was kept.

# %%
f16 = isa.element_type("f16")
words = LAYER.view(np.uint16).astype(np.uint32)
whole = np.sum(LAYER.astype(float) ** 2)
print(
    f"{'pattern':9}{'kept':>7}{'norm lost':>11}{'values':>8}{'metadata':>10}  bytes"
)
lost = {}
for name in PATTERNS:
    kept = mask(LAYER, name)
    stored = compress(np.where(kept, words, 0), name, f16, kept)
    assert (expand(stored) == np.where(kept, words, 0)).all()
    lost[name] = 1 - np.sum(LAYER[kept].astype(float) ** 2) / whole
    values, metadata = stored.values.size * 2, stored.metadata_bits // 8
    print(
        f"{name:9}{kept.mean():7.1%}{lost[name]:11.1%}{values:8,}{metadata:10,}"
        f"{(values + metadata) / LAYER.nbytes:7.1%}"
    )

# %% [markdown]
# 4:8 keeps as much as 2:4 and loses less, for half as many bits of metadata again. The same goes for 2:8 beside 1:4.
# 64:2:8 has a third less metadata than 2:8, because 64 rows share a choice, and pays for it in the norm: half of it is
# lost. (The layer was not trained on after any of this; [lesson 1](1_sparsity.ipynb) says what training gives back.)
#
# ## Fragments that no chip has
#
# Put a pattern into an opcode, and it can be asked where everything is. The rules are those of the instructions that
# exist: A lies as a dense A with as many stored columns does, B as for this K, metadata as the codes of `mma.sp` do.
# For 2:4 these rules give the fragments that an H100 was measured to have. For others they are a proposal.

# %%
OPCODE = "mma.sp[1:4].m16n8k64.f32.f16.f16.f32"
layout = simulator.layout.form_layout(OPCODE)
for name in ("a", "e"):
    operand = layout.operands[name]
    print(f"{name}: {operand.shape[0]} x {operand.shape[1]}")
    for place, formula in operand.mapping.formulas().items():
        print(f"    {place:9}= {formula}")
print()
for line in where(layout, "a", 5, 12).text().splitlines():
    print(fill(line, 88, subsequent_indent=" " * 12))

# %%
simulator.drawing.draw(layout, "e", palette="safe")

# %% [markdown]
# A code has two bits now, the one column of four that is kept, and a lane's register has room for 16 of them. K is 64:
# four times what is stored. B has to bring all 64 rows, of which each row of A uses 16. Remember this.
#
# Values go through the same sums as the chip's: every stored element meets the row of B that its code picks.

# %%
rng = np.random.default_rng(0)
a, b = (rng.standard_normal(size).astype(np.float16) for size in ((16, 64), (64, 8)))
pruned = np.where(mask(a, "1:4"), a, np.float16(0))
stored = compress(pruned.view(np.uint16).astype(np.uint32), "1:4", f16)
patterns = b.view(np.uint16).astype(np.uint32)
d = multiply(stored, patterns, target="sm_90a", type="f16").view(np.float32)
exact = pruned.astype(np.float64) @ b.astype(np.float64)
print(f"stored {stored.values.shape}, {stored.metadata_bits} bits of metadata")
print(f"largest error of D, as an H100 adds: {np.abs(d - exact).max():.1e}")

# %% [markdown]
# ## What their authors found
#
# A core of a paper is described in a file: its mechanism, its numbers, each with a source. `designs.evaluate` computes
# what it gains over its dense twin. Below each result stands what was published, where it was.

# %%
reports = {name: designs.evaluate(name) for name in ("vegeta", "stc_flexible", "dstc")}
figure, axes = plt.subplots(figsize=(4.6, 3.2), layout="constrained")
for number, (name, report) in enumerate(reports.items()):
    cases = [case for case in report.evaluations if case.case.published]
    axes.plot(
        [case.case.published for case in cases],
        [case.speedup for case in cases],
        "os^"[number],
        color=COLOURS[number],
        label=f"{name}: {len(cases)} cases, worst {report.worst:.1%}",
    )
axes.axline((1, 1), slope=1, color="black", lw=0.8, ls=":")
axes.set(xlabel="published speed-up", ylabel="computed here")
axes.legend(frameon=False, fontsize=8)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
for name, report in reports.items():
    print(fill(f"{name}: chosen with the answers in sight: {report.design.fitted}", 88))

# %% [markdown]
# Points on the line agree. That is worth more for some than for others: the numbers of `stc_flexible` are themselves a
# model's, so that is one model against another; of `vegeta` one thing was chosen with the answers in sight. Each file
# also lists what its model lacks.

# %%
print(f"{'design':14}{'A':9}{'B':12}{'layer':8}{'gain':>6}{'published':>11}  bound by")
for name in ("vegeta", "stc_flexible"):
    for found in reports[name].evaluations:
        case, layer = found.case, found.case.layers[0] if found.case.layers else "all"
        if layer in ("all", "K1152", "K128"):
            print(
                f"{name:14}{case.pattern:9}{'compressed' * case.compresses_b:12}"
                f"{layer:8}{found.speedup:6.2f}{case.published:11.2f}  {found.bound}"
            )

# %% [markdown]
# Look at the flexible core. 2:8 keeps a quarter of A, so it could gain 4, and gains 2.2: all of B has to come from
# shared memory whatever A leaves out, and half of the multipliers wait. Where B is sparse, too, and is stored without
# its zeros, the 4 are nearer.
#
# ## The whole chip asks back
#
# So what would an H100 with a `mma.sp` of 1:4 be? Its multipliers are taken as they are: a stored product costs what
# a dense one does. Everything else has to keep up. For 64 columns of K of a tile:

# %%
found = designs.needs("h100_1of4").records()
print(
    f"{'tile':9}{'pattern':9}{'registers':>10}{'interval':>10}{'gain':>7}"
    f"{'if only tensor':>16}  bound by"
)
for row in found:
    print(
        f"{row['tile']:9}{row['pattern']:9}{row['registers']:10}"
        f"{row['interval_cycles']:10}{row['speedup']:7.2f}"
        f"{row['tensor_speedup']:16.2f}  {row['bound']}"
    )
figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
PARTS = {"tensor_needed": "ports", "shared_needed": "shared memory", "l2_needed": "L2"}
for number, (key, label) in enumerate(PARTS.items()):
    axes.bar(
        np.arange(len(found)) + 0.27 * (number - 1),
        [row[key] for row in found],
        0.25,
        color=COLOURS[number],
        label=label,
    )
axes.axhline(1, color="black", lw=0.8)
axes.set_xticks(range(len(found)), [f"{x['pattern']}\n{x['tile']}" for x in found])
axes.tick_params(axis="x", labelsize=8)
axes.set_ylabel("times what there is")
axes.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# Above the line a part would have to give more than it does for the multipliers to be busy all the time. A quarter of
# the products could gain 4; 1.6 to 1.8 is what is left. The operand ports need 10 cycles for 17 registers, and B, which
# no pattern of A makes smaller, asks for 1.7 to 2.8 times what shared memory and L2 have.
#
# ## A design of one's own
#
# A design is a TOML file ([docs/designs.md](../docs/designs.md) has its keys). This one asks what 1:4 would be worth if
# ports were free: the interval is what the products take, 4 cycles.

# %%
import tempfile

text = (folder("configs") / "designs" / "h100_1of4.toml").read_text()
text = text.replace('name = "h100_1of4"', 'name = "free_ports"')
text = text.replace("[chip]", "[chip]\ninterval = 4")
path = Path(tempfile.mkdtemp()) / "free_ports.toml"
path.write_text(text)
for row in designs.needs(path).records():
    if row["pattern"] == "1:4":
        print(f"{row['tile']:9} gain {row['speedup']:.2f}, bound by {row['bound']}")

# %% [markdown]
# Free ports gain nothing: L2 and shared memory were what each tile waited for. Whoever designs such a core has to begin
# with B.
#
# ## Exercises
#
# **1.** How many bits of metadata does a row of 4,096 columns take as 1:4, as 2:8, and as a bitmap?
#
# Answer: `(1:4, 2:8, bitmap)`.
#
# <details><summary>Solution</summary>
#
# 1,024 chunks of one index of 2 bits; 512 chunks of two indices of 3 bits; a bit for each column.
#
# ```python
# from isa.patterns import parse_pattern
#
# answer = tuple(
#     parse_pattern(name).metadata_bits(1, 4096) for name in ("1:4", "2:8", "u0.25")
# )
# assert answer == (1024 * 2, 512 * 2 * 3, 4096)
# check("14.1", answer)
# ```
# </details>

# %%
answer = None
check("14.1", answer)

# %% [markdown]
# **2.** Which lane holds the code of row 9, chunk 13 of `mma.sp[1:4].m16n8k64`, and from which bit on?
#
# Answer: `(lane, lowest bit)`.
#
# <details><summary>Solution</summary>
#
# By the formulas above: put the numbers in.
#
# ```python
# (place,) = layout.operands["e"].places(9, 13)
# answer = (place.lane, place.low)
# check("14.2", answer)
# ```
# </details>

# %%
answer = None
check("14.2", answer)

# %% [markdown]
# **3.** Of the patterns above that keep a quarter (1:4, 2:8, 64:2:8, 4:8/2:4), which loses least of the norm, which
# most? And does any of them lose less than the largest quarter of the whole matrix?
#
# Answer: `(least, most, does any)`.
#
# <details><summary>Solution</summary>
#
# No pattern can lose less than the largest quarter: that is the best quarter there is. What is nearest to it has the
# most freedom.
#
# ```python
# quarter = {name: lost[name] for name in ("1:4", "2:8", "64:2:8", "4:8/2:4")}
# answer = (
#     min(quarter, key=quarter.get),
#     max(quarter, key=quarter.get),
#     min(quarter.values()) < lost["u0.25"],
# )
# assert not answer[2]
# check("14.3", answer)
# ```
# </details>

# %%
answer = None
check("14.3", answer)
