"""Instructions that go on working after issue: the queue of each SM's tcgen05 unit, commits, and mbarriers.

An instruction for the unit is issued into the queue of its SM and starts when it is the first there and the unit is
free (with cta_group::2 in a pair: the units of both SMs). It reads its operands from the server of shared memory that
ld.shared uses too, as one block; the unit is free again after its interval, at the earliest when the operands are read.
Its result is complete `latency` cycles after the start. A commit takes no time of the unit: when it is the first, it
arrives on its mbarriers as soon as all that its warp has queued before is complete.

Assumed, since nothing is published: the length of the queue, one order for all warps of an SM, that operands are read
as a block, and that accumulators in Tensor Memory cost nothing.
"""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from isa.forms.record import Unit
from simulator.compiler.tcgen05 import Cost
from simulator.compiler.timed_code import Job, StallReason, TimedOperation
from simulator.errors import DeadlockError
from simulator.execute.dynamic_info import (
    CLUSTER,
    STORES,
    ArriveFacts,
    Barrier,
    CommitFacts,
    ExpectFacts,
    InitFacts,
    MoveFacts,
    MoveWaitFacts,
    PostFacts,
    WaitFacts,
)
from simulator.state.mbarrier import PhaseCounter
from simulator.timing.events import LANDING, QUEUE, At
from simulator.timing.machine import Machine
from simulator.timing.observer import Issue
from simulator.timing.pipes import Pipes
from simulator.timing.records import link
from simulator.timing.shared_memory import SharedMemory
from simulator.timing.warp import Warp


class Entry(NamedTuple):
    """An instruction in a queue, and the warp that issued it."""

    warp: Warp
    job: Job
    issue: Issue | None = None  # for an observer


@dataclass
class WaitedFor(PhaseCounter):
    """An mbarrier, with the warps that wait for it and the parity that each waits for."""

    waiting: list[tuple[Warp, int]] = field(default_factory=list)


class Asynchronous:
    """The units of a CTA, or of the CTAs of a pair, each on an SM of its own.

    Args:
        length: how many instructions a queue holds.
    """

    def __init__(self, machine: Machine, shared: SharedMemory, length: int) -> None:
        self.machine, self.shared, self.length, self.observer = machine, shared, length, machine.observer
        ctas = machine.ctas
        self.queues: list[deque[Entry]] = [deque() for _ in range(ctas)]
        self.full = array("q", [0] * ctas)  # whether each queue holds as many instructions as it can
        self.room_since = array("q", [0] * ctas)  # when each queue had room again after it was full
        link(machine.record, queue_full=self.full, room_since=self.room_since)
        self.free = [0] * ctas  # when each unit takes the next instruction
        self.ticks: list[At | None] = [None] * ctas  # the next look at each queue
        self.flights: dict[At, tuple[Barrier, ...]] = {}  # arrivals on their way
        self.phases: dict[Barrier, WaitedFor] = {}

    @property
    def idle(self) -> bool:
        """Whether nothing is queued or on its way."""
        return not (self.flights or any(self.queues))

    def launch(self, core: Pipes, warp: Warp, operation: TimedOperation, now: int) -> int:
        """Issues an operation; returns the cycles until its registers are written."""
        job = warp.job(operation)
        if job is None:
            return 1
        match job.fact:
            case MoveFacts(store=store) if job.cost is not None:
                core.free[Unit.TMEM] = now + job.cost.interval
                self.machine.counters.tensor_memory[core.number] += job.cost.interval
                for register in operation.writes:
                    warp.ready[register] = now + job.cost.latency
                warp.moves[store] = max(warp.moves[store], now + job.cost.latency)
                return job.cost.latency
            case MoveWaitFacts(store=store):
                warp.wait_until(warp.moves[store], StallReason.TMEM)
            case InitFacts(barrier=barrier, count=count):
                self.init(barrier, count)
            case ExpectFacts(barrier=barrier, count=count):
                self.transact(barrier, count, now)
            case ArriveFacts(barrier=barrier, count=count, expect=expect, drops=drops):
                warp.arrived |= barrier == CLUSTER
                if expect:
                    self.transact(barrier, expect, now)
                if drops:
                    self.phase(barrier).expected -= count
                self.fly((barrier,) * count, now + self.machine.mbarrier_latency)
            case WaitFacts(barrier=barrier, parity=parity):
                reason = StallReason.GLOBAL if barrier[0] == STORES else StallReason.MBARRIER
                warp.blocked = reason if self.wait(warp, barrier, parity) else 0
            case PostFacts(barrier=barrier):
                memory = self.machine.config.memory
                assert memory is not None
                self.fly((barrier,), now + memory.latency // 2)  # half of the way there and back
            case _ if operation.unit is Unit.TCGEN05:
                assert self.machine.config.tcgen05 is not None
                core.free[Unit.TCGEN05] = now + self.machine.config.tcgen05.queue.issue
                self.submit(warp, job, now)
        return 1

    # The queue

    def submit(self, warp: Warp, job: Job, now: int) -> None:
        """Puts an instruction of a warp into the queue of its SM."""
        self.queues[warp.cta].append(Entry(warp, job, self.observer.current if self.observer is not None else None))
        self.pump(warp.cta, now)

    def pump(self, cta: int, now: int) -> None:
        """Starts the instructions that can start in this cycle, and plans when to look at the queue again."""
        queue = self.queues[cta]
        was_full = len(queue) >= self.length
        while queue:
            warp, (fact, cost), issue = queue[0]
            if isinstance(fact, CommitFacts):
                arrival = max(warp.complete, now + 1)
                self.fly(fact.barriers, arrival)
                if self.observer is not None:
                    self.observer.start(issue, now, arrival)
            elif cost is not None:
                units = range(len(self.free)) if getattr(fact, "cta_group", 1) == 2 else (cta,)
                start = max(self.free[unit] for unit in units)
                if start > now:
                    self.look(cta, start)
                    break
                if self.observer is not None:
                    self.observer.start(issue, now, now)
                self.start(warp, cost, units, now)
            queue.popleft()
        self.full[cta] = len(queue) >= self.length
        if was_full and not self.full[cta]:
            self.room_since[cta] = now
            self.machine.wake_cores(cta, now)

    def look(self, cta: int, cycle: int) -> None:
        """Plans to look at a queue in `cycle`, in place of any other cycle."""
        tick = self.ticks[cta]
        if tick is None or tick.at != cycle:
            self.ticks[cta] = self.machine.calendar.plan(cycle, QUEUE + cta, lambda tick: self.looked(cta, tick))

    def looked(self, cta: int, tick: At) -> None:
        """Looks at a queue as planned, unless the plan has changed."""
        if tick is self.ticks[cta]:
            self.ticks[cta] = None
            self.pump(cta, self.machine.now)
            self.machine.check_done()

    def start(self, warp: Warp, cost: Cost, units: range | tuple[int, ...], now: int) -> None:
        """Starts an instruction: it takes the units, and shared memory for its operands."""
        late = 0
        for unit in units:
            if cost.operands:
                begin = self.shared.block(unit, now, cost.operands)
                self.machine.counters.shared[unit] += cost.operands * self.shared.slots
                late = max(late, begin - now)
        interval = max(cost.interval, late + cost.operands)
        for unit in units:
            self.free[unit] = now + interval
            self.count(unit, cost, interval, now)
        warp.complete = max(warp.complete, now + late + cost.latency)
        self.machine.lasts(warp.complete)
        if self.observer is not None:
            self.observer.complete(now + late + cost.latency)

    def count(self, unit: int, cost: Cost, interval: int, now: int) -> None:
        """Counts the cycles for which the unit of an SM is taken by an instruction."""
        self.machine.counters.tcgen05[unit] += interval
        self.machine.counters.products[unit] += cost.tensor
        if self.observer is not None:
            self.observer.serve("tcgen05", unit, now, now + interval)

    # mbarriers

    def fly(self, barriers: tuple[Barrier, ...], cycle: int) -> None:
        """Plans one arrival on each of these mbarriers in a later cycle."""
        self.flights[self.machine.calendar.plan(cycle, LANDING, self.landed)] = barriers

    def landed(self, flight: At) -> None:
        """Arrives on the mbarriers of a planned arrival."""
        now = self.machine.now
        for barrier in self.flights.pop(flight):
            self.arrive(barrier, now)
        self.machine.lasts(now)
        self.machine.check_done()

    def init(self, barrier: Barrier, count: int) -> None:
        """Initialises an mbarrier whose phases are complete after `count` arrivals."""
        self.phases[barrier] = WaitedFor(count, count)

    def phase(self, barrier: Barrier) -> WaitedFor:
        """The state of an mbarrier; DeadlockError if it has not been initialised."""
        if barrier[0] == STORES:
            return self.phases.setdefault(barrier, WaitedFor(1, 1))
        phase = self.phases.get(barrier)
        if phase is None:
            raise DeadlockError((f"{_named(barrier)} is used before mbarrier.init",))
        return phase

    def arrive(self, barrier: Barrier, now: int) -> None:
        """Counts one arrival; with the last of a phase, the waiting warps can issue in this cycle."""
        phase = self.phase(barrier)
        phase.pending -= 1
        self.settle(barrier, phase, now)

    def transact(self, barrier: Barrier, count: int, now: int) -> None:
        """Counts bytes that are announced (`count` above 0) or have arrived (below 0); waiting warps see them at `now`,
        which may be later than this cycle."""
        phase = self.phase(barrier)
        phase.transactions += count
        if count < 0:
            self.settle(barrier, phase, now + (self.machine.mbarrier_latency - 1 if phase.waiting else 0))

    def settle(self, barrier: Barrier, phase: WaitedFor, now: int) -> None:
        """Completes the phase if nothing is missing any more."""
        if not phase.settle():
            return
        if self.observer is not None and barrier[0] != STORES and (barrier != CLUSTER or self.machine.ctas > 1):
            self.observer.flip(_named(barrier), max(barrier[0], 0), phase.parity ^ 1, now)
        if barrier == CLUSTER:
            for warp in self.machine.warps:
                warp.arrived = False
        released, phase.waiting = phase.waiting, []
        reason = StallReason.GLOBAL if barrier[0] == STORES else StallReason.MBARRIER
        for warp, _ in released:
            self.machine.release(warp, now, reason)

    def leave(self, warp: Warp, now: int) -> None:
        """Notes that a warp has ended: the barrier of the cluster does not wait for it any more."""
        phase = self.phases[CLUSTER]
        phase.expected -= 1
        if not warp.arrived:
            self.arrive(CLUSTER, now)

    def wait(self, warp: Warp, barrier: Barrier, parity: int) -> bool:
        """Whether the warp must wait for the phase of this parity; if so, it is noted as waiting."""
        phase = self.phase(barrier)
        if phase.parity != parity:
            return False
        phase.waiting.append((warp, parity))
        return True

    def describe(self) -> list[str]:
        """Which warps wait for which mbarrier, as lines of a deadlock's message."""
        return [
            f"warps {', '.join(str(warp.id) for warp, _ in phase.waiting)} "
            f"wait for parity {phase.waiting[0][1]} of {_named(barrier)}, "
            f"which lacks {phase.pending} of {phase.expected} arrivals"
            + (f" and {phase.transactions} bytes" if phase.transactions else "")
            for barrier, phase in sorted(self.phases.items())
            if phase.waiting
        ]

    def state(self, now: int, oldest: int) -> tuple[object, ...]:
        """All that decides what happens next, in cycles relative to `now`; `oldest` is the earliest of the last issues
        of warps that wait for no release."""
        queues = tuple(tuple((entry.warp.id, entry.job.fact) for entry in queue) for queue in self.queues)
        times = tuple(
            (max(free - now, 0), since - now if since > oldest else None)
            for free, since in zip(self.free, self.room_since, strict=True)
        )
        ticks = tuple(None if tick is None else tick.at - now for tick in self.ticks)
        flights = tuple((flight.at - now, barriers) for flight, barriers in self.flights.items())
        phases = tuple(
            (
                barrier,
                p.expected,
                p.pending,
                p.parity,
                p.transactions,
                tuple((warp.id, parity) for warp, parity in p.waiting),
            )
            for barrier, p in self.phases.items()
        )
        return (queues, times, ticks, flights, phases)


def _named(barrier: Barrier) -> str:
    if barrier == CLUSTER:
        return "the barrier of the cluster"
    if barrier[0] == STORES:
        return "a write of another CTA"
    return f"the mbarrier at shared[{barrier[1]}] of CTA {barrier[0]}"
