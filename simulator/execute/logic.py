"""Executes bitwise logic and shifts. PTX ISA 9.0, 9.7.8. Operands are arrays [warp, 1, lane] of unsigned integers, or
of bool for predicates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from isa.forms.record import Form
from simulator.execute.registry import Array, computes, executes


@executes("and")
def conjunction(a: Array, b: Array) -> Array:
    """and: the bitwise conjunction. PTX ISA 9.0, 9.7.8.1."""
    return a & b


@executes("or")
def disjunction(a: Array, b: Array) -> Array:
    """or: the bitwise disjunction. PTX ISA 9.0, 9.7.8.2."""
    return a | b


@executes("xor")
def exclusive_or(a: Array, b: Array) -> Array:
    """xor: the bitwise exclusive disjunction. PTX ISA 9.0, 9.7.8.3."""
    return a ^ b


@executes("not")
def complement(a: Array) -> Array:
    """not: the bitwise complement. PTX ISA 9.0, 9.7.8.4."""
    return ~a


@executes("lop3.b32")
def lop3(a: Array, b: Array, c: Array, table: Array) -> Array:
    """Any bitwise function of three operands: bit 4 * a + 2 * b + c of the table (its low 8 bits) is the result of
    these three bits. PTX ISA 9.0, 9.7.8.6."""
    result = np.zeros_like(a)
    for entry in range(8):
        here = (a if entry & 4 else ~a) & (b if entry & 2 else ~b) & (c if entry & 1 else ~c)
        result |= np.where(table >> np.uint32(entry) & 1, here, 0).astype(a.dtype)
    return result


@executes("shl")
def shift_left(a: Array, b: Array) -> Array:
    """shl: a shift to the left; amounts above the width less one give 0. PTX ISA 9.0, 9.7.8.7."""
    last = a.dtype.itemsize * 8 - 1
    shifted: Array = np.where(b > last, a.dtype.type(0), a << np.minimum(b, last).astype(a.dtype)).astype(a.dtype)
    return shifted


@executes("shr")
def shift_right(a: Array, b: Array) -> Array:
    """shr of unsigned integers: amounts above the width less one give 0. PTX ISA 9.0, 9.7.8.8."""
    last = a.dtype.itemsize * 8 - 1
    shifted: Array = np.where(b > last, a.dtype.type(0), a >> np.minimum(b, last).astype(a.dtype)).astype(a.dtype)
    return shifted


@executes("shr.s16", "shr.s32", "shr.s64")
def shift_right_signed(a: Array, b: Array) -> Array:
    """shr of signed integers: copies of the sign move in; amounts above the width less one give nothing but the sign.
    PTX ISA 9.0, 9.7.8.8."""
    signed = f"i{a.dtype.itemsize}"
    amount = np.minimum(b, a.dtype.itemsize * 8 - 1).astype(signed)
    shifted: Array = (a.view(signed) >> amount).view(a.dtype)
    return shifted


@executes("cnot")
def logical_not(a: Array) -> Array:
    """cnot: 1 for zero, else 0. PTX ISA 9.0, 9.7.8.5."""
    answer: Array = (a == 0).astype(a.dtype)
    return answer


@computes("lop3.or", "lop3.and")
def lop3_and_predicate(form: Form) -> Callable[[Array, Array, Array, Array, Array], tuple[Array, Array]]:
    """lop3 with a predicate: whether the result is not zero, combined with another predicate. PTX ISA 9.0, 9.7.8.6."""
    combine = np.logical_or if "or" in form.qualifiers else np.logical_and

    def run(a: Array, b: Array, c: Array, table: Array, q: Array) -> tuple[Array, Array]:
        result = lop3(a, b, c, table)
        return result, combine(result != 0, q)

    return run
