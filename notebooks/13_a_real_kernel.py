# %% [markdown]
# # 13. A real kernel
#
# **What does a kernel compute on the chip, where does its time go, and where is its mistake?**
#
# 35 minutes. Builds on: lessons 3 and 6. You will be able to
#
# * launch a kernel of PTX on arrays of your own;
# * read where the cycles of a kernel go, by line of its source;
# * find a mistake in a kernel that runs, with `tcsim check`.
#
# The other lessons look at one instruction. This one takes a whole kernel as people write it: 80 lines of CUDA
# ([spmm.cu](../tests/golden/planted/spmm.cu)), a product of a pruned matrix with `cp.async`, `ldmatrix` and `mma.sp`,
# for any M and N. `nvcc -ptx -lineinfo -arch=sm_90a spmm.cu` made the PTX beside it; no GPU is needed from here on.

# %%
import re
from textwrap import fill

import matplotlib.pyplot as plt
import numpy as np

import isa
import simulator
from simulator.check.launches import check_launch
from simulator.lessons import check, data
from simulator.program.capture import read_capture

PLANTED = data("planted")
module = simulator.Module(PLANTED / "bug0.ptx")
kernel = module.get_function("spmm")
text = (PLANTED / "bug0.ptx").read_text()
print(
    module.entries,
    f"{len(text.splitlines())} lines of PTX,",
    len(re.findall(r"\bmma\.sp", text)),
    "mma.sp",
)

figure, axes = plt.subplots(figsize=(6.4, 2.6), layout="constrained")
BOXES = {  # of one CTA and one turn of its loop: left, top, columns, rows
    "A, stored: 64 x 32 f16": (0, 70, 32, 64),
    "B: 64 x 32 f16": (40, 0, 32, 64),
    "D: 64 x 32 f32": (40, 70, 32, 64),
}
for number, (name, (left, top, columns, rows)) in enumerate(BOXES.items()):
    box = (left, top), columns, rows
    axes.add_patch(
        plt.Rectangle(*box, facecolor=f"C{number}", alpha=0.4, edgecolor="black")
    )
    place = left + columns / 2, top + 8  # in the first of four strips of 16 rows
    axes.text(*place, name, ha="center", va="center")
for warp in range(4):
    axes.axhline(70 + 16 * warp, 0.0, 0.9, color="black", lw=0.5)
    axes.text(74, 78 + 16 * warp, f"warp {warp}", va="center")
axes.set(xlim=(-1, 85), ylim=(136, -2), xticks=[], yticks=[])
axes.set_title("a CTA in one turn of the loop: K = 64, selectors 0 and 1", fontsize=9)
plt.show()

# %% [markdown]
# ## Bits
#
# A matrix of our own: pruned, compressed, and its codes put where the kernel wants them. It keeps the words of 16 rows
# and 64 columns together, one for each lane: lanes 0 and 1 of four hold the codes of the first 32 columns, which
# selector 0 picks, lanes 2 and 3 those of the others ([lesson 3](3_metadata.ipynb) has the formula).

# %%
M, N, K = 96, 40, 128
rng = np.random.default_rng(13)
dense = rng.standard_normal((M, K)).astype(np.float16)
chunks = np.abs(dense.astype(np.float32)).reshape(M, K // 4, 4)
small = np.argsort(chunks, axis=2, kind="stable")[
    :, :, :2
]  # the two smallest of each four go
np.put_along_axis(dense.reshape(M, K // 4, 4), small, np.float16(0), axis=2)
stored, codes = isa.compress(
    dense.view(np.uint16).astype(np.uint32), isa.TWO_OF_FOUR, isa.element_type("f16")
)


def words(codes):
    """The kernel's metadata: uint32 [block of 16 rows, of 64 columns, lane]."""
    lane, code = np.arange(32)[:, None], np.arange(8)[None]
    row, chunk = (
        lane // 4 + 8 * (code // 4),
        lane % 4 // 2 * 8 + lane % 2 * 4 + code % 4,
    )
    blocks = (
        codes.reshape(-1, 16, K // 64, 16)
        .transpose(0, 2, 1, 3)[:, :, row, chunk]
        .astype(np.uint32)
    )
    return np.ascontiguousarray(
        np.bitwise_or.reduce(blocks << (4 * code).astype(np.uint32), axis=-1)
    )


a = stored.astype(np.uint16).view(np.float16)
b = rng.standard_normal((N, K)).astype(np.float16)
bias = np.zeros(N, np.float32)
d = np.zeros((M, N), np.float32)
grid = -(-N // 32), -(-M // 64)
names = ("A", "E", "B", "bias", "D", "M", "N", "K")
try:
    kernel(grid, (128,), (a, words(codes), b, bias, d, M, N, K), names=names)
except simulator.LaunchError as error:
    print(fill(re.sub(r" at 0x[0-9a-f]+", "", str(error)).split(";")[0], 88))

# %% [markdown]
# Our first mistake, and not one of the kernel: a CTA computes 64 rows, and it reads the metadata of all of them, also
# below row 96. On a GPU that goes unnoticed as long as the memory behind belongs to somebody. Padded to whole tiles:

# %%
padded = np.concatenate([codes, np.full((-M % 64, K // 4), 0b0100, codes.dtype)])
report = kernel(grid, (128,), (a, words(padded), b, bias, d, M, N, K))
exact = dense.astype(np.float64) @ b.astype(np.float64).T
print(
    f"largest error {np.abs(d - exact).max():.2e} of results up to "
    f"{np.abs(exact).max():.1f}"
)
print(
    f"{report.warp_instructions:,} warp instructions, {report.tensor_instructions} of "
    "them mma.sp"
)

# %% [markdown]
# The error is that of the chip's sums ([lesson 7](7_truncation_and_error.ipynb)), not of the simulator: the same kernel
# was launched on an H200, with other matrices, and its bytes were kept in a *capture*.

# %%
given = simulator.launch(PLANTED / "bug0.json")
print("differences from the H200:", given.differences)

# %% [markdown]
# ## Time
#
# With a config the launch also tells its time, from the PTX alone: machine code is imitated, the CTAs of an SM are
# replayed on the timing engine. (The data of this launch came from device memory.)

# %%
timeline = simulator.Timeline(0, 0)
timed = simulator.launch(
    PLANTED / "bug0.json", config="h100_sxm", cold=True, timeline=timeline
)
chip = read_capture(PLANTED / "bug0.json").counters["sm_cycles_active_max"]
print(
    f"{timed.cycles:,} cycles; the chip took {chip:,} ({timed.cycles / chip - 1:+.1%})"
)
stalls = timeline.stalls
print(f"{'share':>6}  {'waits most for':16}{'source':>11}  instruction")
for row in stalls.rows(worst=5):
    cause = max(row.cycles, key=row.cycles.get)
    what = row.what.split()[0]
    share = row.total / stalls.total
    print(f"{share:6.1%}  {cause:16}{row.source:>11}  {what[:48]}")

# %% [markdown]
# A third of the cycles stand at the first `mma.sp` of the loop, and their cause is global memory: the kernel loads its
# metadata (line 55 of the source) right before it needs them, while A and B come a turn ahead. Loading them with the
# next stage would hide that. Shared memory costs little, because rows lie at pitches of 80 and 144 bytes. With 64 and
# 128 (`BUG` 8 in the source) eight rows of an `ldmatrix` meet in the same banks:

# %%
conflicts = simulator.launch(PLANTED / "bug8.json", config="h100_sxm", cold=True)
print(
    f"pitches of 64 and 128 bytes: {conflicts.cycles:,} cycles, "
    f"{conflicts.cycles / timed.cycles - 1:+.1%}"
)
for finding in check_launch(PLANTED / "bug8.json").findings[:2]:
    print(fill(f"line {finding.line} ({finding.source}): {finding.what}", 88))

# %% [markdown]
# ## A mistake
#
# The classical one: the second `mma.sp` of a pair asks for selector 0 again. Everything runs, and the result is wrong.
# `tcsim check` (here: the function behind it) compares with what is right, tries what people get wrong, and names it.

# %%
verdict = check_launch(PLANTED / "bug1.json")
finding = verdict.findings[0]
print(finding.rule, "at line", finding.line, f"({finding.source})")
print(fill(finding.what, 88))
print(fill(f"fix: {finding.fix}", 88))

# %% [markdown]
# Others are found without knowing the result. Take the barrier of the loop away (`BUG` 3):

# %%
for finding in check_launch(PLANTED / "bug3.json").findings[:2]:
    print(f"{finding.rule} at line {finding.line} ({finding.source})")
    for text in (finding.what, f"fix: {finding.fix}"):
        print(fill(text, 84, initial_indent="    ", subsequent_indent="    "))

# %% [markdown]
# ## Exercises
#
# **1.** Multiply with a matrix of ones for B. What must each row of D be?
#
# Answer: the number that fills row 0 of D, rounded to three decimals.
#
# <details><summary>Solution</summary>
#
# The sum of the row of A, but for the chip's rounding of sums.
#
# ```python
# ones = np.ones((N, K), np.float16)
# kernel(grid, (128,), (a, words(padded), ones, bias, d, M, N, K))
# sums = dense.astype(np.float64).sum(axis=1)
# print(f"largest distance {np.abs(d - sums[:, None]).max():.1e}")
# assert np.abs(d - sums[:, None]).max() < 1e-4
# answer = round(float(sums[0]), 3)
# check("13.1", answer)
# ```
# </details>

# %%
answer = None
check("13.1", answer)

# %% [markdown]
# **2.** How many `cp.async` of 16 bytes does each thread execute in a turn of the loop?
#
# Answer: the number.
#
# <details><summary>Solution</summary>
#
# A CTA copies 64 rows of 64 bytes of A and 32 rows of 128 bytes of B: 8,192 bytes, 512 copies, 4 for each of its 128
# threads.
#
# ```python
# copies = report.instructions["cp.async.cg.shared.global"]
# ctas, warps, turns = grid[0] * grid[1], 4, K // 64
# print(copies, "of warps")
# assert copies == 4 * ctas * warps * turns
# answer = copies // (ctas * warps * turns)
# check("13.2", answer)
# ```
# </details>

# %%
answer = None
check("13.2", answer)

# %% [markdown]
# **3.** Four of the ten mistakes give the right result here. Which, and which of them is harmless on a chip, too?
#
# Answer: `({numbers of the four}, the harmless one)`.
#
# <details><summary>Solution</summary>
#
# 3 (no barrier), 4 (no wait for the copies), 8 (bank conflicts) and 9 (accumulators that nothing sets). Only 8 is
# harmless: what 3 and 4 give depends on which warp is first, and 9 on what the registers held. `check_launch` finds
# all.
#
# ```python
# right = []
# for number in range(1, 11):
#     try:
#         result = simulator.launch(PLANTED / f"bug{number}.json")
#     except simulator.LaunchError:
#         continue  # stopped: an access that no memory takes
#     right += [number] if not result.differences else []
# print(right)
# assert right == [3, 4, 8, 9]
# assert all(check_launch(PLANTED / f"bug{number}.json").findings for number in right)
# answer = (set(right), 8)
# check("13.3", answer)
# ```
# </details>

# %%
answer = None
check("13.3", answer)
