"""Records what the timing engine does, for timelines and for stalls by instruction.

Two things are kept. A ledger for each instruction of each program: its issues, and the cycles that warps waited for it,
by `StallReason`. It lies in the engine's own counters, so that a skipped period counts as often as it repeats. And,
of a window of cycles, every issue and every time that a unit was taken; no repetition is skipped before the window's
end, so that all of them are seen.

Units and causes come from the enums `Unit` and `StallReason`: what is added there shows up by itself. A server
that belongs to the SM (not to a sub-core) says with `serve` when it works.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from isa.forms.record import Unit
from simulator.compiler.timed_code import StallReason, TimedCode, TimedOperation
from simulator.timing.counters import REASONS, Counters
from simulator.timing.observer import Issue, Stall, TimingObserver
from simulator.timing.pipes import Pipes
from simulator.timing.warp import Warp

_COMPILED = (
    StallReason.DEPENDENCY,
    StallReason.TENSOR,
    StallReason.ALU,
)  # waits before an instruction that are written into the one before
_PIPES = (Unit.TENSOR, Unit.ALU, Unit.FMA)
Window = tuple[int, int]  # first cycle, and the one after the last


class Busy(NamedTuple):
    """A unit that was taken.

    Attributes:
        name: of the unit ("tensor", "alu", ... as in `Unit`, or what `serve` was told).
        core: the sub-core, counted over all SMs; None for a unit of an SM.
        sm: the SM.
        issue: the issue that it was taken for.
    """

    name: str
    core: int | None
    sm: int
    begin: int
    end: int
    issue: Issue


class Flip(NamedTuple):
    """The completion of a phase of an mbarrier."""

    name: str
    sm: int
    parity: int
    cycle: int


class Recorder(TimingObserver):
    """Records one run.

    Attributes:
        window: the cycles of which events are kept, (first, one after the last); (0, 0) for none.
        issues: in the order of issue.
        taken: times in which units were taken, in the order in which that was decided.
        flips: completed phases of mbarriers.
        last: cycle of each warp's last issue; behind the window, skipped cycles are not counted.
        tails: the wait with which a warp's program ended, by warp.
        steps: by warp, issues of further machine instructions of sequences, as stalls of the cause SEQUENCE, and the
            waits before them.
    """

    def __init__(self, window: Window = (0, 0)) -> None:
        self.window = window
        self.steps_until = window[1]
        self.last: dict[int, int] = {}
        self.issues: list[Issue] = []
        self.taken: list[Busy] = []
        self.flips: list[Flip] = []
        self.tails: dict[int, Stall] = {}
        self.steps: dict[int, list[Stall]] = {}
        self.current = None  # what units are taken for
        self._issuing: Issue | None = None
        self._interval, self._unit = 0, Unit.TENSOR  # of the operation that issues
        self._begun: dict[
            tuple[int, int], Issue
        ] = {}  # by warp and place, the issue that further parts of its sequence belong to
        self._writers: dict[tuple[int, int], Issue] = {}

    # The engine calls these

    def attach(
        self, counters: Counters, warps: Sequence[Warp], codes: Sequence[TimedCode], sub_cores: int, margin: int
    ) -> None:
        self._counters, self._codes, self._sub_cores, self._margin = counters, list(codes), sub_cores, margin
        self._first: dict[int, int] = {}  # by the identity of a program: where its ledger begins
        for code in self._codes:
            self._first[id(code)] = len(counters.ledger)
            counters.ledger.extend([0] * (REASONS * code.places))
        self._places = dict.fromkeys(
            (warp.id for warp in warps), (0, False)
        )  # what each issued last, whether it blocks

    def issue(self, core: Pipes, warp: Warp, operation: TimedOperation, now: int, stalls: Sequence[Stall]) -> None:
        """Called when a warp issues an operation, before it starts."""
        counted = self._counters.ledger
        row = self._first[id(warp.code)] + REASONS * operation.place
        blocked = self._places[warp.id][1]
        for cause, begin, end in stalls:
            if begin < warp.issue_not_before and (blocked or cause not in _COMPILED):
                self.wait(warp, cause, end - begin)
            else:
                counted[row + cause] += end - begin
        counted[row + (StallReason.SEQUENCE if operation.part else StallReason.ISSUED)] += 1
        self._places[warp.id] = operation.place, operation.blocking
        self.last[warp.id] = now
        first, last = self.window
        if now >= last and (not stalls or stalls[0].begin >= last):  # it counts if a stall reaches into the window
            self.current = self._issuing = None
            return
        self._interval, self._unit = operation.interval, operation.unit
        if operation.part:
            begun = None if operation.early else self._begun.get((warp.id, operation.place))
            if begun is None:  # work in front of a loop belongs to no issue in it
                begun = Issue(warp.id, operation.place, core.number, operation.unit, now, now + 1, now, ())
            self.current = self._issuing = begun
            self.steps.setdefault(warp.id, []).extend((*stalls, Stall(StallReason.SEQUENCE, now, now + 1)))
            return
        issue = Issue(warp.id, operation.place, core.number, operation.unit, now, now + 1, now, tuple(stalls))
        if now >= first:
            issue.producer = self._producer(warp, operation, stalls)
            self.issues.append(issue)
        for register in operation.writes:
            self._writers[warp.id, register] = issue
        self.current = self._issuing = self._begun[warp.id, operation.place] = issue

    def issued(self, core: Pipes, now: int, done: int) -> None:
        """Called when the operation of the last issue works, or queues."""
        issue = self._issuing
        if issue is not None:
            issue.done = max(issue.done, done)
            free = (
                now + self._interval
                if self._unit in _PIPES
                else now
                if self._unit is Unit.SHARED
                else core.free[self._unit]
            )
            self._keep(self._unit.name.lower(), core.number, core.number // self._sub_cores, now, free, issue)

    def resume(self, issue: Issue | None) -> None:
        """Called to say that the next calls belong to that issue."""
        self.current = issue

    def start(self, issue: Issue | None, now: int, done: int) -> None:
        """Called when the operation that queued since that issue starts."""
        self.resume(issue)
        if issue is not None:
            issue.started = now
            self.complete(done)

    def complete(self, done: int) -> None:
        """Called to say when the operation that has just started will be complete."""
        if self.current is not None:
            self.current.done = max(self.current.done, done)

    def serve(self, name: str, sm: int, begin: int, end: int, core: int | None = None) -> None:
        """Keeps that a unit of an SM, or of one of its sub-cores, works from `begin` to before `end`."""
        if self.current is not None:
            self._keep(name, core, sm, begin, end, self.current)

    def flip(self, name: str, sm: int, parity: int, now: int) -> None:
        """Keeps that the phase of this parity of an mbarrier is complete."""
        if self.window[0] <= now < self.window[1]:
            self.flips.append(Flip(name, sm, parity, now))

    def wait(self, warp: Warp, cause: StallReason, cycles: int) -> None:
        """Counts cycles in which a warp could not go on after its last issue: for a barrier, a wait or the end of a
        loop."""
        self._counters.ledger[self._first[id(warp.code)] + REASONS * self._places[warp.id][0] + cause] += cycles

    def state(self) -> tuple[object, ...]:
        """All that decides what will be recorded, beyond the engine's own state."""
        return tuple(self._places.items())

    def end(self, warp: Warp, stall: Stall) -> None:
        """Keeps the wait with which a warp's program ended."""
        self.wait(warp, stall.cause, stall.end - stall.begin)
        self.tails[warp.id] = stall

    # Afterwards

    def ledger(self) -> list[list[list[int]]]:
        """For each program and each of its items: cycles by `StallReason`, all of its warps together; `ISSUED` counts
        issues.

        A wait for operands, a unit or the scheduler counts for the instruction that was to issue, one for a barrier, an
        mbarrier, completion or the end of a loop for the instruction that came before it.
        """
        counted = self._counters.ledger
        ledgers = []
        for code in self._codes:
            first = self._first[id(code)]
            ledgers.append([counted[first + REASONS * i : first + REASONS * (i + 1)] for i in range(code.places)])
        return ledgers

    def _keep(self, name: str, core: int | None, sm: int, begin: int, end: int, entry: Issue) -> None:
        if end > begin and end > self.window[0] and begin < self.window[1]:
            self.taken.append(Busy(name, core, sm, begin, end, entry))

    def _producer(self, warp: Warp, operation: TimedOperation, stalls: Sequence[Stall]) -> Issue | None:
        """The issue that wrote the operand that came last, if the warp waited for its operands; else None."""
        compiled = [
            stall.begin
            for stall in stalls
            if stall.cause is StallReason.DEPENDENCY and stall.end == warp.operands_not_before
        ]
        begin = next(
            (stall.begin for stall in stalls if stall.end == warp.operands_ready), compiled[0] if compiled else None
        )
        if begin is None:
            return None
        writers = (self._writers.get((warp.id, register)) for register in (*operation.reads, *operation.writes))
        last = max((writer for writer in writers if writer is not None), key=lambda writer: writer.done, default=None)
        return last if last is not None and last.done + self._margin > begin else None
