# %% [markdown]
# # 10. Alignment and selector faults
#
# **What if one bit makes a `tcgen05.mma.sp` read the wrong half of Tensor Memory, or the wrong column of metadata?**
#
# 30 minutes. Builds on: lessons 4 and 5. You will be able to
#
# * say which half of Tensor Memory an instruction of layout C or F reads, and by which bit;
# * see what one wrong bit of an address or a selector does to D;
# * name the checks that see it, and those that cannot.
#
# Faults in data change a number. A fault in an *address* changes which data are meant, and all of it at once. In data
# path layouts C and F ([lesson 5](5_tensor_memory.ipynb)) only 16 of every 32 lanes are used, the lower or the upper
# half, and D, A and the metadata must all lie in the same one. One bit of an address, bit 20, moves an operand to the
# other half. The *sparsity selector*, two bits of the instruction descriptor, says which column of a pair holds the
# metadata: one bit again. This lesson tries these bits, in one instruction with seeded operands.

# %%
from collections import Counter
from textwrap import fill

import matplotlib.pyplot as plt
import numpy as np

import simulator
from simulator.faults.group import Group
from simulator.faults.outcomes import DETECTORS, OUTCOMES, REASONS
from simulator.faults.population import population
from simulator.faults.table import MODELS, SITES, empty
from simulator.faults.targets.tcgen05 import Tcgen05Target
from simulator.lessons import check
from simulator.views.faults.replay import replay

plt.rcParams.update({"figure.dpi": 80, "font.size": 9})
OPCODE = "tcgen05.mma.sp.cta_group::1.kind::f16"
layout_f = Tcgen05Target(
    OPCODE, m=64, n=32, base_lane=16
)  # D, A and metadata in the upper halves
print(
    f"layout {layout_f.layout.layout}, words as (columns, lanes):",
    {name: layout_f.sites[name].live.shape for name in "dae"},
)

simulator.drawing.datapath_figure("safe")


# %%
def words(result):
    """An outcome, why, and who saw it."""
    seen = [name for i, name in enumerate(DETECTORS) if result["detectors"] >> i & 1]
    return f"{OUTCOMES[result['outcome']]} {REASONS[result['reason']]}".strip() + (
        f", seen by {' '.join(seen)}" if seen else ""
    )


def fault(site, model="flip", **given):
    """One row of a list of faults."""
    row = empty(1)
    for name, value in {
        "site": SITES.index(site),
        "model": MODELS.index(model),
        "mask": 1,
        **given,
    }.items():
        row[name] = value
    return row


# %% [markdown]
# ## Half of the lanes is dead
#
# Every single bit of the two columns of metadata, flipped: 8,192 faults. Which of them can matter at all?

# %%
bits = population(
    Group("e", "e", "flip", where="all"), layout_f.sites["e"], layout_f.layout, 1
)
live = np.bitwise_count(layout_f.sites["e"].live).sum(axis=1)
print(
    f"{bits.size:,} bits, {live[0]:,} of the first column and {live[1]:,} of the "
    "second are read"
)
rows = bits.make(np.arange(0, bits.size, 7))
results = layout_f.run(rows)
for (outcome, reason), count in Counter(
    zip(results["outcome"].tolist(), results["reason"].tolist(), strict=True)
).most_common():
    print(f"{OUTCOMES[outcome]:7} {REASONS[reason]:7} {count:5} of {len(rows)}")

# %% [markdown]
# Three quarters lie where the instruction does not look: in the lower halves, or in the column that selector 0 does not
# name. A flip of the others touches one row of D.
#
# ## One bit of an address
#
# `base_e` is the address of the metadata, lane in bits 31 to 16. Each of the 127 wrong lanes in turn, and the same for
# D and A. An address in the wrong half is undefined in PTX; on sm_110 such an instruction was seen to fault
# ("misaligned address", published). So does the simulator.

# %%
for site in ("base_d", "base_a", "base_e"):
    lanes = population(
        Group("g", site, "align", where="all"), layout_f.sites[site], layout_f.layout, 1
    )
    found = Counter(
        words(result) for result in layout_f.run(lanes.make(np.arange(lanes.size)))
    )
    print(site, dict(found))
print(fill(replay(layout_f, fault("base_e", mask=1 << 20))["error"], 88))

# %% [markdown]
# What would a chip do that did not check? Nobody has published one. With `misaligned="follow"` the simulator goes where
# the address points (**assumed**): it reads the metadata from lanes 0 to 15 of every 32, where here other data lie. How
# much of D survives?

# %%
follow = Tcgen05Target(OPCODE, m=64, n=32, base_lane=16, misaligned="follow")
for site in ("base_d", "base_a", "base_e"):
    row = fault(site, mask=1 << 20)
    result = follow.run(row)[0]
    print(f"{site}: {words(result)}")
    print(
        f"    {result['elements']} of {64 * 32} elements of D differ, by up to "
        f"{result['max_abs']:.3g}; {result['nonfinite']} are not finite"
    )

# %% [markdown]
# As pictures: the lanes that each operand should use, and those that it uses with bit 20 of its address flipped. D is
# compared where the program looks for it.

# %%
from isa.tensor_memory.datapath import LAYOUTS

figure, panels = plt.subplots(
    1, 6, figsize=(7.6, 3.4), sharey=True, layout="constrained"
)
CASES = ("right", "base_d", "base_a", "base_e")
for axes, name in zip(panels[:2], "CF", strict=True):
    used = np.zeros((128, 2))
    for column, base in enumerate(LAYOUTS[name].base_lanes):
        used[list(LAYOUTS[name].lanes(base)), column] = 1
    axes.imshow(used, aspect="auto", cmap="Blues", vmax=1.5, interpolation="nearest")
    axes.set(title=f"layout {name}", xticks=[0, 1], xticklabels=["lane 0", "lane 16"])
for axes, wrong in zip(panels[2:], CASES, strict=True):
    used = np.zeros((128, 3))
    for column, operand in enumerate(("base_d", "base_a", "base_e")):
        lane = (
            0 if operand == wrong else 16
        )  # bit 20 of the address is bit 4 of the lane
        used[list(LAYOUTS["F"].lanes(lane)), column] = 1 + (operand == wrong)
    axes.imshow(
        used, aspect="auto", cmap="RdPu", vmin=0, vmax=2, interpolation="nearest"
    )
    axes.set(title=wrong, xticks=range(3), xticklabels=["D", "A", "E"])
panels[0].set(ylabel="lane of Tensor Memory", yticks=range(0, 129, 16))
plt.show()

# %% [markdown]
# The two on the left are the layouts with either base lane. The others are layout F with D, A and metadata (E) at lane
# 16: dark is the operand whose address is wrong.
#
# All of D, each time: D itself because it went to the other half, so that the cells where a program looks still hold
# what they held before; A because random bits are no weights; metadata because each weight met another column. Beside
# the 32 elements of one row that a flipped code can reach, this is a fault of the whole instruction. The detectors see
# it where they look at codes: other data are rarely legal codes. Had the other half held the metadata of another tile,
# all of them legal, only the check of alignment would have seen it.

# %%
tile = (
    np.random.default_rng(1)
    .choice([0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110], (64, 8))
    .astype(np.uint32)
)
cells = follow.memory[0][0].tmem.words[:, 264:266]
cells[:] = follow.shape.metadata.scatter(
    tile, 0, 0, cells
)  # legal codes in the lower halves
print(words(follow.run(fault("base_e", mask=1 << 20))[0]))

# %% [markdown]
# ## The selector
#
# Kinds f16 and tf32 need one column of metadata, and address a pair: kernels put the metadata of two instructions
# there, and alternate the selector. A wrong selector is the right instruction with its neighbour's metadata, and breaks
# no rule.

# %%
for value in (1, 2, 3):
    print(
        f"selector {value}: "
        f"{words(layout_f.run(fault('selector', 'selector', value=value))[0])}"
    )
neighbour = Tcgen05Target(OPCODE, m=64, n=32, base_lane=16)
cells = neighbour.memory[0][0].tmem.words[:, 264:266]
cells[:] = neighbour.shape.metadata.scatter(
    tile, 1, 16, cells
)  # a neighbour's metadata in the second column
result = neighbour.run(fault("selector", "selector", value=1))[0]
print(
    f"with a neighbour's metadata: {words(result)}; {result['elements']} elements "
    "differ"
)

# %% [markdown]
# Values 2 and 3 have no known meaning; that a chip stops at them is assumed. Value 1 with legal codes is silent to
# every check of codes. A checksum of the product (`abft`) sees it, as it sees most of what changes D by more than
# rounding.
#
# ## All 32 bits of the instruction descriptor
#
# ptxas looks at none of them, so a fault there is found by the chip or by nobody.

# %%
descriptor = layout_f.run(
    population(
        Group("g", "idesc", "flip"), layout_f.sites["idesc"], layout_f.layout, 1
    ).make(np.arange(32))
)
for bit, result in enumerate(descriptor):
    held = replay(layout_f, fault("idesc", mask=1 << bit))["held"]
    if OUTCOMES[result["outcome"]] != "due":
        print(f"bit {bit:2}: {words(result):30} {', '.join(held)}")
print(
    f"the other {sum(OUTCOMES[result['outcome']] == 'due' for result in descriptor)} "
    "make it illegal"
)

# %% [markdown]
# Signs, types, the selector, a shape that is legal but another one: what remains legal is silent. With a larger N the
# 32 columns of D are right, hence *masked*; but the instruction writes further columns, and whatever a program keeps
# there is lost.
#
# ## Exercises
#
# **1.** In layout C, a pair of CTAs, the address is the same for both. How many rows of D does bit 20 of the address of
# the metadata spoil, if it is followed?
#
# Answer: `(rows, rows of a flip in a cell)`.
#
# <details><summary>Solution</summary>
#
# All 128, 64 in each CTA: the fault is in the instruction, which both CTAs execute. A flip in a cell concerns one CTA,
# and one row.
#
# ```python
# pair = Tcgen05Target(
#     "tcgen05.mma.sp.cta_group::2.kind::f16", m=128, n=32, misaligned="follow"
# )
# assert pair.layout.layout == "C"
# assert pair.run(fault("base_e", mask=1 << 20))[0]["rows"] == 128
# assert pair.run(fault("e", lane=0))[0]["rows"] == 1
# answer = (128, 1)
# check("10.1", answer)
# ```
# </details>

# %%
answer = None
check("10.1", answer)

# %% [markdown]
# **2.** Bit 0 of the address of the metadata moves it by one column, which is what the selector does, too. Is it the
# same fault?
#
# Answer: the outcomes of both, as `OUTCOMES` names them: `(of bit 0, of the selector)`.
#
# <details><summary>Solution</summary>
#
# The cells would be the same. But the address is odd then, and an odd one faults (seen on sm_110): this one is
# detected, where the selector's is silent.
#
# ```python
# odd = neighbour.run(fault("base_e", mask=1))[0]
# assert (OUTCOMES[odd["outcome"]], REASONS[odd["reason"]]) == (
#     "due",
#     "misaligned-address",
# )
# assert (
#     OUTCOMES[neighbour.run(fault("selector", "selector", value=1))[0]["outcome"]]
#     == "sdc"
# )
# answer = ("due", "sdc")
# check("10.2", answer)
# ```
# </details>

# %%
answer = None
check("10.2", answer)

# %% [markdown]
# **3.** Layout D uses all 128 lanes. What does the same bit 20 do there, if it is followed?
#
# Answer: `(does legality see it, does alignment see it, rows of D that differ)`.
#
# <details><summary>Solution</summary>
#
# There is no other half: row r gets the metadata of row r + 16. They are legal codes, so no check of codes sees it,
# except for the last 16 rows, which take those of the first. All rows with other codes differ.
#
# ```python
# whole = Tcgen05Target(OPCODE, m=128, n=32, misaligned="follow")
# result = whole.run(fault("base_e", mask=1 << 20))[0]
# assert "legality" not in words(result)
# assert "alignment" in words(result)
# assert result["rows"] == 128
# answer = (False, True, 128)
# check("10.3", answer)
# ```
# </details>

# %%
answer = None
check("10.3", answer)
