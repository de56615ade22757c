"""Executes moves between registers, also from and to vectors, and conversions between integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.forms.record import Form
from isa.ptx.instruction import Instruction, Operand, Register, Vector
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.operands import reader, scalars, writer
from simulator.execute.registry import Array, executes, of_operands, prepares, prepares_operands
from simulator.state.registers import SORT_OF_BITS, Warps, register_place


@executes("mov")
def move(a: Array) -> Array:
    """mov: copies a register. PTX ISA 9.0, 9.7.9.3."""
    return a.copy()


@prepares("mov.b16", "mov.b32", "mov.b64")
def move_bits(instruction: Instruction, form: Form) -> Executor:
    """mov of bits, also from a vector of narrower registers and to one: the first of a vector is the lowest. PTX ISA
    9.0, 9.7.9.4."""
    d, a = instruction["d"], instruction["a"]
    if not isinstance(a, Vector) and not isinstance(d, Vector):
        return of_operands(move, instruction)
    vector = a if isinstance(a, Vector) else d
    assert isinstance(vector, Vector)
    each = form.width // len(vector.elements)
    read_bits, write_bits = (each, form.width) if isinstance(a, Vector) else (form.width, each)
    held = max(each, 16)  # 8 bits are in registers of 16
    read = reader(a, held if isinstance(a, Vector) else read_bits)
    write = writer(d, held if isinstance(d, Vector) else write_bits)
    narrow, wide = f"<u{read_bits // 8}", f"<u{write_bits // 8}"
    result = SORT_OF_BITS[held if isinstance(d, Vector) else write_bits].dtype

    def run(machine: CtaState, warps: Warps) -> Outcome:
        values = np.ascontiguousarray(np.swapaxes(read(machine, warps), 1, 2)).astype(narrow, copy=False)
        write(machine, warps, np.swapaxes(values.view(wide), 1, 2).astype(result, copy=False))
        return NOTHING

    return run


@prepares("mov.b128")
def move_halves(instruction: Instruction, form: Form) -> Executor:
    """mov.b128: a register of 128 bits is a vector of its two halves; a vector may have four of 32 bits. Above the 64
    bits of a constant lie zeros. PTX ISA 9.0, 9.7.9.4."""
    d, a = instruction["d"], instruction["a"]
    parts = scalars(a)
    read_bits, write_bits = (max(form.width // max(len(scalars(each)), 2), 32) for each in (a, d))
    read, write = reader(a, read_bits), writer(d, write_bits)

    def run(machine: CtaState, warps: Warps) -> Outcome:
        values = np.ascontiguousarray(np.swapaxes(read(machine, warps), 1, 2))
        if len(parts) == 1:
            values = np.ascontiguousarray(np.pad(values, ((0, 0), (0, 0), (0, 1))))
        write(machine, warps, np.swapaxes(values.view(f"<u{write_bits // 8}"), 1, 2))
        return NOTHING

    return run


_INTEGERS = tuple(f"{sign}{bits}" for bits in (8, 16, 32, 64) for sign in "us")


@prepares_operands(*(f"cvt*.{d}.{a}" for d in _INTEGERS for a in _INTEGERS))
def convert_integer(instruction: Instruction, form: Form) -> Executor:
    """cvt between integers: the value extended by its sign or cut; .sat keeps within the type. Registers may be wider
    than the types: of the source the low bits count, the result is extended. PTX ISA 9.0, 9.7.9.21 and 9.4.1."""
    to, of = form.qualifiers[-2:]
    read, write = (
        reader(instruction["a"], _held(instruction["a"], of)),
        writer(instruction["d"], _held(instruction["d"], to)),
    )
    kind, dtype = _numpy(of), SORT_OF_BITS[_held(instruction["d"], to)].dtype
    limits = np.iinfo(_numpy(to))
    saturates = "sat" in form.qualifiers

    def run(machine: CtaState, warps: Warps) -> Outcome:
        patterns = read(machine, warps)
        values = patterns.astype(f"u{kind.itemsize}", copy=False).view(kind)
        if saturates:
            values = _clipped(values, limits)
        narrow = values.astype(limits.dtype)
        extended = narrow.astype(f"{limits.dtype.kind}{max(dtype.itemsize, narrow.dtype.itemsize)}")
        write(machine, warps, extended.view(f"u{extended.dtype.itemsize}").astype(dtype, copy=False))
        return NOTHING

    return run


def _clipped(values: Array, limits: Any) -> Array:
    """The values kept within the limits of another integer type."""
    own = np.iinfo(values.dtype)
    low, high = max(int(limits.min), int(own.min)), min(int(limits.max), int(own.max))
    clipped: Array = np.clip(values, values.dtype.type(low), values.dtype.type(high))
    return clipped


def _numpy(kind: str) -> np.dtype[np.signedinteger | np.unsignedinteger]:
    return np.dtype(f"{'i' if kind[0] == 's' else 'u'}{int(kind[1:]) // 8}")


def _held(operand: Operand, kind: str) -> int:
    """The width of the register of an operand, which may be more than that of its type."""
    if isinstance(operand, Register) and (place := register_place(operand.name)) is not None:
        return place.sort.bits
    return max(int(kind[1:]), 16)
