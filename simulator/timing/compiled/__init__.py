"""Calls the compiled engine: `engine.c` runs the sub-cores of an SM ahead, on the records that Python works on, too.

It is a part of the compiled kernel (`simulator.arithmetic.compiled`), optional as the rest of it, and with the same
cycles, stalls and counters as Python's own rules.
"""

from __future__ import annotations

import ctypes
from array import array
from enum import IntEnum

from isa.forms.record import Unit
from simulator.arithmetic.compiled import library
from simulator.timing.cores import SubCore
from simulator.timing.model import StallReason, TimedCode, TimedLoop, TimedOperation
from simulator.timing.records import ItemRecord, fields, link
from simulator.timing.shared_memory import STORES
from simulator.timing.sm import ASYNCHRONOUS, Sm
from simulator.timing.tables import POLICIES

STEPS = 1_000_000  # after which the compiled engine lets Python look whether somebody wants it to stop
_STATE = 4096  # words of a state, at first


class Outcome(IntEnum):
    """Why the compiled engine has stopped, as in engine.c."""

    NOTHING_BEFORE = 0
    FOR_PYTHON = 1
    BOUNDARY = 2
    PAUSE = 3
    START = 4
    SERVE = 5


_OUTCOMES = tuple(Outcome)


def available() -> bool:
    """Whether there is a compiled engine."""
    return library() is not None


def _longest(code: TimedCode) -> int:
    """The most wavefronts of an access of a program."""
    tables = [item.costs for item in code.items if isinstance(item, TimedOperation) and item.costs]
    return max((max(executions.entries) for table in tables for executions in table.values()), default=0)


class CompiledEngine:
    """The compiled engine for one SM. Works only where it is `available`."""

    def __init__(self, sm: Sm) -> None:
        compiled = library()
        assert compiled is not None
        self.sm, self.record = sm, sm.record
        self._run, self._state = compiled.tcsim_engine_run, compiled.tcsim_engine_state
        self._run.restype = self._state.restype = ctypes.c_int64
        self._arguments = ctypes.byref(self.record)
        self._number = ctypes.c_int64()
        self._words = array("q", bytes(8 * _STATE))
        self._kept: list[object] = []  # what the records point to
        self._registers: dict[tuple[int, ...], array[int]] = {}
        self._rules()
        self._parts()

    def run(self, until: int) -> tuple[Outcome, SubCore]:
        """Lets sub-cores step until nothing happens before cycle `until`, or something is left to Python.

        Returns:
            why it has stopped, and the sub-core that stepped last or is to step.
        """
        outcome = self._run(self._arguments, ctypes.c_int64(until), ctypes.c_int64(STEPS), ctypes.byref(self._number))
        return _OUTCOMES[outcome], self.sm.cores[self._number.value]

    @property
    def boundary(self) -> tuple[int, TimedLoop]:
        """After BOUNDARY: the place of the warp, and the loop whose end it is at."""
        warp = self.sm.warps[self.record.boundary_warp]
        loop = warp.code.items[self.record.boundary_item]
        assert isinstance(loop, TimedLoop)
        return self.record.boundary_warp, loop

    def state(self) -> bytes:
        """The state of shared memory, sub-cores and warps, relative to now: the words of `Skipper.words`."""
        while True:
            length = self._state(
                self._arguments, ctypes.c_void_p(self._words.buffer_info()[0]), ctypes.c_int64(len(self._words))
            )
            if length < 0:
                self.sm.shared.serve_all(self.record.now)
            elif length <= len(self._words):
                return self._words[:length].tobytes()
            else:
                self._words = array("q", bytes(16 * length))

    def _rules(self) -> None:
        """Writes down what the config says."""
        sm, record, config = self.sm, self.record, self.sm.config
        record.unlike_margin, record.margin = sm.cores[0].unlike_margin, sm.margin
        record.policy, record.width = POLICIES.index(config.issue.policy), config.issue.width
        record.others, record.metadata_cycles = config.sm.tensor_pipes - 1, config.sm.metadata_cycles
        for table, names in (
            (config.pipe, ("sparse_after_dense", "integer", "access", "port_delay", "turnaround", "gap")),
            (
                config.shared,
                (
                    "cycles",
                    "wavefronts",
                    "wavefront_interval",
                    "port_cycles",
                    "queue",
                    "queue_latency",
                    "vector_gap",
                    "vector_after",
                    "waiting",
                    "store_latency",
                    "operand_latency",
                ),
            ),
        ):
            for name in names:
                setattr(record, name, getattr(table, name))
        record.fetch = config.sequences.fetch if config.sequences is not None else -1
        if config.fetch is not None:
            record.lines, record.line_interval = config.fetch.lines, config.fetch.interval
            record.line_request, record.line_latency = config.fetch.request, config.fetch.latency
        record.stores = STORES
        record.loop_minimum = config.loop.minimum
        record.units, record.reasons = len(Unit), len(StallReason)
        record.tensor, record.alu, record.fma = Unit.TENSOR, Unit.ALU, Unit.FMA
        record.shared, record.control, record.global_ = Unit.SHARED, Unit.CONTROL, Unit.GLOBAL
        record.issued, record.dependency, record.sequence = (
            StallReason.ISSUED,
            StallReason.DEPENDENCY,
            StallReason.SEQUENCE,
        )
        record.branch, record.reason_issue, record.reason_shared = (
            StallReason.BRANCH,
            StallReason.ISSUE,
            StallReason.SHARED,
        )
        extra = array("q", [cycles for row in sm.extra for cycles in row])
        record.started = -1
        record.longest = config.shared.vector_gap + max(map(_longest, sm.codes), default=0)
        counters, none = sm.counters, array("q", [0] * sm.ctas)
        link(record, extra=extra, pipe_taken=sm.pipe_taken, produced_by=sm.produced_by)
        link(record, stalls=counters.stalls, issued=counters.issued, shared_busy=counters.shared)
        link(record, tensor_busy=counters.busy[Unit.TENSOR], alu_busy=counters.busy[Unit.ALU])
        if sm.queues is None:
            link(record, queue_full=none, room_since=none)
        self._kept += (extra, none)

    def _parts(self) -> None:
        """Writes down the programs, and where sub-cores and warps are."""
        items = {id(code): self._items(code) for code in self.sm.codes}
        for warp in self.sm.warps:
            warp.items_array = ctypes.addressof(items[id(warp.code)])
            warp.link_costs()
        for name, records in (("cores", self.sm.cores), ("warps", self.sm.warps)):
            addresses = array("q", [ctypes.addressof(record) for record in records])
            setattr(self.record, name, len(records))
            link(self.record, **{name: addresses})
            self._kept.append(addresses)

    def _items(self, code: TimedCode) -> ctypes.Array[ItemRecord]:
        records = (ItemRecord * len(code.items))()
        names = [name for name, _ in fields(ItemRecord) if name in TimedOperation.__slots__]
        for record, item, inside in zip(records, code.items, code.inside, strict=True):
            record.looped = bool(inside)
            if isinstance(item, TimedLoop):
                record.loop, record.loop_start, record.loop_count = item.loop, item.start, item.count
                record.coded, record.branch = item.coded, item.branch
                self._array(record, "unread", item.unread)
                self._array(record, "awaits", item.awaits)
                continue
            record.loop = -1
            record.python = item.jobs is not None or item.unit in (*ASYNCHRONOUS, Unit.BARRIER)
            record.queued = item.unit is Unit.TCGEN05
            for name in names:
                setattr(record, name, getattr(item, name))
            self._array(record, "upkeep", item.upkeep)
            self._array(record, "awaits", item.awaits)
            self._array(record, "operands", item.operands)
            self._array(record, "sources", item.sources)
            self._array(record, "reads", item.reads)
            self._array(record, "writes", item.writes)
        self._kept.append(records)
        return records

    def _array(self, record: ItemRecord, name: str, registers: tuple[int, ...]) -> None:
        if registers not in self._registers:
            self._registers[registers] = array("q", registers)
        setattr(record, f"{name}_count", len(registers))
        link(record, **{name: self._registers[registers]})
