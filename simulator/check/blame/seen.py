"""An instruction that sees another value in one of its registers than others do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.check.blame.change import Action
from simulator.execute.cta_state import CtaState, Executor, Outcome
from simulator.execute.operands import place_of
from simulator.state.registers import Warps

Array = NDArray[Any]
Change = Callable[[CtaState, Warps, Array], Array]
"""What makes other values [warp, lane] of those of a register."""


def seen_as(register: str, change: Change) -> Action:
    """An action: the instruction, for which a register has another value, [warp, lane]."""
    place = place_of(register)

    def make(execute: Executor) -> Executor:
        def run(machine: CtaState, warps: Warps) -> Outcome:
            before = machine.registers.read(warps, [place.number], place.sort)
            changed = change(machine, warps, before[:, 0])[:, None]
            machine.registers.write(warps, [place.number], changed, None, place.sort)
            try:
                return execute(machine, warps)
            finally:
                machine.registers.write(warps, [place.number], before, None, place.sort)

        return run

    return make


def of_lanes(lanes: NDArray[np.int64]) -> Change:
    """What takes the value of another lane, int64 [lane]."""
    return lambda machine, warps, values: values[:, lanes]


def of_words(function: Callable[[Array], Array]) -> Change:
    """What computes the value from that of the register."""
    return lambda machine, warps, values: function(values)
