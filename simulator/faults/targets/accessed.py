"""When the words of shared and Tensor Memory are accessed in a trace without faults, for intervals between them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from isa.tensor_memory.address import COLUMNS, TMEM_LANES
from simulator.faults.intervals import Accessed
from simulator.simulation.liveness import Golden


def of_trace(golden: Golden, site: str, warps: Sequence[int]) -> Accessed:
    """When the words of a CTA with these warps are accessed. Positions are the operations that they execute, in their
    order; a fault strikes right before the operation that ends an interval.

    Args:
        site: "shared" or "tmem".
    """
    counts = [len(golden.starts[warp]) - 1 for warp in warps]
    begun = np.concatenate([golden.starts[warp][:-1] for warp in warps])
    index = np.concatenate([np.arange(count) for count in counts])
    own, first = np.unique(begun, return_index=True)
    warp, at = np.append(np.repeat(warps, counts)[first], warps[0]), np.append(index[first], counts[0])
    cells, times = golden.uses[site][warps[0] // golden.warps].accesses
    if site == "tmem":
        lane, column = np.divmod(cells, COLUMNS)
        cells = column * TMEM_LANES + lane
    ended = times >= golden.starts[warps[0]][-1]
    positions = np.where(ended, len(own), np.maximum(np.searchsorted(own, times, side="right") - 1, 0))
    return Accessed(cells, positions, np.arange(len(own) + 1), lambda before, ends: (warp[ends], at[ends]))
