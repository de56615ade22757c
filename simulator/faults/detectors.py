"""Detectors of faults, such as parity bits and checksums: for each fault they say whether the detector would have seen
it, whatever the policy did about the fault.

legality   a check of the codes that are read: one is not defined for the form
ordered    a stricter check: the indices of every code that is read must ascend (1:2: one of the two legal codes)
parity     one parity bit a metadata word, checked when the word is read
secded     seven check bits a metadata word (Hsiao 1970): one flipped bit is corrected, two are seen; counts if it sees
           or rightly corrects
abft       row and column checksums of the product (Huang and Abraham 1984): a difference above the rounding of
           fault-free runs
alignment  addresses that break a rule of the data path layout, and `race`, shared-memory races: runs say these
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isa.fragments.metadata import Sparsity
from isa.types import Bits

METADATA_RULES = ("invalid-metadata", "unordered-metadata", "invalid-metadata-tf32", "undefined-metadata")
"""The cases of `isa.undefined.RULES` that `legality` sees, wherever they are met. A policy that stops at them names one
as the rule that was broken."""
Mask = NDArray[np.bool_]
Reals = NDArray[np.float64]


def code_checks(codes: Bits, legal: Mask, sparsity: Sparsity) -> tuple[Mask, Mask]:
    """Checks codes [case, row, chunk], given whether each is defined. Returns two answers for each case: whether any
    code is not defined, and whether the indices of any code do not ascend."""
    table = np.ones(16, np.bool_)
    table[list(sparsity.ordered)] = False
    return np.asarray((~legal).any(axis=(1, 2))), np.asarray(table[codes].any(axis=(1, 2)))


class Checksums:
    """Row and column checksums of D = A * B + C, in float64, with tolerances from fault-free runs.

    The tolerance of a sum is the largest difference that any fault-free case shows: checksums are exact here, so
    that what differs is the chip's rounding of D.
    """

    def __init__(self, golden: Reals, exact: Reals) -> None:
        """Sets the tolerances from cases without faults. `golden` is D as the chip computes it, `exact` the exact A * B
        + C; both are [case, row, column]."""
        with np.errstate(invalid="ignore"):
            self.exact_rows, self.exact_columns = exact.sum(axis=2), exact.sum(axis=1)
            self.row_tolerance = _largest(golden.sum(axis=2), self.exact_rows)
            self.column_tolerance = _largest(golden.sum(axis=1), self.exact_columns)

    def widen(self, other: Checksums) -> None:
        """Raises the tolerances to those of other fault-free runs where these are larger."""
        self.row_tolerance = max(self.row_tolerance, other.row_tolerance)
        self.column_tolerance = max(self.column_tolerance, other.column_tolerance)

    def sees(self, d: Reals, case: NDArray[np.integer]) -> Mask:
        """Whether D [fault, row, column] of these cases fails the row check or the column check. A sum that is infinite
        or NaN without faults must be infinite or NaN here too."""
        with np.errstate(invalid="ignore"):
            rows = _fits(d.sum(axis=2), self.exact_rows[case], self.row_tolerance)
            columns = _fits(d.sum(axis=1), self.exact_columns[case], self.column_tolerance)
        return np.asarray(~(rows.all(axis=1) & columns.all(axis=1)))


def _largest(sums: Reals, exact: Reals) -> float:
    """The largest absolute difference between two arrays of sums, over those that are finite."""
    apart = np.abs(sums - exact)
    return float(apart[np.isfinite(apart)].max(initial=0.0))


def _fits(sums: Reals, exact: Reals, tolerance: float) -> Mask:
    return np.where(np.isfinite(exact), np.abs(sums - exact) <= tolerance, ~np.isfinite(sums))
