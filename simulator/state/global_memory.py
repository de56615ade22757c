"""The global memory of a kernel: its bytes from address 0 on, which lines and sectors an access touches, and the
asynchronous copies to shared memory that are under way.

Nothing orders accesses of different warps to global memory here, so races on it are not seen.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.state.registers import Lanes, Warps
from simulator.state.shared import AddressError, Addresses

LINE_BYTES = 128  # a cache line; CUDA programming guide, compute capabilities 5.x and later
SECTOR_BYTES = 32  # what L2 moves, likewise


class GlobalMemory:
    """Global memory of `size` bytes, little endian, zero until written.

    Attributes:
        data: uint8 [size].
    """

    def __init__(self, size: int = 0) -> None:
        self.data: NDArray[np.uint8] = np.zeros(size, np.uint8)

    def read(self, addresses: Addresses, width: int) -> NDArray[np.uint8]:
        """Bytes uint8 [..., width] at `addresses` [...]; AddressError outside of the memory or where misaligned."""
        self.check(addresses, width, width)
        data: NDArray[np.uint8] = self.data[addresses[..., None] + np.arange(width)]
        return data

    def write(self, addresses: Addresses, values: NDArray[np.uint8]) -> None:
        """Writes uint8 [..., width]. If several accesses write the same byte, the last in order wins (PTX leaves open
        which)."""
        width = values.shape[-1]
        self.check(addresses, width, width)
        self.data[addresses[..., None] + np.arange(width)] = values

    def placed(self, addresses: Addresses, warps: Warps) -> Addresses:
        """Addresses [warp, lane] as the warps access them: the same ones, as all warps have one global memory."""
        return addresses

    def check(self, addresses: Addresses, width: int, alignment: int) -> None:
        """Raises AddressError unless every access of `width` bytes lies in the memory, at a multiple of `alignment`."""
        outside = (addresses < 0) | (addresses + width > self.data.size)
        if outside.any():
            bad = int(addresses[outside].ravel()[0])
            reason = f"access to {width} bytes at global[{bad}], outside of the {self.data.size} bytes of global memory"
            raise AddressError(
                reason,
                f"0 to {self.data.size - width}, see .global" if self.data.size >= width else "see .global",
                rule="shared-memory-bounds",
            )
        misaligned = addresses % alignment != 0
        if misaligned.any():
            raise AddressError(
                f"misaligned access to {width} bytes at global[{int(addresses[misaligned].ravel()[0])}]",
                f"a multiple of {alignment}",
                rule="misaligned-address",
            )


def touched(addresses: Addresses, width: int, unit: int, active: Lanes | None = None) -> NDArray[np.int64]:
    """How many different units (lines or sectors) the lanes of each warp touch: [warp, lane] byte addresses, `width`
    bytes each -> [warp].

    Accesses are aligned to their width and no wider than a unit, so each touches one.
    """
    places = np.sort(addresses // unit if active is None else np.where(active, addresses // unit, -1), axis=1)
    fresh = np.ones(places.shape, np.bool_)
    fresh[:, 1:] = places[:, 1:] != places[:, :-1]
    counts: NDArray[np.int64] = (fresh & (places >= 0)).sum(axis=1)
    return counts


def places(addresses: Addresses, unit: int, active: Lanes | None = None) -> list[tuple[int, ...]]:
    """The numbers of the units (lines or sectors) that the lanes of each warp touch, ascending; as `touched` counts
    them."""
    numbers = addresses // unit
    rows = numbers if active is None else [row[lanes] for row, lanes in zip(numbers, active, strict=True)]
    return [tuple(np.unique(row).tolist()) for row in rows]


@dataclass
class Copies:
    """The groups of cp.async of a CTA's warps, and the bytes of shared memory that they are about to write.

    Attributes:
        under_way: for each byte how many copies of it nobody has waited for.
        open: by warp, the places of copies that no commit_group has followed.
        groups: by warp, the same for each group that has not been waited for, the oldest first.
    """

    under_way: NDArray[np.int32]
    open: dict[int, list[NDArray[np.int64]]] = field(default_factory=dict)
    groups: dict[int, deque[list[NDArray[np.int64]]]] = field(default_factory=dict)

    def begin(self, warp: int, places: NDArray[np.int64]) -> None:
        """Notes the bytes of shared memory that a copy of this warp is about to write."""
        np.add.at(self.under_way, places, 1)
        self.open.setdefault(warp, []).append(places)

    def commit(self, warp: int) -> None:
        """Closes the warp's current group of copies (cp.async.commit_group)."""
        self.groups.setdefault(warp, deque()).append(self.open.pop(warp, []))

    def state(self) -> tuple[object, ...]:
        """All that decides what is under way from now on."""
        waiting = [
            (warp, tuple(tuple(places.tobytes() for places in group) for group in groups))
            for warp, groups in sorted(self.groups.items())
        ]
        begun = [(warp, tuple(places.tobytes() for places in copies)) for warp, copies in sorted(self.open.items())]
        return self.under_way.tobytes(), tuple(waiting), tuple(begun)

    def wait(self, warp: int, groups: int) -> None:
        """Completes all groups of a warp except the last `groups` (cp.async.wait_group)."""
        waiting = self.groups.get(warp, deque())
        while len(waiting) > groups:
            self.land(waiting.popleft())

    def land(self, copies: list[NDArray[np.int64]]) -> None:
        """Notes that copies have come."""
        for places in copies:
            np.subtract.at(self.under_way, places, 1)

    def take(self, warp: int) -> list[NDArray[np.int64]]:
        """The places of a warp's copies that are under way, which are then waited for by an mbarrier; its groups stay,
        without them."""
        taken = self.open.pop(warp, [])
        for group in self.groups.get(warp, ()):
            taken += group
            group.clear()
        return taken
