"""The forms of `tcgen05.mma`. They are built from the rows of `isa.forms.tcgen05_rows` when an opcode asks for them.

The form of an opcode lists every operand that may stand there; `written` narrows it to the operands of one instruction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import TypeGuard

from isa.errors import OperandRefused
from isa.forms.record import Form, MatrixForm, Role, Shape, Time, version
from isa.forms.rows import joined, tmem, word
from isa.forms.tcgen05_rows import (
    COLLECTOR_OPERATIONS,
    COLLECTORS,
    KIND_ROWS,
    LANE_REGISTERS,
    SCALES_INPUT,
    KindRow,
    VectorRow,
)

MMA_NAMES = ("tcgen05.mma", "tcgen05.mma.ws")
_SECTIONS = {
    (False, False): "9.7.16.10.9.1 (tcgen05.mma)",
    (True, False): "9.7.16.10.9.2 (tcgen05.mma.sp)",
    (False, True): "9.7.16.10.9.3 (tcgen05.mma.ws)",
    (True, True): "9.7.16.10.9.4 (tcgen05.mma.ws.sp)",
}  # by (sparse, ws)


@dataclass(frozen=True, kw_only=True)
class Tcgen05MmaForm(MatrixForm):
    """One spelling of tcgen05.mma, `.mma.sp`, `.mma.ws` or `.mma.ws.sp`. PTX ISA 9.0, 9.7.16.10.9.

    Attributes:
        kind: "f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4" or "mxf4nvf4"; the element types are in the instruction
            descriptor.
        ws: `.ws` (weight stationary).
        vector: the scale factors' vector size as it is spelt; "" if it is left out.
        factors: scale factors for each row of A and instruction: 1, 2, 4 (1X, 2X, 4X); 0 without block scale.
        ashift: whether the rows of A are shifted by one.
        collector: buffer and operation of the collector, ("a", "discard") or ("b0", "discard") where none is written.
        last: what the constant after enable-input-d may be, see `KindRow`; "zero_mask" for `.ws`.
        a_in_tmem: whether A is in Tensor Memory; None while the operands are not known.
        has_lane_vector, has_scale_d, has_zero_mask: whether the operand is there (or may be, while the operands are not
            known).
    """

    kind: str
    ws: bool
    vector: str
    factors: int
    ashift: bool
    collector: tuple[str, str]
    last: str
    a_in_tmem: bool | None = None

    __hash__ = Form.__hash__

    @property
    def block_scale(self) -> bool:
        """Whether scale factors multiply A and B."""
        return self.factors > 0

    @property
    def has_lane_vector(self) -> bool:
        """Whether the vector of disabled lanes is (or may be) an operand."""
        return self._has("lanes")

    @property
    def has_scale_d(self) -> bool:
        """Whether the constant that scales D is (or may be) an operand."""
        return self._has("scale_d")

    @property
    def has_zero_mask(self) -> bool:
        """Whether the zero-column mask is (or may be) an operand."""
        return self._has("zero_mask")

    def _has(self, name: str) -> bool:
        return any(role.name == name for role in self.roles)

    def written(self, operands: Mapping[str, bool]) -> Form:
        """The form with just the operands that an instruction has; raises OperandRefused if they do not go together."""
        if self.ashift and not operands["a"]:
            raise OperandRefused("a", ".ashift shifts rows of A in Tensor Memory; here A is in shared memory", "[%r0]")
        if "lanes" in operands and "ignored" in operands:
            raise OperandRefused(
                "ignored", f"nothing may follow enable-input-d of .kind::{self.kind} with a lane vector", ";"
            )
        return _placed(self, tuple(operands), operands["a"])


@lru_cache(maxsize=4096)
def _placed(form: Tcgen05MmaForm, names: tuple[str, ...], in_tmem: bool) -> Tcgen05MmaForm:
    """The form with just these operands, for A in Tensor Memory or A described by a descriptor."""
    narrow = form.with_operands(names)
    a = tmem("a") if in_tmem else word("a", bits=64)
    roles = tuple(a if role.name == "a" else role for role in narrow.roles)
    return replace(form, roles=roles, targets=narrow.targets, a_in_tmem=in_tmem)


def waits_for_loads(form: Form) -> bool:
    """Whether an instruction waits until loads of Tensor Memory have come: `tcgen05.wait::ld`."""
    return form.time is Time.TMEM_SYNC and form.opcode.startswith("tcgen05.wait::ld")


def is_tcgen05_mma(form: Form) -> TypeGuard[Tcgen05MmaForm]:
    """Whether a form is one of tcgen05.mma, whose operands are in shared and Tensor Memory."""
    return form.is_matrix and form.time is Time.TCGEN05


@lru_cache(maxsize=4096)
def tcgen05_mma_form(
    row: KindRow, ws: bool, sparse: bool, group: str, vector: VectorRow | None, ashift: bool, collector: str
) -> Tcgen05MmaForm:
    """The form of one choice of qualifiers, e.g. group "cta_group::1", collector "collector::a::fill" or ""; the same
    object each time."""
    targets, since = row.targets, row.since_ptx
    if vector is not None:
        targets = vector.sparse if sparse else vector.dense
        since = max(row.since_ptx, vector.since_ptx, key=version)
    name = "tcgen05.mma.ws" if ws else "tcgen05.mma"
    spelling = vector.spelling if vector else ""
    written = (
        "sp" if sparse else "",
        group,
        f"kind::{row.kind}",
        "block_scale" if vector else "",
        spelling,
        "ashift" if ashift else "",
        collector,
    )
    qualifiers = tuple(q for q in written if q)
    last = "zero_mask" if ws else row.last
    buffer = collector.split("::")[1:] if collector else ["b0" if ws else "a", COLLECTOR_OPERATIONS[-1]]
    roles, section = _roles(row, ws, sparse, int(group[-1]), last), f"PTX ISA 9.0, {_SECTIONS[sparse, ws]}"
    return Tcgen05MmaForm(
        opcode=joined(name, qualifiers),
        name=name,
        qualifiers=qualifiers,
        roles=roles,
        since_ptx=since,
        targets=targets,
        section=section,
        time=Time.TCGEN05,
        narrowed=(("scale_d", SCALES_INPUT),),
        kind=row.kind,
        sparse=sparse,
        ws=ws,
        vector=spelling,
        factors=vector.factors if vector else 0,
        ashift=ashift,
        collector=(buffer[0], buffer[1]),
        last=last,
    )


def _roles(row: KindRow, ws: bool, sparse: bool, group: int, last: str) -> tuple[Role, ...]:
    """The operands in the order of the grammar. D is also read, where enable-input-d says so."""
    roles: list[Role] = [
        tmem("d", output=True),
        Role("a", Shape.MATRIX, constants=("integer",), widths=(64,)),
        word("b", bits=64),
    ]
    roles += [tmem("sp_meta")] if sparse else []
    roles += [word("idesc")]
    if row.vectors:
        roles += [tmem("scale_a"), tmem("scale_b")]
    elif not ws:
        count = LANE_REGISTERS[group]
        roles += [
            Role(
                "lanes",
                Shape.VECTOR,
                count,
                optional=True,
                constants=("integer", "bits"),
                special=True,
                widths=(32,),
                type="b32",
            )
        ]
    roles += [Role("enable", Shape.PREDICATE, constants=("integer",), widths=(1,))]
    if last == "zero_mask":
        roles += [word("zero_mask", bits=64, optional=True)]
    elif last:
        roles += [
            Role(last, Shape.IMMEDIATE, optional=True, limit=16 if last == "scale_d" else 0, constants=("integer",))
        ]
    return tuple(roles)


def tcgen05_mma_opcodes() -> Iterator[str]:
    """Every canonical opcode of tcgen05.mma."""
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
