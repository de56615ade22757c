"""The approximate functions of f32, bit for bit as a Hopper chip gives them: reciprocal, square roots, power of two and
logarithm, sine and cosine, hyperbolic tangent.

Each brings its argument to an index of the `interpolation` of its function, and the result to its place: signs,
exponents, and special values are here. Rules and coefficients were found from all results for one or two binades of
arguments (of tanh for all) and hold for 400,000 arguments of all sizes on an H100 (`measurements/functions.py`,
November 2026). That other chips have the same is assumed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.arithmetic.interpolation import UNIT, Reals, Whole, interpolated, truncated

Words = NDArray[np.uint32]
NAN = np.uint32(0x7FFFFFFF)
_FRACTION = 23  # bits of a significand behind the point
_ONES = (1 << _FRACTION) - 1
_ONE = 1 << UNIT


def _parts(x: Reals) -> tuple[Whole, Whole]:
    """The 23 bits behind the point of the significand of finite numbers that are not 0, and the exponent; 0 of
    others."""
    plain = np.where(np.isfinite(x) & (x != 0), np.abs(x), 1.0)
    half, exponent = np.frexp(plain)
    return ((2 * half - 1) * 2.0**_FRACTION).astype(np.int64), exponent.astype(np.int64) - 1


def _words(values: Reals) -> Words:
    """The patterns of values that are rounded to f32."""
    single = values.astype(np.float32)
    return np.where(np.isnan(single), NAN, single.view(np.uint32))


def reciprocal(x: Reals) -> Words:
    """rcp.approx.f32 of the values of f32 numbers, as patterns; any shape."""
    with np.errstate(all="ignore"):
        return _words(np.where(np.isfinite(x) & (x != 0), inverse(x, 24), 1 / x))


def inverse(x: Reals, bits: int) -> Reals:
    """The reciprocal of finite numbers that are not 0, to so many significant bits."""
    fraction, exponent = _parts(x)
    return np.copysign(np.ldexp(truncated(interpolated("rcp", fraction), bits), -exponent), x)


def root(x: Reals) -> Words:
    """sqrt.approx.f32."""
    with np.errstate(all="ignore"):
        return _words(np.where(np.isfinite(x) & (x > 0), _root("sqrt", x, 24), np.sqrt(x)))


def reciprocal_root(x: Reals) -> Words:
    """rsqrt.approx.f32."""
    with np.errstate(all="ignore"):
        return _words(np.where(np.isfinite(x) & (x > 0), inverse_root(x, 24), 1 / np.sqrt(x)))


def inverse_root(x: Reals, bits: int) -> Reals:
    """The reciprocal of the square root of finite positive numbers, to so many significant bits."""
    return _root("rsqrt", x, bits)


def _root(name: str, x: Reals, bits: int) -> Reals:
    """Two tables: one for numbers with an even exponent, one for twice as large ones. The inverse root of a power of
    four is exact."""
    fraction, exponent = _parts(x)
    odd = exponent & 1
    units = np.where(odd, interpolated(f"{name}_odd", fraction), interpolated(name, fraction))
    if name == "rsqrt":
        units = np.where((fraction == 0) & (odd == 0), _ONE, units)
    found: Reals = np.ldexp(truncated(units, bits), (1 if name == "sqrt" else -1) * (exponent - odd) // 2)
    return found


def power_of_two(x: Reals) -> Words:
    """ex2.approx.f32. Below -126 ptxas takes the square of the power of half the argument, so that the result may be
    subnormal; `.ftz` gives 0 there."""
    small = x < -126
    found = _power(np.where(small, x / 2, x))
    with np.errstate(all="ignore"):
        return _words(np.where(small, found * found, found))


def _power(x: Reals) -> Reals:
    """2^x of numbers from about -150 to 128: of the magnitude, 23 bits behind the point count; the part of a negative
    number is turned bit by bit, unless it is 0."""
    size = np.floor(np.minimum(np.abs(np.where(np.isnan(x), 0, x)), 512.0) * 2.0**_FRACTION).astype(np.int64)
    whole, part = size >> _FRACTION, size & _ONES
    turned = np.signbit(x) & (part != 0)
    exponent = np.where(np.signbit(x), -whole, whole) - turned
    found = np.ldexp(truncated(interpolated("ex2", np.where(turned, _ONES - part, part))), exponent)
    return np.where(np.isnan(x), x, found)


def logarithm(x: Reals) -> Words:
    """lg2.approx.f32. ptxas multiplies a subnormal number by 2^24 and subtracts 24 afterwards; `.ftz` gives -inf."""
    small = (np.abs(x) < 2.0**-126) & (x != 0)
    fraction, exponent = _parts(np.where(small, x * 2.0**24, x))
    whole = (exponent << UNIT) + np.where((fraction == 0) & (exponent == 0), 0, interpolated("lg2", fraction))
    part = UNIT - 36  # bits below 2^-36 are dropped
    found = np.where(whole < 0, -1, 1) * truncated(np.abs(whole) >> part << part)
    found = np.where(small, found - 24, found)
    with np.errstate(all="ignore"):
        return _words(np.where(np.isfinite(x) & (x > 0), found, np.log2(x)))


_PER_TURN = float(np.uint32(0x3E22F983).view(np.float32))  # 1 / (2 pi) as f32
_TURN = 25  # bits of a part of a turn; the first two are the quadrant


def sine(x: Reals) -> Words:
    """sin.approx.f32."""
    return _wave(x, 0)


def cosine(x: Reals) -> Words:
    """cos.approx.f32."""
    return _wave(x, 1)


def _wave(angle: Reals, ahead: int) -> Words:
    """The sine so many quadrants ahead. ptxas writes a product with 1 / (2 pi), rounded toward zero, in front of the
    instruction, which takes 25 bits of a turn; in odd quadrants their lower 23 are turned bit by bit."""
    finite = np.where(np.isfinite(angle), np.abs(angle), 0.0)
    half, exponent = np.frexp(finite * _PER_TURN)
    turns = np.ldexp(np.trunc(np.ldexp(half, 24)), exponent - 24)
    steps = np.floor(np.ldexp(turns - np.floor(turns), _TURN)).astype(np.int64)
    quadrant, part = (steps >> _FRACTION) + ahead, steps & _ONES
    size = truncated(interpolated("sin", np.where(quadrant & 1, _ONES - part, part)))
    negative = (quadrant & 2 != 0) ^ (np.signbit(angle) & (ahead == 0))
    return _words(np.where(np.isfinite(angle), np.where(negative, -size, size), np.nan))


# Of the exponent of a number, from -8: how many segments its binade has in the table of tanh, as a power of two
_BINADES = np.array([0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 3])
_BEGINS = np.concatenate([[0], np.cumsum(1 << _BINADES)[:-1]])


def hyperbolic_tangent(x: Reals) -> Words:
    """tanh.approx.f32: of a number below 2^-8 itself, from 8 on 1."""
    fraction, exponent = _parts(x)
    binade = np.clip(exponent + 8, 0, len(_BINADES) - 1)
    index = (_BEGINS[binade] << 17) + (fraction >> 6 - _BINADES[binade])
    size = np.where(np.abs(x) < 2.0**-8, np.abs(x), truncated(interpolated("tanh", index)))
    size = np.where(np.abs(x) >= 8, 1.0, size)
    return _words(np.where(np.isnan(x), x, np.copysign(size, x)))


def quotient(a: Reals, b: Reals, full: bool) -> Words:
    """div.full.f32 and div.approx.f32: a times the reciprocal of b, both scaled where b is subnormal, or, in full
    range, above 2^126; without that the reciprocal of such a b is 0."""
    size = np.abs(b)
    large = (size > 2.0**126) & np.isfinite(b)
    scale = np.where(large & full, 0.25, np.where((size < 2.0**-126) & (size > 0), 2.0**24, 1.0))
    with np.errstate(all="ignore"):
        over = reciprocal(b * scale).view(np.float32).astype(np.float64)
        over = over if full else np.where(large, np.copysign(0.0, b), over)
        return _words((a * scale).astype(np.float32).astype(np.float64) * over)
