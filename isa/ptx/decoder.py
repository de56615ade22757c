"""Decodes PTX instructions. `decode` turns the text of one instruction into an `Instruction`, or raises an `IsaError`
that says what is wrong. `str(decode(text))` is the canonical text, which decodes to the same instruction."""

from __future__ import annotations

import re

from isa.arguments import text_of
from isa.errors import IsaError, OperandRefused
from isa.forms.record import PTX, Form, Role, Shape
from isa.ptx.checks import check_on_target, check_operand
from isa.ptx.instruction import Address, Guard, Immediate, Instruction, Operand, Register, Types, Vector
from isa.ptx.opcodes import read_opcode
from isa.ptx.operands import described, drop_second_destination, read_metadata, read_operand
from isa.ptx.plain_spelling import Plan, plan
from isa.ptx.scanner import Cursor, shown
from isa.targets import Target, parse_target

_MAX_TEXT = 1 << 16
_GUARD = Role("guard", Shape.REGISTER, width=1, widths=(1,))


def decode(text: str, target: str | Target | None = None, ptx: str = PTX, types: Types | None = None) -> Instruction:
    """Decodes the text of one instruction.

    Args:
        text: one PTX instruction, `;` optional, comments and line breaks allowed.
        target: e.g. "sm_90a"; None takes what any target has.
        ptx: the PTX version that it is written for.
        types: by name of a register, the type that it is declared with; names that are not in it, and None, are judged
            by the habits of nvcc: %r0 has 32 bits.

    Raises:
        IsaError: unknown or malformed text, an illegal form, operand or selector, a form that the target lacks.
    """
    head, _, rest = text_of(text, "an instruction", "bar.sync 0;").partition(" ")
    remembered = _plans.get((head, target, ptx))
    if remembered is not None:
        plain = remembered[1].read(rest)
        if plain is not None:
            if types is not None:
                for role, operand in zip(remembered[0].roles, plain, strict=True):
                    check_operand(role, operand, text, 0, types)
            return Instruction(remembered[0], plain)
    chip = parse_target(target) if target is not None else None
    if len(text) > _MAX_TEXT:
        raise IsaError(text[:64], -1, f"an instruction of {len(text)} characters", f"at most {_MAX_TEXT}")
    cursor = Cursor(text)
    guard = _guard(cursor, types)
    opcode, place = cursor.opcode()
    form = read_opcode(opcode, chip, place, text, ptx)
    try:
        form, operands = _operands(cursor, form, chip, types)
        cursor.end()
    except IsaError as error:
        raise error.stated_in(form.section) from None
    if opcode != form.opcode:
        cursor.remarks += _dropped(opcode.split("."), form.opcode.split("."))
    if remembered is None and opcode == head and not cursor.remarks:
        _remember(head, target, ptx, form)
    return Instruction(form, operands, guard, tuple(cursor.remarks))


_plans: dict[tuple[str, str | Target | None, str], tuple[Form, Plan]] = {}


def _remember(head: str, target: str | Target | None, ptx: str, form: Form) -> None:
    """Makes the next instruction of this opcode go the short way (`isa.ptx.plain_spelling`)."""
    reading = plan(form)
    if reading is not None:
        _plans[head, target, ptx] = form, reading


def _dropped(given: list[str], kept: list[str]) -> list[str]:
    """What to say of qualifiers that ptxas passes over."""
    extra = [q for q in dict.fromkeys(given) if given.count(q) > kept.count(q)]
    return [
        f"ptxas takes .{q} twice; PTX has it once" if q in kept else f"ptxas passes over .{q}, which means nothing here"
        for q in extra
    ]


def _guard(cursor: Cursor, types: Types | None) -> Guard | None:
    if not cursor.take("@"):
        return None
    negated = cursor.take("!")
    token = cursor.next()
    if token.kind != "name":
        cursor.fail(
            f"a predicate register was expected after '@', found {shown(token)}", "e.g. @%p0 or @!%p0", token.place
        )
    check_operand(_GUARD, Register(token.text), cursor.text, token.place, types)
    return Guard(Register(token.text), negated)


def _operands(
    cursor: Cursor, form: Form, target: Target | None, types: Types | None
) -> tuple[Form, tuple[Operand, ...]]:
    """Reads all operands, and returns them with the form that has just these. After a wrong operand the others are read
    as well, so that the error names everything that is wrong."""
    operands: dict[str, Operand] = {}
    starts: dict[str, int] = {}
    problems: list[IsaError] = []
    for place, role in enumerate(form.roles):
        if role.optional and role.shape is Shape.VECTOR and not _vector_follows(cursor):
            continue
        if role.optional and form.gap and _follow(cursor) < len(form.roles) - place:
            continue
        count = len(operands) + len(problems)
        if cursor.peek().text in (";", ""):
            if not role.optional:
                reason = f"operand {role.name} is missing: {form.opcode} has {len(form.roles)} operands, found {count}"
                problems.append(IsaError(cursor.text, cursor.at, reason, _expected(form)))
            break
        try:
            if count:
                cursor.expect(",", f"before operand {role.name}")
            starts[role.name] = start = cursor.peek().place
            said = role.braced if role.braced is not None and cursor.peek().text == "{" else role
            drops = role.name == "e" and not role.first and (target is None or form.native(target))
            operand = (read_metadata if drops else read_operand)(cursor, said, types)
            if not count and isinstance(operand, Register):
                drop_second_destination(cursor)
            check_operand(said, operand, cursor.text, start, types)
            check_on_target(said, operand, target, cursor.text, start, types)
            if role.dropped:
                cursor.remarks.append(f"ptxas takes {operand} behind the operands and drops it; PTX has none there")
            else:
                operands[role.name] = operand.elements[0] if role.first and isinstance(operand, Vector) else operand
        except IsaError as error:
            problems.append(error)
            if not _recover(cursor):
                break
    token = cursor.peek()
    if token.text == "," and not problems:
        cursor.fail(
            f"too many operands: {form.opcode} has {len(form.roles)} and takes nothing more",
            _expected(form),
            token.place,
        )
    if problems:
        raise IsaError.together(problems)
    _check_together(cursor, form, operands)
    return _written(cursor, form, operands, starts, target), tuple(operands.values())


def _expected(form: Form) -> str:
    return ", ".join(described(role) for role in form.roles) or "no operand"


def _vector_follows(cursor: Cursor) -> bool:
    before = cursor.at
    follows = cursor.take(",") and cursor.peek().text == "{"
    cursor.at = before
    return follows


def _follow(cursor: Cursor) -> int:
    """How many operands follow behind commas."""
    rest = cursor.text[cursor.at :].partition(";")[0]
    return len(re.findall(r",(?![^{}\[\]]*[}\]])", rest))


def _recover(cursor: Cursor) -> bool:
    """Moves on to the comma after an operand that was wrong; returns False if there is none."""
    rest = re.compile(r"[^{}\[\],;]*(?:\{[^{};]*\}|\[[^\[\];]*\]|[}\]])?[^{}\[\],;]*")
    while (match := rest.match(cursor.text, cursor.at)) and match.end() > cursor.at:
        cursor.at = match.end()
    return cursor.text[cursor.at : cursor.at + 1] == ","


def _check_together(cursor: Cursor, form: Form, operands: dict[str, Operand]) -> None:
    """Checks for operands that are legal on their own, but not together."""
    packed = [role for role in form.roles if role.packs and isinstance(operands.get(role.name), Vector)]
    if len(packed) > 1:
        cursor.fail(f"{form.opcode} from a vector to a vector", "a 64-bit register on one side", 0)
    size, filled = operands.get("size"), operands.get("filled")
    if isinstance(size, Immediate) and isinstance(filled, Immediate) and filled.value > size.value:
        cursor.fail(f"a copy of {size.value} bytes cannot fill {filled.value}", f"0 to {size.value}", 0)
    first, total = operands.get("first"), operands.get("total")
    if isinstance(first, Immediate) and isinstance(total, Immediate) and _word(first) > _word(total):
        cursor.fail(f"a range whose first part, {first}, is larger than the whole, {total}", f"at most {total}", 0)
    fraction = operands.get("fraction")
    if isinstance(fraction, Immediate) and not 0 < fraction.value <= _ONE:
        cursor.fail(f"a fraction of {fraction} of the accesses", "more than 0.0 and at most 1.0", 0)


_ONE = 0x3F800000  # 1.0 as f32


def _word(constant: Immediate) -> int:
    """The 32 bits of a constant, as an unsigned integer."""
    return constant.value % (1 << 32)


def _written(
    cursor: Cursor, form: Form, operands: dict[str, Operand], starts: dict[str, int], target: Target | None
) -> Form:
    """The form with just the operands that the instruction has; raises IsaError if they do not go together."""
    try:
        narrow = form.written({name: isinstance(operand, Address | Vector) for name, operand in operands.items()})
    except OperandRefused as refused:
        raise IsaError(cursor.text, starts[refused.operand], refused.reason, refused.legal) from None
    if narrow is not form and target is not None and not narrow.supports(target):
        name = tuple(operands)[-1]
        reason = f"'{form.opcode}' with operand {name} is not available on {target}: it needs {narrow.targets}"
        raise IsaError(cursor.text, starts[name], reason, str(narrow.targets))
    if target is not None:
        _check_newer(cursor, form, operands, starts, target)
    return narrow


def _check_newer(
    cursor: Cursor, form: Form, operands: dict[str, Operand], starts: dict[str, int], target: Target
) -> None:
    """Raises IsaError for a constant that only other targets take."""
    for role in form.roles:
        operand = operands.get(role.name)
        for first, targets in role.newer:
            if isinstance(operand, Immediate) and operand.value >= first and target not in targets:
                reason = f"operand {role.name} is {operand.value}, which {target} does not have"
                raise IsaError(cursor.text, starts[role.name], reason, f"0 to {first - 1}, or {targets}")
