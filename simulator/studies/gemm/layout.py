"""Where the matrices of a CTA lie in the global memory of a written kernel."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.studies.gemm.tile import Tile


@dataclass(frozen=True)
class Layout:
    """Where the matrices lie in global memory: pitches of the rows of A, B and D, bytes of a block of metadata, and the
    address at which each begins."""

    pitch_a: int
    pitch_b: int
    pitch_d: int
    block_e: int
    b: int
    e: int
    s: int
    d: int
    size: int


def layout(tile: Tile, k: int) -> Layout:
    """The layout for one CTA's rows of A and B and its tile of D. Copies of tiles beyond the end of K stay inside of
    it."""
    pitch_b = k * tile.row_b // tile.bk
    pitch_a = k * tile.row_a // tile.bk
    beyond = tile.stages * tile.row_b
    at_b = _up(tile.bm * pitch_a + beyond)
    at_e = at_b + _up(tile.bn * pitch_b + beyond)
    at_s = at_e + _up((-(-k // tile.bk) + tile.stages) * tile.bytes_e)
    at_d = at_s + _up((-(-k // tile.bk) + tile.stages) * tile.bytes_s)
    pitch_d = tile.bytes_d * tile.bn
    return Layout(pitch_a, pitch_b, pitch_d, tile.bm * 8, at_b, at_e, at_s, at_d, at_d + tile.bm * pitch_d)


def _up(size: int) -> int:
    """A size rounded up to a multiple of 1024 bytes."""
    return -(-size // 1024) * 1024
