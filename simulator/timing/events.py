"""Events at a cycle. Those of a cycle happen in the order of their priorities: what lands, then each SM's queue in
order, then the sub-cores."""

from __future__ import annotations

from collections.abc import Callable

import simpy
from simpy.events import EventPriority

LANDING, QUEUE = (
    -3,
    -2,
)  # arrivals at mbarriers and of lines from memory; the queue of the first SM, then of the second; from 0 on sub-cores


class At(simpy.Event):
    """An event at a cycle, which calls back.

    Attributes:
        at: the cycle.
    """

    def __init__(self, env: simpy.Environment, at: int, priority: int, callback: Callable[[simpy.Event], None]) -> None:
        super().__init__(env)
        self._ok, self._value = True, None
        self.at = at
        self.callbacks = [callback]
        env.schedule(self, EventPriority(priority), at - int(env.now))
