"""Who accessed each piece of a memory last: the last write, and the last reads since.

A memory is followed in pieces of `1 << shift` bytes, the smallest access that the kernel makes to it, so that every
access covers whole pieces and nothing is lost.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Pieces = NDArray[np.int64]
NOBODY = -1
STRONG, SILENT, ATOMIC = 1, 2, 16  # flags of an access
SCOPE_SHIFT, SCOPE_MASK = 2, 3  # where among the flags the scope of a strong access stands
READER_BYTES, WRITER_BYTES = 13, 17  # that a piece takes for each slot of a reader, and besides
_PLACE_BITS = 26  # of a reader's code: the place of its instruction; its flags lie above
WHOLE = -1  # in place of the first lane of a read: the warp has read together


class Writers(NamedTuple):
    """The last writes of pieces, each [n]: the thread (NOBODY; below it a unit), its stamp, the place of the
    instruction, flags."""

    thread: NDArray[np.int32]
    stamp: NDArray[np.int32]
    place: NDArray[np.int32]
    flags: NDArray[np.uint8]


class Readers(NamedTuple):
    """The last reads of pieces, each [n, slot]: the thread (NOBODY; below it a unit), the first lane that read with it
    (or WHOLE), its stamp, the place of the instruction, flags."""

    thread: NDArray[np.int32]
    first: NDArray[np.int8]
    stamp: NDArray[np.int32]
    place: NDArray[np.int32]
    flags: NDArray[np.int32]

    def of(self, chosen: Any) -> Readers:
        """Some of them."""
        return Readers(
            self.thread[chosen], self.first[chosen], self.stamp[chosen], self.place[chosen], self.flags[chosen]
        )


class Shadow:
    """The shadow of a memory.

    Attributes:
        shift: the logarithm of the bytes of a piece.
        slots: how many readers are kept of each piece; each reader has its slot, where the latest one stays.
        observers: by piece, the thread that has read its last strong write last, and its stamp then.
        undefined: int32 [piece]: 0 for what has been written; else why not, as `simulator.check.memory_model.taint`
            numbers it.
    """

    def __init__(self, size: int, shift: int, slots: int, undefined: int = 0) -> None:
        self.shift, self.slots = shift, slots
        count = (size + (1 << shift) - 1) >> shift
        self._thread = np.zeros(count, np.int32)  # 0: nobody; above 0 a thread, from 1; below 0 a unit
        self._stamp = np.zeros(count, np.int32)
        self._place = np.zeros(count, np.int32)
        self._flags = np.zeros(count, np.uint8)
        # of readers: thread from 1 (0: nobody), the first lane of those that read with it, stamp, place
        self._readers = np.zeros((count, slots), np.int32)
        self._has_readers = np.zeros(count, np.bool_)
        self._first = np.zeros((count, slots), np.int8)
        self._read_stamp = np.zeros((count, slots), np.int32)
        self._read_code = np.zeros((count, slots), np.int32)
        self.observers: dict[int, tuple[int, int]] = {}
        self.undefined = np.full(count, undefined, np.int32) if undefined else np.zeros(count, np.int32)

    def pieces(self, offsets: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        """[..., k]: the pieces of accesses of `size` bytes at offsets [...]."""
        return (offsets >> self.shift)[..., None] + np.arange(max(size >> self.shift, 1))

    def writers(self, pieces: Pieces) -> Writers:
        """The last writes of pieces [n]."""
        return Writers(_decoded(self._thread[pieces]), self._stamp[pieces], self._place[pieces], self._flags[pieces])

    def read_pieces(self, pieces: Pieces) -> NDArray[np.intp]:
        """Which of the pieces [n] somebody has read since their last write."""
        return np.flatnonzero(self._has_readers[pieces])

    def readers(self, pieces: Pieces) -> Readers:
        """The last reads of pieces [n]."""
        thread, code = _decoded(self._readers[pieces]), self._read_code[pieces]
        place, flags = code & ((1 << _PLACE_BITS) - 1), code >> _PLACE_BITS
        return Readers(thread, self._first[pieces], self._read_stamp[pieces], place, flags)

    def write(self, pieces: Pieces, thread: NDArray[Any], stamp: Any, place: int, flags: Any) -> NDArray[np.bool_]:
        """Notes writes by threads [n] (units below NOBODY); returns bool [n], those that others overwrite in the same
        instruction."""
        given = _encoded(thread)
        self._thread[pieces] = given
        self._stamp[pieces] = stamp
        self._place[pieces] = place
        self._flags[pieces] = flags
        read = self.read_pieces(pieces)
        if read.size:
            self._readers[pieces[read]] = 0
            self._has_readers[pieces[read]] = False
        if self.observers:
            for piece in np.unique(pieces).tolist():
                self.observers.pop(piece, None)
        lost: NDArray[np.bool_] = self._thread[pieces] != given
        return lost

    def read(
        self, pieces: Pieces, thread: NDArray[Any], slot: NDArray[Any], stamp: Any, place: int, flags: int, whole: bool
    ) -> None:
        """Notes reads by threads [n], in their slots."""
        self._readers[pieces, slot] = _encoded(thread)
        self._has_readers[pieces] = True
        self._read_stamp[pieces, slot] = stamp
        self._read_code[pieces, slot] = place | flags << _PLACE_BITS
        if whole:
            self._first[pieces, slot] = WHOLE
        else:
            self._first[pieces[::-1], slot[::-1]] = (thread & 31)[::-1]


def _encoded(thread: NDArray[Any]) -> NDArray[np.int32]:
    """Threads as a shadow keeps them, which begins as zeros: threads from 1, nobody as 0, units below."""
    return (thread + (thread >= 0)).astype(np.int32)


def _decoded(kept: NDArray[np.int32]) -> NDArray[np.int32]:
    """The inverse of `_encoded`; nobody is NOBODY."""
    return np.asarray(kept - (kept > 0) - (kept == 0))
