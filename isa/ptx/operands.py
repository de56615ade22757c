"""Reads the operands of an instruction. The form says by a `Role` how each operand may be written."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from isa.forms.record import SPECIAL_REGISTERS, Role, Shape
from isa.ptx.checks import is_special
from isa.ptx.constants import read_constant
from isa.ptx.instruction import (
    Address,
    Immediate,
    Operand,
    Pair,
    Predicate,
    Register,
    Scalar,
    Sink,
    TensorPlace,
    Types,
    Vector,
    declared,
)
from isa.ptx.scanner import Cursor, Token, expression, shown


def described(role: Role) -> str:
    """Says in words how an operand may be written, for error messages."""
    count = f" of {role.count} registers" if role.shape is Shape.VECTOR and role.count > 1 else ""
    limit = f" 0 to {role.limit - 1}" if role.limit > 1 else " 0" if role.limit == 1 else ""
    kind = "register" if role.shape is Shape.VECTOR and role.count == 1 else role.shape.value
    return f"{role.name}: {kind}{count}{limit}"


def read_operand(cursor: Cursor, role: Role, types: Types | None = None) -> Operand:
    """Reads one operand in the way that its role prescribes; raises IsaError if it is written in another way. `types`
    says how registers are declared, where names do not."""
    if role.sink in ("may", "must") and _sink(cursor):
        return Sink()
    if role.predicates and not role.output and (found := _as_predicate(cursor, role, types)) is not None:
        return found
    if role.first and cursor.peek().text == "{":
        return _whose_first(cursor, role)
    match role.shape:
        case Shape.VECTOR | Shape.SCALAR:
            return _vector(cursor, role)
        case Shape.PAIR | Shape.REGISTER_OR_PAIR:
            return _pair(cursor, role)
        case Shape.ADDRESS if role.bare and cursor.peek().text != "[":
            return _bare_address(cursor, role)
        case Shape.ADDRESS:
            return _address(cursor)
        case Shape.TENSOR:
            return _tensor(cursor, role)
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


def _sink(cursor: Cursor) -> bool:
    """Reads `_` if it is a whole operand; the first of a pair, `_|%p0`, is left."""
    before = cursor.at
    if cursor.take("_"):
        if cursor.peek().text != "|":
            return True
        cursor.at = before
    return False


def _predicate(cursor: Cursor, role: Role) -> Predicate | Register | Immediate:
    """`%p0`, `!%p0`, or a constant: 0 is false. PTX ISA 9.0, 9.7.16.10.9.1 (enable-input-d)."""
    before = cursor.at
    negated = cursor.take("!")
    if cursor.peek().kind == "name":
        register = _register(cursor, role)
        return register if is_special(register.name) else Predicate(register, negated)
    cursor.at = before
    return _immediate(cursor, role)


def _as_predicate(cursor: Cursor, role: Role, types: Types | None) -> Predicate | None:
    """A predicate in the place of a value; None for anything else, which is left."""
    before = cursor.at
    negated = cursor.take("!")
    token = cursor.peek()
    sort = declared(token.text, types) if token.kind == "name" else None
    if negated or (sort is not None and sort.type == "pred"):
        return Predicate(_register(cursor, role), negated)
    cursor.at = before
    return None


def _vector(cursor: Cursor, role: Role, counts: tuple[int, ...] = ()) -> Vector | Scalar:
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
            f"ptxas takes {len(elements)} registers in operand {role.name}; PTX has {role.count}, and the rest "
            f"is dropped"
        )
        elements = elements[: role.count]
    counts = counts or ((2, 4) if role.packs and role.width > 16 else (2,) if role.packs else (role.count,))
    if len(elements) not in counts:
        count = counts[0]
        cursor.fail(
            f"operand {role.name} has {len(elements)} registers", f"{count} register{'s' if count > 1 else ''}", start
        )
    if all(isinstance(element, Sink) for element in elements):
        cursor.fail(f"operand {role.name} throws every register away", "at least one register", start)
    return elements[0] if role.shape is Shape.SCALAR and not role.packs else Vector(tuple(elements))


def _whose_first(cursor: Cursor, role: Role) -> Vector:
    """A vector of 1, 2 or 4 registers and constants in the place of a register, which the first of them must be."""
    constants = () if role.output else ("integer", "bits", "low word")
    vector = _vector(cursor, replace(role, shape=Shape.VECTOR, count=4, packs=False, constants=constants), (1, 2, 4))
    assert isinstance(vector, Vector)
    first = vector.elements[0]
    constant = isinstance(first, Immediate) and first.style == "float" and "bits" in role.constants
    if not isinstance(first, Register) and not constant:
        cursor.fail(f"operand {role.name} is {vector.elements[0]}, the first of a vector", "a register")
    cursor.remarks.append(f"ptxas takes a vector in operand {role.name} and keeps its first register; PTX has one")
    return vector


def _element(cursor: Cursor, role: Role, number: int) -> Scalar:
    """A register; `_` where the vector is written; a constant where the role takes some."""
    token = cursor.peek()
    if token.kind == "name" and token.text == "_":
        if not role.output:
            cursor.fail(f"'_' is only for destinations; operand {role.name} is read", "a register", token.place)
        cursor.next()
        return Sink()
    if token.kind == "name":
        return _register(cursor, role)
    if role.constants and token.text not in ("}", ",", ";", "{", "["):
        constant = read_constant(cursor, role)
        choices = role.choices[number : number + 1]
        if choices and constant.value not in choices[0]:
            what = f"element {number} of operand {role.name} is {constant.value}"
            cursor.fail(what, ", ".join(map(str, choices[0])), token.place)
        return constant
    cursor.fail(f"a register was expected in operand {role.name}, found {shown(token)}", "e.g. %r0", token.place)


def _register(cursor: Cursor, role: Role) -> Register:
    token = cursor.next()
    if token.kind != "name" or token.text == "_":
        cursor.fail(f"operand {role.name} is a register, found {shown(token)}", "e.g. %r0", token.place)
    if token.text in SPECIAL_REGISTERS and not role.special and not role.widths:
        _refuse_special(cursor, role, token)
    return Register(token.text)


def _refuse_special(cursor: Cursor, role: Role, token: Token) -> NoReturn:
    reason = f"operand {role.name} cannot be the special register '{token.text}'"
    cursor.fail(reason, "a register; mov.u32 copies special registers", token.place)


def _pair(cursor: Cursor, role: Role) -> Operand:
    """A register and a predicate, `%r0|%p0`: `_|%p0` of elect.sync (PTX ISA 9.0, 9.7.13.10); `%r0` alone and `%r0|_` of
    shfl.sync (9.7.9.6)."""
    alone = role.shape is Shape.REGISTER_OR_PAIR
    token = cursor.next()
    if token.kind != "name" or (alone and token.text == "_" and not role.sink):
        what = (
            f"operand {role.name} is a register{', perhaps' if alone else ' and'} {'with ' if alone else ''}a predicate"
        )
        cursor.fail(f"{what}, found {shown(token)}", "%r0 or %r0|%p0" if alone else "%r0|%p0 or _|%p0", token.place)
    if token.text in SPECIAL_REGISTERS:
        _refuse_special(cursor, role, token)
    first: Scalar = Sink() if token.text == "_" else Register(token.text)
    if alone and cursor.peek().text != "|":
        return first
    cursor.expect("|", f"between the register and the predicate of operand {role.name}")
    predicate = cursor.next()
    if predicate.kind != "name" or (predicate.text == "_" and not alone):
        reason = f"operand {role.name} ends with a predicate, found {shown(predicate)}"
        cursor.fail(reason, "%r0|%p0 or _|%p0", predicate.place)
    return Pair((first, Sink() if predicate.text == "_" else Register(predicate.text)))


def _value(cursor: Cursor, role: Role) -> Register | Immediate:
    if cursor.peek().kind == "name":
        return _register(cursor, role)
    return _immediate(cursor, role)


_WORDS = 1 << 64
_SELECTORS = {
    4: "one lane of each four holds the metadata",
    2: "a pair of lanes of each four holds the metadata",
    1: "all lanes hold metadata",
}


def _immediate(cursor: Cursor, role: Role) -> Immediate:
    token = cursor.peek()
    if token.kind == "name":
        cursor.fail(
            f"operand {role.name} must be a constant, found register {shown(token)}", described(role), token.place
        )
    constant = read_constant(cursor, role)
    if role.limit and not 0 <= constant.value < role.limit:
        legal = "0" if role.limit - role.lax == 1 else f"0 to {role.limit - role.lax - 1}"
        what = "sparsity selector" if role.name == "f" else f"operand {role.name}"
        if role.name == "f":
            legal += f" ({_SELECTORS[role.limit - role.lax]})"
        cursor.fail(f"{what} {constant.value} is out of range", legal, token.place)
    if role.choices and constant.value - _WORDS in role.choices[0]:  # as an s64
        return Immediate(constant.value - _WORDS)
    if role.choices and constant.value not in role.choices[0]:
        cursor.fail(
            f"operand {role.name} is {constant.value}",
            (" or " if len(role.choices[0]) <= 3 else ", ").join(map(str, role.choices[0])),
            token.place,
        )
    if role.positive and constant.value <= 0:
        cursor.fail(f"operand {role.name} is {constant.value}", "1 or more", token.place)
    if constant.value % role.multiple:
        cursor.fail(f"operand {role.name} is {constant.value}", f"a multiple of {role.multiple}", token.place)
    return constant


def _address(cursor: Cursor) -> Address:
    address = _opened_address(cursor)
    cursor.expect("]", "after an address")
    return address


def _bare_address(cursor: Cursor, role: Role) -> Address:
    """A register without brackets in the place of an address."""
    register = _register(cursor, role)
    if is_special(register.name):
        _refuse_special(cursor, role, Token("name", register.name, cursor.at))
    cursor.remarks.append(f"ptxas takes operand {role.name} without brackets; PTX has [{register}]")
    return Address(register)


def _tensor(cursor: Cursor, role: Role) -> TensorPlace:
    """`[%rd0, {%r0, %r1}]`: PTX ISA 9.0, 9.7.9.27.1.2. ptxas 13.0 takes no offset of the map's address."""
    place = cursor.peek().place
    tensor = _opened_address(cursor)
    if tensor.offset:
        cursor.fail(f"the map of operand {role.name} has an offset", f"[{tensor.base}, ...]", place)
    cursor.expect(",", "between a tensor map and the coordinates")
    coordinates = _vector(cursor, replace(role, shape=Shape.VECTOR))
    assert isinstance(coordinates, Vector)
    cursor.expect("]", "after the coordinates")
    return TensorPlace(tensor, coordinates)


def _opened_address(cursor: Cursor) -> Address:
    cursor.expect("[", "before an address")
    token = cursor.next()
    if token.kind != "name" or token.text == "_":
        cursor.fail(
            f"an address begins with a register or a variable, found {shown(token)}", "[%r0] or [%r0+16]", token.place
        )
    offset = 0
    if cursor.take("+"):
        offset = expression(cursor)
    elif cursor.peek().text == "-":
        cursor.fail("an address takes no '-'", f"[{token.text}+-16] for an offset of -16", cursor.peek().place)
    return Address(Register(token.text), offset)


def drop_second_destination(cursor: Cursor) -> None:
    """Reads over `|_` behind the register of a first operand. ptxas 13.0 takes it in every instruction, whether a
    second destination, or any, is there or not; PTX has it in few."""
    before = cursor.at
    if cursor.take("|") and cursor.take("_"):
        cursor.remarks.append("ptxas takes a second destination |_ and drops it; PTX has none here")
        return
    cursor.at = before


def read_metadata(cursor: Cursor, role: Role, types: Types | None = None) -> Operand:
    """The metadata register of a native mma.sp. ptxas 13.0 takes two or four of them and drops all but the first."""
    before = cursor.at
    if cursor.take("{"):
        first, count = _register(cursor, role), 1
        while cursor.take(","):
            _register(cursor, role)
            count += 1
        if count in (2, 4) and cursor.take("}"):
            which = "a second register" if count == 2 else "four registers"
            cursor.remarks.append(f"ptxas takes {which} of metadata and drops all but the first; PTX has one")
            return first
    cursor.at = before
    return read_operand(cursor, role, types)
