"""The verb `tcsim prune FILE`, which prunes a matrix to a sparsity pattern."""

from __future__ import annotations

import argparse
import json

from simulator.cli import matrices, say
from simulator.cli.answer import answer

DESCRIPTION = f"""\
Prunes a matrix to structured sparsity, byte for byte as cuSPARSELt 0.8 does on an H100 ("tile", "strip"), or PyTorch
for training (largest_values_greedy, largest_abs_values_greedy, causal1122), and says what was lost.

FILE holds patterns of --type (unsigned integers of its width, signed views of them), or floats, which are rounded.
{matrices.ARRANGEMENT}
"""
EPILOG = """\
examples:
  tcsim prune weight.npy --type f16 --algorithm tile --output pruned.npy
  tcsim prune layer.npz --key weight --type e4m3 --algorithm strip --op t --output pruned.npy --picture pruned.png
  tcsim prune weight.npy --type f32 --format json          the summary alone
  tcsim prune weight.npy --type f16 --pattern 1:4 --output pruned.npy
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim prune` to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    matrices.add_input(parser)
    parser.add_argument("--type", required=True, help="f16, bf16, f32, s8, e4m3, e5m2 or e2m1")
    parser.add_argument("--algorithm", default="tile", help="tile (default), strip, or one of PyTorch's")
    parser.add_argument(
        "--pattern",
        metavar="PATTERN",
        help="a pattern that no chip has, pruned by magnitude in place of --algorithm: 1:4, 64:2:8 (V:N:M), 4:8/2:4 "
        "(ranks), u0.05 (density); see tcsim design --patterns",
    )
    matrices.add_arrangement(parser)
    parser.add_argument("--output", metavar="FILE", help="the pruned matrix: .npy or .npz; complete, or not at all")
    parser.add_argument("--picture", metavar="FILE", help="before and after: .png, .svg or .pdf (needs matplotlib)")
    parser.add_argument("--format", choices=("table", "json", "csv"), default="table", help="csv: the patterns alone")


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim prune` with parsed options; returns the exit code."""
    return answer(lambda: _prune(options), [options.output, options.picture])


def _prune(options: argparse.Namespace) -> str:
    from simulator.studies.sparselt.matrices import as_patterns
    from simulator.studies.sparselt.patterns import prune_pattern
    from simulator.studies.sparselt.pruning import prune
    from simulator.studies.sparselt.summary import summarise

    if options.output:
        matrices.check_output(options.output)
    if options.picture:
        from simulator.views.plots import check_plot

        check_plot(options.picture)
    given = matrices.read_one(options.input, options.key)
    patterns, rounded = as_patterns(given, options.type)
    how = {"order": options.order, "op": options.op, "operand": options.operand}
    pruned = (
        prune_pattern(patterns, options.type, options.pattern, **how)
        if options.pattern
        else prune(patterns, options.type, options.algorithm, **how)
    )
    summary = summarise(given, pruned, options.type, **how)
    if options.output:
        same = given.dtype.itemsize == pruned.dtype.itemsize and (given.dtype.kind in "iu" or not rounded)
        matrices.write(options.output, {"data": pruned.view(given.dtype) if same else pruned})
    if options.picture:
        from simulator.studies.sparselt.plot import write_picture

        write_picture(patterns, pruned, options.type, options.picture)
    for note in summary.rounding.notes(""):
        say(note)
    if options.format == "json":
        return json.dumps(summary.as_dict() | {"rounded": rounded}, indent=2) + "\n"
    return summary.table() if options.format == "table" else summary.strips.csv()
