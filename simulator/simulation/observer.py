"""Who watches a run of a program: the one stream of events of `simulator.simulation`."""

from __future__ import annotations

from typing import Protocol

from isa.arguments import described
from simulator.chip.config import Config
from simulator.errors import ViewError
from simulator.execute.cta_state import CtaState, Executor
from simulator.execute.events import Listener
from simulator.program.lowering import Operation
from simulator.simulation.group import Group
from simulator.simulation.listing import Listing
from simulator.timing.recorder import Recorder
from simulator.timing.result import Timing


class Observer(Listener):
    """Watches a run, and may change its state: what race detectors, order checkers and fault injectors are.

    Every method does nothing; a subclass overrides those that it needs. Beside what executors tell (`Listener`:
    `accessed` and `undefined`) these are what the interpreter tells.
    """

    def started(self, machines: list[CtaState]) -> None:
        """Called once before the first operation, with the CTAs as `.load` has filled them."""

    def before(self, machine: CtaState, group: Group, operation: Operation, index: int) -> Executor | None:
        """Called before a group of warps executes an operation.

        Args:
            index: how many operations the warps of the group have executed before, each of them: the dynamic
                instruction. Barriers and what is behind a false guard count, ends of loops do not.

        Returns:
            What executes in place of the operation (not of a barrier); None: the operation. The first observer that
            returns something decides.
        """

    def finished(self, machines: list[CtaState]) -> None:
        """Called when all groups have come to their end, before `.store`; not after an error."""


class TimeView(Protocol):
    """What shows the time of one run, such as `simulator.Timeline`.

    Attributes:
        used: whether it has been given to a run already.
        recorder: is told by the timing engine what happens when.
    """

    recorder: Recorder

    @property
    def used(self) -> bool: ...

    def close(self, listing: Listing, config: Config, timing: Timing) -> None:
        """Called after the run: what the recorded numbers mean."""


def check_unused(timeline: TimeView | None, timed: bool) -> None:
    """Raises ViewError for a timeline that has been used, or that of a run that is not timed."""
    if timeline is not None and not hasattr(timeline, "recorder"):
        raise ViewError(f"{described(timeline)} in place of a timeline", "simulator.Timeline()")
    if timeline is not None and timeline.used:
        raise ViewError("the timeline is that of another run", "a new Timeline for each run")
    if timeline is not None and not timed:
        what = "a run without a config takes no time that a timeline could show"
        raise ViewError(what, "a config, such as h100_sxm")
