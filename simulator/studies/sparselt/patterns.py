"""Prunes and compresses with patterns that cuSPARSELt does not have: the workflow of `tcsim prune --pattern` and
`tcsim compress --pattern`, with the library's types and arrangements."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isa.sparsity.storage import Compressed, compress, mask
from simulator.studies.sparselt.matrices import Arrangement, Patterns, matrix_type, to_values
from simulator.studies.sparselt.rounding import patterns_told


def prune_pattern(
    patterns: ArrayLike, type: str, pattern: str, *, order: str = "row", op: str = "n", operand: str = "a"
) -> Patterns:
    """The matrix [row, column] with the elements that the pattern does not keep made zero; see `isa.sparsity.storage`.

    Raises:
        IsaError: an unknown word, a type or pattern that there is not, a shape that cannot be cut into its chunks.
    """
    elements = patterns_told(patterns, type)
    arrangement = Arrangement(order, op, operand)
    by_k = np.asarray(arrangement.by_k(to_values(elements, type)), np.float64)
    kept = np.asarray(arrangement.by_k(mask(by_k, pattern, matrix_type(type))), np.bool_)
    return np.where(kept, elements, np.zeros((), elements.dtype))


def compress_pattern(
    patterns: ArrayLike, type: str, pattern: str, *, order: str = "row", op: str = "n", operand: str = "a"
) -> Compressed:
    """The matrix, turned so that K runs along its columns, as the pattern stores it; IsaError if it is not pruned."""
    elements = patterns_told(patterns, type)
    by_k = np.asarray(Arrangement(order, op, operand).by_k(elements)).astype(np.uint32)
    return compress(by_k, pattern, matrix_type(type))


def arrays_of(stored: Compressed, type: str) -> dict[str, NDArray[np.generic]]:
    """What is stored, by name: `values` as patterns of the type's width, `codes` and `outer` where there are any (a
    bitmap as bytes, the first column in the lowest bit)."""
    width = np.dtype(f"u{max(matrix_type(type).bits, 8) // 8}")
    found: dict[str, NDArray[Any]] = {"values": stored.values.astype(width)}
    if stored.codes is not None:
        found["codes"] = stored.codes
    if stored.outer is not None and stored.codes is None:
        found["outer"] = np.packbits(stored.outer.astype(np.bool_), axis=-1, bitorder="little")
    elif stored.outer is not None:
        found["outer"] = stored.outer
    return found
