"""The pieces of memory that a tensor copy moves, and what happens to the bytes on their way."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.descriptors.tensor_map import TensorMap
from isa.shared_memory.tensor_box import NAN, UNIT, Box, box, swizzled

Bytes = NDArray[np.uint8]


class Pieces(NamedTuple):
    """The part of a box that is moved in pieces of equal size.

    Attributes:
        shared, memory: int64 [piece]: addresses.
        bytes: of a piece in global memory.
    """

    shared: NDArray[np.int64]
    memory: NDArray[np.int64]
    bytes: int


class Moved(NamedTuple):
    """A box: pieces that lie in the tensor, and pieces of `unit` bytes that do not (their addresses in shared memory).

    Attributes:
        inside, outside: those pieces.
        unit: bytes of each that lies outside.
    """

    inside: Pieces
    outside: NDArray[np.int64]
    unit: int

    @property
    def bytes(self) -> int:
        """Bytes that the copy counts on its mbarrier."""
        return len(self.inside.shared) * self.inside.bytes + len(self.outside) * self.unit


@lru_cache(maxsize=256)
def _from_origin(tensor: TensorMap) -> tuple[Box, NDArray[np.int64]]:
    """A tiled box at the origin of a tensor at address 0, before the swizzle, one row of `Box` for each 16 bytes; and
    the largest coordinate in each dimension."""
    whole = box(replace(tensor, swizzle=0, atom=16), (0,) * tensor.rank)
    if tensor.swizzle > tensor.row_bytes:  # a row takes the whole width of the swizzle
        rows, byte = np.divmod(whole.shared, tensor.row_bytes)
        whole = replace(whole, shared=rows * tensor.swizzle + byte)
    step = UNIT // whole.bytes
    units = Box(
        whole.shared[::step], whole.memory[::step], whole.inside[::step], whole.index[:, ::step], UNIT
    )  # fmt: skip
    return units, whole.index.max(axis=1)


def move(
    tensor: TensorMap,
    start: tuple[int, ...],
    offsets: tuple[int, ...],
    shared: int,
    *,
    writes: bool = False,
    mode: str = "",
) -> Moved:
    """Where the bytes of a copy lie; arguments as those of `box`.

    Boxes of plain elements within the tensor take a short way, with the same result.
    """
    plain = not (tensor.im2col or tensor.interleave or tensor.flip or tensor.group > 1 or mode)
    if plain and shared % UNIT == 0:
        units, last = _from_origin(replace(tensor, address=0))
        first, size = np.array(start, np.int64), np.array(tensor.size, np.int64)
        if (first >= 0).all() and (first + last < size).all():
            strides = np.array((tensor.element.bytes, *tensor.stride_bytes), np.int64)
            where = tensor.address + int(strides @ first)
            places = swizzled(units.shared + shared, tensor.swizzle, tensor.atom)
            return Moved(Pieces(places, units.memory + where, UNIT), np.zeros(0, np.int64), UNIT)
    whole = box(tensor, start, offsets, shared, writes=writes, mode=mode)
    inside = Pieces(whole.shared[whole.inside], whole.memory[whole.inside], whole.bytes)
    return Moved(inside, whole.shared[~whole.inside], whole.bytes)


def rounded_to_tf32(data: Bytes) -> Bytes:
    """f32 rounded to the nearest TF32, ties to even; NaN becomes 0x7FFFE000. Measured: loads of both TF32 types."""
    words = np.ascontiguousarray(data).view("<u4")
    rounded = words.astype(np.uint64) + 0xFFF + (words >> 13 & 1) & 0xFFFFE000
    nan = words & 0x7FFFFFFF > 0x7F800000
    found: Bytes = np.where(nan, np.uint64(0x7FFFE000), rounded).astype("<u4").view(np.uint8)
    return found


def filler(tensor: TensorMap, size: int) -> Bytes:
    """uint8 [byte]: `size` bytes outside of the tensor."""
    pattern = NAN if tensor.fill == "nan" else 0
    return np.frombuffer(pattern.to_bytes(2, "little") * (UNIT // 2), np.uint8)[:size]


def packed_to_6_bits(data: Bytes) -> Bytes:
    """uint8 [group, 12] of uint8 [group, 16]: the low 6 bits of each byte, the first lowest. PTX ISA 9.0, 5.5.1.1."""
    bits = np.unpackbits(data, axis=-1, bitorder="little").reshape(*data.shape, 8)[..., :6]
    return np.packbits(bits.reshape(*data.shape[:-1], -1), axis=-1, bitorder="little")
