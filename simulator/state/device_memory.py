"""The global memory of a launch: named buffers at 64-bit addresses, and nothing between them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.state.global_memory import GlobalMemory
from simulator.state.shared import AddressError, Addresses
from simulator.state.typed_views import gather, padded, scatter
from simulator.state.windows import BUFFER_ALIGNMENT, FREE_BASE, GUARD_BYTES


@dataclass(eq=False)
class Buffer:
    """A piece of global memory.

    Attributes:
        name: what messages call it.
        address: of its first byte.
        size: in bytes.
        storage: uint8 [size, padded to 16]: its bytes, little endian.
        constant: whether it is a .const variable, which no instruction may write.
        written: bool [size]: which bytes have ever been written; None where that is not watched, or all are.
    """

    name: str
    address: int
    size: int
    storage: NDArray[np.uint8] = field(repr=False)
    constant: bool = False
    written: NDArray[np.bool_] | None = field(default=None, repr=False)

    @property
    def data(self) -> NDArray[np.uint8]:
        """uint8 [size]: its bytes."""
        return self.storage[: self.size]

    @property
    def end(self) -> int:
        """The address behind its last byte."""
        return self.address + self.size


class DeviceMemory(GlobalMemory):
    """Global memory as buffers.

    Attributes:
        buffers: by their addresses, ascending.
        unwritten: told the buffer and the offset [access] of bytes that are read and that nothing has written; None
            where nobody wants to know.
        starts: int64 [buffer]: the addresses of their first bytes.
        lenient: whether accesses outside of all buffers, and misaligned ones, read zeros and write nothing, for who
            looks for all of them (`simulator.check.memory_model`).
    """

    def __init__(self) -> None:
        super().__init__(0)
        self.buffers: list[Buffer] = []
        self.unwritten: Callable[[Buffer, NDArray[np.int64]], None] | None = None
        self.starts = np.zeros(0, np.int64)
        self.lenient = False

    def place(
        self,
        name: str,
        size: int,
        address: int | None = None,
        *,
        storage: NDArray[np.uint8] | None = None,
        constant: bool = False,
    ) -> Buffer:
        """Adds a buffer of zeros, or with the given storage (uint8, padded to a multiple of 16).

        Args:
            address: where it must lie; None for any place.

        Raises:
            AddressError: there is another buffer, or the address cannot be aligned.
        """
        if address is None:
            free = [buffer.end for buffer in self.buffers if FREE_BASE <= buffer.address < 2 * FREE_BASE]
            last = max(free, default=0)
            first = max(FREE_BASE, last + GUARD_BYTES)
            address = -(-first // BUFFER_ALIGNMENT) * BUFFER_ALIGNMENT
        for other in self.buffers:
            if address < other.end and other.address < address + size:
                reason = f"buffer '{name}' at {address:#x} overlaps buffer '{other.name}' at {other.address:#x}"
                raise AddressError(reason, f"{other.end:#x} or higher", rule="overlapping-buffers")
        buffer = Buffer(name, address, size, np.zeros(padded(size), np.uint8) if storage is None else storage, constant)
        self.buffers.append(buffer)
        self.buffers.sort(key=lambda each: each.address)
        self.starts = np.array([each.address for each in self.buffers], np.int64)
        return buffer

    def copied(self) -> DeviceMemory:
        """The same buffers with the same bytes, to be written without harm."""
        other = DeviceMemory()
        for buffer in self.buffers:
            other.place(
                buffer.name, buffer.size, buffer.address, storage=buffer.storage.copy(), constant=buffer.constant
            )
        return other

    def __getitem__(self, name: str) -> Buffer:
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise KeyError(name)

    def read(self, addresses: Addresses, width: int) -> NDArray[np.uint8]:
        """Bytes uint8 [..., width] at `addresses` [...]; AddressError outside of every buffer or where misaligned."""
        if not addresses.size:
            return np.zeros((*addresses.shape, width), np.uint8)
        if self.lenient and not (good := self.inside(addresses, width)).all():
            found = np.zeros((*addresses.shape, width), np.uint8)
            found[good] = self.read(addresses[good], width)
            return found
        self._check_alignment(addresses, width)
        buffer = self._holder(addresses, width)
        if buffer is not None:
            self._watch_reads(buffer, addresses, width)
            return gather(buffer.storage, addresses - buffer.address, width)
        data = np.empty((*addresses.shape, width), np.uint8)
        for buffer, chosen in self._parts(addresses, width):
            self._watch_reads(buffer, addresses[chosen], width)
            data[chosen] = gather(buffer.storage, addresses[chosen] - buffer.address, width)
        return data

    def write(self, addresses: Addresses, values: NDArray[np.uint8]) -> None:
        """Writes uint8 [..., width]; of several writes of one byte the last in order stays (PTX leaves open which)."""
        width = values.shape[-1]
        if not addresses.size:
            return
        if self.lenient and not (good := self.inside(addresses, width)).all():
            self.write(addresses[good], values[good])
            return
        self._check_alignment(addresses, width)
        buffer = self._holder(addresses, width)
        everything: NDArray[np.bool_] = np.ones(addresses.shape, np.bool_)
        parts = [(buffer, everything)] if buffer is not None else self._parts(addresses, width)
        for each, chosen in parts:
            whole = chosen is everything
            where = (addresses if whole else addresses[chosen]) - each.address
            if each.constant:
                raise AddressError(f"a write to constant '{each.name}' [{int(where.ravel()[0])}]", "a .global variable")
            scatter(each.storage, where, values if whole else values[chosen])
            if each.written is not None:
                each.written[(where[..., None] + np.arange(width)).ravel()] = True

    def check(self, addresses: Addresses, width: int, alignment: int) -> None:
        """Raises AddressError unless every access of `width` bytes lies in a buffer, at a multiple of `alignment`."""
        if addresses.size:
            self._check_alignment(addresses, alignment)
            if self._holder(addresses, width) is None:
                self._parts(addresses, width)

    def inside(self, addresses: Addresses, width: int) -> NDArray[np.bool_]:
        """bool [...]: which accesses lie in a buffer, at a multiple of their width."""
        aligned = addresses % width == 0 if width & (width - 1) == 0 else np.ones(addresses.shape, np.bool_)
        if self._holder(addresses, width) is not None:
            return np.asarray(aligned)
        index = np.searchsorted(self.starts, addresses, side="right") - 1
        ends = np.array([0, *(buffer.end for buffer in self.buffers)], np.int64)
        return np.asarray(aligned & (addresses + width <= ends[index + 1]))

    def whereabouts(self, address: int) -> str:
        """Where an address lies that is in no buffer, told by the nearest one."""
        return self._whereabouts(address, bisect_right(self.buffers, address, key=lambda buffer: buffer.address) - 1)

    # Which buffer

    def _holder(self, addresses: Addresses, width: int) -> Buffer | None:
        """The one buffer in which all accesses lie; None if there is none."""
        low, high = int(addresses.min()), int(addresses.max())
        index = bisect_right(self.buffers, low, key=lambda buffer: buffer.address) - 1
        if index < 0:
            return None
        buffer = self.buffers[index]
        return buffer if high + width <= buffer.end else None

    def _parts(self, addresses: Addresses, width: int) -> list[tuple[Buffer, NDArray[np.bool_]]]:
        """The accesses of each buffer; AddressError for one that lies in none."""
        index = np.searchsorted(self.starts, addresses, side="right") - 1
        parts: list[tuple[Buffer, NDArray[np.bool_]]] = []
        for number in np.unique(index).tolist():
            chosen = index == number
            if number < 0 or int(addresses[chosen].max()) + width > self.buffers[number].end:
                self._refuse(addresses, width)
            parts.append((self.buffers[number], chosen))
        return parts

    def _refuse(self, addresses: Addresses, width: int) -> None:
        """Raises the error of the first access that lies in no buffer."""
        for address in addresses.ravel().tolist():
            index = bisect_right(self.buffers, address, key=lambda buffer: buffer.address) - 1
            if index >= 0 and address + width <= self.buffers[index].end:
                continue
            raise AddressError(
                f"access to {width} bytes at {address:#x}, {self._whereabouts(address, index)}",
                self._legal(index),
                rule="out-of-bounds",
            )

    def _whereabouts(self, address: int, index: int) -> str:
        """Where an address lies that is in no buffer, told by the nearest one."""
        if not self.buffers:
            return "and the launch has no buffer"
        before = self.buffers[index] if index >= 0 else None
        after = self.buffers[index + 1] if index + 1 < len(self.buffers) else None
        if before is not None and (after is None or address - before.end <= after.address - address):
            if address < before.end:
                return f"which reaches beyond the end of buffer '{before.name}' ({before.size} bytes)"
            far = f"{address - before.end} bytes" if address > before.end else "right"
            return f"{far} behind the end of buffer '{before.name}' ({before.size} bytes)"
        assert after is not None
        return f"{after.address - address} bytes before buffer '{after.name}'"

    def _legal(self, index: int) -> str:
        near = self.buffers[max(index, 0) : max(index, 0) + 1]
        return ", ".join(f"'{each.name}' lies at {each.address:#x} to {each.end - 1:#x}" for each in near) or "a buffer"

    @staticmethod
    def _check_alignment(addresses: Addresses, alignment: int) -> None:
        if alignment > 1 and int(np.bitwise_or.reduce(addresses, axis=None)) & (alignment - 1):
            bad = int(addresses[addresses % alignment != 0].ravel()[0])
            reason = f"misaligned access to {alignment} bytes at {bad:#x}"
            raise AddressError(reason, f"a multiple of {alignment}", rule="misaligned-address")

    def _watch_reads(self, buffer: Buffer, addresses: Addresses, width: int) -> None:
        if self.unwritten is None or buffer.written is None:
            return
        offsets = addresses.ravel() - buffer.address
        missing = ~buffer.written[offsets[:, None] + np.arange(width)].all(axis=1)
        if missing.any():
            self.unwritten(buffer, offsets[missing])
