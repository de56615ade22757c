"""Validates mma and mma.sp against published figures: each instruction is run as it was measured.

A file of `configs/measurements` for each chip has a row for each figure: the instruction; in how many independent
chains in how many warps it ran; what was counted; and the set of rows that it belongs to. What was counted is one of
these:

* round: cycles of an iteration of a loop that issues one instruction of each chain,
* latency: cycles of an instruction in one chain of one warp,
* interval: cycles of an instruction in one warp of independent chains,
* throughput: multiply-adds a cycle of an SM, M * N * K as named.

Chains and warps are left open where the source does not say them: full load, 4 chains in each of 16 warps. Rows with a
reason in `left_out` are counted, and not compared: misprints, and instructions that no config has a class for.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache, partial

from isa import mma_form
from simulator.chip.config import Config
from simulator.resources import folder
from simulator.studies.validation.group import Group, Row, assumed
from simulator.studies.validation.streams import BODY, Streams, brief
from simulator.tables import read_rows

FULL_CHAINS, FULL_WARPS = 4, 16
FULL_BODY = 40  # with several warps on a sub-core, so many instructions hide the loop's end
METRICS = {
    "round": "cycles of a loop's iteration of independent instructions",
    "latency": "cycles until a dependent instruction issues",
    "interval": "cycles between independent instructions of a warp",
    "throughput": "multiply-adds a cycle of an SM",
}


@dataclass(frozen=True)
class Set:
    """The rows of one source.

    Attributes:
        name: the name in the file, and the first part of the names of its groups.
        config: the config whose file has the rows.
        source: where the figures are from.
        unrolled: whether the measured loop is so long that its end costs nothing; otherwise an iteration is one round
            and the counter.
        note: what the simulation has and the measured loops had not.
    """

    name: str
    config: str
    source: str
    unrolled: bool = True
    note: str = ""


_SUN = "Sun et al., Dissecting Tensor Cores via Microbenchmarks, TPDS 2023, arXiv 2206.02874v3"
_LUO = "Luo et al., Dissecting the NVIDIA Hopper Architecture, arXiv 2501.12084, Table 7"
_PRO = "lab notes on FP4 tensor cores of an RTX PRO 6000, clock locked"
SETS = (
    Set("sun22", "a100", f"{_SUN}, Tables 3 and 6, Figures 6, 7, 10 and 11", unrolled=False),
    Set("luo25", "a100", f"{_LUO} (A100 PCIe), throughput from TFLOPS at 1,410 MHz"),
    Set(
        "luo25",
        "h800_pcie",
        f"{_LUO}, throughput from TFLOPS at 1,570 MHz, the clock that the wgmma rows of the paper imply",
        note="ptxas 13.0 puts a NOP of two cycles into a wait of 16, as measured on an H100 (16.98 cycles each in a "
        "chain, group uniform); the authors' compiler did not",
    ),
    Set("sun22", "rtx3070ti", f"{_SUN}, Tables 4 and 7", unrolled=False),
    Set("luo25", "rtx4090", f"{_LUO}, throughput from TFLOPS at 2,710 MHz, the clock that these rows imply"),
    Set(
        "rtx5070ti",
        "rtx5070ti",
        "README of tensor-core microbenchmarks for the RTX 5070 Ti (mma_dense.cu, mma_sparse_b1.cu)",
    ),
    Set(
        "leimao",
        "rtx5080",
        "leimao/CUTLASS-Examples @359b33a, cute_mma_benchmark, at 2,715 MHz, the clock that the rows of 4 bits imply",
    ),
    Set("mq", "rtx5090", "lookup1980/microbench-blackwell @a5eef42, sm120_mma_sparse/results/sm120_mma_full.csv"),
    Set("pro6000", "rtx_pro_6000", f"{_PRO}, sections 2 and 9"),
    Set("pro6000-b", "rtx_pro_6000", f"{_PRO}, a second capture"),
    Set("m13", "b300", "lab note on a B300, M13: V8 Synthesis, item 6"),
)


@dataclass(frozen=True)
class Figure:
    """A row of a file; chains and warps are 0 where the source does not say them."""

    opcode: str
    chains: int
    warps: int
    metric: str
    value: float
    set: str
    left_out: str


@cache
def figures(config: str) -> tuple[Figure, ...]:
    """The figures in the file of a config."""
    return tuple(
        Figure(
            r["ptx"],
            int(r["chains"] or 0),
            int(r["warps"] or 0),
            r["metric"],
            float(r["value"]),
            r["set"],
            r["left_out"],
        )
        for r in read_rows(folder("configs") / "measurements" / f"{config}_mma.csv")
    )


def rows(of: Set, metric: str, config: Config, short: bool) -> list[Row]:
    """The figures of one set and one metric, each with its simulation; the short form takes every second one of a large
    group.

    Raises:
        ConfigError: the config lacks a form.
    """
    chosen = [
        figure for figure in figures(of.config) if (figure.set, figure.metric, figure.left_out) == (of.name, metric, "")
    ]
    streams = Streams(config)
    return [_row(streams, of, figure) for figure in chosen[:: 2 if short and len(chosen) > 100 else 1]]


def _row(streams: Streams, of: Set, figure: Figure) -> Row:
    form = mma_form(figure.opcode)
    chains, warps = figure.chains or FULL_CHAINS, figure.warps or FULL_WARPS
    body = BODY if warps <= streams.config.sm.sub_cores else FULL_BODY
    took = streams.round(form, chains, warps, body if of.unrolled else 0)
    simulated = took
    if figure.metric in ("latency", "interval"):
        simulated = took * streams.config.sm.sub_cores / max(warps, streams.config.sm.sub_cores) / chains
    elif figure.metric == "throughput":
        simulated = form.fma * chains * warps / took
    keys = (
        ("sparse", "sparse" if form.sparse else "dense"),
        ("types", types(figure.opcode)),
        ("chains", chains),
        ("warps", warps),
    )
    tables = streams.tables(form, counted=not of.unrolled)
    return Row(brief(figure.opcode), keys, figure.value, simulated, assumed(streams.config, tables))


def types(opcode: str) -> str:
    """The types that the instruction multiplies and adds to, such as "f16 to f32"."""
    form = mma_form(opcode)
    inputs = form.a_type.name if form.a_type == form.b_type else f"{form.a_type.name} with {form.b_type.name}"
    return f"{form.row.kind + ' ' if form.row.kind else ''}{inputs} to {form.d_type.name}"


def _groups(of: Set) -> list[Group]:
    mine = [figure for figure in figures(of.config) if figure.set == of.name]
    groups = []
    for metric in dict.fromkeys(figure.metric for figure in mine):
        reasons = Counter(figure.left_out for figure in mine if figure.metric == metric and figure.left_out)
        note = "; ".join(
            [*(f"{count} left out ({reason})" for reason, count in reasons.items()), *filter(None, [of.note])]
        )
        split = ("sparse", "types", "chains", "warps")
        name = f"{of.name}-{metric}"
        groups.append(
            Group(
                name,
                f"mma and mma.sp: {METRICS[metric]}",
                f"published: {of.source}",
                partial(rows, of, metric),
                split,
                note=note,
            )
        )
    return groups


GROUPS = {
    name: tuple(group for of in SETS if of.config == name for group in _groups(of))
    for name in dict.fromkeys(of.config for of in SETS)
}
