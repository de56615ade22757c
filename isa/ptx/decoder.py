"""PTX instruction text -> `Instruction`. `str(decode(text))` is the canonical text, and decodes to the same
instruction."""

from __future__ import annotations

import re

from isa.errors import IsaError
from isa.forms.mma import MmaForm
from isa.forms.plain import SPECIAL_REGISTERS
from isa.forms.record import PTX, Form, Role, Shape
from isa.forms.tcgen05 import FamilyForm, refine
from isa.forms.tcgen05_operands import SizedRole, check_operand
from isa.ptx.instruction import (
    Address,
    Guard,
    Immediate,
    Instruction,
    Operand,
    Pair,
    Predicate,
    Register,
    Scalar,
    Sink,
    Vector,
    nvcc_name,
)
from isa.ptx.opcodes import read_opcode
from isa.ptx.plain_spelling import Plan, plan
from isa.ptx.scanner import Cursor, expression, float_bits, shown
from isa.targets import Target, parse_target

_MAX_TEXT = 1 << 16


def decode(text: str, target: str | Target | None = None, ptx: str = PTX) -> Instruction:
    """The instruction that `text` says.

    Args:
        text: one PTX instruction, `;` optional, comments and line breaks allowed.
        target: e.g. "sm_90a"; None takes what any target has.
        ptx: the PTX version that it is written for.

    Raises:
        IsaError: unknown or malformed text, an illegal form, operand or selector, a form that the target lacks.
    """
    head, _, rest = text.partition(" ")
    known = _plans.get((head, target, ptx))
    if known is not None:
        found = known[1].read(rest)
        if found is not None:
            return Instruction(known[0], found)
    wanted = parse_target(target) if target is not None else None
    if len(text) > _MAX_TEXT:
        raise IsaError(text[:64], -1, f"an instruction of {len(text)} characters", f"at most {_MAX_TEXT}")
    cursor = Cursor(text)
    guard = _guard(cursor)
    opcode, place = cursor.opcode()
    form = read_opcode(opcode, wanted, place, text, ptx)
    try:
        if isinstance(form, FamilyForm):
            form, operands = _family_operands(cursor, form, wanted)
        else:
            operands = _operands(cursor, form, wanted)
        cursor.end()
    except IsaError as error:
        raise error.stated_in(form.section) from None
    if opcode != form.opcode and opcode.split(".").count("sync") > form.opcode.split(".").count("sync"):
        cursor.remarks.append("ptxas takes .sync twice; PTX has it once")
    if known is None and opcode == head and not cursor.remarks:
        _remember(head, target, ptx, form)
    return Instruction(form, operands, guard, tuple(cursor.remarks))


_plans: dict[tuple[str, str | Target | None, str], tuple[Form, Plan]] = {}


def _remember(head: str, target: str | Target | None, ptx: str, form: Form) -> None:
    """Makes the next instruction of this opcode go the short way (`isa.ptx.plain_spelling`)."""
    made = None if isinstance(form, FamilyForm) else plan(form)
    if made is not None:
        _plans[head, target, ptx] = form, made


def _guard(cursor: Cursor) -> Guard | None:
    if not cursor.take("@"):
        return None
    negated = cursor.take("!")
    token = cursor.next()
    if token.kind != "name":
        cursor.fail(
            f"a predicate register was expected after '@', found {shown(token)}", "e.g. @%p0 or @!%p0", token.place
        )
    return Guard(Register(token.text), negated)


def _operands(cursor: Cursor, form: Form, target: Target | None) -> tuple[Operand, ...]:
    """All operands. After one that is wrong the rest is read too, so that the error names everything."""
    found: list[Operand] = []
    problems: list[IsaError] = []
    expected = ", ".join(_described(role) for role in form.roles)
    for number, role in enumerate(form.roles):
        at_end = cursor.peek().text in (";", "")
        if role.optional and at_end:
            break
        if at_end:
            reason = f"operand {role.name} is missing: {form.opcode} has {len(form.roles)} operands, found {number}"
            problems.append(IsaError(cursor.text, cursor.at, reason, expected))
            break
        try:
            if number:
                cursor.expect(",", f"before operand {role.name}")
            found.append(_metadata(cursor, role, form, target) if role.name == "e" else _operand(cursor, role))
        except IsaError as error:
            problems.append(error)
            if not _recover(cursor):
                break
    else:
        token = cursor.peek()
        if token.text == "," and not problems:
            cursor.fail(f"too many operands: {form.opcode} has {len(form.roles)}", expected, token.place)
    if problems:
        raise IsaError.together(problems)
    if sum(role.packs and isinstance(operand, Vector) for role, operand in zip(form.roles, found, strict=False)) > 1:
        cursor.fail(f"{form.opcode} from a vector to a vector", "a 64-bit register on one side", 0)
    constants = {
        role.name: operand.value
        for role, operand in zip(form.roles, found, strict=False)
        if isinstance(operand, Immediate)
    }
    if constants.get("filled", 0) > constants.get("size", constants.get("filled", 0)):
        cursor.fail(
            f"a copy of {constants['size']} bytes cannot fill {constants['filled']}", f"0 to {constants['size']}", 0
        )
    return tuple(found)


def _recover(cursor: Cursor) -> bool:
    """Goes on to the comma after the operand that was wrong; False where there is none."""
    rest = re.compile(r"[^{}\[\],;]*(?:\{[^{};]*\}|\[[^\[\];]*\]|[}\]])?[^{}\[\],;]*")
    while (match := rest.match(cursor.text, cursor.at)) and match.end() > cursor.at:
        cursor.at = match.end()
    return cursor.text[cursor.at : cursor.at + 1] == ","


def _metadata(cursor: Cursor, role: Role, form: Form, target: Target | None) -> Operand:
    """The metadata register. ptxas 13.0 takes a second one where the instruction is native, and drops it."""
    before = cursor.at
    if cursor.take("{"):
        first = _register(cursor, role)
        if cursor.take(",") and isinstance(form, MmaForm) and (target is None or form.native(target)):
            _register(cursor, role)
            if cursor.take("}"):
                cursor.remarks.append("ptxas takes a second register of metadata and drops it; PTX has one")
                return first
    cursor.at = before
    return _operand(cursor, role)


def _described(role: Role) -> str:
    count = f" of {role.count} registers" if role.shape is Shape.VECTOR and role.count > 1 else ""
    limit = f" 0 to {role.limit - 1}" if role.limit > 1 else " 0" if role.limit == 1 else ""
    kind = "register" if role.shape is Shape.VECTOR and role.count == 1 else role.shape.value
    return f"{role.name}: {kind}{count}{limit}"


def _operand(cursor: Cursor, role: Role) -> Operand:
    match role.shape:
        case Shape.VECTOR | Shape.SCALAR:
            return _vector(cursor, role)
        case Shape.PAIR:
            return _pair(cursor, role)
        case Shape.ADDRESS:
            return _address(cursor, role)
        case Shape.IMMEDIATE:
            return _immediate(cursor, role)
        case Shape.REGISTER:
            return _register(cursor, role)
        case Shape.VALUE:
            return _value(cursor, role)
        case Shape.MATRIX:
            return _address(cursor) if cursor.peek().text == "[" else _value(cursor, role)
        case Shape.PREDICATE:
            return _predicate(cursor, role)


def _family_operands(cursor: Cursor, form: FamilyForm, target: Target | None) -> tuple[FamilyForm, tuple[Operand, ...]]:
    """The operands of tcgen05, mbarrier or fence, and the form with just these."""
    found: dict[str, Operand] = {}
    written: dict[str, tuple[bool, int]] = {}
    problems: list[IsaError] = []
    for role in form.roles:
        if role.optional and role.shape is Shape.VECTOR and not _vector_follows(cursor):
            continue
        try:
            if cursor.peek().text in (";", ""):
                if role.optional:
                    break
                expected = ", ".join(_described(role) for role in form.roles)
                cursor.fail(
                    f"operand {role.name} is missing: {form.opcode} has {len(form.roles)} operands, found {len(found)}",
                    expected,
                )
            if found or problems:
                cursor.expect(",", f"before operand {role.name}")
            start = cursor.peek().place
            found[role.name] = operand = _sink(cursor, role) or _operand(cursor, role)
            check_operand(role, operand, cursor.text, start)
            written[role.name] = isinstance(operand, Address), start
        except IsaError as error:
            problems.append(error)
            if not _recover(cursor):
                break
    token = cursor.peek()
    if token.text not in (";", "") and not problems:
        names = ", ".join(_described(role) for role in form.roles) or "no operand"
        cursor.fail(f"{form.opcode} takes nothing more, found {shown(token)}", names, token.place)
    if problems:
        raise IsaError.together(problems)
    return refine(form, written, target, cursor.text), tuple(found.values())


def _vector_follows(cursor: Cursor) -> bool:
    before = cursor.at
    follows = cursor.take(",") and cursor.peek().text == "{"
    cursor.at = before
    return follows


def _sink(cursor: Cursor, role: Role) -> Sink | None:
    """`_` where it stands for a whole operand."""
    if isinstance(role, SizedRole) and role.sink and cursor.take("_"):
        return Sink()
    return None


def _predicate(cursor: Cursor, role: Role) -> Predicate | Immediate:
    """`%p0`, `!%p0`, or a constant: 0 is false. PTX ISA 9.0, 9.7.16.10.9.1 (enable-input-d)."""
    before = cursor.at
    negated = cursor.take("!")
    if cursor.peek().kind == "name":
        return Predicate(_register(cursor, role), negated)
    cursor.at = before
    return _immediate(cursor, role)


def _vector(cursor: Cursor, role: Role) -> Vector | Scalar:
    start = cursor.peek().place
    if not cursor.take("{"):
        if role.shape is Shape.VECTOR:
            cursor.fail(
                f"operand {role.name} is a vector of {role.count} register{'s' if role.count > 1 else ''}",
                "{...}",
                start,
            )
        return _value(cursor, role) if role.constants else _register(cursor, role)
    elements = [_element(cursor, role, 0)]
    while cursor.take(","):
        elements.append(_element(cursor, role, len(elements)))
    cursor.expect("}", f"at the end of operand {role.name}")
    if role.count < len(elements) <= role.count + role.spare:
        cursor.remarks.append(
            f"ptxas takes {len(elements)} registers in operand {role.name}; PTX has {role.count}, and the rest is dropped"
        )
        elements = elements[: role.count]
    count = 2 if role.packs else role.count
    if len(elements) != count:
        cursor.fail(
            f"operand {role.name} has {len(elements)} registers", f"{count} register{'s' if count > 1 else ''}", start
        )
    if all(isinstance(element, Sink) for element in elements):
        cursor.fail(f"operand {role.name} throws every register away", "at least one register", start)
    return elements[0] if role.shape is Shape.SCALAR and not role.packs else Vector(tuple(elements))


def _check_width(cursor: Cursor, role: Role, name: str, place: int, widths: tuple[int, ...]) -> None:
    """Registers of a role that has not 32 bits are as wide as the role, by the names that nvcc gives."""
    said = nvcc_name(name)
    if said is not None and said.width not in widths:
        cursor.fail(
            f"operand {role.name} cannot be {name}, {said}",
            " or ".join(_REGISTERS_OF_WIDTH[width] for width in widths),
            place,
        )


_REGISTERS_OF_WIDTH = {
    1: "a predicate, %p0",
    16: "a 16-bit register, %rs0",
    32: "a 32-bit register, %r0",
    64: "64-bit registers, %fd0 or %rd0",
}


def _element(cursor: Cursor, role: Role, number: int) -> Scalar:
    """A register; `_` where the vector is written; a constant where the role takes some."""
    token = cursor.peek()
    if token.kind == "name" and token.text == "_":
        if not role.output:
            cursor.fail(f"'_' is only for destinations; operand {role.name} is read", "a register", token.place)
        cursor.next()
        return Sink()
    if token.kind == "name":
        if role.width == 64:
            _check_width(cursor, role, token.text, token.place, (64 if not role.packs else 32,))
        return _register(cursor, role, packed=role.packs)
    if role.constants and token.text not in ("}", ",", ";", "{", "["):
        constant = _constant(cursor, role)
        choices = role.choices[number : number + 1]
        if choices and constant.value not in choices[0]:
            what = f"element {number} of operand {role.name} is {constant.value}"
            cursor.fail(what, ", ".join(map(str, choices[0])), token.place)
        return constant
    cursor.fail(f"a register was expected in operand {role.name}, found {shown(token)}", "e.g. %r0", token.place)


def _register(cursor: Cursor, role: Role, packed: bool = False) -> Register:
    token = cursor.next()
    if token.kind != "name" or token.text == "_":
        cursor.fail(f"operand {role.name} is a register, found {shown(token)}", "e.g. %r0", token.place)
    if token.text in SPECIAL_REGISTERS and not role.special:
        cursor.fail(
            f"operand {role.name} cannot be the special register '{token.text}'",
            "a register; mov.u32 copies special registers",
            token.place,
        )
    if not packed and not isinstance(role, SizedRole) and role.shape is not Shape.ADDRESS and role.width != 32:
        _check_width(cursor, role, token.text, token.place, (role.width,))
    return Register(token.text)


def _pair(cursor: Cursor, role: Role) -> Vector:
    """`%r0|%p0` or `_|%p0`: a register and a predicate. PTX ISA 9.0, 9.7.13.10 (elect.sync)."""
    token = cursor.next()
    if token.kind != "name":
        cursor.fail(
            f"operand {role.name} is a register and a predicate, found {shown(token)}", "%r0|%p0 or _|%p0", token.place
        )
    if token.text != "_":
        _check_width(cursor, role, token.text, token.place, (32,))
    cursor.expect("|", f"between the register and the predicate of operand {role.name}")
    predicate = cursor.next()
    if predicate.kind != "name" or predicate.text == "_":
        cursor.fail(
            f"operand {role.name} ends with a predicate, found {shown(predicate)}", "%r0|%p0 or _|%p0", predicate.place
        )
    _check_width(cursor, role, predicate.text, predicate.place, (1,))
    return Pair((Sink() if token.text == "_" else Register(token.text), Register(predicate.text)))


def _value(cursor: Cursor, role: Role) -> Register | Immediate:
    if cursor.peek().kind == "name":
        return _register(cursor, role)
    return _immediate(cursor, role)


_SELECTORS = {
    4: "one lane of each four holds the metadata",
    2: "a pair of lanes of each four holds the metadata",
    1: "all lanes hold metadata",
}


def _immediate(cursor: Cursor, role: Role) -> Immediate:
    token = cursor.peek()
    if token.kind == "name":
        cursor.fail(
            f"operand {role.name} must be a constant, found register {shown(token)}", _described(role), token.place
        )
    constant = _constant(cursor, role)
    if role.limit and not 0 <= constant.value < role.limit:
        legal = "0" if role.limit - role.lax == 1 else f"0 to {role.limit - role.lax - 1}"
        what = "sparsity selector" if role.name == "f" else f"operand {role.name}"
        if role.name == "f":
            legal += f" ({_SELECTORS[role.limit - role.lax]})"
        cursor.fail(f"{what} {constant.value} is out of range", legal, token.place)
    if role.choices and constant.value not in role.choices[0]:
        cursor.fail(f"operand {role.name} is {constant.value}", " or ".join(map(str, role.choices[0])), token.place)
    if constant.value % role.multiple:
        cursor.fail(f"operand {role.name} is {constant.value}", f"a multiple of {role.multiple}", token.place)
    return constant


def _address(cursor: Cursor, role: Role | None = None) -> Address:
    cursor.expect("[", "before an address")
    token = cursor.next()
    if token.kind != "name" or token.text == "_":
        cursor.fail(
            f"an address begins with a register or a variable, found {shown(token)}", "[%r0] or [%r0+16]", token.place
        )
    if role is not None and role.width == 64 and not isinstance(role, SizedRole):
        _check_width(cursor, role, token.text, token.place, (64,))
    offset = 0
    if cursor.take("+"):
        offset = expression(cursor)
    elif cursor.peek().text == "-":
        cursor.fail("an address takes no '-'", f"[{token.text}+-16] for an offset of -16", cursor.peek().place)
    cursor.expect("]", "after an address")
    return Address(Register(token.text), offset)


_FLOATS = {"bits": "0f3F800000", "double": "0d3FF0000000000000", "float": "1.0", "integer": "an integer"}
_FLOAT_AHEAD = re.compile(r"[+-]\s*(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+[eE][+-]?[0-9])")


def _constant(cursor: Cursor, role: Role) -> Immediate:
    """A constant of a kind that the role takes."""
    start = cursor.peek().place
    negative = (
        cursor.text[cursor.at : cursor.at + 1] in ("-", "+") and _FLOAT_AHEAD.match(cursor.text, cursor.at) is not None
    )
    sign = -1 if negative and cursor.next().text == "-" else 1
    token = cursor.peek()
    if token.kind == "float":
        cursor.next()
        kind = "bits" if token.text[:2] in ("0f", "0F") else "float"
        if token.text[:2] in ("0d", "0D") and "double" in role.constants:
            return Immediate(int(token.text[2:], 16), "double")
        value = float_bits(token.text, sign)
    else:
        kind, value = "integer", expression(cursor)
    if kind not in role.constants:
        legal = ", ".join(_FLOATS[k] for k in role.constants)
        cursor.fail(
            f"operand {role.name} takes no constant like {shown(token)}",
            f"{legal}, or a register" if legal else "a register",
            start,
        )
    if kind != "integer":
        return Immediate(value, "float")
    text = cursor.text[start : cursor.at].strip().lower()
    return Immediate(value, "hexadecimal" if text.startswith("0x") and value >= 0 else "decimal")
