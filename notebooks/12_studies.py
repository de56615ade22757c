# %% [markdown]
# # 12. When does 2:4 pay?
#
# **From which size on does 2:4 pay on a chip, what bounds it, and would a second operand port help?**
#
# 20 minutes. Builds on: lesson 9. You will be able to
#
# * run a sweep from a dictionary and read its table;
# * say from which K on 2:4 pays, and what binds before and after;
# * tell whether one change of a chip is enough, or several are needed together.
#
# Twice the multiplications are on the data sheet; users report a gain of 20 %. Two sweeps of a model of the chip say
# why. The full answers, for more chips, stand in [docs/studies.md](../docs/studies.md).

# %%
import matplotlib.pyplot as plt

from simulator import sweep
from simulator.lessons import check

plt.rcParams.update({"figure.dpi": 80, "font.size": 9})
base = {"type": "f16", "path": "mma", "tile": "128x128", "stages": 3}
base |= {"m": 2048, "n": 2048}
sizes = sweep.run(
    base
    | {
        "config": ["h100_sxm", "rtx4090"],
        "k": [128, 512, 2048, 8192],
        "relative": {"sparse": False},
    },
    workers=1,
)

figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
for config, rows in sizes.groupby("config"):
    axes.plot(rows["k"], rows["speedup"], "o-", label=config)
axes.set_xscale("log", base=2)
axes.set(xlabel="K", ylabel="dense time / 2:4 time", ylim=(0.9, 2.1))
axes.axhline(2, color="grey", linestyle=":")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# ## From which K on
#
# `sweep.run` takes a dictionary. A value is the same for all points, a list is crossed with every other list: here 2
# chips times 4 lengths K of a GEMM of 2048 x 2048 x K. `relative` runs each point again with these values in place of
# its own (here: dense), and `speedup` is that time over the point's. `bound` is the part of the chip that was busy
# longest. Both chips multiply by `mma` here (`path`), as libraries do on the RTX 4090; on the H100 they take `wgmma`
# ([docs/gemm.md](../docs/gemm.md)).

# %%
print(sizes[["config", "k", "time_us", "speedup", "bound"]].round(2).to_string())

# %% [markdown]
# A short K is stores, launch and prologue, which 2:4 does not shorten. A long K shows what the chip lets through: the
# RTX 4090's tensor cores are slow enough with f32 accumulators that nothing else is in the way; the H100's `mma.sp`
# has at most 1.5 times the rate of its `mma` (6 cycles for K = 16, 8 for K = 32).
#
# ## A second operand port
#
# Those 8 cycles would be 4 to 5 with twice the read ports (`operands.registers`, an inference, see
# [docs/configs.md](../docs/configs.md)). Is that enough? Eight chips: registers read a cycle, wavefronts of shared
# memory a cycle, and bytes of L2, each as it is and doubled.

# %%
ports = sweep.run(
    base
    | {
        "config": "h100_sxm",
        "k": 8192,
        "operands.registers": [2, 4],
        "shared.wavefronts": [1, 2],
        "l2.read_bytes": ["x1", "x2"],
    },
    workers=1,
)
keys = ["operands.registers", "shared.wavefronts", "l2.read_bytes"]
names = ["registers", "wavefronts", "L2"]
table = ports[[*keys, "time_us", "tensor_share", "bound"]].round(2)
table["change"] = (ports["time_us"] / ports["time_us"][0] - 1).map("{:+.1%}".format)
print(table.rename(columns=dict(zip(keys, names, strict=True))).to_string())

# %%
figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
labels = [
    f"{row[keys[0]]} registers, {row[keys[1]]} wavefront{'s' * (row[keys[1]] > 1)}, "
    f"L2 {row[keys[2]]}"
    for _, row in ports.iterrows()
]
axes.barh(labels, ports["time_us"], color=["tab:blue"] * 4 + ["tab:orange"] * 4)
axes.set(xlabel="time of 2:4 (us); orange: twice the read ports")
axes.spines[["top", "right"]].set_visible(False)
axes.invert_yaxis()
plt.show()

# %% [markdown]
# Twice the ports alone are hardly worth their wires: the tensor pipe, busy for two thirds of the time before, is then
# idle for as much, and waits for shared memory and L2. Twice of everything else alone gains a tenth,
# because then the pipe is what all wait for. The gain is in doing both. That is the usual answer to "would one more
# of this help": a chip in balance has no single bottleneck.
#
# ## Exercises
#
# **1.** With accumulators of f16 the RTX 4090's tensor cores are twice as fast. Predict: does its speed-up at
# K = 8192 rise or fall?
#
# Answer: "rises" or "falls".
#
# <details><summary>Solution</summary>
#
# It falls: the tensor pipe was what bound, and now more of the time goes to L2, which 2:4 relieves of half of A and of
# nothing of B.
#
# ```python
# half = sweep.run(
#     base
#     | {
#         "config": "rtx4090",
#         "accumulator": "f16",
#         "k": 8192,
#         "relative": {"sparse": False},
#     },
#     workers=1,
# )
# full = sizes[(sizes["config"] == "rtx4090") & (sizes["k"] == 8192)]
# print("into f32", full["speedup"].round(2).tolist(), full["bound"].tolist())
# print("into f16", half["speedup"].round(2).tolist(), half["bound"].tolist())
# assert half["speedup"].iloc[0] < full["speedup"].iloc[0]
# answer = "falls"
# check("12.1", answer)
# ```
# </details>

# %%
answer = None
check("12.1", answer)

# %% [markdown]
# **2.** From which K on does 2:4 gain 1.5 on the RTX 4090?
#
# Answer: K.
#
# <details><summary>Solution</summary>
#
# Of the sizes above, the first is 2,048: at 512 device memory and the launch still take most of the time.
#
# ```python
# card = sizes[sizes["config"] == "rtx4090"]
# first = card[card["speedup"] > 1.5]["k"].min()
# print("from K =", first)
# assert card[card["k"] < first]["speedup"].max() < 1.5
# answer = first
# check("12.2", answer)
# ```
# </details>

# %%
answer = None
check("12.2", answer)

# %% [markdown]
# **3.** Two of the three changes may be made, all at a price. Which two gain most together?
#
# Answer: their keys, as a set.
#
# <details><summary>Solution</summary>
#
# Shared memory and L2: as it is, the tensor pipe waits for both a third of the time; then it is what binds.
#
# ```python
# was = {"operands.registers": 2, "shared.wavefronts": 1, "l2.read_bytes": "x1"}
# changed = ports[keys].ne(was)
# pair = ports[changed.sum(axis=1) == 2]["time_us"].idxmin()
# answer = {key for key in keys if changed.loc[pair, key]}
# assert answer == {"shared.wavefronts", "l2.read_bytes"}
# check("12.3", answer)
# ```
# </details>

# %%
answer = None
check("12.3", answer)
