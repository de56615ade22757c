"""The state that a trace runs on, and what executing one instruction reports."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from isa.targets import Target
from isa.types import Bits
from isa.undefined import undefined_behavior
from simulator.execute.mma import Arithmetic
from simulator.state import RegisterFile, SharedMemory
from simulator.state.registers import LANES, Warps

ARITHMETIC = (*get_args(Arithmetic), "none")


@dataclass
class Machine:
    """A CTA on an SM.

    Attributes:
        registers, shared: its state.
        warps: warps of the CTA.
        slots: warps that the SM has room for, which is what %nwarpid gives (64 on an H100, measured).
        target: the chip whose arithmetic is used.
        arithmetic: "chip" (bit for bit what the chip gives), "exact" (the correctly rounded sum) or "none" (D is left as it is: time alone).
        undefined: "hardware" or "raise", DESIGN section 5.
        compare: how many more matrix instructions to compare with the exact result.
        met: undefined cases met so far, by name.
        largest_ulp: largest distance of a D element from the exact result of the same operands, in units in the last place; -1: not compared.
        compared: matrix instructions that were compared.
    """

    registers: RegisterFile
    shared: SharedMemory
    warps: int
    target: Target
    arithmetic: str = "chip"
    undefined: str = "hardware"
    compare: int = 0
    slots: int = 64
    met: Counter[str] = field(default_factory=Counter)
    largest_ulp: int = -1
    compared: int = 0

    def meet(self, name: str, count: int, where: str) -> None:
        """Counts an undefined case, or raises it where the policy says so."""
        if self.undefined == "raise":
            raise undefined_behavior(name, where)
        self.met[name] += count

    def special(self, name: str, warps: Warps) -> Bits:
        """uint32 [warp, lane] of a special register. PTX ISA 9.0, section 10; one CTA, threads along x."""
        lane = np.arange(LANES, dtype=np.uint32)
        warp = warps.astype(np.uint32)[:, None]
        match name:
            case "%laneid":
                value = lane[None, :]
            case "%warpid":
                value = warp
            case "%nwarpid":
                value = np.full((1, 1), self.slots, np.uint32)
            case "%tid.x":
                value = warp * np.uint32(LANES) + lane
            case "%ntid.x":
                value = np.full((1, 1), self.warps * LANES, np.uint32)
            case _:
                raise AssertionError(name)
        return np.broadcast_to(value, (len(warps), LANES))


class Outcome(NamedTuple):
    """What one instruction of some warps did besides changing the state.

    Attributes:
        wavefronts: [warp] cycles that it keeps shared memory busy; None for an instruction that does not use it.
    """

    wavefronts: NDArray[np.int64] | None = None


NOTHING = Outcome()
