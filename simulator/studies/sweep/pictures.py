"""Draws what `views` reads off a sweep, as a paper prints it: .svg, .pdf or .png, by the file's name. Needs matplotlib
(the extra `plots`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.studies.sweep.views import answered, better, heatmap, keys_of, numbers, pareto, tornado
from simulator.views.plots import COLOURS, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

_UNITS = {"us": "µs", "nj": "nJ", "j": "J", "w": "W", "js": "J s", "mhz": "MHz", "bytes": "bytes", "ns": "ns"}
_LABELS = 12  # points of a front that get a name of their own
_CELLS = 16  # cells a side up to which each shows its number


def label(column: str) -> str:
    """A column's name for an axis, with its unit: "time (µs)"."""
    words = column.split("_")
    if "." not in column and len(words) > 1 and words[-1] in _UNITS:
        return f"{' '.join(words[:-1])} ({_UNITS[words[-1]]})"
    return {"tflops": "TFLOPS (pruned products counted)", "tflops_per_watt": "TFLOPS/W"}.get(column, column)


def write_pareto(frame: DataFrame, columns: Sequence[str], path: str | Path) -> None:
    """Draws all points over two columns, and the front through the best; errors as `pareto` and `save`."""
    save(lambda: _pareto(frame, columns), path)


def write_heatmap(frame: DataFrame, x: str, y: str, value: str, path: str | Path) -> None:
    """Draws a grid of two keys whose colour is a column; errors as `heatmap` and `save`."""
    save(lambda: _heatmap(frame, x, y, value), path)


def write_tornado(frame: DataFrame, value: str, path: str | Path, baseline: Mapping[str, Any] | None = None) -> None:
    """Draws how far each key alone moves a column; errors as `tornado` and `save`."""
    save(lambda: _tornado(frame, value, baseline), path)


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)


def _pareto(frame: DataFrame, columns: Sequence[str]) -> Figure:
    rows, front = answered(frame), pareto(frame, columns)
    (x, more_x), (y, more_y) = (better(column) for column in columns)
    figure, axes = _figure(6.4, 4.4)
    groups = _groups(rows)
    for number, (name, mine) in enumerate(groups):
        colour = COLOURS[number % len(COLOURS)]
        marker = "os^Dv<>"[number % 7]
        axes.plot(
            numbers(mine, x), numbers(mine, y), marker, color=colour, markersize=4, alpha=0.55, label=name or "points"
        )
    across, up = numbers(front, x), numbers(front, y)
    axes.plot(across, up, "-", color="#222222", linewidth=1.2, zorder=3, label="Pareto front")
    axes.plot(across, up, "o", markerfacecolor="none", markeredgecolor="#222222", markersize=7, zorder=3)
    keys = [key for key in keys_of(rows) if key != _group_key(rows)]
    for place, (_, row) in enumerate(front.iterrows()):
        if len(front) <= _LABELS and keys:
            said = ", ".join(f"{key.rsplit('.', 1)[-1]} {_text(row[key])}" for key in keys[:3])
            axes.annotate(said, (across[place], up[place]), (6, -9), textcoords="offset points", fontsize=6.5)
    for values, scale in ((numbers(rows, x), axes.set_xscale), (numbers(rows, y), axes.set_yscale)):
        if values.min() > 0 and values.max() / values.min() > 50:
            scale("log")
    axes.margins(x=0.12, y=0.12)
    axes.set(xlabel=f"{label(x)}, {_way(more_x)}", ylabel=f"{label(y)}, {_way(more_y)}")
    axes.grid(visible=True, color="#e2e2e2", linewidth=0.6)
    _plain(axes)
    axes.legend(fontsize=7.5, frameon=False)
    return figure


def _way(more: bool) -> str:
    return "more is better" if more else "less is better"


def _group_key(rows: DataFrame) -> str:
    """The key whose values are told apart by colour: `config`, or else the first of few values."""
    keys = [key for key in keys_of(rows) if rows[key].astype(str).nunique() <= len(COLOURS)]
    return "config" if "config" in keys else next(iter(keys), "")


def _groups(rows: DataFrame) -> list[tuple[str, DataFrame]]:
    key = _group_key(rows)
    if not key:
        return [("", rows)]
    values = list(dict.fromkeys(rows[key].astype(str)))
    return [(f"{key} {value}" if key != "config" else value, rows[rows[key].astype(str) == value]) for value in values]


def _heatmap(frame: DataFrame, x: str, y: str, value: str) -> Figure:
    grid = heatmap(frame, x, y, value)
    values = grid.to_numpy(float)
    figure, axes = _figure(2.2 + 0.5 * min(values.shape[1], 24), 1.6 + 0.36 * min(values.shape[0], 24))
    name, more = better(value)
    image = axes.imshow(values, origin="lower", aspect="auto", cmap="viridis" if more else "viridis_r")
    for axis, ticks in ((axes.xaxis, grid.columns), (axes.yaxis, grid.index)):
        step = max(1, len(ticks) // 24)
        axis.set_ticks(range(0, len(ticks), step), [_text(tick) for tick in ticks[::step]])
    if max(map(len, map(_text, grid.columns))) > 4:
        axes.tick_params(axis="x", labelrotation=45)
    if max(values.shape) <= _CELLS:
        middle = (np.nanmin(values) + np.nanmax(values)) / 2
        for (row, column), held in np.ndenumerate(values):
            if not np.isnan(held):
                dark = (held < middle) == more
                axes.text(
                    column,
                    row,
                    _short(held),
                    ha="center",
                    va="center",
                    fontsize=6.5,
                    color="white" if dark else "black",
                )
    axes.set(xlabel=label(x), ylabel=label(y))
    figure.colorbar(image, label=label(name))
    return figure


def _short(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1e5 else f"{value:.1e}"


def _tornado(frame: DataFrame, value: str, baseline: Mapping[str, Any] | None) -> Figure:
    found = tornado(frame, value, baseline)
    name, more = better(value)
    figure, axes = _figure(6.4, 1.1 + 0.42 * len(found))
    base = float(found["baseline"].iloc[0])
    good, bad = COLOURS[0], COLOURS[1]
    for place, row in enumerate(found.to_dict("records")):
        for end, at, side in ((row["low"], row["at_low"], "right"), (row["high"], row["at_high"], "left")):
            if end == base:
                continue
            axes.barh(place, end - base, left=base, height=0.62, color=good if (end > base) == more else bad)
            gap = (-4, 0) if side == "right" else (4, 0)
            axes.annotate(_text(at), (end, place), gap, textcoords="offset points", ha=side, va="center", fontsize=7)
    axes.axvline(base, color="#222222", linewidth=1)
    axes.set_yticks(range(len(found)), list(found["key"]))
    axes.margins(x=0.16)
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.set_xlabel(f"{label(name)}; line: baseline {_text(base)}, {_way(more)} (blue: better, orange: worse)")
    axes.grid(visible=True, axis="x", color="#e2e2e2", linewidth=0.6)
    _plain(axes)
    return figure
