"""Finds the form that an opcode names. If there is none, the error says which qualifier is wrong and what would be
right."""

from __future__ import annotations

from difflib import get_close_matches
from functools import lru_cache

from isa.arguments import text_of
from isa.errors import IsaError
from isa.forms.mma import MmaForm, is_mma
from isa.forms.mma_rows import DENSE_SECTION, SPARSE_SECTION
from isa.forms.record import PTX, Form, version
from isa.forms.table import FAMILIES, FIRST_NAMES, NAMES, rows_by_name
from isa.forms.tcgen05 import MMA_NAMES
from isa.ptx.mma import read_mma
from isa.ptx.opcode_text import OpcodeText
from isa.ptx.slots import read_slots
from isa.ptx.tcgen05_mma import read_tcgen05_mma
from isa.targets import Target, parse_target

_NAMES = frozenset(NAMES)
_LONGEST = 512  # characters of an opcode; the longest known has 117


def read_opcode(
    opcode: str, target: Target | None = None, start: int = 0, text: str | None = None, ptx: str = PTX
) -> Form:
    """The form of an opcode without operands.

    `start` and `text` place the opcode in a longer text, for errors. Raises IsaError for anything that is not in the
    table, and for a form that `target` (None: any) or PTX version `ptx` does not have.
    """
    whole = text_of(opcode, "an opcode", "mma.sp.m16n8k32.f32.f16.f16.f32") if text is None else text
    if len(opcode) > _LONGEST:
        raise IsaError(whole, start, f"an opcode of {len(opcode)} characters", f"at most {_LONGEST}")
    form = _known(opcode)
    if form is None or not _available(form, target, ptx):
        reader = OpcodeText(opcode, start, whole, _NAMES)
        try:
            form = _read(reader)
            _check_available(reader, form, target, ptx)
        except IsaError as error:
            raise error.stated_in(_section(opcode)) from None
    return form


def find_form(opcode: str, target: str | Target | None = None) -> Form:
    """The form of an opcode without operands, in any PTX version, qualifiers in any order that ptxas takes; raises
    IsaError if there is none or the target lacks it."""
    return read_opcode(opcode, parse_target(target) if target is not None else None, ptx=_NEWEST)


def mma_form(opcode: str, target: str | Target | None = None, ptx: str = PTX) -> MmaForm:
    """The form of a canonical or reordered opcode of `mma` without operands; raises IsaError if there is none or the
    target or PTX version lacks it."""
    form = read_opcode(opcode, parse_target(target) if target is not None else None, ptx=ptx)
    if not is_mma(form):
        raise IsaError(opcode, 0, f"'{opcode}' is not a matrix instruction", "mma or mma.sp")
    return form


def complete_opcode(opcode: str) -> str:
    """Adds the qualifiers that every form of the instruction has, where they were left out."""
    parts = opcode.strip().split(".")
    name, given = parts[0], parts[1:]
    if name in ("tcgen05", "wgmma"):
        name, given = ".".join(parts[:2]), parts[2:]
    slots = {slot for row in rows_by_name().get(name, ()) for slot in row.slots}
    fixed = tuple(q for q in ("sync", "aligned") if any(q in slot for slot in slots))
    if name == "mma":
        fixed = ("sync", "aligned", "row", "col")
    layouts_given = any(part in ("row", "col") for part in given)
    missing = [q for q in fixed if q not in given and not (layouts_given and q in ("row", "col"))]
    return ".".join((name, *missing, *given))


_NEWEST = "99.0"


@lru_cache(maxsize=8192)
def _known(opcode: str) -> Form | None:
    """The form of a correct opcode, from a cache; None for an opcode that is wrong."""
    try:
        return _read(OpcodeText(opcode, 0, opcode, _NAMES))
    except IsaError:
        return None


def _read(reader: OpcodeText) -> Form:
    if reader.name == "mma":
        return read_mma(reader)
    if reader.name in MMA_NAMES:
        return read_tcgen05_mma(reader)
    if reader.name:
        return read_slots(reader)
    first = reader.opcode.split(".", 1)[0]
    names = [name for name in NAMES if name.split(".")[0] == first]
    close = get_close_matches(reader.opcode, names, 1, 0.5) if names else get_close_matches(first, FIRST_NAMES, 1)
    unknown = reader.opcode if names else first
    hint = f", did you mean '{close[0]}'?" if close else ""
    reader.fail(None, f"unknown instruction '{unknown}'{hint}", names or FIRST_NAMES)


def _available(form: Form, target: Target | None, ptx: str) -> bool:
    return (target is None or form.supports(target)) and _in_version(form, target, ptx)


def _in_version(form: Form, target: Target | None, ptx: str) -> bool:
    since = form.since_on(target)
    return since == "1.0" or version(since) <= version(ptx)


def _check_available(reader: OpcodeText, form: Form, target: Target | None, ptx: str) -> None:
    if target is not None and not form.supports(target):
        reader.fail(None, f"'{form.opcode}' is not available on {target}: it needs {form.targets}", str(form.targets))
    if not _in_version(form, target, ptx):
        since = form.since_on(target)
        reader.fail(None, f"'{form.opcode}' is not in PTX {ptx}: it needs {since}", f"PTX {since} or later")


def _section(opcode: str) -> str:
    """Where PTX defines the instruction that an opcode seems to mean."""
    first, *qualifiers = opcode.split(".")
    if first == "mma":
        return SPARSE_SECTION if any(q.startswith("sp") for q in qualifiers) else DENSE_SECTION
    if first == "tcgen05":
        return "PTX ISA 9.0, 9.7.16 (tcgen05)"
    if first in FAMILIES:
        return ""
    rows = (row for name, rows in rows_by_name().items() if name.split(".")[0] == first for row in rows)
    return next((f"PTX ISA 9.0, {row.section} ({first})" for row in rows), "")
