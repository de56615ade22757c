"""PRUNE_SPMMA_TILE: the best of the 90 ways to keep two elements in each row and column of a 4 x 4 tile.

The order in which the library looks at them decides ties, and what NaN does. Number the six pairs of columns
0 = {0, 1}, 1 = {0, 2}, 2 = {0, 3}, 3 = {1, 2}, 4 = {1, 3}, 5 = {2, 3}, so that pair p and pair 5 - p have no column in
common. A pattern is four pairs, one a row. The library builds it from halves:

1. rows 0 and 1 keep pairs (i, 5 - i), rows 2 and 3 (j, 5 - j): the best i and the best j, each chosen alone;
2. then, for i = 0 to 5, (i, i, 5 - i, 5 - i);
3. then, for each i < j that share a column, rows 0 and 1 the better of (j, i) and (i, j), rows 2 and 3 the better of
   (5 - i, 5 - j) and (5 - j, 5 - i).

A later candidate wins only if its sum is larger, so that of equal ones the first stays, and a sum with NaN neither wins
nor is beaten. Sums are in f32: of a row, of two rows, of both halves. Learnt from what cuSPARSELt 0.8 did on an NVIDIA
H100 to 165,000 tiles, ties, NaN and infinities among them; none differs.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from isa.fragments.sparsity import KEPT_BY_PAIR, PAIRS, first_largest
from simulator.studies.sparselt.matrices import Mask

Weights = NDArray[np.float32]
Choice = NDArray[np.int64]

_CROSSED = tuple((i, j) for i, j in combinations(range(6), 2) if i + j != 5)


@cache
def patterns_4x4() -> Mask:
    """All 90 patterns, bool [90, 4, 4], in ascending order of their pairs."""
    every = KEPT_BY_PAIR[np.array(list(product(range(6), repeat=4)))]
    return np.asarray(every[(every.sum(axis=1) == 2).all(axis=-1)])


def best_4x4(weights: Weights) -> Mask:
    """Which elements of tiles float32 [tile, 4, 4] are kept, bool of the same shape."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(KEPT_BY_PAIR[_search(np.asarray(weights, np.float32))])


def best_2x2(weights: Weights) -> Mask:
    """The same for 1:2: tiles float32 [tile, 2, 2]. The main diagonal is kept only if it is larger (not on a tie,
    nor with NaN)."""
    with np.errstate(invalid="ignore", over="ignore"):
        main = weights[:, 0, 0] + weights[:, 1, 1] > weights[:, 0, 1] + weights[:, 1, 0]
    return np.asarray(main[:, None, None] == np.eye(2, dtype=np.bool_))


def _search(weights: Weights) -> Choice:
    """The pair that each row keeps, int64 [tile, 4]."""
    pair = np.stack([weights[:, :, a] + weights[:, :, b] for a, b in PAIRS], axis=-1)  # [tile, row, pair]
    upper = np.stack([pair[:, 0, i] + pair[:, 1, 5 - i] for i in range(6)], axis=-1)
    lower = np.stack([pair[:, 2, j] + pair[:, 3, 5 - j] for j in range(6)], axis=-1)
    (i, top), (j, low) = first_largest(upper), first_largest(lower)
    chosen, best = np.stack([i, 5 - i, j, 5 - j], axis=-1), top + low
    for i_, j_ in (*((i, i) for i in range(6)), *_CROSSED):
        up, above = _better(pair[:, 0, j_] + pair[:, 1, i_], pair[:, 0, i_] + pair[:, 1, j_])
        down, below = _better(pair[:, 2, 5 - i_] + pair[:, 3, 5 - j_], pair[:, 2, 5 - j_] + pair[:, 3, 5 - i_])
        larger = above + below > best
        if larger.any():
            rows = [np.where(up, i_, j_), np.where(up, j_, i_)]
            rows += [np.where(down, 5 - j_, 5 - i_), np.where(down, 5 - i_, 5 - j_)]
            chosen = np.where(larger[:, None], np.stack(rows, axis=-1), chosen)
            best = np.where(larger, above + below, best)
    return chosen


def _better(first: Weights, second: Weights) -> tuple[Mask, Weights]:
    larger = second > first
    return larger, np.where(larger, second, first)
