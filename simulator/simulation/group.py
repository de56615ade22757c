"""Groups of warps that execute their program in lock step, and what a run notes about each group.

The interpreter executes a whole group at once, as arrays with one row for each warp.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.execute.dynamic_info import Fact
from simulator.program.lowering import Code, Cursor
from simulator.simulation.executions import Executions


@dataclass
class Group:
    """Warps that run the same code in lock step, and what the run noted about them.

    Attributes:
        code: the code that they run.
        warps: intp [warp]: their numbers within the CTA.
        wavefronts: by index of each operation that uses shared memory: for each execution the cycles of each warp.
        lanes: by index of those operations whose guard may leave threads out: for each execution the number of threads
            of each warp that took part.
        facts: by index of each operation whose time depends on more than its opcode: for each execution what each warp
            did (`simulator.execute.dynamic_info`).
        unwritten: by (register, line) of the first read of a register that nothing had written: the warps that read it.
        skipped: turns of loops that were known without executing them, of each warp.
    """

    code: Code
    warps: NDArray[np.intp]
    wavefronts: dict[int, Executions[tuple[int, ...]]] = field(default_factory=dict)
    lanes: dict[int, Executions[tuple[int, ...]]] = field(default_factory=dict)
    facts: dict[int, Executions[tuple[Fact | None, ...]]] = field(default_factory=dict)
    unwritten: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    skipped: int = 0

    def note(self, what: str, index: int, row: tuple[Any, ...]) -> None:
        """Notes what an execution of an operation gave each warp: "wavefronts", "lanes" or "facts"."""
        table: dict[int, Executions[tuple[Any, ...]]] = getattr(self, what)
        executions = table.get(index)
        if executions is None:
            executions = table[index] = Executions()
        executions.append(row)

    @cached_property
    def cursor(self) -> Cursor:
        """Where the warps are in their code."""
        return Cursor(self.code)


def to_execute(groups: list[Group]) -> int:
    """How many operations the groups execute, each for all of its warps at once."""
    return sum(operation.executions for group in groups for operation in group.code.operations)


def grouped(codes: list[Code]) -> list[Group]:
    """The groups of a program: one for each block of code, or one for each warp where warps may part.

    Warps may part where one of them can wait for something that the others need not wait for.
    """
    may_part = any(
        (op.barrier and (op.instruction.guard or _waits_for_others(code, codes, *op.barrier)))
        or op.instruction.form.parts_warps
        for code in codes
        for op in code.operations
    )
    return [
        Group(code, np.array(warps, np.intp))
        for code in codes
        for warps in ([[w] for w in code.warps] if may_part else [list(code.warps)])
    ]


def _waits_for_others(code: Code, codes: list[Code], number: int, warps: int | None) -> bool:
    """Whether warps of a code may be released one by one from a barrier: not from one of all warps of the CTA, nor from
    one that is for the warps of this code alone."""
    if warps is None:
        return False
    return any(
        op.barrier is not None and op.barrier[0] == number and (other is not code or op.barrier[1] != len(code.warps))
        for other in codes
        if other.cta == code.cta
        for op in other.operations
    )
