"""Validates loops of machine code as ptxas wrote it and an H100 ran it: order, registers, stall counts and scoreboards
are those of the code, so that what is left is the chip.

Emulated instructions are in `emulated` once more as a trace has them; there the compiler's choices are the model's.
The loops also have integer and float instructions among matrix instructions (`inserts`, and `operation`). Warps begin
as far apart as measured. In the measurement and in the simulation alike, cycles of an iteration are the difference of
two runs.

Two warps of a sub-core keep one of several rhythms, and which one depends on how many instructions each has issued
before. So emulated instructions on 5 to 28 warps are measured behind a known start
(`measurements/measure_known_starts.py`), where that is known, and the chip does the same in each launch. On fewer warps
it makes no difference; on 32 there is no room for the warp of each sub-core that makes the start known."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from isa import MmaForm, mma_form
from isa.forms.record import Unit
from simulator.chip.config import Config
from simulator.chip.sequences import Row as Machine
from simulator.compiler.compile import machine_operation
from simulator.compiler.operation_parts import Arithmetic, Overhead
from simulator.compiler.timed_code import StallReason, TimedCode, TimedLoop, TimedOperation, nesting
from simulator.resources import folder
from simulator.studies.validation.group import Group, Key, Row
from simulator.studies.validation.programs import by_warps, load
from simulator.studies.validation.slots import read_from, wait_for
from simulator.studies.validation.streams import Loop

PREDICATES = 256  # the number of P0
TIMED = 7  # entries of a row that time it; behind them is its address
SLOTS = {"clock": (Unit.ALU, 1, 2), "nothing": (Unit.FMA, 1, 1)}  # what takes its slot, and no more
SHORT = 12  # of how many loops the short form takes one
STARTED = "started"  # the group of the loops behind a known start
EMULATED = ("mma", STARTED)
COUNTED = 10  # instructions that each of their warps has issued before its first one
SETS = {"inserts": "inserts", "operation": "operations"}


def loops() -> tuple[list[MmaForm], list[dict[str, Any]]]:
    """The forms of matrix instructions, and the loops: name, group, body, and by number of warps the cycles of an
    iteration and, where warps share sub-cores, the cycle in which each warp begins; of those behind a known start also
    `ahead`, how many rows of the body stand in front of the loop."""
    path = folder("configs") / "measurements" / "h100_machine_code.json.xz"
    data = json.loads(lzma.decompress(path.read_bytes()))
    return [mma_form(opcode) for opcode in data["forms"]], data["loops"]


def machine_loop(config: Config, body: list[list[Any]], forms: list[MmaForm], ahead: int = 0, counted: int = 0) -> Loop:
    """A loop of machine code, which has its waits already.

    Args:
        ahead: how many rows stand in front of the loop.
        counted: how many instructions each warp has issued before these, as the scheduler counts them.
    """
    every = tuple(range(config.sm.warps))
    timed = [_timed(config, row, forms, every) for row in body]
    items: list[TimedOperation | TimedLoop] = [*timed]
    last = timed[-1]
    last.stall, last.stall_reason = last.stall + config.loop.cycles - 1, StallReason.BRANCH
    end = TimedLoop(ahead, 1, 0, 0)
    code = TimedCode(every, [*items, end], nesting([*items, end]), {0: end}, scheduled=True, counted=counted)
    return Loop(config, code)


def _timed(config: Config, row: list[Any], forms: list[MmaForm], warps: tuple[int, ...]) -> TimedOperation:
    kind, stall, writes, reads, (yields, *upkeep), slots, boards = row[:TIMED]
    if kind in SLOTS:
        timed = TimedOperation(*SLOTS[kind], (), (), 1)
    else:
        machine = Machine("tensor", (), (), forms[kind]) if isinstance(kind, int) else Machine(kind, (), ())
        timed = machine_operation(machine, config, tuple(reads), tuple(writes), 1, warps)
    timed.stall = max(stall, timed.latency) if timed.blocking else stall
    timed.yields, timed.overhead = bool(yields), tuple(Overhead(entry // 2, bool(entry % 2)) for entry in upkeep)
    read_from(timed, slots)
    wait_for(timed, boards or (-1, -1))
    if timed.unit is not Unit.TENSOR:
        written = kind == "clock" or any(register < PREDICATES for register in writes)
        timed.arithmetic = replace(timed.arithmetic or Arithmetic(), writes=written)
    return timed


def rows(config: Config, short: bool, groups: tuple[str, ...]) -> list[Row]:
    """Every loop of some groups on every number of warps; in the short form a part of the loops."""
    forms, known = loops()
    started = {entry["name"]: entry["cycles"] for entry in known if entry["group"] == STARTED}
    return [
        Row(entry["name"], _keys(entry, warps), measured, simulated)
        for group in groups
        for entry in [entry for entry in known if entry["group"] == group][:: SHORT if short else 1]
        for warps, measured, simulated in timed(config, forms, _once(entry, started))
    ]


def _once(entry: dict[str, Any], started: dict[str, dict[str, float]]) -> dict[str, Any]:
    """A loop without the numbers of warps on which it has been measured behind a known start, too."""
    if entry["group"] == STARTED:
        return entry
    known = started.get(entry["name"], {})
    return {**entry, "cycles": {warps: cycles for warps, cycles in entry["cycles"].items() if warps not in known}}


def timed(config: Config, forms: list[MmaForm], entry: dict[str, Any]) -> Iterator[tuple[int, float, float]]:
    """A loop on each number of warps: the warps, the measured cycles of an iteration and the simulated ones."""
    start = (entry["ahead"], COUNTED) if entry["group"] == STARTED else ()
    return by_warps(machine_loop(config, entry["body"], forms, *start), entry["cycles"], entry["begins"])


def _keys(entry: dict[str, Any], warps: int) -> tuple[Key, ...]:
    """What distinguishes a row."""
    start = "known" if entry["group"] == STARTED else "unknown"
    about = (("start", start),) if entry["group"] in EMULATED else ()
    return (("set", _set(entry)), ("load", load(warps)), *about, ("warps", warps))


def _set(entry: dict[str, Any]) -> str:
    """What a loop is about."""
    if entry["group"] not in EMULATED:
        return SETS[entry["group"]]
    sparse = "sparse" if entry["name"].startswith("mma_sp") else "dense"
    return f"emulated, {sparse} {'8-bit float' if '_e4m3_' in entry['name'] or '_e5m2_' in entry['name'] else '4-bit'}"


def emulated(config: Config, short: bool) -> list[Row]:
    """Streams of emulated instructions: each number of warps once, behind a known start if it was measured so."""
    return rows(config, short, EMULATED)


def integers(config: Config, short: bool) -> list[Row]:
    """Integer and float instructions, shuffles and conversions: alone, and among matrix instructions."""
    return rows(config, short, ("inserts", "operation"))


GROUPS = {
    "h100_sxm": (
        Group(
            "machine",
            "the streams of group emulated as the machine code that ran, cycles of an iteration",
            "measured: H100 80GB, measurements: 2026-11-25, mma.csv (start unknown), and 2026-11-28, "
            "measure_known_starts.py",
            emulated,
            ("set", "load", "start"),
            seconds=60,
        ),
        Group(
            "integers",
            "machine code of integers, floats and shuffles, alone and among matrix instructions, cycles an iteration",
            "measured: H100 80GB, 2026-11-25, measurements (inserts, operation)",
            integers,
            ("set", "load"),
            seconds=25,
        ),
    )
}
