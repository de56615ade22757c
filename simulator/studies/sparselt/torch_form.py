"""PyTorch's semi-structured tensors: values and reordered metadata of its CUTLASS form, and `torch._cslt_compress`.

`to_torch` gives the bytes of `torch.sparse._semi_structured_conversions.sparse_semi_structured_from_dense_cutlass`,
`from_torch` those of its inverse. In a chunk with fewer than two elements that are not zero, PyTorch's codes are not
CUTLASS's: of {0} it keeps 0 and 2, of {1} it keeps 1 and 2. It silently drops elements of a matrix that is not 2:4;
here that is an error.

Sources: PyTorch's code (published); PyTorch 2.11 on an H200, November 2026: the same bytes both ways.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isa.errors import IsaError
from isa.fragments.metadata import ONE_OF_TWO
from isa.metadata_formats import metadata_format
from isa.metadata_formats.move import check_codes
from isa.types import Bits
from simulator.floating_point import guarded
from simulator.studies.sparselt.compression import Bytes, compress, join
from simulator.studies.sparselt.given import taken, type_name
from simulator.studies.sparselt.matrices import Patterns, as_patterns, matrix_type, sparsity
from simulator.studies.sparselt.rounding import patterns_told

TYPES = ("f16", "bf16", "s8", "f32")
Meta = NDArray[np.signedinteger]
_CODES = np.array([14, 8, 9, 4, 14, 8, 9, 4, 14, 12, 13, 4, 14, 12, 13, 4], np.uint32)
"""By which of the four are not zero: bit i for element i."""


@guarded
def to_torch(dense: ArrayLike, type: str) -> tuple[Patterns, Meta]:
    """A 2:4 (f32: 1:2) matrix as PyTorch keeps it: values [row, K / 2], metadata int16 (s8: int32) [row, words].

    Args:
        dense: [row, K], patterns, signed views of them, or floats (rounded).
        type: f16, bf16, s8 or f32.

    Raises:
        IsaError: another type, a shape that PyTorch refuses (or reads beyond the end of), or a matrix that is not
            pruned.
    """
    type = _known(type)
    patterns = patterns_told(dense, type)
    pattern, layout = sparsity(type), metadata_format("torch", type)
    rows, columns = patterns.shape
    if columns % pattern.chunk:
        layout.extent(rows, columns // pattern.chunk + 1)
        raise IsaError("", -1, f"a matrix of {columns} columns", f"columns in a multiple of {pattern.chunk}")
    magnitude = patterns & patterns.dtype.type(matrix_type(type).mask >> 1) if type != "s8" else patterns
    chunks = (magnitude != 0).reshape(rows, -1, pattern.chunk)
    crowded = np.argwhere(chunks.sum(axis=-1) > pattern.stored)
    if len(crowded):
        row, chunk = map(int, crowded[0])
        first = chunk * pattern.chunk
        reason = f"row {row}, columns {first} to {first + pattern.chunk - 1} keep more than {pattern.name} stores"
        raise IsaError("", -1, reason, "a pruned matrix: see sparselt.prune")
    codes = codes_of(chunks)
    words = layout.store(codes)
    if pattern is ONE_OF_TWO:
        index = (codes == 0b1110)[..., None].astype(np.int64)
    else:
        index = np.stack([codes & 3, codes >> 2], axis=-1).astype(np.int64)
    values = np.take_along_axis(patterns.reshape(chunks.shape), index, axis=-1)
    return values.reshape(rows, -1), words.view(f"i{words.dtype.itemsize}")


def codes_of(occupied: NDArray[np.bool_]) -> Bits:
    """PyTorch's codes uint32 [row, chunk] of chunks, bool [row, chunk, element]."""
    if occupied.shape[-1] == 2:
        return np.where(occupied[..., 0], 0b0100, 0b1110).astype(np.uint32)
    return np.asarray(_CODES[(occupied << np.arange(4)).sum(axis=-1)], np.uint32)


@guarded
def from_torch(values: ArrayLike, meta: ArrayLike, type: str) -> Patterns:
    """The dense matrix [row, K] of PyTorch's values and metadata.

    Raises:
        IsaError: another type or shape, or metadata that is not defined.
    """
    type = _known(type)
    stored, _ = as_patterns(values, type)
    layout = metadata_format("torch", type)
    chunks = stored.shape[1] // sparsity(type).stored
    codes = layout.load(taken(meta).array, stored.shape[0], chunks)
    check_codes(codes, layout)
    return join(stored, codes, type)


@guarded
def to_cslt(dense: ArrayLike, type: str) -> Bytes:
    """What `torch._cslt_compress` returns, seen as bytes: uint8 [row, bytes].

    It is cuSPARSELt's buffer of the row-major matrix, in as many whole elements a row as hold it; the bytes after the
    buffer are never written there, and zero here.
    """
    type = _known(type)
    patterns = patterns_told(dense, type)
    buffer, rows, width = compress(patterns, type), len(patterns), patterns.dtype.itemsize
    wide = -(-len(buffer) // (rows * width)) * width
    tensor = np.zeros((rows, wide), np.uint8)
    tensor.reshape(-1)[: len(buffer)] = buffer
    return tensor


def _known(type: str) -> str:
    type = type_name(type)
    if type not in TYPES:
        raise IsaError(type, -1, f"PyTorch has no semi-structured form of {type}", ", ".join(TYPES))
    return type
