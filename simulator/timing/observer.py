"""Who listens to the timing engine: what it tells about each issue and each unit. Nobody pays when nobody listens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from isa.forms.record import Unit
from simulator.timing.counters import Counters
from simulator.timing.model import StallReason, TimedCode, TimedOperation
from simulator.timing.pipes import Pipes
from simulator.timing.warp import Warp


class Stall(NamedTuple):
    """Cycles from `begin` to before `end` in which a warp could not issue."""

    cause: StallReason
    begin: int
    end: int


@dataclass(slots=True)
class Issue:
    """One issue.

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
    """Listens to one run of the engine. Every method does nothing; a subclass overrides those that it needs.

    Attributes:
        steps_until: no repetition is skipped before this cycle, so that everything up to there is told.
        current: the issue that what is told next belongs to.
    """

    steps_until = 0
    current: Issue | None = None

    def attach(
        self, counters: Counters, warps: Sequence[Warp], codes: Sequence[TimedCode], sub_cores: int, margin: int
    ) -> None:
        """Called before the run.

        Args:
            counters: of the engine; what is appended to `counters.ledger` is repeated with skipped periods.
            sub_cores: of an SM.
            margin: cycles for which a result can matter after it is there.
        """

    def issue(self, core: Pipes, warp: Warp, operation: TimedOperation, now: int, stalls: Sequence[Stall]) -> None:
        """A warp issues; called before the operation starts."""

    def issued(self, core: Pipes, now: int, done: int) -> None:
        """The operation of the last issue works, or queues."""

    def resume(self, issue: Issue | None) -> None:
        """What is told from now on belongs to that issue."""

    def start(self, issue: Issue | None, now: int, done: int) -> None:
        """What queued since that issue starts; `serve` speaks of it from now on."""

    def complete(self, done: int) -> None:
        """When what has just started will be complete."""

    def serve(self, name: str, sm: int, begin: int, end: int, core: int | None = None) -> None:
        """A unit of an SM, or of one of its sub-cores, works from `begin` to before `end` for what has just issued or
        started."""

    def flip(self, name: str, sm: int, parity: int, now: int) -> None:
        """The phase of this parity of an mbarrier is complete."""

    def wait(self, warp: Warp, cause: StallReason, cycles: int) -> None:
        """The warp could not go on after its last issue: a barrier, a wait, a loop's end."""

    def state(self) -> tuple[object, ...]:
        """What decides, beyond the engine's own state, what will be recorded."""
        return ()

    def end(self, warp: Warp, stall: Stall) -> None:
        """The warp's program is over, and so is the wait with which it has ended."""
