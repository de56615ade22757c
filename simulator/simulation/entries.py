"""Words of memory that differ in disturbed copies of a run: few words of a copy do, so that many copies fit. They are
kept by pages of memory, sorted where they are looked up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits

Integers = NDArray[np.int64]
_PAGE = 1024  # words
_FEW = 256  # entries that are counted one by one


class Entries:
    """Words of copies that differ: (word, copy) -> value.

    Attributes:
        count: int32 [word]: how many copies have an entry there.
        total: how many entries there are.
    """

    def __init__(self, words: int, copies: int) -> None:
        self.count = np.zeros(words, np.int32)
        self.total = 0
        self._copies = copies
        self._sorted: dict[int, tuple[Integers, Bits]] = {}
        self._new: dict[int, list[tuple[Integers, Bits]]] = {}

    def _page(self, page: int) -> tuple[Integers, Bits]:
        """The entries of a page in the order of their keys, word * copies + copy."""
        keys, values = self._sorted.get(page, (np.zeros(0, np.int64), np.zeros(0, np.uint32)))
        if parts := self._new.pop(page, None):
            keys = np.concatenate([keys, *(key for key, _ in parts)])
            values = np.concatenate([values, *(value for _, value in parts)])
            order = np.argsort(keys, kind="stable")
            keys, values = self._sorted[page] = keys[order], values[order]
        return keys, values

    def add(self, word: Integers, copy: Integers, value: Bits) -> None:
        """Adds entries that are not there yet."""
        if not len(word):
            return
        if len(word) < _FEW:
            np.add.at(self.count, word, 1)
        else:
            self.count += np.bincount(word, minlength=len(self.count)).astype(np.int32)
        self.total += len(word)
        keys, page = word * self._copies + copy, word // _PAGE
        for number in np.unique(page).tolist():
            mine = page == number
            self._new.setdefault(number, []).append((keys[mine], value[mine]))

    def put(self, word: Integers, copy: Integers, value: Bits, right: Bits) -> None:
        """Makes words of copies hold values, each once; no entry stays where the value is the `right` one."""
        keys, page, differs = word * self._copies + copy, word // _PAGE, value != right
        for number in np.unique(page).tolist():
            mine = np.flatnonzero(page == number)
            have, values = self._page(number)
            where = np.searchsorted(have, keys[mine])
            there = where < len(have)
            there[there] = have[where[there]] == keys[mine[there]]
            old = where[there]
            values[old] = value[mine[there]]
            gone = old[~differs[mine[there]]]
            if len(gone):
                np.subtract.at(self.count, have[gone] // self._copies, 1)
                self.total -= len(gone)
                self._sorted[number] = np.delete(have, gone), np.delete(values, gone)
            new = mine[~there & differs[mine]]
            self.add(word[new], copy[new], value[new])

    def get(self, word: Integers, copy: Integers, right: Bits) -> Bits:
        """What words of copies hold, `right` where they have no entry; all of one shape."""
        found = np.array(right, np.uint32)
        if not self.total:
            return found
        hot = np.nonzero(self.count[word])
        words, keys = word[hot], word[hot] * self._copies + copy[hot]
        page, values = words // _PAGE, found[hot]
        for number in np.unique(page).tolist():
            mine = np.flatnonzero(page == number)
            have, held = self._page(number)
            where = np.minimum(np.searchsorted(have, keys[mine]), len(have) - 1)
            there = have[where] == keys[mine]
            values[mine[there]] = held[where[there]]
        found[hot] = values
        return found

    def of(self, words: Integers) -> tuple[Integers, Integers, Bits]:
        """All entries of these words, which ascend: word, copy and value."""
        parts = [(np.zeros(0, np.int64), np.zeros(0, np.uint32))]
        hot = words[self.count[words] > 0]
        for number in np.unique(hot // _PAGE).tolist():
            some = hot[hot // _PAGE == number]
            have, held = self._page(number)
            start, stop = (np.searchsorted(have, (some + more) * self._copies) for more in (0, 1))
            index = np.repeat(stop - np.cumsum(stop - start), stop - start) + np.arange(int((stop - start).sum()))
            parts.append((have[index], held[index]))
        keys, values = (np.concatenate(column) for column in zip(*parts, strict=True))
        word, copy = np.divmod(keys, self._copies)
        return word, copy, values

    def every(self) -> tuple[Integers, Integers, Bits]:
        """All entries."""
        return self.of(np.flatnonzero(self.count))
