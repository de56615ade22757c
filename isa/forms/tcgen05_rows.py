"""The table of Blackwell's `tcgen05` instructions and of the barriers and fences that go with them, one row per form or
family.

`KIND_ROWS` says which kinds `tcgen05.mma` multiplies and how they may be scaled; `FAMILY_ROWS` lists the qualifiers and
operands of everything else. Numbers of sections are those of PTX ISA 9.0. Where ptxas 13.0 takes more than the text
says (or less), the rows follow ptxas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from isa.forms.record import Role, Shape, Time
from isa.forms.tcgen05_operands import SizedRole, tmem, word
from isa.targets import Availability

FAMILY = Availability("100a 100f 103a 103f 110a 110f")  # PTX ISA 9.0, 9.7.16: every target with Tensor Memory
CHIP = Availability("100a 103a 110a")  # what no family shares
INTEGER = Availability("100a 110a")  # sm_103a lacks it
SCALES_INPUT = Availability("100a 100f 103a 103f")  # scale-input-d: sm_110a lacks it
REDUCES = Availability("103a 103f 110a 110f")  # tcgen05.ld.red: sm_100a lacks it
WINDOWS_SINCE_PTX = "7.8"  # .shared::cta and .shared::cluster; PTX ISA 9.0, 5.1.7
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


@dataclass(frozen=True)
class FamilyRow:
    """One family: what its qualifiers may be, and its operands.

    Attributes:
        name: the parts that come first, in this order, e.g. "tcgen05.ld.red".
        slots: the choices of each qualifier in canonical order, "" where it may be left out; ptxas takes them in any
            order.
        roles: operands for a choice of qualifiers, the optional ones included.
        since_ptx, targets, section: as in `Form`.
        time: its timing class.
        sequence: slots, by number, whose qualifiers keep their order.
        narrowed: operand -> targets that have the form with it, where they are fewer.
    """

    name: str
    slots: tuple[tuple[str, ...], ...]
    roles: Callable[[tuple[str, ...]], tuple[Role, ...]]
    since_ptx: str
    targets: Availability
    time: Time
    section: str
    sequence: tuple[int, ...] = ()
    narrowed: tuple[tuple[str, Availability], ...] = ()


def _shared(name: str = "address", generic: bool = False) -> SizedRole:
    """An address in shared memory; a generic one takes 64 bits."""
    return SizedRole(name, Shape.ADDRESS, bits=(16, 64) if generic else (16, 32, 64), variables=True)


def _anywhere(name: str) -> SizedRole:
    """An address in shared memory that tcgen05 takes, 32 or 64 bits wide whether generic or not."""
    return SizedRole(name, Shape.ADDRESS, bits=(32, 64), variables=True)


def _fixed(*roles: Role) -> Callable[[tuple[str, ...]], tuple[Role, ...]]:
    return lambda _: roles


def _registers(qualifiers: tuple[str, ...]) -> int:
    """Registers that tcgen05.ld and st move: those of the shape times `.xN`. PTX ISA 9.0, table in 9.7.16.8.1."""
    return SHAPE_REGISTERS[next(q for q in qualifiers if q in SHAPE_REGISTERS)] * int(
        next(q[1:] for q in qualifiers if q in REPEATS)
    )


def _load(qualifiers: tuple[str, ...]) -> tuple[Role, ...]:
    data = SizedRole("d", Shape.VECTOR, _registers(qualifiers), output=True, floats=True)
    return data, tmem("taddr"), *_split(qualifiers)


def _reduce(qualifiers: tuple[str, ...]) -> tuple[Role, ...]:
    data, *rest = _load(qualifiers)
    return data, SizedRole("redval", Shape.SCALAR, output=True, floats=True), *rest


def _store(qualifiers: tuple[str, ...]) -> tuple[Role, ...]:
    data = SizedRole("a", Shape.VECTOR, _registers(qualifiers), constants=("integer", "bits"), floats=True)
    return tmem("taddr"), *_split(qualifiers), data


def _split(qualifiers: tuple[str, ...]) -> tuple[Role, ...]:
    """immHalfSplitoff, the column distance of the two halves of .16x32bx2."""
    return (SizedRole("half_split", Shape.IMMEDIATE, constants=("integer",)),) if "16x32bx2" in qualifiers else ()


def _commit(qualifiers: tuple[str, ...]) -> tuple[Role, ...]:
    mask = (SizedRole("cta_mask", Shape.REGISTER, bits=(16,)),) if "multicast::cluster" in qualifiers else ()
    return _anywhere("mbar"), *mask


def _sink(qualifiers: tuple[str, ...]) -> SizedRole:
    """The state that an arrival returns: nothing from another CTA's barrier."""
    return SizedRole(
        "state", Shape.REGISTER, output=True, bits=(64,), sink="must" if "shared::cluster" in qualifiers else "may"
    )


def _generic(qualifiers: tuple[str, ...]) -> bool:
    return not any(q.startswith("shared") for q in qualifiers)


def _mbarrier(*rest: Role, state: bool = False, waits: bool = False) -> Callable[[tuple[str, ...]], tuple[Role, ...]]:
    def roles(qualifiers: tuple[str, ...]) -> tuple[Role, ...]:
        first: tuple[Role, ...] = (_sink(qualifiers),) if state else ()
        first = (SizedRole("done", Shape.REGISTER, output=True, bits=(1,)),) if waits else first
        return (*first, _shared(generic=_generic(qualifiers)), *rest)

    return roles


REPEATS = ("x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128")
SHAPE_REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
_GROUP = ("cta_group::1", "cta_group::2")
_SYNC = (("sync",), ("aligned",))
_MOVES_SYNC = (("sync",), ("", "aligned"))  # ptxas 13.0 does without .aligned
_ALLOC, _MOVE, _CP, _SHIFT = "9.7.16.7.1", "9.7.16.8", "9.7.16.9.1", "9.7.16.9.2"
_LOCAL = ("", "shared", "shared::cta")
_CLUSTER = ("", "shared", "shared::cta", "shared::cluster")
_FROM_80, _FROM_90, _FROM_70 = Availability("80+"), Availability("90+"), Availability("70+")


def _moves(shapes: tuple[str, ...], most: int) -> tuple[FamilyRow, ...]:
    """tcgen05.ld and st of these shapes: no more than 128 registers."""
    repeats = REPEATS[: REPEATS.index(f"x{most}") + 1]
    return (
        FamilyRow(
            "tcgen05.ld",
            (*_MOVES_SYNC, shapes, repeats, ("", "pack::16b"), ("b32",)),
            _load,
            "8.6",
            FAMILY,
            Time.TMEM,
            f"{_MOVE}.3",
        ),
        FamilyRow(
            "tcgen05.st",
            (*_MOVES_SYNC, shapes, repeats, ("", "unpack::16b"), ("b32",)),
            _store,
            "8.6",
            FAMILY,
            Time.TMEM,
            f"{_MOVE}.4",
        ),
    )


def _copies(shapes: tuple[str, ...], warps: tuple[str, ...]) -> tuple[FamilyRow, ...]:
    """tcgen05.cp of these shapes: bytes as they are, or 4 and 6 bits made bytes."""
    fixed, roles = (_GROUP, shapes, warps), _fixed(tmem("taddr", output=True), word("s_desc", bits=64))
    return (
        FamilyRow("tcgen05.cp", fixed, roles, "8.6", FAMILY, Time.TCGEN05, _CP),
        FamilyRow(
            "tcgen05.cp",
            (*fixed, ("b8x16",), ("b6x16_p32", "b4x16_p64")),
            roles,
            "8.6",
            FAMILY,
            Time.TCGEN05,
            _CP,
            (3, 4),
        ),
    )


def _reductions(arithmetic: tuple[tuple[str, ...], ...]) -> FamilyRow:
    slots = (*_MOVES_SYNC, ("32x32b", "16x32bx2"), REPEATS[1:], ("min", "max"), *arithmetic)
    return FamilyRow("tcgen05.ld.red", slots, _reduce, "8.8", REDUCES, Time.TMEM, f"{_MOVE}.3")


_COUNT = word("count", optional=True, positive=True)
_ARRIVE, _WAIT, _TX = "9.7.13.15.13", "9.7.13.15.16", "9.7.13.15.11"


def _ordered(
    name: str,
    order: str,
    spaces: tuple[str, ...],
    roles: Callable[[tuple[str, ...]], tuple[Role, ...]],
    section: str,
    early: bool,
    narrowed: tuple[tuple[str, Availability], ...] = (),
) -> tuple[FamilyRow, ...]:
    """A family that may say its memory order and scope, both or neither. `early`: whether sm_80 has it in the scope of
    a CTA."""
    first = (_FROM_80, "7.1" if name.endswith("parity") else "7.0") if early else (_FROM_90, "7.8")
    weak = "relaxed"
    return (
        FamilyRow(
            name,
            (tuple(s for s in spaces if s != "shared::cluster"), ("b64",)),
            roles,
            first[1],
            first[0],
            Time.MBARRIER,
            section,
            (),
            narrowed,
        ),
        FamilyRow(
            name,
            ((order,), ("cta",), tuple(s for s in spaces if s != "shared::cluster"), ("b64",)),
            roles,
            "8.0",
            first[0],
            Time.MBARRIER,
            section,
            (),
            narrowed,
        ),
        FamilyRow(name, ((order,), ("cluster",), spaces, ("b64",)), roles, "8.0", _FROM_90, Time.MBARRIER, section),
        FamilyRow(
            name, ((weak,), ("cta", "cluster"), spaces, ("b64",)), roles, "8.6", _FROM_90, Time.MBARRIER, section
        ),
        *(
            (
                FamilyRow(name, (("shared::cluster",), ("b64",)), roles, "8.0", _FROM_90, Time.MBARRIER, section),
                FamilyRow(
                    name,
                    ((order,), ("cta",), ("shared::cluster",), ("b64",)),
                    roles,
                    "8.0",
                    _FROM_90,
                    Time.MBARRIER,
                    section,
                ),
            )
            if "shared::cluster" in spaces
            else ()
        ),
    )


def _transactions(name: str) -> tuple[FamilyRow, ...]:
    roles = _mbarrier(word("tx_count"))
    return (
        FamilyRow(name, (_CLUSTER, ("b64",)), roles, "8.0", _FROM_90, Time.MBARRIER, _TX),
        FamilyRow(
            name, (("relaxed",), ("cta", "cluster"), _CLUSTER, ("b64",)), roles, "8.0", _FROM_90, Time.MBARRIER, _TX
        ),
    )


def _arrivals(name: str, section: str) -> tuple[FamilyRow, ...]:
    """Arrivals: plain, with a transaction count, and those that must not complete the phase, whose count is not
    optional."""
    bare = _mbarrier(word("count", positive=True), state=True)
    return (
        *_ordered(name, "release", _CLUSTER, _mbarrier(_COUNT, state=True), section, True, (("count", _FROM_90),)),
        *_ordered(f"{name}.expect_tx", "release", _CLUSTER, _mbarrier(word("tx_count"), state=True), section, False),
        FamilyRow(name, (("noComplete",), _LOCAL, ("b64",)), bare, "7.0", _FROM_80, Time.MBARRIER, section),
        FamilyRow(
            name,
            (("noComplete",), ("release",), ("cta",), _LOCAL, ("b64",)),
            bare,
            "8.0",
            _FROM_80,
            Time.MBARRIER,
            section,
        ),
    )


def _pending(_: tuple[str, ...]) -> tuple[Role, ...]:
    return SizedRole("count", Shape.REGISTER, output=True), word("state", bits=64)


_STATE, _PARITY, _HINT = word("state", bits=64), word("parity", limit=2), word("hint", optional=True)

MMA_NAMES = ("tcgen05.mma", "tcgen05.mma.ws")

FAMILY_ROWS: tuple[FamilyRow, ...] = (
    FamilyRow(
        "tcgen05.alloc",
        (_GROUP, *_SYNC, ("", "shared::cta"), ("b32",)),
        _fixed(_anywhere("dst"), SizedRole("columns", Shape.VALUE, constants=("integer",), values=COLUMNS)),
        "8.6",
        FAMILY,
        Time.TMEM_SYNC,
        _ALLOC,
    ),
    FamilyRow(
        "tcgen05.dealloc",
        (_GROUP, *_SYNC, ("b32",)),
        _fixed(word("taddr"), word("columns", multiple=32)),
        "8.6",
        FAMILY,
        Time.TMEM_SYNC,
        _ALLOC,
    ),
    FamilyRow("tcgen05.relinquish_alloc_permit", (_GROUP, *_SYNC), _fixed(), "8.6", FAMILY, Time.TMEM_SYNC, _ALLOC),
    *_moves(("32x32b", "16x64b", "16x32bx2"), 128),
    *_moves(("16x128b",), 64),
    *_moves(("16x256b",), 32),
    _reductions((("", "abs"), ("", "NaN"), ("f32",))),
    _reductions((("u32", "s32"),)),
    FamilyRow("tcgen05.wait::ld", _SYNC, _fixed(), "8.6", FAMILY, Time.TMEM_SYNC, f"{_MOVE}.5"),
    FamilyRow("tcgen05.wait::st", _SYNC, _fixed(), "8.6", FAMILY, Time.TMEM_SYNC, f"{_MOVE}.5"),
    *_copies(("128x256b", "4x256b", "128x128b"), ("",)),
    *_copies(("64x128b",), ("warpx2::02_13", "warpx2::01_23")),
    *_copies(("32x128b",), ("warpx4",)),
    FamilyRow("tcgen05.shift", (_GROUP, ("down",)), _fixed(tmem("taddr")), "8.6", CHIP, Time.TCGEN05, _SHIFT),
    FamilyRow(
        "tcgen05.commit",
        (_GROUP, ("mbarrier::arrive::one",), ("", "shared::cluster"), ("", "multicast::cluster"), ("b64",)),
        _commit,
        "8.6",
        FAMILY,
        Time.TCGEN05,
        "9.7.16.12.1",
    ),
    FamilyRow("tcgen05.fence::before_thread_sync", (), _fixed(), "8.6", FAMILY, Time.TCGEN05_FENCE, "9.7.16.11.1"),
    FamilyRow("tcgen05.fence::after_thread_sync", (), _fixed(), "8.6", FAMILY, Time.TCGEN05_FENCE, "9.7.16.11.1"),
    FamilyRow(
        "mbarrier.init", (_LOCAL, ("b64",)), _mbarrier(word("count")), "7.0", _FROM_80, Time.MBARRIER, "9.7.13.15.9"
    ),
    FamilyRow("mbarrier.inval", (_LOCAL, ("b64",)), _mbarrier(), "7.0", _FROM_80, Time.MBARRIER, "9.7.13.15.10"),
    *_transactions("mbarrier.expect_tx"),
    *_transactions("mbarrier.complete_tx"),
    *_arrivals("mbarrier.arrive", _ARRIVE),
    *_arrivals("mbarrier.arrive_drop", "9.7.13.15.14"),
    FamilyRow("mbarrier.pending_count", (("b64",),), _pending, "7.0", _FROM_80, Time.MBARRIER, "9.7.13.15.17"),
    *_ordered("mbarrier.test_wait", "acquire", _LOCAL, _mbarrier(_STATE, waits=True), _WAIT, True),
    *_ordered("mbarrier.test_wait.parity", "acquire", _LOCAL, _mbarrier(_PARITY, waits=True), _WAIT, True),
    *_ordered("mbarrier.try_wait", "acquire", _LOCAL, _mbarrier(_STATE, _HINT, waits=True), _WAIT, False),
    *_ordered("mbarrier.try_wait.parity", "acquire", _LOCAL, _mbarrier(_PARITY, _HINT, waits=True), _WAIT, False),
    FamilyRow(
        "fence",
        (("", "sc", "acq_rel", "acquire", "release"), ("cta", "gpu", "sys")),
        _fixed(),
        "6.0",
        _FROM_70,
        Time.FENCE,
        "9.7.13.4",
    ),
    FamilyRow(
        "fence",
        (("", "sc", "acq_rel", "acquire", "release"), ("cluster",)),
        _fixed(),
        "7.8",
        _FROM_90,
        Time.FENCE,
        "9.7.13.4",
    ),
    FamilyRow(
        "fence", (("mbarrier_init",), ("release",), ("cluster",)), _fixed(), "8.0", _FROM_90, Time.FENCE, "9.7.13.4"
    ),
    FamilyRow(
        "fence.proxy",
        (("async",), ("", "global", "shared::cta", "shared::cluster")),
        _fixed(),
        "8.0",
        _FROM_90,
        Time.FENCE,
        "9.7.13.4",
    ),
    FamilyRow("fence.proxy", (("alias",),), _fixed(), "7.5", _FROM_70, Time.FENCE, "9.7.13.4"),
)


def mma_roles(row: KindRow, ws: bool, sparse: bool, group: int, last: str) -> tuple[Role, ...]:
    """Operands in the order of the grammar; D is read as well where enable-input-d says so."""
    roles: list[Role] = [
        tmem("d", output=True),
        SizedRole("a", Shape.MATRIX, constants=("integer",), bits=(64,)),
        word("b", bits=64),
    ]
    roles += [tmem("sp_meta")] if sparse else []
    roles += [word("idesc")]
    if row.vectors:
        roles += [tmem("scale_a"), tmem("scale_b")]
    elif not ws:
        count = LANE_REGISTERS[group]
        roles += [
            SizedRole(
                "lanes", Shape.VECTOR, count, optional=True, constants=("integer", "bits"), special=True, floats=True
            )
        ]
    roles += [SizedRole("enable", Shape.PREDICATE, constants=("integer",), bits=(1,))]
    if last == "zero_mask":
        roles += [word("zero_mask", bits=64, optional=True)]
    elif last:
        roles += [
            SizedRole(
                last, Shape.IMMEDIATE, optional=True, limit=16 if last == "scale_d" else 0, constants=("integer",)
            )
        ]
    return tuple(roles)


def joined(name: str, qualifiers: Iterable[str]) -> str:
    return ".".join((name, *(q for q in qualifiers if q)))


def family_opcodes() -> Iterator[str]:
    """Every canonical opcode of the table."""
    for row in FAMILY_ROWS:
        yield from (joined(row.name, choice) for choice in product(*row.slots))
    for kind in KIND_ROWS:
        vectors = [v.spelling for v in kind.vectors] or [""]
        scale = ("block_scale",) if kind.vectors else ("",)
        for sparse, group, vector, shift, collector in product(
            ("", "sp"), (1, 2), vectors, ("", "ashift"), ("", *COLLECTORS[:4])
        ):
            if not (shift and (kind.vectors or collector.endswith(("::fill", "::use")))):
                yield joined(
                    "tcgen05.mma",
                    (sparse, f"cta_group::{group}", f"kind::{kind.kind}", *scale, vector, shift, collector),
                )
        for sparse, collector in product(("", "sp"), ("", *COLLECTORS[4:])) if kind.ws else ():
            yield joined("tcgen05.mma.ws", (sparse, "cta_group::1", f"kind::{kind.kind}", collector))
