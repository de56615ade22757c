"""The actions `tcsim faults compare` and `tcsim faults plot`, and the options of `run` and `report` that concern
judgement and statistics."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from simulator.cli.answer import UnreadableError, written

if TYPE_CHECKING:
    from simulator.faults.sequential import Until

KINDS = ("outcomes", "heatmap", "coverage")
BY = ("group", "site", "bit", "lane-bit", "row-column")


def share(text: str) -> float:
    """An option's number between 0 and 1."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"'{text}'; legal: a number between 0 and 1, such as 0.95")
    return value


def expression(text: str) -> str:
    """An option's expression; nothing is none."""
    if not text.strip():
        raise argparse.ArgumentTypeError("nothing; legal: an expression such as 'max_rel <= 1e-2'")
    return text


def add_run(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `run`."""
    judged = parser.add_mutually_exclusive_group()
    judged.add_argument(
        "--tolerate",
        metavar="EXPRESSION",
        type=expression,
        help="corruptions for which it holds are tolerable, all others critical: 'max_rel <= 1e-2 and nonfinite == 0'",
    )
    judged.add_argument(
        "--judge", metavar="JUDGE.py", default="", help="a file with critical(got, golden), a bool for each fault"
    )
    parser.add_argument(
        "--detect",
        metavar="DETECTOR",
        action="append",
        default=[],
        help="further detectors: nonfinite, range, duplicate, checksum, parity, secded, abft with commas between them; "
        "'abft=D:100,50,64=A @ B' for checksums of a stored product; an expression of d, such as 'abs(d) > 1e4'; or "
        "FILE.py:FUNCTION (may be given several times)",
    )
    parser.add_argument(
        "--until-margin",
        metavar="MARGIN",
        type=share,
        help="stop when in every group the interval of each outcome is this wide to either side, such as 0.01",
    )
    parser.add_argument("--confidence", type=share, help="of --until-margin (default 0.95)")


def until_of(options: argparse.Namespace) -> Until | None:
    """When a run is to stop; None for at the end."""
    from simulator.faults.sequential import Until

    if options.until_margin is not None:
        return Until(options.until_margin, options.confidence or 0.95)
    if options.confidence is not None:
        raise UnreadableError(
            "--confidence without --until-margin", "both; of the report's intervals: report --confidence"
        )
    return None


def add_report(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `report`."""
    parser.add_argument(
        "--by-case",
        action="store_true",
        help="intervals for operands in general, of which the sets are a sample, with the design effect",
    )
    parser.add_argument("--confidence", type=share, default=0.95, help="of the intervals (default 0.95)")
    parser.add_argument(
        "--fit-per-bit",
        metavar="FIT",
        type=float,
        help="failures of one bit in 10^9 hours, such as 1e-4: FIT of each group by outcome",
    )


def add_actions(actions: Any) -> None:
    """Adds the parsers of `compare` and `plot`."""
    compared = actions.add_parser("compare", help="whether two files of results differ: tests and effect sizes")
    compared.add_argument("results", nargs=2, metavar="RESULTS.csv", help="what `run` wrote")
    compared.add_argument("--confidence", type=share, default=0.95, help="of the intervals (default 0.95)")
    compared.add_argument("--format", choices=("table", "json", "csv", "markdown"), default="table")
    compared.add_argument("--output", metavar="FILE", help="write there instead of to stdout")
    plotted = actions.add_parser("plot", help="a picture for a paper: outcomes, heat maps, coverage against cost")
    plotted.add_argument("results", nargs="+", metavar="RESULTS.csv", help="what `run` wrote")
    plotted.add_argument("--output", required=True, metavar="FIGURE", help="a name that ends in .pdf, .png or .svg")
    plotted.add_argument("--kind", choices=KINDS, default="outcomes")
    plotted.add_argument("--by", choices=BY, help="outcomes: group, site, bit; heatmap: lane-bit, row-column")
    plotted.add_argument("--group", metavar="NAME", help="only this group (heatmap: the first)")
    plotted.add_argument("--cost", metavar="COST.csv", help="columns detector, overhead (default: the timing model's)")
    plotted.add_argument("--confidence", type=share, default=0.95, help="of the intervals (default 0.95)")
    plotted.add_argument("--width", type=float, default=7.0, help="of the picture in inches (default 7)")


def compare(options: argparse.Namespace) -> str:
    """Compares two files of results."""
    from simulator.studies.faults import compare as comparison

    first, second = options.results
    found = comparison.compare(first, second, options.confidence)
    return written(comparison.as_text(found, options.format).encode(), options.output)


def plot(options: argparse.Namespace) -> str:
    """Draws a picture of files of results."""
    from simulator.studies.faults import plot as pictures

    legal = {"outcomes": BY[:3], "heatmap": BY[3:], "coverage": ()}[options.kind]
    if options.by and options.by not in legal:
        raise UnreadableError(f"--kind {options.kind} --by {options.by}", f"--by {' or '.join(legal) or 'nothing'}")
    if options.cost and options.kind != "coverage":
        raise UnreadableError(f"--cost with --kind {options.kind}", "--kind coverage")
    if not 2 <= options.width <= 40:
        raise UnreadableError(f"--width {options.width:g}", "2 to 40 inches")
    pictures.plot(
        options.results, options.output, options.kind, by=options.by or (legal or ("",))[0], group=options.group or "",
        cost=options.cost or "", confidence=options.confidence, width=options.width,
    )  # fmt: skip
    return ""
