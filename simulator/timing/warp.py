"""A warp in the timing engine: how far it is in its program, and until when each thing makes it wait."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Mapping

from isa.forms.record import Unit
from simulator.compiler.timed_code import Entry, Job, Periodic, StallReason, TimedCode, TimedOperation
from simulator.timing.counters import REASONS
from simulator.timing.records import BOARDS, LINES, NEVER, ROOMS, CostRecord, WarpRecord, left, link, relative

_ZERO = array("q", [0])


class Warp(WarpRecord):
    """How far a warp is in its program, and what it waits for: see `WarpRecord`, which has what the compiled engine
    needs as well.

    Args:
        upkeep: the longest `upkeep` of its operations.

    Attributes:
        id: its number over all CTAs.
        ready, producers, readable, pinned, boards, counts, starts, turns, upkeep, lines, freed, there: the arrays of
            its record.
        complete: when all that it has queued at the tcgen05 unit is complete; what is not started does not count yet.
        moves: when all its tcgen05.ld, and all its tcgen05.st, are complete.
        arrived: whether it is at the barrier of the cluster, in its current phase.
        behind: cycles that it waits after the barrier that it is at has released it.
    """

    def __init__(
        self, number: int, code: TimedCode, registers: int, place: int, cta: int, core: int, upkeep: int
    ) -> None:
        super().__init__(place=place, base=place * REASONS, cta=cta, core=core, last=-1, acted=-1, comparison=-2)
        self.scheduled, self.counted = int(code.scheduled), code.counted
        self.id, self.code, self.program, self.gone = number, code, code.items, NEVER
        self.issue_not_before_reason, self.operands_reason = StallReason.ISSUE, StallReason.DEPENDENCY
        self.registers, self.loops, self.items = registers, len(code.ends), len(code.items)
        self.ready, self.pinned, self.boards = _zeros(registers), _zeros(registers), _zeros(2 * BOARDS)
        self.readable, self.lines, self.freed, self.there = map(_zeros, (registers, LINES, ROOMS, ROOMS))
        self.line = self.stands = -1
        self.producers = array("q", [Unit.TENSOR]) * registers
        self.counts, self.starts, self.turns = _zeros(self.loops), _zeros(self.loops), _zeros(self.items)
        self.upkeep = _zeros(max(upkeep, 1))
        link(
            self,
            ready=self.ready,
            producers=self.producers,
            readable=self.readable,
            pinned=self.pinned,
            boards=self.boards,
            counts=self.counts,
            starts=self.starts,
            turns=self.turns,
            upkeep=self.upkeep,
            lines=self.lines,
            freed=self.freed,
            there=self.there,
        )
        self.complete = 0
        self.moves = [0, 0]
        self.arrived = False
        self.behind = 0

    @property
    def operation(self) -> TimedOperation:
        """Its next operation."""
        return self.program[self.pc]  # type: ignore[return-value] # never the end of a loop, which takes no time

    def operation_at(self, place: int) -> TimedOperation:
        """The operation at that place of its code."""
        return self.program[place]  # type: ignore[return-value] # as above

    def wait_until(self, cycle: int, reason: StallReason) -> None:
        """Lets the warp issue nothing before this cycle, and notes why."""
        self.issue_not_before, self.issue_not_before_reason = max(self.issue_not_before, cycle), reason

    @property
    def due(self) -> int:
        """The cycle in which an instruction of its upkeep issues next; NEVER if none is to come."""
        return self.upkeep[self.upkeep_seen] >> 1 if self.upkeep_seen < self.upkeep_count else NEVER

    def put_off(self, cycles: int, now: int) -> None:
        """Lets its upkeep and what follows come so many cycles later."""
        for place in range(self.upkeep_seen, self.upkeep_count):
            self.upkeep[place] += 2 * cycles
        self.issue_not_before += cycles
        if now < self.redirected < NEVER:
            self.redirected += cycles
        if self.comparison >= now:
            self.comparison += cycles

    def stand_still(self, cycle: int, fetched: int) -> None:
        """Lets what it waits for as compiled, and its upkeep, come a cycle later, if that is not over by `cycle`; but
        not the target of a jump that has left the stages, until it has been `fetched`, so many cycles before it can
        issue. What comes later and has not been fetched is fetched later, too. A NOP with the yield hint that would
        issue in the next cycle comes later, but not what follows: that waits a cycle for the hint in any case."""
        last, begins = self.upkeep_seen + 1 == self.upkeep_count, self.issue_not_before
        hinted = last and begins == cycle + 3 and self.upkeep[self.upkeep_seen] == 2 * (cycle + 1) + 1
        for place in range(self.upkeep_seen, self.upkeep_count):
            self.upkeep[place] += 2 * (self.upkeep[place] >> 1 >= cycle)
        if cycle <= begins and not hinted and (cycle <= self.gone or cycle > begins - fetched + 1):
            self.issue_not_before += 1
            self.redirected += cycle <= self.redirected < NEVER
            self.gone += cycle <= self.gone < NEVER
        self.operands_not_before += not hinted and self.operands_not_before >= cycle

    def keep_up(self, operation: TimedOperation, now: int) -> None:
        """Notes what issues behind an operation that issues now, without being one."""
        self.upkeep_seen, self.upkeep_count = 0, len(operation.upkeep)
        self.counter, self.runs = operation.counter, operation.runs
        for place, code in enumerate(operation.upkeep):
            self.upkeep[place] = 2 * now + code

    def job(self, operation: TimedOperation) -> Job | None:
        """What this execution of an asynchronous operation does; None if it does nothing."""
        jobs = operation.jobs.get(self.id) if operation.jobs else None
        return self.next(jobs) if jobs else None

    def wavefronts(self, operation: TimedOperation) -> int:
        """How many wavefronts this execution of an access to shared memory takes."""
        assert operation.costs is not None
        return self.next(operation.costs[self.id])

    def next(self, executions: Periodic[Entry]) -> Entry:
        """The entry of this execution of the operation at hand."""
        if len(executions.entries) == 1:
            return executions.entries[0]
        position = self.turns[self.pc]
        self.turns[self.pc] = executions.after(position)
        return executions.entries[position]

    def link_costs(self, by_place: Mapping[int, Mapping[int, Periodic[int]]]) -> None:
        """Writes down for the compiled engine what its operations at these places take: by place and warp, the
        wavefronts of each execution, or what it fetches."""
        if not by_place:
            return
        self.costs = (CostRecord * self.items)()
        self.entries: dict[int, array[int]] = {}
        for place, costs in by_place.items():
            executions = costs[self.id]
            entries = self.entries.setdefault(id(executions.entries), array("q", executions.entries))
            self.costs[place] = CostRecord(entries.buffer_info()[0], len(entries), executions.prefix)
        self.costs_array = ctypes.addressof(self.costs)

    def state(self, now: int, minimum: int, margin: int, accesses: int) -> list[int]:
        """All that decides what it does next, in cycles relative to `now`, but for the counts of its loops.

        Args:
            minimum: cycles of a run of a loop, at least.
            margin: cycles for which a result can matter after it is there.
            accesses: how many accesses its sub-core has made.
        """
        if self.done:
            return [-1 - self.blocked, max(self.comparison + 2 - now, 0)]
        since = now if self.blocked else self.last  # what has passed before a release is counted as waiting for it
        state = [self.pc, self.blocked, since - now]
        if self.blocked:  # what of its wait will count as one for operands
            state.append(max(self.operands_not_before - self.last - 1, 0))
        if self.issue_not_before > since:
            state += (1, self.issue_not_before - now, self.issue_not_before_reason, self.operands_not_before - now)
            state.append(max(self.gone - now + 1, 0) if self.gone < NEVER else -1)
        else:
            state.append(0)
        if self.operands_ready > since:
            state += (1, left(self.operands_ready, now), self.operands_reason)
        else:
            state.append(0)
        state += (self.ended, self.untried)
        state += (max(cycle - now, 0) for cycle in (self.access, self.sent, self.comparison + 2))
        state += (max(cycle + minimum - now, 0) for cycle in self.starts)
        for register, cycle in enumerate(self.ready):
            if cycle + margin > now:
                state += (register, relative(cycle, now, accesses), self.producers[register])
        state.append(-1)
        for register, cycle in enumerate(self.readable):
            if cycle + margin > now:
                state += (register, cycle - now)
        state.append(-1)
        for register, cycle in enumerate(self.pinned):
            if cycle > now:
                state += (register, cycle - now)
        state.append(-1)
        state += (max(cycle - now, 0) for cycle in self.boards[:BOARDS])
        state += (relative(max(cycle, now), now, accesses) for cycle in self.boards[BOARDS:])
        for place, turn in enumerate(self.turns):
            if turn:
                state += (place, turn)
        state.append(-1)
        state += (code - 2 * now for code in self.upkeep[self.upkeep_seen : self.upkeep_count])
        state += (-1, self.line)
        if self.line >= 0:
            state += (self.lines_end, left(self.requests, now), left(self.redirected, now), self.target, self.asked)
            state.append(self.returned)
            state += (max(self.lines[line % LINES] - now, 0) for line in range(self.line, self.lines_end))
        return state


def _zeros(count: int) -> array[int]:
    return _ZERO * count


def warps_of(
    codes: list[TimedCode], cta_warps: int, registers: int, sub_cores: int, kind: type[Warp] = Warp
) -> list[Warp]:
    """The warps that have a program, by number; `kind` is their class."""
    programs = {
        warp: (code, upkeep) for code in codes for upkeep in [_upkeep(code)] for warp in code.warps if code.items
    }
    warps = []
    for place, (number, (code, upkeep)) in enumerate(sorted(programs.items())):
        cta, local = divmod(number, max(cta_warps, 1))
        warps.append(kind(number, code, registers, place, cta, cta * sub_cores + local % sub_cores, upkeep))
    return warps


def _upkeep(code: TimedCode) -> int:
    """The longest `upkeep` of the operations of a program."""
    return max((len(item.upkeep) for item in code.items if isinstance(item, TimedOperation)), default=0)
