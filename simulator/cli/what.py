"""The verb `tcsim what FORM --lane 9 --register a1`, which says which elements a register or memory cell holds."""

from __future__ import annotations

import argparse
import json
import re
from typing import TYPE_CHECKING

from simulator.cli import choices

if TYPE_CHECKING:
    from simulator.layout import FormLayout, Selection

DESCRIPTION = f"""\
What a lane's register (or a cell of Tensor Memory) holds: which elements, and of a sparse A which logical columns.

{choices.FORM}
REGISTER is an operand and a number: a1 is the second register of operand a (PTX numbers elements, not registers, in
its a0, a1, ...); e, scale_a and scale_b are one register. In Tensor Memory the number is a column from the operand's
address on: e1, d12.
{choices.METADATA}
"""
EPILOG = """\
examples:
  tcsim what mma.sp.m16n8k32.f32.f16.f16.f32 --lane 9 --register a1
  tcsim what mma.sp.m16n8k32.f32.f16.f16.f32 --lane 9 --register e --bits 7:4 --metadata random
  tcsim what tcgen05.mma.sp.cta_group::1.kind::f16 --lane 70 --register e0
"""
_REGISTER = re.compile(r"(a|b|c|d|e|scale_a|scale_b|address)(?:\.col|col)?(\d*)", re.IGNORECASE)


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim what` to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    choices.add_form(parser)
    parser.add_argument("--lane", type=int, required=True, help="lane of the warp, or of Tensor Memory")
    parser.add_argument(
        "--register", type=_register, required=True, metavar="REGISTER", help="operand and number: a1, e, d12"
    )
    parser.add_argument("--bits", type=choices.bits, metavar="HIGH:LOW", help="only these bits")
    parser.add_argument("--formulas", action="store_true", help="show the formulas with the numbers in them")
    parser.add_argument("--format", choices=("table", "json"), default="table")


def _register(text: str) -> tuple[str, int]:
    match = _REGISTER.fullmatch(text)
    if not match:
        raise argparse.ArgumentTypeError(
            f"'{text}' is no register; legal: an operand and a number, such as a1, b0, d3, e, scale_a"
        )
    return match[1].lower(), int(match[2] or 0)


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim what` with parsed options; returns the exit code."""
    return choices.answer_about(options, lambda layout, selection: _answer(options, layout, selection))


def _answer(options: argparse.Namespace, layout: FormLayout, selection: Selection | None) -> str:
    from simulator.layout.queries import what

    name, word = options.register
    answer = what(layout, name, options.lane, word, options.bits, selection)
    return (
        json.dumps(answer.json(), indent=1) + "\n"
        if options.format == "json"
        else answer.text(formulas=options.formulas)
    )
