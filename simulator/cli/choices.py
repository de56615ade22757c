"""Options that the verbs `layout`, `where`, `what`, `explain` and `explore` share: the choices that an opcode leaves
open, and metadata."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from isa import IsaError
from simulator.cli import NO, say
from simulator.cli.answer import UnreadableError, answer

if TYPE_CHECKING:
    from simulator.layout import Choice, FormLayout, Selection

FORM = """\
FORM is an opcode; .sync.aligned and .row.col may be left out: mma.sp.m16n8k32.f32.f16.f16.f32,
wgmma.mma_async.sp.m64n128k32.f32.f16.f16, ldmatrix.m8n8.x4.shared.b16, tcgen05.mma.sp.cta_group::1.kind::f16,
tcgen05.ld.16x256b.x4.b32."""
METADATA = """\
--metadata is random, random:SEED, a word in hexadecimal (the same in every lane), words with commas between (one a
lane), or a file: .npy, .npz, or words in hexadecimal."""


def add_form(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Adds the options for a form, for the choices that it leaves open, and for metadata."""
    parser.add_argument("form", metavar="FORM", nargs="?" if optional else None)
    parser.add_argument("--selector", type=_number, default=0, help="sparsity selector (default 0)")
    parser.add_argument("--m", type=_number, default=0, help="M of tcgen05.mma (default 128)")
    parser.add_argument("--n", type=_number, default=0, help="N of tcgen05.mma (default 64)")
    parser.add_argument(
        "--base-lane",
        type=_number,
        default=0,
        help="first lane of D, A and metadata in Tensor Memory: 0, or 16 in layouts C and F",
    )
    parser.add_argument(
        "--scale-a",
        type=_ids,
        default=(0, 0),
        metavar="BYTE[,THREAD]",
        help="byte-id and thread-id of A's scale factors",
    )
    parser.add_argument("--scale-b", type=_ids, default=(0, 0), metavar="BYTE[,THREAD]", help="the same of B")
    parser.add_argument(
        "--half-split", type=_number, help="immHalfSplitoff of tcgen05.ld and st .16x32bx2 (default: as wide as a half)"
    )
    parser.add_argument("--metadata", metavar="HEX|random|FILE", help="what the metadata registers hold")


def answer_about(
    options: argparse.Namespace,
    made: Callable[[FormLayout, Selection | None], str],
    output: str | None = None,
    written: Sequence[str] = (),
) -> int:
    """Writes the text that `made` makes of the form and the metadata (None if there is none); returns the exit code.
    `written` are files that `made` writes itself.

    NO is for a form, a choice or an element that does not exist, BAD for metadata that cannot be read.
    """
    return answer(lambda: _text(options, made), written, illegal=NO, output=output)


def _text(options: argparse.Namespace, text_of: Callable[[FormLayout, Selection | None], str]) -> str:
    """The text that `text_of` makes of the form and the metadata that the options name."""
    from simulator.layout import form_layout, read_metadata

    selection, layout = None, form_layout(options.form, _choice(options))
    if options.metadata is not None and layout.sparsity is None:
        legal = "an mma.sp, wgmma.mma_async.sp or tcgen05.mma.sp form, or no --metadata"
        raise IsaError(layout.opcode, -1, f"'{layout.opcode}' has no metadata", legal)
    if options.metadata is not None:
        try:
            selection = read_metadata(layout, options.metadata)
        except IsaError as error:
            raise UnreadableError(str(error)) from None
    text = text_of(layout, selection)
    if selection is not None and selection.report:
        say(selection.report)
    return text


def _choice(options: argparse.Namespace) -> Choice:
    from simulator.layout import Choice

    return Choice(
        options.selector, options.scale_a, options.scale_b, options.m, options.n, options.base_lane, options.half_split
    )


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not a number; legal: 0 or more")
    return int(text)


def _ids(text: str) -> tuple[int, int]:
    """A pair of ids from the text of an option."""
    parts = text.split(",")
    if len(parts) > 2 or not all(part.isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(
            f"'{text}' is no pair of ids; legal: BYTE-ID or BYTE-ID,THREAD-ID, such as 2,1"
        )
    return int(parts[0]), int(parts[1]) if len(parts) > 1 else 0


def bits(text: str) -> tuple[int, int]:
    """The range of bits that `31:16`, `[31:16]` or `7` names: (high, low)."""
    match = re.fullmatch(r"\[?(\d+)(?::(\d+))?\]?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' are no bits; legal: HIGH:LOW, such as 31:16")
    high = int(match[1])
    return high, int(match[2]) if match[2] else high
