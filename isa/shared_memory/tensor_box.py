"""Which byte of a tensor lands where in shared memory: the one mapping of tensor copies.

`box` gives, for one copy, the place of every element in shared memory and in global memory; the executor, the tables and
the drawings read it. Measured on an H200 (`measurements/tensor_maps`): a row of the box takes the whole width of the
swizzle; the pattern follows the address in shared memory; elements outside the tensor are filled, and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isa.descriptors.tensor_map import SWIZZLES, TensorMap
from isa.errors import IsaError

RULE = "tensor-copy"
NAN = 0x7FF7  # each 16 bits of what lies outside a tensor that is filled with NaN; measured
UNIT = 16  # bytes that the innermost coordinate is a multiple of, and that a swizzle moves together


@dataclass(frozen=True)
class Box:
    """The elements that one copy moves, in the order in which they lie in shared memory.

    Attributes:
        shared: int64 [element]: address of its first byte in shared memory.
        memory: int64 [element]: address of its first byte in global memory; of no meaning outside the tensor.
        inside: bool [element]: whether it is in the tensor.
        index: int64 [dimension, element]: its coordinates in the tensor, dimension 0 first.
        bytes: of an element.
    """

    shared: NDArray[np.int64]
    memory: NDArray[np.int64]
    inside: NDArray[np.bool_]
    index: NDArray[np.int64]
    bytes: int


def box(tensor: TensorMap, start: Sequence[int], offsets: Sequence[int] = (), shared_address: int = 0) -> Box:
    """Returns the elements that a copy moves.

    Args:
        tensor: its map.
        start: coordinates of the box, dimension 0 first; of an im2col map the first channel and the first base pixel.
        offsets: im2col loads: what is added to the base pixels in W, H, D.
        shared_address: of the box in shared memory.

    Raises:
        IsaError: slices interleave, whose order in shared memory is not measured.
    """
    if tensor.interleave:
        reason = f"a copy of a tensor whose slices of {tensor.interleave} bytes interleave is not modelled"
        raise IsaError(str(tensor.interleave), -1, reason, "interleave 0", rule=RULE, operand="interleave")
    index = _pixels(tensor, start, offsets) if tensor.im2col else _tile(tensor, start)
    columns = tensor.counts[0]
    place = np.arange(index.shape[1], dtype=np.int64)
    pitch = tensor.swizzle or tensor.inner_bytes
    shared = shared_address + place // columns * pitch + place % columns * tensor.element.bytes
    size = np.array(tensor.size, np.int64)[:, None]
    strides = np.array((tensor.element.bytes, *tensor.stride_bytes), np.int64)
    return Box(
        swizzled(shared, tensor.swizzle),
        tensor.address + strides @ index,
        ((index >= 0) & (index < size)).all(axis=0),
        index,
        tensor.element.bytes,
    )


def swizzled(address: NDArray[np.int64], swizzle: int) -> NDArray[np.int64]:
    """Addresses in shared memory after the swizzle: bits 4 and up XORed with bits 7 and up, as many as the code of the
    swizzle."""
    mask = (1 << SWIZZLES.index(swizzle)) - 1
    return address ^ (address >> 7 & mask) << 4


def extent(tensor: TensorMap) -> int:
    """Bytes of shared memory from the first to the last of a box, gaps of the swizzle included."""
    rows = tensor.box_bytes // tensor.element.bytes // tensor.counts[0]
    return rows * (tensor.swizzle or tensor.inner_bytes)


def _tile(tensor: TensorMap, start: Sequence[int]) -> NDArray[np.int64]:
    """Coordinates of a tiled box, int64 [dimension, element]."""
    counts = tensor.counts
    along = np.indices(counts[::-1], dtype=np.int64)[::-1].reshape(tensor.rank, -1)
    steps, first = (np.array(values, np.int64)[:, None] for values in (tensor.steps, start))
    moved: NDArray[np.int64] = first + steps * along
    return moved


def _pixels(tensor: TensorMap, start: Sequence[int], offsets: Sequence[int]) -> NDArray[np.int64]:
    """Coordinates of an im2col box: base pixels from the start on, W first, each dimension from its lower corner to its
    upper one, then the next image. PTX ISA 9.0, 5.5.4.

    The base pixels are the digits of a number whose lowest digit is W.
    """
    spatial = tensor.rank - 2
    steps = np.array(tensor.element_stride[1:-1], np.int64)
    lower, upper = np.array(tensor.lower, np.int64), np.array(tensor.upper, np.int64)
    last = np.array(tensor.size[1:-1], np.int64) - 1 + upper
    pixel = np.array(start[1:-1], np.int64)
    pixels = np.empty((tensor.rank - 1, tensor.pixels), np.int64)
    image = int(start[-1])
    for number in range(tensor.pixels):
        pixels[:spatial, number], pixels[spatial, number] = pixel, image
        for axis in range(spatial):
            pixel[axis] += steps[axis]
            if pixel[axis] <= last[axis]:
                break
            pixel[axis] = lower[axis]
        else:
            image += tensor.element_stride[-1]
    if len(offsets):
        pixels[:spatial] += np.array(offsets, np.int64)[:, None]
    channels = int(start[0]) + np.arange(tensor.channels, dtype=np.int64)
    whole = np.repeat(pixels, tensor.channels, axis=1)
    return np.concatenate([np.tile(channels, tensor.pixels)[None], whole])


def broken_rules(tensor: TensorMap, start: Sequence[int], *, writes: bool) -> list[str]:
    """What makes the chip stop with an illegal instruction, in words; empty if nothing does. Measured on an H200.

    Args:
        tensor: its map.
        start: coordinates, as in `box`.
        writes: whether the copy is a store or a reduction.
    """
    broken = []
    if start[0] * tensor.element.bytes % UNIT:
        broken.append(f"the innermost coordinate {start[0]} is not a multiple of {UNIT} bytes ({tensor.type})")
    if tensor.im2col:
        ends = [size - 1 + high for size, high in zip(tensor.size[1:-1], tensor.upper, strict=True)]
        for name, first, low, high in zip("WHD", start[1:-1], tensor.lower, ends, strict=False):
            if not low <= first <= high:
                broken.append(f"the base pixel's {name} is {first}, outside of its box {low} to {high}")
    if writes and min(start) < 0:
        broken.append(f"coordinate {min(start)} of a store is negative")
    elif writes and tensor.im2col and min(tensor.lower) < 0:
        broken.append(f"the lower corner {min(tensor.lower)} of a store is negative")
    return broken
