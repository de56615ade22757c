"""The verb `tcsim layout FORM`, which shows which register or memory cell holds each element of an operand."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from simulator.cli import BAD, DONE, NO, choices, say
from simulator.cli.answer import UnreadableError, answer, format_of

if TYPE_CHECKING:
    from simulator.layout import FormLayout, Operand, Selection

DESCRIPTION = f"""\
Shows which bits of which lane's register, or which cells of Tensor Memory, hold each element of an operand: text,
CSV, JSON, Markdown, pictures.

{choices.FORM} `datapath` shows the data path layouts A to G of tcgen05 side by side. Cells of the matrix view say
T<lane> <register>[high:low]; those of the lane view say (row, column). A of a sparse form is the stored matrix: the
metadata says which logical column of its window each element is. Formulas divide like integers.
{choices.METADATA}
With it codes and logical columns stand in the cells.
"""
EPILOG = """\
examples:
  tcsim layout mma.sp.m16n8k32.f32.f16.f16.f32                                     tables of every operand
  tcsim layout mma.sp.m16n8k32.f32.f16.f16.f32 --metadata random --format svg > a.svg
  tcsim layout mma.sp.m16n8k32.f32.f16.f16.f32 --metadata 0xEE44EE44 --output a.html --palette safe
  tcsim layout tcgen05.mma.sp.cta_group::1.kind::f16 --m 64 --base-lane 16 --operand e --format csv
  tcsim layout datapath --output layouts.svg
  tcsim layout --metadata-format cutlass.sm90.k128 --type f16 --output atom.svg
  tcsim layout --check                                                            every printed formula, evaluated
"""
_FORMATS = ("table", "csv", "json", "markdown", "svg", "html")
_SUFFIXES = {
    ".svg": "svg",
    ".html": "html",
    ".csv": "csv",
    ".json": "json",
    ".md": "markdown",
    ".txt": "table",
    "": "table",  # a name that ends in nothing, and stdout
}


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
    parser.add_argument("--format", choices=_FORMATS, help="default: table, or what the name of --output says")
    parser.add_argument("--output", metavar="FILE", help="write there instead of to stdout; complete, or not at all")
    parser.add_argument(
        "--palette",
        default="pastel",
        help="of pictures: pastel (CuTe's), distinct (32 colours), safe (any colour vision), bw (default pastel)",
    )
    parser.add_argument(
        "--metadata-format",
        metavar="NAME",
        help="in place of FORM: how software stores metadata (names: tcsim convert --list --type f16)",
    )
    parser.add_argument("--type", default="f16", help="of the elements, with --metadata-format (default f16)")
    parser.add_argument(
        "--lane",
        type=int,
        help="whose metadata register the ruler of a picture shows (default: the first that is read)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="evaluate every printed formula of every form and compare it with the mapping",
    )


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim layout` with parsed options; returns the exit code."""
    if options.check:
        return answer(_check)
    try:
        format = _checked(options)
    except UnreadableError as error:
        say(error)
        return BAD
    if options.metadata_format is not None:
        return answer(lambda: _metadata_format(options, format), illegal=NO, output=options.output)
    if options.form is None:
        say("layout: FORM is missing; see 'tcsim layout --help'")
        return BAD
    if options.form == "datapath":
        return answer(lambda: _datapath(options, format), illegal=NO, output=options.output)
    return choices.answer_about(
        options, lambda layout, selection: _made(layout, selection, options, format), options.output
    )


def _checked(options: argparse.Namespace) -> str:
    """The format of the answer; UnreadableError for a name that says none, or a palette that is not known."""
    from simulator.views.drawing.palettes import PALETTES

    if options.palette not in PALETTES:
        raise UnreadableError(f"no palette '{options.palette}'", ", ".join(PALETTES))
    return format_of(options.output, options.format, _SUFFIXES)


def _metadata_format(options: argparse.Namespace, format: str) -> str:
    from isa.metadata_formats import metadata_format
    from simulator.views.drawing.metadata_formats import as_csv, as_json, as_text, draw_format
    from simulator.views.drawing.page import html

    layout = metadata_format(options.metadata_format, options.type)
    if format in ("svg", "html"):
        picture = draw_format(layout, options.palette)
        return picture.svg if format == "svg" else html(picture, options.palette)
    if format in ("csv", "json"):
        return as_csv(layout) if format == "csv" else as_json(layout)
    return as_text(layout, markdown=format == "markdown")


def _check() -> tuple[str, int]:
    from simulator.layout.check import check_formulas

    checked = check_formulas()
    return checked.text(), NO if checked.wrong else DONE


def _made(layout: FormLayout, selection: Selection | None, options: argparse.Namespace, format: str) -> str:
    """The layout as text in that format."""
    from simulator.layout.tables import as_csv, as_json, as_text

    if format in ("svg", "html"):
        from simulator.views.drawing import draw
        from simulator.views.drawing.page import html

        view, operand_name = options.view or "", options.operand.lower()
        picture = draw(layout, operand_name, selection=selection, palette=options.palette, view=view, lane=options.lane)
        unit = "column" if next(iter(layout.operands.values())).tmem else "register"
        return picture.svg if format == "svg" else html(picture, options.palette, unit)
    operands: list[Operand] = (
        list(layout.operands.values()) if options.operand == "all" else [layout.operand(options.operand)]
    )
    if format == "json":
        return json.dumps([as_json(operand, selection) for operand in operands], indent=1) + "\n"
    if format == "csv":
        return as_csv(operands, selection)
    markdown, view = format == "markdown", options.view or "matrix"
    return "\n".join(as_text(operand, view, selection=selection, markdown=markdown) for operand in operands)


def _datapath(options: argparse.Namespace, format: str) -> str:
    from simulator.layout.datapaths import as_csv, as_json, as_text
    from simulator.views.drawing import datapath_figure
    from simulator.views.drawing.page import html

    if format in ("svg", "html"):
        picture = datapath_figure(options.palette, options.n or 64)
        return picture.svg if format == "svg" else html(picture, options.palette)
    return (
        {"json": as_json, "csv": as_csv}[format]()
        if format in ("json", "csv")
        else as_text(markdown=format == "markdown")
    )
