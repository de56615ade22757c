"""Forms of the instructions around the matrix ones: loads, stores, copies, moves, integer arithmetic, comparisons,
barriers.

A row lists the qualifiers that may stand in each place; every combination is one form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from isa.forms.record import Access, Form, Role, Shape, Space, Time
from isa.fragments.registers import ldmatrix_fragment
from isa.targets import Availability
from isa.types import ELEMENT_TYPES

SPECIAL_REGISTERS = ("%laneid", "%warpid", "%nwarpid", "%tid.x", "%ntid.x")
BARRIERS = 16  # named barriers of a CTA; PTX ISA 9.0, 9.7.13.1 (bar)

_SHARED = ("shared", "shared::cta")
_PREFETCH = ("", "L2::64B", "L2::128B", "L2::256B")
_VECTOR = ("", "v2", "v4")
_WORDS = ("b32", "u32", "s32", "f32")
_NARROW = ("b16", "u16", "s16", "b8", "u8", "s8")
_INTEGER = ("s32", "u32")
_WIDE = ("b64", "u64", "s64")
_WIDE_INTEGER = ("s64", "u64")
_HALF = ("b16", "u16", "s16")
_PRED = "pred"
_ORDERS = {
    "b": ("eq", "ne"),
    "s": ("eq", "ne", "lt", "le", "gt", "ge"),
    "u": ("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"),
}


@dataclass(frozen=True, kw_only=True)
class PlainForm(Form):
    """An instruction that multiplies no matrices."""

    __hash__ = Form.__hash__


@dataclass(frozen=True)
class PlainRow:
    """One row of the table: a name, the choices of each qualifier in order ("" where it may be left out), and the
    operands."""

    name: str
    choices: tuple[tuple[str, ...], ...]
    roles: Callable[[tuple[str, ...]], tuple[Role, ...]]
    time: Time
    since_ptx: str
    since_target: int
    section: str


def _count(qualifiers: tuple[str, ...]) -> int:
    """Registers of the vector operand, from .xN or .vN."""
    return next((int(q[1:]) for q in qualifiers if q in ("x1", "x2", "x4", "v2", "v4")), 1)


def _shape(count: int) -> Shape:
    return Shape.SCALAR if count == 1 else Shape.VECTOR


def _constants(type_name: str) -> tuple[str, ...]:
    """What constants a move or store of this type takes, as ptxas 13.0 has it: 1.0 for f32 alone, 0f3F800000 for b32
    too."""
    return {"f32": ("bits", "float"), "b32": ("integer", "bits"), "b64": ("integer", "double")}.get(
        type_name, ("integer",)
    )


def _ldmatrix(qualifiers: tuple[str, ...]) -> tuple[Role, ...]:
    return Role("d", Shape.VECTOR, _count(qualifiers), output=True), Role("address", Shape.ADDRESS)


def _bits(type_name: str) -> int:
    """Bits of a register that holds this type; types below 32 bits are in registers of 32, but for moves and
    conversions."""
    return 1 if type_name == _PRED else int(type_name[1:])


def _load(qualifiers: tuple[str, ...]) -> tuple[Role, ...]:
    count = _count(qualifiers)
    return Role("d", _shape(count), count, output=True, width=max(_bits(qualifiers[-1]), 32)), Role(
        "address", Shape.ADDRESS
    )


def _store(qualifiers: tuple[str, ...]) -> tuple[Role, ...]:
    count, width = _count(qualifiers), max(_bits(qualifiers[-1]), 32)
    return Role("address", Shape.ADDRESS), Role(
        "a", _shape(count), count, constants=_constants(qualifiers[-1]), width=width
    )


def _far(roles: tuple[Role, ...]) -> tuple[Role, ...]:
    """The same with an address of 64 bits: ptxas 13.0 takes no other for global memory from sm_90 on."""
    return tuple(Role("address", Shape.ADDRESS, width=64) if role.shape is Shape.ADDRESS else role for role in roles)


def _copy(qualifiers: tuple[str, ...]) -> tuple[Role, ...]:
    """Of `size` bytes the first `filled` are copied and the rest is zero, if it is given."""
    sizes = (16,) if qualifiers[1] == "cg" else (4, 8, 16)
    size = Role("size", Shape.IMMEDIATE, constants=("integer",), choices=(sizes,))
    return (
        Role("to", Shape.ADDRESS),
        Role("from", Shape.ADDRESS),
        size,
        Role("filled", Shape.VALUE, optional=True, constants=("integer",), limit=17),
    )


def _bulk(_: tuple[str, ...]) -> tuple[Role, ...]:
    size = Role("size", Shape.VALUE, constants=("integer",), multiple=16)
    return (
        Role("to", Shape.ADDRESS),
        Role("from", Shape.ADDRESS, width=64),
        size,
        Role("mbarrier", Shape.ADDRESS),
    )  # likewise


def _groups(_: tuple[str, ...]) -> tuple[Role, ...]:
    return (Role("groups", Shape.IMMEDIATE, constants=("integer",), limit=1 << 32),)


def _move(qualifiers: tuple[str, ...]) -> tuple[Role, ...]:
    kind, width = qualifiers[-1], _bits(qualifiers[-1])
    special = kind != "f32" and width == 32
    if kind == "b64":
        target = Role("d", Shape.SCALAR, output=True, width=64, packs=True)
        return target, Role("a", Shape.SCALAR, constants=_constants(kind), width=64, packs=True)
    return Role("d", Shape.REGISTER, output=True, width=width), Role(
        "a", Shape.VALUE, constants=_constants(kind), special=special, width=width
    )


def _typed(name: str, width: int = 32, constants: tuple[str, ...] = ("integer",)) -> Role:
    """A source: a register or a constant; for a predicate 0 is false, and any other true."""
    return Role(name, Shape.VALUE, constants=constants, width=width)


def _arithmetic(*sources: str) -> Callable[[tuple[str, ...]], tuple[Role, ...]]:
    """d and these sources, all of the type's width."""

    def roles(qualifiers: tuple[str, ...]) -> tuple[Role, ...]:
        width = _bits(qualifiers[-1])
        return Role("d", Shape.REGISTER, output=True, width=width), *(_typed(name, width) for name in sources)

    return roles


def _shift(qualifiers: tuple[str, ...]) -> tuple[Role, ...]:
    """The amount has 32 bits, whatever is shifted. PTX ISA 9.0, 9.7.8.7."""
    width = _bits(qualifiers[-1])
    return Role("d", Shape.REGISTER, output=True, width=width), _typed("a", width), _typed("b")


def _widening(_: tuple[str, ...]) -> tuple[Role, ...]:
    return Role("d", Shape.REGISTER, output=True, width=64), _typed("a"), _typed("b")


def _compare(qualifiers: tuple[str, ...]) -> tuple[Role, ...]:
    width, constants = _bits(qualifiers[-1]), _constants(qualifiers[-1])
    return Role("d", Shape.REGISTER, output=True, width=1), _typed("a", width, constants), _typed("b", width, constants)


def _select(qualifiers: tuple[str, ...]) -> tuple[Role, ...]:
    width, constants = _bits(qualifiers[-1]), _constants(qualifiers[-1])
    return (
        Role("d", Shape.REGISTER, output=True, width=width),
        _typed("a", width, constants),
        _typed("b", width, constants),
        _typed("c", 1),
    )


def _convert(qualifiers: tuple[str, ...]) -> tuple[Role, ...]:
    to, kind = (_bits(q) for q in qualifiers)
    return Role("d", Shape.REGISTER, output=True, width=to), _typed("a", kind)


def _map(_: tuple[str, ...]) -> tuple[Role, ...]:
    return Role("d", Shape.REGISTER, output=True), _typed("a"), _typed("b")


def _barrier(_: tuple[str, ...]) -> tuple[Role, ...]:
    return Role("a", Shape.VALUE, limit=BARRIERS, constants=("integer",)), Role(
        "b", Shape.VALUE, optional=True, constants=("integer",), multiple=32
    )


def _elect(_: tuple[str, ...]) -> tuple[Role, ...]:
    return Role("d", Shape.PAIR, output=True), _typed("a")


PLAIN_ROWS: tuple[PlainRow, ...] = (
    PlainRow(
        "ldmatrix",
        (("sync",), ("aligned",), ("m8n8",), ("x1", "x2", "x4"), ("", "trans"), _SHARED, ("b16",)),
        _ldmatrix,
        Time.LOAD_MATRIX,
        "6.5",
        75,
        "9.7.14.5.15",
    ),
    PlainRow("ld", (_SHARED, _VECTOR, _WORDS + _NARROW), _load, Time.LOAD, "1.0", 70, "9.7.9.8"),
    PlainRow("ld", (_SHARED, ("", "v2"), _WIDE), _load, Time.LOAD, "1.0", 70, "9.7.9.8"),
    PlainRow("st", (_SHARED, _VECTOR, _WORDS + _NARROW), _store, Time.STORE, "1.0", 70, "9.7.9.11"),
    PlainRow("st", (_SHARED, ("", "v2"), _WIDE), _store, Time.STORE, "1.0", 70, "9.7.9.11"),
    PlainRow(
        "ld",
        (("global",), ("", "ca", "cg"), _VECTOR, _WORDS + _NARROW),
        lambda q: _far(_load(q)),
        Time.LOAD_GLOBAL,
        "1.0",
        70,
        "9.7.9.8",
    ),
    PlainRow(
        "ld",
        (("global",), ("", "ca", "cg"), ("", "v2"), _WIDE),
        lambda q: _far(_load(q)),
        Time.LOAD_GLOBAL,
        "1.0",
        70,
        "9.7.9.8",
    ),
    PlainRow(
        "st",
        (("global",), ("", "wb", "cg"), _VECTOR, _WORDS + _NARROW),
        lambda q: _far(_store(q)),
        Time.STORE_GLOBAL,
        "1.0",
        70,
        "9.7.9.11",
    ),
    PlainRow(
        "st",
        (("global",), ("", "wb", "cg"), ("", "v2"), _WIDE),
        lambda q: _far(_store(q)),
        Time.STORE_GLOBAL,
        "1.0",
        70,
        "9.7.9.11",
    ),
    PlainRow(
        "cp", (("async",), ("ca", "cg"), _SHARED, ("global",), _PREFETCH), _copy, Time.COPY, "7.0", 80, "9.7.9.25.3.1"
    ),
    PlainRow(
        "cp", (("async",), ("commit_group", "wait_all")), lambda _: (), Time.COPY_GROUP, "7.0", 80, "9.7.9.25.3.2"
    ),
    PlainRow("cp", (("async",), ("wait_group",)), _groups, Time.COPY_GROUP, "7.0", 80, "9.7.9.25.3.3"),
    PlainRow(
        "cp",
        (("async",), ("bulk",), ("shared::cluster",), ("global",), ("mbarrier::complete_tx::bytes",)),
        _bulk,
        Time.COPY,
        "8.0",
        90,
        "9.7.9.25.4.1",
    ),
    PlainRow(
        "cp",
        (("async",), ("bulk",), ("shared::cta",), ("global",), ("mbarrier::complete_tx::bytes",)),
        _bulk,
        Time.COPY,
        "8.6",
        90,
        "9.7.9.25.4.1",
    ),
    PlainRow("mov", (_WORDS + _WIDE + _HALF + (_PRED,),), _move, Time.EITHER, "1.0", 70, "9.7.9.3"),
    PlainRow("add", (_INTEGER + _WIDE_INTEGER,), _arithmetic("a", "b"), Time.EITHER, "1.0", 70, "9.7.1.1"),
    PlainRow("sub", (_INTEGER + _WIDE_INTEGER,), _arithmetic("a", "b"), Time.EITHER, "1.0", 70, "9.7.1.2"),
    PlainRow("mul", (("lo",), _INTEGER), _arithmetic("a", "b"), Time.MULTIPLY, "1.0", 70, "9.7.1.3"),
    PlainRow("mul", (("wide",), _INTEGER), _widening, Time.MULTIPLY, "1.0", 70, "9.7.1.3"),
    PlainRow("mad", (("lo",), _INTEGER), _arithmetic("a", "b", "c"), Time.MULTIPLY, "1.0", 70, "9.7.1.4"),
    PlainRow("shl", (("b32", "b64"),), _shift, Time.INTEGER, "1.0", 70, "9.7.8.7"),
    PlainRow("shr", (("b32", "u32", "s32", *_WIDE),), _shift, Time.INTEGER, "1.0", 70, "9.7.8.8"),
    PlainRow("and", (("b32", "b64", _PRED),), _arithmetic("a", "b"), Time.INTEGER, "1.0", 70, "9.7.8.1"),
    PlainRow("or", (("b32", "b64", _PRED),), _arithmetic("a", "b"), Time.INTEGER, "1.0", 70, "9.7.8.2"),
    PlainRow("xor", (("b32", "b64", _PRED),), _arithmetic("a", "b"), Time.INTEGER, "1.0", 70, "9.7.8.3"),
    PlainRow("not", (("b32", "b64", _PRED),), _arithmetic("a"), Time.INTEGER, "1.0", 70, "9.7.8.4"),
    *(
        PlainRow("setp", (orders, (f"{sort}32", f"{sort}64")), _compare, Time.INTEGER, "1.0", 70, "9.7.6.2")
        for sort, orders in _ORDERS.items()
    ),
    PlainRow("selp", (("b32", "u32", "s32", *_WIDE),), _select, Time.INTEGER, "1.0", 70, "9.7.6.3"),
    PlainRow("cvt", (("u64",), ("u32",)), _convert, Time.INTEGER, "1.0", 70, "9.7.9.21"),
    PlainRow("cvt", (("s64",), ("s32",)), _convert, Time.INTEGER, "1.0", 70, "9.7.9.21"),
    PlainRow("cvt", (("u32",), ("u64",)), _convert, Time.INTEGER, "1.0", 70, "9.7.9.21"),
    PlainRow("cvt", (("u16",), ("u32",)), _convert, Time.INTEGER, "1.0", 70, "9.7.9.21"),
    PlainRow("cvt", (("u32",), ("u16",)), _convert, Time.INTEGER, "1.0", 70, "9.7.9.21"),
    PlainRow("elect", (("sync",),), _elect, Time.INTEGER, "8.0", 90, "9.7.13.10"),
    PlainRow("mapa", (("shared::cluster",), ("u32",)), _map, Time.INTEGER, "7.8", 90, "9.7.9.23"),
    PlainRow("bar", (("sync",),), _barrier, Time.BARRIER, "1.0", 70, "9.7.13.1"),
    PlainRow("bar", (("cta",), ("sync",)), _barrier, Time.BARRIER, "7.8", 70, "9.7.13.1"),
    PlainRow("barrier", (("", "cta"), ("sync",), ("", "aligned")), _barrier, Time.BARRIER, "6.0", 70, "9.7.13.1"),
    PlainRow(
        "barrier",
        (("cluster",), ("arrive",), ("", "aligned")),
        lambda _: (),
        Time.CLUSTER_BARRIER,
        "7.8",
        90,
        "9.7.13.3",
    ),
    PlainRow(
        "barrier",
        (("cluster",), ("arrive",), ("release", "relaxed"), ("", "aligned")),
        lambda _: (),
        Time.CLUSTER_BARRIER,
        "8.0",
        90,
        "9.7.13.3",
    ),
    PlainRow(
        "barrier", (("cluster",), ("wait",), ("", "aligned")), lambda _: (), Time.CLUSTER_BARRIER, "7.8", 90, "9.7.13.3"
    ),
    PlainRow(
        "barrier",
        (("cluster",), ("wait",), ("acquire",), ("", "aligned")),
        lambda _: (),
        Time.CLUSTER_BARRIER,
        "8.0",
        90,
        "9.7.13.3",
    ),
)


@lru_cache(maxsize=1)
def plain_forms() -> dict[str, PlainForm]:
    """Every plain form by its opcode."""
    return {form.opcode: form for row in PLAIN_ROWS for form in _expand(row)}


def _expand(row: PlainRow) -> list[PlainForm]:
    forms = []
    for choice in product(*row.choices):
        qualifiers = tuple(q for q in choice if q)
        roles = row.roles(qualifiers)
        fragment = None
        if row.time is Time.LOAD_MATRIX:
            fragment = ldmatrix_fragment(roles[0].count, "trans" in qualifiers, ELEMENT_TYPES["f16"])
        forms.append(
            PlainForm(
                opcode=".".join((row.name, *qualifiers)),
                name=row.name,
                qualifiers=qualifiers,
                roles=roles,
                since_ptx=row.since_ptx,
                targets=Availability(f"{row.since_target}+"),
                section=f"PTX ISA 9.0, {row.section}",
                time=row.time,
                access=_access(row.time, qualifiers, roles),
                fragment=fragment,
            )
        )
    return forms


def _access(time: Time, qualifiers: tuple[str, ...], roles: tuple[Role, ...]) -> Access | None:
    """What a load, store or copy does to memory."""
    if time is Time.LOAD_MATRIX:
        return Access(Space.SHARED, 4 * roles[0].count, row_bytes=16, addresses=8 * roles[0].count)
    if time is Time.COPY:
        return Access(Space.GLOBAL, 0)
    if time not in (Time.LOAD, Time.STORE, Time.LOAD_GLOBAL, Time.STORE_GLOBAL):
        return None
    size = _bits(qualifiers[-1]) // 8 * _count(qualifiers)
    space = Space.SHARED if time in (Time.LOAD, Time.STORE) else Space.GLOBAL
    return Access(space, size, time in (Time.STORE, Time.STORE_GLOBAL), size)
