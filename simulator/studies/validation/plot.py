"""Draws predicted against measured numbers as a picture. Needs matplotlib (the extra `plots`), which is loaded here and
nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.studies.validation.report import shown
from simulator.studies.validation.summary import Result
from simulator.views.plots import COLOURS, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BAND = 0.05
COLUMNS = 3
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def write_plot(results: Sequence[Result], path: str | Path) -> None:
    """Writes the picture: a panel for each config and a colour for each of its groups, simulated over measured numbers,
    both axes logarithmic, with a band of 5 %.

    Raises:
        ViewError, MissingDependency: no folder, a name that says no format, or no matplotlib.
        OSError: the file cannot be written.
    """
    save(lambda: draw(results), path, font=8)


def draw(results: Sequence[Result]) -> Figure:
    """The figure."""
    from matplotlib.figure import Figure

    configs = list(dict.fromkeys(result.config_label for result in results))
    columns = min(COLUMNS, len(configs))
    rows = -(-len(configs) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.9 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, config in zip(panels, configs, strict=False):
        _panel(axes, [result for result in results if result.config_label == config])
    for axes in panels[len(configs) :]:
        axes.set_visible(False)
    return figure


def _panel(axes: Axes, results: list[Result]) -> None:
    measured = [row.measured for result in results for row in result.rows]
    ends = (min(measured) * 0.8, max(measured) * 1.25)
    axes.fill_between(
        ends,
        [end * (1 - BAND) for end in ends],
        [end * (1 + BAND) for end in ends],
        color="#dddddd",
        linewidth=0,
        label="5 % band",
    )
    axes.plot(ends, ends, color="#888888", linewidth=0.8)
    for number, result in enumerate(results):
        style: dict[str, Any] = {"marker": _MARKERS[number % len(_MARKERS)], "color": COLOURS[number % len(COLOURS)]}
        label = f"{result.group.name}: {len(result.rows)} rows, mean {shown(result.group, result.all.mean)}"
        x, y = [row.measured for row in result.rows], [row.simulated for row in result.rows]
        axes.scatter(x, y, s=9, alpha=0.6, linewidths=0, label=label, **style)
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if ends[1] < 50 * ends[0] else (1,)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())
    axes.set_xlim(*ends)
    axes.set_ylim(*ends)
    axes.set_title(results[0].title, fontsize=9)
    axes.set_xlabel("measured or published")
    axes.set_ylabel("simulated")
    axes.legend(fontsize=6, loc="upper left")
