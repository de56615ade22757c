"""Finds the form that the opcode of an `mma` or `mma.sp` names. If there is none, the error says what the most similar
forms have instead.

Qualifiers may stand in any order, as ptxas takes them; only the two layouts and the four types keep theirs.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple, NoReturn

from isa.forms.mma import MmaForm, mma_forms, spelled
from isa.forms.mma_rows import MMA_ROWS
from isa.ptx.opcode_text import OpcodeText
from isa.types import F64, MATRIX_TYPES, SCALE_TYPES

_SHAPE = re.compile(r"m\d+n\d+k\d+")
_SPARSE = ("sp", "sp::ordered_metadata")
_LAYOUTS = ("row", "col")
_KINDS = tuple(f"kind::{name}" for name in dict.fromkeys(row.kind for row in MMA_ROWS if row.kind))
_VECTORS = ("scale_vec::1X", "scale_vec::2X", "scale_vec::4X")
_ROUNDINGS = tuple(dict.fromkeys(rounding for row in MMA_ROWS for rounding in row.roundings))
_OPERATIONS = tuple(dict.fromkeys(part for row in MMA_ROWS for part in row.operation.split(".") if part))
_KNOWN = (
    *_SPARSE,
    "sync",
    "aligned",
    *_LAYOUTS,
    *_KINDS,
    "block_scale",
    *_VECTORS,
    "satfinite",
    *_ROUNDINGS,
    *MATRIX_TYPES,
    *SCALE_TYPES,
    *_OPERATIONS,
)
_ROLES = ("D", "A", "B", "C")


@dataclass
class _Parts:
    """The qualifiers of an mma, sorted into slots, with their places."""

    single: dict[str, str] = field(default_factory=dict)
    types: list[str] = field(default_factory=list)
    layouts: list[str] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)

    def opcode(self) -> str:
        """The canonical opcode, `.scale_vec` and the rounding only if they are written."""
        one = self.single
        middle = [one.get(slot, "") for slot in ("kind", "block_scale", "scale_vec", "satfinite", "rounding")]
        last = ".".join(filter(None, (one.get("scale_type", ""), *self.operations)))
        return spelled(one.get("sparse", ""), one["shape"], ".".join(self.layouts), middle, self.types, last)


def read_mma(reader: OpcodeText) -> MmaForm:
    """Sorts the qualifiers into slots and looks up the row that has them. All that is wrong goes into one error."""
    form = _mma_opcodes().get(reader.opcode)
    if form is not None:
        return form
    parts = _Parts()
    for place, qualifier in zip(reader.places, reader.qualifiers, strict=True):
        parts.places.setdefault(qualifier, place)
        slot = _slot(qualifier)
        if slot == "type":
            parts.types.append(qualifier)
            if (scale := parts.single.get("scale_type")) is not None:  # ptxas 13.0, which takes other orders
                reader.note(qualifier, f"'.{qualifier}' stands behind '.{scale}'", f".{scale} after all types", place)
        elif slot == "layout":
            parts.layouts.append(qualifier)
        elif slot == "operation":
            parts.operations.append(qualifier)
        elif slot is None:
            near = get_close_matches(qualifier, _KNOWN, 1)
            hint = f", did you mean '.{near[0]}'?" if near else ""
            reader.note(qualifier, f"'.{qualifier}' is not a qualifier of mma{hint}", _KNOWN, place)
        elif slot in ("sync", "satfinite") and slot in parts.single:
            continue  # ptxas 13.0 takes these twice
        elif slot in parts.single:
            said = parts.single[slot]
            reader.note(qualifier, f"'.{qualifier}' repeats or contradicts '.{said}'", f".{said} once", place)
        else:
            parts.single[slot] = qualifier
    _note_missing(reader, parts)
    reader.settle()
    form = _mma_opcodes().get(parts.opcode())
    if form is None:
        _fail_without_row(reader, parts)
    return form


def _note_missing(reader: OpcodeText, parts: _Parts) -> None:
    for slot, legal in (("sync", ".sync"), ("aligned", ".aligned"), ("shape", "a shape such as .m16n8k32")):
        if slot not in parts.single:
            syntax = "mma{.sp}.sync.aligned.SHAPE.row.col{.kind}{.satfinite}.D.A.B.C"
            reader.note(None, f"'{reader.opcode}' lacks {legal}", syntax)
    legal_layouts = _legal_layouts(parts)
    if ".".join(parts.layouts) not in legal_layouts:
        given = ".".join(parts.layouts) or "none"
        place = parts.places[parts.layouts[0]] if parts.layouts else reader.start
        rule = "A is read by rows and B by columns" if len(legal_layouts) == 1 else "one for A and one for B"
        reader.note(None, f"layouts '{given}': {rule}", (f".{layouts}" for layouts in legal_layouts), place)
    if len(parts.types) != len(_ROLES) and all(_slot(qualifier) for qualifier in reader.qualifiers):
        legal = "four, of D, A, B and C in this order, e.g. .f32.f16.f16.f32"
        reader.note(None, f"{len(parts.types)} element types in '{reader.opcode}'", legal)


def _legal_layouts(parts: _Parts) -> tuple[str, ...]:
    """The layouts of A and B that go with the shape and the inputs: but for m8n8k4 of f16, rows and columns."""
    shape, inputs = parts.single.get("shape"), parts.types[1:3]
    rows = [
        row
        for row in MMA_ROWS
        if len(row.layouts) > 1 and "m{}n{}k{}".format(*row.shape) == shape and set(inputs) == {row.inputs}
    ]
    return rows[0].layouts if rows and "sparse" not in parts.single else ("row.col",)


def _slot(qualifier: str) -> str | None:
    if qualifier in MATRIX_TYPES:
        return "type"
    if qualifier in SCALE_TYPES:
        return "scale_type"
    if qualifier in _LAYOUTS:
        return "layout"
    if qualifier in _SPARSE:
        return "sparse"
    if qualifier in ("sync", "aligned", "satfinite", "block_scale"):
        return qualifier
    if qualifier in _OPERATIONS:
        return "operation"
    if qualifier in _ROUNDINGS:
        return "rounding"
    if qualifier in _KINDS:
        return "kind"
    if qualifier in _VECTORS:
        return "scale_vec"
    return "shape" if _SHAPE.fullmatch(qualifier) else None


@lru_cache(maxsize=1)
def _mma_opcodes() -> dict[str, MmaForm]:
    """Every opcode in canonical order, with `.scale_vec` left out and the default rounding written too where they may
    be."""
    forms = dict(mma_forms())
    for form in mma_forms().values():
        if form.row.implied_vector:
            forms[re.sub(r"\.scale_vec::\dX", "", form.opcode)] = form
        if form.rounding and f".{form.rounding}." not in form.opcode:
            forms[form.opcode.replace(".row.col.", f".row.col.{form.rounding}.")] = form
    return forms


class _Profile(NamedTuple):
    """The properties of a form in words, to compare with those of a text that no form has."""

    spelling: str
    inputs: str
    shape: str
    accumulators: str
    kind: str
    scale: str
    saturation: str
    rounding: str
    operation: str


@lru_cache(maxsize=1)
def _profiles() -> dict[bool, list[tuple[_Profile, MmaForm]]]:
    """The profiles of all forms, sparse and dense."""
    profiles: dict[bool, list[tuple[_Profile, MmaForm]]] = {True: [], False: []}
    for form in mma_forms().values():
        vector, _, scale_type = form.row.scale.partition(" ")
        kind = (f".kind::{form.row.kind}" if form.row.kind else "no .kind") + (
            f".block_scale.scale_vec::{vector}" if vector else ""
        )
        profile = _Profile(
            form.opcode.split(".sync")[0],
            f"{form.a_type} x {form.b_type}",
            f"m{form.m}n{form.n}k{form.k}",
            f"D {form.d_type}, C {form.c_type}",
            kind,
            scale_type or "no scale type",
            ".satfinite" if form.saturate else "no .satfinite",
            _rounded("" if form.rounding in form.row.roundings[:1] else form.rounding),
            _joined(form.row.operation),
        )
        profiles[form.sparse].append((profile, form))
    return profiles


def _fail_without_row(reader: OpcodeText, parts: _Parts) -> NoReturn:
    """Raises an error that says, for each property of the opcode, whether any of the nearest forms has it."""
    one, (d, a, b, c) = parts.single, parts.types
    written = _Profile(
        "mma." + one["sparse"] if "sparse" in one else "mma",
        f"{a} x {b}",
        one["shape"],
        f"D {d}, C {c}",
        _written_kind(one),
        one.get("scale_type", "no scale type"),
        ".satfinite" if "satfinite" in one else "no .satfinite",
        _rounded("" if F64.name in (a, b) and one.get("rounding") == _ROUNDINGS[0] else one.get("rounding", "")),
        _joined(".".join(parts.operations)),
    )
    places = _Profile(
        one.get("sparse", ""),
        a,
        one["shape"],
        d,
        one.get("kind", one.get("block_scale", "")),
        one.get("scale_type", ""),
        "satfinite",
        one.get("rounding", ""),
        "".join(parts.operations[:1]),
    )
    nearest = _nearest("sparse" in one, written)
    for number, name in enumerate(_Profile._fields):
        legal = list(dict.fromkeys(profile[number] for profile, _ in nearest))
        if written[number] not in legal:
            reason = _REASONS[name].format(value=written[number], a=a, b=b, shape=one["shape"])
            reader.note(None, reason, legal, parts.places.get(places[number], reader.start))
    reader.settle()
    reason = f"no form of mma has all of '{reader.opcode}' together"
    reader.fail(None, reason, [form.opcode for _, form in nearest][:3])


@lru_cache(maxsize=1024)
def _nearest(sparse: bool, written: _Profile) -> list[tuple[_Profile, MmaForm]]:
    """The forms that share most with what was written."""
    kinship = _profiles()[sparse]
    shared = [sum(map(operator.mul, map(operator.eq, profile, written), _WEIGHTS)) for profile, _ in kinship]
    best = max(shared)
    return [pair for pair, count in zip(kinship, shared, strict=True) if count == best]


def _rounded(rounding: str) -> str:
    """A rounding modifier in words; the default is none."""
    return f".{rounding}" if rounding else "no rounding modifier"


def _joined(operation: str) -> str:
    return f".{operation}" if operation else "no bit operation"


_WEIGHTS = (
    1,
    8,
    4,
    2,
    3,
    1,
    1,
    1,
    1,
)  # of the fields of _Profile: what makes forms near, first of all the inputs, then the shape
_REASONS = {
    "spelling": "these types have no plain '{value}' form",
    "inputs": "no such form multiplies {value}",
    "shape": "{a} by {b} has no shape {value}",
    "accumulators": "{a} by {b} in {shape} does not accumulate {value}",
    "kind": "{a} by {b} in {shape} does not go with {value}",
    "scale": "{a} by {b} in {shape} does not go with {value}",
    "saturation": "{a} by {b} does not go with {value}: only integer forms saturate",
    "rounding": "{a} by {b} does not go with {value}: only f64 forms have a rounding modifier",
    "operation": "{a} by {b} does not go with {value}: b1 is joined and counted, all else multiplied",
}


@lru_cache(maxsize=1)
def _implied() -> dict[str, str]:
    """The scale vector of each kind that may leave it out."""
    return {f"kind::{row.kind}": row.scale.partition(" ")[0] for row in MMA_ROWS if row.implied_vector}


def _written_kind(one: dict[str, str]) -> str:
    kind = "." + one["kind"] if "kind" in one else "no .kind"
    if "block_scale" not in one:
        return kind + (f".{one['scale_vec']} without .block_scale" if "scale_vec" in one else "")
    implied = _implied().get(one.get("kind", ""), "")
    vector = one.get("scale_vec", f"scale_vec::{implied}" if implied else "")
    return f"{kind}.block_scale" + (f".{vector}" if vector else " without .scale_vec")
