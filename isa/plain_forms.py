"""Forms of the instructions around the matrix ones: loads, stores, moves, integer arithmetic, barriers.

A row lists the qualifiers that may stand in each place; every combination is one form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

from isa.forms import Form, Role, Shape
from isa.fragments import Fragment, ldmatrix_fragment
from isa.targets import Availability
from isa.types import ELEMENT_TYPES

SPECIAL_REGISTERS = ("%laneid", "%warpid", "%nwarpid", "%tid.x", "%ntid.x")
BARRIERS = 16  # named barriers of a CTA; PTX ISA 9.0, 9.7.13.1 (bar)

_SHARED = ("shared", "shared::cta")
_VECTOR = ("", "v2", "v4")
_WORDS = ("b32", "u32", "s32", "f32")
_NARROW = ("b16", "u16", "s16", "b8", "u8", "s8")
_INTEGER = ("s32", "u32")


@dataclass(frozen=True)
class PlainForm(Form):
    """An instruction that multiplies no matrices.

    Attributes:
        name: the instruction's name, e.g. "ld".
        qualifiers: the rest of the opcode, split at the dots.
    """

    name: str
    qualifiers: tuple[str, ...]

    @property
    def type_name(self) -> str:
        """The data type, always the last qualifier."""
        return self.qualifiers[-1]

    @property
    def width(self) -> int:
        """Bits of one element of the data type."""
        return int(self.type_name[1:])

    @property
    def vector(self) -> int:
        """Elements that a load or store moves for each lane."""
        return next((int(q[1:]) for q in self.qualifiers if q in _VECTOR[1:]), 1)

    @cached_property
    def matrix(self) -> Fragment:
        """The destination of `ldmatrix` as rows of 8 x 8 matrices, one register each."""
        return ldmatrix_fragment(self.roles[0].count, "trans" in self.qualifiers, ELEMENT_TYPES["f16"])


@dataclass(frozen=True)
class PlainRow:
    """One row of the table: a name, the choices of each qualifier in order ("" where it may be left out), and the operands."""

    name: str
    choices: tuple[tuple[str, ...], ...]
    roles: Callable[[tuple[str, ...]], tuple[Role, ...]]
    unit: str
    since_ptx: str
    since_target: int
    section: str


def _count(qualifiers: tuple[str, ...]) -> int:
    """Registers of the vector operand, from .xN or .vN."""
    return next((int(q[1:]) for q in qualifiers if q in ("x1", "x2", "x4", "v2", "v4")), 1)


def _shape(count: int) -> Shape:
    return Shape.SCALAR if count == 1 else Shape.VECTOR


def _constants(type_name: str) -> tuple[str, ...]:
    """What constants a move or store of this type takes, as ptxas 13.0 has it: 1.0 for f32 alone, 0f3F800000 for b32 too."""
    return {"f32": ("bits", "float"), "b32": ("integer", "bits")}.get(type_name, ("integer",))


def _ldmatrix(qualifiers: tuple[str, ...]) -> tuple[Role, ...]:
    return Role("d", Shape.VECTOR, _count(qualifiers), output=True), Role("address", Shape.ADDRESS)


def _load(qualifiers: tuple[str, ...]) -> tuple[Role, ...]:
    count = _count(qualifiers)
    return Role("d", _shape(count), count, output=True), Role("address", Shape.ADDRESS)


def _store(qualifiers: tuple[str, ...]) -> tuple[Role, ...]:
    count = _count(qualifiers)
    return Role("address", Shape.ADDRESS), Role("a", _shape(count), count, constants=_constants(qualifiers[-1]))


def _move(qualifiers: tuple[str, ...]) -> tuple[Role, ...]:
    kind = qualifiers[-1]
    return Role("d", Shape.REGISTER, output=True), Role("a", Shape.VALUE, constants=_constants(kind), special=kind != "f32")


def _arithmetic(*sources: str) -> Callable[[tuple[str, ...]], tuple[Role, ...]]:
    roles = (Role("d", Shape.REGISTER, output=True), *(Role(name, Shape.VALUE, constants=("integer",)) for name in sources))
    return lambda _: roles


def _barrier(_: tuple[str, ...]) -> tuple[Role, ...]:
    return Role("a", Shape.VALUE, limit=BARRIERS, constants=("integer",)), Role("b", Shape.VALUE, optional=True, constants=("integer",), multiple=32)


PLAIN_ROWS: tuple[PlainRow, ...] = (
    PlainRow(
        "ldmatrix",
        (("sync",), ("aligned",), ("m8n8",), ("x1", "x2", "x4"), ("", "trans"), _SHARED, ("b16",)),
        _ldmatrix,
        "shared",
        "6.5",
        75,
        "9.7.14.5.15",
    ),
    PlainRow("ld", (_SHARED, _VECTOR, _WORDS + _NARROW), _load, "shared", "1.0", 70, "9.7.9.8"),
    PlainRow("st", (_SHARED, _VECTOR, _WORDS + _NARROW), _store, "shared", "1.0", 70, "9.7.9.11"),
    PlainRow("mov", (_WORDS,), _move, "alu", "1.0", 70, "9.7.9.3"),
    PlainRow("add", (_INTEGER,), _arithmetic("a", "b"), "alu", "1.0", 70, "9.7.1.1"),
    PlainRow("sub", (_INTEGER,), _arithmetic("a", "b"), "alu", "1.0", 70, "9.7.1.2"),
    PlainRow("mul", (("lo",), _INTEGER), _arithmetic("a", "b"), "alu", "1.0", 70, "9.7.1.3"),
    PlainRow("mad", (("lo",), _INTEGER), _arithmetic("a", "b", "c"), "alu", "1.0", 70, "9.7.1.4"),
    PlainRow("shl", (("b32",),), _arithmetic("a", "b"), "alu", "1.0", 70, "9.7.8.7"),
    PlainRow("shr", (("b32", "u32", "s32"),), _arithmetic("a", "b"), "alu", "1.0", 70, "9.7.8.8"),
    PlainRow("and", (("b32",),), _arithmetic("a", "b"), "alu", "1.0", 70, "9.7.8.1"),
    PlainRow("or", (("b32",),), _arithmetic("a", "b"), "alu", "1.0", 70, "9.7.8.2"),
    PlainRow("xor", (("b32",),), _arithmetic("a", "b"), "alu", "1.0", 70, "9.7.8.3"),
    PlainRow("bar", (("sync",),), _barrier, "barrier", "1.0", 70, "9.7.13.1"),
    PlainRow("bar", (("cta",), ("sync",)), _barrier, "barrier", "7.8", 70, "9.7.13.1"),
    PlainRow("barrier", (("", "cta"), ("sync",), ("", "aligned")), _barrier, "barrier", "6.0", 70, "9.7.13.1"),
)


@lru_cache(maxsize=1)
def plain_forms() -> dict[str, PlainForm]:
    """Every plain form by its opcode."""
    return {form.opcode: form for row in PLAIN_ROWS for form in _expand(row)}


def _expand(row: PlainRow) -> list[PlainForm]:
    forms = []
    for choice in product(*row.choices):
        qualifiers = tuple(q for q in choice if q)
        opcode = ".".join((row.name, *qualifiers))
        section = f"PTX ISA 9.0, {row.section}"
        forms.append(
            PlainForm(opcode, row.roles(qualifiers), row.since_ptx, Availability(f"{row.since_target}+"), section, row.unit, row.name, qualifiers)
        )
    return forms
