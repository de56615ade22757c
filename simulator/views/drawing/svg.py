"""Writes SVG as text: panels of cells, and figures made of panels. They are plain strings, since a drawing library
takes a thousand times as long."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.sax.saxutils import escape

from simulator.files import complete
from simulator.views.drawing.elements import FAINT_INK, short, text
from simulator.views.drawing.files import PPI, rendered
from simulator.views.drawing.marks import GLYPH, SIZE, Mark
from simulator.views.drawing.palettes import FAINT, INK, PAPER

FONT = "DejaVu Sans Mono, Menlo, Consolas, Liberation Mono, monospace"
TITLE = 10.5  # of a panel's title
MARGIN, GAP, HEADING, LABELS = 10, 24, 18, 14
TITLE_STEP = 13  # from a line of a title to the next
HEAD, HEAD_STEP = 12, 15  # the title of a picture, and from one of its lines to the next
LINE = 13  # from a line of a caption to the next
PAGE = 920.0  # width of a picture that stays legible on a page, pixels
TIED = "\u00a0"  # a space at which no line ends
HATCH = "tcsim-hatch"  # the fill of what is not kept


@dataclass(frozen=True)
class Cell:
    """One cell of a panel.

    Attributes:
        fill: a colour, "" for no fill, or `HATCH`.
        lines: lines of text, at most as many as fit.
        data: attributes, such as {"data-lane": 9}.
        bold: whether the border is strong.
        span: how many rows and columns of the panel it covers.
    """

    fill: str = ""
    lines: tuple[str, ...] = ()
    data: str = ""
    bold: bool = False
    span: tuple[int, int] = (1, 1)


@dataclass
class Panel:
    """A grid of cells of one size, with a title and labels.

    Attributes:
        title: the text above it.
        cells: rows of cells; None where there is nothing.
        rows, columns: labels; empty strings are left out.
        width, height: the size of a cell in pixels.
        size: the size of the text in cells.
        corner: what the labels of rows and those of columns are: `row\\chunk`.
        below: lines of text under it.
        extra: further elements, with coordinates from the grid's upper left corner.
        marks: words over the cells, with coordinates from the same corner; they stay with their cells where a panel is
            cut.
        outline: whether each cell has a border.
        ticks: the distance of the strong lines between (rows, columns); 0 for none.
        attributes: those of the panel.
        least: the least width of its extent.
        elastic: whether its cells, which have no text, may be drawn narrower.
        row_names, column_names: what all rows and columns are called, where some have no label; a title that says which
            part of something larger it is takes its words from them.
        cut_rows, cut_columns: the end of the title, where it says which part of something larger it is.
    """

    title: str
    cells: Sequence[Sequence[Cell | None]]
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    width: float = 30.0
    height: float = 22.0
    size: float = SIZE
    corner: str = ""
    below: Sequence[str] = ()
    extra: Sequence[str] = ()
    marks: Sequence[Mark] = ()
    outline: bool = True
    ticks: tuple[int, int] = (0, 0)
    attributes: str = ""
    least: float = 0.0
    elastic: bool = False
    row_names: Sequence[str] = ()
    column_names: Sequence[str] = ()
    cut_rows: str = ""
    cut_columns: str = ""
    _left: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        longest = max((len(label) for label in (*self.rows, self.corner)), default=0)
        self._left = longest * SIZE * GLYPH + 6 if longest else 0

    @property
    def grid(self) -> tuple[float, float]:
        """Width and height of all cells together."""
        return max(map(len, self.cells), default=0) * self.width, len(self.cells) * self.height

    @property
    def extent(self) -> tuple[float, float]:
        """Width and height including title and labels."""
        width, height = self.grid
        words = max((self._left + len(line) * SIZE * GLYPH for line in self.below), default=0.0)
        head = max(map(len, self.title.split("\n"))) * TITLE * GLYPH
        return max(self.least, width + self._left, words, head), self._top + height + 13 * len(self.below)

    @property
    def marks_fit(self) -> bool:
        """Whether the words over the cells are inside of the grid, or of the lines left free for them below it."""
        width, height = self.grid
        free = 13 * len(self.below) if not any(self.below) else 0.0
        return all(mark.fits(width, height + free) for mark in self.marks)

    @property
    def margin(self) -> float:
        """What the labels of rows take to the left of the cells."""
        return self._left

    def above(self, lines: int) -> float:
        """What lies above the cells with a title of so many lines: it, and the labels of columns."""
        return HEADING + TITLE_STEP * (lines - 1) + (LABELS if any(self.columns) else 0)

    @property
    def _top(self) -> float:
        return self.above(self.title.count("\n") + 1)

    def squeezed(self, share: float) -> Panel:
        """The panel with cells of this share of their width; words over them take more lines where one is too long."""
        wide = self.grid[0] * share
        marks = [replace(mark, x=mark.x * share).within(wide) for mark in self.marks]
        step = next((i for i in (1, 2, 4, 8) if i * share >= 0.99), 16)
        labels = [label for label in self.columns if label]
        kept = {label for i, label in enumerate(labels) if i % step == 0}
        columns = [label if label in kept else "" for label in self.columns]
        return replace(self, width=self.width * share, marks=marks, columns=columns)

    @property
    def text_sizes(self) -> set[float]:
        """The sizes of all text in the panel, pixels."""
        marked = {mark.size for mark in self.marks}
        cells = {self.size} if any(cell is not None and cell.lines for line in self.cells for cell in line) else set()
        labels = {SIZE} if any(self.rows) or any(self.columns) or self.below else set()
        return marked | cells | labels | ({TITLE} if self.title else set())

    def cut(self, rows: range, columns: range) -> Panel:
        """The part of the panel in these rows and columns of cells, with its labels; the title says which part it is.
        What stands below goes with the last part."""
        if len(rows) == len(self.cells) and len(columns) == self._wide:
            return self
        across, down = columns.start * self.width, rows.start * self.height
        right = columns.stop * self.width
        last = rows.stop == len(self.cells)
        bottom = math.inf if last else rows.stop * self.height  # under the last row, too
        held = (mark for mark in self.marks if across <= mark.x < right and down <= mark.y < bottom)
        down_part = self._part(0, rows, len(self.cells)) or self.cut_rows
        across_part = self._part(1, columns, self._wide) or self.cut_columns
        return replace(
            self,
            title=self.title.removesuffix(self.cut_rows + self.cut_columns) + down_part + across_part,
            cut_rows=down_part,
            cut_columns=across_part,
            cells=[line[columns.start : columns.stop] for line in self.cells[rows.start : rows.stop]],
            rows=self.rows[rows.start : rows.stop],
            columns=self.columns[columns.start : columns.stop],
            row_names=self.row_names[rows.start : rows.stop],
            column_names=self.column_names[columns.start : columns.stop],
            marks=[replace(mark, x=mark.x - across, y=mark.y - down) for mark in held],
            below=self.below if self.marks or (last and columns.stop == self._wide) else (),
        )

    @property
    def _wide(self) -> int:
        """The number of cells in a row."""
        return max(map(len, self.cells), default=0)

    def _part(self, axis: int, part: range, size: int) -> str:
        """Words that say which rows (axis 0) or columns (1) a part has: `, rows 0 to 7`."""
        labels = (self.row_names or self.rows, self.column_names or self.columns)[axis]
        if len(part) == size or len(labels) != size:
            return ""
        shown = [end for label in labels[part.start : part.stop] if label for end in label.split(" to ")]
        names = re.split(r"[\\:,]", self.corner)
        known = "\\" in self.corner or (axis == 0 and self.corner == names[0])
        name = names[axis].strip() if known and names[axis].strip() != "lane" else ""
        words = f"{name + 's' * bool(name)} {shown[0]} to {shown[-1]}" if len(shown) > 1 else f"{name} {''.join(shown)}"
        return ", " + words.strip().replace(" ", TIED)

    def draw(self, x: float, y: float) -> Iterator[str]:
        """The elements of the panel, with the upper left corner of its extent at (x, y)."""
        yield f'<g class="panel"{self.attributes} transform="translate({short(x)} {short(y)})">'
        for i, line in enumerate(self.title.split("\n")):
            yield text(0, 11 + TITLE_STEP * i, line, TITLE, anchor="start", weight="bold")
        top = self._top
        if self.corner:
            yield text(self._left - 4, top - 4, self.corner, SIZE, anchor="end", fill=FAINT_INK)
        for i, label in enumerate(self.columns):
            if label:
                yield text(self._left + (i + 0.5) * self.width, top - 4, label, SIZE)
        for i, label in enumerate(self.rows):
            if label:
                yield text(self._left - 4, top + (i + 0.5) * self.height + 0.35 * SIZE, label, SIZE, anchor="end")
        stroke = INK if self.outline else "none"
        yield f'<g transform="translate({short(self._left)} {short(top)})" stroke="{stroke}">'
        yield from self._cells()
        yield from self._ticks()
        yield from self.extra
        for mark in self.marks:
            yield from mark.draw()
        yield "</g>"
        for i, line in enumerate(self.below):
            yield text(self._left, top + self.grid[1] + 13 * (i + 1), line, SIZE, anchor="start")
        yield "</g>"

    def _cells(self) -> Iterator[str]:
        """A <g> for each cell that has text, a <rect> for each cell that has none."""
        width, height, middle = self.width, self.height, self.width / 2
        step = self.size + 1
        for i, row in enumerate(self.cells):
            y = i * height
            for j, cell in enumerate(row):
                if cell is None:
                    continue
                x = j * width
                wide, tall = short(width * cell.span[1]), short(height * cell.span[0])
                fill = f"url(#{HATCH})" if cell.fill == HATCH else cell.fill or PAPER
                strong = ' stroke-width="1.6"' if cell.bold else ""
                box = f'<rect x="{short(x)}" y="{short(y)}" width="{wide}" height="{tall}" fill="{fill}"{strong}'
                if not cell.lines:
                    yield f"{box}{cell.data}/>"
                    continue
                first = y + height / 2 + 0.36 * self.size - step * (len(cell.lines) - 1) / 2
                words = "".join(
                    f'<text x="{short(x + middle)}" y="{short(first + k * step)}">{escape(line)}</text>'
                    for k, line in enumerate(cell.lines)
                    if line
                )
                size = "" if self.size == SIZE else f' font-size="{short(self.size)}"'
                yield f"<g{cell.data}{size}>{box}/>{words}</g>"

    def _ticks(self) -> Iterator[str]:
        """Strong lines between groups of rows and of columns."""
        width, height = self.grid
        down, across = self.ticks
        for i in range(0, len(self.cells) + 1, down) if down else ():
            y = short(i * self.height)
            yield f'<path d="M0 {y}H{short(width)}" stroke="{INK}" stroke-width="1.2"/>'
        for i in range(0, round(width / self.width) + 1, across) if across else ():
            x = short(i * self.width)
            yield f'<path d="M{x} 0V{short(height)}" stroke="{INK}" stroke-width="1.2"/>'


@dataclass(frozen=True)
class Picture:
    """A figure as SVG text. Notebooks show it by themselves.

    Attributes:
        title: what it shows.
        svg: the whole <svg> element.
        notes: lines that belong to it: formulas, sources.
        ppi: dots in an inch where it becomes a PNG.
    """

    title: str
    svg: str
    notes: tuple[str, ...] = ()
    ppi: int = PPI

    def _repr_svg_(self) -> str:
        return self.svg

    @property
    def points(self) -> tuple[float, float]:
        """Width and height on paper, in points of 1/72 inch; a pixel counts 0.75."""
        found = re.match(r'<svg[^>]* width="([\d.]+)(pt)?" height="([\d.]+)', self.svg)
        assert found is not None
        scale = 1.0 if found[2] else 0.75
        return float(found[1]) * scale, float(found[3]) * scale

    def save(self, path: str | Path) -> None:
        """Writes the picture as the file's name ends: .svg, .png or .pdf. The file is complete, or not there.

        Raises:
            Error: another ending, or PNG or PDF without the package that writes them.
            OSError: the file cannot be written.
        """
        content = self.rendered(Path(path).suffix.lower())
        with complete(path) as stream:
            stream.write(content)

    def rendered(self, suffix: str) -> bytes:
        """The content of a file with this suffix: ".svg", ".png" or ".pdf"; errors as of `save`."""
        if suffix == ".svg":
            return self.svg.encode()
        return rendered(self.svg, self.points, suffix, title=self.title, ppi=self.ppi)


_ROOT = f'role="img" font-family="{FONT}" font-size="{short(SIZE)}" text-anchor="middle" stroke-width="0.5"'
_HATCHING = (
    f'<defs><pattern id="{HATCH}" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    f'<rect width="5" height="5" fill="{PAPER}"/><path d="M0 0V5" stroke="{FAINT}" '
    f'stroke-width="1.4"/></pattern></defs>'
)


def figure(
    title: str, rows: Iterable[Sequence[Panel]], notes: Sequence[str] = (), captions: Sequence[str] = ()
) -> Picture:
    """Panels in rows, each row as high as its highest panel, with a title above and captions below."""
    width, y = len(title) * HEAD * GLYPH, MARGIN + 22.0
    placed: list[tuple[Panel, float, float]] = []
    for row in rows:
        x, high = float(MARGIN), 0.0
        for panel in row:
            placed.append((panel, x, y))
            x, high = x + panel.extent[0] + GAP, max(high, panel.extent[1])
        width, y = max(width, x - GAP), y + high + GAP
    wide = max([width, *(len(line) * SIZE * GLYPH for line in captions)]) + 2 * MARGIN
    return compose(title, placed, (wide, y + LINE * len(captions)), notes=notes, captions=captions, below=y)


def compose(
    title: str,
    placed: Iterable[tuple[Panel, float, float]],
    extent: tuple[float, float],
    *,
    notes: Sequence[str] = (),
    captions: Sequence[str] = (),
    below: float = 0.0,
    points: tuple[float, float] | None = None,
    ppi: int = PPI,
) -> Picture:
    """A picture of panels whose places are known.

    Args:
        title: above them; of several lines.
        placed: panels, each with x and y of its upper left corner, pixels.
        extent: width and height of the picture, pixels.
        notes: lines that belong to it and are not drawn.
        captions: lines under the panels.
        below: where the captions begin, pixels.
        points: width and height on paper, in points of 1/72 inch; without them a pixel is a pixel.
        ppi: dots in an inch of a PNG of it.
    """
    parts = [element for panel, x, y in placed for element in panel.draw(x, y)]
    parts += [text(MARGIN, below + LINE * i, line, SIZE, anchor="start") for i, line in enumerate(captions)]
    wide, tall = short(extent[0]), short(extent[1])
    size = (
        f'width="{short(points[0])}pt" height="{short(points[1])}pt"' if points else f'width="{wide}" height="{tall}"'
    )
    fits = "" if points else ' style="max-width:100%;height:auto"'  # in a notebook, whose column may be narrower
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="tcsim" viewBox="0 0 {wide} {tall}" {size}{fits} {_ROOT}>',
        f"<title>{escape(' '.join(title.split()))}</title>",
        _HATCHING,
        f'<style>.tcsim text{{stroke:none}}</style><rect width="{wide}" height="{tall}" fill="{PAPER}"/>',
    ]
    head += [
        text(MARGIN, MARGIN + 8 + HEAD_STEP * i, line, HEAD, anchor="start", weight="bold")
        for i, line in enumerate(title.split("\n"))
    ]
    return Picture(" ".join(title.split()), "\n".join([*head, *parts, "</svg>\n"]), tuple(notes), ppi)


def flow(panels: Iterable[Panel], width: float = 900.0) -> list[list[Panel]]:
    """Panels side by side while they fit in the width, else below."""
    rows: list[list[Panel]] = []
    used = 0.0
    for panel in panels:
        wide = panel.extent[0]
        if rows and used + GAP + wide <= width:
            rows[-1].append(panel)
            used += GAP + wide
        else:
            rows.append([panel])
            used = wide
    return rows
