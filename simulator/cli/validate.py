"""The verb `tcsim validate`, which compares the timing model with measured and published numbers."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.cli import DONE, NO, say
from simulator.cli.answer import UnreadableError, answer, draw_bar
from simulator.cli.config_option import add_config, choose_config
from simulator.cli.verbs import positive
from simulator.tables import Table, aligned

if TYPE_CHECKING:
    from simulator.chip.config import Config
    from simulator.studies.validation import Progress
    from simulator.studies.validation.sparse_tcgen05 import Headline, Prediction
    from simulator.studies.validation.summary import Result

DESCRIPTION = """\
Runs everything that was measured or published through the timing model and prints the errors: each group of rows by
its parts, and its worst rows.

--short runs a part of the rows that stands for all (under a minute). --record writes each group's mean and worst
error to a file; --check compares with it: exit code 1, and a line for each figure, if a group's error has grown. The
file that comes with tcsim holds both forms.

--headline: what the model predicts for tcgen05.mma.sp, of which nothing is published (b200, b300, jetson_thor).
"""
SHIPPED = "the one that comes with tcsim"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim validate` to its parser."""
    parser.description = DESCRIPTION
    add = parser.add_argument
    add_config(parser, "a GPU by name, or a config by path (default: all that have rows)", None)
    add("--group", action="append", default=[], metavar="NAME", help="only this group; may be given several times")
    add("--short", action="store_true", help="a part of the rows that stands for all")
    add("--worst", type=int, default=5, metavar="N", help="how many of the worst rows of a group to print (default 5)")
    add(
        "--format",
        choices=("table", "json", "csv", "markdown"),
        default="table",
        help="csv: every row; json: summaries and every row",
    )
    add("--workers", type=positive, metavar="N", help="processes (default: one for each core)")
    add("--plot", metavar="FILE.png", help="draw simulated over measured: .png, .svg or .pdf (needs matplotlib)")
    recorded = parser.add_mutually_exclusive_group()
    recorded.add_argument(
        "--record", nargs="?", const="", metavar="FILE", help=f"write the errors to a file (default: {SHIPPED})"
    )
    recorded.add_argument(
        "--check", nargs="?", const="", metavar="FILE", help=f"compare the errors with a file (default: {SHIPPED})"
    )
    add("--headline", action="store_true", help="predictions for tcgen05.mma.sp alone")


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim validate` with parsed options; returns the exit code."""
    return answer(lambda: _validated(options), [options.plot, options.record])


def _validated(options: argparse.Namespace) -> str | tuple[str, int]:
    _check_options(options)
    return _headline(options) if options.headline else _validate(options)


def _check_options(options: argparse.Namespace) -> None:
    """Checks, before the work, what would otherwise fail only after it."""
    from simulator.studies.validation.record import read_record

    if options.worst < 0:
        raise UnreadableError(f"--worst {options.worst}", "0 or more")
    if options.headline and not options.config:
        raise UnreadableError("--headline needs --config", "a config with [tcgen05], such as b200")
    if options.headline and (options.plot or options.group or options.record is not None or options.check is not None):
        raise UnreadableError(
            "--headline is for predictions, which have no errors", "--headline with --config and --format"
        )
    if options.record is not None and options.overrides:
        raise UnreadableError("--record with --set", "a record of configs as they come")
    if options.plot:
        from simulator.views.plots import check_plot

        check_plot(options.plot)
    path = _record_path(options)
    if options.check is not None or (options.record is not None and path.exists()):
        read_record(path)


def _record_path(options: argparse.Namespace) -> Path:
    from simulator.studies.validation.record import shipped

    return Path(options.record or options.check or shipped())


def _validate(options: argparse.Namespace) -> tuple[str, int]:
    from simulator.arithmetic.threads import thread_count
    from simulator.studies.validation import report, validate

    choose_config(options)
    workers = options.workers or thread_count()
    progress = _show if sys.stderr.isatty() else None
    results = list(validate(options.config, options.group, options.short, workers=workers, progress=progress))
    texts = {
        "csv": lambda: report.as_csv(results),
        "json": lambda: report.as_json(results),
        "markdown": lambda: report.markdown(results, options.worst),
        "table": lambda: report.table(results, options.worst),
    }
    if options.plot:
        from simulator.studies.validation.plot import write_plot

        write_plot(results, options.plot)
    return texts[options.format](), _recorded(options, results)


def _show(progress: Progress) -> None:
    """Draws how far it is; by time, since groups take from a tenth of a second to twenty."""
    share = progress.spent / max(progress.spent + progress.left, 1e-9) if progress.done < progress.count else 1.0
    draw_bar(share, f"{progress.done} of {progress.count} groups, about {progress.left:.0f} s left")


def _recorded(options: argparse.Namespace, results: list[Result]) -> int:
    """Writes the record, or checks the results against it; returns the exit code."""
    from simulator.studies.validation.record import missing, read_record, worse, write_record

    form, path = "short" if options.short else "full", _record_path(options)
    if options.record is not None:
        write_record(path, results, form, replace=not (options.config or options.group))
    if options.check is None:
        return DONE
    record = read_record(path)
    lines = worse(record, results, form)
    if not options.config and not options.group:
        lines += missing(record, results, form)
    for line in lines:
        say(line)
    return NO if lines else DONE


# Predictions


def _headline(options: argparse.Namespace) -> str:
    import json
    from dataclasses import asdict

    from simulator.studies.validation.sparse_tcgen05 import headline, predictions

    choose_config(options)
    config = options.config
    lines, sparse = headline(config), predictions(config)
    if options.format == "csv":
        return Table.of(asdict(line) for line in lines).csv()
    if options.format == "json":
        report = {
            "headline": [asdict(line) for line in lines],
            "predictions": [asdict(p) | {"speedup": p.speedup} for p in sparse],
        }
        return json.dumps(report, indent=1) + "\n"
    return _headline_table(config, lines) + _sparse_table(sparse)


def _sparse_table(sparse: list[Prediction]) -> str:
    from simulator.studies.validation.tcgen05 import name_of

    rows = [("sparse MMA", "dense", "sparse", "speed-up", " bound by", "status")]
    rows += [
        (name_of(p.mma), f"{p.dense:.1f}", f"{p.sparse:.1f}", f"{p.speedup:.2f}", f" {p.bound}", p.status)
        for p in sparse
    ]
    title = "steady interval of one sparse MMA and of the two dense MMAs that it replaces, cycles"
    return "\n".join(["", title, *aligned(rows, "<>>><<", widths=(62, 7, 7, 8, 11, 0), gap=" "), ""])


def _headline_table(config: Config, lines: list[Headline]) -> str:
    rows = [("", "MMAs", "cycles", "FMA/clk/SM", "speed-up", " bound by", "status")]
    rows += [
        (h.title, f"{h.mmas}", f"{h.cycles}", f"{h.fma_per_clk_sm:.0f}", f"{h.speedup:.2f}", f" {h.bound}", h.status)
        for h in lines
    ]
    title = f"f16, cta_group::2, M = N = 256, K = 4096 on {config.label}, operands in place"
    head = f"{title}: from the first issue until the commit is seen"
    return "\n".join([head, *aligned(rows, "<>>>><<", widths=(45, 5, 7, 10, 8, 11, 0), gap=" "), ""])
