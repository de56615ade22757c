"""Stores whose values are on their way from the sub-cores to shared memory: as many at a time as the SM can take."""

from __future__ import annotations

import cython

from simulator.machine.front.access import Access
from simulator.machine.front.program import Words, numbers
from simulator.machine.front.rules import Rules


@cython.final
@cython.cclass
class Senders:
    """Those of an SM.

    Attributes:
        free: cycles from which on another store can be sent, one for each of as many as are sent at a time.
    """

    rules: Rules
    free: cython.longlong[::1]

    def __init__(self, rules: Rules) -> None:
        self.rules, self.free = rules, numbers([0] * rules.senders)

    @cython.cfunc
    def first(self) -> cython.int:
        """The one that is free first."""
        found: cython.int = 0
        k: cython.int
        for k in range(1, self.rules.senders):
            if self.free[k] < self.free[found]:
                found = k
        return found

    @cython.cfunc
    def comes(self, access: Access) -> cython.longlong:
        """When the SM can take an access that a sub-core sends: a store not while others send their values."""
        if not access.values:
            return access.soonest
        return max(access.soonest, self.free[self.first()])

    @cython.cfunc
    def send(self, access: Access, cycle: cython.longlong) -> cython.void:
        """Lets the values of an access, if it is a store, be sent from this cycle on."""
        if access.values:
            self.free[self.first()] = cycle + access.values * self.rules.port_cycles

    @cython.cfunc
    def state(self, words: Words, since: cython.longlong) -> cython.void:
        """When they are free, relative to a cycle."""
        for until in sorted([max(self.free[k] - since, 0) for k in range(self.rules.senders)]):
            words.add(until)
