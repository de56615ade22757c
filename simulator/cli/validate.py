"""`tcsim validate`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.cli import BAD, DONE, NO, say

if TYPE_CHECKING:
    from simulator.studies.validation.sparse_tcgen05 import Headline, Prediction
    from simulator.studies.validation.summary import Result
    from simulator.timing.config import Config

DESCRIPTION = """\
Runs everything that was measured or published through the timing model and prints the errors: each group of rows by its parts, and its worst rows.

--short runs a part of the rows that stands for all (under a minute). --record writes each group's mean and worst error to a file; --check compares
with it: exit code 1, and a line for each figure, if a group's error has grown. The file that comes with tcsim holds both forms.

--headline: what the model predicts for tcgen05.mma.sp, of which nothing is published (b200, b300, jetson_thor).
"""
SHIPPED = "the one that comes with tcsim"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    add = parser.add_argument
    add("--config", help="a GPU by name, or a config by path (default: all that have rows)")
    add("--group", action="append", default=[], metavar="NAME", help="only this group; may be given several times")
    add("--short", action="store_true", help="a part of the rows that stands for all")
    add("--worst", type=int, default=5, metavar="N", help="how many of the worst rows of a group to print (default 5)")
    add(
        "--format",
        choices=("table", "json", "csv", "markdown"),
        default="table",
        help="csv: every row; json: summaries and every row",
    )
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
    from isa.errors import IsaError
    from simulator.errors import ConfigError

    try:
        _check_options(options)
        return _headline(options) if options.headline else _validate(options)
    except (ConfigError, IsaError) as error:
        say(error)
        return BAD
    except OSError as error:
        say(
            f"{error.filename or 'output'}: cannot be written ({error.strerror or error}); legal: a file in a folder that exists"
        )
        return BAD


def _check_options(options: argparse.Namespace) -> None:
    """What would fail only after the work is done."""
    from isa.errors import IsaError
    from simulator.studies.validation.record import read_record

    if options.worst < 0:
        raise IsaError(str(options.worst), -1, f"--worst {options.worst}", "0 or more")
    if options.headline and not options.config:
        raise IsaError("", -1, "--headline needs --config", "a config with [tcgen05], such as b200")
    if options.headline and (options.plot or options.group or options.record is not None or options.check is not None):
        raise IsaError(
            "", -1, "--headline is for predictions, which have no errors", "--headline with --config and --format"
        )
    if options.plot:
        from simulator.views.plots import check_plot

        check_plot(options.plot)
    path = _record_path(options)
    if options.check is not None or (options.record is not None and path.exists()):
        read_record(path)
    if not path.resolve().parent.is_dir():
        raise IsaError("", -1, f"{path}: cannot be written, there is no such folder", "a file in a folder that exists")


def _record_path(options: argparse.Namespace) -> Path:
    from simulator.studies.validation.record import shipped

    return Path(options.record or options.check or shipped())


def _validate(options: argparse.Namespace) -> int:
    from simulator.studies.validation import report, validate

    results: list[Result] = []
    for result in validate(options.config, options.group, options.short):
        results.append(result)
        if sys.stderr.isatty():
            say(f"{result.config} {result.group.name}: {len(result.rows)} rows")
    printed = {"csv": report.as_csv, "json": report.as_json}.get(options.format)
    if printed is not None:
        sys.stdout.write(printed(results))
    else:
        sys.stdout.write((report.markdown if options.format == "markdown" else report.table)(results, options.worst))
    if options.plot:
        from simulator.studies.validation.plot import write_plot

        write_plot(results, options.plot)
    return _recorded(options, results)


def _recorded(options: argparse.Namespace, results: list[Result]) -> int:
    """Writes or checks the record."""
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


def _headline(options: argparse.Namespace) -> int:
    import csv
    import json
    from dataclasses import asdict

    from simulator.studies.validation.sparse_tcgen05 import headline, predictions
    from simulator.timing.config import load_config

    config = load_config(options.config)
    lines, sparse = headline(config), predictions(config)
    if options.format == "csv":
        writer = csv.DictWriter(sys.stdout, list(asdict(lines[0])), lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(line) for line in lines)
    elif options.format == "json":
        report = {
            "headline": [asdict(line) for line in lines],
            "predictions": [asdict(p) | {"speedup": p.speedup} for p in sparse],
        }
        print(json.dumps(report, indent=1))
    else:
        sys.stdout.write(_headline_table(config, lines) + _sparse_table(sparse))
    return DONE


def _sparse_table(sparse: list[Prediction]) -> str:
    from simulator.studies.validation.tcgen05 import name_of

    lines = ["", "steady interval of one sparse MMA and of the two dense MMAs that it replaces, cycles"]
    lines.append(f"{'sparse MMA':<62} {'dense':>7} {'sparse':>7} {'speed-up':>8}  {'bound by':<10} status")
    for p in sparse:
        lines.append(
            f"{name_of(p.mma):<62} {p.dense:>7.1f} {p.sparse:>7.1f} {p.speedup:>8.2f}  {p.bound:<10} {p.status}"
        )
    return "\n".join(lines) + "\n"


def _headline_table(config: Config, lines: list[Headline]) -> str:
    text = [
        f"f16, cta_group::2, M = N = 256, K = 4096 on {config.name}, operands in place: from the first issue until the commit is seen"
    ]
    text.append(f"{'':<45} {'MMAs':>5} {'cycles':>7} {'FMA/clk/SM':>10} {'speed-up':>8}  {'bound by':<10} status")
    for h in lines:
        text.append(
            f"{h.title:<45} {h.mmas:>5} {h.cycles:>7} {h.fma_per_clk_sm:>10.0f} {h.speedup:>8.2f}  {h.bound:<10} {h.status}"
        )
    return "\n".join(text) + "\n"
