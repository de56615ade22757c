"""The outcomes of faults. This module classifies what each fault did (masked, silent data corruption, detected, a crash
or a hang), measures how large a corruption is, and records which detectors saw it.

masked     the result is the same, bit for bit. unread: no bit that is read has changed; same: the fault changed nothing
           (a bit that is stuck at the value it has); equal: what is read changed, the result did not
sdc        the result differs, and nothing stopped
detected   a check that the policy puts in front of the core stopped the instruction
due        the chip stops by itself (illegal instruction, misaligned address)
hang       the program does not end

Where the wrong elements of a corruption lie is its `pattern`:

single     one element
row        several, all in one row
column     several, all in one column
block      in several rows and columns, and they are at least half of the elements of the smallest rectangle around them
random     in several rows and columns, and they fill less of it

Beam studies of matrix products on GPUs have the same classes (single, line, square or block, random: Rech et al., IEEE
TNS 60(4), 2013; Oliveira et al., IEEE TC 65(3), 2016). That half of the rectangle makes a block is this project's bound
(assumed: the studies give none).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits, ElementType
from simulator.arithmetic.convert import to_float64
from simulator.arithmetic.formats import integers, ulp_distance
from simulator.faults import corrections, table
from simulator.faults.detectors.asked import OF_RESULTS, asked

OUTCOMES = ("masked", "sdc", "detected", "due", "hang")
REASONS = (
    "", "unread", "same", "equal", "invalid-code", "illegal-instruction", "misaligned-address", "race", "deadlock",
    "illegal", "endless",
)  # fmt: skip
PATTERNS = ("none", "single", "row", "column", "block", "random")
JUDGED = ("", "tolerable", "critical")
DETECTORS = (
    "legality", "ordered", "parity", "secded", "abft", "alignment", "race", "nonfinite", "range", "duplicate",
    "checksum", "own",
)  # fmt: skip
FIELDS: tuple[tuple[str, str], ...] = (
    ("id", "i8"), ("outcome", "u1"), ("reason", "u1"), ("elements", "u4"), ("rows", "u4"), ("columns", "u4"),
    ("max_ulp", "i8"), ("max_abs", "f8"), ("max_rel", "f8"), ("nonfinite", "u4"), ("first_row", "i4"),
    ("first_column", "i4"), ("detectors", "u4"), ("class_changed", "i4"), ("bits", "u4"), ("pattern", "u1"),
    ("judged", "u1"), ("accuracy", "i4"), ("corrections", "u1"), ("left_ulp", "i8"), ("left_abs", "f8"),
)  # fmt: skip
DTYPE = np.dtype(list(FIELDS))
COLUMNS = tuple(name for name, _ in FIELDS if name != "id")
Results = NDArray[Any]
Mask = NDArray[np.bool_]
MASKED, SDC, DETECTED, DUE, HANG = range(len(OUTCOMES))
NONE, SINGLE, ROW, COLUMN, BLOCK, RANDOM = range(len(PATTERNS))
UNJUDGED, TOLERABLE, CRITICAL = range(len(JUDGED))
NAMED = {"outcome": OUTCOMES, "reason": REASONS, "pattern": PATTERNS, "judged": JUDGED}
BLOCK_SHARE = 0.5  # of the smallest rectangle around wrong elements, from which on they are a block
Function = Callable[[NDArray[Any], NDArray[Any]], Mask]
"""Which results are critical: bool [fault], from what the faults made of the result and from what it should be, both as
values [fault, row, column]."""
_function: ContextVar[Function | None] = ContextVar("critical", default=None)


def empty(ids: NDArray[np.integer]) -> Results:
    """Rows of results for these ids, all of them masked."""
    results = np.zeros(len(ids), DTYPE)
    results["id"] = ids
    for name in ("first_row", "first_column", "class_changed", "accuracy"):
        results[name] = -1
    return results


def reason(name: str) -> int:
    """The number of a reason in the field `reason`."""
    return REASONS.index(name)


def flag(name: str) -> int:
    """The bit of a detector in the field `detectors`."""
    return 1 << DETECTORS.index(name)


def flags(**seen: Any) -> NDArray[np.uint32]:
    """The field `detectors` of results, from what each detector saw: bool [fault] by the detector's name."""
    return np.asarray(np.sum([np.where(mask, flag(name), 0) for name, mask in seen.items()], axis=0), np.uint32)


def stop(results: Results, where: Any, outcome: int, why: Any) -> None:
    """Marks the faults of `where` as ones that ended the run, so that there is no result to compare."""
    blank = empty(results["id"])
    blank["outcome"], blank["reason"], blank["detectors"] = outcome, why, results["detectors"]
    results[where] = blank[where]


@dataclass(frozen=True)
class Observed:
    """What runs with faults resulted in, as arrays with one entry for each fault.

    Attributes:
        got: their results as elements, uint32 [fault, row, column]; arbitrary where a run stopped.
        seen: for each detector by name, whether it saw something.
        stopped: why a run stopped, a number of `REASONS`; 0 if it ended.
        refused: whether a check in front of the core recognises why it stopped.
    """

    got: Bits
    seen: dict[str, Any]
    stopped: NDArray[np.uint8]
    refused: Mask | None = None


class Whole(NamedTuple):
    """The result that some compared lines, rows or columns, belong to.

    Attributes:
        lines: the numbers of the lines that are compared, ascending: [line] for all faults, or [fault, line] for each;
            below 0 for a line that stands for none.
        golden: the whole result without faults, [row, column].
        columns: whether the lines are columns.
    """

    lines: NDArray[np.integer]
    golden: Bits
    columns: bool = False

    def filled(self, faults: NDArray[np.integer], got: Bits) -> Bits:
        """The whole results [fault, row, column] of some of the faults, of which `got` has the lines."""
        found = np.repeat(self.golden[None], len(faults), axis=0)
        lines = np.broadcast_to(self.lines, (len(faults), len(self.lines))) if self.lines.ndim == 1 else (
            self.lines[faults]
        )  # fmt: skip
        fault, line = np.nonzero(lines >= 0)
        to, of = (found.transpose(0, 2, 1), got.transpose(0, 2, 1)) if self.columns else (found, got)
        to[fault, lines[fault, line]] = of[fault, line]
        return found


@contextmanager
def judged_by(function: Function | None) -> Iterator[None]:
    """Lets a function say which corruptions are critical, of all faults that are judged while the block runs; without
    one nothing is said of them."""
    before = _function.set(function)
    try:
        yield
    finally:
        _function.reset(before)


def judge(
    results: Results, edits: Any, found: Observed, golden: Bits, element: ElementType | None, policy: str,
    whole: Whole | None = None,
) -> None:  # fmt: skip
    """Fills in the outcomes of faults that were run.

    Args:
        edits: whether each fault has `changed` anything, and whether something that is `read` has changed.
        golden: what the results should be.
        element: the type of the results; None for 32-bit words.
        whole: what the results are rows of, where only those rows are given that differ in any of them.
    """
    compare(results, found.got, golden, element, whole)
    masked = results["outcome"] == MASKED
    why = np.where(edits.changed, np.where(edits.read, reason("equal"), reason("unread")), reason("same"))
    results["reason"] = np.where(masked, why, 0)
    results["detectors"] = flags(**found.seen)
    stopped = found.stopped != 0
    stop(results, stopped, DUE, found.stopped)
    results["outcome"][np.isin(found.stopped, [reason("deadlock"), reason("endless")])] = HANG
    if policy == "raise" and "legality" in found.seen:
        stop(results, found.seen["legality"] & ~stopped, DETECTED, reason("invalid-code"))
        if found.refused is not None:
            stop(results, found.refused & stopped, DETECTED, found.stopped)
    corrupt = np.flatnonzero(results["outcome"] == SDC)
    if len(corrupt):
        _look(results, corrupt, found.got[corrupt], golden[corrupt], element, whole)


def _look(
    results: Results, corrupt: NDArray[np.intp], got: Bits, right: Bits, element: ElementType | None,
    whole: Whole | None,
) -> None:  # fmt: skip
    """Lets a judge's function, and the detectors that the run is asked for, look at corrupt results."""
    function, detectors = _function.get(), asked()
    sees = [name for name in detectors.names if name in OF_RESULTS]
    if function is None and not sees:
        return
    if whole is not None:
        right = np.broadcast_to(whole.golden, (len(corrupt), *whole.golden.shape))
        got = whole.filled(corrupt, got)
    now = values(got, element)
    if sees:
        results["detectors"][corrupt] |= flags(**detectors.sees(now))
    if function is not None:
        critical = function(now, values(right, element))
        results["judged"][corrupt] = np.where(critical, CRITICAL, TOLERABLE)


def values(patterns: Bits, element: ElementType | None) -> NDArray[Any]:
    """What patterns stand for: float64, of integers int64; words without a type as they are, uint32."""
    if element is None:
        return patterns
    return to_float64(patterns, element) if element.is_float else integers(patterns, element).astype(np.int64)


def compare(results: Results, got: Bits, golden: Bits, element: ElementType | None, whole: Whole | None = None) -> None:
    """Classifies results [fault, row, column] against what they should be, and measures how large the difference is.

    `max_ulp` counts the representable numbers between the two; NaN counts as 2^bits - 1 from any number. `max_abs` and
    `max_rel` (relative to the right result) are over elements that are finite in both. `nonfinite` counts elements that
    were finite and are not any more. `bits` counts the bits that differ, `pattern` says where they lie (see above). For
    words without a type `elements` counts bits, too, and `max_ulp` is -1.

    `whole` says which rows or columns are given where these are only some; `first_row` and `first_column` count those
    that are given.
    """
    differs = got != golden
    changed = differs.any(axis=(1, 2))
    results["outcome"] = np.where(changed, SDC, MASKED)
    where = np.flatnonzero(changed)
    if not len(where):
        return
    mask, x, y = differs[where], got[where], golden[where]
    part = results[where]
    part["rows"], part["columns"] = mask.any(axis=2).sum(axis=1), mask.any(axis=1).sum(axis=1)
    flat = mask.reshape(len(where), -1).argmax(axis=1)
    part["first_row"], part["first_column"] = np.divmod(flat, mask.shape[2])
    part["bits"] = np.bitwise_count(x ^ y).sum(axis=(1, 2))
    part["pattern"] = patterns(mask) if whole is None else patterns(mask, *_named(whole, where))
    if element is None:
        part["elements"], part["max_ulp"] = part["bits"], -1
        results[where] = part
        return
    part["elements"] = mask.sum(axis=(1, 2))
    case, row, column = np.nonzero(mask)
    x, y = x[case, row, column], y[case, row, column]
    np.maximum.at(part["max_ulp"], case, ulp_distance(x, y, element))
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


def patterns(
    wrong: Mask, rows: NDArray[np.integer] | None = None, columns: NDArray[np.integer] | None = None
) -> NDArray[np.uint8]:
    """The pattern of wrong elements [fault, row, column], a number of `PATTERNS` for each fault. `rows` and `columns`
    are the ascending numbers of these, [line] or [fault, line], where only some are given and all others are right."""
    count = wrong.sum(axis=(1, 2))
    in_rows, in_columns = np.asarray(wrong.any(axis=2)), np.asarray(wrong.any(axis=1))
    filled = count >= BLOCK_SHARE * _extent(in_rows, rows) * _extent(in_columns, columns)
    chosen = [count == 0, count == 1, in_rows.sum(axis=1) == 1, in_columns.sum(axis=1) == 1, filled]
    return np.select(chosen, [NONE, SINGLE, ROW, COLUMN, BLOCK], RANDOM).astype(np.uint8)


def _extent(wrong: Mask, numbers: NDArray[np.integer] | None) -> NDArray[np.int64]:
    """From the first wrong line to the last, both counted, of lines bool [fault, line]: int64 [fault]."""
    first, last = wrong.argmax(axis=1), wrong.shape[1] - 1 - wrong[:, ::-1].argmax(axis=1)
    if numbers is None:
        return np.asarray(last - first + 1)
    names = np.broadcast_to(numbers, wrong.shape)
    each = np.arange(len(wrong))
    return np.asarray(names[each, last] - names[each, first] + 1)


def _named(whole: Whole, some: NDArray[np.integer]) -> tuple[NDArray[np.integer] | None, NDArray[np.integer] | None]:
    """The numbers of rows and of columns, of some of the faults; None where all are given."""
    lines = whole.lines if whole.lines.ndim == 1 else whole.lines[some]
    return (None, lines) if whole.columns else (lines, None)


def numbers(patterns: Bits, element: ElementType) -> NDArray[np.float64]:
    """The numbers that patterns of an element type stand for."""
    return values(patterns, element).astype(np.float64, copy=False)


def texts(results: Results) -> list[str]:
    """The rows of results as lines of CSV."""
    columns = []
    for name, kind in FIELDS:
        values = results[name].tolist()
        if name in NAMED:
            columns.append([NAMED[name][value] for value in values])
        elif name == "detectors":
            columns.append([_seen(value) for value in values])
        elif name == "corrections":
            columns.append([corrections.text(value) for value in values])
        else:
            columns.append([f"{value:.6g}" for value in values] if kind == "f8" else list(map(str, values)))
    return [",".join(row) for row in zip(*columns, strict=True)]


@cache
def _seen(flags: int) -> str:
    """The names of the detectors that saw a fault, joined with +."""
    return "+".join(name for i, name in enumerate(DETECTORS) if flags >> i & 1)


def to_frame(results: Results) -> Any:
    """Results as a pandas DataFrame: outcome, reason, detectors, corrections, pattern and judgement as words, all else
    as numbers."""
    frame = table.to_frame(results, NAMED)
    frame["detectors"] = [_seen(value) for value in results["detectors"].tolist()]
    frame["corrections"] = [corrections.text(value) for value in results["corrections"].tolist()]
    return frame
