"""When a launch without faults reads and writes the shared memory of its CTAs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from simulator.faults.targets.launches.memory import NEVER
from simulator.state.columns import LaunchShared
from simulator.state.registers import Warps
from simulator.state.shared import Addresses

MOST_ACCESSES = 1 << 22  # of words whose times are kept
_Accesses = tuple[NDArray[np.int64], int, bool]  # words, event, and whether they are overwritten whole


class SeenShared(LaunchShared):
    """Shared memory that notes accesses.

    Attributes:
        accesses: the words (of all CTAs, one after the other), the event, and whether it overwrites them.
        full: whether there were too many to keep.
    """

    def __init__(self, size: int, ctas: int, warps_each: int, event: Callable[[], int]) -> None:
        super().__init__(size, ctas, warps_each)
        self.event, self.accesses, self.full = event, list[_Accesses](), False
        self._left = MOST_ACCESSES

    def read(self, addresses: Addresses, width: int, warps: Warps) -> tuple[NDArray[np.uint8], int]:
        """As in `LaunchShared`."""
        self._note(addresses, width, warps, whole=False)
        return super().read(addresses, width, warps)

    def write(self, addresses: Addresses, values: NDArray[np.uint8], warps: Warps) -> int:
        """As in `LaunchShared`."""
        self._note(addresses, values.shape[-1], warps, whole=values.shape[-1] >= 4)
        return super().write(addresses, values, warps)

    def _note(self, addresses: Addresses, width: int, warps: Warps, *, whole: bool) -> None:
        if self.full or not addresses.size:
            return
        words = self.places(addresses, warps)[..., None] // 4 + np.arange(max(width // 4, 1))
        some = np.unique(words)
        self.accesses.append((some, self.event(), whole))
        self._left -= len(some)
        if self._left < 0:
            self.full = True
            self.accesses.clear()


class SharedUses:
    """When words of shared memory are accessed.

    Args:
        seen: the memory after the run.
        events: how many events the run had.
    """

    def __init__(self, seen: SeenShared, events: int) -> None:
        self.known, self.span, self.stride = not seen.full, events + 1, seen.stride // 4
        none = np.zeros(0, np.int64)
        keys = np.concatenate([none, *(words * self.span + event for words, event, _ in seen.accesses)])
        whole = np.array([each for _, _, each in seen.accesses], np.bool_)
        whole = np.repeat(whole, [len(words) for words, _, _ in seen.accesses])
        order = np.argsort(keys, kind="stable")
        self._keys, self._whole = keys[order], whole[order]

    def accesses(self, cta: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The words of a CTA that are accessed, and the events at which they are."""
        first, last = np.searchsorted(self._keys, np.array([cta, cta + 1]) * self.stride * self.span)
        words, events = np.divmod(self._keys[first:last], self.span)
        return words - cta * self.stride, events

    def next(self, cta: int, word: int, event: int) -> tuple[int, bool]:
        """The first event from `event` on that accesses a word of a CTA, and whether it overwrites it; `NEVER` if there
        is none."""
        key = (cta * self.stride + word) * self.span
        index = int(np.searchsorted(self._keys, key + event))
        if index == len(self._keys) or self._keys[index] >= key + self.span:
            return NEVER, False
        return int(self._keys[index]) - key, bool(self._whole[index])
