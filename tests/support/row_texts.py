"""Legal texts of instructions, made from the rows of the tables: for round trips, and to ask ptxas about each."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import isa
from isa.forms.record import Form, Role, Shape
from isa.forms.rows import Row, row_form

Chooser = Callable[[int], int]
_PREFIX = {1: "%p", 8: "%b", 16: "%rs", 32: "%r", 64: "%rd", 128: "%rq"}


def operand_text(role: Role, choose: Chooser, form: Form) -> str:
    """Legal text for one operand; `choose(n)` gives a number below n."""
    prefix = _PREFIX[_width(role, choose)]
    if role.width == 64 and isinstance(form, isa.MmaForm):
        prefix = f"%{'fr'[choose(2)]}d"
    register = f"{prefix}{choose(200)}"
    match role.shape:
        case Shape.VECTOR if role.choices:
            return "{" + ", ".join(str(legal[choose(len(legal))]) for legal in role.choices) + "}"
        case Shape.VECTOR:
            return "{" + ", ".join(f"{prefix}{choose(200)}" for _ in range(role.count)) + "}"
        case Shape.TENSOR:
            parts = [f"%r{choose(200)}" if choose(4) else str(choose(1000)) for _ in range(role.count)]
            return f"[{register}, {{{', '.join(parts)}}}]"
        case Shape.ADDRESS:
            return f"[{register}]" if choose(2) else f"[{register}+{16 * choose(64)}]"
        case Shape.IMMEDIATE if role.choices:
            return str(role.choices[0][choose(len(role.choices[0]))])
        case Shape.IMMEDIATE:
            return str(choose(role.limit or 256) * role.multiple)
        case Shape.SCALAR if role.packs and role.output and role.width > 16 and choose(2):
            half = {128: "%rd", 64: "%r", 32: "%rs"}[role.width]
            return f"{{{half}{choose(200)}, {half}{choose(200)}}}"
        case Shape.REGISTER | Shape.SCALAR:
            return register
        case Shape.REGISTER_OR_PAIR:
            return f"{register}|%p{choose(200)}" if choose(2) else register
        case Shape.PAIR:
            return f"{register if choose(2) else '_'}|%p{choose(200)}"
        case Shape.PREDICATE:
            return [register, f"!{register}"][choose(2)]
    if "bar" in form.opcode:
        return str(choose(role.limit)) if role.limit else str(32 * (1 + choose(32)))
    if role.name == "fraction":
        return [register, f"0f{1 + choose(0x3F800000):08X}"][choose(2)]
    if role.name == "first":
        return [register, str(choose(99))][choose(2)]
    if role.name == "total":
        return [register, str(99 + choose(99))][choose(2)]  # not below the first part
    if role.name == "filled":
        return [register, str(choose(5))][choose(2)]  # of a copy of 4 bytes, too
    if role.limit or role.multiple > 1:
        return [register, str(choose(role.limit) if role.limit else role.multiple * choose(64))][choose(2)]
    return [register, *_constants(role, choose)][choose(1 + len(_constants(role, lambda n: 0)))]


def _width(role: Role, choose: Chooser) -> int:
    """The width of the registers that stand for a role: one of those that it is held to, where the text says."""
    widths = role.widths or (role.width,)
    return widths[choose(len(widths))] if len(widths) > 1 else widths[0]


def _constants(role: Role, choose: Chooser) -> list[str]:
    constants = [f"0f{choose(2**32):08X}"] if "bits" in role.constants else []
    if "double" in role.constants:
        constants.append(f"0d{choose(2**62):016X}")
    if "integer" in role.constants:
        constants += [str(choose(1000)), str(-choose(1000)), hex(choose(2**32))]
    return constants


def operand_texts(form: Form, choose: Chooser, target: isa.Target | None = None) -> list[str]:
    """Legal texts for all operands of a form; optional ones may be left out, and those that the target lacks are."""
    lacking = {name for name, limit in form.narrowed if target is not None and target not in limit}
    roles = [role for role in form.roles if not (role.optional and (role.name in lacking or choose(2)))]
    lax = getattr(form, "lax_selectors", 0)
    return [
        operand_text(replace(role, limit=role.limit - lax) if role.name == "f" else role, choose, form)
        for role in roles
    ]


def legal_text(form: Form, choose: Chooser, target: isa.Target | None = None) -> str:
    """A legal instruction of this form."""
    return f"{form.opcode} {', '.join(operand_texts(form, choose, target))}".rstrip() + ";"


def sampled_forms(row: Row, generator: random.Random, repeats: int = 1) -> list[Form]:
    """Forms of a row in which each choice of each slot occurs `repeats` times at least, the others by chance."""
    forms: dict[str, Form] = {}
    for place, slot in enumerate(row.slots or ((),)):
        for wanted in slot or ("",):
            for _ in range(repeats):
                choice = [generator.choice(other) for other in row.slots]
                if slot:
                    choice[place] = wanted
                form = row_form(row, tuple(choice))
                forms[form.opcode] = form
    return list(forms.values())
