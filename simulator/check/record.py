"""Runs a program once and records what the checkers need to know: every event, and what only the run itself can tell.

The latter are operands in registers, allocations of Tensor Memory, and undefined cases.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.errors import UndefinedBehavior
from isa.ptx.instruction import Register
from isa.tensor_memory.address import COLUMNS, TMEM_LANES
from simulator.check.accesses import Distinct
from simulator.errors import DeadlockError, TraceError
from simulator.execute.cta_state import CtaState
from simulator.execute.events import Event, Region
from simulator.execute.operands import reader
from simulator.program.program import Program
from simulator.simulation.interpreter import Interpreter
from simulator.simulation.observer import Observer
from simulator.simulation.session import Session
from simulator.state.tensor_memory import Allocation

_OPERANDS = {"count": 32, "tx_count": 32, "parity": 32}


class Met(NamedTuple):
    """An undefined case that execution met, and how often; the line is 0 where it is not known."""

    name: str
    line: int
    where: str
    times: int


@dataclass
class Recording:
    """The record of a run.

    Attributes:
        events: in the order of execution.
        values: operands of mbarrier instructions that are in registers, by number of event and operand.
        written: for each CTA the cells of Tensor Memory that are initial data.
        met: undefined cases, in the order in which they first occurred.
        leaks: allocations that were never given back: CTA, allocation, line of the tcgen05.alloc.
        stop: the error that ended the run early; None if it came to its end.
    """

    events: list[Event]
    values: dict[tuple[int, str], int]
    written: dict[int, NDArray[np.int64]]
    met: list[Met]
    leaks: list[tuple[int, Allocation, int]]
    stop: TraceError | UndefinedBehavior | DeadlockError | None = None


class _Recorder(Observer):
    """Keeps every event, and what must be read from the state at its moment: operands in registers, allocations,
    undefined cases."""

    wants_accesses = True

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.values: dict[tuple[int, str], int] = {}
        self.met: dict[tuple[str, int], Met] = {}
        self.written: dict[int, NDArray[np.int64]] = {}
        self._distinct = Distinct()

    def started(self, machines: list[CtaState]) -> None:
        self.machines = machines
        self.written = _written(machines)
        self.allocated: list[dict[Allocation, int]] = [{} for _ in machines]
        self._allocating = [0] * len(machines)
        self._undated = [-1] * len(machines)  # the event of a tcgen05.alloc whose columns are not known yet

    def undefined(self, cta: int, line: int, name: str, count: int, where: str, *, rule: str) -> None:
        before = self.met.get((name, line))
        self.met[name, line] = Met(
            name, line, before.where if before else where, count + (before.times if before else 0)
        )

    def accessed(self, event: Event) -> None:
        machine = self.machines[event.cta]
        if event.kind.startswith("mbarrier."):
            self._operands(machine, event)
        freed = self.settle(event.cta)
        if event.kind.startswith("tcgen05.alloc"):
            self._allocating[event.cta], self._undated[event.cta] = event.line, len(self.events)
        if event.kind.startswith("tcgen05.dealloc") and freed:
            event = event._replace(writes=(_columns(event.cta, freed),))
        self.events.append(event._replace(reads=self._shared(event.reads), writes=self._shared(event.writes)))

    def _shared(self, regions: tuple[Region, ...]) -> tuple[Region, ...]:
        """The same regions, with one array for equal cells: those of a large mma take 700 KB."""
        return tuple(region._replace(cells=self._distinct(region.cells)) for region in regions)

    def settle(self, cta: int) -> list[Allocation]:
        """Notes the columns of a CTA that have been allocated since the last call; returns those that have been given
        back."""
        allocated = self.allocated[cta]
        now = self.machines[cta].tmem.allocations if "tmem" in vars(self.machines[cta]) else []
        new = [allocation for allocation in now if allocation not in allocated]
        allocated |= dict.fromkeys(new, self._allocating[cta])
        place = self._undated[cta]
        if new and place >= 0:
            self.events[place] = self.events[place]._replace(writes=(_columns(cta, new),))
        self._undated[cta] = -1  # an allocation that had to wait is not dated
        freed = [allocation for allocation in allocated if allocation not in now]
        for allocation in freed:
            del allocated[allocation]
        return freed

    def leaks(self) -> list[tuple[int, Allocation, int]]:
        """Allocations that have not been given back at the end: CTA, allocation, line of the tcgen05.alloc."""
        for machine in self.machines:
            self.settle(machine.rank)
        return [
            (cta, allocation, line)
            for cta, allocated in enumerate(self.allocated)
            for allocation, line in allocated.items()
        ]

    def _operands(self, machine: CtaState, event: Event) -> None:
        form, (warp, mask) = event.instruction.form, event.threads[0]
        lane = (mask & -mask).bit_length() - 1
        for role, operand in zip(form.roles, event.instruction.operands, strict=False):
            if role.name in _OPERANDS and isinstance(operand, Register):
                value = int(reader(operand)(machine, np.array([warp]))[0, 0, lane])
                self.values[len(self.events), role.name] = value


def _columns(cta: int, allocations: Iterable[Allocation]) -> Region:
    """The region of all cells of these allocations."""
    columns = np.concatenate([np.arange(a.base, a.base + a.columns) for a in allocations])
    return Region("tmem", cta, (np.arange(TMEM_LANES)[:, None] * COLUMNS + columns).ravel(), "cells")


def record(program: Program) -> Recording:
    """Runs a program and records what happens; an error that stops it is kept, not raised.

    Raises:
        TraceError: data of a `.load` that cannot be used.
    """
    session, recorder = Session(program, undefined="hardware"), _Recorder()
    interpreter = Interpreter(program, session.fresh(), (recorder,))
    stop: TraceError | UndefinedBehavior | DeadlockError | None = None
    try:
        interpreter.run()
    except (TraceError, UndefinedBehavior, DeadlockError) as error:
        stop = error
    for group in interpreter.groups:
        for (register, line), warps in group.unwritten.items():
            key = "read-before-write", line
            where = f"{program.numbering.name(register)}, which reads as 0"
            recorder.met.setdefault(key, Met(*key, where, len(warps)))
    met, leaks = list(recorder.met.values()), recorder.leaks()
    return Recording(recorder.events, recorder.values, recorder.written, met, leaks, stop)


def _written(machines: Iterable[CtaState]) -> dict[int, NDArray[np.int64]]:
    """By CTA, the cells of Tensor Memory that `.load` filled: int64 [cell]."""
    written = {}
    for machine in machines:
        if "tmem" in vars(machine):
            lane, column = np.nonzero(machine.tmem.written)
            written[machine.rank] = lane.astype(np.int64) * COLUMNS + column
    return written
