"""The sites that faults can hit, and the places of a fault that has several of them: a burst over neighbouring words,
lanes, rows or columns, or a pattern of one's own.

The first place stands in the row of the list (word, lane, mask); the others follow from it. Along words and lanes the
mask stays; along rows and columns of an operand it goes with the elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits, ElementType
from simulator.faults.patterns import Pattern
from simulator.faults.table import ALONG, Faults
from simulator.layout import Operand

Indices = NDArray[np.int64]
WORD_MODELS = ("flip", "stuck0", "stuck1", "set", "word", "own")
OPERAND_MODELS = (*WORD_MODELS, "lane", "swap")
WORDS, LANES, ROWS, COLUMNS, PATTERN = (ALONG.index(name) for name in ALONG[1:])


class Places(NamedTuple):
    """Places of faults, as arrays with one entry for each: whose place it is, the word, the lane, and the bits."""

    fault: Indices
    word: Indices
    lane: Indices
    mask: Bits

    def some(self, index: Any) -> Places:
        """Some of the places."""
        return Places(self.fault[index], self.word[index], self.lane[index], self.mask[index])


def concatenated(parts: Sequence[Places]) -> Places:
    """Places, one part after the other."""
    columns: list[Any] = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return Places(*columns)


class LaneBits:
    """The places (word, lane, bit) of bits that are the same in all lanes, in the order of an array of them, which
    would be large: a unit has millions.

    Args:
        bits: the bits of a lane (word, bit), int64 [n, 2], ascending.
        lanes: how many lanes there are.
    """

    def __init__(self, bits: Indices, lanes: int) -> None:
        self._bits, self._lanes = bits, lanes
        words, self._counts = np.unique(bits[:, 0], return_counts=True)
        self._first = np.searchsorted(bits[:, 0], words)  # the first bit of each word

    def __len__(self) -> int:
        return len(self._bits) * self._lanes

    def __getitem__(self, index: Any) -> Indices:
        """The places with these numbers, int64 [n, 3]."""
        number = np.asarray(index)
        word = np.searchsorted(self._first * self._lanes, number, side="right") - 1
        lane, bit = np.divmod(number - self._first[word] * self._lanes, self._counts[word])
        chosen = self._bits[self._first[word] + bit]
        return np.stack([chosen[..., 0], lane, chosen[..., 1]], axis=-1)


@dataclass(frozen=True)
class Site:
    """Words that faults can hit.

    Attributes:
        name: one of `SITES`.
        live: uint32 [word, lane]: the bits that are read.
        codes: for metadata, the place of each code: (row, chunk) -> (word, lane, lowest bit), int64 [row, chunk, copy,
            3]; None elsewhere.
        models: the fault models that these words can have.
        operand: the operand whose elements they hold; None for words that belong to none.
        element: the type of these elements.
        size: how many bits of a word there are, the lowest ones.
        alike: whether all lanes have the same bits.
    """

    name: str
    live: Bits
    codes: Indices | None = None
    models: tuple[str, ...] = OPERAND_MODELS
    operand: Operand | None = None
    element: ElementType | None = None
    size: int = 32
    alike: bool = False

    @property
    def mask(self) -> int:
        """The bits of a word that there are."""
        return (1 << self.size) - 1

    def bits(self, where: str) -> Indices | LaneBits:
        """The place (word, lane, bit) of every bit, int64 [n, 3]: of the bits that are read ("live"), of the others
        ("dead"), or of all."""
        there, lanes = np.uint32(self.mask), self.live.shape[1]
        live = self.live[:, :1] if self.alike else self.live
        masks = {"live": live, "dead": ~live & there, "all": np.full_like(live, there)}[where]
        set_ = masks[..., None] >> np.arange(32, dtype=np.uint32) & np.uint32(1)
        found: Indices = np.argwhere(set_ == 1)
        return LaneBits(found[:, [0, 2]], lanes) if self.alike else found

    def words(self, where: str) -> Indices:
        """The place (word, lane) of every word, int64 [n, 2]; a word is `live` if any of its bits is read."""
        read = self.live != 0
        return np.argwhere({"live": read, "dead": ~read, "all": np.ones_like(read)}[where])

    def fields(self, where: str, width: int) -> Indices:
        """The place (word, lane, lowest bit) of every element of `width` bits, int64 [n, 3]: of the operand, each once;
        without one, of every field of a word. It is live if any of its bits is read."""
        if self.operand is not None:
            table = self.operand.table
            found = np.unique(np.stack([table[name] for name in ("word", "lane", "low")], axis=1), axis=0)
        else:
            words = self.words("all")
            lows = np.arange(0, self.size if width <= self.size else 0, width)
            found = np.column_stack([np.repeat(words, len(lows), axis=0), np.tile(lows, len(words))])
        mask = np.uint32((1 << width) - 1) << found[:, 2].astype(np.uint32)
        read = (self.live[found[:, 0], found[:, 1]] & mask) != 0
        chosen: Indices = found[{"live": read, "dead": ~read, "all": np.ones_like(read)}[where]]
        return chosen

    @property
    def width(self) -> int:
        """The width of the operand's elements in bits; of words that belong to none, all their bits."""
        return self.size if self.operand is None else self.operand.bits

    @cached_property
    def grid(self) -> Indices:
        """The place of each element: (row, column) -> (word, lane, lowest bit), int64 [row, column, 3]; of one with
        copies the first."""
        assert self.operand is not None
        places = np.stack([self.operand.grid[axis] for axis in ("word", "lane", "low")], axis=-1)
        found: Indices = places[:, :, 0] if places.ndim == 4 else places
        return found

    @cached_property
    def elements(self) -> Indices:
        """The element that each bit belongs to: row * columns + column, int64 [word, lane, bit]; -1 for none."""
        assert self.operand is not None
        found = np.full((*self.live.shape, 32), -1, np.int64)
        grid = self.grid
        number = np.arange(grid.shape[0] * grid.shape[1]).reshape(grid.shape[:2])
        for bit in range(self.width):
            found[grid[..., 0], grid[..., 1], grid[..., 2] + bit] = number
        return found


def places(faults: Faults, first: Places, site: Site, patterns: Sequence[Pattern] = ()) -> Places:
    """All places of faults of one site, those that exist; `first` has the first one of each."""
    along = faults["along"]
    parts = [_repeated(faults, first, site, axis, patterns) for axis in np.unique(along[along > 0]).tolist()]
    alone = np.flatnonzero(along == 0)
    if not parts:
        return first
    joined = concatenated([*parts, first.some(alone)])
    return joined.some(np.argsort(joined.fault, kind="stable"))


def complete(faults: Faults, first: Places, site: Site, patterns: Sequence[Pattern] = ()) -> NDArray[np.bool_]:
    """Whether all places of each fault exist: bool [fault]."""
    found = np.bincount(places(faults, first, site, patterns).fault, minlength=len(faults))
    sizes = np.array([len(pattern.offsets) for pattern in patterns] or [1])
    pattern = faults["along"] == PATTERN
    wanted = np.where(pattern, sizes[np.where(pattern, faults["span"], 0)], faults["span"])
    return np.asarray(found == wanted)


def _repeated(faults: Faults, first: Places, site: Site, axis: int, patterns: Sequence[Pattern]) -> Places:
    """The places of the faults along one axis."""
    mine = np.flatnonzero(faults["along"] == axis)
    if axis == PATTERN:
        return _patterned(faults, first, site, mine, patterns)
    spans = faults["span"][mine].astype(np.int64)
    fault = np.repeat(mine, spans)
    step = np.arange(len(fault)) - np.repeat(np.cumsum(spans) - spans, spans)
    if axis in (WORDS, LANES):
        word, lane = (column[fault] + step * (axis == which) for column, which in ((first.word, WORDS),
                                                                                  (first.lane, LANES)))  # fmt: skip
        there = (word < site.live.shape[0]) & (lane < site.live.shape[1])
        return Places(fault[there], word[there], lane[there], first.mask[fault[there]])
    zero = np.zeros_like(step)
    return _shifted(first, site, fault, *((step, zero) if axis == ROWS else (zero, step)), first.mask[fault])


def _patterned(faults: Faults, first: Places, site: Site, mine: Indices, patterns: Sequence[Pattern]) -> Places:
    """The places of faults that have the campaign's patterns."""
    parts = []
    for number in np.unique(faults["span"][mine]).tolist():
        pattern = patterns[number]
        some = mine[faults["span"][mine] == number]
        rows, columns, masks = (np.tile(values, len(some)) for values in pattern.columns)
        fault = np.repeat(some, len(pattern.offsets))
        low = lowest(first.mask[fault]).astype(np.uint32)
        if site.operand is None:
            word, lane = first.word[fault] + rows, first.lane[fault] + columns
            there = (word >= 0) & (lane >= 0) & (word < site.live.shape[0]) & (lane < site.live.shape[1])
            parts.append(Places(fault[there], word[there], lane[there], (masks << low)[there]))
        else:
            parts.append(_shifted(first, site, fault, rows, columns, masks << low))
    return concatenated(parts)


def _shifted(first: Places, site: Site, fault: Indices, rows: Indices, columns: Indices, mask: Bits) -> Places:
    """The places of elements that lie so many rows and columns from those of the first places; those that exist."""
    word, lane, low = first.word[fault], first.lane[fault], lowest(first.mask[fault])
    element, grid = site.elements[word, lane, low], site.grid
    row, column = np.divmod(element, grid.shape[1])
    row, column = row + rows, column + columns
    there = (element >= 0) & (row >= 0) & (column >= 0) & (row < grid.shape[0]) & (column < grid.shape[1])
    fault, mask, place = fault[there], mask[there], grid[row[there], column[there]]
    own = grid.reshape(-1, 3)[element[there], 2]
    shift = place[:, 2] - own
    up, down = (np.maximum(by, 0).astype(np.uint32) for by in (shift, -shift))
    return Places(fault, place[:, 0], place[:, 1], ((mask << up) >> down).astype(np.uint32))


def moved(words: Bits, source: Bits, to: Bits) -> Bits:
    """The bits under one mask, moved to the places of another mask."""
    return (((words & source) >> lowest(source)) << lowest(to)).astype(np.uint32)


def lowest(mask: Bits) -> Bits:
    """The position of the lowest bit that is set; 0 if none is set."""
    bit = mask & (~mask + np.uint32(1))
    return np.where(mask == 0, 0, np.bitwise_count(bit - np.uint32(1))).astype(np.uint32)
