"""Outcomes, measures and detectors of faults, computed from what docs/faults.md and docs/faults_rows.md say."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from tests.golden.again.numerals import Format, parts, rank, value

MEASURES = ("elements", "rows", "columns", "max_ulp", "max_abs", "max_rel", "nonfinite", "first_row", "first_column")


def measured(got: Any, right: Any, form: Format | None) -> dict[str, Any]:
    """How results [fault, row, column] differ from what they should be; `form` None for words without a type."""
    differs = got != right
    wrong = differs.any(axis=(1, 2))
    flat = differs.reshape(len(got), -1).argmax(axis=1)
    found: dict[str, Any] = {
        "rows": differs.any(axis=2).sum(axis=1),
        "columns": differs.any(axis=1).sum(axis=1),
        "first_row": np.where(wrong, flat // got.shape[2], -1),
        "first_column": np.where(wrong, flat % got.shape[2], -1),
    }
    zero = np.zeros(len(got))
    if form is None:
        found["elements"] = np.bitwise_count(got ^ right).sum(axis=(1, 2))
        return found | {"max_ulp": -wrong.astype(np.int64), "max_abs": zero, "max_rel": zero, "nonfinite": zero}
    found["elements"] = differs.sum(axis=(1, 2))
    fault, row, column = np.nonzero(differs)
    x, y = got[fault, row, column], np.broadcast_to(right, got.shape)[fault, row, column]
    apart = np.abs(rank(x, form) - rank(y, form))
    now, was = value(x, form), value(y, form)
    if form.is_float:
        nans = parts(x, form).nan.astype(int) + parts(y, form).nan
        apart = np.where(nans == 0, apart, np.where(nans == 1, (1 << form.bits) - 1, 0))
    finite = np.isfinite(now) & np.isfinite(was)
    with np.errstate(invalid="ignore", divide="ignore"):
        distance = np.where(finite, np.abs(now - was), 0)
        relative = np.where(distance > 0, distance / np.abs(was), 0)
    for name, values in (("max_ulp", apart), ("max_abs", distance), ("max_rel", relative)):
        found[name] = np.zeros(len(got), values.dtype)
        np.maximum.at(found[name], fault, values)
    found["nonfinite"] = np.bincount(fault[~np.isfinite(now) & np.isfinite(was)], minlength=len(got))
    return found


def outcomes(wrong: Any, changed: Any, read: Any, stopped: Any, refused: Any) -> tuple[Any, Any]:
    """Outcome and reason of each fault: `stopped` has why a run stopped ("" if not), `refused` whether a check in front
    of the core stops it."""
    outcome = np.where(wrong, "sdc", "masked").astype(object)
    masked = np.where(changed, np.where(read, "equal", "unread"), "same")
    reason = np.where(wrong, "", masked).astype(object)
    ended = stopped != ""
    hang = np.isin(stopped, ["deadlock", "endless"])
    outcome[ended], reason[ended] = np.where(hang, "hang", "due")[ended], stopped[ended]
    outcome[refused & ~ended], reason[refused & ~ended] = "detected", "invalid-code"
    return outcome, reason


# Detectors


def parity(turned: Any) -> Any:
    """Whether an odd number of bits of any word [fault, word] has turned."""
    odd = np.zeros(turned.shape, np.int64)
    for bit in range(32):
        odd ^= turned >> bit & 1
    return odd.any(axis=1)


def hsiao() -> Any:
    """The columns of the (39, 32) code: of the 35 words of seven bits of which three are set the 32 smallest."""
    words = sorted(sum(1 << bit for bit in three) for three in combinations(range(7), 3))
    return np.array(words[:32], np.int64)


def secded(turned: Any) -> Any:
    """Whether the code handles the words [fault, word]: all that turned are corrected, or seen and not made worse."""
    columns = hsiao()
    correctable = {*columns.tolist(), *(1 << bit for bit in range(7))}
    syndrome = np.zeros(turned.shape, np.int64)
    for bit, column in enumerate(columns):
        syndrome ^= np.where(turned >> bit & 1 == 1, column, 0)
    count = np.bitwise_count(turned).astype(np.int64)
    looks_single = np.isin(syndrome, sorted(correctable))
    right = (count == 0) | (count == 1) | (syndrome != 0) & ~looks_single
    return (count > 0).any(axis=1) & right.all(axis=1)


def words_corrected(turned: Any) -> Any:
    """What correcting the words [fault, word] by the code comes to: "", "exact" or "wrong"."""
    columns = hsiao()
    correctable = {*columns.tolist(), *(1 << bit for bit in range(7))}
    found = []
    for words in turned.tolist():
        states = set()
        for word in words:
            bits = [bit for bit in range(32) if word >> bit & 1]
            syndrome = 0
            for bit in bits:
                syndrome ^= int(columns[bit])
            if len(bits) == 1:
                states.add("right")
            elif bits:
                states.add("blind" if not syndrome else "fooled" if syndrome in correctable else "stop")
        acts = bool(states & {"right", "fooled"}) and "stop" not in states
        found.append("" if not acts else "exact" if states == {"right"} else "wrong")
    return np.array(found, object)


def together(secded: Any, abft: Any) -> Any:
    """The column `corrections`."""
    pairs = zip(secded.tolist(), abft.tolist(), strict=True)
    return np.array(["+".join(f"{name}:{how}" for name, how in (("secded", one), ("abft", two)) if how)
                     for one, two in pairs], object)  # fmt: skip


def _rounded(number: float, form: Format) -> int:
    """The pattern of a number, rounded once; of integers the nearest one that there is."""
    if form.is_float:
        with np.errstate(over="ignore"):
            kind, bits = (np.float32, np.uint32) if form.bits == 32 else (np.float16, np.uint16)
            return int(np.array(number, np.float64).astype(kind).view(bits))
    return int(min(max(round(number), -(1 << 31)), (1 << 31) - 1)) & 0xFFFFFFFF


class Sums:
    """Row and column checksums of D, predicted in float64 from A [case, row, k], B [case, k, column] and C."""

    def __init__(self, a: Any, b: Any, c: Any) -> None:
        self.rows = np.matmul(a, b.sum(axis=2)[..., None])[..., 0] + c.sum(axis=2)
        self.columns = np.matmul(a.sum(axis=1)[:, None], b)[:, 0] + c.sum(axis=1)

    def apart(self, d: Any, case: Any = slice(None)) -> tuple[Any, Any]:
        """How far the sums of D [fault, row, column] are from the predictions of these cases."""
        with np.errstate(invalid="ignore"):
            return np.abs(d.sum(axis=2) - self.rows[case]), np.abs(d.sum(axis=1) - self.columns[case])

    def fails(self, d: Any, case: Any, tolerances: tuple[float, float]) -> Any:
        """Whether D fails the check of a row or of a column; NaN fails."""
        rows, columns = self.apart(d, case)
        return ~((rows <= tolerances[0]).all(axis=1) & (columns <= tolerances[1]).all(axis=1))

    def corrected(
        self, got: Any, right: Any, form: Format, case: Any, tolerances: tuple[float, float], ended: Any
    ) -> Any:
        """What correcting the only wrong element comes to, of D [fault, row, column]: "", "exact", "near" or "wrong",
        and how far `near` is off, in numbers of the type and absolutely; nothing of a run that `ended` early."""
        numbers = value(got, form)
        how, ulp, off = np.full(len(got), "", object), np.zeros(len(got), np.int64), np.zeros(len(got))
        rows, columns = self.apart(numbers, case)
        bad_rows, bad_columns = ~(rows <= tolerances[0]), ~(columns <= tolerances[1])
        for fault in np.flatnonzero((bad_rows.sum(axis=1) == 1) & (bad_columns.sum(axis=1) == 1) & ~ended):
            row, column = int(np.flatnonzero(bad_rows[fault])[0]), int(np.flatnonzero(bad_columns[fault])[0])
            if tolerances[0] <= tolerances[1]:
                should = self.rows[case[fault], row] - np.delete(numbers[fault, row], column).sum()
            else:
                should = self.columns[case[fault], column] - np.delete(numbers[fault, :, column], row).sum()
            if not np.isfinite(should):
                continue
            mended = got[fault].copy()
            mended[row, column] = _rounded(float(should), form)
            left, before = np.argwhere(mended != right[fault]), np.argwhere(got[fault] != right[fault])
            if not len(left):
                how[fault] = "exact"
                continue
            now, was, truth = (float(value(array[row, column], form)) for array in (mended, got[fault], right[fault]))
            if left.tolist() == before.tolist() == [[row, column]] and not abs(was - truth) <= abs(now - truth):
                how[fault], off[fault] = "near", abs(now - truth)
                ulp[fault] = abs(int(rank(mended[row, column], form)) - int(rank(right[fault][row, column], form)))
            else:
                how[fault] = "wrong"
        return how, ulp, off
