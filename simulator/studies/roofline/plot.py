"""Draws the roofline as a picture. Needs matplotlib (the extra `plots`), which is loaded here and nowhere else."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.studies.roofline import Point, Roofline
from simulator.views.plots import COLOURS, DASHES, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Markers tell points of one colour apart, and all in grey.
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
_ROOF = "#444444"
_PLATE = {"facecolor": "white", "edgecolor": "none", "pad": 0.2}  # behind words that a line may cross


def write_plot(found: Roofline, path: str | Path) -> None:
    """Writes the roofline as a .png, .svg or .pdf file.

    Raises:
        ViewError, MissingDependency: no folder, a name that says no format, or no matplotlib.
        OSError: the file cannot be written.
    """
    save(lambda: draw(found), path, dpi=110)


def draw(found: Roofline) -> Figure:
    """The figure: a point for each run and memory, below the roof of its own matrix instructions. A line down from the
    roof shows what is missing."""
    from matplotlib.figure import Figure

    points = found.points
    traces = list(dict.fromkeys((point.trace, point.config_label) for point in points))
    figure = Figure(figsize=(8.0, 5.6 + 0.17 * len(points)), layout="constrained")
    axes = figure.subplots()
    left, right, bottom, top = _limits(points)
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom, top))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    _roofs(axes, points, left, right)
    sizes = _sizes(points)
    for point, size in zip(points, sizes, strict=True):
        _draw_point(axes, point, traces.index((point.trace, point.config_label)), right, size)
    _finish(axes, found)
    figure.legend(
        loc="outside lower left",
        fontsize=8,
        frameon=False,
        ncols=1,
        alignment="left",
        title="run: multiply-adds a cycle, share of its roof",
    )
    return figure


def _limits(points: tuple[Point, ...]) -> tuple[float, float, float, float]:
    """The limits of the axes: powers of two around everything that is drawn, the ridges included, with slopes long
    enough for their names."""
    finite = [point.intensity for point in points if point.intensity < math.inf]
    ridges = [point.tensor_limit / point.bytes_per_cycle for point in points]
    bottom = 2.0 ** _down(
        min(min(point.achieved for point in points) / 2, min(point.tensor_limit for point in points) / 4)
    )
    left = min([*(x / 2 for x in finite), bottom / max(point.bytes_per_cycle for point in points)])
    right = max([*finite, *ridges]) * (4 if len(finite) == len(points) else 8)
    top = max(point.tensor_limit for point in points) * 2
    return 2.0 ** _down(left), 2.0 ** _up(right), 2.0 ** _down(bottom), 2.0 ** _up(top)


def _down(value: float) -> int:
    """The exponent of the largest power of two that is not above the value."""
    return math.floor(math.log2(value))


def _up(value: float) -> int:
    """The exponent of the smallest power of two that is not below the value."""
    return math.ceil(math.log2(value))


def _roofs(axes: Axes, points: tuple[Point, ...], left: float, right: float) -> None:
    """Draws a slope for each memory, as far as the highest tensor limit, and a level line for each tensor limit from
    the first slope on."""
    slopes: dict[float, list[Point]] = {}
    for point in points:
        slopes.setdefault(point.bytes_per_cycle, []).append(point)
    for number, (rate, mine) in enumerate(sorted(slopes.items(), reverse=True)):
        ridge = max(point.tensor_limit for point in mine) / rate
        axes.plot(
            [left, ridge],
            [left * rate, ridge * rate],
            color=_ROOF,
            linewidth=1.4,
            linestyle=DASHES[number % len(DASHES)],
            zorder=1,
        )
        names = ", ".join(dict.fromkeys(point.memory for point in mine))
        _along(axes, f"{names}, {rate:,.4g} bytes/clk", rate, left)
    levels: dict[float, list[Point]] = {}
    for point in points:
        levels.setdefault(round(point.tensor_limit, 1), []).append(point)
    edge = (
        right / 2 if any(point.intensity == math.inf for point in points) else right
    )  # of words: runs that move nothing stand behind
    for level, mine in levels.items():
        begin = level / max(point.bytes_per_cycle for point in mine)
        axes.plot([begin, right], [level, level], color=_ROOF, linewidth=1.4, zorder=1)
        configs = ", ".join(dict.fromkeys(point.config_label for point in mine))
        axes.annotate(
            f"tensor cores, {level:,.0f} FMA/clk ({configs})",
            (edge, level),
            (-3, 4),
            textcoords="offset points",
            ha="right",
            bbox=_PLATE,
            fontsize=7.5,
            color=_ROOF,
        )


def _along(axes: Axes, text: str, rate: float, left: float) -> None:
    """Writes text on a slope, turned with it. The angle is given in units of the axes, from which matplotlib works out
    the angle on paper."""
    x = max(left, axes.get_ylim()[0] / rate) * 1.15
    above = 1.15 * rate
    angle = math.degrees(math.atan(above))  # along lines of equal rate, which all have one slope on paper
    axes.text(
        x,
        above * x,
        text,
        rotation=angle,
        rotation_mode="anchor",
        transform_rotates_text=True,
        fontsize=7.5,
        color=_ROOF,
    )


def _sizes(points: tuple[Point, ...]) -> list[float]:
    """The sizes of the markers: smaller ones on top of larger ones where runs stand in one place."""
    seen: dict[tuple[float, float], int] = {}
    sizes = []
    for point in points:
        place = float(f"{point.intensity:.2g}"), float(f"{point.achieved:.2g}")
        seen[place] = seen.get(place, 0) + 1
        sizes.append(max(8.5 - 3.5 * (seen[place] - 1), 3.0))
    return sizes


def _draw_point(axes: Axes, point: Point, number: int, right: float, size: float) -> None:
    """Draws a point. A run that moves no byte stands at the right edge with an open marker."""
    colour, marker = COLOURS[number % len(COLOURS)], _MARKERS[number % len(_MARKERS)]
    moved = point.intensity < math.inf
    x = point.intensity if moved else right / math.sqrt(2)
    axes.plot([x, x], [point.achieved, point.limit], color=colour, linewidth=1.0, linestyle=(0, (1, 1.5)), zorder=2)
    where = f", {point.intensity:,.1f} FMA a byte of {point.memory}" if moved else f", nothing moved in {point.memory}"
    label = (
        f"{point.trace} on {point.config_label}: {point.achieved:,.0f}, {point.share:.0%} of the roof "
        f"({point.bound}){where}"
    )
    style: dict[str, Any] = {"markerfacecolor": colour if moved else "white", "markeredgecolor": colour}
    axes.plot(
        [x],
        [point.achieved],
        marker=marker,
        markersize=size,
        linestyle="none",
        color=colour,
        label=label,
        zorder=3,
        **style,
    )


def _finish(axes: Axes, roofline: Roofline) -> None:
    what = "as named, pruned products counted" if roofline.count == "named" else "that are performed"
    axes.set_xlabel(f"operational intensity: multiply-adds {what}, a byte moved")
    axes.set_ylabel("multiply-adds a cycle of one SM (FMA/clk/SM)")
    axes.set_title("Roofline of one SM", loc="left", fontsize=11)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.6g}")
        axis.set_minor_locator(_none())
    axes.grid(visible=True, color="#e2e2e2", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _none() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()
