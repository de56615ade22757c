"""A picture of a matrix before and after pruning; needs matplotlib, which is loaded here and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from simulator.studies.sparselt.matrices import as_patterns, to_values
from simulator.views.plots import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CORNER = 64  # rows and columns that are shown


def write_picture(before: ArrayLike, after: ArrayLike, type: str, path: str | Path) -> None:
    """Writes a .png, .svg or .pdf of the upper left corner, magnitudes before and after side by side.

    Raises:
        ViewError, MissingDependency: no folder, a name that says no format, or no matplotlib.
        IsaError: matrices that are none.
        OSError: the file cannot be written.
    """
    first, second = (np.abs(to_values(as_patterns(matrix, type)[0], type)) for matrix in (before, after))
    save(lambda: draw(first[:CORNER, :CORNER], second[:CORNER, :CORNER], type, first.shape), path, dpi=130)


def draw(
    before: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    after: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    type: str,
    shape: tuple[int, ...],
) -> Figure:
    """Two panels on one scale of magnitudes; what is zero is white."""
    from matplotlib.figure import Figure

    finite = before[np.isfinite(before)]
    top = float(np.quantile(finite, 0.99)) if finite.size else 1.0
    figure = Figure(figsize=(9.0, 4.6), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, values, name in zip(panels, (before, after), ("before", "after"), strict=True):
        shown = np.ma.masked_where(values == 0, np.nan_to_num(values, nan=top, posinf=top))
        image = axes.imshow(shown, cmap="viridis", vmin=0, vmax=top or 1.0, interpolation="nearest")
        axes.set_title(f"{name}: {np.count_nonzero(values)} of {values.size} not zero", fontsize=9)
        axes.set_xlabel("column")
    panels[0].set_ylabel("row")
    figure.colorbar(image, ax=list(panels), label="magnitude", shrink=0.8)
    rows, columns = before.shape
    part = "" if (rows, columns) == shape else f", first {rows} x {columns}"
    figure.suptitle(f"{shape[0]} x {shape[1]} {type}{part}", fontsize=10)
    return figure
