"""The verb `tcsim layout FORM`, which shows which register, memory cell or bank holds each element of an operand."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.cli import BAD, DONE, NO, choices, layout_tensormap, say
from simulator.cli.answer import UnreadableError, answer

if TYPE_CHECKING:
    from simulator.layout import FormLayout, Operand, Selection
    from simulator.views.drawing import Picture

DESCRIPTION = f"""\
Shows which bits of which lane's register, or which cells of Tensor Memory, hold each element of an operand: text,
CSV, JSON, Markdown, pictures (SVG, PNG, PDF, HTML).

{choices.FORM}
In place of FORM, `datapath` shows the data path layouts A to G of tcgen05 side by side, and `shared` a matrix in
shared memory: its lines of 128 bytes, its banks, and what an instruction reads of it; `tensormap` the box that a
tensor copy brings there. Cells of the matrix view say
T<lane> <register>[high:low]; those of the lane view say (row, column). PTX's figures of metadata write T_i for lane i
of every four: i is the sparsity selector (T_2i, T_2i+1 where two lanes of four hold it). A of a sparse form is the
stored matrix: the metadata says which logical column of its window each element is. Formulas divide like integers.
{choices.METADATA}
With it codes and logical columns stand in the cells.
"""
EPILOG = """\
examples:
  tcsim layout mma.sp.m16n8k32.f32.f16.f16.f32                                     tables of every operand
  tcsim layout mma.sp.m16n8k32.f32.f16.f16.f32 --metadata random --output a.pdf --size slide
  tcsim layout mma.sp.m16n8k32.f32.f16.f16.f32 --metadata 0xEE44EE44 --output a.html --palette safe
  tcsim layout mma.sp.m16n8k32.f32.f16.f16.f32 --operand e --rows 5                the metadata of row 5
  tcsim layout tcgen05.mma.sp.cta_group::1.kind::f16 --m 64 --base-lane 16 --operand e --format csv
  tcsim layout datapath --output layouts.svg
  tcsim layout shared --type f16 --rows 16 --columns 64 --swizzle 128B --read ldmatrix.x4
  tcsim layout shared --type f16 --rows 16 --columns 64 --pitch 128 --read ldmatrix.x4 --output conflicts.png
  tcsim layout shared --rows 128 --columns 64 --swizzle 128B --read tcgen05 --at 0,16
  tcsim layout tensormap --map type=f16,size=256x256,stride=512,box=64x8,swizzle=128 --coordinates 64,3
  tcsim layout --metadata-format cutlass.sm90.k128 --type f16 --output atom.svg
  tcsim layout --palettes                                                         how far apart their colours are
  tcsim layout --check                                                            every printed formula, evaluated
"""
_FORMATS = ("table", "csv", "json", "markdown", "svg", "html", "png", "pdf")
_PICTURES = ("svg", "html", "png", "pdf")
_BINARY = ("png", "pdf")
_SUFFIXES = {
    ".svg": "svg",
    ".png": "png",
    ".pdf": "pdf",
    ".html": "html",
    ".csv": "csv",
    ".json": "json",
    ".md": "markdown",
    ".txt": "table",
    "": "table",  # a name that ends in nothing, and stdout
}
_SWIZZLES = ("none", "32B", "64B", "128B", "128B-32B-atoms")
_OF_PICTURES = ("palette", "size", "lane")
_OF_SHARED = ("swizzle", "pitch", "major", "start", "read", "at")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim layout` to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    choices.add_form(parser, optional=True)
    parser.add_argument(
        "--operand",
        default="all",
        metavar="NAME",
        help="a, b, c, d, e (metadata), scale_a, scale_b or address (default: all)",
    )
    parser.add_argument(
        "--view",
        choices=("matrix", "lanes"),
        help="by element, or by lane and register (default: matrix; pictures of Tensor Memory: lanes)",
    )
    parser.add_argument(
        "--rows",
        type=_range,
        metavar="N|FIRST:END",
        help="these rows of the --operand alone, 5 for row 5, 0:8 for rows 0 to 7; of `shared` the rows of the matrix",
    )
    parser.add_argument("--columns", type=_range, metavar="N|FIRST:END", help="the same of its columns (of e: chunks)")
    parser.add_argument("--format", choices=_FORMATS, help="default: table, or what the name of --output says")
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="write there instead of to stdout, as the name ends: .svg .png .pdf .html .csv .json .md .txt",
    )
    parser.add_argument("--check", action="store_true", help="evaluate every printed formula and compare the mapping")
    _configure_pictures(parser)
    _configure_shared(parser)
    layout_tensormap.configure(parser)
    parser.add_argument(
        "--metadata-format",
        metavar="NAME",
        help="in place of FORM: how software stores metadata (names: tcsim convert --list --type f16)",
    )
    parser.add_argument(
        "--type", default="f16", help="of the elements, with --metadata-format and shared (default f16)"
    )


def _configure_pictures(parser: argparse.ArgumentParser) -> None:
    of = parser.add_argument_group("pictures")
    of.add_argument(
        "--size",
        help="natural (default), slide (16:9), column or columns of a paper (3.3 or 7 in), a1 or a0: laid out for it, "
        "with text that can be read there",
    )
    of.add_argument(
        "--palette",
        help="pastel (CuTe's), distinct (32 colours), safe (any colour vision), bw (for print) (default pastel)",
    )
    of.add_argument(
        "--lane", type=int, help="whose metadata register the ruler shows (default: the first that is read)"
    )
    of.add_argument(
        "--palettes",
        action="store_true",
        help="print the smallest distance of two colours of each palette for normal and simulated colour vision",
    )


def _configure_shared(parser: argparse.ArgumentParser) -> None:
    of = parser.add_argument_group("shared", "a matrix in shared memory, --rows by --columns of --type")
    of.add_argument("--swizzle", choices=_SWIZZLES, help="canonical layout of PTX and CUTLASS (default 128B)")
    of.add_argument("--pitch", type=int, metavar="BYTES", help="no such layout: rows one after another, so far apart")
    of.add_argument("--major", choices=("K", "MN"), help="which dimension is contiguous (default K)")
    of.add_argument("--start", type=int, metavar="BYTE", help="where the matrix begins (default 0)")
    of.add_argument(
        "--read",
        metavar="BY",
        help="what is read: ldmatrix.x1, .x2, .x4; tcgen05, wgmma (32 bytes of K through a descriptor), tcgen05.sp.b, "
        "wgmma.sp.b (64)",
    )
    of.add_argument("--at", type=_place, metavar="ROW,K", help="from where on it reads (default 0,0)")


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim layout` with parsed options; returns the exit code."""
    if options.check or options.palettes:
        return answer(_check if options.check else lambda: _palettes(options))
    try:
        format = _checked(options)
    except UnreadableError as error:
        say(error)
        return BAD
    if options.form is None and options.metadata_format is None:
        say("layout: FORM is missing; see 'tcsim layout --help'")
        return BAD
    parts: dict[str, Callable[[argparse.Namespace, str], str | Picture]] = {"datapath": _datapath, "shared": _shared}
    parts["tensormap"] = _tensor_box
    special = _metadata_format if options.metadata_format is not None else parts.get(options.form)
    text = None if format in _BINARY else options.output
    written = [options.output] if format in _BINARY else []
    if special is not None:
        return answer(lambda: _written(special(options, format), options, format), written, illegal=NO, output=text)
    return choices.answer_about(
        options, lambda layout, selection: _shown(layout, selection, options, format), text, written
    )


def _checked(options: argparse.Namespace) -> str:
    """The format of the answer; UnreadableError for a name that says none or another one, a palette or size that is not
    known, and options that would do nothing."""
    from simulator.views.drawing.palettes import PALETTES
    from simulator.views.drawing.sizes import NATURAL, SIZES

    for name, known in (("palette", tuple(PALETTES)), ("size", (NATURAL, *SIZES))):
        if getattr(options, name) not in (None, *known):
            raise UnreadableError(f"no {name} '{getattr(options, name)}'", ", ".join(known))
    suffix = Path(options.output or "").suffix.lower()
    if suffix not in _SUFFIXES:
        legal = ", ".join(end for end in _SUFFIXES if end)
        raise UnreadableError(f"{options.output}: there is no format for '{suffix}'", f"a name that ends in {legal}")
    format = options.format or _SUFFIXES[suffix]
    if suffix and format != _SUFFIXES[suffix]:
        raise UnreadableError(f"--format {options.format} and a file named {options.output}", "one format")
    if format in _BINARY and not options.output:
        raise UnreadableError(f"--format {format} needs a file", f"--output NAME.{format}")
    for name in _OF_PICTURES if format not in _PICTURES else ():
        if getattr(options, name) is not None:
            raise UnreadableError(f"--{name} says nothing of a {format}", f"a picture: {', '.join(_PICTURES)}")
    for name in _OF_SHARED if options.form != "shared" else ():
        if getattr(options, name) is not None and (options.form, name) != ("tensormap", "start"):
            raise UnreadableError(f"--{name} is of matrices in shared memory", "tcsim layout shared")
    for name in layout_tensormap.OPTIONS if options.form != "tensormap" else ():
        if getattr(options, name) is not None:
            raise UnreadableError(f"--{name} is of tensor maps", "tcsim layout tensormap")
    if options.form in ("shared", "datapath", "tensormap"):
        for name in ("operand", "view", "metadata", "lane"):
            if getattr(options, name) not in (None, "all"):
                raise UnreadableError(f"--{name} says nothing of {options.form}", "an opcode, or leave it out")
    whole = options.operand == "all" and options.form != "shared" and options.metadata_format is None
    if (options.rows or options.columns) and (whole or options.form == "datapath"):
        raise UnreadableError("--rows and --columns are of one operand", "--operand NAME")
    return format


def _written(result: str | Picture, options: argparse.Namespace, format: str) -> str:
    """The text of an answer; a picture that is no text is written to its file."""
    if isinstance(result, str):
        return result
    if format in _BINARY:
        result.save(options.output)
        return ""
    if format == "svg":
        return result.svg
    from simulator.views.drawing.page import html

    return html(result, _palette(options))


def _palette(options: argparse.Namespace) -> str:
    from simulator.views.drawing.palettes import DEFAULT

    return options.palette or DEFAULT


def _size(options: argparse.Namespace) -> str:
    return options.size or "natural"


def _palettes(options: argparse.Namespace) -> str:
    from simulator.views.drawing.vision import SOURCE, table

    if options.format == "json":
        return table().json()
    if options.format in ("csv", "markdown"):
        return table().csv() if options.format == "csv" else table().markdown() + "\n"
    return f"{table().text()}\nsmallest distance of two colours; {SOURCE}\n"


def _metadata_format(options: argparse.Namespace, format: str) -> str | Picture:
    from isa.metadata_formats import metadata_format
    from simulator.views.drawing.metadata_formats import as_csv, as_json, as_text, draw_format

    layout = metadata_format(options.metadata_format, options.type)
    if format in _PICTURES:
        rows, columns = (None if given is None else _cut(*given) for given in (options.rows, options.columns))
        return draw_format(layout, _palette(options), _size(options), shown_rows=rows, shown_chunks=columns)
    if options.rows or options.columns:
        raise UnreadableError(f"--rows and --columns of a metadata format in a {format}", "in a picture, or none")
    if format in ("csv", "json"):
        return as_csv(layout) if format == "csv" else as_json(layout)
    return as_text(layout, markdown=format == "markdown")


def _check() -> tuple[str, int]:
    from simulator.layout.check import check_formulas

    checked = check_formulas()
    return checked.text(), NO if checked.wrong else DONE


def _shown(layout: FormLayout, selection: Selection | None, options: argparse.Namespace, format: str) -> str:
    """The layout in that format, as text for stdout."""
    if options.rows is not None or options.columns is not None:
        operand = layout.operand(options.operand)
        rows, columns = (None if given is None else _cut(*given) for given in (options.rows, options.columns))
        layout = replace(layout, operands=layout.operands | {operand.name: operand.narrowed(rows, columns)})
    if format not in _PICTURES:
        return _as_text(layout, selection, options, format)
    from simulator.views.drawing import draw

    picture = draw(
        layout,
        options.operand.lower(),
        selection=selection,
        palette=_palette(options),
        view=options.view or "",
        lane=options.lane,
        size=_size(options),
    )
    return _written(picture, options, format)


def _as_text(layout: FormLayout, selection: Selection | None, options: argparse.Namespace, format: str) -> str:
    from simulator.layout.tables import as_csv, as_json, as_text

    operands: list[Operand] = (
        list(layout.operands.values()) if options.operand == "all" else [layout.operand(options.operand)]
    )
    if format == "json":
        return json.dumps([as_json(operand, selection) for operand in operands], indent=1) + "\n"
    if format == "csv":
        return as_csv(operands, selection)
    markdown, view = format == "markdown", options.view or "matrix"
    return "\n".join(as_text(operand, view, selection=selection, markdown=markdown) for operand in operands)


def _datapath(options: argparse.Namespace, format: str) -> str | Picture:
    from simulator.layout.datapaths import as_csv, as_json, as_text
    from simulator.views.drawing import datapath_figure

    if format in _PICTURES:
        return datapath_figure(_palette(options), options.n or 64, _size(options))
    return (
        {"json": as_json, "csv": as_csv}[format]()
        if format in ("json", "csv")
        else as_text(markdown=format == "markdown")
    )


def _shared(options: argparse.Namespace, format: str) -> str | Picture:
    from isa.shared_memory.tile import Tile
    from simulator.layout.shared import PlainRows, SharedLayout, Stored, shared_read
    from simulator.views.drawing.shared import draw_shared

    if options.pitch is not None and options.swizzle is not None:
        raise UnreadableError("both --pitch and --swizzle", "one of them")
    (first, rows), (left, columns) = (options.rows or (None, 8)), (options.columns or (None, 64))
    if left:
        raise UnreadableError(
            f"--columns {left}:{columns} of a matrix in shared memory", f"--columns {columns}, all of K"
        )
    major, start = options.major or "K", options.start or 0
    tile: Stored
    if options.pitch is not None:
        tile = PlainRows(rows, columns, options.type, options.pitch, major, start)
    else:
        swizzle = (options.swizzle or "128B").replace("128B-32B-atoms", "128B, 32B atoms")
        tile = Tile(rows, columns, options.type, major=major, swizzle=swizzle, start=start)
    read = shared_read(tile, options.read, *(options.at or (0, 0))) if options.read else None
    if options.at is not None and read is None:
        raise UnreadableError("--at without --read", "--read with what reads from there on")
    layout = SharedLayout(tile, read, None if not first else range(first, rows))
    if format in _PICTURES:
        return draw_shared(layout, _palette(options), _size(options))
    if format in ("json", "csv"):
        return layout.json() if format == "json" else layout.table().csv()
    return layout.text(markdown=format == "markdown")


def _tensor_box(options: argparse.Namespace, format: str) -> str | Picture:
    from simulator.views.drawing.tensor_box import draw_box

    layout = layout_tensormap.described(options)
    if format in _PICTURES:
        return draw_box(layout, _palette(options), _size(options))
    if format in ("json", "csv"):
        return layout.json() if format == "json" else layout.table().csv()
    return layout.text(markdown=format == "markdown")


def _range(text: str) -> tuple[int | None, int]:
    """FIRST and END of `FIRST:END`, or None and the number of `N`."""
    match = re.fullmatch(r"(?:(\d+):)?(\d+)", text)
    if match is None or (match[1] is not None and int(match[1]) >= int(match[2])):
        raise argparse.ArgumentTypeError(
            f"'{text}' are no rows or columns; legal: FIRST:END, such as 0:32, or one number"
        )
    return None if match[1] is None else int(match[1]), int(match[2])


def _cut(first: int | None, end: int) -> range:
    """The rows of an operand that `FIRST:END`, or one number, names."""
    return range(end, end + 1) if first is None else range(first, end)


def _place(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+),(\d+)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no place in a matrix; legal: ROW,K, such as 0,16")
    return int(match[1]), int(match[2])
