"""Executes floating-point arithmetic of single threads. PTX ISA 9.0, 9.7.3."""

from __future__ import annotations

import numpy as np

from simulator.execute.registry import Array, executes

NAN = 0x7FFFFFFF  # what every operation of f32 gives for NaN; PTX ISA 9.0, 9.7.3


@executes("fma.rn.f32")
def fused_multiply_add(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once to nearest even, subnormal numbers kept. PTX ISA 9.0, 9.7.3.6.

    The product of two f32 is exact in f64. The sum is rounded to odd in f64 (`_sum_to_odd`), whose 53 bits are more
    than the 2 * 24 + 2 that make the second rounding, to f32, right.
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        x, y, z = (operand.view(np.float32).astype(np.float64) for operand in (a, b, c))
        result = _sum_to_odd(x * y, z).astype(np.float32)
    return np.where(np.isnan(result), np.uint32(NAN), result.view(np.uint32))


def _sum_to_odd(x: Array, y: Array) -> Array:
    """x + y in f64; where that is not exact, of its two neighbours the one whose last bit is 1."""
    total = x + y
    back = total - x
    error = (x - (total - back)) + (y - back)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    away = (error > 0) == (total > 0)  # the exact sum is larger in magnitude than the rounded one
    return np.where(inexact, bits + np.where(away, 1, -1), bits).view(np.float64)
