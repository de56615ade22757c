"""Fault models: each says what a fault makes of a 32-bit word (flip a bit, hold it at 0, swap it with another),
wherever the word is.

A model says what the bits under a mask become; the other bits of the word stay as they are. Adding a model takes one
line of `BY_NAME`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits
from simulator.faults.table import MODELS, Faults

Mask = NDArray[np.bool_]
Reader = Callable[[Any, Any], Bits]


class Model(NamedTuple):
    """One fault model.

    Attributes:
        becomes: computes the new bits under the mask from the word as it is, the row's value and the other word; works
            on integers and on arrays.
        mask: the bits that the model concerns; 0 for those of the row's mask.
        other: which word is the other word: "" for none, "lane" for the same word of `lane2`, "swap" for `word2` of
            `lane2`, whose bits under `mask2` become those of this word in turn.
    """

    becomes: Callable[[Any, Any, Any], Any]
    mask: int = 0
    other: str = ""


BY_NAME = MappingProxyType(
    {
        "flip": Model(lambda now, value, other: ~now),
        "stuck0": Model(lambda now, value, other: 0),
        "stuck1": Model(lambda now, value, other: 0xFFFFFFFF),
        "set": Model(lambda now, value, other: value),
        "word": Model(lambda now, value, other: value, 0xFFFFFFFF),
        "lane": Model(lambda now, value, other: other, 0xFFFFFFFF, "lane"),
        "swap": Model(lambda now, value, other: other, 0, "swap"),
        "selector": Model(lambda now, value, other: value, 3),
        "align": Model(lambda now, value, other: value << 16, 0xFFFF0000),
    }
)
assert tuple(BY_NAME) == MODELS
_MASKS = np.array([model.mask for model in BY_NAME.values()], np.uint32)
_MOVES = np.array([bool(model.other) for model in BY_NAME.values()])
_SWAPS = np.array([model.other == "swap" for model in BY_NAME.values()])


def bits_of(faults: Faults) -> Bits:
    """The bits that each fault concerns at its first place: uint32 [fault]."""
    fixed = _MASKS[faults["model"]]
    return np.where(fixed != 0, fixed, faults["mask"]).astype(np.uint32)


def moves(faults: Faults) -> Mask:
    """Whether each fault reads a second place: bool [fault]."""
    return np.asarray(_MOVES[faults["model"]])


class Edits(NamedTuple):
    """What faults change, as arrays with one entry for each fault: a word, and for a swap a second word (for the others
    the second one has no change).

    Attributes:
        word, lane, before, invert: the place, the word there before, and which of its bits change.
        word2, lane2, before2, invert2: the same for the second place.
        live, live2: the bits of both words that are read.
    """

    word: Any
    lane: Any
    before: Bits
    invert: Bits
    word2: Any
    lane2: Any
    before2: Bits
    invert2: Bits
    live: Bits
    live2: Bits

    @property
    def changed(self) -> Mask:
        """Whether each fault changes anything."""
        return np.asarray((self.invert | self.invert2) != 0)

    @property
    def read(self) -> Mask:
        """Whether each fault changes a bit that is read."""
        return np.asarray((self.invert & self.live | self.invert2 & self.live2) != 0)

    @property
    def stored(self) -> Bits:
        """What changes in words of which any bit is read, uint32 [fault, 2]. A check code that is stored beside each
        word looks at this."""
        return np.stack(
            [np.where(self.live != 0, self.invert, 0), np.where(self.live2 != 0, self.invert2, 0)], axis=1
        ).astype(np.uint32)

    def rows(self, index: Any) -> Edits:
        """The edits of some of the faults."""
        return Edits(*(column[index] for column in self))

    def changes(self) -> list[tuple[int, int, int, int]]:
        """The changes of one fault (from `rows` with a single number): word, lane, and the word there before and after.
        There is one change, or two for a swap."""
        word, lane, before, invert, word2, lane2, before2, invert2, *_ = (int(column) for column in self)
        first = (word, lane, before, before ^ invert)
        return [first] if (word2, lane2) == (word, lane) else [first, (word2, lane2, before2, before2 ^ invert2)]


def edits(faults: Faults, read: Reader, live: Bits) -> Edits:
    """What faults of one site change.

    Args:
        faults: the rows of the list.
        read: the function that gives the words without faults at places (word, lane).
        live: the bits that are read, uint32 [word, lane].
    """
    model, word, lane, mask = faults["model"], faults["word"], faults["lane"], bits_of(faults)
    swap = _SWAPS[model]
    word2, lane2 = np.where(swap, faults["word2"], word), np.where(_MOVES[model], faults["lane2"], lane)
    before, before2 = read(word, lane), read(word2, lane2)
    other = np.where(swap, _moved(before2, faults["mask2"], mask), before2)
    becomes = np.zeros(len(faults), np.uint32)
    for number in np.unique(model).tolist():
        mine = model == number
        becomes[mine] = BY_NAME[MODELS[number]].becomes(before[mine], faults["value"][mine], other[mine])
    invert = ((before ^ becomes) & mask).astype(np.uint32)
    back = (before2 ^ _moved(before, mask, faults["mask2"])) & faults["mask2"]
    invert2 = np.where(swap, back, 0).astype(np.uint32)
    here = (word2 == word) & (lane2 == lane)
    invert ^= np.where(here, invert2, 0).astype(np.uint32)
    apart = swap & ~here
    lane2 = np.where(apart, lane2, lane)
    return Edits(
        word, lane, before, invert, word2, lane2, before2, np.where(apart, invert2, 0).astype(np.uint32),
        live[word, lane], live[word2, lane2],
    )  # fmt: skip


def _moved(words: Bits, source: Bits, to: Bits) -> Bits:
    """The bits under one mask, moved to the places of another mask."""
    return (((words & source) >> _low(source)) << _low(to)).astype(np.uint32)


def _low(mask: Bits) -> Bits:
    """The position of the lowest bit that is set; 0 if none is set."""
    lowest = mask & (~mask + np.uint32(1))
    return np.where(mask == 0, 0, np.bitwise_count(lowest - np.uint32(1))).astype(np.uint32)
