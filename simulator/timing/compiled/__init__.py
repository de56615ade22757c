"""Calls the compiled engine: `engine.c` runs the sub-cores of an SM ahead, on the records that Python works on, too.

It is a part of the compiled kernel (`simulator.arithmetic.compiled`), optional as the rest of it, and with the same
cycles, stalls and counters as Python's own rules.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Iterable, Mapping
from enum import IntEnum
from operator import attrgetter
from typing import NamedTuple, cast

from isa.forms.record import Unit
from simulator.arithmetic.compiled import library
from simulator.chip.tables import POLICIES
from simulator.compiler.timed_code import Periodic, StallReason, TimedCode, TimedLoop, TimedOperation
from simulator.execute.dynamic_info import FetchFacts
from simulator.timing.cores import SubCore
from simulator.timing.l2_path import fetched_word, is_copy
from simulator.timing.records import ItemRecord, fields, link
from simulator.timing.shared_memory import STORES
from simulator.timing.sm import ASYNCHRONOUS, Sm
from simulator.timing.warp import Warp

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
    OVER = 6


_OUTCOMES = tuple(Outcome)
# an instruction's record is words of 64 bits: the place of each field, by name
_AT = {name: place for place, (name, _) in enumerate(fields(ItemRecord))}
_NAMES = [name for name in _AT if name in TimedOperation.__slots__]
_PLACES, _values = [_AT[name] for name in _NAMES], attrgetter(*_NAMES)
_LISTS = ("upkeep", "awaits", "operands", "sources", "reads", "writes")
_lists = attrgetter(*_LISTS)


def available() -> bool:
    """Whether there is a compiled engine."""
    return library() is not None


def _fetched(item: TimedOperation | TimedLoop, warps: Iterable[int]) -> dict[int, Periodic[int]]:
    """What the copies of an operation fetch, by warp; empty if its executions are not all copies, which the compiled
    engine can issue."""
    if not isinstance(item, TimedOperation) or not item.jobs or item.writes or not item.jobs.keys() >= set(warps):
        return {}
    if not all(is_copy(job.fact) for runs in item.jobs.values() for job in runs.entries):
        return {}
    return {
        warp: Periodic(tuple(fetched_word(cast(FetchFacts, job.fact)) for job in runs.entries), runs.prefix)
        for warp, runs in item.jobs.items()
    }


class _Program(NamedTuple):
    """A program as the compiled engine has it: its records, what its accesses and copies take by place and warp, the
    places of the ends of its loops, the most wavefronts of an access, and whether it is known where instructions
    lie."""

    code: TimedCode
    records: ctypes.Array[ItemRecord]
    costs: dict[int, Mapping[int, Periodic[int]]]
    ends: list[int]
    longest: int
    addressed: bool

    @property
    def address(self) -> int:
        """Where the records are."""
        return ctypes.addressof(self.records)


class Programs:
    """Programs as the compiled engine has them, which several runs share. From one to the next nothing of a program may
    change but its warps and how often its loops run."""

    def __init__(self) -> None:
        self._known: dict[int, _Program] = {}  # by the identity of the items
        self._numbers: dict[tuple[int, ...], array[int]] = {}  # what the records point to

    def find(self, code: TimedCode) -> _Program:
        """The program, with the counts that its loops have now."""
        if id(code.items) not in self._known:
            self._known[id(code.items)] = self._made(code)
        program = self._known[id(code.items)]
        for place in program.ends:
            end = code.items[place]
            assert isinstance(end, TimedLoop)
            program.records[place].loop_count = end.count
        return program

    def _made(self, code: TimedCode) -> _Program:
        costs: dict[int, Mapping[int, Periodic[int]]] = {
            place: item.costs
            for place, item in enumerate(code.items)
            if isinstance(item, TimedOperation) and item.costs
        }
        longest = max((max(runs.entries) for table in costs.values() for runs in table.values()), default=0)
        ends = [place for place, item in enumerate(code.items) if isinstance(item, TimedLoop)]
        addressed = any(isinstance(item, TimedOperation) and item.cache_line >= 0 for item in code.items)
        fetched = [_fetched(item, code.warps) for item in code.items]
        costs |= {place: by_warp for place, by_warp in enumerate(fetched) if by_warp}
        return _Program(code, self._items(code, map(bool, fetched)), costs, ends, longest, addressed)

    def _items(self, code: TimedCode, copies: Iterable[bool]) -> ctypes.Array[ItemRecord]:
        words = array("q")
        for item, inside, copied in zip(code.items, code.inside, copies, strict=True):
            row = self._loop(item) if isinstance(item, TimedLoop) else self._operation(item)
            row[_AT["looped"]], row[_AT["copies"]] = bool(inside), copied
            words.extend(row)
        return (ItemRecord * len(code.items)).from_buffer(words)

    def _operation(self, item: TimedOperation) -> list[int]:
        """The words of an operation's record."""
        row = [0] * len(_AT)
        for place, value in zip(_PLACES, _values(item), strict=True):
            row[place] = value
        row[_AT["loop"]] = -1
        row[_AT["python"]] = item.jobs is not None or item.unit in (*ASYNCHRONOUS, Unit.BARRIER)
        row[_AT["queued"]] = item.unit is Unit.TCGEN05
        for name, numbers in zip(_LISTS, _lists(item), strict=True):
            self._array(row, name, numbers)
        return row

    def _loop(self, item: TimedLoop) -> list[int]:
        """The words of the record of a loop's end."""
        row = [0] * len(_AT)
        row[_AT["loop"]], row[_AT["loop_start"]], row[_AT["loop_count"]] = item.loop, item.start, item.count
        row[_AT["coded"]], row[_AT["branch"]] = item.coded, item.branch
        self._array(row, "unread", item.unread)
        self._array(row, "awaits", item.awaits)
        return row

    def _array(self, row: list[int], name: str, numbers: tuple[int, ...]) -> None:
        """Notes in the words of a record how many numbers there are, and where."""
        if numbers not in self._numbers:
            self._numbers[numbers] = array("q", numbers)
        row[_AT[f"{name}_array"]], row[_AT[f"{name}_count"]] = self._numbers[numbers].buffer_info()


class CompiledEngine:
    """The compiled engine for one SM. Works only where it is `available`.

    Args:
        programs: has the records of the SM's programs.
    """

    def __init__(self, sm: Sm, programs: Programs) -> None:
        compiled = library()
        assert compiled is not None
        self.sm, self.record = sm, sm.record
        self._run, self._state = compiled.tcsim_engine_run, compiled.tcsim_engine_state
        self._run.restype = self._state.restype = ctypes.c_int64
        self._run.argtypes = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
        self._state.argtypes = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
        self._settle = compiled.tcsim_engine_settle
        self._settle.restype, self._settle.argtypes = None, (ctypes.c_void_p, ctypes.c_int64)
        self._place = compiled.tcsim_engine_place
        self._place.restype, self._place.argtypes = ctypes.c_int64, (ctypes.c_void_p, *[ctypes.c_int64] * 3)
        self._drain = compiled.tcsim_engine_drain
        self._drain.restype, self._drain.argtypes = None, (ctypes.c_void_p,)
        self._address, self._number = ctypes.addressof(self.record), array("q", [0])
        self._number_address = self._number.buffer_info()[0]
        self._words = array("q", bytes(8 * _STATE))
        self._kept: list[object] = [programs]  # what the records point to
        found = {id(code): programs.find(code) for code in sm.codes}
        self._rules([*found.values()])
        self._parts(found)

    def run(self, until: int) -> tuple[Outcome, SubCore]:
        """Lets sub-cores step until nothing happens before cycle `until`, or something is left to Python.

        Returns:
            why it has stopped, and the sub-core that stepped last or is to step.
        """
        outcome = self._run(self._address, until, STEPS, self._number_address)
        return _OUTCOMES[outcome], self.sm.cores[self._number[0]]

    def settle(self, core: SubCore) -> None:
        """Brings a sub-core to the present cycle: `SubCore.settle`."""
        self._settle(self._address, core.number)

    def place(self, sm: int, soonest: int, count: int) -> int:
        """Takes wavefronts of an SM that are in its window: `Slots.last_of`."""
        last: int = self._place(self._address, sm, soonest, count)
        return last

    def drain(self) -> None:
        """Serves what waits at the end of a run, as far as it can: `SharedMemory.drain`."""
        self._drain(self._address)

    @property
    def over(self) -> Warp:
        """After OVER: the warp whose program is over."""
        return self.sm.warps[self.record.boundary_warp]

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
            length = self._state(self._address, self._words.buffer_info()[0], len(self._words))
            if length < 0:
                self.sm.shared.serve_all(self.record.now)
            elif length <= len(self._words):
                return self._words[:length].tobytes()
            else:
                self._words = array("q", bytes(16 * length))

    def _rules(self, found: list[_Program]) -> None:
        """Writes down what the config says, and what matters of the programs."""
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
            record.line_read, record.line_room = config.fetch.read, config.fetch.room
            record.line_latency = config.fetch.latency
            if any(program.addressed for program in found):
                record.lines, record.line_interval = config.fetch.lines, config.fetch.interval
                record.line_request, record.line_places = config.fetch.request, config.fetch.line
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
        record.longest = max((program.longest for program in found), default=0)
        counters, none = sm.counters, array("q", [0] * sm.ctas)
        link(record, extra=extra, pipe_taken=sm.pipe_taken, produced_by=sm.produced_by)
        link(record, stalls=counters.stalls, issued=counters.issued, shared_busy=counters.shared)
        link(record, tensor_busy=counters.busy[Unit.TENSOR], alu_busy=counters.busy[Unit.ALU])
        if sm.queues is None:
            link(record, queue_full=none, room_since=none)
        self._kept += (extra, none)

    def _parts(self, programs: dict[int, _Program]) -> None:
        """Writes down the programs, and where sub-cores and warps are."""
        for warp in self.sm.warps:
            program = programs[id(warp.code)]
            warp.items_array = program.address
            warp.link_costs(program.costs)
        for name, records in (("cores", self.sm.cores), ("warps", self.sm.warps)):
            addresses = array("q", [ctypes.addressof(record) for record in records])
            setattr(self.record, name, len(records))
            link(self.record, **{name: addresses})
            self._kept.append(addresses)
