"""PTX instruction text -> `Instruction`. `str(decode(text))` is the canonical text, and decodes to the same instruction."""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from isa.errors import IsaError
from isa.fast import Plan, plan
from isa.forms import PTX, Form, MmaForm, Role, Shape
from isa.instruction import Address, Guard, Immediate, Instruction, Operand, Predicate, Register, Scalar, Sink, Vector
from isa.opcodes import read_opcode
from isa.plain_forms import SPECIAL_REGISTERS
from isa.targets import Target, parse_target
from isa.tcgen05_forms import FamilyForm, refine
from isa.tcgen05_operands import SizedRole, check_operand

_TOKENS = re.compile(
    r"""(?P<space>(?:\s|//[^\n]*|/\*.*?\*/)+)
      | (?P<float>0[fF][0-9a-fA-F]{8}(?![\w$]) | 0[dD][0-9a-fA-F]{16}(?![\w$])
          | (?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+)
      | (?P<number>0[xX][0-9a-fA-F]+U? | 0[bB][01]+U? | [0-9]+U?(?![\w$]))
      | (?P<name>(?:[A-Za-z$%][\w$]*|_[\w$]*)(?:::\w+|\.(?:x|y|z)\b)*)
      | (?P<mark><<|>>|<=|>=|==|!=|&&|\|\||[{}\[\],;+\-*/%&|^~!()@<>?:])""",
    re.VERBOSE | re.DOTALL,
)
_GAP = r"(?:\s|/\*.*?\*/)*"  # what may stand before a dot
_OPCODE = re.compile(rf"[A-Za-z]\w*(?:{_GAP}\.[\w:]+)*", re.DOTALL)
_GAPS = re.compile(r"\s+|/\*.*?\*/", re.DOTALL)
_MAX_TEXT = 1 << 16


class Token(NamedTuple):
    """A piece of the text: its kind ("number", "float", "name", "mark", "end"), text and place."""

    kind: str
    text: str
    place: int


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
    cursor = _Cursor(text)
    guard = _guard(cursor)
    opcode, place = cursor.opcode()
    form = read_opcode(opcode, wanted, place, text, ptx)
    if isinstance(form, FamilyForm):
        form, operands = _family_operands(cursor, form, wanted)
    else:
        operands = _operands(cursor, form, wanted)
    cursor.end()
    if known is None and opcode == head:
        _remember(head, target, ptx, form)
    return Instruction(form, operands, guard)


_plans: dict[tuple[str, str | Target | None, str], tuple[Form, Plan]] = {}


def _remember(head: str, target: str | Target | None, ptx: str, form: Form) -> None:
    """Makes the next instruction of this opcode go the short way (`isa.fast`)."""
    made = None if isinstance(form, FamilyForm) else plan(form)
    if made is not None:
        _plans[head, target, ptx] = form, made


class _Cursor:
    """A position in the text; `next` gives tokens."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.skip()

    def skip(self) -> None:
        match = _TOKENS.match(self.text, self.at)
        if match and match.lastgroup == "space":
            self.at = match.end()

    def opcode(self) -> tuple[str, int]:
        match = _OPCODE.match(self.text, self.at)
        if match is None:
            self.fail(
                "no instruction found" if self.at >= len(self.text) else "an instruction's name was expected",
                "e.g. mma.sp...., ldmatrix...., ld.shared....",
            )
        place, self.at = self.at, match.end()
        self.skip()
        return _GAPS.sub("", match[0]), place

    def peek(self) -> Token:
        match = _TOKENS.match(self.text, self.at)
        if match is None or match.lastgroup is None:
            if self.at >= len(self.text):
                return Token("end", "", self.at)
            self.fail(f"unexpected character {self.text[self.at]!r}")
        return Token(match.lastgroup, match[0], self.at)

    def next(self) -> Token:
        token = self.peek()
        self.at = token.place + len(token.text)
        self.skip()
        return token

    def take(self, mark: str) -> bool:
        """Whether the next token is this mark; if so it is passed."""
        if self.peek().text == mark:
            self.next()
            return True
        return False

    def expect(self, mark: str, why: str) -> None:
        token = self.peek()
        if not self.take(mark):
            self.fail(f"'{mark}' expected {why}, found {_shown(token)}", "", token.place)

    def end(self) -> None:
        self.take(";")
        token = self.peek()
        if token.kind != "end":
            self.fail(f"one instruction was expected, but {_shown(token)} follows it", "nothing after the instruction", token.place)

    def fail(self, reason: str, legal: str = "", place: int | None = None) -> NoReturn:
        raise IsaError(self.text, self.at if place is None else place, reason, legal)


def _shown(token: Token) -> str:
    return "the end of the text" if token.kind == "end" else f"'{token.text}'"


def _guard(cursor: _Cursor) -> Guard | None:
    if not cursor.take("@"):
        return None
    negated = cursor.take("!")
    token = cursor.next()
    if token.kind != "name":
        cursor.fail(f"a predicate register was expected after '@', found {_shown(token)}", "e.g. @%p0 or @!%p0", token.place)
    return Guard(Register(token.text), negated)


def _operands(cursor: _Cursor, form: Form, target: Target | None) -> tuple[Operand, ...]:
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
    return tuple(found)


def _recover(cursor: _Cursor) -> bool:
    """Goes on to the comma after the operand that was wrong; False where there is none."""
    rest = re.compile(r"[^{}\[\],;]*(?:\{[^{};]*\}|\[[^\[\];]*\]|[}\]])?[^{}\[\],;]*")
    while (match := rest.match(cursor.text, cursor.at)) and match.end() > cursor.at:
        cursor.at = match.end()
    return cursor.text[cursor.at : cursor.at + 1] == ","


def _metadata(cursor: _Cursor, role: Role, form: Form, target: Target | None) -> Operand:
    """The metadata register. ptxas 13.0 takes a second one where the instruction is native, and drops it."""
    before = cursor.at
    if cursor.take("{"):
        first = _register(cursor, role)
        if cursor.take(",") and isinstance(form, MmaForm) and (target is None or form.native(target)):
            _register(cursor, role)
            if cursor.take("}"):
                return first
    cursor.at = before
    return _operand(cursor, role)


def _described(role: Role) -> str:
    count = f" of {role.count} registers" if role.shape is Shape.VECTOR and role.count > 1 else ""
    limit = f" 0 to {role.limit - 1}" if role.limit > 1 else " 0" if role.limit == 1 else ""
    kind = "register" if role.shape is Shape.VECTOR and role.count == 1 else role.shape.value
    return f"{role.name}: {kind}{count}{limit}"


def _operand(cursor: _Cursor, role: Role) -> Operand:
    match role.shape:
        case Shape.VECTOR | Shape.SCALAR:
            return _vector(cursor, role)
        case Shape.ADDRESS:
            return _address(cursor)
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


def _family_operands(cursor: _Cursor, form: FamilyForm, target: Target | None) -> tuple[FamilyForm, tuple[Operand, ...]]:
    """The operands of tcgen05, mbarrier or fence, and the form with just these."""
    found: dict[str, Operand] = {}
    written: dict[str, tuple[bool, int]] = {}
    for role in form.roles:
        if role.optional and role.shape is Shape.VECTOR and not _vector_follows(cursor):
            continue
        if cursor.peek().text in (";", ""):
            if role.optional:
                break
            expected = ", ".join(_described(role) for role in form.roles)
            cursor.fail(f"operand {role.name} is missing: {form.opcode} has {len(form.roles)} operands, found {len(found)}", expected)
        if found:
            cursor.expect(",", f"before operand {role.name}")
        start = cursor.peek().place
        found[role.name] = operand = _sink(cursor, role) or _operand(cursor, role)
        check_operand(role, operand, cursor.text, start)
        written[role.name] = isinstance(operand, Address), start
    token = cursor.peek()
    if token.text not in (";", ""):
        names = ", ".join(_described(role) for role in form.roles) or "no operand"
        cursor.fail(f"{form.opcode} takes nothing more, found {_shown(token)}", names, token.place)
    return refine(form, written, target, cursor.text), tuple(found.values())


def _vector_follows(cursor: _Cursor) -> bool:
    before = cursor.at
    follows = cursor.take(",") and cursor.peek().text == "{"
    cursor.at = before
    return follows


def _sink(cursor: _Cursor, role: Role) -> Sink | None:
    """`_` where it stands for a whole operand."""
    if isinstance(role, SizedRole) and role.sink and cursor.take("_"):
        return Sink()
    return None


def _predicate(cursor: _Cursor, role: Role) -> Predicate | Immediate:
    """`%p0`, `!%p0`, or a constant: 0 is false. PTX ISA 9.0, 9.7.16.10.9.1 (enable-input-d)."""
    before = cursor.at
    negated = cursor.take("!")
    if cursor.peek().kind == "name":
        return Predicate(_register(cursor, role), negated)
    cursor.at = before
    return _immediate(cursor, role)


def _vector(cursor: _Cursor, role: Role) -> Vector | Scalar:
    start = cursor.peek().place
    if not cursor.take("{"):
        if role.shape is Shape.VECTOR:
            cursor.fail(f"operand {role.name} is a vector of {role.count} register{'s' if role.count > 1 else ''}", "{...}", start)
        return _value(cursor, role) if role.constants else _register(cursor, role)
    elements = [_element(cursor, role, 0)]
    while cursor.take(","):
        elements.append(_element(cursor, role, len(elements)))
    cursor.expect("}", f"at the end of operand {role.name}")
    if len(elements) != role.count:
        cursor.fail(f"operand {role.name} has {len(elements)} registers", f"{role.count} register{'s' if role.count > 1 else ''}", start)
    if all(isinstance(element, Sink) for element in elements):
        cursor.fail(f"operand {role.name} throws every register away", "at least one register", start)
    return elements[0] if role.shape is Shape.SCALAR else Vector(tuple(elements))


def _element(cursor: _Cursor, role: Role, number: int) -> Scalar:
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
        constant = _constant(cursor, role)
        choices = role.choices[number : number + 1]
        if choices and constant.value not in choices[0]:
            what = f"element {number} of operand {role.name} is {constant.value}"
            cursor.fail(what, ", ".join(map(str, choices[0])), token.place)
        return constant
    cursor.fail(f"a register was expected in operand {role.name}, found {_shown(token)}", "e.g. %r0", token.place)


def _register(cursor: _Cursor, role: Role) -> Register:
    token = cursor.next()
    if token.kind != "name" or token.text == "_":
        cursor.fail(f"operand {role.name} is a register, found {_shown(token)}", "e.g. %r0", token.place)
    if token.text in SPECIAL_REGISTERS and not role.special:
        cursor.fail(f"operand {role.name} cannot be the special register '{token.text}'", "a register; mov.u32 copies special registers", token.place)
    return Register(token.text)


def _value(cursor: _Cursor, role: Role) -> Register | Immediate:
    if cursor.peek().kind == "name":
        return _register(cursor, role)
    return _immediate(cursor, role)


def _immediate(cursor: _Cursor, role: Role) -> Immediate:
    token = cursor.peek()
    if token.kind == "name":
        cursor.fail(f"operand {role.name} must be a constant, found register {_shown(token)}", _described(role), token.place)
    constant = _constant(cursor, role)
    if role.limit and not 0 <= constant.value < role.limit:
        legal = "0" if role.limit - role.lax == 1 else f"0 to {role.limit - role.lax - 1}"
        what = "sparsity selector" if role.name == "f" else f"operand {role.name}"
        cursor.fail(f"{what} {constant.value} is out of range", legal, token.place)
    if constant.value % role.multiple:
        cursor.fail(f"operand {role.name} is {constant.value}", f"a multiple of {role.multiple}", token.place)
    return constant


def _address(cursor: _Cursor) -> Address:
    cursor.expect("[", "before an address")
    token = cursor.next()
    if token.kind != "name" or token.text == "_":
        cursor.fail(f"an address begins with a register or a variable, found {_shown(token)}", "[%r0] or [%r0+16]", token.place)
    offset = 0
    if cursor.take("+"):
        offset = _expression(cursor)
    elif cursor.peek().text == "-":
        cursor.fail("an address takes no '-'", f"[{token.text}+-16] for an offset of -16", cursor.peek().place)
    cursor.expect("]", "after an address")
    return Address(Register(token.text), offset)


# Constant expressions, PTX ISA 9.0, 4.6.4: 64-bit integers with C's operators.

_LEVELS = (("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"), ("*", "/", "%"))
_MAX_DEPTH = 64


_FLOATS = {"bits": "0f3F800000", "float": "1.0", "integer": "an integer"}


def _constant(cursor: _Cursor, role: Role) -> Immediate:
    """A constant of a kind that the role takes."""
    start = cursor.peek().place
    negative = cursor.text[cursor.at : cursor.at + 1] in ("-", "+") and _FLOAT_AHEAD.match(cursor.text, cursor.at) is not None
    sign = -1 if negative and cursor.next().text == "-" else 1
    token = cursor.peek()
    if token.kind == "float":
        cursor.next()
        kind = "bits" if token.text[:2] in ("0f", "0F") else "float"
        value = _float_bits(token.text, sign)
    else:
        kind, value = "integer", _expression(cursor)
    if kind not in role.constants:
        legal = ", ".join(_FLOATS[k] for k in role.constants)
        cursor.fail(f"operand {role.name} takes no constant like {_shown(token)}", f"{legal}, or a register" if legal else "a register", start)
    if kind != "integer":
        return Immediate(value, "float")
    text = cursor.text[start : cursor.at].strip().lower()
    return Immediate(value, "hexadecimal" if text.startswith("0x") and value >= 0 else "decimal")


_FLOAT_AHEAD = re.compile(r"[+-]\s*(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+[eE][+-]?[0-9])")


def _float_bits(text: str, sign: int) -> int:
    """The f32 pattern of 0f3F800000, 0d3FF0000000000000 or 1.0; what is too large for f32 is infinity. PTX ISA 9.0, 4.5.2."""
    if text[:2] in ("0f", "0F"):
        return int(text[2:], 16)
    value: float = struct.unpack(">d", bytes.fromhex(text[2:]))[0] if text[:2] in ("0d", "0D") else sign * float(text)
    try:
        return int(struct.unpack(">I", struct.pack(">f", value))[0])
    except OverflowError:
        return 0xFF800000 if value < 0 else 0x7F800000


def _binary(cursor: _Cursor, level: int, depth: int) -> int:
    if level == len(_LEVELS):
        return _unary(cursor, depth)
    value = _binary(cursor, level + 1, depth)
    while cursor.peek().text in _LEVELS[level]:
        sign = cursor.next()
        right = _binary(cursor, level + 1, depth)
        value = _wrap(_apply(cursor, sign, value, right))
    return value


_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _expression(cursor: _Cursor, depth: int = 0) -> int:
    """A constant expression, `a ? b : c` included."""
    value = _binary(cursor, 0, depth)
    if depth > _MAX_DEPTH or not cursor.take("?"):
        return value
    chosen = _expression(cursor, depth + 1)
    cursor.expect(":", "in a constant expression")
    other = _expression(cursor, depth + 1)
    return chosen if value else other


def _apply(cursor: _Cursor, sign: Token, left: int, right: int) -> int:
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


def _unary(cursor: _Cursor, depth: int) -> int:
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
            value = _expression(cursor, depth + 1)
            cursor.expect(")", "in a constant expression")
            return value
    if token.kind != "number":
        cursor.fail(f"a constant was expected, found {_shown(token)}", "e.g. 0x0", token.place)
    return _number(cursor, token)


def _number(cursor: _Cursor, token: Token) -> int:
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
