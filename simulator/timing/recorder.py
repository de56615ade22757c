"""Records what happens in a run, for timelines and for stalls by instruction.

Two things are kept. A ledger for each instruction of each program: its issues, and the cycles that warps waited for it,
by `StallReason`. It grows as all counts do, so that a skipped period counts as often as it repeats. And,
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
from simulator.machine.observer import Issue, Stall, TimingObserver, Waits

_COMPILED = (
    StallReason.DEPENDENCY,
    StallReason.TENSOR,
    StallReason.ALU,
)  # waits before an instruction that are written into the one before
REASONS = len(StallReason)
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
        super().__init__()
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

    # Called by the front and by the units

    def attach(self, programs: dict[int, TimedCode], codes: Sequence[TimedCode], sub_cores: int, margin: int) -> None:
        self._codes, self._sub_cores, self._margin = list(codes), sub_cores, margin
        begins: dict[int, int] = {}  # by the identity of a program: where its ledger begins
        for code in self._codes:
            begins[id(code)] = len(self.ledger)
            self.ledger.extend([0] * (REASONS * code.places))
        self._begins = [begins[id(code)] for code in self._codes]
        self._first = {warp: begins[id(code)] for warp, code in programs.items()}
        self._places = dict.fromkeys(programs, (0, False))  # what each warp issued last, whether it blocks

    def issue(
        self, warp: int, core: int, operation: TimedOperation, now: int, stalls: Sequence[Stall], waits: Waits
    ) -> None:
        """Called when a warp issues an operation, before it starts."""
        counted = self.ledger
        row = self._first[warp] + REASONS * operation.place
        blocked = self._places[warp][1]
        for cause, begin, end in stalls:
            if begin < waits.issue_not_before and (blocked or cause not in _COMPILED):
                self.wait(warp, cause, end - begin)
            else:
                counted[row + cause] += end - begin
        further = operation.part if operation.part is not None and operation.part.further else None
        counted[row + (StallReason.SEQUENCE if further else StallReason.ISSUED)] += 1
        self._places[warp] = operation.place, operation.blocking
        self.last[warp] = now
        first, last = self.window
        if now >= last and (not stalls or stalls[0].begin >= last):  # it counts if a stall reaches into the window
            self.current = self._issuing = None
            return
        self._interval, self._unit = operation.interval, operation.unit
        if further:
            begun = None if further.early else self._begun.get((warp, operation.place))
            if begun is None:  # work in front of a loop belongs to no issue in it
                begun = Issue(warp, operation.place, core, operation.unit, now, now + 1, now, ())
            self.current = self._issuing = begun
            self.steps.setdefault(warp, []).extend((*stalls, Stall(StallReason.SEQUENCE, now, now + 1)))
            return
        issue = Issue(warp, operation.place, core, operation.unit, now, now + 1, now, tuple(stalls))
        if now >= first:
            issue.producer = self._producer(warp, operation, stalls, waits)
            self.issues.append(issue)
        for register in operation.writes:
            self._writers[warp, register] = issue
        self.current = self._issuing = self._begun[warp, operation.place] = issue

    def issued(self, now: int, done: int, free: int) -> None:
        """Called when the operation of the last issue works, or queues."""
        issue = self._issuing
        if issue is not None:
            issue.done = max(issue.done, done)
            taken = now + self._interval if self._unit in _PIPES else free
            self._keep(self._unit.name.lower(), issue.core, issue.core // self._sub_cores, now, taken, issue)

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

    def wait(self, warp: int, cause: StallReason, cycles: int) -> None:
        """Counts cycles in which a warp could not go on after its last issue: for a barrier, a wait or the end of a
        loop."""
        self.ledger[self._first[warp] + REASONS * self._places[warp][0] + cause] += cycles

    def state(self) -> tuple[object, ...]:
        """Returns all that decides what will be recorded, beyond the state of the machine."""
        return tuple(self._places.items())

    def end(self, warp: int, stall: Stall) -> None:
        """Keeps the wait with which a warp's program ended."""
        self.wait(warp, stall.cause, stall.end - stall.begin)
        self.tails[warp] = stall

    # Afterwards

    def ledgers(self) -> list[list[list[int]]]:
        """For each program and each of its items: cycles by `StallReason`, all of its warps together; `ISSUED` counts
        issues.

        A wait for operands, a unit or the scheduler counts for the instruction that was to issue, one for a barrier, an
        mbarrier, completion or the end of a loop for the instruction that came before it.
        """
        counted, ledgers = self.ledger, []
        for code, first in zip(self._codes, self._begins, strict=True):
            ledgers.append([counted[first + REASONS * i : first + REASONS * (i + 1)] for i in range(code.places)])
        return ledgers

    def _keep(self, name: str, core: int | None, sm: int, begin: int, end: int, entry: Issue) -> None:
        if end > begin and end > self.window[0] and begin < self.window[1]:
            self.taken.append(Busy(name, core, sm, begin, end, entry))

    def _producer(self, warp: int, operation: TimedOperation, stalls: Sequence[Stall], waits: Waits) -> Issue | None:
        """The issue that wrote the operand that came last, if the warp waited for its operands; else None."""
        compiled = [
            stall.begin
            for stall in stalls
            if stall.cause is StallReason.DEPENDENCY and stall.end == waits.operands_not_before
        ]
        begin = next(
            (stall.begin for stall in stalls if stall.end == waits.operands_ready), compiled[0] if compiled else None
        )
        if begin is None:
            return None
        writers = (self._writers.get((warp, register)) for register in (*operation.reads, *operation.writes))
        last = max((writer for writer in writers if writer is not None), key=lambda writer: writer.done, default=None)
        return last if last is not None and last.done + self._margin > begin else None
