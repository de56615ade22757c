"""Which warp of a sub-core issues, of those that can.

Measured: 19,000 decisions of two to four warps on an H100 80GB (docs/timing.md, Which warp issues). Each warp has a
counter of four bits. Every instruction counts; when a warp issues whose counter is full, the counters of all warps are
halved instead. A decision knows what has issued up to `counted_behind` cycles before it. Of the warps that can issue,
those whose last instruction had the yield hint wait for the others; the warp that issued last goes on for `greedy`
cycles; else the one with the smallest count goes first, of equals the one with the highest number.
"""

from __future__ import annotations

from typing import Any

import cython

from simulator.chip.tables import POLICIES
from simulator.machine.front.program import ALU, CONTROL, FMA, ONE, Words, numbers
from simulator.machine.front.rules import Rules
from simulator.machine.front.warp import Warp

OLDEST = cython.declare(cython.int, POLICIES.index("oldest"))
GREEDY_OLDEST = cython.declare(cython.int, POLICIES.index("greedy-oldest"))
GREEDY_ROUND_ROBIN = cython.declare(cython.int, POLICIES.index("greedy-round-robin"))
ROUND_ROBIN = cython.declare(cython.int, POLICIES.index("round-robin"))
LEAST_ISSUED = cython.declare(cython.int, POLICIES.index("least-issued"))


@cython.final
@cython.cclass
class IssuePolicy:
    """The issue policy of a sub-core, and what it remembers.

    Attributes:
        policy: its number; `counting`: whether it counts what each warp issues; `hinted`: whether it knows yield hints.
        favourite: the place of the warp that it remembers, since cycle `turned`.
        recent: a ring of the last instructions, loop overhead included: cycle and place; of `made`, the first `seen`
            are in the counts.
    """

    rules: Rules
    warps: list
    policy: cython.int
    counting: cython.bint
    hinted: cython.bint
    favourite: cython.int
    turned: cython.longlong
    recent: cython.longlong[::1]
    ring: cython.longlong
    made: cython.longlong
    seen: cython.longlong

    def __init__(self, rules: Rules, warps: Any) -> None:
        self.rules, self.warps, self.policy = rules, warps, rules.policy
        self.counting = rules.policy == LEAST_ISSUED
        self.hinted = self.counting or rules.policy == GREEDY_ROUND_ROBIN
        self.favourite, self.turned, self.made, self.seen = 0, 0, 0, 0
        self.ring = 1 << (rules.counted_behind * rules.width + 1).bit_length() if self.counting else 2
        self.recent = numbers([0] * (2 * self.ring))

    @cython.cfunc
    def key(self, warp: Warp, due: cython.bint, free_from: cython.longlong, now: cython.longlong) -> cython.longlong:
        """The order in which warps are preferred, the smallest first: the favourite, if it goes on (`goes_on`); then
        those whose last instruction had no yield hint; of these by what the policy counts."""
        n: cython.longlong = len(self.warps)
        place: cython.longlong = warp.place
        behind: cython.longlong = place - self.favourite
        if behind < 0:
            behind += n
        if self.policy == OLDEST:
            return place
        if self.policy == GREEDY_OLDEST:
            return -1 if place == self.favourite else place
        if self.policy == ROUND_ROBIN:
            return behind
        if self.goes_on(warp, due, free_from, now):
            return -1
        hinted: cython.longlong = ONE << 50 if warp.gives_way else 0
        if self.counting:
            return hinted + warp.counted * (n + 1) + (n - place)
        if warp.gives_way:
            return hinted + warp.acted * (n + 1) + place
        return behind if behind else n

    @cython.cfunc
    def goes_on(self, warp: Warp, due: cython.bint, free_from: cython.longlong, now: cython.longlong) -> cython.bint:
        """Whether a warp is the one that issued last, without the yield hint, and goes before all others: for `greedy`
        cycles. Where issues are counted, also behind that unless its unit has just become free (`free_from`), to which
        it has no more right than those that have waited; a pipe that takes an instruction every second cycle is left
        to it a cycle longer. `due`: its loop overhead is to issue."""
        if not self.hinted or warp.place != self.favourite or warp.gives_way:
            return False
        since: cython.longlong = now - self.turned
        if due or since < self.rules.greedy:
            return True
        if not self.counting:
            return False
        unit: cython.int = warp.next.unit
        if since == self.rules.greedy and unit in (ALU, FMA, CONTROL):
            return True
        return free_from < now

    @cython.cfunc
    def note(self, warp: Warp, now: cython.longlong) -> cython.void:
        """Notes that a warp issues in this cycle."""
        self.favourite, self.turned, warp.acted = warp.place, now, now
        if self.counting:
            at: cython.longlong = 2 * (self.made & (self.ring - 1))
            self.recent[at], self.recent[at + 1] = now, warp.place
            self.made += 1

    @cython.cfunc
    def pass_on(self) -> cython.void:
        """Turns from the warp that has issued to the next, in round robin."""
        if self.policy == ROUND_ROBIN:
            self.favourite = (self.favourite + 1) % len(self.warps)

    @cython.cfunc
    def see(self, now: cython.longlong) -> cython.void:
        """Counts what has issued up to `counted_behind` cycles before this one."""
        while self.seen < self.made:
            at: cython.longlong = 2 * (self.seen & (self.ring - 1))
            if self.recent[at] > now - self.rules.counted_behind:
                return
            warp: Warp = self.warps[self.recent[at + 1]]
            if warp.counted < self.rules.most_counted:
                warp.counted += 1
            else:
                other: Warp
                for other in self.warps:
                    other.counted >>= 1
            self.seen += 1

    @cython.cfunc
    def stand_still(self, cycle: cython.longlong) -> cython.void:
        """Does not count a cycle in which the read stages stand still."""
        if self.turned < cycle:
            self.turned += 1

    @cython.cfunc
    def state(self, words: Words, now: cython.longlong, alone: cython.bint) -> cython.void:
        """What it remembers. A warp that has the sub-core for itself (`alone`) goes first whatever is counted."""
        words.add(0 if self.policy == OLDEST else self.favourite)
        if not self.hinted:
            return
        words.add(min(now - self.turned, self.rules.greedy + 1))
        warp: Warp
        for warp in self.warps:
            decides: cython.longlong = 0
            if not alone:
                decides = warp.counted if self.counting else self.older_than(warp)
            words.add(decides)
            words.add(warp.gives_way)
        n: cython.longlong
        for n in range(self.made if alone else self.seen, self.made):
            at: cython.longlong = 2 * (n & (self.ring - 1))
            words.add(now - self.recent[at])
            words.add(self.recent[at + 1])
        words.add(-1)

    @cython.cfunc
    def older_than(self, warp: Warp) -> cython.longlong:
        """How many warps have an older last instruction."""
        count: cython.longlong = 0
        other: Warp
        for other in self.warps:
            if other.acted < warp.acted or (other.acted == warp.acted and other.place < warp.place):
                count += 1
        return count
