"""A fast path of the decoder for instructions in their plainest spelling: one regular expression reads all operands of
a form.

Whatever it reads, `isa.decode` would read with the same result. What it cannot read (constants in place of registers,
expressions, comments, anything wrong) goes through the full decoder, which also has the error messages. Long traces are
almost entirely in the plainest spelling.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from isa.forms.record import Form, Role, Shape
from isa.ptx.checks import serves
from isa.ptx.instruction import Address, Immediate, Operand, Predicate, Register, Vector

_REGISTER = r"(?!WARP_SZ\b)(%(?!laneid\b|warpid\b|nwarpid\b|p\d*\b)[A-Za-z][\w$]*|[A-Za-z][\w$]*)"
_INTEGER = r"(0[xX][0-9a-fA-F]{1,8}|0|[1-9][0-9]{0,8})"
_PREFIXES = {1: "p", 16: "rs", 32: "r", 64: "rd"}
_FLOATS = {32: "f", 64: "fd"}
_COMMA = r"\s*,\s*"

# Operands that are legal or not by what others are (`isa.ptx.decoder`)
_TOGETHER = ("first", "total", "size", "filled", "fraction")

Groups = tuple[str | None, ...]


class Plan(NamedTuple):
    """How to read all operands of a form at once: the regular expression, and for each operand a function that makes it
    from the groups that matched."""

    pattern: re.Pattern[str]
    readers: tuple[Callable[[Groups], Operand | None], ...]

    def read(self, text: str) -> tuple[Operand, ...] | None:
        """The operands; None if this is not the plainest spelling."""
        match = self.pattern.match(text)
        if match is None:
            return None
        groups = match.groups()
        operands = []
        for reader in self.readers:
            operand = reader(groups)
            if operand is None:
                return None
            operands.append(operand)
        return tuple(operands)


def plan(form: Form) -> Plan | None:
    """The plan for a form; None if one of its roles cannot be read by a regular expression."""
    if form.asynchronous or form.narrowed or any(role.name in _TOGETHER for role in form.roles):
        return None
    parts: list[str] = []
    readers: list[Callable[[Groups], Operand | None]] = []
    first = 0
    for role in form.roles:
        built = (
            None
            if role.optional
            or role.vector_type
            or role.choices
            or role.newer
            or role.multiple != 1
            or role.sink
            or role.packs
            or role.wide_from
            or (role.width != 32 and not role.widths)
            else _part(role, first)
        )
        if built is None:
            return None
        text, reader, groups = built
        parts.append(text)
        readers.append(reader)
        first += groups
    return Plan(re.compile(r"\s*" + _COMMA.join(parts) + r"\s*;?\s*\Z"), tuple(readers))


def _part(role: Role, first: int) -> tuple[str, Callable[[Groups], Operand | None], int] | None:
    """For one operand the regular expression, the function that reads it, and the number of its groups; `first` is the
    index of its first group."""
    register = _registers_of(role)
    match role.shape:
        case _ if not register:
            return None
        case Shape.VECTOR:
            end = first + role.count
            return (
                r"\{\s*" + _COMMA.join([register] * role.count) + r"\s*\}",
                lambda groups: _vector(groups[first:end], mixed=len(role.widths) < 2),
                role.count,
            )
        case Shape.SCALAR | Shape.REGISTER if role.count == 1 and not role.constants:
            return register, lambda groups: _register(groups[first]), 1
        case Shape.PREDICATE:
            return register, lambda groups: Predicate(_register(groups[first])), 1
        case Shape.IMMEDIATE:
            return _INTEGER, lambda groups: _immediate(groups[first], role.limit), 1
        case Shape.VALUE if "integer" in role.constants and not role.limit and not role.positive:
            return f"({register[1:-1]}|{_INTEGER[1:-1]})", lambda groups: _value(groups[first]), 1
        case Shape.ADDRESS:
            return (
                rf"\[\s*{register}\s*(?:\+\s*{_INTEGER}\s*)?\]",
                lambda groups: _address(groups[first], groups[first + 1]),
                2,
            )
    return None


def _registers_of(role: Role) -> str:
    """The regular expression of the registers that an operand takes for sure; "" for none. Names of other sorts than
    nvcc's are left to the full decoder where widths are held to."""
    if not role.widths:
        return _REGISTER
    names = [_PREFIXES[bits] for bits in role.widths if bits in _PREFIXES]
    names += [_FLOATS[bits] for bits in role.widths if bits in _FLOATS and serves(role.type, f"f{bits}")]
    return rf"(%(?:{'|'.join(names)})(?:0|[1-9]\d*))" if names else ""


_registers: dict[str | None, Register] = {}
_MOST_REGISTERS = 65536


def _register(name: str | None) -> Register:
    """The register of that name, the same object each time."""
    register = _registers.get(name)
    if register is None:
        assert name is not None
        if len(_registers) >= _MOST_REGISTERS:
            _registers.clear()
        register = _registers[name] = Register(name)
    return register


def _vector(names: Groups, mixed: bool) -> Vector | None:
    """The vector; None where registers of unlike names do not go together and the full decoder must say so."""
    if not mixed and len({name.rstrip("0123456789") for name in names if name is not None}) > 1:
        return None
    return Vector(tuple([_register(name) for name in names]))


def _integer(text: str) -> Immediate:
    return Immediate(int(text, 16), "hexadecimal") if text[:2] in ("0x", "0X") else Immediate(int(text))


def _immediate(text: str | None, limit: int) -> Immediate | None:
    assert text is not None
    constant = _integer(text)
    return None if limit and constant.value >= limit else constant


def _value(text: str | None) -> Operand:
    assert text is not None
    return _integer(text) if text[0].isdigit() else _register(text)


def _address(base: str | None, offset: str | None) -> Address:
    return Address(_register(base), 0 if offset is None else _integer(offset).value)
