"""GEMMs with a sparse or dense A: the main loop of a tile as a trace, and what the whole problem costs on a chip."""

from simulator.gemm.estimate import Estimate, estimate
from simulator.gemm.tile import Tile, parse_tile
from simulator.gemm.trace import kernel_trace

__all__ = ["Estimate", "Tile", "estimate", "kernel_trace", "parse_tile"]
