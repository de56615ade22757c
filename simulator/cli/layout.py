"""`tcsim layout FORM`."""

from __future__ import annotations

import argparse
import json
import sys

from isa import IsaError
from simulator.cli import DONE, NO, say

DESCRIPTION = """\
Shows which bits of which lane's register hold each element of an operand.

FORM is an opcode; .sync.aligned and .row.col may be left out: mma.sp.m16n8k32.f32.f16.f16.f32, ldmatrix.m8n8.x4.shared.b16.
Cells of the matrix view say T<lane> r<register>[high:low]; those of the lane view say (row, column). A of a sparse form is the stored matrix:
the metadata says which logical column of its window each element is. Formulas divide like integers.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("form", metavar="FORM")
    parser.add_argument("--operand", choices=("a", "b", "c", "d", "e", "all"), default="all", help="one operand (e is the metadata; default: all)")
    parser.add_argument("--selector", type=int, default=0, help="sparsity selector for the metadata (default 0)")
    parser.add_argument("--view", choices=("matrix", "lanes"), default="matrix", help="by element, or by lane and register")
    parser.add_argument("--format", choices=("table", "csv", "json", "markdown"), default="table")


def execute(options: argparse.Namespace) -> int:
    from simulator.layout import as_csv, as_json, as_text, layouts

    try:
        found = layouts(options.form, options.operand, options.selector)
    except IsaError as error:
        say(error)
        return NO
    if options.format == "json":
        print(json.dumps([as_json(layout) for layout in found], indent=1))
    elif options.format == "csv":
        sys.stdout.write(as_csv(found))
    else:
        sys.stdout.write("\n".join(as_text(layout, options.view, markdown=options.format == "markdown") for layout in found))
    return DONE
