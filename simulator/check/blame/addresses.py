"""Hypotheses about addresses: so many bytes too low or high, another row, other coordinates, another parameter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from isa.forms.record import Role
from isa.ptx.instruction import Address, Immediate, Register, TensorPlace, Vector
from simulator.check.blame.change import Hypothesis, name_of, replaced, with_operand
from simulator.check.blame.names import Names, parameter_number
from simulator.check.blame.seen import Array, Change, seen_as
from simulator.execute.cta_state import CtaState
from simulator.execute.operands import scalar
from simulator.program.kernel import Kernel, Operation
from simulator.state.registers import Sort, Warps, register_place

_ROWS = (32, 64, 128)  # bytes of a row or a block of k
_STRIDES = (1, 2, 4, 8, 16)  # bytes of an element


def address_hypotheses(kernel: Kernel, item: Operation, names: Names) -> Iterator[Hypothesis]:
    """All about the addresses of one instruction."""
    instruction = item.instruction
    for role, operand in zip(instruction.form.roles, instruction.operands, strict=False):
        if isinstance(operand, TensorPlace):
            yield from _coordinates(kernel, item, role, operand)
        if not isinstance(operand, Address):
            continue
        if operand.base is None and "param" in instruction.form.qualifiers:
            yield from _parameters(kernel, item, role, operand)
            continue
        access = instruction.form.access
        size = max(access.bytes if access is not None else 4, 1)
        element = max(size // max(instruction.form.elements, 1), 1)
        weights = {16: 0.5, -16: 0.5, element: 0.55, -element: 0.55} | {size: 0.6, -size: 0.6}
        for step in (1, 2, 4, 8, 32, 64, 128, 256, 512, 1024, 2048):
            for sign in (1, -1):
                weights.setdefault(sign * step, 0.45 if step in _ROWS else 0.35)
        offsets = [(operand.offset + step, weight) for step, weight in weights.items()]
        if operand.offset:
            offsets += [(0, 0.5), (2 * operand.offset, 0.5), (operand.offset // 2, 0.5), (-operand.offset, 0.3)]
            offsets += [(operand.offset ^ (1 << bit), 0.25) for bit in range(operand.offset.bit_length() + 1)
                        if operand.offset > 0]  # fmt: skip
        for offset, weight in dict(reversed(offsets)).items():
            if offset != operand.offset:
                changed = with_operand(instruction, role.name, replace(operand, offset=offset))
                step = offset - operand.offset
                what = f"the address is {abs(step)} bytes too {'low' if step > 0 else 'high'}"
                yield replaced(item, changed, ("offset", role.name, step), what, weight)
        if operand.base is not None and register_place(operand.base.name) is not None:
            yield from _rows(kernel, item, operand.base.name, names)


def _rows(kernel: Kernel, item: Operation, base: str, names: Names) -> Iterator[Hypothesis]:
    """An address that is a row (a parameter times the size of an element) too low or high."""
    place = register_place(base)
    assert place is not None
    if base in item.writes:
        return
    for register, (_, word) in names.parameters.items():
        own = register_place(register)
        if own is None or own.sort is not Sort.WORD:
            continue
        for step in (sign * size for size in _STRIDES for sign in (1, -1)):
            row = f"{abs(step)} * {name_of(kernel, register)}"
            what = f"the address is {row} ({word}) bytes too {'low' if step > 0 else 'high'}"
            fix = f"{'add' if step > 0 else 'subtract'} {row}"
            action = seen_as(base, _moved(register, step))
            yield Hypothesis({item.index: (action,)}, ("row", word, step), what, fix, None, 0.3)


def _moved(register: str, step: int) -> Change:
    """What adds a register times a step to an address."""

    def change(machine: CtaState, warps: Warps, values: Array) -> Array:
        stride = scalar(Register(register), machine, warps, Sort.WORD).view(np.int32).astype(np.int64) * step
        moved: Array = (values.astype(np.int64) + stride).astype(values.dtype)
        return moved

    return change


def _coordinates(kernel: Kernel, item: Operation, role: Role, operand: TensorPlace) -> Iterator[Hypothesis]:
    """Coordinates of a tensor copy in another order."""
    elements = operand.coordinates.elements
    for first in range(len(elements)):
        for second in range(first):
            new = list(elements)
            new[first], new[second] = new[second], new[first]
            if elements[first] == elements[second]:
                continue
            place = TensorPlace(operand.map, Vector(tuple(new)))
            what = f"coordinates {second} and {first} are swapped"
            changed = with_operand(item.instruction, role.name, place)
            yield replaced(item, changed, ("coordinates", first, second), what, 0.8)
    for index, each in enumerate(elements):
        if isinstance(each, Immediate):
            for step in (1, -1, 8, -8, 16, -16, 32, -32, 64, -64):
                new = list(elements)
                new[index] = replace(each, value=each.value + step)
                place = TensorPlace(operand.map, Vector(tuple(new)))
                what = f"coordinate {index}: {each.value} where {each.value + step} is meant"
                changed = with_operand(item.instruction, role.name, place)
                yield replaced(item, changed, ("coordinate", index, step), what, 0.4)


def _parameters(kernel: Kernel, item: Operation, role: Role, operand: Address) -> Iterator[Hypothesis]:
    """Another parameter of the same size."""
    own = next((each for each in kernel.parameters if each.offset == operand.offset), None)
    for number, each in enumerate(kernel.parameters):
        if own is not None and each.bytes == own.bytes and each.offset != operand.offset:
            changed = with_operand(item.instruction, role.name, replace(operand, offset=each.offset))
            what = f"parameter {parameter_number(kernel, operand.offset)} where parameter {number} is meant"
            yield replaced(item, changed, ("parameter", number), what, 0.6)
