"""Matrix instructions of many copies: a product is formed once for all warps that have the same operands, as most
copies of a warp have."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.forms.mma import is_mma
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.dispatch import executor
from simulator.program.kernel import Operation
from simulator.simulation.launch.interpreter import step_of
from simulator.simulation.launch.run import Code
from simulator.state.registers import Sort, Warps, register_place

_GENERATOR = np.random.default_rng(0)
_FACTORS = _GENERATOR.integers(1, 1 << 62, 1 << 12, dtype=np.uint64) | np.uint64(1)  # of a hash; any will do


def distinct(values: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Of rows of uint32 [row, ..., lane] the first of each that differ, and for each row which of these it equals.

    Rows are compared by a hash, and then with the row that they are taken for.
    """
    flat = np.ascontiguousarray(values).reshape(len(values), -1).view(np.uint64)
    hashes = (flat * np.resize(_FACTORS, flat.shape[1])).sum(axis=1, dtype=np.uint64)
    _, first, same = np.unique(hashes, return_index=True, return_inverse=True)
    if (flat != flat[first[same]]).any():
        every = np.arange(len(values))
        return every, every
    return first, same.reshape(-1)


def spared(code: Code) -> Code:
    """A kernel whose `mma` form each product once."""
    return code._replace(steps=[
        step_of(item, _sparing(item)) if isinstance(item, Operation) and _may_spare(item) else step
        for item, step in zip(code.kernel.items, code.steps, strict=True)
    ])  # fmt: skip


def _may_spare(item: Operation) -> bool:
    """Whether an instruction is an `mma` that every warp executes, and whose operands are 32-bit registers."""
    places = [register_place(name) for name in (*item.needs, *item.writes)]
    plain = all(place is not None and place.sort is Sort.WORD for place in places)
    return is_mma(item.instruction.form) and item.instruction.guard is None and plain and bool(item.writes)


def _sparing(item: Operation) -> Executor:
    execute = executor(item.instruction)
    needs, writes = (
        [place.number for name in dict.fromkeys(names) if (place := register_place(name)) is not None]
        for names in (item.needs, item.writes)
    )

    def run(machine: CtaState, warps: Warps) -> Outcome:
        registers = machine.registers
        first, same = distinct(registers.read(warps, needs))
        if len(first) == len(warps):
            return execute(machine, warps)
        some = warps[first]
        execute(machine, some)
        registers.write(warps, writes, registers.read(some, writes)[same])
        return NOTHING

    return run
