"""The sub-cores of an SM: each decides which of its warps issues next, and in which cycle.

The compiled engine has the same rules (`simulator/timing/compiled/engine.c`, functions of the same names).
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from typing import Protocol

from isa.forms.record import Unit
from simulator.chip.config import Config
from simulator.compiler.timed_code import StallReason
from simulator.timing.core_records import SmRecord
from simulator.timing.reading import Reading
from simulator.timing.records import NEVER, left, link
from simulator.timing.warp import Warp
from simulator.timing.yielding import try_waiting

# found sooner than members of their enums
_TCGEN05 = Unit.TCGEN05
_BRANCH = StallReason.BRANCH
_TENSOR = Unit.TENSOR
_SHORT = (Unit.ALU, Unit.FMA, Unit.CONTROL)  # pipes for which nothing waits longer than a cycle


class Queues(Protocol):
    """The queues of the units that work after issue, by SM: whether each is full, and since when it has room."""

    @property
    def full(self) -> Sequence[int]: ...

    @property
    def room_since(self) -> Sequence[int]: ...


class SubCore(Reading):
    """One of the SM's partitions: its warps, its pipes, its scheduler.

    Args:
        sm: the SM's record.
        unlike_margin: how long unlike matrix instructions may wait for each other.

    Attributes:
        hinted: whether its policy takes account of yield hints.
        recent: the array of its record.
        queues: the units that work after issue, if there are any.
    """

    def __init__(self, number: int, config: Config, sm: SmRecord, warps: list[Warp], unlike_margin: int) -> None:
        super().__init__(number, config, warps)
        self.sm, self.policy, self.unlike_margin = sm, config.issue.policy, unlike_margin
        self.width, self.greedy = config.issue.width, config.issue.greedy
        self.counting = config.issue.policy == "least-issued"
        self.hinted = self.counting or config.issue.policy == "greedy-round-robin"
        self.most_counted, self.counted_behind = config.issue.most_counted, config.issue.counted_behind
        # a power of two, for the compiled engine
        self.room = 1 << (self.counted_behind * self.width - 1).bit_length()
        self.recent = array("q", bytes(16 * self.room))
        link(self, recent=self.recent)
        self.orders = [] if self.counting else [self.order(first) for first in range(len(warps))]
        self.queues: Queues | None = None
        self.addresses = (ctypes.c_int64 * len(warps))(*(ctypes.addressof(warp) for warp in warps))
        self.warps, self.warps_array = len(warps), ctypes.addressof(self.addresses)

    def order(self, first: int) -> list[int]:
        """The places of its warps in the order in which the policy asks them, if it remembers the warp at `first`."""
        places = range(len(self.mine))
        if self.policy == "oldest":
            return list(places)
        if self.policy == "greedy-oldest":
            return [first, *(place for place in places if place != first)]
        return [(first + place) % len(places) for place in places]

    def wake(self, cycle: int) -> None:
        """Plans to look at the warps in `cycle`, unless that is planned for an earlier cycle already."""
        cycle = max(cycle, self.sm.now, self.open_from())
        self.tick = min(self.tick, cycle)

    def open_from(self) -> int:
        """The first cycle in which an issue slot is empty."""
        return self.last_issue + (self.issues >= self.width or self.last_issue > self.sm.now)

    def next_issue(self, soonest: int) -> int:
        """The first cycle, from `soonest` on, in which a warp can issue; NEVER if all wait for others."""
        first = NEVER
        for warp in self.mine:
            if warp.done or warp.blocked:
                continue
            cycle = self.earliest(warp)
            if cycle < first and not self.stalls(warp):
                if cycle <= soonest:
                    return soonest
                first = cycle
        return first

    def stalls(self, warp: Warp) -> bool:
        """Whether the warp's next operation finds no room in the queue of the SM's tcgen05 unit."""
        queues = self.queues
        return queues is not None and bool(queues.full[warp.cta]) and warp.operation.unit is _TCGEN05

    def earliest(self, warp: Warp) -> int:
        """The first cycle in which the warp can issue its next operation, if no other warp issues before."""
        operation = warp.operation
        cycle = max(self.pipe_free(operation), warp.operands_ready, warp.issue_not_before)
        if warp.line < 0:
            return cycle
        return max(cycle, self.fetched(warp, operation))

    def queue_free(self, warp: Warp) -> int:
        """The cycle from which the queue of the SM's tcgen05 unit can take an instruction of this sub-core."""
        return max(self.free[_TCGEN05], self.queues.room_since[warp.cta] if self.queues is not None else 0)

    def choose(self, now: int) -> Warp | None:
        """The warp to issue from: the first in the policy's order among those that can issue."""
        if self.last_issue >= now and (self.last_issue > now or self.issues >= self.width):
            return None
        self.settle(now)
        if self.frozen:
            return None
        if self.counting:
            try_waiting(self, self.mine, now)
        able = [place for place, warp in enumerate(self.mine) if self.able(warp, now)]
        if not able:
            return None
        while (place := self.first(able, due := self.due(now), now)) in due:
            self.keep_up(place, now)
            self.issues, self.last_issue = self.issued_in(now) + 1, now
            if self.issues == self.width:
                self.postpone(now)
                return None
        if self.issued_in(now) + 1 == self.width:
            self.postpone(now)
        self.begin(place, now)
        warp = self.act(place, now)
        self.give_way(warp, warp.operation.yields)
        self.favourite = (place + (self.policy == "round-robin")) % len(self.mine)
        return warp

    def act(self, place: int, now: int) -> Warp:
        """Notes that the warp at this place issues in this cycle."""
        warp = self.mine[place]
        self.favourite, self.turned, warp.acted = place, now, now
        if self.counting:
            at = 2 * (self.issues_made % self.room)
            self.recent[at], self.recent[at + 1] = now, place
            self.issues_made += 1
        return warp

    def give_way(self, warp: Warp, hinted: bool) -> None:
        """Notes whether what the warp issues has the yield hint."""
        warp.gives_way = hinted
        if hinted and self.depth:
            self.let_go(warp.place)

    def see(self, now: int) -> None:
        """Counts what has issued up to `counted_behind` cycles before this one. A warp's count that would pass
        `most_counted` halves those of all."""
        while self.issues_seen < self.issues_made:
            at = 2 * (self.issues_seen % self.room)
            if self.recent[at] > now - self.counted_behind:
                return
            warp = self.mine[self.recent[at + 1]]
            if warp.counted < self.most_counted:
                warp.counted += 1
            else:
                for other in self.mine:
                    other.counted >>= 1
            self.issues_seen += 1

    def able(self, warp: Warp, now: int) -> bool:
        """Whether the warp can issue its next operation in this cycle."""
        if warp.issue_not_before > now or warp.operands_ready > now or warp.done or warp.blocked:
            return False
        if warp.line >= 0 and self.fetched(warp, warp.operation) > now:
            return False
        return self.pipe_free(warp.operation) <= now and not self.stalls(warp)

    def first(self, able: list[int], due: list[int], now: int) -> int:
        """The place of the warp that the policy prefers, of those at the places `able`, whose next operation can issue,
        and `due`, whose upkeep can.

        With yield hints, a warp whose last instruction had the hint waits for all that can issue and whose last had
        none. Of several of these, the one that issued last goes on, if `goes_on`. Of all others the one goes first that
        has issued least, as far as counts tell, and of equals the one with the highest number. With policy
        `greedy-round-robin` it is the next in turn or, if all had the hint, the one whose last instruction is oldest.
        """
        if not self.hinted:
            return next(place for place in self.orders[self.favourite] if place in able)
        warps, favourite = self.mine, self.favourite
        eager = [place for place in (*able, *due) if not warps[place].gives_way]
        if favourite in eager and self.goes_on(favourite in due, now):
            return favourite
        if self.counting:
            return min(eager or (*able, *due), key=lambda place: (warps[place].counted, -place))
        if not eager:
            return min((*able, *due), key=lambda place: (warps[place].acted, place))
        return next(place for place in self.orders[(favourite + 1) % len(warps)] if place in eager)

    def goes_on(self, due: bool, now: int) -> bool:
        """Whether the warp that issued last goes on before all others, if it can and had no yield hint; `due`: with
        upkeep.

        With policy `greedy-round-robin` for `greedy` cycles. Where issues are counted, too, and behind that unless its
        instruction has just been read or its unit just become free: then it has no more right than all that have
        waited. To pipes that take an
        instruction every second cycle it has that right for a cycle longer.
        """
        since = now - self.turned
        if due or since < self.greedy:
            return True
        warp = self.mine[self.favourite]
        operation = warp.operation
        if warp.line >= 0 and self.fetched(warp, operation) >= now:
            return False
        soon = since == self.greedy and operation.unit in _SHORT
        return bool(self.counting) and (soon or self.pipe_free(operation) < now)

    def due(self, now: int) -> list[int]:
        """The places of the warps whose upkeep is due in this cycle; only yield hints tell when that is."""
        return [place for place, warp in enumerate(self.mine) if warp.due == now] if self.hinted else []

    def keep_up(self, place: int, now: int) -> None:
        """Lets an instruction of the warp's upkeep issue in this cycle."""
        warp = self.mine[place]
        if warp.stands >= 0:
            self.make_room(place, now, bool(warp.upkeep[warp.upkeep_seen] & 1))
        self.act(place, now)
        self.give_way(warp, bool(warp.upkeep[warp.upkeep_seen] & 1))
        if self.depth and warp.counter >> warp.upkeep_seen & 1:
            self.enter(warp, warp.runs, 0, 0, bool(warp.gives_way))
        warp.upkeep_seen += 1
        if warp.line >= 0 and warp.due == NEVER and warp.issue_not_before_reason == _BRANCH:
            warp.gone = now + self.depth  # the last is the branch

    def postpone(self, now: int) -> None:
        """Lets the upkeep that is due in this cycle come a cycle later."""
        for place in self.due(now):
            self.mine[place].put_off(1, now)

    def issued_in(self, now: int) -> int:
        """How many instructions have issued in this cycle."""
        return self.issues if self.last_issue == now else 0

    def settle(self, now: int) -> None:
        """Lets upkeep issue that comes before this cycle, registers be read, and counts see what has issued."""
        while self.hinted and (cycle := min((warp.due for warp in self.mine), default=NEVER)) < now:
            if self.depth and self.read_cycle < cycle:
                self.catch_up(cycle)
                continue  # it may have been put off
            self.see(cycle)
            self.fetch(cycle)
            for _ in range(self.width - self.issued_in(cycle)):
                if due := self.due(cycle):
                    self.keep_up(self.first([], due, cycle), cycle)
            self.postpone(cycle)
        if self.depth:
            self.catch_up(now)
        self.see(now)
        self.fetch(now)

    def remembered(self, now: int) -> list[int]:
        """What the policy remembers: a warp and, with yield hints, since when; of each warp whether it gives way, and
        how many others have an older last instruction, or what is counted, and what is still to be. A warp that has
        the sub-core for itself goes first whatever is counted."""
        if not self.hinted:
            return [0 if self.policy == "oldest" else self.favourite]
        found = [self.favourite, min(now - self.turned, self.greedy)]
        oldest_first = [] if self.counting else sorted(range(len(self.mine)), key=lambda place: self.mine[place].acted)
        alone = sum(not warp.done for warp in self.mine) < 2
        for place, warp in enumerate(self.mine):
            decides = 0 if alone else warp.counted if self.counting else oldest_first.index(place)
            found += [decides, warp.gives_way]
        for issue in range(self.issues_made if alone else self.issues_seen, self.issues_made):
            cycle, place = self.recent[(at := 2 * (issue % self.room)) : at + 2]
            found += [now - cycle, place]
        return [*found, -1]

    def state(self, now: int) -> list[int]:
        """All that decides what this sub-core does next, in cycles relative to `now`, to which it has settled."""
        tick = -1 if self.tick == NEVER else self.tick - now
        oldest = min((warp.last for warp in self.mine if not (warp.done or warp.blocked)), default=now)
        pipe, spare = (-1, -1), self.spare if self.free[_TENSOR] > now else 0
        if self.free[_TENSOR] + self.unlike_margin > oldest:
            pipe = (self.result_until, self.dense)
        others = []
        for place in range(0, len(self.others), 3):
            cycle, *rest = self.others[place : place + 3]
            others += [cycle - now, *rest] if cycle + self.unlike_margin > oldest else [NEVER, -1, -1]
        paths = (max(self.ports_until - now, 0), max(self.metadata_until - now, 0))
        issues = self.issues if self.last_issue >= now else 0
        free = (left(cycle, now) if cycle + self.unlike_margin > oldest else NEVER for cycle in self.free)
        accessed = self.accessed if self.reads_until >= now else 0
        reader = self.reader if self.reads_until >= now else -1
        until = (max(self.reads_until - now, 0), accessed, reader, self.stores)
        return [
            tick,
            max(self.last_issue - now, -1),
            issues,
            *self.remembered(now),
            *pipe,
            *until,
            *paths,
            *others,
            spare,
            *free,
            max(self.half_free - now, 0),
            max(self.fetch_free - now, 0),
            self.fetcher,
            *self.reading_state(now),
            *self.reads_state(now),
        ]
