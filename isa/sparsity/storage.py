"""Prunes, compresses and expands matrices with any pattern of the table.

`mask` weighs elements by the rule of `isa.fragments.sparsity.keep`, rank by rank. `compress` and `expand` are each
other's inverse for every matrix that is pruned.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isa.errors import IsaError
from isa.fragments.metadata import stored_columns
from isa.fragments.sparsity import Mask, is_zero, keep, weights
from isa.fragments.sparsity import compress as compress_chunks
from isa.fragments.sparsity import expand as expand_chunks
from isa.patterns import NestedSparsity, Pattern, Sparsity, Unstructured, VectorSparsity, parse_pattern
from isa.types import Bits, ElementType

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Compressed:
    """A matrix as a pattern stores it.

    Attributes:
        pattern: its pattern.
        shape: rows and columns of the whole matrix.
        values: stored elements, patterns uint32 [row, stored column]; of a bitmap one after the other, row by row.
        codes: metadata uint32 [row, chunk]; of V:N:M and ranks those of the inner pattern; of a bitmap none.
        outer: what is chosen first: of V:N:M the columns of each block, int64 [block row, block column, 2 * N]; of
            ranks the codes of groups, uint32 [row, chunk]; of a bitmap bool [row, column]; None of N:M.
    """

    pattern: Pattern
    shape: tuple[int, int]
    values: Bits
    codes: Bits | None = None
    outer: NDArray[np.generic] | None = None

    @property
    def metadata_bits(self) -> int:
        """Bits of all that is stored beside the values."""
        return self.pattern.metadata_bits(*self.shape)

    def bits(self, element: ElementType) -> int:
        """Bits of values and metadata."""
        return self.values.size * element.bits + self.metadata_bits


def mask(values: ArrayLike, pattern: Pattern | str, element: ElementType | None = None) -> Mask:
    """Which elements [row, K] a magnitude pruning keeps.

    Args:
        values: numbers, not patterns.
        element: their type, where its magnitudes are weighed in a way of their own (`isa.fragments.sparsity.weights`).

    V:N:M keeps the 2 * N columns of a block with the largest sum of magnitudes, the first of equal ones, and of them N
    in each row; ranks are pruned from the inside out, groups by what they have left (both as their papers say);
    unstructured keeps the largest of the whole matrix, the first of equal ones.

    Raises:
        IsaError: no such pattern, or a matrix that cannot be cut into its chunks.
    """
    weight = weights(_matrix(values), element)
    return _keep(weight, parse_pattern(pattern) if isinstance(pattern, str) else pattern)


def _keep(weight: NDArray[np.float32], pattern: Pattern) -> Mask:
    if isinstance(pattern, Sparsity):
        return keep(weight, pattern)
    if isinstance(pattern, NestedSparsity):
        inner = keep(weight, pattern.inner)
        return inner & keep(np.where(inner, weight, np.float32(0)), groups(pattern))
    if isinstance(pattern, VectorSparsity):
        blocks = _blocks(weight, pattern).sum(axis=1)  # [block row, block column, column]
        largest = np.sort(np.argsort(-blocks, axis=-1, kind="stable")[..., : pattern.inner.chunk], axis=-1)
        columns = _whole_columns(largest, weight.shape, pattern)
        kept = np.zeros(weight.shape, np.bool_)
        np.put_along_axis(kept, columns, keep(np.take_along_axis(weight, columns, axis=-1), pattern.inner), axis=-1)
        return kept
    count = max(round(pattern.density * weight.size), 1)
    largest = np.zeros(weight.size, np.bool_)
    largest[np.argsort(-weight, axis=None, kind="stable")[:count]] = True
    return np.asarray(largest.reshape(weight.shape), np.bool_)


def compress(patterns: Bits, pattern: Pattern | str, element: ElementType, kept: Mask | None = None) -> Compressed:
    """A pruned matrix [row, K] as the pattern stores it.

    Args:
        patterns: element patterns uint32.
        kept: which elements to keep; without it, those that are not zero (of either sign).

    Where fewer elements (columns, groups) are to be kept than there is room for, the last others fill it, as zeros.

    Raises:
        IsaError: no such pattern; a chunk or block that keeps more than there is room for.
    """
    pattern = parse_pattern(pattern) if isinstance(pattern, str) else pattern
    patterns = np.asarray(_matrix(patterns), np.uint32)
    kept = ~is_zero(patterns, element) if kept is None else np.asarray(kept, np.bool_)
    patterns = np.where(kept, patterns, np.uint32(0))
    rows, k = patterns.shape
    if isinstance(pattern, Sparsity):
        return Compressed(pattern, (rows, k), *compress_chunks(patterns, pattern, element, kept))
    if isinstance(pattern, Unstructured):
        return Compressed(pattern, (rows, k), patterns[kept], None, kept)
    if isinstance(pattern, NestedSparsity):
        stored, outer = compress_chunks(patterns, groups(pattern), element, kept)
        inner = np.take_along_axis(kept, stored_columns(outer, groups(pattern)), axis=-1)
        return Compressed(pattern, (rows, k), *compress_chunks(stored, pattern.inner, element, inner), outer)
    chosen = _block_columns(kept, pattern)
    columns = _whole_columns(chosen, (rows, k), pattern)
    stored, inner = np.take_along_axis(patterns, columns, axis=-1), np.take_along_axis(kept, columns, axis=-1)
    return Compressed(pattern, (rows, k), *compress_chunks(stored, pattern.inner, element, inner), chosen)


def expand(compressed: Compressed) -> Bits:
    """The whole matrix uint32 [row, K], zero where nothing is stored.

    Raises:
        IsaError: metadata that does not place its elements in different columns.
    """
    pattern, shape = compressed.pattern, compressed.shape
    if isinstance(pattern, Unstructured):
        matrix = np.zeros(shape, np.uint32)
        matrix[_outer(compressed).astype(np.bool_)] = compressed.values
        return matrix
    codes = _codes(compressed)
    inner = expand_chunks(compressed.values, codes, pattern if isinstance(pattern, Sparsity) else pattern.inner)
    if isinstance(pattern, Sparsity):
        return inner
    if isinstance(pattern, NestedSparsity):
        return expand_chunks(inner, np.asarray(_outer(compressed), np.uint32), groups(pattern))
    matrix = np.zeros(shape, np.uint32)
    np.put_along_axis(matrix, _whole_columns(_outer(compressed).astype(np.int64), shape, pattern), inner, axis=-1)
    return matrix


def rows_of(compressed: Compressed) -> tuple[Bits, Integers]:
    """Values and their logical columns, both [row, stored column], as multiplexers pick them; rows of a bitmap are
    filled up with zeros in column K, which the matrix does not have."""
    pattern, (rows, k) = compressed.pattern, compressed.shape
    if isinstance(pattern, Unstructured):
        bitmap = _outer(compressed).astype(np.bool_)
        counts = bitmap.sum(axis=1, dtype=np.intp)
        row, column = np.nonzero(bitmap)
        place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        values = np.zeros((rows, max(int(counts.max(initial=0)), 1)), np.uint32)
        columns = np.full(values.shape, k, np.int64)
        values[row, place], columns[row, place] = compressed.values, column
        return values, columns
    columns = stored_columns(_codes(compressed), pattern if isinstance(pattern, Sparsity) else pattern.inner)
    if isinstance(pattern, NestedSparsity):
        within = stored_columns(np.asarray(_outer(compressed), np.uint32), groups(pattern))
        columns = np.take_along_axis(within, columns, axis=-1)
    elif isinstance(pattern, VectorSparsity):
        within = _whole_columns(_outer(compressed).astype(np.int64), (rows, k), pattern)
        columns = np.take_along_axis(within, columns, axis=-1)
    return compressed.values, columns


@lru_cache(maxsize=32)
def groups(pattern: NestedSparsity) -> Sparsity:
    """The outer rank as a pattern of elements, whose units are groups."""
    size, outer = pattern.inner.chunk, pattern.outer
    return Sparsity(f"{outer.name} of groups", outer.chunk * size, outer.stored * size, unit=size)


def _matrix(values: ArrayLike) -> NDArray[np.generic]:
    matrix = np.asarray(values)
    if matrix.ndim != 2 or not matrix.size:
        raise IsaError("", -1, f"a matrix of shape {list(matrix.shape)}", "[row, column], with at least one element")
    return matrix


def _codes(compressed: Compressed) -> Bits:
    assert compressed.codes is not None
    return compressed.codes


def _outer(compressed: Compressed) -> NDArray[np.generic]:
    assert compressed.outer is not None
    return compressed.outer


def _blocks(matrix: NDArray[np.generic], pattern: VectorSparsity) -> NDArray[np.float32]:
    """[row, K] -> [block row, row, block column, column], filled up with zeros below."""
    rows, k = matrix.shape
    if k % pattern.columns:
        reason = f"a matrix of {rows} x {k} cannot be cut into blocks of {pattern.columns} columns"
        raise IsaError("", -1, reason, f"columns in a multiple of {pattern.columns} for {pattern.name}")
    high = ceil(rows / pattern.rows)
    whole = np.zeros((high * pattern.rows, k), np.float32)
    whole[:rows] = matrix
    return whole.reshape(high, pattern.rows, k // pattern.columns, pattern.columns)


def _block_columns(kept: Mask, pattern: VectorSparsity) -> Integers:
    """The columns that each block keeps, ascending, int64 [block row, block column, 2 * N]."""
    used = np.asarray(_blocks(kept, pattern).any(axis=1), np.bool_)
    crowded = np.argwhere(used.sum(axis=-1) > pattern.inner.chunk)
    if len(crowded):
        high, wide = map(int, crowded[0])
        first, left = high * pattern.rows, wide * pattern.columns
        reason = (
            f"rows {first} to {first + pattern.rows - 1} keep elements in {int(used[high, wide].sum())} of columns "
            f"{left} to {left + pattern.columns - 1}"
        )
        raise IsaError("", -1, reason, f"at most {pattern.inner.chunk} columns of a block: prune first")
    preference = np.where(used, -1, np.arange(pattern.columns)[::-1])
    chosen = np.argsort(preference, axis=-1, kind="stable")[..., : pattern.inner.chunk]
    return np.sort(chosen, axis=-1)


def _whole_columns(chosen: Integers, shape: tuple[int, ...], pattern: VectorSparsity) -> Integers:
    """The columns of blocks as columns of the matrix, for each of its rows: int64 [row, K / M * 2N]."""
    columns = chosen + pattern.columns * np.arange(chosen.shape[1])[:, None]
    return np.repeat(columns.reshape(len(chosen), -1), pattern.rows, axis=0)[: shape[0]]
