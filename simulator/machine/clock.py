"""Time in SimPy: what happens in one cycle, and in which order.

In a cycle all that works on its own clock goes first: arrivals, data that land, units behind issue. The fronts of the
SMs come last (`Turn`), so that they see what has happened, and a run depends on nothing but its inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import simpy
from simpy.events import EventPriority

LAST = EventPriority(2)  # SimPy's priorities are 0 (urgent) and 1 (normal)


class Turn(simpy.Event):
    """The next step of a front: an event after `delay` cycles, which comes after all others of its cycle."""

    def __init__(self, env: simpy.Environment, delay: float) -> None:
        super().__init__(env)
        self._ok, self._value = True, None
        env.schedule(self, LAST, delay)


def call_at(env: simpy.Environment, cycle: int, call: Callable[[simpy.Event], Any]) -> simpy.Event:
    """Plans a call in a cycle; returns its event, which is also the argument of the call."""
    event = env.timeout(max(cycle - int(env.now), 0))
    event.callbacks.append(call)
    return event
