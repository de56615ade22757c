"""The shared memory of a CTA: its bytes, how many cycles bank conflicts cost, and which accesses race because no
barrier separates them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.errors import Error
from isa.types import Bits

BANKS = 32  # CUDA programming guide, compute capabilities 5.x and later: 32 banks of 4 bytes
BANK_BYTES = 4
LINE_BYTES = BANKS * BANK_BYTES

Addresses = NDArray[np.int64]


class AddressError(Error, ValueError):
    """An access that lies outside of memory or is misaligned, or a use of a barrier at which the chip stops. Attributes
    are as in `Error`."""

    def __init__(self, reason: str, legal: str, rule: str = "") -> None:
        super().__init__(reason, legal, rule)
        self.reason, self.legal, self.rule = reason, legal, rule

    def __str__(self) -> str:
        return f"{self.reason}; legal: {self.legal}"


class SharedMemory:
    """Shared memory of `size` bytes, little endian.

    Attributes:
        data: uint8 [size].
    """

    def __init__(self, size: int, warps: int) -> None:
        self.data: NDArray[np.uint8] = np.zeros(size, np.uint8)
        self._history = History(size, warps)

    def read(self, addresses: Addresses, width: int, warps: NDArray[np.intp]) -> tuple[NDArray[np.uint8], int]:
        """Bytes uint8 [warp, access, width] at `addresses` [warp, access], and how many bytes of them race with another
        warp's write."""
        self._check(addresses, width)
        places = addresses[..., None] + np.arange(width)
        return self.data[places], self._history.read(places, warps)

    def write(self, addresses: Addresses, values: NDArray[np.uint8], warps: NDArray[np.intp]) -> int:
        """Writes uint8 [warp, access, width]; returns how many bytes race with another warp's access.

        Of lanes that write the same byte the highest wins (PTX leaves open which).
        """
        width = values.shape[-1]
        self._check(addresses, width)
        places = addresses[..., None] + np.arange(width)
        suspects = self._history.write(places, warps)
        races = suspects.races + differing(self.data, places, values, suspects.before)
        self.data[places] = values
        return races + differing(self.data, places, values, suspects.beside)

    def synchronise(self, warps: NDArray[np.intp]) -> None:
        """Notes that these warps have passed a barrier together, so that what each did before is visible to all of
        them."""
        self._history.synchronise(warps)

    def order(self, released: Sequence[NDArray[np.int32]] = ()) -> bytes:
        """A digest of what decides which accesses race from now on: equal where the same accesses will race.

        Args:
            released: clocks that may be acquired later, see `simulator.state.mbarrier`.
        """
        return self._history.order(released)

    def _check(self, addresses: Addresses, width: int) -> None:
        if addresses.size and (addresses.min() < 0 or addresses.max() + width > self.data.size):
            warp_lane = np.argwhere((addresses < 0) | (addresses + width > self.data.size))[0]
            bad = int(addresses[tuple(warp_lane)])
            raise AddressError(
                f"access to {width} bytes at shared[{bad}], outside of the {self.data.size} bytes of shared memory",
                f"0 to {self.data.size - width}, see .shared",
                rule="shared-memory-bounds",
            )
        misaligned = addresses % width != 0
        if misaligned.any():
            raise AddressError(
                f"misaligned access to {width} bytes at shared[{int(addresses[misaligned][0])}]",
                f"a multiple of {width}",
                rule="misaligned-address",
            )


class Suspects(NamedTuple):
    """What a write may race with: it races with a write of other values alone.

    Attributes:
        races: bytes that it writes and that another warp reads.
        before: bool [warp, access, byte]: those that another warp wrote before.
        beside: those that another warp writes in the same execution, and keeps.
    """

    races: int
    before: NDArray[np.bool_]
    beside: NDArray[np.bool_]


def differing(data: NDArray[np.uint8], places: Addresses, values: NDArray[np.uint8], chosen: NDArray[np.bool_]) -> int:
    """How many of the chosen bytes at places of the data are not these values, each [warp, access, byte]."""
    return int((data[places[chosen]] != values[chosen]).sum()) if chosen.any() else 0


class History:
    """Who touched each byte last, and what each warp knows of the others: enough to detect races.

    An access races with another warp's access to the same byte, one of them a write, if no barrier (or chain of
    barriers) lies between. Writes of the same value do not race with each other: every order of them leaves the same
    byte. Each warp counts its barriers; `seen[w, v]` is the count of v up to which w has synchronised with it.
    """

    def __init__(self, size: int, warps: int) -> None:
        self.writer = np.full(size, -1, np.int16)
        self.written = np.zeros(size, np.int32)
        self.reads = np.full((warps, size), -1, np.int32) if size else np.zeros((warps, 0), np.int32)
        self.clock = np.zeros(warps, np.int32)
        self.seen = np.full((warps, warps), -1, np.int32)

    def read(self, places: Addresses, warps: NDArray[np.intp]) -> int:
        races = int(self._unseen_writes(places, warps).sum())
        self.reads[warps[:, None, None], places] = self.clock[warps][:, None, None]
        return races

    def write(self, places: Addresses, warps: NDArray[np.intp]) -> Suspects:
        before, races = self._unseen_writes(places, warps), 0
        for warp, touched in zip(warps, places, strict=True):
            unseen = self.reads[:, touched.ravel()] > self.seen[warp][:, None]
            unseen[warp] = False
            races += int(unseen.any(axis=0).sum())
        owner = warps[:, None, None].astype(np.int16)
        self.writer[places] = owner
        self.written[places] = self.clock[warps][:, None, None]
        return Suspects(races, before, self.writer[places] != owner)

    def synchronise(self, warps: NDArray[np.intp]) -> None:
        clocks = np.maximum.reduce(self.seen[warps], axis=0)
        clocks[warps] = np.maximum(clocks[warps], self.clock[warps])
        self.seen[warps] = clocks
        self.clock[warps] += 1

    def release(self, warp: int) -> NDArray[np.int32]:
        """The clocks of what a warp has done and seen so far, int32 [warp]."""
        clocks: NDArray[np.int32] = self.seen[warp].copy()
        clocks[warp] = max(clocks[warp], self.clock[warp])
        self.clock[warp] += 1
        return clocks

    def acquire(self, warp: int, clocks: NDArray[np.int32]) -> None:
        """Makes a warp see what others have released."""
        np.maximum(self.seen[warp], clocks, out=self.seen[warp])

    def order(self, released: Sequence[NDArray[np.int32]]) -> bytes:
        """A digest of all that `read` and `write` compare: of the counts of each warp only their order matters."""
        starts = self._starts()
        writer, written, reads = self.writer[starts], self.written[starts], self.reads[:, starts]
        digest = blake2b(starts.tobytes())
        digest.update(writer.tobytes())
        for warp, clock in enumerate(self.clock.tolist()):
            mine = writer == warp
            occurring = np.zeros(clock + 2, np.bool_)
            occurring[[0, clock + 1]] = True  # that of no access, and the current one
            clocks = np.array([each[warp] for each in released], np.int32)
            for counts in (reads[warp], self.seen[:, warp], written[mine], clocks):
                occurring[counts + 1] = True
            ranks = np.cumsum(occurring, dtype=np.int32)
            written[mine] = ranks[written[mine] + 1]
            for counts in (reads[warp], self.seen[:, warp], clocks):
                digest.update(ranks[counts + 1].tobytes())
            digest.update(ranks[-1:].tobytes())
        digest.update(np.where(writer >= 0, written, 0).tobytes())
        return digest.digest()

    def _starts(self) -> NDArray[np.intp]:
        """The first of each run of bytes that were written and read alike: accesses are of many bytes."""
        fresh = np.ones(self.writer.size, np.bool_)
        fresh[1:] = (self.reads[:, 1:] != self.reads[:, :-1]).any(axis=0)
        for each in (self.writer, self.written):
            fresh[1:] |= each[1:] != each[:-1]
        return np.flatnonzero(fresh)

    def _unseen_writes(self, places: Addresses, warps: NDArray[np.intp]) -> NDArray[np.bool_]:
        writer = self.writer[places]
        mine = warps[:, None, None]
        unseen = self.written[places] > self.seen[mine, writer]
        found: NDArray[np.bool_] = unseen & (writer >= 0) & (writer != mine)
        return found


def wavefronts(addresses: Addresses, width: int) -> NDArray[np.int64]:
    """Cycles that shared memory is busy with one access of each lane: [warp, lane] byte addresses, `width` bytes each
    -> [warp].

    Lanes are served in groups that move 128 bytes (32 lanes of 4 bytes and less, 16 of 8, 8 of 16); a group takes as
    many cycles as the largest number of different 32-bit words that it wants from one bank. Measured on an NVIDIA H100,
    November 2026 (measurements).
    """
    warps, lanes = addresses.shape
    group = min(lanes, LINE_BYTES // max(width, BANK_BYTES))
    words = addresses[..., None] // BANK_BYTES + np.arange(max(width // BANK_BYTES, 1))
    words = words.reshape(warps, lanes // group, -1)
    words.sort(axis=-1)
    fresh = np.ones(words.shape, np.bool_)
    fresh[..., 1:] = words[..., 1:] != words[..., :-1]
    banks = words % BANKS
    parts = warps * (lanes // group)
    bins = (banks.reshape(parts, -1) + np.arange(parts)[:, None] * BANKS).astype(np.intp, copy=False)
    counts = np.bincount(bins[fresh.reshape(parts, -1)], minlength=parts * BANKS).reshape(warps, -1, BANKS)
    total: NDArray[np.int64] = counts.max(axis=-1).sum(axis=-1)
    return total


def as_words(data: NDArray[np.uint8]) -> Bits:
    """Bytes [..., 4 * n], little endian -> uint32 [..., n]."""
    return np.ascontiguousarray(data).view("<u4").astype(np.uint32, copy=False)


def as_bytes(words: Bits) -> NDArray[np.uint8]:
    """uint32 [..., n] -> bytes [..., 4 * n], little endian."""
    return np.ascontiguousarray(words.astype("<u4", copy=False)).view(np.uint8)
