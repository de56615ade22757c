"""The verb `tcsim compress FILE`, which compresses a pruned matrix into stored values and metadata."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from simulator.cli import matrices, say
from simulator.cli.answer import answer

if TYPE_CHECKING:
    from simulator.studies.sparselt.matrices import Patterns

DESCRIPTION = f"""\
Compresses a pruned matrix to the bytes of cuSPARSELt 0.8's buffer on an H100 (values, metadata, room), or to
PyTorch's values and metadata.

FILE holds patterns of --type (unsigned integers of its width, signed views of them), or floats, which are rounded; a
matrix that is not pruned is refused.
{matrices.ARRANGEMENT}
"""
EPILOG = """\
examples:
  tcsim compress pruned.npy --type f16 --output buffer.npy
  tcsim compress pruned.npy --type bf16 --as torch.matrix --output torch.npz     arrays values and meta
  tcsim compress pruned.npy --type f16 --as pair:cutlass.sm90.k128 --output e.npz
  tcsim compress pruned.npy --type f16 --pattern 1:4 --output compressed.npz
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim compress` to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    matrices.add_input(parser)
    parser.add_argument("--type", required=True, help="f16, bf16, f32, s8, e4m3, e5m2 or e2m1")
    parser.add_argument(
        "--as",
        dest="form",
        default="cusparselt.buffer",
        help="cusparselt.buffer (default), torch.matrix, torch.cslt, or pair:FORMAT (see tcsim convert)",
    )
    parser.add_argument(
        "--pattern",
        metavar="PATTERN",
        help="a pattern that no chip has, in place of --as: arrays values, codes and outer (see docs/designs.md)",
    )
    matrices.add_arrangement(parser)
    parser.add_argument("--output", metavar="FILE", help=".npy, or .npz for two arrays; complete, or not at all")
    parser.add_argument("--format", choices=("table", "json"), default="table")


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim compress` with parsed options; returns the exit code."""
    return answer(lambda: _compress(options), [options.output])


def _compress(options: argparse.Namespace) -> str:
    import numpy as np

    from isa import IsaError
    from simulator.studies.sparselt.compression import compress
    from simulator.studies.sparselt.matrices import Arrangement, as_patterns
    from simulator.studies.sparselt.moves import convert
    from simulator.studies.sparselt.rounding import rounding_of
    from simulator.studies.sparselt.summary import summarise

    if options.output:
        matrices.check_output(options.output)
    given = matrices.read_one(options.input, options.key)
    patterns, rounded = as_patterns(given, options.type)
    how = {"order": options.order, "op": options.op, "operand": options.operand}
    if options.pattern:
        for note in rounding_of(given, patterns, options.type, rounded).notes(""):
            say(note)
        return _pattern(patterns, options, how)
    if options.form == "cusparselt.buffer":
        arrays: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = {
            "data": compress(patterns, options.type, **how)
        }
    elif not Arrangement(**how).along_columns:
        raise IsaError("", -1, f"{options.form} with K along the rows", "the transposed matrix, or cusparselt.buffer")
    else:
        arrays = convert({"data": patterns}, "dense", options.form, options.type)
    if options.output:
        matrices.write(options.output, arrays)
    for note in rounding_of(given, patterns, options.type, rounded).notes(""):
        say(note)
    sizes = {name: array.nbytes for name, array in arrays.items()}
    summary = summarise(given, patterns, options.type, **how)
    dense = patterns.nbytes
    if options.format == "json":
        content = {"bytes": sizes, "dense_bytes": dense, "form": options.form, "matrix": summary.as_dict()}
        return json.dumps(content, indent=2) + "\n"
    shown = "".join(
        f"{name:<20} {array.dtype.name} {list(array.shape)}, {array.nbytes} bytes\n" for name, array in arrays.items()
    )
    total = sum(sizes.values())
    return f"{summary.table()}\n{shown}{'size':<20} {total} of {dense} bytes dense: {total / dense:.2%}\n"


def _pattern(patterns: Patterns, options: argparse.Namespace, how: dict[str, str]) -> str:
    """The matrix as a hypothetical pattern stores it."""
    from simulator.studies.sparselt.matrices import matrix_type
    from simulator.studies.sparselt.patterns import arrays_of, compress_pattern

    stored = compress_pattern(patterns, options.type, options.pattern, **how)
    element = matrix_type(options.type)
    if options.output:
        matrices.write(options.output, arrays_of(stored, options.type))
    values, metadata, dense = stored.values.size * element.bits, stored.metadata_bits, patterns.size * element.bits
    content = {
        "pattern": stored.pattern.name,
        "value_bits": values,
        "metadata_bits": metadata,
        "dense_bits": dense,
        "share_of_dense": (values + metadata) / dense,
    }
    if options.format == "json":
        return json.dumps(content, indent=2) + "\n"
    return (
        f"{stored.pattern.name}: {stored.values.size} of {patterns.size} elements stored, {values:,} bits\n"
        f"metadata {metadata:,} bits\n"
        f"together {values + metadata:,} of {dense:,} bits dense: {(values + metadata) / dense:.2%}\n"
    )
