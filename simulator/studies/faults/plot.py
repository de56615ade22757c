"""Pictures of fault campaigns for papers: outcomes with intervals, heat maps, coverage of detectors against their cost.
Needs matplotlib (the extra `plots`)."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import ViewError
from simulator.faults.outcomes import DETECTORS, JUDGED, OUTCOMES
from simulator.statistics.designs import Estimate
from simulator.studies.faults.shown import Bar, Grid, by_bit, by_group, by_site, chosen, lanes, overheads, places
from simulator.studies.faults.summary import Counts, summarise
from simulator.studies.faults.tallies import Tally
from simulator.views.plots import COLOURS, check_plot, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FILL = {
    "masked": "#9fc8e0", "sdc": "#d55e00", "critical": "#8c2d04", "detected": "#009e73", "due": "#cc79a7",
    "hang": "#444444",
}  # fmt: skip
_LIGHT = ("masked", "due")  # on which words are black
_TITLE = {"sdc": "silent corruption", "due": "stopped (DUE)", "critical": "critical"}
_MARKS = "osD^vPX*"
_PANEL = 0.95  # inches that a panel of bars needs
_PANELS = 6  # that a picture has at most
_LETTERS = 26  # of a label in one line


def plot(
    results: Sequence[str | Path], output: str | Path, kind: str = "outcomes", *, by: str = "", group: str = "",
    cost: str = "", confidence: float = 0.95, width: float = 7.0,
) -> None:  # fmt: skip
    """Draws files of results.

    Args:
        results: the files; a heat map has one.
        output: the picture, .pdf, .png or .svg.
        kind: outcomes, heatmap or coverage.
        by: of outcomes "group", "site" or "bit"; of a heat map "lane-bit" or "row-column".
        group: the name of a group, to show only this; a heat map shows the first without one.
        cost: a CSV file with columns `detector` and `overhead` (0.07 or 7%); "" for the timing model's costs.
        confidence: of the intervals.
        width: of the picture in inches.

    Raises:
        ViewError: a file name that says no format, a group that is not there, nothing to show.
        TraceError: files that are none of results.
        MissingDependency: matplotlib.
    """
    check_plot(output)
    from matplotlib.figure import Figure

    files = list(dict.fromkeys(map(str, results)))
    stems = [Path(path).stem for path in files]
    names = dict(zip(files, stems if len(set(stems)) == len(stems) else files, strict=True))
    if kind == "heatmap":
        if len(files) != 1:
            raise ViewError(f"a heat map of {len(files)} files", "one file of files")
        grid = places(files[0], group) if by == "row-column" else lanes(chosen(summarise(files[0]), group)[0])
        save(lambda: _heat(Figure(layout="constrained"), grid, width), output)
    elif kind == "coverage":
        groups = [(names[path], counts) for path in files for counts in chosen(summarise(path), group)]
        overhead = overheads(cost)
        save(lambda: _coverage(Figure(layout="constrained"), groups, overhead, confidence, width), output)
    elif by == "bit":
        lines = [
            (label, bars)
            for path in files
            for label, bars in by_bit(path, group, names[path] if len(files) > 1 else "")
        ]
        save(lambda: _bits(Figure(layout="constrained"), lines, confidence, width), output)
    else:
        bars = [bar for path in files for bar in (by_site if by == "site" else by_group)(path, group, names[path])]
        save(lambda: _bars(Figure(layout="constrained"), bars, confidence, width), output)


# How it is drawn


def _outcomes(tallies: Sequence[Tally]) -> list[str]:
    """The outcomes that are seen, masked and silent corruption always."""
    there = {name for tally in tallies for name in (*OUTCOMES, JUDGED[-1]) if tally.sums(name).hit > 0}
    return [name for name in _FILL if name in there or name in ("masked", "sdc")]


def _wrapped(label: str) -> str:
    return "\n".join(textwrap.wrap(label, _LETTERS))


def _percent(axis: Any, *, axes: str = "x", decimals: int | None = 0) -> None:
    from matplotlib.ticker import PercentFormatter

    (axis.xaxis if axes == "x" else axis.yaxis).set_major_formatter(PercentFormatter(1, decimals))


def _bare(axis: Axes) -> None:
    axis.spines[["top", "right"]].set_visible(False)


def _bars(figure: Figure, bars: Sequence[Bar], confidence: float, width: float) -> Figure:
    """A panel for each outcome, with a bar for each group or site and its interval."""
    names = _outcomes([bar.tally for bar in bars])
    files = list(dict.fromkeys(bar.file for bar in bars))
    labels = list(dict.fromkeys(bar.label for bar in bars))
    wide = 0.08 * max(len(line) for label in labels for line in _wrapped(label).split("\n"))
    across = min(len(names), max(1, int((width - wide) / _PANEL)))
    down = -(-len(names) // across)
    lines = sum(_wrapped(label).count("\n") + 1 for label in labels)
    tall = 0.6 + max(0.16 * lines, 0.2 * len(bars)) + 0.12 * len(labels)
    figure.set_size_inches(width, 0.1 + tall * down + 0.3 * (len(files) > 1))
    panels = figure.subplots(down, across, sharey=True, squeeze=False, gridspec_kw={"wspace": 0.08})
    for axis, name in zip(panels.flat, names, strict=False):
        for number, file in enumerate(files):
            mine = [bar for bar in bars if bar.file == file]
            found = [bar.tally.estimate(name, confidence) for bar in mine]
            high, middle = 0.8 / len(files), (len(files) - 1) / 2
            y = [labels.index(bar.label) + (number - middle) * 0.8 / len(files) for bar in mine]
            shares, ends = _ends(found)
            axis.barh(y, shares, high * 0.92, label=file, color=_FILL[name], alpha=_alpha(number, len(files)))
            some = ends.sum(axis=0) > 0
            whiskers = {"fmt": "none", "ecolor": "black", "elinewidth": 0.9, "capsize": 1.8}
            axis.errorbar(shares[some], np.array(y)[some], xerr=ends[:, some], **whiskers)
            for place, each in zip(y, found, strict=True):
                _value(axis, place, each, name if number == 0 else _LIGHT[0])
        axis.set(xlim=(0, 1), title=_TITLE.get(name, name), xticks=[0, 0.5, 1])
        axis.title.set_fontsize("medium")
        _percent(axis)
        _bare(axis)
    for axis in panels.flat[len(names) :]:
        axis.set_visible(False)
    for axis in panels[:, 0]:
        axis.set_yticks(range(len(labels)), [_wrapped(label) for label in labels])
    panels[0, 0].set_ylim(len(labels) - 0.5, -0.5)
    if len(files) > 1:
        _legend(figure, files)
    return figure


def _ends(found: Sequence[Estimate]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The shares of estimates, and how far the ends of their intervals are below and above: [2, estimate]."""
    shares = np.array([each.share for each in found])
    ends = [shares - [each.low for each in found], [each.high for each in found] - shares]
    return shares, np.maximum(ends, 0)


def _alpha(number: int, files: int) -> float:
    """How strong the colours of a file are, of several beside each other."""
    return 1 - 0.6 * number / files


def _value(axis: Axes, y: float, found: Estimate, fill: str) -> None:
    """Writes a share where its interval leaves room: right of it, or in the bar."""
    words = f"{found.share:.1%}" if 0 < found.share < 0.9995 else f"{found.share:.0%}"
    right = found.high < 0.6
    colour = "black" if right or fill in _LIGHT else "white"
    axis.annotate(
        words, (found.high if right else found.low, y), (4 if right else -4, 0), textcoords="offset points",
        va="center", ha="left" if right else "right", fontsize="x-small", color=colour,
    )  # fmt: skip


def _legend(figure: Figure, files: Sequence[str]) -> None:
    from matplotlib.patches import Patch

    shades = [Patch(color="#555555", alpha=_alpha(number, len(files)), label=file) for number, file in enumerate(files)]
    figure.legend(handles=shades, loc="outside lower center", ncols=min(3, len(files)), frameon=False)


def _bits(figure: Figure, lines: Sequence[tuple[str, dict[int, Tally]]], confidence: float, width: float) -> Figure:
    """A panel for each group: shares of outcomes at each bit, with intervals."""
    if len(lines) > _PANELS:
        raise ViewError(f"{len(lines)} groups in one picture", f"--group, or files with at most {_PANELS} groups")
    names = _outcomes([tally for _, bits in lines for tally in bits.values()])
    keys = -(-len(names) // max(1, int(width / 1.4)))  # lines of the legend
    figure.set_size_inches(width, 0.4 + 0.2 * keys + 1.45 * len(lines))
    panels = figure.subplots(len(lines), 1, sharex=True, squeeze=False)[:, 0]
    for axis, (label, bits) in zip(panels, lines, strict=True):
        for number, name in enumerate(names):
            found = [tally.estimate(name, confidence) for tally in bits.values()]
            shares, ends = _ends(found)
            axis.errorbar(
                list(bits), shares, yerr=ends, color=_FILL[name], marker=_MARKS[number], markersize=3.5, linewidth=1,
                elinewidth=0.8, capsize=1.5, label=_TITLE.get(name, name),
            )  # fmt: skip
        axis.set(ylim=(-0.04, 1.04), xlim=(31.6, -0.6), yticks=[0, 0.5, 1])
        axis.set_title(label, fontsize="medium", loc="left")
        _percent(axis, axes="y")
        _bare(axis)
    panels[-1].set_xlabel("bit")
    panels[-1].set_xticks([31, 28, 24, 20, 16, 12, 8, 4, 0])
    handles, words = panels[0].get_legend_handles_labels()
    figure.legend(
        handles, words, loc="outside upper right", ncols=max(1, min(len(words), int(width / 1.4))), frameon=False
    )
    return figure


def _heat(figure: Figure, grid: Grid, width: float) -> Figure:
    """A heat map with a bar of colours; cells without a fault are grey."""
    import matplotlib as mpl

    rows, columns = grid.shares.shape
    width = min(width, max(3.0, 1.9 + 0.35 * columns))
    cell = (width - 1.6) / max(columns, 12)
    figure.set_size_inches(width, min(max(1.1 + max(cell * 0.75, 0.07) * rows, 1.9), 1.6 * width))
    axis = figure.subplots()
    shades = mpl.colormaps["cividis" if grid.says == "not masked" else "viridis"].with_extremes(bad="#dddddd")
    top = 1.0 if grid.says == "not masked" else None
    image = axis.imshow(np.ma.masked_invalid(grid.shares), cmap=shades, aspect="auto", vmin=0, vmax=top)
    for name, labels, set_, say in (
        (*grid.rows, axis.set_yticks, axis.set_ylabel),
        (*grid.columns, axis.set_xticks, axis.set_xlabel),
    ):
        chosen = _ticks(labels, max(2, int((width - 1.2) / 0.33)) if say == axis.set_xlabel else 12)
        set_(chosen, [labels[place] for place in chosen])
        say(name)
    axis.set_title(_wrapped_title(grid.title, width), fontsize="medium")
    bar = figure.colorbar(image, ax=axis, label=f"share: {grid.says}", pad=0.02)
    _percent(bar.ax, axes="y", decimals=None if top is None else 0)
    if np.isnan(grid.shares).any():
        axis.set_xlabel(f"{grid.columns[0]} (grey: no fault)")
    return figure


def _ticks(labels: Sequence[str], most: int) -> list[int]:
    """Which of the labels are shown, at most about so many: those that are multiples of a power of two of the step
    between them, if all are numbers at equal steps; else every so many."""
    numbers = [int(label) for label in labels]
    steps = set(np.diff(numbers).tolist()) if len(numbers) > 1 else {1}
    every = 1 << max(0, math.ceil(math.log2(len(labels) / most)))
    if len(steps) > 1:
        return list(range(0, len(labels), every))
    unit = every * abs(steps.pop())
    return [place for place, number in enumerate(numbers) if number % unit == 0]


def _wrapped_title(text: str, width: float) -> str:
    return "\n".join(textwrap.wrap(text, int(width * 11)))


def _coverage(
    figure: Figure, groups: Sequence[tuple[str, Counts]], overhead: dict[str, float], confidence: float,
    width: float,
) -> Figure:  # fmt: skip
    """A panel for each group: what each detector sees of the faults that are not masked, against its cost."""
    shown = [name for name in DETECTORS if name in overhead and any(_saw(counts, name) for _, counts in groups)]
    groups = [(file, counts) for file, counts in groups if counts.harmful]
    if not shown or not groups:
        legal = f"results of detectors with a cost: {', '.join(overhead)}"
        raise ViewError("no detector with a cost saw a fault", legal)
    if len(groups) > _PANELS:
        raise ViewError(f"{len(groups)} groups in one picture", f"--group, or files with at most {_PANELS} groups")
    across = min(3, len(groups), max(1, int((width - 0.5) / 1.4)))
    down = -(-len(groups) // across)
    figure.set_size_inches(width, 0.6 + 0.2 * -(-len(shown) // max(1, int(width / 2))) + 1.9 * down)
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
    several = len({file for file, _ in groups}) > 1
    for axis, (file, counts) in zip(panels, groups, strict=False):
        for number, name in enumerate(shown):
            found = counts.tallies[0].coverage(name, confidence)
            assert found is not None, "some fault is not masked"
            shares, ends = _ends([found])
            axis.errorbar(
                [overhead[name]], shares, yerr=ends, color=COLOURS[number % len(COLOURS)],
                fmt=_MARKS[number % len(_MARKS)], markersize=max(3.0, 9 - 1.2 * number), markerfacecolor="none",
                markeredgewidth=1.4, elinewidth=1, capsize=2,
                label=f"{name} ({overhead[name]:.1%})", clip_on=False,
            )  # fmt: skip
        title = counts.name + f" ({file})" * several
        axis.set_title("\n".join(textwrap.wrap(title, max(14, int(width * 11 / across) - 4))), fontsize="medium")
        axis.set(ylim=(-0.02, 1.04))
        _bare(axis)
        _percent(axis, axes="y")
        _percent(axis)
    most = max(overhead[name] for name in shown) or 0.01
    panels[0].set_xlim(-0.06 * most, 1.08 * most)
    for axis in panels[len(groups) :]:
        axis.set_visible(False)
    for number in range(len(groups)):
        panels[number].tick_params(labelbottom=number + across >= len(groups))
        panels[number].set_xlabel("overhead in cycles" if number + across >= len(groups) else "")
    figure.supylabel("seen of harmful faults", fontsize="medium")
    handles, words = panels[0].get_legend_handles_labels()
    figure.legend(
        handles, words, loc="outside lower center", ncols=min(len(words), max(1, int(width / 2))), frameon=False
    )
    return figure


def _saw(counts: Counts, name: str) -> bool:
    return counts[f"seen_{name}"] + counts[f"alarm_{name}"] > 0
