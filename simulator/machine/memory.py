"""The way from an SM to global memory: loads, stores, cp.async with its groups, bulk copies.

Lines come back `latency` cycles after they have been asked for at the earliest, over the SM's path (`l2`). An access
takes its sub-core's port and, for what it asks for, a few cycles of the pipe that shared memory is reached by. Bulk
copies come over a path of their own: another unit asks for them (`BulkCopies`, a process), and a store does not wait
until they have come (assumed: nobody has measured both at once). What a copy brings is then written to shared memory,
in the queue of all other accesses there, wavefront by wavefront. A group is complete when all of its copies are
written.

Everything is taken to be in L2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import simpy

from isa.forms.record import Unit
from simulator.chip.memory import Memory
from simulator.compiler.timed_code import StallReason, TimedOperation
from simulator.execute.dynamic_info import (
    BulkFacts,
    CommitGroupFacts,
    CopyArriveFacts,
    Fact,
    FetchFacts,
    WaitGroupFacts,
)
from simulator.machine.clock import call_at
from simulator.machine.interface import SmOfUnits
from simulator.machine.l2 import L2Path
from simulator.state.global_memory import LINE_BYTES, SECTOR_BYTES
from simulator.state.windows import LOCAL

COPIES = ("copy", "cached copy")  # kinds of `FetchFacts`
_CACHED = ("load", "cached copy")  # what L1 keeps
_LOCAL_SECTOR = LOCAL // SECTOR_BYTES  # from here on local memory, of which L1 keeps what is stored, too (assumed)
_PAGE_LINES = 32  # lines of 4 KB, which lie in one half of L2
_BULK_LINES = 8  # lines of a bulk copy that are written to shared memory together


@dataclass(slots=True)
class Group:
    """Copies of one warp that are waited for together.

    Attributes:
        missing: how many of them are still to be written in a cycle that is not known.
        written: the cycle in which the last of the others is written.
    """

    missing: int = 0
    written: int = 0


@dataclass(slots=True)
class Groups:
    """The groups of a warp.

    Attributes:
        warp: its number over all CTAs.
        open: the copies that no commit covers yet.
        committed: the committed groups, the oldest first.
        allowed: how many of the youngest groups may be incomplete for the waiting warp to go on.
        waiting: whether the warp waits until copies are written, in a cycle that is not known.
        part: the copies that no cp.async.mbarrier.arrive covers yet.
        parts: those that one covers, and what it does then, the oldest first.
    """

    warp: int
    open: Group = field(default_factory=Group)
    committed: deque[Group] = field(default_factory=deque)
    allowed: int = 0
    waiting: bool = False
    part: Group = field(default_factory=Group)
    parts: deque[tuple[Group, CopyArriveFacts]] = field(default_factory=deque)

    def awaited(self) -> list[Group]:
        """The committed groups that the warp waits for."""
        return list(self.committed)[: max(len(self.committed) - self.allowed, 0)]


def _far(line: int) -> bool:
    """Whether a line's home is the far half of L2: half of the pages of 4 KB are. Which ones is not published; the sum
    of the bits of the page's number stands for it."""
    return bool(((line // _PAGE_LINES) >> 1).bit_count() & 1)


class GlobalMemory:
    """The data that are under way between an SM and L2.

    Attributes:
        flights: data that land in a known cycle: the cycle, what they are.
        sectors: in L1, and since when.
        touched: lines that have come before, to any SM.
    """

    def __init__(self, sm: SmOfUnits, memory: Memory, path: L2Path, device_latency: int) -> None:
        self.sm, self.memory, self.path, self.observer = sm, memory, path, sm.observer
        self.device_latency = device_latency
        self.store_free = 0  # when it takes the next store
        self.groups: dict[Any, Groups] = {}
        self.sectors: dict[int, int] = {}
        self.flights: dict[simpy.Event, tuple[int, tuple[object, ...]]] = {}
        self.bulk = BulkCopies(self)

    def launch(self, core: Any, warp: Any, operation: TimedOperation, fact: Fact | None, now: int) -> int:
        """Issues an operation; returns the cycles until its registers are written."""
        for register in operation.writes:
            warp.set_ready(register, now + 1, Unit.GLOBAL)
        match fact:
            case FetchFacts():
                return self.fetch(core, warp, operation, fact, now)
            case BulkFacts():
                warp.wait_until(now + self.memory.bulk_cycles, StallReason.GLOBAL)
                self.bulk.requests.put((fact, self.observer.current if self.observer is not None else None))
            case CommitGroupFacts():
                self.commit(warp)
            case WaitGroupFacts(groups=groups, commit=commit):
                if commit:
                    self.commit(warp)
                self.wait(warp, groups, now)
            case CopyArriveFacts():
                self.arrive_after(warp, fact, now)
        return 1

    def of(self, warp: Any) -> Groups:
        """The groups of a warp."""
        groups = self.groups.get(warp)
        if groups is None:
            groups = self.groups[warp] = Groups(warp.id)
        return groups

    def fetch(self, core: Any, warp: Any, operation: TimedOperation, fact: FetchFacts, now: int) -> int:
        """Issues a load, a store or a copy of a warp; returns the cycles until its registers are written."""
        rules = self.memory
        if fact.where and fact.kind != "store":
            return self.fetch_sectors(core, warp, operation, fact, now)
        begin = self.send(core, warp, operation, self.path_cycles(fact, fact.lines), now)
        if fact.kind == "store":
            return self.store(warp, fact, begin) - now
        soonest = begin + (rules.copy_latency if fact.kind in COPIES else rules.latency)
        arrival = self.path.share(soonest, fact.sectors * SECTOR_BYTES, fact.lines)
        return self.arrive(warp, operation, fact, arrival, now)

    def path_cycles(self, fact: FetchFacts, lines: int) -> int:
        """Cycles of the SM's path for so many lines."""
        cycles = lines * self.memory.line_cycles
        return max(cycles, self.memory.cached_cycles) if fact.kind == "cached copy" else cycles

    def store(self, warp: Any, fact: FetchFacts, begin: int) -> int:
        """Sends what a store writes, from a cycle on; returns the one in which it is done."""
        start = max(begin, self.store_free)
        done = start + max(-(-fact.sectors * SECTOR_BYTES // self.memory.store_bytes), 1)
        self.store_free = self.path.share(done, fact.sectors * SECTOR_BYTES, write=True)
        warp.hold_accesses(start)
        if fact.where and fact.where[0] >= _LOCAL_SECTOR:
            self.sectors.update(dict.fromkeys(fact.where, start))
        return self.store_free

    def fetch_sectors(self, core: Any, warp: Any, operation: TimedOperation, fact: FetchFacts, now: int) -> int:
        """Issues a load or a copy whose sectors are known: what L1 has, or what is on its way there, is not fetched
        again."""
        rules, kept, missing, later = self.memory, self.sectors, fact.where, 0
        cached = fact.kind in _CACHED and fact.kept
        if cached:
            missing = tuple(sector for sector in fact.where if sector not in kept)
            later = max((kept[sector] for sector in fact.where if sector in kept), default=0)
        lines = {sector * SECTOR_BYTES // LINE_BYTES for sector in missing}
        begin = self.send(core, warp, operation, self.path_cycles(fact, len(lines)), now)
        arrival = max(begin + rules.l1_latency, later)
        if missing:
            latency = (rules.latency if fact.kind == "load" else rules.copy_latency) + self.further(lines)
            arrival = max(arrival, self.path.share(begin + latency, len(missing) * SECTOR_BYTES, len(lines)))
            if cached:
                kept.update(dict.fromkeys(missing, arrival))
        return self.arrive(warp, operation, fact, arrival, now)

    def send(self, core: Any, warp: Any, operation: TimedOperation, cycles: int, now: int) -> int:
        """Takes the sub-core's port, the pipe to shared memory, then the path to L2; returns the cycle in which the
        last line has been asked for."""
        rules = self.memory
        last = self.sm.front_code.send_outside(self.sm.front, core, warp, now, rules.port_cycles, rules.pipe_cycles)
        out = self.path.bring(last, cycles)
        warp.went_outside(out)
        return out

    def further(self, lines: set[int]) -> int:
        """Returns the cycles that these lines take beyond those of L2's near half. A line that comes for the first time
        may come from the far half, or from device memory."""
        touched = self.sm.machine.touched
        new = lines - touched
        touched |= new
        return self.memory.far_latency * any(map(_far, new)) + (self.device_latency if new else 0)

    def arrive(self, warp: Any, operation: TimedOperation, fact: FetchFacts, arrival: int, now: int) -> int:
        """Delivers what was fetched to its registers, or to shared memory, in a later cycle; returns the cycles until
        the registers are written."""
        if fact.kind == "load":
            for register in operation.writes:
                warp.set_ready(register, arrival, Unit.GLOBAL)
            return arrival - now
        groups = self.of(warp)
        if self.memory.write_cycles:
            for group in (groups.open, groups.part):
                group.missing += 1
            self.land(arrival, fact.wavefronts, partial(self.written, warp, groups.open, groups.part), warp.id)
            return 1
        groups.open.written = max(groups.open.written, arrival)
        groups.part.written = max(groups.part.written, arrival)
        self.sm.machine.lasts(arrival)
        if self.observer is not None:
            self.observer.complete(arrival)
        return 1

    # What lands in shared memory

    def land(self, cycle: int, wavefronts: int, done: Any, *what: object) -> None:
        """Plans a landing of data: in `cycle` they are written to shared memory, and `done` is called with the cycle in
        which that is over."""
        issue = self.observer.current if self.observer is not None else None
        event = call_at(self.sm.env, cycle, partial(self.landed, wavefronts, done, issue))
        self.flights[event] = cycle, (wavefronts, *what)
        self.sm.machine.limit(cycle)

    def landed(self, wavefronts: int, done: Any, issue: Any, event: simpy.Event) -> None:
        """Writes data that land to shared memory."""
        written, _ = self.flights.pop(event)
        if self.observer is not None:
            self.observer.resume(issue)
        if cycles := wavefronts * self.memory.write_cycles:
            written = self.sm.front_code.block_shared(self.sm.front, written, cycles) + cycles
        self.sm.machine.lasts(written)
        if self.observer is not None:
            self.observer.complete(written)
        done(written)

    def written(self, warp: Any, group: Group, part: Group, cycle: int) -> None:
        """Notes that a copy has been written, for the two groups that count it."""
        for waiting in (group, part):
            waiting.missing -= 1
            waiting.written = max(waiting.written, cycle)
        groups, now = self.of(warp), int(self.sm.env.now)
        self.arrive_parts(groups, now)
        if groups.waiting and not any(group.missing for group in groups.awaited()):
            groups.waiting = False
            self.sm.release(warp, max(self.complete(groups, now), now), StallReason.GLOBAL)

    # Groups

    def commit(self, warp: Any) -> None:
        """Closes the warp's open group."""
        groups = self.of(warp)
        groups.committed.append(groups.open)
        groups.open = Group()

    def arrive_after(self, warp: Any, fact: CopyArriveFacts, now: int) -> None:
        """Makes the warp's copies so far arrive at an mbarrier when they are complete."""
        groups = self.of(warp)
        if not fact.counted:
            self.sm.machine.mbarriers.phase(fact.barrier).pending += fact.count
        groups.parts.append((groups.part, fact))
        groups.part = Group()
        self.arrive_parts(groups, now)

    def arrive_parts(self, groups: Groups, now: int) -> None:
        """Plans the arrivals of those copies of a warp whose last landing is known."""
        while groups.parts and not groups.parts[0][0].missing:
            part, fact = groups.parts.popleft()
            latency = self.sm.machine.mbarrier_latency
            self.sm.machine.mbarriers.arrive_at(max(part.written, now) + latency, (fact.barrier,) * fact.count)

    def wait(self, warp: Any, allowed: int, now: int) -> None:
        """Lets the warp go on when all of its groups but the last `allowed` are complete."""
        groups = self.of(warp)
        groups.allowed = allowed
        awaited = groups.awaited()
        last = max((group.written for group in awaited), default=0)
        if any(group.missing for group in awaited):
            warp.blocked, groups.waiting = StallReason.GLOBAL, True
        elif last > now:
            warp.blocked = StallReason.GLOBAL
            self.flights[call_at(self.sm.env, last, partial(self.look, warp))] = last, (warp.id,)
            self.sm.machine.limit(last)
        else:
            warp.wait_until(self.complete(groups, now), StallReason.GLOBAL)

    def look(self, warp: Any, event: simpy.Event) -> None:
        """Releases a warp that has waited for its groups."""
        cycle, _ = self.flights.pop(event)
        self.sm.release(warp, max(self.complete(self.of(warp), cycle), cycle), StallReason.GLOBAL)

    @staticmethod
    def complete(groups: Groups, now: int) -> int:
        """Forgets the groups that were waited for; returns the cycle in which the warp can issue."""
        done = groups.awaited()
        for _ in done:
            groups.committed.popleft()
        return max((group.written for group in done), default=0) if done else now + 1

    def state(self, now: int) -> tuple[object, ...]:
        """Returns all that decides what happens next, in cycles relative to `now`."""
        flights = tuple((cycle - now, what) for cycle, what in self.flights.values())
        groups = tuple(
            (
                g.warp, g.allowed, g.waiting, tuple((part.missing, fact) for part, fact in g.parts),
                tuple((group.missing, max(group.written - now, 0)) for group in (*g.committed, g.open, g.part)),
            )
            for g in self.groups.values()
        )  # fmt: skip
        kept = tuple((sector, max(since - now, 0)) for sector, since in self.sectors.items())
        known = hash(kept), len(self.sm.machine.touched)
        return (self.path.state(now), max(self.store_free - now, 0), flights, groups, known)


class BulkCopies:
    """The copy engine of an SM: a process that takes bulk copies from a SimPy store and asks for their lines, piece by
    piece."""

    def __init__(self, memory: GlobalMemory) -> None:
        self.memory, self.requests = memory, simpy.Store(memory.sm.env)
        memory.sm.env.process(self.run())

    def run(self) -> Generator[simpy.Event, Any, None]:
        """Serves one request after the other."""
        while True:
            fact, issue = yield self.requests.get()
            if self.memory.observer is not None:
                self.memory.observer.resume(issue)
            self.copy(fact)

    def copy(self, fact: BulkFacts) -> None:
        """Asks for the lines of a bulk copy, which land in pieces; with the last its bytes count at its mbarrier."""
        memory, rules, lines = self.memory, self.memory.memory, max(fact.lines, 1)
        soonest = int(memory.sm.env.now) + rules.bulk_latency
        for first in range(0, lines, _BULK_LINES):
            piece = min(_BULK_LINES, lines - first)
            there = memory.path.bring(soonest, -(-piece * LINE_BYTES // rules.bulk_bytes), bulk=True)
            arrival = memory.path.share(there, piece * LINE_BYTES, piece)
            size = fact.bytes if first + piece == lines else 0
            memory.land(arrival, piece, partial(self.count, fact, size), fact, size)

    def count(self, fact: BulkFacts, size: int, written: int) -> None:
        """Counts the bytes of a copy that has landed as a whole."""
        if size:
            self.memory.sm.machine.mbarriers.transact(fact.barrier, -size, written)
