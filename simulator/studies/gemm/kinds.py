"""The kinds of kernels: by `mma` CTAs that come and go (`Tile`), by `tcgen05.mma` and `wgmma` persistent ones."""

from __future__ import annotations

from simulator.chip.config import Config
from simulator.studies.gemm.persistent import PersistentKernel, PersistentTile
from simulator.studies.gemm.tcgen05.chip import Tcgen05Kernel, check_tcgen05
from simulator.studies.gemm.tcgen05.tile import STAGES as TCGEN05_STAGES
from simulator.studies.gemm.tcgen05.tile import Tcgen05Tile
from simulator.studies.gemm.tile import Tile
from simulator.studies.gemm.wgmma.chip import WgmmaKernel, check_wgmma
from simulator.studies.gemm.wgmma.tile import STAGES as WGMMA_STAGES

AnyTile = Tile | PersistentTile


def stages_of(tile: PersistentTile) -> tuple[int, ...]:
    """How many stages a kernel of this kind may have, ascending."""
    return TCGEN05_STAGES if isinstance(tile, Tcgen05Tile) else WGMMA_STAGES


def persistent(tile: PersistentTile, m: int, n: int, k: int, chip: Config) -> PersistentKernel:
    """The kernel of a tile for a problem of whole tiles."""
    if isinstance(tile, Tcgen05Tile):
        return Tcgen05Kernel(tile, m, n, k, chip)
    return WgmmaKernel(tile, m, n, k, chip)


def check_persistent(tile: PersistentTile, chip: Config) -> None:
    """IsaError or ConfigError for a chip that cannot run the tile's kernel, or has no times for it."""
    if isinstance(tile, Tcgen05Tile):
        check_tcgen05(tile, chip)
    else:
        check_wgmma(tile, chip)
