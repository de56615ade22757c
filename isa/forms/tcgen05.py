"""Forms of `tcgen05`, `mbarrier` and `fence`, made from the rows of `isa.forms.tcgen05_rows` when an opcode asks for
them.

>>> form = tcgen05_form("tcgen05.mma.sp.cta_group::1.kind::f16")
>>> form.kind, form.sparse, [role.name for role in form.roles]
('f16', True, ['d', 'a', 'b', 'sp_meta', 'idesc', 'lanes', 'enable', 'scale_d'])

The form of an opcode lists every operand that may stand there; `written` narrows it to the operands of one instruction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from itertools import product
from typing import TypeGuard

from isa.errors import IsaError
from isa.forms import tcgen05_rows as table
from isa.forms.record import Access, Form, Space, Time
from isa.forms.record import version as ptx_version
from isa.forms.tcgen05_operands import OpcodeText, tmem, word
from isa.forms.tcgen05_rows import FamilyRow, KindRow, VectorRow, joined, mma_roles
from isa.targets import Availability, Target, parse_target

FAMILIES = ("tcgen05", "mbarrier", "fence")
_SECTIONS = {
    (False, False): "9.7.16.10.9.1 (tcgen05.mma)",
    (True, False): "9.7.16.10.9.2 (tcgen05.mma.sp)",
    (False, True): "9.7.16.10.9.3 (tcgen05.mma.ws)",
    (True, True): "9.7.16.10.9.4 (tcgen05.mma.ws.sp)",
}  # by (sparse, ws)


@dataclass(frozen=True, kw_only=True)
class FamilyForm(Form):
    """A form of `tcgen05`, `mbarrier` or `fence`."""

    __hash__ = Form.__hash__

    def written(self, operands: Mapping[str, bool]) -> FamilyForm:
        """The form with just these operands (name -> whether it is written in brackets); `_Refused` if they do not go
        together."""
        return _narrowed(self, tuple(operands))


@dataclass(frozen=True, kw_only=True)
class PlainFamilyForm(FamilyForm):
    """A form of a `FamilyRow`: what its qualifiers say.

    Attributes:
        narrowed: operand -> targets that have the form with it.
    """

    narrowed: tuple[tuple[str, Availability], ...] = ()

    @property
    def shape(self) -> str:
        """Shape of tcgen05.ld, st or cp, e.g. "16x256b"; "" for others."""
        return next((q for q in self.qualifiers if q in table.SHAPE_REGISTERS or (q.endswith("b") and "x" in q)), "")

    @property
    def repeats(self) -> int:
        """N of `.xN`: how often tcgen05.ld or st repeats its shape along the columns; 0 for others."""
        return next((int(q[1:]) for q in self.qualifiers if q[0] == "x" and q[1:].isdigit()), 0)

    @property
    def registers(self) -> int:
        """Registers that tcgen05.ld or st moves for each lane; 0 for others."""
        return table.SHAPE_REGISTERS[self.shape] * self.repeats if self.repeats else 0

    @property
    def packed(self) -> bool:
        """Whether two 16-bit columns share a register: `.pack::16b` or `.unpack::16b`."""
        return "pack::16b" in self.qualifiers or "unpack::16b" in self.qualifiers

    @property
    def multicast(self) -> str:
        """Where tcgen05.cp copies its rows again: "warpx2::02_13", "warpx2::01_23", "warpx4", or ""."""
        return next((q for q in self.qualifiers if q.startswith("warpx")), "")

    @property
    def decompression(self) -> str:
        """What tcgen05.cp makes bytes of: "b6x16_p32", "b4x16_p64", or ""."""
        return next((q for q in self.qualifiers if q in ("b6x16_p32", "b4x16_p64")), "")


@dataclass(frozen=True, kw_only=True)
class Tcgen05MmaForm(FamilyForm):
    """One spelling of tcgen05.mma, `.mma.sp`, `.mma.ws` or `.mma.ws.sp`. PTX ISA 9.0, 9.7.16.10.9.

    Attributes:
        kind: "f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4" or "mxf4nvf4"; the element types are in the instruction
            descriptor.
        sparse, ws: `.sp` (A compressed, metadata in Tensor Memory), `.ws` (weight stationary).
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
    sparse: bool
    ws: bool
    vector: str
    factors: int
    ashift: bool
    collector: tuple[str, str]
    last: str
    a_in_tmem: bool | None = None

    __hash__ = Form.__hash__

    @property
    def is_matrix(self) -> bool:
        return True

    @property
    def is_sparse(self) -> bool:
        return self.sparse

    @property
    def block_scale(self) -> bool:
        return self.factors > 0

    @property
    def has_lane_vector(self) -> bool:
        return self._has("lanes")

    @property
    def has_scale_d(self) -> bool:
        return self._has("scale_d")

    @property
    def has_zero_mask(self) -> bool:
        return self._has("zero_mask")

    def _has(self, name: str) -> bool:
        return any(role.name == name for role in self.roles)

    def written(self, operands: Mapping[str, bool]) -> FamilyForm:
        if self.ashift and not operands["a"]:
            raise _Refused("a", ".ashift shifts rows of A in Tensor Memory; here A is in shared memory", "[%r0]")
        if "lanes" in operands and "ignored" in operands:
            raise _Refused(
                "ignored", f"nothing may follow enable-input-d of .kind::{self.kind} with a lane vector", ";"
            )
        narrow = _narrowed(self, tuple(operands))
        assert isinstance(narrow, Tcgen05MmaForm)
        return _placed(narrow, operands["a"])


class _Refused(Exception):  # noqa: N818 - becomes an IsaError where the place in the text is known
    """Operands that do not go together: the operand that is wrong, why, and what would be right."""

    def __init__(self, operand: str, reason: str, legal: str) -> None:
        super().__init__(operand, reason, legal)
        self.operand, self.reason, self.legal = operand, reason, legal


def refine(form: FamilyForm, operands: Mapping[str, tuple[bool, int]], target: Target | None, text: str) -> FamilyForm:
    """The form with the operands that an instruction has (name -> in brackets, place in `text`); IsaError if they do
    not go together."""
    try:
        narrow = form.written({name: bracketed for name, (bracketed, _) in operands.items()})
    except _Refused as refused:
        raise IsaError(text, operands[refused.operand][1], refused.reason, refused.legal) from None
    if target is not None and not narrow.supports(target):
        name = tuple(operands)[-1]
        reason = f"'{form.opcode}' with operand {name} is not available on {target}: it needs {narrow.targets}"
        raise IsaError(text, operands[name][1], reason, str(narrow.targets))
    return narrow


@lru_cache(maxsize=4096)
def _narrowed(form: FamilyForm, names: tuple[str, ...]) -> FamilyForm:
    roles = tuple(replace(role, optional=False) for role in form.roles if role.name in names)
    targets = form.targets
    for name, limit in form.narrowed:
        if name in names:
            targets = _both(targets, limit)
    return replace(form, roles=roles, targets=targets)


@lru_cache(maxsize=4096)
def _placed(form: Tcgen05MmaForm, in_tmem: bool) -> Tcgen05MmaForm:
    a = tmem("a") if in_tmem else word("a", bits=64)
    return replace(form, roles=tuple(a if role.name == "a" else role for role in form.roles), a_in_tmem=in_tmem)


def _both(left: Availability, right: Availability) -> Availability:
    if left.text.endswith("+") or right.text.endswith("+"):
        return max(left, right, key=lambda availability: availability.lowest)
    return Availability(" ".join(name for name in left.text.split() if name in right.text.split()))


@lru_cache(maxsize=1)
def _names() -> tuple[str, ...]:
    """The fixed first parts of every opcode."""
    return tuple(dict.fromkeys((*table.MMA_NAMES, *(row.name for row in table.FAMILY_ROWS))))


def read_family(opcode: str, start: int = 0, text: str | None = None) -> FamilyForm:
    """The form of an opcode that begins with tcgen05, mbarrier or fence; IsaError for anything that no row has."""
    form = _known(opcode)
    if form is not None:
        return form
    reader = OpcodeText(opcode, start, opcode if text is None else text, _names())
    if not reader.name:
        family = opcode.split(".", 1)[0]
        names = [name for name in _names() if name.split(".")[0] == family]
        near = get_close_matches(opcode, names, 1, 0.5)
        reader.fail(None, f"unknown instruction '{opcode}'" + (f", did you mean '{near[0]}'?" if near else ""), names)
    return _mma(reader) if reader.name in table.MMA_NAMES else _family(reader)


@lru_cache(maxsize=4096)
def _known(opcode: str) -> FamilyForm | None:
    """The form of a correct opcode, remembered; None for a wrong one."""
    reader = OpcodeText(opcode, 0, opcode, _names())
    try:
        return _mma(reader) if reader.name in table.MMA_NAMES else _family(reader) if reader.name else None
    except IsaError:
        return None


def tcgen05_form(opcode: str, target: str | Target | None = None) -> FamilyForm:
    """The form of an opcode without operands, qualifiers in any order; IsaError if there is none or the target lacks
    it."""
    form = read_family(opcode)
    if target is not None and not form.supports(parse_target(target)):
        raise IsaError(
            opcode, 0, f"'{form.opcode}' is not available on {target}: it needs {form.targets}", str(form.targets)
        )
    return form


# Families


def _family(reader: OpcodeText) -> FamilyForm:
    """The row whose slots hold the qualifiers, each once; ptxas 13.0 lets `.sync` stand twice."""
    rows = [row for row in table.FAMILY_ROWS if row.name == reader.name]
    for row in rows:
        choice = _fitted(row, reader.qualifiers)
        if choice is not None:
            return _family_form(row, choice)
    known = {q for row in rows for slot in row.slots for q in slot if q}
    for qualifier in reader.qualifiers:
        if qualifier not in known:
            reader.note(qualifier, f"'.{qualifier}' is not a qualifier of '{reader.name}'", _near(reader, rows))
    reader.settle()
    for qualifier in reader.qualifiers:
        if qualifier != "sync" and reader.qualifiers.count(qualifier) > 1:
            reader.note(qualifier, f"'.{qualifier}' is written twice", _near(reader, rows))
    reader.settle()
    best = min(rows, key=lambda row: _misfit(row, reader.qualifiers))
    for slot in best.slots:
        found = [q for q in reader.qualifiers if q in slot and q != "sync"]
        if len(found) > 1:
            reader.note(found[1], f"'.{found[1]}' contradicts '.{found[0]}'", f".{found[0]} or .{found[1]}")
    for qualifier in reader.qualifiers:
        if not any(qualifier in slot for slot in best.slots):
            others = [f".{q}" for q in reader.qualifiers if q != qualifier]
            reader.note(qualifier, f"'.{qualifier}' does not go with {' '.join(others)}", _near(reader, rows))
    reader.settle()
    missing = [slot for slot in best.slots if "" not in slot and not set(slot) & set(reader.qualifiers)]
    if missing:
        reader.note(
            None,
            f"'{reader.opcode}' lacks " + ", ".join(" or ".join(f".{q}" for q in slot) for slot in missing),
            _near(reader, rows),
        )
    reader.settle()
    ordered = [q for i in best.sequence for q in best.slots[i] if q in reader.qualifiers]
    reader.fail(ordered[-1], f"'.{ordered[-1]}' must stand behind '.{ordered[0]}'", _near(reader, rows))


def _misfit(row: FamilyRow, qualifiers: list[str]) -> int:
    """How many qualifiers the row has no place for, or misses."""
    foreign = sum(not any(q in slot for slot in row.slots) for q in qualifiers)
    return 2 * foreign + sum("" not in slot and not set(slot) & set(qualifiers) for slot in row.slots)


def _fitted(row: FamilyRow, qualifiers: list[str]) -> tuple[str, ...] | None:
    """The qualifiers in canonical order, or None if they are not those of the row."""
    left = [q for i, q in enumerate(qualifiers) if q != "sync" or "sync" not in qualifiers[:i]]
    choice = []
    for slot in row.slots:
        found = [q for q in left if q in slot]
        if len(found) != 1 and (found or "" not in slot):
            return None
        choice.append(found[0] if found else "")
        left = [q for q in left if q not in slot]
    places = [qualifiers.index(choice[i]) for i in row.sequence if choice[i]]
    return None if left or places != sorted(places) else tuple(choice)


def _near(reader: OpcodeText, rows: list[FamilyRow]) -> list[str]:
    spellings = [joined(row.name, choice) for row in rows for choice in product(*row.slots)]
    return get_close_matches(reader.opcode, spellings, 3, 0.3) or spellings[:3]


@lru_cache(maxsize=4096)
def _family_form(row: FamilyRow, choice: tuple[str, ...]) -> FamilyForm:
    qualifiers = tuple(q for q in choice if q)
    opcode, section = joined(row.name, qualifiers), f"PTX ISA 9.0, {row.section}"
    since = max(row.since_ptx, table.WINDOWS_SINCE_PTX if "shared::" in opcode else "1.0", key=ptx_version)
    form = PlainFamilyForm(
        opcode=opcode,
        name=row.name,
        qualifiers=qualifiers,
        roles=row.roles(qualifiers),
        since_ptx=since,
        targets=row.targets,
        section=section,
        time=row.time,
        narrowed=row.narrowed,
    )
    if form.registers:
        return replace(form, access=Access(Space.TENSOR, 4 * form.registers, write=row.name == "tcgen05.st"))
    return replace(form, access=Access(Space.SHARED, 8, write=True)) if row.time is Time.MBARRIER else form


# tcgen05.mma


def _mma(reader: OpcodeText) -> FamilyForm:
    """Sorts the qualifiers into slots, looks the kind up, and says which of them do not go together."""
    slots: dict[str, str] = {}
    for qualifier in reader.qualifiers:
        slot = _mma_slot(reader, qualifier)
        if slot in slots:
            what = "is written twice" if slots[slot] == qualifier else f"contradicts '.{slots[slot]}'"
            reader.note(qualifier, f"'.{qualifier}' {what}", f"one .{slot}")
        elif slot:
            slots[slot] = qualifier
    kinds = {f"kind::{row.kind}": row for row in table.KIND_ROWS}
    for slot, legal in (("cta_group", ("cta_group::1", "cta_group::2")), ("kind", tuple(kinds))):
        if slot not in slots:
            reader.note(None, f"'{reader.opcode}' lacks .{slot}", (f".{q}" for q in legal))
    reader.settle()
    row, ws, sparse = kinds[slots["kind"]], reader.name == "tcgen05.mma.ws", "sp" in slots
    _check_combination(reader, row, ws, slots)
    vector = _vector(reader, row, slots) if row.vectors else None
    reader.settle()
    return _mma_form(row, ws, sparse, slots["cta_group"], vector, "ashift" in slots, slots.get("collector", ""))


def _mma_slot(reader: OpcodeText, qualifier: str) -> str:
    """What a qualifier says; empty, with a note, for one that says nothing here."""
    if qualifier in ("sp", "block_scale", "ashift"):
        return qualifier
    if qualifier in ("cta_group::1", "cta_group::2"):
        return "cta_group"
    if qualifier in table.VECTOR_SPELLINGS:
        return "vector size"
    if qualifier in table.COLLECTORS:
        return "collector"
    if any(qualifier == f"kind::{row.kind}" for row in table.KIND_ROWS):
        return "kind"
    if qualifier == "ws":
        reader.note(
            qualifier, "'.ws' stands right behind tcgen05.mma, before every other qualifier", "tcgen05.mma.ws...."
        )
        return ""
    kinds = [f"kind::{row.kind}" for row in table.KIND_ROWS]
    known = [
        "sp",
        "cta_group::1",
        "cta_group::2",
        *kinds,
        "block_scale",
        *table.VECTOR_SPELLINGS,
        "ashift",
        *table.COLLECTORS,
    ]
    near = get_close_matches(qualifier, known, 3, 0.5)
    reader.note(qualifier, f"'.{qualifier}' is not a qualifier of tcgen05.mma", (f".{q}" for q in near or known[:10]))
    return ""


def _check_combination(reader: OpcodeText, row: KindRow, ws: bool, slots: Mapping[str, str]) -> None:
    """What the text of 9.7.16.10.9 forbids, in the order of the grammar."""
    kind = f".kind::{row.kind}"
    collector = slots.get("collector", "")
    if ws and not row.ws:
        reader.note(
            slots["kind"], f"tcgen05.mma.ws has no {kind}", (f".kind::{r.kind}" for r in table.KIND_ROWS if r.ws)
        )
    if ws and slots["cta_group"] != "cta_group::1":
        reader.note(slots["cta_group"], "tcgen05.mma.ws works in one CTA", ".cta_group::1")
    for slot in ("block_scale", "vector size"):
        if slot in slots and not row.vectors:
            reader.note(
                slots[slot], f"{kind} takes no block scale", (f".kind::{r.kind}" for r in table.KIND_ROWS if r.vectors)
            )
    if row.vectors and "block_scale" not in slots:
        reader.note(slots["kind"], f"{kind} needs .block_scale", f"{kind}.block_scale")
    if "ashift" in slots and (ws or row.vectors):
        reader.note("ashift", f"{'tcgen05.mma.ws' if ws else kind + '.block_scale'} takes no .ashift", "no .ashift")
    if collector and collector.startswith("collector::a::") == ws:
        buffers, legal = ("b0, b1, b2 or b3", "b0") if ws else ("a", "a")
        reader.note(
            collector,
            f"the collector of {reader.name} has buffer {buffers}",
            f".collector::{legal}::{collector.split('::')[2]}",
        )
    if "ashift" in slots and collector.endswith(("::fill", "::use")):
        reader.note(
            collector,
            "a collector that is filled or used holds A unshifted",
            ".collector::a::lastuse, .collector::a::discard",
        )


def _vector(reader: OpcodeText, row: KindRow, slots: Mapping[str, str]) -> VectorRow:
    spelling = slots.get("vector size", "")
    for vector in row.vectors:
        if vector.spelling == spelling:
            return vector
    legal = [f".{v.spelling}" if v.spelling else "none" for v in row.vectors]
    reason = (
        f".kind::{row.kind} has no vector size .{spelling}" if spelling else f".kind::{row.kind} needs a vector size"
    )
    reader.note(spelling or slots["kind"], reason, legal)
    return row.vectors[0]


@lru_cache(maxsize=4096)
def _mma_form(
    row: KindRow, ws: bool, sparse: bool, group: str, vector: VectorRow | None, ashift: bool, collector: str
) -> Tcgen05MmaForm:
    targets, since = row.targets, row.since_ptx
    if vector is not None:
        targets = vector.sparse if sparse else vector.dense
        since = max(row.since_ptx, vector.since_ptx, key=ptx_version)
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
    buffer = collector.split("::")[1:] if collector else ["b0" if ws else "a", table.COLLECTOR_OPERATIONS[-1]]
    roles, section = mma_roles(row, ws, sparse, int(group[-1]), last), f"PTX ISA 9.0, {_SECTIONS[sparse, ws]}"
    return Tcgen05MmaForm(
        opcode=joined(name, qualifiers),
        name=name,
        qualifiers=qualifiers,
        roles=roles,
        since_ptx=since,
        targets=targets,
        section=section,
        time=Time.TCGEN05,
        narrowed=(("scale_d", table.SCALES_INPUT),),
        kind=row.kind,
        sparse=sparse,
        ws=ws,
        vector=spelling,
        factors=vector.factors if vector else 0,
        ashift=ashift,
        collector=(buffer[0], buffer[1]),
        last=last,
    )


def is_tcgen05_mma(form: Form) -> TypeGuard[Tcgen05MmaForm]:
    """Whether a form is one of tcgen05.mma, whose operands are in shared and Tensor Memory."""
    return form.is_matrix and form.asynchronous
