"""Registers that tcgen05.ld fills and somebody reads before tcgen05.wait::ld. A look at the text: loops are walked
twice."""

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
    """Every such read once, by line."""
    reads: dict[tuple[int, int], Unwaited] = {}
    for block in trace.blocks:
        _walk(block.body, {}, reads)
    return [reads[key] for key in sorted(reads)]


def _walk(body: Iterable[Node], pending: dict[str, int], found: dict[tuple[int, int], Unwaited]) -> None:
    """`pending`: registers that are being filled, with the line of their load; changed in place."""
    for node in body:
        if isinstance(node, Step):
            _step(node, pending, found)
        else:
            for _ in range(min(node.count, 2)):
                _walk(node.body, pending, found)


def _step(step: Step, pending: dict[str, int], found: dict[tuple[int, int], Unwaited]) -> None:
    instruction = step.instruction
    form = instruction.form
    if form.name == "tcgen05.wait::ld":
        pending.clear()
        return
    guard = (instruction.guard.predicate.name,) if instruction.guard else ()
    for register in (*guard, *instruction.reads):
        if register in pending:
            key = step.line, pending[register]
            earlier = found.get(key)
            registers = (*(earlier.registers if earlier else ()), register)
            found[key] = Unwaited(*key, form.opcode, tuple(dict.fromkeys(registers)))
    for register in instruction.writes:
        pending.pop(register, None)
    if KINDS.get(form.name) == "ld":
        pending |= dict.fromkeys(instruction.writes, step.line)
