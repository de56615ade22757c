"""The table of `mma` and `mma.sp`, the matrix instructions of a warp. Each row lists one shape with the element types,
qualifiers and targets that go together.

Sources: PTX ISA 9.0, 9.7.14.5.14 (mma) and 9.7.14.6.3 (mma.sp); targets as ptxas 13.0 has them. Where both differ we
follow ptxas and the row says so in its note.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SPARSE_SECTION = "PTX ISA 9.0, 9.7.14.6.3 (mma.sp)"
DENSE_SECTION = "PTX ISA 9.0, 9.7.14.5.14 (mma)"
ORDERED_SINCE_PTX = "8.5"  # PTX ISA 9.0, 9.7.14.6.3: .sp::ordered_metadata

FAMILY_120 = "120a 120f 121a 121f"
ARCHITECTURE_120 = "120a 121a"
FAMILIES_100 = "100a 100f 103a 103f 110a 110f"
ARCHITECTURES_100 = "100a 103a 110a"


@dataclass(frozen=True)
class MmaRow:
    """One row of the table.

    Attributes:
        shape: m, n, k (k logical: uncompressed).
        accumulators: type of D and C; both, in this order, where they differ ("f32 f16").
        inputs: types of A and B; each may be any of them, independently, if `mixed`.
        sparse: whether it is `mma.sp`.
        since_ptx: first PTX version (of the plain spelling, where there are two).
        targets: see `isa.targets.Availability`.
        mixed: whether A and B may differ.
        saturates: whether it takes `.satfinite`.
        ordered_only: whether the sparse form exists with `::ordered_metadata` alone.
        kind: of `.kind::...`, or empty.
        scale: factors of a row and column and their type, e.g. "2X ue8m0", or empty without `.block_scale`.
        implied_vector: whether `.scale_vec` may be left out.
        lax_selectors: selectors beyond the legal ones that ptxas 13.0 lets through (an H100 stops with an illegal
            instruction).
        emulated, emulated_plain: lowest sm number from which ptxas writes a sequence for it, in any spelling or in the
            plain one; 0: never.
        native: sm numbers that have the instruction although `emulated` says otherwise.
        spare_b: further registers of B that ptxas 13.0 takes, and drops.
        layouts: of A and B that it takes.
        blocks: independent products that it computes, each of `shape`.
        operation: what is done with b1, "xor.popc" or "and.popc": D = C + the ones of the bits so joined; empty for
            products.
        roundings: rounding modifiers that it takes, the first of them also when none is written; empty where there are
            none.
        note: what a user should know.
    """

    shape: tuple[int, int, int]
    accumulators: str
    inputs: str
    sparse: bool
    since_ptx: str = "7.1"
    targets: str = "80+"
    mixed: bool = False
    saturates: bool = False
    ordered_only: bool = False
    kind: str = ""
    scale: str = ""
    implied_vector: bool = False
    lax_selectors: int = 0
    emulated: int = 0
    emulated_plain: int = 0
    native: tuple[int, ...] = ()
    spare_b: int = 0
    layouts: tuple[str, ...] = ("row.col",)
    blocks: int = 1
    operation: str = ""
    roundings: tuple[str, ...] = ()
    note: str = ""

    @property
    def d(self) -> str:
        """The type of D."""
        return self.accumulators.split()[0]

    @property
    def c(self) -> str:
        """The type of C."""
        return self.accumulators.split()[-1]

    @property
    def section(self) -> str:
        """The section of the PTX ISA that defines the instruction."""
        return SPARSE_SECTION if self.sparse else DENSE_SECTION


def _sparse(k: int, accumulators: str, inputs: str, **more: Any) -> MmaRow:
    return MmaRow((16, 8, k), accumulators, inputs, True, **more)


def _dense(k: int, accumulators: str, inputs: str, since_ptx: str = "7.0", m: int = 16, **more: Any) -> MmaRow:
    return MmaRow((m, 8, k), accumulators, inputs, False, since_ptx, **more)


def _quad_pairs(accumulators: str) -> MmaRow:
    """`mma.m8n8k4` of f16: each quad pair of lanes computes a product of its own. PTX ISA 9.0, 9.7.14.5.1."""
    layouts = ("row.row", "row.col", "col.row", "col.col")
    return MmaRow((8, 8, 4), accumulators, "f16", False, "6.4", "70+", emulated=80, layouts=layouts, blocks=4)


def _double(m: int, k: int, since_ptx: str, targets: str, **more: Any) -> MmaRow:
    """The row for f64, with a rounding modifier or without one: ptxas 13.0 takes what PTX lists in its text (precision
    and rounding), although its grammar does not show it."""
    return MmaRow((m, 8, k), "f64", "f64", False, since_ptx, targets, roundings=("rn", "rz", "rm", "rp"), **more)


def _bits(m: int, k: int, xor_targets: str) -> tuple[MmaRow, MmaRow]:
    """The rows for b1. From sm_90 on ptxas 13.0 replaces .xor by .and, and from sm_100 on .and by 8-bit integers."""
    return (
        MmaRow((m, 8, k), "s32", "b1", False, "7.0", xor_targets, emulated=90, operation="xor.popc"),
        MmaRow((m, 8, k), "s32", "b1", False, "7.1", "80+", emulated=100, operation="and.popc"),
    )


_INTEGER: dict[str, Any] = {"mixed": True, "saturates": True}
_FP8: dict[str, Any] = {"since_ptx": "8.4", "targets": "89+", "mixed": True, "emulated": 90, "native": (120, 121)}
_NARROW = "e4m3 e5m2 e3m2 e2m3 e2m1"
_KIND: dict[str, Any] = {"mixed": True, "ordered_only": True}
_UNSCALED = "ptxas takes this kind without .block_scale, as .kind::f8f6f4; PTX does not list it"
_FAMILY = (
    "ptxas takes this for sm_100, sm_103 and sm_110 too, as a sequence of f16 instructions; PTX lists sm_120 alone"
)


def _kind_rows(k: int, sparse: bool) -> tuple[MmaRow, ...]:
    """The rows of the f8f6f4 family for one K: first the pairs of 8-bit floats, which more targets have, then all
    pairs."""
    make = _sparse if sparse else _dense
    families = f"{FAMILIES_100} {FAMILY_120}"
    f16_targets = FAMILY_120 if sparse else families
    narrow_f32, narrow_f16 = (
        (f"{ARCHITECTURES_100} {ARCHITECTURE_120}", ARCHITECTURE_120) if sparse else (families, families)
    )
    common = _KIND | {"kind": "f8f6f4", "emulated": 90, "native": (120, 121)}
    rows = [
        make(k, "f32", "e4m3 e5m2", since_ptx="8.7", targets=families, note=_FAMILY, **common),
        make(k, "f16", "e4m3 e5m2", since_ptx="8.7", targets=f16_targets, note="" if sparse else _FAMILY, **common),
        make(k, "f32", _NARROW, since_ptx="8.7", targets=FAMILY_120, **common),
        make(k, "f16", _NARROW, since_ptx="8.7", targets=FAMILY_120, **common),
        make(
            k,
            "f32",
            _NARROW,
            since_ptx="8.7",
            targets=FAMILY_120,
            scale="1X ue8m0",
            implied_vector=True,
            **common | {"kind": "mxf8f6f4"},
        ),
    ]
    for kind, f32, f16 in (
        ("mxf8f6f4", families, f16_targets),
        ("mxf4", narrow_f32, narrow_f16),
        ("mxf4nvf4", narrow_f32, narrow_f16),
    ):
        for accumulator, targets in (("f32", f32), ("f16", f16)):
            rows.append(
                make(
                    k,
                    accumulator,
                    "e4m3 e5m2",
                    since_ptx="8.7",
                    targets=targets,
                    note=_UNSCALED,
                    **common | {"kind": kind},
                )
            )
    return tuple(rows)


def _packed_rows(k: int, sparse: bool) -> tuple[MmaRow, ...]:
    """The rows of the kinds that take packed e2m1 with block scales."""
    make, targets = (_sparse, ARCHITECTURE_120) if sparse else (_dense, FAMILY_120)
    common: dict[str, Any] = {"since_ptx": "8.7", "targets": targets, "ordered_only": True}
    return (
        make(k, "f32", "e2m1", kind="mxf4", scale="2X ue8m0", implied_vector=True, **common),
        make(k, "f32", "e2m1", kind="mxf4nvf4", scale="2X ue8m0", **common),
        make(k, "f32", "e2m1", kind="mxf4nvf4", scale="4X ue4m3", **common),
        make(k, "f32", "e2m1", kind="mxf4nvf4", scale="4X ue8m0", **common | {"since_ptx": "9.1"}),
    )


MMA_ROWS: tuple[MmaRow, ...] = (
    # shape k, C and D, A and B
    _sparse(16, "f16", "f16", emulated_plain=100),
    _sparse(16, "f32", "f16", emulated_plain=100),
    _sparse(32, "f16", "f16", emulated_plain=100),
    _sparse(32, "f32", "f16", emulated_plain=100, lax_selectors=2),
    _sparse(16, "f32", "bf16"),
    _sparse(32, "f32", "bf16"),
    _sparse(8, "f32", "tf32"),
    _sparse(16, "f32", "tf32"),
    _sparse(32, "s32", "u8 s8", emulated_plain=100, **_INTEGER),
    _sparse(64, "s32", "u8 s8", emulated_plain=100, **_INTEGER),
    _sparse(64, "s32", "u4 s4", emulated=90, **_INTEGER),
    _sparse(128, "s32", "u4 s4", emulated=90, **_INTEGER),
    _sparse(64, "f32", "e4m3 e5m2", **_FP8),
    _sparse(
        64, "f16", "e4m3 e5m2", **_KIND | {"since_ptx": "8.7", "targets": FAMILY_120},
        note="ptxas takes f16 accumulators without a kind; PTX's grammar does not list them",
    ),
    *_kind_rows(64, True),
    *_packed_rows(128, True),
    _quad_pairs("f16"),
    _quad_pairs("f32 f16"),
    _quad_pairs("f32"),
    _dense(8, "f16", "f16", "6.5", targets="75+"),
    _dense(8, "f32", "f16", "6.5", targets="75+"),
    _dense(16, "f16", "f16"),
    _dense(16, "f32", "f16"),
    _dense(8, "f32", "bf16"),
    _dense(16, "f32", "bf16"),
    _dense(4, "f32", "tf32"),
    _dense(8, "f32", "tf32"),
    _double(8, 4, "7.0", "80+"),
    _double(16, 4, "7.8", "90+", emulated=100),
    _double(16, 8, "7.8", "90+", emulated=100),
    _double(16, 16, "7.8", "90+", emulated=100),
    _dense(16, "s32", "u8 s8", "6.5", m=8, targets="75+", **_INTEGER),
    _dense(16, "s32", "u8 s8", **_INTEGER),
    _dense(32, "s32", "u8 s8", **_INTEGER),
    _dense(32, "s32", "u4 s4", "6.5", m=8, targets="75+", emulated=90, **_INTEGER),
    _dense(32, "s32", "u4 s4", emulated=90, **_INTEGER),
    _dense(64, "s32", "u4 s4", emulated=90, **_INTEGER),
    *_bits(8, 128, "75+"),
    *_bits(16, 128, "80+"),
    *_bits(16, 256, "80+"),
    _dense(16, "f32", "e4m3 e5m2", **_FP8 | {"since_ptx": "8.7", "spare_b": 1}),
    _dense(16, "f16", "e4m3 e5m2", **_FP8 | {"since_ptx": "8.7", "spare_b": 1}),
    _dense(32, "f32", "e4m3 e5m2", **_FP8),
    _dense(32, "f16", "e4m3 e5m2", **_FP8 | {"since_ptx": "8.7"}),
    *_kind_rows(32, False),
    *_packed_rows(64, False),
)  # fmt: skip
