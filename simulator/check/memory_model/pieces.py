"""Which pieces of a memory threads access."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.check.memory_model.shadow import Shadow
from simulator.state.registers import WARP_SIZE, Warps


class Threads(NamedTuple):
    """Threads of a batch, each [n]: the row of the warp, and the lane."""

    row: Warps
    lane: NDArray[np.intp]

    @property
    def number(self) -> NDArray[np.intp]:
        """[n]: row * 32 + lane."""
        return self.row * WARP_SIZE + self.lane


class Touched(NamedTuple):
    """The pieces of one memory that threads access.

    Attributes:
        shadow: of the memory.
        pieces: int64 [n].
        access: intp [n]: which of the accesses each piece belongs to.
        threads: the thread of each piece.
        base: what is added to an offset to get the address that a user knows.
    """

    shadow: Shadow
    pieces: NDArray[np.int64]
    access: NDArray[np.intp]
    threads: Threads
    base: int
