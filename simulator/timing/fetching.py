"""How the warps of a sub-core get their instructions from its instruction cache, where their addresses are known.

A warp has a few lines of instructions: the one that it is in and those behind. One unit of the sub-core fetches lines
from the cache, which has all of them. A request waits in a queue; that for the target of a jump is taken at once if the
unit is free, and its line is then there a cycle sooner. Everything was found with clocks behind jumps
(tests/hardware/fetched.py).

The compiled engine has the same rules (`simulator/timing/compiled/engine.c`, functions of the same names).
"""

from __future__ import annotations

from simulator.timing.model import TimedOperation
from simulator.timing.pipes import Pipes
from simulator.timing.records import LINES, NEVER, ROOMS
from simulator.timing.warp import Warp

SEQUENTIAL, QUEUED, FRESH = 0, 1, 2  # what a warp asks for: the line behind, the target of a jump, the same just now


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
            warp.requests, warp.asked = now + fetch.request, SEQUENTIAL

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
        for warp in self.mine:
            if warp.redirected == cycle:
                warp.line = warp.lines_end = warp.target // fetch.line
                warp.redirected, warp.requests, warp.asked = NEVER, cycle, FRESH
                if warp.stands >= 0:
                    self.come_to_target(warp)
        idle = self.fetch_free < cycle
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
