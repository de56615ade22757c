"""The table of Blackwell's `tcgen05` instructions and of the barriers and fences that go with them, one row per form or
family.

`KIND_ROWS` says which kinds `tcgen05.mma` multiplies and how they may be scaled; `TCGEN05_ROWS` lists the qualifiers
and operands of everything else. Numbers of sections are those of PTX ISA 9.0. Where ptxas 13.0 takes more than the text
says (or less), the rows follow ptxas.
"""

from __future__ import annotations

from dataclasses import dataclass

from isa.forms.record import Access, Role, Shape, Space, Time
from isa.forms.rows import Qualifiers, Roles, Row, Slots, anywhere, tmem, word
from isa.targets import Availability

FAMILY = Availability("100a 100f 103a 103f 110a 110f")  # PTX ISA 9.0, 9.7.16: every target with Tensor Memory
CHIP = Availability("100a 103a 110a")  # what no family shares
INTEGER = Availability("100a 110a")  # sm_103a lacks it
SCALES_INPUT = Availability("100a 100f 103a 103f")  # scale-input-d: sm_110a lacks it
REDUCES = Availability("103a 103f 110a 110f")  # tcgen05.ld.red: sm_100a lacks it
COLUMNS = (32, 64, 128, 256, 512)  # what tcgen05.alloc gives; PTX ISA 9.0, 9.7.16.7.1
LANE_REGISTERS = {1: 4, 2: 8}  # by cta_group: one bit for each lane of D


# Kinds of tcgen05.mma


@dataclass(frozen=True)
class VectorRow:
    """One spelling of the scale factors' vector size. PTX ISA 9.0, 9.7.16.10.7 (block scaling) and 9.7.16.10.9.

    Attributes:
        spelling: the qualifier; "" where it is left out.
        factors: 1, 2 or 4 scale factors for each row of A and instruction (1X, 2X, 4X).
        dense, sparse: which targets have it, without and with `.sp`.
        since_ptx: first PTX version.
    """

    spelling: str
    factors: int
    dense: Availability
    sparse: Availability
    since_ptx: str


@dataclass(frozen=True)
class KindRow:
    """One `.kind` of tcgen05.mma. PTX ISA 9.0, 9.7.16.10.9.1 to 9.7.16.10.9.4; ptxas 13.0.

    Attributes:
        kind: its name.
        since_ptx: first PTX version.
        targets: which targets have it, where it takes no block scale.
        ws: whether it has a `.ws` form.
        last: what the constant after enable-input-d is: "scale_d" (0 to 15), "ignored" (anything: ptxas drops it) or ""
            (there is none).
        vectors: spellings of the vector size; empty for a kind that has no block scale.
    """

    kind: str
    since_ptx: str
    targets: Availability
    ws: bool
    last: str
    vectors: tuple[VectorRow, ...] = ()


KIND_ROWS: tuple[KindRow, ...] = (
    KindRow("f16", "8.6", FAMILY, True, "scale_d"),
    KindRow("tf32", "8.6", FAMILY, True, "scale_d"),
    KindRow("f8f6f4", "8.6", FAMILY, True, ""),
    KindRow("i8", "8.6", INTEGER, True, "ignored"),
    KindRow(
        "mxf8f6f4",
        "8.6",
        FAMILY,
        False,
        "",
        (
            VectorRow("", 1, FAMILY, FAMILY, "8.8"),
            VectorRow("scale_vec::1X", 1, CHIP, CHIP, "8.6"),
            VectorRow("block32", 1, FAMILY, FAMILY, "8.8"),
        ),
    ),
    KindRow(
        "mxf4",
        "8.6",
        FAMILY,
        False,
        "",
        (
            VectorRow("", 2, FAMILY, CHIP, "8.8"),
            VectorRow("scale_vec::2X", 2, CHIP, CHIP, "8.6"),
            VectorRow("block32", 2, FAMILY, CHIP, "8.8"),
        ),
    ),
    KindRow(
        "mxf4nvf4",
        "8.7",
        FAMILY,
        False,
        "",
        (
            VectorRow("scale_vec::2X", 2, CHIP, CHIP, "8.7"),
            VectorRow("scale_vec::4X", 4, CHIP, CHIP, "8.7"),
            VectorRow("block16", 4, FAMILY, CHIP, "8.8"),
            VectorRow("block32", 2, FAMILY, CHIP, "8.8"),
        ),
    ),
)
VECTOR_SPELLINGS = ("scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32")
COLLECTOR_OPERATIONS = ("fill", "use", "lastuse", "discard")
COLLECTORS = tuple(
    f"collector::{buffer}::{operation}"
    for buffer in ("a", "b0", "b1", "b2", "b3")
    for operation in COLLECTOR_OPERATIONS
)


# Everything else


def _fixed(*roles: Role) -> Roles:
    return lambda _: roles


def _registers(qualifiers: tuple[str, ...]) -> int:
    """The number of registers that tcgen05.ld and st move: those of the shape times `.xN`. PTX ISA 9.0, table in
    9.7.16.8.1."""
    return SHAPE_REGISTERS[next(q for q in qualifiers if q in SHAPE_REGISTERS)] * int(
        next(q[1:] for q in qualifiers if q in REPEATS)
    )


def _load(qualifiers: Qualifiers) -> tuple[Role, ...]:
    data = Role("d", Shape.VECTOR, _registers(qualifiers), output=True, widths=(32,), type="b32")
    return data, tmem("taddr"), *_split(qualifiers)


def _reduce(qualifiers: Qualifiers) -> tuple[Role, ...]:
    data, *rest = _load(qualifiers)
    return data, Role("redval", Shape.SCALAR, output=True, widths=(32,), type="b32"), *rest


def _store(qualifiers: Qualifiers) -> tuple[Role, ...]:
    data = Role("a", Shape.VECTOR, _registers(qualifiers), constants=("integer", "bits"), widths=(32,), type="b32")
    return tmem("taddr"), *_split(qualifiers), data


def _split(qualifiers: Qualifiers) -> tuple[Role, ...]:
    """The operand immHalfSplitoff: the distance in columns between the two halves of .16x32bx2."""
    return (Role("half_split", Shape.IMMEDIATE, constants=("integer",)),) if "16x32bx2" in qualifiers else ()


def _commit(qualifiers: Qualifiers) -> tuple[Role, ...]:
    mask = (Role("cta_mask", Shape.REGISTER, widths=(16,)),) if "multicast::cluster" in qualifiers else ()
    return anywhere("mbar"), *mask


REPEATS = ("x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128")
SHAPE_REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
_GROUP = ("cta_group::1", "cta_group::2")
_SYNC = (("sync",), ("aligned",))
_MOVES_SYNC = (("sync",), ("", "aligned"))  # ptxas 13.0 does without .aligned
_ALLOC, _MOVE, _CP, _SHIFT = "9.7.16.7.1", "9.7.16.8", "9.7.16.9.1", "9.7.16.9.2"


def _loaded(qualifiers: Qualifiers) -> Access:
    return Access(Space.TENSOR, 4 * _registers(qualifiers))


def _stored(qualifiers: Qualifiers) -> Access:
    return Access(Space.TENSOR, 4 * _registers(qualifiers), write=True)


def _moves(shapes: tuple[str, ...], most: int) -> tuple[Row, ...]:
    """The rows of tcgen05.ld and st for these shapes, with no more than 128 registers."""
    repeats = REPEATS[: REPEATS.index(f"x{most}") + 1]
    load = (*_MOVES_SYNC, shapes, repeats, ("", "pack::16b"), ("b32",))
    store = (*_MOVES_SYNC, shapes, repeats, ("", "unpack::16b"), ("b32",))
    return (
        Row("tcgen05.ld", load, _load, "8.6", FAMILY, Time.TMEM, f"{_MOVE}.3", access=_loaded),
        Row("tcgen05.st", store, _store, "8.6", FAMILY, Time.TMEM, f"{_MOVE}.4", access=_stored),
    )


def _reductions(arithmetic: Slots) -> Row:
    slots = (*_MOVES_SYNC, ("32x32b", "16x32bx2"), REPEATS[1:], ("min", "max"), *arithmetic)
    return Row("tcgen05.ld.red", slots, _reduce, "8.8", REDUCES, Time.TMEM, f"{_MOVE}.3", access=_loaded)


def _copies(shapes: tuple[str, ...], warps: tuple[str, ...]) -> tuple[Row, ...]:
    """The rows of tcgen05.cp for these shapes: bytes are copied as they are, or elements of 4 and 6 bits are expanded
    to bytes."""
    fixed, roles = (_GROUP, shapes, warps), _fixed(tmem("taddr", output=True), word("s_desc", bits=64))
    narrow = (*fixed, ("b8x16",), ("b6x16_p32", "b4x16_p64"))
    return (
        _queued("tcgen05.cp", fixed, roles, _CP),
        _queued("tcgen05.cp", narrow, roles, _CP, sequence=(3, 4)),
    )


def _queued(
    name: str, slots: Slots, roles: Roles, section: str, targets: Availability = FAMILY, sequence: tuple[int, ...] = ()
) -> Row:
    """A row for an instruction that goes through the queue of the tensor core."""
    return Row(name, slots, roles, "8.6", targets, Time.TCGEN05, section, sequence)


def _waited(name: str, slots: Slots, roles: Roles, section: str) -> Row:
    """A row for an instruction that a warp applies to Tensor Memory at once, or waits for."""
    return Row(name, slots, roles, "8.6", FAMILY, Time.TMEM_SYNC, section)


def _fence(name: str) -> Row:
    return Row(name, (), _fixed(), "8.6", FAMILY, Time.TCGEN05_FENCE, "9.7.16.11.1")


_ALLOCATED = Role("columns", Shape.VALUE, constants=("integer",), choices=(COLUMNS,), widths=(32,))
_ARRIVES = (_GROUP, ("mbarrier::arrive::one",), ("", "shared::cluster"), ("", "multicast::cluster"), ("b64",))

TCGEN05_ROWS: tuple[Row, ...] = (
    _waited(
        "tcgen05.alloc", (_GROUP, *_SYNC, ("", "shared::cta"), ("b32",)), _fixed(anywhere("dst"), _ALLOCATED), _ALLOC
    ),
    _waited("tcgen05.dealloc", (_GROUP, *_SYNC, ("b32",)), _fixed(word("taddr"), word("columns", multiple=32)), _ALLOC),
    _waited("tcgen05.relinquish_alloc_permit", (_GROUP, *_SYNC), _fixed(), _ALLOC),
    *_moves(("32x32b", "16x64b", "16x32bx2"), 128),
    *_moves(("16x128b",), 64),
    *_moves(("16x256b",), 32),
    _reductions((("", "abs"), ("", "NaN"), ("f32",))),
    _reductions((("u32", "s32"),)),
    _waited("tcgen05.wait::ld", _SYNC, _fixed(), f"{_MOVE}.5"),
    _waited("tcgen05.wait::st", _SYNC, _fixed(), f"{_MOVE}.5"),
    *_copies(("128x256b", "4x256b", "128x128b"), ("",)),
    *_copies(("64x128b",), ("warpx2::02_13", "warpx2::01_23")),
    *_copies(("32x128b",), ("warpx4",)),
    _queued("tcgen05.shift", (_GROUP, ("down",)), _fixed(tmem("taddr")), _SHIFT, CHIP),
    _queued("tcgen05.commit", _ARRIVES, _commit, "9.7.16.12.1"),
    _fence("tcgen05.fence::before_thread_sync"),
    _fence("tcgen05.fence::after_thread_sync"),
)
