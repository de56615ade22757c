"""Words over the cells of a panel: where their lines stand, and whether they fit there."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace

from simulator.views.drawing.elements import text

SIZE = 9.0  # of text in cells, pixels
GLYPH = 0.602  # width of a letter, of its size
CAPITAL = 0.8  # height of a letter, of its size


@dataclass(frozen=True)
class Mark:
    """Words over the cells of a panel, in one line or more, their middle at (x, y) from the grid's upper left corner,
    pixels; `room` is the height of what they stand for."""

    x: float
    y: float
    words: str
    size: float = SIZE
    room: float = math.inf

    def within(self, wide: float) -> Mark:
        """The same words in lines that do not leave a grid of that width."""
        room = 2 * min(self.x, wide - self.x)
        return replace(self, words="\n".join(textwrap.wrap(self.words, max(8, int(room / (self.size * GLYPH))))))

    @property
    def lines(self) -> list[tuple[float, str]]:
        """The base line and the words of each line."""
        lines = self.words.split("\n")
        top = self.y - (self.size + 1) * (len(lines) - 1) / 2
        return [(top + (self.size + 1) * i, line) for i, line in enumerate(lines)]

    def fits(self, wide: float, tall: float) -> bool:
        """Whether the lines are no higher than their room, and inside of a grid of this size."""
        half = max(len(line) for _, line in self.lines) * self.size * GLYPH / 2
        within = half <= self.x <= wide - half and self.lines[0][0] >= CAPITAL * self.size and self.lines[-1][0] <= tall
        return within and (self.size + 1) * len(self.lines) <= self.room

    def draw(self) -> Iterator[str]:
        """The elements of the words."""
        yield from (text(self.x, y, line, self.size) for y, line in self.lines)
