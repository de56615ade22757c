"""How the warps of a sub-core get their instructions from its instruction cache, where their addresses are known.

A warp has a few lines of instructions: the one that it is in and those behind. One unit of the sub-core fetches lines
from the cache, which has all of them. A request waits in a queue; that for the target of a jump is taken at once if the
unit is free, and its line is then there a cycle sooner. Everything was found with clocks behind jumps
(tests/hardware/fetched.py).

From its lines a warp reads instructions ahead, one a cycle, three cycles before they can issue at the soonest. Even and
odd places of a line are two banks, of which each gives one instruction a cycle. When an instruction issues, its warp
reads, in the next cycle and from the same bank, the one that is to take its room. So an instruction that has been read
without time to spare, as the target of a jump is, comes a cycle late if another warp's has issued four cycles before it
(`clash`) at a place that is even or odd like its own (`Fetching.clashes`).

The compiled engine has the same rules (`simulator/timing/compiled/engine.c`, functions of the same names).
"""

from __future__ import annotations

from array import array

from simulator.timing.model import TimedOperation
from simulator.timing.pipes import Pipes
from simulator.timing.records import FOLLOWS, ISSUED, LINES, NEVER, link
from simulator.timing.warp import Warp

SEQUENTIAL, QUEUED, FRESH = 0, 1, 2  # what a warp asks for: the line behind, the target of a jump, the same just now


class Fetching(Pipes):
    """The fetch unit of one sub-core: see `CoreRecord`.

    Attributes:
        issued: the array of its record.
    """

    def begin_fetching(self) -> None:
        """Sets up what has issued last."""
        self.issued = array("q", [-NEVER, 0]) * ISSUED
        link(self, issued=self.issued)

    def come_to(self, warp: Warp, operation: TimedOperation, now: int, jumped: bool) -> None:
        """Notes that a warp has issued an operation in this cycle and comes to its next; `jumped`: by a jump."""
        fetch, line = self.config.fetch, warp.operation.cache_line
        warp.next_place = operation.line_place + 1 if operation.cache_line >= 0 else -1
        if fetch is None or line < 0:
            warp.line = -1
            return
        if warp.line < 0:  # it begins: nobody knows what is there, so all
            self.begin_lines(warp, operation.cache_line if operation.cache_line >= 0 else line)
        if jumped or line not in (operation.cache_line, operation.cache_line + 1):
            if operation.line_place == fetch.line - 1:
                self.leave_line(warp, operation.cache_line + 1, now)
            warp.landed = 0
            warp.redirected, warp.target = max(warp.issue_not_before - fetch.latency, now + 1), line
            return
        if line != operation.cache_line:
            self.leave_line(warp, line, now)

    def leave_line(self, warp: Warp, line: int, now: int) -> None:
        """Notes that a warp comes to the next line, as it has issued the last instruction of one."""
        fetch = self.config.fetch
        assert fetch is not None
        warp.line = line
        if warp.requests == NEVER and warp.redirected == NEVER and warp.lines_end < line + fetch.lines:
            warp.requests, warp.asked = now + fetch.request, SEQUENTIAL

    def begin_lines(self, warp: Warp, line: int) -> None:
        """Gives a warp the lines from this one on."""
        assert self.config.fetch is not None
        warp.line, warp.lines_end = line, line + self.config.fetch.lines
        warp.requests = warp.redirected = warp.landed = NEVER
        for place in range(LINES):
            warp.lines[place] = 0

    def fetched(self, warp: Warp, operation: TimedOperation) -> int:
        """From which cycle on the warp has its next operation; of one that is not known, the next."""
        line = operation.cache_line
        if warp.line < 0 or line < 0:
            return 0
        if warp.redirected != NEVER or line >= warp.lines_end:
            return self.fetch_cycle + 1
        return warp.lines[line % LINES]

    def note_issue(self, place: int, now: int, stands: int, pauses: bool) -> None:
        """Notes for `clashes` that an instruction of the warp at this place issues in this cycle, where in its line it
        `stands`, and whether the issue before was of the same warp. If the warp `pauses` behind it, or that one had the
        yield hint, nothing is read for it in the next cycle."""
        at, warp, again = 2 * (now % ISSUED), self.mine[place], self.favourite == place
        self.issued[at] = -NEVER if pauses or (again and warp.gives_way) else now
        self.issued[at + 1] = 4 * place + 2 * (stands & 1) + again

    def begin(self, place: int, now: int) -> None:
        """Notes that the next operation of the warp at this place issues in this cycle, and whether it has been read
        without time to spare."""
        warp, fetch = self.mine[place], self.config.fetch
        operation = warp.operation
        if fetch is None or operation.cache_line < 0:
            return
        pauses = operation.yields and operation.stall >= fetch.pause
        self.note_issue(place, now, operation.line_place, pauses)
        if warp.line < 0:
            return
        there = max(warp.issue_not_before, self.fetched(warp, operation))
        if warp.landed == 0:
            warp.began, warp.queued = now, int(there > warp.issue_not_before)
            warp.landed = now if now == there + self.clashes(warp, there) else NEVER
        else:
            warp.landed = now if warp.landed == now - 1 else NEVER

    def clashes(self, warp: Warp, cycle: int) -> bool:
        """Whether the warp's next operation cannot issue in a cycle because another warp took the read that it would
        have needed.

        It is read without time to spare if it is the target of the warp's last jump, or one behind that if one has
        issued in each cycle since, or if its line comes in this cycle. Another warp's instruction that issued `clash`
        cycles before takes the read if both stand at even or both at odd places, and if the issue before that was of
        the same warp. The third operation from the target on, and those behind it, lose the read in any case, and if
        the target waited for its line, also to the target of another warp's jump (`meets`).
        """
        fetch = self.config.fetch
        if fetch is None or not fetch.clash:
            return False
        if warp.queued and warp.landed == cycle - 1 and self.meets(warp, cycle):
            return True
        at = 2 * ((cycle - fetch.clash) % ISSUED)
        code = self.issued[at + 1]
        if self.issued[at] != cycle - fetch.clash or self.mine[code >> 2] is warp:
            return False
        if (warp.operation.line_place ^ code >> 1) & 1:
            return False
        there = self.fetched(warp, warp.operation)
        if warp.landed == 0:
            return bool(code & 1) and cycle == max(warp.issue_not_before, there)
        if warp.landed != cycle - 1 and there != cycle:
            return False
        return bool(code & 1) or cycle >= warp.began + FOLLOWS

    def meets(self, warp: Warp, cycle: int) -> bool:
        """Whether the warp's next operation and the target of another warp's jump would be read in one cycle, from the
        same bank, and the other warp goes first."""
        return cycle >= warp.began + FOLLOWS and any(
            other.landed == 0
            and other.line >= 0
            and not other.done
            and other.redirected == NEVER
            and not (other.operation.line_place ^ warp.operation.line_place) & 1
            and max(other.issue_not_before, self.fetched(other, other.operation)) == cycle
            for other in self.mine
            if other is not warp
        )

    def last_issues(self, now: int) -> list[int]:
        """Of its state the last issues, if they can still make an instruction late: of each cycle up to `now`."""
        cycles = range(now, now - (self.config.fetch.clash if self.config.fetch is not None else 0) - 1, -1)
        found = ((cycle, self.issued[at := 2 * (cycle % ISSUED)], self.issued[at + 1]) for cycle in cycles)
        return [code if issued == cycle else -1 for cycle, issued, code in found]

    def next_fetch(self) -> int:
        """The next cycle in which the unit fetches, or a jump comes to it."""
        first = NEVER
        for warp in self.mine:
            if warp.line >= 0 and not warp.done:
                asks = max(warp.requests, self.fetch_free)
                first = min(first, warp.redirected, asks)
        return first

    def fetch(self, now: int) -> None:
        """Lets the unit fetch up to this cycle."""
        if self.config.fetch is None:
            return
        while (cycle := self.next_fetch()) <= now:
            for warp in self.mine:
                if warp.redirected == cycle:
                    warp.line = warp.lines_end = warp.target
                    warp.redirected, warp.requests, warp.asked = NEVER, cycle, FRESH
            if self.fetch_free <= cycle and (place := self.served(cycle)) >= 0:
                self.fetch_line(place, cycle)
            for warp in self.mine:
                if warp.requests == cycle and warp.asked == FRESH:
                    warp.requests, warp.asked = cycle + self.config.fetch.request, QUEUED
        self.fetch_cycle = now

    def served(self, cycle: int) -> int:
        """The place of the warp for which the unit fetches in this cycle; -1 for none.

        First the one for which it has just fetched the target of a jump; then the target of a jump that has waited; of
        the target of a jump that has just come, and more lines of the warp before, that of the higher number; then all
        others.
        """
        best, found = -1, -1
        for place, warp in enumerate(self.mine):
            if warp.line < 0 or warp.done or warp.requests > cycle:
                continue
            last = place == self.fetcher and warp.asked == SEQUENTIAL
            if last and self.fetched_target:
                rank = 3
            elif warp.asked == QUEUED:
                rank = 2
            else:
                rank = int(last or warp.asked == FRESH)
            if rank >= best:
                best, found = rank, place
        return found

    def fetch_line(self, place: int, cycle: int) -> None:
        """Fetches the next line of the warp at this place."""
        fetch, warp = self.config.fetch, self.mine[place]
        assert fetch is not None
        warp.lines[warp.lines_end % LINES] = cycle + fetch.latency + (warp.asked != FRESH)
        warp.lines_end += 1
        self.fetched_target = warp.asked != SEQUENTIAL
        self.fetcher, self.fetch_free, warp.asked = place, cycle + fetch.interval, SEQUENTIAL
        warp.requests = cycle + fetch.request if warp.lines_end < warp.line + fetch.lines else NEVER
