"""Calls the compiled kernel where it adds products to superaccumulators, without rounding."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.arithmetic.compiled import library
from simulator.arithmetic.formats import Reals
from simulator.arithmetic.superaccumulator import Rows, Superaccumulators


def add_products(
    sums: Superaccumulators, rows: Rows, a: Reals, b: Reals, index: NDArray[np.integer[Any]] | None
) -> None:
    """Adds the products of matrices to sums; works only where there is a `library`.

    Args:
        sums: the superaccumulators.
        rows: int64 [case, m, n]: the sum of each element of D; no row twice, -1 for elements to be left out.
        a, b: values [case, m, stored] and [case, k, n].
        index: [case, m, stored]: the row of B that each element of A meets; None: its own column.
    """
    compiled = library()
    assert compiled is not None
    (cases, m, n), k, stored = rows.shape, b.shape[1], a.shape[2]
    assert a.shape == (cases, m, stored)
    assert b.shape == (cases, k, n)
    assert index is not None or k == stored
    assert not rows.size or rows.max() < len(sums.limbs)
    arrays: list[NDArray[Any] | None] = [np.ascontiguousarray(x, np.float64) for x in (a, b)]
    arrays.append(None if index is None else np.ascontiguousarray(index, np.int32))
    arrays += [np.ascontiguousarray(rows, np.int64), sums.limbs, sums.special]
    addresses = [ctypes.c_void_p(None if x is None else x.ctypes.data) for x in arrays]
    sizes = [ctypes.c_int32(size) for size in (m, n, k, stored, sums.digits.lowest, sums.digits.limbs)]
    compiled.tcsim_accumulate(ctypes.c_int64(cases), *sizes, *addresses)
