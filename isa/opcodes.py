"""From an opcode's text to its form, with an error that says which qualifier is wrong and what would be right.

Qualifiers of `mma` may stand in any order, as ptxas takes them; only the two layouts and the four types keep theirs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import NoReturn

from isa.errors import IsaError
from isa.forms import Form, MmaForm, mma_forms
from isa.plain_forms import PLAIN_ROWS, plain_forms
from isa.targets import Target
from isa.tcgen05_forms import FAMILIES, read_family
from isa.types import ELEMENT_TYPES

_SHAPE = re.compile(r"m\d+n\d+k\d+")
_SPARSE = ("sp", "sp::ordered_metadata")
_LAYOUTS = ("row", "col")
_ROLES = ("D", "A", "B", "C")
NAMES = tuple(dict.fromkeys(("mma", *(row.name for row in PLAIN_ROWS), *FAMILIES)))


def read_opcode(opcode: str, target: Target | None = None, start: int = 0, text: str | None = None) -> Form:
    """The form of an opcode without operands.

    `start` and `text` place the opcode in a longer text, for errors. Raises IsaError for anything that is not in the table, and for a form
    that `target` (None: any) does not have.
    """
    reader = _Reader(opcode, start, opcode if text is None else text)
    if reader.name in FAMILIES:
        form: Form = read_family(opcode, start, text)
    else:
        form = _mma(reader) if reader.name == "mma" else _plain(reader)
    if target is not None and not form.supports(target):
        reader.fail(0, f"'{form.opcode}' is not available on {target}: it needs {form.targets}", str(form.targets))
    return form


class _Reader:
    """An opcode split at its dots, with the place of each part."""

    def __init__(self, opcode: str, start: int, text: str) -> None:
        self.opcode, self.start, self.text = opcode, start, text
        self.name, *self.qualifiers = opcode.split(".")
        lengths = [len(part) + 1 for part in (self.name, *self.qualifiers)]
        self.places = [start + sum(lengths[: i + 1]) for i in range(len(self.qualifiers))]

    def fail(self, place: int, reason: str, legal: str | Iterable[str] = "") -> NoReturn:
        raise IsaError(self.text, place or self.start, reason, legal if isinstance(legal, str) else ", ".join(legal))


def _plain(reader: _Reader) -> Form:
    form = plain_forms().get(reader.opcode) or _any_order().get(_order_free(reader.name, reader.qualifiers))
    if form is not None:
        return form
    if reader.name not in NAMES:
        near = get_close_matches(reader.name, NAMES, 1)
        reader.fail(0, f"unknown instruction '{reader.name}'" + (f", did you mean '{near[0]}'?" if near else ""), NAMES)
    same = [opcode for opcode in plain_forms() if opcode.split(".")[0] == reader.name]
    known = {q for opcode in same for q in opcode.split(".")[1:]}
    for place, qualifier in zip(reader.places, reader.qualifiers, strict=True):
        if qualifier not in known:
            reader.fail(place, f"'.{qualifier}' is not a qualifier of '{reader.name}'", get_close_matches(reader.opcode, same, 3, 0.3) or same[:3])
    reader.fail(
        0,
        f"'{reader.opcode}' is not a form of '{reader.name}': a qualifier is missing, doubled or out of place",
        get_close_matches(reader.opcode, same, 3, 0.3),
    )


_FREE = ("ldmatrix", "ld", "st", "barrier")  # ptxas 13.0 takes their qualifiers in any order, but for a first .cta


def _order_free(name: str, qualifiers: Sequence[str]) -> tuple[str, ...]:
    first = ["cta"] if qualifiers[:1] == ["cta"] or qualifiers[:1] == ("cta",) else []
    return (name, *first, *sorted(qualifiers[len(first) :]))


@lru_cache(maxsize=1)
def _any_order() -> dict[tuple[str, ...], Form]:
    return {_order_free(form.name, form.qualifiers): form for form in plain_forms().values() if form.name in _FREE}


def _mma(reader: _Reader) -> MmaForm:
    """Sorts the qualifiers into slots, then looks the row up."""
    single: dict[str, str] = {}
    types: list[str] = []
    layouts: list[str] = []
    for place, qualifier in zip(reader.places, reader.qualifiers, strict=True):
        if qualifier in ELEMENT_TYPES:
            types.append(qualifier)
        elif qualifier in _LAYOUTS:
            layouts.append(qualifier)
        else:
            slot = _slot(qualifier)
            if slot is None:
                reader.fail(
                    place,
                    f"'.{qualifier}' is not a qualifier of mma in the forms known here",
                    ("sp", "sp::ordered_metadata", "sync", "aligned", "mMnNkK", "row", "col", "satfinite", *ELEMENT_TYPES),
                )
            if slot in single:
                reader.fail(place, f"'.{qualifier}' repeats or contradicts '.{single[slot]}'", f".{single[slot]} once")
            single[slot] = qualifier
    for slot, legal in (("sync", ".sync"), ("aligned", ".aligned"), ("shape", "a shape such as .m16n8k32")):
        if slot not in single:
            reader.fail(0, f"'{reader.opcode}' lacks {legal}", "mma{.sp}.sync.aligned.SHAPE.row.col{.satfinite}.D.A.B.C")
    if layouts != ["row", "col"]:
        reader.fail(0, f"layouts '{'.'.join(layouts)}': A is read by rows and B by columns", ".row.col")
    if len(types) != len(_ROLES):
        reader.fail(0, f"{len(types)} element types in '{reader.opcode}'", "four, of D, A, B and C in this order, e.g. .f32.f16.f16.f32")
    return _row(reader, single, types)


def _suffix(form: MmaForm) -> str:
    return ".satfinite" if form.saturate else "no .satfinite"


def _slot(qualifier: str) -> str | None:
    if qualifier in _SPARSE:
        return "sparse"
    if qualifier in ("sync", "aligned", "satfinite"):
        return qualifier
    return "shape" if _SHAPE.fullmatch(qualifier) else None


def _row(reader: _Reader, single: dict[str, str], types: list[str]) -> MmaForm:
    """The form with these parts, or the first part that no form has together with the ones before it."""
    name = "mma." + single["sparse"] if "sparse" in single else "mma"
    saturate = "satfinite" in single
    canonical = f"{name}.sync.aligned.{single['shape']}.row.col{'.satfinite' if saturate else ''}.{'.'.join(types)}"
    form = mma_forms().get(canonical)
    if form is not None:
        return form
    d, a, b, c = types
    left = [f for f in mma_forms().values() if f.sparse == ("sparse" in single)]
    kind = "mma.sp" if "sparse" in single else "mma"
    place = {q: p for p, q in reversed(list(zip(reader.places, reader.qualifiers, strict=True)))}
    shape, suffix = single["shape"], ".satfinite" if saturate else "no .satfinite"
    product = f"{kind} of {a} by {b}"
    checks: tuple[tuple[Callable[[MmaForm], str], str, str, str], ...] = (
        (lambda f: f"{f.a_type} x {f.b_type}", f"{a} x {b}", a, f"{kind} does not multiply {a} by {b}"),
        (lambda f: f"m{f.m}n{f.n}k{f.k}", shape, shape, f"{product} has no shape {shape}"),
        (lambda f: f"D {f.d_type}, C {f.c_type}", f"D {d}, C {c}", d, f"{product} in {shape} does not accumulate C {c} into D {d}"),
        (_suffix, suffix, "satfinite", f"{product} takes no .satfinite: only integer forms saturate"),
    )
    for property_of, wanted, qualifier, reason in checks:
        legal = list(dict.fromkeys(property_of(f) for f in left))
        if wanted not in legal:
            reader.fail(place.get(qualifier, 0), reason, legal)
        left = [f for f in left if property_of(f) == wanted]
    raise AssertionError(canonical)
