"""The sub-cores of an SM: each decides which of its warps issues next, and in which cycle.

The compiled engine has the same rules (`simulator/timing/compiled/engine.c`, functions of the same names).
"""

from __future__ import annotations

import ctypes

from isa.forms.record import Unit
from simulator.timing.asynchronous import Asynchronous
from simulator.timing.config import Config
from simulator.timing.model import TimedOperation
from simulator.timing.pipes import Pipes
from simulator.timing.records import NEVER, SmRecord
from simulator.timing.warp import Warp


class SubCore(Pipes):
    """One of the SM's partitions: its warps, its pipes, its scheduler.

    Args:
        sm: the SM's record.
        unlike_margin: how long unlike matrix instructions may wait for each other.

    Attributes:
        queues: the units that work after issue, if there are any.
    """

    def __init__(self, number: int, config: Config, sm: SmRecord, warps: list[Warp], unlike_margin: int) -> None:
        super().__init__(number, config, warps)
        self.sm, self.policy, self.unlike_margin = sm, config.issue.policy, unlike_margin
        self.queues: Asynchronous | None = None
        self.addresses = (ctypes.c_int64 * len(warps))(*(ctypes.addressof(warp) for warp in warps))
        self.warps, self.warps_array = len(warps), ctypes.addressof(self.addresses)

    def wake(self, cycle: int) -> None:
        """Plans to look at the warps in `cycle`, unless that is planned for an earlier cycle already."""
        cycle = max(cycle, self.sm.now, self.last_issue + 1)
        self.tick = min(self.tick, cycle)

    def next_issue(self, soonest: int) -> int:
        """The first cycle, from `soonest` on, in which a warp can issue; NEVER if all wait for others."""
        first = NEVER
        for warp in self.mine:
            if not (warp.done or warp.blocked):
                operation = warp.operation
                if not self.stalls(warp, operation):
                    cycle = self.earliest(warp, operation)
                    if cycle <= soonest:
                        return soonest
                    first = min(first, cycle)
        return first

    def stalls(self, warp: Warp, operation: TimedOperation) -> bool:
        """Whether the operation finds no room in the queue of the SM's tcgen05 unit."""
        return operation.unit is Unit.TCGEN05 and self.queues is not None and bool(self.queues.full[warp.cta])

    def earliest(self, warp: Warp, operation: TimedOperation) -> int:
        """The first cycle in which the warp can issue its next operation, if no other warp issues before."""
        cycle = self.pipe_free(operation)
        return max(cycle, warp.operands_ready, warp.issue_not_before)

    def queue_free(self, warp: Warp) -> int:
        """The cycle from which the queue of the SM's tcgen05 unit can take an instruction of this sub-core."""
        return max(self.free[Unit.TCGEN05], self.queues.room_since[warp.cta] if self.queues is not None else 0)

    def choose(self, now: int) -> Warp | None:
        """The warp to issue from: the first in the policy's order among those that can issue."""
        if self.last_issue >= now:
            return None
        count = len(self.mine)
        first = 0 if self.policy == "oldest" else self.favourite
        if self.policy == "greedy-oldest":
            order = [first, *(i for i in range(count) if i != first)]
        else:
            order = [(first + i) % count for i in range(count)]
        for place in order:
            warp = self.mine[place]
            if warp.done or warp.blocked or warp.issue_not_before > now or warp.operands_ready > now:
                continue
            operation = warp.operation
            if not self.stalls(warp, operation) and self.pipe_free(operation) <= now:
                self.favourite = (place + 1) % count if self.policy == "round-robin" else place
                return warp
        return None

    def state(self, now: int) -> list[int]:
        """All that decides what this sub-core does next, in cycles relative to `now`."""
        remembered = 0 if self.policy == "oldest" else self.favourite
        tick = -1 if self.tick == NEVER else self.tick - now
        oldest = min((warp.last for warp in self.mine if not (warp.done or warp.blocked)), default=now)
        pipe = (-1, -1)
        if self.free[Unit.TENSOR] + self.unlike_margin > oldest:
            pipe = (self.result_until, self.dense)
        free = (cycle - now if cycle + self.unlike_margin > oldest else NEVER for cycle in self.free)
        until = (max(self.reads_until - now, 0), max(self.stores_until - now, 0))
        return [tick, max(self.last_issue - now, -1), remembered, *pipe, *until, *free]
