"""The options that write a timeline, the same for every verb that runs something in time."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from simulator.cli import say

if TYPE_CHECKING:
    from simulator.views.timeline import Timeline


def add_timeline(parser: argparse.ArgumentParser) -> None:
    """Adds --timeline, --kanata, --gantt and what goes with them."""
    parser.add_argument(
        "--timeline", metavar="FILE.json", help="write what happens when, for Perfetto (gzip if the name ends in .gz)"
    )
    parser.add_argument("--kanata", metavar="FILE.log", help="the same for Konata (gzip if the name ends in .gz)")
    parser.add_argument(
        "--gantt",
        metavar="FILE.svg",
        help="draw it, for a few cycles: .svg, or .html that shows details of what is pointed at",
    )
    parser.add_argument(
        "--gantt-palette",
        choices=("colour", "bw"),
        help="colours told apart with any colour vision (default), or black and white",
    )
    parser.add_argument(
        "--timeline-cycles", type=_window, metavar="FIRST:LAST",
        help="cycles of all of these files (default 0:20000; with --gantt 0:400, and at most 4000 cycles)",
    )  # fmt: skip


def _window(text: str) -> tuple[int, int]:
    first, colon, last = text.partition(":")
    if not (colon and first.isdecimal() and last.isdecimal() and int(first) < int(last)):
        raise argparse.ArgumentTypeError(
            f"'{text}' is no range of cycles; legal: FIRST:LAST, such as 0:5000, LAST not included"
        )
    return int(first), int(last)


def timeline_files(options: argparse.Namespace) -> list[str | None]:
    """The files that the options ask for."""
    return [options.timeline, options.kanata, options.gantt]


def asked_timeline(options: argparse.Namespace) -> Timeline | None:
    """The timeline that the run shall fill; ViewError for options that do not fit together."""
    from simulator.errors import ViewError
    from simulator.views.timeline import LIMIT, Timeline
    from simulator.views.timeline.gantt import WINDOW, check_name

    if options.gantt:
        check_name(options.gantt)
    elif options.gantt_palette:
        raise ViewError("--gantt-palette without a chart", "--gantt FILE.svg with it")
    if options.timeline or options.kanata or options.gantt:
        return Timeline(*(options.timeline_cycles or (WINDOW if options.gantt else (0, LIMIT))))
    if options.timeline_cycles:
        raise ViewError(
            "--timeline-cycles without a timeline",
            "--timeline FILE.json, --kanata FILE.log or --gantt FILE.svg with it",
        )
    return None


def write_timeline(options: argparse.Namespace, timeline: Timeline) -> None:
    """Writes the files of the timeline. The chart comes first: if it is not possible, no file is written at all."""
    if options.gantt:
        timeline.write_gantt(options.gantt, options.gantt_palette or "colour")
    if options.timeline:
        timeline.write_chrome(options.timeline)
    if options.kanata:
        timeline.write_kanata(options.kanata)
    cycles = timeline.timing.cycles
    if timeline.first >= cycles:
        say(f"the timeline is empty: it begins at cycle {timeline.first:,}, and the run ends at {cycles:,}")
    elif timeline.cut or timeline.first:
        shown = f"cycles {timeline.first:,} to before {min(timeline.last, cycles):,} of {cycles:,}"
        say(f"the timeline shows {shown}; --timeline-cycles chooses others")
