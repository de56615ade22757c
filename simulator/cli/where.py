"""The verb `tcsim where FORM --operand A --row 5 --col 12`, which says which register or memory cell holds an
element."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from simulator.cli import choices

if TYPE_CHECKING:
    from simulator.layout import FormLayout, Selection

DESCRIPTION = f"""\
Which bits of which lane's register (or cell of Tensor Memory) hold an element, and who holds its metadata.

{choices.FORM}
For A of a sparse form COL is the logical column: without metadata the answer names the codes that decide, with
metadata one place, or "pruned". Without COL the answer is the whole row, of a sparse A its stored elements.
{choices.METADATA}
"""
EPILOG = """\
examples:
  tcsim where mma.sp.m16n8k32.f32.f16.f16.f32 --operand a --row 5 --col 12
  tcsim where mma.sp.m16n8k32.f32.f16.f16.f32 --operand a --row 5 --col 12 --metadata 0xEE44EE44 --formulas
  tcsim where mma.sp.m16n8k32.f32.f16.f16.f32 --operand e --row 5               the metadata of a whole row
  tcsim where tcgen05.mma.sp.cta_group::1.kind::f16 --m 64 --base-lane 16 --operand e --row 19 --col 2
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim where` to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    choices.add_form(parser)
    parser.add_argument(
        "--operand", required=True, metavar="NAME", help="a, b, c, d, e (metadata), scale_a, scale_b or address"
    )
    parser.add_argument(
        "--row", type=int, required=True, help="row (of a code or scale factor of A: its row; of one of B: its column)"
    )
    parser.add_argument(
        "--col",
        "--column",
        type=int,
        help="column (of metadata: chunk; of scale factors: which); without it the whole row",
    )
    parser.add_argument("--stored", action="store_true", help="COL counts stored columns of a sparse A")
    parser.add_argument("--formulas", action="store_true", help="show the formulas with the numbers in them")
    parser.add_argument("--format", choices=("table", "json"), default="table")


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim where` with parsed options; returns the exit code."""
    return choices.answer_about(options, lambda layout, selection: _answer(options, layout, selection))


def _answer(options: argparse.Namespace, layout: FormLayout, selection: Selection | None) -> str:
    from simulator.layout.queries import where
    from simulator.layout.whole_rows import where_row

    if options.col is None:
        answer = where_row(layout, options.operand, options.row, selection)
    else:
        answer = where(layout, options.operand, options.row, options.col, selection, stored=options.stored)
    return (
        json.dumps(answer.json(), indent=1) + "\n"
        if options.format == "json"
        else answer.text(formulas=options.formulas)
    )
