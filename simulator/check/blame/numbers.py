"""Hypotheses about single numbers, registers and opcodes: a constant, an offset, a comparison, a parameter."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from isa.forms.mma import is_mma
from isa.forms.record import Role, Shape
from isa.ptx.instruction import (
    Address,
    Immediate,
    Instruction,
    Operand,
    OwnOffset,
    Predicate,
    Register,
    TensorPlace,
    Vector,
)
from simulator.check.blame.change import Hypothesis, name_of, with_opcode, with_operand
from simulator.check.blame.operands import seen_as
from simulator.execute.cta_state import CtaState
from simulator.execute.operands import scalar
from simulator.program.kernel import Kernel, Operation
from simulator.state.registers import Sort, register_place

SPECIALS = ("%tid.x", "%tid.y", "%tid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z", "%ntid.x", "%ntid.y", "%nctaid.x",
            "%nctaid.y", "%laneid", "%warpid")  # fmt: skip
_COMPARED = {"lt": "less than", "le": "at most", "gt": "greater than", "ge": "at least", "eq": "equal",
             "ne": "not equal", "lo": "lower", "ls": "lower or same", "hi": "higher", "hs": "higher or same"}  # fmt: skip
_NEIGHBOURS = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt", "eq": "ne", "ne": "eq", "lo": "ls", "ls": "lo",
               "hi": "hs", "hs": "hi"}  # fmt: skip
_NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "lo": "hs", "ls": "hi", "hi": "ls", "hs": "lo"}
_SIGNED = {"s16": "u16", "s32": "u32", "s64": "u64", "s8": "u8", "u8": "s8", "u16": "s16", "u32": "s32", "u64": "s64"}
_OTHERS = {
    "add": ("sub",), "sub": ("add",), "min": ("max",), "max": ("min",), "and": ("or", "xor"), "or": ("and", "xor", "add"),
    "xor": ("or", "and"), "shl": ("shr",), "shr": ("shl",), "div": ("rem",), "rem": ("div",),
}  # fmt: skip
_QUALIFIERS = {
    "bfly": ("down", "up"), "down": ("bfly", "up"), "up": ("bfly", "down"), "lo": ("hi",), "hi": ("lo",),
    "rn": ("rz",), "rz": ("rn",), "rni": ("rzi",), "rzi": ("rni",), "any": ("all",), "all": ("any",),
    "ex2": ("lg2",), "lg2": ("ex2",), "sin": ("cos",), "cos": ("sin",), "sqrt": ("rsqrt",), "rsqrt": ("sqrt",),
    "e4m3": ("e5m2",), "e5m2": ("e4m3",), "f16": ("bf16",), "bf16": ("f16",), "row": ("col",), "col": ("row",),
}  # fmt: skip
_ORDERED = ("sub", "div", "rem", "setp", "selp", "shl", "shr", "set")  # whose operands a and b may not be exchanged
_STRIDES = (1, 2, 4, 8, 16)  # bytes of an element
RECENT, KNOWN = 8, 64  # registers written shortly before, and at all, that may be meant


@dataclass(frozen=True)
class Names:
    """What the registers of a kernel hold.

    Attributes:
        parameters: by register, the parameter that it is loaded from: (offset, value in words).
        specials: by register, the special register that it is a copy of.
        recent: by place, registers of each sort that have been written shortly before, the last first.
        constants: by register that one instruction alone writes, the constant that it holds.
    """

    parameters: Mapping[str, tuple[int, str]]
    specials: Mapping[str, str]
    constants: Mapping[str, Immediate]
    recent: Sequence[Mapping[Sort, tuple[str, ...]]]


def names_of(kernel: Kernel) -> Names:
    """What the registers of a kernel hold."""
    parameters: dict[str, tuple[int, str]] = {}
    specials: dict[str, str] = {}
    constants: dict[str, Immediate] = {}
    writers = Counter(name for item in kernel.items if isinstance(item, Operation) for name in item.writes)
    recent: list[Mapping[Sort, tuple[str, ...]]] = []
    last: dict[Sort, tuple[str, ...]] = {}
    for item in kernel.items:
        recent.append(last)
        if not isinstance(item, Operation):
            continue
        instruction = item.instruction
        form, source = instruction.form, instruction.by_role.get("a")
        address, to = instruction.by_role.get("address"), instruction.by_role.get("d")
        if form.name == "ld" and "param" in form.qualifiers and isinstance(address, Address) and address.base is None:
            if isinstance(to, Register):
                parameters[to.name] = address.offset, f"parameter {_parameter(kernel, address.offset)}"
        elif form.name == "mov" and isinstance(to, Register) and isinstance(source, Immediate):
            if writers[to.name] == 1 and not isinstance(source, OwnOffset):
                constants[to.name] = source
        elif form.name in ("mov", "cvta") and isinstance(to, Register) and isinstance(source, Register):
            if source.name in parameters:
                parameters[to.name] = parameters[source.name]
            elif register_place(source.name) is None:
                specials[to.name] = source.name
        for name in item.writes:
            place = register_place(name)
            if place is not None:
                kept = tuple(each for each in last.get(place.sort, ()) if each != name)
                last = {**last, place.sort: (name, *kept[: KNOWN - 1])}
    return Names(parameters, specials, constants, recent)


def constant_of(operand: Operand | None, names: Names) -> int | None:
    """The value of an operand that is a constant, or a register that always holds one; None for others."""
    if isinstance(operand, Register):
        operand = names.constants.get(operand.name)
    return operand.value if isinstance(operand, Immediate) else None


def _parameter(kernel: Kernel, offset: int) -> int:
    return next((number for number, each in enumerate(kernel.parameters) if each.offset == offset), offset)


def number_hypotheses(kernel: Kernel, item: Operation, names: Names) -> Iterator[Hypothesis]:
    """All about the numbers, registers and opcode of one instruction."""
    yield from _constants(kernel, item, names)
    yield from _addresses(kernel, item, names)
    yield from _registers(kernel, item, names)
    yield from _opcodes(kernel, item)
    yield from _guards(kernel, item)


def _one(
    kernel: Kernel, item: Operation, new: Instruction, key: tuple[Any, ...], mistake: str, weight: float
) -> Hypothesis:
    return Hypothesis({item.index: (new,)}, key, mistake, "write {}", new, weight)


# Constants


def _constants(kernel: Kernel, item: Operation, names: Names) -> Iterator[Hypothesis]:
    instruction = item.instruction
    for role, operand in zip(instruction.form.roles, instruction.operands, strict=False):
        if isinstance(operand, Register) and not role.output:
            operand = names.constants.get(operand.name, operand)
        if isinstance(operand, Immediate):
            for value, weight in _values(instruction, role, operand):
                changed = with_operand(instruction, role.name, replace(operand, value=value))
                what = _meant(instruction, role, operand, replace(operand, value=value))
                found = _one(kernel, item, changed, ("constant", role.name, operand.value, value), what, weight)
                step, flipped = value - operand.value, value ^ operand.value
                yield replace(found, other_keys=(("step", role.name, step), ("flipped", role.name, flipped)))
        elif isinstance(operand, Vector):
            yield from _in_vector(kernel, item, role, operand)


def _in_vector(kernel: Kernel, item: Operation, role: Role, operand: Vector) -> Iterator[Hypothesis]:
    """Constants among the registers of a vector: coordinates, and what a store writes."""
    for index, each in enumerate(operand.elements):
        if isinstance(each, Immediate):
            for value in (each.value + 1, each.value - 1, 2 * each.value, each.value // 2, 0):
                elements = list(operand.elements)
                elements[index] = replace(each, value=value)
                changed = with_operand(item.instruction, role.name, Vector(tuple(elements)))
                what = f"element {index} of operand {role.name}: {each.value} where {value} is meant"
                yield _one(kernel, item, changed, ("element", role.name, index, value - each.value), what, 0.3)


def _meant(instruction: Instruction, role: Role, old: Immediate, new: Immediate) -> str:
    """The mistake in words."""
    name = instruction.form.name
    if role.name == "f" and instruction.form.is_sparse:
        return f"the sparsity selector {old} is wrong: {new} is meant"
    word = {"shfl": {"b": "delta", "c": "clamp and segment mask"}, "shl": {"b": "a shift by"}, "shr": {"b": "a shift by"}}
    kind = word.get(name, {}).get(role.name) or ("the comparison with" if name == "setp" else "the constant")
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
    elif form.name in ("bar", "barrier") or role.shape is Shape.IMMEDIATE and form.behind_issue:
        add(0.6, 0, 1, value ^ 1)
    elif isinstance(operand, OwnOffset):
        pass
    else:
        _integers(add, value, instruction, role)
    return list(found.items())


def _floats(add: Any, value: int, width: int) -> None:
    low, exponent = (52, 11) if width == 64 else (23, 8)
    one = ((1 << exponent - 1) - 1) << low
    top = 1 << width - 1
    add(0.45, value ^ top, value + (1 << low), value - (1 << low), 0, one)
    add(0.3, one | top, value + (1 << low + 1), value - (1 << low + 1), 0xFF800000 if width == 32 else value)


def _integers(add: Any, value: int, instruction: Instruction, role: Role) -> None:
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


# Addresses


def _addresses(kernel: Kernel, item: Operation, names: Names) -> Iterator[Hypothesis]:
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
        weights = {size: 0.6, -size: 0.6, element: 0.55, -element: 0.55, 16: 0.5, -16: 0.5}
        weights |= {sign * step: 0.35 for step in (1, 2, 4, 8, 32, 64, 128, 256, 512, 1024, 2048) for sign in (1, -1)
                    if sign * step not in weights}  # fmt: skip
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
                yield _one(kernel, item, changed, ("offset", role.name, step), what, weight)
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
        for size in _STRIDES:
            for sign in (1, -1):
                def moved(machine: CtaState, warps: Any, values: Any, register: str = register, step: int = sign * size) -> Any:
                    stride = scalar(Register(register), machine, warps, Sort.WORD).view("i4").astype("i8") * step
                    return (values.astype("i8") + stride).astype(values.dtype)

                what = f"the address is {size} * {name_of(kernel, register)} ({word}) bytes too {'low' if sign > 0 else 'high'}"
                fix = f"{'add' if sign > 0 else 'subtract'} {size} * {name_of(kernel, register)}"
                yield Hypothesis(
                    {item.index: (seen_as(base, moved),)}, ("row", word, sign * size), what, fix, None, 0.3
                )


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
            yield _one(kernel, item, changed, ("coordinates", first, second), what, 0.8)
    for index, each in enumerate(elements):
        if isinstance(each, Immediate):
            for step in (1, -1, 8, -8, 16, -16, 32, -32, 64, -64):
                new = list(elements)
                new[index] = replace(each, value=each.value + step)
                place = TensorPlace(operand.map, Vector(tuple(new)))
                what = f"coordinate {index}: {each.value} where {each.value + step} is meant"
                changed = with_operand(item.instruction, role.name, place)
                yield _one(kernel, item, changed, ("coordinate", index, step), what, 0.4)


def _parameters(kernel: Kernel, item: Operation, role: Role, operand: Address) -> Iterator[Hypothesis]:
    """Another parameter of the same size."""
    own = next((each for each in kernel.parameters if each.offset == operand.offset), None)
    for number, each in enumerate(kernel.parameters):
        if own is not None and each.bytes == own.bytes and each.offset != operand.offset:
            changed = with_operand(item.instruction, role.name, replace(operand, offset=each.offset))
            what = f"parameter {_parameter(kernel, operand.offset)} where parameter {number} is meant"
            yield _one(kernel, item, changed, ("parameter", number), what, 0.6)


# Registers


def _registers(kernel: Kernel, item: Operation, names: Names) -> Iterator[Hypothesis]:
    instruction = item.instruction
    roles = instruction.by_role
    if instruction.form.is_matrix:
        yield from _predicates(kernel, item)
        return
    a, b = roles.get("a"), roles.get("b")
    if instruction.form.name in _ORDERED and a is not None and b is not None and a != b:
        changed = with_operand(with_operand(instruction, "a", b), "b", a)
        if instruction.form.role("a").width == instruction.form.role("b").width:
            yield _one(kernel, item, changed, ("exchanged",), "operands a and b are exchanged", 0.45)
    yield from _predicates(kernel, item)
    yield from _scaled(kernel, item, names)
    for role, operand in zip(instruction.form.roles, instruction.operands, strict=False):
        base = operand.base if isinstance(operand, Address) else operand
        if (role.output and not isinstance(operand, Address)) or not isinstance(base, Register):
            continue
        for other, why, weight in _instead(kernel, item, base.name, names):
            new: Operand = replace(operand, base=Register(other)) if isinstance(operand, Address) else Register(other)
            changed = with_operand(instruction, role.name, new)
            word = f"{name_of(kernel, base.name)}{_what(base.name, names)} where {name_of(kernel, other)}{why} is meant"
            yield _one(kernel, item, changed, ("instead", role.name, base.name, other), word, weight)


def _scaled(kernel: Kernel, item: Operation, names: Names) -> Iterator[Hypothesis]:
    """A factor that is missing: the number of a CTA or thread times how many there are of something."""
    if item.instruction.form.name in ("mov", "cvta", "ld"):
        return
    for register in dict.fromkeys(item.instruction.reads):
        special = names.specials.get(register, "")
        if not special.startswith(("%ctaid", "%tid", "%warpid", "%laneid")) or register in item.writes:
            continue
        for size in ("%ntid.x", "warps of a CTA", "%nctaid.x", 2, 4, 8, 16, 32, 64, 128):

            def scaled(machine: CtaState, warps: Any, values: Any, size: Any = size) -> Any:
                if not isinstance(size, str):
                    factor = size
                elif size.startswith("%"):
                    factor = scalar(Register(size), machine, warps, Sort.WORD)
                else:
                    factor = machine.warps
                return (values * factor).astype(values.dtype)

            what = f"{name_of(kernel, register)} ({special}) where {special} * {size} is meant"
            fix = f"multiply {name_of(kernel, register)} by {size}"
            weight = 0.6 if isinstance(size, str) and special.startswith("%ctaid") else 0.2
            yield Hypothesis({item.index: (seen_as(register, scaled),)}, ("scaled", str(size)), what, fix, None, weight)


def _what(register: str, names: Names) -> str:
    if register in names.parameters:
        return f" ({names.parameters[register][1]})"
    return f" ({names.specials[register]})" if register in names.specials else ""


def _instead(kernel: Kernel, item: Operation, register: str, names: Names) -> Iterator[tuple[str, str, float]]:
    """Registers that may be meant in place of one: (register, what it holds, weight)."""
    place = register_place(register)
    if place is None or register in names.specials:
        own = names.specials.get(register, register)
        for other in SPECIALS:
            if other != own:
                yield other, "", 0.5 if other[:4] == own[:4] else 0.4
        if place is None:
            return
    if register in names.parameters:
        for other, (offset, word) in names.parameters.items():
            theirs = register_place(other)
            if theirs is not None and theirs.sort is place.sort and offset != names.parameters[register][0]:
                yield other, f" ({word})", 0.7
        if place.sort is Sort.WORD:
            for special in ("%ntid.x", "%nctaid.x"):
                yield special, "", 0.3
    for other, special in names.specials.items():
        theirs = register_place(other)
        if theirs is not None and theirs.sort is place.sort and other != register:
            yield other, f" ({special})", 0.22
    recent = names.recent[item.index].get(place.sort, ())
    for number, other in enumerate(recent):
        if other != register and other not in names.parameters and other not in names.specials:
            yield other, "", 0.2 if number < RECENT else 0.12


def _predicates(kernel: Kernel, item: Operation) -> Iterator[Hypothesis]:
    """Predicates that an instruction reads as operands: negated, or constants."""
    for role, operand in zip(item.instruction.form.roles, item.instruction.operands, strict=False):
        if role.output or role.shape is not Shape.PREDICATE or isinstance(operand, Immediate):
            continue
        if isinstance(operand, Predicate):
            negated = replace(operand, negated=not operand.negated)
        elif isinstance(operand, Register):
            negated = Predicate(operand, True)
        else:
            continue
        changed = with_operand(item.instruction, role.name, negated)
        what = f"predicate {name_of(kernel, negated.register.name)} of operand {role.name} is the wrong way round"
        yield _one(kernel, item, changed, ("negated", role.name), what, 0.6)
        for value in (0, 1):
            changed = with_operand(item.instruction, role.name, Immediate(value))
            what = f"operand {role.name} must be {'true' if value else 'false'} here"
            yield _one(kernel, item, changed, ("constant predicate", role.name, value), what, 0.5)


# Opcodes and guards


def _opcodes(kernel: Kernel, item: Operation) -> Iterator[Hypothesis]:
    form = item.instruction.form
    parts = form.opcode.split(".")
    for index, part in enumerate(parts):
        if form.name in ("setp", "set") and part in _COMPARED:
            for other in _COMPARED:
                near = _NEIGHBOURS.get(part) == other
                weight = 0.8 if near else 0.4 if _NEGATED.get(part) == other else 0.25
                what = f"the comparison is '{_COMPARED[part]}' where '{_COMPARED[other]}' is meant"
                yield from _other_opcode(kernel, item, index, other, what, weight)
            continue
        others: tuple[str, ...] = _OTHERS.get(part, ()) if index == 0 else ()
        others += _QUALIFIERS.get(part, ())
        for other in others:
            weight = 0.45 if form.name != "shfl" else 0.7
            yield from _other_opcode(kernel, item, index, other, f".{part} where .{other} is meant", weight)
        if index and part in _SIGNED and index >= len(parts) - 2:
            yield from _other_opcode(kernel, item, index, _SIGNED[part], f".{part} where .{_SIGNED[part]} is meant", 0.35)


def _other_opcode(
    kernel: Kernel, item: Operation, index: int, other: str, what: str, weight: float
) -> Iterator[Hypothesis]:
    parts = item.instruction.form.opcode.split(".")
    if parts[index] == other:
        return
    parts[index] = other
    if other in ("shl", "shr"):  # the one has no sign, the other must have
        for sign in ("b",) if other == "shl" else ("u", "s"):
            changed = with_opcode(item, kernel, ".".join([*parts[:-1], sign + parts[-1][1:]]))
            if changed is not None:
                yield _one(kernel, item, changed, ("opcode", index, other, sign), what, weight)
        return
    changed = with_opcode(item, kernel, ".".join(parts))
    if changed is not None:
        yield _one(kernel, item, changed, ("opcode", index, other), re.sub(r"^\.(\w+) where", r"\1 where", what), weight)


def _guards(kernel: Kernel, item: Operation) -> Iterator[Hypothesis]:
    guard = item.instruction.guard
    if guard is None:
        return
    negated = replace(item.instruction, guard=replace(guard, negated=not guard.negated))
    yield _one(kernel, item, negated, ("guard", "negated"), f"the guard {guard} is the wrong way round", 0.5)
    without = replace(item.instruction, guard=None)
    yield _one(kernel, item, without, ("guard", "none"), f"the guard {guard} keeps threads out that are needed", 0.4)
