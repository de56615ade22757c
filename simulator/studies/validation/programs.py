"""Validates loops of different matrix instructions as measured on an H100: 1,320 programs of one to three forms that
share accumulators, on 1 to 32 warps.

The programs are in the order in which the machine code issues them, with the moves between registers that the compiler
added. In the measurement and in the simulation alike, cycles of an iteration are the difference of two runs with
different loop counts. Warps begin as far apart as measured, since two of a sub-core may keep one rhythm or another;
those of the set `given`, where that was not measured, as in `Loop.staggered`, and
those of `abreast` together.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from isa import MmaForm, decode, mma_form
from simulator.chip.config import Config
from simulator.program.blocks import Step
from simulator.resources import folder
from simulator.studies.validation.group import Group, Row
from simulator.studies.validation.streams import Loop, instruction

COUNTS = (8, 72)  # iterations; no more than were measured, as the engine has no noise; with less, one rhythm counts
SHORT = 20  # of how many programs the short form takes one


def programs(step: int = 1) -> list[dict[str, Any]]:
    """Every `step`th of the measured loops: name, set, body, cycles of an iteration by warps, and, but for the set
    `given`, `begins`: by number of warps, where they share sub-cores, the cycle in which each begins."""
    path = folder("configs") / "measurements" / "h100_programs.json.xz"
    data = json.loads(lzma.decompress(path.read_bytes()))
    forms = [mma_form(opcode) for opcode in data["forms"]]
    return [{**program, "body": [_step(row, forms) for row in program["body"]]} for program in data["programs"][::step]]


def _step(row: list[Any], forms: list[MmaForm]) -> Step:
    if row[0] is None:
        return Step(decode(f"mov.b32 %r{row[1]}, %r{row[2]};", target="sm_90a"), 1)
    return Step(instruction(forms[row[0]], dict(zip("dabce", row[1:], strict=False))), 1)


def cycles(config: Config, body: tuple[Step, ...], warps: int) -> float:
    """Cycles of an iteration when this many warps run the loop."""
    return iteration(Loop.of(config, body), warps)


def iteration(loop: Loop, warps: int, begins: Sequence[int] = ()) -> float:
    """As `cycles`, of a loop that is compiled; warp w begins in cycle begins[w], or without these as in
    `Loop.staggered`."""
    return loop.difference(warps, COUNTS, begins or loop.staggered(warps)) / (COUNTS[1] - COUNTS[0])


def by_warps(
    loop: Loop,
    measured: Mapping[str, float],
    begins: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> Iterator[tuple[int, float, float]]:
    """For each number of warps of a measured loop: the warps, the measured cycles of an iteration and the simulated
    ones. Warps on sub-cores of their own do not meet, so they are simulated once.

    Args:
        begins: by number of warps, as for `iteration`.
    """
    simulated: dict[int, float] = {}
    for text, cycles in measured.items():
        warps = int(text)
        alike = warps if warps > loop.config.sm.sub_cores else 1
        if alike not in simulated:
            simulated[alike] = iteration(loop, alike, begins.get(text, ()))
        yield warps, cycles, simulated[alike]


def load(warps: int) -> str:
    """How full an SM is."""
    return "1 to 4 warps" if warps <= 4 else "5 to 8 warps" if warps <= 8 else "12 to 32 warps"


def rows(config: Config, short: bool) -> list[Row]:
    """Every loop on every number of warps; in the short form one of twenty."""
    return [
        Row(
            program["name"],
            (("set", program["set"]), ("load", "1 to 8 warps" if warps <= 8 else load(warps)), ("warps", warps)),
            measured,
            simulated,
        )
        for program in programs(SHORT if short else 1)
        for loop in [Loop.of(config, tuple(program["body"]))]
        for warps, measured, simulated in by_warps(loop, program["cycles"], program.get("begins", {}))
    ]


_GROUP = Group(
    "programs",
    "loops of unlike matrix instructions, cycles of an iteration",
    "measured: H100 80GB, November 2026 (set given), 2026-11-25 and, closed, apart and abreast, 2026-11-26; abreast: "
    "not looked at for a rule; which warp issues next comes from measurements/measure_issue_order.py, not from loops",
    rows,
    ("set", "load", "warps"),
    seconds=47,
)
GROUPS = {"h100_sxm": (_GROUP,)}
