"""A map of Tensor Memory as text for a terminal: a letter for 8 columns or more, a line for each moment of change."""

from __future__ import annotations

from isa.tensor_memory.address import COLUMNS
from simulator.folding import line_width
from simulator.tables import aligned
from simulator.views.tensor_memory.lives import ALLOCATION, ROLES, Interval
from simulator.views.tensor_memory.recorded import MemoryMap

_LETTERS = dict(zip(ROLES, "iscDAMab", strict=True)) | {ALLOCATION: "."}


def text(memory: MemoryMap, moment: int | None = None) -> str:
    """The map and the table of its intervals, of one moment or of all; ViewError as `MemoryMap.at`."""
    intervals = list(memory.intervals) if moment is None else memory.at(moment)
    shown = memory.changes if moment is None else [moment]
    used = [role for role in (*reversed(ROLES), ALLOCATION) if any(each.role == role for each in intervals)]
    room = (line_width() or 110) - 42  # what a line has beside the numbers
    each_letter = next(size for size in (8, 16, 32, 64) if COLUMNS // size <= max(room, 8))
    lines = [f"Tensor Memory of {memory.name}: a letter for {each_letter} columns, a line for each change"]
    lines += [", ".join(f"{_LETTERS[role]} = {role}" for role in used) + ", blank = not allocated", ""]
    for cta in memory.ctas:
        rows = [("moment", "line", "instruction", _ruler(each_letter))]
        before = ""
        for number in shown:
            row = _row([each for each in memory.at(number) if each.cta == cta], each_letter)
            if row != before:
                at = memory.moments[number]
                rows.append((str(number), str(at.line), at.opcode, f"|{row}|"))
                before = row
        lines += [f"CTA {cta}"] if len(memory.ctas) > 1 else []
        lines += [*aligned(rows, ">><<"), ""]
    return "\n".join(lines) + "\n" + memory.table(moment).text()


def _ruler(each_letter: int) -> str:
    """The numbers of columns over a row, at least 8 letters apart."""
    step = 8 * each_letter
    return " " + "".join(f"{column:<8}" for column in range(0, COLUMNS, step)).rstrip()


def _row(intervals: list[Interval], each_letter: int) -> str:
    """A letter for so many columns: an operand that is anywhere in them, or else what is."""
    letters = [" "] * (COLUMNS // each_letter)
    order = (ALLOCATION, *ROLES)
    for each in sorted(intervals, key=lambda each: order.index(each.role)):
        for place in range(each.columns.start // each_letter, (each.columns.stop - 1) // each_letter + 1):
            letters[place] = _LETTERS[each.role]
    return "".join(letters)
