"""Validates uniform streams as measured: each of `warps` warps repeats one matrix instruction in `chains` independent
accumulators."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from isa import mma_form
from simulator.chip.config import Config
from simulator.resources import folder
from simulator.studies.validation.group import Group, Row
from simulator.studies.validation.streams import Streams, brief
from simulator.tables import read_rows

MEASURED = {"h100_sxm": "h100_uniform.csv"}
SHORT_CHAINS, SHORT_WARPS = (
    (1, 2, 4, 8),
    (1, 4, 5, 8, 16),
)  # every form and class, rounds that wait and rounds that do not, uneven sub-cores


def rows(config: Config, short: bool) -> list[Row]:
    """Every measured stream of the config's chip with its simulation: cycles per instruction and warp.

    Raises:
        ConfigError: the config lacks a form.
    """
    streams = Streams(config)
    rows = []
    for opcode, chains, warps, measured in measurements(MEASURED[config.name]):
        if not short or (chains in SHORT_CHAINS and warps in SHORT_WARPS):
            simulated = streams.round(mma_form(opcode), chains, warps) / chains
            rows.append(
                Row(opcode, (("form", brief(opcode)), ("chains", chains), ("warps", warps)), measured, simulated)
            )
    return rows


@cache
def measurements(name: str) -> tuple[tuple[str, int, int, float], ...]:
    """The rows of a measurement file: opcode, chains, warps, cycles per instruction and warp."""
    return tuple(_read(name))


def _read(name: str) -> Iterator[tuple[str, int, int, float]]:
    for row in read_rows(folder("configs") / "measurements" / name):
        yield row["ptx"], int(row["chains"]), int(row["warps"]), float(row["cycles_per_instruction_per_warp"])


_GROUP = Group(
    "uniform",
    "uniform streams: cycles per instruction and warp",
    "measured: H100 80GB, November 2026, configs/measurements/h100_uniform.csv",
    rows,
    split=("form", "chains", "warps"),
    seconds=3,
)
GROUPS = {"h100_sxm": (_GROUP,)}
