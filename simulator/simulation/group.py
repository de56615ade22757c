"""Groups of warps that execute their program in lock step, and what a run notes about each group.

The interpreter executes a whole group at once, as arrays with one row for each warp.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.execute.dynamic_info import Fact
from simulator.program.lowering import Code


@dataclass
class Group:
    """Warps that run the same code in lock step, and what the run noted about them.

    Attributes:
        code: the code that they run.
        warps: intp [warp]: their numbers within the CTA.
        wavefronts: by index of each operation that uses shared memory: for each execution the cycles, int64 [warp].
        lanes: by index of those operations whose guard may leave threads out: for each execution the number of threads
            that took part, int64 [warp].
        facts: by index of each operation whose time depends on more than its opcode, then by warp: what each execution
            did (`simulator.execute.dynamic_info`).
        unwritten: by (register, line) of the first read of a register that nothing had written: the warps that read it.
    """

    code: Code
    warps: NDArray[np.intp]
    wavefronts: dict[int, list[NDArray[np.int64]]] = field(default_factory=dict)
    lanes: dict[int, list[NDArray[np.int64]]] = field(default_factory=dict)
    facts: dict[int, dict[int, list[Fact | None]]] = field(default_factory=dict)
    unwritten: dict[tuple[int, int], set[int]] = field(default_factory=dict)


def grouped(codes: list[Code]) -> list[Group]:
    """The groups of a program: one for each block of code, or one for each warp where warps may part.

    Warps may part where one of them can wait for something that the others need not wait for.
    """
    may_part = any(
        (op.barrier and (op.barrier[1] is not None or op.instruction.guard)) or op.instruction.form.parts_warps
        for code in codes
        for op in code.operations
    )
    return [
        Group(code, np.array(warps, np.intp))
        for code in codes
        for warps in ([[w] for w in code.warps] if may_part else [list(code.warps)])
    ]
