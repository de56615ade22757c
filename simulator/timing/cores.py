"""The sub-cores of an SM: each decides which of its warps issues next, and in which cycle."""

from __future__ import annotations

from collections.abc import Callable

import simpy

from isa.forms.record import Unit
from simulator.timing.asynchronous import Asynchronous
from simulator.timing.config import Config
from simulator.timing.events import At
from simulator.timing.pipes import Pipes
from simulator.timing.warp import Warp


class SubCore(Pipes):
    """One of the SM's partitions: its warps, its pipes, its scheduler.

    Args:
        issue: called to issue a warp's next operation in this cycle.
        stepped: called each time the sub-core has looked at its warps.
        unlike_margin: how long unlike matrix instructions may wait for each other.

    Attributes:
        queues: the units that work after issue, if there are any.
        favourite: the place of the warp that the issue policy remembers.
        tick: the event at which it looks at its warps next.
    """

    def __init__(
        self,
        number: int,
        config: Config,
        env: simpy.Environment,
        warps: list[Warp],
        issue: Callable[[SubCore, Warp, int], None],
        stepped: Callable[[], None],
        unlike_margin: int,
    ) -> None:
        super().__init__(number, config)
        self.env, self.warps, self.policy = env, warps, config.issue.policy
        self.issue, self.stepped, self.unlike_margin = issue, stepped, unlike_margin
        self.queues: Asynchronous | None = None
        self.favourite = 0
        self.tick: At | None = None

    def wake(self, cycle: int) -> None:
        """Plans to look at the warps in `cycle`, unless that is planned for an earlier cycle already."""
        cycle = max(cycle, int(self.env.now), self.last_issue + 1)
        if self.tick is not None and self.tick.at <= cycle:
            return
        self.tick = At(self.env, cycle, self.number, self.step)

    def step(self, tick: simpy.Event) -> None:
        """Issues the instruction that can issue in this cycle, and plans when to look at the warps again."""
        if tick is not self.tick:
            return
        self.tick = None
        now = int(self.env.now)
        chosen = self.choose(now)
        if chosen is not None:
            self.issue(self, chosen, now)
        cycle = self.next_issue(now + 1)
        if cycle is not None:
            self.wake(cycle)
        self.stepped()

    def next_issue(self, soonest: int) -> int | None:
        """The first cycle, from `soonest` on, in which a warp can issue; None if all wait for others."""
        first: int | None = None
        queues = self.queues
        for warp in self.warps:
            if not (warp.done or warp.blocked or (queues is not None and queues.stalls(warp))):
                cycle = self.earliest(warp)
                if cycle <= soonest:
                    return soonest
                if first is None or cycle < first:
                    first = cycle
        return first

    def earliest(self, warp: Warp) -> int:
        """The first cycle in which the warp can issue, if no other warp issues before."""
        operation = warp.operation
        assert operation is not None
        cycle = max(self.pipe_free(operation), warp.operands_ready)
        return warp.issue_not_before if warp.issue_not_before > cycle else cycle

    def queue_free(self, warp: Warp) -> int:
        """The cycle from which the queue of the SM's tcgen05 unit can take an instruction of this sub-core."""
        return max(self.free[Unit.TCGEN05], self.queues.room_since[warp.cta] if self.queues is not None else 0)

    def choose(self, now: int) -> Warp | None:
        """The warp to issue from: the first in the policy's order among those that can issue."""
        if self.last_issue >= now:
            return None
        count, queues = len(self.warps), self.queues
        first = 0 if self.policy == "oldest" else self.favourite
        if self.policy == "greedy-oldest":
            order = [first, *(i for i in range(count) if i != first)]
        else:
            order = [(first + i) % count for i in range(count)]
        for place in order:
            warp = self.warps[place]
            if (
                not (warp.done or warp.blocked or (queues is not None and queues.stalls(warp)))
                and self.earliest(warp) <= now
            ):
                self.favourite = (place + 1) % count if self.policy == "round-robin" else place
                return warp
        return None

    def state(self, now: int) -> tuple[object, ...]:
        """All that decides what this sub-core does next, in cycles relative to `now`."""
        remembered = 0 if self.policy == "oldest" else self.favourite
        tick = None if self.tick is None else self.tick.at - now
        oldest = min((warp.last for warp in self.warps if not (warp.done or warp.blocked)), default=now)
        pipe = (self.result_until, self.dense) if self.free[Unit.TENSOR] + self.unlike_margin > oldest else None
        free = (cycle - now if cycle + self.unlike_margin > oldest else None for cycle in self.free)
        coming = tuple((cycle - now, warp.id) for cycle, warp in self.compares if cycle > now)
        until = (max(self.reads_until - now, 0), max(self.stores_until - now, 0))
        return (tick, max(self.last_issue - now, -1), remembered, pipe, until, coming, *free)
