"""What an observer, such as a timeline, is told about each issue and each unit.

A run without an observer takes no extra time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from isa.forms.record import Unit
from simulator.compiler.timed_code import StallReason, TimedCode, TimedOperation


class Stall(NamedTuple):
    """Cycles from `begin` to before `end` in which a warp could not issue."""

    cause: StallReason
    begin: int
    end: int


class Waits(NamedTuple):
    """Until when a warp could not issue its next operation, at the time at which it did: as compiled, by its operands,
    and by waits for operands as compiled."""

    issue_not_before: int
    operands_ready: int
    operands_not_before: int


@dataclass(slots=True)
class Issue:
    """One issue of an instruction by a warp.

    Attributes:
        warp: number over all CTAs.
        place: of the instruction in the warp's program.
        core: the sub-core, counted over all SMs.
        cycle: when it issued.
        done: when its result is there (of work that goes on after issue: when that is complete).
        started: when the unit took it: the cycle of issue, later for work that queues.
        stalls: where the warp's time went since its last issue, in order.
        producer: the issue whose result was waited for, if that was an operand.
    """

    warp: int
    place: int
    core: int
    unit: Unit
    cycle: int
    done: int
    started: int
    stalls: tuple[Stall, ...]
    producer: Issue | None = field(default=None, repr=False)


class TimingObserver:
    """Listens to one run. Every method does nothing; a subclass overrides those that it needs.

    Attributes:
        ledger: what the observer counts for itself, which grows with skipped periods as all counts do.
        steps_until: no repetition is skipped before this cycle, so that everything up to there is told.
        current: the issue that the next calls belong to.
    """

    steps_until = 0
    current: Issue | None = None

    def __init__(self) -> None:
        self.ledger: list[int] = []

    def attach(self, programs: dict[int, TimedCode], codes: Sequence[TimedCode], sub_cores: int, margin: int) -> None:
        """Called before the run.

        Args:
            programs: by number over all CTAs, the program of each warp; `codes`: all of them.
            sub_cores: how many an SM has.
            margin: cycles for which a result can matter after it is there.
        """

    def issue(
        self, warp: int, core: int, operation: TimedOperation, now: int, stalls: Sequence[Stall], waits: Waits
    ) -> None:
        """Called when a warp, on this sub-core counted over all SMs, issues an operation, before it starts."""

    def issued(self, now: int, done: int, free: int) -> None:
        """Called when the operation of the last issue works, or queues; its result is there at `done`, its unit takes
        another at `free`."""

    def resume(self, issue: Issue | None) -> None:
        """Called to say that the next calls belong to that issue."""

    def start(self, issue: Issue | None, now: int, done: int) -> None:
        """Called when the operation that queued since that issue starts; the next calls of `serve` belong to it."""

    def complete(self, done: int) -> None:
        """Called to say when the operation that has just started will be complete."""

    def serve(self, name: str, sm: int, begin: int, end: int, core: int | None = None) -> None:
        """Called when a unit of an SM, or of one of its sub-cores, works from `begin` to before `end` for the operation
        that has just issued or started."""

    def flip(self, name: str, sm: int, parity: int, now: int) -> None:
        """Called when the phase of this parity of an mbarrier is complete."""

    def wait(self, warp: int, cause: StallReason, cycles: int) -> None:
        """Called when a warp could not go on after its last issue: for a barrier, a wait or the end of a loop."""

    def state(self) -> tuple[object, ...]:
        """Returns all that decides what will be recorded, beyond the state of the machine."""
        return ()

    def end(self, warp: int, stall: Stall) -> None:
        """Called when the warp's program is over, and so is the wait with which it ended."""
