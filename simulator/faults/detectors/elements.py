"""Checksums of one product of which faults change some elements: the answers of
`simulator.faults.detectors.checksums`, from these elements alone.

The sum of a line (a row or a column) that changes is the sum without the fault and the differences. Where that is too
near to the tolerance for the rounding of float64 to be certain, the line is summed anew.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits, ElementType
from simulator.faults.detectors.checksums import Checksums, Mask, Reals, fits
from simulator.faults.detectors.corrected import Located, by_checksums
from simulator.faults.outcomes import Results, numbers

Integers = NDArray[np.int64]
_ROUNDING = 1e-12  # of the magnitudes that a sum adds: far more than float64 errs
_TOGETHER = 1 << 20  # elements of lines that are summed at a time


class Changed(NamedTuple):
    """Elements of D that faults change, each once: the fault (ascending), row, column, and the new pattern."""

    fault: Integers
    row: Integers
    column: Integers
    pattern: Bits


class _Lines(NamedTuple):
    """The rows, or the columns, of D: which of them fail.

    Attributes:
        failing: int64 [fault]: how many fail.
        numbers: int64 [fault]: the sum of their numbers, which is the number of the only one.
    """

    failing: Integers
    numbers: Integers


class Elements:
    """The checksums of one case.

    Args:
        checksums: what they should be, and the tolerances.
        case: which of its cases this is.
        golden: D of the case without faults, uint32 [row, column].
        element: its type.
    """

    def __init__(self, checksums: Checksums, case: int, golden: Bits, element: ElementType) -> None:
        d = numbers(golden, element)
        self.golden, self.element = golden, element
        self._d = np.ascontiguousarray(d), np.ascontiguousarray(d.T)
        self._should = checksums.should.rows[case], checksums.should.columns[case]
        self._tolerances = checksums.row_tolerance, checksums.column_tolerance
        self._by_rows = checksums.by_rows
        with np.errstate(invalid="ignore"):
            self._sums = tuple(each.sum(axis=1) for each in self._d)
            self._size = tuple(np.abs(each).sum(axis=1) for each in self._d)
            self._bad = tuple(
                ~fits(sums, should, tolerance)
                for sums, should, tolerance in zip(self._sums, self._should, self._tolerances, strict=True)
            )

    def look(self, faults: int, changed: Changed) -> tuple[Mask, Located]:
        """Whether each of so many faults fails a check, bool [fault], and the elements that the checks locate."""
        value = numbers(changed.pattern, self.element)
        rows = self._failing(0, faults, changed.fault, changed.row, changed.column, value)
        columns = self._failing(1, faults, changed.fault, changed.column, changed.row, value)
        fault = np.flatnonzero((rows.failing == 1) & (columns.failing == 1))
        row, column = rows.numbers[fault], columns.numbers[fault]
        number = 0 if self._by_rows else 1
        line, other = (row, column) if self._by_rows else (column, row)
        lines = self._changed_lines(number, fault, line, changed, value)
        lines[np.arange(len(fault)), other] = 0
        with np.errstate(invalid="ignore"):
            found = Located(fault, row, column, self._should[number][line] - lines.sum(axis=1))
        return (rows.failing > 0) | (columns.failing > 0), found.some(np.isfinite(found.value))

    def correct(
        self, results: Results, changed: Changed, wrong: Integers | None = None, only: Mask | None = None
    ) -> Mask:
        """Notes in the results of faults, whose outcomes are there, what becomes of corrections; returns whether each
        fails a check.

        Args:
            wrong: how many elements are wrong, where D is a part of the result; None: as the results say.
            only: the faults that are looked at; None: all.
        """
        seen, at = self.look(len(results), changed)
        at = at if only is None else at.some(only[at.fault])
        right = self.golden[at.row, at.column]
        keys = _keys(changed.fault, changed.row, changed.column, self.golden.shape)
        order, wanted = np.argsort(keys), _keys(at.fault, at.row, at.column, self.golden.shape)
        got, place = right.copy(), np.searchsorted(keys[order], wanted)
        there = place < len(keys)
        there[there] = keys[order[place[there]]] == wanted[there]
        got[there] = changed.pattern[order[place[there]]]
        by_checksums(results, at, got, right, self.element, wrong)
        return seen

    def _failing(
        self, number: int, faults: int, fault: Integers, line: Integers, place: Integers, value: Reals
    ) -> _Lines:
        """Which lines fail; `number` is 0 of rows and 1 of columns, `place` the place of an element in its line."""
        d, should, bad = self._d[number], self._should[number], self._bad[number]
        key, entry = np.unique(fault * len(d) + line, return_inverse=True)
        of, which = np.divmod(key, len(d))
        with np.errstate(invalid="ignore"):
            apart = value - d[line, place]
            sums = self._sums[number][which] + np.bincount(entry, apart, len(key))
            size = self._size[number][which] + np.bincount(entry, np.abs(apart), len(key)) + np.abs(should[which])
            distance = np.abs(np.abs(sums - should[which]) - self._tolerances[number])
            unsure = np.flatnonzero(~(distance > _ROUNDING * size) | ~np.isfinite(size))
        most = max(1, _TOGETHER // d.shape[1])
        for first in range(0, len(unsure), most):
            some = unsure[first : first + most]
            slot = np.full(len(key), -1)
            slot[some] = np.arange(len(some))
            lines, mine = d[which[some]], slot[entry] >= 0
            lines[slot[entry[mine]], place[mine]] = value[mine]
            with np.errstate(invalid="ignore"):
                sums[some] = lines.sum(axis=1)
        with np.errstate(invalid="ignore"):
            now = (~fits(sums, should[which], self._tolerances[number])).astype(np.int64) - bad[which]
        numbers = np.flatnonzero(bad)
        count, total = np.full(faults, len(numbers)), np.full(faults, int(numbers.sum()))
        np.add.at(count, of, now)
        np.add.at(total, of, now * which)
        return _Lines(count, total)

    def _changed_lines(self, number: int, fault: Integers, line: Integers, changed: Changed, value: Reals) -> Reals:
        """One line of each of these faults with its changes, [n, place]."""
        lines: Reals = self._d[number][line].copy()
        at = np.minimum(np.searchsorted(fault, changed.fault), max(len(fault) - 1, 0))
        own, place = (changed.row, changed.column) if number == 0 else (changed.column, changed.row)
        mine = (
            (fault[at] == changed.fault) & (line[at] == own) if len(fault) else np.zeros(len(changed.fault), np.bool_)
        )
        lines[at[mine], place[mine]] = value[mine]
        return lines


def _keys(fault: Integers, row: Integers, column: Integers, shape: tuple[int, ...]) -> Integers:
    """A number for each element of each fault."""
    return fault * (shape[0] * shape[1]) + row * shape[1] + column
