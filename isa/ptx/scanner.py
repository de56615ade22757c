"""Cuts the text of an instruction into tokens (`Cursor`), and evaluates the constant expressions in it."""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from isa.errors import IsaError

_SPACE = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)+", re.DOTALL)
_TOKENS = re.compile(
    r"""(?P<float>0[fF][0-9a-fA-F]{8}(?![\w$]) | 0[dD][0-9a-fA-F]{16}(?![\w$])
          | (?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+)
      | (?P<number>WARP_SZ(?![\w$]) | 0[xX][0-9a-fA-F]+U? | 0[bB][01]+U? | [0-9]+U?(?![\w$]))
      | (?P<name>(?:[A-Za-z$%][\w$]*|_[\w$]*)(?:::\w+|\.(?:x|y|z)\b)*)
      | (?P<mark><<|>>|<=|>=|==|!=|&&|\|\||[{}\[\],;+\-*/%&|^~!()@<>?:])""",
    re.VERBOSE | re.DOTALL,
)
_GAP = r"(?:\s|/\*.*?\*/)*"  # what may stand before a dot
_OPCODE = re.compile(rf"[A-Za-z]\w*(?:{_GAP}\.[\w:]+)*", re.DOTALL)
_GAPS = re.compile(r"\s+|/\*.*?\*/", re.DOTALL)


class Token(NamedTuple):
    """A piece of the text: its kind ("number", "float", "name", "mark", "end"), text and place."""

    kind: str
    text: str
    place: int


class Cursor:
    """A position in the text of an instruction, from which tokens are read one by one."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.remarks: list[str] = []
        self._seen = Token("", "", -1)  # the token that was looked at last
        self.skip()

    def skip(self) -> None:
        """Moves past white space and comments."""
        match = _SPACE.match(self.text, self.at)
        if match:
            self.at = match.end()

    def opcode(self) -> tuple[str, int]:
        """Reads the opcode, and returns it with its position in the text."""
        match = _OPCODE.match(self.text, self.at)
        if match is None:
            self.fail(
                "no instruction found" if self.at >= len(self.text) else "an instruction's name was expected",
                "e.g. mma.sp...., ld.shared....",
            )
        place, self.at = self.at, match.end()
        self.skip()
        return _GAPS.sub("", match[0]), place

    def peek(self) -> Token:
        """The next token, which remains to be read."""
        if self._seen.place == self.at:
            return self._seen
        match = _TOKENS.match(self.text, self.at)
        if match is None or match.lastgroup is None:
            if self.at >= len(self.text):
                return Token("end", "", self.at)
            self.fail(f"unexpected character {self.text[self.at]!r}")
        self._seen = Token(match.lastgroup, match[0], self.at)
        return self._seen

    def next(self) -> Token:
        """Reads the next token."""
        token = self.peek()
        self.at = token.place + len(token.text)
        self.skip()
        return token

    def take(self, mark: str) -> bool:
        """Reads the next token if it is this mark; returns whether it was."""
        if self.peek().text == mark:
            self.next()
            return True
        return False

    def expect(self, mark: str, why: str) -> None:
        """Reads this mark; raises IsaError, with the reason why it must stand here, if another token does."""
        token = self.peek()
        if not self.take(mark):
            self.fail(f"'{mark}' expected {why}, found {shown(token)}", "", token.place)

    def end(self) -> None:
        """Raises IsaError if anything follows the instruction (a semicolon may)."""
        self.take(";")
        token = self.peek()
        if token.kind != "end":
            self.fail(
                f"one instruction was expected, but {shown(token)} follows it",
                "nothing after the instruction",
                token.place,
            )

    def fail(self, reason: str, legal: str = "", place: int | None = None) -> NoReturn:
        """Raises IsaError at the current position, or at `place`."""
        raise IsaError(self.text, self.at if place is None else place, reason, legal)


def shown(token: Token) -> str:
    """A token as error messages write it."""
    return "the end of the text" if token.kind == "end" else f"'{token.text}'"


# Constant expressions, PTX ISA 9.0, 4.6.4: 64-bit integers with C's operators.

_LEVELS = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", "<=", ">", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_LEVEL = {mark: level for level, marks in enumerate(_LEVELS) for mark in marks}
_MAX_DEPTH = 64


def _binary(cursor: Cursor, lowest: int, depth: int) -> int:
    """Reads operands and the operators of level `lowest` and above between them, equal levels from the left."""
    value = _unary(cursor, depth)
    while (level := _LEVEL.get(cursor.peek().text, -1)) >= lowest:
        sign = cursor.next()
        right = _binary(cursor, level + 1, depth)
        value = _wrap(_apply(cursor, sign, value, right))
    return value


_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def expression(cursor: Cursor, depth: int = 0) -> int:
    """Reads a constant expression, `a ? b : c` included, and returns its value."""
    value = _binary(cursor, 0, depth)
    if depth > _MAX_DEPTH or not cursor.take("?"):
        return value
    chosen = expression(cursor, depth + 1)
    cursor.expect(":", "in a constant expression")
    other = expression(cursor, depth + 1)
    return chosen if value else other


def _apply(cursor: Cursor, sign: Token, left: int, right: int) -> int:
    match sign.text:
        case "|":
            return left | right
        case "^":
            return left ^ right
        case "&":
            return left & right
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "<<":
            return left << right if 0 <= right < 64 else 0
        case ">>":
            return left >> right if 0 <= right < 64 else left >> 63
        case "&&":
            return int(bool(left) and bool(right))
        case "||":
            return int(bool(left) or bool(right))
        case "==" | "!=" | "<" | "<=" | ">" | ">=":
            return int(_COMPARISONS[sign.text](left, right))
    if right == 0:
        cursor.fail("division by zero in a constant expression", "", sign.place)
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if sign.text == "/" else left - quotient * right


def _unary(cursor: Cursor, depth: int) -> int:
    token = cursor.next()
    if depth > _MAX_DEPTH:
        cursor.fail("a constant expression nested too deeply", f"at most {_MAX_DEPTH} levels", token.place)
    match token.text:
        case "-":
            return _wrap(-_unary(cursor, depth + 1))
        case "+":
            return _unary(cursor, depth + 1)
        case "~":
            return ~_unary(cursor, depth + 1)
        case "!":
            return int(not _unary(cursor, depth + 1))
        case "(":
            value = expression(cursor, depth + 1)
            cursor.expect(")", "in a constant expression")
            return value
    if token.kind != "number":
        cursor.fail(f"a constant was expected, found {shown(token)}", "e.g. 0x0", token.place)
    return _number(cursor, token)


def _number(cursor: Cursor, token: Token) -> int:
    if token.text == "WARP_SZ":
        return 32  # PTX ISA 9.0, 4.6.2 (predefined constants)
    digits = token.text.lower().removesuffix("u")
    base = {"0x": 16, "0b": 2}.get(digits[:2], 8 if digits.startswith("0") and len(digits) > 1 else 10)
    try:
        value = int(digits, base)
    except ValueError:
        cursor.fail(f"'{token.text}' is not an octal number, although it starts with 0", "digits 0 to 7", token.place)
    if value >= 1 << 64:
        cursor.fail(f"constant {token.text} does not fit in 64 bits", "", token.place)
    return _wrap(value)


def _wrap(value: int) -> int:
    """Two's complement in 64 bits, as PTX computes constants."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def float_bits(text: str, sign: int) -> int:
    """The f32 pattern of 0f3F800000, 0d3FF0000000000000 or 1.0; what is too large for f32 is infinity. PTX ISA 9.0,
    4.5.2."""
    if text[:2] in ("0f", "0F"):
        return int(text[2:], 16)
    value: float = struct.unpack(">d", bytes.fromhex(text[2:]))[0] if text[:2] in ("0d", "0D") else sign * float(text)
    try:
        return int(struct.unpack(">I", struct.pack(">f", value))[0])
    except OverflowError:
        return 0xFF800000 if value < 0 else 0x7F800000


def double_bits(text: str, sign: int) -> int:
    """The f64 pattern of 0f3F800000, which is converted, or of 1.0. PTX ISA 9.0, 4.5.2."""
    value = struct.unpack(">f", bytes.fromhex(text[2:]))[0] if text[:2] in ("0f", "0F") else sign * float(text)
    return int(struct.unpack(">Q", struct.pack(">d", value))[0])
