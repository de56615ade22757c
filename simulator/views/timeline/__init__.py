"""Timelines: where the time of a run went. A timeline can be written for Perfetto, for Konata or as a Gantt chart, and
counts the stalls by warp, sub-core and instruction.

    >>> import simulator
    >>> timeline = simulator.Timeline(0, 2000)
    >>> report = simulator.run("digits/f16", arithmetic="none", timeline=timeline)
    >>> timeline.stalls.total == report.cycles * report.warps
    True

`timeline.write_chrome("x.json")`, `timeline.write_kanata("x.log.gz")` and `timeline.write_gantt("x.svg")` write it;
docs/timelines.md says what the files show.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from simulator.views.timeline import chrome, gantt, kanata
from simulator.views.timeline.recorded import LIMIT, RecordedRun
from simulator.views.timeline.stalls import Stalls, stalls_of

__all__ = ["LIMIT", "Timeline"]


class Timeline(RecordedRun):
    """The timing of one run, and the files that show it.

    Args:
        first, last: the cycles of the timeline, from `first` to before `last`; repetitions of loops are simulated one
            by one until `last`. With last = 0 there is no timeline, only `stalls`.

    Raises:
        ViewError: no such window.
    """

    @cached_property
    def stalls(self) -> Stalls:
        """Where the cycles of the whole run went, including those outside of the timeline."""
        return stalls_of(self)

    def write_chrome(self, path: str | Path) -> None:
        """Writes Chrome's trace event format (JSON), gzip if the name ends in .gz; OSError if it cannot be written."""
        chrome.write(self, path)

    def gantt(self, palette: str = "colour") -> gantt.Svg:
        """A Gantt chart as SVG text, which a notebook shows. `palette` is "colour" or "bw" (for print).

        Raises:
            ViewError: no such palette, or no cycle or more than 4,000 cycles to draw.
        """
        return gantt.draw(self, palette)

    def write_gantt(self, path: str | Path, palette: str = "colour") -> None:
        """Writes a Gantt chart: .svg, or .html that shows details of what is pointed at.

        Raises:
            ViewError: as `gantt`, or a name that ends in neither.
            OSError: the file cannot be written.
        """
        gantt.write(self, path, palette)

    def write_kanata(self, path: str | Path) -> None:
        """Writes a Kanata log, gzip if the name ends in .gz; OSError if it cannot be written."""
        kanata.write(self, path)
