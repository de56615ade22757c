"""How the warps of a sub-core get their instructions from its instruction cache, where their addresses are known.

A warp has a few lines of instructions: the one that it is in and those behind. One unit of the sub-core fetches lines
from the cache, which has all of them. A request waits in a queue; that for the target of a jump is taken at once if the
unit is free, and its line is then there a cycle sooner, unless the targets of two warps come in one cycle. Everything
was found with clocks behind jumps (tests/hardware/fetched.py).

The compiled engine has the same rules (`simulator/timing/compiled/engine.c`, functions of the same names).
"""

from __future__ import annotations

from simulator.compiler.timed_code import TimedOperation
from simulator.timing.pipes import Pipes
from simulator.timing.records import LINES, NEVER, ROOMS
from simulator.timing.warp import Warp

SEQUENTIAL, BEHIND, QUEUED, FRESH = 0, 1, 2, 3  # what a warp asks for: one more line, the line behind the target of a
# jump, the target itself, the target in the cycle in which it comes


class Fetching(Pipes):
    """The fetch unit of one sub-core: see `CoreRecord`."""

    def come_to(self, warp: Warp, operation: TimedOperation, now: int, jumped: bool) -> None:
        """Notes that a warp has issued an operation in this cycle and comes to its next; `jumped`: by a jump."""
        fetch, line = self.config.fetch, warp.operation.cache_line
        if fetch is None or line < 0:
            warp.line = warp.stands = -1
            return
        self.addressed = 1
        if warp.line < 0:  # it begins: nobody knows what is there, so all
            self.begin_lines(warp, operation.cache_line if operation.cache_line >= 0 else line)
        if jumped or line not in (operation.cache_line, operation.cache_line + 1):
            if operation.line_place == fetch.line - 1:
                self.leave_line(warp, operation.cache_line + 1, now)
            warp.redirected = max(warp.issue_not_before - fetch.latency, now + 1)
            warp.target = line * fetch.line + warp.operation.line_place
            warp.returned = int(operation.returning)
            return
        if line != operation.cache_line:
            self.leave_line(warp, line, now)
        if warp.operation.line_place != (operation.line_place + 1 + len(operation.upkeep)) % fetch.line:
            warp.stands = -1  # nobody knows what is between

    def leave_line(self, warp: Warp, line: int, now: int) -> None:
        """Notes that a warp comes to the next line, as it has issued the last instruction of one."""
        fetch = self.config.fetch
        assert fetch is not None
        warp.line = line
        if warp.requests == NEVER and warp.redirected == NEVER and warp.lines_end < line + fetch.lines:
            warp.requests, warp.asked, warp.returned = now + fetch.request, SEQUENTIAL, 0

    def begin_lines(self, warp: Warp, line: int) -> None:
        """Gives a warp the lines from this one on."""
        assert self.config.fetch is not None
        warp.line, warp.lines_end = line, line + self.config.fetch.lines
        warp.requests = warp.redirected = NEVER
        for place in range(LINES):
            warp.lines[place] = 0

    def next_fetch(self) -> int:
        """The next cycle in which the unit fetches, or a jump comes to it."""
        first = NEVER
        for warp in self.mine:
            if warp.line >= 0 and not warp.done:
                asks = max(warp.requests, self.fetch_free)
                first = min(first, warp.redirected, asks)
        return first

    def fetch_in(self, cycle: int) -> None:
        """Lets the unit fetch in this cycle."""
        fetch = self.config.fetch
        assert fetch is not None
        idle, coming = self.fetch_free < cycle, [warp for warp in self.mine if warp.redirected == cycle]
        for warp in coming:
            warp.line = warp.lines_end = warp.target // fetch.line
            warp.redirected, warp.requests = NEVER, cycle
            warp.asked = QUEUED if idle and len(coming) > 1 else FRESH
            if warp.stands >= 0:
                self.come_to_target(warp)
        if self.fetch_free <= cycle and (place := self.served(cycle)) >= 0:
            self.fetch_line(place, cycle)
        for warp in self.mine:
            if warp.requests == cycle and warp.asked == FRESH:
                warp.requests = cycle + fetch.request
                if not idle:
                    warp.asked = QUEUED

    @staticmethod
    def come_to_target(warp: Warp) -> None:
        """Lets a warp read from the target of its jump on."""
        warp.stands = warp.reads = warp.landed = warp.target
        for room in range(ROOMS):
            warp.freed[room] = 0

    def served(self, cycle: int) -> int:
        """The place of the warp for which the unit fetches in this cycle; -1 for none.

        First targets of jumps that have waited; then the line behind a target; then a target that has just come, and
        more lines of the warp before; then all others. Of equals that of a return goes first, and what it asks for up
        to the first line that its warp leaves; else the one with the highest number.
        """
        best, found = -1, -1
        for place, warp in enumerate(self.mine):
            if warp.line < 0 or warp.done or warp.requests > cycle:
                continue
            ranks = (int(place == self.fetcher), 2, 3, 1)  # by what it asks for
            rank = 2 * ranks[warp.asked] + (warp.returned if warp.redirected == NEVER else 0)
            if rank >= best:
                best, found = rank, place
        return found

    def fetch_line(self, place: int, cycle: int) -> None:
        """Fetches the next line of the warp at this place."""
        fetch, warp = self.config.fetch, self.mine[place]
        assert fetch is not None
        warp.lines[warp.lines_end % LINES] = cycle + fetch.latency + (warp.asked != FRESH)
        warp.lines_end += 1
        self.fetcher, self.fetch_free = place, cycle + fetch.interval
        warp.asked = BEHIND if warp.asked >= QUEUED else SEQUENTIAL
        warp.requests = cycle + fetch.request if warp.lines_end < warp.line + fetch.lines else NEVER
