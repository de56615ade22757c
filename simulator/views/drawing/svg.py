"""Writes SVG as text: panels of cells, and figures made of panels. They are plain strings, since a drawing library
takes a thousand times as long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from simulator.files import complete
from simulator.views.drawing.palettes import FAINT, INK, PAPER

FONT = "DejaVu Sans Mono, Menlo, Consolas, Liberation Mono, monospace"
SIZE = 9.0  # of text in cells, pixels
TITLE = 10.5  # of a panel's title
GLYPH = 0.602  # width of a letter, of its size
MARGIN, GAP, HEADING, LABELS = 10, 24, 18, 14
HATCH = "tcsim-hatch"  # the fill of what is not kept


@dataclass(frozen=True)
class Cell:
    """One cell of a panel.

    Attributes:
        fill: a colour, "" for no fill, or `HATCH`.
        lines: lines of text, at most as many as fit.
        data: attributes, such as {"data-lane": 9}.
        bold: whether the border is strong.
    """

    fill: str = ""
    lines: tuple[str, ...] = ()
    data: str = ""
    bold: bool = False


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
        outline: whether each cell has a border.
        ticks: the distance of the strong lines between (rows, columns); 0 for none.
        attributes: those of the panel.
        least: the least width of its extent.
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
    outline: bool = True
    ticks: tuple[int, int] = (0, 0)
    attributes: str = ""
    least: float = 0.0
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
        return max(self.least, width + self._left, words, len(self.title) * TITLE * GLYPH), height + HEADING + (
            LABELS if self.columns else 0
        ) + 13 * len(self.below)

    def draw(self, x: float, y: float) -> Iterator[str]:
        """The elements of the panel, with the upper left corner of its extent at (x, y)."""
        yield f'<g class="panel"{self.attributes} transform="translate({_n(x)} {_n(y)})">'
        yield text(0, 11, self.title, TITLE, anchor="start", weight="bold")
        top = HEADING + (LABELS if self.columns else 0)
        if self.corner:
            yield text(self._left - 4, top - 4, self.corner, SIZE, anchor="end", fill=FAINT_INK)
        for i, label in enumerate(self.columns):
            if label:
                yield text(self._left + (i + 0.5) * self.width, top - 4, label, SIZE)
        for i, label in enumerate(self.rows):
            if label:
                yield text(self._left - 4, top + (i + 0.5) * self.height + 0.35 * SIZE, label, SIZE, anchor="end")
        stroke = INK if self.outline else "none"
        yield f'<g transform="translate({_n(self._left)} {_n(top)})" stroke="{stroke}">'
        yield from self._cells()
        yield from self._ticks()
        yield from self.extra
        yield "</g>"
        for i, line in enumerate(self.below):
            yield text(self._left, top + self.grid[1] + 13 * (i + 1), line, SIZE, anchor="start")
        yield "</g>"

    def _cells(self) -> Iterator[str]:
        """A <g> for each cell that has text, a <rect> for each cell that has none."""
        width, height, middle = self.width, self.height, self.width / 2
        step = self.size + 1
        wide, tall = _n(width), _n(height)
        for i, row in enumerate(self.cells):
            y = i * height
            for j, cell in enumerate(row):
                if cell is None:
                    continue
                x = j * width
                fill = f"url(#{HATCH})" if cell.fill == HATCH else cell.fill or PAPER
                strong = ' stroke-width="1.6"' if cell.bold else ""
                box = f'<rect x="{_n(x)}" y="{_n(y)}" width="{wide}" height="{tall}" fill="{fill}"{strong}'
                if not cell.lines:
                    yield f"{box}{cell.data}/>"
                    continue
                first = y + height / 2 + 0.36 * self.size - step * (len(cell.lines) - 1) / 2
                words = "".join(
                    f'<text x="{_n(x + middle)}" y="{_n(first + k * step)}">{escape(line)}</text>'
                    for k, line in enumerate(cell.lines)
                    if line
                )
                size = "" if self.size == SIZE else f' font-size="{_n(self.size)}"'
                yield f"<g{cell.data}{size}>{box}/>{words}</g>"

    def _ticks(self) -> Iterator[str]:
        """Strong lines between groups of rows and of columns."""
        width, height = self.grid
        down, across = self.ticks
        for i in range(0, len(self.cells) + 1, down) if down else ():
            y = _n(i * self.height)
            yield f'<path d="M0 {y}H{_n(width)}" stroke="{INK}" stroke-width="1.2"/>'
        for i in range(0, round(width / self.width) + 1, across) if across else ():
            x = _n(i * self.width)
            yield f'<path d="M{x} 0V{_n(height)}" stroke="{INK}" stroke-width="1.2"/>'


FAINT_INK = "#555555"


def _n(value: float) -> str:
    """A number without superfluous zeros."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def text(
    x: float,
    y: float,
    words: str,
    size: float,
    *,
    anchor: str = "middle",
    weight: str = "",
    fill: str = "",
    turn: float = 0,
) -> str:
    """A line of text; `turn` is in degrees around (x, y)."""
    more = (
        f' text-anchor="{anchor}"'
        + (f' font-weight="{weight}"' if weight else "")
        + (f' fill="{fill}"' if fill else "")
    )
    more += f' transform="rotate({_n(turn)} {_n(x)} {_n(y)})"' if turn else ""
    return f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}"{more}>{escape(words)}</text>'


def data(**values: object) -> str:
    """Attributes: `data(lane=9, bits="31:16")` is ` data-lane="9" data-bits="31:16"`."""
    return "".join(f" data-{name}={quoteattr(str(value))}" for name, value in values.items())


@dataclass(frozen=True)
class Picture:
    """A figure as SVG text. Notebooks show it by themselves.

    Attributes:
        title: what it shows.
        svg: the whole <svg> element.
        notes: lines that belong to it: formulas, sources.
    """

    title: str
    svg: str
    notes: tuple[str, ...] = ()

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Writes the picture as SVG; the file is complete, or not there. OSError if it cannot be written."""
        with complete(path) as stream:
            stream.write(self.svg.encode())


_STYLE = f'font-family="{FONT}" font-size="{_n(SIZE)}" text-anchor="middle" stroke-width="0.5"'
_HATCHING = (
    f'<defs><pattern id="{HATCH}" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    f'<rect width="5" height="5" fill="{PAPER}"/><path d="M0 0V5" stroke="{FAINT}" '
    f'stroke-width="1.4"/></pattern></defs>'
)


def figure(
    title: str, rows: Iterable[Sequence[Panel]], notes: Sequence[str] = (), captions: Sequence[str] = ()
) -> Picture:
    """Panels in rows, each row as high as its highest panel, with a title above and captions below."""
    width, y = len(title) * 12 * GLYPH, MARGIN + 22.0
    parts: list[str] = []
    for row in rows:
        x, high = float(MARGIN), 0.0
        for panel in row:
            parts += panel.draw(x, y)
            x, high = x + panel.extent[0] + GAP, max(high, panel.extent[1])
        width, y = max(width, x - GAP), y + high + GAP
    for line in captions:
        parts.append(text(MARGIN, y, line, SIZE, anchor="start"))
        width, y = max(width, len(line) * SIZE * GLYPH), y + 13
    wide, tall = _n(width + 2 * MARGIN), _n(y)
    head = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="tcsim" viewBox="0 0 {wide} {tall}" '
            f'width="{wide}" height="{tall}" {_STYLE} role="img">'
        ),
        f"<title>{escape(title)}</title>",
        _HATCHING,
        f'<style>.tcsim text{{stroke:none}}</style><rect width="{wide}" height="{tall}" fill="{PAPER}"/>',
        text(MARGIN, MARGIN + 8, title, 12, anchor="start", weight="bold"),
    ]
    return Picture(title, "\n".join([*head, *parts, "</svg>\n"]), tuple(notes))


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
