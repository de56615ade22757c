"""Which piece of hardware computes what: the one place that says so.

All of it is assumed. NVIDIA does not publish which physical multiplier computes which product; only the sums can be
observed.

- Each element of D of an instruction has a dot-product unit of its own: position row * N + column. An instruction with
  fewer elements leaves the others idle. D of a `tcgen05.mma` is that of one CTA: each CTA of a pair has units of its
  own, and the parts of N that layouts with 64 or 32 rows have are columns beside one another.
- The unit adds the products of one step of the sum rule at once (`SumRule.steps`; integers: all stored columns). The
  product of the k-th column of a step is that of multiplier k in every step, and of every instruction.
- Each code of metadata drives the multiplexers of each position by lines of its own.
- Each warp of a warpgroup computes its 16 rows of D of a `wgmma` on its own sub-core: position is row of these * N +
  column.
- The warps w with the same w % 4 of a CTA share a sub-core, and the CTA has its SM for itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SUB_CORES = 4
"""Sub-cores of an SM, each with a tensor core (published: NVIDIA's architecture papers since Volta)."""
HALVES = 2  # words of 32 bits in which a term or a sum is listed
WORD_BITS = 32


def position(lane: Any, n: int) -> tuple[Any, Any]:
    """Row and column of D that the unit of this number computes, of an instruction with N = n."""
    return np.divmod(lane, n)


def rows_of_warp(m: int, warps: int) -> int:
    """How many of M rows of D the tensor core of one sub-core computes, of an instruction of so many warps."""
    return m // warps


def shares_sub_core(warps: NDArray[np.intp], warp: int) -> NDArray[np.bool_]:
    """Which warps of a CTA are on the sub-core of one of them."""
    return np.asarray(warps % SUB_CORES == warp % SUB_CORES)
