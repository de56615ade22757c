"""The approximate reciprocal, square roots and power of two of f32, bit for bit as a Hopper chip gives them.

What the instruction returns depends on the significand of its argument alone (and on whether its exponent is odd, or on
its sign), so a table of all 2^23 or 2^24 cases says everything. The tables hold how many units in the last place the
chip's result lies from the nearest number, two bits each; they were measured on an H200 in November 2026
(`tests/hardware/functions.py`), and 131,072 further arguments of all sizes gave the chip's bits. That other chips have
the same tables is assumed.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]
Reals = NDArray[np.float64]
NAN = np.uint32(0x7FFFFFFF)
_TABLES = Path(__file__).parent / "tables"
_FRACTION = 23  # bits of a significand behind the point
_ONES = (1 << _FRACTION) - 1


@lru_cache(maxsize=8)
def _packed(name: str) -> NDArray[np.uint8]:
    """The distances of a table, four in a byte, the first in the lowest bits: 0 to 3 for -2 to 1."""
    import lzma  # here: some Pythons, Pyodide's for example, have it as a package of its own

    return np.frombuffer(lzma.decompress((_TABLES / f"{name}.xz").read_bytes()), np.uint8)


def _moved(name: str, index: NDArray[np.int64], nearest: Reals) -> Reals:
    """The chip's results from the nearest numbers, for these entries of a table."""
    distance = (_packed(name)[index >> 2] >> (2 * (index & 3)).astype(np.uint8)) & 3
    words = nearest.astype(np.float32).view(np.uint32).astype(np.int64) + distance.astype(np.int64) - 2
    found: Reals = words.astype(np.uint32).view(np.float32).astype(np.float64)
    return found


def _parts(x: Reals) -> tuple[Reals, NDArray[np.int64]]:
    """Significand in [1, 2) and exponent of finite numbers that are not 0; 1 and 0 of others."""
    plain = np.where(np.isfinite(x) & (x != 0), np.abs(x), 1.0)
    half, exponent = np.frexp(plain)
    return 2 * half, exponent.astype(np.int64) - 1


def _index(significand: Reals) -> NDArray[np.int64]:
    return ((significand - 1) * 2.0**_FRACTION).astype(np.int64)


def _words(values: Reals) -> Words:
    """The patterns of values that are rounded to f32."""
    single = values.astype(np.float32)
    return np.where(np.isnan(single), NAN, single.view(np.uint32))


def reciprocal(x: Reals) -> Words:
    """rcp.approx.f32 of the values of f32 numbers, as patterns; any shape."""
    significand, exponent = _parts(x)
    found = np.ldexp(_moved("rcp", _index(significand), 1 / significand), -exponent)
    with np.errstate(all="ignore"):
        return _words(np.where(np.isfinite(x) & (x != 0), np.copysign(found, x), 1 / x))


def _root(name: str, x: Reals, sign: int) -> Words:
    significand, exponent = _parts(x)
    odd = exponent & 1
    argument = np.ldexp(significand, odd)
    with np.errstate(all="ignore"):
        nearest, special = (np.sqrt(argument), np.sqrt(x)) if sign > 0 else (1 / np.sqrt(argument), 1 / np.sqrt(x))
    found = np.ldexp(_moved(name, odd << _FRACTION | _index(significand), nearest), sign * (exponent - odd) // 2)
    return _words(np.where(np.isfinite(x) & (x > 0), found, special))


def root(x: Reals) -> Words:
    """sqrt.approx.f32."""
    return _root("sqrt", x, 1)


def reciprocal_root(x: Reals) -> Words:
    """rsqrt.approx.f32."""
    return _root("rsqrt", x, -1)


def power_of_two(x: Reals) -> Words:
    """ex2.approx.f32. Below -126 ptxas takes the square of the power of half the argument, so that the result may be
    subnormal; `.ftz` gives 0 there."""
    small = x < -126
    found = _power(np.where(small, x / 2, x))
    with np.errstate(all="ignore"):
        return _words(np.where(small, found * found, found))


def _power(x: Reals) -> Reals:
    """2^x of numbers from about -150 to 128: of the magnitude, 23 bits behind the point count."""
    size = np.floor(np.minimum(np.abs(np.where(np.isnan(x), 0, x)), 512.0) * 2.0**_FRACTION).astype(np.int64)
    whole, part = size >> _FRACTION, size & _ONES
    argument = 1 + part / 2.0**_FRACTION
    upward = np.ldexp(_moved("ex2", part, np.exp2(argument)), whole - 1)
    downward = np.ldexp(_moved("ex2_negative", part, np.exp2(-argument)), 1 - whole)
    found: Reals = np.where(np.isnan(x), x, np.where(np.signbit(x), downward, upward))
    return found


def quotient(a: Reals, b: Reals, full: bool) -> Words:
    """div.full.f32 and div.approx.f32: a times the reciprocal of b, both scaled where b is subnormal, or, in full
    range, above 2^126; without that the reciprocal of such a b is 0."""
    size = np.abs(b)
    large = (size > 2.0**126) & np.isfinite(b)
    scale = np.where(large & full, 0.25, np.where((size < 2.0**-126) & (size > 0), 2.0**24, 1.0))
    with np.errstate(all="ignore"):
        inverse = reciprocal(b * scale).view(np.float32).astype(np.float64)
        inverse = inverse if full else np.where(large, np.copysign(0.0, b), inverse)
        return _words((a * scale).astype(np.float32).astype(np.float64) * inverse)
