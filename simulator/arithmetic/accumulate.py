"""Adds the products of matrix instructions to sums that go from one instruction to the next and are not rounded in
between (`simulator.arithmetic.superaccumulator`).

With the compiled kernel where there is one, and in numpy otherwise; the sums are the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.fragments.metadata import spliced, stored_columns
from isa.types import F64, Bits, ElementType
from simulator.arithmetic.batch import add
from simulator.arithmetic.chain import Words
from simulator.arithmetic.compiled import library
from simulator.arithmetic.compiled.accumulate import add_products
from simulator.arithmetic.formats import Integers, Reals, decode, integers
from simulator.arithmetic.integer import S32
from simulator.arithmetic.sums import Operands, Sum, blocks, products_of
from simulator.arithmetic.superaccumulator import DOUBLES, Rows, Superaccumulators
from simulator.arithmetic.threads import spread

_LOW_BITS = 27  # of the 53 bits of a significand of f64, where numpy multiplies its two parts
_BLOCK_OUTPUTS = 1 << 12  # f64 sums held at once
_BLOCK_PRODUCTS = 1 << 18


def values_of(patterns: Bits, element: ElementType) -> Reals | Integers:
    """What patterns of C stand for, exactly: float64, or int64 for integers; the same shape."""
    if not element.is_float:
        return integers(patterns, element)
    return patterns.view(np.float64) if element.bits == 64 else decode(patterns, element).value


def accumulate(how: Sum, operands: Operands, sums: Superaccumulators, rows: Rows) -> None:
    """Adds the products of A and B, but not C, to the sums of the elements of D; not for f64.

    Args:
        how: the instruction, whose rule is None: no chip's.
        operands: matrices of patterns.
        sums: superaccumulators for D's type.
        rows: int64 [case, m, n]: the sum of each element; no row twice, -1 for elements to be left out.
    """
    sums.note_addition()
    if not how.a_type.is_float:
        products = add(replace(how, saturate=False), replace(operands, c=np.zeros(rows.shape, np.uint32)))
        kept = rows >= 0
        sums.limbs[rows[kept], 0] += integers(products, S32)[kept]  # of one instruction: they stay below 2^31
    elif library() is None or _spliced(how, operands):
        for part in blocks(len(rows), max(1, _BLOCK_PRODUCTS // (how.m * how.n * how.stored))):
            values = products_of(how, operands[part]).value.transpose(1, 0, 2).reshape(how.stored, -1)
            where = rows[part].transpose(2, 0, 1).ravel()
            kept = where >= 0
            sums.add_values(where[kept], values[:, kept])
    else:
        a, b, index = _matrices(how, operands)
        spread(
            len(rows),
            how.m * how.n * how.stored,
            lambda part: add_products(sums, rows[part], a[part], b[part], None if index is None else index[part]),
        )


def _spliced(how: Sum, operands: Operands) -> bool:
    """Whether some code of 1:2 joins halves of two elements of B."""
    codes, sparsity = operands.codes, how.sparsity
    return codes is not None and sparsity is not None and sparsity.splices and bool(spliced(codes, sparsity).any())


def _matrices(how: Sum, operands: Operands) -> tuple[Reals, Reals, NDArray[Any] | None]:
    """Values of A [case, m, stored] and B [case, k, n], times their block scales, and the row of B that each element
    of A meets. A factor covers as many of the products of a row as of the columns of A that are stored."""
    a, b = decode(operands.a, how.a_type).value, decode(operands.b, how.b_type).value
    if how.scale_type is not None and operands.scale_a is not None and operands.scale_b is not None:
        left, right = (decode(scale, how.scale_type).value for scale in (operands.scale_a, operands.scale_b))
        a = a * left[:, :, np.arange(how.stored) * how.factors // how.stored]
        b = b * right[:, :, np.arange(how.k) * how.factors // how.k].transpose(0, 2, 1)
    if operands.codes is None or how.sparsity is None:
        return a, b, None
    return a, b, stored_columns(operands.codes, how.sparsity)


def accumulate_f64(a: Words, b: Words, sums: Superaccumulators, rows: Rows) -> None:
    """The same for f64: patterns a [case, m, k] and b [case, k, n]."""
    sums.note_addition()
    x, y = (np.ascontiguousarray(operand).view(np.float64) for operand in (a, b))
    if library() is not None:
        products = a.shape[1] * a.shape[2] * b.shape[2]
        spread(len(rows), products, lambda part: add_products(sums, rows[part], x[part], y[part], None))
        return
    for k in range(a.shape[2]):
        left, right = np.broadcast_arrays(x[:, :, k, None], y[:, None, k, :])
        _add_f64(sums, rows.ravel(), left.reshape(1, -1), right.reshape(1, -1))


def _add_f64(sums: Superaccumulators, rows: Rows, x: Reals, y: Reals) -> None:
    """Adds x * y: whole significands have too many bits for one int64, so their parts are multiplied."""
    finite = np.isfinite(x) & np.isfinite(y)
    if not finite.all():
        with np.errstate(invalid="ignore", over="ignore"):
            sums.add_values(rows, np.where(finite, 0.0, x * y))
        x, y = np.where(finite, x, 0.0), np.where(finite, y, 0.0)
    parts = []
    for value in (x, y):
        fraction, exponent = np.frexp(value)
        digits, sign = np.abs(np.ldexp(fraction, 53)).astype(np.int64), np.sign(value).astype(np.int64)
        low = digits & ((1 << _LOW_BITS) - 1)
        parts.append(((sign * low, exponent - 53), (sign * (digits >> _LOW_BITS), exponent - 53 + _LOW_BITS)))
    for left, place in parts[0]:
        for right, other in parts[1]:
            sums.add_terms(rows, left * right, (place + other).astype(np.int64))


def exact_f64(a: Words, b: Words, c: Words) -> Words:
    """The exact sum of products and C, rounded once to nearest even: patterns A [case, m, k], B [case, k, n] and C
    [case, m, n] -> D [case, m, n]. A NaN is 0x7FF8000000000000."""
    d = np.empty_like(c)
    for part in blocks(len(c), max(1, _BLOCK_OUTPUTS // max(1, c[:1].size))):
        rows = np.arange(c[part].size).reshape(c[part].shape)
        sums = Superaccumulators(DOUBLES, rows.size)
        sums.set(rows, values_of(np.ascontiguousarray(c[part]), F64))
        accumulate_f64(a[part], b[part], sums, rows)
        d[part] = sums.rounded(rows.ravel(), F64).reshape(rows.shape)
    return d
