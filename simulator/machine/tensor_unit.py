"""The tcgen05 unit of an SM: a process that takes instructions from its queue, in order.

An instruction starts when it is the first in the queue and the unit is free (with cta_group::2 the units of both SMs).
It reads its operands from shared memory as one block; the unit is free again after its interval, at the earliest when
the operands are read. Its result is complete `latency` cycles after the start. A commit takes no time of the unit: it
arrives on its mbarriers as soon as all that its warp has queued before is complete.

Assumed, since nothing is published: the length of the queue, one order for all warps of an SM, that operands are read
as a block, and that accumulators in Tensor Memory cost nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import simpy

from simulator.compiler.timed_code import Job
from simulator.execute.dynamic_info import CommitFacts
from simulator.machine.interface import SmOfUnits, Warp


class Queued(NamedTuple):
    """An instruction in the queue, and the warp that issued it; `issue` for an observer."""

    warp: Warp
    job: Job
    issue: Any = None


class TensorUnit:
    """The unit of one SM, and its queue, a SimPy store.

    Args:
        length: how many instructions the queue holds.

    Attributes:
        head: the instruction that waits for the unit, taken out of the store; it counts as queued until it starts.
        free: when the unit takes the next instruction.
        busy, products: cycles for which it has taken no other instruction, and those of products.
        complete: by warp, when all that it has queued and that has started is complete.
    """

    def __init__(self, sm: SmOfUnits, length: int) -> None:
        self.sm, self.env, self.length = sm, sm.env, length
        self.queue = simpy.Store(sm.env)
        self.head: Queued | None = None
        self.free = self.busy = self.products = 0
        self.complete: dict[int, int] = {}
        self.env.process(self.run())

    @property
    def waiting(self) -> list[Queued]:
        """The instructions that have not started, in order."""
        return [*([self.head] if self.head is not None else []), *self.queue.items]

    def put(self, warp: Warp, job: Job, issue: Any) -> None:
        """Puts an instruction of a warp into the queue."""
        self.queue.put(Queued(warp, job, issue))
        self.sm.front_code.fill_queue(self.sm.front, len(self.waiting) >= self.length)

    def run(self) -> Generator[simpy.Event, Any, None]:
        """Starts one instruction after the other."""
        while True:
            entry: Queued = yield self.queue.get()
            self.head = entry
            warp, (fact, cost), issue = entry
            if isinstance(fact, CommitFacts):
                self.commit(warp, fact, issue)
            elif cost is not None:
                units = (
                    self.sm.machine.cluster.units_of_pair(self.sm.cta) if getattr(fact, "cta_group", 1) == 2 else [self]
                )
                while (start := max(unit.free for unit in units)) > self.env.now:
                    yield self.env.timeout(start - self.env.now)
                self.start(warp, cost, units, issue)
            self.head = None
            self.make_room()

    def make_room(self) -> None:
        """Lets warps that found the queue full look again."""
        if len(self.queue.items) < self.length:
            self.sm.front_code.make_room_in_queue(self.sm.front, int(self.env.now))
            self.sm.wake()

    def commit(self, warp: Warp, fact: CommitFacts, issue: Any) -> None:
        """Plans the arrivals of a commit."""
        now = int(self.env.now)
        arrival = max(self.complete.get(warp.id, 0), now + 1)
        self.sm.machine.mbarriers.arrive_at(arrival, fact.barriers)
        if self.sm.observer is not None:
            self.sm.observer.start(issue, now, arrival)

    def start(self, warp: Warp, cost: Any, units: Sequence[TensorUnit], issue: Any) -> None:
        """Starts an instruction: it takes the units, and shared memory for its operands."""
        now, late, observer, number = int(self.env.now), 0, self.sm.observer, warp.id
        if observer is not None:
            observer.start(issue, now, now)
        for unit in units:
            if cost.operands:
                late = max(late, unit.sm.front_code.block_shared(unit.sm.front, now, cost.operands) - now)
        interval = max(cost.interval, late + cost.operands)
        for unit in units:
            unit.free = now + interval
            unit.busy += interval
            unit.products += cost.tensor
            if observer is not None:
                observer.serve("tcgen05", unit.sm.cta, now, now + interval)
        done = now + late + cost.latency
        self.complete[number] = max(self.complete.get(number, 0), done)
        self.sm.machine.lasts(done)
        if observer is not None:
            observer.complete(done)

    def state(self, now: int) -> tuple[object, ...]:
        """Returns all that decides what the unit does next, in cycles relative to `now`."""
        queued = tuple((entry.warp.id, entry.job.fact) for entry in self.waiting)
        complete = tuple((number, cycle - now) for number, cycle in self.complete.items() if cycle > now)
        return queued, max(self.free - now, 0), complete
