"""The forms of `mma` and `mma.sp`. Each row of the table `isa.forms.mma_rows` stands for several opcodes; here each of
them becomes one `MmaForm`, which knows where the elements of its operands live.

Decoding, printing, legality, operand sizes, targets and the documentation table are read from these forms.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import NamedTuple, TypeGuard

from isa.errors import NoOperandError
from isa.forms.mma_rows import MMA_ROWS, ORDERED_SINCE_PTX, MmaRow
from isa.forms.record import Form, MatrixForm, Role, Shape, Time, version
from isa.fragments.metadata import Metadata, metadata_operand, stored_k
from isa.fragments.registers import Fragment, a_fragment, accumulator_fragment, b_fragment, quad_pair_fragment
from isa.fragments.scales import ScaleOperand, scale_operand
from isa.targets import Availability, Target
from isa.types import MATRIX_TYPES, PACKED_E2M1, ElementType

_C_CONSTANTS = {
    "f16": ("integer",),
    "f32": ("bits", "low word", "integer"),
    "f64": ("double",),
    "s32": ("integer",),
}  # ptxas 13.0: what may stand beside registers in the vector of C


@dataclass(frozen=True, kw_only=True)
class MmaForm(MatrixForm):
    """A matrix instruction with one choice of types: D = A * B + C.

    Attributes:
        m, n, k: shape, k logical; of each of `blocks` products.
        d_type, a_type, b_type, c_type: element types.
        ordered: whether it is written with `::ordered_metadata`.
        saturate: `.satfinite` is written.
        row: the row of the table that it comes from.
        a_layout, b_layout: "row" or "col".
        rounding: "rn", "rz", "rm" or "rp"; empty where PTX does not state one.
    """

    m: int
    n: int
    k: int
    d_type: ElementType
    a_type: ElementType
    b_type: ElementType
    c_type: ElementType
    ordered: bool
    saturate: bool
    row: MmaRow
    a_layout: str = "row"
    b_layout: str = "col"
    rounding: str = ""

    __hash__ = Form.__hash__

    @property
    def blocks(self) -> int:
        """The number of independent products, each of m * n * k: 4 for `mma.m8n8k4` of f16, whose operands are stacked
        (`quad_pair_fragment`), otherwise 1."""
        return self.row.blocks

    @property
    def hypothetical(self) -> str:
        """The name of the sparsity pattern of an instruction that no chip has (`isa.sparsity.forms`); else empty."""
        return ""

    @property
    def lax_selectors(self) -> int:
        """Selectors beyond the legal ones that ptxas 13.0 lets through; see `MmaRow`."""
        return self.row.lax_selectors

    def native(self, target: Target) -> bool:
        """Whether the target has the instruction; otherwise ptxas 13.0 writes a sequence for it."""
        lowest = self.row.emulated_plain if not self.ordered and self.row.emulated_plain else self.row.emulated
        return not lowest or target.number < lowest or target.number in self.row.native

    def sorts_metadata(self, target: Target) -> bool:
        """Whether ptxas sorts the metadata of this form by a routine, which is slow: plain `.sp` of some types, since
        Blackwell."""
        return self.sparse and not self.ordered and bool(self.row.emulated_plain) and not self.native(target)

    def notes(self, target: Target | None = None) -> tuple[str, ...]:
        """What a user of this form should know, on this target or on any."""
        notes = [self.row.note] if self.row.note else []
        if target is not None and self.sorts_metadata(target):
            notes.append(
                f"plain .sp is slow on {target}: ptxas sorts the metadata by a routine; .sp::ordered_metadata is native"
            )
        elif target is not None and not self.native(target):
            notes.append(f"{target} has no such instruction: ptxas writes a sequence for it")
        return tuple(notes)

    @property
    def k_stored(self) -> int:
        """The number of columns of A that the registers hold: K, or K / 2 in a sparse form."""
        return stored_k(self.k, self.sparse)

    @cached_property
    def a(self) -> Fragment:
        """Where the elements of A live; of a sparse form, those of the stored matrix."""
        return operand_fragment(self.row, "a", self.a_type, self.a_layout)

    @cached_property
    def b(self) -> Fragment:
        """Where the elements of B live."""
        return operand_fragment(self.row, "b", self.b_type, self.b_layout)

    @cached_property
    def c(self) -> Fragment:
        """Where the elements of C live."""
        return operand_fragment(self.row, "c", self.c_type)

    @cached_property
    def d(self) -> Fragment:
        """Where the elements of D live."""
        return operand_fragment(self.row, "d", self.d_type)

    @cached_property
    def metadata(self) -> Metadata:
        """The metadata operand; raises IsaError for a dense form."""
        if not self.sparse:
            raise NoOperandError(self.opcode, -1, "a dense form has no metadata operand", "an mma.sp form")
        return metadata_operand(self.m, self.k, self.a_type, self.ordered)

    @cached_property
    def scale_a(self) -> ScaleOperand:
        """The scale factors of A's rows; raises IsaError for a form without block scales."""
        return self._scale("scale_a", self.m)

    @cached_property
    def scale_b(self) -> ScaleOperand:
        """The scale factors of B's columns; raises IsaError for a form without block scales."""
        return self._scale("scale_b", self.n)

    def _scale(self, name: str, vectors: int) -> ScaleOperand:
        if not self.row.scale:
            reason = f"a form without .block_scale has no operand {name}"
            raise NoOperandError(self.opcode, -1, reason, "a form with .block_scale")
        return scale_operand(name, vectors, self.k, self.row.scale)

    @property
    def fma(self) -> int:
        """Multiply-adds of the instruction as named, M * N * K of each block (pruned products count)."""
        return self.m * self.n * self.k * self.blocks

    @property
    def performed_fma(self) -> int:
        """Multiply-adds that are performed: half of `fma` in a sparse form."""
        return self.m * self.n * self.k_stored * self.blocks


def operand_fragment(row: MmaRow, name: str, element: ElementType, layout: str = "") -> Fragment:
    """Where the elements of operand a, b, c or d live."""
    m, n, k = row.shape
    if row.blocks > 1:
        return quad_pair_fragment(name, element, layout)
    if name == "a":
        return a_fragment(m, stored_k(k, row.sparse), element)
    return b_fragment(k, n, element) if name == "b" else accumulator_fragment(name, m, n, element)


class Variant(NamedTuple):
    """What distinguishes the forms of one row: the types of A and B, and which optional qualifiers are written."""

    a: str
    b: str
    ordered: bool
    saturate: bool
    layouts: str
    rounding: str


def mma_opcode(row: MmaRow, variant: Variant) -> str:
    """The canonical spelling. PTX ISA 9.0, 9.7.14.5.14 and 9.7.14.6.3, order of qualifiers as in the grammar; no
    rounding where it is the default."""
    m, n, k = row.shape
    vector, _, scale_type = row.scale.partition(" ")
    sparse = ("sp::ordered_metadata" if variant.ordered else "sp") if row.sparse else ""
    scale = f"block_scale.scale_vec::{vector}" if vector else ""
    rounding = "" if variant.rounding in row.roundings[:1] else variant.rounding
    middle = (f"kind::{row.kind}" if row.kind else "", scale, "satfinite" if variant.saturate else "", rounding)
    return spelled(
        sparse,
        f"m{m}n{n}k{k}",
        variant.layouts,
        middle,
        (row.d, variant.a, variant.b, row.c),
        scale_type or row.operation,
    )


def spelled(sparse: str, shape: str, layouts: str, middle: Iterable[str], types: Iterable[str], last: str) -> str:
    """An mma opcode with its qualifiers in the order of PTX's grammar; empty ones are left out. `last`: the type of
    scales, or a bit operation."""
    parts = ("mma", sparse, "sync.aligned", shape, layouts, *middle, *types, last)
    return ".".join(part for part in parts if part)


def _expand(row: MmaRow) -> list[MmaForm]:
    names = row.inputs.split()
    pairs = [(a, b) for a in names for b in names if row.mixed or a == b]
    spellings = (True,) if row.sparse and row.ordered_only else (False, True) if row.sparse else (False,)
    saturations = (False, True) if row.saturates else (False,)
    choices = product(spellings, pairs, saturations, row.layouts, row.roundings or ("",))
    return [
        _form(row, Variant(a, b, ordered, saturate, layouts, rounding))
        for ordered, (a, b), saturate, layouts, rounding in choices
    ]


def input_type(row: MmaRow, name: str) -> ElementType:
    """The element type of A or B. The name e2m1 means packed elements in the kinds of 4 bits, and one element in each
    byte elsewhere."""
    return PACKED_E2M1 if name == "e2m1" and row.kind.startswith("mxf4") else MATRIX_TYPES[name]


def _form(row: MmaRow, variant: Variant) -> MmaForm:
    m, n, k = row.shape
    types = {
        "d": MATRIX_TYPES[row.d],
        "a": input_type(row, variant.a),
        "b": input_type(row, variant.b),
        "c": MATRIX_TYPES[row.c],
    }
    a_layout, _, b_layout = variant.layouts.partition(".")
    layouts = {"a": a_layout, "b": b_layout}
    roles = []
    for name, element in types.items():
        registers = operand_fragment(row, name, element, layouts.get(name, "")).registers
        spare = row.spare_b if name == "b" else 0
        roles.append(_matrix_role(name, element.name, registers, element.register_bits, spare))
    if row.sparse:
        selectors = metadata_operand(m, k, types["a"], variant.ordered).selectors
        roles += [
            Role("e", Shape.SCALAR),
            Role(
                "f", Shape.IMMEDIATE, limit=selectors + row.lax_selectors, lax=row.lax_selectors, constants=("integer",)
            ),
        ]
    if row.scale:
        for name, vectors in (("scale_a", m), ("scale_b", n)):
            scale = scale_operand(name, vectors, k, row.scale)
            roles.append(Role(name, Shape.SCALAR))
            roles.append(
                Role(f"{name}_ids", Shape.VECTOR, 2, constants=("integer",), choices=(scale.byte_ids, scale.thread_ids))
            )
    since = max(row.since_ptx, ORDERED_SINCE_PTX, key=version) if variant.ordered else row.since_ptx
    opcode = mma_opcode(row, variant)
    return MmaForm(
        opcode=opcode, name="mma", qualifiers=tuple(opcode.split(".")[1:]), roles=tuple(roles), since_ptx=since,
        targets=Availability(row.targets), section=row.section, time=Time.TENSOR,
        m=m, n=n, k=k, d_type=types["d"], a_type=types["a"], b_type=types["b"], c_type=types["c"],
        sparse=row.sparse, ordered=variant.ordered, saturate=variant.saturate, row=row,
        a_layout=a_layout, b_layout=b_layout, rounding=variant.rounding,
    )  # fmt: skip


@lru_cache(maxsize=256)
def _matrix_role(name: str, type_name: str, registers: int, register_bits: int, spare: int) -> Role:
    """How operand a, b, c or d is written. ptxas 13.0 takes constants beside registers in A, B and C: integers, which
    are bits, 0f3F800000 in C of f32, and in C of f32 decimal ones, of which it keeps the low word."""
    given = ("double",) if type_name == "f64" else ("integer",)
    constants = () if name == "d" else _C_CONSTANTS[type_name] if name == "c" else given
    return Role(
        name, Shape.VECTOR, registers, output=name == "d", constants=constants, spare=spare, width=register_bits
    )


def is_mma(form: Form) -> TypeGuard[MmaForm]:
    """Whether a form is one of `mma` or `mma.sp`, whose operands are fragments in registers."""
    return form.is_matrix and form.time is Time.TENSOR


@lru_cache(maxsize=1)
def mma_forms() -> dict[str, MmaForm]:
    """Every form of `mma` and `mma.sp`, by its canonical opcode. Where two rows hold the same pair of types, the first
    counts."""
    forms: dict[str, MmaForm] = {}
    for row in MMA_ROWS:
        for form in _expand(row):
            forms.setdefault(form.opcode, form)
    return forms
