"""Draws the comparison of errors as a picture. Needs matplotlib (the extra `plots`), which is loaded here and nowhere
else."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.studies.accuracy.result import Accuracy, Line
from simulator.views.plots import COLOURS, DASHES, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_REFERENCE = ("#555555", "#999999")


def write_plot(accuracy: Accuracy, path: str | Path) -> None:
    """Writes the figure: histograms, and below them how many results are off by more, both over the error in ulp.

    Raises:
        IsaError: see `simulator.views.plots.check_plot`.
        OSError: the file cannot be written.
    """
    save(lambda: draw_figure(accuracy), path)


def draw_figure(accuracy: Accuracy) -> Figure:
    """The figure; lines with the same results share one curve."""
    from matplotlib.figure import Figure

    groups = accuracy.groups
    bins = len(accuracy.edges)
    figure = Figure(
        figsize=(8.5, 6.4 + 0.22 * (len(groups) + sum(len(_label(group)) // 110 for _, group in groups))),
        layout="constrained",
    )
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1.2, 1))
    chips = references = 0
    for _, group in groups:
        is_chip = bool(group[0].targets)
        if is_chip:
            colour, dash = COLOURS[chips % len(COLOURS)], DASHES[chips % len(DASHES)]
            chips += 1
        else:
            colour, dash = _REFERENCE[references % len(_REFERENCE)], DASHES[1 + references % 2]
            references += 1
        _curve(above, below, group, bins, colour, dash)
    _axes(above, below, accuracy)
    figure.suptitle(_title(accuracy), x=0.01, ha="left", fontsize=11)
    handles, labels = above.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower left",
        fontsize=8,
        frameon=False,
        handlelength=3.2,
        title="evidence in brackets",
        alignment="left",
    )
    return figure


def _title(accuracy: Accuracy) -> str:
    about = accuracy.about
    how = (
        f"{about['distribution']} operands, scale {about['scale']:g}"
        if about["operands"] == "drawn"
        else "given operands"
    )
    return (
        f"{accuracy.what}, K = {accuracy.k:,}, {how}\nerrors of {accuracy.count:,} "
        "results against the correctly rounded exact ones"
    )


def _curve(above: Axes, below: Axes, group: list[Line], bins: int, colour: str, dash: Any) -> None:
    errors = group[0].errors
    counts = np.zeros(bins)
    counts[: len(errors.histogram)] = errors.histogram
    share = counts / max(errors.measured, 1)
    style: dict[str, Any] = {"color": colour, "linestyle": dash, "linewidth": 1.7 if group[0].targets else 1.2}
    above.stairs(share, np.arange(bins + 1) - 0.5, baseline=0, label=_label(group), **style)
    above.fill_between(
        np.arange(bins + 1) - 0.5, np.append(share, share[-1:]), step="post", color=colour, alpha=0.08, linewidth=0
    )
    beyond = errors.measured - np.cumsum(counts)  # results off by more than the bin's upper edge
    bins_shown = np.flatnonzero(beyond)
    below.plot(bins_shown, beyond[bins_shown] / max(errors.measured, 1), marker="o", markersize=2.5, **style)


def _label(group: list[Line]) -> str:
    if not group[0].targets:
        return ", ".join(line.name for line in group)
    evidence = dict.fromkeys(line.evidence for line in group)
    text = "; ".join(f"{', '.join(line.name for line in group if line.evidence == kind)} [{kind}]" for kind in evidence)
    return "\n".join(textwrap.wrap(text, 110))


def _axes(above: Axes, below: Axes, accuracy: Accuracy) -> None:
    edges = accuracy.edges
    step = max(1, -(-len(edges) // 16))
    shown = [0, *range(1, len(edges), step)]
    below.set_xticks(shown, ["0" if i == 0 else _power(edges[i]) for i in shown])
    below.set_xlim(-0.6, max(len(edges) - 0.4, 1.6))
    below.set_xlabel("error in ulp of the exact result: 0, then bins up to 1, 2, 4, 8, ...")
    above.set_ylabel("share of results in the bin")
    below.set_ylabel("share of results off by more")
    below.set_yscale("log")
    below.set_ylim(0.5 / max(accuracy.count, 2), 1.5)
    above.set_ylim(bottom=0)
    for axes in (above, below):
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
    for axes in (above, below):
        axes.grid(visible=True, color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)


def _power(edge: int) -> str:
    return str(edge) if edge < 1024 else f"$2^{{{edge.bit_length() - 1}}}$"
