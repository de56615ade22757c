"""Compress as cuSPARSELt does: kept values and metadata in one buffer, and back.

The buffer of 0.8 on an NVIDIA H100, as measured in November 2026 (the library does not document it):

1. the kept elements, K / 2 for each row of op(A), in the memory order of the matrix; of f32 the pattern of a finite
   number plus 0x1000, which is half of a tf32 place: the tensor core cuts the rest off;
2. metadata in the format "cusparselt";
3. for f32, the metadata once more, in the format "cusparselt.sm80";
4. room that is never written, where the matrix would need more metadata turned by 90 degrees.

In a chunk that has fewer elements than it stores, the last others fill it, as they are: a zero keeps its sign.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isa.errors import IsaError
from isa.fragments.metadata import stored_columns
from isa.fragments.sparsity import compress as compress_chunks
from isa.fragments.sparsity import expand
from isa.metadata_formats import metadata_format
from isa.metadata_formats.move import check_codes
from isa.types import Bits
from simulator.floating_point import guarded
from simulator.studies.sparselt.given import type_name
from simulator.studies.sparselt.matrices import Arrangement, Mask, Patterns, matrix_type, sparsity
from simulator.studies.sparselt.pruning import is_zero
from simulator.studies.sparselt.rounding import patterns_told

Bytes = NDArray[np.uint8]

MULTIPLES = {32: 8, 16: 16, 8: 32}
"""What the library asks rows and columns to be multiples of, by the type's width (measured: it refuses others)."""
HALF_PLACE = np.uint32(0x1000)


@guarded
def compress(patterns: ArrayLike, type: str, *, order: str = "row", op: str = "n", operand: str = "a") -> Bytes:
    """The compressed buffer of a pruned matrix, uint8, as `cusparseLtSpMMACompress2` writes it.

    Args:
        patterns: [row, column], pruned.
        type: f16, bf16, f32, s8, e4m3 or e5m2.
        order, op, operand: see `prune`.

    Bytes that the library leaves unwritten are zero.

    Raises:
        IsaError: a shape or arrangement that the library does not take, or a matrix that is not pruned along K.
    """
    elements, type = patterns_told(patterns, type), type_name(type)
    rows, columns = elements.shape
    arrangement = _checked(elements.shape, type, Arrangement(order, op, operand))
    stored, codes = split(np.asarray(arrangement.by_k(elements), elements.dtype), type)
    if type in ("f32", "tf32"):
        stored = np.where(_finite(stored), stored + HALF_PLACE, stored).astype(elements.dtype)
    lying = stored if arrangement.contiguous else stored.T
    buffer = np.zeros(compressed_size(rows, columns, type), np.uint8)
    parts = [np.ascontiguousarray(lying), *(metadata_format(name, type).store(codes) for name in _formats(type))]
    start = 0
    for part in parts:
        buffer[start : start + part.nbytes] = part.reshape(-1).view(np.uint8)
        start += part.nbytes
    return buffer


@guarded
def decompress(
    buffer: Bytes, type: str, rows: int, columns: int, *, order: str = "row", op: str = "n", operand: str = "a"
) -> Patterns:
    """The pruned matrix [row, column] of a compressed buffer. Of f32 the half place is taken off again.

    Raises:
        IsaError: a buffer of another type or length, a shape that the library does not take, or metadata that is not
            defined.
    """
    element, type = matrix_type(type), type_name(type)
    arrangement = _checked((rows, columns), type, Arrangement(order, op, operand))
    buffer = np.asarray(buffer)
    size = compressed_size(rows, columns, type)
    if buffer.dtype != np.uint8 or buffer.size < size:
        reason = f"a compressed buffer of {buffer.size} {buffer.dtype} for {rows} x {columns} {type}"
        raise IsaError("", -1, reason, f"{size} uint8 (or more, of which the first count)")
    count = rows * columns // 2 * element.bits // 8
    flat = np.ascontiguousarray(buffer).reshape(-1)
    high, wide = (rows, columns) if arrangement.along_columns else (columns, rows)
    lying = flat[:count].view(f"u{element.bits // 8}")
    stored = lying.reshape(high, wide // 2) if arrangement.contiguous else lying.reshape(wide // 2, high).T
    if type in ("f32", "tf32"):
        stored = np.where(_finite(stored), stored - HALF_PLACE, stored).astype(lying.dtype)
    chunks = wide // sparsity(type).chunk
    layout = metadata_format("cusparselt", type)
    (length,) = layout.shape(high, chunks)
    codes = layout.load(flat[count : count + length], high, chunks)
    check_codes(codes, layout)
    return np.asarray(arrangement.by_k(join(np.asarray(stored, lying.dtype), codes, type)), lying.dtype)


def compressed_size(rows: int, columns: int, type: str) -> int:
    """Bytes of the buffer of a matrix: values, and the metadata that either direction of K would need."""
    bits, chunk = matrix_type(type).bits, sparsity(type).chunk
    layout = metadata_format("cusparselt", type)
    metadata = [layout.shape(high, wide // chunk)[0] for high, wide in ((rows, columns), (columns, rows))]
    return rows * columns // 2 * bits // 8 + max(metadata) * len(_formats(type))


def split(by_k: Patterns, type: str) -> tuple[Patterns, Bits]:
    """A pruned matrix with K along the columns -> stored elements [row, K / 2] and codes [row, chunk], as the library
    fills chunks with too few elements. IsaError where it is not pruned."""
    pattern, element = sparsity(type), matrix_type(type)
    words = by_k.astype(np.uint32)
    _, codes = compress_chunks(words, pattern, element, ~is_zero(by_k, type))
    return np.take_along_axis(words, stored_columns(codes, pattern), axis=-1).astype(by_k.dtype), codes


def join(stored: Patterns, codes: Bits, type: str) -> Patterns:
    """The inverse of `split`: the matrix with K along the columns."""
    return expand(stored.astype(np.uint32), codes, sparsity(type)).astype(stored.dtype)


def _finite(patterns: Patterns) -> Mask:
    """Which f32 patterns are neither infinite nor NaN."""
    return np.asarray((patterns & np.uint32(0x7F800000)) != 0x7F800000)


def _formats(type: str) -> tuple[str, ...]:
    return ("cusparselt", "cusparselt.sm80") if matrix_type(type).bits == 32 else ("cusparselt",)


def _checked(shape: tuple[int, ...], type: str, arrangement: Arrangement) -> Arrangement:
    rows, columns = shape
    bits = matrix_type(type).bits
    if bits not in MULTIPLES:
        raise IsaError(type, -1, f"cuSPARSELt's buffer of {type} was never seen", "f16, bf16, f32, s8, e4m3, e5m2")
    if rows % MULTIPLES[bits] or columns % MULTIPLES[bits] or not rows or not columns:
        reason = f"cuSPARSELt compresses no matrix of {rows} x {columns} {type}"
        raise IsaError("", -1, reason, f"rows and columns in multiples of {MULTIPLES[bits]}")
    if bits == 8 and not arrangement.contiguous:
        reason = f"{type} with K not contiguous in memory (cuSPARSELt 0.8 breaks down on it on an H100)"
        raise IsaError("", -1, reason, "row-major with op n, or col-major with op t, for operand a; the reverse for b")
    return arrangement
