"""The way from an SM to global memory: loads, stores, cp.async with its groups, bulk copies.

Lines come back `latency` cycles after they have been asked for at the earliest, over the SM's path (`l2_path.py`). Bulk
copies come over a path of their own: another unit asks for them, and a store does not wait until they have come
(assumed: nobody has measured both at once). What a copy brings is then written to shared memory, in the queue of all
other accesses there, wavefront by wavefront. A group is complete when all of its copies are written.

Everything is taken to be in L2.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from isa.forms.record import Unit
from simulator.chip.memory import L2, Memory
from simulator.compiler.timed_code import StallReason, TimedOperation
from simulator.execute.dynamic_info import (
    BulkFacts,
    CommitGroupFacts,
    CopyArriveFacts,
    FetchFacts,
    WaitGroupFacts,
)
from simulator.state.global_memory import LINE_BYTES, SECTOR_BYTES
from simulator.state.windows import LOCAL
from simulator.timing.asynchronous import Asynchronous
from simulator.timing.events import LANDING, At
from simulator.timing.l2_path import COPIES, L2Path
from simulator.timing.machine import Machine
from simulator.timing.observer import Issue
from simulator.timing.pipes import Pipes
from simulator.timing.shared_memory import SharedMemory
from simulator.timing.warp import Warp

_CACHED = ("load", "cached copy")  # what L1 keeps
_LOCAL_SECTOR = LOCAL // SECTOR_BYTES  # from here on local memory, of which L1 keeps what is stored, too (assumed)
_PAGE_LINES = 32  # lines of 4 KB, which lie in one half of L2
_BULK_LINES = 8  # lines of a bulk copy that are written to shared memory together


@dataclass(slots=True)
class Group:
    """Copies of one warp that are waited for together.

    Attributes:
        missing: how many of them have not arrived.
        written: the cycle in which the last of those that have arrived is written.
    """

    missing: int = 0
    written: int = 0


@dataclass(slots=True)
class Flight:
    """Data on the way to shared memory: the wavefronts that they take there, and the group, or the mbarrier and its
    bytes, that they count for."""

    warp: Warp
    wavefronts: int
    group: Group | None = None
    bulk: BulkFacts | None = None
    bytes: int = 0
    issue: Issue | None = None  # for an observer
    part: Group | None = None  # what an mbarrier waits for


@dataclass(slots=True)
class Groups:
    """The groups of a warp.

    Attributes:
        open: the copies that no commit covers yet.
        committed: the committed groups, the oldest first.
        allowed: how many of the youngest groups may be incomplete for the waiting warp to go on.
        part: the copies that no cp.async.mbarrier.arrive covers yet.
        parts: those that one covers, and what it does then, the oldest first.
    """

    open: Group = field(default_factory=Group)
    committed: deque[Group] = field(default_factory=deque)
    allowed: int = 0
    part: Group = field(default_factory=Group)
    parts: deque[tuple[Group, CopyArriveFacts]] = field(default_factory=deque)


def _far(line: int) -> bool:
    """Whether a line's home is the far half of L2: half of the pages of 4 KB are. Which ones is not published; the sum
    of the bits of the page's number stands for it."""
    return bool(((line // _PAGE_LINES) >> 1).bit_count() & 1)


class GlobalMemory:
    """The data that are under way between each SM and L2.

    Where nothing but groups waits for copies and writing them takes no cycles of shared memory, a copy's arrival is
    kept in its group: a warp that waits plans when it looks again. Else each arrival is planned.

    Attributes:
        grouped: whether that is so.
        flights: what is planned to arrive; looks: the warps that will look again whether their groups are complete.
    """

    def __init__(
        self,
        machine: Machine,
        shared: SharedMemory,
        queues: Asynchronous | None,
        memory: Memory,
        l2: L2 | None = None,
        sms: int = 1,
    ) -> None:
        self.machine, self.shared, self.queues, self.observer = machine, shared, queues, machine.observer
        self.memory, self.path = memory, L2Path(machine, shared, memory, l2, sms)
        self.store_free = [0] * machine.ctas  # when it takes the next store
        self.groups = {warp.id: Groups() for warp in machine.warps}
        self.lines: list[dict[int, int]] = [{} for _ in range(machine.ctas)]  # sectors in L1, and since when
        self.touched: set[int] = set()  # lines that have come before
        self.device_latency = 0  # of lines that come for the first time, where L2 begins empty
        self.grouped = queues is None and machine.observer is None and not memory.write_cycles
        machine.record.copies = self.grouped
        self.flights: dict[At, Flight] = {}
        self.looks: dict[At, Warp] = {}

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way."""
        return not self.flights

    def launch(self, core: Pipes, warp: Warp, operation: TimedOperation, now: int) -> int:
        """Issues an operation; returns the cycles until its registers are written."""
        job = warp.job(operation)
        for register in operation.writes:
            warp.ready[register], warp.producers[register] = now + 1, Unit.GLOBAL
        match job.fact if job is not None else None:
            case FetchFacts() as fact:
                return self.fetch(core, warp, operation, fact, now)
            case BulkFacts() as fact:
                return self.bulk(core, warp, fact, now)
            case CommitGroupFacts():
                self.commit(warp)
            case WaitGroupFacts(groups=groups, commit=commit):
                if commit:
                    self.commit(warp)
                self.wait(warp, groups, now)
            case CopyArriveFacts() as fact:
                self.arrive_after(warp, fact, now)
        return 1

    def fetch(self, core: Pipes, warp: Warp, operation: TimedOperation, fact: FetchFacts, now: int) -> int:
        """Issues a load, a store or a copy of a warp; returns the cycles until its registers are written."""
        rules, cta = self.memory, warp.cta
        copies = fact.kind in COPIES
        cycles = fact.lines * rules.line_cycles
        if fact.kind == "cached copy":
            cycles = max(cycles, rules.cached_cycles)
        if fact.where and fact.kind != "store":
            return self.located(core, warp, operation, fact, now)
        begin = self.path.send(core, warp, operation, cycles, now)
        if fact.kind == "store":
            start = max(begin, self.store_free[cta])
            done = start + max(-(-fact.sectors * 32 // rules.store_bytes), 1)
            self.store_free[cta] = self.path.share(cta, done, fact.sectors * 32, write=True)
            warp.access = max(warp.access, start)
            if fact.where and fact.where[0] >= _LOCAL_SECTOR:
                self.lines[cta].update(dict.fromkeys(fact.where, start))
            return self.store_free[cta] - now
        soonest = begin + (rules.copy_latency if copies else rules.latency)
        arrival = self.path.share(cta, soonest, fact.sectors * SECTOR_BYTES, fact.lines)
        return self.arrive(warp, operation, fact, arrival, now)

    def arrive(self, warp: Warp, operation: TimedOperation, fact: FetchFacts, arrival: int, now: int) -> int:
        """Lets what was fetched come to its registers, or to shared memory, in a later cycle; returns the cycles until
        its registers are written."""
        if fact.kind == "load":
            for register in operation.writes:
                warp.ready[register] = arrival
            return arrival - now
        if self.grouped:
            warp.copied = max(warp.copied, arrival)
            self.machine.lasts(arrival)
            return 1
        group, part = self.groups[warp.id].open, self.groups[warp.id].part
        group.missing += 1
        part.missing += 1
        self.fly(arrival, Flight(warp, fact.wavefronts, group, part=part))
        return 1

    def located(self, core: Pipes, warp: Warp, operation: TimedOperation, fact: FetchFacts, now: int) -> int:
        """Issues a load or a copy whose sectors are known: what L1 has, or what is on its way there, is not fetched
        again."""
        rules, cta, kept = self.memory, warp.cta, self.lines[warp.cta]
        missing, later = fact.where, 0
        if fact.kind in _CACHED:
            missing = tuple(sector for sector in fact.where if sector not in kept)
            later = max((kept[sector] for sector in fact.where if sector in kept), default=0)
        lines = {sector * SECTOR_BYTES // LINE_BYTES for sector in missing}
        cycles = len(lines) * rules.line_cycles
        if fact.kind == "cached copy":
            cycles = max(cycles, rules.cached_cycles)
        begin = self.path.send(core, warp, operation, cycles, now)
        arrival = max(begin + rules.l1_latency, later)
        if missing:
            latency = (rules.latency if fact.kind == "load" else rules.copy_latency) + self.further(lines)
            arrival = max(arrival, self.path.share(cta, begin + latency, len(missing) * SECTOR_BYTES, len(lines)))
            if fact.kind in _CACHED:
                kept.update(dict.fromkeys(missing, arrival))
        return self.arrive(warp, operation, fact, arrival, now)

    def further(self, lines: set[int]) -> int:
        """Cycles that lines take beyond those of L2's near half: the first time from the far half, or from device
        memory."""
        new = lines - self.touched
        self.touched |= new
        far = any(_far(line) for line in new)
        return self.memory.far_latency * far + (self.device_latency if new else 0)

    def bulk(self, core: Pipes, warp: Warp, fact: BulkFacts, now: int) -> int:
        """Issues a bulk copy: its thread goes on after `bulk_cycles`, the lines come in pieces."""
        rules, soonest = self.memory, now + self.memory.bulk_latency
        warp.wait_until(now + rules.bulk_cycles, StallReason.GLOBAL)
        lines = max(fact.lines, 1)
        for first in range(0, lines, _BULK_LINES):
            piece = min(_BULK_LINES, lines - first)
            last = first + piece == lines
            cycles = -(-piece * LINE_BYTES // rules.bulk_bytes)
            there = self.path.bring(warp.cta, soonest, cycles, bulk=True)
            arrival = self.path.share(warp.cta, there, piece * LINE_BYTES, piece)
            self.fly(arrival, Flight(warp, piece, None, fact, fact.bytes if last else 0))
        return 1

    # Groups

    def commit(self, warp: Warp) -> None:
        """Closes the warp's open group."""
        groups = self.groups[warp.id]
        groups.open.written = max(groups.open.written, warp.copied)
        groups.committed.append(groups.open)
        groups.open, warp.copied = Group(), 0

    def arrive_after(self, warp: Warp, fact: CopyArriveFacts, now: int) -> None:
        """Lets the warp's copies so far arrive at an mbarrier."""
        assert self.queues is not None
        groups = self.groups[warp.id]
        if not fact.counted:
            self.queues.phase(fact.barrier).pending += fact.count
        groups.parts.append((groups.part, fact))
        groups.part = Group()
        self.arrive_parts(groups, now)

    def arrive_parts(self, groups: Groups, now: int) -> None:
        """Lets those copies of a warp arrive at their mbarriers that have come."""
        while groups.parts and not groups.parts[0][0].missing:
            part, fact = groups.parts.popleft()
            assert self.queues is not None
            self.queues.fly((fact.barrier,) * fact.count, max(part.written, now) + self.machine.mbarrier_latency)

    def wait(self, warp: Warp, allowed: int, now: int) -> None:
        """Lets the warp go on when all of its groups but the last `allowed` are complete."""
        groups = self.groups[warp.id]
        groups.allowed = allowed
        awaited = self.awaited(groups)
        last = max((group.written for group in awaited), default=0) if self.grouped else 0
        if last > now:
            warp.blocked = StallReason.GLOBAL
            self.looks[self.machine.calendar.plan(last, LANDING, self.arrived)] = warp
        elif any(group.missing for group in awaited):
            warp.blocked = StallReason.GLOBAL
        else:
            warp.wait_until(self.complete(groups, now), StallReason.GLOBAL)

    @staticmethod
    def awaited(groups: Groups) -> list[Group]:
        """The committed groups that the warp waits for."""
        return [group for place, group in enumerate(groups.committed) if place < len(groups.committed) - groups.allowed]

    def complete(self, groups: Groups, now: int) -> int:
        """Forgets the groups that were waited for; returns the cycle in which the warp can issue."""
        done = self.awaited(groups)
        for _ in done:
            groups.committed.popleft()
        return max((group.written for group in done), default=0) if done else now + 1

    # Arrivals

    def fly(self, cycle: int, flight: Flight) -> None:
        """Plans the arrival of data in a later cycle."""
        flight.issue = self.observer.current if self.observer is not None else None
        self.flights[self.machine.calendar.plan(cycle, LANDING, self.landed)] = flight

    def landed(self, arrival: At) -> None:
        """Lets data arrive: they are written to shared memory, and count for their group or mbarrier."""
        flight, now = self.flights.pop(arrival), self.machine.now
        written = now
        if self.observer is not None:
            self.observer.resume(flight.issue)
        if cycles := flight.wavefronts * self.memory.write_cycles:
            written = self.shared.block(flight.warp.cta, now, cycles) + cycles
            self.machine.counters.shared[flight.warp.cta] += cycles * self.shared.slots
        self.machine.lasts(written)
        if self.observer is not None:
            self.observer.complete(written)
        if flight.group is not None:
            flight.group.missing -= 1
            flight.group.written = max(flight.group.written, written)
            if flight.part is not None:
                flight.part.missing -= 1
                flight.part.written = max(flight.part.written, written)
                self.arrive_parts(self.groups[flight.warp.id], now)
            self.look(flight.warp, now)
        elif flight.bulk is not None and flight.bytes:
            assert self.queues is not None
            self.queues.transact(flight.bulk.barrier, -flight.bytes, written)
        self.machine.check_done()

    def arrived(self, arrival: At) -> None:
        """Lets a warp look whose copies have all arrived."""
        self.look(self.looks.pop(arrival), self.machine.now)
        self.machine.check_done()

    def look(self, warp: Warp, now: int) -> None:
        """Releases the warp if what it waits for is complete."""
        groups = self.groups[warp.id]
        if warp.blocked == StallReason.GLOBAL and not any(group.missing for group in self.awaited(groups)):
            self.machine.release(warp, max(self.complete(groups, now), now), StallReason.GLOBAL)

    def state(self, now: int) -> tuple[object, ...]:
        """All that decides what happens next, in cycles relative to `now`."""
        places = {
            id(group): (number, place)
            for number, groups in self.groups.items()
            for place, group in enumerate([*groups.committed, groups.open])
        }  # fmt: skip
        flights = tuple(
            (arrival.at - now, what.wavefronts, what.warp.id, what.bulk, what.bytes, places.get(id(what.group)))
            for arrival, what in self.flights.items()
        )
        groups = tuple(
            (
                number, g.allowed, tuple((part.missing, fact) for part, fact in g.parts), g.part.missing,
                tuple((group.missing, max(group.written - now, 0)) for group in (*g.committed, g.open)),
            )
            for number, g in self.groups.items()
        )  # fmt: skip
        copied = (warp.copied for warp in self.machine.warps)
        times = tuple(max(cycle - now, 0) for cycle in (*self.store_free, *copied))
        looks = tuple((arrival.at - now, warp.id) for arrival, warp in self.looks.items())
        return (*self.path.state(now), times, flights, looks, groups)
