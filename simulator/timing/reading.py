"""How the warps of a sub-core read instructions from their lines, where addresses are known.

A warp has room for a few instructions that it has read ahead, in the order of its code; each can issue `read` cycles
later at the soonest. It reads one a cycle: the target of a jump as soon as its line is there, and then one whenever
there is room, which an instruction that issues leaves to the next cycle. Even and odd places of lines are two banks, of
which each gives one instruction a cycle. Of two warps that would read from one, one has to try again in the next cycle;
if its instruction was to be read without time to spare, that issues later, too. Who goes first (`Reading.rank`):

1. A warp that has issued the last two instructions of the sub-core, the second of them in the cycle before.
2. The target of a jump, and what is behind it.
3. A warp that reads because an instruction of it has issued.
4. The third and fourth instruction from the target of a jump on.
5. A warp that reads because an instruction with the yield hint has issued, or one whose warp has issued before it, too,
   with the hint.

Measured: H200, 2026-11-27, `tests/hardware/fetched.py` (targets of jumps beside straight code), `stepped.py` and
`called.py` (every instruction of loops and of routines that they call, on two warps).

The compiled engine has the same rules (`simulator/timing/compiled/engine.c`, functions of the same names).
"""

from __future__ import annotations

from simulator.compiler.timed_code import TimedOperation
from simulator.timing.fetching import Fetching
from simulator.timing.records import LINES, NEVER, ROOMS
from simulator.timing.warp import Warp

AGAIN, QUIET, FLAGS = 1, 2, 4  # flags of an instruction that has left its room, and how many values they have
FIRST = 2  # instructions from the target of a jump on that are read with more right than those behind them


class Reading(Fetching):
    """The reads of one sub-core: see `WarpRecord`."""

    def begin_reading(self, warp: Warp, address: int) -> None:
        """Lets a warp of which nothing is known have read all that it has room for, from this address on."""
        assert self.config.fetch is not None
        warp.stands, warp.reads = address, address + self.config.fetch.room
        warp.landed = address - self.config.fetch.room
        for place in range(ROOMS):
            warp.there[place] = 0

    def begin(self, place: int, now: int) -> None:
        """Notes that the next operation of the warp at this place issues in this cycle."""
        warp, fetch = self.mine[place], self.config.fetch
        operation = warp.operation
        if fetch is None or not fetch.read or operation.cache_line < 0:
            return
        address = operation.cache_line * fetch.line + operation.line_place
        if warp.stands != address:
            self.begin_reading(warp, address)
        self.make_room(place, now, operation.yields)

    def make_room(self, place: int, now: int, hinted: bool) -> None:
        """Notes that the instruction of the warp at this place which stands next issues in this cycle, and leaves its
        room; `hinted`: whether it has the yield hint. With that: whether the issue before was of the same warp, and
        whether the warp gives way."""
        fetch, warp, again = self.config.fetch, self.mine[place], self.favourite == place
        assert fetch is not None
        quiet = hinted or (again and warp.gives_way)
        warp.freed[warp.stands % fetch.room] = FLAGS * now + QUIET * bool(quiet) + AGAIN * again
        warp.stands += 1
        warp.reads = max(warp.reads, warp.stands)

    def fetched(self, warp: Warp, operation: TimedOperation) -> int:
        """From which cycle on the warp has its next operation; of one that is not known, the first possible."""
        fetch, line = self.config.fetch, operation.cache_line
        if warp.line < 0 or line < 0 or fetch is None:
            return 0
        if warp.redirected != NEVER:
            return self.fetch_cycle + 1
        if warp.stands < 0:
            return self.fetch_cycle + 1 if line >= warp.lines_end else warp.lines[line % LINES]
        address = line * fetch.line + operation.line_place
        return warp.there[address % fetch.room] if address < warp.reads else self.fetch_cycle + 1 + fetch.read

    def reads_from(self, warp: Warp) -> int:
        """From which cycle on the warp can read its next instruction, as far as its room and its lines go; NEVER if it
        has no room or the line is not on its way."""
        fetch = self.config.fetch
        assert fetch is not None
        line = warp.reads // fetch.line
        if warp.stands < 0 or warp.line < 0 or warp.done:
            return NEVER
        if warp.reads >= warp.stands + fetch.room or line >= warp.lines_end:
            return NEVER
        return max(warp.freed[warp.reads % fetch.room] // FLAGS + 1, warp.lines[line % LINES] - fetch.read)

    def next_reading(self) -> int:
        """The next cycle in which a warp reads."""
        return max(min(map(self.reads_from, self.mine)), self.fetch_cycle + 1)

    def rank(self, warp: Warp, cycle: int) -> int:
        """With how much right the warp reads its next instruction in a cycle."""
        fetch = self.config.fetch
        assert fetch is not None
        behind = warp.reads - warp.landed
        if 0 <= behind < fetch.room:
            return 3 if behind < FIRST else 1
        freed = warp.freed[warp.reads % fetch.room]
        if freed & QUIET:
            return 0
        return 4 if freed & AGAIN and freed // FLAGS + 1 == cycle else 2

    def read_ahead(self, cycle: int) -> None:
        """Lets the warps read in this cycle, from each bank one; of equals that of the higher number."""
        fetch = self.config.fetch
        assert fetch is not None
        best, found = [-1, -1], list[Warp | None]([None, None])
        for warp in self.mine:
            if self.reads_from(warp) <= cycle:
                bank, rank = warp.reads & 1, self.rank(warp, cycle)
                if rank >= best[bank]:
                    best[bank], found[bank] = rank, warp
        for reader in found:
            if reader is not None:
                reader.there[reader.reads % fetch.room] = cycle + fetch.read
                reader.reads += 1
        self.fetch_cycle = cycle

    def fetch(self, now: int) -> None:
        """Lets the unit fetch lines, and the warps read instructions, up to this cycle."""
        if self.addressed:
            while True:
                line, read = self.next_fetch(), self.next_reading()
                if min(line, read) > now:
                    break
                if line <= read:
                    self.fetch_in(line)
                else:
                    self.read_ahead(read)
        self.fetch_cycle = now

    def reading_state(self, now: int) -> list[int]:
        """All that decides what the warps read next, in cycles relative to `now`, up to which they have read."""
        fetch, state = self.config.fetch, list[int]()
        if not self.addressed:
            return state
        assert fetch is not None
        for warp in self.mine:
            if warp.done or warp.line < 0:
                continue
            if warp.stands < 0:
                state.append(-1)
                continue
            state += (warp.stands & 1, warp.reads - warp.stands, min(warp.reads - warp.landed, fetch.room))
            state += (max(warp.there[place % fetch.room] - now, -1) for place in range(warp.stands, warp.reads))
            for place in range(warp.reads, warp.stands + fetch.room):
                freed = warp.freed[place % fetch.room]
                state.append(freed % FLAGS + FLAGS if freed // FLAGS >= now else freed & QUIET)
        return state
