"""The events of the timing engine: each happens at a cycle and calls a function.

Events of the same cycle happen in the order of their priorities: arrivals at mbarriers and of lines from memory, then
the queue of each SM in order, then the sub-cores.
"""

from __future__ import annotations

from collections.abc import Callable

import simpy
from simpy.events import EventPriority

LANDING, QUEUE = (
    -3,
    -2,
)  # arrivals at mbarriers and of lines from memory; the queue of the first SM, then of the second; from 0 on sub-cores


class At(simpy.Event):
    """An event that calls a function at a cycle.

    Attributes:
        at: the cycle.
    """

    def __init__(
        self, env: simpy.Environment, cycle: int, priority: int, callback: Callable[[simpy.Event], None]
    ) -> None:
        super().__init__(env)
        self._ok, self._value = True, None
        self.at = cycle
        self.callbacks = [callback]
        env.schedule(self, EventPriority(priority), cycle - int(env.now))
