"""Fault models: each says what a fault makes of a 32-bit word (flip a bit, hold it at 0, swap it with another),
wherever the word is.

A model says what the bits under a mask become; the other bits of the word stay as they are. Adding a model takes one
line of `BY_NAME`. A fault may have several places (`simulator.faults.spread`): the model is applied at each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits
from simulator.faults.own import OwnModel
from simulator.faults.patterns import Pattern
from simulator.faults.spread import Places, Site, moved, places
from simulator.faults.table import MODELS, Faults

Mask = NDArray[np.bool_]
Reader = Callable[..., Bits]
OwnModels = Mapping[int, OwnModel]
"""Models of one's own, by the number of the group whose faults have them."""


class Model(NamedTuple):
    """One fault model.

    Attributes:
        becomes: computes the new bits under the mask from the word as it is, the row's value and the other word; works
            on integers and on arrays.
        mask: the bits that the model concerns; 0 for those of the row's mask.
        other: which word is the other word: "" for none, "lane" for the same word of `lane2`, "swap" for `word2` of
            `lane2`, whose bits under `mask2` become those of this word in turn, "before" for the word as it was before
            the instruction that writes it; "double": the row's word is the other word, and `word2` of `lane2` changes.
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
        "own": Model(lambda now, value, other: other),
        "lost": Model(lambda now, value, other: other, 0xFFFFFFFF, "before"),
        "doubled": Model(lambda now, value, other: other, 0xFFFFFFFF, "double"),
    }
)
assert tuple(BY_NAME) == MODELS
OWN, LOST, DOUBLED = (MODELS.index(name) for name in ("own", "lost", "doubled"))
_MASKS = np.array([model.mask for model in BY_NAME.values()], np.uint32)
_MOVES = np.array([model.other in ("lane", "swap", "double") for model in BY_NAME.values()])
_SWAPS = np.array([model.other == "swap" for model in BY_NAME.values()])


def bits_of(faults: Faults) -> Bits:
    """The bits that each fault concerns at its first place: uint32 [fault]."""
    fixed = _MASKS[faults["model"]]
    return np.where(fixed != 0, fixed, faults["mask"]).astype(np.uint32)


def moves(faults: Faults) -> Mask:
    """Whether each fault reads a second place: bool [fault]."""
    return np.asarray(_MOVES[faults["model"]])


class Edits(NamedTuple):
    """What faults change: words, as arrays with one entry for each changed word, those of a fault together.

    Attributes:
        faults: how many faults there are.
        fault: which of them changes the word; ascending.
        word, lane, before, invert: the place, the word there before, and which of its bits change.
        live: the bits of the word that are read.
    """

    faults: int
    fault: NDArray[np.int64]
    word: NDArray[np.int64]
    lane: NDArray[np.int64]
    before: Bits
    invert: Bits
    live: Bits

    @property
    def changed(self) -> Mask:
        """Whether each fault changes anything: bool [fault]."""
        return self._any(self.invert != 0)

    @property
    def read(self) -> Mask:
        """Whether each fault changes a bit that is read: bool [fault]."""
        return self._any((self.invert & self.live) != 0)

    def _any(self, of: Mask) -> Mask:
        found = np.zeros(self.faults, np.bool_)
        found[self.fault[of]] = True
        return found

    @property
    def stored(self) -> Bits:
        """What changes in words of which any bit is read, uint32 [fault, n], filled up with zeros. A check code that is
        stored beside each word looks at this."""
        number = np.arange(len(self.fault)) - np.searchsorted(self.fault, self.fault)
        found = np.zeros((self.faults, 1 + int(number.max(initial=0))), np.uint32)
        found[self.fault, number] = np.where(self.live != 0, self.invert, 0)
        return found

    def stored_at(self, faults: Mask) -> Bits:
        """The same, and zeros for all but some of the faults."""
        return np.where(faults[:, None], self.stored, np.uint32(0))

    @property
    def signature(self) -> NDArray[np.int64]:
        """What identifies the change of each fault: int64 [fault, n]. Equal rows change the same bits."""
        number = np.arange(len(self.fault)) - np.searchsorted(self.fault, self.fault)
        found = np.full((self.faults, 1 + int(number.max(initial=0)), 3), -1, np.int64)
        found[self.fault, number] = np.stack([self.word, self.lane, self.invert], axis=1)
        return found.reshape(self.faults, -1)

    def rows(self, index: Any) -> Edits:
        """The edits of some of the faults, by their numbers, or of one."""
        chosen = np.atleast_1d(np.asarray(index, np.int64))
        numbers = np.full(self.faults, -1, np.int64)
        numbers[chosen] = np.arange(len(chosen))
        mine = np.flatnonzero(numbers[self.fault] >= 0)
        mine = mine[np.argsort(numbers[self.fault[mine]], kind="stable")]
        columns: list[Any] = [column[mine] for column in self[2:]]
        return Edits(len(chosen), numbers[self.fault[mine]], *columns)

    def changes(self) -> list[tuple[int, int, int, int]]:
        """The changes of one fault (from `rows` with a single number): word, lane, and the word there before and
        after."""
        columns = self.word, self.lane, self.before, self.before ^ self.invert
        return [tuple(map(int, row)) for row in zip(*columns, strict=True)]  # type: ignore[misc] # four of them


def edits(faults: Faults, read: Reader, site: Site, own: OwnModels, patterns: Sequence[Pattern]) -> Edits:
    """What faults of one site change.

    Args:
        faults: the rows of the list.
        read: the function that gives the words without faults of faults (by their numbers) at places (word, lane);
            with a fourth argument, what those words held before they were written.
        site: the site.
        own, patterns: the models of one's own, and the patterns of places.
    """
    doubled = faults["model"] == DOUBLED
    word, lane = (np.where(doubled, faults[f"{name}2"], faults[name]).astype(np.int64) for name in ("word", "lane"))
    first = Places(np.arange(len(faults)), word, lane, bits_of(faults))
    all_places = places(faults, first, site, patterns)
    parts = [_struck(faults, all_places, read, own)]
    swap = np.flatnonzero(_SWAPS[faults["model"]])
    if len(swap):
        parts.append(_swapped(faults, swap, read))
    fault, word, lane, before, invert = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return _merged(len(faults), fault, word, lane, before, invert, site.live)


def _struck(faults: Faults, at: Places, read: Reader, own: OwnModels) -> tuple[Any, ...]:
    """What the models make of the words at their places: fault, word, lane, before, invert."""
    rows = faults[at.fault]
    model, mask, first = rows["model"], at.mask, bits_of(rows)
    swap, doubled = _SWAPS[model], model == DOUBLED
    word2, lane2 = np.where(swap, rows["word2"], at.word), np.where(_MOVES[model], rows["lane2"], at.lane)
    word2, lane2 = np.where(doubled, rows["word"], word2), np.where(doubled, rows["lane"], lane2)
    before, other = read(at.fault, at.word, at.lane), read(at.fault, word2, lane2)
    other = np.where(swap, moved(other, rows["mask2"], mask), other)
    lost = np.flatnonzero(model == LOST)
    if len(lost):
        other[lost] = read(at.fault[lost], at.word[lost], at.lane[lost], True)
    value = np.where(first == mask, rows["value"], moved(rows["value"], first, mask))
    becomes = np.zeros(len(rows), np.uint32)
    for number in np.unique(model).tolist():
        mine = model == number
        if number == OWN:
            becomes[mine] = own_bits(rows[mine], mask[mine], before[mine], own)
        else:
            becomes[mine] = BY_NAME[MODELS[number]].becomes(before[mine], value[mine], other[mine])
    return at.fault, at.word, at.lane, before, ((before ^ becomes) & mask).astype(np.uint32)


def _swapped(faults: Faults, swap: Any, read: Reader) -> tuple[Any, ...]:
    """What swaps make of their second places."""
    rows = faults[swap]
    word2, lane2 = rows["word2"].astype(np.int64), rows["lane2"].astype(np.int64)
    before, other = read(swap, word2, lane2), read(swap, rows["word"].astype(np.int64), rows["lane"].astype(np.int64))
    back = (before ^ moved(other, bits_of(rows), rows["mask2"])) & rows["mask2"]
    return swap, word2, lane2, before, back.astype(np.uint32)


def _merged(count: int, fault: Any, word: Any, lane: Any, before: Bits, invert: Bits, live: Bits) -> Edits:
    """Edits in the order of their faults, each word once for each fault."""
    order = np.lexsort((lane, word, fault))
    fault, word, lane, before, invert = (column[order] for column in (fault, word, lane, before, invert))
    same = (np.diff(fault) == 0) & (np.diff(word) == 0) & (np.diff(lane) == 0)
    starts = np.flatnonzero(np.concatenate([np.ones(min(len(fault), 1), np.bool_), ~same]))
    invert = np.bitwise_xor.reduceat(invert, starts) if len(starts) else invert
    word, lane = word[starts], lane[starts]
    return Edits(count, fault[starts], word, lane, before[starts], invert, live[word, lane])


def own_bits(rows: Faults, mask: Bits, before: Bits, own: OwnModels) -> Bits:
    """What models of one's own make of words, uint32 [row]; the rows are those of one or several groups."""
    found = np.zeros(len(rows), np.uint32)
    for group in np.unique(rows["group"]).tolist():
        mine = rows["group"] == group
        found[mine] = own[group].of(before[mine], mask[mine], rows["value"][mine], rows["seed"][mine])
    return found
