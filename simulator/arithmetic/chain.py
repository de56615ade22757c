"""The two matrix instructions that are computed by a chain of ordinary multiply-adds instead of a tensor core's fused
sum: f64, and m8n8k4 of f16.

f64: acc = C, then acc = fma(a, b, acc) over ascending k, each rounded once; NaN keep sign and payload. m8n8k4 of f16 on
sm_80 and later: a routine of f32 multiply-adds. Both: measured on an NVIDIA H100 80GB, November 2026
(measurements/README.md); code that ptxas 13.0 emits.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits, ElementType
from simulator.arithmetic.formats import canonical_nan

Reals = NDArray[np.float64]
Words = NDArray[np.uint64]

ROUNDINGS = ("rn", "rz", "rm", "rp")
"""To nearest even (what an opcode without a rounding means), toward zero, down, up. PTX ISA 9.0, 5.2.3 and
9.7.14.5.14."""

_SPLITTER = 134217729.0  # 2^27 + 1 (Dekker 1971)
_SAFE = 450  # exponents of A and B; products and C then stay within 2^900, and their low parts above 2^-1010
_QUIET = np.uint64(1 << 51)
_INVALID = np.uint64(0xFFF8 << 48)


def chain_in_numpy(a: Words, b: Words, c: Words, rounding: str = "rn") -> Words:
    """The chain of f64 multiply-adds: patterns A [case, m, k], B [case, k, n], C [case, m, n] -> D [case, m, n];
    `rounding` is one of `ROUNDINGS`."""
    total = c.copy()
    for k in range(a.shape[2]):
        x, y = np.broadcast_arrays(a[:, :, k, None], b[:, None, k, :])
        total = multiply_add(x, y, total, rounding)
    return total


def multiply_add(a: Words, b: Words, c: Words, rounding: str = "rn") -> Words:
    """a * b + c, rounded once; f64 patterns of one shape.

    NaN: B's wins over C's, C's over A's; it becomes quiet and keeps sign and payload. An invalid operation gives
    0xFFF8000000000000.

    Built from float64 operations that lose nothing (Boldo and Melquiond 2008: the low parts are added with rounding to
    odd, so that the last addition rounds once), within exponents where no part can under- or overflow; what lies
    outside goes through fractions.
    """
    x, y, z = (np.ascontiguousarray(v).view(np.float64) for v in (a, b, c))
    with np.errstate(all="ignore"):
        finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
        simple = ~finite | (x == 0) | (y == 0)  # no rounding: the plain operations do
        exponents = [np.abs(np.frexp(v)[1]) for v in (x, y, z)]
        safe = (exponents[0] < _SAFE) & (exponents[1] < _SAFE) & (exponents[2] < 2 * _SAFE)
        plain = np.where(np.isinf(z) & np.isfinite(x) & np.isfinite(y), z, x * y + z)  # a finite product stays finite
        if rounding == "rm":
            opposite = (plain == 0) & (np.signbit(x) ^ np.signbit(y) ^ np.signbit(z))
            plain = np.where(opposite, -0.0, plain)
        result = np.where(simple, plain, _safe_multiply_add(x, y, z, rounding))
    for index in zip(*np.nonzero(~safe & ~simple), strict=True):
        result[index] = _rounded(
            Fraction(float(x[index])) * Fraction(float(y[index])) + Fraction(float(z[index])), rounding
        )
    pattern = np.where(np.isnan(result), _INVALID, result.view(np.uint64))
    for word, value in ((a, x), (c, z), (b, y)):  # the last one wins
        pattern = np.where(np.isnan(value), word | _QUIET, pattern)
    return pattern


def _rounded(exact: Fraction, rounding: str) -> float:
    """Rounds a fraction to float64. Dividing its integers rounds once to nearest even, subnormals included; for another
    rounding the result then moves by one step where necessary."""
    if exact == 0:
        return -0.0 if rounding == "rm" else 0.0
    try:
        nearest = float(exact)
    except OverflowError:
        nearest = math.inf if exact > 0 else -math.inf
    way = rounding if rounding != "rz" else "rm" if exact > 0 else "rp"
    if (way == "rm" and exact < nearest) or (way == "rp" and exact > nearest):
        return math.nextafter(nearest, -math.inf if way == "rm" else math.inf)
    return nearest


def _two_sum(x: Reals, y: Reals) -> tuple[Reals, Reals]:
    total = x + y
    other = total - x
    return total, (x - (total - other)) + (y - other)


def _two_product(x: Reals, y: Reals) -> tuple[Reals, Reals]:
    high = x * y
    x_high, y_high = (v * _SPLITTER - (v * _SPLITTER - v) for v in (x, y))
    x_low, y_low = x - x_high, y - y_high
    return high, x_low * y_low - (((high - x_high * y_high) - x_low * y_high) - x_high * y_low)


def _safe_multiply_add(a: Reals, b: Reals, c: Reals, rounding: str) -> Reals:
    high, low = _two_product(a, b)
    t_high, t_low = _two_sum(c, low)
    v_high, v_low = _two_sum(high, t_high)
    z, lost = _two_sum(t_low, v_low)
    # To odd: where something was lost and the last bit is even, step toward what was lost.
    bits = z.view(np.int64)
    toward = np.where((lost > 0) == (z > 0), 1, -1)
    odd = np.where((lost != 0) & (bits & 1 == 0), bits + toward, bits).view(np.float64)
    nearest, error = _two_sum(v_high, odd)  # the error has the sign of exact minus nearest
    if rounding == "rn":
        return nearest
    if rounding == "rz":
        return np.where(error * np.sign(nearest) < 0, np.nextafter(nearest, 0.0), nearest)
    if rounding == "rm":
        nearest = np.where((nearest == 0) & (error == 0), -0.0, nearest)
        return np.where(error < 0, np.nextafter(nearest, -np.inf), nearest)
    return np.where(error > 0, np.nextafter(nearest, np.inf), nearest)


def chain_f16(products: Reals, c: Reals, result: ElementType) -> Bits:
    """m8n8k4 on sm_80 and later: products [n, 4, output], exact in f32, and C [n, output] -> patterns [n, output] of
    f32 or f16.

    f32: a chain of multiply-adds from +0, then C is added. f16: each pair of products starts with a multiplication, C
    takes in one pair and then the other, and the f32 sum is rounded to f16; here a negative zero is possible.
    """

    def add(x: Reals, y: Reals) -> Reals:
        """Of f32 numbers, rounded to f32; twice rounded, which is harmless (see `fused.add_rounded`)."""
        return (x + y).astype(np.float32).astype(np.float64)

    p = products.transpose(1, 0, 2)
    with np.errstate(invalid="ignore", over="ignore"):
        if result.bits == 32:
            total = add(c, add(add(add(p[0], p[1]), p[2]), p[3])) + 0.0  # never minus zero: the chain starts from +0
            pattern = total.astype(np.float32).view(np.uint32)
        else:
            total = add(add(c, add(p[0], p[1])), add(p[2], p[3]))
            pattern = total.astype(np.float16).view(np.uint16).astype(np.uint32)
    return np.where(np.isnan(total), np.uint32(canonical_nan(result)), pattern)
