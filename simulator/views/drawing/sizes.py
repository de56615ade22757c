"""Lays pictures out for a format: a slide, a column of a paper, a poster.

A picture is not scaled until it fits: its panels are cut into blocks of rows and columns and placed anew, and the scale
is the largest at which they fit. Each format names the smallest text that it may have, in points on its paper; a
picture that would need smaller text is refused.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from isa.errors import IsaError
from simulator.views.drawing.marks import GLYPH, SIZE
from simulator.views.drawing.svg import GAP, HEAD, HEAD_STEP, LINE, MARGIN, TIED, TITLE, Panel, Picture, compose

Placed = list[tuple[Panel, float, float]]


@dataclass(frozen=True)
class Size:
    """A format.

    Attributes:
        name: as the command line calls it.
        what: what it is, in words.
        width, height: points of 1/72 inch.
        least: the smallest text, points.
        fixed: whether the picture is as high as the format, or as high as its panels need up to that height.
        ppi: dots in an inch of a PNG.
        reason: why text may be as small as `least`.
    """

    name: str
    what: str
    width: float
    height: float
    least: float
    fixed: bool
    ppi: int
    reason: str


_NATURE = "Nature's guide to figures asks for text of 5 to 7 points"
_NEAR = "letters of 12 points are 3 mm high capitals, read from a metre away"
SIZES: Mapping[str, Size] = MappingProxyType(
    {
        size.name: size
        for size in (
            Size("slide", "slide, 16:9", 960, 540, 5, True, 144, "10 pixels of a projector's 1,080 lines"),
            Size("column", "column of a paper, 3.3 in wide", 237.6, 648, 5, False, 600, _NATURE),
            Size("columns", "two columns of a paper, 7 in wide", 504, 648, 5, False, 600, _NATURE),
            Size("a1", "poster, A1", 1683.78, 2383.94, 12, True, 150, _NEAR),
            Size("a0", "poster, A0", 2383.94, 3370.39, 12, True, 100, _NEAR),
        )
    }
)
NATURAL = "natural"  # as large as the panels are, a pixel a pixel
_LARGEST = 2.2  # scale of panels, so that a small picture does not fill a poster with letters of an inch
_ABOVE = 12  # pixels between the panels and the captions
_STEP = 1.02  # how near the scale comes to the largest one
_SORTED = 60  # pieces that are sorted by height if they do not fit in their order
_BLOCKS = (0, 64, 32, 16, 8)  # rows that a panel is cut into, coarse first; 0: as many as fit


def size_of(name: str) -> Size:
    """The format of that name; IsaError with the known names if there is none."""
    if name not in SIZES:
        raise IsaError(name, -1, f"no size '{name}'", ", ".join((NATURAL, *SIZES)))
    return SIZES[name]


def laid_out(
    title: str, panels: Sequence[Panel], size: Size, *, notes: Sequence[str] = (), captions: Sequence[str] = ()
) -> Picture | None:
    """The picture in that format, at the largest scale at which its panels fit; None if it would need text smaller than
    `size.least`."""
    smallest = min({SIZE, *(text for panel in panels for text in panel.text_sizes)})
    low, high = size.least / smallest, max(_LARGEST, size.least / smallest)
    best = _at(title, panels, size, low, captions)
    scale = low
    while best is not None and high / low > _STEP:
        middle = (low * high) ** 0.5
        found = _at(title, panels, size, middle, captions)
        if found is None:
            high = middle
        else:
            best, low, scale = found, middle, middle
    if best is None:
        return None
    head, placed, words, bottom = best
    wide, tall = size.width / scale, size.height / scale
    height = tall if size.fixed else bottom + LINE * len(words)
    points = (size.width, size.height if size.fixed else height * scale)
    below = height - LINE * len(words) + 3
    extent = wide, height
    return compose(head, placed, extent, notes=notes, captions=words, below=below, points=points, ppi=size.ppi)


def fitted(
    title: str,
    panels: Sequence[Panel],
    size: Size,
    *,
    notes: Sequence[str] = (),
    captions: Sequence[str] = (),
    advice: str = "",
) -> Picture:
    """As `laid_out`; IsaError with this advice where it returns None."""
    picture = laid_out(title, panels, size, notes=notes, captions=captions)
    if picture is None:
        raise too_small(size, advice)
    return picture


def too_small(size: Size, advice: str) -> IsaError:
    """The error for a picture that would need smaller text in that format than can be read."""
    what = f"--size {size.name} ({size.what})"
    reason = f"the picture is too large for {what}: its text would be smaller than {size.least:g} points"
    return IsaError(size.name, -1, reason, advice or "another --size")


def _at(
    title: str, panels: Sequence[Panel], size: Size, scale: float, captions: Sequence[str]
) -> tuple[str, Placed, list[str], float] | None:
    """Title, places, captions and the end of the panels at that scale; None if they do not fit."""
    wide = size.width / scale - 2 * MARGIN
    head = "\n".join(textwrap.wrap(title, max(8, int(wide / (HEAD * GLYPH)))))
    letters = max(8, int(wide / (SIZE * GLYPH)))
    words = [line for caption in captions for line in textwrap.wrap(caption, letters)]
    top = MARGIN + 8 + HEAD_STEP * head.count("\n") + 14
    high = size.height / scale - top - LINE * len(words) - _ABOVE
    room = wide * high
    if sum(panel.grid[0] * panel.grid[1] for panel in panels if not panel.elastic) > room:
        return None
    for block in _BLOCKS:
        pieces = [piece for panel in panels for piece in _pieces(panel, wide, high, block)]
        if any(piece.extent[0] > wide + 0.01 or piece.extent[1] > high + 0.01 for piece in pieces):
            continue
        if not all(piece.marks_fit for piece in pieces):
            return None
        extents = [piece.extent for piece in pieces]
        places = _packed(extents, wide, high) if sum(x * y for x, y in extents) <= room else None
        if places is None and len(extents) <= _SORTED:
            places = _packed_by_height(extents, wide, high)
        if places is not None:
            bottom = max(y + piece.extent[1] for piece, (_, y) in zip(pieces, places, strict=True))
            placed = [(piece, MARGIN + x, top + y) for piece, (x, y) in zip(pieces, places, strict=True)]
            return head, placed, words, top + bottom + _ABOVE
    return None


def _pieces(panel: Panel, wide: float, high: float, block: int) -> Iterator[Panel]:
    """The panel in pieces that fit: cells without text are squeezed first, then rows and columns go on in a panel of
    their own. `block` is the largest number of rows of a piece; 0 for as many as fit."""
    panel = replace(panel, least=0.0)
    rows, columns = len(panel.cells), max(map(len, panel.cells), default=0)
    room = wide - (panel.extent[0] - panel.grid[0] if not panel.title else panel.margin)
    if panel.elastic and panel.grid[0] > room > 0:
        panel = panel.squeezed(room / panel.grid[0])
    across = min(columns, _whole(int(room / panel.width), panel.ticks[1])) if columns else columns
    above = panel.above(_lines(panel, wide)) + LINE * len(panel.below)
    down = min(rows, _whole(int((high - above) / panel.height), panel.ticks[0])) if panel.height else rows
    if block and not panel.elastic:
        down = min(down, block)
    across, down = _even(columns, across, panel.ticks[1]), _even(rows, down, panel.ticks[0])
    for first in range(0, max(rows, 1), max(down, 1)):
        for left in range(0, max(columns, 1), max(across, 1)):
            part = panel.cut(
                range(first, min(first + max(down, 1), rows)), range(left, min(left + max(across, 1), columns))
            )
            yield _wrapped(part, wide)


def _whole(count: int, tick: int) -> int:
    """The largest round number of cells up to `count`: whole groups, whole eights, or a power of two below 8."""
    if tick and count >= tick:
        return count // tick * tick
    return count // 8 * 8 if count >= 8 else 1 << count.bit_length() - 1 if count > 0 else 0


def _even(count: int, most: int, tick: int) -> int:
    """The size of equal pieces of at most `most` cells, in whole groups or eights where they are so large."""
    if not 0 < most < count:
        return most
    each, step = -(-count // -(-count // most)), tick or (8 if most >= 8 else 1)
    return min(most, -(-each // step) * step)


def _lines(panel: Panel, wide: float) -> int:
    """Lines that the title of a piece may take."""
    return len(textwrap.wrap(panel.title + ", row 000 to 000" * 2, _letters(panel, wide))) if panel.title else 1


def _letters(panel: Panel, wide: float) -> int:
    """Letters of a line of the title: as wide as the panel, or 36 letters, whichever is wider, and no wider than the
    page."""
    return max(8, int(min(max(panel.grid[0] + panel.margin, 36 * TITLE * GLYPH), wide) / (TITLE * GLYPH)))


def _wrapped(panel: Panel, wide: float) -> Panel:
    """The panel with its title, and the lines under it, no wider than it may be."""
    title = "\n".join(textwrap.wrap(panel.title, _letters(panel, wide))).replace(TIED, " ")
    letters = max(8, int((wide - panel.margin) / (SIZE * GLYPH)))
    below = [part for line in panel.below for part in textwrap.wrap(line, letters, subsequent_indent="    ") or [""]]
    return replace(panel, title=title, below=below)


def _packed_by_height(
    extents: Sequence[tuple[float, float]], wide: float, high: float
) -> list[tuple[float, float]] | None:
    """As `_packed`, the highest first, which leaves less room empty."""
    order = sorted(range(len(extents)), key=lambda i: (-extents[i][1], i))
    places = _packed([extents[i] for i in order], wide, high)
    return None if places is None else [places[order.index(i)] for i in range(len(extents))]


def _packed(extents: Sequence[tuple[float, float]], wide: float, high: float) -> list[tuple[float, float]] | None:
    """Places of rectangles in their order, each as high up as it can lie and then as far left; None if one does not fit
    (a skyline: Burke, Kendall and Whitwell, Operations Research 52, 2004, without the choice of the next one)."""
    skyline: list[tuple[float, float, float]] = [(0.0, wide + GAP, 0.0)]  # left, right, height; gaps count as part
    places = []
    for width, height in extents:
        best: tuple[float, float] | None = None
        for left, _, _ in skyline:
            if left + width > wide + 0.01:
                continue
            top = max(y for a, b, y in skyline if a < left + width + GAP - 0.01 and b > left + 0.01)
            if top + height <= high + 0.01 and (best is None or (top, left) < best):
                best = top, left
        if best is None:
            return None
        top, left = best
        right = left + width + GAP
        places.append((left, top))
        kept = [(a, min(b, left), y) for a, b, y in skyline if a < left]
        kept += [(max(a, right), b, y) for a, b, y in skyline if b > right]
        skyline = sorted([*kept, (left, right, top + height + GAP * 0.75)])
    return places
