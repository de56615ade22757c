"""Which words of shared memory each warp of a program reads and writes between two barriers, recorded by watching one
run without faults. From this a run beside that one knows whether an access elsewhere can race."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.execute.cta_state import CtaState
from simulator.simulation.observer import Observer
from simulator.simulation.session import Session
from simulator.state import SharedMemory
from simulator.state.registers import Warps
from simulator.state.shared import Addresses

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
MOST_WARPS = 64  # of a CTA, a bit each
_EACH_BYTES, _MOST_BYTES = 25, 48 << 20  # of a word that is kept, and of all of them


class Touched(NamedTuple):
    """Who touches each word of shared memory in an epoch.

    Attributes:
        readers, writers: uint64 [word], a bit for each warp.
        again: bool [word]: whether more than one operation writes it.
    """

    readers: NDArray[np.uint64]
    writers: NDArray[np.uint64]
    again: Mask

    def some(self, words: NDArray[np.intp]) -> Touched:
        """Those of some words."""
        return Touched(self.readers[words], self.writers[words], self.again[words])


_ALL = np.full(1, 0xFFFFFFFFFFFFFFFF, np.uint64)
_BY_ALL = Touched(_ALL, _ALL, np.ones(1, np.bool_))


def bits_of(warps: NDArray[np.integer]) -> NDArray[np.uint64]:
    """The bit of each warp."""
    return np.asarray(np.uint64(1) << warps.astype(np.uint64))


class _Recorder(SharedMemory):
    """Shared memory that tells who accesses what."""

    def __init__(self, data: NDArray[np.uint8], to: Footprints) -> None:
        self.data, self._to = data, to

    def read(self, addresses: Addresses, width: int, warps: Warps) -> tuple[NDArray[np.uint8], int]:
        self._to.note(addresses, width, warps, writes=False)
        return self.data[addresses[..., None] + np.arange(width)], 0

    def write(self, addresses: Addresses, values: NDArray[np.uint8], warps: Warps) -> int:
        self._to.note(addresses, values.shape[-1], warps, writes=True)
        self.data[addresses[..., None] + np.arange(values.shape[-1])] = values
        return 0

    def synchronise(self, warps: NDArray[np.intp]) -> None:
        self._to.synchronise(warps)


class Footprints(Observer):
    """The accesses of a run of one CTA, by epochs, which are what lies between two barriers of all its warps. Epochs
    that would take too much memory count as if every warp touched every word."""

    def __init__(self, session: Session) -> None:
        self._warps = np.array(sorted(session.sequences), np.intp)
        self._words = -(-session.program.shared_bytes // 4)
        self._now = self._nothing()
        self._epochs: list[tuple[NDArray[np.intp], Touched] | None] = []
        self._several: list[bool] = []
        self._bytes = 0
        self._last: tuple[int, Touched] | None = None
        machines: list[CtaState] = session.copies()
        machines[0].shared = _Recorder(machines[0].shared.data, self)
        session.run(self, machines=machines)
        self._close()

    def _nothing(self) -> Touched:
        readers, writers = (np.zeros(self._words, np.uint64) for _ in range(2))
        return Touched(readers, writers, np.zeros(self._words, np.bool_))

    def whole(self, warps: NDArray[np.intp]) -> bool:
        """Whether these are all warps that run."""
        return len(np.intersect1d(warps, self._warps)) == len(self._warps)

    def note(self, addresses: Addresses, width: int, warps: Warps, *, writes: bool) -> None:
        """Notes an access."""
        words = (addresses[..., None] // 4 + np.arange(max(1, width // 4))).reshape(len(warps), -1)
        readers, writers, again = self._now
        if writes:
            again[words[writers[words] != 0]] = True
        bits = np.broadcast_to(bits_of(warps)[:, None], words.shape)
        np.bitwise_or.at(writers if writes else readers, words, bits)

    def synchronise(self, warps: NDArray[np.intp]) -> None:
        """Begins a new epoch if all warps meet."""
        if self.whole(warps):
            self._close()

    def _close(self) -> None:
        """Ends an epoch, of which the words that are touched are kept."""
        words = np.flatnonzero(self._now.readers | self._now.writers)
        self._bytes += _EACH_BYTES * len(words)
        fits = self._bytes <= _MOST_BYTES
        self._epochs.append((words, self._now.some(words)) if fits else None)
        self._several.append(not fits or bool((np.bitwise_count(self._now.writers) > 1).any()))
        self._now = self._nothing()

    def of(self, epoch: int) -> Touched:
        """Who touches each word in an epoch."""
        if self._last is None or self._last[0] != epoch:
            kept, whole = self._epochs[epoch], self._nothing()
            words, touched = (slice(None), _BY_ALL) if kept is None else kept
            for column, values in zip(whole, touched, strict=True):
                column[words] = values
            self._last = epoch, whole
        return self._last[1]

    def written_by_others(self, epoch: int, words: Integers, warps: Warps) -> Mask:
        """Whether another warp writes these words [access] in an epoch, too."""
        if not self._several[epoch]:
            return np.zeros(len(words), np.bool_)
        return np.asarray((self.of(epoch).writers[words] & ~bits_of(warps)) != 0)
