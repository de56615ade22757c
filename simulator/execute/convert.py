"""Executes moves between registers and conversions between integers."""

from __future__ import annotations

import numpy as np

from isa.forms.record import Form
from isa.ptx.instruction import Instruction, Vector
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.operands import reader, writer
from simulator.execute.registry import Array, executes, of_operands, prepares
from simulator.state.registers import Warps


@executes("mov")
def move(a: Array) -> Array:
    """mov: copies a register. PTX ISA 9.0, 9.7.9.3."""
    return a.copy()


@prepares("mov.b64")
def move_wide(instruction: Instruction, form: Form) -> Executor:
    """mov.b64 %rd0, {%r0, %r1} and back: the first of a vector is the low half. PTX ISA 9.0, 9.7.9.4."""
    packs = isinstance(instruction["a"], Vector)
    if not packs and not isinstance(instruction["d"], Vector):
        return of_operands(move, instruction)
    read, write = reader(instruction["a"], 32 if packs else 64), writer(instruction["d"], 64 if packs else 32)

    def run(machine: CtaState, warps: Warps) -> Outcome:
        values = np.swapaxes(read(machine, warps), 1, 2)
        other = np.ascontiguousarray(values).astype("<u4" if packs else "<u8").view("<u8" if packs else "<u4")
        write(machine, warps, np.swapaxes(other, 1, 2))
        return NOTHING

    return run


@executes("cvt.u64")
def to_u64(a: Array) -> Array:
    """cvt to u64: the value zero-extended. PTX ISA 9.0, 9.7.9.21."""
    return a.astype(np.uint64)


@executes("cvt.s64.s32")
def to_s64(a: Array) -> Array:
    """cvt to s64: the value sign-extended. PTX ISA 9.0, 9.7.9.21."""
    return a.view(np.int32).astype(np.int64).view(np.uint64)


@executes("cvt.u32")
def to_u32(a: Array) -> Array:
    """cvt to u32: the low 32 bits, or the value zero-extended. PTX ISA 9.0, 9.7.9.21."""
    return a.astype(np.uint32)


@executes("cvt.u16")
def to_u16(a: Array) -> Array:
    """cvt to u16: the low 16 bits. PTX ISA 9.0, 9.7.9.21."""
    return a.astype(np.uint16)
