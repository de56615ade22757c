"""The verb `tcsim forms`, which lists the instruction forms."""

from __future__ import annotations

import argparse
from dataclasses import replace

from simulator.cli import NO, say
from simulator.cli.answer import answer
from simulator.tables import FORMATS, render
from simulator.views.forms import FAMILIES, table

DESCRIPTION = """\
Prints the table of instructions: every form with its operands (and how many registers each lane holds of them),
selectors, metadata, first PTX version and targets.

--family mma is mma and mma.sp, wgmma those of warpgroups, tcgen05 also has mbarrier and fence, plain is
ldmatrix, loads, stores, integer arithmetic and barriers.
--target keeps what a chip has; --type what multiplies a type, --sparse the sparse forms.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim forms` to its parser."""
    parser.description = DESCRIPTION
    parser.add_argument("--family", choices=FAMILIES, default="mma", help="which instructions (default mma)")
    parser.add_argument("--target", help="only forms that this target has, e.g. sm_90a")
    parser.add_argument("--type", help="only forms that multiply this type, e.g. e4m3")
    parser.add_argument("--sparse", action="store_true", help="only sparse matrix forms")
    parser.add_argument("--format", choices=FORMATS, default="table")


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim forms` with parsed options; returns the exit code."""
    return answer(lambda: _forms(options))


def _forms(options: argparse.Namespace) -> str | tuple[str, int]:
    forms = table(options.family, target=options.target or "", type=options.type or "", sparse=options.sparse)
    if not forms.rows:
        say("no form is like that")
        return "", NO
    if options.format == "markdown":
        return replace(forms, rows=[(f"`{opcode}`", *rest) for opcode, *rest in forms.rows]).markdown()
    if options.format == "table":
        return f"{forms.text('<')}\n{len(forms.rows)} forms; a number behind an operand: its registers\n"
    return render(forms, options.format)
