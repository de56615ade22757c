# %% [markdown]
# # 2. Fragments
#
# **Which lane of a warp holds which element of A, B, C and D?**
#
# 30 minutes. Builds on: lesson 1. You will be able to
#
# * read and write the formulas of fragments: lane, register, half;
# * put matrices into registers and take them out again;
# * load a fragment with `ldmatrix`, and see and avoid its bank conflicts.
#
# `mma` and `mma.sp` spread their matrices over the registers of 32 lanes. PTX draws it; code needs it as arithmetic. In
# tcsim each operand of each form is one mapping between places (lane, register, element of the register) and
# coordinates (row, column), and formulas, tables, `gather` and `scatter` all read it. All of this was confirmed on an
# H100 with random registers ([tests/golden](../tests/golden/README.md)).

# %%
import tempfile
from pathlib import Path

import numpy as np

import isa
import simulator
from simulator.lessons import check

OPCODE = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
form = isa.mma_form(OPCODE)
for operand in (form.a, form.b, form.c, form.d):
    size = f"{operand.shape[0]:2} x {operand.shape[1]:2} {operand.type.name}"
    print(f"{operand.name}: {size}, {operand.registers} registers a lane")

found = simulator.layout.form_layout(OPCODE)
simulator.drawing.draw(found, "d", palette="safe")

# %% [markdown]
# A of a sparse form is stored without what was pruned: 16 rows of 16 elements, for 32 logical columns. B is whole.
#
# ## The formulas
#
# Both directions come from the same list of digits, so they cannot disagree. Division is of integers.

# %%
for operand in (form.a, form.b, form.d):
    print(operand.name)
    for name, formula in operand.mapping.formulas().items():
        print(f"    {name:9}= {formula}")

# %% [markdown]
# `lane / 4` is what PTX calls the group, `lane % 4` the thread in its group. A row of A, and of D, belongs to the four
# lanes of one group; so does a column of B.
#
# One question each way: who holds stored element [5][12] of A, and what does lane 23 have in its register 2?

# %%
lane, register, element = (int(x) for x in form.a.mapping.positions(row=5, column=12))
print(
    f"stored A[5][12]: lane {lane}, register {register}, bits {16 * element} to "
    f"{16 * element + 15}"
)
for element in range(2):
    row, column = (
        int(x) for x in form.a.mapping.coordinates(lane=23, register=2, element=element)
    )
    print(f"lane 23, register 2, element {element}: stored A[{row}][{column}]")

# %% [markdown]
# ## The pictures
#
# A cell is an element; in it the lane (T) and the register with its half. Of the eight colours four are the threads of
# even groups, and four those of odd ones. D stands at the top of the page; this is A, as it is stored.

# %%
simulator.drawing.draw(found, "a", palette="safe")

# %% [markdown]
# B as a table of `lane.register`, a cell for two neighbouring rows, which share a register:

# %%
lane, register, _ = form.b.mapping.grid
print(f"{'B':>8}" + "".join(f"{n:>7}" for n in range(8)))
for k in range(0, 32, 2):
    print(
        f"{k:8}" + "".join(f"{f'T{lane[k, n]}.{register[k, n]}':>7}" for n in range(8))
    )

# %% [markdown]
# ## Put a matrix in, take a matrix out
#
# `scatter` writes a matrix of patterns into registers [register, lane], `gather` reads one. With a code of 0b0100
# everywhere each chunk keeps its columns 0 and 1. The product of small integers is exact, so it can be compared with
# numpy's.

# %%
rng = np.random.default_rng(0)
stored = rng.integers(-4, 5, form.a.shape).astype(np.float16)
b = rng.integers(-4, 5, form.b.shape).astype(np.float16)
codes = np.full(form.metadata.shape, 0b0100, np.uint32)


def patterns(values):
    return values.view(np.uint16).astype(np.uint32)


registers = (
    form.a.scatter(patterns(stored)),
    form.b.scatter(patterns(b)),
    np.zeros((4, 32), np.uint32),
    form.metadata.scatter(codes, 0),
)
print(
    "register file of A:",
    registers[0].shape,
    "lane 0 has",
    [f"{word:08x}" for word in registers[0][:, 0]],
)
d = simulator.mma_sp(OPCODE, *(operand[None] for operand in registers))[0]
whole = (
    isa.expand(patterns(stored), codes, isa.TWO_OF_FOUR)
    .astype(np.uint16)
    .view(np.float16)
)
print(
    "D as numpy has it:",
    bool(
        (
            form.d.gather(d).view(np.float32)
            == whole.astype(np.float32) @ b.astype(np.float32)
        ).all()
    ),
)

# %% [markdown]
# ## The logical column of a stored element
#
# Where a stored element of A belongs is not in the mapping: it depends on its chunk's code, a value at run time
# ([lesson 3](3_metadata.ipynb)). With codes, there is an answer:

# %%
codes = rng.choice(isa.TWO_OF_FOUR.ordered, form.metadata.shape).astype(np.uint32)
columns = isa.stored_columns(codes, isa.TWO_OF_FOUR)
print("formula:", isa.TWO_OF_FOUR.formula)
print("row 5, codes", " ".join(f"{code:04b}" for code in codes[5]))
print("row 5, stored columns 0 to 15 are logical", *columns[5])

# %% [markdown]
# ## Other types
#
# P elements fit into a register: 1 (tf32), 2 (16-bit), 4 (8-bit), 8 (4-bit). A lane always holds P neighbouring columns
# of A and P neighbouring rows of B; the rest is the same for all.

# %%
for text in (
    "m16n8k16 f32.tf32.tf32.f32",
    "m16n8k32 f32.f16.f16.f32",
    "m16n8k64 s32.s8.s8.s32",
    "m16n8k128 s32.s4.s4.s32",
):
    other = isa.mma_form(
        "mma.sp::ordered_metadata.sync.aligned.{}.row.col.{}".format(*text.split())
    )
    formulas = other.a.mapping.formulas()
    print(f"{other.a.type.name:5} A row = {formulas['row']}")
    print(f"      A column = {formulas['column']}")
    print(f"      B row = {other.b.mapping.formulas()['row']}")

# %% [markdown]
# ## D of one product as A of the next
#
# Attention multiplies twice: the result of the first product is an operand of the second. For dense `mma.m16n8k16` two
# D tiles of 16 x 8, side by side and converted to f16, are an A of 16 x 16, and each lane already has its part: no
# shuffle is needed.

# %%
dense = isa.mma_form("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
lane_a, register_a, element_a = dense.a.mapping.grid
lane_d, register_d, _ = dense.d.mapping.grid
print(
    "every element in the same lane:",
    bool((lane_a == np.hstack([lane_d, lane_d])).all()),
)
for row, column in ((0, 0), (8, 1), (0, 8), (8, 9)):
    source = f"tile {column // 8}, register {register_d[row, column % 8]}"
    print(
        f"A[{row}][{column}]: register {register_a[row, column]}, half "
        f"{element_a[row, column]}, from D {source}"
    )

# %% [markdown]
# ## ldmatrix
#
# `ldmatrix.x4` loads four 8 x 8 matrices of 16-bit elements. Lane i names the address of row i % 8 of matrix i / 8, and
# gets two elements of a row of each. With addresses row = lane % 16, column = 8 * (lane / 16) the four registers are
# just those of A. The trace does it; the registers are compared with `scatter`:

# %%
text = """.trace 1
.target sm_90a
.warps 1
.shared 512
.load shared[0], "a.npz", "a";               // 16 rows of 16 f16: 32 bytes each
.warp 0 {
    mov.u32 %r8, %laneid;
    and.b32 %r9, %r8, 15;                    // row
    shr.u32 %r10, %r8, 4;                    // half of the columns
    shl.b32 %r9, %r9, 5;
    shl.b32 %r10, %r10, 4;
    add.u32 %r9, %r9, %r10;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%r9];
}
.store "a", %r0, 4;
"""
folder = Path(tempfile.mkdtemp())
np.savez(folder / "a.npz", a=stored)
(folder / "load.trace").write_text(text)
report = simulator.run(folder / "load.trace")
print(
    "the fragment of A:",
    bool((report.arrays["a"][0] == form.a.scatter(patterns(stored))).all()),
)
print(
    f"wavefronts {report.memory.wavefronts}, of them bank conflicts "
    f"{report.memory.conflicts}"
)

# %% [markdown]
# Right, and slow: rows of 32 bytes that are four apart lie in the same banks. Real kernels turn the columns by the row
# (a swizzle), or pad the rows. `tcsim layout shared` draws both ([docs/pictures.md](../docs/pictures.md)).
#
# On the command line: `tcsim layout mma.sp.m16n8k32.f32.f16.f16.f32 --operand a` prints the whole table, and draws it
# as SVG or HTML; [docs/layouts.md](../docs/layouts.md) has that and more questions.
#
# ## Exercises
#
# **1.** Which lane holds D[9][3] of m16n8k32 with an f32 accumulator, and in which register? And with an f16
# accumulator?
#
# Answer: `((lane, register), (lane, register))`.
#
# <details><summary>Solution</summary>
#
# Group 9 % 8 = 1, thread 3 / 2 = 1: lane 5. Register 2 * 1 + 1 = 3 in f32; in f16 register 1, the high half.
#
# ```python
# half = isa.mma_form(
#     "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16"
# )
# assert [int(x) for x in form.d.mapping.positions(row=9, column=3)] == [5, 3, 0]
# assert [int(x) for x in half.d.mapping.positions(row=9, column=3)] == [5, 1, 1]
# answer = ((5, 3), (5, 1))
# check("2.1", answer)
# ```
# </details>

# %%
answer = None
check("2.1", answer)

# %% [markdown]
# **2.** Write A's lane for s8 m16n8k64 from the formulas above, and check all elements.
#
# Answer: the array of lanes, of the shape of A.
#
# <details><summary>Solution</summary>
#
# P = 4: lane = column / 4 % 4 + 4 * (row % 8).
#
# ```python
# s8 = isa.mma_form(
#     "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32"
# )
# row, column = np.indices(s8.a.shape)
# assert (s8.a.mapping.grid[0] == column // 4 % 4 + 4 * (row % 8)).all()
# answer = column // 4 % 4 + 4 * (row % 8)
# check("2.2", answer)
# ```
# </details>

# %%
answer = None
check("2.2", answer)

# %% [markdown]
# **3.** Give the lanes of the ldmatrix above addresses in rows of 48 bytes (16 of padding). Is the conflict gone?
#
# Answer: `(conflicts at 32 bytes, conflicts at 48 bytes)`.
#
# <details><summary>Solution</summary>
#
# Yes: 8 rows 48 bytes apart fall into 8 different groups of four banks.
#
# ```python
# conflicts = report.memory.conflicts  # of the trace above
# padded = np.zeros((16, 24), np.float16)
# padded[:, :16] = stored
# np.savez(folder / "a.npz", a=padded)
# (folder / "padded.trace").write_text(
#     text.replace(".shared 512", ".shared 768").replace(
#         "shl.b32 %r9, %r9, 5;", "mul.lo.u32 %r9, %r9, 48;"
#     )
# )
# report = simulator.run(folder / "padded.trace")
# assert report.memory.conflicts == 0
# assert (report.arrays["a"][0] == form.a.scatter(patterns(stored))).all()
# answer = (conflicts, report.memory.conflicts)
# check("2.3", answer)
# ```
# </details>

# %%
answer = None
check("2.3", answer)
