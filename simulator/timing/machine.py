"""The interface through which the units of an SM work together.

They share the calendar of events, the config, the warps and the counters, and tell the machine when something is
complete.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from simulator.chip.config import Config
from simulator.compiler.timed_code import StallReason
from simulator.timing.core_records import SmRecord
from simulator.timing.counters import Counters
from simulator.timing.events import Calendar
from simulator.timing.observer import TimingObserver
from simulator.timing.records import plain
from simulator.timing.warp import Warp


class Machine(ABC):
    """An SM, or the two SMs of a pair of CTAs, as its units see it.

    Args:
        compiled: whether the compiled engine is to work on the record.

    Attributes:
        record: its state and its rules, as the compiled engine sees them.
        calendar: what happens beside the sub-cores.
        ctas: CTAs, each on an SM of its own; `cta_warps` warps each.
    """

    def __init__(
        self,
        config: Config,
        warps: list[Warp],
        *,
        ctas: int,
        cta_warps: int,
        observer: TimingObserver | None,
        compiled: bool,
    ) -> None:
        self.record, self.calendar = SmRecord() if compiled else plain(SmRecord)(), Calendar()
        self.config, self.warps, self.ctas, self.cta_warps, self.observer = config, warps, ctas, cta_warps, observer
        self.counters = Counters(len(warps), config.sm.sub_cores * ctas, ctas)

    @property
    def now(self) -> int:
        """The cycle that the run has come to."""
        return self.record.now

    @property
    def end(self) -> int:
        """The last cycle so far in which a result is there."""
        return self.record.end

    def lasts(self, cycle: int) -> None:
        """Notes that a result is there in this cycle."""
        self.record.end = max(self.record.end, cycle)

    @property
    def mbarrier_latency(self) -> int:
        """Cycles from an arrival until a warp that waits can issue."""
        times = self.config.mbarrier or (self.config.tcgen05.mbarrier if self.config.tcgen05 is not None else None)
        assert times is not None
        return times.latency

    @abstractmethod
    def release(self, warp: Warp, now: int, reason: StallReason = StallReason.MBARRIER) -> None:
        """Called when what the warp waits for is complete: it can issue at `now`."""

    @abstractmethod
    def wake_cores(self, cta: int, now: int) -> None:
        """Called when the queue of an SM has room again."""

    @abstractmethod
    def check_done(self) -> None:
        """Ends the run when all programs are over and nothing works on."""
