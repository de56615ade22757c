"""Every instruction form that tcsim knows, one row each.

The table of the matrix instructions is in `isa.mma_rows`; the rest (loads, stores, moves, integer arithmetic, barriers) is in `isa.plain_forms`.
Decoding, printing, legality, operand sizes, targets and the documentation table are read from these rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache

from isa.errors import IsaError
from isa.fragments import Fragment, a_fragment, accumulator_fragment, b_fragment
from isa.metadata import Metadata, metadata_operand
from isa.mma_rows import MMA_ROWS, ORDERED_SINCE_PTX, MmaRow
from isa.scales import ScaleOperand, scale_operand
from isa.targets import Availability, Target, parse_target
from isa.types import ELEMENT_TYPES, PACKED_E2M1, ElementType


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
        limit: values of an immediate that are taken: 0 .. limit - 1 (0: any).
        lax: how many of the last of them are undefined all the same.
        constants: constants that may stand for a register: "integer", "bits" (0f3F800000), "float" (1.0).
        special: whether special registers may be read.
        multiple: a constant must be a multiple of this.
        spare: further registers of a vector that ptxas takes, and drops.
        choices: for each element of a vector the constants that are legal.
    """

    name: str
    shape: Shape
    count: int = 1
    output: bool = False
    optional: bool = False
    limit: int = 0
    lax: int = 0
    constants: tuple[str, ...] = ()
    special: bool = False
    multiple: int = 1
    choices: tuple[tuple[int, ...], ...] = ()
    spare: int = 0


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


PTX = "9.0"  # the PTX version that texts are judged by unless told otherwise: that of ptxas 13.0

_C_CONSTANTS = {"f16": (), "f32": ("bits",), "s32": ("integer",)}  # ptxas 13.0: what may stand in the vector of C


@dataclass(frozen=True)
class MmaForm(Form):
    """A matrix instruction with one choice of types: D = A * B + C.

    Attributes:
        m, n, k: shape, k logical.
        d_type, a_type, b_type, c_type: element types.
        sparse, ordered: `mma.sp`, and with `::ordered_metadata`.
        saturate: `.satfinite` is written.
        row: the row of the table that it comes from.
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
    row: MmaRow

    @property
    def lax_selectors(self) -> int:
        """See `MmaRow`."""
        return self.row.lax_selectors

    def native(self, target: Target) -> bool:
        """Whether the target has the instruction; otherwise ptxas 13.0 writes a sequence for it."""
        lowest = self.row.emulated_plain if not self.ordered and self.row.emulated_plain else self.row.emulated
        return not lowest or target.number < lowest or target.number in self.row.native

    def notes(self, target: Target | None = None) -> tuple[str, ...]:
        """What a user of this form should know, on this target or on any."""
        found = [self.row.note] if self.row.note else []
        if self.sparse and not self.ordered and target is not None and not self.native(target) and self.row.emulated_plain:
            found.append(f"plain .sp is slow on {target}: ptxas sorts the metadata by a routine; .sp::ordered_metadata is native")
        elif target is not None and not self.native(target):
            found.append(f"{target} has no such instruction: ptxas writes a sequence for it")
        return tuple(found)

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

    @cached_property
    def scale_a(self) -> ScaleOperand:
        """The scale factors of A's rows; IsaError for a form without block scales."""
        return self._scale("scale_a", self.m)

    @cached_property
    def scale_b(self) -> ScaleOperand:
        """The scale factors of B's columns; IsaError for a form without block scales."""
        return self._scale("scale_b", self.n)

    def _scale(self, name: str, vectors: int) -> ScaleOperand:
        if not self.row.scale:
            raise IsaError(self.opcode, -1, f"a form without .block_scale has no operand {name}", "a form with .block_scale")
        return scale_operand(name, vectors, self.k, self.row.scale)

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
    vector, _, scale_type = row.scale.partition(" ")
    sparse = ("sp::ordered_metadata" if ordered else "sp") if row.sparse else ""
    scale = f"block_scale.scale_vec::{vector}" if vector else ""
    middle = (f"kind::{row.kind}" if row.kind else "", scale, "satfinite" if saturate else "")
    return spelled(sparse, f"m{m}n{n}k{k}", middle, (row.accumulators, a, b, row.accumulators), scale_type)


def spelled(sparse: str, shape: str, middle: Iterable[str], types: Iterable[str], scale_type: str) -> str:
    """An mma opcode with its qualifiers in the order of PTX's grammar; empty ones are left out."""
    parts = ("mma", sparse, "sync.aligned", shape, "row.col", *middle, *types, scale_type)
    return ".".join(part for part in parts if part)


def _expand(row: MmaRow) -> list[MmaForm]:
    names = row.inputs.split()
    pairs = [(a, b) for a in names for b in names if row.mixed or a == b]
    spellings = (True,) if row.sparse and row.ordered_only else (False, True) if row.sparse else (False,)
    saturations = (False, True) if row.saturates else (False,)
    return [_form(row, a, b, ordered, saturate) for ordered in spellings for a, b in pairs for saturate in saturations]


def input_type(row: MmaRow, name: str) -> ElementType:
    """The type of A or B: e2m1 is packed in the kinds of 4 bits, and has a byte of its own elsewhere."""
    return PACKED_E2M1 if name == "e2m1" and row.kind.startswith("mxf4") else ELEMENT_TYPES[name]


def _form(row: MmaRow, a: str, b: str, ordered: bool, saturate: bool) -> MmaForm:
    m, n, k = row.shape
    a_type, b_type, accumulator = input_type(row, a), input_type(row, b), ELEMENT_TYPES[row.accumulators]
    d = accumulator_fragment("d", m, n, accumulator).registers
    roles = [
        Role("d", Shape.VECTOR, d, output=True),
        Role("a", Shape.VECTOR, a_fragment(m, k // 2 if row.sparse else k, a_type).registers),
        Role("b", Shape.VECTOR, b_fragment(k, n, b_type).registers, spare=row.spare_b),
        Role("c", Shape.VECTOR, d, constants=_C_CONSTANTS[row.accumulators]),
    ]
    if row.sparse:
        selectors = metadata_operand(m, k, a_type, ordered).selectors
        roles += [
            Role("e", Shape.SCALAR),
            Role("f", Shape.IMMEDIATE, limit=selectors + row.lax_selectors, lax=row.lax_selectors, constants=("integer",)),
        ]
    if row.scale:
        for name, vectors in (("scale_a", m), ("scale_b", n)):
            scale = scale_operand(name, vectors, k, row.scale)
            roles.append(Role(name, Shape.SCALAR))
            roles.append(Role(f"{name}_ids", Shape.VECTOR, 2, constants=("integer",), choices=(scale.byte_ids, scale.thread_ids)))
    since = max(row.since_ptx, ORDERED_SINCE_PTX, key=version) if ordered else row.since_ptx
    return MmaForm(
        mma_opcode(row, a, b, ordered, saturate), tuple(roles), since, Availability(row.targets), row.section, "tensor",
        m, n, k, accumulator, a_type, b_type, accumulator, row.sparse, ordered, saturate, row,
    )  # fmt: skip


def version(text: str) -> tuple[int, ...]:
    """`"8.10"` -> (8, 10), to compare PTX versions."""
    return tuple(int(part) for part in text.split("."))


@lru_cache(maxsize=1)
def mma_forms() -> dict[str, MmaForm]:
    """Every matrix form by its canonical opcode; where two rows hold a pair of types, the first counts."""
    forms: dict[str, MmaForm] = {}
    for row in MMA_ROWS:
        for form in _expand(row):
            forms.setdefault(form.opcode, form)
    return forms


def mma_form(opcode: str, target: str | Target | None = None, ptx: str = PTX) -> MmaForm:
    """The form of a canonical or reordered opcode without operands; IsaError if there is none or the target or PTX version lacks it."""
    from isa.opcodes import read_opcode

    form = read_opcode(opcode, parse_target(target) if target is not None else None, ptx=ptx)
    if not isinstance(form, MmaForm):
        raise IsaError(opcode, 0, f"'{opcode}' is not a matrix instruction", "mma or mma.sp")
    return form
