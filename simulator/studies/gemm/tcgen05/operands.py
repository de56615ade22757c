"""The operands of a tcgen05 GEMM as they lie in global memory: the very bytes of each stage of shared memory, one
iteration after another, so that a bulk copy brings each; and where they begin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isa.tensor_memory.metadata import TILE_CHUNKS
from isa.tensor_memory.scales import scale_factors
from simulator.studies.gemm.tcgen05.tile import Tcgen05Tile

Words = NDArray[np.uint32]
_ALIGN = 1024


@dataclass(frozen=True)
class Places:
    """Where A, B, metadata with scale factors, and D of each CTA begin in global memory, and how much there is."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    extra: tuple[int, ...]
    d: int
    size: int


def places(tile: Tcgen05Tile, k: int) -> Places:
    """The places for K = k, a whole number of iterations."""
    iterations, at = k // tile.bk, 0
    begins: list[tuple[int, ...]] = []
    for size in (tile.bytes_a, tile.bytes_b, tile.bytes_extra):
        own = []
        for _ in range(tile.group):
            own.append(at)
            at += -(-iterations * size // _ALIGN) * _ALIGN
        begins.append(tuple(own))
    return Places(begins[0], begins[1], begins[2], at, at + tile.bm * tile.bn * tile.bytes_d)


def global_images(
    tile: Tcgen05Tile,
    a: Words,
    b: Words,
    codes: Words | None = None,
    scales: tuple[Words, Words] | None = None,
) -> NDArray[np.uint8]:
    """Global memory up to D, from patterns of matrices.

    Args:
        a: uint32 [bm, K as stored].
        b: uint32 [bn, K].
        codes: of a sparse A, uint32 [bm, chunks of K].
        scales: of a kind with block scales, uint32 [bm, K / block] and [bn, K / block].
    """
    k = b.shape[1]
    where = places(tile, k)
    memory = np.zeros(where.d, np.uint8)
    for cta in range(tile.group):
        rows, columns = (slice(cta * size, (cta + 1) * size) for size in (tile.rows_a, tile.rows_b))
        for place in range(k // tile.bk):
            part, stored = (slice(place * size, (place + 1) * size) for size in (tile.bk, tile.columns_a))
            at = where.a[cta] + place * tile.bytes_a
            tile.tile_a().write(memory[at : at + tile.bytes_a], a[rows, stored])
            buffer = np.zeros(tile.bytes_a + tile.bytes_b, np.uint8)
            tile.tile_b().write(buffer, b[columns, part])
            at = where.b[cta] + place * tile.bytes_b
            memory[at : at + tile.bytes_b] = buffer[tile.bytes_a :]
            extra = _extra(tile, place, None if codes is None else codes[rows], scales, rows)
            at = where.extra[cta] + place * tile.bytes_extra
            memory[at : at + tile.bytes_extra] = extra
    return memory


def _extra(
    tile: Tcgen05Tile, place: int, codes: Words | None, scales: tuple[Words, Words] | None, rows: slice
) -> NDArray[np.uint8]:
    """Metadata and scale factors of an iteration in a CTA: images for tcgen05.cp, one behind the other."""
    parts: list[NDArray[np.uint8]] = [np.zeros(0, np.uint8)]
    if codes is not None:
        count = tile.bk // tile.metadata.sparsity.chunk
        own = codes[:, place * count : (place + 1) * count]
        own = np.pad(own, ((0, 0), (0, -count % TILE_CHUNKS)))
        parts += [tile.metadata.tile_image(part).ravel() for part in np.split(own, tile.images_e, axis=1)]
    if scales is not None:
        count, each = tile.bk // tile.block, scale_factors(tile.kind, tile.vector)
        for matrix, layout in zip((scales[0][rows], scales[1]), tile.scales, strict=True):
            own = matrix[:, place * count : (place + 1) * count]
            for image in range(tile.images_scale):
                four = own[:, 4 * image : 4 * image + 4]
                found = [layout.image(four[:, i : i + each], i) for i in range(0, four.shape[1], each)]
                parts.append(np.bitwise_or.reduce(np.stack(found)).ravel())
    return np.concatenate(parts)
