"""What a product takes on a chip: the GEMM model's kernel, and around it what the epilogue and slices of K add.

The kernel is that of `simulator.studies.gemm` (cp.async, ldmatrix, mma or mma.sp; bulk copies and tcgen05.mma where the
chip has it), not the library's own; its tiles are filled up where the matrices are no whole number of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from pathlib import Path

from isa.errors import IsaError
from simulator.chip.config import Config
from simulator.studies.gemm import Estimate, estimate
from simulator.studies.gemm.choice import MMA_TILES, tile_for
from simulator.studies.gemm.energy import limited
from simulator.studies.gemm.estimate import Progress, check_chip, stacked
from simulator.studies.gemm.kinds import AnyTile
from simulator.studies.gemm.tile import check_sizes

__all__ = ["TILES", "Cost", "check_cost", "cost", "tile_for"]

TILES = MMA_TILES  # those of chips without tcgen05


@dataclass(frozen=True)
class Cost:
    """Time of a product.

    Attributes:
        kernel: the GEMM model's answer for the matrices filled up to whole tiles.
        reduction_cycles: of adding slices of K: partial sums once to L2 and back.
        epilogue_cycles: of reading C from device memory.
        cycles: all together.
        time_us: at the config's clock, as libraries are timed: one of many launches in a stream.
        tflops: 2 * M * N * K of all batches (pruned products counted) in that time.
        assumed: what the model takes for granted, in words, and the config's assumed tables.
        limited_clock_mhz, limited_time_us, limited_tflops: as of `Estimate`: at the clock to which the power of the
            kernel lowers the config's; None where it does not.
    """

    kernel: Estimate
    reduction_cycles: int
    epilogue_cycles: int
    cycles: int
    time_us: float
    tflops: float
    assumed: tuple[str, ...]
    limited_clock_mhz: float | None = None
    limited_time_us: float | None = None
    limited_tflops: float | None = None

    @property
    def once_us(self) -> float:
        """The time of a single launch from the host."""
        return self.time_us - self.kernel.time_us + self.kernel.once_us


def check_cost(tile: AnyTile, config: str | Path | Config, slices: int = 1) -> Config:
    """IsaError or ConfigError where there is no time for a product; else the chip."""
    chip = check_chip(tile, config)
    if slices < 1:
        raise IsaError(str(slices), -1, f"{slices} slices of K", "1 or more")
    return chip


def cost(
    tile: AnyTile,
    m: int,
    n: int,
    k: int,
    config: str | Path | Config,
    *,
    batches: int = 1,
    slices: int = 1,
    c_bits: int = 0,
    progress: Progress | None = None,
) -> Cost:
    """The time of D[m][n] = A[m][k] * B[n][k]^T.

    Args:
        tile: what a CTA computes; of the types that are multiplied.
        slices: parts of K that other CTAs sum.
        c_bits: width of C where it is read, else 0.
        progress: as that of `simulator.gemm.estimate`.

    Raises:
        IsaError: a size below 1, or a chip without the tile's matrix instruction.
        ConfigError: a config without times for the kernel.
    """
    chip = check_cost(tile, config, slices)
    check_sizes(m=m, n=n, k=k)
    found = estimate(tile, stacked(tile, m, slices * batches), n, -(-k // slices), chip, progress=progress)
    assert chip.l2 is not None
    assert chip.hbm is not None
    partial = 4 * m * n * batches * slices if slices > 1 else 0
    reduction = -(-partial // chip.l2.write_bytes) + ceil(chip.l2.read_cycles(partial))
    reading = -(-m * n * batches * c_bits // 8 // chip.hbm.bytes)
    cycles = found.cycles + reduction + reading
    time = found.time_us + (reduction + reading) / chip.chip.clock_mhz
    operations = 2 * m * n * k * batches
    at_limit = limited(chip, found.power_w, cycles, operations)
    words = _assumed(found, slices, c_bits)
    return Cost(found, reduction, reading, cycles, time, operations / time / 1e6, words, *at_limit)


def _assumed(kernel: Estimate, slices: int, c_bits: int) -> tuple[str, ...]:
    size = kernel.tile.bytes_d
    words = [f"the kernel stores D in {size} bytes an element; its epilogue's arithmetic is hidden behind the stores"]
    if slices > 1:
        words.append("partial sums go to L2 and back once, after the kernel")
    if c_bits:
        words.append("C is read at the speed of device memory, after the kernel")
    return (*words, *kernel.assumed)
