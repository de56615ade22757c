"""Finds the form that the opcode of a `tcgen05.mma` names. If there is none, the error says which qualifiers do not go
together."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from isa.forms.record import Form
from isa.forms.tcgen05 import tcgen05_mma_form
from isa.forms.tcgen05_rows import COLLECTORS, KIND_ROWS, VECTOR_SPELLINGS, KindRow, VectorRow
from isa.ptx.opcode_text import OpcodeText


def read_tcgen05_mma(reader: OpcodeText) -> Form:
    """Sorts the qualifiers into slots and looks up the kind. Qualifiers that do not go together are reported in one
    error."""
    slots: dict[str, str] = {}
    for qualifier in reader.qualifiers:
        slot = _mma_slot(reader, qualifier)
        if slot in slots:
            what = "is written twice" if slots[slot] == qualifier else f"contradicts '.{slots[slot]}'"
            reader.note(qualifier, f"'.{qualifier}' {what}", f"one .{slot}")
        elif slot:
            slots[slot] = qualifier
    kinds = {f"kind::{row.kind}": row for row in KIND_ROWS}
    for slot, legal in (("cta_group", ("cta_group::1", "cta_group::2")), ("kind", tuple(kinds))):
        if slot not in slots:
            reader.note(None, f"'{reader.opcode}' lacks .{slot}", (f".{q}" for q in legal))
    reader.settle()
    row, ws, sparse = kinds[slots["kind"]], reader.name == "tcgen05.mma.ws", "sp" in slots
    _check_combination(reader, row, ws, slots)
    vector = _vector(reader, row, slots) if row.vectors else None
    reader.settle()
    return tcgen05_mma_form(row, ws, sparse, slots["cta_group"], vector, "ashift" in slots, slots.get("collector", ""))


def _mma_slot(reader: OpcodeText, qualifier: str) -> str:
    """The slot that a qualifier belongs to; for an unknown qualifier a problem is noted and the slot is empty."""
    if qualifier in ("sp", "block_scale", "ashift"):
        return qualifier
    if qualifier in ("cta_group::1", "cta_group::2"):
        return "cta_group"
    if qualifier in VECTOR_SPELLINGS:
        return "vector size"
    if qualifier in COLLECTORS:
        return "collector"
    if any(qualifier == f"kind::{row.kind}" for row in KIND_ROWS):
        return "kind"
    if qualifier == "ws":
        reader.note(
            qualifier, "'.ws' stands right behind tcgen05.mma, before every other qualifier", "tcgen05.mma.ws...."
        )
        return ""
    kinds = [f"kind::{row.kind}" for row in KIND_ROWS]
    legal = [
        "sp",
        "cta_group::1",
        "cta_group::2",
        *kinds,
        "block_scale",
        *VECTOR_SPELLINGS,
        "ashift",
        *COLLECTORS,
    ]
    near = get_close_matches(qualifier, legal, 3, 0.5)
    reader.note(qualifier, f"'.{qualifier}' is not a qualifier of tcgen05.mma", (f".{q}" for q in near or legal[:10]))
    return ""


def _check_combination(reader: OpcodeText, row: KindRow, ws: bool, slots: Mapping[str, str]) -> None:
    """Notes the combinations of qualifiers that 9.7.16.10.9 forbids, in the order of the grammar."""
    kind = f".kind::{row.kind}"
    collector = slots.get("collector", "")
    if ws and not row.ws:
        reader.note(slots["kind"], f"tcgen05.mma.ws has no {kind}", (f".kind::{r.kind}" for r in KIND_ROWS if r.ws))
    if ws and slots["cta_group"] != "cta_group::1":
        reader.note(slots["cta_group"], "tcgen05.mma.ws works in one CTA", ".cta_group::1")
    for slot in ("block_scale", "vector size"):
        if slot in slots and not row.vectors:
            reader.note(
                slots[slot], f"{kind} takes no block scale", (f".kind::{r.kind}" for r in KIND_ROWS if r.vectors)
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
