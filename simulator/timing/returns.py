"""How returns from routines wait for each other: a unit of the SM serves those of all its sub-cores.

What sub-cores ask for comes to the unit over one path, in two steps, one step of one return a cycle. The first takes
the return from its sub-core: of those at which one waits, from that from which one has been taken the longest ago, but
not from the same one again for `return_again` cycles. The second comes `return_request` cycles later, in the same
order, or when no return is taken: first steps go first. Then the return is served, no sooner than `return_interval`
cycles behind the one before it.

So of two returns that issue in one cycle, or in two that follow each other, only the second is late. One that issues
`return_request` cycles behind another is taken when that would have its second step, and makes it a cycle late, too.

A return whose second step is put off, as first steps go first, is given once more if the stages of its sub-core stand
still in the cycle in which it would have come: in this cycle the path does nothing else, and the return counts as taken
then, but keeps its place before those taken since.

Measured: H200, 2026-11-27, `tests/hardware/fetched.py`: all of 34,400 returns of one warp of each sub-core to the
cycle (`apart`, `crowded`); what stands still, 2026-11-28, with clocks in a loop of `started.py` on eight warps.

The compiled engine has the same rules (`simulator/timing/compiled/engine.c`, functions of the same names).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from simulator.timing.core_records import SmRecord
from simulator.timing.records import NEVER, WarpRecord, link
from simulator.timing.sequences_config import Sequences


class Core(Protocol):
    """A sub-core: `simulator.timing.cores.SubCore`."""

    return_taken: int

    @property
    def mine(self) -> Sequence[WarpRecord]: ...
    def settle(self, now: int) -> None: ...


class Returns:
    """The unit of each SM of a run.

    Args:
        rules: `[sequences]` of the config; None: programs have no returns.
        warps: all warps of the run.
        cores: their sub-cores.

    Attributes:
        request, interval, again: cycles from the first step of a return to its second, from one that is served to the
            next, and from one that is taken from a sub-core to the next of that.
        under_way: for each SM, how many returns have issued and may not have had their second step.
        last_served: for each SM, the cycle in which the last one is served of which nothing can change any more.
        held: for each SM, the last cycle in which a return was given once more.
    """

    def __init__(
        self, rules: Sequences | None, record: SmRecord, warps: Sequence[WarpRecord], cores: Sequence[Core]
    ) -> None:
        self.warps, self.cores, self.record = warps, cores, record
        record.returns_look = NEVER
        self.request = record.return_request = rules.return_request if rules is not None else 0
        self.interval = record.return_interval = rules.return_interval if rules is not None else 0
        self.again = record.return_again = rules.return_again if rules is not None else 0
        self.under_way = array("q", [0] * record.sms)
        self.last_served = array("q", [-self.interval] * record.sms)
        self.held = array("q", [-1] * record.sms)
        link(record, under_way=self.under_way, last_served=self.last_served, held=self.held)
        for warp in warps:
            warp.return_issued = NEVER
        for place, core in enumerate(cores):
            core.return_taken = place - len(cores) - self.again

    def ask(self, warp: WarpRecord, now: int) -> None:
        """Lets a return wait to be taken, which issues now: its warp, and others whose returns are under way, go on
        later if they must."""
        if self.under_way[warp.cta]:
            self.look(now)
        self.settle(warp.cta, now)
        warp.return_issued, warp.return_served = now, now + self.request
        warp.return_taken = warp.return_sent = NEVER
        self.under_way[warp.cta] += 1
        self.foresee(warp.cta, now)

    def look(self, now: int) -> None:
        """Lets all sub-cores come to this cycle, so that it is known which returns their stages have held up."""
        for core in self.cores:
            core.settle(now)
        self.record.returns_look = NEVER
        for sm in range(len(self.under_way)):
            self.look_later(self.waiting(sm), now)

    def look_later(self, warps: Iterable[WarpRecord], now: int) -> None:
        """Plans to look when it is known of each of these returns whether its stages hold it up."""
        for warp in warps:
            if warp.return_taken + self.request >= now:
                self.record.returns_look = min(self.record.returns_look, warp.return_taken + self.request + 1)

    def hold(self, core: Core, cycle: int) -> None:
        """Notes that the stages of a sub-core stand still in a cycle."""
        for warp in core.mine:
            waits = warp.return_issued != NEVER and warp.return_sent > cycle
            if waits and warp.return_taken == cycle - self.request:
                core.return_taken = self.held[warp.cta] = cycle
                self.foresee(warp.cta, cycle)

    def waiting(self, sm: int) -> Iterator[WarpRecord]:
        """The warps of an SM whose returns are under way."""
        return (warp for warp in self.warps if warp.return_issued != NEVER and warp.cta == sm)

    def settle(self, sm: int, now: int) -> None:
        """Notes which steps came before this cycle: no other return changes them."""
        if not self.under_way[sm]:
            return
        for warp in self.waiting(sm):
            core = self.cores[warp.core]
            if warp.return_taken < now:
                core.return_taken = max(core.return_taken, warp.return_taken)
            if warp.return_sent < now:
                warp.return_issued = NEVER
                self.under_way[sm] -= 1
                self.last_served[sm] = max(self.last_served[sm], warp.return_served)

    def foresee(self, sm: int, now: int) -> None:
        """Works out when the returns that are under way have their steps, and are served, from this cycle on, if no
        other one issues."""
        asking, taken, every = list[WarpRecord](), list[WarpRecord](), [*self.waiting(sm)]
        for warp in every:
            (taken if warp.return_taken < now else asking).append(warp)
        taken.sort(key=lambda warp: warp.return_taken)
        last = {warp.core: self.cores[warp.core].return_taken for warp in asking}
        cycle, served = now, self.last_served[sm]
        while asking or taken:
            first = min((last[warp.core] + self.again for warp in asking), default=NEVER)
            second = taken[0].return_taken + self.request if taken else NEVER
            cycle = max(cycle, min(first, second))
            if cycle == self.held[sm]:
                cycle += 1
                continue
            if able := [warp for warp in asking if last[warp.core] + self.again <= cycle]:
                warp = min(able, key=lambda warp: (last[warp.core], warp.return_issued))
                asking.remove(warp)
                taken.append(warp)
                warp.return_taken = last[warp.core] = cycle
            else:
                warp = taken.pop(0)
                warp.return_sent, served = cycle, max(cycle, served + self.interval)
                self.serve(warp, served)
            cycle += 1
        self.look_later(every, now)

    @staticmethod
    def serve(warp: WarpRecord, cycle: int) -> None:
        """Lets a return be served in a cycle, and its warp go on as much later as that is later than it was to be."""
        late = cycle - warp.return_served
        warp.return_served = cycle
        warp.issue_not_before += late
        if warp.redirected != NEVER:
            warp.redirected += late

    def state(self, sm: int, now: int) -> list[int]:
        """All that decides how the unit goes on, in cycles relative to `now`."""
        self.settle(sm, now)
        cores = self.cores[sm * len(self.cores) // len(self.under_way) :][: len(self.cores) // len(self.under_way)]
        state = [self.under_way[sm], max(self.last_served[sm] + self.interval - now, 0)]
        state.append(self.held[sm] >= now)
        state += (sum(other.return_taken < core.return_taken for other in cores) for core in cores)
        state += (max(core.return_taken + self.again - now, 0) for core in cores)
        for warp in self.waiting(sm):
            state += (warp.place, warp.return_issued - now, min(warp.return_taken - now, 0))
        return state
