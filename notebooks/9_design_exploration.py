# %% [markdown]
# # 9. Design exploration
#
# **What would a kernel cost on a chip that nobody has built, and what would bind it then?**
#
# 40 minutes. Builds on: lesson 6. You will be able to
#
# * write the config of a chip that nobody has built, as a file or by keys;
# * say what binds a kernel, and how far a number may move before it matters;
# * tell which part of such an answer is measured and which is assumed.
#
# A config is a table of numbers with their sources ([docs/configs.md](../docs/configs.md)). Set one, run the same
# traces, and see who cares. Two kernels are asked: the digits layer that comes with tcsim (8 warps, operands by
# `ldmatrix`, 2:4 weights in registers), and the main loop of a GEMM.

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import isa
import simulator
from simulator.lessons import check
from simulator.views.plots import COLOURS

plt.rcParams.update({"figure.dpi": 80, "font.size": 9})
pd.options.display.precision = 2
FOLDER = Path(tempfile.mkdtemp())

SPARSE = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
figure, axes = plt.subplots(figsize=(6, 2.2), layout="constrained")
for number, name in enumerate(("a100", "rtx4090", "h100_sxm")):
    chip = simulator.load_config(name)
    cycles = chip.tensor_class(isa.mma_form(SPARSE)).interval
    axes.barh(name, 4 * 16 * 8 * 32 / cycles, color=COLOURS[number])
axes.barh(
    "yours?", 4 * 16 * 8 * 32 / 4, color="white", edgecolor="black", linestyle=":"
)
axes.set_xlabel(
    "mma.sp of f16: FMA/clk/SM as named, from the configs; the last with interval 4"
)
plt.show()

# %% [markdown]
# ## A config of one's own
#
# As a file: a base, and what differs. The reader checks every key and value, and the report names whatever it rests on
# that nobody measured. Here the sparse instructions of the larger K get an interval of 4 in place of 8, that is twice
# as many multipliers behind each sub-core.

# %%
(FOLDER / "wide.toml").write_text(
    """
base = "h100_sxm"

[[tensor]]
name = "sparse, full k, f32"
interval = 4
source = "assumed: what if sparse ones had twice the multipliers"
"""
)
reports = [
    simulator.run("digits/f16", config, arithmetic="none")
    for config in ("h100_sxm", FOLDER / "wide.toml")
]
print(*reports[1].assumed, sep="\n")
study = pd.concat([report.to_frame() for report in reports], ignore_index=True)
study[
    [
        "config",
        "cycles",
        "time_us",
        "throughput_fma_per_clk_sm",
        "tensor_share",
        "shared_memory_share",
    ]
]

# %% [markdown]
# `to_frame()` gives a report as one row of a pandas DataFrame, with the units in the names of its columns;
# `pandas.concat` makes a table of many. Twice the multipliers, and nothing happens (some cycles more, even: warps fall
# into another rhythm). What the warps do instead is in another frame of each report, `stalls_frame()`: a row for each
# warp and cause.

# %%
stalls = pd.concat(
    [report.stalls_frame().assign(config=report.config) for report in reports]
)
table = stalls.pivot_table(
    index=["cause", "description"], columns="config", values="share"
).query("h100_sxm > 0.01")
table.sort_values("h100_sxm", ascending=False)

# %% [markdown]
# Half of the time a value is on its way from shared memory. Without a file, values are set by their keys, here and
# behind `--set` of every verb; `x1/2` is a factor, `sparse_full_k` are all rows whose names begin so.
# `tcsim config h100_sxm` lists the keys, and what each may be.

# %%
h100 = simulator.load_config("h100_sxm")
VARIANTS = {
    "H100": {},
    "two tensor pipes a sub-core": {"sm.tensor_pipes": 2},
    "half the tensor rate": {"tensor.*.interval": "x2"},
    "twice the bandwidth of shared memory": {"shared.wavefronts": 2},
    "half of it": {"shared.cycles": 2},
    "its latency 46 in place of 23": {"shared.latency": 46},
    "a warp's own wavefronts every cycle": {"shared.wavefront_interval": 1},
    "two pipes, half the bandwidth": {"sm.tensor_pipes": 2, "shared.cycles": 2},
}
chips = {
    name: simulator.load_config("h100_sxm", values) for name, values in VARIANTS.items()
}
print(chips["two pipes, half the bandwidth"].label)

# %% [markdown]
# The GEMM's main loop is the difference of two lengths of the kernel that `simulator.gemm` writes, here for a 128 x 128
# x 64 tile on 4 warps, operands by cp.async, three tiles in shared memory. `simulator.run` takes the text of a trace as
# well as its path.

# %%
TILE = simulator.gemm.parse_tile("128x128x64", "f16", warps=(2, 2), stages=3)


def iteration(config, tile=TILE):
    """Cycles of an iteration of the GEMM's main loop."""
    texts = [simulator.gemm.kernel_trace(tile, k) for k in (384, 768)]
    few, many = (
        simulator.run(text, config, arithmetic="none").cycles for text in texts
    )
    return (many - few) / ((768 - 384) // 64)


results = pd.DataFrame(
    {
        "digits_cycles": [
            simulator.run("digits/f16", config, arithmetic="none").cycles
            for config in chips.values()
        ],
        "gemm_iteration_cycles": [iteration(config) for config in chips.values()],
    },
    index=list(chips),
)
results.join((results.loc["H100"] / results).add_suffix("_speedup"))

# %% [markdown]
# ## Who waits for what
#
# The digits layer halves its speed with shared memory's bandwidth, and does not notice the tensor pipes. Count: every
# warp needs all of B, so a step moves 8 times 512 bytes through shared memory, 32 cycles at 128 bytes; the 8 `mma.sp`
# of a step keep four pipes busy for 16. A roofline says the same of any run: multiply-adds for each byte moved, against
# both limits.

# %%
LIMITS = ("achieved", "tensor_limit", "memory_limit")
runs = []
for name in ("H100", "two tensor pipes a sub-core", "half of it"):
    runs += [simulator.run("digits/f16", chips[name], arithmetic="none")]
found = simulator.roofline.roofline(runs)
figure, axes = plt.subplots(figsize=(6, 2.8))
intensity = np.logspace(0, 6, 100, base=2)
for number, point in enumerate(found.points):
    roof = np.minimum(point.tensor_limit, intensity * point.bytes_per_cycle)
    axes.plot(
        intensity,
        roof,
        color=COLOURS[number],
        lw=3.5 - 1.2 * number,
        label=point.config_label,
    )
    axes.plot(
        point.intensity,
        point.achieved,
        "os^"[number],
        color=COLOURS[number],
        ms=6,
        mec="white",
    )
axes.set_xscale("log", base=2)
axes.set_yscale("log", base=2)
axes.set(xlabel="multiply-adds for each byte of shared memory", ylabel="FMA/clk/SM")
axes.legend(frameon=False, fontsize=8, loc="lower right")
axes.spines[["top", "right"]].set_visible(False)
plt.show()
frame = found.to_frame().set_index("config_overrides")
frame[
    [
        "memory",
        "intensity_fma_per_byte",
        *(f"{name}_fma_per_clk" for name in LIMITS),
        "share",
        "bound",
    ]
]

# %% [markdown]
# ## Where the knee is
#
# A sweep shows how far a number can move before somebody notices. Interval of the sparse instruction from 4 to 24
# cycles, with shared memory as it is and at half its bandwidth:

# %%
INTERVALS = (4, 8, 12, 16, 24)


def sweep(config):
    variants = [
        simulator.load_config(config, {"tensor.sparse_full_k.interval": i})
        for i in INTERVALS
    ]
    return [
        simulator.run("digits/f16", variant, arithmetic="none").cycles
        for variant in variants
    ], [iteration(variant) for variant in variants]


full, half = sweep(h100), sweep(chips["half of it"])
figure, both = plt.subplots(1, 2, figsize=(7.4, 2.6))
for axes, number, title in zip(
    both, range(2), ("digits/f16, cycles", "GEMM, cycles an iteration"), strict=True
):
    axes.plot(
        INTERVALS, full[number], "o-", color=COLOURS[0], ms=4, label="128 bytes a cycle"
    )
    axes.plot(
        INTERVALS, half[number], "s-", color=COLOURS[1], ms=4, label="64 bytes a cycle"
    )
    axes.axvline(8, color="black", lw=0.8, ls=":")
    axes.set(title=title, xlabel="interval of sparse m16n8k32", xticks=INTERVALS)
    axes.set_ylim(0)
    axes.spines[["top", "right"]].set_visible(False)
both[0].legend(frameon=False, fontsize=8, loc="lower right")
plt.show()
for name, took in (("128 bytes", full[1]), ("64 bytes", half[1])):
    print(
        f"GEMM at {name} a cycle:",
        ", ".join(f"{i}: {t:.0f}" for i, t in zip(INTERVALS, took, strict=True)),
    )

# %% [markdown]
# The digits layer notices nothing up to 12 and little at 16, the balance of the count above. The GEMM tile has more
# products for each byte, and its knee is nearer to the H100's 8; with half the bandwidth it would not need the pipes
# that it has.
#
# ## Tiles and bytes
#
# Reuse is the other way to a balance. What a warp loads from shared memory for an iteration grows with the sides of its
# tile, what it multiplies with the area. By count alone, for the H100:

# %%


def counted(tile, config=h100):
    """Cycles of a sub-core's tensor pipe, and of shared memory, an iteration."""
    tensor = (
        tile.instructions
        * config.tensor_class(tile.form).interval
        / config.sm.sub_cores
    )
    loaded = (
        tile.bm * tile.row_a * tile.warps_n
        + tile.bn * tile.row_b * tile.warps_m
        + tile.bytes_e * tile.warps_n
    )
    return tensor, loaded / 128


rows = []
for text in (
    "64x64x64 2x2",
    "128x64x64 2x2",
    "128x128x64 2x2",
    "128x128x64 2x4",
    "128x256x64 2x4",
    "256x128x64 4x2",
):
    shape, warps = text.split()[0], tuple(int(n) for n in text.split()[1].split("x"))
    for sparse in (True, False):
        tile = simulator.gemm.parse_tile(
            shape, "f16", warps=warps, stages=3, sparse=sparse
        )
        rows.append((text, "sparse" if sparse else "dense", *counted(tile)))
counts = pd.DataFrame(
    rows, columns=["tile, warps", "A", "tensor_cycles", "shared_cycles"]
)
counts["ratio"] = counts.tensor_cycles / counts.shared_cycles
counts.pivot(
    index="tile, warps", columns="A", values=["tensor_cycles", "shared_cycles", "ratio"]
)

# %% [markdown]
# A's rows are read by every warp along N, B's by every warp along M. A ratio of 1 is balance. Sparsity takes a third of
# the tensor cycles away and half of A's bytes, and leaves B: a sparse tile must be larger than a dense one to reach it.
#
# ## The whole chip
#
# `estimate` adds L2, device memory and waves (4096 x 4096 x 1024, 128 x 128 x 64 on 8 warps, four stages). What binds
# moves:

# %%
big = simulator.gemm.parse_tile("128x128x64", "f16", warps=(2, 4), stages=4)
questions = {
    "H100": h100,
    "half the bandwidth of shared memory": chips["half of it"],
    "half of L2's bandwidth": simulator.load_config("h100_sxm", ["l2.read_bytes=x1/2"]),
}
answers = [
    simulator.gemm.estimate(big, 4096, 4096, 1024, config).to_frame()
    for config in questions.values()
]
chip = pd.concat(answers, keys=questions).droplevel(1)
chip["speedup"] = chip.cycles["H100"] / chip.cycles
chip[
    [
        "cycles",
        "speedup",
        "bound",
        "tensor_share",
        "shared_memory_share",
        "L2_reads_share",
        "stores_share",
    ]
]

# %% [markdown]
# What such a number is worth: main loops of GEMMs on one SM are within 5.6 % of an H100, whole f16 GEMMs within 8 %
# ([docs/validation.md](../docs/validation.md)). That is the error of the chip as it is. A changed chip is an
# extrapolation: a compiler would write another schedule for it, and here the trace stays.
#
# ## Exercises
#
# **1.** How long may the latency of shared memory become before the digits layer takes 10 % longer? Try 23, 46, 69, 92.
#
# Answer: the first of the four latencies that costs more than 10 %.
#
# <details><summary>Solution</summary>
#
# Three times as long: 46 cycles cost 6 %, 69 cost 11 %. The loads of a step lie well ahead of its products, and 8 warps
# take turns.
#
# ```python
# took = {
#     latency: simulator.run(
#         "digits/f16",
#         simulator.load_config("h100_sxm", {"shared.latency": latency}),
#         arithmetic="none",
#     ).cycles
#     for latency in (23, 46, 69, 92)
# }
# print({latency: f"{cycles / took[23] - 1:+.1%}" for latency, cycles in took.items()})
# assert list(took.values()) == sorted(took.values())
# answer = next(n for n in took if took[n] > 1.1 * took[23])
# check("9.1", answer)
# ```
# </details>

# %%
answer = None
check("9.1", answer)

# %% [markdown]
# **2.** Of two chips, one with half the tensor rate and one with half of shared memory's bandwidth: which is better for
# the digits layer, and which for the GEMM iteration?
#
# Answer: `("rate" or "bandwidth": what the digits layer misses more, does the GEMM lose more than 20 % either way)`.
#
# <details><summary>Solution</summary>
#
# The digits layer hardly feels the tensor rate and takes nearly twice as long with half the bandwidth. The GEMM pays
# for both.
#
# ```python
# slower = results.loc[["half the tensor rate", "half of it"]] / results.loc["H100"]
# assert slower.digits_cycles.iloc[0] < 1.2 < slower.digits_cycles.iloc[1]
# assert slower.gemm_iteration_cycles.min() > 1.2
# slower
# answer = ("bandwidth", slower.gemm_iteration_cycles.min() > 1.2)
# check("9.2", answer)
# ```
# </details>

# %%
answer = None
check("9.2", answer)

# %% [markdown]
# **3.** Dense instead of sparse on a chip whose dense instruction has interval 4: is the GEMM tile faster than sparse
# at 8? Both do the same products of K = 64 an iteration.
#
# Answer: True or False.
#
# <details><summary>Solution</summary>
#
# No: the pipes are as busy, two instructions of 4 cycles for one of 8, and A moves twice the bytes.
#
# ```python
# from dataclasses import replace
#
# dense = simulator.load_config("h100_sxm", ["tensor.dense_full_k_f32.interval=4"])
# tile = replace(TILE, sparse=False)
# took, sparse = iteration(dense, tile), results.gemm_iteration_cycles["H100"]
# print(f"dense at 4: {took:.0f} cycles an iteration, sparse at 8: {sparse:.0f}")
# assert took > sparse
# answer = took < sparse
# check("9.3", answer)
# ```
# </details>

# %%
answer = None
check("9.3", answer)

# %% [markdown]
# **4.** A `mma.sp` of m16n8k32 takes 8 cycles of an H100's tensor pipe, though its products need 4. It reads 13
# registers, two a cycle in steps of two cycles, which is the model of `[operands]`. Do twice the read ports help? Does
# a second tensor pipe that shares them?
#
# Answer: cycles of an instruction on a sub-core, to one decimal: `(twice the ports, two pipes with the same ports)`.
#
# <details><summary>Solution</summary>
#
# Twice the ports take it to 4 cycles: 13 registers now take 4, as long as the products. A second pipe behind the same
# ports changes nothing; with ports of its own it nearly halves the interval.
#
# ```python
# STREAM = """.trace 1
# .target sm_90a
# .warps 16
# .warp 0-15 { .repeat 500 {
# """
# for chain in range(4):
#     d = "{" + ", ".join(f"%r{20 + 4 * chain + i}" for i in range(4)) + "}"
#     STREAM += (
#         f"mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {d}, "
#     )
#     STREAM += "{%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, " + f"{d}, %r10, 0x0;\n"
# STREAM += "} }\n"
# PORTS = {
#     "H100": {},
#     "twice the ports": {"operands.registers": 4},
#     "two pipes, the same ports": {"sm.tensor_pipes": 2, "operands.shared": True},
#     "two pipes, each with ports": {"sm.tensor_pipes": 2},
# }
# took = {}
# for name, values in PORTS.items():
#     report = simulator.run(
#         STREAM, simulator.load_config("h100_sxm", values), arithmetic="none"
#     )
#     took[name] = report.cycles / (500 * 4 * 4)  # an instruction on a sub-core
# print(took)
# assert took["twice the ports"] < 0.7 * took["H100"]
# assert took["two pipes, the same ports"] == took["H100"]
# answer = tuple(
#     round(took[x], 1) for x in ("twice the ports", "two pipes, the same ports")
# )
# check("9.4", answer)
# ```
# </details>

# %%
answer = None
check("9.4", answer)
