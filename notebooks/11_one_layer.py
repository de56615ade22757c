# %% [markdown]
# # 11. One layer, end to end
#
# **What does a pruned layer compute on a chip, how far is that from the exact result, and how long does it take?**
#
# 30 minutes. Builds on: lessons 1 and 7. You will be able to
#
# * read which elements a pruning keeps, and what it costs the network;
# * put cycles, throughput, the chip's result and the exact result of one layer side by side;
# * say what splitting K changes, and what it does not;
# * compare types and chips by time and by error, and know which of the times are assumed.
#
# The 128 x 128 hidden layer of the digits network goes the way of cuSPARSELt: prune, check, compress, multiply with
# bias and ReLU.

# %%
import matplotlib.pyplot as plt
import numpy as np

from simulator import sparselt
from simulator.lessons import check
from simulator.resources import folder

weights = np.load(folder("traces") / "digits" / "weights.npz")
images = np.load(folder("traces") / "digits" / "images.npz")
weight, bias = weights["w2_dense"], weights["b2_dense"]
pruned = sparselt.prune(weight, "f16", "strip").view(np.float16)

plt.rcParams.update({"figure.dpi": 80, "font.size": 9})
figure, panels = plt.subplots(1, 2, figsize=(7, 3.3), sharey=True, layout="constrained")
for axes, matrix, name in zip(
    panels, (weight, pruned), ("before", "after"), strict=True
):
    corner = np.abs(matrix[:32, :32].astype(float))
    shown = np.ma.masked_where(corner == 0, corner)
    image = axes.imshow(
        shown, cmap="viridis", vmin=0, vmax=0.4, interpolation="nearest"
    )
    axes.set_title(f"{name}: {np.count_nonzero(matrix):,} of {matrix.size:,} not zero")
    axes.set_xlabel("column of W (along K)")
    axes.set_xticks(np.arange(0, 32, 4) - 0.5, range(0, 32, 4))
    axes.grid(axis="x", color="white", alpha=0.3)
panels[0].set_ylabel("row of W")
figure.colorbar(image, ax=list(panels), label="magnitude")
plt.show()

# %% [markdown]
# White is zero. Between two ticks, in each row, two of four elements are left: those with the larger magnitudes.
#
# ## Prune, check, compress
#
# `prune_check` says whether a matrix keeps to the pattern. `compress` gives the library's buffer: the values that are
# left, then their metadata, 4 bits for each four columns.

# %%
buffer = sparselt.compress(pruned, "f16")
print(
    "pattern kept before, after:",
    *(sparselt.prune_check(w, "f16") for w in (weight, pruned)),
)
print(f"{weight.nbytes:,} bytes of W -> {buffer.size:,} compressed")
lost = 1 - np.sum(pruned.astype(float) ** 2) / np.sum(weight.astype(float) ** 2)
print(f"share of the squared norm lost: {lost:.1%}")

# %% [markdown]
# ## The layer on an H100
#
# Inputs are the activations of 384 images behind the first layer, rounded to f16: B is [n, k], an image a row.
# `sparselt.matmul` computes D = relu(A B^T + bias), [m, n], as the chip adds, the exact sums beside it rounded once,
# and the time of the model's kernel. `sparse=None` runs the dense instructions on the same matrix.

# %%
first = np.maximum(
    images["images"] @ weights["w1"].astype(np.float32).T + weights["b1"], 0
)
x = first.astype(np.float16)
options = {
    "type": "f16",
    "bias": bias,
    "activation": "relu",
    "config": "h100_sxm",
    "tile": "64x64",
}
sparse = sparselt.matmul(pruned, x, **options)
dense = sparselt.matmul(pruned, x, sparse=None, **options)
m, n, k = 128, len(x), 128


def line(name, result):
    found = result.summary()
    rate = f"{result.cost.tflops:8.2f} TFLOPS"
    error = f"{found['right']:8.2%} exact, largest {found['largest_ulp']} ulp"
    print(f"{name:22}{result.cycles:7,} cycles{rate}{error}")


print(f"D of {m} x {n}, K = {k}")
line("sparse (mma.sp)", sparse)
line("dense (mma)", dense)
print(f"{(sparse.d != dense.d).sum()} elements differ between the two")

# %% [markdown]
# Sparse and dense instructions add the same products in other groups, so bits may differ. The layer is small: a few
# tiles, on a chip with room for hundreds. Most of the time is latency, and half of the products are gone without the
# time noticing. The throughput counts 2 M N K, pruned products included.
#
# ## Chip and exact, side by side
#
# The elements that differ from the exact sum, rounded once to f16:

# %%
exact = sparse.exact.view(np.float16)
chip = sparse.d.view(np.float16)
wrong = np.argwhere(sparse.ulp != 0)
print(f"{len(wrong)} of {chip.size:,} elements are not the exact result:")
print(f"{'row':>5}{'image':>7}{'chip':>12}{'exact':>12}{'ulp':>5}")
for i, j in wrong[:5]:
    print(f"{i:5}{j:7}{chip[i, j]:12.6f}{exact[i, j]:12.6f}{sparse.ulp[i, j]:5}")

# %% [markdown]
# What is left of f16's products is a rounding here and there: a sum next to the middle between two f16 numbers. With
# results of f32 there is nothing to hide behind. The same layer in e4m3, into f32: an H100 keeps 13 bits of fraction
# while it adds products of FP8, and cuts the rest off ([lesson 7](7_truncation_and_error.ipynb)).

# %%
narrow = sparselt.prune(weight.astype(float), "e4m3", "strip")
fp8 = sparselt.matmul(narrow, x.astype(float), type="e4m3", c_type="f32")
middle, high = np.percentile(fp8.ulp, (50, 95), method="lower")
print(f"e4m3 into f32: {fp8.summary()['right']:.1%} exact", end="; ")
print(f"distance in ulp of f32: median {middle:,}, 95 % up to {high:,}")

# %% [markdown]
# Does it matter? What counts is the digit that the network reads:


# %%
def read(hidden, network="dense"):
    """Images that the network reads rightly, given its hidden layer [m, n]."""
    last, shift = (weights[f"{part}3_{network}"].astype(float) for part in "wb")
    return int(
        ((last @ hidden + shift[:, None]).argmax(axis=0) == images["labels"]).sum()
    )


unpruned = sparselt.matmul(
    weight, x, sparse=None, type="f16", bias=bias, activation="relu"
)
shift = weights["b2_2of4"]
trained = sparselt.matmul(
    weights["w2_2of4"], x, type="f16", bias=shift, activation="relu"
)
print(f"of {n} images: not pruned {read(unpruned.values)},", end=" ")
print(f"pruned {read(sparse.values)} on the chip,")
exactly = read(exact.astype(float))
print(
    f"{exactly} with exact sums, pruned and trained on {read(trained.values, '2of4')}"
)

# %% [markdown]
# Rounding changes no digit. Nor does pruning this one layer cost any: a few images more or less out of 384 say nothing.
#
# ## Splitting K
#
# Where M and N give too few tiles for a chip, K is cut into slices, other CTAs sum each of them, and the partial sums
# are added in f32. That is another order of additions: other bits, and another time.

# %%
for slices in (1, 2, 4):
    split = sparselt.matmul(pruned, x, split_k=slices, **options)
    changed = int((split.d != sparse.d).sum())
    print(f"slices of K {slices}: {changed:4} elements changed", end=", ")
    added = split.cost.reduction_cycles
    print(f"{split.cycles:,} cycles, {added:,} of them adding slices")

# %% [markdown]
# ## Types and chips
#
# Each type takes the time of its own instructions. f32 is multiplied as tf32 (1:2: every other element is dropped),
# s8 here is the layer scaled by its largest magnitude. Only the H100's global memory was measured; of the others
# `cost.assumed` lists what is assumed.

# %%
from itertools import product as product_of


def layer(kind, config):
    """The layer without bias in a type, on a chip."""
    a, b = weight.astype(float), x.astype(float)
    if kind == "s8":
        a, b = (
            np.round(127 * part / np.abs(part).max()).astype(np.int8) for part in (a, b)
        )
    a = sparselt.prune(a, kind, "strip")
    return sparselt.matmul(a, b, type=kind, config=config, tile="64x64")


names = "".join(f"{name:>8}" for name in ("cycles", "us", "TFLOPS", "exact"))
print(f"{'chip':10}{'type':5}{names}  assumed tables")
table = {}
for config, kind in product_of(("h100_sxm", "a100", "rtx4090"), ("f16", "f32", "s8")):
    found = table[config, kind] = layer(kind, config)
    tables = sum(text.startswith("[") for text in found.cost.assumed)
    cost, right = found.cost, found.summary()["right"]
    numbers = f"{cost.cycles:8,}{cost.time_us:8.1f}{cost.tflops:8.2f}{right:8.1%}"
    print(f"{config:10}{kind:5}{numbers}{tables:6}")

# %% [markdown]
# The microseconds are nearly the launch alone, which a chip pays for every kernel: a layer of this size is not what
# tensor cores are for. The share of exact elements is of D in its own type: most f16 are, s8's sums are
# always (what s8 loses, it lost before, in rounding the layer), and no f32 is: the library rounds A to tf32 twice,
# which moves every product (`docs/sparselt_matmul.md`).
#
# ## Exercises
#
# **1.** Predict, before you run it: if the columns of W and of x are put into another order (the same for both), does
# the chip's result change? Does the exact one?
#
# Answer: `(does the chip's change, does the exact one)`.
#
# <details><summary>Solution</summary>
#
# The exact result cannot change: a sum has no order. The chip's can, because its instructions add other products
# together. (The permuted matrix is multiplied by the dense instructions here: it no longer keeps to the pattern.)
#
# ```python
# order = np.random.default_rng(1).permutation(k)
# turned = sparselt.matmul(
#     pruned[:, order], x[:, order], sparse=None, type="f16", bias=bias, activation="relu"
# )
# changed, exactly = (turned.d != dense.d).sum(), (turned.exact != dense.exact).sum()
# print(f"chip: {changed} elements changed; exact: {exactly}")
# assert (turned.exact == dense.exact).all()
# assert (turned.d != dense.d).any()
# answer = (bool((turned.d != dense.d).any()), bool((turned.exact != dense.exact).any()))
# check("11.1", answer)
# ```
# </details>

# %%
answer = None
check("11.1", answer)

# %% [markdown]
# **2.** How many copies of the images make the H100 busy? Find a number of copies (a power of two) from which the
# throughput is more than 16 times that of one.
#
# Answer: which of 1, 16 and 64.
#
# <details><summary>Solution</summary>
#
# 64 copies give 24,576 images, 768 tiles of 64 x 64. The cycles grow far less than the work as long as tiles find
# empty places, and the launch is paid once.
#
# ```python
# from simulator.studies.sparselt.cost import cost, tile_for
#
# tile = tile_for("64x64", "f16", sparse=True)
# rates = {
#     copies: cost(tile, m, n * copies, k, "h100_sxm").tflops for copies in (1, 16, 64)
# }
# print({copies: round(rate, 1) for copies, rate in rates.items()})
# assert rates[64] > 16 * rates[1]
# answer = next(n for n in rates if rates[n] > 16 * rates[1])
# check("11.2", answer)
# ```
# </details>

# %%
answer = None
check("11.2", answer)

# %% [markdown]
# **3.** f16 can also accumulate in f16 (`compute="16f"`; sparse products of cuSPARSELt do so on the H100 alone, so take
# dense ones: `sparse=None`). What does that do to the share of exact elements, and on which of two chips does it save
# more cycles?
#
# Answer: `(is the share lower, the name of the config that saves more)`.
#
# <details><summary>Solution</summary>
#
# Fewer elements are exact: every instruction rounds to 11 bits. On the RTX 4090 f32 accumulators run at half the rate;
# on the H100 the instruction takes the same time, and only the stores of D are smaller.
#
# ```python
# half, full = {}, {}
# for config in ("h100_sxm", "rtx4090"):
#     how = {"sparse": None, "type": "f16", "config": config}
#     how |= {"tile": "64x64", "path": "mma"}
#     half[config] = sparselt.matmul(pruned, x, compute="16f", **how)
#     full[config] = sparselt.matmul(pruned, x, **how)
#     cycles = f"{full[config].cycles:6,} -> {half[config].cycles:6,} cycles"
#     right = [one[config].summary()["right"] for one in (full, half)]
#     print(f"{config:10}{cycles}, exact {right[0]:.1%} -> {right[1]:.1%}")
#     assert right[1] < right[0]
# saved = {config: full[config].cycles - half[config].cycles for config in half}
# assert saved["rtx4090"] > 5 * saved["h100_sxm"]
# answer = (True, max(saved, key=saved.get))
# check("11.3", answer)
# ```
# </details>

# %%
answer = None
check("11.3", answer)
