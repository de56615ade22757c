"""Device memory of a host program: a file that the program maps at a fixed address, and the server anywhere."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from simulator.program.kernel import Image
from simulator.state.device_memory import DeviceMemory
from simulator.state.typed_views import padded

ARENA = 0x300000000000  # as in runtime/server.h, which has the same three numbers
ARENA_BYTES = 1 << 40
VARIABLE_BYTES = 1 << 32
STEP = 1 << 16  # allocations and variables begin at multiples
POISON = 0xDB


class Kind(IntEnum):
    """Who an allocation is for: runtime/server.h, Kind."""

    DEVICE = 0
    HOST = 1
    MANAGED = 2


@dataclass(frozen=True)
class Allocation:
    """A piece of device memory.

    Attributes:
        name: what messages and captures call it.
        number: which one it is, from 0.
        address, bytes: where it lies in the program.
        kind: who it is for.
        data: uint8 [padded to 16]: its bytes.
    """

    name: str
    number: int
    address: int
    bytes: int
    kind: Kind
    data: NDArray[np.uint8]


@dataclass(frozen=True)
class Variable:
    """A variable of a module.

    Attributes:
        image: as the kernels of the module see it: its name, and its address there.
        address: where it lies in the program.
        data: uint8 [padded to 16]: its bytes.
    """

    image: Image
    address: int
    data: NDArray[np.uint8]


class Arena:
    """All device memory of a program.

    Attributes:
        fd: of the file.
        allocations: by address.
        variables: by (module, name).
    """

    def __init__(self) -> None:
        self.fd = os.memfd_create("tcsim-device-memory")
        os.ftruncate(self.fd, ARENA_BYTES)
        self._bytes: NDArray[np.uint8] = np.frombuffer(mmap.mmap(self.fd, ARENA_BYTES), np.uint8)
        self.allocations: dict[int, Allocation] = {}
        self.variables: dict[tuple[int, str], Variable] = {}
        self._made, self._next = 0, ARENA

    def allocate(self, address: int, size: int, kind: Kind) -> None:
        """Notes an allocation of the program."""
        name = f"{kind.name.lower()}_{self._made}"
        self.allocations[address] = Allocation(name, self._made, address, size, kind, self._view(address, size))
        self._made += 1

    def release(self, address: int) -> None:
        """Forgets one: what a kernel still reads there is out of bounds."""
        self.allocations.pop(address, None)

    def variable(self, module: int, image: Image) -> Variable:
        """A variable of a module, which is placed when it is first asked for and then stays."""
        key = module, image.name
        if key not in self.variables:
            data = self._view(self._next, len(image.data))
            data[: len(image.data)] = np.frombuffer(image.data, np.uint8)
            self.variables[key] = Variable(image, self._next, data)
            self._next += -(-(len(image.data) + STEP) // STEP) * STEP
        return self.variables[key]

    def memory(self, module: int) -> DeviceMemory:
        """What a kernel of a module can reach. A variable of its own module lies at two addresses with the same bytes:
        at that of the kernel's code, and where the program has it (cudaGetSymbolAddress)."""
        memory = DeviceMemory()
        for one in self.allocations.values():
            memory.place(one.name, one.bytes, one.address, storage=one.data)
        for (owner, name), each in self.variables.items():
            size, constant = len(each.image.data), each.image.constant
            if owner == module:
                memory.place(name, size, each.image.address, storage=each.data, constant=constant)
            memory.place(f"{name}@module{owner}", size, each.address, storage=each.data, constant=constant)
        return memory

    def poison(self) -> None:
        """Overwrites all that a kernel could have written: what is left of a launch that went wrong must not look like
        a result. No two allocations get the same bytes, so that a comparison of two results does not succeed either."""
        for number, data in self._writable():
            data[:] = POISON
            data[::2] = (POISON + 1 + 17 * number) % 256

    def _writable(self) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        for one in self.allocations.values():
            if one.kind is not Kind.HOST:
                yield one.number, one.data[: one.bytes]
        for number, each in enumerate(self.variables.values()):
            if not each.image.constant:
                yield self._made + number, each.data[: len(each.image.data)]

    def _view(self, address: int, size: int) -> NDArray[np.uint8]:
        return self._bytes[address - ARENA : address - ARENA + padded(size)]
