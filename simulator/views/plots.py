"""Writes matplotlib pictures to files; equal numbers give equal files. Needs matplotlib (the extra `plots`), which is
loaded here and where pictures are drawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.errors import MissingDependency, ViewError
from simulator.files import complete

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito 2008: colours told apart with any colour vision."""
DASHES = ("solid", (0, (5, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1.5, 1.5)))
"""For curves that lie under another, and for grey."""


def check_plot(path: str | Path) -> None:
    """ViewError if a plot cannot be written to this path: no folder, or a name that says no format. MissingDependency
    if there is no matplotlib."""
    if Path(path).suffix.lower() not in FORMATS:
        legal = ", ".join(f"a name that ends in {suffix}" for suffix in FORMATS)
        raise ViewError(f"{path}: the name of a plot says its format", legal)
    if not Path(path).resolve().parent.is_dir():
        raise ViewError(f"{path}: cannot be written, there is no such folder", "a file in a folder that exists")
    try:
        import matplotlib as _  # noqa: F401
    except ImportError:
        raise MissingDependency("matplotlib", "a plot", "plots") from None


def save(draw: Callable[[], Figure], path: str | Path, *, font: float = 9, dpi: int = 160) -> None:
    """Writes what `draw` draws, in the format that the file's name says.

    Raises:
        ViewError, MissingDependency: see `check_plot`.
        OSError: the file cannot be written.
    """
    check_plot(path)
    import matplotlib as mpl

    fixed: Any = {"svg.hashsalt": "tcsim", "svg.fonttype": "none", "font.size": font}
    with mpl.rc_context(fixed), complete(path) as stream:
        suffix = Path(path).suffix.lower().lstrip(".")
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(suffix)
        draw().savefig(stream, format=suffix, dpi=dpi, metadata=metadata)
