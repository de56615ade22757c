"""The verb `tcsim run TRACE`, which runs a trace for its values and its cycles."""

from __future__ import annotations

import argparse

from isa.errors import POLICIES
from simulator.cli.answer import Meter, answer, say_how_long
from simulator.cli.config_option import add_config, choose_config
from simulator.cli.timeline_option import add_timeline, asked_timeline, timeline_files, write_timeline

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
    add_timeline(parser)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of instructions; legal: 0 or more")
    return int(text)


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim run` with parsed options; returns the exit code."""
    files = [options.output, options.exact_output, *timeline_files(options)]
    return answer(lambda: _run(options), files)


def _run(options: argparse.Namespace) -> str:
    from simulator.errors import ViewError
    from simulator.files import write_arrays
    from simulator.program import load
    from simulator.simulation.run import COMPARED, run

    choose_config(options)
    timeline = asked_timeline(options)
    program = load(options.trace)
    if options.arithmetic != "none":
        say_how_long(program, "--arithmetic none tells the cycles alone, at once")
    with Meter() as show:
        report = run(
            program,
            options.config,
            arithmetic=options.arithmetic,
            undefined=options.undefined,
            compare=COMPARED if options.compare is None else options.compare,
            exact=True if options.exact_output else options.exact,
            skip=not options.no_skip,
            timeline=timeline,
            progress=show if show.shows else None,
        )
    if options.exact_output and not report.exact:
        raise ViewError(f"no exact results: {report.exact_left_out}", "a trace with .store, --arithmetic chip")
    if timeline is not None:
        write_timeline(options, timeline)
    if options.output:
        write_arrays(options.output, report.arrays)
    if options.exact_output:
        write_arrays(options.exact_output, report.exact)
    return {"table": report.table, "json": lambda: report.json() + "\n", "csv": report.csv}[options.format]()
