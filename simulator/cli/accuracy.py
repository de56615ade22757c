"""The verb `tcsim accuracy`, which compares the sums of chips, and of plain f32, with the exact result."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.cli import say
from simulator.cli.answer import UnreadableError, answer

if TYPE_CHECKING:
    from numpy.typing import NDArray

DESCRIPTION = """\
What a chip's sums do to dot products: errors against the correctly rounded exact result in ulp (histogram,
percentiles, worst case, bias), for chips side by side, and beside them plain f32: a chain of fused multiply-adds, and
pairwise sums.

Dot products longer than an instruction's K are chains of instructions that round the accumulator each time, as the
main loop of a matrix product does. Each line says on what evidence the chip's sum is known: measured here, measured
by others, or inferred.
"""

EPILOG = """\
examples:
  tcsim accuracy --type e4m3                               every chip that multiplies e4m3, K = 4096, normal operands
  tcsim accuracy --type e4m3 --targets sm_90:wgmma,sm_90 --distribution positive --plot fp8.png
  tcsim accuracy --type f16 --result f16 --k 1024 --scale 0.1
  tcsim accuracy --type bf16 --a weights.npy --b activations.npy --sparse --format json
"""

FORMATS = ("table", "json", "csv")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim accuracy` to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add = parser.add_argument
    add("--type", required=True, help="element type of A and B: f16, bf16, tf32, e4m3, e5m2, e3m2, e2m3, e2m1")
    add("--b-type", metavar="TYPE", help="that of B, if it differs")
    add("--result", default="f32", help="type of the accumulator: f32 (default) or f16")
    add("--k", type=int, metavar="N", help="products in a dot product (default 4096; of given operands theirs)")
    add(
        "--targets",
        metavar="LIST",
        help="chips, e.g. sm_89,sm_90:wgmma,sm_100:tcgen05; mma if no family is named (default: all with the types)",
    )
    add(
        "--sparse",
        action="store_true",
        help="prune A by magnitude (2:4; tf32 1:2) and multiply it with the .sp instructions",
    )
    add(
        "--distribution",
        default="normal",
        help="of drawn operands: normal (default), uniform, positive, lognormal, bits",
    )
    add(
        "--scale",
        type=float,
        default=1.0,
        metavar="X",
        help="of the distribution: its standard deviation, or bound (default 1)",
    )
    add("--count", type=int, metavar="N", help="results to compare (default 10000; of given operands at most 100000)")
    add("--seed", type=int, default=0, metavar="N", help="of what is drawn (default 0)")
    add(
        "--a",
        metavar="FILE.npy",
        help="A [M, K]: float16, float32 or float64 numbers, rounded to the type, or unsigned integers: its patterns",
    )
    add("--b", metavar="FILE.npy", help="B [K, N]")
    add(
        "--format",
        choices=FORMATS,
        help="default: table, or what the name of --out says; json has the operands of the worst cases, too",
    )
    add("--output", "--out", dest="out", metavar="FILE", help="write there, not to standard output")
    add("--plot", metavar="FILE.png", help="draw the histograms: .png, .svg or .pdf (needs matplotlib)")


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim accuracy` with parsed options; returns the exit code."""
    return answer(lambda: _accuracy(options), [options.plot], output=options.out)


def _accuracy(options: argparse.Namespace) -> str:
    from simulator.studies.accuracy import accuracy
    from simulator.studies.accuracy.plot import write_plot
    from simulator.views.plots import check_plot

    if options.plot:
        check_plot(options.plot)
    a, b = (None if path is None else _load(path) for path in (options.a, options.b))
    result = accuracy(
        options.type,
        options.k,
        b_type=options.b_type,
        targets=options.targets,
        result=options.result,
        sparse=options.sparse,
        distribution=options.distribution,
        scale=options.scale,
        count=options.count,
        seed=options.seed,
        a=a,
        b=b,
    )
    for note in result.notes:
        say(note)
    if options.plot:
        write_plot(result, options.plot)
    named = Path(options.out).suffix.lstrip(".") if options.out else ""
    chosen = options.format or (named if named in FORMATS else "table")
    return {"table": result.table, "json": result.json, "csv": result.csv}[chosen]()


def _load(path: str) -> NDArray[Any]:
    from simulator.inputs import ArrayFile

    legal = "a .npy file of one matrix, as numpy.save writes it"
    file = ArrayFile(path, legal)
    if file.archive:
        raise UnreadableError(f"{path}: holds several arrays (.npz)", legal)
    return file.read()
