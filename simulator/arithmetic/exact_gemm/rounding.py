"""Adds float64 terms exactly and rounds the sum once: the part of `exact_gemm` that decides the bits of the result.

Two ways to know a rounded result. An interval that holds the exact value: rounding is monotonic, so if both ends round
to the same pattern, so does the value. Or the exact value itself, as digits: float64 terms are cut at common places by
adding and subtracting a large number (error-free splitting; Rump, Ogita, Oishi 2008), digits of equal place add without
rounding, and what rounding needs of them is a leading float64 and the sign of the rest (rounding to odd; Boldo,
Melquiond 2008).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isa.errors import IsaError
from simulator.arithmetic.formats import Integers, Reals

Mask = NDArray[np.bool_]
Values = NDArray[np.floating]

_EXPONENT_FIELD = np.int64(0x7FF << 52)
_CENTRE = (
    1.5 * 2.0**52
)  # times a power of two g: numbers below 2^51 * g that are added to it are rounded to multiples of g


@dataclass(frozen=True, slots=True)
class Result:
    """A type to round to.

    Attributes:
        name: "f32", "f16", "bf16" or "f64".
        dtype: of the values returned; float32 for bf16.
        bits: unsigned type of the same width as `dtype`.
        fraction: stored fraction bits.
        lowest: exponent of the smallest normal number.
        nan: canonical NaN, as a pattern of `dtype`: all bits set but the sign and, of a bf16 in a float32, the half
            below.
    """

    name: str
    dtype: type[np.floating]
    bits: type[np.unsignedinteger]
    fraction: int
    lowest: int
    nan: int

    def quiet_nan(self) -> np.floating:
        """The canonical NaN as a value."""
        value: np.floating = self.bits(self.nan).view(self.dtype)
        return value


RESULTS: dict[str, Result] = {
    r.name: r
    for r in (
        Result("f32", np.float32, np.uint32, 23, -126, 0x7FFFFFFF),
        Result("f16", np.float16, np.uint16, 10, -14, 0x7FFF),
        Result("bf16", np.float32, np.uint32, 7, -126, 0x7FFF0000),
        Result("f64", np.float64, np.uint64, 52, -1022, 0x7FFFFFFFFFFFFFFF),
    )
}


def result_type(name: str) -> Result:
    """The result of that name; raises IsaError with the known ones if there is none."""
    if name not in RESULTS:
        raise IsaError(str(name), -1, f"unknown type of result {name!r}", ", ".join(RESULTS))
    return RESULTS[name]


def powers_below(x: Reals) -> Reals:
    """The largest power of two that is not above |x|, any shape; 0 for 0."""
    powers: Reals = (x.view(np.int64) & _EXPONENT_FIELD).view(np.float64)
    return powers


def nearest(x: Reals, result: Result) -> Values:
    """Finite numbers, any shape, rounded to nearest even: overflow gives infinity, and zero keeps its sign."""
    if result.name == "f64":
        return x
    with np.errstate(over="ignore", under="ignore"):
        if result.name == "f32":
            return x.astype(np.float32)
        centre = np.maximum(powers_below(x), 2.0**result.lowest) * (_CENTRE * 2.0**-result.fraction)
        rounded = (
            x + centre
        ) - centre  # to a multiple of the last place; centre is an even number of places, so that ties go to even
        return np.copysign(rounded, x).astype(
            result.dtype
        )  # exact, or overflow: rounding up across it makes a power of two


def to_odd(x: Reals, rest: Reals) -> Reals:
    """x + rest with |rest| < ulp(x), rounded to odd: x where nothing is left, else of x and its neighbour on that side
    the one with an odd last bit.

    Rounding that to a type of at most 51 bits gives what rounding the exact x + rest gives.
    """
    bits = x.view(np.int64)
    away = np.where((rest > 0) == (x > 0), np.int64(1), np.int64(-1))
    move = (rest != 0) & (bits & 1 == 0)
    rounded: Reals = (bits + np.where(move, away, np.int64(0))).view(np.float64)
    return rounded


def two_sum(a: Reals, b: Reals) -> tuple[Reals, Reals]:
    """The rounded sum of any a and b and its exact error (Knuth)."""
    total = a + b
    seen = total - a
    return total, (a - (total - seen)) + (b - seen)


def settle(low: Reals, high: Reals, result: Result) -> tuple[Values, Mask]:
    """Rounds intervals: the rounded values, and where both ends round to the same pattern, sign of zero included."""
    rounded = nearest(low, result)
    other = rounded if low is high else nearest(high, result)
    return rounded, rounded.view(result.bits) == other.view(result.bits)


def sum_exactly(terms: Reals, error: Reals | float, result: Result) -> tuple[Values, Mask]:
    """Terms [term, sum], below 2^600 and multiples of 2^-600 -> each sum rounded once [sum], and where that is certain
    [sum].

    Args:
        terms: destroyed.
        error: how far each sum may be from what is wanted [sum], or for all; where it is 0 the result is certain.
        result: what to round to.

    Each round takes from every term its part above a place g of its sum (Rump, Ogita, Oishi, 2008). With n terms of at
    most m, n < 2^M and m < 2^(k - M), adding and subtracting 1.5 * 2^k rounds to multiples of g = 2^(k - 52): at most g
    / 2 remains of a term, and the parts, their partial sums in any order included, are multiples of g of at most 2^k =
    2^52 g, so they add without rounding.
    """
    count, sums = terms.shape
    values, certain = np.zeros(sums, result.dtype), np.zeros(sums, np.bool_)
    index: Integers = np.arange(sums)
    error = np.broadcast_to(np.asarray(error, np.float64), sums)
    growth = 2.0 ** (count.bit_length() + 1)
    digits: list[Reals] = []
    places: list[Reals] = []
    largest = _largest(terms)
    while len(index):
        whole = powers_below(largest) * growth  # 2^k; 0 where no terms are left, which changes nothing
        centre = 1.5 * whole
        part = terms + centre
        part -= centre
        terms -= part
        digits.append(np.add.reduce(part, axis=0))
        places.append(whole * 2.0**-52)
        largest = _largest(terms)
        rounded, sure = _round_digits(digits, places, error + count * largest, result)
        done = sure | (largest == 0)
        values[index[done]], certain[index[done]] = rounded[done], sure[done]
        if done.any():
            kept = np.flatnonzero(~done)
            terms = terms.T[kept].T  # in memory, terms of a sum are often neighbours
            index, error, largest = index[kept], error[kept], largest[kept]
            digits, places = [x[kept] for x in digits], [x[kept] for x in places]
    return values, certain


def _largest(terms: Reals) -> Reals:
    """Largest magnitude of each sum's terms."""
    magnitudes: Reals = np.maximum(terms.max(axis=0, initial=0.0), -terms.min(axis=0, initial=0.0))
    return magnitudes


def _round_digits(digits: list[Reals], places: list[Reals], error: Reals, result: Result) -> tuple[Values, Mask]:
    first, second, third = _leading(digits, places)
    exact = error == 0
    if result.name == "f64":
        value = first + to_odd(second, third)
        margin: Reals | float = 0.0
    else:
        value = to_odd(first, second)
        margin = (
            np.abs(first) + np.abs(second) + error
        ) * 2.0**-51  # more than float64 loses below, so that the ends enclose the value
    if exact.all():
        return settle(value, value, result)
    around = (
        error * (1 + 2.0**-40) + np.abs(second) * 2.0**-50
    )  # with the third part, and the rounding of second -+ around
    low, high = first + (second - around) - margin, first + (second + around) + margin
    return settle(np.where(exact, value, low), np.where(exact, value, high), result)


def _leading(digits: list[Reals], places: list[Reals]) -> tuple[Reals, Reals, Reals]:
    """Sums of digits as three numbers, first >> second >> third, of which the third only has the sign of what the
    others leave.

    Digit t is a multiple of places[t], of at most 2^52 of them; a place is at most half of the one before, or 0 after
    the last digit of a sum.

    Upwards, the part of each digit above half a place of the one before is carried into it: from then on, all that
    follows digit t is below 0.6 places[t], so it has no say in signs of multiples of places[t]. Downwards, digits are
    added to the first number while that is exact, and from the first error on to the second, the error itself, then to
    its error. FastTwoSum is exact each time: the number is 0 or, a multiple of the place before, larger than the digit.
    The first is at most half its last place from the exact sum, or hardly more.
    """
    digits = list(digits)
    for t in range(len(digits) - 1, 0, -1):
        centre = _CENTRE * places[t - 1]
        carry = (digits[t] + centre) - centre
        digits[t] = digits[t] - carry
        digits[t - 1] = digits[t - 1] + carry
    first = digits[0]
    second = third = np.zeros_like(first)
    for digit in digits[1:]:
        onto_first, onto_second = second == 0, (second != 0) & (third == 0)
        base = np.where(onto_first, first, second)
        total = base + digit
        left = digit - (total - base)
        first = np.where(onto_first, total, first)
        second = np.where(onto_first, left, np.where(onto_second, total, second))
        third = np.where(onto_second, left, third)
    return first, second, third
