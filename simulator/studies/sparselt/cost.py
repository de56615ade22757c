"""What a product takes on a chip: the GEMM model's kernel, and around it what the epilogue and slices of K add.

The kernel is that of `simulator.studies.gemm` (cp.async, ldmatrix, mma or mma.sp), not the library's own; its tiles are
filled up where the matrices are no whole number of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from isa.errors import IsaError
from simulator.errors import ConfigError
from simulator.studies.gemm import Estimate, Tile, estimate, parse_tile
from simulator.studies.sparselt.descriptors import BITS
from simulator.timing.config import load_config

TILES = ("128x128x64", "64x64x64", "64x128x64", "128x64x64", "128x256x64", "256x128x64", "256x64x64", "64x256x64")
"""Tiles that a search tries; BK is doubled for 8-bit types. The place of a tile is its config id."""

_AS = {"f16": ("f16", 1), "bf16": ("bf16", 1), "s8": ("s8", 1), "f32": ("f16", 2), "e4m3": ("s8", 1), "e5m2": ("s8", 1)}


@dataclass(frozen=True)
class Cost:
    """Time of a product.

    Attributes:
        kernel: the GEMM model's answer for the matrices filled up to whole tiles.
        reduction_cycles: of adding slices of K: partial sums once to L2 and back.
        epilogue_cycles: of reading C from device memory.
        cycles: all together.
        time_us: at the config's clock, with the launch.
        assumed: what the model takes for granted, in words.
    """

    kernel: Estimate
    reduction_cycles: int
    epilogue_cycles: int
    cycles: int
    time_us: float
    assumed: tuple[str, ...]


def tile_of(name: str, type: str) -> str:
    """A tile's text for a type: BK of 16-bit types is doubled for 8-bit ones."""
    return f"{name[:-3]}x128" if BITS[type] == 8 and name.endswith("x64") else name


def check_cost(type: str, config: str | Path, tile: str, *, sparse: bool) -> Tile:
    """The tile for a product; IsaError or ConfigError where there is no time for it."""
    if type not in _AS:
        raise IsaError(type, -1, f"no time for products of {type}", ", ".join(_AS))
    shape = parse_tile(tile_of(tile, type), _AS[type][0], stages=4, sparse=sparse)
    chip = load_config(config)
    if chip.memory is None or chip.l2 is None or chip.hbm is None:
        reason = f"{chip.name} has no times for global memory"
        raise ConfigError(chip.path, "memory", reason, "a config with [memory], [l2] and [hbm], such as h100_sxm")
    return shape


@lru_cache(maxsize=256)
def cost(
    type: str,
    m: int,
    n: int,
    k: int,
    config: str | Path,
    *,
    tile: str = TILES[0],
    batches: int = 1,
    sparse: bool = True,
    slices: int = 1,
    c_bits: int = 0,
) -> Cost:
    """The time of D[m][n] = A[m][k] * B[n][k]^T.

    Args:
        tile: "BMxBNxBK", of the type's own K.
        slices: parts of K that other CTAs sum.
        c_bits: width of C where it is read, else 0.

    Raises:
        IsaError: no such tile, or a type that the GEMM model has no instructions for.
        ConfigError: a config without tables for global memory.
    """
    shape = check_cost(type, config, tile, sparse=sparse)
    rows, columns = _up(m, shape.bm) * slices * batches, _up(n, shape.bn)
    found = estimate(shape, rows, columns, _up(-(-k * _AS[type][1] // slices), shape.bk), config)
    chip = load_config(config)
    assert chip.l2 is not None
    assert chip.hbm is not None
    partial = 4 * m * n * batches * slices if slices > 1 else 0
    reduction = -(-partial // chip.l2.write_bytes) + -(-partial // chip.l2.read_bytes)
    reading = -(-m * n * batches * c_bits // 8 // chip.hbm.bytes)
    cycles = found.cycles + reduction + reading
    time = found.time_us + (reduction + reading) / chip.chip.clock_mhz
    return Cost(found, reduction, reading, cycles, time, _assumed(type, slices, c_bits))


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _assumed(type: str, slices: int, c_bits: int) -> tuple[str, ...]:
    name, factor = _AS[type]
    words = ["the kernel stores D in 4 bytes an element; its epilogue's arithmetic is hidden behind the stores"]
    if name != type:
        longer = "twice the" if factor == 2 else "the same"
        words.append(f"{type} takes as long as {name} of {longer} K: as many bytes, as many instructions")
    if slices > 1:
        words.append("partial sums go to L2 and back once, after the kernel")
    if c_bits:
        words.append("C is read at the speed of device memory, after the kernel")
    return tuple(words)
