"""Every instruction form that tcsim knows, one row each.

`MMA_ROWS` is the table of the matrix instructions; the rest (loads, stores, moves, integer arithmetic, barriers) is in `isa.plain_forms`.
Decoding, printing, legality, operand sizes, targets and the documentation table are read from these rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache

from isa.errors import IsaError
from isa.fragments import Fragment, a_fragment, accumulator_fragment, b_fragment
from isa.metadata import Metadata, metadata_operand
from isa.targets import Availability, Target, parse_target
from isa.types import ELEMENT_TYPES, ElementType


class Shape(Enum):
    """How an operand is written."""

    VECTOR = "vector"  # {%r0, %r1}
    SCALAR = "scalar"  # %r0 or {%r0}
    REGISTER = "register"  # %r0
    IMMEDIATE = "immediate"  # a constant expression
    VALUE = "value"  # register or constant
    ADDRESS = "address"  # [%r0 + 16]
    MATRIX = "descriptor or address"  # %rd0, a constant, or [%r0 + 16]
    PREDICATE = "predicate"  # %p0, !%p0 or a constant


@dataclass(frozen=True)
class Role:
    """One operand of a form.

    Attributes:
        name: operand letter as in PTX.
        shape: how it is written.
        count: registers in it.
        output: whether the instruction writes it.
        optional: whether it may be left out.
        limit: legal values of an immediate are 0 .. limit - 1 (0: any).
        constants: constants that may stand for a register: "integer", "bits" (0f3F800000), "float" (1.0).
        special: whether special registers may be read.
        multiple: a constant must be a multiple of this.
    """

    name: str
    shape: Shape
    count: int = 1
    output: bool = False
    optional: bool = False
    limit: int = 0
    constants: tuple[str, ...] = ()
    special: bool = False
    multiple: int = 1


@dataclass(frozen=True)
class Form:
    """One instruction form.

    Attributes:
        opcode: the canonical spelling, all qualifiers included, no operands.
        roles: operands in PTX order.
        since_ptx: first PTX version.
        targets: which targets have it.
        section: PTX section that defines it.
        unit: the unit of an SM that executes it: "tensor", "shared", "alu", "barrier".
    """

    opcode: str
    roles: tuple[Role, ...]
    since_ptx: str
    targets: Availability
    section: str
    unit: str

    @property
    def since_target(self) -> int:
        """The lowest sm number that has it."""
        return self.targets.lowest

    def supports(self, target: Target) -> bool:
        return target in self.targets


@dataclass(frozen=True)
class MmaRow:
    """One row of the table: a shape with the element types that go together.

    Attributes:
        shape: m, n, k (k logical: uncompressed).
        accumulators: types of C and D, always equal.
        inputs: types of A and B; each may be any of them, independently, if `mixed`.
        sparse, mixed, saturates: whether it is `mma.sp`, mixes input types, takes `.satfinite`.
        since_ptx, since_target: first PTX version and lowest target of the plain spelling.
        lax_selectors: selectors beyond the legal ones that ptxas 13.0 lets through (an H100 stops with an illegal instruction).
        source: where the row is stated.
    """

    shape: tuple[int, int, int]
    accumulators: str
    inputs: str
    sparse: bool
    mixed: bool
    saturates: bool
    since_ptx: str
    since_target: int
    lax_selectors: int
    source: str


_SP = "PTX ISA 9.0, 9.7.14.6.3 (mma.sp); ptxas 13.0"
_DENSE = "PTX ISA 9.0, 9.7.14.5.14 (mma); ptxas 13.0"


def _sparse(
    k: int, accumulators: str, inputs: str, since: tuple[str, int] = ("7.1", 80), *, integer: bool = False, mixed: bool = False, lax: int = 0
) -> MmaRow:
    return MmaRow((16, 8, k), accumulators, inputs, True, mixed or integer, integer, *since, lax, _SP)


def _dense(
    m: int, k: int, accumulators: str, inputs: str, since: tuple[str, int] = ("7.0", 80), *, integer: bool = False, mixed: bool = False
) -> MmaRow:
    return MmaRow((m, 8, k), accumulators, inputs, False, mixed or integer, integer, *since, 0, _DENSE)


MMA_ROWS: tuple[MmaRow, ...] = (
    # shape k, C and D, A and B, first PTX and target
    _sparse(16, "f16", "f16"),
    _sparse(16, "f32", "f16"),
    _sparse(32, "f16", "f16"),
    _sparse(32, "f32", "f16", lax=2),
    _sparse(16, "f32", "bf16"),
    _sparse(32, "f32", "bf16"),
    _sparse(8, "f32", "tf32"),
    _sparse(16, "f32", "tf32"),
    _sparse(32, "s32", "u8 s8", integer=True),
    _sparse(64, "s32", "u8 s8", integer=True),
    _sparse(64, "s32", "u4 s4", integer=True),
    _sparse(128, "s32", "u4 s4", integer=True),
    _sparse(64, "f32", "e4m3 e5m2", ("8.4", 89), mixed=True),
    _dense(16, 8, "f16", "f16", ("6.5", 75)),
    _dense(16, 8, "f32", "f16", ("6.5", 75)),
    _dense(16, 16, "f16", "f16"),
    _dense(16, 16, "f32", "f16"),
    _dense(16, 8, "f32", "bf16"),
    _dense(16, 16, "f32", "bf16"),
    _dense(16, 4, "f32", "tf32"),
    _dense(16, 8, "f32", "tf32"),
    _dense(8, 16, "s32", "u8 s8", ("6.5", 75), integer=True),
    _dense(16, 16, "s32", "u8 s8", integer=True),
    _dense(16, 32, "s32", "u8 s8", integer=True),
    _dense(8, 32, "s32", "u4 s4", ("6.5", 75), integer=True),
    _dense(16, 32, "s32", "u4 s4", integer=True),
    _dense(16, 64, "s32", "u4 s4", integer=True),
    _dense(16, 16, "f32", "e4m3 e5m2", ("8.7", 89), mixed=True),
    _dense(16, 16, "f16", "e4m3 e5m2", ("8.7", 89), mixed=True),
    _dense(16, 32, "f32", "e4m3 e5m2", ("8.4", 89), mixed=True),
    _dense(16, 32, "f16", "e4m3 e5m2", ("8.7", 89), mixed=True),
)

_C_CONSTANTS = {"f16": (), "f32": ("bits",), "s32": ("integer",)}  # ptxas 13.0: what may stand in the vector of C
ORDERED_SINCE_PTX = "8.5"  # PTX ISA 9.0, 9.7.14.6.3: .sp::ordered_metadata


@dataclass(frozen=True)
class MmaForm(Form):
    """A matrix instruction with one choice of types: D = A * B + C.

    Attributes:
        m, n, k: shape, k logical.
        d_type, a_type, b_type, c_type: element types.
        sparse, ordered: `mma.sp`, and with `::ordered_metadata`.
        saturate: `.satfinite` is written.
        lax_selectors: see `MmaRow`.
    """

    m: int
    n: int
    k: int
    d_type: ElementType
    a_type: ElementType
    b_type: ElementType
    c_type: ElementType
    sparse: bool
    ordered: bool
    saturate: bool
    lax_selectors: int

    @property
    def k_stored(self) -> int:
        """Columns of A that the registers hold: K, or K / 2 in a sparse form."""
        return self.k // 2 if self.sparse else self.k

    @cached_property
    def a(self) -> Fragment:
        return a_fragment(self.m, self.k_stored, self.a_type)

    @cached_property
    def b(self) -> Fragment:
        return b_fragment(self.k, self.n, self.b_type)

    @cached_property
    def c(self) -> Fragment:
        return accumulator_fragment("c", self.m, self.n, self.c_type)

    @cached_property
    def d(self) -> Fragment:
        return accumulator_fragment("d", self.m, self.n, self.d_type)

    @cached_property
    def metadata(self) -> Metadata:
        """The metadata operand; IsaError for a dense form."""
        if not self.sparse:
            raise IsaError(self.opcode, -1, "a dense form has no metadata operand", "an mma.sp form")
        return metadata_operand(self.m, self.k, self.a_type, self.ordered)

    @property
    def fma(self) -> int:
        """Multiply-adds of the instruction as named, M * N * K (pruned products count)."""
        return self.m * self.n * self.k

    @property
    def performed_fma(self) -> int:
        """Multiply-adds that are performed: half of `fma` in a sparse form."""
        return self.m * self.n * self.k_stored


def mma_opcode(row: MmaRow, a: str, b: str, ordered: bool, saturate: bool) -> str:
    """The canonical spelling. PTX ISA 9.0, 9.7.14.5.14 and 9.7.14.6.3, order of qualifiers as in the grammar."""
    m, n, k = row.shape
    name = ("mma.sp::ordered_metadata" if ordered else "mma.sp") if row.sparse else "mma"
    return f"{name}.sync.aligned.m{m}n{n}k{k}.row.col{'.satfinite' if saturate else ''}.{row.accumulators}.{a}.{b}.{row.accumulators}"


def _expand(row: MmaRow) -> list[MmaForm]:
    names = row.inputs.split()
    pairs = [(a, b) for a in names for b in names if row.mixed or a == b]
    spellings = (False, True) if row.sparse else (False,)
    saturations = (False, True) if row.saturates else (False,)
    return [_form(row, a, b, ordered, saturate) for ordered in spellings for a, b in pairs for saturate in saturations]


def _form(row: MmaRow, a: str, b: str, ordered: bool, saturate: bool) -> MmaForm:
    m, n, k = row.shape
    a_type, b_type, accumulator = ELEMENT_TYPES[a], ELEMENT_TYPES[b], ELEMENT_TYPES[row.accumulators]
    d = accumulator_fragment("d", m, n, accumulator).registers
    roles = [
        Role("d", Shape.VECTOR, d, output=True),
        Role("a", Shape.VECTOR, a_fragment(m, k // 2 if row.sparse else k, a_type).registers),
        Role("b", Shape.VECTOR, b_fragment(k, n, b_type).registers),
        Role("c", Shape.VECTOR, d, constants=_C_CONSTANTS[row.accumulators]),
    ]
    if row.sparse:
        selectors = metadata_operand(m, k, a_type, ordered).selectors
        roles += [Role("e", Shape.SCALAR), Role("f", Shape.IMMEDIATE, limit=selectors + row.lax_selectors, constants=("integer",))]
    since = max(row.since_ptx, ORDERED_SINCE_PTX, key=version) if ordered else row.since_ptx
    return MmaForm(
        mma_opcode(row, a, b, ordered, saturate), tuple(roles), since, Availability(f"{row.since_target}+"), row.source, "tensor",
        m, n, k, accumulator, a_type, b_type, accumulator, row.sparse, ordered, saturate, row.lax_selectors,
    )  # fmt: skip


def version(text: str) -> tuple[int, ...]:
    """`"8.10"` -> (8, 10), to compare PTX versions."""
    return tuple(int(part) for part in text.split("."))


@lru_cache(maxsize=1)
def mma_forms() -> dict[str, MmaForm]:
    """Every matrix form by its canonical opcode."""
    return {form.opcode: form for row in MMA_ROWS for form in _expand(row)}


def mma_form(opcode: str, target: str | Target | None = None) -> MmaForm:
    """The form of a canonical or reordered opcode without operands; IsaError if there is none or the target lacks it."""
    from isa.opcodes import read_opcode

    form = read_opcode(opcode, parse_target(target) if target is not None else None)
    if not isinstance(form, MmaForm):
        raise IsaError(opcode, 0, f"'{opcode}' is not a matrix instruction", "mma or mma.sp")
    return form
