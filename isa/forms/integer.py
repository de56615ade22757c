"""The table of integer arithmetic, logic and comparison of single threads, beyond what `isa.forms.scalar` has.

PTX ISA 9.0, 9.7.1 (integers), 9.7.2 (extended precision), 9.7.6 and 9.7.7 (comparison and selection), 9.7.8 (logic and
shifts), 9.7.9.3 (moves), 9.7.9.21 (conversions), 9.7.18 (video instructions).
"""

from __future__ import annotations

from dataclasses import replace

from isa.forms.record import Role, Shape, Time
from isa.forms.rows import Qualifiers, Roles, Row, constants_of, first_of_vectors, instruction

_BITS = {"pred": 1, "s16x2": 32, "u16x2": 32, "f16x2": 32, "bf16x2": 32, "bf16": 16, "f16": 16}
_16, _32, _64 = "u16,s16", "u32,s32", "u64,s64"
_ALL = f"{_16},{_32},{_64}"


def bits_of(kind: str) -> int:
    """The width of a register of a data type; types of 8 bits are in registers of 16 bits or more."""
    return max(_BITS.get(kind) or int(kind[1:]), 1)


def source(name: str, kind: str, *, optional: bool = False) -> Role:
    """The role of a source: a register as wide as the type, or a constant of it. Of the type "byte" it is a register of
    32 bits or a constant below 256."""
    if kind == "byte":
        return replace(source(name, "u32"), limit=256)
    constants = constants_of(kind)
    shape = Shape.REGISTER if not constants else Shape.PREDICATE if kind == "pred" else Shape.VALUE
    bits = bits_of(kind)
    return Role(
        name, shape, optional=optional, constants=constants, width=bits, widths=(bits,), type=kind
    )  # fmt: skip


def target(name: str, kind: str, sink: str = "") -> Role:
    """The role of a destination."""
    bits = bits_of(kind)
    return Role(name, Shape.REGISTER, output=True, width=bits, widths=(bits,), type=kind, sink=sink)


def typed(text: str) -> Roles:
    """The roles of a list such as "d, a, b:u32, c:wide": of the type that stands last in the opcode unless a colon says
    another one, "wide" (twice as wide), "first" (the last type but one) or "byte" (32 bits, constants below
    256)."""
    parts = [part.strip().partition(":") for part in text.split(",")]

    def roles(qualifiers: Qualifiers) -> tuple[Role, ...]:
        return tuple(_said(_role(name, _kind(kind, qualifiers)), kind) for name, _, kind in parts)

    return roles


def _said(role: Role, said: str) -> Role:
    """The role, whose integer type counts for nothing where it is the same whatever the type of the opcode is."""
    return replace(role, type="") if said in ("u32", "s32", "byte") else role


def _kind(said: str, qualifiers: Qualifiers) -> str:
    last = qualifiers[-1]
    match said:
        case "":
            return last
        case "wide":
            return f"{last[0]}{2 * int(last[1:])}"
        case "first":
            return qualifiers[-2]
        case _:
            return said


def _role(name: str, kind: str) -> Role:
    return target(name, kind) if name == "d" else source(name, kind)


def _row(
    syntax: str, roles: str | Roles, section: str, time: Time = Time.INTEGER, since: str = "1.0", targets: str = "70+",
    leading: int = 0,
) -> Row:  # fmt: skip
    described = typed(roles) if isinstance(roles, str) else roles
    row = instruction(syntax, described, since=since, targets=targets, section=section, time=time, any_order=True)
    return replace(row, leading=leading)


# Comparisons

ORDERS = {
    "b": "eq,ne",
    "s": "eq,ne,lt,le,gt,ge",
    "u": "eq,ne,lt,le,gt,ge,lo,ls,hi,hs",
    "f": "eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan",
}
COMBINATIONS = ("and", "or", "xor")
_BOOL = "{.and,.or,.xor}"
_COMPARED = (
    ("b", _BOOL, "b16,b32,b64", "1.0", "70+"),
    ("s", _BOOL, "s16,s32,s64", "1.0", "70+"),
    ("u", _BOOL, "u16,u32,u64", "1.0", "70+"),
    ("f", _BOOL + "{.ftz}", "f32", "1.0", "70+"),
    ("f", _BOOL, "f64", "1.0", "70+"),
    ("f", _BOOL + "{.ftz}", "f16,f16x2", "4.2", "70+"),
    ("f", _BOOL, "bf16,bf16x2", "7.8", "90+"),
)


def _combined(qualifiers: Qualifiers) -> tuple[Role, ...]:
    """The third operand, a predicate that the result is combined with; beside bf16 it is no constant."""
    if not set(qualifiers) & set(COMBINATIONS):
        return ()
    constants = () if any(q.startswith("bf16") for q in qualifiers) else ("integer",)
    return (Role("c", Shape.PREDICATE, constants=constants, width=1, widths=(1,)),)


def _setp(qualifiers: Qualifiers) -> tuple[Role, ...]:
    kind = qualifiers[-1]
    shape = Shape.REGISTER if kind in ("f16", "bf16") else Shape.REGISTER_OR_PAIR
    d = Role("d", shape, output=True, width=1, widths=(1,), sink="may")
    return first_of_vectors((d, source("a", kind), source("b", kind), *_combined(qualifiers)))


def _set(qualifiers: Qualifiers) -> tuple[Role, ...]:
    d, kind = qualifiers[-2], qualifiers[-1]
    written, *read = first_of_vectors((target("d", d), source("a", kind), source("b", kind)))
    # ptxas 13.0 takes any integer for a result of bf16, and anything for one of bf16x2
    written = replace(written, type={"bf16": "u16", "bf16x2": "b32"}.get(d, d))
    return written, *read, *_combined(qualifiers)


def _setp_rows() -> tuple[Row, ...]:
    return tuple(
        _row(f"setp.{{{ORDERS[sort]}}}{extra}.{{{kinds}}}", _setp, "9.7.6.2", since=since, targets=targets)
        for sort, extra, kinds, since, targets in _COMPARED
    )


def _set_rows() -> tuple[Row, ...]:
    """The rows of set; PTX ISA 9.0, 9.7.6.1 and 9.7.7.1. A result of bf16 goes with all types but pairs."""
    rows = []
    for sort, extra, kinds, since, targets in _COMPARED:
        for kind in kinds.split(","):
            results = _RESULTS.get(kind, "f16,u32,s32,f32")
            rows.append(_set_row(f"set.{{{ORDERS[sort]}}}{extra}.{{{results}}}.{kind}", since, targets))
            if kind not in _RESULTS or kind == "f16":
                plain = extra.replace("{.ftz}", "")
                rows.append(_set_row(f"set.{{{ORDERS[sort]}}}{plain}.bf16.{kind}", "7.8", "90+"))
    return tuple(rows)


_RESULTS = {
    "f16": "f16,u16,s16,u32,s32", "f16x2": "u32,s32,f16x2", "bf16": "u16,s16,u32,s32,bf16", "bf16x2": "u32,s32,bf16x2",
}  # fmt: skip


def _set_row(syntax: str, since: str, targets: str) -> Row:
    return _sequence(_row(syntax, _set, "9.7.6.1", since=since, targets=targets), -2, -1)


# Moves


def _packed(kind: str, output: bool, name: str) -> Role:
    bits = bits_of(kind)
    constants = () if output else constants_of(kind)
    role = Role(
        name,
        Shape.SCALAR,
        output=output,
        constants=constants,
        width=bits,
        packs=bits > 16,
        special=not output,
        sink="part" if output else "",
        widths=(bits,),
        type=kind,
    )
    of_halves = replace(role, constants=("integer", "double", "decimal"))
    return replace(role, braced=of_halves) if bits == 128 and not output else role


def _mov_packed(qualifiers: Qualifiers) -> tuple[Role, ...]:
    kind = qualifiers[-1]
    return _packed(kind, True, "d"), _packed(kind, False, "a")


def _lop3_predicate(qualifiers: Qualifiers) -> tuple[Role, ...]:
    d = Role("d", Shape.PAIR, output=True, widths=(32,), type="b32")
    sources = tuple(source(name, "b32") for name in "abc")
    table = Role("table", Shape.IMMEDIATE, constants=("integer",), limit=0)
    q = Role("q", Shape.PREDICATE, constants=("integer",), width=1, widths=(1,))
    return d, *sources, table, q


def _video(qualifiers: Qualifiers) -> tuple[Role, ...]:
    """The operands of vadd4 and its like: two of them packed in registers of 32 bits, and an addend or a second value
    that keeps what is not written."""
    return target("d", "u32"), *(replace(source(name, "u32"), shape=Shape.REGISTER, constants=()) for name in "abc")


def _pack(qualifiers: Qualifiers) -> tuple[Role, ...]:
    """The operands of cvt.pack, which may lie in wider registers, as those of other conversions."""
    third = (source("c", "b32"),) if qualifiers[-1] == "b32" else ()
    roles = target("d", "u32"), source("a", "s32"), source("b", "s32"), *third
    return tuple(replace(role, widths=(32, 64)) for role in roles)


def _sequence(row: Row, *slots: int) -> Row:
    """A row some of whose slots keep their order: those from the end, -1 being the last."""
    return replace(row, sequence=tuple(len(row.slots) + slot for slot in sorted(slots)))


_INTEGERS = tuple(f"{sign}{bits}" for bits in (8, 16, 32, 64) for sign in "us")


def _integer_conversions() -> tuple[Row, ...]:
    """The rows of cvt between integers; `.sat` is for those whose source has values that the destination lacks."""
    whole = ",".join(_INTEGERS)
    rows = [_row(f"cvt.{{{whole}}}.{{{whole}}}", _convert, "9.7.9.21")]
    for d in _INTEGERS:
        beyond = [a for a in _INTEGERS if not _holds(d, a)]
        if beyond:
            rows.append(_row(f"cvt.sat.{d}.{{{','.join(beyond)}}}", _convert, "9.7.9.21"))
    return tuple(_sequence(row, -2, -1) for row in rows)


def _holds(wide: str, narrow: str) -> bool:
    """Whether an integer type has all values of another."""
    if wide[0] == narrow[0]:
        return int(wide[1:]) >= int(narrow[1:])
    return wide[0] == "s" and int(wide[1:]) > int(narrow[1:])


def _convert(qualifiers: Qualifiers) -> tuple[Role, ...]:
    """cvt between integers: registers as wide as the types, or wider (PTX ISA 9.0, 9.4.1)."""
    roles = []
    for name, kind in (("d", qualifiers[-2]), ("a", qualifiers[-1])):
        bits = int(kind[1:])
        widths = tuple(width for width in (16, 32, 64) if width >= bits)
        shape, constants = (Shape.REGISTER, ()) if name == "d" else (Shape.VALUE, ("integer",))
        roles.append(
            Role(
                name,
                shape,
                output=name == "d",
                constants=constants,
                width=max(bits, 16),
                widths=widths,
                special=name == "a",
                type=kind,
            )
        )
    return tuple(roles)


# What traces have, too
PLAIN_INTEGER_ROWS: tuple[Row, ...] = (
    *_setp_rows(),
    _row("mov.{b16,b32,b64}", _mov_packed, "9.7.9.4", Time.EITHER),
    *_integer_conversions(),
)

INTEGER_ROWS: tuple[Row, ...] = (
    _row("add.{u16,s16}", "d, a, b", "9.7.1.1", Time.EITHER),
    _row("sub.{u16,s16}", "d, a, b", "9.7.1.2", Time.EITHER),
    _row("add.{u16x2,s16x2}", "d, a, b", "9.7.1.1", Time.EITHER, "8.0", "90+"),
    _row("add.sat.s32", "d, a, b", "9.7.1.1"),
    _row("sub.sat.s32", "d, a, b", "9.7.1.2"),
    _row(f"mul.hi.{{{_ALL}}}", "d, a, b", "9.7.1.3", Time.MULTIPLY, leading=1),
    _row(f"mul.lo.{{{_16},{_64}}}", "d, a, b", "9.7.1.3", Time.MULTIPLY, leading=1),
    _row("mul.wide.{u16,s16}", "d:wide, a, b", "9.7.1.3", Time.MULTIPLY, leading=1),
    _row(f"mad.hi.{{{_ALL}}}", "d, a, b, c", "9.7.1.4", Time.MULTIPLY, leading=1),
    _row(f"mad.lo.{{{_16},{_64}}}", "d, a, b, c", "9.7.1.4", Time.MULTIPLY, leading=1),
    _row("mad.hi.sat.s32", "d, a, b, c", "9.7.1.4", Time.MULTIPLY, leading=1),
    _row(f"mad.wide.{{{_16},{_32}}}", "d:wide, a, b, c:wide", "9.7.1.4", Time.MULTIPLY, leading=1),
    _row("mul24.{hi,lo}.{u32,s32}", "d, a, b", "9.7.1.5", Time.MULTIPLY, leading=1),
    _row("mad24.{hi,lo}.{u32,s32}", "d, a, b, c", "9.7.1.6", Time.MULTIPLY, leading=1),
    _row("mad24.hi.sat.s32", "d, a, b, c", "9.7.1.6", Time.MULTIPLY, leading=1),
    _row(f"sad.{{{_ALL}}}", "d, a, b, c", "9.7.1.7"),
    _row(f"div.{{{_ALL}}}", "d, a, b", "9.7.1.8", Time.MULTIPLY),
    _row(f"rem.{{{_ALL}}}", "d, a, b", "9.7.1.9", Time.MULTIPLY),
    _row("abs.{s16,s32,s64}", "d, a", "9.7.1.10"),
    _row("neg.{s16,s32,s64}", "d, a", "9.7.1.11", Time.EITHER),
    _row(f"min.{{{_ALL}}}", "d, a, b", "9.7.1.12"),
    _row(f"max.{{{_ALL}}}", "d, a, b", "9.7.1.13"),
    _row("min{.relu}.{s32,s16x2}", "d, a, b", "9.7.1.12", since="8.0", targets="90+"),
    _row("max{.relu}.{s32,s16x2}", "d, a, b", "9.7.1.13", since="8.0", targets="90+"),
    _row("min.u16x2", "d, a, b", "9.7.1.12", since="8.0", targets="90+"),
    _row("max.u16x2", "d, a, b", "9.7.1.13", since="8.0", targets="90+"),
    _row("popc.{b32,b64}", "d:u32, a", "9.7.1.14", since="2.0"),
    _row("clz.{b32,b64}", "d:u32, a", "9.7.1.15", since="2.0"),
    _row("bfind{.shiftamt}.{u32,u64,s32,s64}", "d:u32, a", "9.7.1.16", since="2.0"),
    _row("fns.b32", "d:b32, a, b, c:b32", "9.7.1.17", since="6.0"),
    _row("brev.{b32,b64}", "d, a", "9.7.1.18", since="2.0"),
    _row("bfe.{u32,u64,s32,s64}", "d, a, b:byte, c:byte", "9.7.1.19", since="2.0"),
    _row("bfi.b64", "d, a, b, position:byte, length:byte", "9.7.1.20", since="2.0"),
    _row("szext.{clamp,wrap}.{u32,s32}", "d, a, b:u32", "9.7.1.21", since="7.6"),
    _row("bmsk.{clamp,wrap}.b32", "d:u32, a:u32, b:u32", "9.7.1.22", since="7.6"),
    _sequence(_row("dp4a.{u32,s32}.{u32,s32}", "d:u32, a:first, b, c:u32", "9.7.1.23", Time.MULTIPLY, "5.0"), -2, -1),
    _sequence(
        _row("dp2a.{lo,hi}.{u32,s32}.{u32,s32}", "d:u32, a:first, b, c:u32", "9.7.1.24", Time.MULTIPLY, "5.0",
             leading=1),
        -2, -1,
    ),
    _row("add.cc.{u32,s32,u64,s64}", "d, a, b", "9.7.2.1"),
    _row("addc{.cc}.{u32,s32,u64,s64}", "d, a, b", "9.7.2.2"),
    _row("sub.cc.{u32,s32,u64,s64}", "d, a, b", "9.7.2.3"),
    _row("subc{.cc}.{u32,s32,u64,s64}", "d, a, b", "9.7.2.4"),
    _row("mad.{hi,lo}.cc.{u32,s32,u64,s64}", "d, a, b, c", "9.7.2.5", Time.MULTIPLY, "3.0", leading=1),
    _row("madc.{hi,lo}{.cc}.{u32,s32,u64,s64}", "d, a, b, c", "9.7.2.6", Time.MULTIPLY, "3.0", leading=1),
    *_set_rows(),
    _row("selp.{b16,u16,s16,f32,f64}", "d, a, b, c:pred", "9.7.6.3"),
    _row(
        "slct.{b16,u16,s16,b32,u32,s32,b64,u64,s64,f32,f64}.s32", "d:first, a:first, b:first, c", "9.7.6.4"
    ),
    _row(
        "slct{.ftz}.{b16,u16,s16,b32,u32,s32,b64,u64,s64,f32,f64}.f32", "d:first, a:first, b:first, c:f32", "9.7.6.4"
    ),
    _row("and.b16", "d, a, b", "9.7.8.1"),
    _row("or.b16", "d, a, b", "9.7.8.2"),
    _row("xor.b16", "d, a, b", "9.7.8.3"),
    _row("not.b16", "d, a", "9.7.8.4"),
    _row("cnot.{b16,b32,b64}", "d, a", "9.7.8.5"),
    _row("lop3.{or,and}.b32", _lop3_predicate, "9.7.8.6", since="8.2"),
    _row("shl.b16", "d, a, b:u32", "9.7.8.7"),
    _row("shr.{b16,u16,s16}", "d, a, b:u32", "9.7.8.8"),
    _row("shf.{l,r}.{clamp,wrap}.b32", "d, a, b, c:u32", "9.7.8.9", since="3.1", leading=1),
    _row("prmt.b32", "d, a, b, c", "9.7.9.7", since="2.0"),
    *(_row(f"prmt.b32.{mode}", lambda _: typed("d, a, b, c")(("b32",)), "9.7.9.7", since="2.0")
      for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")),
    _row("mov.f64", "d, a", "9.7.9.3", Time.EITHER),
    _row("mov.b128", _mov_packed, "9.7.9.4", Time.EITHER),
    _sequence(_row("cvt.pack.sat.{u16,s16}.s32", _pack, "9.7.9.22", since="6.5", targets="72+", leading=1), -2, -1),
    _sequence(
        _row("cvt.pack.sat.{u8,s8,u4,s4,u2,s2}.s32.b32", _pack, "9.7.9.22", since="6.5", targets="72+",
             leading=1),
        -3, -2, -1,
    ),
    *(
        _sequence(
            _row(f"{name}.{{u32,s32}}.{{u32,s32}}.{{u32,s32}}{{.sat,.add}}", _video, "9.7.18", since="3.0"), -4, -3, -2
        )
        for name in ("vadd2", "vsub2", "vadd4", "vsub4", "vmin4", "vmax4", "vabsdiff4", "vavrg4", "vmin2", "vmax2",
                     "vabsdiff2", "vavrg2")
    ),
)  # fmt: skip
