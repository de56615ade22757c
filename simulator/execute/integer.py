"""Executes integer arithmetic: modulo 2^bits, as PTX's .s32, .u32, .s64 and .u64 forms without .sat compute.

PTX ISA 9.0, 9.7.1. Operands are arrays [warp, 1, lane] of uint32 or uint64, whatever the sign of the type.
"""

from __future__ import annotations

import numpy as np

from simulator.execute.registry import Array, executes


@executes("add")
def add(a: Array, b: Array) -> Array:
    """add: the sum. PTX ISA 9.0, 9.7.1.1."""
    return a + b


@executes("sub")
def subtract(a: Array, b: Array) -> Array:
    """sub: the difference. PTX ISA 9.0, 9.7.1.2."""
    return a - b


@executes("mul.lo")
def multiply(a: Array, b: Array) -> Array:
    """mul.lo: the low half of the product. PTX ISA 9.0, 9.7.1.3."""
    return a * b


@executes("mul.wide.u32")
def multiply_wide(a: Array, b: Array) -> Array:
    """mul.wide: the whole product of two 32-bit numbers, 64 bits. PTX ISA 9.0, 9.7.1.3."""
    return np.multiply(a, b, dtype=np.uint64)


@executes("mul.wide.s32")
def multiply_wide_signed(a: Array, b: Array) -> Array:
    """mul.wide: the whole product of two signed 32-bit numbers, 64 bits. PTX ISA 9.0, 9.7.1.3."""
    return np.multiply(a.view(np.int32), b.view(np.int32), dtype=np.int64).view(np.uint64)


@executes("mad.lo")
def multiply_add(a: Array, b: Array, c: Array) -> Array:
    """mad.lo: the low half of the product, plus an addend. PTX ISA 9.0, 9.7.1.4."""
    return a * b + c


@executes("bfi.b32")
def insert_bits(a: Array, b: Array, position: Array, length: Array) -> Array:
    """bfi: the low `length` bits of a put into b from bit `position` on; what lies above bit 31 is dropped. Of position
    and length the low 8 bits count. PTX ISA 9.0, 9.7.1.20."""
    low = (position & 0xFF).astype(np.uint64)
    high = np.minimum(low + (length & 0xFF), 32)
    field = np.where(low < high, (np.uint64(1) << high) - (np.uint64(1) << np.minimum(low, 32)), 0)
    shifted = a.astype(np.uint64) << np.minimum(low, 32)
    return (b & ~field | shifted & field).astype(np.uint32)
