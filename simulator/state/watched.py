"""Shared memory of a launch whose asynchronous operations complete late, or whose missing waits and fences are looked
for: which bytes an operation still writes or reads, and which bytes ordinary stores have written that no
fence.proxy.async has handed to the asynchronous proxy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simulator.state.columns import LaunchShared
from simulator.state.registers import Warps
from simulator.state.shared import Addresses, History

Places = NDArray[np.int64]


class Watcher(Protocol):
    """Who is told of accesses."""

    @property
    def place(self) -> int:
        """The place of the instruction that is executed."""

    def begins(self) -> None:
        """Called before an ordinary access."""

    def stored(self, places: Places, warps: Warps) -> None:
        """Called when warps store to places [warp, access, byte]."""

    def touched(self, numbers: NDArray[np.int32], what: str) -> None:
        """Called when an access touches bytes that pending operations `numbers` [byte] (0: none) still write or read.

        Args:
            what: "writes" or "reads": what the operations still do.
        """

    def chosen_old(self, accesses: tuple[int, ...]) -> NDArray[np.bool_]:
        """Which of the accesses of the asynchronous proxy see bytes that are not fenced as they were before, bool of
        this shape."""


class WatchedShared(LaunchShared):
    """The shared memories of a batch of CTAs, as `LaunchShared`, with marks for each byte.

    Attributes:
        watcher: is told.
        asynchronous: whether the access is one of an asynchronous operation: of copies ("copy"), of the asynchronous
            proxy ("proxy"), or of neither ("").
        owed, lent: int32 [byte]: the number of the last pending operation that will write it, and read it; 0: none.
        stored: int32 [byte]: 1 + the place of an ordinary store that no fence of the proxies follows; 0: none.
        before: uint8 [byte]: where `stored`, what the byte was.
    """

    watcher: Watcher

    def __init__(self, size: int, ctas: int, warps_each: int, cluster: int = 1) -> None:
        super().__init__(size, ctas, warps_each, cluster)
        count = self.data.size
        self.asynchronous = ""
        self.owed, self.lent, self.stored = (np.zeros(count, np.int32) for _ in range(3))
        self.before = np.zeros(count, np.uint8)
        self._writer, self._clock = np.zeros(count, np.int16), np.zeros(count, np.int32)
        self._orders = [History(0, warps_each) for _ in range(ctas)]
        self._range = np.tile(np.array([size, 0], np.int64), (ctas, 1))  # of bytes that are `stored`

    # Accesses

    def read(self, addresses: Addresses, width: int, warps: Warps) -> tuple[NDArray[np.uint8], int]:
        """As in `LaunchShared`."""
        if not self.asynchronous:
            self.watcher.begins()
        data, races = super().read(addresses, width, warps)
        if self.lenient:
            addresses = np.where(self.inside(addresses, width), addresses, 0)
        places = self._bytes(addresses, width, warps)
        if not self.asynchronous:
            self.touch_owed(places)
        elif self.asynchronous == "proxy":
            unfenced = self.stored[places] > 0
            if unfenced.any():
                old = self.watcher.chosen_old(addresses.shape)
                data = np.where(unfenced & old[..., None], self.before[places], data)
        return data, races

    def write(self, addresses: Addresses, values: NDArray[np.uint8], warps: Warps) -> int:
        """As in `LaunchShared`."""
        if not addresses.size:
            return 0
        if self.lenient and not (good := self.inside(addresses, values.shape[-1])).all():
            if not good.any():
                return 0
            row = np.nonzero(good)[0]
            return self.write(addresses[good][:, None], values[good][:, None], warps[row])
        self._check(addresses, values.shape[-1], warps)
        places = self._bytes(addresses, values.shape[-1], warps)
        if self.asynchronous:
            self.stored[places] = 0
        else:
            self.watcher.begins()
            self.touch_owed(places)
            self.touch_lent(places)
            self._mark(places, warps)
            self.watcher.stored(places, warps)
        return super().write(addresses, values, warps)

    def _bytes(self, addresses: Addresses, width: int, warps: Warps) -> Places:
        return self.places(addresses, warps)[..., None] + np.arange(width)

    def touch_owed(self, places: Places) -> None:
        """Tells the watcher of an access to bytes that pending operations still write; who accesses what lies outside
        of memory is told so elsewhere."""
        self._touch(self.owed[places[places < len(self.owed)]], "writes")

    def touch_lent(self, places: Places) -> None:
        """Tells the watcher of a write to bytes that pending operations still read."""
        self._touch(self.lent[places], "reads")

    def _touch(self, numbers: NDArray[np.int32], what: str) -> None:
        if numbers.any():
            self.watcher.touched(numbers, what)

    # Proxies

    @contextmanager
    def as_fenced(self, places: Places) -> Iterator[None]:
        """While the asynchronous proxy reads places directly: those that no fence has handed to it may hold what they
        held before."""
        unfenced = places[self.stored[places] > 0]
        chosen = np.unique(unfenced[self.watcher.chosen_old(unfenced.shape)])
        kept = self.data[chosen]
        self.data[chosen] = self.before[chosen]
        try:
            yield
        finally:
            self.data[chosen] = kept

    def _mark(self, places: Places, warps: Warps) -> None:
        """Notes that warps store to places [warp, access, byte]; those in other CTAs are not followed."""
        owners = np.broadcast_to(warps.reshape(-1, *[1] * (places.ndim - 1)), places.shape).ravel()
        flat = places.ravel()
        ctas = owners // self.warps_each
        own = flat // self.stride == ctas
        if not own.all():
            flat, owners, ctas = flat[own], owners[own], ctas[own]
        fresh = flat[self.stored[flat] == 0]
        self.before[fresh] = self.data[fresh]
        self.stored[flat] = self.watcher.place + 1
        inside = owners % self.warps_each
        self._writer[flat] = inside
        self._clock[flat] = np.array([order.clock for order in self._orders])[ctas, inside]
        if not flat.size:
            return
        first = np.flatnonzero(np.diff(ctas, prepend=-1))  # of each run of one CTA; rows come in their order
        offsets, own = flat - ctas * self.stride, ctas[first]
        low, high = np.minimum.reduceat(offsets, first), np.maximum.reduceat(offsets, first) + 1
        np.minimum.at(self._range[:, 0], own, low)
        np.maximum.at(self._range[:, 1], own, high)

    def hand_over(self, warp: int) -> None:
        """Makes the asynchronous proxy see what a warp has stored, and what others stored that is in order before the
        warp's fence."""
        cta, own = divmod(warp, self.warps_each)
        low, high = self._range[cta].tolist()
        if low >= high:
            return
        begin = cta * self.stride
        part = slice(begin + low, begin + high)
        writer = self._writer[part]
        seen = self._orders[cta].seen[own]
        known = (writer == own) | (self._clock[part] <= seen[writer])
        self.stored[part][known] = 0
        if not self.stored[part].any():
            self._range[cta] = self.size, 0

    # Order

    def _by_cta(self, warps: Warps) -> list[tuple[int, NDArray[np.intp]]]:
        ctas = warps // self.warps_each
        return [(int(cta), np.flatnonzero(ctas == cta)) for cta in np.unique(ctas)]

    def synchronise(self, warps: Warps) -> None:
        """As in `LaunchShared`."""
        for cta, own in self._by_cta(warps):
            self._orders[cta].synchronise(warps[own] % self.warps_each)

    def release(self, warp: int) -> list[NDArray[np.int32]]:
        """As in `LaunchShared`."""
        return [self._orders[warp // self.warps_each].release(warp % self.warps_each)]

    def acquire(self, warp: int, released: list[NDArray[np.int32]]) -> None:  # type: ignore[override]
        """As in `LaunchShared`."""
        for clocks in released:
            self._orders[warp // self.warps_each].acquire(warp % self.warps_each, clocks)
