"""The forms of `wgmma`, the matrix instructions of a warpgroup: `wgmma.mma_async`, its sparse form, and the fence,
the commit and the wait that go with them.

Sources: PTX ISA 9.0, 9.7.15; targets, first versions and operands as ptxas 13.0 has them (`tests/golden/ptxas_wgmma`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import TypeGuard

from isa.errors import NoOperandError, OperandRefused
from isa.forms.record import Form, MatrixForm, Role, Shape, Time
from isa.forms.rows import Qualifiers, Roles, Row, Slots, word
from isa.fragments.metadata import Metadata, metadata_operand, stored_k
from isa.fragments.registers import Fragment, a_fragment, accumulator_fragment
from isa.fragments.warpgroup import ROWS, WARPS, fragment_of_warpgroup, metadata_of_warpgroup
from isa.targets import Availability
from isa.types import MATRIX_TYPES, ElementType

M = ROWS * WARPS
_HOPPER = Availability("90a")
_EVERY_N = tuple(range(8, 257, 8))
_INTEGER_N = (8, 16, 24, *range(32, 257, 16))  # PTX ISA 9.0, 9.7.15.2
_DENSE, _SPARSE = "9.7.15.5.2", "9.7.15.6.3"
_ROW_BITS = 256  # of a row of A as it is stored, whatever its type
_GROUPS = 1 << 63  # ptxas 13.0 takes any number of groups that an s64 holds


@dataclass(frozen=True, kw_only=True)
class WgmmaForm(MatrixForm):
    """One spelling of `wgmma.mma_async` or `wgmma.mma_async.sp`: D = A * B, or + D, of the four warps of a warpgroup.

    Attributes:
        n, k: shape, k logical; M is 64.
        d_type, a_type, b_type: element types.
        saturate: `.satfinite` is written.
        operation: "and.popc" for b1: D counts the ones of the bits so joined; empty for products.
        a_in_registers: whether A is in registers, not in shared memory; None while the operands are not known.
    """

    n: int
    k: int
    d_type: ElementType
    a_type: ElementType
    b_type: ElementType
    saturate: bool
    operation: str
    a_in_registers: bool | None = None

    __hash__ = Form.__hash__

    @property
    def m(self) -> int:
        """Rows of A and D."""
        return M

    @property
    def warps(self) -> int:
        """As in `Form`: the warps of a warpgroup."""
        return WARPS

    @property
    def k_stored(self) -> int:
        """Columns of A that are stored: K, or K / 2 in a sparse form."""
        return stored_k(self.k, self.sparse)

    @property
    def scales_inputs(self) -> bool:
        """Whether the signs of A and B are operands: floats."""
        return self.a_type.is_float

    @property
    def transposes(self) -> bool:
        """Whether matrices in shared memory may be MN-major: types of 16 bits. PTX ISA 9.0, 9.7.15.5.2."""
        return self.a_type.bits == 16

    @cached_property
    def a(self) -> Fragment:
        """Where the elements of (stored) A live, if A is in registers."""
        return fragment_of_warpgroup(a_fragment(ROWS, self.k_stored, self.a_type))

    @cached_property
    def d(self) -> Fragment:
        """Where the elements of D live, and those that it is added to."""
        return fragment_of_warpgroup(accumulator_fragment("d", ROWS, self.n, self.d_type))

    @cached_property
    def metadata(self) -> Metadata:
        """The metadata operand; raises IsaError for a dense form."""
        if not self.sparse:
            raise NoOperandError(self.opcode, -1, "a dense form has no metadata operand", "wgmma.mma_async.sp")
        return metadata_of_warpgroup(metadata_operand(ROWS, self.k, self.a_type, True))

    @property
    def fma(self) -> int:
        """Multiply-adds of the instruction as named (pruned products count)."""
        return self.m * self.n * self.k

    @property
    def performed_fma(self) -> int:
        """Multiply-adds that are performed: half of `fma` in a sparse form."""
        return self.m * self.n * self.k_stored

    def written(self, operands: Mapping[str, bool]) -> Form:
        """The form with just the operands that an instruction has; raises OperandRefused if they do not go together."""
        in_registers = operands["a"]
        if self.transposes and in_registers == ("trans_a" in operands):
            where, right = ("registers", "one constant") if in_registers else ("shared memory", "two constants")
            raise OperandRefused(
                "trans_b", f"A in {where} takes {right} for transposed matrices", f"{right} behind imm-scale-b"
            )
        return _placed(self, tuple(operands), in_registers)


@lru_cache(maxsize=4096)
def _placed(form: WgmmaForm, names: tuple[str, ...], in_registers: bool) -> WgmmaForm:
    """The form with just these operands, for A in registers or A in shared memory."""
    roles = (replace(role, optional=False) for role in form.roles if role.name in names)
    chosen = tuple(role.braced if role.braced is not None and in_registers else role for role in roles)
    return replace(form, roles=chosen, a_in_registers=in_registers)


def is_wgmma(form: Form) -> TypeGuard[WgmmaForm]:
    """Whether a form multiplies matrices as a warpgroup: `wgmma.mma_async` or `.sp`."""
    return form.is_matrix and form.time is Time.WGMMA


@dataclass(frozen=True)
class WgmmaTypes:
    """Types that go together in `wgmma.mma_async`. PTX ISA 9.0, 9.7.15.3.

    Attributes:
        d, a, b: names of the types of D, A and B, any with any.
        sparse: whether there is a `.sp` form.
        since_ptx: of the dense form.
        sizes: N.
    """

    d: tuple[str, ...]
    a: tuple[str, ...]
    b: tuple[str, ...]
    sparse: bool = True
    since_ptx: str = "8.0"
    sizes: tuple[int, ...] = _EVERY_N


_FP8 = ("e4m3", "e5m2")
WGMMA_TYPES = (
    WgmmaTypes(("f16", "f32"), ("f16",), ("f16",)),
    WgmmaTypes(("f32",), ("bf16",), ("bf16",)),
    WgmmaTypes(("f32",), ("tf32",), ("tf32",)),
    WgmmaTypes(("f16", "f32"), _FP8, _FP8),
    WgmmaTypes(("s32",), ("s8",), ("s8",), sizes=_INTEGER_N),
    WgmmaTypes(("s32",), ("u8",), ("u8",), sizes=_INTEGER_N),
    WgmmaTypes(("s32",), ("s8",), ("u8",), since_ptx="8.4", sizes=_INTEGER_N),
    WgmmaTypes(("s32",), ("u8",), ("s8",), since_ptx="8.4", sizes=_INTEGER_N),
    WgmmaTypes(("s32",), ("b1",), ("b1",), sparse=False, sizes=_INTEGER_N),
)  # fmt: skip
_SPARSE_SINCE = "8.2"


def _row(types: WgmmaTypes, sparse: bool) -> Row:
    """The row of these types: qualifiers in any order but D, A, B, and `and` before `popc`; `.aligned` may be left
    out."""
    element = MATRIX_TYPES[types.a[0]]
    k = _ROW_BITS // element.bits * (2 if sparse else 1)
    shapes = tuple(f"m{M}n{n}k{k}" for n in types.sizes)
    start: Slots = (("sp",),) if sparse else ()
    slots: Slots = (*start, ("sync",), ("", "aligned"), shapes, types.d, types.a, types.b)
    ordered = tuple(range(len(slots) - 3, len(slots)))
    also: tuple[int, ...] = ()
    if element.bits == 1:
        slots, also = (*slots, ("and",), ("popc",)), (len(slots), len(slots) + 1)
    elif not element.is_float:
        slots = (*slots, ("", "satfinite"))
    since, section = (max(types.since_ptx, _SPARSE_SINCE), _SPARSE) if sparse else (types.since_ptx, _DENSE)
    return Row(
        "wgmma.mma_async",
        slots,
        _roles,
        since,
        _HOPPER,
        Time.WGMMA,
        section,
        ordered,
        also=also,
        deaf=("row", "col"),
        make=_wgmma_form,
    )


def _wgmma_form(form: Form) -> WgmmaForm:
    """The form of a row with what its qualifiers say."""
    d, a, b = _types(form.qualifiers)
    n, k = _shape(form.qualifiers)
    said = {field.name: getattr(form, field.name) for field in fields(form)}
    return WgmmaForm(
        **said, sparse="sp" in form.qualifiers, n=n, k=k, d_type=d, a_type=a, b_type=b,
        saturate="satfinite" in form.qualifiers, operation="and.popc" if "popc" in form.qualifiers else "",
    )  # fmt: skip


def _types(qualifiers: Qualifiers) -> tuple[ElementType, ElementType, ElementType]:
    d, a, b = (MATRIX_TYPES[q] for q in qualifiers if q in MATRIX_TYPES)
    return d, a, b


def _shape(qualifiers: Qualifiers) -> tuple[int, int]:
    shape = next(q for q in qualifiers if q.startswith(f"m{M}n"))
    n, k = shape.removeprefix(f"m{M}n").split("k")
    return int(n), int(k)


def _roles(qualifiers: Qualifiers) -> tuple[Role, ...]:
    """The operands in the order of the grammar; D is also read where scale-d says so."""
    (d, a, _), (n, k) = _types(qualifiers), _shape(qualifiers)
    sparse, numbers = "sp" in qualifiers, ("integer",)
    registers = M * n // (WARPS * 32 * d.per_register)
    kind = {"f32": "f32", "s32": "s32"}.get(d.name, "f16x2")
    fragment = Role(
        "a", Shape.VECTOR, 4, constants=("integer", "bits", "low word"), special=True,
        vector_type="f16x2" if a.is_float else "b32",
    )  # fmt: skip
    roles = [
        Role("d", Shape.VECTOR, registers, output=True, added=True, vector_type=kind),
        replace(word("a", bits=64), braced=fragment),
        word("b", bits=64),
    ]
    if sparse:
        selectors = metadata_operand(ROWS, k, a, True).selectors
        roles += [
            Role("e", Shape.SCALAR, first=True, constants=("bits",), predicates=True, widths=(32,), type="b32"),
            Role("f", Shape.IMMEDIATE, limit=selectors, constants=numbers),
        ]
    roles += [Role("scale_d", Shape.PREDICATE, limit=2, constants=numbers, widths=(1,))]
    if a.is_float:
        signs = ((-1, 1),)
        roles += [Role(f"scale_{x}", Shape.IMMEDIATE, choices=signs, constants=numbers) for x in "ab"]
    if a.bits == 16:
        roles += [Role(f"trans_{x}", Shape.IMMEDIATE, limit=2, constants=numbers, optional=x == "a") for x in "ab"]
    return tuple(roles)


def _warp(name: str, roles: Roles, section: str) -> Row:
    slots: Slots = (("sync",), ("", "aligned"))
    return Row(name, slots, roles, "8.0", _HOPPER, Time.WGMMA_SYNC, section)


def _groups(_: Qualifiers) -> tuple[Role, ...]:
    return (Role("groups", Shape.IMMEDIATE, limit=_GROUPS, constants=("integer",)),)


WGMMA_ROWS: tuple[Row, ...] = (
    *(_row(types, False) for types in WGMMA_TYPES),
    *(_row(types, True) for types in WGMMA_TYPES if types.sparse),
    _warp("wgmma.fence", lambda _: (), "9.7.15.7.1"),
    _warp("wgmma.commit_group", lambda _: (), "9.7.15.7.2"),
    _warp("wgmma.wait_group", _groups, "9.7.15.7.3"),
)
