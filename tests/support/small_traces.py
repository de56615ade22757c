"""Writes small traces, for tests that run them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import simulator


def save(path: Path, text: str, **arrays: NDArray[np.generic]) -> Path:
    """A trace file with `data.npz` beside it."""
    if arrays:
        np.savez(path / "data.npz", **arrays)  # type: ignore[arg-type]
    trace = path / "x.trace"
    trace.write_text(text)
    return trace


def program(head: str, body: str, warps: int = 1, shared: int = 0, top: str = "", end: str = "") -> str:
    """The text of a trace in which all warps run the same body."""
    size = f".shared {shared}\n" if shared else ""
    return f"{head}.warps {warps}\n{size}{top}\n.warp 0-{warps - 1} {{\n{body}\n}}\n{end}\n"


def run_body(
    head: str,
    config: str | None,
    path: Path,
    body: str,
    *,
    warps: int = 1,
    shared: int = 0,
    top: str = "",
    end: str = "",
    **arrays: NDArray[np.generic],
) -> simulator.Report:
    """The report of a body that all warps run; without a config, values alone."""
    return simulator.run(save(path, program(head, body, warps, shared, top, end), **arrays), config)
