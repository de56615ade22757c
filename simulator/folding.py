"""Text that fits a narrow terminal: rows of tables and lines of words, folded so that nothing is lost.

Nothing is folded unless a width has been set (`lines_within`), as the command line does for a terminal. Tables are
folded where they are made (`simulator.tables.aligned`), because only there columns are known:

* a last column of words is wrapped in its place;
* numbers under a short name of the row become blocks of columns, one below the other, each with the name in front;
* where the first column alone fills the line, such as the opcode of a form, each row takes several lines.

    >>> print("\\n".join(fold_rows([["a", "words that are long"]], [1, 19], "<<", "  ", "", 12)))
    a  words
       that are
       long
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

_width: ContextVar[int] = ContextVar("width", default=0)
LEAST = 20  # columns of a line: nothing is folded to less
_STEP = 4  # columns by which what belongs to a row of several lines is moved in
_ENDS = ".,:/|=)}]"  # after which a word that is too long is cut
_LABEL = re.compile(r"\s*\S.*?\s{2,}(?=\S)")


@contextmanager
def lines_within(width: int) -> Iterator[None]:
    """While the block runs, lines are at most so wide; 0 is any width."""
    token = _width.set(max(width, LEAST) if width else 0)
    try:
        yield
    finally:
        _width.reset(token)


def line_width() -> int:
    """How wide lines may be; 0 is any width."""
    return _width.get()


def wrapped(text: str, width: int) -> list[str]:
    """The lines of a text without line breaks, cut between words; words that are too long are cut after punctuation
    where they have some."""
    lines, line = [], ""
    for word in re.findall(r"\s*\S+", text):
        if line and len(line) + len(word) > width:
            lines.append(line)
            line = ""
        line = line + word if line else word if not lines else word.lstrip()
        while len(line) > width:
            cut = max(line.rfind(end, 0, width) for end in _ENDS) + 1
            cut = cut if cut > width // 3 else width
            lines.append(line[:cut])
            line = line[cut:]
    return [*lines, line] if line or not lines else lines


def fold(text: str, width: int) -> str:
    """A text with lines of words that are too wide wrapped, each below its own beginning: what follows a label and two
    spaces below that, else two columns further in."""
    return "\n".join(part for line in text.split("\n") for part in _fold_line(line, width))


def _fold_line(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    label = _LABEL.match(line)
    start = len(line) - len(line.lstrip())
    hang = len(label[0]) if label and start < len(label[0]) <= width // 2 else min(start + 2, width // 2)
    first, *rest = wrapped(line, width)
    if not rest:
        return [first]
    below = wrapped(line[len(first) :].lstrip(), width - hang)
    return [first, *(" " * hang + part for part in below)]


def fold_rows(
    texts: Sequence[Sequence[str]], wide: Sequence[int], ways: Sequence[str], gap: str, indent: str, width: int
) -> list[str]:
    """Rows of a table as lines that are at most so wide.

    Args:
        texts: the cells of each row, the head among them.
        wide, ways: the width of each column, and "<" (left) or ">" (right).
        gap, indent: the text between columns, and before the first.
    """
    room = width - len(indent)
    last = len(wide) - 1
    taken = sum(wide[:last]) + len(gap) * last
    if ways[last] == "<" and room - taken >= max(LEAST // 2, room // 3):
        return _block(texts, range(last + 1), [*wide[:last], room - taken], ways, gap, indent)
    if wide[0] <= room // 3:
        blocks = [
            _block(texts, (0, *columns), _within(wide, room - wide[0] - len(gap), 0), ways, gap, indent)
            for columns in _groups(wide[1:], room - wide[0] - len(gap), len(gap), 1)
        ]
        return [line for block in blocks for line in ["", *block]][1:]
    groups, inner = _groups(wide[1:], room - _STEP, len(gap), 1), " " * _STEP
    lines = []
    for row in texts:
        lines += [indent + part for part in wrapped(row[0], room)]
        for columns in groups:
            found = _block([row], columns, _within(wide, room - _STEP), ways, gap, indent + inner)
            lines += [line for line in found if line.strip()]
    return lines


def _within(wide: Sequence[int], most: int, free: int = -1) -> list[int]:
    """The widths of columns, none above the most but that of column `free`."""
    return [size if number == free else min(size, most) for number, size in enumerate(wide)]


def _groups(wide: Sequence[int], room: int, gap: int, first: int) -> list[tuple[int, ...]]:
    """Numbers of columns, counted from `first`, in groups that are each as wide as there is room."""
    groups: list[list[int]] = []
    taken = room
    for number, own in enumerate(wide, first):
        size = min(own, room)
        if groups and taken + gap + size <= room:
            groups[-1].append(number)
            taken += gap + size
        else:
            groups.append([number])
            taken = size
    return [tuple(group) for group in groups]


def _block(
    texts: Sequence[Sequence[str]],
    columns: Sequence[int],
    wide: Sequence[int],
    ways: Sequence[str],
    gap: str,
    indent: str,
) -> list[str]:
    """Some columns of all rows; a cell that is too wide for its column takes several lines."""
    lines = []
    for row in texts:
        cells = [wrapped(row[c], wide[c]) if c < len(row) else [""] for c in columns]
        for number in range(max(map(len, cells), default=0)):
            parts = [
                f"{cell[number] if number < len(cell) else '':{ways[c]}{wide[c]}}"
                for c, cell in zip(columns, cells, strict=True)
            ]
            lines.append((indent + gap.join(parts)).rstrip())
    return lines
