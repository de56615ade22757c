"""GEMMs with a sparse or dense A: writes the kernel of one tile as a trace, and estimates what the whole problem costs
on a chip; by `mma` and `mma.sp`, by `wgmma` on Hopper, and by `tcgen05.mma` where a chip has it."""

from simulator.studies.gemm.best import Fastest, fastest
from simulator.studies.gemm.choice import PATHS, chosen_path, tile_for, tiles_of
from simulator.studies.gemm.estimate import Estimate, estimate
from simulator.studies.gemm.tcgen05 import Tcgen05Tile, parse_tcgen05_tile, tcgen05_trace
from simulator.studies.gemm.tile import Tile, parse_tile
from simulator.studies.gemm.trace import kernel_trace
from simulator.studies.gemm.wgmma import WgmmaTile, parse_wgmma_tile, wgmma_kernel

__all__ = [
    "PATHS", "Estimate", "Fastest", "Tcgen05Tile", "Tile", "WgmmaTile", "chosen_path", "estimate", "fastest",
    "kernel_trace", "parse_tcgen05_tile", "parse_tile", "parse_wgmma_tile", "tcgen05_trace", "tile_for", "tiles_of",
    "wgmma_kernel",
]  # fmt: skip
