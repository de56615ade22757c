"""The verb `tcsim convert FILE --from FORM --to FORM`, which rewrites a sparse matrix, or its metadata alone, from one
form to another."""

from __future__ import annotations

import argparse
import json

from simulator.cli import matrices, say
from simulator.cli.answer import answer

DESCRIPTION = """\
Rewrites a sparse matrix, or its metadata alone, from one form to another.

Metadata alone: codes, rows, registers.m16n8kK, cutlass.sm80, torch, cusparselt, cusparselt.sm80, cutlass.sm90.kN,
cutlass.sm100, marlin, tmem, smem; which of them serve a type: --list. A whole matrix: dense, cusparselt.buffer,
torch.matrix (arrays values and meta), torch.cslt, and pair:FORMAT (values, and meta in that format). docs/formats.md
draws each of them. Undefined codes are refused, but for the 0b0000 that CUTLASS's compressor for Hopper and Blackwell
leaves for chunks of zeros (cutlass.sm90.kN, cutlass.sm100): it is read as zeros, and written as 0b1110.
"""
EPILOG = """\
examples:
  tcsim convert e.npy --from cutlass.sm80 --to registers.m16n8k32 --type f16 --rows 64 --columns 64 --output r.npy
  tcsim convert torch.npz --from torch.matrix --to dense --type bf16 --output dense.npy
  tcsim convert buffer.npy --from cusparselt.buffer --to dense --type f16 --rows 64 --columns 128 --output d.npy
  tcsim convert --list --type s8
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim convert` to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("input", metavar="FILE", nargs="?", help=".npy or .npz")
    parser.add_argument("--from", dest="source", metavar="FORM")
    parser.add_argument("--to", dest="target", metavar="FORM")
    parser.add_argument("--type", required=True, help="of the elements: f16, bf16, f32, s8, e4m3, e5m2, e2m1")
    parser.add_argument("--rows", type=int, help="of the logical matrix, where the file does not tell")
    parser.add_argument("--columns", type=int, help="likewise")
    parser.add_argument("--output", metavar="FILE", help=".npy, or .npz for two arrays; complete, or not at all")
    parser.add_argument("--list", action="store_true", help="the formats that serve the type, and where they come from")
    parser.add_argument("--format", choices=("table", "json"), default="table")


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim convert` with parsed options; returns the exit code."""
    return answer(lambda: _list(options) if options.list else _convert(options), [options.output])


def _list(options: argparse.Namespace) -> str:
    from isa.metadata_formats import format_names, metadata_format

    formats = [metadata_format(name, options.type) for name in format_names(options.type)]
    if options.format == "json":
        rows = [{"name": f.name, "title": f.title, "atom": f.atom, "evidence": f.evidence} for f in formats]
        return json.dumps(rows, indent=2) + "\n"
    wide = max(len(f.name) for f in formats)
    return "".join(f"{f.name:<{wide}}  {f.tile[0]:>3} x {f.tile[1]:<3} {f.evidence:<10} {f.title}\n" for f in formats)


def _convert(options: argparse.Namespace) -> str:
    from isa import IsaError
    from simulator.studies.sparselt.moves import convert

    missing = [
        name
        for name, value in (("FILE", options.input), ("--from", options.source), ("--to", options.target))
        if value is None
    ]
    if missing or options.output is None:
        raise IsaError("", -1, f"{(missing or ['--output'])[0]} is missing", "FILE --from FORM --to FORM --output FILE")
    for name, size in (("--rows", options.rows), ("--columns", options.columns)):
        if size is not None and size < 1:
            raise IsaError("", -1, f"{name} {size}", "1 or more")
    matrices.check_output(options.output)
    arrays = {name or "data": array for name, array in matrices.read(options.input).items()}
    told: list[str] = []
    converted = convert(
        arrays, options.source, options.target, options.type, rows=options.rows, columns=options.columns, told=told
    )
    matrices.write(options.output, converted)
    for note in told:
        say(note)
    if options.format == "json":
        shapes = {name: {"type": array.dtype.name, "shape": list(array.shape)} for name, array in converted.items()}
        return json.dumps({"output": options.output, "arrays": shapes}, indent=2) + "\n"
    return "".join(f"{name:<8} {array.dtype.name} {list(array.shape)}\n" for name, array in converted.items())
