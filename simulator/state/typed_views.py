"""Reads and writes many small pieces of one byte array by typed views of it: one item each, never byte by byte."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
_TYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
    16: np.dtype(np.complex128),  # copied as 16 bytes, never computed with
}
LONGEST = 16  # storage is padded to a multiple of this


def padded(size: int) -> int:
    """The size of storage whose views of every width hold this many bytes."""
    return -(-size // LONGEST) * LONGEST


def gather(data: NDArray[np.uint8], offsets: Integers, width: int) -> NDArray[np.uint8]:
    """The bytes uint8 [..., width] at these offsets [...], which are multiples of `width` (or of 16) within `data`."""
    if width > LONGEST:
        pieces = [gather(data, offsets + start, LONGEST) for start in range(0, width, LONGEST)]
        return np.concatenate(pieces, axis=-1)
    items = data.view(_TYPES[width]).take(offsets // width if width > 1 else offsets, mode="clip")
    return items[..., None].view(np.uint8)


def scatter(data: NDArray[np.uint8], offsets: Integers, values: NDArray[np.uint8]) -> None:
    """Writes uint8 [..., width] at these offsets [...]; of several writes of one byte the last in order stays."""
    width = values.shape[-1]
    if width > LONGEST:
        for start in range(0, width, LONGEST):
            scatter(data, offsets + start, values[..., start : start + LONGEST])
        return
    items = np.ascontiguousarray(values).view(_TYPES[width])[..., 0]
    data.view(_TYPES[width])[offsets // width if width > 1 else offsets] = items
