"""Converts between bit patterns of floating-point types and numbers: decoding, rounding and distances for every float
type, in our own integer arithmetic.

A decoded element is a float64 `value`, which holds every finite element of these types (and every product of two)
exactly, together with the `exponent` that the tensor core sees: that of the leading digit's place, the smallest normal
exponent for a subnormal element, whose significand is not normalised. Infinities and NaN are those of float64, so that
its rules (infinity times zero, infinities of both signs, NaN spreads) are applied by the arithmetic itself. Source: PTX
ISA 9.0, 5.2.3; IEEE 754-2019, 3.4; H100 measurements, November 2026.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from isa.errors import IsaError
from isa.types import ELEMENT_TYPES, Bits, ElementType, Kind

Reals = NDArray[np.float64]
Exponents = NDArray[np.int16]
Integers = NDArray[np.int64]

F16, F32 = ELEMENT_TYPES["f16"], ELEMENT_TYPES["f32"]

NO_EXPONENT = -4096
"""Exponent of zeros, infinities and NaN: below every other one, also after adding another exponent to it."""

_FARTHEST = (1 << 63) - 1
_LOWEST_POWER = -1022
_POWERS: Reals = np.ldexp(1.0, np.arange(_LOWEST_POWER, 1024))


@dataclass(frozen=True, slots=True)
class Decoded:
    """Elements, or products of two elements.

    Attributes:
        value: float64, any shape, exact.
        exponent: int16, same shape; of a product the sum of both exponents, not normalised; `NO_EXPONENT` (or less)
            without one.
    """

    value: Reals
    exponent: Exponents


@dataclass(frozen=True, slots=True)
class _Heads:
    """What the sign and exponent field (as one index) determine: the hidden bit, the signed power of two of the last
    place, and the exponent."""

    hidden: NDArray[np.uint32]
    place: Reals
    exponent: Exponents


def powers(exponents: NDArray[np.integer]) -> Reals:
    """2 ** exponents as float64, exact for -1022 .. 1023."""
    values: Reals = _POWERS[exponents - _LOWEST_POWER]
    return values


def canonical_nan(element: ElementType) -> int:
    """The only NaN that a tensor core writes: 0x7FFFFFFF for f32, 0x7FFF for f16 (measured on H100, November 2026)."""
    return element.mask >> 1


def infinity(element: ElementType) -> int:
    """Pattern of plus infinity."""
    return ((1 << element.exponent) - 1) << element.fraction


@cache
def _heads(element: ElementType) -> _Heads:
    index = np.arange(2 << element.exponent)
    field = index & ((1 << element.exponent) - 1)
    lowest = (
        1 if element.fraction else 0
    )  # without a fraction (ue8m0) there are no subnormals: every pattern is a power of two
    exponent = np.maximum(field, lowest) - element.bias
    sign = np.where(index >> element.exponent, -1.0, 1.0)
    hidden = np.where(field >= lowest, 1 << element.fraction, 0).astype(np.uint32)
    return _Heads(hidden, sign * powers(exponent - element.fraction), exponent.astype(np.int16))


def _decode_fields(patterns: Bits, element: ElementType) -> Decoded:
    """Decodes by cutting patterns into fields. Padding is dropped before anything else is looked at (tf32: measured on
    H100)."""
    heads = _heads(element)
    kept = patterns >> np.uint32(element.padding)
    if not element.signed:
        kept = kept & np.uint32(element.read >> element.padding)
    head = (kept >> np.uint32(element.fraction)) & np.uint32((2 << element.exponent) - 1)
    fraction = kept & np.uint32((1 << element.fraction) - 1)
    significand = fraction | heads.hidden[head]
    value = significand * heads.place[head]
    exponent = np.where(significand == 0, np.int16(NO_EXPONENT), heads.exponent[head])
    all_ones = np.uint32((1 << element.exponent) - 1)
    top = (head & all_ones) == all_ones if element.nan else np.zeros(head.shape, np.bool_)
    if top.any():
        if element.finite_top:
            special = top & (fraction == np.uint32((1 << element.fraction) - 1))
            value = np.where(special, np.nan, value)
        else:
            special = top
            infinite = (fraction == 0) & element.infinity
            value = np.where(special, np.where(infinite, np.copysign(np.inf, value), np.nan), value)
        exponent = np.where(special, np.int16(NO_EXPONENT), exponent)
    return Decoded(value, exponent)


@cache
def _table(element: ElementType, through: ElementType | None) -> Decoded:
    patterns = np.arange(1 << element.bits, dtype=np.uint32)
    decoded = _decode_fields(patterns, element)
    if through is None:
        return decoded
    converted = encode(decoded.value, through, nearest=True)
    again = _decode_fields(converted, through)
    assert np.array_equal(again.value, decoded.value, equal_nan=True), f"{element} does not fit into {through}"
    return again


def decode(patterns: Bits, element: ElementType, through: ElementType | None = None) -> Decoded:
    """Patterns of a float type, uint32 of any shape, to numbers of the same shape.

    Args:
        patterns: bits above the element's width must be zero.
        element: how to read them.
        through: a wider type that the elements are converted to first; its exponents are returned (an e4m3 subnormal is
            a normal f16).
    """
    if element.bits > 16:
        return _decode_fields(patterns, element)
    table = _table(element, through)
    index = patterns.astype(np.intp)
    return Decoded(table.value.take(index, mode="clip"), table.exponent.take(index, mode="clip"))


def encode(value: Reals, element: ElementType, *, nearest: bool, fraction: int | None = None) -> Bits:
    """Round numbers once and return patterns of `element` (f16, f32), uint32 of the same shape.

    Args:
        value: float64; exact products of a significand below 2^53 and a power of two, magnitudes of 0 or 2^-1000 ..
            2^1000, or not finite.
        element: the destination.
        nearest: to nearest, ties to even; otherwise toward zero. Overflow gives infinity either way, as on the chip.
        fraction: fraction bits kept, the rest of the pattern is zero (default all).

    A zero result is +0 whatever the sign (measured on H100, f32 and f16); NaN is canonical.
    """
    full = element.fraction
    kept = full if fraction is None else fraction
    finite = np.isfinite(value)
    all_finite = bool(finite.all())
    number = value if all_finite else np.where(finite, value, 0.0)
    lowest = 1 - element.bias
    field = (
        number.view(np.int64) >> 52
    ) & 0x7FF  # of the float64; 0 for zero, which the next line lifts to the smallest normal exponent
    exponent = np.maximum(field - 1023, lowest)
    scaled = np.abs(number) * powers(kept - exponent)  # exact: a power of two, far from float64's limits
    digits = (np.rint(scaled) if nearest else np.trunc(scaled)).astype(
        np.int64
    )  # below or at 2^(kept + 1); rint rounds ties to even
    # Normal: (field << full) + digits without the hidden one = ((field - 1) << full) + digits. Subnormal: field 1
    # above, hidden one absent.
    magnitude = np.minimum(((exponent - lowest) << full) + (digits << (full - kept)), infinity(element))
    sign = ((number < 0) & (magnitude > 0)).astype(np.int64) << (element.bits - 1)
    pattern = (sign | magnitude).astype(np.uint32)
    return pattern if all_finite else _patch_special(pattern, value, element)


def _patch_special(pattern: Bits, value: Reals, element: ElementType) -> Bits:
    signed = np.where(value < 0, infinity(element) | 1 << (element.bits - 1), infinity(element)).astype(np.uint32)
    pattern = np.where(np.isinf(value), signed, pattern)
    return np.where(np.isnan(value), np.uint32(canonical_nan(element)), pattern)


def encode_integer(
    negative: NDArray[np.bool_],
    magnitude: NDArray[np.uint64],
    place: Integers,
    element: ElementType,
    rounding: str = "rn",
) -> Bits:
    """(-1)^negative * magnitude * 2^place, rounded once (to nearest even, or as "rz", "rm", "rp" say): patterns of
    `element` (f16, f32, f64), uint32 (uint64 for f64) of the same shape.

    Args:
        negative: signs.
        magnitude: uint64 below 2^63; a set last bit may stand for any non-zero remainder below it if the magnitude has
            32 bits or more (for f64 60 or more), or is far below the smallest number of the type.
        place: exponent of the magnitude's last bit.

    A zero magnitude gives +0; a magnitude that rounds to zero keeps its sign, overflow gives infinity, or the largest
    number where the rounding goes toward zero (IEEE 754-2019, 4.3.1, 6.3 and 7.4).
    """
    high = magnitude >> np.uint64(32)
    leading = np.where(high > 0, high, magnitude).astype(np.float64)  # below 2^32: exact
    length = np.where(high > 0, 32, 0) + ((leading.view(np.int64) >> 52) & 0x7FF) - 1022  # bit length; irrelevant for 0
    lowest = 1 - element.bias
    exponent = np.maximum(length - 1 + place, lowest)
    drop = exponent - element.fraction - place
    right, left = np.clip(drop, 0, 63).astype(np.uint64), np.clip(-drop, 0, 63).astype(np.uint64)
    one = np.uint64(1)
    digits = (magnitude >> right) << left
    rest = magnitude & ((one << right) - one)
    half = (one << right) >> one  # 0 where nothing is dropped
    if rounding == "rn":
        up = (rest > half) | ((rest == half) & (half > 0) & (digits & one > 0))
        digits = np.where(drop > 63, np.uint64(0), digits + up)  # 64 dropped bits: less than half of the last place
        beyond = np.full(digits.shape, infinity(element), np.int64)
    else:
        away = np.zeros(digits.shape, np.bool_) if rounding == "rz" else negative == (rounding == "rm")
        digits = np.where(drop > 63, np.uint64(0), digits) + (away & ((rest > 0) | (drop > 63)))
        beyond = np.where(away, infinity(element), infinity(element) - 1)
    pattern = np.minimum(((exponent - lowest) << element.fraction) + digits.astype(np.int64), beyond)
    pattern = np.where(exponent > element.bias, beyond, pattern)
    pattern = np.where(magnitude == 0, 0, pattern | (negative.astype(np.int64) << (element.bits - 1)))
    return pattern.astype(np.uint64 if element.bits == 64 else np.uint32)


def ulp_distance(x: Bits, y: Bits, element: ElementType) -> Integers:
    """How many representable numbers apart two arrays of patterns are, int64 of their (broadcast) shape.

    Floats: -0 equals +0, infinity is the number after the largest finite one, two NaN are 0 apart, and NaN is 2^bits -
    1 (more than any two numbers) from everything else; of f64 the largest distance is 2^63 - 1. Integers: the absolute
    difference.
    """
    if not element.is_float:
        apart: Integers = np.abs(integers(x, element) - integers(y, element))
        return apart
    rank_x, rank_y = _rank(x, element), _rank(y, element)
    distance = np.abs(rank_x - rank_y)
    if element.bits == 64:  # of both signs: more than int64 holds
        distance = np.where(np.abs(rank_x.astype(np.float64) - rank_y) >= _FARTHEST, _FARTHEST, distance)
    nan_x, nan_y = (is_nan(patterns, element) for patterns in (x, y))
    return np.where(nan_x | nan_y, np.where(nan_x & nan_y, 0, min(element.mask, _FARTHEST)), distance)


def is_nan(patterns: Bits, element: ElementType) -> NDArray[np.bool_]:
    """Which patterns of a float type are NaN."""
    if element.bits == 64:
        return np.isnan(np.ascontiguousarray(patterns, np.uint64).view(np.float64))
    return np.isnan(decode(np.asarray(patterns, np.uint32), element).value)


def _rank(patterns: Bits, element: ElementType) -> Integers:
    """Consecutive numbers for consecutive floats, 0 for both zeros."""
    wide: Integers = np.asarray(patterns).astype(np.int64) >> element.padding
    sign = 1 << (element.exponent + element.fraction)
    magnitude: Integers = wide & (sign - 1)
    negative = wide < 0 if element.bits == 64 else wide & sign
    return np.where(negative, -magnitude, magnitude)


def integers(patterns: Bits, element: ElementType) -> Integers:
    """Patterns of an integer type, uint32 of any shape, to int64 numbers of the same shape."""
    if element.is_float:
        raise IsaError(
            element.name,
            -1,
            f"'{element.name}' is not an integer type",
            ", ".join(n for n, t in ELEMENT_TYPES.items() if not t.is_float),
        )
    wide: Integers = np.asarray(patterns).astype(np.int64) & element.mask
    if element.kind is Kind.UNSIGNED:
        return wide
    half = 1 << (element.bits - 1)
    signed: Integers = (wide ^ half) - half
    return signed
