"""The options of `tcsim layout tensormap`: a tensor map, and the copy whose box is shown."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from simulator.cli.answer import UnreadableError

if TYPE_CHECKING:
    from simulator.layout.tensor_box import BoxLayout

OPTIONS = ("map", "coordinates", "offsets", "mode")
_MODES = ("tile::gather4", "tile::scatter4", "im2col::w", "im2col::w::128")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options to the parser of `tcsim layout`."""
    of = parser.add_argument_group("tensormap", "what a tensor copy brings where in shared memory, from --start on")
    of.add_argument(
        "--map",
        metavar="FIELDS",
        help="type=f16,size=256x256,stride=512,box=64x64,swizzle=128 (dimension 0 first; also step, fill, interleave, "
        "atom, flip, lower, upper, channels, pixels, address), or its 128 bytes in hexadecimal",
    )
    of.add_argument("--coordinates", type=_numbers, metavar="C0,C1,..", help="where the box begins (default 0 each)")
    of.add_argument("--offsets", type=_numbers, metavar="W,H,..", help="offsets of an im2col load, or wHalo,wOffset")
    of.add_argument("--mode", choices=_MODES, help="a copy of four rows (COLUMN and ROWs as coordinates) or along W")


def described(options: argparse.Namespace) -> BoxLayout:
    """The box that the options describe. UnreadableError without a map, IsaError for one that there cannot be."""
    from simulator.layout.tensor_box import MAP, BoxLayout, read_map

    if options.map is None:
        raise UnreadableError("the tensor map is missing", f"--map {MAP}, or its 128 bytes in hexadecimal")
    tensor, mode = read_map(options.map), options.mode or ""
    default = (0, 0, 1, 2, 3) if mode in _MODES[:2] else (0,) * tensor.rank
    start = tuple(default if options.coordinates is None else options.coordinates)
    return BoxLayout(tensor, start, tuple(options.offsets or ()), options.start or 0, mode)


def _numbers(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"-?\d+(?:,-?\d+)*", text):
        raise argparse.ArgumentTypeError(f"'{text}' are no coordinates; legal: whole numbers such as 0,64")
    return tuple(map(int, text.split(",")))
