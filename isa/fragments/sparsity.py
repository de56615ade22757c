"""Prunes, compresses and expands matrices with structured sparsity. These functions lead from a whole matrix to the
stored elements and metadata codes that a sparse instruction takes, and back.

All functions take any leading axes and work on whole rows; `patterns` are element patterns in uint32 (see `isa.types`).
"""

from __future__ import annotations

from functools import cache, reduce
from itertools import combinations
from math import comb
from typing import TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isa.arguments import bit_patterns
from isa.errors import IsaError
from isa.fragments.metadata import Sparsity, stored_columns
from isa.patterns import chunk_pattern
from isa.types import Bits, ElementType, element_type

Mask = NDArray[np.bool_]
Number = TypeVar("Number", bound=np.generic)


def prune(values: ArrayLike, sparsity: str | Sparsity, element: str | ElementType | None = None) -> Mask:
    """Which elements [..., row, K] a magnitude pruning keeps, as booleans of the same shape.

    Args:
        values: numbers, not patterns.
        sparsity: a pattern, or its name, such as "2:4".
        element: their type or its name, where its magnitudes are weighed in a way of their own (see `weights`).

    Raises:
        IsaError: no such pattern or type, or rows that are no whole number of chunks.
    """
    element = element if element is None else element_type(element)
    return keep(weights(values, element), chunk_pattern(sparsity))


def weights(values: ArrayLike, element: ElementType | None = None) -> NDArray[np.float32]:
    """What cuSPARSELt 0.8 adds up to weigh elements, float32 of the same shape (measured on an NVIDIA H100, November
    2026): the absolute value, but s8's -128 (of an element type s8, or in an array of int8) stays -128, because its
    absolute value overflows the byte, and e5m2's infinities count as its largest number, 57344."""
    numbers = np.asarray(values)
    weight = np.abs(numbers.astype(np.float64)).astype(np.float32)
    name = element.name if element is not None else "s8" if numbers.dtype == np.int8 else ""
    if name == "s8":
        return np.where(numbers == -128, np.float32(-128), weight)
    return np.where(np.isinf(weight), np.float32(57344), weight) if name == "e5m2" else weight


def keep(weight: NDArray[np.float32], sparsity: Sparsity) -> Mask:
    """Which elements [..., row, K] are kept, given how much each weighs.

    2:4 keeps the pair of elements with the largest sum (in f32), the first of equal ones in the order 01, 02, 03, 12,
    13, 23; 1:2 keeps the second element unless the first is larger. Both are cuSPARSELt 0.8's PRUNE_SPMMA_STRIP as
    measured on an NVIDIA H100, November 2026, NaN and infinity included (a sum with NaN is never larger than another).
    4:8 does as 2:4 with neighbouring pairs, by analogy, and so does every other N:M with its units (assumed); where
    there are more than 128 choices, the N largest units stay, the first of equal ones.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        chunks = _chunks(weight, sparsity).sum(axis=-1)
        if sparsity.splices:
            first = chunks[..., 0] > chunks[..., 1]
            kept = np.stack([first, ~first], axis=-1)
        elif comb(sparsity.units, sparsity.kept) > _MOST_CHOICES:
            largest = np.argsort(-chunks, axis=-1, kind="stable")[..., : sparsity.kept]
            kept = np.zeros(chunks.shape, np.bool_)
            np.put_along_axis(kept, largest, True, axis=-1)
        else:
            choices, table = _choices(sparsity.units, sparsity.kept)
            sums = np.stack([reduce(np.add, (chunks[..., unit] for unit in choice)) for choice in choices], axis=-1)
            kept = table[first_largest(sums)[0]]
    return np.repeat(kept, sparsity.unit, axis=-1).reshape(weight.shape)


@cache
def _choices(units: int, kept: int) -> tuple[tuple[tuple[int, ...], ...], Mask]:
    """The ways to keep some units of a chunk, in the order in which the library looks at them, and which units each
    keeps, bool [choice, unit]."""
    choices = tuple(combinations(range(units), kept))
    return choices, np.array([[unit in choice for unit in range(units)] for choice in choices])


_MOST_CHOICES = 128  # sums of a chunk that are compared one by one, at most

PAIRS, KEPT_BY_PAIR = _choices(4, 2)
"""The pairs of the units of a chunk of 2:4, and the units of each."""


def first_largest(sums: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The index of the first sum on the last axis that no later one exceeds, and that sum. Unlike in argmax, a NaN
    never exceeds another sum and is never exceeded."""
    index, best = np.zeros(sums.shape[:-1], np.int64), sums[..., 0]
    for candidate in range(1, sums.shape[-1]):
        larger = sums[..., candidate] > best
        index, best = np.where(larger, candidate, index), np.where(larger, sums[..., candidate], best)
    return index, best


def compress(
    patterns: Bits, sparsity: str | Sparsity, element: str | ElementType, mask: Mask | None = None
) -> tuple[Bits, Bits]:
    """A sparse matrix [..., row, K] -> stored elements [..., row, K / 2] and metadata codes [..., row, chunk].

    Args:
        patterns: bit patterns of the element type, unsigned integers (of numbers: `numbers.view("u2")`).
        sparsity: a pattern, or its name, such as "2:4".
        element: the type, or its name.
        mask: which elements to keep; without it, those that are not zero (of either sign).

    A chunk with fewer elements to keep than it stores is filled with its last others, so that codes are always legal,
    ascending, and the same as CUTLASS's: {0} -> 0b1100, {1} -> 0b1101, {2}, {3}, {} -> 0b1110. Elements that are not
    kept are stored as they are only if they are such fillers, as zero.

    Raises:
        IsaError: no such pattern or type, values that are no patterns of it, or a chunk that keeps more elements than
            the pattern has room for; names the first.
    """
    sparsity, element = chunk_pattern(sparsity), element_type(element)
    patterns = cast(Bits, bit_patterns(patterns, element.bits, "a matrix"))
    kept = ~is_zero(patterns, element) if mask is None else np.asarray(mask, np.bool_)
    chunks = _chunks(np.where(kept, patterns, np.uint32(0)), sparsity)
    kept_units = _chunks(kept, sparsity).any(axis=-1)
    room = sparsity.kept
    crowded = np.argwhere(kept_units.sum(axis=-1) > room)
    if len(crowded):
        *outer, chunk = map(int, crowded[0])
        first, last = chunk * sparsity.chunk, (chunk + 1) * sparsity.chunk - 1
        raise IsaError(
            "",
            -1,
            f"row {outer[-1] if outer else 0}, columns {first} to {last} keep more elements than "
            f"{sparsity.name} stores",
            f"at most {room}{' pairs' if sparsity.unit > 1 else ''} in each chunk: prune first (isa.prune)",
        )
    count = kept_units.shape[-1]
    preference = np.where(kept_units, -1, np.arange(count)[::-1])
    index = np.sort(np.argsort(preference, axis=-1, kind="stable")[..., :room], axis=-1)
    stored = np.take_along_axis(chunks, index[..., None], axis=-2)
    return stored.reshape(*patterns.shape[:-1], -1), sparsity.codes(index)


def expand(stored: Bits, codes: Bits, sparsity: str | Sparsity) -> Bits:
    """Stored elements [..., row, K / 2] and codes [..., row, chunk] -> the logical matrix [..., row, K], zero where
    nothing is stored.

    Raises:
        IsaError: no such pattern, or a code that does not place its elements in different columns (its result is
            undefined).
    """
    sparsity = chunk_pattern(sparsity)
    stored = cast(Bits, bit_patterns(stored, 32, "stored elements"))
    codes = cast(Bits, bit_patterns(codes, 32, "metadata codes"))
    if (
        stored.ndim != codes.ndim
        or stored.shape[:-1] != codes.shape[:-1]
        or stored.shape[-1] != codes.shape[-1] * sparsity.stored
    ):
        raise IsaError(
            "",
            -1,
            f"stored elements of shape {stored.shape} with codes of shape {codes.shape}",
            f"{sparsity.stored} stored elements for each code",
        )
    legal = sparsity.distinct(codes)
    if not legal.all():
        *_, row, chunk = map(int, np.argwhere(~legal)[0])
        bad = int(codes[~legal][0])
        raise IsaError(
            "",
            -1,
            f"row {row}, chunk {chunk}: metadata code {bad:#0{sparsity.code_bits + 2}b} is undefined for "
            f"{sparsity.name}",
            sparsity.legal_text,
            rule="undefined-metadata",
        )
    matrix = np.zeros((*stored.shape[:-1], codes.shape[-1] * sparsity.chunk), np.uint32)
    np.put_along_axis(matrix, stored_columns(codes, sparsity), stored, axis=-1)
    return matrix


def is_zero(patterns: Bits, element: ElementType) -> Mask:
    """Whether a pattern is zero, of either sign, padding bits ignored."""
    held = element.mask
    if element.is_float:
        held = (1 << element.sign_bit) - (1 << element.padding)  # exponent and fraction: no sign, no padding
    return np.asarray((patterns & np.uint32(held)) == 0)


def _chunks(matrix: NDArray[Number], sparsity: Sparsity) -> NDArray[Number]:
    """[..., K] -> [..., chunk, unit index, element in unit]."""
    if matrix.ndim == 0 or matrix.shape[-1] % sparsity.chunk:
        raise IsaError(
            "",
            -1,
            f"a matrix of shape {matrix.shape} cannot be cut into chunks",
            f"columns in a multiple of {sparsity.chunk} for {sparsity.name}",
        )
    return matrix.reshape(*matrix.shape[:-1], -1, sparsity.units, sparsity.unit)
