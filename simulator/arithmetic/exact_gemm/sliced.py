"""Computes the elements of a matrix product that one float64 product leaves undecided: either by products of slices
(Ozaki, Ogita, Oishi, Rump 2012), or one element at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np

from simulator.arithmetic.exact_gemm.operands import Rows, blocks
from simulator.arithmetic.exact_gemm.rounding import Mask, Result, Values, powers_below, sum_exactly
from simulator.arithmetic.formats import Integers, Reals
from simulator.arithmetic.threads import spread

_CENTRE = 1.5 * 2.0**52
_TERMS = 1 << 17  # products worked on at once: 1 MiB of float64, in a core's own cache


def single_elements(a: Reals, b: Reals, c: Reals | None, rows: Integers, columns: Integers, result: Result) -> Values:
    """Chosen elements (rows[n], columns[n]) of a [m, K] times b [N, K] transposed, plus c [m, N]: exact, rounded once
    [n]."""
    values = np.zeros(len(rows), result.dtype)
    k = a.shape[1]
    step = max(1, _TERMS // (k + 1))

    def share(part: slice) -> None:
        for start in range(part.start, part.stop, step):
            chosen = slice(start, min(start + step, part.stop))
            i, j = rows[chosen], columns[chosen]
            terms = np.empty((len(i), k + 1))
            np.multiply(a[i], b[j], out=terms[:, :k])  # exact: at most 53 bits together
            terms[:, k] = c[i, j] if c is not None else 0.0
            values[chosen], certain = sum_exactly(terms.T, 0.0, result)
            assert certain.all()

    spread(len(rows), k + 1, share)
    return values


def sliced_product(a: Rows, b: Rows, c: Reals | None, result: Result) -> Iterator[tuple[Values, Mask]]:
    """a [m, K] times b [n, K] transposed plus c [m, n], from more and more slices: rounded values and where they are
    certain, in the end everywhere.

    A row of A is cut into slices: the t-th has multiples of g 2^-(t * bits), at most 2^(bits - 1) of them; so is a
    column of B. A product of slices has products of at most 2^(2 bits - 2) units, and up to 2^extra products of slices
    have the same unit (those with the same s + t), so that with 2^length >= the non-zero products of an element and 2
    bits - 2 + length + extra <= 53 their sum is exact in float64, in any order.
    """
    length = (int(a.terms.max(initial=1)) - 1).bit_length()
    for extra in count(1):
        bits = (55 - length - extra) // 2
        left, right = _Slices(a, bits), _Slices(b, bits)
        if min(left.count, right.count) <= 1 << extra:
            break
    last = left.count + right.count - 2
    size = np.ldexp(left.bounds[:, None] * right.bounds, length)  # of the sum of |products|
    parts = [c] if c is not None else []
    for level in range(last + 1):
        pairs = [(left[s], right[level - s]) for s in range(left.count) if 0 <= level - s < right.count]
        products = [x @ y.T for x, y in pairs if x.any() and y.any()]
        if products:
            parts.append(sum(products[1:], start=products[0]))
        if level < last and (level + 1) * bits < result.fraction + 2:
            continue  # too early to decide much
        # At most w + 1 products of slices have s + t = w, each at most size * 2^-(w * bits); left out are those from w
        # = level + 1 on.
        error = 0.0 if level == last else np.ldexp(size, -(level + 1) * bits) * (level + 3.0)
        yield _round_parts(parts, error, result, size.shape)


class _Slices:
    """Slices of rows, cut when they are asked for: each the nearest multiples of a unit, of which half at most is left
    for the next.

    Attributes:
        bounds: powers of two above all magnitudes of each row; 0 for rows of zeros.
        count: slices that add up to the rows: as many as it takes until the unit is one of which all elements are
            multiples.
    """

    def __init__(self, rows: Rows, bits: int) -> None:
        self.bounds: Reals = 2.0 * powers_below(np.abs(rows.values).max(axis=1, initial=0.0))
        span = (
            np.frexp(np.where(self.bounds > 0, self.bounds, 1.0))[1]
            - np.frexp(np.where(self.bounds > 0, rows.unit, 1.0))[1]
        )
        self.count = max(1, -(-(int(span.max(initial=0)) + 1) // bits))
        self._bits, self._rest, self._units, self._cut = (
            bits,
            rows.values,
            self.bounds * 2.0 ** (1 - bits),
            list[Reals](),
        )

    def __getitem__(self, number: int) -> Reals:
        while len(self._cut) <= number:
            cut, rest = np.empty_like(self._rest), np.empty_like(self._rest)
            for part in blocks(*self._rest.shape):
                centre = _CENTRE * self._units[part, None]
                np.subtract(self._rest[part] + centre, centre, out=cut[part])
                np.subtract(self._rest[part], cut[part], out=rest[part])
            self._cut.append(cut)
            self._rest, self._units = rest, self._units * 2.0**-self._bits
        return self._cut[number]


def _round_parts(
    parts: list[Reals], error: Reals | float, result: Result, shape: tuple[int, ...]
) -> tuple[Values, Mask]:
    values, certain = np.zeros(shape, result.dtype), np.ones(shape, np.bool_)
    if not parts:
        return values, certain
    for part in blocks(shape[0], shape[1] * (len(parts) + 1)):
        terms = np.stack([x[part].ravel() for x in parts])
        bound = error if isinstance(error, float) else error[part].ravel()
        sums = sum_exactly(terms, bound, result)
        values[part], certain[part] = (x.reshape(values[part].shape) for x in sums)
    return values, certain
