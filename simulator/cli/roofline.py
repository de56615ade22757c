"""The verb `tcsim roofline TRACE...`, which compares runs with the limits of the tensor cores and of memory."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from simulator.cli.answer import answer
from simulator.cli.config_option import add_config, config_named

if TYPE_CHECKING:
    from simulator.chip.config import Config
    from simulator.simulation.launch.report import LaunchReport
    from simulator.simulation.report import Report

DESCRIPTION = """\
How far traces are from their limits: operational intensity (multiply-adds for each byte that a memory moves), what a
run achieves, what the tensor cores allow for its own matrix instructions, and what each memory of the config allows
at that intensity.

TRACE is a file, the name of one that comes with tcsim, or a captured launch (NAME.json); TRACE@CONFIG runs it on
another config than --config says.
"""

EPILOG = """\
examples:
  tcsim roofline digits/f16 digits/s8 --output roof.png
  tcsim roofline digits/f16 digits/f16@a100 digits/f16_tcgen05@b200 --output roof.svg --count performed
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim roofline` to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("traces", metavar="TRACE", nargs="+")
    add_config(parser, "the GPU (default h100_sxm); several with commas: every trace on each")
    parser.add_argument(
        "--count",
        choices=("named", "performed"),
        default="named",
        help="multiply-adds: as named (default), or without pruned ones",
    )
    parser.add_argument("--output", metavar="FILE.png", help="draw it: .png, .svg or .pdf (needs matplotlib)")
    parser.add_argument("--format", choices=("table", "json", "csv"), default="table")


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim roofline` with parsed options; returns the exit code."""
    return answer(lambda: _roofline(options), [options.output])


def _roofline(options: argparse.Namespace) -> str:
    from simulator.studies.roofline import roofline

    if options.output:
        from simulator.views.plots import check_plot

        check_plot(options.output)
    lines = roofline(
        [_report(trace, config_named(config, options)) for trace, config in _runs(options)],
        options.count,
    )
    if options.output:
        from simulator.studies.roofline.plot import write_plot

        write_plot(lines, options.output)
    return {"table": lines.table, "json": lines.json, "csv": lines.csv}[options.format]()


def _report(trace: str, config: str | Config) -> Report | LaunchReport:
    """The run of a trace or of a captured launch, in time."""
    if trace.endswith(".json"):
        from simulator.simulation.launch.captured import launch

        return launch(trace, config)
    from simulator.simulation.run import run

    return run(trace, config, arithmetic="none")


def _runs(options: argparse.Namespace) -> list[tuple[str, str]]:
    """The traces and configs to run, each pair once."""
    pairs: list[tuple[str, str]] = []
    for text in options.traces:
        trace, separator, config = text.rpartition("@")
        pairs += [(trace, config)] if separator else [(text, name) for name in options.config.split(",")]
    return list(dict.fromkeys(pairs))
