"""The verb `tcsim stalls TRACE`, which shows where the cycles of a trace went."""

from __future__ import annotations

import argparse

from simulator.cli.answer import answer
from simulator.cli.config_option import add_config, choose_config
from simulator.cli.kernel_options import ARGUMENTS, add_kernel, check_unused, chosen_launch, is_launch
from simulator.cli.launch import MACHINE_CODE

DESCRIPTION = """\
Where the cycles of a trace went: for each line of the trace (or warp, sub-core, SM) how often it issued, and how long
warps waited, by cause.

Every table sums to cycles x warps. A wait for operands, a unit or the scheduler counts for the instruction that was
to issue; a wait for a barrier, an mbarrier, the completion of tcgen05.ld or st, or the end of a loop counts for the
instruction before.
"""

EPILOG = f"""\
{ARGUMENTS}
examples:
  tcsim stalls digits/f16                          every line, in the order of the trace
  tcsim stalls digits/f16 --worst 10               the lines that take most of the warps' time
  tcsim stalls digits/f16 --by warp --format csv
  tcsim stalls capture.json --worst 10             of a captured launch, by lines of its PTX (docs/kernels.md)
  tcsim stalls k.ptx --grid 16 --block 128 --arg A=a.npy --arg D=out:float32:64x64
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim stalls` to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "trace",
        metavar="TRACE",
        help="a file, the name of a trace that comes with tcsim, a captured launch (NAME.json), or a PTX file",
    )
    add_kernel(parser)
    add_config(parser)
    parser.add_argument(
        "--by", choices=("line", "warp", "sub-core", "sm"), default="line", help="what the rows are for (default line)"
    )
    parser.add_argument("--worst", type=_count, metavar="N", help="only the N rows with the most cycles, those first")
    parser.add_argument("--machine-code", metavar="FILE", help=f"of a captured launch, {MACHINE_CODE}")
    parser.add_argument("--format", choices=("table", "json", "csv"), default="table")


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of rows; legal: 1 or more")
    return int(text)


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim stalls` with parsed options; returns the exit code."""
    return answer(lambda: _stalls(options))


def _stalls(options: argparse.Namespace) -> str:
    from simulator.views.timeline import Timeline

    choose_config(options)
    timeline = Timeline(0, 0)
    if is_launch(options.trace, options):
        from simulator.simulation.launch.captured import launch

        how = {"workers": 1, "machine_code": options.machine_code}
        launch(chosen_launch(options.trace, options), options.config, timeline=timeline, **how)
    else:
        check_unused(options, ("machine_code",), "a trace", "a captured launch, NAME.json, or a PTX file")
        from simulator.simulation.run import run

        run(options.trace, options.config, arithmetic="none", timeline=timeline)
    stalls = timeline.stalls
    return {"table": stalls.table, "json": stalls.json, "csv": stalls.csv}[options.format](options.by, options.worst)
