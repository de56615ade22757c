"""Reads a constant where an operand takes one: an integer expression, 0f3F800000, 0d3FF0000000000000 or 1.0."""

from __future__ import annotations

import re

from isa.forms.record import Role
from isa.ptx.instruction import Immediate
from isa.ptx.scanner import Cursor, Token, double_bits, expression, float_bits, shown

_FLOATS = {
    "bits": "0f3F800000", "double": "0d3FF0000000000000", "float": "1.0", "integer": "an integer", "low word": "0.0",
    "decimal": "1.0",
}  # fmt: skip
_FLOAT_AHEAD = re.compile(r"[+-]\s*(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+[eE][+-]?[0-9])")


def read_constant(cursor: Cursor, role: Role) -> Immediate:
    """Reads a constant of one of the kinds that the role takes."""
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
        if "double" in role.constants and ("float" if kind == "bits" else "decimal") in role.constants:
            return Immediate(double_bits(token.text, sign), "double")
        if "double" in role.constants and "float" in role.constants:
            return Immediate(double_bits(token.text, sign), "double")
        if kind == "float" and "low word" in role.constants:
            return _low_word(cursor, role, token, sign)
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


def _low_word(cursor: Cursor, role: Role, token: Token, sign: int) -> Immediate:
    """A decimal constant, or one of 64 bits, in a vector of registers of 32: ptxas 13.0 makes the f64 pattern of it and
    keeps the low word, which is 0 for 1.0, 0.5 and -2.0, on all targets. PTX does not say so (4.5.2)."""
    whole = int(token.text[2:], 16) if token.text[:2] in ("0d", "0D") else double_bits(token.text, sign)
    low = whole & 0xFFFFFFFF
    if low != float_bits(token.text, sign):
        cursor.remarks.append(
            f"ptxas makes 0f{low:08X}, the low word of f64, of {token.text} in operand {role.name}; "
            f"write 0f{float_bits(token.text, sign):08X}"
        )
    return Immediate(low, "float")
