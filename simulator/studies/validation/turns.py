"""Validates in which order an SM serves accesses to shared memory of several warps, and how many can wait: short
sequences of machine code that up to twelve warps run at once.

Each row is a scene: some warps with the cycles in which their first accesses issue, and what they access. What was
asked is when the last value of a load is there (`values`), or when the last access has issued (`issued`).
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Mapping
from functools import cache
from itertools import groupby
from typing import NamedTuple

from isa import decode
from simulator.chip.config import Config
from simulator.compiler.operation_parts import Arithmetic
from simulator.compiler.timed_code import Periodic, TimedCode, TimedLoop, TimedOperation, nesting
from simulator.resources import folder
from simulator.studies.validation.group import Group, Row
from simulator.studies.validation.pieces import ACCESSES, Events, events, operation, operations
from simulator.timing.run import simulate

FAR = 600  # cycles from what is asked to the end of the run, in which all else ends
SHORT = 24  # of how many scenes the short form takes one
PITCHED = {"ld.b32%97": 2, "ld.b32%98": 4}  # wavefronts of loads whose lanes are 8 and 16 bytes apart
VALUES = 60  # the first register of the values


class Own(NamedTuple):
    """What a warp does: its number, when its first access issues, and its accesses; `last`: the place of the last one
    that counts."""

    warp: int
    begin: int
    accesses: Events
    last: int


@cache
def scenes() -> tuple[tuple[str, str, tuple[Own, ...], int], ...]:
    """The measured scenes: in short, what was asked, what each warp does, cycles."""
    with gzip.open(folder("configs") / "measurements" / "h100_turns.csv.gz", "rt") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return tuple(_scene(row["asked"], row["accesses"], row["cycles"]) for row in rows)


def _scene(asked: str, text: str, cycles: str) -> tuple[str, str, tuple[Own, ...], int]:
    warps, latest = [], 0
    for part, clocks in zip(text.split("; "), cycles.split("; "), strict=True):
        found = re.fullmatch(r"(\d+)\+(\d+): (.*)", part)
        assert found is not None
        accesses = events(found[3])
        counting = [place for place, (name, _) in enumerate(accesses) if asked == "issued" or not name.startswith("st")]
        last = counting[-1] if counting else -1
        warps.append(Own(int(found[1]), int(found[2]), accesses, last))
        if counting:
            latest = max(latest, int(clocks.split("/")[last if asked == "values" else 0]))
    return _label(warps), asked, tuple(warps), latest


def _label(warps: list[Own]) -> str:
    """Warps with what they access; of equal ones and of equal accesses in a row, how many."""
    alike: dict[Events, list[str]] = {}
    for own in warps:
        alike.setdefault(own.accesses, []).append(f"{own.warp}+{own.begin}")
    return "; ".join(f"{' '.join(names)}: {_steps(accesses)}" for accesses, names in alike.items())


def _steps(accesses: Events) -> str:
    runs = [(step, len([*same])) for step, same in groupby(accesses)]
    return " | ".join(f"{count} x {name} {gap}" if count > 1 else f"{name} {gap}" for (name, gap), count in runs)


def accesses(config: Config) -> dict[str, TimedOperation]:
    """All accesses by their names, and what tells when they are done."""
    known = operations(config)
    load = decode(ACCESSES["ld.b32"][0], target="sm_90a")
    pitched = {name: operation(config, load, waves).changed(interval=1) for name, waves in PITCHED.items()}
    nothing = known["add"].changed(operands=(), arithmetic=Arithmetic())
    return known | pitched | {"nothing": nothing}


def code_of(own: Own, known: Mapping[str, TimedOperation], asked: str) -> TimedCode:
    """The program of a warp: its accesses, an instruction that waits for what is asked, and one far behind."""
    items: list[TimedOperation | TimedLoop] = []
    loaded: tuple[int, ...] = ()
    for place, (name, gap) in enumerate(own.accesses):
        access = known[name]
        writes = tuple(range(VALUES + 4 * place, VALUES + 4 * place + len(access.writes)))
        loaded += writes if place <= own.last and asked == "values" else ()
        items.append(access.changed(stall=gap, reads=(), writes=writes, costs={own.warp: _costs(access)}))
    if own.last >= 0:
        items.append(known["nothing"].changed(reads=loaded, writes=(), stall=FAR))
        items.append(known["nothing"].changed(reads=(), writes=(), stall=1))
    return TimedCode((own.warp,), items, nesting(items), {}, scheduled=True)


def _costs(access: TimedOperation) -> Periodic[int]:
    assert access.costs is not None
    return access.costs[0]


def cycles(config: Config, known: Mapping[str, TimedOperation], asked: str, warps: tuple[Own, ...]) -> int:
    """What the engine says of a scene."""
    count = max(own.warp for own in warps) + 1
    starts = [0] * count
    for own in warps:
        starts[own.warp] = own.begin
    codes = [code_of(own, known, asked) for own in warps]
    return simulate(config, codes, count, starts=starts).cycles - FAR - known["nothing"].latency


def rows(config: Config, short: bool) -> list[Row]:
    """Every scene; in the short form one of 24."""
    known = accesses(config)
    return [
        Row(text, (("asked", asked), ("warps", len(warps))), measured, cycles(config, known, asked, warps))
        for text, asked, warps, measured in scenes()[:: SHORT if short else 1]
        if measured
    ]


GROUPS = {
    "h100_sxm": (
        Group(
            "turns",
            "accesses of up to twelve warps at once: cycles until the last value, or the last issue",
            "measured: H100 80GB, 2026-11-26, measurements/measure_shared_memory_order.py",
            rows,
            ("asked", "warps"),
            seconds=0.6,
        ),
    )
}
