"""Finds the form of an opcode in the tables of rows: the row whose slots hold all the qualifiers. If there is none, the
error says which qualifier is wrong.

ptxas takes qualifiers in any order, except those whose slots are in the `sequence` of the row, and it lets `.sync`
stand twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from isa.forms.record import Form
from isa.forms.rows import Row, row_form
from isa.forms.table import rows_by_name
from isa.ptx.opcode_text import OpcodeText


def read_slots(reader: OpcodeText) -> Form:
    """The form of the row whose slots hold each qualifier once; ptxas 13.0 allows `.sync` to stand twice."""
    rows = rows_by_name()[reader.name]
    for row in rows:
        choice = _fitted(row, reader.qualifiers)
        if choice is not None:
            return row_form(row, choice)
    in_rows = {q for row in rows for slot in row.slots for q in slot if q}
    for qualifier in reader.qualifiers:
        if qualifier not in in_rows:
            reader.note(qualifier, f"'.{qualifier}' is not a qualifier of '{reader.name}'", _near(reader, rows))
    reader.settle()
    for qualifier in reader.qualifiers:
        if qualifier != "sync" and reader.qualifiers.count(qualifier) > 1:
            reader.note(qualifier, f"'.{qualifier}' is written twice", _near(reader, rows))
    reader.settle()
    best = min(rows, key=lambda row: _misfit(row, reader.qualifiers))
    for slot in best.slots:
        given = [q for q in reader.qualifiers if q in slot and q != "sync"]
        if len(given) > 1:
            reader.note(given[1], f"'.{given[1]}' contradicts '.{given[0]}'", f".{given[0]} or .{given[1]}")
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


def _misfit(row: Row, qualifiers: list[str]) -> int:
    """How badly a row fits: qualifiers for which it has no slot count two, missing ones count one."""
    foreign = sum(not any(q in slot for slot in row.slots) for q in qualifiers)
    return 2 * foreign + sum("" not in slot and not set(slot) & set(qualifiers) for slot in row.slots)


def _fitted(row: Row, qualifiers: list[str]) -> tuple[str, ...] | None:
    """The qualifiers in canonical order, or None if they are not those of the row."""
    left = [q for i, q in enumerate(qualifiers) if q != "sync" or "sync" not in qualifiers[:i]]
    choice = []
    for slot in row.slots:
        given = [q for q in left if q in slot]
        if len(given) != 1 and (given or "" not in slot):
            return None
        choice.append(given[0] if given else "")
        left = [q for q in left if q not in slot]
    places = [qualifiers.index(choice[i]) for i in row.sequence if choice[i]]
    return None if left or places != sorted(places) else tuple(choice)


def _near(reader: OpcodeText, rows: Sequence[Row]) -> list[str]:
    spellings = [spelling for row in rows for spelling in row.spellings()]
    return get_close_matches(reader.opcode, spellings, 3, 0.3) or spellings[:3]
