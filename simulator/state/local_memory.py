"""The local memory of the threads of a launch: the same number of bytes for each, which no other thread can reach."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.state.registers import WARP_SIZE, Lanes, Warps
from simulator.state.shared import AddressError, Addresses
from simulator.state.typed_views import gather, padded, scatter


class LocalMemory:
    """Local memory of `size` bytes for each thread of `warps` warps, little endian, zero until written.

    Attributes:
        size: bytes of a thread.
        data: uint8 [warp * 32 + lane, size padded to 16], flat.
    """

    def __init__(self, size: int, warps: int) -> None:
        self.size, self.stride = size, padded(size)
        self.data: NDArray[np.uint8] = np.zeros(self.stride * WARP_SIZE * warps, np.uint8)

    def read(self, addresses: Addresses, width: int, warps: Warps, lanes: Lanes | None = None) -> NDArray[np.uint8]:
        """Bytes uint8 [warp, lane, width] at `addresses` [warp, lane] of each thread's own memory; where `lanes` is
        given, only these threads' addresses count.

        Raises:
            AddressError: outside of the memory, or misaligned.
        """
        return gather(self.data, self._places(self._checked(addresses, width, lanes), warps), width)

    def write(self, addresses: Addresses, values: NDArray[np.uint8], warps: Warps, lanes: Lanes | None = None) -> None:
        """Writes uint8 [warp, lane, width]; only in `lanes`, bool [warp, lane], where they are given."""
        places = self._places(self._checked(addresses, values.shape[-1], lanes), warps)
        if lanes is None:
            scatter(self.data, places, values)
        else:
            scatter(self.data, places[lanes], values[lanes])

    def _places(self, addresses: Addresses, warps: Warps) -> Addresses:
        threads = warps[:, None].astype(np.int64) * WARP_SIZE + np.arange(WARP_SIZE)
        return threads * self.stride + addresses

    def _checked(self, addresses: Addresses, width: int, lanes: Lanes | None) -> Addresses:
        wrong = (addresses < 0) | (addresses > self.size - width)
        if lanes is not None:
            wrong &= lanes
        if wrong.any():
            bad = int(addresses[wrong][0])
            raise AddressError(
                f"access to {width} bytes at local[{bad}], outside of the {self.size} bytes of a thread's local memory",
                f"0 to {self.size - width}" if self.size >= width else "a kernel with .local variables",
                rule="out-of-bounds",
            )
        wrong = addresses % width != 0
        if lanes is not None:
            addresses = np.where(lanes, addresses, 0)
            wrong &= lanes
        if wrong.any():
            reason = f"misaligned access to {width} bytes at local[{int(addresses[wrong][0])}]"
            raise AddressError(reason, f"a multiple of {width}", rule="misaligned-address")
        return addresses
