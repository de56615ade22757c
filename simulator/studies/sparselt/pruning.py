"""Prune as cuSPARSELt does, and as PyTorch does for training.

`prune` keeps half of the elements and makes the others zero. "strip" and "tile" are cuSPARSELt 0.8's algorithms, byte
for byte as on an NVIDIA H100 (November 2026) for all types, ties, NaN, infinities and subnormal numbers included, in
every arrangement of matrix, operation and operand that the library takes there. e2m1 was never measured (the library
prunes it on Blackwell alone): pairs of neighbours along K are weighed together, as NVIDIA's text says (inferred).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isa.errors import IsaError
from isa.fragments.metadata import ONE_OF_TWO
from isa.fragments.sparsity import keep
from simulator.floating_point import guarded
from simulator.studies.sparselt.given import type_name
from simulator.studies.sparselt.matrices import (
    Arrangement,
    Mask,
    Patterns,
    as_patterns,
    magnitudes,
    matrix_type,
    sparsity,
)
from simulator.studies.sparselt.rounding import patterns_told
from simulator.studies.sparselt.tile import Weights, best_2x2, best_4x4
from simulator.studies.sparselt.torch_tile import ALGORITHMS as TORCH_ALGORITHMS
from simulator.studies.sparselt.torch_tile import keep as keep_greedily

ALGORITHMS = ("tile", "strip", *TORCH_ALGORITHMS)


@guarded
def prune(
    patterns: ArrayLike,
    type: str,
    algorithm: str = "tile",
    *,
    order: str = "row",
    op: str = "n",
    operand: str = "a",
) -> Patterns:
    """The matrix with half of its elements made zero: patterns of the type's width, [row, column].

    Args:
        patterns: [row, column], unsigned patterns of the type's width, signed views of them, or floats, which are
            rounded; where that loses most of them (s8 of numbers below 1), a Python warning says so.
        type: f16, bf16, f32, s8, e4m3, e5m2 or e2m1.
        algorithm: "tile" (4 x 4, for f32 2 x 2: the largest sum of magnitudes with two, for f32 one, in each row and
            column), "strip" (1 x 4, for f32 1 x 2, along K), or one of PyTorch's: see `torch_tile`.
        order, op, operand: the library's layout, operation and sparse operand; they say which way K runs, and along
            which way a tile's ties are broken. The matrix is always given as [row, column].

    Raises:
        IsaError: an unknown word, a type or shape that has no such tiles or strips.
    """
    elements = patterns_told(patterns, type)
    kept = prune_mask(elements, type, algorithm, order=order, op=op, operand=operand)
    return np.where(kept, elements, np.zeros((), elements.dtype))


@guarded
def prune_mask(
    patterns: ArrayLike, type: str, algorithm: str = "tile", *, order: str = "row", op: str = "n", operand: str = "a"
) -> Mask:
    """Which elements `prune` keeps, bool [row, column]."""
    elements, _ = as_patterns(patterns, type)
    type = type_name(type)
    arrangement = Arrangement(order, op, operand)
    if algorithm in TORCH_ALGORITHMS:
        return keep_greedily(elements, type, algorithm)
    if algorithm not in ALGORITHMS:
        raise IsaError(algorithm, -1, f"no pruning algorithm '{algorithm}'", ", ".join(ALGORITHMS))
    pattern = sparsity(type)
    by_k = np.asarray(arrangement.by_k(magnitudes(elements, type)), np.float32)
    if algorithm == "strip":
        kept = keep(by_k, pattern)
    else:
        tiles = _tiles(_units(by_k, pattern.unit, type), type, arrangement.contiguous)
        kept = np.repeat(tiles, pattern.unit, axis=1)
    return np.asarray(arrangement.by_k(kept), np.bool_)


@guarded
def prune_check(patterns: ArrayLike, type: str, *, order: str = "row", op: str = "n", operand: str = "a") -> bool:
    """Whether no strip along K has more elements that are not zero than the pattern stores: `compress` takes it.

    Zero is a zero of either sign; of f32 subnormal numbers too, as `compress` sees them. (The library's own check wrote
    1 for every matrix on an H100, pruned or not: measured with 0.8. What is answered here is what its text promises.)
    """
    elements, _ = as_patterns(patterns, type)
    pattern = sparsity(type)
    by_k = Arrangement(order, op, operand).by_k(~is_zero(elements, type))
    marked = _units(np.asarray(by_k, np.float32), pattern.unit, type)
    room = pattern.stored // pattern.unit
    width = pattern.chunk // pattern.unit
    return bool(((_cut(marked, 1, width, type) > 0).sum(axis=-1) <= room).all())


def is_zero(patterns: Patterns, type: str) -> Mask:
    """What the library counts as zero: zeros of both signs, and f32's subnormal numbers (measured)."""
    element = matrix_type(type)
    if not element.is_float:
        return np.asarray(patterns == 0)
    exponent = ((1 << element.exponent) - 1) << element.fraction
    held = exponent if element.bits == 32 else exponent | ((1 << element.fraction) - 1)
    return np.asarray((patterns & patterns.dtype.type(held)) == 0)


def _units(elements: Weights, unit: int, type: str) -> Weights:
    """Weights of what one index picks: elements, or pairs of neighbours along K."""
    return elements if unit == 1 else np.asarray(_cut(elements, 1, unit, type).sum(axis=-1), np.float32)


def _tiles(units: Weights, type: str, contiguous: bool) -> Mask:
    """Tiles as they lie in memory: their rows run along what is contiguous there, which is K or is not."""
    lying = units if contiguous else units.T
    size, best = (2, best_2x2) if sparsity(type) is ONE_OF_TWO else (4, best_4x4)
    tiles = _cut(lying, size, size, type)
    outer = tiles.shape
    kept = best(tiles.reshape(-1, size, size)).reshape(outer).swapaxes(1, 2).reshape(lying.shape)
    return kept if contiguous else kept.T


def _cut(matrix: Weights, rows: int, columns: int, type: str) -> NDArray[np.float32]:
    """[row, column] -> [row tile, column tile, row, column], or [row, strip, column] for strips."""
    high, wide = matrix.shape
    if high % rows or wide % columns:
        what = f"tiles of {rows} x {columns}" if rows > 1 else f"strips of {columns}"
        raise IsaError(
            "", -1, f"a matrix of {high} x {wide} {type} cannot be cut into {what} along K", "whole tiles or strips"
        )
    if rows == 1:
        return matrix.reshape(high, wide // columns, columns)
    return matrix.reshape(high // rows, rows, wide // columns, columns).swapaxes(1, 2)
