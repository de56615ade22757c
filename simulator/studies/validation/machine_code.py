"""Validates loops of machine code as ptxas wrote it and an H100 ran it: order, registers, stall counts and scoreboards
are those of the code, so that what is left is the chip.

Emulated instructions are in `emulated` once more as a trace has them; there the compiler's choices are the model's.
The loops also have integer and float instructions among matrix instructions (`inserts`, and `operation`). Warps begin
as far apart as measured. In the measurement and in the simulation alike, cycles of an iteration are the difference of
two runs.
"""

from __future__ import annotations

import json
import lzma
from itertools import accumulate
from typing import Any

from isa import MmaForm, mma_form
from isa.forms.record import Unit
from simulator.resources import folder
from simulator.studies.validation.group import Group, Row
from simulator.studies.validation.programs import by_warps, load
from simulator.studies.validation.slots import read_from, wait_for
from simulator.studies.validation.streams import Loop
from simulator.timing.config import Config
from simulator.timing.model import Periodic, StallReason, TimedCode, TimedLoop, TimedOperation, nesting
from simulator.timing.sequences import machine_operation
from simulator.timing.sequences_config import Row as Machine

PREDICATES = 256  # the number of P0
ADDRESS = 7  # where a row has the address of its instruction, in instructions, if it is known
SHORT = 12  # of how many loops the short form takes one
SETS = {"inserts": "inserts", "operation": "operations"}


def loops() -> tuple[list[MmaForm], list[dict[str, Any]]]:
    """The forms of matrix instructions, and the loops: name, group, body, and by number of warps the cycles of an
    iteration and, where warps share sub-cores, the cycle in which each warp begins."""
    path = folder("configs") / "measurements" / "h100_machine_code.json.xz"
    data = json.loads(lzma.decompress(path.read_bytes()))
    for entry in data["loops"]:  # the file has how far each lies behind the one before
        for row, address in zip(entry["body"], accumulate(row[ADDRESS] for row in entry["body"]), strict=True):
            row[ADDRESS] = address
    return [mma_form(opcode) for opcode in data["forms"]], data["loops"]


def machine_loop(config: Config, body: list[list[Any]], forms: list[MmaForm]) -> Loop:
    """A loop of machine code, which has its waits already."""
    every = tuple(range(config.sm.warps))
    once = dict.fromkeys(every, Periodic((1,)))
    timed = [_timed(config, row, forms, once) for row in body]
    items: list[TimedOperation | TimedLoop] = [*timed]
    last = timed[-1]
    last.stall, last.stall_reason = last.stall + config.loop.cycles - 1, StallReason.BRANCH
    end = TimedLoop(0, 1, 0, 0)
    code = TimedCode(every, [*items, end], nesting([*items, end]), {0: end}, scheduled=True)
    return Loop(config, code)


def _timed(config: Config, row: list[Any], forms: list[MmaForm], once: dict[int, Periodic[int]]) -> TimedOperation:
    kind, stall, writes, reads, (yields, *upkeep), slots, boards = row[:ADDRESS]
    assert config.sequences is not None
    machine = Machine("tensor", (), (), forms[kind]) if isinstance(kind, int) else Machine(kind, (), ())
    timed = machine_operation(machine, config, config.sequences, tuple(reads), tuple(writes), 1, once)
    timed.stall = max(stall, timed.latency) if timed.blocking else stall
    timed.yields, timed.upkeep = bool(yields), tuple(upkeep)
    read_from(timed, slots)
    wait_for(timed, boards or (-1, -1))
    if config.fetch is not None and len(row) > ADDRESS:
        timed.cache_line = row[ADDRESS] // config.fetch.line
        timed.line_place = row[ADDRESS] % config.fetch.line
    if timed.unit is not Unit.TENSOR:
        timed.writer = any(register < PREDICATES for register in writes)
    return timed


def rows(config: Config, short: bool, groups: tuple[str, ...]) -> list[Row]:
    """Every loop of some groups on every number of warps; in the short form a part of the loops."""
    forms, known = loops()
    return [
        Row(entry["name"], (("set", _set(entry)), ("load", load(warps)), ("warps", warps)), measured, simulated)
        for entry in [entry for entry in known if entry["group"] in groups][:: SHORT if short else 1]
        for warps, measured, simulated in by_warps(
            machine_loop(config, entry["body"], forms), entry["cycles"], entry["begins"]
        )
    ]


def _set(entry: dict[str, Any]) -> str:
    """What a loop is about."""
    if entry["group"] != "mma":
        return SETS[entry["group"]]
    sparse = "sparse" if entry["name"].startswith("mma_sp") else "dense"
    return f"emulated, {sparse} {'8-bit float' if '_e4m3_' in entry['name'] or '_e5m2_' in entry['name'] else '4-bit'}"


def emulated(config: Config, short: bool) -> list[Row]:
    """Streams of emulated instructions."""
    return rows(config, short, ("mma",))


def integers(config: Config, short: bool) -> list[Row]:
    """Integer and float instructions, shuffles and conversions: alone, and among matrix instructions."""
    return rows(config, short, ("inserts", "operation"))


GROUPS = {
    "h100_sxm": (
        Group(
            "machine",
            "the streams of group emulated as the machine code that ran, cycles of an iteration",
            "measured: H100 80GB, 2026-11-25, tests/hardware (mma.csv)",
            emulated,
            ("set", "load"),
            seconds=40,
        ),
        Group(
            "integers",
            "machine code of integers, floats and shuffles, alone and among matrix instructions, cycles an iteration",
            "measured: H100 80GB, 2026-11-25, tests/hardware (inserts, operation)",
            integers,
            ("set", "load"),
            seconds=23,
        ),
    )
}
