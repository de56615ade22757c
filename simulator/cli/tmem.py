"""The verb `tcsim tmem TARGET`, which shows what Tensor Memory holds at each moment of a run."""

from __future__ import annotations

import argparse

from simulator.cli.answer import UnreadableError, answer, format_of, written

DESCRIPTION = """\
Runs a trace or a captured launch, and shows which columns and lanes of Tensor Memory hold D, A, metadata and scale
factors, when, and which lines write and read them.

TARGET is a trace, a file or the name of one that comes with tcsim, whose CTAs are all shown; or a captured launch
(NAME.json), of which the cluster of one CTA is. A moment is an instruction of one warp that touches Tensor Memory;
moments count from 1. Cells hold something from the first instruction that writes it to the last that touches it.
docs/tensor_memory.md explains table and picture.
"""

EPILOG = """\
examples:
  tcsim tmem digits/f16_tcgen05                        a map, a letter for 8 columns, and a table
  tcsim tmem digits/mxf4nvf4_tcgen05 --output map.svg  the picture; .png and .pdf, too
  tcsim tmem digits/f16_tcgen05 --at 26                one moment
  tcsim tmem capture.json --cta 2 --format csv         of a captured launch
"""
_SUFFIXES = {"": "table", ".txt": "table", ".json": "json", ".csv": "csv", ".svg": "svg", ".png": "png", ".pdf": "pdf"}
_PICTURES = ("svg", "png", "pdf")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim tmem` to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("target", metavar="TARGET")
    parser.add_argument("--at", type=_number, metavar="N", help="one moment alone: after instruction N; 0: before all")
    parser.add_argument("--cta", type=_number, metavar="N", help="of a captured launch, which CTA (default 0)")
    parser.add_argument(
        "--format",
        choices=("table", "json", "csv", *_PICTURES),
        help="default: as the name of the output says, or table",
    )
    parser.add_argument("--output", metavar="FILE", help="file to write (default: stdout; png and pdf need one)")
    parser.add_argument(
        "--palette",
        choices=("pastel", "distinct", "safe", "bw"),
        help="colours of a picture (default safe: told apart with any colour vision)",
    )


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise argparse.ArgumentTypeError(f"'{text}' is no number; legal: 0 or more")
    return int(text)


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim tmem` with parsed options; returns the exit code."""
    data = options.format not in (None, "table")
    return answer(lambda: _tmem(options), [options.output], data=data)


def _tmem(options: argparse.Namespace) -> str:
    format = format_of(options.output, options.format, _SUFFIXES)
    if format in ("png", "pdf") and options.output is None:
        raise UnreadableError(f"--format {format} needs a file", f"--output NAME.{format}")
    if options.palette is not None and format not in _PICTURES:
        raise UnreadableError(f"--palette says nothing of a {format}", f"a picture: {', '.join(_PICTURES)}")
    if options.cta is not None and not options.target.endswith(".json"):
        raise UnreadableError("--cta with a trace, whose CTAs are all shown", "a captured launch: NAME.json")
    return written(_content(options, format), options.output)


def _content(options: argparse.Namespace, format: str) -> bytes:
    from simulator.views.tensor_memory import memory_map
    from simulator.views.tensor_memory.picture import draw
    from simulator.views.tensor_memory.text import text

    memory = memory_map(options.target, options.cta or 0)
    if format in _PICTURES:
        return draw(memory, options.at, options.palette or "safe").rendered(f".{format}")
    if format == "table":
        return text(memory, options.at).encode()
    table = memory.table(options.at)
    return (table.json() if format == "json" else table.csv()).encode()
