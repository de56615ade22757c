"""Loops with a clock in the place of an instruction, as tests/hardware/stepped.py and called.py measure them, in the
simulation: behind a known start, so that it is known when each warp begins and what it has issued before."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from isa import mma_form
from isa.forms.record import Unit
from simulator.compiler.timed_code import TimedCode, TimedLoop, TimedOperation, nesting
from simulator.studies.validation.machine_code import ADDRESS, COUNTED, machine_loop
from simulator.timing.engine import simulate
from simulator.timing.observer import TimingObserver
from simulator.timing.operands import MEMBER, PROGRAM, Reads
from tests.support.paths import TESTS
from tests.support.straight_code import END, H100, KNOWN

CLOCK, BEGIN = 77, 200  # the line of the clock; the cycle of the first
PAIR = (0, 4)  # the two warps of the first sub-core
Loop = dict[str, Any]


class Steps(TimingObserver):
    """Lets the engine take every step in Python."""

    steps_until = 1 << 40


class Reading(NamedTuple):
    """A clock that warps have read: in the place of which row, in which iteration, and when each began and read."""

    row: int
    iteration: int
    begins: list[int]
    reads: list[int]


def loops(name: str) -> list[Loop]:
    """Those of a file of results."""
    found: list[Loop] = json.loads(gzip.decompress((TESTS / "hardware" / "results" / name).read_bytes()))["loops"]
    return found


def readings(loop: Loop, iterations: int) -> Iterator[Reading]:
    return (Reading(*found) for found in loop["clocks"] if found[1] == iterations)


def operations(loop: Loop) -> list[TimedOperation]:
    """The loop, and what is in front of it."""
    timed = machine_loop(H100, loop["code"], [mma_form(opcode) for opcode in loop["forms"]]).code.items
    return [operation for operation in timed if isinstance(operation, TimedOperation)]


def as_clock(operation: TimedOperation) -> TimedOperation:
    """A clock in the place of an operation."""
    read = KNOWN["nothing"].changed(line=CLOCK, unit=Unit.ALU, interval=2, latency=1, writer=True)
    for name in ("stall", "stall_reason", "yields", "cache_line", "line_place", "awaits", "upkeep"):
        setattr(read, name, getattr(operation, name))
    return read


def places(loop: Loop, row: int) -> list[int]:
    """The rows that have the same instruction as one: of a routine, in each call."""
    address = loop["code"][row][ADDRESS]
    return [place for place in range(loop["loop"], len(loop["code"])) if loop["code"][place][ADDRESS] == address]


def repeated(loop: Loop, every: list[TimedOperation], iterations: int, warps: int) -> TimedCode:
    """The code of a loop for so many warps."""
    end = TimedLoop(loop["loop"], iterations, 0, 0)
    items: list[TimedOperation | TimedLoop] = [*every, end, END.changed()]
    return TimedCode(tuple(range(warps)), items, nesting(items), {0: end}, scheduled=True, counted=COUNTED)


def late(
    loop: Loop, reading: Reading, clocks: dict[int, list[int]], warps: Sequence[int] = PAIR
) -> list[tuple[int, int]]:
    """Of each of the two warps, or of others: when its clock is read in the simulation, and by how many cycles it comes
    later on the chip; `clocks`: what `reads` has given."""
    every = operations(loop)
    rows = places(loop, reading.row)
    for row in rows:
        every[row] = as_clock(every[row])
    clocks.clear()
    starts = [BEGIN + begin for begin in reading.begins]
    simulate(
        H100, [repeated(loop, every, reading.iteration, len(starts))], len(starts), starts=starts, observer=Steps()
    )
    at = (reading.iteration - 1) * len(rows) + rows.index(reading.row)
    return [(clocks[warp][at], reading.reads[warp] - clocks[warp][at]) for warp in warps]


def reads(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[int]]:
    """When each warp reads the clock: as it enters the second stage in which registers are read, less a cycle."""
    found: dict[int, list[int]] = defaultdict(list)
    move = Reads.move

    def moved(self: Reads, cycle: int, cycles: int) -> None:
        if cycles and self.stages[PROGRAM]:
            warp = self.mine[self.stages[MEMBER]]
            if warp.operation_at(self.stages[PROGRAM] - 1).line == CLOCK:
                found[warp.id].append(cycle - BEGIN)
        move(self, cycle, cycles)

    monkeypatch.setattr(Reads, "move", moved)
    return found
