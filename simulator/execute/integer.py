"""Executes integer arithmetic: modulo 2^bits unless .sat is said.

PTX ISA 9.0, 9.7.1. Operands are arrays [warp, 1, lane] of uint16, uint32 or uint64, whatever the sign of the type.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from isa.forms.record import Form
from simulator.execute.registry import Array, computes, executes

Binary = Callable[[Array, Array], Array]
Ternary = Callable[[Array, Array, Array], Array]
_TWICE: dict[int, np.dtype[Any]] = {2: np.dtype(np.uint32), 4: np.dtype(np.uint64)}


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


@executes("add.sat")
def saturated_sum(a: Array, b: Array) -> Array:
    """add.sat of s32: the sum, at most and at least what the type holds. PTX ISA 9.0, 9.7.1.1."""
    return _clipped(typed(a, True).astype(np.int64) + typed(b, True).astype(np.int64))


@executes("sub.sat")
def saturated_difference(a: Array, b: Array) -> Array:
    """sub.sat of s32: the difference, at most and at least what the type holds. PTX ISA 9.0, 9.7.1.2."""
    return _clipped(typed(a, True).astype(np.int64) - typed(b, True).astype(np.int64))


def _clipped(values: Array) -> Array:
    """int64 -> s32 as uint32, at most and at least what it holds."""
    clipped: Array = np.clip(values, -(2**31), 2**31 - 1).astype(np.int32).view(np.uint32)
    return clipped


def typed(values: Array, is_signed: bool) -> Array:
    """The same bits as numbers of their type."""
    return values.view(f"i{values.dtype.itemsize}") if is_signed else values


def _halves(function: Callable[[Array, Array], Array]) -> Binary:
    """A function of 16-bit numbers for two of them in each register."""

    def run(a: Array, b: Array) -> Array:
        x, y = (np.ascontiguousarray(v).view(np.uint16) for v in np.broadcast_arrays(a, b))
        result: Array = function(x, y).view(np.uint32)
        return result

    return run


executes("add.u16x2", "add.s16x2")(_halves(np.add))


# Products


def high_product(a: Array, b: Array, is_signed: bool) -> Array:
    """The high half of a product. PTX ISA 9.0, 9.7.1.3."""
    size = a.dtype.itemsize
    if size < 8:
        whole = typed(a, is_signed).astype(f"i{2 * size}" if is_signed else f"u{2 * size}")
        whole = whole * typed(b, is_signed).astype(whole.dtype)
        shifted: Array = (whole >> (8 * size)).astype(f"{'i' if is_signed else 'u'}{size}").view(a.dtype)
        return shifted
    high = _high_64(a, b)
    if is_signed:
        high = high - np.where(typed(a, True) < 0, b, np.uint64(0)) - np.where(typed(b, True) < 0, a, np.uint64(0))
    return high


def _high_64(a: Array, b: Array) -> Array:
    """The high 64 bits of the product of unsigned numbers of 64 bits, by halves."""
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> shift, b & low, b >> shift
    middle = a1 * b0 + (a0 * b0 >> shift)
    other = a0 * b1 + (middle & low)
    result: Array = a1 * b1 + (middle >> shift) + (other >> shift)
    return result


@computes("mul.hi")
def multiply_high(form: Form) -> Binary:
    """mul.hi: the high half of the product. PTX ISA 9.0, 9.7.1.3."""
    return lambda a, b: high_product(a, b, form.signed)


@computes("mul.wide.u16", "mul.wide.s16")
def multiply_wide_16(form: Form) -> Binary:
    """mul.wide: the whole product of two 16-bit numbers."""
    return lambda a, b: wide_product(a, b, form.signed)


def wide_product(a: Array, b: Array, is_signed: bool) -> Array:
    """The whole product, in registers twice as wide."""
    wide = _TWICE[a.dtype.itemsize]
    kind = f"i{wide.itemsize}" if is_signed else wide
    product: Array = (typed(a, is_signed).astype(kind) * typed(b, is_signed).astype(kind)).view(wide)
    return product


@computes("mad.hi")
def multiply_high_add(form: Form) -> Ternary:
    """mad.hi: the high half of the product, plus an addend; .sat of s32 keeps within the type. PTX ISA 9.0, 9.7.1.4."""

    def run(a: Array, b: Array, c: Array) -> Array:
        high = high_product(a, b, form.signed)
        if "sat" in form.qualifiers:
            return _clipped(typed(high, True).astype(np.int64) + typed(c, True).astype(np.int64))
        return high + c

    return run


@computes("mad.wide")
def multiply_wide_add(form: Form) -> Ternary:
    """mad.wide: the whole product plus an addend of twice the width. PTX ISA 9.0, 9.7.1.4."""
    return lambda a, b, c: wide_product(a, b, form.signed) + c


def _product_24(a: Array, b: Array, form: Form) -> Array:
    """The product of the low 24 bits: its low 32 bits, or (hi) bits 16 to 47. PTX ISA 9.0, 9.7.1.5."""
    x, y = ((v << np.uint32(8)).view(np.int32).astype(np.int64) >> 8 if form.signed else (v & 0xFFFFFF).astype(np.int64)
            for v in (a, b))  # fmt: skip
    return ((x * y) >> (16 if "hi" in form.qualifiers else 0)).astype(np.uint64).astype(np.uint32)


@computes("mul24")
def multiply_24(form: Form) -> Binary:
    """mul24: the product of the low 24 bits. PTX ISA 9.0, 9.7.1.5."""
    return lambda a, b: _product_24(a, b, form)


@computes("mad24")
def multiply_add_24(form: Form) -> Ternary:
    """mad24: the product of the low 24 bits, plus an addend. PTX ISA 9.0, 9.7.1.6."""

    def run(a: Array, b: Array, c: Array) -> Array:
        product = _product_24(a, b, form)
        if "sat" in form.qualifiers:
            return _clipped(typed(product, True).astype(np.int64) + typed(c, True).astype(np.int64))
        return product + c

    return run


# Differences, quotients, extremes


@computes("sad")
def absolute_difference(form: Form) -> Ternary:
    """sad: |a - b| + c. PTX ISA 9.0, 9.7.1.7."""

    def run(a: Array, b: Array, c: Array) -> Array:
        less = typed(a, form.signed) < typed(b, form.signed)
        return np.where(less, b - a, a - b) + c

    return run


def _quotient(form: Form, a: Array, b: Array) -> tuple[Array, Array]:
    """Quotient towards zero and remainder. Division by zero gives all ones and the dividend: PTX leaves it open; so it
    was measured on an H200, November 2026."""
    zero = b == 0
    if not form.signed:
        divisor = np.where(zero, b.dtype.type(1), b)
        quotient, remainder = a // divisor, a % divisor
        return np.where(zero, ~a.dtype.type(0), quotient), np.where(zero, a, remainder)
    x, y = typed(a, True), typed(b, True)
    size, sign = np.where(x < 0, -x, x).view(a.dtype), (x < 0) != (y < 0)
    by = np.where(zero, b.dtype.type(1), np.where(y < 0, -y, y).view(a.dtype))
    quotient, remainder = size // by, size % by
    quotient = np.where(sign, ~quotient + a.dtype.type(1), quotient)
    remainder = np.where(x < 0, ~remainder + a.dtype.type(1), remainder)
    return np.where(zero, ~a.dtype.type(0), quotient), np.where(zero, a, remainder)


@computes("div.u16", "div.s16", "div.u32", "div.s32", "div.u64", "div.s64")
def divide(form: Form) -> Binary:
    """div: the quotient, towards zero. PTX ISA 9.0, 9.7.1.8."""
    return lambda a, b: _quotient(form, a, b)[0]


@computes("rem")
def remainder(form: Form) -> Binary:
    """rem: the remainder, with the sign of a. PTX ISA 9.0, 9.7.1.9."""
    return lambda a, b: _quotient(form, a, b)[1]


@executes("abs.s16", "abs.s32", "abs.s64")
def absolute(a: Array) -> Array:
    """abs: the absolute value; that of the least number is itself. PTX ISA 9.0, 9.7.1.10."""
    return np.where(typed(a, True) < 0, ~a + a.dtype.type(1), a)


@executes("neg.s16", "neg.s32", "neg.s64")
def negate(a: Array) -> Array:
    """neg: the negated value. PTX ISA 9.0, 9.7.1.11."""
    answer: Array = ~a + a.dtype.type(1)
    return answer


def _extreme(choose: Binary, form: Form) -> Binary:
    """min and max of integers, of pairs of 16 bits too, and with .relu at least 0. PTX ISA 9.0, 9.7.1.12, 9.7.1.13."""
    relu = "relu" in form.qualifiers

    def run(a: Array, b: Array) -> Array:
        result = choose(typed(a, form.signed), typed(b, form.signed))
        if relu:
            result = np.maximum(result, 0)
        return result.view(a.dtype)

    return _halves(run) if form.type_name.endswith("x2") else run


_INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64", "u16x2", "s16x2")
for _name, _choose in (("min", np.minimum), ("max", np.maximum)):
    _opcodes = (*(f"{_name}.{kind}" for kind in _INTEGERS), f"{_name}.relu.s32", f"{_name}.relu.s16x2")
    computes(*_opcodes)(partial(_extreme, _choose))


# Dot products


def _parts(values: Array, count: int, is_signed: bool) -> Array:
    """The numbers that a register of 32 bits holds, the lowest first: int64 [..., count]."""
    bits = 32 // count
    whole = np.ascontiguousarray(values).astype(np.uint32)
    return whole[..., None].view(f"{'i' if is_signed else 'u'}{bits // 8}").astype(np.int64)


@computes("dp4a")
def dot_four(form: Form) -> Ternary:
    """dp4a: c plus the products of four bytes each. PTX ISA 9.0, 9.7.1.23."""
    kinds = [kind[0] == "s" for kind in form.qualifiers[-2:]]

    def run(a: Array, b: Array, c: Array) -> Array:
        total = (_parts(a, 4, kinds[0]) * _parts(b, 4, kinds[1])).sum(axis=-1) + c.astype(np.int64)
        answer: Array = total.astype(np.uint64).astype(np.uint32)
        return answer

    return run


@computes("dp2a")
def dot_two(form: Form) -> Ternary:
    """dp2a: c plus the products of the halves of a and two bytes of b, the low or the high ones. PTX ISA 9.0,
    9.7.1.24."""
    kinds = [kind[0] == "s" for kind in form.qualifiers[-2:]]
    first = 2 if "hi" in form.qualifiers else 0

    def run(a: Array, b: Array, c: Array) -> Array:
        bytes_of_b = _parts(b, 4, kinds[1])[..., first : first + 2]
        total = (_parts(a, 2, kinds[0]) * bytes_of_b).sum(axis=-1) + c.astype(np.int64)
        answer: Array = total.astype(np.uint64).astype(np.uint32)
        return answer

    return run
