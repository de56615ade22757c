"""Executes arithmetic with the carry flag: add.cc, addc, sub.cc, subc, mad.cc, madc. PTX ISA 9.0, 9.7.2.

Every thread has one carry flag. It is not a register that an instruction names, so it lies beside the registers, in
`CtaState.carry`.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from isa.forms.record import Form
from isa.ptx.instruction import Instruction
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.integer import high_product
from simulator.execute.operands import reader, writer
from simulator.execute.registry import Array, prepares
from simulator.state.registers import Warps


def _sum(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    """a + b + carry, and the carry out."""
    first = a + b
    total = first + carry.astype(a.dtype)
    return total, (first < a) | (total < first)


class _Kind(NamedTuple):
    """What an instruction of this family does.

    Attributes:
        takes: whether it adds the carry flag.
        subtracts, multiplies: a - b, or a * b + c; otherwise it adds a and b.
    """

    takes: bool
    subtracts: bool = False
    multiplies: bool = False


def _extended(kind: _Kind, instruction: Instruction, form: Form) -> Executor:
    """A sum or difference that takes the carry flag (addc, subc, madc) and gives one (.cc). Of a difference the flag is
    set where nothing is borrowed, as the chip has it; PTX leaves that open."""
    width = form.width
    sources = [reader(instruction[name], width) for name in "abc" if name in instruction.by_role]
    write = writer(instruction["d"], width)
    takes, subtracts, multiplies = kind
    gives, high = "cc" in form.qualifiers, "hi" in form.qualifiers

    def run(machine: CtaState, warps: Warps) -> Outcome:
        values = [read(machine, warps) for read in sources]
        flag = machine.carry[warps][:, None]
        carry = flag if takes else np.zeros_like(flag)
        if multiplies:
            product = high_product(values[0], values[1], form.signed) if high else values[0] * values[1]
            result, out = _sum(product, values[2], carry)
        elif subtracts:
            result, out = _sum(values[0], ~values[1], carry if takes else np.ones_like(flag))
        else:
            result, out = _sum(values[0], values[1], carry)
        write(machine, warps, result)
        if gives:
            lanes = machine.threads(warps)
            machine.carry[warps] = np.where(lanes, out[:, 0], flag[:, 0])
        return NOTHING

    return run


_KINDS = {
    "add.cc": _Kind(False),
    "addc": _Kind(True),
    "sub.cc": _Kind(False, subtracts=True),
    "subc": _Kind(True, subtracts=True),
    "mad.lo.cc": _Kind(False, multiplies=True),
    "mad.hi.cc": _Kind(False, multiplies=True),
    "madc": _Kind(True, multiplies=True),
}
for _opcode, _kind in _KINDS.items():
    prepares(_opcode)(partial(_extended, _kind))
