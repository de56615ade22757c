"""The verb `tcsim run TRACE`, which runs a trace for its values and its cycles."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from isa.errors import POLICIES
from simulator.cli import say
from simulator.cli.answer import answer
from simulator.cli.config_option import add_config, choose_config

if TYPE_CHECKING:
    from simulator.views.timeline import Timeline

DESCRIPTION = """\
Runs a trace on one SM: the values bit for bit as the chip computes them, and the cycles that it takes.

TRACE is a file, or the name of one that comes with tcsim (digits/f16, digits/bf16, digits/tf32, digits/s8,
digits/e4m3; digits/f16_99kb fits chips with 99 KB of shared memory for a CTA).
--config is the name of a config that comes with tcsim (h100_sxm, a100, b200, b300, jetson_thor), a TOML file, or none
for values alone.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim run` to its parser."""
    parser.description = DESCRIPTION
    parser.add_argument("trace", metavar="TRACE")
    add_config(parser)
    parser.add_argument("--format", choices=("table", "json", "csv"), default="table")
    parser.add_argument("--output", metavar="FILE.npz", help="write the arrays of the trace's .store statements")
    parser.add_argument(
        "--exact-output", metavar="FILE.npz", help="write the exact results of the whole trace under the same names"
    )
    parser.add_argument(
        "--exact",
        action=argparse.BooleanOptionalAction,
        help="compute the exact results of the whole trace beside the chip's (default: if that does not take long)",
    )
    parser.add_argument(
        "--arithmetic",
        choices=("chip", "exact", "none"),
        default="chip",
        help="chip: its own bits; exact: exact sums instead, rounded once; none: time alone",
    )
    parser.add_argument(
        "--undefined",
        choices=POLICIES,
        default="hardware",
        help="what to do about undefined behaviour (default: as measured on hardware)",
    )
    parser.add_argument(
        "--compare",
        type=_count,
        metavar="N",
        help="compare the first N matrix instructions with the exact result (default 20000; 0: none)",
    )
    parser.add_argument(
        "--no-skip", action="store_true", help="simulate every repetition of a loop (the same cycles, slower)"
    )
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


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of instructions; legal: 0 or more")
    return int(text)


def _window(text: str) -> tuple[int, int]:
    first, colon, last = text.partition(":")
    if not (colon and first.isdecimal() and last.isdecimal() and int(first) < int(last)):
        raise argparse.ArgumentTypeError(
            f"'{text}' is no range of cycles; legal: FIRST:LAST, such as 0:5000, LAST not included"
        )
    return int(first), int(last)


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim run` with parsed options; returns the exit code."""
    files = [options.output, options.exact_output, options.timeline, options.kanata, options.gantt]
    return answer(lambda: _run(options), files)


def _run(options: argparse.Namespace) -> str:
    from simulator.errors import ViewError
    from simulator.simulation.run import COMPARED, run

    choose_config(options)
    timeline = _timeline(options)
    report = run(
        options.trace,
        options.config,
        arithmetic=options.arithmetic,
        undefined=options.undefined,
        compare=COMPARED if options.compare is None else options.compare,
        exact=True if options.exact_output else options.exact,
        skip=not options.no_skip,
        timeline=timeline,
    )
    if options.exact_output and not report.exact:
        raise ViewError(f"no exact results: {report.exact_left_out}", "a trace with .store, --arithmetic chip")
    if timeline is not None:
        _write_timeline(options, timeline)
    if options.output:
        _write(options.output, report.arrays)
    if options.exact_output:
        _write(options.exact_output, report.exact)
    return {"table": report.table, "json": lambda: report.json() + "\n", "csv": report.csv}[options.format]()


def _timeline(options: argparse.Namespace) -> Timeline | None:
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


def _write_timeline(options: argparse.Namespace, timeline: Timeline) -> None:
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


def _write(path: str, arrays: Mapping[str, Any]) -> None:
    import numpy as np

    from simulator.files import complete

    with complete(path) as stream:
        np.savez_compressed(stream, **arrays)
