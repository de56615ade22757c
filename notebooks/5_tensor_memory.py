# %% [markdown]
# # 5. Tensor Memory
#
# **Where in Tensor Memory do D, A, the sparsity metadata and the scale factors of a `tcgen05.mma.sp` lie?**
#
# 40 minutes. Builds on: lesson 3. You will be able to
#
# * name the data path layout of a `tcgen05.mma`, and the lanes that it uses;
# * check addresses of D, A and metadata against the rule of alignment;
# * find a code or a scale factor in Tensor Memory.
#
# Blackwell's tensor cores keep D, and if one likes A, in a memory of their own: 128 lanes of 512 columns of 32 bits for
# each CTA. Sparsity metadata and scale factors must be there. Where, depends on M, on `cta_group`, on `.sp` and `.ws`.
# tcsim has one mapping for each, from PTX ISA 9.0 and CUTLASS; nothing on this page was measured by this project, and
# [docs/tensor_memory.md](../docs/tensor_memory.md) says what is published and what inferred.

# %%
import shutil
import tempfile
from pathlib import Path
from textwrap import fill

import numpy as np

import isa
import simulator
from isa.tensor_memory.datapath import LAYOUTS, datapath, violations
from isa.tensor_memory.metadata import tmem_metadata
from isa.tensor_memory.scales import tmem_scales
from simulator.lessons import check
from simulator.resources import folder
from simulator.tables import aligned

simulator.drawing.datapath_figure("safe")

# %% [markdown]
# ## Seven layouts
#
# PTX calls them A to G. `rows` are those of one CTA; layouts that cut N keep each part in lanes of its own; `half`
# layouts use 16 of every 32 lanes, and the address says which.

# %%
rows = []
for name, layout in LAYOUTS.items():
    lane = layout.d(128).formulas()["lane"]
    bases = " or ".join(map(str, layout.base_lanes))
    rows.append(
        (
            name,
            layout.m,
            layout.cta_group,
            layout.rows,
            layout.parts,
            bases,
            lane,
            layout.evidence,
        )
    )
HEAD = (
    "",
    "M",
    "cta_group",
    "rows",
    "parts of N",
    "base lane",
    "lane of D[row][n], N = 128",
    "evidence",
)
print(*aligned([HEAD, *rows], "<>>>>><"), sep="\n")
for text in (
    "128 1 sparse",
    "128 2 dense",
    "128 2 sparse",
    "64 1 sparse",
    "64 1 sparse ws",
):
    m, group, kind, *ws = text.split()
    print(
        f"{text:15} -> layout "
        f"{datapath(int(m), int(group), kind == 'sparse', bool(ws)).name}"
    )

# %% [markdown]
# The picture above has the 128 lanes of each, in blocks of 16; hatched lanes are not used.
#
# ## Halves, and what must agree
#
# Layouts C and F work on half of the lanes, so two accumulators can share the same columns, one at lane 0 and one at
# lane 16. D, A and the metadata of an instruction must be in the same half: that is the alignment rule (PTX ISA 9.0,
# 9.7.16.10.8.5).

# %%
f = datapath(m=64, sparse=True)
for base in f.base_lanes:
    print(f"layout {f.name}, base lane {base}: lanes", *f.lanes(base)[:18], "...")
    print(f"    lane = {f.d(128, base).formulas()['lane']}")
for d, meta in (
    ((0, 0), (0, 64)),
    ((16, 0), (0, 64)),
    ((8, 0), (8, 64)),
    ((16, 0), (16, 65)),
):
    found = violations(f, isa.TmemAddress(*d), sp_meta=isa.TmemAddress(*meta))
    print(f"d at {d}, metadata at {meta}:", "not legal" if found else "legal")
    for violation in found:
        print(fill(str(violation), 84, initial_indent="    ", subsequent_indent="    "))

# %% [markdown]
# Scale factors are not part of the rule. `check_addresses` raises the same as an error; execution does so when it meets
# such an instruction. Take the digits layer with D at lane 16 and move the metadata of its first MMA to the other half:

# %%
work = Path(tempfile.mkdtemp())
name = "f16_tcgen05_m64_lane16"
shutil.copy(folder("traces") / "digits" / f"{name}.npz", work)
text = (folder("traces") / "digits" / f"{name}.trace").read_text()
(work / "bad.trace").write_text(text.replace("%rd1, [%r10+384]", "%rd1, [%r2+384]", 1))
try:
    simulator.run(work / "bad.trace", "b200")
except (isa.IsaError, isa.UndefinedBehavior, simulator.TraceError) as error:
    print(fill(f"{type(error).__name__}: {error}".replace(f"{work}/", ""), 88))

# %% [markdown]
# ## Sparsity metadata
#
# The operand names an even column, the first of a pair. Kinds f16 and tf32 use one column of the pair, which the
# sparsity selector picks; the others use both. The codes are those of [lesson 3](3_metadata.ipynb), one for a chunk.

# %%
for kind, m in (("f16", 128), ("f16", 64), ("i8", 128), ("mxf4", 128)):
    e = tmem_metadata(kind, m)
    formulas = e.mapping().formulas()
    size = f"{e.shape[0]} rows x {e.shape[1]} chunks of {e.sparsity.chunk}"
    print(
        f"{kind:5} M = {m:3}, layout {e.layout.name}: {size}, K = {e.k}; selectors "
        f"{e.selectors}; {e.evidence}"
    )
    for place in ("lane", "column", "code"):
        print(f"      {place} = {formulas[place]}")

# %% [markdown]
# In f16 a cell has 4 chunks of row r in its low half and of row r + 8 in its high half: as a register of `mma.sp`. The
# first 16 rows, chunks 0 to 7, as `lane[bits]`:

# %%
e = tmem_metadata("f16", 128)
lane, column, code = (grid[..., 0] for grid in e.mapping(selector=0).grid)
for row in (0, 1, 7, 8, 15, 16):
    print(
        f"row {row:2}:"
        + "".join(
            f"{f'{lane[row, c]}[{4 * code[row, c] + 3}:{4 * code[row, c]}]':>10}"
            for c in range(8)
        )
    )

# %% [markdown]
# ## How it gets there
#
# `tcgen05.cp.128x128b` copies 128 rows of 16 bytes from shared memory to 4 columns: the metadata of four f16
# instructions along K, two pairs of columns with selectors 0 and 1. `tile_image` makes these bytes:

# %%
rng = np.random.default_rng(0)
codes = rng.choice(isa.TWO_OF_FOUR.ordered, (128, 32)).astype(
    np.uint32
)  # 128 rows, K = 128
image = e.tile_image(codes)
print(
    f"{image.shape[0]} rows of {image.shape[1]} bytes; row 0: "
    f"{image[0].tobytes().hex(' ', 4)}"
)
print("back again:", bool((e.from_image(image) == codes).all()))
cells = image.view(np.uint32)  # [lane, column]
for step, (pair, selector) in enumerate(((0, 0), (0, 1), (2, 0), (2, 1))):
    same = bool(
        (
            e.gather(cells[:, pair : pair + 2], selector)
            == codes[:, 8 * step : 8 * step + 8]
        ).all()
    )
    print(
        f"instruction {step}: address column base + {pair}, selector {selector}: its "
        f"codes {same}"
    )

# %% [markdown]
# ## A and scale factors
#
# A in Tensor Memory takes 8 columns an instruction: 32 bytes a row, of a sparse A the stored elements. Layouts that cut
# N need a copy of A for each part. Scale factors are bytes, 32 rows a column, the same in all four quarters of the
# lanes:

# %%
for layout in (LAYOUTS["D"], LAYOUTS["G"]):
    formulas = layout.a(16).formulas()
    print(
        f"A, 16 bits, layout {layout.name}: lane = {formulas['lane']};  column = "
        f"{formulas['column']};  element = {formulas['element']}"
    )
for operand in "ab":
    scales = tmem_scales("mxf4nvf4", operand, m=128, n=192, vector="4X", sparse=True)
    formulas = scales.mapping().formulas()
    print(
        f"scales of {operand}: {scales.vectors} x {scales.factors}, {scales.columns} "
        f"columns, {scales.copies} copies"
    )
    print(
        f"    lane = {formulas['lane']};  column = {formulas['column']};  byte = "
        f"{formulas['byte']}"
    )

# %% [markdown]
# ## Two halves at work
#
# The digits layer in two ways: rows 0 to 127 in layout D, and rows 0 to 63 at lane 0 and 64 to 127 at lane 16 of the
# same columns in layout F. Both traces load D with `tcgen05.ld.32x32b`, so that register r of thread t of warp w is
# lane 32 (w mod 4) + t, column r of its half of the columns. The mappings bring both to the same matrix:

# %%
runs = {
    name: simulator.run(f"digits/{name}", "b200")
    for name in ("f16_tcgen05", "f16_tcgen05_m64_both")
}
memory = {}
for name, report in runs.items():
    registers = report.arrays[f"d_{name}"]  # [warp, register, thread]
    memory[name] = (
        registers.reshape(2, 4, 192, 32).transpose(1, 3, 0, 2).reshape(128, 384)
    )  # [lane, column]
n = np.arange(192)


def columns(image, mapping):
    """D [row, 384] through the mapping of 192 columns, for both halves."""
    lane, column = mapping.grid
    return np.hstack([image[lane, column + first] for first in (0, 192)])


whole = columns(memory["f16_tcgen05"], datapath(128, sparse=True).d(192))
both = np.vstack(
    [columns(memory["f16_tcgen05_m64_both"], f.d(192, base)) for base in (0, 16)]
)
print("D of both traces, bit for bit:", bool((whole == both).all()))
for name, report in runs.items():
    print(
        f"{name:22} {report.cycles:,} cycles, {report.throughput.fma_per_clk_sm:,.0f} "
        "FMA/clk/SM (assumed: rates of .sp)"
    )

# %% [markdown]
# The same work in half the rows takes 16 MMAs in place of 8, at half of the unit's rate (published for dense M = 64).
#
# ## Exercises
#
# **1.** M = 64, kind f16, metadata at base lane 16, selector 1: which cell has the code of row 40, chunk 5, and which
# bits?
#
# Answer: `(lane, column of the pair, lowest bit)`.
#
# <details><summary>Solution</summary>
#
# Row 40 = 16 * 2 + 8: the third block of 16, at lanes 64 + 16. Lane 64 + 40 % 8 + 8 * (5 / 4) + 16 = 88, column 1 of
# the pair, code 5 % 4 + 4 = 5: bits 20 to 23.
#
# ```python
# cell = [
#     int(x)
#     for x in tmem_metadata("f16", 64)
#     .mapping(selector=1, base_lane=16)
#     .positions(row=40, chunk=5, copy=0)
# ]
# assert cell == [88, 1, 5]
# answer = (cell[0], cell[1], 4 * cell[2])
# check("5.1", answer)
# ```
# </details>

# %%
answer = None
check("5.1", answer)

# %% [markdown]
# **2.** Which rule does an address of the metadata at (0, 33) break in layout D, and what would be right?
#
# Answer: `(column of the address, selector)`.
#
# <details><summary>Solution</summary>
#
# Only that the column must be even: it names the first of a pair. Right is column 32, and the selector 1 for the
# second.
#
# ```python
# from isa.tensor_memory.datapath import check_addresses
#
# found = violations(
#     datapath(128, sparse=True), isa.TmemAddress(0, 0), sp_meta=isa.TmemAddress(0, 33)
# )
# assert [violation.name for violation in found] == ["odd-metadata-column"]
# check_addresses(
#     datapath(128, sparse=True), isa.TmemAddress(0, 0), sp_meta=isa.TmemAddress(0, 32)
# )
# answer = (32, 1)
# check("5.2", answer)
# ```
# </details>

# %%
answer = None
check("5.2", answer)

# %% [markdown]
# **3.** How many of the 512 columns does one accumulator of M = 128, N = 256 leave for metadata and scales, and how
# many K of f16 metadata fit there?
#
# Answer: `(columns, K)`.
#
# <details><summary>Solution</summary>
#
# 256 columns are left. Four columns hold K = 128 (four instructions of 32), so K = 8,192.
#
# ```python
# left = 512 - int(datapath(128).d(256).grid[1].max()) - 1
# assert (left, left // 4 * 128) == (256, 8192)
# assert e.instructions_per_tile * e.k == 128
# answer = (left, left // 4 * 128)
# check("5.3", answer)
# ```
# </details>

# %%
answer = None
check("5.3", answer)
