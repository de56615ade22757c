"""Hypotheses about the registers, the opcode and the guard of an instruction: another register is meant, another
comparison, another operation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from isa.forms.record import Shape
from isa.ptx.instruction import Address, Guard, Immediate, Operand, Predicate, Register
from simulator.check.blame.change import Hypothesis, name_of, replaced, with_opcode, with_operand
from simulator.check.blame.names import Names
from simulator.check.blame.operands import ENABLES
from simulator.check.blame.seen import seen_as
from simulator.execute.cta_state import CtaState
from simulator.execute.operands import scalar
from simulator.program.kernel import Kernel, Operation
from simulator.state.registers import Sort, register_place

SPECIALS = ("%tid.x", "%tid.y", "%tid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z", "%ntid.x", "%ntid.y", "%nctaid.x",
            "%nctaid.y", "%laneid", "%warpid")  # fmt: skip
_COMPARED = {
    "lt": "less than", "le": "at most", "gt": "greater than", "ge": "at least", "eq": "equal", "ne": "not equal",
    "lo": "lower", "ls": "lower or same", "hi": "higher", "hs": "higher or same",
}  # fmt: skip
_NEIGHBOURS = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt", "eq": "ne", "ne": "eq", "lo": "ls", "ls": "lo",
               "hi": "hs", "hs": "hi"}  # fmt: skip
_NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "lo": "hs", "ls": "hi", "hi": "ls", "hs": "lo"}
_SIGNED = {"s16": "u16", "s32": "u32", "s64": "u64", "s8": "u8", "u8": "s8", "u16": "s16", "u32": "s32", "u64": "s64"}
_OTHERS = {
    "add": ("sub",), "sub": ("add",), "min": ("max",), "max": ("min",),
    "and": ("or", "xor"), "or": ("and", "xor", "add"), "xor": ("or", "and"),
    "shl": ("shr",), "shr": ("shl",), "div": ("rem",), "rem": ("div",),
}  # fmt: skip
_QUALIFIERS = {
    "bfly": ("down", "up"), "down": ("bfly", "up"), "up": ("bfly", "down"), "lo": ("hi",), "hi": ("lo",),
    "rn": ("rz",), "rz": ("rn",), "rni": ("rzi",), "rzi": ("rni",), "any": ("all",), "all": ("any",),
    "ex2": ("lg2",), "lg2": ("ex2",), "sin": ("cos",), "cos": ("sin",), "sqrt": ("rsqrt",), "rsqrt": ("sqrt",),
    "e4m3": ("e5m2",), "e5m2": ("e4m3",), "f16": ("bf16",), "bf16": ("f16",), "row": ("col",), "col": ("row",),
}  # fmt: skip
_ORDERED = ("sub", "div", "rem", "setp", "selp", "shl", "shr", "set")  # whose operands a and b may not be exchanged
_STRIDES = (1, 2, 4, 8, 16)  # bytes of an element
_GUARDED = ("ld", "st", "red", "atom", "cp")  # instructions that may lack a guard
GUARDS_NEAR = 16  # places to an instruction with the guard that another lacks
RECENT = 8  # registers written shortly before that may be meant


def register_hypotheses(kernel: Kernel, item: Operation, names: Names) -> Iterator[Hypothesis]:
    """All about the registers, the opcode and the guard of one instruction."""
    yield from _registers(kernel, item, names)
    yield from _opcodes(kernel, item)
    yield from _guards(kernel, item)


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
            weight = 0.25 if isinstance(b, Immediate) else 0.6  # compilers write constants as b where they may
            yield replaced(item, changed, ("exchanged",), "operands a and b are exchanged", weight)
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
            yield replaced(item, changed, ("instead", role.name, base.name, other), word, weight)


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
    kind = _kind(kernel, register)
    for other, special in names.specials.items():
        theirs = register_place(other)
        if theirs is not None and theirs.sort is place.sort and other != register and _kind(kernel, other) == kind:
            yield other, f" ({special})", 0.22
    recent = names.recent[item.index].get(place.sort, ())
    for number, other in enumerate(recent):
        if other != register and other not in names.parameters and other not in names.specials:
            weight = 0.2 if number < RECENT else 0.12
            yield other, "", weight if _kind(kernel, other) == kind else weight / 3


def _kind(kernel: Kernel, register: str) -> str:
    """The letters of a register's name in the module, which compilers choose by its type."""
    return name_of(kernel, register).rstrip("0123456789")


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
        named = ENABLES.get(role.name, role.name)
        what = f"predicate {name_of(kernel, negated.register.name)} of operand {named} is the wrong way round"
        yield replaced(item, changed, ("negated", role.name), what, 0.72 if role.name in ENABLES else 0.6)
        for value in (0, 1):
            changed = with_operand(item.instruction, role.name, Immediate(value))
            what = f"operand {named} must be {'true' if value else 'false'} here"
            yield replaced(item, changed, ("constant predicate", role.name, value), what, 0.5)


def _opcodes(kernel: Kernel, item: Operation) -> Iterator[Hypothesis]:
    form = item.instruction.form
    parts = form.opcode.split(".")
    for index, part in enumerate(parts):
        if form.name in ("setp", "set") and part in _COMPARED:
            for other, word in _COMPARED.items():
                near = _NEIGHBOURS.get(part) == other
                weight = 0.8 if near else 0.4 if _NEGATED.get(part) == other else 0.25
                what = f"the comparison is '{_COMPARED[part]}' where '{word}' is meant"
                yield from _other_opcode(kernel, item, index, other, what, weight)
            continue
        others: tuple[str, ...] = _OTHERS.get(part, ()) if index == 0 else ()
        others += _QUALIFIERS.get(part, ())
        for other in others:
            weight = 0.45 if form.name != "shfl" else 0.7
            yield from _other_opcode(kernel, item, index, other, f".{part} where .{other} is meant", weight)
        if index and part in _SIGNED and index >= len(parts) - 2:
            yield from _other_opcode(
                kernel, item, index, _SIGNED[part], f".{part} where .{_SIGNED[part]} is meant", 0.35
            )


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
                yield replaced(item, changed, ("opcode", index, other, sign), what, weight)
        return
    changed = with_opcode(item, kernel, ".".join(parts))
    if changed is not None:
        yield replaced(item, changed, ("opcode", index, other), re.sub(r"^\.(\w+) where", r"\1 where", what), weight)


def _guards(kernel: Kernel, item: Operation) -> Iterator[Hypothesis]:
    guard = item.instruction.guard
    if guard is None:
        yield from _missing_guards(kernel, item)
        return
    negated = replace(item.instruction, guard=replace(guard, negated=not guard.negated))
    yield replaced(item, negated, ("guard", "negated"), f"the guard {guard} is the wrong way round", 0.5)
    without = replace(item.instruction, guard=None)
    yield replaced(item, without, ("guard", "none"), f"the guard {guard} keeps threads out that are needed", 0.4)


def is_guarded(item: Operation) -> bool:
    """Whether such instructions often have guards: they access memory."""
    return item.instruction.form.name in _GUARDED


def _missing_guards(kernel: Kernel, item: Operation) -> Iterator[Hypothesis]:
    """A guard that is missing: one that instructions and branches nearby have."""
    if not (is_guarded(item) or item.instruction.form.is_matrix):
        return
    near = kernel.items[max(item.index - GUARDS_NEAR, 0) : item.index + GUARDS_NEAR + 1]
    guards = dict.fromkeys(each.guard.predicate for each in near if each.guard is not None)
    for predicate in guards:
        for negated in (False, True):
            guard = Guard(predicate, negated)
            changed = replace(item.instruction, guard=guard)
            name = f"@{'!' if negated else ''}{name_of(kernel, predicate.name)}"
            alike = any(isinstance(each, Operation) and each.guard == guard
                        and each.instruction.form is item.instruction.form for each in near)  # fmt: skip
            what = f"the guard {name} is missing"
            yield replaced(item, changed, ("guard", str(guard)), what, 0.78 if alike else 0.35)
