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
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import simpy

from isa.forms.record import Unit
from simulator.compiler.timed_code import StallReason, TimedOperation
from simulator.execute.dynamic_info import (
    Barrier,
    BulkFacts,
    BulkGroupFacts,
    BulkStoreFacts,
    CommitGroupFacts,
    CopyArriveFacts,
    Fact,
    FetchFacts,
    FetchKind,
    PeerFacts,
    WaitGroupFacts,
)
from simulator.machine.bulk_stores import BulkStores
from simulator.machine.clock import call_at
from simulator.machine.interface import Core, SmOfUnits, Warp
from simulator.machine.l2 import L2, BulkRequest, Path, Way
from simulator.machine.peers import Peers
from simulator.state.global_memory import LINE_BYTES, SECTOR_BYTES
from simulator.state.windows import LOCAL

_KEPT = (FetchKind.LOAD, FetchKind.CACHED_COPY)  # what L1 keeps
_LOCAL_SECTOR = LOCAL // SECTOR_BYTES  # from here on local memory, of which L1 keeps what is stored, too (assumed)
_LINE_SECTORS = LINE_BYTES // SECTOR_BYTES


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


class Lookup(NamedTuple):
    """What L1 has of an access.

    Attributes:
        sectors, lines: how many L2 is asked for.
        missing: the numbers of these sectors, where they are known.
        hit: whether L1 has others, or will have them in the cycle `hits_ready`.
        kept: whether L1 keeps what comes.
    """

    sectors: int
    lines: int
    missing: tuple[int, ...] = ()
    hit: bool = False
    hits_ready: int = 0
    kept: bool = False


class L1:
    """The L1 cache of an SM, where an access says which sectors it touches (launches of kernels): what L1 has, or what
    is on its way there, is not fetched again. Nothing leaves it.

    Attributes:
        sectors: in L1, and since when.
    """

    def __init__(self) -> None:
        self.sectors: dict[int, int] = {}

    def look_up(self, fact: FetchFacts) -> Lookup:
        """Returns what an access finds, and what it must ask L2 for."""
        kept = fact.kind in _KEPT and fact.kept
        if not (fact.where and kept):
            return Lookup(fact.sectors, fact.lines, () if fact.kind is FetchKind.STORE else fact.where)
        hits = [self.sectors[sector] for sector in fact.where if sector in self.sectors]
        missing = tuple(sector for sector in fact.where if sector not in self.sectors) if hits else fact.where
        lines = len({sector // _LINE_SECTORS for sector in missing})
        return Lookup(len(missing), lines, missing, bool(hits), max(hits, default=0), kept)

    def keep(self, sectors: Iterable[int], since: int) -> None:
        """Notes that L1 has these sectors from a cycle on."""
        self.sectors.update(dict.fromkeys(sectors, since))

    def state(self, now: int) -> int:
        """Returns a hash of what L1 has, and in how many cycles."""
        return hash(tuple((sector, max(since - now, 0)) for sector, since in self.sectors.items()))


class GlobalMemory:
    """The data that are under way between an SM and L2.

    Attributes:
        path: the SM's path to L2.
        flights: data that land in a known cycle: the cycle, what they are.
        expecting: warps that have announced bytes on an mbarrier, and not issued a bulk copy since.
        copied: wavefronts of shared memory that data which landed have taken.
    """

    def __init__(self, sm: SmOfUnits, l2: L2) -> None:
        self.sm, self.memory, self.l2, self.observer = sm, l2.memory, l2, sm.observer
        self.path, self.l1 = Path(sm.cta, sm.observer), L1()
        self.store_free = 0  # when it takes the next store
        self.groups: dict[Warp, Groups] = {}
        self.flights: dict[simpy.Event, tuple[int, tuple[object, ...]]] = {}
        self.bulk, self.stores = BulkCopies(self), BulkStores(sm, l2, self.path)
        self.expecting: set[int] = set()
        self.copied = 0
        rules = sm.machine.config.cluster
        self.peers = Peers(sm, rules) if rules is not None else None

    def launch(self, core: Core, warp: Warp, operation: TimedOperation, fact: Fact | None, now: int) -> int:
        """Issues an operation; returns the cycles until its registers are written."""
        for register in operation.writes:
            warp.set_ready(register, now + 1, Unit.GLOBAL)
        match fact:
            case FetchFacts():
                return self.fetch(core, warp, operation, fact, now)
            case PeerFacts() if self.peers is not None:
                out = self.send(core, warp, operation, 0, now)
                return self.peers.access(warp, operation, fact, out, now)
            case BulkFacts(peer=True) if self.peers is not None:
                self.peers.copy(fact, now)
            case BulkFacts(tensor=tensor):
                rules, first = self.memory, warp.id in self.expecting
                self.expecting.discard(warp.id)
                warp.wait_until(now + rules.held(first, tensor), StallReason.GLOBAL)
                latency = rules.bulk_latency
                if tensor:
                    assert rules.tensor_latency is not None
                    latency = rules.tensor_latency[not first]
                issue = self.observer.current if self.observer is not None else None
                self.bulk.requests.put((fact, now + latency, issue))
            case BulkStoreFacts(bytes=size):
                self.stores.store(warp, size, now)
            case BulkGroupFacts(groups=groups, reads=reads):
                self.stores.group(warp, groups, reads, now)
            case CommitGroupFacts():
                self.commit(warp)
            case WaitGroupFacts(groups=groups, commit=commit):
                if commit:
                    self.commit(warp)
                self.wait(warp, groups, now)
            case CopyArriveFacts():
                self.arrive_after(warp, fact, now)
        return 1

    def of(self, warp: Warp) -> Groups:
        """The groups of a warp."""
        groups = self.groups.get(warp)
        if groups is None:
            groups = self.groups[warp] = Groups(warp.id)
        return groups

    def fetch(self, core: Core, warp: Warp, operation: TimedOperation, fact: FetchFacts, now: int) -> int:
        """Issues a load, a store or a copy of a warp; returns the cycles until its registers are written."""
        rules, found = self.memory, self.l1.look_up(fact)
        cycles = found.lines * rules.line_cycles
        if fact.kind is FetchKind.CACHED_COPY:
            cycles = max(cycles, rules.cached_cycles)
        begin = self.send(core, warp, operation, cycles, now)
        if fact.kind is FetchKind.STORE:
            return self.store(warp, fact, begin) - now
        near = found.hit or not found.sectors  # a copy of zeros alone asks nobody
        arrival = max(begin + rules.l1_latency, found.hits_ready) if near else begin
        if found.sectors:
            soonest = begin + (rules.latency if fact.kind is FetchKind.LOAD else rules.copy_latency)
            soonest += self.l2.first_latency({sector // _LINE_SECTORS for sector in found.missing})
            arrival = max(arrival, self.l2.read(self.path, soonest, found.sectors * SECTOR_BYTES, found.lines))
            if found.kept:
                self.l1.keep(found.missing, arrival)
        return self.arrive(warp, operation, fact, arrival, now)

    def store(self, warp: Warp, fact: FetchFacts, begin: int) -> int:
        """Sends what a store writes, from a cycle on; returns the one in which it is done."""
        start, size = max(begin, self.store_free), fact.sectors * SECTOR_BYTES
        done = start + max(-(-size // self.memory.store_bytes), 1)
        self.store_free = self.l2.write(self.path, done, size)
        warp.hold_accesses(start)
        if fact.where and fact.where[0] >= _LOCAL_SECTOR:
            self.l1.keep(fact.where, start)
        return self.store_free

    def send(self, core: Core, warp: Warp, operation: TimedOperation, cycles: int, now: int) -> int:
        """Takes the sub-core's port, the pipe to shared memory, then the path to L2; returns the cycle in which the
        last line has been asked for."""
        rules = self.memory
        last = self.sm.front_code.send_outside(self.sm.front, core, warp, now, rules.port_cycles, rules.pipe_cycles)
        out = self.path.bring(last, cycles)
        warp.went_outside(out)
        return out

    def arrive(self, warp: Warp, operation: TimedOperation, fact: FetchFacts, arrival: int, now: int) -> int:
        """Delivers what was fetched to its registers, or to shared memory, in a later cycle; returns the cycles until
        the registers are written."""
        if fact.kind is FetchKind.LOAD:
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
        self.copied += wavefronts
        if self.observer is not None:
            self.observer.resume(issue)
        if cycles := wavefronts * self.memory.write_cycles:
            written = self.sm.front_code.block_shared(self.sm.front, written, cycles) + cycles
        self.sm.machine.lasts(written)
        if self.observer is not None:
            self.observer.complete(written)
        done(written)

    def written(self, warp: Warp, group: Group, part: Group, cycle: int) -> None:
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

    def commit(self, warp: Warp) -> None:
        """Closes the warp's open group."""
        groups = self.of(warp)
        groups.committed.append(groups.open)
        groups.open = Group()

    def arrive_after(self, warp: Warp, fact: CopyArriveFacts, now: int) -> None:
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

    def wait(self, warp: Warp, allowed: int, now: int) -> None:
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

    def look(self, warp: Warp, event: simpy.Event) -> None:
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
        stores = self.stores.state(now), tuple(sorted(self.expecting))
        return (
            self.l2.state(self.path, now),
            max(self.store_free - now, 0),
            flights,
            groups,
            self.l1.state(now),
            stores,
        )


class BulkCopies:
    """The copy engine of an SM: a process that takes bulk copies from a SimPy store and asks L2 for their lines."""

    def __init__(self, memory: GlobalMemory) -> None:
        self.memory, self.requests = memory, simpy.Store(memory.sm.env)
        memory.sm.env.process(self.run())

    def run(self) -> Generator[simpy.Event, Any, None]:
        """Serves one request after the other."""
        memory = self.memory
        while True:
            fact, soonest, issue = yield self.requests.get()
            size = -(-fact.bytes // max(fact.lines, 1)) if fact.tensor else LINE_BYTES
            ways = tuple(self.way(fact, barrier) for barrier in (fact.barrier, *fact.others))
            memory.l2.requests.put(BulkRequest(memory.path, fact.lines, size, soonest, ways, issue))

    def way(self, fact: BulkFacts, barrier: Barrier) -> Way:
        """The way of a bulk copy to the SM of an mbarrier."""
        memory = self.memory.sm.machine.home(barrier, self.memory.sm).memory
        return Way(memory.path, partial(memory.bulk.arrive, fact, barrier))

    def arrive(self, fact: BulkFacts, barrier: Barrier, lines: int, last: bool, cycle: int) -> None:
        """Plans the landing of so many lines of a bulk copy; with the last its bytes count at this mbarrier."""
        size = fact.bytes if last else 0
        self.memory.land(cycle, lines, partial(self.count, barrier, size), fact, size)

    def count(self, barrier: Barrier, size: int, written: int) -> None:
        """Counts the bytes of a copy that has landed as a whole."""
        if size:
            self.memory.sm.machine.mbarriers.transact(barrier, -size, written)
