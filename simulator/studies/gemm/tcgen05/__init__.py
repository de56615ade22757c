"""GEMMs by `tcgen05.mma`: the tile of a CTA or of a pair, its kernel as a trace, and what its operands look like in
memory."""

from simulator.studies.gemm.tcgen05.operands import global_images
from simulator.studies.gemm.tcgen05.tile import Tcgen05Tile, parse_tcgen05_tile
from simulator.studies.gemm.tcgen05.trace import tcgen05_trace

__all__ = ["Tcgen05Tile", "global_images", "parse_tcgen05_tile", "tcgen05_trace"]
