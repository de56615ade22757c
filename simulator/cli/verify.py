"""The verb `tcsim verify`, which says whether two kernels do the same in one launch."""

from __future__ import annotations

import argparse
from pathlib import Path

from simulator.cli import DONE, NO
from simulator.cli.answer import UnreadableError, answer
from simulator.cli.kernel_options import ARGUMENTS, PTX, add_kernel, add_reference, chosen_launch

DESCRIPTION = """\
Runs two kernels on the same launch, and says whether they do the same: equal results (bit for bit, or within --rtol
and --atol), and the same kinds of findings of 'tcsim check': races, missing waits, undefined cases. It is meant for
tests of compilers: A is trusted, B is what is tested.

A is a PTX file, with what 'tcsim launch' takes, or a captured launch (NAME.json), whose own kernel is A. B is a PTX
file; of it the kernel of the same name is taken, or the only one.
Exit code 0 they do the same, 1 they do not, 2 what cannot be read or launched.
"""

EPILOG = f"""\
{ARGUMENTS}
examples:
  tcsim verify before.ptx after.ptx --grid 4,4 --block 128 --arg A=a.npy --arg B=b.npy --arg D=out:float32:64x64
  tcsim verify capture.json after.ptx --rtol 1e-3
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim verify` to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("a", metavar="A", help="a PTX file, or a captured launch: NAME.json")
    parser.add_argument("b", metavar="B", help="a PTX file")
    add_kernel(parser)
    parser.add_argument("--entry-b", metavar="NAME", help="B's kernel, or a part of its name (default: as that of A)")
    add_reference(parser, expect=False)
    parser.add_argument("--format", choices=("table", "json"), default="table")


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim verify` with parsed options; returns the exit code."""
    return answer(lambda: _verify(options))


def _verify(options: argparse.Namespace) -> tuple[str, int]:
    from simulator.check.reference import from_other
    from simulator.check.verify import verify_captures

    if options.b.endswith(".json"):
        raise UnreadableError(f"'{options.b}' as B", f"a file of PTX ({' or '.join(PTX)}), which A's launch runs")
    first = chosen_launch(options.a, options)
    second = from_other(first, Path(options.b), options.entry_b)
    result = verify_captures(first, second, rtol=options.rtol, atol=options.atol)
    return result.json() if options.format == "json" else result.table(), DONE if result.equal else NO
