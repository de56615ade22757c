"""f64: fused multiply-adds one after the other, k ascending from C, each rounded to nearest even.

Without the compiled kernel a multiply-add is built from float64 operations that lose nothing (Boldo and Melquiond 2008: the low parts are added
with rounding to odd, so that the last addition rounds once), within exponents where no part of it can under- or overflow; the few cases
outside go through fractions. Source of the order: MMA-Sim 2.1.1; measured on H100, November 2026 (tests/golden).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from simulator.arithmetic import compiled

Reals = NDArray[np.float64]

_SPLITTER = 134217729.0  # 2^27 + 1 (Dekker 1971)
_SAFE = 450  # exponents of A and B; products and C then stay within 2^900, and their low parts above 2^-1010


def chain_f64(a: Reals, b: Reals, c: Reals) -> Reals:
    """A [case, m, k], B [case, k, n], C [case, m, n] -> D [case, m, n]."""
    if compiled.library() is not None:
        return compiled.chain_f64(a, b, c)
    total = c.copy()
    for k in range(a.shape[2]):
        x, y = np.broadcast_arrays(a[:, :, k, None], b[:, None, k, :])
        total = multiply_add(x, y, total)
    return total


def multiply_add(a: Reals, b: Reals, c: Reals) -> Reals:
    """a * b + c, rounded once to nearest even; arrays of one shape."""
    with np.errstate(all="ignore"):
        exponents = [np.frexp(x)[1] for x in (a, b, c)]
        safe = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
        safe &= (np.abs(exponents[0]) < _SAFE) & (np.abs(exponents[1]) < _SAFE) & (np.abs(exponents[2]) < 2 * _SAFE)
        result = _safe_multiply_add(a, b, c)
        plain = ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c)) | (a == 0) | (b == 0)
        result = np.where(plain, a * b + c, result)
    for index in zip(*np.nonzero(~safe & ~plain), strict=True):
        result[index] = _rounded(Fraction(float(a[index])) * Fraction(float(b[index])) + Fraction(float(c[index])))
    return result


def _rounded(exact: Fraction) -> float:
    """To nearest even; a fraction divides its integers with one rounding, subnormals included. Only cancellation gives zero here: +0."""
    try:
        return float(exact)
    except OverflowError:
        return math.copysign(math.inf, exact)


def _two_sum(x: Reals, y: Reals) -> tuple[Reals, Reals]:
    total = x + y
    other = total - x
    return total, (x - (total - other)) + (y - other)


def _two_product(x: Reals, y: Reals) -> tuple[Reals, Reals]:
    high = x * y
    x_high, y_high = (v * _SPLITTER - (v * _SPLITTER - v) for v in (x, y))
    x_low, y_low = x - x_high, y - y_high
    return high, x_low * y_low - (((high - x_high * y_high) - x_low * y_high) - x_high * y_low)


def _safe_multiply_add(a: Reals, b: Reals, c: Reals) -> Reals:
    high, low = _two_product(a, b)
    t_high, t_low = _two_sum(c, low)
    v_high, v_low = _two_sum(high, t_high)
    z, lost = _two_sum(t_low, v_low)
    # To odd: where something was lost and the last bit is even, step toward what was lost.
    bits = z.view(np.int64)
    toward = np.where((lost > 0) == (z > 0), 1, -1)
    odd = np.where((lost != 0) & (bits & 1 == 0), bits + toward, bits).view(np.float64)
    return v_high + odd
