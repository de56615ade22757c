"""What an SM does with shared memory of the other SMs of its cluster: loads, stores, and bulk copies to it.

Loads of an SM come one after the other at the rate of its way to other SMs, and so do its stores, and its copies; none
of the three delays another, or what others send (assumed: each was measured alone, in both directions at once).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from isa.forms.record import Unit
from simulator.chip.cluster import ClusterTable
from simulator.compiler.timed_code import TimedOperation
from simulator.execute.dynamic_info import BulkFacts, PeerFacts
from simulator.machine.clock import call_at
from simulator.machine.interface import SmOfUnits, Warp


class Peers:
    """The way of an SM to the other SMs of its cluster.

    Attributes:
        load_free, store_free, copy_free: when the next one begins, in cycles times its rate.
    """

    def __init__(self, sm: SmOfUnits, rules: ClusterTable) -> None:
        self.sm, self.rules = sm, rules
        self.load_free = self.store_free = self.copy_free = 0

    def access(self, warp: Warp, operation: TimedOperation, fact: PeerFacts, begin: int, now: int) -> int:
        """Sends an access of a warp from the cycle `begin` on; returns the cycles until its registers are written."""
        rules = self.rules
        if not fact.store:
            self.load_free = max(self.load_free, begin * rules.load_bytes) + fact.bytes
            last = -(-self.load_free // rules.load_bytes)
            arrival = max(begin + rules.load_latency, last)
            for register in operation.writes:
                warp.set_ready(register, arrival, Unit.GLOBAL)
            self.sm.machine.lasts(arrival)
            return arrival - now
        self.store_free = max(self.store_free, begin * rules.store_bytes) + fact.bytes
        last = -(-self.store_free // rules.store_bytes)
        warp.hold_accesses(last)
        done = last + rules.store_latency
        self.sm.machine.lasts(done if fact.counts else last)
        for barrier, count in fact.counts:
            call_at(self.sm.env, done, partial(self.count, barrier, count))
            self.sm.machine.limit(done)
        return 1

    def copy(self, fact: BulkFacts, now: int) -> None:
        """Sends a bulk copy, whose bytes count at its mbarriers when all are there."""
        rules = self.rules
        self.copy_free = max(self.copy_free, (now + rules.copy_latency) * rules.copy_bytes) + fact.bytes
        done = -(-self.copy_free // rules.copy_bytes)
        for barrier in (fact.barrier, *fact.others):
            call_at(self.sm.env, done, partial(self.count, barrier, fact.bytes))
        self.sm.machine.limit(done)
        self.sm.machine.lasts(done)

    def count(self, barrier: Any, size: int, event: Any) -> None:
        """Counts bytes that have come on an mbarrier."""
        self.sm.machine.mbarriers.transact(barrier, -size, int(self.sm.env.now))
