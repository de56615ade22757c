"""Executes moves, integer arithmetic, comparisons and conversions on registers of 32, 64, 16 and 1 bit.

Arithmetic is modulo 2^bits, as PTX's .s32, .u32, .s64 and .u64 forms without .sat compute (PTX ISA 9.0, 9.7.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.forms.plain import PlainForm
from isa.ptx.instruction import Instruction, Pair, Vector
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.operands import reader, writer
from simulator.state.registers import SORT_OF_BITS, WARP_SIZE, Warps
from simulator.state.shared import AddressError

Array = NDArray[Any]
Operation = Callable[..., Array]


def alu(instruction: Instruction, form: PlainForm) -> Executor:
    """d = operation(sources). The operation sees arrays [warp, 1, lane] of the operands' types, and whether the type is
    signed."""
    if form.name == "mov" and any(isinstance(operand, Vector) for operand in instruction.operands):
        return _pack(instruction)
    if form.name == "mapa":
        return _map(instruction)
    if form.name == "elect":
        return _elect(instruction)
    if form.name == "setp":
        operation: Operation = _COMPARISONS[form.qualifiers[0]]
    elif form.name == "cvt":
        operation = _conversion(form.roles[0].width)
    else:
        operation = ALU["mul.wide" if form.qualifiers[0] == "wide" else form.name]
    sources = [
        reader(operand, role.width) for role, operand in zip(form.roles[1:], instruction.operands[1:], strict=True)
    ]
    write = writer(instruction["d"], form.roles[0].width)
    signed = form.type_name[0] == "s"

    def run(machine: CtaState, warps: Warps) -> Outcome:
        values = [read(machine, warps) for read in sources]
        write(machine, warps, operation(*values, signed=signed))
        return NOTHING

    return run


def _pack(instruction: Instruction) -> Executor:
    """mov.b64 %rd0, {%r0, %r1} and back: the first of a vector is the low half. PTX ISA 9.0, 9.7.9.4."""
    packs = isinstance(instruction["a"], Vector)
    read, write = reader(instruction["a"], 32 if packs else 64), writer(instruction["d"], 64 if packs else 32)

    def run(machine: CtaState, warps: Warps) -> Outcome:
        values = np.swapaxes(read(machine, warps), 1, 2)
        other = np.ascontiguousarray(values).astype("<u4" if packs else "<u8").view("<u8" if packs else "<u4")
        write(machine, warps, np.swapaxes(other, 1, 2))
        return NOTHING

    return run


def _elect(instruction: Instruction) -> Executor:
    """elect.sync: the lane and a predicate of one thread of the mask. PTX ISA 9.0, 9.7.13.10; that it is the lowest
    lane is assumed."""
    assert isinstance(instruction["d"], Pair)
    leader, chosen = instruction["d"].elements
    read, write_leader, write_chosen = reader(instruction["a"]), writer(leader), writer(chosen, 1)

    def run(machine: CtaState, warps: Warps) -> Outcome:
        mask = read(machine, warps)[:, 0]
        if (mask != mask[:, :1]).any() or not mask.all():
            reason = "elect.sync with an empty mask, or one that differs among the threads of a warp"
            raise AddressError(reason, "the same lanes in all, e.g. 0xffffffff")
        lane = (mask[:, 0] & -mask[:, 0].astype(np.int64)).astype(np.float64)
        lowest = np.log2(lane).astype(np.uint32)[:, None, None]
        write_leader(machine, warps, np.broadcast_to(lowest, (len(warps), 1, WARP_SIZE)))
        write_chosen(machine, warps, lowest == np.arange(WARP_SIZE, dtype=np.uint32))
        return NOTHING

    return run


def _map(instruction: Instruction) -> Executor:
    """mapa: the address of the same place in another CTA. PTX ISA 9.0, 9.7.9.23."""
    read, rank, write = reader(instruction["a"]), reader(instruction["b"]), writer(instruction["d"])

    def run(machine: CtaState, warps: Warps) -> Outcome:
        where, which = read(machine, warps), rank(machine, warps)
        lanes = machine.threads(warps)
        ranks = which[:, 0][lanes]
        if ranks.size and int(ranks.max()) >= len(machine.ctas):
            raise AddressError(f"mapa to CTA {int(ranks.max())}", f"0 to {len(machine.ctas) - 1}")
        write(machine, warps, machine.mapped(where, which))
        return NOTHING

    return run


def _shift_left(a: Array, b: Array) -> Array:
    """PTX ISA 9.0, 9.7.8.7: amounts above the width less one give 0."""
    last = a.dtype.itemsize * 8 - 1
    shifted: Array = np.where(b > last, a.dtype.type(0), a << np.minimum(b, last).astype(a.dtype)).astype(a.dtype)
    return shifted


def _shift_right(a: Array, b: Array, *, signed: bool) -> Array:
    """PTX ISA 9.0, 9.7.8.8: amounts above the width less one give 0, or the sign for .s32 and .s64."""
    last = a.dtype.itemsize * 8 - 1
    amount = np.minimum(b, last)
    if signed:
        kind = f"i{a.dtype.itemsize}"
        shifted: Array = (a.view(kind) >> amount.astype(kind)).view(a.dtype)
    else:
        shifted = np.where(b > last, a.dtype.type(0), a >> amount.astype(a.dtype)).astype(a.dtype)
    return shifted


def _multiply_add(a: Array, b: Array, c: Array) -> Array:
    found: Array = np.add(a * b, c)
    return found


def _multiply_wide(a: Array, b: Array, *, signed: bool) -> Array:
    """The whole product of two 32-bit numbers, 64 bits. PTX ISA 9.0, 9.7.1.3."""
    if signed:
        product: Array = np.multiply(a.view(np.int32), b.view(np.int32), dtype=np.int64).view(np.uint64)
    else:
        product = np.multiply(a, b, dtype=np.uint64)
    return product


def _select(a: Array, b: Array, c: Array) -> Array:
    found: Array = np.where(c, a, b)
    return found


def _unsigned(function: Operation) -> Operation:
    """For operations whose result does not depend on the sign of the type."""
    return lambda *values, **_signed: function(*values)


def _comparison(function: Operation) -> Operation:
    """PTX ISA 9.0, 9.7.6.2 (setp)."""

    def compare(a: Array, b: Array, *, signed: bool) -> Array:
        kind = f"i{a.dtype.itemsize}"
        return function(a.view(kind), b.view(kind)) if signed else function(a, b)

    return compare


def _conversion(bits: int) -> Operation:
    """cvt between integers: zero- or sign-extended, or cut. PTX ISA 9.0, 9.7.9.21."""
    dtype = SORT_OF_BITS[bits].dtype

    def convert(a: Array, *, signed: bool) -> Array:
        return a.view(f"i{a.dtype.itemsize}").astype(f"i{dtype.itemsize}").view(dtype) if signed else a.astype(dtype)

    return convert


ALU: dict[str, Operation] = {
    "mov": _unsigned(np.array),
    "add": _unsigned(np.add),
    "sub": _unsigned(np.subtract),
    "mul": _unsigned(np.multiply),
    "mul.wide": _multiply_wide,
    "mad": _unsigned(_multiply_add),
    "shl": _unsigned(_shift_left),
    "shr": _shift_right,
    "and": _unsigned(np.bitwise_and),
    "or": _unsigned(np.bitwise_or),
    "xor": _unsigned(np.bitwise_xor),
    "not": _unsigned(np.invert),
    "selp": _unsigned(_select),
}
ALU_NAMES = (*(name for name in ALU if "." not in name), "setp", "cvt", "mapa", "elect")
_COMPARISONS: dict[str, Operation] = {
    "eq": _comparison(np.equal),
    "ne": _comparison(np.not_equal),
    "lt": _comparison(np.less),
    "le": _comparison(np.less_equal),
    "gt": _comparison(np.greater),
    "ge": _comparison(np.greater_equal),
    "lo": _comparison(np.less),
    "ls": _comparison(np.less_equal),
    "hi": _comparison(np.greater),
    "hs": _comparison(np.greater_equal),
}  # fmt: skip
