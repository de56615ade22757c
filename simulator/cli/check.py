"""The verb `tcsim check`, which runs a trace or a kernel and reports what it may not rely on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from simulator.cli import DONE, NO
from simulator.cli.answer import answer, say_how_long
from simulator.cli.kernel_options import (
    ARGUMENTS,
    add_kernel,
    add_reference,
    check_unused,
    chosen_launch,
    expected,
    is_launch,
)

if TYPE_CHECKING:
    from simulator.check.launch_finding import LaunchCheck

DESCRIPTION = """\
Runs a trace and reports, with line numbers, the rule and the fix, what asynchronous code may not rely on: missing
commits, waits and fences, races in Tensor Memory and shared memory, and what PTX leaves undefined.

SOURCE is a trace: a file, or the name of one that comes with tcsim; a captured launch (NAME.json); or a PTX file, with
what 'tcsim launch' takes. A kernel is run and checked: accesses outside of buffers, races, registers and shared memory
that nothing has written, undefined metadata, the order of tcgen05, and a result that is not the captured or expected
one, each with its line of PTX and, where the module has .loc, of the source.
Of a long launch some CTAs are watched, and the verdict says how many; the results of all are compared.
Exit code 0 no finding, 1 findings, 2 what cannot be read. A bank conflict, which costs time alone, is a note and no
finding; docs/kernels.md has all kinds.
"""

EPILOG = f"""\
{ARGUMENTS}
examples:
  tcsim check my.trace                     by the rules of order of PTX 9.0 to 9.3
  tcsim check my.trace --ptx 9.4           by those of PTX 9.4: pairs are pipelined within one warp alone
  tcsim check my.trace --format csv        one row for each finding
  tcsim check capture.json                 a kernel as it was launched, on its own data
  tcsim check gemm.ptx --grid 4,4 --block 128 --arg A=a.npy --arg B=b.npy --arg D=out:float32:64x64 \\
        --expect 'D=A.astype(float32) @ B.astype(float32)' --rtol 1e-3
  tcsim check capture.json --expect-from reference.ptx --format sarif > check.sarif
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim check` to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("trace", metavar="SOURCE")
    parser.add_argument(
        "--ptx",
        choices=("9.0", "9.4"),
        default="9.0",
        help="whose rules of order, in a trace (default 9.0, which hold until 9.3)",
    )
    add_kernel(parser)
    add_reference(parser)
    parser.add_argument(
        "--notes", action="store_true", help="of a launch, also what is no mistake: races that write the same value"
    )
    parser.add_argument(
        "--format", choices=("table", "json", "csv", "sarif"), default="table", help="sarif: as GitHub shows findings"
    )


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim check` with parsed options; returns the exit code."""
    return answer(lambda: _check(options), data=options.format == "sarif")


def _check(options: argparse.Namespace) -> tuple[str, int]:
    if is_launch(options.trace, options):
        return _check_launch(options)
    from simulator.check import check
    from simulator.program import load

    names = ("expect", "expect_from", "rtol", "atol", "notes")
    check_unused(options, names, "a trace", "a captured launch, NAME.json, or a PTX file")
    program = load(options.trace)
    say_how_long(program, "fewer repetitions find the same, and take less memory")
    report = check(program, options.ptx)
    if options.format == "sarif":
        from simulator.check.sarif import trace_sarif

        text = trace_sarif(report, str(program.path or report.trace))
    else:
        text = {"table": report.table, "json": report.json, "csv": report.csv}[options.format]()
    return text, NO if report.findings else DONE


def _check_launch(options: argparse.Namespace) -> tuple[str, int]:
    from simulator.check.reference import check_expected

    capture = chosen_launch(options.trace, options)
    report = check_expected(
        capture, expected(options), expect_from=options.expect_from, rtol=options.rtol, atol=options.atol
    )
    if options.format == "sarif":
        from simulator.check.sarif import launch_sarif

        text = launch_sarif(report, str(capture.ptx), notes=options.notes)
    else:
        text = _text(report, options)
    return text, DONE if report.clean else NO


def _text(report: LaunchCheck, options: argparse.Namespace) -> str:
    if options.format == "csv":
        return report.csv(notes=options.notes)
    return (report.json if options.format == "json" else report.table)(notes=options.notes)
