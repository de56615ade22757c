"""Memory in which each copy of a launch has its own part of a buffer, and may access nothing between the parts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.state.device_memory import Buffer, DeviceMemory
from simulator.state.shared import AddressError, Addresses


class StrictMemory(DeviceMemory):
    """Device memory that refuses accesses outside of the parts of its copies.

    Attributes:
        parts: buffers of several parts: (the whole, bytes from one part to the next, bytes of a part).
    """

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[tuple[Buffer, int, int]] = []

    def read(self, addresses: Addresses, width: int) -> NDArray[np.uint8]:
        """As in the base class; AddressError also between parts."""
        self._check_parts(addresses, width)
        return super().read(addresses, width)

    def write(self, addresses: Addresses, values: NDArray[np.uint8]) -> None:
        """As in the base class; AddressError also between parts."""
        self._check_parts(addresses, values.shape[-1])
        super().write(addresses, values)

    def check(self, addresses: Addresses, width: int, alignment: int) -> None:
        """As in the base class; AddressError also between parts."""
        self._check_parts(addresses, width)
        super().check(addresses, width, alignment)

    def _check_parts(self, addresses: Addresses, width: int) -> None:
        for whole, stride, size in self.parts:
            offsets = addresses - whole.address
            inside = (offsets >= 0) & (offsets < whole.size)
            if (inside & (offsets % stride + width > size)).any():
                raise AddressError("an access between the parts of copies", "", rule="out-of-bounds")
