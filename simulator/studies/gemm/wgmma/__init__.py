"""GEMMs by `wgmma`: the tile of a CTA, its kernel as PTX, and what its operands look like in memory."""

from simulator.studies.gemm.wgmma.kernel import wgmma_kernel
from simulator.studies.gemm.wgmma.tile import WgmmaTile, parse_wgmma_tile

__all__ = ["WgmmaTile", "parse_wgmma_tile", "wgmma_kernel"]
