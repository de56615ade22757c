"""One operand of one form, as users ask about it: which bits of which lane hold which element. Everything comes from
the operand's `isa.mapping.Mapping`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from isa.arguments import integer
from isa.errors import IsaError
from isa.mapping import Integers, Mapping

_LANES = ("lane", "thread")
_WORDS = ("register", "column")
PARTS = ("element", "code", "byte", "part")


class Place(NamedTuple):
    """A range of bits in one 32-bit (f64: 64-bit) word.

    Attributes:
        lane: of the warp, or of Tensor Memory.
        word: register of the lane, or column of Tensor Memory from the base address on; 0 where there is one.
        low, high: lowest and highest bit.
    """

    lane: int
    word: int
    low: int
    high: int


@dataclass(frozen=True)
class Operand:
    """One operand of one form.

    Attributes:
        form: the opcode, and whatever else was chosen.
        name: "a", "b", "c", "d", "e" (metadata), "scale_a", "scale_b" or "address".
        what: what it is, for a heading.
        bits: width of an element.
        mapping: (lane or thread, register or column, part of it) <-> (row, column, copy), under the names that the
            operand's own section uses.
        section: who says so.
        evidence: "measured", "published" or "inferred".
        tmem: whether the lanes are those of Tensor Memory.
        word_bits: bits of a register or cell.
        used: how far the first coordinate goes; 0: to its end.
        logical: formula of the logical column of a stored one, for A of a sparse form.
        general: the mapping before a coordinate of it was chosen: of metadata, with the selector; None where nothing
            was chosen.
        chosen: what was chosen in it.
        window: the rows and columns that tables and pictures show, as (first, one past the last); None: all of them.
    """

    form: str
    name: str
    what: str
    bits: int
    mapping: Mapping
    section: str
    evidence: str
    tmem: bool = False
    word_bits: int = 32
    used: int = 0
    logical: str = ""
    general: Mapping | None = None
    chosen: tuple[tuple[str, int], ...] = ()
    window: tuple[tuple[int, int], tuple[int, int]] | None = None

    @property
    def title(self) -> str:
        """The heading of the operand: its form, and what it is."""
        return f"{self.form}: {self.what}"

    @property
    def lane(self) -> str:
        """The name that the mapping gives to the lane."""
        return self._one(_LANES)

    @property
    def word(self) -> str:
        """The name that the mapping gives to the register or column; empty if a lane has only one."""
        return self._one(_WORDS)

    @property
    def part(self) -> str:
        """The name that the mapping gives to the part of a word; empty if an element fills the word."""
        return self._one(PARTS)

    def _one(self, names: tuple[str, ...]) -> str:
        return next((name for name, _ in self.mapping.places if name in names), "")

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the coordinates: of rows, of columns, and perhaps of copies."""
        return tuple(name for name, _ in self.mapping.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each coordinate."""
        return (self.used or self.mapping.shape[0], *self.mapping.shape[1:])

    @property
    def lanes(self) -> int:
        """The number of lanes that the mapping covers."""
        return self._size(self.lane)

    @property
    def words(self) -> int:
        """The number of registers in a lane, or of columns."""
        return self._size(self.word)

    @property
    def parts(self) -> int:
        """The number of elements that fit in a word."""
        return self._size(self.part)

    def _size(self, name: str) -> int:
        return dict(self.mapping.places).get(name, 1)

    @property
    def rows_shown(self) -> range:
        """The rows that tables and pictures show."""
        return range(*(self.window[0] if self.window else (0, self.shape[0])))

    @property
    def columns_shown(self) -> range:
        """The columns that tables and pictures show."""
        return range(*(self.window[1] if self.window else (0, self.shape[1])))

    def narrowed(self, rows: range | None = None, columns: range | None = None) -> Operand:
        """The operand with these rows and columns alone in its tables and pictures; None is all of them.

        Raises:
            IsaError: rows or columns that the operand does not have.
        """
        window = []
        for name, asked, size in zip(self.axes, (rows, columns), self.shape, strict=False):
            part = range(size) if asked is None else asked
            if not 0 <= part.start < part.stop <= size:
                reason = f"operand {self.name} of {self.form} has no {name}s {part.start}:{part.stop}"
                raise IsaError("", -1, reason, f"FIRST:END from 0 to {size}")
            window.append((part.start, part.stop))
        return replace(self, window=(window[0], window[1]))

    @cached_property
    def table(self) -> dict[str, Integers]:
        """`whole`, without what lies outside of the window."""
        if self.window is None:
            return self.whole
        row, column = self.whole["row"], self.whole["column"]
        rows, columns = self.window
        kept = (row >= rows[0]) & (row < rows[1]) & (column >= columns[0]) & (column < columns[1])
        return {name: values[kept] for name, values in self.whole.items()}

    @cached_property
    def whole(self) -> dict[str, Integers]:
        """Every element: its "row", "column" and "copy" (coordinate by coordinate, zero where there is none), "lane",
        "word", "low" and "high" bit.

        Arrays of one axis, in the order of the coordinates.
        """
        index = np.indices(self.shape).reshape(len(self.shape), -1)
        places = dict(
            zip(
                dict(self.mapping.places),
                self.mapping.positions(**dict(zip(self.axes, index, strict=True))),
                strict=True,
            )
        )
        zero = np.zeros(index.shape[1], np.int64)
        low = places.get(self.part, zero) * self.bits + zero
        lane, word = places[self.lane] + zero, places.get(self.word, zero) + zero
        coordinates = dict(zip(("row", "column", "copy"), (*index, zero), strict=False))
        return {**coordinates, "lane": lane, "word": word, "low": low, "high": low + self.bits - 1}

    @cached_property
    def grid(self) -> dict[str, Integers]:
        """`whole` without the coordinates, in the shape of the operand."""
        return {name: self.whole[name].reshape(self.shape) for name in ("lane", "word", "low", "high")}

    def places(self, *coordinates: int) -> list[Place]:
        """Where the element at these coordinates is: one place for each copy unless the copy is given, too.

        Raises:
            IsaError: there is no such element.
        """
        for name, value, size in zip(self.axes, coordinates, self.shape, strict=False):
            self._checked(name, value, size)
        words = [np.atleast_1d(self.grid[name][coordinates]).ravel() for name in ("lane", "word", "low", "high")]
        return [Place(*map(int, place)) for place in zip(*words, strict=True)]

    def checked_row(self, row: int, rows: int) -> int:
        """A row of so many, which of a pair of CTAs are twice those of `shape`; IsaError for one that is none."""
        return self._checked(self.axes[0], row, rows)

    def _checked(self, name: str, value: int, size: int) -> int:
        return integer(value, 0, size - 1, f"operand {self.name} of {self.form} has no {name}")

    def elements(self, lane: int, word: int = 0, low: int = 0, high: int | None = None) -> list[tuple[int, ...]]:
        """The coordinates of every element that has any of these bits, lowest bits first; empty if they hold nothing.

        Args:
            lane, word: as in `Place`.
            low, high: bits, both included; the whole word unless given.

        Raises:
            IsaError: there is no such lane, register, column or bit.
        """
        high = self.word_bits - 1 if high is None else high
        for name, value, size in ((self.lane, lane, self.lanes), (self.word or "register", word, self.words)):
            if not 0 <= value < size:
                raise IsaError("", -1, f"operand {self.name} of {self.form} has no {name} {value}", f"0 to {size - 1}")
        if not 0 <= low <= high < self.word_bits:
            raise IsaError(
                "",
                -1,
                f"no bits {high}:{low} in a word of {self.word_bits}",
                f"HIGH:LOW from {self.word_bits - 1}:0 on",
            )
        chosen: dict[str, int | Integers] = {self.lane: lane}
        if self.word:
            chosen[self.word] = word
        parts = np.arange(low // self.bits, min(high // self.bits + 1, self.parts))
        if self.part:
            chosen[self.part] = parts
        held = np.broadcast_to(self.mapping.holds(**chosen), parts.shape)
        index = [np.broadcast_to(axis, parts.shape)[held] for axis in self.mapping.coordinates(**chosen)]
        elements = [tuple(map(int, element)) for element in zip(*index, strict=True)]
        return [element for element in elements if element[0] < self.shape[0]]

    def name_of(self, place: Place) -> str:
        """The place as tables write it: `T9 a1[31:16]`, `T9 e[3:0]`; of Tensor Memory `L70 e.col1[7:4]`, columns from
        the operand's address on."""
        lane = f"{'L' if self.tmem else 'T'}{place.lane}"
        return f"{lane} {self.word_name(place.word)}{self.bits_name(place.low, place.high)}".rstrip()

    def word_name(self, word: int) -> str:
        """The register or column: `a1`, `e`, `d.col3`."""
        if self.name == "address":
            return ""
        return f"{self.name}.col{word}" if self.tmem else f"{self.name}{word if self.word else ''}"

    def bits_name(self, low: int, high: int) -> str:
        """The bits, where they are not all of the word: `[31:16]`."""
        return "" if high - low + 1 >= self.word_bits or self.name == "address" else f"[{high}:{low}]"

    def formulas(self, **numbers: int) -> dict[str, str]:
        """The formulas of the mapping in both directions, with what was chosen in it; for A of a sparse form also the
        formula of the logical column.

        Args:
            numbers: values in place of the names; what was chosen stands in place of its name, too, if any are given.
        """
        values = dict(self.chosen) | numbers if numbers else {}
        return (self.general or self.mapping).formulas(**values) | (
            {"logical column": self.logical} if self.logical else {}
        )
