# %% [markdown]
# # 15. Three generations
#
# **What did Ampere, Hopper and Blackwell each take out of the programmer's hands, in the same sparse layer?**
#
# 30 minutes. Builds on: lessons 2, 3 and 5. You will be able to
#
# * read a kernel around `mma.sp`, `wgmma.sp` and `tcgen05.mma.sp`, and say which part does what;
# * say where A, B, the metadata and D are while each of them multiplies, and who put them there;
# * find out when Tensor Memory holds what;
# * say why three chips that are right give different bits.
#
# The hidden layer of the digits network, `D = W * X + bias` with 2:4 weights, is written three times in CUDA, each time
# in less than a hundred lines: [ampere.cu](../traces/digits/cuda/ampere.cu),
# [hopper.cu](../traces/digits/cuda/hopper.cu) and [blackwell.cu](../traces/digits/cuda/blackwell.cu), with what
# they share in [layer.cuh](../traces/digits/cuda/layer.cuh). nvcc compiled them; here they run as they are. Open
# them beside this page.

# %%
import re

import matplotlib.pyplot as plt
import numpy as np

from simulator.applications.digits_kernels import GENERATIONS, run
from simulator.lessons import check
from simulator.views.plots import COLOURS
from simulator.views.tensor_memory import memory_map
from simulator.views.tensor_memory.picture import draw

plt.rcParams.update({"figure.dpi": 80, "font.size": 9})
LAYERS = {name: run(name) for name in GENERATIONS}
JOBS = {
    "products": r"mma\.sp|wgmma\.mma|tcgen05\.mma",
    "copies to shared memory": r"cp\.async",
    "fragments": "ldmatrix",
    "Tensor Memory": r"tcgen05\.(st|ld|cp)",
    "global memory": r"(ld|st)\.global",
    "waits and fences": "wait|fence|bar|commit|arrive",
    "addresses and all else": "",
}
counts = {name: dict.fromkeys(JOBS, 0) for name in LAYERS}
for name, layer in LAYERS.items():
    for opcode, count in layer.report.instructions.items():
        job = next(job for job, words in JOBS.items() if re.match(words, opcode))
        counts[name][job] += count
figure, axes = plt.subplots(figsize=(7.6, 2.2), layout="constrained")
left = np.zeros(len(LAYERS))
for number, job in enumerate(JOBS):
    share = np.array([counts[name][job] for name in LAYERS])
    axes.barh(
        list(LAYERS), share, left=left, color=[*COLOURS[:6], "lightgrey"][number],
        label=job,
    )  # fmt: skip
    left += share
axes.invert_yaxis()
axes.set(xlabel="instructions of warps, whole layer")
axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# What the warps of each kernel execute for 384 images, by what it is for. The products are hardly to be seen on Hopper
# and not at all on Blackwell: one instruction does the work of many. What is left there is the way in and out.

# %%
print(f"{'kernel':11}{'products':>9}{'copies':>8}{'all':>8}   digits right")
for name, layer in LAYERS.items():
    found = counts[name]
    print(
        f"{name:11}{found['products']:9,}{found['copies to shared memory']:8,}"
        f"{sum(found.values()):8,}   {layer.correct} of {layer.digits.size}"
    )


def excerpt(name, first, last):
    """Lines of a kernel, from the one that holds `first` to the one with `last`."""
    lines = GENERATIONS[name].source.read_text().splitlines()
    begin = next(i for i, line in enumerate(lines) if first in line)
    end = next(i for i in range(begin, len(lines)) if last in lines[i])
    print("\n".join(lines[begin : end + 1]))


# %% [markdown]
# ## Ampere: everything by hand
#
# A warp multiplies 16 rows by 8 images, and every operand is in its registers. So the programmer brings each element to
# the lane that must hold it: bytes to shared memory, 16 a thread, rows padded against bank conflicts; `ldmatrix` from
# there to lanes; and the metadata, for which no instruction knows the order, by index.

# %%
excerpt("ampere", "// 16 rows a warp", "multiply(sum, a[step]")

# %% [markdown]
# `metadata(e, row, step, lane % 2)` is [lesson 3](3_metadata.ipynb) in a line: the codes of rows r and r + 8, four
# chunks of each, in lanes 0 and 1 of every four. Fragments of W are loaded once and stay.
#
# ## Hopper: operands have names
#
# Four warps multiply 64 rows by 64 images. A and B are read from shared memory by the tensor core itself: a 64-bit
# descriptor says where they begin and how their rows are swizzled. TMA copies whole boxes and swizzles them on the way;
# an mbarrier counts their bytes. One thread asks for all of it.

# %%
excerpt("hopper", "// one thread asks", "__syncthreads")
excerpt("hopper", "barrier_wait(barrier)", "wgmma.wait_group")

# %% [markdown]
# No `ldmatrix`, no padding, no bank conflict to think of. In registers there are still D, 32 words of each thread, and
# the metadata: the same line as on Ampere.
#
# ## Blackwell: registers are out of it
#
# One thread multiplies 128 rows by 192 images. D and the metadata are in Tensor Memory; the other warps only store the
# bias there before, and load the sums afterwards. In between nobody's registers hold anything of the product.

# %%
excerpt("blackwell", "// D starts with the bias", "meet();")
excerpt("blackwell", "barrier_wait(copied)", "commit(multiplied)")

# %% [markdown]
# The metadata has changed its place, and not its words: lane 8 of Tensor Memory holds what lane 1 of a warp held. What
# is new is to be done in order: `alloc`, a fence on both sides of a barrier, `wait::st`, `commit`, `dealloc`.
#
# ## When Tensor Memory holds what
#
# `memory_map` runs a program and keeps what is where from when to when (`tcsim tmem` prints and draws it). Here the
# layer as a trace that computes all images in one CTA, in two matrices D.

# %%
memory = memory_map("digits/f16_tcgen05")
for each in memory.intervals:
    print(
        f"{each.role:11} columns {each.columns[0]:3} to {each.columns[-1]:3}, from "
        f"line {each.first.line} ({each.first.opcode}) to {each.last.line}"
    )
draw(memory, memory.changes[3])

# %% [markdown]
# The picture is the moment at which most is held: after the copy of the metadata, 4 columns of the 512.
#
# ## Three right answers
#
# All three read the same digits. Do they give the same bits?

# %%
for one, other in (("ampere", "hopper"), ("hopper", "blackwell")):
    a, b = LAYERS[one].d, LAYERS[other].d
    print(
        f"{one} and {other}: {(a != b).sum():,} of {a.size:,} words differ, "
        f"by {np.abs(a - b).max():.1e} at most"
    )

# %% [markdown]
# The products are the same, and so is their order along K. How many of them a chip adds at once, and how many bits it
# keeps of each, is not ([lesson 7](7_truncation_and_error.ipynb)). The sums of Hopper were measured; that sparse sums
# of the other two are as their dense ones were measured is inferred ([docs/arithmetic.md](../docs/arithmetic.md)).
#
# ## Exercises
#
# **1.** How many matrix instructions does the layer take on each chip, if what four warps execute together counts once?
#
# Answer: `(Ampere, Hopper, Blackwell)`.
#
# <details><summary>Solution</summary>
#
# The layer has 128 x 384 x 128 products, an instruction M x N x K.
#
# ```python
# layer = 128 * 384 * 128
# answer = tuple(
#     layer // (m * n * 32) for m, n in ((16, 8), (64, 64), (128, 192))
# )
# check("15.1", answer)
# ```
# </details>

# %%
answer = None
check("15.1", answer)

# %% [markdown]
# **2.** How many registers of a thread does one instruction name for A, B, the metadata and D together? Addresses and
# descriptors do not count.
#
# Answer: `(Ampere, Hopper, Blackwell)`.
#
# <details><summary>Solution</summary>
#
# `mma.sp` m16n8k32: 4 of A, 4 of B, 1 of metadata, 4 of D. `wgmma.sp` m64n64k32: 1 of metadata and 64 x 64 / 128 of D.
# `tcgen05.mma.sp` names addresses and descriptors alone.
#
# ```python
# answer = (4 + 4 + 1 + 4, 1 + 64 * 64 // 128, 0)
# check("15.2", answer)
# ```
# </details>

# %%
answer = None
check("15.2", answer)

# %% [markdown]
# **3.** `blackwell.cu` allocates 256 columns for 192 images. Which is the first column behind its metadata, and how
# many columns would it have to allocate for 384 images in one CTA?
#
# Answer: `(column, columns to allocate)`.
#
# <details><summary>Solution</summary>
#
# D has a column for each image, and each of the four steps has one of metadata. Allocations are powers of two.
#
# ```python
# answer = (192 + 4, 512)
# assert 256 < 384 + 4 <= 512
# check("15.3", answer)
# ```
# </details>

# %%
answer = None
check("15.3", answer)
