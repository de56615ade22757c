"""Instructions by which the threads that a membermask names exchange data: `Exchange`.

It is apart from where the operands lie, as threads of one warp may execute such an instruction at several places of a
kernel: they meet all the same if opcode and mask are the same, each with its own registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.undefined import undefined_behavior
from simulator.execute.cta_state import NOTHING, CtaState, Outcome
from simulator.execute.operands import Reader, Writer
from simulator.state.registers import LANE, Lanes, Warps

Array = NDArray[Any]
Values = tuple[Array, ...]
Compute = Callable[[CtaState, Values, Array, Lanes], Values]


@dataclass(frozen=True)
class Exchange:
    """The executor of such an instruction.

    Attributes:
        sources: read the operands that each thread gives, [warp, lane] (or [warp, 1, lane]).
        mask: reads the membermask.
        compute: gives the results [warp, lane] from operands and masks [warp, lane] and from the threads that execute
            it, bool [warp, lane], all of which have the same mask within a warp.
        writers: write the results; None for one that is dropped.
    """

    sources: tuple[Reader, ...]
    mask: Reader
    compute: Compute
    writers: tuple[Writer | None, ...]

    def __call__(self, machine: CtaState, warps: Warps) -> Outcome:
        """Executes it for threads that all stand at one place."""
        self.write(machine, warps, self.results(machine, self.read(machine, warps), machine.threads(warps)))
        return NOTHING

    def read(self, machine: CtaState, warps: Warps) -> Values:
        """The masks and the operands, [warp, lane] each."""
        return tuple(_flat(read(machine, warps)) for read in (self.mask, *self.sources))

    def results(self, machine: CtaState, values: Values, active: Lanes) -> Values:
        """What every thread gets. Threads of a warp with different masks exchange among themselves; UndefinedBehavior
        as `check_members`."""
        masks, operands = values[0], values[1:]
        check_members(masks, active)
        first = np.take_along_axis(masks, active.argmax(axis=1)[:, None], axis=1)
        others = active & (masks != first)
        results = self.compute(machine, operands, masks, active & ~others)
        while others.any():
            rows = np.flatnonzero(others.any(axis=1))
            left = others[rows]
            mask = np.take_along_axis(masks[rows], left.argmax(axis=1)[:, None], axis=1)
            alike = left & (masks[rows] == mask)
            for result, more in zip(
                results, self.compute(machine, tuple(each[rows] for each in operands), masks[rows], alike), strict=True
            ):
                result[rows] = np.where(alike, more, result[rows])
            others[rows] &= ~alike
        return results

    def write(self, machine: CtaState, warps: Warps, results: Values) -> None:
        """Writes the results of the active threads."""
        for write, result in zip(self.writers, results, strict=True):
            if write is not None:
                write(machine, warps, result[:, None])


def check_members(masks: Array, active: Lanes) -> None:
    """Raises UndefinedBehavior, whatever the policy, for an active thread that is not in its own mask, [warp, lane]:
    what a chip does then has not been measured."""
    outside = active & (masks >> LANE & 1 == 0)
    if outside.any():
        row, thread = (int(place[0]) for place in np.nonzero(outside))
        where = f"thread {thread} is not in its membermask ({int(masks[row, thread]):#x})"
        raise undefined_behavior("warp-mask", where)


def exchange(machine: CtaState, warps: Warps, parts: Sequence[tuple[Exchange, Lanes]]) -> None:
    """Executes an instruction whose threads stand at several places: for each, what it is there and the threads, bool
    [warp, lane]."""
    merged = merge((part.read(machine, warps), lanes) for part, lanes in parts)
    together = np.logical_or.reduce([lanes for _, lanes in parts])
    results = parts[0][0].results(machine, merged, together)
    before = machine.active
    for part, lanes in parts:
        machine.active = lanes
        part.write(machine, warps, results)
    machine.active = before


def merge(parts: Iterable[tuple[Values, Lanes]]) -> Values:
    """Of several arrays [warp, lane] each lane from the one that is its own."""
    merged: Values = ()
    for values, lanes in parts:
        merged = tuple(np.where(lanes, new, old) for new, old in zip(values, merged or values, strict=True))
    return merged


def _flat(values: Array) -> Array:
    return values[:, 0] if values.ndim == 3 else values
