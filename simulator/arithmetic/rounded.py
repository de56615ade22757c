"""Sums, products, quotients and roots of floating-point numbers, rounded once in any direction.

For numbers of up to 32 bits everything is done in float64: the result is rounded to odd there (of its two neighbours
the one whose last bit is 1, unless it is exact), and 53 bits are more than the 2 * 24 + 2 after which the second
rounding, to f32 or a narrower type, is right in every direction (Boldo and Melquiond 2008). For f64 significands are
integers of 128 bits, whose last bit stands for all that is below it.

Products and sums: IEEE 754-2019, 5.4.1; exact errors: Dekker 1971, Knuth (TAOCP 2, 4.2.2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.types import F64
from simulator.arithmetic.formats import Integers, Reals, encode_integer

Words = NDArray[np.uint64]
Flags = NDArray[np.bool_]
NAN64 = 0xFFF8000000000000  # what an invalid operation of f64 gives; see `nan_of`

_ONE = np.uint64(1)
_HIDDEN, _FRACTION = np.uint64(1 << 52), np.uint64((1 << 52) - 1)
_SIGN, _QUIET = np.uint64(1 << 63), np.uint64(1 << 51)
_SPLITTER = float((1 << 27) + 1)


# Rounded to odd in float64, for f32 and narrower types


def to_odd(nearest: Reals, error: Reals) -> Reals:
    """A number rounded to nearest and (the sign of) what was lost, as the number rounded to odd."""
    bits = nearest.view(np.int64)
    inexact = np.isfinite(nearest) & ((error > 0) | (error < 0)) & (bits & 1 == 0)
    away = (error > 0) == (nearest > 0)  # the exact number is larger in magnitude than the rounded one
    return np.where(inexact, bits + np.where(away, 1, -1), bits).view(np.float64)


def sum_to_odd(x: Reals, y: Reals) -> Reals:
    """x + y rounded to odd; neither is near the limits of float64."""
    total = x + y
    back = total - x
    return to_odd(total, (x - (total - back)) + (y - back))


def quotient_to_odd(x: Reals, y: Reals) -> Reals:
    """x / y rounded to odd, of numbers of f32: the remainder x - q * y is exact."""
    quotient = np.asarray(x / y)
    high, low = _split(quotient)
    remainder = (x - high * y) - low * y
    return to_odd(quotient, np.where(np.signbit(y), -remainder, remainder))


def root_to_odd(x: Reals) -> Reals:
    """The square root of numbers of f32, rounded to odd: the remainder x - r * r is exact."""
    root = np.sqrt(x)
    high, low = _split(root)
    return to_odd(root, ((x - high * high) - 2 * high * low) - low * low)


def _split(x: Reals) -> tuple[Reals, Reals]:
    """x as the sum of two numbers of at most 26 bits each (Veltkamp)."""
    scaled = x * _SPLITTER
    high = scaled - (scaled - x)
    return high, x - high


# f64


class _Number(NamedTuple):
    """A finite number (-1)^negative * significand * 2^place; the significand has 53 bits, or is 0."""

    negative: Flags
    significand: Words
    place: Integers


def _number(patterns: Words) -> _Number:
    """Patterns of f64 as numbers, subnormal ones normalised; infinities and NaN give anything."""
    field = ((patterns >> np.uint64(52)) & np.uint64(0x7FF)).astype(np.int64)
    fraction = patterns & _FRACTION
    significand = np.where(field > 0, fraction | _HIDDEN, fraction)
    place = np.maximum(field, 1) - 1075
    small = (field == 0) & (fraction > 0)
    if small.any():
        length = ((fraction.astype(np.float64).view(np.int64) >> 52) & 0x7FF) - 1022
        shift = np.where(small, 53 - length, 0)
        significand, place = significand << shift.astype(np.uint64), place - shift
    return _Number(patterns >= _SIGN, significand, place)


def fma64(a: Words, b: Words, c: Words, rounding: str = "rn") -> Words:
    """a * b + c of patterns of f64 (uint64 of any one shape), rounded once."""
    with np.errstate(all="ignore"):
        estimate = a.view(np.float64) * b.view(np.float64) + c.view(np.float64)
    finite = np.isfinite(a.view(np.float64)) & np.isfinite(b.view(np.float64)) & np.isfinite(c.view(np.float64))
    exact = _fma_finite(a, b, c, rounding)
    if finite.all():
        return exact
    special = np.where(np.isnan(estimate), nan_of(b, c, a), estimate.view(np.uint64))
    if np.isinf(c.view(np.float64)).any():  # a finite product may have overflowed in the estimate
        alone = np.isinf(c.view(np.float64)) & np.isfinite(a.view(np.float64)) & np.isfinite(b.view(np.float64))
        special = np.where(alone, c, special)
    return np.where(finite, exact, special)


def _fma_finite(a: Words, b: Words, c: Words, rounding: str) -> Words:
    x, y, z = _number(a), _number(b), _number(c)
    negative = x.negative ^ y.negative
    high, low = _product(x.significand, y.significand)
    place = x.place + y.place
    # Both terms with their last place at 2^-20 of that of the product, where 126 bits hold it: 106 + 20
    high, low = (high << np.uint64(20)) | (low >> np.uint64(44)), low << np.uint64(20)
    place = place - 20
    zero_product, zero_addend = (high | low) == 0, z.significand == 0
    other_high, other_low, other_place = z.significand << np.uint64(9), np.zeros_like(low), z.place - 73
    place = np.where(zero_product, other_place, place)
    other_place = np.where(zero_addend, place, other_place)
    top = np.maximum(place, other_place)
    high, low = _shift_right(high, low, top - place)
    other_high, other_low = _shift_right(other_high, other_low, top - other_place)
    same = negative == z.negative
    total_high, total_low = _add(high, low, other_high, other_low)
    less_high, less_low, borrowed = _subtract(high, low, other_high, other_low)
    high, low = np.where(same, total_high, less_high), np.where(same, total_low, less_low)
    sign = np.where(same, negative, negative ^ borrowed)
    empty = (high | low) == 0
    sign = np.where(empty, np.where(same, negative, rounding == "rm"), sign)
    magnitude, lifted = _squeeze(high, low)
    result = encode_integer(sign, magnitude, top + lifted, F64, rounding).astype(np.uint64)
    return np.where(empty, sign.astype(np.uint64) << np.uint64(63), result)


def _product(x: Words, y: Words) -> tuple[Words, Words]:
    """The product of two numbers below 2^53 as two words."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    x1, x0, y1, y0 = x >> half, x & mask, y >> half, y & mask
    low = x0 * y0
    middle = x1 * y0 + (low >> half)
    other = x0 * y1 + (middle & mask)
    return x1 * y1 + (middle >> half) + (other >> half), (other << half) | (low & mask)


def _shift_right(high: Words, low: Words, count: Integers) -> tuple[Words, Words]:
    """Two words shifted by 0 or more, whatever is lost kept as a set last bit."""
    far = np.minimum(count, 127).astype(np.uint64)
    words = far >= 64
    moved_high, moved_low = np.where(words, 0, high), np.where(words, high, low)
    lost = np.where(words, low, 0)
    bits = far & np.uint64(63)
    back = (np.uint64(64) - bits) & np.uint64(63)
    some = bits > 0
    lost = lost | np.where(some, moved_low << back, 0)
    low_result = np.where(some, (moved_low >> bits) | (moved_high << back), moved_low)
    return moved_high >> bits, low_result | (lost != 0)


def _add(high: Words, low: Words, other_high: Words, other_low: Words) -> tuple[Words, Words]:
    total = low + other_low
    return high + other_high + (total < low), total


def _subtract(high: Words, low: Words, other_high: Words, other_low: Words) -> tuple[Words, Words, Flags]:
    """The absolute difference of two numbers of two words, and whether the second is larger."""
    borrowed = (high < other_high) | ((high == other_high) & (low < other_low))
    difference, top = low - other_low, high - other_high - (low < other_low)
    negated = np.uint64(0) - difference
    return (
        np.where(borrowed, ~top + (difference == 0), top),
        np.where(borrowed, negated, difference),
        borrowed,
    )  # fmt: skip


def _squeeze(high: Words, low: Words) -> tuple[Words, Integers]:
    """Two words, the upper below 2^63, as 63 bits whose last stands for all that is cut, and the power of two of it."""
    empty = high == 0
    upper, lower = np.where(empty, low >> _ONE, high), np.where(empty, low << np.uint64(63), low)
    place = np.where(empty, 1, 64)
    length = _bit_length(upper)
    shift = np.where(upper > 0, 63 - length, 0).astype(np.uint64)
    back = (np.uint64(64) - shift) & np.uint64(63)
    moved = (upper << shift) | np.where(shift > 0, lower >> back, 0)
    rest = lower << shift
    return moved | (rest != 0), place - shift.astype(np.int64)


def _bit_length(word: Words) -> Integers:
    """The number of bits of words below 2^63; of 0 anything."""
    high = word >> np.uint64(32)
    leading = np.where(high > 0, high, word).astype(np.float64)
    length: Integers = np.where(high > 0, 32, 0) + ((leading.view(np.int64) >> 52) & 0x7FF) - 1022
    return length


def quotient64(a: Words, b: Words, rounding: str = "rn") -> Words:
    """a / b of patterns of f64, rounded once."""
    x, y = _number(a), _number(b)
    values = a.view(np.float64), b.view(np.float64)
    usual = np.isfinite(values[0]) & np.isfinite(values[1]) & (values[0] != 0) & (values[1] != 0)
    numerator, denominator = (np.where(usual, n.significand, _HIDDEN).astype(np.float64) for n in (x, y))
    quotient = numerator / denominator  # between 1/2 and 2
    high, low = _split(quotient)
    above, below = _split(denominator)
    remainder = ((numerator - high * above) - high * below - low * above) - low * below
    result = _from_estimate(quotient, remainder, x.negative ^ y.negative, x.place - y.place, rounding)
    with np.errstate(all="ignore"):
        special = np.asarray(values[0] / values[1])
    return np.where(usual, result, np.where(np.isnan(special), nan_of(b, a), special.view(np.uint64)))


def root64(a: Words, rounding: str = "rn") -> Words:
    """The square root of patterns of f64, rounded once."""
    x, value = _number(a), a.view(np.float64)
    usual = np.isfinite(value) & (value > 0)
    odd = (x.place & 1) == 1
    radicand = np.where(usual, x.significand, _HIDDEN).astype(np.float64) * np.where(odd, 2.0, 1.0)
    root = np.sqrt(radicand)
    high, low = _split(root)
    remainder = ((radicand - high * high) - 2 * high * low) - low * low
    place = (x.place - odd) >> 1
    result = _from_estimate(root, remainder, np.zeros(a.shape, np.bool_), place, rounding)
    with np.errstate(all="ignore"):
        special = np.sqrt(value)
    return np.where(usual, result, np.where(np.isnan(special), nan_of(a), special.view(np.uint64)))


def _from_estimate(nearest: Reals, remainder: Reals, negative: Flags, place: Integers, rounding: str) -> Words:
    """The number next to `nearest` on the side that the sign of the remainder says, times 2^place, rounded."""
    bits = nearest.view(np.uint64)
    significand = ((bits & _FRACTION) | _HIDDEN) << np.uint64(10)
    magnitude = (significand.astype(np.int64) + np.sign(remainder).astype(np.int64)).astype(np.uint64)
    exponent = ((bits >> np.uint64(52)) & np.uint64(0x7FF)).astype(np.int64) - 1075 - 10
    return encode_integer(negative, magnitude, place + exponent, F64, rounding).astype(np.uint64)


def nan_of(*operands: Words) -> Words:
    """What f64 gives for NaN: the first NaN among these operands, made quiet, or the NaN of an invalid operation.
    Measured on an H100, November 2026: of two, that of the second factor or summand."""
    result = np.full(operands[0].shape, NAN64, np.uint64)
    for operand in reversed(operands):
        result = np.where(np.isnan(operand.view(np.float64)), operand | _QUIET, result)
    return result
