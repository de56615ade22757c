"""What becomes of faults where a detector corrects: SECDED a wrong bit of a word, checksums of a product a wrong
element of D.

SECDED is judged by the words: where every word that changed is corrected rightly, the run is the one without the fault,
and its result the golden one. What a word that is left wrong does to the result is not computed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits, ElementType
from simulator.arithmetic.check_bits import decoded
from simulator.arithmetic.convert import from_float64, to_float64
from simulator.arithmetic.formats import ulp_distance
from simulator.faults import corrections
from simulator.faults.corrections import EXACT, NEAR, NONE, WRONG
from simulator.faults.outcomes import MASKED, SDC, Results

Reals = NDArray[np.float64]


class Located(NamedTuple):
    """Elements of D that checksums locate: one row and one column fail, all others hold.

    Attributes:
        fault: int64 [n]: the faults, ascending.
        row, column: int64 [n]: the element.
        value: float64 [n]: what the checksum says that it should be.
    """

    fault: NDArray[np.int64]
    row: NDArray[np.int64]
    column: NDArray[np.int64]
    value: Reals

    def some(self, mask: NDArray[np.bool_]) -> Located:
        """Some of them."""
        return Located(self.fault[mask], self.row[mask], self.column[mask], self.value[mask])


def by_words(changed: Bits) -> tuple[NDArray[np.bool_], NDArray[np.uint8]]:
    """Whether SECDED handles faults that change words that are read (`check_bits.secded`), bool [fault], and their
    field `corrections`.

    Args:
        changed: uint32 [fault, word]: the bits that change.
    """
    found = decoded(changed)
    how = np.select([found.corrected, found.miscorrected], [EXACT, WRONG], NONE)
    return found.handled, corrections.field("secded", how)


def by_checksums(
    results: Results, at: Located, got: Bits, right: Bits, element: ElementType, wrong: NDArray[np.int64] | None = None
) -> None:
    """Notes in results what the corrections of located elements come to. A run that stopped has nothing to correct.

    Args:
        at: what checksums locate.
        got, right: uint32 [n]: the located elements as they are stored, and as they should be.
        element: the type of D.
        wrong: int64 [fault]: how many elements are wrong, where D is a part of the result; None: as the results say.
    """
    wrong = results["elements"] if wrong is None else wrong
    there = np.isin(results["outcome"][at.fault], (MASKED, SDC))
    at, got, right = at.some(there), got[there], right[there]
    if not len(at.fault):
        return
    mended = from_float64(at.value, element)
    alone = wrong[at.fault] == (got != right)  # nothing else is wrong
    before, now, should = (to_float64(patterns, element) for patterns in (got, mended, right))
    with np.errstate(invalid="ignore"):
        apart, was = np.abs(now - should), np.abs(before - should)
        nearer = (got != right) & (apart < np.where(np.isfinite(was), was, np.inf))
    how = np.select([alone & (mended == right), alone & nearer], [EXACT, NEAR], WRONG)
    results["corrections"][at.fault] |= corrections.field("abft", how)
    near = how == NEAR
    results["left_ulp"][at.fault[near]] = ulp_distance(mended[near], right[near], element)
    results["left_abs"][at.fault[near]] = apart[near]
