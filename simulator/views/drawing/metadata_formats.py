"""Shows formats of metadata as pictures and tables: where each code of one atom lies. (An atom is the part of the
matrix after which the format repeats.)"""

from __future__ import annotations

import json

from isa.errors import IsaError
from isa.metadata_formats import MetadataFormat
from simulator.tables import Table
from simulator.views.drawing.elements import data
from simulator.views.drawing.marks import GLYPH, SIZE
from simulator.views.drawing.palettes import DEFAULT, colours
from simulator.views.drawing.sizes import NATURAL, laid_out, size_of, too_small
from simulator.views.drawing.svg import PAGE, Cell, Panel, Picture, figure, flow

_STRIP = 16  # chunks side by side, where an atom is wider than a page
_SHORT = {"lane": "T", "column": "c", "byte": "b", "word": "w"}


def draw_format(
    layout: MetadataFormat,
    palette: str = DEFAULT,
    size: str = NATURAL,
    *,
    shown_rows: range | None = None,
    shown_chunks: range | None = None,
) -> Picture:
    """Draws one atom, [row, chunk]: each cell names the word and, after a point, the code in it; each word has one
    colour.

    IsaError for an unknown palette or size, rows or chunks that the atom does not have, or a picture that cannot be
    read at that size.
    """
    fill = colours(palette)
    rows, chunks = layout.step
    positions = layout.positions(rows, chunks)
    cells = []
    for row in range(rows):
        line: list[Cell | None] = []
        for chunk in range(chunks):
            position = int(positions[row, chunk])
            word = position // layout.codes_per_word
            attributes = data(word=word, bits=_bits(layout, position), row=row, column=chunk)
            line.append(Cell(fill[word % len(fill)], (_place(layout, position),), attributes))
        cells.append(line)
    width = max(30.0, SIZE * GLYPH * max(len(_place(layout, rows * chunks - 1)), 5) + 4)
    title = f"{layout.name} for {layout.element.name}: {layout.title}"
    panel = Panel(
        f"one atom, {rows} rows x {chunks} chunks of {layout.sparsity.chunk} columns",
        cells,
        [str(row) for row in range(rows)],
        [str(chunk) for chunk in range(chunks)],
        width,
        14.0,
        corner="row\\chunk",
        below=[f"{name} = {line}" for name, line in layout.formulas().items()],
    )
    caption = f"{_legend(layout)}; {layout.evidence}"
    notes = [f"{name} = {line}" for name, line in layout.formulas().items()]
    window = range(rows) if shown_rows is None else shown_rows, range(chunks) if shown_chunks is None else shown_chunks
    for name, part, count in zip(("rows", "chunks"), window, (rows, chunks), strict=True):
        if not 0 <= part.start < part.stop <= count:
            reason = f"the atom of {layout.name} has no {name} {part.start}:{part.stop}"
            raise IsaError("", -1, reason, f"FIRST:END from 0 to {count}")
    panel = panel.cut(*window)
    if size == NATURAL:
        wide, tall = len(window[1]), len(window[0])
        strips = [panel] if panel.extent[0] <= PAGE else []
        for first in range(0, wide if not strips else 0, _STRIP):
            strips.append(panel.cut(range(tall), range(first, min(first + _STRIP, wide))))
        return figure(title, flow(strips, PAGE), notes, [caption])
    picture = laid_out(title, [panel], size_of(size), notes=notes, captions=[caption])
    count = len(window[0])
    advice = ""
    while picture is None and not advice and count > 1:
        count //= 2
        first = window[0].start
        piece = panel.cut(range(count), range(len(window[1])))
        if laid_out(title, [piece], size_of(size), notes=notes, captions=[caption]) is not None:
            advice = f"--rows {first}:{first + count}, or a larger --size"
    if picture is None:
        raise too_small(size_of(size), advice)
    return picture


def as_text(layout: MetadataFormat, *, markdown: bool = False) -> str:
    """A description of the format, its formulas, and one atom as a table of words and codes."""
    rows, chunks = layout.step
    positions = layout.positions(rows, chunks)
    names = [[_place(layout, int(position)) for position in line] for line in positions]
    if markdown:
        lines = [f"**{layout.name}** for {layout.element.name}: {layout.title}", ""]
        lines += ["| row\\chunk | " + " | ".join(map(str, range(chunks))) + " |", "| --- " * (chunks + 1) + "|"]
        lines += [f"| {row} | " + " | ".join(line) + " |" for row, line in enumerate(names)]
        return "\n".join(lines) + "\n"
    wide = max(len(name) for line in names for name in line) + 1
    lines = [f"{key:<10} {value}" for key, value in _facts(layout).items()]
    lines += ["", " " * 9 + "".join(f"{chunk:>{wide}}" for chunk in range(chunks))]
    lines += [f"row {row:<5}" + "".join(f"{name:>{wide}}" for name in line) for row, line in enumerate(names)]
    return "\n".join(lines) + "\n"


def as_csv(layout: MetadataFormat) -> str:
    """One line for each code of an atom: row, chunk, word, code, the bits of the word."""
    per = layout.codes_per_word
    rows = [
        (row, chunk, position // per, position % per, _bits(layout, position))
        for row, line in enumerate(layout.positions(*layout.step))
        for chunk, position in enumerate(map(int, line))
    ]
    return Table(("row", "chunk", "word", "code", "bits"), rows).csv()


def as_json(layout: MetadataFormat) -> str:
    """The description, and the position of every code of an atom."""
    rows, chunks = layout.step
    content = _facts(layout) | {"rows": rows, "chunks": chunks, "positions": layout.positions(rows, chunks).tolist()}
    return json.dumps(content, indent=1) + "\n"


def _facts(layout: MetadataFormat) -> dict[str, str]:
    rows, chunks = layout.tile
    order = {"rows": "down the rows first", "chunks": "along K first"}[layout.order]
    if layout.group_rows:
        order = f"in groups of {layout.group_rows} rows by {2 * chunks} chunks; in a group {order}"
    return {
        "format": f"{layout.name} for {layout.element.name}: {layout.title}",
        "atom": f"{rows} rows x {chunks} chunks of {layout.sparsity.chunk} columns",
        "digits": layout.atom,
        "atoms": f"{order}; other shapes {'are padded' if layout.padded else 'are refused'}",
        "words": f"{layout.word_bits} bits, {layout.codes_per_word} codes each, lowest bits first",
        **layout.formulas(),
        "source": f"{layout.source} ({layout.evidence})",
    }


def _place(layout: MetadataFormat, position: int) -> str:
    word, code = divmod(position, layout.codes_per_word)
    if not layout.inner:
        return f"{word}.{code}" if layout.codes_per_word > 1 else str(word)
    parts: list[str] = []
    for name, size in reversed(layout.inner):
        word, index = divmod(word, size)
        parts.insert(0, f"{_SHORT[name]}{index}")
    return f"{''.join(parts)}.{code}"


def _legend(layout: MetadataFormat) -> str:
    """What the name in a cell means: `T5w0.3`, `12.1`."""
    where = ", ".join(f"{_SHORT[name]} {name}" for name, _ in layout.inner) or "word"
    if layout.codes_per_word == 1:
        return f"in a cell: {where}; a code to each word of {layout.word_bits} bits"
    count = f"{layout.word_bits}-bit words, {layout.codes_per_word} codes each, lowest bits first"
    return f"in a cell: {where}, and after the point its code; {count}"


def _bits(layout: MetadataFormat, position: int) -> str:
    if layout.codes_per_word == 1:
        return "7:0"
    low = 4 * (position % layout.codes_per_word)
    return f"{low + 3}:{low}"
