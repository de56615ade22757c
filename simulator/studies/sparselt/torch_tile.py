"""PyTorch's pruning of 4 x 4 tiles for training, `torch._sparse_semi_structured_tile`: along both ways at once.

Each tile is pruned so that rows and columns both keep at most two elements, so that the matrix and its transpose are
2:4. The greedy algorithms take elements from the largest down and keep each for which its row and column have room;
"causal1122" goes row by row and keeps at most 1, 1, 2 and 2 in them. Which of equal elements comes first, and where NaN
goes, is decided by the sorting network (Bose and Nelson's, 65 comparisons for 16 elements), which is done here too.

Sources: PyTorch, aten/src/ATen/native/sparse/cuda: ComputeSparseTile.h, StaticSort.h, SparseSemiStructuredPack.h
(published); PyTorch 2.11 on an NVIDIA H100 and H200, November 2026, f16 and bf16, with ties, NaN and infinities: the
same bytes.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isa.errors import IsaError
from isa.metadata_formats import metadata_format
from isa.types import Bits
from simulator.floating_point import guarded
from simulator.studies.sparselt.given import type_name
from simulator.studies.sparselt.matrices import Mask, Patterns, to_values
from simulator.studies.sparselt.rounding import patterns_told

ALGORITHMS = ("largest_values_greedy", "largest_abs_values_greedy", "causal1122")
TYPES = ("f16", "bf16")
_ROOM = (1, 1, 2, 2)
Values = NDArray[np.float64]


class TorchTile(NamedTuple):
    """What `torch._sparse_semi_structured_tile(..., use_cutlass=True)` returns, as unsigned arrays.

    Attributes:
        packed: kept values, [row, column / 2].
        meta: words in the format "cutlass.sm80", uint16 [column / 32, row, 2] as they lie in memory (PyTorch shows
            them transposed, as [row, 2, column / 32]).
        packed_t, meta_t: the same of the transpose.
        masks: uint8 [row / 8, column / 8, 8]: of each 8 x 8 block the four 4 x 4 tiles, 16 bits each.
    """

    packed: Patterns
    meta: NDArray[np.uint16]
    packed_t: Patterns
    meta_t: NDArray[np.uint16]
    masks: NDArray[np.uint8]


@guarded
def torch_tile(patterns: ArrayLike, type: str, algorithm: str = "largest_values_greedy") -> TorchTile:
    """Prunes a matrix along both ways and packs it twice.

    Args:
        patterns: [row, column] of f16 or bf16; rows and columns in multiples of 64 (PyTorch pads rows, and reads
            beyond the end of a row where its columns are not).
        algorithm: one of `ALGORITHMS`; PyTorch's default "" is "largest_values_greedy".

    Raises:
        IsaError: another type, shape or algorithm.
    """
    elements, type = patterns_told(patterns, type), type_name(type)
    rows, columns = elements.shape
    if rows % 64 or columns % 64:
        reason = f"PyTorch's tiles: a matrix of {rows} x {columns}"
        raise IsaError("", -1, reason, "rows and columns in multiples of 64")
    kept = keep(elements, type, algorithm)
    (packed, meta), (packed_t, meta_t) = _pack(elements, kept), _pack(elements.T, kept.T)
    return TorchTile(packed, meta, packed_t, meta_t, _masks(kept))


def keep(patterns: Patterns, type: str, algorithm: str) -> Mask:
    """Which elements are kept, bool [row, column]; rows and columns in multiples of 4."""
    if algorithm not in ALGORITHMS:
        raise IsaError(algorithm, -1, f"PyTorch has no algorithm '{algorithm}'", ", ".join(ALGORITHMS))
    if type not in TYPES:
        raise IsaError(type, -1, f"PyTorch prunes no tiles of {type}", " or ".join(TYPES))
    rows, columns = patterns.shape
    if rows % 4 or columns % 4:
        raise IsaError("", -1, f"a matrix of {rows} x {columns} cannot be cut into tiles of 4 x 4", "whole tiles")
    values = to_values(patterns, type)
    if "abs" in algorithm:
        values = np.abs(values)
    tiles = values.reshape(rows // 4, 4, columns // 4, 4).swapaxes(1, 2)
    with np.errstate(invalid="ignore"):
        flat = tiles.reshape(-1, 16)
        kept = _causal(flat) if algorithm == "causal1122" else _greedy(flat)
    return kept.reshape(tiles.shape).swapaxes(1, 2).reshape(rows, columns)


def _greedy(values: Values) -> Mask:
    """From the largest element down, each for which there is room."""
    order = _sorted(values)
    every = np.arange(len(values))
    rows, columns = np.zeros((2, len(values), 4), np.int64)
    kept = np.zeros(values.shape, np.bool_)
    for rank in range(15, -1, -1):
        element = order[:, rank]
        row, column = element // 4, element % 4
        room = (rows[every, row] < 2) & (columns[every, column] < 2)
        kept[every, element] = room
        rows[every, row] += room
        columns[every, column] += room
    return kept


def _causal(values: Values) -> Mask:
    """Row by row, so that no row depends on a later one."""
    every = np.arange(len(values))
    columns = np.zeros((len(values), 4), np.int64)
    kept = np.zeros(values.shape, np.bool_)
    for row, room in enumerate(_ROOM):
        order = _sorted(values[:, 4 * row : 4 * row + 4])
        taken = np.zeros(len(values), np.int64)
        for rank in range(3, -1, -1):
            column = order[:, rank]
            fits = (columns[every, column] < 2) & (taken < room)
            kept[every, 4 * row + column] = fits
            columns[every, column] += fits
            taken += fits
    return kept


def _sorted(values: Values) -> NDArray[np.int64]:
    """Indices [tile, rank] as the network leaves them, the smallest first; equal ones are exchanged, NaN is never
    smaller."""
    held = values.copy()
    index = np.broadcast_to(np.arange(values.shape[1]), values.shape).copy()
    for low, high in _network(values.shape[1]):
        smaller = held[:, low] < held[:, high]
        for array in (held, index):
            first, second = array[:, low].copy(), array[:, high].copy()
            array[:, low], array[:, high] = np.where(smaller, first, second), np.where(smaller, second, first)
    return index


@cache
def _network(count: int) -> tuple[tuple[int, int], ...]:
    """Bose and Nelson's sorting network: pairs to compare, in order."""
    comparisons: list[tuple[int, int]] = []

    def merge(first: int, second: int, length: int, other: int) -> None:
        if (length, other) == (1, 1):
            comparisons.append((first, second))
        elif (length, other) == (1, 2):
            comparisons.extend([(first, second + 1), (first, second)])
        elif (length, other) == (2, 1):
            comparisons.extend([(first, second), (first + 1, second)])
        else:
            half = length // 2
            middle = (other if length % 2 else other + 1) // 2
            merge(first, second, half, middle)
            merge(first + half, second + middle, length - half, other - middle)
            merge(first + half, second, length - half, middle)

    def sort(first: int, length: int) -> None:
        if length > 1:
            half = length // 2
            sort(first, half)
            sort(first + half, length - half)
            merge(first, first + half, half, length - half)

    sort(0, count)
    return tuple(comparisons)


def _pack(patterns: Patterns, kept: Mask) -> tuple[Patterns, NDArray[np.uint16]]:
    """Kept values [row, column / 2], and metadata.

    Of columns 0 and 1 the first kept one goes to place 0, of 2 and 3 the last kept one to place 1, and a second one to
    the place that is left. A place that nothing takes holds zero, and its index is what the row before of the same tile
    left in that register, at first 1: PyTorch's variable has no value there, and so its code may be one that PTX does
    not define (measured: every such code).
    """
    rows, columns = patterns.shape
    chunks, mask = patterns.reshape(rows, -1, 4), kept.reshape(-1, 4, columns // 4, 4)
    index = np.empty((2, rows // 4, 4, columns // 4), np.int64)
    taken = np.zeros(index.shape, np.bool_)
    before = np.ones((2, rows // 4, columns // 4), np.int64)
    for row in range(4):
        zero, one, two, three = (mask[:, row, :, column] for column in range(4))
        for place, column, here in (
            (0, 1, one), (0, 0, zero), (1, 1, zero & one), (1, 2, two), (1, 3, three), (0, 2, two & three),
        ):  # fmt: skip
            before[place] = np.where(here, column, before[place])
            taken[place, :, row] |= here
        index[:, :, row] = before
    places = np.moveaxis(index, 0, -1).reshape(rows, columns // 4, 2)
    held = np.moveaxis(taken, 0, -1).reshape(places.shape)
    values = np.where(held, np.take_along_axis(chunks, places, axis=-1), 0)
    codes: Bits = (places[..., 0] | places[..., 1] << 2).astype(np.uint32)
    words = metadata_format("cutlass.sm80", "f16").store(codes)
    return values.reshape(rows, -1).astype(patterns.dtype), words.reshape(columns // 32, rows, 2).astype(np.uint16)


def _masks(kept: Mask) -> NDArray[np.uint8]:
    rows, columns = kept.shape
    tiles = kept.reshape(rows // 4, 4, columns // 4, 4).swapaxes(1, 2).reshape(rows // 4, columns // 4, 16)
    words = (tiles.astype(np.uint16) << np.arange(16, dtype=np.uint16)).sum(axis=-1, dtype=np.uint16)
    blocks = words.reshape(rows // 8, 2, columns // 8, 2).swapaxes(1, 2).reshape(rows // 8, columns // 8, 4)
    return np.ascontiguousarray(blocks.astype("<u2")).view(np.uint8)
