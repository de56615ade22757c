# %% [markdown]
# # 6. Latency, interval, occupancy
#
# **How many warps, and how many independent accumulators in each, keep a tensor pipe busy?**
#
# 40 minutes. Builds on: lesson 1. You will be able to
#
# * tell latency from interval, and say how many warps and accumulators fill a pipe;
# * read what the warps of a program waited for;
# * lay cycles, throughput, the chip's result and the exact result of one run side by side.
#
# Two numbers of an instruction decide: its *latency*, until a dependent instruction can issue, and its *interval*,
# until the pipe of its sub-core takes the next. This lesson writes small traces, runs them on the model of an H100, and
# lays the result beside what an H100 80GB took (November 2026; `configs/measurements/h100_uniform.csv` and
# `measurements/results`).

# %%
import csv
import tempfile
from collections import Counter
from contextlib import chdir
from math import ceil
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import SVG

import isa
import simulator
from simulator.lessons import check, data
from simulator.resources import folder
from simulator.views.plots import COLOURS

plt.rcParams.update({"figure.dpi": 80, "font.size": 9})
FORMS = {
    "dense": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "sparse": "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
    "dense, small k": "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
    "sparse, small k": "mma.sp::ordered_metadata.sync.aligned"
    ".m16n8k16.row.col.f32.f16.f16.f32",
}
h100 = simulator.load_config("h100_sxm")
for name, opcode in FORMS.items():
    form = isa.mma_form(opcode)
    found = h100.tensor_class(form)
    print(
        f"{name:16} m{form.m}n{form.n}k{form.k:<3} latency {found.latency:2}, interval "
        f"{found.interval}"
    )

timeline = simulator.Timeline(500, 516)
simulator.run("digits/f16", h100, arithmetic="none", timeline=timeline)
SVG(timeline.gantt())

# %% [markdown]
# The picture is 16 cycles of a real layer, digits/f16: what the warps issue, and what the pipes do. Most
# of the time nothing is there to multiply. Why, is what the rest is about.
#
# ## A trace
#
# `chains` accumulators take turns; within a chain each instruction needs the result of the one before. Warp w runs on
# sub-core w mod 4. The trace is text, as ptxas takes it, with loops.


# %%
FOLDER = Path(tempfile.mkdtemp())


def trace(opcode, warps, chains, length=96, runs=10, counter=False):
    """A file in which each warp repeats `length` instructions that take turns in
    `chains` accumulators, with or without a counter."""
    form = isa.mma_form(opcode)

    def registers(first, count):
        return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"

    body = []
    for chain in (i % chains for i in range(length)):
        d = registers(20 + 4 * chain, form.d.registers)
        tail = ", %r12, 0x0" if form.sparse else ""
        body.append(
            f"        {opcode}\n            {d}, {registers(0, form.a.registers)},\n"
            f"            {registers(4, form.b.registers)}, {d}{tail};"
        )
    body += ["        add.s32 %r13, %r13, 1;"] * counter
    last = f"-{warps - 1}" if warps > 1 else ""
    head = [
        ".trace 1",
        ".target sm_90a",
        f".warps {warps}",
        f".warp 0{last} {{",
        "    mov.u32 %r12, 0xEEEEEEEE;",
        f"    .repeat {runs} {{",
    ]
    path = FOLDER / "stream.trace"
    path.write_text("\n".join([*head, *body, "    }", "}", ""]))
    return path


print(trace(FORMS["sparse"], warps=8, chains=2, length=2).read_text())

# %% [markdown]
# Time alone is asked for (`arithmetic="none"`). Two lengths of the loop are run and subtracted, so that start and end
# cancel, as on the chip:


# %%
def cycles(opcode, warps, chains, config="h100_sxm", length=96, counter=False):
    """Cycles of an iteration, for each instruction of a warp."""
    length = length // chains * chains
    few, many = (
        simulator.run(
            trace(opcode, warps, chains, length, runs, counter),
            config,
            arithmetic="none",
        ).cycles
        for runs in (10, 20)
    )
    return (many - few) / 10 / length


def rule(opcode, warps, chains, config=h100):
    """Cycles of an instruction: max(latency, warps of a sub-core * chains * interval)
    a round, in which each chain issues once."""
    found = config.tensor_class(isa.mma_form(opcode))
    return max(found.latency, ceil(warps / 4) * chains * found.interval) / chains


with (folder("configs") / "measurements" / "h100_uniform.csv").open() as lines:
    measured = {
        (r["ptx"], int(r["chains"]), int(r["warps"])): float(
            r["cycles_per_instruction_per_warp"]
        )
        for r in csv.DictReader(lines)
    }

WARPS, CHAINS = (1, 4, 5, 8, 12, 16, 32), (1, 2, 4)
grid = {
    (name, c, w): cycles(FORMS[name], w, c)
    for name in ("dense", "sparse")
    for c in CHAINS
    for w in WARPS
}
print("cycles of a warp for each instruction: rule / simulated / measured")
for name in ("dense", "sparse"):
    print(
        f"{name + ', warps':13}"
        + "".join(f"{w:>13}     " for w in (1, 4, 8, 16)).rstrip()
    )
    for c in CHAINS:
        cells = [
            (rule(FORMS[name], w, c), grid[name, c, w], measured[FORMS[name], c, w])
            for w in (1, 4, 8, 16)
        ]
        print(f"{c} chains" + "".join(f"{x:6.2f}{y:6.2f}{z:6.2f}" for x, y, z in cells))

figure, both = plt.subplots(1, 2, figsize=(7.6, 2.8), sharey=True)
for axes, name in zip(both, ("dense", "sparse"), strict=True):
    form = isa.mma_form(FORMS[name])
    for number, c in enumerate(CHAINS):
        label = f"{c} chain{'s' * (c > 1)}, simulated"
        axes.plot(
            WARPS,
            [w * form.fma / grid[name, c, w] for w in WARPS],
            color=COLOURS[number],
            lw=1.3,
            label=label,
        )
        axes.plot(
            WARPS,
            [w * form.fma / measured[FORMS[name], c, w] for w in WARPS],
            "os^"[number],
            color=COLOURS[number],
            ms=4.5,
        )
    axes.axhline(
        4 * form.fma / h100.tensor_class(form).interval, color="black", lw=0.8, ls=":"
    )
    axes.set(
        title=f"{name} m16n8k{form.k}", xlabel="warps", xticks=[1, 4, 8, 12, 16, 32]
    )
    axes.spines[["top", "right"]].set_visible(False)
both[0].set_ylabel("FMA/clk/SM as named")
both[1].legend(frameon=False, fontsize=8)
both[0].text(
    31, 520, "dots: measured\ndotted: 4 pipes / interval", ha="right", fontsize=8
)
plt.show()

for what, found in (
    ("rule", lambda n, c, w: rule(FORMS[n], w, c)),
    ("simulated", lambda *key: grid[key]),
):
    errors = [abs(found(n, c, w) / measured[FORMS[n], c, w] - 1) for n, c, w in grid]
    print(
        f"{what:10} against {len(errors)} measured rows: mean error "
        f"{np.mean(errors):.2%}, worst {max(errors):.2%}"
    )

# %% [markdown]
# The rule is Little's law: to keep a pipe busy, latency / interval instructions must be under way on each sub-core: 24
# / 6 = 4 dense ones, 24 / 8 = 3 sparse ones. Whether they come from warps or from chains does not matter, and 5 warps
# take as long as 8, because one sub-core has two of them.
#
# The rest is in the details that the rule lacks. Two chains of the sparse form take one warp more than 12 cycles an
# instruction: ptxas can make an instruction wait at most 15 cycles, the rest is a NOP of at least two
# ([docs/timing.md](../docs/timing.md)). The model has that.

# %% [markdown]
# As a picture: 5 warps with two chains each, the first 80 cycles. Sub-core 0 has two warps, whose four chains fill its
# pipe; the others have two chains and 24 cycles to wait for each.

# %%
trace(FORMS["sparse"], warps=5, chains=2, length=12, runs=1)
timeline = simulator.Timeline(0, 80)
with chdir(FOLDER):
    simulator.run("stream.trace", arithmetic="none", timeline=timeline)
SVG(timeline.gantt())

# %% [markdown]
# ## Where the cycles go
#
# A report says what each warp waited for. One chain a warp, sparse:

# %%
print(f"{'warps':>6}{'FMA/clk':>9}   share of the warps' cycles")
for warps in (1, 8, 16, 32):
    report = simulator.run(trace(FORMS["sparse"], warps, 1), arithmetic="none")
    waits = sum((Counter(row) for row in report.waits.values()), Counter())
    shares = {
        cause: count / waits.total()
        for cause, count in waits.most_common()
        if count > 0.02 * waits.total()
    }
    print(
        f"{warps:6}{report.throughput.fma_per_clk_sm:9,.0f}   "
        + ", ".join(f"{cause} {share:.0%}" for cause, share in shares.items())
    )

# %% [markdown]
# With 4 warps of a sub-core the wait for one's own last result turns into a wait for the pipe that others use: the pipe
# is full.
#
# ## The end of a loop
#
# A loop that is not unrolled costs more than its branch: ptxas lets all results arrive before it branches. k
# independent sparse instructions and the counter, an integer instruction, an iteration; one warp:

# %%
with data("loop.csv").open() as lines:
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
loops = {
    int(r["mma_per_iteration"]): float(r["cycles_per_iteration"])
    for r in rows
    if r["instruction"] == FORMS["sparse"]
    and r["counter"] == "vector"
    and r["warps"] == "1"
    and r["chains"] == r["mma_per_iteration"]
}
print(f"{'k':>3}{'k * 8':>7}{'simulated':>11}{'measured':>10}   pipe busy")
for k, took in sorted(loops.items()):
    simulated = cycles(FORMS["sparse"], 1, k, length=k, counter=True) * k
    print(f"{k:3}{8 * k:7}{simulated:11.1f}{took:10.1f}   {8 * k / took:.0%}")

# %% [markdown]
# ## Occupancy of a GEMM
#
# In a GEMM the chains come for free: each 16 x 8 tile of D that a warp owns is an accumulator of its own. So one warp a
# sub-core has enough of them, and more resident warps are of use for another latency, that of shared memory and of
# copies. Registers are what many chains cost:

# %%
from simulator.studies.gemm.estimate import occupancy

with (folder("configs") / "measurements" / "h100_gemm_chip.csv").open() as lines:
    chip = {
        (r["variant"], r["m"], r["n"]): r
        for r in csv.DictReader(line for line in lines if not line.startswith("#"))
    }
print(
    f"{'tile, warps':22}{'chains':>7}{'needed':>8}{'registers':>11}"
    f"{'CTAs on an SM':>15}{'measured TFLOPS':>17}"
)
for text in (
    "64x64x64 2x2",
    "128x64x64 2x2",
    "128x128x64 2x2",
    "128x128x64 2x4",
    "128x256x64 2x4",
    "256x128x64 4x2",
):
    shape, warps = text.split()[0], tuple(int(n) for n in text.split()[1].split("x"))
    tile = simulator.gemm.parse_tile(shape, "f16", warps=warps, stages=4)
    resident, known = occupancy(tile, h100), h100.tensor_class(tile.form)
    row = chip[f"f16_{shape}_w{warps[0]}x{warps[1]}_s4", "4096", "4096"]
    needed = known.latency / known.interval / ceil(tile.warps * resident / 4)
    measured, tiles = float(row["tflops"]), tile.tiles_m * tile.tiles_n
    print(
        f"{text:22}{tiles:7}{needed:8.2f}{tile.registers:11}{resident:15}"
        f"{measured:17,.0f}"
    )

# %% [markdown]
# `chains` is what a warp has, `needed` what would fill the pipe with so many warps. None of these kernels lacks chains.
# What tells them apart is how many bytes of shared memory a product needs ([lesson 9](9_design_exploration.ipynb)).
#
# ## A whole program
#
# The digits layers ran on an H100, too (`measurements/results/traces.csv`):

# %%
with data("traces.csv").open() as lines:
    for r in csv.DictReader(lines):
        report = simulator.run(r["trace"], arithmetic="none")
        busy = np.mean(
            [share for unit, share in report.utilisation.items() if "tensor" in unit]
        )
        took = int(r["cycles"])
        print(
            f"{r['trace']:12} {took:6,} measured, {report.cycles:6,} simulated "
            f"({report.cycles / took - 1:+.1%}); tensor pipes busy {busy:.0%}"
        )

# %% [markdown]
# And all that one run says of a layer, side by side: cycles, throughput, the chip's bits, and the exact results of the
# whole trace rounded once.

# %%
report = simulator.run("digits/f16")
chip, exact = (x["d_f16"].view(np.float32) for x in (report.arrays, report.exact))
rate = report.throughput.fma_per_clk_sm
print(f"{report.cycles:,} cycles, {rate:,.0f} FMA/clk/SM")
print(str(report.distances["d_f16"]).replace(" (", "\n("))
print(f"{'chip':>14}{'bits':>10}{'exact':>14}{'bits':>10}{'difference':>13}")
for x, y in list(zip(chip.ravel(), exact.ravel(), strict=True))[:6]:
    bits = [f"{v.view(np.uint32):08x}" for v in (x, y)]
    print(f"{x:14.8f}{bits[0]:>10}{y:14.8f}{bits[1]:>10}{x - y:13.1e}")

figure, axes = plt.subplots(figsize=(6, 2.3))
axes.plot(exact.ravel(), chip.ravel() - exact.ravel(), ".", ms=2, color=COLOURS[0])
axes.set(xlabel="exact result", ylabel="chip - exact")
axes.set_title(
    f"digits/f16: {report.cycles:,} cycles, {rate:,.0f} FMA/clk/SM", fontsize=9
)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# Why the chip's results differ, and on which side, is [lesson 7](7_truncation_and_error.ipynb).
#
# e4m3 is no instruction of the H100's `mma`: ptxas writes f16 instructions and conversions, in an order that the model
# only estimates. f16, bf16 and tf32 are 4 to 5 % fast: a trace is timed in the order in which it is written, and ptxas
# moves loads and reuses registers. s8 is right.
#
# ## Exercises
#
# **1.** Four warps, the sparse form with the smaller K (m16n8k16). How many chains does it need, and is 2 enough?
#
# Answer: `(chains needed, are 2 enough)`.
#
# <details><summary>Solution</summary>
#
# 16 / 6 = 2.7, so 3; two chains take 8 and more cycles an instruction, not 6.
#
# ```python
# took = {c: cycles(FORMS["sparse, small k"], 4, c) for c in (1, 2, 3, 4)}
# print({c: round(t, 2) for c, t in took.items()})
# assert took[2] > 8
# assert took[3] < 6.3
# answer = (3, took[2] < 6.3)
# check("6.1", answer)
# ```
# </details>

# %%
answer = None
check("6.1", answer)

# %% [markdown]
# **2.** Where does one warp with many chains lose against four warps with few? Compare 16 chains in one warp with 4
# chains in each of 4 warps, for the whole SM.
#
# Answer: how many times the rate, rounded to a whole number.
#
# <details><summary>Solution</summary>
#
# A warp lives on one sub-core: one warp can fill one pipe of four, however many chains it has.
#
# ```python
# alone, spread = 1 / cycles(FORMS["sparse"], 1, 16), 4 / cycles(FORMS["sparse"], 4, 4)
# assert 3.9 < spread / alone < 4.1
# answer = round(spread / alone)
# check("6.2", answer)
# ```
# </details>

# %%
answer = None
check("6.2", answer)

# %% [markdown]
# **3.** A chip whose latency is half as long (12 in place of 24): how many warps with one chain each does it need, and
# what does the rule say?
#
# Answer: `(warps on the H100, warps on the other chip)`.
#
# <details><summary>Solution</summary>
#
# 12 / 8 = 1.5, so two warps a sub-core, 8 in all, where the H100 needs 12.
#
# ```python
# from dataclasses import replace
#
# short = replace(
#     h100,
#     tensor=tuple(
#         replace(c, latency=12) if c.name == "sparse, full k, f32" else c
#         for c in h100.tensor
#     ),
# )
# for config, least in ((h100, 12), (short, 8)):
#     full = next(
#         w
#         for w in (4, 8, 12, 16)
#         if cycles(FORMS["sparse"], w, 1, config) / ceil(w / 4) < 8.2
#     )
#     assert (
#         full
#         == least
#         == 4 * ceil(config.tensor_class(isa.mma_form(FORMS["sparse"])).latency / 8)
#     )
# answer = (12, 8)
# check("6.3", answer)
# ```
# </details>

# %%
answer = None
check("6.3", answer)
