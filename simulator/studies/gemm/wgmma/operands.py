"""The operands of a GEMM by `wgmma`: the tensor maps of A, B and D, and metadata as threads hold them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isa.descriptors.tensor_map import TensorMap
from isa.errors import IsaError
from simulator.studies.gemm.wgmma.tile import BOX_ROWS, ROW, STEPS, WgmmaTile

_PAD = 0x4  # a legal code of every pattern: the first two columns of a chunk (of tf32 the first)


def tensor_maps(tile: WgmmaTile, m: int, n: int, k: int) -> tuple[TensorMap, TensorMap, TensorMap]:
    """The maps of A [m][K as stored], B [n][k] and D [m][n], rows one after another.

    Raises:
        IsaError: rows that are no multiple of 16 bytes, which tensor maps demand.
    """
    bytes_of, stored = tile.element.bits // 8, k // 2 if tile.sparse else k
    rows_a, rows_b = tile.bm // tile.cluster_n, tile.bn // tile.cluster_m
    if tile.sparse and k % 2:
        raise IsaError(str(k), -1, f"k = {k} for a sparse A", "an even number")
    map_type = {"e4m3": "u8", "e5m2": "u8", "s8": "u8", "tf32": "f32"}.get(tile.type, tile.type)
    d_type = tile.output
    size_d = tile.bytes_d

    def of(kind: str, columns: int, rows: int, size: int, box: tuple[int, int]) -> TensorMap:
        return TensorMap(kind, size=(columns, rows), stride_bytes=(columns * size,), box=box, swizzle=ROW)

    return (
        of(map_type, stored, m, bytes_of, (tile.columns_a, rows_a)),
        of(map_type, k, n, bytes_of, (tile.columns_a, rows_b)),
        of(d_type, n, m, size_d, (ROW // size_d, BOX_ROWS)),
    )


def metadata_image(tile: WgmmaTile, codes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Metadata as the kernel loads them: uint32 [tile of M, iteration, 64 rows, thread, register], whole clusters of
    tiles.

    Args:
        codes: uint32 [row of A, chunk of K]; what is missing is filled up.
    """
    chunks = tile.bk // tile.metadata.sparsity.chunk
    missing = -len(codes) % (tile.bm * tile.cluster_m), -codes.shape[1] % chunks
    codes = np.pad(codes, [(0, count) for count in missing], constant_values=_PAD)
    each = chunks // STEPS
    parts = codes.reshape(len(codes) // tile.bm, tile.bm // BOX_ROWS, BOX_ROWS, -1, STEPS, each)
    parts = parts.transpose(0, 3, 1, 4, 2, 5)  # [tile, iteration, 64 rows, step, row, chunk]
    image = np.zeros((*parts.shape[:3], 128, tile.words_e), np.uint32)
    for step in range(STEPS):
        word, selector = divmod(step, tile.selectors)
        image[..., word] = tile.metadata.scatter(parts[..., step, :, :], selector, image[..., word])
    return image
