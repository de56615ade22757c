"""Checksums of products, as a detector of faults (algorithm-based fault tolerance, Huang and Abraham 1984).

The detector knows what a real one knows: the operands before any fault, and D as it is stored. Its tolerance comes from
fault-free products other than those under test, so it fails some products that have no fault; how many is measured on
fresh ones. Sums are in float64 (assumed: a unit, or instructions, beside the core), so that what differs is the chip's
rounding of D.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.fragments.metadata import stored_columns
from isa.types import Bits, ElementType
from simulator.arithmetic import Operands, Sum
from simulator.arithmetic.convert import to_float64
from simulator.arithmetic.formats import integers
from simulator.faults.detectors.corrected import Located

Mask = NDArray[np.bool_]
Reals = NDArray[np.float64]
CALIBRATION, FRESH = 64, 256  # fault-free products: of which the tolerance is, and on which false alarms are counted


class FalseAlarms(NamedTuple):
    """How many of some fresh products without a fault the checksums fail."""

    failed: int
    products: int


def real_operands(how: Sum, operands: Operands) -> tuple[Reals, Reals, Reals]:
    """A [case, row, k] with its zeros, B [case, k, column] and C in float64, scale factors multiplied in."""
    a, b = _numbers(operands.a, how.a_type), _numbers(operands.b, how.b_type)
    if operands.codes is not None and how.sparsity is not None:
        columns = stored_columns(operands.codes, how.sparsity)
        whole = np.zeros((len(a), how.m, how.k))
        case, row, _ = np.ogrid[: len(a), : how.m, : columns.shape[2]]
        whole[case, row, columns] = a
        a = whole
    if operands.scale_a is not None and operands.scale_b is not None and how.scale_type is not None:
        left, right = (_numbers(x, how.scale_type) for x in (operands.scale_a, operands.scale_b))
        a = a * np.repeat(left, how.k // left.shape[2], axis=2)
        b = b * np.repeat(right, how.k // right.shape[2], axis=2).transpose(0, 2, 1)
    c = _numbers(operands.c, how.c_type)
    if how.operation.startswith("xor"):  # of bits a xor b is a + (1 - 2 a) b
        return 1 - 2 * a, b, c + a.sum(axis=2)[..., None]
    return a, b, c


def _numbers(patterns: Bits, element: ElementType) -> Reals:
    return to_float64(patterns, element) if element.is_float else integers(patterns, element).astype(np.float64)


class Predicted(NamedTuple):
    """What the sums of the rows [case, row] and of the columns [case, column] of A * B + C should be."""

    rows: Reals
    columns: Reals


def joined(parts: Iterable[Predicted]) -> Predicted:
    """The predictions of several cases as those of one array of cases."""
    rows, columns = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Predicted(rows, columns)


def predicted(a: Reals, b: Reals, c: Reals) -> Predicted:
    """Checksums from the operands as they were before any fault, in float64: A times the row sums of B, and the column
    sums of A times B, plus sums of C. No product, and nothing of D, is known to them.

    Args:
        a: A [case, row, k] with its zeros and scale factors.
        b: B [case, k, column] with its scale factors.
        c: C [case, row, column].
    """
    with np.errstate(invalid="ignore", over="ignore"):
        products = a * b.sum(axis=2)[:, None, :]
        rows = np.where(a == 0, 0.0, products).sum(axis=2) + c.sum(axis=2)  # what A does not store meets no infinity
        columns = np.einsum("ck,ckn->cn", a.sum(axis=1), b) + c.sum(axis=1)
    return Predicted(rows, columns)


class Checksums:
    """Row and column checksums of D = A * B + C as D is stored, against those predicted from A, B and C.

    Attributes:
        row_tolerance, column_tolerance: how far a sum may be from its prediction: the largest distance of any of the
            fault-free products that these are calibrated with.
    """

    def __init__(self, should: Predicted, calibration: tuple[Reals, Predicted]) -> None:
        """`should` is of the products under test; `calibration` is D [case, row, column] of other products without
        faults, with what was predicted for them."""
        self.should = should
        d, other = calibration
        with np.errstate(invalid="ignore"):
            self.row_tolerance = _largest(d.sum(axis=2), other.rows)
            self.column_tolerance = _largest(d.sum(axis=1), other.columns)

    @classmethod
    def within(cls, should: Predicted, rows: float, columns: float) -> Checksums:
        """Checksums with these tolerances of rows and of columns."""
        found = cls(should, (np.zeros((0, 1, 1)), Predicted(np.zeros((0, 1)), np.zeros((0, 1)))))
        found.row_tolerance, found.column_tolerance = rows, columns
        return found

    def fails(self, d: Reals, should: Predicted) -> Mask:
        """Whether D [product, row, column] fails a check. A sum that is predicted to be infinite or NaN must be so."""
        rows, columns = self._bad(d, should)
        return np.asarray(rows.any(axis=1) | columns.any(axis=1))

    def _bad(self, d: Reals, should: Predicted) -> tuple[Mask, Mask]:
        """Which rows [product, row] and columns [product, column] fail."""
        with np.errstate(invalid="ignore"):
            rows = fits(d.sum(axis=2), should.rows, self.row_tolerance)
            columns = fits(d.sum(axis=1), should.columns, self.column_tolerance)
        return ~rows, ~columns

    @property
    def by_rows(self) -> bool:
        """Whether the sum of a row, whose tolerance is not the larger one, says what a wrong element should be."""
        return self.row_tolerance <= self.column_tolerance

    def sees(self, d: Reals, case: NDArray[np.integer]) -> Mask:
        """Whether D [fault, row, column] of these cases fails the row check or the column check."""
        return self.fails(d, Predicted(self.should.rows[case], self.should.columns[case]))

    def look(self, d: Reals, case: NDArray[np.integer]) -> tuple[Mask, Located]:
        """What `sees` gives, and the elements that the checks locate, with what they should be: the predicted sum less
        the other elements of the row, or of the column."""
        should = Predicted(self.should.rows[case], self.should.columns[case])
        rows, columns = self._bad(d, should)
        fault = np.flatnonzero((rows.sum(axis=1) == 1) & (columns.sum(axis=1) == 1))
        row, column = rows[fault].argmax(axis=1), columns[fault].argmax(axis=1)
        one = np.arange(len(fault))
        line = d[fault, row] if self.by_rows else d[fault, :, column]
        line[one, column if self.by_rows else row] = 0
        sums = should.rows[fault, row] if self.by_rows else should.columns[fault, column]
        found = Located(fault, row, column, sums - line.sum(axis=1))
        return np.asarray(rows.any(axis=1) | columns.any(axis=1)), found.some(np.isfinite(found.value))


def _largest(sums: Reals, exact: Reals) -> float:
    """The largest absolute difference between two arrays of sums, over those that are finite."""
    apart = np.abs(sums - exact)
    return float(apart[np.isfinite(apart)].max(initial=0.0))


def fits(sums: Reals, exact: Reals, tolerance: float) -> Mask:
    """Whether sums are what was predicted, up to a tolerance; infinite or NaN where that was predicted."""
    return np.where(np.isfinite(exact), np.abs(sums - exact) <= tolerance, ~np.isfinite(sums))
