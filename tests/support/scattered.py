"""Sparse operands for products whose result is known."""

from __future__ import annotations

import numpy as np


def scattered(stored: np.ndarray, kept: int, unit: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A whole matrix from the elements that it stores, placed at random, and its metadata.

    Args:
        stored: elements [row, stored column].
        kept: units that a chunk keeps, of twice as many: 1 (1:2) or 2 (2:4, 4:8 in pairs).
        unit: elements of a unit.

    Returns:
        The matrix [row, K], and codes uint32 [row, chunk] by PTX ISA 9.0, 9.7.14.6.1.
    """
    rows, columns = stored.shape
    chunks = columns // (kept * unit)
    choices = [(0,), (1,)] if kept == 1 else [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    picked = np.array(choices)[rng.integers(0, len(choices), (rows, chunks))]
    full = np.zeros((rows, chunks, 2 * kept, unit), np.int64)
    np.put_along_axis(full, picked[..., None], stored.reshape(rows, chunks, kept, unit), axis=2)
    codes = np.where(picked[..., 0], 0b1110, 0b0100) if kept == 1 else picked[..., 0] | picked[..., 1] << 2
    return full.reshape(rows, -1), codes.astype(np.uint32)
