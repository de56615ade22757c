"""The verb `tcsim check TRACE`, which runs a trace and reports what asynchronous code may not rely on."""

from __future__ import annotations

import argparse

from simulator.cli import DONE, NO
from simulator.cli.answer import answer, say_how_long

DESCRIPTION = """\
Runs a trace and reports, with line numbers, the rule and the fix, what asynchronous code may not rely on: missing
commits, waits and fences, races in Tensor Memory and shared memory, and what PTX leaves undefined.

TRACE is a file, or the name of one that comes with tcsim; or a captured launch (NAME.json), whose kernel is run and
checked: accesses outside of buffers, races, registers and shared memory that nothing has written, undefined metadata,
the order of tcgen05, and a result that is not the captured one, each with its line of PTX and, where the module has
.loc, of the source.
Of a long launch some CTAs are watched, and the verdict says how many; the results of all are compared.
Exit code 0 no finding, 1 findings, 2 a trace or capture that cannot be read. A bank conflict, which costs time alone,
is a note and no finding; docs/kernels.md has all kinds.
"""

EPILOG = """\
examples:
  tcsim check my.trace                     by the rules of order of PTX 9.0 to 9.3
  tcsim check my.trace --ptx 9.4           by those of PTX 9.4: pairs are pipelined within one warp alone
  tcsim check my.trace --format csv        one row for each finding
  tcsim check capture.json                 a kernel as it was launched, on its own data
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim check` to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("trace", metavar="TRACE")
    parser.add_argument(
        "--ptx",
        choices=("9.0", "9.4"),
        default="9.0",
        help="whose rules of order, in a trace (default 9.0, which hold until 9.3)",
    )
    parser.add_argument("--format", choices=("table", "json", "csv"), default="table")


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim check` with parsed options; returns the exit code."""
    return answer(lambda: _check(options))


def _check(options: argparse.Namespace) -> tuple[str, int]:
    if options.trace.endswith(".json"):
        return _check_launch(options)
    from simulator.check import check
    from simulator.program import load

    program = load(options.trace)
    say_how_long(program, "fewer repetitions find the same, and take less memory")
    report = check(program, options.ptx)
    text = {"table": report.table, "json": report.json, "csv": report.csv}[options.format]()
    return text, NO if report.findings else DONE


def _check_launch(options: argparse.Namespace) -> tuple[str, int]:
    from simulator.check.launches import check_launch

    report = check_launch(options.trace)
    text = {"table": report.table, "json": report.json, "csv": report.csv}[options.format]()
    return text, DONE if report.clean else NO
