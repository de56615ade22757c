"""The verb `tcsim sweep FILE`, which asks one question at many points of a design space."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from simulator.cli import DONE, NO, say
from simulator.cli.answer import UnreadableError, answer, draw_bar, pairs
from simulator.cli.config_option import add_set
from simulator.cli.verbs import positive

if TYPE_CHECKING:
    from pandas import DataFrame

    from simulator.studies.sweep import Progress, Summary, Sweep

DESCRIPTION = """\
Runs a sweep: configs and any of their keys, crossed with traces, GEMMs or lists of layers; a row of a table for each
point. FILE is a TOML file, the name of a sweep that comes with tcsim (small, operand_port, pays_size,
...: docs/sweep.md), or a table that a sweep wrote (.csv, .parquet), to draw it again.

An interrupted sweep continues where it stopped: points are kept beside the output until all are there.
docs/sweep.md has the whole story. Exit code 1: some points have no answer; the column `error` says why.
"""
EPILOG = """\
examples:
  tcsim sweep operand_port --dry-run                          how many points, and how long it would take
  tcsim sweep my.toml --output points.parquet                 one process a core
  tcsim sweep my.toml --output points.csv --dask tcp://head:8786
  tcsim sweep points.csv --pareto time_us,energy_j --output front.svg
  tcsim sweep points.csv --heatmap m,k,speedup --output map.pdf
  tcsim sweep points.csv --tornado time_us --output tornado.png
"""
_PICTURES = (".svg", ".pdf", ".png")
_TABLES = (".csv", ".parquet")
_EVERY = 10.0  # seconds from line to line where there is no terminal


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim sweep` to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add = parser.add_argument
    add("file", metavar="FILE")
    add("--output", metavar="FILE", help="the table (.csv, .parquet) or the picture (.svg, .pdf, .png)")
    add("--format", choices=("table", "csv", "json", "markdown"), default="table", help="on stdout (default table)")
    add("--columns", metavar="NAME,...", help="of the table on stdout")
    add_set(parser)
    add("--workers", type=positive, metavar="N", help="processes (default: one for each core)")
    add("--dask", metavar="ADDRESS", default="", help="a Dask scheduler, or local; in place of processes")
    add("--limit", type=positive, metavar="N", help="the most points")
    add("--dry-run", action="store_true", help="say how many points there are, and about how long they take")
    add("--restart", action="store_true", help="throw away what an interrupted run has kept")
    picture = parser.add_mutually_exclusive_group()
    picture.add_argument("--pareto", metavar="X,Y", help="draw the Pareto front (max:X where more is better)")
    picture.add_argument("--heatmap", metavar="X,Y,VALUE", help="draw a grid of two keys")
    picture.add_argument("--tornado", metavar="VALUE", help="draw how much each key matters")
    add("--baseline", metavar="KEY=VALUE", action="append", default=[], help="of --tornado (default: the first row)")
    add("--plot", metavar="FILE", help="the picture, where --output is the table")


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim sweep` with parsed options; returns the exit code."""
    return answer(lambda: _swept(options), [options.output, options.plot])


def _swept(options: argparse.Namespace) -> str | tuple[str, int]:
    from simulator.studies.sweep.table import check_output, read
    from simulator.studies.sweep.work import run, sweep_of

    picture, table = _files(options)
    if options.file.lower().endswith(_TABLES):
        if table or options.dry_run:
            raise UnreadableError(f"{options.file} is a table, which is there already", "a picture, or no --output")
        frame = read(options.file)
        _draw(options, frame, picture)
        return ("" if picture else _shown(options, frame)), _code(frame)
    sweep = sweep_of(options.file, options.limit, _overrides(options))
    _check_names(options, sweep)
    if options.dry_run:
        return _forecast(sweep)
    show = _Progress()
    given: dict[str, Any] = {"workers": options.workers, "dask": options.dask, "progress": show}
    if table:
        check_output(table)
        from simulator.studies.sweep.work import execute as write

        summary = write(sweep, table, restart=options.restart, **given)
        code = _say(summary, table)
        if picture:
            _draw(options, read(table), picture)
        return "", code
    frame = run(sweep, **given)
    _draw(options, frame, picture)
    return ("" if picture else _shown(options, frame)), _code(frame)


def _files(options: argparse.Namespace) -> tuple[str, str]:
    """The files of the picture and of the table, either of which may be none."""
    from simulator.views.plots import check_plot

    wanted = options.pareto or options.heatmap or options.tornado
    if options.baseline and not options.tornado:
        raise UnreadableError("--baseline without --tornado", "--tornado VALUE with it")
    output, picture = options.output or "", options.plot or ""
    if output.lower().endswith(_PICTURES) and not picture:
        output, picture = "", output
    if wanted and not picture:
        raise UnreadableError("a picture without a file", f"--output or --plot with a name in {', '.join(_PICTURES)}")
    if picture and not wanted:
        raise UnreadableError(f"{picture}: a picture of what?", "--pareto X,Y, --heatmap X,Y,VALUE or --tornado VALUE")
    if output and not output.lower().endswith(_TABLES):
        raise UnreadableError(f"{output}: there is no such format", f"a name that ends in {', '.join(_TABLES)}")
    if picture:
        check_plot(picture)
    for name, text, count in (("--pareto", options.pareto, 2), ("--heatmap", options.heatmap, 3)):
        if text and len(text.split(",")) != count:
            raise UnreadableError(f"{name} {text}", f"{count} names of columns with commas between")
    _baseline(options)
    return picture, output


def _baseline(options: argparse.Namespace) -> dict[str, str]:
    return pairs(options.baseline, "--baseline")


def _overrides(options: argparse.Namespace) -> dict[str, str]:
    """What `--set` sets; the config reads the values."""
    legal = "KEY=VALUE, such as tensor.sparse_full_k.interval=4"
    found = pairs(options.overrides, "--set", legal)
    for key, value in found.items():
        if "." not in key:
            raise UnreadableError(f"--set {key}={value}", legal)
    return found


def _names(options: argparse.Namespace) -> list[str]:
    """The columns that the options name."""
    from simulator.studies.sweep.views import better

    asked = [
        *(options.pareto or options.heatmap or options.tornado or "").split(","),
        *(options.columns or "").split(","),
    ]
    return [better(name)[0] for name in asked if name]


def _check_names(options: argparse.Namespace, sweep: Sweep) -> None:
    """Finds names of columns that the table will not have before anything runs."""
    from simulator.studies.sweep.evaluate import columns
    from simulator.studies.sweep.table import frame_of
    from simulator.studies.sweep.views import check_column

    if _names(options):
        empty = frame_of(sweep, b"")
        assert tuple(empty.columns) == columns(sweep)
        for name in [*_names(options), *_baseline(options)]:
            check_column(empty, name)


def _draw(options: argparse.Namespace, frame: DataFrame, picture: str) -> None:
    from simulator.studies.sweep.pictures import write_heatmap, write_pareto, write_tornado

    if options.pareto:
        write_pareto(frame, options.pareto.split(","), picture)
    elif options.heatmap:
        across, up, value = options.heatmap.split(",")
        write_heatmap(frame, across, up, value, picture)
    elif options.tornado:
        write_tornado(frame, options.tornado, picture, _baseline(options))


def _shown(options: argparse.Namespace, frame: DataFrame) -> str:
    """The table for stdout; for a person, numbers to four digits and without columns that say nothing."""
    import pandas as pd

    from simulator.studies.sweep.views import check_column
    from simulator.tables import render, to_four_digits

    names = [name for name in (options.columns or "").split(",") if name]
    for name in names:
        check_column(frame, name)
    shown = frame[names] if names else frame
    if options.format in ("table", "markdown"):
        empty = [name for name in shown if (shown[name].isna() | (shown[name].astype(str) == "")).all()]
        shown = shown.drop(columns=empty) if not names else shown
        for name in shown.columns[shown.dtypes == "float64"]:
            shown = shown.assign(**{name: shown[name].map(to_four_digits)})
    return render(shown.astype(object).where(pd.notna(shown), None), options.format)


def _code(frame: DataFrame) -> int:
    """NO if a point has no answer."""
    return _told(int((frame["error"].notna() & (frame["error"] != "")).sum()) if "error" in frame else 0, len(frame))


def _told(errors: int, points: int) -> int:
    """Says how many points have no answer; returns the exit code."""
    if errors:
        say(f"{errors:,} of {points:,} points have no answer; the column `error` says why")
    return NO if errors else DONE


def _say(summary: Summary, output: str) -> int:
    """Says what a sweep came to; returns the exit code."""
    kept = f", {summary.resumed:,} of them from an earlier run" if summary.resumed else ""
    spoilt = f"; {summary.spoilt} incomplete parts of it were done again" if summary.spoilt else ""
    say(f"{output}: {summary.points:,} points{kept}, {summary.seconds:,.1f} s{spoilt}")
    return _told(summary.errors, summary.points)


def _forecast(sweep: Sweep) -> str:
    from simulator.arithmetic.threads import thread_count
    from simulator.studies.sweep.keys import shown
    from simulator.studies.sweep.planning import forecast

    lines = []
    for subject in sweep.subjects:
        lines.append(f"{subject.count:,} points of {subject.kind}s:")
        for axis in subject.axes:
            values = tuple(row[0] for row in axis.values) if len(axis.keys) == 1 else ()
            said = shown(values) if values else f"{len(axis.values):,} rows that go together"
            lines.append(f"  {', '.join(axis.keys)}: {said}")
    found = forecast(sweep)
    cores = thread_count()
    about = "about " if found.counted < found.points or sweep.searches else ""
    lines.append(f"{found.points:,} points, {about}{found.simulations:,} simulations that differ")
    told = f"about {_time(found.seconds)} on one core, {_time(found.on(cores))} on {cores}"
    lines.append(f"{told} (from {found.tried} points that were run)")
    return "\n".join(lines) + "\n"


def _time(seconds: float) -> str:
    """A time for a person."""
    for name, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {name}"
    return f"{seconds:,.1f} s"


class _Progress:
    """Shows how far it is on stderr: a bar on a terminal, else a line from time to time."""

    def __init__(self) -> None:
        self.shown = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        now, terminal = time.monotonic(), sys.stderr.isatty()
        over = progress.done == progress.count
        if now - self.shown < (0.1 if terminal else _EVERY) and not (over and terminal):
            return
        self.shown = now
        left = "" if progress.left == float("inf") else f", about {_time(progress.left)} left"
        text = f"{progress.done:,} of {progress.count:,} points{left}"
        if not terminal:
            say(text)
            return
        draw_bar(progress.done / max(progress.count, 1), text)
