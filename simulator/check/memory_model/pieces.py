"""Which pieces of a memory threads access."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.check.memory_model.shadow import Shadow
from simulator.state.registers import WARP_SIZE, Lanes, Warps


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
        held: uint8 [byte]: what the memory holds.
    """

    shadow: Shadow
    pieces: NDArray[np.int64]
    access: NDArray[np.intp]
    threads: Threads
    base: int
    held: NDArray[np.uint8]

    @property
    def each(self) -> int:
        """Pieces of an access."""
        return int((self.access == self.access[0]).sum())


def threads_of_warp(row: int, lanes: Iterable[int]) -> tuple[Warps, Lanes]:
    """Threads of one warp as the row [1] and bool [1, lane]."""
    mask = np.zeros((1, WARP_SIZE), np.bool_)
    mask[0, list(lanes)] = True
    return np.array([row], np.intp), mask
