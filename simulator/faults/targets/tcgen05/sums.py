"""Checksums of D where only some of its rows, or columns, differ from those without faults: the answers of
`simulator.faults.detectors.checksums` with the sums that cannot have changed left out.

Sums are made in the order in which numpy sums whole matrices, so that they are the same to the last bit: along a row in
numpy's own order, down a column one row after another.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simulator.execute.tcgen05.fetch import Cta
from simulator.execute.tcgen05.multiply import matrices
from simulator.execute.tcgen05.plan import Call
from simulator.faults.detectors.checksums import (
    Checksums,
    Mask,
    Predicted,
    Reals,
    fits,
    predicted,
    real_operands,
)

Integers = NDArray[np.int64]
_DENSE = 1 << 20  # elements of D that are in memory at once, where whole rows have to be summed


def predicted_by(call: Call, ctas: Sequence[Cta], target: str) -> Predicted:
    """The checksums of one case, predicted from its operands; those of the columns are over both CTAs of a pair."""
    found = [predicted(*real_operands(*one)) for one in matrices(call, ctas, target)]
    rows = np.concatenate([one.rows.sum(axis=0) for one in found])  # of the parts of N
    columns = np.sum([one.columns.reshape(-1) for one in found], axis=0)
    return Predicted(rows[None], columns[None])


class Sums:
    """The checksums of one case.

    Args:
        checksums: what they should be, and the tolerances.
        case: which of its cases this is.
        d: D of the case without faults, float64 [row, column].
    """

    def __init__(self, checksums: Checksums, case: int, d: Reals) -> None:
        self._d = d
        self._rows, self._columns = checksums.should.rows[case], checksums.should.columns[case]
        self._tolerances = checksums.row_tolerance, checksums.column_tolerance
        with np.errstate(invalid="ignore"):
            self._bad_rows = ~fits(d.sum(axis=1), self._rows, self._tolerances[0])
            self._bad_columns = ~fits(_down(d), self._columns, self._tolerances[1])
            self._before = np.concatenate([np.zeros((1, d.shape[1])), np.add.accumulate(d, axis=0)])

    def rows_fail(self, numbers: Integers, values: Reals) -> Mask:
        """Whether D fails with other rows: their numbers int64 [fault, line], ascending and -1 for none, and values
        [fault, line, column]; bool [fault]."""
        with np.errstate(invalid="ignore"):
            there = numbers >= 0
            bad = there & ~fits(values.sum(axis=2), self._rows[numbers], self._tolerances[0])
            failed = bad.any(axis=1) | _others(self._bad_rows, numbers, there)
            rest = np.flatnonzero(~failed)
            if len(rest):
                sums = self._columns_with(numbers[rest], values[rest])
                failed[rest] = ~fits(sums, self._columns, self._tolerances[1]).all(axis=1)
        return failed

    def columns_fail(self, numbers: Integers, values: Reals) -> Mask:
        """The same with other columns; values are [fault, line, row]."""
        faults, lines, rows = values.shape
        with np.errstate(invalid="ignore"):
            there = numbers >= 0
            sums = _down(values.reshape(-1, rows).T).reshape(faults, lines)
            bad = there & ~fits(sums, self._columns[numbers], self._tolerances[1])
            failed = bad.any(axis=1) | _others(self._bad_columns, numbers, there)
            rest = np.flatnonzero(~failed)
            size = max(1, _DENSE // self._d.size)
            for first in range(0, len(rest), size):
                some = rest[first : first + size]
                whole = np.broadcast_to(self._d, (len(some), *self._d.shape)).copy()
                fault, line = np.nonzero(there[some])
                whole[fault, :, numbers[some][fault, line]] = values[some][fault, line]
                failed[some] = ~fits(whole.sum(axis=2), self._rows, self._tolerances[0]).all(axis=1)
        return failed

    def _columns_with(self, numbers: Integers, values: Reals) -> Reals:
        """The sums of all columns with other rows, [fault, column]: from the first row that differs on, one row after
        another, for all faults at once."""
        first = np.where(numbers >= 0, numbers, len(self._d)).min(axis=1)
        order = np.argsort(first, kind="stable")
        numbers, values, first = numbers[order], values[order], first[order]
        sums: Reals = self._before[first]
        fault, line = np.nonzero(numbers >= 0)
        row = numbers[fault, line]
        by_row = np.argsort(row, kind="stable")
        fault, line, row = fault[by_row], line[by_row], row[by_row]
        bounds = np.searchsorted(row, np.arange(len(self._d) + 1))
        for number, right in enumerate(self._d):
            begun = int(np.searchsorted(first, number, side="right"))
            mine = slice(bounds[number], bounds[number + 1])
            kept = sums[fault[mine]]
            sums[:begun] += right
            sums[fault[mine]] = kept + values[fault[mine], line[mine]]
        back: Reals = np.empty_like(sums)
        back[order] = sums
        return back


def _others(bad: Mask, numbers: Integers, there: Mask) -> Mask:
    """Whether a line that is not among the numbers [fault, line] is bad."""
    return np.asarray(int(bad.sum()) > (bad[numbers] & there).sum(axis=1))


def _down(d: Reals) -> Reals:
    """The sums of columns, [column], added row after row; of a single column numpy would add in another order."""
    wide = np.ascontiguousarray(d if d.shape[1] > 1 else np.repeat(d, 2, axis=1))
    sums: Reals = wide.sum(axis=0)
    return sums[: d.shape[1]]
