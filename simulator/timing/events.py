"""The calendar of what goes on beside the sub-cores: arrivals, landings, looks at queues. SimPy keeps it.

What happens in one cycle happens in an order: arrivals at mbarriers and of lines from memory first, as they were
planned, then the queue of each SM. The sub-cores come behind (`simulator.timing.engine`), so that a run depends on
nothing but its inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import simpy

LANDING, QUEUE = 0, 1  # arrivals at mbarriers and of lines from memory; the queue of the first SM, then of the second


class At:
    """Something that happens at a cycle.

    Attributes:
        at: the cycle.
        happen: called then, with this object.
    """

    __slots__ = ("at", "happen", "order")

    def __init__(self, at: int, order: int, happen: Callable[[At], None]) -> None:
        self.at, self.order, self.happen = at, order, happen


class Calendar:
    """What is to happen, and when."""

    def __init__(self) -> None:
        self.env = simpy.Environment()
        self.planned = 0
        self.due: list[tuple[int, int, At]] = []  # of this cycle, by order and as planned

    @property
    def next(self) -> float:
        """The cycle in which something happens next; infinity if nothing does."""
        return self.env.peek()

    def plan(self, cycle: int, order: int, happen: Callable[[At], None]) -> At:
        """Plans a call in a cycle, this one or a later one.

        Args:
            order: what happens in the same cycle goes by this, then as planned.
        """
        what = At(cycle, order, happen)
        timeout = self.env.timeout(cycle - int(self.env.now), (order, self.planned, what))
        timeout.callbacks.append(self.fall_due)
        self.planned += 1
        return what

    def fall_due(self, event: Any) -> None:
        """Notes what is to happen in this cycle."""
        entry: tuple[int, int, At] = event.value
        heappush(self.due, entry)

    def pass_cycle(self) -> None:
        """Lets everything happen that is planned for the next cycle with something planned."""
        env = self.env
        env.step()
        while True:
            while env.peek() <= env.now:
                env.step()
            if not self.due:
                return
            what = heappop(self.due)[-1]
            what.happen(what)
