"""What a GEMM by wgmma takes on a whole chip: how a CTA runs (`simulator.studies.gemm.persistent` has the rest)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from simulator.chip.config import Config
from simulator.compiler.tcgen05 import Cost
from simulator.compiler.wgmma import product_cost
from simulator.errors import ConfigError
from simulator.execute.dynamic_info import ProductFacts
from simulator.simulation.energy import Spent, between
from simulator.simulation.launch.module import Function, Module
from simulator.state.shared import LINE_BYTES
from simulator.studies.gemm.energy import outside
from simulator.studies.gemm.held import lost
from simulator.studies.gemm.persistent import PersistentKernel, check_room
from simulator.studies.gemm.remembered import remembered
from simulator.studies.gemm.wgmma.kernel import wgmma_kernel
from simulator.studies.gemm.wgmma.operands import tensor_maps
from simulator.studies.gemm.wgmma.tile import CONSUMERS, STEPS, WgmmaTile
from simulator.timing.result import Timing

_RASTERS = (1, 2, 4, 8, 16)  # clusters along N that are taken together
_STEPS = 8  # in which shares are told apart
_MANY = 4  # turns of the ring of stages that are run: from the second on each further one takes the same time


class Launch(NamedTuple):
    """How the kernel of a tile is launched: CTAs, tiles of a cluster along M and N, those along N that are taken
    together."""

    grid: int
    clusters_m: int
    clusters_n: int
    raster: int


def launch_of(tile: WgmmaTile, m: int, n: int, k: int, sms: int) -> Launch:
    """The launch for a problem on a chip with so many SMs, of which each has a CTA: clusters are taken in blocks that
    read as little from L2 and device memory as may be."""
    down, across = -(-m // (tile.bm * tile.cluster_m)), -(-n // (tile.bn * tile.cluster_n))
    slots = sms // tile.cluster
    of_row, of_column = tile.cluster_m * (tile.bytes_a + tile.bytes_e), tile.cluster_n * tile.bytes_b

    def read(raster: int) -> float:
        wide = min(raster, across)
        high = min(-(-slots // wide), down)
        return (high * of_row + wide * of_column) / (high * wide)

    grid = min(slots, down * across) * tile.cluster
    return Launch(grid, down, across, min(_RASTERS, key=read))


def check_wgmma(tile: WgmmaTile, chip: Config) -> None:
    """Errors for a chip that cannot run the tile's kernel.

    Raises:
        IsaError: no such instruction.
        ConfigError: no times for it, or too small an SM.
    """
    tile.check_target(chip.target)
    product_cost(chip, ProductFacts(tile.bn, tile.sparse, False, not tile.element.is_float))
    check_room(tile, chip)
    if tile.registers * 32 * tile.warps > chip.sm.registers:
        reason = f"{tile} needs {tile.registers * 32 * tile.warps:,} registers"
        raise ConfigError(chip.path, "sm.registers", reason, f"a chip with more than {chip.sm.registers:,}")


@lru_cache(maxsize=64)
def _function(tile: WgmmaTile, target: str) -> Function:
    """The kernel of a tile, read once."""
    return Module(wgmma_kernel(tile, target)).get_function()


@remembered(keep=16_384)
def wgmma_run(
    tile: WgmmaTile, iterations: int, rounds: int, chip: Config, read_bytes: int, sms: int, later: int
) -> Timing:
    """Runs a CTA that computes `rounds` tiles of so many iterations one after another, beside so many SMs that all
    together get `read_bytes` from L2 in a cycle; copies come `later` than in L2's near half. The CTAs of a cluster
    are run together."""
    assert chip.l2 is not None
    assert chip.memory is not None
    k = iterations * tile.bk
    maps = tensor_maps(tile, rounds * tile.bm * tile.cluster_m, tile.bn * tile.cluster_n, k)
    arrays = [np.zeros(one.reach, np.uint8) for one in maps]
    codes = np.full(max(rounds * tile.cluster_m * iterations * tile.bytes_e // 4, 4), 0x44444444, np.uint32)
    words = (np.uint32(word) for word in (iterations, rounds, 1, 1))
    arguments = (*zip(maps, arrays, strict=True), codes, *words)
    assert chip.memory.tensor_latency is not None  # `check_wgmma`
    first, further = chip.memory.tensor_latency
    bulk, tensor = chip.memory.bulk_latency + later, (first + later, further + later)
    memory = replace(chip.memory, bulk_latency=bulk, tensor_latency=tensor)
    share = replace(chip, l2=replace(chip.l2, read_bytes=read_bytes), memory=memory)
    how: dict[str, Any] = {"config": share, "shared_mem": tile.shared_bytes, "cluster": tile.cluster, "sms": sms}
    return _function(tile, str(chip.target)).timing(32 * tile.warps, arguments, **how)


@dataclass(frozen=True)
class WgmmaKernel(PersistentKernel):
    """A persistent kernel by wgmma."""

    tile: WgmmaTile

    @cached_property
    def _product(self) -> Cost:
        """What an instruction costs."""
        tile = self.tile
        return product_cost(self.chip, ProductFacts(tile.bn, tile.sparse, False, not tile.element.is_float))

    @property
    def _products(self) -> int:
        """Instructions of a CTA in an iteration of a tile."""
        return STEPS * self.tile.blocks_m * (CONSUMERS if self.tile.schedule == "cooperative" else 1)

    @property
    def tensor_cycles(self) -> float:
        """As in `PersistentKernel`."""
        return self._products * self._product.tensor

    @property
    def runs(self) -> tuple[int, int]:
        """As in `PersistentKernel`."""
        assert self.chip.l2 is not None
        tile = self.tile
        stores = tile.bm * tile.bn * tile.bytes_d * self.sms / self.chip.l2.write_bytes
        many = max(_MANY * tile.stages, round(1.2 * stores / self.tensor_cycles))
        return many // 2, many

    def run(self, iterations: int, rounds: int) -> Timing:
        """As in `PersistentKernel`."""
        return wgmma_run(self.tile, iterations, rounds, self.chip, self.read_bytes, self.sms, self.later)

    @cached_property
    def later(self) -> int:
        """Cycles that copies come later on average than from L2's near half: an iteration wants lines that no SM has
        asked for, of which some are in the far half, and L2 has lost a share of the operands."""
        assert self.chip.memory is not None
        assert self.chip.hbm is not None
        tile = self.tile
        each = self.m // tile.bm * (tile.bytes_a + tile.bytes_e) + self.n // tile.bn * tile.bytes_b
        share = lost(each * self.iterations + tile.bytes_d * self.m * self.n, self.chip)
        return self.chip.memory.far_latency + round(share * _STEPS) * self.chip.hbm.latency // _STEPS

    @property
    def read_bytes(self) -> int:
        """As in `PersistentKernel`; SMs share lines, which L2 serves faster than lines of their own."""
        assert self.chip.l2 is not None
        return self.chip.l2.shared_read_bytes

    @property
    def l2_cycles(self) -> float:
        """As in `PersistentKernel`; a copy to several CTAs counts as more than one."""
        tile, times = self.tile, self.chip.cluster.multicast_reads if self.chip.cluster is not None else 1.0
        a, b = (
            size * (times / sharing if sharing > 1 else 1)
            for size, sharing in ((tile.bytes_a, tile.cluster_n), (tile.bytes_b, tile.cluster_m))
        )
        return self.tiles * self.iterations * (a + b + tile.bytes_e) / self.read_bytes

    @property
    def cycles(self) -> int:
        """As in `PersistentKernel`; the last SM ends later than SMs do on average."""
        spread = self.chip.launch.spread if self.chip.launch is not None and self.sms > 1 else 0
        return round(super().cycles * (1 + spread))

    def busy(self) -> dict[str, float]:
        """As in `PersistentKernel`."""
        few, many = self.runs
        path = (self.run(many, 1).memory_busy - self.run(few, 1).memory_busy) / (many - few)
        assert self.chip.wgmma is not None
        cost, tile = self._product, self.tile
        landed = (tile.bytes_a + tile.bytes_b + tile.bytes_e) / LINE_BYTES / self.chip.wgmma.copied_lines
        per = {
            "tensor": self._products * cost.tensor,
            "shared memory": self._products * cost.operands + landed,
            "path to L2": path,
        }
        return {name: cycles * self.rounds * self.iterations / self.cycles for name, cycles in per.items()}

    def energy(self, activity: float) -> Spent | None:
        """As in `PersistentKernel`: products, what L2 and device memory bring, and D on its way out."""
        table, tile = self.chip.energy, self.tile
        product = None if table is None else table.find_wgmma(tile.type, tile.sparse)
        if table is None or product is None:
            return None
        moved = self.device_bytes - self.stored_bytes, self.stored_bytes
        copied, stored = between(table.shared_byte, activity), between(table.l2_store_byte, activity)
        products = self.tiles * self.iterations * self._products
        parts = {
            "matrix instructions": products * between(product.of(tile.bn), activity),
            "L2": (self.copied_bytes * copied + self.stored_bytes * stored) / 1e3,
            "shared memory": self.stored_bytes * between(table.store_byte, activity) / 1e3,
            "device memory": outside(table, moved, activity),
        }
        scale = table.scale(self.chip.chip.clock_mhz)
        return Spent({name: nj * scale for name, nj in parts.items()}, activity)

    @property
    def tables(self) -> tuple[str, ...]:
        """As in `PersistentKernel`."""
        return ("wgmma", "mbarrier", *(["cluster"] if self.tile.cluster > 1 else []))

    @property
    def granted(self) -> tuple[str, ...]:
        """As in `PersistentKernel`."""
        return ()
