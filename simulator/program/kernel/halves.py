"""Writes registers of 128 bits as the two of 64 that hold their halves: %rq4 is {%rd4, %rd5}, the low half first."""

from __future__ import annotations

import re
from dataclasses import replace

from isa.errors import IsaError
from isa.ptx.instruction import Instruction, Operand, Register, Vector

_WHOLE = re.compile(r"%rq(\d+)")


def in_halves(instruction: Instruction) -> Instruction:
    """The instruction with two registers of 64 bits for each of 128.

    Raises:
        IsaError: a register of 128 bits for a narrower type, which is not executed.
    """
    if not any(_WHOLE.fullmatch(name) for name in (*instruction.reads, *instruction.writes)):
        return instruction
    form = instruction.form
    operands = tuple(_halves(operand) for operand in instruction.operands)
    changed = replace(instruction, operands=operands)
    left = any(_WHOLE.fullmatch(name) for name in (*changed.reads, *changed.writes))
    if left or "b128" not in form.qualifiers:
        reason = f"'{form.opcode}' with a register of 128 bits for a narrower type, which is not executed"
        raise IsaError(str(instruction), 0, reason, "a register as wide as the type")
    return changed


def _halves(operand: Operand) -> Operand:
    match = _WHOLE.fullmatch(operand.name) if isinstance(operand, Register) else None
    if match is None:
        return operand
    number = int(match[1])
    return Vector((Register(f"%rd{number}"), Register(f"%rd{number + 1}")))
