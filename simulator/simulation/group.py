"""Warps that run in lock step, and what a run has noted about them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.execute.dynamic_info import Fact
from simulator.program.lowering import Code


@dataclass
class Group:
    """Warps that run the same code in lock step, and what was seen of them.

    Attributes:
        wavefronts: for each operation that uses shared memory, [execution, warp] cycles.
        lanes: for each of them whose guard may leave threads out, [execution, warp] threads that took part.
        facts: for each operation of the families whose time depends on more than the opcode: for each warp the facts of
            its executions.
        unwritten: (register, line) of the first read of each register that nothing had written, with its warps.
    """

    code: Code
    warps: NDArray[np.intp]
    wavefronts: dict[int, list[NDArray[np.int64]]] = field(default_factory=dict)
    lanes: dict[int, list[NDArray[np.int64]]] = field(default_factory=dict)
    facts: dict[int, dict[int, list[Fact | None]]] = field(default_factory=dict)
    unwritten: dict[tuple[int, int], set[int]] = field(default_factory=dict)


def grouped(codes: list[Code]) -> list[Group]:
    """One group a block; one a warp where warps may part: where some of them wait for something that the others need
    not wait for."""
    part = any(
        (op.barrier and (op.barrier[1] is not None or op.instruction.guard)) or op.instruction.form.parts_warps
        for code in codes
        for op in code.operations
    )
    return [
        Group(code, np.array(warps, np.intp))
        for code in codes
        for warps in ([[w] for w in code.warps] if part else [list(code.warps)])
    ]
