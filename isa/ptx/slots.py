"""Finds the form of an opcode in the tables of rows: the row whose slots hold all the qualifiers. If there is none, the
error says which qualifier is wrong.

ptxas takes qualifiers in any order, except those whose slots are in the `sequence` of the row. It lets those that say
yes or no (`FLAGS`) stand more than once, and passes over `.pred` in instructions of arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice, product

from isa.forms.record import Form
from isa.forms.rows import Row, joined, row_form
from isa.forms.table import rows_by_name
from isa.ptx.opcode_text import OpcodeText

_MOST_NEAR = 100  # spellings of a row that a suggestion is chosen from
FLAGS = ("sync", "approx", "sat", "satfinite", "relu", "NaN", "cc", "shiftamt", "uni")
"""Qualifiers that ptxas 13.0 takes again where they stand already, in every instruction that has them."""
_DEAF = (
    "add", "sub", "mul", "fma", "abs", "neg", "min", "max", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh",
    "set", "setp", "cvt", "atom", "red", "cp.reduce.async.bulk", "multimem.ld_reduce", "multimem.st", "multimem.red",
)  # fmt: skip
"""Instructions in which ptxas 13.0 passes over `.pred`, of whatever type they are, but for the products `.wide`, `.hi`
and `.lo` and `cvt.pack`."""


PASSED_OVER = (
    ("b4x16_p64", "b6x16_p32", "b8x16"),
    ("finite", "infinite", "normal", "notanumber", "number", "subnormal"),
    ("acc::f16", "acc::f32"),
    ("box_dim", "element_stride", "elemtype", "fill_mode", "global_address", "global_dim", "global_stride",
     "interleave_layout", "rank", "swizzle_mode"),
)  # fmt: skip
"""Qualifiers of one kind of instruction: ptxas 13.0 passes over one of each group in all others."""


def read_slots(reader: OpcodeText) -> Form:
    """The form of the row whose slots hold each qualifier once, but for what ptxas 13.0 takes besides."""
    rows = rows_by_name()[reader.name]
    for row in rows:
        choice = _fitted(row, reader.qualifiers)
        if choice is not None:
            return row_form(row, choice)
    for row in rows:
        rest = [q for q in reader.qualifiers if q not in row.deaf]
        choice = _fitted(row, rest) if len(reader.qualifiers) - len(rest) in (1, 2) else None
        if choice is not None:
            return row_form(row, choice)
    if "pred" in reader.qualifiers and reader.name in _DEAF:
        rest = [q for q in reader.qualifiers if q != "pred"]
        for row in rows:
            choice = _fitted(row, rest)
            if choice is not None and not {"wide", "hi", "lo", "pack"} & set(choice):
                return row_form(row, choice)
    in_rows = {q for row in rows for slot in row.slots for q in slot if q}
    passed_over = [group for group in PASSED_OVER if not in_rows & set(group)]
    strange = [[q for q in reader.qualifiers if q in group] for group in passed_over]
    if any(strange) and all(len(found) < 2 for found in strange):
        rest = [q for q in reader.qualifiers if [q] not in strange]
        for row in rows:
            choice = _fitted(row, rest)
            if choice is not None:
                return row_form(row, choice)
    for qualifier in reader.qualifiers:
        if qualifier not in in_rows:
            reader.note(qualifier, f"'.{qualifier}' is not a qualifier of '{reader.name}'", _near(reader))
    reader.settle()
    for qualifier in dict.fromkeys(reader.qualifiers):
        most = max(sum(qualifier in slot for slot in row.slots) for row in rows)
        if qualifier not in FLAGS and reader.qualifiers.count(qualifier) > most:
            reader.note(qualifier, f"'.{qualifier}' is written twice", _near(reader))
    reader.settle()
    best = min(rows, key=lambda row: _misfit(row, reader.qualifiers))
    for slot in best.slots:
        given = list(dict.fromkeys(q for q in reader.qualifiers if q in slot and q not in FLAGS))
        if len(given) > 1 and len([other for other in best.slots if set(given) <= set(other)]) < 2:
            reader.note(given[1], f"'.{given[1]}' contradicts '.{given[0]}'", f".{given[0]} or .{given[1]}")
    for qualifier in reader.qualifiers:
        if not any(qualifier in slot for slot in best.slots):
            others = [f".{q}" for q in reader.qualifiers if q != qualifier]
            reader.note(qualifier, f"'.{qualifier}' does not go with {' '.join(others)}", _near(reader))
    reader.settle()
    missing = [slot for slot in best.slots if "" not in slot and not set(slot) & set(reader.qualifiers)]
    if missing:
        reader.note(
            None,
            f"'{reader.opcode}' lacks " + ", ".join(" or ".join(f".{q}" for q in slot) for slot in missing),
            _near(reader),
        )
    reader.settle()
    leading = [q for slot in best.slots[: best.leading] for q in slot if q and q in reader.qualifiers]
    if leading:
        reader.fail(leading[-1], f"'.{leading[-1]}' must stand first", _near(reader))
    ordered = [q for i in best.sequence for q in best.slots[i] if q in reader.qualifiers]
    if len(ordered) < 2:
        reader.fail(None, f"'{reader.opcode}' lacks a qualifier", _near(reader))
    reader.fail(ordered[-1], f"'.{ordered[-1]}' must stand behind '.{ordered[0]}'", _near(reader))


def _misfit(row: Row, qualifiers: list[str]) -> int:
    """How badly a row fits: qualifiers for which it has no slot count two, missing ones count one."""
    left, missing = list(qualifiers), 0
    for slot in row.slots:
        given = [q for q in left if q in slot]
        if given:
            left.remove(given[0])
        elif "" not in slot:
            missing += 1
    return 2 * len(left) + missing


def _fitted(row: Row, qualifiers: list[str]) -> tuple[str, ...] | None:
    """The qualifiers in canonical order, or None if they are not those of the row."""
    left = [(i, q) for i, q in enumerate(qualifiers) if q not in FLAGS or q not in qualifiers[:i]]
    choice, places = [], []
    for slot in row.slots:
        given = [(i, q) for i, q in left if q in slot]
        if not given and "" not in slot:
            return None
        place, qualifier = given[0] if given else (-1, "")
        choice.append(qualifier)
        places.append(place)
        left = [(i, q) for i, q in left if i != place]  # what is given twice stays for a later slot: cvt.f32.f32
    if any(choice[i] and places[i] != i for i in range(row.leading)):
        return None
    runs = ([places[i] for i in run if choice[i]] for run in (row.sequence, row.also))
    return None if left or any(run != sorted(run) for run in runs) else tuple(choice)


def _near(reader: OpcodeText) -> list[str]:
    """Spellings like the one that was given."""
    return _nearest(reader.name, reader.opcode, tuple(reader.qualifiers))


@lru_cache(maxsize=1024)
def _nearest(name: str, opcode: str, qualifiers: tuple[str, ...]) -> list[str]:
    """The spellings of a name that are most like an opcode. A row may have thousands, so only those are looked at that
    keep the given qualifiers as far as the row has them."""
    kept = (spelling for row in rows_by_name()[name] for spelling in islice(_kept(row, qualifiers), _MOST_NEAR))
    spellings = list(dict.fromkeys(kept))
    return get_close_matches(opcode, spellings, 3, 0.3) or spellings[:3]


def _kept(row: Row, qualifiers: Sequence[str]) -> Iterator[str]:
    """The spellings of a row that have the given qualifiers, or those most like them, where it has a slot for them."""
    strange = [q for q in qualifiers if not any(q in slot for slot in row.slots)]
    choices = []
    for slot in row.slots:
        given = [q for q in dict.fromkeys(qualifiers) if q in slot]
        like = [option for q in strange for option in _like(q, slot)]
        choices.append(given or ([*like, ""] if "" in slot else like or list(slot)))
    for choice in product(*choices):
        yield joined(row.name, choice)


@lru_cache(maxsize=4096)
def _like(qualifier: str, slot: tuple[str, ...]) -> list[str]:
    """The qualifiers of a slot that a strange one may have meant; many rows share a slot."""
    return get_close_matches(qualifier, [option for option in slot if option], 2, 0.6)
