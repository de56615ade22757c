"""The register file: 32-bit patterns, [warp, register, lane]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits

LANES = 32
Warps = NDArray[np.intp]


class RegisterFile:
    """Registers of all warps of a CTA, zero until written.

    Attributes:
        values: uint32 [warp, register, lane].
        written: bool [warp, register]: whether anything wrote it.
    """

    def __init__(self, warps: int, registers: int) -> None:
        self.values: Bits = np.zeros((warps, registers, LANES), np.uint32)
        self.written = np.zeros((warps, registers), np.bool_)

    def read(self, warps: Warps, registers: Sequence[int]) -> Bits:
        """uint32 [warp, register, lane] of the given warps and registers."""
        return self.values[warps[:, None], np.asarray(registers, np.intp)]

    def write(self, warps: Warps, registers: Sequence[int], values: Bits) -> None:
        """Writes uint32 [warp, register, lane]."""
        index = np.asarray(registers, np.intp)
        self.values[warps[:, None], index] = values
        self.written[warps[:, None], index] = True

    def unwritten(self, warps: Warps, registers: Sequence[int]) -> list[tuple[int, int]]:
        """(warp, register) pairs among these that nothing has written, without duplicates."""
        distinct = sorted(set(registers))
        missing = ~self.written[warps[:, None], np.asarray(distinct, np.intp)]
        return [(int(warps[w]), distinct[r]) for w, r in np.argwhere(missing)]
