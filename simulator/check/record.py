"""Runs a trace for its log, and notes with each event what only the state of that moment can tell: registers,
allocations, undefined cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.errors import UndefinedBehavior
from isa.ptx.instruction import Register
from isa.tensor_memory.address import COLUMNS, TMEM_LANES
from simulator.check.accesses import Distinct
from simulator.errors import DeadlockError, TraceError
from simulator.execute.cta_state import CtaState, Event, Region
from simulator.execute.operands import reader
from simulator.program.data import load_all
from simulator.program.lowering import linearise
from simulator.program.trace import Trace
from simulator.simulation import interpreter as functional
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
    """What a run left.

    Attributes:
        events: the log.
        values: operands of mbarrier instructions that are in registers, by number of event and operand.
        written: for each CTA the cells of Tensor Memory that are initial data.
        met: undefined cases, by first occurrence.
        leaks: allocations that were never given back: CTA, allocation, line of the tcgen05.alloc.
        stop: what ended the run early.
    """

    events: list[Event]
    values: dict[tuple[int, str], int]
    written: dict[int, NDArray[np.int64]]
    met: list[Met]
    leaks: list[tuple[int, Allocation, int]]
    stop: TraceError | UndefinedBehavior | DeadlockError | None = None


class _Log(list[Event]):
    """A log that looks at the machines whenever it grows."""

    def __init__(self, machines: Iterable[CtaState]) -> None:
        super().__init__()
        self.machines = list(machines)
        self.values: dict[tuple[int, str], int] = {}
        self.distinct = Distinct()
        self.allocated: list[dict[Allocation, int]] = [{} for _ in self.machines]
        self.allocating = [0] * len(self.machines)
        self.place = [-1] * len(self.machines)  # of a tcgen05.alloc whose columns are not known yet

    def append(self, event: Event) -> None:
        machine = self.machines[event.cta]
        if event.kind.startswith("mbarrier."):
            self._operands(machine, event)
        gone = self.settle(event.cta)
        if event.kind.startswith("tcgen05.alloc"):
            self.allocating[event.cta], self.place[event.cta] = event.line, len(self)
        if event.kind.startswith("tcgen05.dealloc") and gone:
            event = event._replace(writes=(_columns(event.cta, gone),))
        super().append(event._replace(reads=self._shared(event.reads), writes=self._shared(event.writes)))

    def _shared(self, regions: tuple[Region, ...]) -> tuple[Region, ...]:
        """The same regions, whose cells are kept once: those of a large mma take 700 KB."""
        return tuple(region._replace(cells=self.distinct(region.cells)) for region in regions)

    def settle(self, cta: int) -> list[Allocation]:
        """Notes what has been allocated since; returns what has been given back."""
        known = self.allocated[cta]
        now = self.machines[cta].tmem.allocations if "tmem" in vars(self.machines[cta]) else []
        new = [allocation for allocation in now if allocation not in known]
        known |= dict.fromkeys(new, self.allocating[cta])
        if new and self.place[cta] >= 0:
            self[self.place[cta]] = self[self.place[cta]]._replace(writes=(_columns(cta, new),))
        self.place[cta] = -1  # an allocation that had to wait is not dated
        gone = [allocation for allocation in known if allocation not in now]
        for allocation in gone:
            del known[allocation]
        return gone

    def _operands(self, machine: CtaState, event: Event) -> None:
        form, (warp, mask) = event.instruction.form, event.threads[0]
        lane = (mask & -mask).bit_length() - 1
        for role, operand in zip(form.roles, event.instruction.operands, strict=False):
            if role.name in _OPERANDS and isinstance(operand, Register):
                self.values[len(self), role.name] = int(reader(operand)(machine, np.array([warp]))[0, 0, lane])


def _columns(cta: int, allocations: Iterable[Allocation]) -> Region:
    """All cells of these allocations."""
    columns = np.concatenate([np.arange(a.base, a.base + a.columns) for a in allocations])
    return Region("tmem", cta, (np.arange(TMEM_LANES)[:, None] * COLUMNS + columns).ravel())


@dataclass
class _Undefined:
    """Collects what machines meet."""

    machines: list[CtaState]
    found: dict[tuple[str, int], Met] = field(default_factory=dict)

    def attach(self) -> None:
        for machine in self.machines:
            vars(machine)["note_undefined"] = self._meeting(machine)
            machine.met = _Counted(machine, self)

    def _meeting(self, machine: CtaState) -> Any:
        return lambda name, count, where: self.add(machine, name, int(count), where)

    def add(self, machine: CtaState, name: str, count: int, where: str = "") -> None:
        before = self.found.get((name, machine.line))
        self.found[name, machine.line] = Met(
            name, machine.line, before.where if before else where, count + (before.times if before else 0)
        )


class _Counted(Counter[str]):
    """A machine's counts of undefined cases, which go to whoever collects them."""

    def __init__(self, machine: CtaState | None = None, to: _Undefined | None = None) -> None:
        self._machine, self._to = machine, to
        super().__init__()

    def update(self, iterable: Any = None, /, **more: int) -> None:
        if self._machine is not None and self._to is not None:
            for name, count in dict(iterable or {}, **more).items():
                self._to.add(self._machine, name, int(count))


def record(trace: Trace) -> Recording:
    """Runs a trace with a log; what stops it is kept, not raised.

    Raises:
        TraceError: data of a `.load` that cannot be used.
    """
    codes = [linearise(block, trace.numbering) for block in trace.blocks]
    machines = functional.machines_of(trace, codes, trace.target, 64)
    log, undefined = _Log(machines), _Undefined(machines)
    undefined.attach()
    for machine in machines:
        machine.undefined, machine.compare, machine.log = "hardware", 0, log
    load_all(trace, *machines)
    written = _written(machines)
    groups = functional.grouped(codes)
    stop: TraceError | UndefinedBehavior | DeadlockError | None = None
    try:
        functional.Walk(trace, groups, machines).run()
    except (TraceError, UndefinedBehavior, DeadlockError) as error:
        stop = error
    for group in groups:
        for (register, line), warps in group.unwritten.items():
            name = machines[group.code.cta].registers.numbering.name(register)
            key = "read-before-write", line
            undefined.found.setdefault(key, Met(*key, f"{name}, which reads as 0", len(warps)))
    leaks = []
    for machine in machines:
        log.settle(machine.rank)
        leaks += [(machine.rank, allocation, line) for allocation, line in log.allocated[machine.rank].items()]
    return Recording(list(log), log.values, written, list(undefined.found.values()), leaks, stop)


def _written(machines: Iterable[CtaState]) -> dict[int, NDArray[np.int64]]:
    """Cells that `.load` filled."""
    found = {}
    for machine in machines:
        if "tmem" in vars(machine):
            lane, column = np.nonzero(machine.tmem.written)
            found[machine.rank] = lane.astype(np.int64) * COLUMNS + column
    return found
