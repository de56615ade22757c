"""What a fault did: masked, silent data corruption and how large, detected, a crash or a hang; and which detectors saw
it.

masked     D is the same, bit for bit. unread: no bit that the instruction reads has changed; same: the fault changed
nothing (a bit that is stuck at
           the value it has); equal: what is read changed, D did not
sdc        D differs, and nothing stopped
detected   a check that the policy puts in front of the core stopped the instruction
due        the chip stops by itself (illegal instruction, misaligned address)
hang       the program does not end
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits, ElementType
from simulator.arithmetic.convert import to_float64
from simulator.arithmetic.formats import ulp_distance

OUTCOMES = ("masked", "sdc", "detected", "due", "hang")
REASONS = (
    "",
    "unread",
    "same",
    "equal",
    "invalid-code",
    "illegal-instruction",
    "misaligned-address",
    "race",
    "deadlock",
    "illegal",
)
DETECTORS = ("legality", "ordered", "parity", "secded", "abft", "alignment", "race")
FIELDS: tuple[tuple[str, str], ...] = (
    ("id", "i8"),
    ("outcome", "u1"),
    ("reason", "u1"),
    ("elements", "u4"),
    ("rows", "u4"),
    ("columns", "u4"),
    ("max_ulp", "i8"),
    ("max_abs", "f8"),
    ("max_rel", "f8"),
    ("nonfinite", "u4"),
    ("first_row", "i4"),
    ("first_column", "i4"),
    ("detectors", "u1"),
    ("class_changed", "i4"),
)
DTYPE = np.dtype(list(FIELDS))
Results = NDArray[Any]
MASKED, SDC, DETECTED, DUE, HANG = range(len(OUTCOMES))
_NAMES = {"outcome": OUTCOMES, "reason": REASONS}


def empty(ids: NDArray[np.integer]) -> Results:
    """Rows of masked faults."""
    results = np.zeros(len(ids), DTYPE)
    results["id"] = ids
    results["first_row"] = results["first_column"] = results["class_changed"] = -1
    return results


def reason(name: str) -> int:
    return REASONS.index(name)


def flag(name: str) -> int:
    """The bit of a detector in the field `detectors`."""
    return 1 << DETECTORS.index(name)


def compare(results: Results, got: Bits, golden: Bits, element: ElementType) -> None:
    """Classifies D [fault, row, column] against what it should be, and says how large the difference is.

    `max_ulp`: representable numbers apart; NaN counts as 2^bits - 1 from any number. `max_abs`, `max_rel` (of what it
    should be): over elements that are finite in both; `nonfinite`: elements that were finite and are not now.
    """
    differs = got != golden
    changed = differs.any(axis=(1, 2))
    results["outcome"] = np.where(changed, SDC, MASKED)
    results["reason"] = np.where(changed, 0, reason("equal"))
    where = np.flatnonzero(changed)
    if not len(where):
        return
    mask, x, y = differs[where], got[where], golden[where]
    part = results[where]
    part["elements"] = mask.sum(axis=(1, 2))
    part["rows"], part["columns"] = mask.any(axis=2).sum(axis=1), mask.any(axis=1).sum(axis=1)
    flat = mask.reshape(len(where), -1).argmax(axis=1)
    part["first_row"], part["first_column"] = np.divmod(flat, mask.shape[2])
    case, row, column = np.nonzero(mask)
    x, y = x[case, row, column], y[case, row, column]
    ulps = ulp_distance(x, y, element)
    np.maximum.at(part["max_ulp"], case, ulps)
    now, was = to_float64(x, element), to_float64(y, element)
    finite = np.isfinite(now) & np.isfinite(was)
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.where(finite, np.abs(now - was), 0.0)
        relative = np.where(
            finite & (was != 0), apart / np.abs(np.where(was != 0, was, 1.0)), np.where(apart > 0, np.inf, 0.0)
        )
    np.maximum.at(part["max_abs"], case, apart)
    np.maximum.at(part["max_rel"], case, relative)
    np.add.at(part["nonfinite"], case, (~np.isfinite(now) & np.isfinite(was)).astype(np.uint32))
    results[where] = part


def texts(results: Results) -> list[str]:
    """The rows as lines of CSV."""
    columns = []
    for name, kind in FIELDS:
        values = results[name].tolist()
        if name in _NAMES:
            columns.append([_NAMES[name][value] for value in values])
        elif name == "detectors":
            columns.append([_seen(value) for value in values])
        else:
            columns.append([f"{value:.6g}" for value in values] if kind == "f8" else list(map(str, values)))
    return [",".join(row) for row in zip(*columns, strict=True)]


_SEEN: dict[int, str] = {}


def _seen(flags: int) -> str:
    """Names of the detectors that saw it, with + between."""
    if flags not in _SEEN:
        _SEEN[flags] = "+".join(name for i, name in enumerate(DETECTORS) if flags >> i & 1)
    return _SEEN[flags]


HEADER = ",".join(name for name, _ in FIELDS)
