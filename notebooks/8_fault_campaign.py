# %% [markdown]
# # 8. A fault campaign
#
# **What does every single-bit fault in the metadata of an `mma.sp` do to its result?**
#
# 35 minutes. Builds on: lessons 3 and 4. You will be able to
#
# * inject every single-bit fault of a register, and sort the outcomes;
# * say what a check of legality sees, and what it misses;
# * judge a sample of faults by its interval.
#
# A flipped metadata bit makes a weight meet the wrong activation. Nothing traps ([lesson 4](4_invalid_metadata.ipynb)):
# the result is computed from what the bits say. One m16n8k32 instruction with f16 inputs has 512 live bits of metadata,
# few enough to try them all; `simulator.mma_sp` takes any number of cases at once, so all of them are one call. The
# operands are those of a real layer: 2:4 weights and activations of the digits network.

# %%
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

import isa
import simulator
from simulator.lessons import check
from simulator.resources import folder
from simulator.views.plots import COLOURS

plt.rcParams.update({"figure.dpi": 80, "font.size": 9})
OPCODE = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
form = isa.mma_form(OPCODE)
weights, images = (
    np.load(folder("traces") / "digits" / f"{name}.npz")
    for name in ("weights", "images")
)
W = weights["w2_2of4"]  # 128 outputs, 128 inputs
pixels = images["images"].astype(np.float32)
X = (
    np.maximum(
        pixels @ weights["w1"].T.astype(np.float32) + weights["b1"].astype(np.float32),
        0,
    )
    .astype(np.float16)
    .T
)  # 128 inputs, 384 images
print(
    f"W {W.shape}, {np.mean(W == 0):.0%} zero; X {X.shape}, {np.mean(X == 0):.0%} zero "
    "(ReLU)"
)

simulator.drawing.draw(simulator.layout.form_layout(OPCODE), "e", palette="safe")

# %% [markdown]
# ## One instruction, all 1,024 bits
#
# The 16 x 32 tile at the upper left of W, the first 8 images, C = 0. Fault f flips bit f % 32 of lane f / 32: 1,024
# faults, half of them in lanes whose metadata selector 0 does not pick.


# %%
def bits(values):
    """f16 values as patterns."""
    return np.ascontiguousarray(values).view(np.uint16).astype(np.uint32)


def operands(row, column, first):
    """Registers of A, its metadata, and B of one tile of W and 8 images."""
    tile = W[row : row + 16, column : column + 32]
    stored, codes = isa.compress(bits(tile), isa.TWO_OF_FOUR, form.a_type)
    return (
        form.a.scatter(stored),
        form.metadata.scatter(codes, selector=0),
        form.b.scatter(bits(X[column : column + 32, first : first + 8])),
    )


a, e, b = operands(0, 0, 0)
FAULTS = 32 * 32
lane, bit = np.divmod(np.arange(FAULTS), 32)
faulty = np.tile(e, (FAULTS, 1))
faulty[np.arange(FAULTS), lane] ^= np.uint32(1) << bit.astype(np.uint32)


def run(a, b, e):
    """D as f32 [case, row, column] for metadata [case, lane]; A and B for all, or one
    for each case."""
    a, b = (np.broadcast_to(x, (len(e), *x.shape[-2:])).copy() for x in (a, b))
    return form.d.gather(
        simulator.mma_sp(OPCODE, a, b, np.zeros((len(e), 4, 32), np.uint32), e)
    ).view(np.float32)


golden = run(a, b, e[None])[0]
d = run(a, b, faulty)
wrong = (d.view(np.uint32) != golden.view(np.uint32)).any(axis=(1, 2))
print(f"{FAULTS} faults: {int(wrong.sum())} change D")
contributes = np.isin(np.arange(32), form.metadata.places(0)[0])
print(
    f"in lanes that do not contribute: {int((~contributes[lane]).sum())}, of which "
    f"{int(wrong[~contributes[lane]].sum())} change D"
)

# %% [markdown]
# ## Four outcomes
#
# A check of legality (software, or a decoder that traps) sees codes that are not ascending. So a fault is
#
# * *masked*: D has the same bits and the code is legal;
# * *flagged for nothing*: the same bits, but the code is illegal;
# * *detectable*: D differs, and the code is illegal;
# * *silent*: D differs, and the code is legal.

# %%
NAMES = ("masked", "flagged for nothing", "detectable", "silent")


def outcomes(wrong, codes):
    """0 to 3, by whether D differs and whether all codes are legal."""
    return np.where(
        wrong,
        np.where(form.metadata.legal(codes).all(axis=(1, 2)), 3, 2),
        np.where(form.metadata.legal(codes).all(axis=(1, 2)), 0, 1),
    )


outcome = outcomes(wrong, form.metadata.gather(faulty, 0))
live = contributes[lane]
for number, name in enumerate(NAMES):
    print(f"{name:20} {np.sum(outcome[live] == number):4} of {live.sum()} live bits")

figure, axes = plt.subplots(figsize=(6.2, 4.6))
palette = ("#DDDDDD", COLOURS[5], COLOURS[0], COLOURS[1])
axes.imshow(
    outcome.reshape(32, 32), cmap=ListedColormap(palette), vmin=0, vmax=3, aspect="auto"
)
axes.set(
    xticks=range(0, 32, 4),
    yticks=range(0, 32, 4),
    xlabel="bit of the metadata register",
    ylabel="lane",
)
axes.invert_xaxis()
for edge in range(4, 32, 4):
    axes.axvline(edge - 0.5, color="white", lw=0.8)
handles = [plt.Rectangle((0, 0), 1, 1, facecolor=colour) for colour in palette]
axes.legend(
    handles,
    NAMES,
    frameon=False,
    ncols=4,
    loc="lower center",
    bbox_to_anchor=(0.5, 1),
    fontsize=8,
)
plt.show()

# %% [markdown]
# Lanes 2, 3, 6, 7, ... are masked throughout: selector 0 does not read them. A group of four bits is a code. That about
# half of the live faults are illegal is no accident. Of the 24 single flips of the six ascending codes

# %%
flips = [(code, code ^ 1 << k) for code in form.metadata.codes for k in range(4)]
legal = [(old, new) for old, new in flips if new in form.metadata.codes]
print(
    f"{len(legal)} of {len(flips)} end in a legal code:",
    " ".join(f"{old:04b}>{new:04b}" for old, new in legal[:5]),
    "...",
)

# %% [markdown]
# ## The whole layer
#
# All 32 tiles of W, each with 6 groups of 8 images drawn by chance: 192 instructions times 512 live bits.

# %%
rng = np.random.default_rng(0)
tiles = [
    (r, k, int(first))
    for r in range(0, 128, 16)
    for k in range(0, 128, 32)
    for first in 8 * rng.choice(48, 6, replace=False)
]
live_lane, live_bit = lane[live], bit[live]
found, harm = [], []
for where in tiles:
    a, e, b = operands(*where)
    faulty = np.tile(e, (len(live_lane) + 1, 1))  # the last case without a fault
    faulty[np.arange(len(live_lane)), live_lane] ^= np.uint32(1) << live_bit.astype(
        np.uint32
    )
    d = run(a, b, faulty)
    wrong = (d[:-1].view(np.uint32) != d[-1].view(np.uint32)).any(axis=(1, 2))
    found.append(outcomes(wrong, form.metadata.gather(faulty[:-1], 0)))
    harm.append(np.abs(d[:-1] - d[-1]).max(axis=(1, 2)))
found, harm = np.array(found), np.array(harm)  # [instruction, fault]
truth = np.array([np.mean(found == number) for number in range(4)])
print(
    f"{found.size:,} faults:",
    ", ".join(f"{name} {share:.2%}" for name, share in zip(NAMES, truth, strict=True)),
)

# %% [markdown]
# Masking is what zeros do: a weight that moves from one activation to another changes nothing if both are zero for all
# 8 images. It differs from tile to tile with the neurons that are silent. How far off is D, beside the usual size of
# the layer's outputs?

# %%
usual = float(np.std(W.astype(np.float32) @ X.astype(np.float32)))
figure, axes = plt.subplots(figsize=(6, 2.3))
bins = np.logspace(-3, 1, 41)
for number, colour in ((2, COLOURS[0]), (3, COLOURS[1])):
    size = harm[found == number] / usual
    axes.hist(
        size,
        bins,
        histtype="step",
        color=colour,
        lw=1.6,
        label=f"{NAMES[number]}: median {np.median(size):.2f}",
    )
axes.set(
    xscale="log",
    xlabel="largest change of D / standard deviation of the layer's outputs",
    ylabel="faults",
)
axes.legend(frameon=False, loc="upper left")
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# Silent faults are as large as those that a check would see: about a sixth of what the layer's outputs vary by.
#
# Does the network care? Let the fault stay in the register for all 384 images, as in a kernel that keeps W there. A
# flip moves one weight of one row from column k to k', so that output changes by w (X[k'] - X[k]), and the scores
# follow (float32 here: this is about the network, not about bits).

# %%
first, second = (
    (
        W.astype(np.float32) @ X.astype(np.float32)
        + weights["b2_2of4"].astype(np.float32)[:, None]
    ),
    weights["w3_2of4"].astype(np.float32),
)
scores = (
    second @ np.maximum(first, 0) + weights["b3_2of4"].astype(np.float32)[:, None]
)  # [digit, image]
digits = scores.argmax(axis=0)
changed = []
for row in range(128):
    codes = isa.compress(bits(W[row : row + 1]), isa.TWO_OF_FOUR, form.a_type)[1][0]
    for chunk, code in enumerate(codes):
        for k in range(4):
            element = (
                k // 2
            )  # bits 1..0 place the first stored element, 3..2 the second
            old, new = (
                4 * chunk + int((x >> 2 * element) & 3)
                for x in (code, code ^ np.uint32(1 << k))
            )
            output = first[row] + W[row, old].astype(np.float32) * (
                X[new] - X[old]
            ).astype(np.float32)
            moved = scores + second[:, row : row + 1] * (
                np.maximum(output, 0) - np.maximum(first[row], 0)
            )
            changed.append(int(np.sum(moved.argmax(axis=0) != digits)))
changed = np.array(changed)
print(
    f"{len(changed):,} faults that stay: {np.mean(changed == 0):.1%} change no "
    "prediction, "
    f"the worst changes {changed.max()} of {len(digits)}"
)

# %% [markdown]
# ## Sampling, and what it is worth
#
# Where a fault space is too large, one draws from it. A share p found in n draws lies in Wilson's interval with 95 %
# confidence. Here the truth is known, so the claim can be checked: of 2,000 samples of each size, how many intervals
# hold the true share of silent corruption?


# %%
def wilson(hits, n, z=1.96):
    """Wilson's 95 % interval of a share."""
    p, middle = hits / n, (hits / n + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return middle - half, middle + half


silent = (found == 3).ravel()
figure, axes = plt.subplots(figsize=(6, 2.3))
axes.axhline(silent.mean(), color="black", lw=1, label="all faults")
for n in (50, 200, 800, 3200):
    hits = silent[rng.integers(0, silent.size, (2000, n))].sum(axis=1)
    low, high = wilson(hits, n)
    holds = np.mean((low <= silent.mean()) & (silent.mean() <= high))
    print(
        f"n = {n:5}: first sample {low[0]:.3f} to {high[0]:.3f}, truth "
        f"{silent.mean():.3f}; "
        f"{holds:.1%} of 2,000 intervals hold it"
    )
    for i in range(12):
        inside = low[i] <= silent.mean() <= high[i]
        axes.plot(
            [n * 1.045 ** (i - 6)] * 2,
            [low[i], high[i]],
            color=COLOURS[0] if inside else COLOURS[1],
            lw=1.5,
        )
axes.set(
    xscale="log",
    xlabel="faults drawn (12 samples of each size)",
    ylabel="silent, 95 %",
    xticks=[50, 200, 800, 3200],
)
axes.set_xticklabels(["50", "200", "800", "3,200"])
axes.minorticks_off()
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# A sample of 3,200 still leaves 3 points of doubt; all 98,304 take a fraction of a second. Note what the exhaustive
# number is exact about: these weights, these activations. Another layer has another share of zeros, and another answer.

# %% [markdown]
# ## The same with the tool
#
# `simulator.faults` does this for any form, site and kind of fault: lists of faults as files, several processes, runs
# that go on after being killed, detectors and reports (`tcsim faults`, [docs/faults.md](../docs/faults.md)). Here are
# the 1,024 faults of the first section again, and what four detectors would have said.

# %%
from simulator.faults import SDC, MmaTarget, single_bits
from simulator.faults.outcomes import flag

a, e, b = operands(0, 0, 0)
given = (
    ("a", a[None]),
    ("b", b[None]),
    ("c", np.zeros((1, 4, 32), np.uint32)),
    ("e", e[None, None]),
)
subject = MmaTarget(OPCODE, given=given)
faults = single_bits(subject, "e", where="all")
results = subject.run(faults)
number = np.arange(1024)
flipped = np.tile(e, (1024, 1))
flipped[number, number // 32] ^= np.uint32(1) << (number % 32).astype(np.uint32)
by_hand = (run(a, b, flipped) != run(a, b, e[None])).any(axis=(1, 2))
print(
    "the same faults are silent corruptions:",
    bool(((results["outcome"] == SDC) == by_hand).all()),
)
harmful = results["outcome"] == SDC
for name in ("legality", "parity", "secded", "abft"):
    seen = (results["detectors"] & flag(name)) > 0
    print(
        f"{name:<9} sees {seen[harmful].mean():6.1%} of {harmful.sum()} "
        f"corruptions, {(seen & ~harmful).sum()} false alarms"
    )

# %% [markdown]
# ## Exercises
#
# **1.** With plain `mma.sp` descending codes are legal too. How many of the 24 flips does the check of legality still
# see?
#
# Answer: the number of flips seen.
#
# <details><summary>Solution</summary>
#
# Only those that end in equal indices: 8 of 24. The stricter spelling of the same instruction detects half as much
# again.
#
# ```python
# plain = isa.mma_form(OPCODE.replace("::ordered_metadata", ""))
# assert sum(new not in plain.metadata.codes for _, new in flips) == 8
# assert sum(new not in form.metadata.codes for _, new in flips) == 12
# answer = sum(new not in plain.metadata.codes for _, new in flips)
# check("8.1", answer)
# ```
# </details>

# %%
answer = None
check("8.1", answer)

# %% [markdown]
# **2.** Two flipped bits in the same code: how many of the pairs end in a legal code under `::ordered_metadata`?
#
# Answer: the number of pairs that end in a legal code.
#
# <details><summary>Solution</summary>
#
# Of 6 codes times 6 pairs of bits, 36, 14 end in a legal code: fewer than of single flips, 12 of 24.
#
# ```python
# pairs = [
#     code ^ (1 << i | 1 << j)
#     for code in form.metadata.codes
#     for i in range(4)
#     for j in range(i)
# ]
# assert (len(pairs), sum(new in form.metadata.codes for new in pairs)) == (36, 14)
# answer = sum(new in form.metadata.codes for new in pairs)
# check("8.2", answer)
# ```
# </details>

# %%
answer = None
check("8.2", answer)

# %% [markdown]
# **3.** The 4,096 bits of A's registers have no check of legality. For the first tile: what share of single flips
# leaves D as it is, and why is it not zero?
#
# Answer: the number of flips of 4,096 that leave D as it is.
#
# <details><summary>Solution</summary>
#
# Flips of weights whose activations are zero for all 8 images change nothing, and some flips of low bits vanish when
# the sum is cut to f32's 24 bits.
#
# ```python
# a, e, b = operands(0, 0, 0)
# flipped = np.tile(a, (4096, 1, 1))
# register, where = np.divmod(np.arange(4096), 1024)
# flipped[np.arange(4096), register, where // 32] ^= np.uint32(1) << (where % 32).astype(
#     np.uint32
# )
# same = (
#     run(flipped, b, np.tile(e, (4096, 1))).view(np.uint32) == golden.view(np.uint32)
# ).all(axis=(1, 2))
# dead = ~X[:32, :8].any(axis=1)  # activations that are zero in all 8 images
# stored_columns = np.argwhere(W[:16, :32] != 0)
# print(
#     f"{same.mean():.1%} masked; {np.mean(dead[stored_columns[:, 1]]):.1%} of the "
#     "weights meet zeros alone"
# )
# assert same.mean() >= np.mean(dead[stored_columns[:, 1]])
# answer = int(same.sum())
# check("8.3", answer)
# ```
# </details>

# %%
answer = None
check("8.3", answer)
