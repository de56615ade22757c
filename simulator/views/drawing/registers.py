"""Panels of operands for the pictures of layouts: by element (a matrix whose cells say where each element is), and by
place (lanes whose cells say what they hold)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby, product

import numpy as np

from isa.mapping import Integers
from simulator.layout import FormLayout, Operand, Selection
from simulator.views.drawing.elements import data
from simulator.views.drawing.marks import GLYPH, SIZE
from simulator.views.drawing.palettes import colours, number
from simulator.views.drawing.svg import HATCH, Cell, Panel

STRIP = 16  # columns of a matrix side by side; wider ones go on below
TALL = 32  # rows of a narrow one
_PART = {16: ("lo", "hi"), 8: ("b0", "b1", "b2", "b3"), 4: tuple(f"n{i}" for i in range(8))}
LEGEND = (
    "T#: lane (a thread of the warp, as in PTX's figures); .lo, .hi: bits 15:0, 31:16 of the register; .b#: byte; "
    ".n#: nibble (4 bits), counted from the lowest"
)


def short_place(operand: Operand, word: int, low: int) -> str:
    """The text of a place on a cell, without its lane: `a1.hi`, `b0.n3`, `[7:4]` of metadata, `d2`."""
    if operand.name == "e":
        prefix = f"{operand.word_name(word)}" if operand.tmem else ""
        return f"{prefix}{operand.bits_name(low, low + operand.bits - 1)}"
    part = _PART.get(operand.bits, ())
    suffix = f".{part[low // operand.bits]}" if part else f"[{low}]" if operand.bits == 1 else ""
    name = operand.word_name(word)
    if operand.tmem or operand.name.startswith("scale"):
        name = name.removeprefix(operand.name).removeprefix(".")
    return f"{name}{suffix}"


def attributes(operand: Operand, values: tuple[int, ...]) -> str:
    """The data attributes of a cell: operand, row, column, copy (where there are several), lane, register, bits."""
    row, column, copy, lane, word, low, high = values
    more = f' data-copy="{copy}"' if len(operand.axes) > 2 and operand.shape[2] > 1 else ""
    place = f' data-lane="{lane}" data-reg="{word}" data-bits="{high}:{low}"'
    return f' data-operand="{operand.name}" data-row="{row}" data-column="{column}"{more}{place}'


FIELDS = ("row", "column", "copy", "lane", "word", "low", "high")


def records(operand: Operand) -> list[tuple[int, ...]]:
    """All elements of an operand as numbers, in the order of `FIELDS`."""
    return list(zip(*(operand.table[name].tolist() for name in FIELDS), strict=True))


def filler(palette: str, operand: Operand) -> Callable[[int, int], str]:
    """A function from (row, lane) to a colour: by lane of a warp; in Tensor Memory, where a lane has one row, by groups
    of rows."""
    shades = colours(palette)
    if operand.tmem:
        table = [shades[number(row, len(shades), tmem=True)] for row in range(operand.shape[0])]
        return lambda row, _: table[row]
    table = [shades[number(lane, len(shades))] for lane in range(operand.lanes)]
    return lambda _, lane: table[lane]


def matrix_panels(
    operand: Operand,
    palette: str,
    *,
    title: str = "",
    extra: Callable[[int, int], str] | None = None,
    strip: int = STRIP,
) -> list[Panel]:
    """The matrix of an operand, one panel for each strip of columns (for a narrow matrix, of rows). Where elements have
    copies, the cells show the first copy.

    Args:
        extra: a function from (row, column) to a third line of text.
    """
    rows, columns = operand.rows_shown, operand.columns_shown
    fill, letter = filler(palette, operand), "L" if operand.tmem else "T"
    cell_at: dict[tuple[int, int], Cell] = {}
    for values in records(operand):
        row, column, copy, lane, word, low, _ = values
        if copy == 0:
            lines = [f"{letter}{lane}", short_place(operand, word, low)]
            if extra is not None:
                lines.append(extra(row, column))
            cell_at[row, column] = Cell(fill(row, lane), tuple(filter(None, lines)), attributes(operand, values))
    longest = max(len(line) for cell in cell_at.values() for line in cell.lines)
    width, height = max(26.0, longest * SIZE * GLYPH + 4), 11.0 * max(len(cell.lines) for cell in cell_at.values()) + 3
    corner = f"{operand.axes[0]}\\{operand.axes[1]}"
    panels = []
    tall = TALL if len(columns) <= STRIP // 2 else len(rows)
    for right, below in product(_strips(columns, strip), _strips(rows, tall)):
        cuts = [
            _part(name, part) if len(part) < size else ""
            for name, part, size in zip(operand.axes, (below, right), operand.shape, strict=False)
        ]
        cells = [[cell_at[row, column] for column in right] for row in below]
        labels = list(map(str, below)), list(map(str, right))
        heading = (title or operand.what) + "".join(cuts)
        panel = Panel(heading, cells, *labels, width, height, corner=corner, cut_rows=cuts[0], cut_columns=cuts[1])
        panels.append(panel)
    return panels


def _part(name: str, part: Sequence[int]) -> str:
    """Words that say which rows or columns these are: `, rows 0 to 7`, `, row 5`."""
    return f", {name}s {part[0]} to {part[-1]}" if len(part) > 1 else f", {name} {part[0]}"


def _strips(numbers: range, size: int) -> list[range]:
    """Numbers in pieces of this size."""
    return [numbers[first : first + size] for first in range(0, len(numbers), size)]


def lane_panels(
    operand: Operand, palette: str, selection: Selection | None = None, *, strip: int = STRIP
) -> list[Panel]:
    """Panels by place: a row for each lane, a column for each part of its registers; the cells say row and column."""
    table = operand.table
    slots, slot = np.unique(np.stack([table["word"], table["low"]]), axis=1, return_inverse=True)
    count = slots.shape[1]
    fill, name = filler(palette, operand), operand.word_name
    grid: list[list[Cell | None]] = [[None] * count for _ in range(operand.lanes)]
    for values, place in zip(records(operand), slot.ravel().tolist(), strict=True):
        row, column, _, lane, _, _, _ = values
        lines = [f"{row},{column}"]
        if selection is not None and operand.name == "e":
            lines.append(f"{int(selection.codes[row, column]):0{selection.sparsity.code_bits}b}")
        elif selection is not None and operand.name == "a":
            lines.append(f"k{logical_text(selection, row, column)}")
        grid[lane][place] = Cell(fill(row, lane), tuple(lines), attributes(operand, values))
    heads = [
        (name(word).removeprefix(f"{operand.name}.") + operand.bits_name(low, low + operand.bits - 1))
        for word, low in slots.T.tolist()
    ]
    letter = "L" if operand.tmem else "T"
    width = max(34.0, max(map(len, heads)) * SIZE * GLYPH + 4)
    height = 25.0 if selection is not None and operand.name in ("a", "e") else 14.0
    corner = f"{operand.lane}: {operand.axes[0]},{operand.axes[1]}"
    used = set(operand.whole["lane"].tolist())
    labels, grid = _collapsed([(f"{letter}{lane}", lane in used) for lane in range(operand.lanes)], grid)
    panels = []
    for first in range(0, count, strip):
        part = heads[first : first + strip]
        more = f", {part[0]} to {part[-1]}" if count > strip else ""
        cells = [line[first : first + strip] for line in grid]
        panels.append(Panel(operand.what + more, cells, labels, part, width, height, corner=corner, cut_columns=more))
    return panels


def _collapsed(
    lanes: list[tuple[str, bool]], grid: list[list[Cell | None]]
) -> tuple[list[str], list[list[Cell | None]]]:
    """Shows runs of lanes that hold nothing as one hatched line each. `lanes` are (label, whether it holds anything);
    a lane of which nothing is to be shown, although it holds something, is left out."""
    lines: list[tuple[str, list[Cell | None]]] = []
    for (shown, used), run in groupby(zip(lanes, grid, strict=True), key=lambda line: (any(line[1]), line[0][1])):
        held = [(label, row) for (label, _), row in run]
        if shown:
            lines += held
        elif not used:
            name = held[0][0] if len(held) == 1 else f"{held[0][0]} to {held[-1][0]}"
            lines.append((name, [Cell(HATCH)] * len(held[0][1])))
    return [label for label, _ in lines], [row for _, row in lines]


def logical_text(selection: Selection, row: int, column: int) -> str:
    """The logical column of a stored one; `?` where a 1:2 code joins halves of two columns."""
    return (
        "?" if selection.joined[row, column // selection.sparsity.stored] else str(int(selection.columns[row, column]))
    )


def logical_panels(layout: FormLayout, selection: Selection, palette: str, *, strip: int = 2 * STRIP) -> list[Panel]:
    """A in its logical form, M x K. Kept cells have the colour of the lane that stores them and show the stored column;
    pruned cells are hatched."""
    operand = layout.operands["a"]
    fill, lanes = filler(palette, operand), operand.grid["lane"].reshape(*operand.shape[:2], -1)[..., 0]
    longest = max(len("+".join(map(str, held))) for row in selection.stored for held in row)
    width = max(13.0, max(longest, len(str(layout.k_stored - 1))) * SIZE * GLYPH + 3)
    panels = []
    for first in range(0, layout.k, strip):
        last = min(first + strip, layout.k)
        cells = [
            [_logical(layout, selection, fill, lanes, row, column) for column in range(first, last)]
            for row in range(operand.shape[0])
        ]
        part = f", columns {first} to {last - 1}" if layout.k > strip else ""
        labels = (
            [str(column) if column % layout.sparsity.chunk == 0 else "" for column in range(first, last)]
            if layout.sparsity
            else []
        )
        panels.append(
            Panel(
                f"logical A{part}: in a kept cell its stored column",
                cells,
                [str(row) for row in range(operand.shape[0])],
                labels,
                width,
                14.0,
                corner="row",
                ticks=(0, selection.sparsity.chunk),
                column_names=[str(column) for column in range(first, last)],
                attributes=data(panel="logical"),
            )
        )
    return panels


def _logical(
    layout: FormLayout, selection: Selection, fill: Callable[[int, int], str], lanes: Integers, row: int, column: int
) -> Cell:
    stored = selection.stored[row][column]
    about = data(logical=f"{row},{column}", stored=",".join(map(str, stored)))
    if selection.joined[row, column // selection.sparsity.chunk]:
        return Cell("", ("?",), about, bold=True)
    if not stored:
        return Cell(HATCH, (), about)
    return Cell(fill(row, int(lanes[row, stored[0]])), ("+".join(map(str, stored)),), about, bold=len(stored) > 1)


def stored_panels(layout: FormLayout, selection: Selection, palette: str, *, strip: int = STRIP) -> list[Panel]:
    """A in its stored form; each cell shows its logical column."""
    operand = layout.operands["a"]
    fill, lanes = filler(palette, operand), operand.grid["lane"].reshape(*operand.shape[:2], -1)[..., 0]
    width = max(16.0, len(str(layout.k - 1)) * SIZE * GLYPH + 4)
    panels = []
    for first in range(0, layout.k_stored, strip):
        last = min(first + strip, layout.k_stored)
        cells = [
            [
                Cell(
                    fill(row, int(lanes[row, column])),
                    (logical_text(selection, row, column),),
                    data(element=f"{row},{column}"),
                )
                for column in range(first, last)
            ]
            for row in range(operand.shape[0])
        ]
        part = f", stored columns {first} to {last - 1}" if layout.k_stored > strip else ""
        labels = [str(column) if column % selection.sparsity.stored == 0 else "" for column in range(first, last)]
        panels.append(
            Panel(
                f"stored A{part}: in each cell its logical column",
                cells,
                [str(row) for row in range(operand.shape[0])],
                labels,
                width,
                14.0,
                ticks=(0, selection.sparsity.stored),
                column_names=[str(column) for column in range(first, last)],
                attributes=data(panel="stored"),
            )
        )
    return panels
