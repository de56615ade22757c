"""Panels about metadata for the pictures of layouts: codes with their owners, the bits of one word as a ruler, and what
each selector picks."""

from __future__ import annotations

from dataclasses import replace

from isa.fragments.metadata import CODE_BITS
from simulator.layout import FormLayout, Operand, Selection, form_layout
from simulator.views.drawing.elements import data
from simulator.views.drawing.marks import GLYPH, SIZE, Mark
from simulator.views.drawing.palettes import colours
from simulator.views.drawing.registers import attributes, filler, records, short_place
from simulator.views.drawing.svg import Cell, Panel

_WARP = 32
STRIP = 8  # chunks side by side


def code_panels(
    layout: FormLayout, selection: Selection | None, palette: str, shown: Operand | None = None
) -> list[Panel]:
    """Panels of rows and at most 8 chunks each: every cell shows the lane and the bits that hold a code, and the code
    itself; a strong border marks a code that is not defined. `shown` is the metadata with a window of its own."""
    operand = shown or layout.operands["e"]
    fill, letter = filler(palette, operand), "L" if operand.tmem else "T"
    rows, chunks = operand.rows_shown, operand.columns_shown
    cells: list[list[Cell | None]] = [[None] * len(chunks) for _ in rows]
    for values in records(operand):
        row, chunk, copy, lane, word, low, _ = values
        if copy:
            continue
        lines = [f"{letter}{lane}{short_place(operand, word, low).replace(f'{operand.name}.', ' ')}"]
        bold = False
        if selection is not None:
            lines.append(f"{int(selection.codes[row, chunk]):0{selection.sparsity.code_bits}b}")
            bold = not selection.legal[row, chunk]
        cells[row - rows.start][chunk - chunks.start] = Cell(
            fill(row, lane), tuple(lines), attributes(operand, values), bold
        )
    size = layout.sparsity.chunk if layout.sparsity else 0
    longest = max(len(cell.lines[0]) for line in cells for cell in line if cell)
    width, height = max(48.0, longest * SIZE * GLYPH + 4), 25.0 if selection is not None else 14.0
    panels = []
    for first in range(0, len(chunks), STRIP):
        held = chunks[first : first + STRIP]
        part = f", chunks {held[0]} to {held[-1]}" if len(held) < operand.shape[1] else ""
        labels = [f"{chunk} (k{size * chunk})" for chunk in held]
        strip = [line[first : first + STRIP] for line in cells]
        panels.append(
            Panel(
                operand.what + part,
                strip,
                list(map(str, rows)),
                labels,
                width,
                height,
                corner="row\\chunk",
                cut_columns=part,
            )
        )
    return panels


def ruler_panel(
    layout: FormLayout, selection: Selection | None, palette: str, lane: int, word: int = 0
) -> Panel | None:
    """The 32 bits of one lane's metadata register (or cell), highest first, coloured by the code they belong to. None
    if it holds no code."""
    operand = layout.operands["e"]
    shades = colours(palette)
    value = None if selection is None else int(selection.words[(lane, word) if operand.tmem else (lane,)])
    bits: list[Cell | None] = []
    codes = []
    size, index_bits = operand.bits, layout.sparsity.index_bits if layout.sparsity is not None else CODE_BITS // 2
    for low in range(32 - size, -1, -size):
        held = operand.elements(lane, word, low, low + size - 1)
        fill = shades[(low // size) % len(shades)] if held else ""
        row, chunk = held[0][:2] if held else (-1, -1)
        place = f"row {row}, chunk {chunk}" if size >= CODE_BITS else f"{row}, {chunk}"
        codes.append((place if held else "not read", low))
        for bit in range(low + size - 1, low - 1, -1):
            lines = [f"[{bit - low}]"] if held else []
            lines += [str(value >> bit & 1)] if value is not None else []
            bits.append(Cell(fill, tuple(lines), data(bit=bit, row=row, chunk=chunk) if held else data(bit=bit)))
    if all(words == "not read" for words, _ in codes):
        return None
    width = 26.0
    letter, name = ("L", operand.word_name(word)) if operand.tmem else ("T", operand.word_name(word))
    height = 26.0 if value is not None else 15.0
    marks = []
    for words, low in codes:
        marks.append(Mark((31 - low - (size - 1) / 2) * width + width / 2, height + 12, words))
        for index in range(size // index_bits if words != "not read" else 0):
            middle = 32 - low - index_bits * (index + 0.5)
            marks.append(Mark(middle * width, height + 23, f"index {index}" if index_bits > 1 else f"i{index}"))
    means = "columns of the chunk that its stored elements come from"
    if layout.sparsity is not None and layout.sparsity.splices:
        means = "16-bit halves of the chunk that make the low and the high half of the operand"
    title = (
        f"the 32 bits of {letter}{lane} {name}"
        + (f" = 0x{value:08x}" if value is not None else "")
        + f"; [{size - 1}] to [0]: bits of a code; index: {means}"
    )
    return Panel(
        title,
        [bits],
        (),
        [str(bit) for bit in range(31, -1, -1)],
        width,
        height,
        marks=marks,
        below=["", ""],
        ticks=(0, 4),
        attributes=data(panel="ruler", lane=lane, reg=word),
    )


def selector_panel(layout: FormLayout, palette: str) -> Panel | None:
    """Which lanes (or which column of the pair) each selector reads. None where a single selector reads all."""
    operand = layout.operands["e"]
    if len(layout.selectors) < 2:
        return None
    places = operand.words if operand.tmem else _WARP
    cells: list[list[Cell | None]] = []
    for selector in layout.selectors:
        other = form_layout(layout.opcode, replace(layout.choice, selector=selector)).operands["e"]
        read = set(other.table["word" if other.tmem else "lane"].tolist())
        shades = colours(palette)
        line: list[Cell | None] = []
        for place in range(places):
            mark = Cell(
                shades[selector % len(shades)],
                (f"col{place}" if operand.tmem else f"T{place}",),
                data(selector=selector, place=place),
            )
            line.append(mark if place in read else Cell("", (), ""))
        cells.append(line)
    what = "column of the pair at sp-meta" if operand.tmem else "lanes whose metadata register"
    labels = [f"selector {selector}" for selector in layout.selectors]
    return Panel(
        f"{what} each selector reads",
        cells,
        labels,
        (),
        40.0 if operand.tmem else 23.0,
        15.0,
        attributes=data(panel="selectors"),
    )
