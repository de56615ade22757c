# %% [markdown]
# # 7. Truncation and error
#
# **How far is what a tensor core returns from the exact sum, and why?**
#
# 35 minutes. Builds on: lesson 1. You will be able to
#
# * compute the sum of a tensor core by hand, to the bit;
# * say which chip and type keeps how many bits, and what that does to long sums;
# * read the exact result of a run beside the chip's.
#
# A tensor core adds its products in no IEEE way: it aligns them to the largest, cuts what sticks out, adds, and cuts
# again. How many bits it keeps depends on chip and type. tcsim computes the same bits
# ([docs/arithmetic.md](../docs/arithmetic.md) has every rule and its evidence), so the error is something to look at,
# not to guess.

# %%
from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np

import isa
import simulator
from simulator.arithmetic import product
from simulator.lessons import check, data
from simulator.views.plots import COLOURS

plt.rcParams.update({"figure.dpi": 80, "font.size": 9})
accuracy = simulator.accuracy.accuracy

figure, axes = plt.subplots(figsize=(7, 1.9), layout="constrained")
for row, top in enumerate((0, -9, -20)):
    for bit in range(top, top - 11 if row else -24, -1):
        colour = COLOURS[0] if bit >= -25 else COLOURS[1]
        place = (-bit - 0.5, row - 0.4)
        axes.add_patch(
            plt.Rectangle(place, 1, 0.8, facecolor=colour, edgecolor="white")
        )
axes.axvline(25.5, color="black")
axes.set(
    xlim=(-1, 32),
    ylim=(2.6, -0.6),
    yticks=range(3),
    xlabel="bits below the largest exponent",
)
axes.set_yticklabels(["C", "product 1", "product 2"])
axes.set_title(
    "an H100 (f16): what sticks out to the right of 25 bits is cut, then all is added",
    fontsize=9,
)
plt.show()

# %% [markdown]
# ## The rule in a dozen lines
#
# For f16 on an H100: products are exact; each term, C too, is cut toward zero to 25 bits below the largest exponent;
# the sum of what is left is exact; the result is cut to f32's 24 bits. An exponent of a product is the sum of its
# operands' exponents, before any normalisation.


# %%
def exponent(x):
    """Of an f16 or f32 value as the hardware sees it: subnormal f16 count with the
    smallest normal exponent."""
    return max(int(np.frexp(abs(x))[1]) - 1, -14 if isinstance(x, np.float16) else -126)


def cut(x, lowest):
    """Toward zero, to a multiple of 2^lowest."""
    unit = Fraction(2) ** lowest
    return (abs(x) // unit) * unit * (1 if x >= 0 else -1)


def fused_sum(a, b, c, bits=25):
    """One element of D: f16 vectors a, b and an f32 number c."""
    terms = [
        (Fraction(float(x)) * Fraction(float(y)), exponent(x) + exponent(y))
        for x, y in zip(a, b, strict=True)
        if x and y
    ]
    terms += [(Fraction(float(c)), exponent(c))] if c else []
    top = max((e for _, e in terms), default=0)
    total = sum((cut(x, max(top, -133) - bits) for x, _ in terms), Fraction(0))
    if not total:
        return np.float32(0)
    power = int(np.frexp(float(total))[1]) - 1
    return np.float32(float(cut(total, max(power, -126) - 23)))


# %% [markdown]
# Does it reproduce silicon? `tests/golden` holds what an H100 returned for `mma.m16n8k16`; every recorded result whose
# operands are finite:

# %%
OPCODE = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
form = isa.mma_form(OPCODE)
with np.load(data("mma_dense.npz")) as recorded:
    inputs, outputs = recorded[OPCODE + "|in"], recorded[OPCODE + "|out"]
a, b, c = np.split(
    inputs, [form.a.registers, form.a.registers + form.b.registers], axis=1
)
A, B = (
    operand.gather(x).astype(np.uint16).view(np.float16)
    for operand, x in ((form.a, a), (form.b, b))
)
C, D = (form.d.gather(x).view(np.float32) for x in (c, outputs))
tried = right = 0
for case, i, j in np.ndindex(D.shape):
    row, column = A[case, i], B[case, :, j]
    if (
        np.isfinite(row).all()
        and np.isfinite(column).all()
        and np.isfinite(C[case, i, j])
        and np.isfinite(D[case, i, j])
    ):
        tried, right = (
            tried + 1,
            right + int(fused_sum(row, column, C[case, i, j]) == D[case, i, j]),
        )
print(f"{right:,} of {tried:,} results of the chip to the bit")

# %% [markdown]
# ## See the cut
#
# C = 1 and eight products of 2^-j. Exact is 1 + 2^(3-j). A chip that keeps F bits below the largest exponent sees
# nothing of products below 2^-F, however many they are. `product` is one instruction on matrices, of any chip.

# %%
one = np.ones((1, 1, 1), np.float32).view(np.uint32)
chips = {
    "sm_70": (4, "m8n8k4"),
    "sm_80": (16, ""),
    "sm_90": (16, ""),
    "sm_100": (16, ""),
}
print(
    f"{'j':>3}{'exact':>13}"
    + "".join(f"{target:>13}" for target in chips)
    + "   (D - 1) * 2^23"
)
for j in range(21, 28):
    line = f"{j:3}{2.0 ** (3 - j) * 2**23:13.1f}"
    for target, (k, shape) in chips.items():
        d = one
        for start in range(0, 8, k):
            x = np.zeros((1, 1, k), np.float16)
            x[..., : min(8 - start, k)] = 2.0 ** -(j // 2)
            y = (
                np.where(x, 2.0 ** -(j - j // 2), 0)
                .astype(np.float16)
                .transpose(0, 2, 1)
            )
            x, y = (v.view(np.uint16).astype(np.uint32) for v in (x, y))
            d = product(
                x,
                y,
                d,
                family="mma",
                target=target,
                a_type="f16",
                b_type="f16",
                d_type="f32",
                shape=shape,
            )
        line += f"{float((d.view(np.float32).item() - 1) * 2**23):13.1f}"
    print(line)

# %% [markdown]
# sm_70 keeps 23 bits, sm_75 to sm_89 24, sm_90 and later 25. Below that the eight products are zeros, although together
# they make up to 4 units in the last place.
#
# ## Long sums, and their bias
#
# A dot product is a chain of instructions on one accumulator. Cutting is always toward zero, so errors do not cancel:
# the result is too small in magnitude on average, the more so the longer the chain. Errors relative to `sum |a||b|`, of
# 1,000 sums of normal operands each:

# %%
SIZES = [64, 256, 1024, 4096, 16384]
targets = "sm_70, sm_80, sm_90"
f16 = {
    k: {
        line.name: line.errors
        for line in accuracy("f16", k=k, targets=targets, count=1000).lines
    }
    for k in SIZES
}
figure, axes = plt.subplots(figsize=(6, 2.7))
for number, name in enumerate(f16[64]):
    axes.plot(
        SIZES,
        [f16[k][name].backward_mean for k in SIZES],
        "osD^v"[number] + "-",
        color=COLOURS[number],
        ms=4,
        lw=1.2,
        label=name,
    )
axes.set(
    xscale="log",
    yscale="log",
    xlabel="K",
    ylabel="mean |error| / sum |a||b|",
    xticks=SIZES,
)
axes.set_xticklabels([f"{k:,}" for k in SIZES])
axes.minorticks_off()
axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
axes.spines[["top", "right"]].set_visible(False)
plt.show()

print(f"K = 4,096{'right':>12}{'toward 0':>10}{'backward error':>16}{'bias':>12}")
for name, errors in sorted(f16[4096].items(), key=lambda item: item[1].backward_mean):
    print(
        f"{name:15}{errors.right:6.1%}{errors.toward_zero:10.1%}"
        f"{errors.backward_mean:16.1e}{errors.backward_bias.value:+12.1e}"
    )

# %% [markdown]
# Fewer bits need not mean more error. sm_70 cuts each term, positive or negative, to f32's own 23 bits: those cuts
# average out, and nothing is left to cut from the sum. sm_90 keeps 25 of each term and cuts the sum, always toward
# zero.
#
# ## FP8 on Hopper
#
# A program meets two FP8 sums on Hopper. `wgmma` has 13 bits in its sums. `mma` is no instruction of the chip: ptxas
# writes f16 instructions and an f32 addition, and these have 25. Blackwell's `tcgen05` has 25 as well. Sums of positive
# numbers, where a bias shows:

# %%
fp8 = {}
for k in SIZES:
    result = accuracy(
        "e4m3",
        k=k,
        distribution="positive",
        targets="sm_89, sm_90, sm_90:wgmma, sm_100:tcgen05",
        count=400,
    )
    fp8[k] = {line.name: line.errors for line in result.lines}
print(f"{'relative bias':16}" + "".join(f"{f'K = {k:,}':>14}" for k in SIZES))
for name in fp8[64]:
    print(
        f"{name:16}"
        + "".join(f"{fp8[k][name].relative_bias.value:+14.1e}" for k in SIZES)
    )

# %% [markdown]
# With K = 16,384 a quarter of the sum is gone. This is why FP8 kernels for Hopper add each part of K, often 128 long,
# to f32 registers. What that is worth is the row of the part's length (the additions between parts round to nearest):

# %%
for length in (32, 128, 512):
    line = accuracy(
        "e4m3", k=length, distribution="positive", targets="sm_90:wgmma", count=400
    ).lines[0]
    print(f"parts of {length:4}: relative bias {line.errors.relative_bias.value:+.1e}")

# %% [markdown]
# ## Order
#
# Within an instruction of one step order does not matter: the aligned terms are added exactly. Between instructions it
# does. 64 products as four m16n8k16, 20 random orders of K:

# %%
rng = np.random.default_rng(0)
X, Y = (
    rng.standard_normal((16, 64)).astype(np.float16),
    rng.standard_normal((64, 8)).astype(np.float16),
)


def patterns(values):
    return np.ascontiguousarray(values).view(np.uint16).astype(np.uint32)


def chain(order, target="sm_90a", arithmetic="chip"):
    d = np.zeros((1, 4, 32), np.uint32)
    for k in range(0, 64, 16):
        part = order[k : k + 16]
        operands = (
            form.a.scatter(patterns(X[:, part]))[None],
            form.b.scatter(patterns(Y[part]))[None],
        )
        d = simulator.mma(OPCODE, *operands, d, target=target, arithmetic=arithmetic)
    return form.d.gather(d)[0]


given = np.arange(64)
inside = [
    np.concatenate([rng.permutation(part) for part in given.reshape(4, 16)])
    for _ in range(20)
]
across = [rng.permutation(64) for _ in range(20)]
for name, orders in (("inside instructions", inside), ("across instructions", across)):
    for target in ("sm_80", "sm_90a"):
        different = len({chain(order, target).tobytes() for order in orders})
        print(f"{name}, {target:6}: {different:2} different D of {len(orders)}")

# %% [markdown]
# (An m16n8k16 of sm_80 is two steps of eight products, so the order inside one shows there.)
#
# ## The exact result beside it
#
# `arithmetic="exact"` gives the exact sum of an instruction, rounded once, in place of the chip's. A run of a trace has
# both in one report: `arrays` are the chip's bits, `exact` the exact results of the whole trace, whose accumulators go
# from instruction to instruction without being rounded. `largest_ulp` says how far one instruction was off on its own
# operands, `distances` how far the whole trace was.

# %%
exact = [
    chain(given, arithmetic="exact").view(np.float32),
    chain(given).view(np.float32),
]
print(
    "four instructions: largest difference of chip and exact "
    f"{np.abs(exact[0] - exact[1]).max():.1e}"
)
report = simulator.run("digits/f16")
print(
    "digits/f16: largest distance of an instruction's result from the exact one "
    f"{report.largest_ulp} ulp"
)
whole = str(report.distances["d_f16"]).replace(" (", "\n(")
print(f"digits/f16, the whole trace: {whole}")
chip, exact = (
    arrays["d_f16"].view(np.float32) for arrays in (report.arrays, report.exact)
)
print(
    f"layer: {np.mean(chip != exact):.0%} of the outputs differ, by at most "
    f"{np.abs(chip - exact).max():.1e} (largest {np.abs(exact).max():.1f})"
)

# %% [markdown]
# Distances in ulp are of the result: where a sum cancels there is little of it, and hundreds of ulp are nothing to
# worry about. `tcsim accuracy` prints both measures, and the worst case with its operands.

# %% [markdown]
# ## Exercises
#
# **1.** Every product is 1.0. At which sum does the FP8 `wgmma` of Hopper stop growing? Think first: 13 bits below the
# largest exponent.
#
# Answer: the sum.
#
# <details><summary>Solution</summary>
#
# A product of 1.0 is cut to nothing as soon as the accumulator's exponent is 14: at 16,384. All 32 products of an
# instruction are cut, each for itself.
#
# ```python
# ones = np.full((1, 1, 32), 0x38, np.uint32)
# d = np.zeros((1, 1, 1), np.uint32)
# for _ in range(1000):
#     d = product(
#         ones,
#         ones.transpose(0, 2, 1),
#         d,
#         family="wgmma",
#         target="sm_90",
#         a_type="e4m3",
#         b_type="e4m3",
#         d_type="f32",
#     )
# assert d.view(np.float32).item() == 2**14
# answer = d.view(np.float32).item()
# check("7.1", answer)
# ```
# </details>

# %%
answer = None
check("7.1", answer)

# %% [markdown]
# **2.** Turn `fused_sum` into the rule of sm_80: 24 bits, and two steps of eight products, each rounded to f32. Compare
# with the simulator.
#
# Answer: of how many of the 128 elements your rule gives the simulator's bits.
#
# <details><summary>Solution</summary>
#
# `fused_sum(a[8:], b[8:], fused_sum(a[:8], b[:8], c, 24), 24)`.
#
# ```python
# operands = (
#     form.a.scatter(patterns(X[:, :16]))[None],
#     form.b.scatter(patterns(Y[:16]))[None],
# )
# d = form.d.gather(
#     simulator.mma(OPCODE, *operands, np.zeros((1, 4, 32), np.uint32), target="sm_80")
# )
# same = 0
# for i, j in np.ndindex(16, 8):
#     first = fused_sum(X[i, :8], Y[:8, j], np.float32(0), 24)
#     second = fused_sum(X[i, 8:16], Y[8:16, j], first, 24)
#     same += int(second == d[0].view(np.float32)[i, j])
# answer = same
# check("7.2", answer)
# ```
# </details>

# %%
answer = None
check("7.2", answer)

# %% [markdown]
# **3.** f16 results round to nearest instead of cutting. Is there still a bias with `result="f16"`? Compare the share
# of results toward zero of sm_90 with f32 and f16 results, at K = 1,024 and scale 0.1.
#
# Answer: `(more than 3/4 of f32's wrong results are toward zero, more than 3/4 of f16's)`.
#
# <details><summary>Solution</summary>
#
# No: about half of the wrong results are toward zero, as rounding to nearest should have it. The error is larger by the
# 13 bits that f16 has fewer.
#
# ```python
# found = {
#     result: accuracy(
#         "f16", k=1024, result=result, targets="sm_90", scale=0.1, count=2000
#     )
#     .lines[0]
#     .errors
#     for result in ("f32", "f16")
# }
# shares = {
#     result: errors.toward_zero / (1 - errors.right) for result, errors in found.items()
# }
# print(
#     {
#         result: f"{share:.1%} of the wrong ones toward zero"
#         for result, share in shares.items()
#     }
# )
# assert shares["f32"] > 0.75
# assert abs(shares["f16"] - 0.5) < 0.05
# assert found["f16"].backward_mean > 100 * found["f32"].backward_mean
# answer = (shares["f32"] > 0.75, shares["f16"] > 0.75)
# check("7.3", answer)
# ```
# </details>

# %%
answer = None
check("7.3", answer)
