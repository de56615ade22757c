"""The verb `tcsim explain FORM --d 3,5`, which says which products, lanes and metadata bits make one element of D."""

from __future__ import annotations

import argparse
import json
import re
from typing import TYPE_CHECKING

from simulator.cli import BAD, NO, choices, say
from simulator.cli.answer import UnreadableError, answer

if TYPE_CHECKING:
    from simulator.layout import FormLayout, Selection

DESCRIPTION = f"""\
Where one element of D comes from: every product, the lanes that hold its factors, and the metadata bits that chose it.
In place of FORM, `tensormap` explains a tensor map of --map: its fields and NVIDIA's 128 bytes.

{choices.FORM}
Without metadata the rows of B that a stored element may meet are listed; with metadata there is one.
{choices.METADATA}
"""
EPILOG = """\
examples:
  tcsim explain mma.sp.m16n8k32.f32.f16.f16.f32 --d 3,5 --metadata random
  tcsim explain mma.sp.m16n8k16.f32.tf32.tf32.f32 --d 0,0 --metadata 0x4444440E
  tcsim explain mma.m16n8k16.f32.f16.f16.f32 --d 3,5 --format json
  tcsim explain tensormap --map type=f16,size=256x256,stride=512,box=64x64,swizzle=128
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim explain` to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    choices.add_form(parser)
    parser.add_argument("--d", type=_pair, metavar="ROW,COL", help="which element of D")
    parser.add_argument("--map", metavar="FIELDS", help="of `tensormap`: as in tcsim layout tensormap")
    parser.add_argument("--format", choices=("table", "json"), default="table")


def _pair(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)\s*,\s*(\d+)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is no element; legal: ROW,COL, such as 3,5")
    return int(match[1]), int(match[2])


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim explain` with parsed options; returns the exit code."""
    if options.form == "tensormap":
        return answer(lambda: _tensor_map(options), illegal=NO)
    if options.d is None or options.map is not None:
        missing = options.d is None
        say(f"explain: {'--d is missing' if missing else '--map says nothing of an opcode'}; "
            f"legal: {'--d ROW,COL' if missing else 'tcsim explain tensormap --map FIELDS'}")  # fmt: skip
        return BAD
    return choices.answer_about(options, lambda layout, selection: _answer(options, layout, selection))


def _tensor_map(options: argparse.Namespace) -> str:
    from simulator.layout.tensor_box import MAP, explained, read_map

    if options.map is None or options.d is not None or options.format == "json":
        raise UnreadableError("a tensor map is explained from --map alone, as text", f"--map {MAP}, or 256 hex digits")
    return explained(read_map(options.map))


def _answer(options: argparse.Namespace, layout: FormLayout, selection: Selection | None) -> str:
    from simulator.layout.provenance import explain

    row, column = options.d
    answer = explain(layout, row, column, selection)
    return json.dumps(answer.json(), indent=1) + "\n" if options.format == "json" else answer.text()
