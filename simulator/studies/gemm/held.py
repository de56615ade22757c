"""What a chip holds of a GEMM: CTAs on an SM, operands in L2; and what follows for the time of its CTAs.

What L2 does not hold comes from device memory, whose latency is paid in every iteration: all CTAs that run at a time
want the same lines, so the first to ask waits for device memory, and those behind it catch up until they wait, too.
Kernels with two stages see that, those with four have it hidden.
"""

from __future__ import annotations

from dataclasses import replace
from math import exp

from simulator.chip.config import Config
from simulator.errors import ConfigError
from simulator.studies.gemm.tile import Tile, touched_in_blocks

_REGISTER_UNIT = 8  # registers of a thread are given in eights; CUDA programming guide, occupancy
_OWN_SHARED = 1024  # bytes of shared memory that each CTA takes beside its own, likewise (compute capability 9.0)
_ENOUGH = 1e-9  # change of a share from which on it counts as found
_STEPS = 8  # in which shares are told apart


def occupancy(tile: Tile, chip: Config) -> int:
    """How many CTAs of the tile an SM holds at a time; ConfigError if it holds none."""
    registers = -(-tile.registers // _REGISTER_UNIT) * _REGISTER_UNIT * tile.threads
    room = {
        "registers": chip.sm.registers // registers,
        "bytes of shared memory": (chip.sm.shared_bytes + _OWN_SHARED) // (tile.shared_bytes + _OWN_SHARED),
        "warps": chip.sm.warps // tile.warps,
    }
    what = min(room, key=lambda name: room[name])
    if room[what] < 1:
        raise ConfigError(
            chip.path, "sm", f"a CTA of {tile} needs more {what} than {chip.name} has", "a smaller tile, fewer stages"
        )
    return min(room[what], 32 // tile.warps)


def _bands(tile: Tile, k: int) -> tuple[int, int]:
    """Bytes of A, with its metadata, of a row of tiles, and of B of a column, both with their scale factors."""
    iterations, scales = k // tile.bk, 4 * tile.scale_words
    return iterations * (tile.bm * (tile.row_a + scales) + tile.bytes_e), iterations * tile.bn * (tile.row_b + scales)


def dram_bytes(tile: Tile, m: int, n: int, k: int, chip: Config, *, rows: bool = False) -> tuple[int, int]:
    """Bytes that come from and go to device memory: operands once if they fit into L2, else what each wave touches;
    results once. CTAs are taken in blocks of a wave as near to squares as pays, as libraries order theirs.

    Args:
        rows: CTAs are taken row by row, as the kernels of measurements/gemm take theirs.
    """
    assert chip.l2 is not None
    down, across = m // tile.bm, n // tile.bn
    of_row, of_column = _bands(tile, k)
    operands = down * of_row + across * of_column
    if operands > chip.l2.capacity // chip.l2.copies:
        slots = chip.chip.sms * occupancy(tile, chip)
        row_by_row = min(-(-slots // across), down)
        most = -(-down * across // slots) * (row_by_row * of_row + min(slots, across) * of_column)
        operands = most if rows else max(min(most, touched_in_blocks(down, across, slots, of_row, of_column)), operands)
    return operands, tile.bytes_d * m * n


def missing(tile: Tile, m: int, n: int, k: int, chip: Config) -> float:
    """The share of the operands that L2 has lost when they are wanted again, 0 to 1: by the CTAs of another row or
    column, or by the kernel that runs after this one.

    L2 is taken to replace lines at random. A problem touches `size` bytes in turn, and a line stays while `size` times
    `missing` bytes come into L2's `capacity` with probability exp(-size * missing / capacity). That is 1 - missing,
    which leaves 0 where everything fits.
    """
    of_row, of_column = _bands(tile, k)
    return lost(m // tile.bm * of_row + n // tile.bn * of_column + tile.bytes_d * m * n, chip)


def lost(size: int, chip: Config) -> float:
    """The share of `size` bytes, touched in turn, that L2 has lost when they are wanted again."""
    assert chip.l2 is not None
    times = size * chip.l2.copies / chip.l2.capacity
    if times <= 1:
        return 0.0
    share, before = 1.0, 0.0
    while abs(share - before) > _ENOUGH:
        share, before = 1 - exp(-times * share), share
    return share


def delay(tile: Tile, m: int, n: int, k: int, chip: Config) -> int:
    """Cycles that copies come later on average, since L2 has lost some of their lines; in a few steps, so that sizes
    share runs of the engine."""
    assert chip.hbm is not None
    return round(missing(tile, m, n, k, chip) * _STEPS) * chip.hbm.latency // _STEPS


def seen_by_sm(tile: Tile, chip: Config, later: int, *, apart: bool) -> Config:
    """The chip as an SM sees it whose copies come so many cycles later.

    Args:
        apart: the SM is out of step with the others, most of which multiply while it stores: a part of its tile of D
            does not wait for its share of what L2 writes.
    """
    assert chip.memory is not None
    assert chip.l2 is not None
    memory, l2 = replace(chip.memory, copy_latency=chip.memory.copy_latency + later), chip.l2
    if apart:
        size, most = tile.bm * tile.bn * tile.bytes_d, max(l2.write_bytes, chip.memory.store_bytes * chip.chip.sms)
        waits = max(size - l2.write_burst_bytes, 1)
        l2 = replace(l2, write_bytes=min(l2.write_bytes * size // waits, most))
    return replace(chip, memory=memory, l2=l2)
