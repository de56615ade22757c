"""Superaccumulators: sums that lose nothing, however many terms they have (Kulisch).

A sum is a number of limbs: int64 numbers, each with a weight 2^32 times that of the one before. Terms are added to
limbs without carries, which are brought up before a limb can overflow and before the sum is rounded. Infinities and NaN
are noted beside the limbs. The compiled kernel adds products to the same limbs
(`simulator.arithmetic.compiled.accumulate`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits, ElementType
from simulator.arithmetic.formats import Integers, Reals, canonical_nan, encode_integer, infinity

Rows = NDArray[np.int64]
Flags = NDArray[np.uint8]

NAN, PLUS, MINUS = 1, 2, 4
"""What a sum has met, as bits of its flags: a NaN, plus infinity, minus infinity. As in exact.h."""

_LIMB = 32
_MASK = 0xFFFFFFFF
_TERMS = 1 << 18  # added at once
_UNTIL_CARRY = 1 << 14  # additions of an instruction's products, each below 2^46 in a limb


class Digits(NamedTuple):
    """The places of a superaccumulator: the weight of its last bit is 2^lowest."""

    lowest: int
    limbs: int


FLOATS = Digits(-288, 21)
"""For products of types of up to 32 bits: from 2^-286 (e5m2 with ue8m0 scales, 2^-32 * 2^-254) to 2^287, and
carries."""
DOUBLES = Digits(-2176, 138)
"""For products of f64: from 2^-2148 to 2^2048, and carries."""
INTEGERS = Digits(0, 1)
"""Of integers: the sum itself, as int64."""


def digits_of(element: ElementType) -> Digits:
    """The places for sums with results of this type."""
    return INTEGERS if not element.is_float else DOUBLES if element.bits == 64 else FLOATS


class Superaccumulators:
    """Exact sums, one in each row; zero at first.

    Attributes:
        digits: the places of the limbs.
        limbs: int64 [row, limb].
        special: uint8 [row]: what the sum has met, see `NAN`.
    """

    def __init__(self, digits: Digits, rows: int) -> None:
        self.digits = digits
        self.limbs: Integers = np.zeros((rows, digits.limbs), np.int64)
        self.special: Flags = np.zeros(rows, np.uint8)
        self._additions = 0

    def set(self, rows: Rows, values: Reals | Integers) -> None:
        """Sets sums to exact values: float64, any, or int64 where the sums are of integers. Both have the same shape;
        no row twice."""
        self.limbs[rows], self.special[rows] = 0, 0
        if self.digits == INTEGERS:
            self.limbs[rows, 0] = values
        else:
            self.add_values(rows.ravel(), values.astype(np.float64, copy=False).reshape(1, -1))

    def taken(self, rows: Rows) -> tuple[Integers, Flags]:
        """Copies of some sums, for `put`."""
        return self.limbs[rows], self.special[rows]

    def put(self, rows: Rows, sums: tuple[Integers, Flags]) -> None:
        """Sets some sums to others that were taken."""
        self.limbs[rows], self.special[rows] = sums

    def note_addition(self) -> None:
        """Counts one instruction's products, and brings up carries before limbs can overflow."""
        self._additions += 1
        if self._additions % _UNTIL_CARRY == 0 and self.digits.limbs > 1:
            used = np.flatnonzero(self.limbs.any(axis=1))
            self.limbs[used] = _carried(self.limbs[used].T.copy()).T

    def add_values(self, rows: Rows, values: Reals) -> None:
        """Adds terms, float64 [term, row]; any values."""
        step = max(1, _TERMS // max(1, len(values)))
        for first in range(0, len(rows), step):
            self._add_values(rows[first : first + step], values[:, first : first + step])

    def _add_values(self, rows: Rows, values: Reals) -> None:
        finite = np.isfinite(values)
        if not finite.all():
            for flag, met in ((NAN, np.isnan(values)), (PLUS, values == np.inf), (MINUS, values == -np.inf)):
                self.special[rows] |= np.where(met.any(axis=0), flag, 0).astype(np.uint8)
            values = np.where(finite, values, 0.0)
        fraction, exponent = np.frexp(values)
        self.add_terms(rows, np.ldexp(fraction, 53).astype(np.int64), exponent.astype(np.int64) - 53)

    def add_terms(self, rows: Rows, significand: Integers, place: Integers) -> None:
        """Adds significand * 2^place, both int64 [term, row]; significands below 2^55, and multiples of the last bit's
        weight."""
        lowest, count = self.digits.lowest, len(rows)
        sign, magnitude = np.sign(significand), np.abs(significand)
        magnitude = magnitude >> np.clip(lowest - place, 0, 62)  # drops zeros alone
        limb, shift = np.divmod(np.where(magnitude == 0, 0, np.maximum(place - lowest, 0)), _LIMB)
        low, high = (magnitude & _MASK) << shift, (magnitude >> _LIMB) << shift
        index, size = (limb * count + np.arange(count)).astype(np.intp, copy=False), self.digits.limbs * count
        # bincount adds in float64: parts below 2^34, at most 2^18 of them, are added exactly.
        parts = (low & _MASK, (low >> _LIMB) + (high & _MASK), high >> _LIMB)
        total = sum(
            np.bincount((index + i * count).ravel(), (part * sign).ravel(), size) for i, part in enumerate(parts)
        )
        self.limbs[rows] += np.asarray(total).reshape(-1, count).T.astype(np.int64)

    def halve(self, rows: Rows, times: int) -> NDArray[np.bool_]:
        """Divides sums by 2 to the `times` (0 to 31), and says which have been divided: a sum that would lose a bit is
        left as it is."""
        limbs = _carried(self.limbs[rows].T.copy())
        exact: NDArray[np.bool_] = limbs[0] & ((1 << times) - 1) == 0
        above = np.concatenate([limbs[1:], np.zeros_like(limbs[:1])])
        divided = limbs >> times
        divided[:-1] |= (above[:-1] << (_LIMB - times)) & _MASK
        self.limbs[rows] = np.where(exact, divided, limbs).T
        return exact

    def rounded(self, rows: Rows, element: ElementType, *, saturate: bool = False) -> Bits:
        """Sums [row], rounded once to nearest even: patterns of `element`, uint32 (uint64 for f64).

        An exact zero is +0; a negative sum that rounds to zero is -0; overflow is infinity. A NaN, or infinities of
        both signs, give the canonical NaN. Integers wrap, or are clamped to the range of s32 with `saturate`.
        """
        if not element.is_float:
            total = self.limbs[rows, 0]
            total = np.clip(total, -(1 << 31), (1 << 31) - 1) if saturate else total
            wrapped: Bits = (total & _MASK).astype(np.uint32)
            return wrapped
        pattern = round_limbs(self.limbs[rows].T, self.digits.lowest, element)
        special = self.special[rows]
        if special.any():
            word = pattern.dtype.type
            plus = infinity(element)
            infinite = np.where(special == MINUS, word(plus | 1 << (element.bits - 1)), word(plus))
            quiet = word(0x7FF8 << 48 if element.bits == 64 else canonical_nan(element))
            broken = (special & NAN > 0) | (special == PLUS | MINUS)
            pattern = np.where(special > 0, np.where(broken, quiet, infinite), pattern)
        return pattern.astype(np.uint64 if element.bits == 64 else np.uint32)


def round_limbs(limbs: Integers, lowest: int, element: ElementType) -> Bits:
    """Sums as limbs [limb, output], carries not brought up, the last bit at 2^lowest: rounded once to nearest even.
    Patterns of f16, f32 or f64; an exact zero is +0."""
    some = np.flatnonzero(limbs.any(axis=1))
    if len(some):  # the others are zero in every sum: two below for the rounding, one above for carries
        first = max(0, int(some[0]) - 2)
        limbs, lowest = limbs[first : int(some[-1]) + 2], lowest + _LIMB * first
    if len(limbs) < 3:
        limbs = np.concatenate([limbs, np.zeros((3 - len(limbs), limbs.shape[1]), np.int64)])
    total = _carried(limbs.astype(np.int64))
    negative = total[-1] < 0
    total = _carried(np.where(negative, -total, total))
    output = np.arange(total.shape[1])
    used = total != 0
    highest = np.maximum(len(total) - 1 - np.argmax(used[::-1], axis=0), 2)
    highest[~used.any(axis=0)] = 2
    below = np.cumsum(used, axis=0)[highest, output] - sum(used[highest - i, output].astype(np.int64) for i in range(3))
    high, middle, low = (total[highest - i, output].astype(np.uint64) for i in range(3))
    length = np.frexp(high.astype(np.float64))[1].astype(np.int64)  # bits of the highest limb
    rest = middle << np.uint64(_LIMB) | low
    dropped = (1 + length).astype(np.uint64)
    lost = (rest & ((np.uint64(1) << dropped) - np.uint64(1)) > 0) | (below > 0)
    # 63 bits; what lies below them only matters as "not zero", and goes into the last one.
    magnitude = high << (63 - length).astype(np.uint64) | rest >> dropped | lost.astype(np.uint64)
    return encode_integer(negative, magnitude, lowest + _LIMB * (highest - 2) + 1 + length, element)


def _carried(limbs: Integers) -> Integers:
    """Limbs [limb, output], in place: each but the last brought into 0 .. 2^32 - 1."""
    for i in range(len(limbs) - 1):
        limbs[i + 1] += limbs[i] >> _LIMB
        limbs[i] &= _MASK
    return limbs
