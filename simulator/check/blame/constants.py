"""Hypotheses about the constants of an instruction."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace

from isa.forms.mma import is_mma
from isa.forms.record import Role, Shape
from isa.ptx.instruction import Immediate, Instruction, OwnOffset, Register, Vector
from simulator.check.blame.change import Hypothesis, replaced, with_operand
from simulator.check.blame.names import Names
from simulator.program.kernel import Operation

Add = Callable[..., None]
# what the constant of an instruction is called: by name, by operand
_WORDS = {"shfl": {"b": "delta", "c": "clamp and segment mask"}, "shl": {"b": "a shift by"}, "shr": {"b": "a shift by"}}


def constant_hypotheses(item: Operation, names: Names) -> Iterator[Hypothesis]:
    """All about the constants of one instruction, also those that stand in a register."""
    instruction = item.instruction
    for role, written in zip(instruction.form.roles, instruction.operands, strict=False):
        known = isinstance(written, Register) and not role.output
        operand = names.constants.get(str(written), written) if known else written
        if isinstance(operand, Immediate):
            for value, weight in _values(instruction, role, operand):
                changed = with_operand(instruction, role.name, replace(operand, value=value))
                what = _meant(instruction, role, operand, replace(operand, value=value))
                found = replaced(item, changed, ("constant", role.name, operand.value, value), what, weight)
                step, flipped = value - operand.value, value ^ operand.value
                yield replace(found, other_keys=(("step", role.name, step), ("flipped", role.name, flipped)))
        elif isinstance(operand, Vector):
            yield from _in_vector(item, role, operand)


def _in_vector(item: Operation, role: Role, operand: Vector) -> Iterator[Hypothesis]:
    """Constants among the registers of a vector: coordinates, and what a store writes."""
    for index, each in enumerate(operand.elements):
        if isinstance(each, Immediate):
            for value in (each.value + 1, each.value - 1, 2 * each.value, each.value // 2, 0):
                elements = list(operand.elements)
                elements[index] = replace(each, value=value)
                changed = with_operand(item.instruction, role.name, Vector(tuple(elements)))
                what = f"element {index} of operand {role.name}: {each.value} where {value} is meant"
                yield replaced(item, changed, ("element", role.name, index, value - each.value), what, 0.3)


def _meant(instruction: Instruction, role: Role, old: Immediate, new: Immediate) -> str:
    """The mistake in words."""
    name = instruction.form.name
    if role.name == "f" and instruction.form.is_sparse:
        return f"the sparsity selector {old} is wrong: {new} is meant"
    kind = _WORDS.get(name, {}).get(role.name) or ("the comparison with" if name == "setp" else "the constant")
    return f"{kind} {_number(old)} where {_number(new)} is meant"


def _number(each: Immediate) -> str:
    if each.style == "float":
        return f"{struct.unpack('<f', struct.pack('<I', each.value & 0xFFFFFFFF))[0]:g}"
    if each.style == "double":
        return f"{struct.unpack('<d', struct.pack('<Q', each.value & (1 << 64) - 1))[0]:g}"
    return str(each)


def _values(instruction: Instruction, role: Role, operand: Immediate) -> list[tuple[int, float]]:
    """Other values of a constant, each with its weight."""
    value, form = operand.value, instruction.form
    found: dict[int, float] = {}

    def add(weight: float, *values: int) -> None:
        for each in values:
            if each != value:
                found.setdefault(each, weight)

    if role.choices:
        add(0.6, *(each for choice in role.choices for each in choice))
    elif role.limit and role.limit <= 64:
        selectors = form.metadata.selectors if is_mma(form) and role.name == "f" else role.limit - role.lax
        add(0.9 if role.name == "f" else 0.6, *range(selectors))
    elif operand.style in ("float", "double") or form.type_name in ("f32", "f64", "f16", "bf16"):
        _floats(add, value, 64 if operand.style == "double" else 32)
    elif role.name in ("scale_a", "scale_b"):
        add(0.9, -value)
    elif form.name in ("bar", "barrier") or (role.shape is Shape.IMMEDIATE and form.behind_issue):
        add(0.6, 0, 1, value ^ 1)
    elif isinstance(operand, OwnOffset):
        pass
    else:
        _integers(add, value, instruction, role)
    return list(found.items())


def _floats(add: Add, value: int, width: int) -> None:
    low, exponent = (52, 11) if width == 64 else (23, 8)
    one = ((1 << exponent - 1) - 1) << low
    top = 1 << width - 1
    add(0.45, value ^ top, value + (1 << low), value - (1 << low), 0, one)
    add(0.3, one | top, value + (1 << low + 1), value - (1 << low + 1), 0xFF800000 if width == 32 else value)


def _integers(add: Add, value: int, instruction: Instruction, role: Role) -> None:
    name = instruction.form.name
    if role.width == 1:
        add(0.5, 0 if value else 1)
        return
    if name in ("shl", "shr", "shf") and role.name in "bc":
        add(0.6, *(each for each in (value + 1, value - 1, value + 2, value - 2, 0) if 0 <= each < 64))
        add(0.45, *(each for each in (2 * value, value // 2, 16) if 0 <= each < 64))
        add(0.25, *(each for each in (*range(8), 24, 31)))
        return
    if name == "shfl":
        add(0.8, *(each for each in (2 * value, value // 2, 16, 8, 4, 2, 1) if each < 32))
        add(0.4, *(each for each in (value + 1, value - 1, 31, 0, 0x1C1F, 0x181F, 0x101F, 0x1E1F) if each >= 0))
        return
    if name == "prmt" and role.name == "c":
        add(0.5, 0x3210, 0x1032, 0x2301, 0x0123, 0x5410, 0x7632, 0x5140, 0x7362, 0x3120)
        return
    if name == "lop3" and role.name == "immLut":
        add(0.5, 0xC0, 0xFC, 0x3C, 0x80, 0xFE, 0x96, 0xEA, 0xF8, 0x78, 0x6A, 0xE2, 0xD8, 0xB8, 0xCA)
    if name in ("and", "or", "xor", "lop3"):
        add(0.5, 2 * value, value >> 1, 2 * value + 1, value + 1, value - 1, 0)
        add(0.4, *(value ^ (1 << bit) for bit in range(min(max(value, 1).bit_length() + 2, 32))))
        add(0.3, ~value, -1)
        return
    add(0.6, value + 1, value - 1, 2 * value, value // 2)
    add(0.45, 0, -value, value + 2, value - 2, value + 4, value - 4, value + 8, value - 8, value + 16, value - 16)
    add(0.3, 4 * value, value // 4, value + 32, value - 32, value + 64, value - 64, 1, 2, 4, 8, 16, 32, 64, 128)
    bits = 64 if role.width == 64 else 32
    add(0.2, *(value ^ (1 << bit) for bit in range(min(max(abs(value), 1).bit_length() + 2, bits))))
    if bits == 64 or abs(value) > 1 << 16:  # a descriptor
        add(0.35, *(value ^ (1 << bit) for bit in range(bits)))
