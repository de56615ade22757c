"""Draws designs: speed-ups beside the published ones, and what an instruction needs of each part of an SM. Needs
matplotlib (the extra `plots`), which is loaded here and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from simulator.studies.designs.chip import Needs
from simulator.studies.designs.evaluate import Report
from simulator.views.plots import COLOURS, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PARTS = (
    ("tensor_needed", "tensor pipes"),
    ("shared_needed", "shared memory"),
    ("l2_needed", "path from L2"),
)


def write_plot(found: Report | Needs, path: str | Path) -> None:
    """Writes the picture as a .png, .svg or .pdf file.

    Raises:
        ViewError, MissingDependency: no folder, a name that says no format, or no matplotlib.
        OSError: the file cannot be written.
    """
    save(lambda: _speedups(found) if isinstance(found, Report) else _needs(found), path, dpi=110)


def _speedups(report: Report) -> Figure:
    """A pair of bars for each case: ours and the published speed-up."""
    from matplotlib.figure import Figure

    cases = report.evaluations
    figure = Figure(figsize=(max(4.5, 0.62 * len(cases) + 1.6), 3.8), layout="constrained")
    axes = figure.subplots()
    places = range(len(cases))
    axes.bar([i - 0.2 for i in places], [e.speedup for e in cases], 0.4, color=COLOURS[0], label="this model")
    known = [i for i in places if cases[i].case.published is not None]
    heights = [cases[i].case.published or 0.0 for i in known]
    axes.bar([i + 0.2 for i in known], heights, 0.4, color=COLOURS[4], label="published")
    for i in known:
        error = cases[i].error or 0.0
        top = max(cases[i].speedup, cases[i].case.published or 0.0)
        axes.annotate(f"{100 * error:+.1f} %", (i, top), (0, 2), textcoords="offset points", ha="center", fontsize=7)
    axes.set_xticks(list(places), [_label(e.case.pattern, e.case.b, e.case.layers) for e in cases], fontsize=7)
    axes.set(ylabel="speed-up over dense", title=report.design.title)
    axes.title.set_fontsize(9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(y=0.12)
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    return figure


def _label(pattern: str, b: str, layers: tuple[str, ...]) -> str:
    """The words below a pair of bars, one a line."""
    return "\n".join([f"A {pattern}", *([f"B {b}"] if b != "dense" else []), *layers])


def _needs(found: Needs) -> Figure:
    """For each tile and pattern, what each part would have to give, as a multiple of what it gives."""
    from matplotlib.figure import Figure

    rows = found.records()
    figure = Figure(figsize=(8.2, 4.2), layout="constrained")
    axes = figure.subplots()
    for i, (key, name) in enumerate(_PARTS):
        heights = [float(str(row[key])) for row in rows]
        bars = axes.bar([j + 0.27 * (i - 1) for j in range(len(rows))], heights, 0.25, color=COLOURS[i], label=name)
        axes.bar_label(bars, fmt="%.2f", fontsize=6.5, padding=1)
    axes.axhline(1, color="#444444", linewidth=0.9, linestyle=(0, (5, 1.5)), label="what there is")
    labels = [f"{row['pattern']}\n{row['tile']}\nnow {row['speedup']:.2f} of {row['full_speedup']:.0f}" for row in rows]
    axes.set_xticks(range(len(rows)), labels, fontsize=7)
    axes.set(ylabel="needed for the full rate, times what there is", title=f"{found.design.title}: f16 into f32")
    axes.title.set_fontsize(9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(y=0.1)
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    return figure
