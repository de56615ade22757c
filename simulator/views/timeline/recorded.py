"""The recorded timing of one run: the recorder's events, together with the program and the config that give them
meaning. All views of a timeline start from it."""

from __future__ import annotations

from simulator.chip.config import Config
from simulator.errors import ViewError
from simulator.machine.observer import Issue, Stall
from simulator.simulation.listing import Entry, Listing
from simulator.timing.recorder import Recorder
from simulator.timing.result import Timing

LIMIT = 20_000  # cycles of a timeline, unless told otherwise


class RecordedRun:
    """The recorded timing of one run.

    Args:
        first, last: the cycles of the timeline, from `first` to before `last`; repetitions of loops are simulated one
            by one until `last`. With last = 0 there is no timeline, only `stalls`.

    Attributes:
        recorder: the events that the engine reported.
        listing: the instructions of the run, in words.
        config, timing: those of the run.

    Raises:
        ViewError: no such window.
    """

    def __init__(self, first: int = 0, last: int = LIMIT) -> None:
        if not 0 <= first <= last or (first == last and last):
            raise ViewError(f"no cycles from {first} to before {last}", "FIRST from 0 on, LAST above it")
        self.first, self.last = first, last
        self.recorder = Recorder((first, last))
        self.listing: Listing | None = None

    def close(self, listing: Listing, config: Config, timing: Timing) -> None:
        """Called after the run with what gives the recorded numbers their meaning."""
        self.listing, self.config, self.timing = listing, config, timing
        self.trace, self.ctas, self.sm_warps = listing.name, listing.ctas, listing.warps
        self._codes = {warp: number for number, warps in enumerate(listing.codes) for warp in warps}

    @property
    def used(self) -> bool:
        """Whether it already belongs to a run."""
        return self.listing is not None

    @property
    def cut(self) -> bool:
        """Whether the run went on after the last cycle of the timeline."""
        return self.timing.cycles > self.last

    @property
    def warps(self) -> list[int]:
        """The warps with a program, numbered over all CTAs."""
        return sorted(self.timing.waits)

    def core(self, warp: int) -> int:
        """The warp's sub-core, counted over all SMs."""
        sm, local = divmod(warp, self.sm_warps)
        return sm * self.config.sm.sub_cores + local % self.config.sm.sub_cores

    def sm(self, warp: int) -> int:
        """The SM of a warp."""
        return warp // self.sm_warps

    def about(self, issue: Issue) -> Entry:
        """The instruction of an issue, in words."""
        return self.entry(self._codes[issue.warp], issue.place)

    def entry(self, code: int, place: int) -> Entry:
        """The instruction at a place of a code of the listing, in words."""
        assert self.listing is not None
        entry = self.listing.entry(code, place)
        assert entry is not None
        return entry

    def clipped(self, stall: Stall) -> Stall | None:
        """The part of a stall that lies in the timeline."""
        begin, end = max(stall.begin, self.first), min(stall.end, self.last)
        return Stall(stall.cause, begin, end) if end > begin else None
