"""The shared memory of an undisturbed run, and the words of it that differ in disturbed copies.

Few words differ in a copy, so that many copies fit. What a group of warps writes in one operation is settled at the
operation's end (`settle`): first the undisturbed warps, then the rows of copies.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits
from simulator.simulation.entries import Entries
from simulator.simulation.footprints import Footprints, bits_of
from simulator.state import SharedMemory
from simulator.state.registers import Warps
from simulator.state.shared import Addresses

Integers = NDArray[np.int64]
_WORD_BYTES = 4
_WHOLE = np.uint32(0xFFFFFFFF)
BOUNDS, MISALIGNED = "shared-memory-bounds", "misaligned-address"
"""The rules of `SharedMemory` that an address of a copy can break, as errors name them."""


class _Writes(NamedTuple):
    """Words that rows write, in order: uint32 masks of the bits, and the bits."""

    row: Warps
    word: Integers
    mask: Bits
    value: Bits

    def some(self, which: NDArray[np.bool_]) -> _Writes:
        """Some of the words."""
        return _Writes(self.row[which], self.word[which], self.mask[which], self.value[which])


class Overlay(SharedMemory):
    """Shared memory as the undisturbed warps and the rows of copies see it.

    Attributes:
        entries: the words that differ in copies.
        epoch: how many barriers of all warps have passed.
        touched: words that undisturbed warps read since `settle`: (words int64 [warp, ...], warps).
        stops: (copy, rule) of accesses that no memory has.
        writes: how many operations have written.
        alone: copies of which it is not known here whether an access races, or what it leaves.
        raced: bool [copy]: whether an access has raced.
    """

    def __init__(
        self, data: NDArray[np.uint8], footprints: Footprints, row_warp: Warps, row_copy: Warps, copies: int
    ) -> None:
        self._whole = np.zeros(-(-len(data) // _WORD_BYTES) * _WORD_BYTES, np.uint8)
        self._whole[: len(data)] = data
        self.data, self.words = self._whole[: len(data)], self._whole.view("<u4")
        self._footprints, self._row_warp, self._row_copy = footprints, row_warp, row_copy
        self.entries = Entries(len(self.words), copies)
        self.epoch = 0
        self.touched: list[tuple[Integers, Warps]] = []
        self.stops: set[tuple[int, str]] = set()
        self.writes = 0
        self.alone: set[int] = set()
        self.raced = np.zeros(copies, np.bool_)
        self._pending = np.full(copies, -1, np.int64)  # the epoch in which the last race is certain, or still to come
        self._wrote = np.full(copies, -1, np.int64)  # the epoch of the last write elsewhere
        self._diverged = np.full((copies, 2), -1, np.int64)  # epoch and warp of the last access elsewhere
        self._writers = np.zeros(len(self.words), np.uint64)  # that have written each word in this epoch
        self._met = np.zeros(0, np.int64)  # words and copies that have written them where another warp does
        self._writing = np.zeros(0, np.int64)  # copies and warps whose rows write in this operation
        self._where: list[tuple[Addresses, Warps]] = []  # what undisturbed warps accessed
        self._golden: list[tuple[_Writes, Bits]] = []  # with the words before
        self._own: list[tuple[Addresses, NDArray[np.uint8], Warps]] = []

    def synchronise(self, warps: NDArray[np.intp]) -> None:
        """Begins an epoch at a barrier of all warps. A barrier of some is no order that is known here."""
        if self._footprints.whole(warps):
            self.epoch += 1
            self._writers[:], self._met = 0, np.zeros(0, np.int64)

    def read(self, addresses: Addresses, width: int, warps: Warps) -> tuple[NDArray[np.uint8], int]:
        """As `SharedMemory.read`, either for undisturbed warps or for rows of copies as they have it."""
        if self._undisturbed(warps):
            self._check(addresses, width)
            self._where.append((addresses, warps))
            self.touched.append((_words(addresses, width), warps))
            return self.data[addresses[..., None] + np.arange(width)], 0
        addresses, right = self._kept(addresses, width, warps)
        self._read_elsewhere(addresses[right], width, warps[right])
        words = _words(addresses, width)
        copies = np.broadcast_to(self._row_copy[warps][:, None, None], words.shape)
        data = np.ascontiguousarray(self.entries.get(words, copies, self.words[words])).view(np.uint8)
        if width < _WORD_BYTES:
            data = np.take_along_axis(data, addresses[..., None] % _WORD_BYTES + np.arange(width), axis=2)
        return data, 0

    def write(self, addresses: Addresses, values: NDArray[np.uint8], warps: Warps) -> int:
        """As `SharedMemory.write`; what rows of copies write is settled later."""
        width = values.shape[-1]
        if self._undisturbed(warps):
            self._check(addresses, width)
            self._where.append((addresses, warps))
            writes = _writes(addresses, values, warps)
            self._golden.append((writes, self.words[writes.word].copy()))
            self.data[addresses[..., None] + np.arange(width)] = values
            return 0
        addresses, right = self._kept(addresses, width, warps)
        self._own.append((addresses[right], values[right], warps[right]))
        return 0

    def _undisturbed(self, warps: Warps) -> bool:
        return bool((self._row_copy[warps[:1]] < 0).all())

    def _kept(self, addresses: Addresses, width: int, warps: Warps) -> tuple[Addresses, NDArray[np.bool_]]:
        """The addresses, with 0 in the rows that break a rule, and which rows do not."""
        beyond = np.asarray(((addresses < 0) | (addresses + width > len(self.data))).any(axis=1))
        odd = np.asarray((addresses % width != 0).any(axis=1))
        for row in np.flatnonzero(beyond | odd).tolist():
            self.stops.add((int(self._row_copy[warps[row]]), BOUNDS if beyond[row] else MISALIGNED))
        right = np.asarray(~(beyond | odd))
        return np.where(right[:, None], addresses, 0), right

    def _elsewhere(self, addresses: Addresses, warps: Warps) -> NDArray[np.bool_]:
        """Whether rows access other addresses than their undisturbed warps; true where that is not known."""
        if len(self._where) != 1 or self._where[0][0].shape[1] != addresses.shape[1]:
            return np.ones(len(warps), np.bool_)
        right, own = self._where[0]
        place = np.searchsorted(own, self._row_warp[warps])
        if (own[np.minimum(place, len(own) - 1)] != self._row_warp[warps]).any():
            return np.ones(len(warps), np.bool_)
        return np.asarray((addresses != right[place]).any(axis=1))

    def _tracked(self, copies: Warps, own: Warps) -> None:
        """Notes that warps of copies access memory elsewhere. Two warps of a copy that do so between the same barriers
        may race with each other: such a copy is left to run alone."""
        before = self._diverged[copies]
        two = (before[:, 0] == self.epoch) & (before[:, 1] != own)
        self._diverged[copies, 0], self._diverged[copies, 1] = self.epoch, own
        two |= self._diverged[copies, 1] != own
        self.alone.update(copies[two].tolist())

    def _read_elsewhere(self, addresses: Addresses, width: int, warps: Warps) -> None:
        """Notes the races of rows that read other addresses than their undisturbed warps. What another warp writes
        between the same barriers races, before or after, unless the row has written there itself."""
        rows = np.flatnonzero(self._elsewhere(addresses, warps))
        if not len(rows):
            return
        copies, own = self._row_copy[warps[rows]], self._row_warp[warps[rows]]
        self._tracked(copies, own)
        writers = self._footprints.of(self.epoch).writers[_words(addresses[rows], width)].reshape(len(rows), -1)
        bits = bits_of(own)[:, None]
        others = (writers & ~bits) != 0
        races = others.any(axis=1)
        unknown = (others & ((writers & bits) != 0)).any(axis=1) | races & (self._wrote[copies] == self.epoch)
        unknown |= races & (width < _WORD_BYTES)
        met = (self._writers[_words(addresses[rows], width)].reshape(len(rows), -1) & ~bits).any(axis=1)
        self.raced[copies[races & met]] = True
        self._pending[copies[races & ~met]] = self.epoch
        self.alone.update(copies[unknown].tolist())

    def _written_elsewhere(self, writes: _Writes, golden: dict[str, Integers] | None) -> _Writes:
        """Notes the races of rows that write other addresses than their undisturbed warps, and returns what of it stays
        when the operation is over.

        What another warp reads between the same barriers races. What one other warp writes in the same operation or
        has written, and nobody else touches, does if the values differ; of one operation the higher warp's stays. Other
        writes of other warps leave the copy to run alone.

        Args:
            golden: the words that the undisturbed warps write in the operation, ascending, and the warp of each; None
                where they are not written once and whole.
        """
        copies, own = self._row_copy[writes.row], self._row_warp[writes.row]
        if not len(copies):
            return writes
        self._tracked(copies, own)
        self._wrote[copies] = self.epoch
        touched, bits = self._footprints.of(self.epoch), bits_of(own)
        readers, writers = touched.readers[writes.word] & ~bits, touched.writers[writes.word] & ~bits
        self._pending[copies[readers != 0]] = self.epoch
        meets = np.flatnonzero(writers)
        if not len(meets):
            return writes
        known, stays = np.zeros(len(meets), np.bool_), np.ones(len(writes.row), np.bool_)
        word, copy = writes.word[meets], copies[meets].astype(np.int64)
        now, differs = self.words[word].astype(np.uint32), np.zeros(len(meets), np.bool_)
        if golden is not None:
            place = np.minimum(np.searchsorted(golden["words"], word), len(golden["words"]) - 1)
            other = golden["warps"][place]
            same = (golden["words"][place] == word) & (touched.writers[word] == bits_of(other))
            same &= ~np.isin(copy * len(self._row_warp) + other, self._writing)
            before = (golden["words"][place] != word) & (np.bitwise_count(touched.writers[word]) == 1)
            before &= self._writers[word] == touched.writers[word]
            known = (same | before) & (readers[meets] == 0) & ~touched.again[word] & self._first_time(copy, word)
            differs = writes.value[meets] != np.where(same, now, self.entries.get(word, copy, now))
            stays[meets[known & same & (other > own[meets])]] = False
        self.raced[copy[known & differs]] = True
        self.alone.update(copy[~known].tolist())
        return writes.some(stays)

    def _first_time(self, copy: Integers, word: Integers) -> NDArray[np.bool_]:
        """Whether each word is one that a copy has not yet written, where another warp does, between these barriers."""
        keys = word * len(self._diverged) + copy
        found, which, times = np.unique(keys, return_inverse=True, return_counts=True)
        fresh = (times[which.ravel()] == 1) & ~np.isin(keys, self._met)
        self._met = np.union1d(self._met, found)
        return np.asarray(fresh)

    # What an operation wrote

    def settle(self) -> None:
        """Ends an operation: works out which words differ in copies after its writes."""
        golden = self._golden
        kept = [(addresses, values, warps, self._row_copy[warps] >= 0) for addresses, values, warps in self._own]
        self._own = own = [(addresses[some], values[some], warps[some]) for addresses, values, warps, some in kept]
        self.writes += bool(golden or own)
        try:
            if golden:
                writes = _Writes(*(np.concatenate(column) for column in zip(*(one for one, _ in golden), strict=True)))
                self._settle(writes, np.concatenate([old for _, old in golden]))
            else:
                for addresses, values, warps in own:
                    self._apply(self._written_elsewhere(_writes(addresses, values, warps), None))
        finally:
            self._where, self._golden, self._own, self.touched = [], [], [], []

    def _settle(self, golden: _Writes, old: Bits) -> None:
        words, first, which = np.unique(golden.word, return_index=True, return_inverse=True)
        once = len(words) == len(golden.word)
        plain = once and len(self._where) == 1 and bool((golden.mask == _WHOLE).all())
        apart: list[tuple[Addresses, NDArray[np.uint8], Warps]] = []
        alike: list[tuple[Bits, Warps, Integers, Bits]] = []
        for addresses, values, warps in self._own:
            if not len(warps):
                continue
            other = self._elsewhere(addresses, warps) if plain else np.ones(len(warps), np.bool_)
            if other.any():
                apart.append((addresses[other], values[other], warps[other]))
            rows = np.flatnonzero(~other)
            if len(rows):
                own = np.ascontiguousarray(values[rows]).view("<u4").reshape(len(rows), -1)
                place = np.searchsorted(self._where[0][1], self._row_warp[warps[rows]])
                each = golden.word.reshape(len(self._where[0][1]), -1)
                alike.append((own, warps[rows], each[place], self.words[each[place]]))
        undone = self._undo(golden, old, words, first, which, apart)
        if self.entries.count[words].any():
            mask = np.zeros(len(words), np.uint32)
            np.bitwise_or.at(mask, which.ravel(), golden.mask)
            word, copy, value = self.entries.of(words)
            covered, right = mask[np.searchsorted(words, word)], self.words[word]
            self.entries.put(word, copy, value & ~covered | right & covered, right)
        for own, warps, word, right in alike:
            row, place = np.nonzero(own != right)
            self._races(word[row, place], warps[row])
            self.entries.add(word[row, place], self._row_copy[warps[row]].astype(np.int64), own[row, place])
        self._put_back(undone)
        known = {"words": words, "warps": golden.row[first]} if plain else None
        writing = [self._row_copy[warps] * len(self._row_warp) + self._row_warp[warps] for _, _, warps in self._own]
        self._writing = np.concatenate([np.zeros(0, np.int64), *writing])
        for addresses, values, warps in apart:
            self._apply(self._written_elsewhere(_writes(addresses, values, warps), known))
        if once:
            self._writers[words] |= bits_of(golden.row[first])
        else:
            np.bitwise_or.at(self._writers, golden.word, bits_of(golden.row))

    def may_race(self, copy: int) -> bool:
        """Whether a race of a copy may be still to come."""
        return bool(self._pending[copy] == self.epoch)

    @property
    def races(self) -> NDArray[np.bool_]:
        """Whether an access has raced, when all is over: bool [copy]."""
        return self.raced | (self._pending >= 0)

    def _undo(
        self, golden: _Writes, old: Bits, words: Integers, first: Integers, which: Integers,
        apart: list[tuple[Addresses, NDArray[np.uint8], Warps]],
    ) -> tuple[Integers, Integers, Bits, Bits]:  # fmt: skip
        """What the undisturbed warps wrote, and rows that write elsewhere did not: word, copy, mask of the bits, and
        what the copies hold there."""
        rows = np.concatenate([np.zeros(0, np.intp), *(warps for _, _, warps in apart)])
        rows = np.unique(rows)
        row, entry = np.nonzero(self._row_warp[rows][:, None] == golden.row[None])
        copy, word = self._row_copy[rows][row].astype(np.int64), golden.word[entry]
        before = self.entries.get(word, copy, old[first][which.ravel()[entry]])
        copies = len(self._diverged)
        key, order, at = np.unique(word * copies + copy, return_index=True, return_inverse=True)
        mask = np.zeros(len(key), np.uint32)
        np.bitwise_or.at(mask, at.ravel(), golden.mask[entry])
        return key // copies, key % copies, mask, before[order]

    def _put_back(self, undone: tuple[Integers, Integers, Bits, Bits]) -> None:
        word, copy, mask, before = undone
        if len(word):
            right = self.words[word]
            now = self.entries.get(word, copy, right)
            self.entries.put(word, copy, now & ~mask | before & mask, right)

    def _apply(self, writes: _Writes) -> None:
        """Lets rows of copies write; of writes of one word the last is kept."""
        copies = len(self._diverged)
        key = writes.word * copies + self._row_copy[writes.row]
        order = np.argsort(key, kind="stable")
        start = np.flatnonzero(np.diff(key[order], prepend=-1))
        turn = np.arange(len(order)) - np.repeat(start, np.diff(np.append(start, len(order))))
        for number in range(int(turn.max(initial=-1)) + 1):
            some = order[turn == number]
            word, copy = key[some] // copies, key[some] % copies
            mask, right = writes.mask[some], self.words[word]
            now = self.entries.get(word, copy, right)
            self.entries.put(word, copy, now & ~mask | writes.value[some] & mask, right)

    def _races(self, word: Integers, rows: Warps) -> None:
        """Leaves copies to run alone that write a word which another warp writes, too, and perhaps another value."""
        races = self._footprints.written_by_others(self.epoch, word, self._row_warp[rows])
        self.alone.update(self._row_copy[rows[races]].tolist())


def _words(addresses: Addresses, width: int) -> Integers:
    """The words of accesses: int64 [..., word]."""
    return addresses[..., None] // _WORD_BYTES + np.arange(max(1, width // _WORD_BYTES))


def _writes(addresses: Addresses, values: NDArray[np.uint8], rows: Warps) -> _Writes:
    """The words that rows write, access by access."""
    width = values.shape[-1]
    word = _words(addresses, width)
    if width >= _WORD_BYTES:
        value = np.ascontiguousarray(values).view("<u4").astype(np.uint32)
        mask = np.full(word.shape, _WHOLE)
    else:
        low = (8 * (addresses % _WORD_BYTES)).astype(np.uint32)[..., None]
        value = np.zeros((*addresses.shape, _WORD_BYTES), np.uint8)
        value[..., :width] = values
        value = value.view("<u4").astype(np.uint32) << low
        mask = np.uint32((1 << 8 * width) - 1) << low
    row = np.broadcast_to(rows[:, None, None], word.shape)
    return _Writes(row.ravel(), word.ravel(), mask.ravel(), value.ravel())
