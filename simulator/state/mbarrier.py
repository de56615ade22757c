"""The mbarriers in shared memory, on which threads and copies wait for each other: their phase, pending arrivals and
pending transactions. PTX ISA 9.0, 9.7.13.15.

The object is 64 opaque bits for PTX. Here they are: bits 0-19 pending arrivals, 20-39 expected arrivals, 40-60
transaction count (two's complement), 62 parity of the phase, 63 set while the object is valid. An ordinary store into
them is found at the next use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits
from simulator.state.shared import AddressError, SharedMemory

SIZE = 8  # bytes, and their alignment; PTX ISA 9.0, 9.7.13.15.1
MOST = (1 << 20) - 1  # arrivals, and transactions either way; PTX ISA 9.0, 9.7.13.15.2
COUNT_BITS = 20  # of pending arrivals, and of expected ones above them
_FIELD = (1 << COUNT_BITS) - 1
_TX_MASK = (1 << 21) - 1
_PARITY, _VALID = 62, 63

Clocks = NDArray[np.int32]


class OrderedMemory(SharedMemory):
    """Shared memory whose users are ordered not only by barriers of the whole CTA, but also by mbarriers: one user
    releases what it has done, and another acquires it."""

    def release(self, actor: int) -> Clocks:
        """The clocks of what `actor` has done and seen so far, int32 [actor]."""
        return self._history.release(actor)

    def acquire(self, actor: int, clocks: Clocks) -> None:
        """Makes `actor` see what others have released."""
        self._history.acquire(actor, clocks)


@dataclass
class PhaseCounter:
    """The counting of an mbarrier: the arrivals and bytes that its current phase still lacks, and how many phases are
    complete.

    The interpreter, the timing engine and the order checker keep one each, with what else they know of the object.

    Attributes:
        expected: arrivals of each phase.
        pending: arrivals that the current phase still lacks.
        transactions: bytes that it still lacks; below 0 while more have come than were announced.
        phase: phases completed.
    """

    expected: int
    pending: int
    transactions: int = 0
    phase: int = 0

    @property
    def parity(self) -> int:
        """The parity of the current phase: 0 or 1."""
        return self.phase & 1

    def settle(self) -> bool:
        """Ends the phase if it lacks nothing more; returns whether it ended."""
        if self.pending > 0 or self.transactions:
            return False
        self.phase += 1
        self.pending = self.expected
        return True

    def awaited(self, parity: int) -> int:
        """The number of the phase that a wait for this parity means; it is complete once `phase` is above it."""
        return self.phase if self.parity == parity else self.phase - 1

    def lacks(self) -> str:
        """Says in words what the current phase waits for."""
        parts = []
        if self.pending:
            parts.append(f"{self.pending} of {self.expected} arrivals")
        if self.transactions:
            parts.append(
                f"{self.transactions} bytes" if self.transactions > 0 else f"an expect_tx of {-self.transactions} bytes"
            )
        return " and ".join(parts)


@dataclass
class Mbarrier(PhaseCounter):
    """One mbarrier object.

    Attributes:
        word: the bits in shared memory.
        left_out: phases that were completed in turns of loops that were not executed.
        released, completed: what those who arrived have released, in all phases and in the completed ones; one array
            for each CTA's memory.
        carried: copies that are under way until the phase is complete in which they arrive: the phase, and the places
            of their bytes.
    """

    word: int = 0
    left_out: int = 0
    released: list[Clocks] = field(default_factory=list)
    completed: list[Clocks] = field(default_factory=list)
    carried: list[tuple[int, NDArray[np.int64]]] = field(default_factory=list)

    def bits(self) -> int:
        """The object as it is in shared memory."""
        tx = self.transactions & _TX_MASK
        return self.pending | self.expected << 20 | tx << 40 | self.parity << _PARITY | 1 << _VALID


class Mbarriers:
    """The mbarriers of one CTA, by their place in its shared memory.

    Every method raises AddressError for what PTX leaves undefined or a chip stops at: no valid object there, counts out
    of range.
    """

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self.data = data  # the CTA's shared memory, uint8 [byte]
        self.live: dict[int, Mbarrier] = {}

    def init(self, address: int, count: int) -> Mbarrier:
        """Makes a new mbarrier that expects `count` arrivals, in phase 0.

        One that is valid there is replaced: undefined in PTX; an H200 does it (tests/golden/launches/triton_attention).
        """
        self._check(address)
        if not 1 <= count <= MOST:
            raise AddressError(f"mbarrier.init with a count of {count}", f"1 to {MOST}", rule="barrier-use")
        barrier = self.live[address] = Mbarrier(count, count)
        self._write(address, barrier)
        return barrier

    def inval(self, address: int) -> None:
        """Ends the life of the mbarrier, so that its bytes may be used for anything."""
        self.at(address)
        del self.live[address]

    def at(self, address: int) -> Mbarrier:
        """The mbarrier at this place."""
        self._check(address)
        barrier = self.live.get(address)
        if barrier is None:
            legal = "mbarrier.init before; " + (
                ", ".join(f"shared[{place}]" for place in sorted(self.live)) or "there is none yet"
            )
            raise AddressError(f"no mbarrier at shared[{address}]", legal, rule="barrier-use")
        if barrier.word != self._read(address):
            raise AddressError(
                f"the mbarrier at shared[{address}] was overwritten by a store",
                "mbarrier instructions alone, until mbarrier.inval",
                rule="barrier-use",
            )
        return barrier

    def state(self) -> tuple[object, ...]:
        """All that decides what the mbarriers do from now on, but for the clocks that were released."""
        return tuple(
            (place, b.expected, b.pending, b.transactions, b.parity, b.word, len(b.released), len(b.completed))
            for place, b in sorted(self.live.items())
        )

    def clocks(self) -> list[Clocks]:
        """What was released to those who wait."""
        return [clocks for _, b in sorted(self.live.items()) for clocks in (*b.released, *b.completed)]

    def arrive(
        self, address: int, count: int = 1, *, expect: int = 0, drop: bool = False, complete: bool = True
    ) -> int:
        """Counts `count` arrivals, and returns the word before them, which is the state that the instruction returns.

        Args:
            expect: bytes by which the transaction count grows first (.expect_tx).
            drop: whether later phases expect as many arrivals fewer (arrive_drop).
            complete: False for .noComplete, which must not end the phase.
        """
        barrier = self.at(address)
        before = barrier.word
        if not 1 <= count <= barrier.pending:
            legal = (
                f"1 to {barrier.pending}, the arrivals that the phase still lacks"
                if barrier.pending
                else "none before its bytes have come"
            )
            raise AddressError(
                f"{count} arrivals at the mbarrier at shared[{address}], whose phase lacks {barrier.lacks() or 'none'}",
                legal,
                rule="barrier-use",
            )
        if not complete and count == barrier.pending:
            raise AddressError(
                f"an arrival with .noComplete ends the phase of the mbarrier at shared[{address}]",
                f"at most {barrier.pending - 1}",
                rule="barrier-use",
            )
        self._transact(address, barrier, expect)
        barrier.pending -= count
        barrier.expected -= count if drop else 0
        self._settle(address, barrier)
        return before

    def grow(self, address: int, count: int) -> None:
        """Makes the current phase expect more arrivals (cp.async.mbarrier.arrive, until its copies have come)."""
        barrier = self.at(address)
        barrier.pending += count
        self._write(address, barrier)

    def expect(self, address: int, count: int) -> None:
        """Raises the transaction count (expect_tx)."""
        barrier = self.at(address)
        self._transact(address, barrier, count)
        self._settle(address, barrier)

    def complete(self, address: int, count: int) -> None:
        """Lowers the transaction count (complete_tx, and what asynchronous copies do)."""
        barrier = self.at(address)
        self._transact(address, barrier, -count)
        self._settle(address, barrier)

    def awaited(self, address: int, parity: int) -> int:
        """The number of the phase that a wait for this parity means; it is complete once the object's `phase` is above
        it."""
        return self.at(address).awaited(parity)

    def _transact(self, address: int, barrier: Mbarrier, count: int) -> None:
        barrier.transactions += count
        if abs(barrier.transactions) > MOST or abs(count) > MOST:
            raise AddressError(
                f"a transaction count of {barrier.transactions} at the mbarrier at shared[{address}]",
                f"-{MOST} to {MOST}",
                rule="barrier-use",
            )

    def _settle(self, address: int, barrier: Mbarrier) -> None:
        """Ends the phase if it lacks nothing more, and writes the object."""
        if barrier.settle():
            barrier.completed = list(barrier.released)
        self._write(address, barrier)

    def _check(self, address: int) -> None:
        size = self.data.size
        if not 0 <= address <= size - SIZE:
            legal = f"0 to {size - SIZE}, see .shared" if size >= SIZE else "a trace with .shared of 8 bytes at least"
            raise AddressError(
                f"an mbarrier at shared[{address}], outside of the {size} bytes of shared memory",
                legal,
                rule="barrier-use",
            )
        if address % SIZE:
            raise AddressError(
                f"an mbarrier at shared[{address}] is misaligned", f"a multiple of {SIZE}", rule="barrier-use"
            )

    def _read(self, address: int) -> int:
        return int.from_bytes(self.data[address : address + SIZE].tobytes(), "little")

    def _write(self, address: int, barrier: Mbarrier) -> None:
        barrier.word = barrier.bits()
        self.data[address : address + SIZE] = np.frombuffer(barrier.word.to_bytes(SIZE, "little"), np.uint8)


def parity_of(states: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The parity of the phases in which these states were returned."""
    return states >> np.uint64(_PARITY) & np.uint64(1)


def pending_of(states: NDArray[np.uint64]) -> Bits:
    """The pending arrivals in these states (mbarrier.pending_count)."""
    return (states & np.uint64(_FIELD)).astype(np.uint32)


def joined(clocks: Sequence[Clocks], more: Sequence[Clocks]) -> list[Clocks]:
    """Merges two releases, array by array: the later of both clocks. Either may be empty."""
    if not clocks or not more:
        return list(clocks or more)
    return [np.maximum(left, right) for left, right in zip(clocks, more, strict=True)]
