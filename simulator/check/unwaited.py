"""Finds registers that are read after tcgen05.ld has begun to fill them and before tcgen05.wait::ld.

This needs no run: the text is followed line by line, and each loop twice, so that a read in its next run is seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from simulator.check.accesses import KINDS
from simulator.program.blocks import Node, Step
from simulator.program.program import Program


class Unwaited(NamedTuple):
    """An instruction at `line` that reads what the tcgen05.ld at line `load` fills."""

    line: int
    load: int
    opcode: str
    registers: tuple[str, ...]


def unwaited_results(trace: Program) -> list[Unwaited]:
    """Every read of a register that is still being filled, once, by line."""
    reads: dict[tuple[int, int], Unwaited] = {}
    for block in trace.blocks:
        _walk(block.body, {}, reads)
    return [reads[key] for key in sorted(reads)]


def _walk(body: Iterable[Node], pending: dict[str, int], reads: dict[tuple[int, int], Unwaited]) -> None:
    """Notes in `reads` what a body reads too early. `pending`: registers that are being filled, with the line of their
    load; changed in place."""
    for node in body:
        if isinstance(node, Step):
            _step(node, pending, reads)
        else:
            for _ in range(min(node.count, 2)):
                _walk(node.body, pending, reads)


def _step(step: Step, pending: dict[str, int], reads: dict[tuple[int, int], Unwaited]) -> None:
    instruction = step.instruction
    form = instruction.form
    if form.name == "tcgen05.wait::ld":
        pending.clear()
        return
    guard = (instruction.guard.predicate.name,) if instruction.guard else ()
    for register in (*guard, *instruction.reads):
        if register in pending:
            key = step.line, pending[register]
            earlier = reads.get(key)
            registers = (*(earlier.registers if earlier else ()), register)
            reads[key] = Unwaited(*key, form.opcode, tuple(dict.fromkeys(registers)))
    for register in instruction.writes:
        pending.pop(register, None)
    if KINDS.get(form.name) == "ld":
        pending |= dict.fromkeys(instruction.writes, step.line)
