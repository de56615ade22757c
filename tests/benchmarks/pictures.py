"""The same labelled cells with matplotlib, as the visualisers of the field draw them."""

from __future__ import annotations

import io

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from simulator.layout import Operand


def with_matplotlib(operand: Operand) -> str:
    """A matrix as SVG: a rectangle and a text for each element."""
    rows, columns = operand.shape[:2]
    figure = Figure(figsize=(columns / 2, rows / 3))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, columns), ylim=(rows, 0))
    for row in range(rows):
        for column in range(columns):
            place = operand.places(row, column)[0]
            axes.add_patch(Rectangle((column, row), 1, 1, facecolor=(0.9, 0.9, 1 - place.lane / 64), edgecolor="black"))
            axes.text(column + 0.5, row + 0.5, operand.name_of(place), ha="center", va="center", fontsize=6)
    out = io.StringIO()
    figure.savefig(out, format="svg")
    return out.getvalue()
