"""Pictures of a map of Tensor Memory: columns against time, and lanes x columns at moments at which it changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from isa.tensor_memory.address import COLUMNS, TMEM_LANES
from simulator.views.drawing.elements import data, short
from simulator.views.drawing.marks import GLYPH, SIZE, Mark
from simulator.views.drawing.palettes import PAPER, colours
from simulator.views.drawing.svg import HATCH, Cell, Panel, Picture, figure
from simulator.views.tensor_memory.lives import ALLOCATION, ROLES, Interval
from simulator.views.tensor_memory.recorded import MemoryMap, words

SNAPSHOTS = 6  # moments that are drawn at most
_WIDE, _TALL, _SMALL = 1.5, 1.0, 0.8  # pixels of a column, and of a lane; of a column in snapshots side by side
_HIGH = 360.0  # pixels of the time, at most
_STEP = 9.0  # pixels of a moment, at most
_DOWN = 4  # lanes by which a label stands below the line that it names
ROLE_COLOURS = (5, 1, 2, 3, 4, 0, 6, 7)  # numbers in a palette: the palest is for what is there before a run
_BORDERED = 4.0  # pixels from which on a box has a border
_LISTED = 16  # intervals that captions name


def draw(memory: MemoryMap, moment: int | None = None, palette: str = "safe") -> Picture:
    """The picture: of each CTA its columns over time and the moments of change, or one moment alone.

    Raises:
        ViewError: as `MemoryMap.at`.
        IsaError: no such palette.
    """
    shades = colours(palette)
    fills = {role: shades[number] for role, number in zip(ROLES, ROLE_COLOURS, strict=True)} | {ALLOCATION: PAPER}
    rows: list[list[Panel]] = [_legend(memory, fills)]
    for cta in memory.ctas:
        own = [each for each in memory.intervals if each.cta == cta]
        name = f"CTA {cta}, " if len(memory.ctas) > 1 else ""
        if moment is None:
            rows.append([_over_time(memory, own, name, fills)])
            shots = [_snapshot(memory, own, number, name, fills, _SMALL) for number in _chosen(memory, own)]
            rows += [shots[first : first + 2] for first in range(0, len(shots), 2)]
        else:
            rows.append([_snapshot(memory, own, moment, name, fills, _WIDE)])
    chosen = list(memory.intervals) if moment is None else memory.at(moment)
    return figure(f"Tensor Memory of {memory.name}", rows, captions=_captions(memory, chosen))


def _captions(memory: MemoryMap, intervals: Sequence[Interval]) -> list[str]:
    """What is where from which line to which, in words."""
    operands = [each for each in intervals if each.role != ALLOCATION]
    lines = []
    for each in operands[:_LISTED]:
        cta = f"CTA {each.cta}: " if len(memory.ctas) > 1 else ""
        lanes, columns = each.lanes_in_words, words(each.columns)
        first, last = each.first, each.last
        when = f"{first.opcode or 'the start'} of line {first.line} to {last.opcode} of line {last.line}"
        lines.append(f"{cta}{each.role}: columns {columns}, lanes {lanes}; {when}")
    more = len(operands) - _LISTED
    return lines + ([f"and {more} more: tcsim tmem --format csv"] if more > 0 else [])


def _chosen(memory: MemoryMap, own: Sequence[Interval]) -> list[int]:
    """Moments at which the operands that a CTA holds change, in order; of many the `SNAPSHOTS` with most operands."""
    operands = [each for each in own if each.role != ALLOCATION] or list(own)
    held = {number: [each for each in operands if each.holds(number)] for number in memory.changes}
    moments = [number for number in memory.changes if held[number]]
    different = [b for a, b in pairwise([None, *moments]) if b is not None and (a is None or held[a] != held[b])]
    return sorted(sorted(different, key=lambda number: -len(held[number]))[:SNAPSHOTS])


def _legend(memory: MemoryMap, fills: dict[str, str]) -> list[Panel]:
    """A cell for each role that occurs."""
    used = [role for role in (*ROLES, ALLOCATION) if any(each.role == role for each in memory.intervals)]
    names = {ALLOCATION: "allocated, unused"}
    cells = [Cell(fills[role], (names.get(role, role),), data(role=role)) for role in used]
    return [Panel("", [[*cells, Cell(HATCH, ("not allocated",))]], width=112.0, height=18.0)]


def _over_time(memory: MemoryMap, own: Sequence[Interval], name: str, fills: dict[str, str]) -> Panel:
    """Columns from left to right, moments from top to bottom."""
    count = len(memory.moments)
    step = min(_STEP, _HIGH / count)
    labels, free = [""] * count, 0.0
    for number in sorted({each.first.number for each in own} | {each.last.number for each in own}):
        if number * step >= free:
            labels[min(number + int(_DOWN / step), count - 1)] = f"line {memory.moments[number].line}"
            free = number * step + SIZE + 2
    boxes = [
        (each, each.columns, each.first.number * step, (each.last.number + 1) * step)
        for each in sorted(own, key=_order)
    ]
    return Panel(
        f"{name}columns over time: {count - 1} instructions that touch Tensor Memory, from top to bottom",
        [[None] * COLUMNS] * count,
        labels,
        _column_labels(64),
        _WIDE,
        step,
        corner="column",
        extra=list(_boxes(boxes, fills, _WIDE, count * step)),
        marks=_marks(boxes, _WIDE),
    )


def _snapshot(
    memory: MemoryMap, own: Sequence[Interval], moment: int, name: str, fills: dict[str, str], wide: float
) -> Panel:
    """Lanes from top to bottom, columns from left to right, after one instruction."""
    boxes = [
        (each, each.columns, first * _TALL, (last + 1) * _TALL)
        for each in sorted(own, key=_order)
        if each.holds(moment)
        for first, last in runs(each.lanes)
    ]
    at = memory.moments[moment]
    return Panel(
        f"{name}moment {moment}: after {at.opcode or 'the start'}, line {at.line}",
        [[None] * COLUMNS] * TMEM_LANES,
        [f"L{lane - _DOWN}" if lane % 32 == _DOWN else "" for lane in range(TMEM_LANES)],
        _column_labels(64),
        wide,
        _TALL,
        corner="column",
        extra=list(_boxes(boxes, fills, wide, TMEM_LANES * _TALL)),
        marks=_marks(boxes, wide),
    )


_Box = tuple[Interval, range, float, float]


def _order(interval: Interval) -> int:
    """What is drawn over what: operands over what was only moved, all over allocations."""
    return -1 if interval.role == ALLOCATION else ROLES.index(interval.role)


def _boxes(boxes: Sequence[_Box], fills: dict[str, str], wide: float, high: float) -> Iterator[str]:
    yield f'<rect x="0" y="0" width="{short(COLUMNS * wide)}" height="{short(high)}" fill="url(#{HATCH})"/>'
    for each, columns, top, bottom in boxes:
        about = data(
            cta=each.cta, role=each.role, lanes=each.lanes_in_words, columns=words(columns),
            first=each.first.number, last=each.last.number, lines=f"{each.first.line}:{each.last.line}",
        )  # fmt: skip
        x, y, width, height = columns.start * wide, top, len(columns) * wide, bottom - top
        place = f'x="{short(x)}" y="{short(y)}" width="{short(width)}" height="{short(height)}"'
        border = ' stroke="none"' if width < _BORDERED else ""  # which would hide what is so narrow
        yield f'<rect {place} fill="{fills[each.role]}"{border}{about}/>'


def _marks(boxes: Sequence[_Box], wide: float) -> list[Mark]:
    """Names over the boxes that have room for them, and over which no other is drawn."""
    marks, taken = list[Mark](), list[tuple[float, float, float, float]]()
    for each, columns, top, bottom in reversed(boxes):
        left, right = columns.start * wide, columns.stop * wide
        name, middle = each.role, ((left + right) / 2, (top + bottom) / 2)
        fits = len(name) * SIZE * GLYPH + 4 <= right - left and bottom - top >= SIZE + 2
        free = all(right <= a or b <= left or bottom <= c or d <= top for a, b, c, d in taken)
        if fits and free and each.role != ALLOCATION:
            marks.append(Mark(middle[0], middle[1] + 0.36 * SIZE, name))
        taken.append((left, right, top, bottom))
    return marks


def runs(lanes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run of lanes."""
    starts = [lane for i, lane in enumerate(lanes) if i == 0 or lanes[i - 1] != lane - 1]
    ends = [lane for i, lane in enumerate(lanes) if i == len(lanes) - 1 or lanes[i + 1] != lane + 1]
    yield from zip(starts, ends, strict=True)


def _column_labels(step: int) -> list[str]:
    return [str(column) if column % step == 0 else "" for column in range(COLUMNS)]
