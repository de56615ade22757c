"""GEMMs with a sparse or dense A: writes the kernel of one tile as a trace, and estimates what the whole problem costs
on a chip."""

from simulator.studies.gemm.estimate import Estimate, estimate
from simulator.studies.gemm.tile import Tile, parse_tile
from simulator.studies.gemm.trace import kernel_trace

__all__ = ["Estimate", "Tile", "estimate", "kernel_trace", "parse_tile"]
