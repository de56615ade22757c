"""How returns from routines wait for each other: a unit of the SM serves those of all its sub-cores.

What sub-cores ask for comes to the unit over one path, in two steps, one step of one return a cycle. The first takes
the return from its sub-core: of those at which one waits, from that from which one has been taken the longest ago, but
not from the same one again for `return_again` cycles. The second comes `return_request` cycles later, in the same
order, or when no return is taken: first steps go first. Then the return is served, no sooner than `return_interval`
cycles behind the one before it.

So of two returns that issue in one cycle, or in two that follow each other, only the second is late. One that issues
`return_request` cycles behind another is taken when that would have its second step, and makes it a cycle late, too.

The address to which a return leads is in two registers, an even one and the next. `return_reads` cycles behind its
first step the sub-core reads the one, and behind its second the other, before integer and float instructions; as much
later as the stages have stood still while the return was in them. If a matrix instruction that would begin waits for
the first of these reads, the return has its second step a cycle later.

Measured: H200, 2026-11-27, `tests/hardware/fetched.py`: all of 34,400 returns of one warp of each sub-core to the
cycle (`apart`, `crowded`); which registers are read, 2026-11-28, `fetched.py` (`reads`); what matrix instructions do to
that, with clocks in loops of `called.py` and `started.py`.

The compiled engine has the same rules (`simulator/timing/compiled/engine.c`, functions of the same names).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from simulator.chip.sequences import Sequences
from simulator.timing.core_records import SmRecord
from simulator.timing.records import NEVER, WarpRecord

RECENT = 64  # cycles after which a return makes no other one late


class Core(Protocol):
    """A sub-core: `simulator.timing.cores.SubCore`."""

    return_taken: int
    return_until: int

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
        request, interval, again, reads: cycles from the first step of a return to its second, from one that is served
            to the next, from one that is taken from a sub-core to the next of that, and from a step to the read.
    """

    def __init__(
        self, rules: Sequences | None, record: SmRecord, warps: Sequence[WarpRecord], cores: Sequence[Core]
    ) -> None:
        self.warps, self.cores, self.record = warps, cores, record
        record.returns_look = NEVER
        self.request = record.return_request = rules.return_request if rules is not None else 0
        self.interval = record.return_interval = rules.return_interval if rules is not None else 0
        self.again = record.return_again = rules.return_again if rules is not None else 0
        self.reads = record.return_reads = rules.return_reads if rules is not None else 0
        for warp in warps:
            warp.return_issued, warp.return_late, warp.return_put_off = NEVER, 0, 0
            warp.return_taken = warp.return_sent = warp.return_served = -NEVER
        for place, core in enumerate(cores):
            core.return_taken, core.return_until = place - len(cores) - self.again, -1

    def ask(self, warp: WarpRecord, now: int) -> None:
        """Lets a return wait to be taken, which issues now: its warp, and others whose returns are under way, go on
        later if they must."""
        self.settle(warp.cta, now)
        warp.return_issued, warp.return_served = now, now + self.request
        warp.return_left, warp.return_late, warp.return_put_off = warp.gone, 0, 0
        warp.return_taken = warp.return_sent = NEVER
        self.foresee(warp.cta, now)

    def look(self, now: int) -> None:
        """Lets all sub-cores come to this cycle, so that it is known which returns come later."""
        for core in self.cores:
            core.settle(now)
        self.record.returns_look = NEVER
        self.look_later(now)

    def look_later(self, now: int) -> None:
        """Plans to look when it is known of each return whether a matrix instruction waits for its first read."""
        for warp in self.warps:
            if now <= (read := self.reads_at(warp)[0]) < NEVER:
                self.record.returns_look = min(self.record.returns_look, read + 1)

    def reads_at(self, warp: WarpRecord) -> tuple[int, int]:
        """The cycles in which a return reads its two registers."""
        behind = self.reads + warp.return_late
        return warp.return_taken + behind, warp.return_sent + behind + warp.return_put_off

    def stand_still(self, core: Core) -> None:
        """Notes that the stages of a sub-core stand still, after its warps have."""
        for warp in core.mine if self.reads else ():
            if warp.gone == warp.return_left + 1:  # the return is in them
                warp.return_left += 1
                warp.return_late += 1
                self.come_later(core, warp)

    def put_off(self, core: Core, cycle: int) -> None:
        """Notes that a matrix instruction waits for what is read in a cycle."""
        for warp in core.mine if cycle <= core.return_until else ():
            if self.reads_at(warp)[0] == cycle:
                warp.return_put_off = 1
                self.come_later(core, warp)

    def come_later(self, core: Core, warp: WarpRecord) -> None:
        """Lets those be served later that must be, as a return has its second step later."""
        core.return_until = max(core.return_until, self.reads_at(warp)[1])
        self.line_up(warp.cta, warp.return_sent)
        self.look_later(self.record.now)

    def waiting(self, sm: int) -> Iterator[WarpRecord]:
        """The warps of an SM whose returns are under way."""
        return (warp for warp in self.warps if warp.return_issued != NEVER and warp.cta == sm)

    def settle(self, sm: int, now: int) -> None:
        """Notes which steps came before this cycle: no other return changes them."""
        for warp in self.waiting(sm):
            core = self.cores[warp.core]
            if warp.return_taken < now:
                core.return_taken = max(core.return_taken, warp.return_taken)
            if warp.return_sent < now:
                warp.return_issued = NEVER

    def foresee(self, sm: int, now: int) -> None:
        """Works out when the returns that are under way have their steps, and are served, from this cycle on, if no
        other one issues."""
        asking, taken, every = list[WarpRecord](), list[WarpRecord](), [*self.waiting(sm)]
        for warp in every:
            (taken if warp.return_taken < now else asking).append(warp)
        taken.sort(key=lambda warp: warp.return_taken)
        last = {warp.core: self.cores[warp.core].return_taken for warp in asking}
        cycle = now
        while asking or taken:
            first = min((last[warp.core] + self.again for warp in asking), default=NEVER)
            second = taken[0].return_taken + self.request if taken else NEVER
            cycle = max(cycle, min(first, second))
            if able := [warp for warp in asking if last[warp.core] + self.again <= cycle]:
                warp = min(able, key=lambda warp: (last[warp.core], warp.return_issued))
                asking.remove(warp)
                taken.append(warp)
                warp.return_taken = last[warp.core] = cycle
            else:
                taken.pop(0).return_sent = cycle
            cycle += 1
        for warp in every if self.reads else ():
            core = self.cores[warp.core]
            core.return_until = max(core.return_until, self.reads_at(warp)[1])
        self.line_up(sm, now)
        self.look_later(now)

    def line_up(self, sm: int, begin: int) -> None:
        """Lets the returns that have their second step from a cycle on be served, one behind the other."""
        recent = [warp for warp in self.warps if warp.cta == sm and begin - RECENT < warp.return_sent < NEVER]
        served = -NEVER
        for warp in sorted(recent, key=lambda warp: warp.return_sent):
            late = warp.return_late
            if warp.return_sent >= begin:
                self.serve(warp, max(warp.return_sent + warp.return_put_off, served + self.interval - late))
            served = max(served, warp.return_served + late)

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
        each, waiting = len(self.cores) // self.record.sms, [*self.waiting(sm)]
        cores = self.cores[sm * each : sm * each + each]
        state = [len(waiting)]
        state += (sum(other.return_taken < core.return_taken for other in cores) for core in cores)
        state += (max(core.return_taken + self.again - now, 0) for core in cores)
        for warp in waiting:
            state += (warp.place, warp.return_issued - now, min(warp.return_taken - now, 0))
        for warp in self.warps:
            if warp.cta == sm:
                state += (max(cycle + 1 - now, 0) for cycle in self.reads_at(warp))
                state.append(max(warp.return_served + warp.return_late + self.interval - now, 0))
        return state
