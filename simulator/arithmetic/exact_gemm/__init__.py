"""The exact product of whole matrices: each element of A * B + C as if computed without error and rounded once.

Most elements are decided by one float64 product of the BLAS and a bound of its error (a priori, for sums in any order);
those that it leaves open are added exactly, one by one if they are few, else by products of slices. The only assumption
about the BLAS is that it computes each element as a sum of its K products in some order, rounded to nearest (with or
without fused multiply-add), as all common ones do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.arguments import unmasked
from isa.errors import IsaError
from isa.types import ElementType
from simulator.arithmetic.exact_gemm.operands import (
    Array,
    Rows,
    Scale,
    blocks,
    read_addend,
    read_rows,
    read_scale,
    read_type,
)
from simulator.arithmetic.exact_gemm.rounding import Mask, Result, Values, result_type, settle, to_odd, two_sum
from simulator.arithmetic.exact_gemm.sliced import single_elements, sliced_product
from simulator.arithmetic.formats import Reals
from simulator.floating_point import guarded

__all__ = ["exact_gemm"]

_TILE = 1024  # rows and columns of the result worked on at once: 8 MiB of float64
# products added by one call of the BLAS: fewer make the bound of the error tighter, and the call less efficient
_CHUNK = 1024
_FEW = 1 << 22  # products of undecided elements that are cheap to add one by one (tens of milliseconds)
_SHARE = 32  # or one such product in so many of the tile: about what a product of slices costs
_SLICED = 1 << 22  # elements of an operand cut into slices at once: 32 MiB a slice
_UNIT = 2.0**-53  # of roundoff


@guarded
def exact_gemm(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    a_type: str | ElementType | None = None,
    b_type: str | ElementType | None = None,
    result: str = "f32",
    scale_a: Array | None = None,
    scale_b: Array | None = None,
    scale_type: str | ElementType | None = None,
    block: int | None = None,
) -> NDArray[Any]:
    """A * B + C, exact and rounded once to nearest even, of matrices of any size.

    Args:
        a, b: [M, K] and [K, N]. Floats of numpy or ml_dtypes are values; unsigned integers are patterns and need a
            type. Floats of another type than the one given (and float64, f32 unless given) have to hold values of that
            type: nothing is rounded on the way in. A sparse A is given with its zeros.
        c: [M, N], added before the one rounding: floats that hold values of f32, or patterns of `result` (of f32 if
            that is f64).
        a_type, b_type: floating-point element types or their names. "e2m1" patterns are in bits 5..2 of a byte, as
            registers hold them, those of `isa.types.PACKED_E2M1` in bits 3..0.
        result: "f32", "f16", "bf16" or "f64".
        scale_a, scale_b: block scale factors, patterns [M, K / block] and [K / block, N], or arrays of ml_dtypes;
            either may be left out.
        scale_type: "ue8m0" or "ue4m3" (its highest bit is ignored).
        block: elements along K that a factor scales.

    Returns:
        float32, float16 or float64 [M, N]; for bf16 a float32 array of bf16 values. NaN is canonical (all bits below
        the sign set; for bf16 those of the bf16): from a NaN, infinity times zero, infinities of both signs. An exact
        zero is +0; what rounds to zero keeps its sign.

    Raises:
        IsaError: shapes that do not fit, unknown types, values that the type does not have, products of more than 53
            bits (f32 with ue4m3).
    """
    into = result_type(result)
    a, b = unmasked(a, "a"), unmasked(b, "b")
    for name, array, legal in (("a", a, "[M, K]"), ("b", b, "[K, N]")):
        if array.ndim != 2:
            raise IsaError(name, -1, f"{name} has shape {array.shape}, not that of a matrix", legal)
    if a.shape[1] != b.shape[0]:
        raise IsaError("b", -1, f"a has {a.shape[1]} columns and b {b.shape[0]} rows", "the same K")
    left, right = read_type(a, a_type, "a"), read_type(b, b_type, "b")
    scales = (
        read_scale(scale_a, "scale_a", scale_type, block, a.shape),
        read_scale(None if scale_b is None else np.asarray(scale_b).T, "scale_b", scale_type, block, b.T.shape),
    )
    _check_width((left, scales[0]), (right, scales[1]))
    addend = read_addend(c, (a.shape[0], b.shape[1]), into)
    rows, columns = read_rows(a, left, "a", scales[0]), read_rows(b.T, right, "b", scales[1])
    product = np.empty((a.shape[0], b.shape[1]), into.dtype)
    for i in _tiles(product.shape[0]):
        for j in _tiles(product.shape[1]):
            part = addend[i, j] if addend is not None else None
            product[i, j] = _tile(rows[i], columns[j], part, into)
    return product


def _check_width(*operands: tuple[ElementType, Scale | None]) -> None:
    bits = sum(t.fraction + 1 + (scale.type.fraction + 1 if scale else 0) for t, scale in operands)
    if bits > 53:
        raise IsaError(
            "scale_type",
            -1,
            f"products of {bits} significant bits",
            "at most 53, exact in float64: narrower elements, or ue8m0",
        )


def _tiles(size: int, step: int = _TILE) -> Iterator[slice]:
    return (slice(start, min(start + step, size)) for start in range(0, size, step))


def _tile(a: Rows, b: Rows, c: Reals | None, result: Result) -> Values:
    """Computes one tile of the result, from rows of A and of B transposed."""
    numbers = c if c is None else np.where(np.isfinite(c), c, 0.0)
    values, open_ = _screened(a, b, numbers, result)
    rows, columns = np.nonzero(open_)
    if len(rows) * a.values.shape[1] > max(_FEW, open_.size * a.values.shape[1] // _SHARE):
        _by_slices(a, b, numbers, result, values, open_)
        rows, columns = np.nonzero(open_)
    values[rows, columns] = single_elements(a.values, b.values, numbers, rows, columns, result)
    _patch_special(values, a, b, c, result)
    return values


def _screened(a: Rows, b: Rows, c: Reals | None, result: Result) -> tuple[Values, Mask]:
    """The float64 product, rounded, and where its error leaves the rounding undecided.

    A sum of n terms in any order, none of them rounded, is at most depth * 2^-53 * (sum of magnitudes) off, where depth
    is the number of additions that a term goes through, to first order; (depth + 4) covers higher orders and the
    rounding of the bounds. Zero terms round nothing. By Cauchy-Schwarz the sum of magnitudes is at most the product of
    the norms. Where it is at most 2^53 units, of which all terms are multiples, every partial sum is exact.
    """
    in_units = a.norm / a.unit, b.norm / b.unit  # below 2^600
    exact = bool(in_units[0].max(initial=0.0) <= 2.0**53 / max(1.0, in_units[1].max(initial=0.0)))
    values, open_ = np.zeros((len(a.norm), len(b.norm)), result.dtype), np.zeros((len(a.norm), len(b.norm)), np.bool_)
    limits = 2.0**53 / np.maximum(in_units[1], 1.0)  # of the rows that are exact with each column
    if result.name == "f64" and not exact and np.median(in_units[0]) > np.median(limits):
        return values, ~open_  # float64 decides only what it has exactly
    total, depth = _float64_product(a, b)
    factor = (depth + 4) * _UNIT

    def by_norms(part: slice) -> Reals | None:
        return (
            None if exact else np.where(in_units[0][part, None] <= limits, 0.0, (factor * a.norm)[part, None] * b.norm)
        )

    def by_magnitudes(part: slice) -> Reals | None:
        size = magnitudes[part]
        return np.where(size <= 2.0**53 * a.unit[part, None] * b.unit, 0.0, factor[part, None] * size)

    _round_tile(total, by_norms, c, result, values, open_)
    k = a.values.shape[1]
    if result.name != "f64" and np.count_nonzero(open_) * k > max(_FEW, open_.size * k // _SHARE):
        magnitudes = np.abs(a.values) @ np.abs(b.values).T * (1 + 2.0**-20)  # a tighter bound, for another product
        _round_tile(total, by_magnitudes, c, result, values, open_)
    return values, open_


def _round_tile(
    total: Reals, error: Callable[[slice], Reals | None], c: Reals | None, result: Result, values: Values, open_: Mask
) -> None:
    """Rounds total + c into `values`, and marks in `open_` the elements whose rounding the error leaves undecided."""
    for part in blocks(*total.shape):
        values[part], certain = _enclosed(total[part], error(part), c[part] if c is not None else None, result)
        np.logical_not(certain, out=open_[part])


def _float64_product(a: Rows, b: Rows) -> tuple[Reals, Reals]:
    """The product in float64 [m, n], and the largest number of additions that a term of each row goes through [m]."""
    m, k = a.values.shape
    total = np.zeros((m, len(b.values)))
    for number, part in enumerate(_tiles(k, _CHUNK)):
        if number:
            total += a.values[:, part] @ b.values[:, part].T
        else:
            np.matmul(a.values[:, part], b.values[:, part].T, out=total)
    return total, np.minimum(a.terms, _CHUNK) + float(-(-k // _CHUNK))


def _enclosed(total: Reals, error: Reals | None, c: Reals | None, result: Result) -> tuple[Values, Mask]:
    """Rounded sums total + c, total off by at most `error` (None: exact), and where they are certain."""
    if c is not None:
        total, rest = two_sum(total, c)
        if result.name != "f64":
            total = to_odd(total, rest)
    else:
        total = total + 0.0  # no -0 of an exact zero
    if error is None:
        return settle(total, total, result)
    if c is not None and result.name != "f64":
        error = np.where(error > 0, error + np.abs(total) * (4 * _UNIT), 0.0)
    low, high = total - error, total + error
    if result.name == "f64":
        return total, error == 0
    return settle(low, high, result)


def _by_slices(a: Rows, b: Rows, c: Reals | None, result: Result, values: Values, open_: Mask) -> None:
    """Decides undecided elements by products of slices, in place, until only a few remain."""
    k = max(1, a.values.shape[1])
    rows, columns = np.flatnonzero(open_.any(axis=1)), np.flatnonzero(open_.any(axis=0))
    step = max(32, _SLICED // k)
    for i in _tiles(len(rows), step):
        for j in _tiles(len(columns), step):
            place = np.ix_(rows[i], columns[j])
            part = c[place] if c is not None else None
            left = open_[place]
            if not left.any():
                continue
            for sums, certain in sliced_product(a[rows[i]], b[columns[j]], part, result):
                values[place] = np.where(certain, sums, values[place])
                left &= ~certain
                if np.count_nonzero(left) * k <= max(_FEW * left.size // open_.size, left.size * k // _SHARE):
                    break
            open_[place] = left


def _patch_special(values: Values, a: Rows, b: Rows, c: Reals | None, result: Result) -> None:
    """Infinities and NaN, in place: by counting products that are infinite, of either sign, or NaN."""
    if a.special is None and b.special is None and (c is None or np.isfinite(c).all()):
        return
    x, y = (rows.special if rows.special is not None else np.zeros(rows.values.shape, np.int8) for rows in (a, b))
    used = (x != 0).any(axis=0) | (y != 0).any(axis=0)  # columns of A, rows of B, with something special in them
    x, y = x[:, used], y[:, used]
    signs_a, signs_b = np.sign(a.values[:, used]), np.sign(b.values[:, used])  # 0 where special
    infinite_a, infinite_b = np.where(x == 2, 0.0, x), np.where(y == 2, 0.0, y)
    zero_a, zero_b = (signs_a == 0) & (x == 0), (signs_b == 0) & (y == 0)
    nan = (x == 2).any(axis=1)[:, None] | (y == 2).any(axis=1)
    nan |= (np.abs(infinite_a) @ zero_b.T.astype(np.float64) > 0) | (
        zero_a.astype(np.float64) @ np.abs(infinite_b).T > 0
    )
    both_b = signs_b + infinite_b
    signed = infinite_a @ both_b.T + signs_a @ infinite_b.T  # infinite products, counted with their signs and without
    counted = np.abs(infinite_a) @ np.abs(both_b).T + np.abs(signs_a) @ np.abs(infinite_b).T
    positive, negative = counted + signed > 0, counted - signed > 0
    if c is not None:
        nan, positive, negative = nan | np.isnan(c), positive | (c == np.inf), negative | (c == -np.inf)
    values[positive] = np.inf
    values[negative] = -np.inf
    values[nan | (positive & negative)] = result.quiet_nan()
