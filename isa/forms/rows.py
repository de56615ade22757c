"""How the tables of instructions are written. A row has a name, the choices for each place of the opcode, and the
operands; every combination of choices is one form.

    instruction("shl.{b32,b64}", "d, a, b:32", since="1.0", targets="70+", section="9.7.8.7", time=Time.INTEGER)

says that `shl` takes the types b32 and b64, and that its operands are a destination and two sources, the second of 32
bits whatever the type is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

from isa.forms.record import Access, Form, Role, Shape, Time, version
from isa.fragments.registers import Fragment
from isa.targets import Availability

Qualifiers = tuple[str, ...]
Slots = tuple[tuple[str, ...], ...]
Roles = Callable[[Qualifiers], tuple[Role, ...]]

# Qualifiers that came later than the instructions which have them: (first PTX version, targets). ptxas 13.0.
_LATER = {
    "shared::cta": ("7.8", "70+"),
    "shared::cluster": ("7.8", "90+"),
    "cluster": ("7.8", "90+"),
    "param::entry": ("8.3", "70+"),
    "param::func": ("8.3", "70+"),
    "L2::64B": ("7.4", "75+"),
    "L2::128B": ("7.4", "75+"),
    "L2::256B": ("7.4", "80+"),
    "L2::cache_hint": ("7.4", "80+"),
    "b128": ("8.3", "70+"),
    "acc::f32": ("8.2", "90+"),
}
_LATER_TOGETHER = {("sys", "b128"): "8.4"}  # qualifiers that came together later than each of them. ptxas 13.0.


@dataclass(frozen=True, eq=False)
class Row:
    """One row of a table of instructions.

    Attributes:
        name: the parts of the opcode that come first, in this order, e.g. "tcgen05.ld.red".
        slots: the choices of each qualifier in canonical order, "" where it may be left out.
        roles: operands for a choice of qualifiers, the optional ones included.
        since_ptx, targets, time, section: as in `Form`.
        sequence: slots, by number, whose qualifiers keep their order in a text; ptxas takes the others anywhere.
        narrowed: operand -> targets that have the form with it, where they are fewer.
        later: as in `Form`.
        always: qualifiers that are as old as the row, although they came later elsewhere.
        access, fragment: as in `Form`, for a choice of qualifiers.
        leading: how many slots stand before all others, whatever the order of those is.
        also: a second run of slots whose qualifiers keep their order, as `sequence`.
        deaf: qualifiers that ptxas 13.0 passes over, one or two of them.
        make: makes the record of a form that has more to say than `Form`.
    """

    name: str
    slots: Slots
    roles: Roles
    since_ptx: str
    targets: Availability
    time: Time
    section: str
    sequence: tuple[int, ...] = ()
    narrowed: tuple[tuple[str, Availability], ...] = ()
    access: Callable[[Qualifiers], Access] | None = None
    fragment: Callable[[Qualifiers], Fragment] | None = None
    leading: int = 0
    later: tuple[tuple[Availability, str], ...] = ()
    always: tuple[str, ...] = ()
    also: tuple[int, ...] = ()
    deaf: tuple[str, ...] = ()
    make: Callable[[Form], Form] | None = None

    def spellings(self) -> Iterator[str]:
        """Every canonical opcode of the row."""
        for choice in product(*self.slots):
            yield joined(self.name, choice)

    def forms(self) -> Iterator[Form]:
        """Every form of the row."""
        for choice in product(*self.slots):
            yield row_form(self, choice)


@lru_cache(maxsize=8192)
def row_form(row: Row, choice: Qualifiers) -> Form:
    """The form of a row for one choice in each slot; the same choice always gives the same object."""
    qualifiers = tuple(q for q in choice if q)
    opcode = joined(row.name, qualifiers)
    since, targets = row.since_ptx, row.targets
    for qualifier in qualifiers:
        if qualifier in _LATER and qualifier not in row.always:
            later, some = _LATER[qualifier]
            since, targets = max(since, later, key=version), targets.both(Availability(some))
    for together, later in _LATER_TOGETHER.items():
        if set(together) <= set(qualifiers):
            since = max(since, later, key=version)
    form = Form(
        opcode=opcode,
        name=row.name,
        qualifiers=qualifiers,
        roles=row.roles(qualifiers),
        since_ptx=since,
        targets=targets,
        section=f"PTX ISA 9.0, {row.section}",
        time=row.time,
        access=row.access(qualifiers) if row.access else None,
        fragment=row.fragment(qualifiers) if row.fragment else None,
        narrowed=row.narrowed,
        later=row.later,
    )
    return row.make(form) if row.make is not None else form


def joined(name: str, qualifiers: Qualifiers) -> str:
    """Joins a name and its qualifiers into an opcode; empty qualifiers are left out."""
    return ".".join((name, *(q for q in qualifiers if q)))


def instruction(
    syntax: str,
    roles: str | Roles,
    *,
    since: str,
    targets: str,
    section: str,
    time: Time,
    name: str = "",
    any_order: bool = False,
    access: Callable[[Qualifiers], Access] | None = None,
    fragment: Callable[[Qualifiers], Fragment] | None = None,
) -> Row:
    """Makes a row from the syntax of its opcode.

    Args:
        syntax: `.{a,b}` stands for one of these, `{.a,.b}` for one of these or nothing, `.a{::b}` for .a or .a::b.
        roles: operands as `operands` reads them, or a function of the qualifiers.
        name: the parts of the opcode that come first, where it is more than one.
        any_order: whether ptxas takes the qualifiers in any order.
    """
    name = name or syntax.split(".", 1)[0].split("{", 1)[0]
    assert syntax.startswith(name), syntax
    slots = _slots(syntax[len(name) :])
    sequence = () if any_order else tuple(range(len(slots)))
    described = operands(roles) if isinstance(roles, str) else roles
    return Row(name, slots, described, since, Availability(targets), time, section, sequence, (), access, fragment)


_SLOT = re.compile(r"\.\{([^}]*)\}|\{\.([^}]*)\}|\.([\w:]+)(?:\{(::\w+)\})?")


def _slots(syntax: str) -> Slots:
    slots: list[tuple[str, ...]] = []
    position = 0
    while position < len(syntax):
        match = _SLOT.match(syntax, position)
        assert match is not None, syntax[position:]
        choice, optional, fixed, suffix = match.groups()
        if choice is not None:
            slots.append(tuple(choice.split(",")))
        elif optional is not None:
            slots.append(("", *optional.split(",.")))
        else:
            slots.append((fixed, fixed + suffix) if suffix else (fixed,))
        position = match.end()
    return tuple(slots)


# Operands in words


def operands(text: str) -> Roles:
    """Makes the roles of operands from a list such as "d, a, b:32, table:imm8".

    `d` is a destination and everything else a source, of the type of the opcode. Behind a colon: a width
    ("b:32", "c:pred"), "imm" (a constant), "imm8" (one of 8
    bits), "pair" (%r0|%p0) or "register or pair".

    "bits" (any 32 bits: %r0, %f0, 7, 0f3F800000), "discarded bits" (a destination that may be `_`), "float" (32 bits,
    and constants such as 1.0), "u32" (%r0 or 7) and "u8" (%r0, or a constant below 256) hold names of registers to what
    nvcc means by them."""
    parts = [part.strip().partition(":") for part in text.split(",")] if text else []
    return lambda qualifiers: tuple(_role(name, kind, qualifiers) for name, _, kind in parts)


def _role(name: str, kind: str, qualifiers: Qualifiers) -> Role:
    if kind == "pair":
        return Role(name, Shape.PAIR, output=True, widths=(32,))
    if kind == "register or pair":
        return Role(name, Shape.REGISTER_OR_PAIR, output=True, widths=(32,), type="b32")
    if kind in _BY_NAME:
        return replace(
            _BY_NAME[kind], name=name, shape=Shape.REGISTER if name == "d" else Shape.VALUE, output=name == "d"
        )
    if kind.startswith("imm"):
        return Role(name, Shape.IMMEDIATE, constants=("integer",), limit=1 << int(kind[3:]) if kind[3:] else 0)
    said = f"u{kind}" if kind.isdigit() else kind if kind == "pred" else qualifiers[-1]
    return replace(typed_role(name, said), type="") if kind.isdigit() else typed_role(name, said)


_BITS = Role("", Shape.VALUE, constants=("integer", "bits"), widths=(32,), type="b32")
_BY_NAME = {
    "bits": _BITS,
    "discarded bits": replace(_BITS, sink="may"),
    "float": replace(_BITS, constants=("bits", "float")),
    "u32": Role("", Shape.VALUE, constants=("integer",), widths=(32,)),
    "u8": Role("", Shape.VALUE, constants=("integer",), widths=(32,), limit=256),
}


def typed_role(name: str, kind: str) -> Role:
    """The role of an operand of a data type, the destination d or a source: registers as wide as the type and of its
    sort, and the constants that it takes; of predicates also those with a `!`."""
    width, output = type_bits(kind), name == "d"
    constants = () if output else constants_of(kind)
    shape = Shape.REGISTER if not constants else Shape.PREDICATE if kind == "pred" else Shape.VALUE
    return Role(
        name, shape, output=output, constants=constants, width=width, widths=(width,), type=kind
    )  # fmt: skip


def first_of_vectors(roles: Iterable[Role]) -> tuple[Role, ...]:
    """The roles of arithmetic, comparisons and conversions: for an operand of bf16 or bf16x2 ptxas 13.0 takes a vector,
    and keeps its first register."""
    return tuple(replace(role, first=True) if role.type in ("bf16", "bf16x2") else role for role in roles)


def value(name: str, width: int = 32, constants: tuple[str, ...] = ("integer",)) -> Role:
    """The role of a source that is a register or a constant. For a predicate the constant 0 is false, and any other is
    true."""
    return Role(name, Shape.VALUE, constants=constants, width=width)


def policy(qualifiers: Qualifiers) -> tuple[Role, ...]:
    """The last operand of what has `.L2::cache_hint`: a cache policy of 64 bits, which `createpolicy` makes."""
    if "L2::cache_hint" not in qualifiers:
        return ()
    return (Role("policy", Shape.VALUE, constants=("integer",), width=64, widths=(64,)),)


def tmem(name: str, output: bool = False) -> Role:
    """The role of an address in Tensor Memory: `[%r0+4]`."""
    return Role(name, Shape.ADDRESS, output=output, widths=(32,), type="u32")


def word(
    name: str, *, bits: int = 32, optional: bool = False, limit: int = 0, multiple: int = 1, positive: bool = False
) -> Role:
    """The role of a register of this width, whose name must agree with the width, or of an integer constant."""
    return Role(
        name,
        Shape.VALUE,
        optional=optional,
        limit=limit,
        constants=("integer",),
        multiple=multiple,
        positive=positive,
        widths=(bits,),
    )


_WINDOWS = ("shared", "local", "const", "param")


def address_widths(qualifiers: Qualifiers) -> tuple[int, ...]:
    """The widths of the registers that may hold an address: of a generic or global one not 32, which ptxas 13.0 takes
    for a program of 32 bits ("32-bit compilation is no longer supported"), although it takes 16."""
    windowed = any(q.split("::", 1)[0] in _WINDOWS for q in qualifiers)
    return (16, 32, 64) if windowed else (16, 64)


def shared_address(name: str, generic: bool = False) -> Role:
    """The role of an address in shared memory; a generic address takes 64 bits."""
    return Role(name, Shape.ADDRESS, widths=(16, 64) if generic else (16, 32, 64), variables=True)


def matrix_address(qualifiers: Qualifiers) -> Role:
    """The role of the address of a row of ldmatrix or stmatrix; a generic address takes no 16 bits."""
    named = any(q.startswith("shared") for q in qualifiers)
    widths = (16, 32, 64) if named else (32, 64)
    return Role("address", Shape.ADDRESS, widths=widths, variables=True, special=True)


def anywhere(name: str) -> Role:
    """The role of an address in shared memory in tcgen05 instructions, which take 32 or 64 bits whether it is generic
    or not."""
    return Role(name, Shape.ADDRESS, widths=(32, 64), variables=True)


def type_bits(type_name: str) -> int:
    """The width of a register that holds this type. Types below 32 bits are in 32-bit registers, except in moves and
    conversions."""
    return _TYPE_BITS.get(type_name) or int(type_name[1:])


_TYPE_BITS = {
    "pred": 1, "bf16": 16, "f16x2": 32, "bf16x2": 32,
    **{f"{kind}{count}": bits for kind in ("e4m3", "e5m2") for count, bits in (("", 8), ("x2", 16), ("x4", 32))},
}  # fmt: skip


def constants_of(type_name: str) -> tuple[str, ...]:
    """Which constants may stand for a register of this type, by ptxas 13.0: 1.0 for f32, f64 and b64, 0f3F800000 for
    f32, f64 and b32; none for f16, bf16 and pairs; integers for all others, predicates included."""
    return _CONSTANTS.get(type_name, ("integer",))


_CONSTANTS = {
    "f32": ("bits", "float"), "f64": ("double", "float"), "b32": ("integer", "bits"),
    "b64": ("integer", "double", "decimal"),
    **dict.fromkeys(("f16", "bf16", "f16x2", "bf16x2", "u16x2", "s16x2", "f32x2"), ()),
}  # fmt: skip


def stored_constants(qualifiers: Qualifiers) -> tuple[str, ...]:
    """Which constants a store takes: alone those of its type; beside registers in a vector of integers or of no sort
    any, of which ptxas 13.0 keeps the bits, or the low word of the f64."""
    kind = qualifiers[-1]
    if not {"v2", "v4", "v8"} & set(qualifiers) or kind in ("f32", "f64"):
        return constants_of(kind)
    return ("integer", "bits", "double", "decimal") if type_bits(kind) == 64 else ("integer", "bits", "low word")
