"""The approximate reciprocal and inverse square root of f64, bit for bit as a Hopper chip gives them.

The chip has them for the upper word alone: 20 bits behind the point of the argument, as many of the result, from the
tables of f32 (`simulator.arithmetic.functions`). What `rsqrt.approx.f64` has besides are the instructions that ptxas
13.0 writes for it. 270,000 arguments of all sizes gave an H100's bits (November 2026).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.arithmetic.functions import inverse, inverse_root
from simulator.arithmetic.interpolation import Reals
from simulator.arithmetic.rounded import fma64

Patterns = NDArray[np.uint64]
_UPPER = np.uint64(0xFFFFFFFF_00000000)
_SIGN = np.uint64(1 << 63)
_NAN = np.uint64(0x7FFFFFFF_00000000)
_NOT_REAL = np.uint64(0xFFF80000_00000000)  # what rsqrt.approx.f64 gives for numbers below 0
_SMALLEST = 2.0**-1022  # of normal numbers


def _number(patterns: Patterns) -> Reals:
    """The value of the upper word; of a subnormal number zero."""
    value = (patterns & _UPPER).view(np.float64)
    return np.where(np.abs(value) < _SMALLEST, np.copysign(0.0, value), value)


def _patterns(values: Reals) -> Patterns:
    small = np.abs(values) < _SMALLEST
    return np.where(np.isnan(values), _NAN, np.where(small, np.copysign(0.0, values), values).view(np.uint64))


def reciprocal(x: Patterns) -> Patterns:
    """rcp.approx.ftz.f64; any shape."""
    value = _number(x)
    with np.errstate(all="ignore"):
        return _patterns(np.where(np.isfinite(value) & (value != 0), inverse(value, 21), 1 / value))


def reciprocal_root_ftz(x: Patterns) -> Patterns:
    """rsqrt.approx.ftz.f64."""
    value = _number(x)
    with np.errstate(all="ignore"):
        return _patterns(np.where(np.isfinite(value) & (value > 0), inverse_root(value, 21), 1 / np.sqrt(value)))


def reciprocal_root(x: Patterns) -> Patterns:
    """rsqrt.approx.f64: one step of Newton's method of third order after `.ftz`; subnormal numbers times 2^54."""
    value = x.view(np.float64)
    with np.errstate(all="ignore"):
        plain = np.isfinite(value) & (value > 0)
        small = plain & (value < _SMALLEST)
        argument = np.where(plain, np.where(small, value * 2.0**54, value), 1.0).view(np.uint64)
        first = reciprocal_root_ftz(argument)
        square = first.view(np.float64) ** 2  # exact
        error = fma64(argument, square.view(np.uint64) ^ _SIGN, _of(x, 1.0), "rn")
        factor = fma64(error, _of(x, 0.375), _of(x, 0.5), "rn")
        step = (first.view(np.float64) * error.view(np.float64)).view(np.uint64)
        found = fma64(factor, step, first, "rn").view(np.float64)
        found = np.where(small, found * 2.0**27, found)
        special = np.where(value < 0, _NOT_REAL.view(np.float64), np.where(np.isnan(value), value + value, 1 / value))
        return np.where(plain, found, special).view(np.uint64)


def _of(x: Patterns, value: float) -> Patterns:
    return np.full_like(x, np.float64(value).view(np.uint64))
