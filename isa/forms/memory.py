"""The table of the instructions that move data between registers, shared memory and global memory: ldmatrix, ld, st and
cp.async."""

from __future__ import annotations

from dataclasses import replace

from isa.forms.record import Access, Role, Shape, Space, Time
from isa.forms.rows import (
    Qualifiers,
    Row,
    address_widths,
    instruction,
    matrix_address,
    policy,
    stored_constants,
    type_bits,
)  # fmt: skip
from isa.fragments.registers import Fragment, matrix_rows_fragment
from isa.types import ELEMENT_TYPES

_SHARED = ".shared{::cta}"
_VECTOR = "{.v2,.v4}"
_TYPES = ".{b32,u32,s32,f32,b16,u16,s16,b8,u8,s8}"
_WIDE = ".{b64,u64,s64}"
_PREFETCH = "{.L2::64B,.L2::128B,.L2::256B}"


def _count(qualifiers: Qualifiers) -> int:
    """The number of registers of the vector operand, from .xN or .vN."""
    return next((int(q[1:]) for q in qualifiers if q in ("x1", "x2", "x4", "v2", "v4")), 1)


def _data(name: str, qualifiers: Qualifiers, constants: tuple[str, ...] = ()) -> Role:
    """The registers that are loaded or stored; types below 32 bits are in registers of 32."""
    count = _count(qualifiers)
    shape = Shape.SCALAR if count == 1 else Shape.VECTOR
    kind = qualifiers[-1]
    bits, sink = type_bits(kind), "part" if name == "d" and count > 1 else ""
    widths = tuple(width for width in (16, 32, 64, 128) if width >= bits)
    return Role(
        name, shape, count, output=name == "d", constants=constants, width=max(bits, 32), widths=widths,
        type=kind, sink=sink,
    )  # fmt: skip


def _address(qualifiers: Qualifiers) -> Role:
    return Role(
        "address", Shape.ADDRESS, width=64 if "global" in qualifiers else 32, widths=address_widths(qualifiers)
    )  # fmt: skip


def _load(qualifiers: Qualifiers) -> tuple[Role, ...]:
    return _data("d", qualifiers), _address(qualifiers)


def _store(qualifiers: Qualifiers) -> tuple[Role, ...]:
    return _address(qualifiers), _data("a", qualifiers, stored_constants(qualifiers))


def _reads(qualifiers: Qualifiers) -> Access:
    size = type_bits(qualifiers[-1]) // 8 * _count(qualifiers)
    return Access(Space.GLOBAL if "global" in qualifiers else Space.SHARED, size, row_bytes=size)


def _writes(qualifiers: Qualifiers) -> Access:
    read = _reads(qualifiers)
    return Access(read.space, read.bytes, write=True, row_bytes=read.bytes)


def _matrices(qualifiers: Qualifiers) -> tuple[Role, ...]:
    address = matrix_address(qualifiers)
    return Role("d", Shape.VECTOR, _count(qualifiers), output=True, widths=(32,), type="b32", sink="part"), address


def _matrix_rows(qualifiers: Qualifiers) -> Access:
    """The access of ldmatrix: for each matrix, 8 lanes name a row of 16 bytes each, and each lane gets a register."""
    count = _count(qualifiers)
    return Access(Space.SHARED, 4 * count, row_bytes=16, addresses=8 * count)


def _matrix_fragment(qualifiers: Qualifiers) -> Fragment:
    return matrix_rows_fragment(_count(qualifiers), "trans" in qualifiers, ELEMENT_TYPES["f16"])


def _copy(qualifiers: Qualifiers) -> tuple[Role, ...]:
    """The operand list of cp.async: if `filled` is given, only the first `filled` of `size` bytes are copied and the
    rest is zero; where it is a predicate that is true, none."""
    sizes = (16,) if "cg" in qualifiers else (4, 8, 16)
    return (
        Role("to", Shape.ADDRESS, widths=(16, 32, 64), special=True),
        Role("from", Shape.ADDRESS, widths=(16, 32, 64), special=True),
        Role("size", Shape.IMMEDIATE, constants=("integer",), choices=(sizes,)),
        Role("filled", Shape.VALUE, optional=True, constants=("integer",), limit=17, widths=(32,), predicates=True),
        *policy(qualifiers),
    )


def groups(_: Qualifiers) -> tuple[Role, ...]:
    """How many groups of copies, the youngest, a wait leaves under way."""
    return (Role("groups", Shape.IMMEDIATE, constants=("integer",)),)


def _sized_by_operand(_: Qualifiers) -> Access:
    return Access(Space.GLOBAL, 0)


_LD, _ST, _CP = "9.7.9.8", "9.7.9.11", "9.7.9.25"


MEMORY_ROWS: tuple[Row, ...] = (
    instruction(
        "ldmatrix.sync.aligned.m8n8.{x1,x2,x4}{.trans}{.shared,.shared::cta}.b16", _matrices, any_order=True,
        since="6.5", targets="75+", section="9.7.14.5.15", time=Time.LOAD_MATRIX,
        access=_matrix_rows, fragment=_matrix_fragment,
    ),
    *(
        row
        for vector, types in ((_VECTOR, _TYPES), ("{.v2}", _WIDE))
        for row in (
            instruction(
                f"ld{_SHARED}{vector}{types}", _load, any_order=True,
                since="1.0", targets="70+", section=_LD, time=Time.LOAD, access=_reads,
            ),
            instruction(
                f"st{_SHARED}{vector}{types}", _store, any_order=True,
                since="1.0", targets="70+", section=_ST, time=Time.STORE, access=_writes,
            ),
            instruction(
                f"ld.global{{.ca,.cg}}{vector}{types}", _load, any_order=True,
                since="1.0", targets="70+", section=_LD, time=Time.LOAD_GLOBAL, access=_reads,
            ),
            instruction(
                f"st.global{{.wb,.cg}}{vector}{types}", _store, any_order=True,
                since="1.0", targets="70+", section=_ST, time=Time.STORE_GLOBAL, access=_writes,
            ),
        )
    ),
    replace(
        instruction(
            f"cp.async.{{ca,cg}}{_SHARED}.global{{.L2::cache_hint}}{_PREFETCH}", _copy,
            since="7.0", targets="80+", section=f"{_CP}.3.1", time=Time.COPY, access=_sized_by_operand,
        ),
        leading=1, sequence=(2, 3), always=("shared::cta",),
    ),
    instruction(
        "cp.async.{commit_group,wait_all}", "", since="7.0", targets="80+", section=f"{_CP}.3.2", time=Time.COPY_GROUP
    ),
    instruction(
        "cp.async.wait_group", groups, since="7.0", targets="80+", section=f"{_CP}.3.3", time=Time.COPY_GROUP
    ),
)  # fmt: skip
