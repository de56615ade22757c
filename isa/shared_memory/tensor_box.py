"""Which byte of a tensor lands where in shared memory: the one mapping of tensor copies.

`box` gives, for one copy, the place of every piece in shared memory and in global memory; the executor, the tables and
the drawings read it. Measured on an H200 (`measurements/tensor_maps`): a row of the box takes the whole width of the
swizzle, but for interleaved slices, which lie without gaps; the pattern follows the address in shared memory; elements
outside the tensor are filled, and counted. A store writes 16 bytes whole if the first of them are inside.

Not measured, for only Blackwell has it: rows that are gathered and scattered, wide im2col, sub-byte types, and swizzles
with atoms of 32 and 64 bytes. They follow the text of PTX ISA 9.0 (5.5); what the text leaves open is said where it is
decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isa.descriptors.tensor_map import TensorMap
from isa.descriptors.tensor_map_fields import SWIZZLES
from isa.descriptors.tensor_map_rules import GROUP
from isa.shared_memory.tensor_pixels import base_pixels, wide_pixels

RULE = "tensor-copy"
NAN = 0x7FF7  # each 16 bits of what lies outside a tensor that is filled with NaN; measured
UNIT = 16  # bytes that the innermost coordinate is a multiple of, and that a swizzle moves together
ROWS = ("tile::gather4", "tile::scatter4")  # modes of four rows, each with its own coordinate
WIDE = ("im2col::w", "im2col::w::128")  # modes of pixels along W alone


@dataclass(frozen=True)
class Box:
    """The pieces that one copy moves, in the order in which they lie in shared memory.

    A piece is an element; of slices that interleave 8 bytes, and of sub-byte types a part of those copied as one.

    Attributes:
        shared: int64 [piece]: address of its first byte in shared memory.
        memory: int64 [piece]: address of its first byte in global memory; of no meaning outside the tensor.
        inside: bool [piece]: whether it is in the tensor.
        index: int64 [dimension, piece]: coordinates in the tensor of its element, dimension 0 first.
        bytes: of a piece.
    """

    shared: NDArray[np.int64]
    memory: NDArray[np.int64]
    inside: NDArray[np.bool_]
    index: NDArray[np.int64]
    bytes: int


def box(
    tensor: TensorMap,
    start: Sequence[int],
    offsets: Sequence[int] = (),
    shared_address: int = 0,
    *,
    writes: bool = False,
    mode: str = "",
) -> Box:
    """Returns the pieces that a copy moves.

    Args:
        tensor: its map.
        start: coordinates of the box, dimension 0 first; of an im2col map the first channel and the first base pixel;
            of `ROWS` the column and four rows.
        offsets: im2col loads: what is added to the base pixels in W, H, D; of `WIDE` the halo and the offset.
        shared_address: of the box in shared memory.
        writes: whether the copy writes to the tensor: 16 bytes of which the first are inside are written whole.
        mode: one of `ROWS` or `WIDE`; "": as the map says.
    """
    index = _groups(tensor, start, offsets, mode)
    group, element = tensor.group, tensor.element
    columns = tensor.counts[0] // group
    place = np.arange(index.shape[1], dtype=np.int64)
    apart = tensor.interleave or element.shared_bytes
    pitch = apart * columns if tensor.interleave else tensor.swizzle or tensor.row_bytes
    shared = shared_address + place // columns * pitch + place % columns * apart
    size = np.array(tensor.size, np.int64)[:, None]
    if writes and group == 1 and not tensor.interleave:
        size[0] = -(-size[0] * element.bytes // UNIT) * UNIT // element.bytes
    inside: NDArray[np.bool_] = np.logical_and.reduce((index >= 0) & (index < size), axis=0)
    memory = index[0] // group * tensor.group_bytes + np.array(tensor.stride_bytes, np.int64) @ index[1:]
    bytes_of = _piece_bytes(tensor)
    parts = tensor.group_bytes // bytes_of
    if parts > 1:
        step = np.arange(0, tensor.group_bytes, bytes_of)
        shared, memory = ((places[:, None] + step).ravel() for places in (shared, memory))
        inside, index = np.repeat(inside, parts), np.repeat(index, parts, axis=1)
    return Box(
        swizzled(shared, tensor.swizzle, tensor.atom, tensor.flip), tensor.address + memory, inside, index, bytes_of
    )


def _piece_bytes(tensor: TensorMap) -> int:
    """Bytes of a piece: an element, 8 bytes of a slice, or 4 of the 12 of sixteen 6-bit elements."""
    if tensor.interleave:
        return 8
    return 4 if tensor.element.bytes == 12 else tensor.element.bytes


def swizzled(address: NDArray[np.int64], swizzle: int, atom: int = 16, flip: int = 0) -> NDArray[np.int64]:
    """Addresses in shared memory after the swizzle.

    Bits 4 and up are XORed with bits 7 and up, as many as the code of the swizzle has; larger atoms (`atom`, bytes)
    leave the lowest of them out, and a flip XORs bit 3 with bit 7. PTX ISA 9.0, 5.5.7; measured with atoms of 16 bytes.
    """
    mask, low = (0, 1, 3, 7, 1)[SWIZZLES.index(swizzle)], atom.bit_length() - 1
    moved = address ^ (address >> 7 & mask >> low - 4) << low
    return moved ^ (address >> 7 & 1) << 3 if flip else moved


def extent(tensor: TensorMap) -> int:
    """Bytes of shared memory from the first to the last of a box, gaps of the swizzle included."""
    rows = tensor.box_bytes // tensor.group_bytes * tensor.group // tensor.counts[0]
    return rows * (tensor.row_bytes if tensor.interleave else tensor.swizzle or tensor.row_bytes)


def _groups(tensor: TensorMap, start: Sequence[int], offsets: Sequence[int], mode: str) -> NDArray[np.int64]:
    """Coordinates of the first of each elements that are copied as one, int64 [dimension, group]."""
    if not tensor.im2col:
        return _tile(tensor, start, rows=mode in ROWS)
    if mode in WIDE:
        pixels = wide_pixels(tensor, start, *offsets, quarters=mode == WIDE[1])
    else:
        pixels = base_pixels(tensor, start, offsets)
    if tensor.interleave:
        return pixels
    channels = int(start[0]) + np.arange(0, tensor.channels, tensor.group, dtype=np.int64)
    whole = np.repeat(pixels, len(channels), axis=1)
    return np.concatenate([np.tile(channels, pixels.shape[1])[None], whole])


def _tile(tensor: TensorMap, start: Sequence[int], *, rows: bool) -> NDArray[np.int64]:
    """Coordinates of a tiled box, int64 [dimension, group]; `rows`: of four rows, whose coordinates are `start[1:]`."""
    counts = (-(-tensor.counts[0] // tensor.group), *((4,) if rows else tensor.counts[1:]))
    along = np.indices(counts[::-1], dtype=np.int64)[::-1].reshape(len(counts), -1)
    along[0] *= tensor.group
    if rows:
        return np.stack([start[0] + along[0], np.array(start[1:], np.int64)[along[1]]])
    steps, first = (np.array(values, np.int64)[:, None] for values in (tensor.steps, start))
    moved: NDArray[np.int64] = first + steps * along
    return moved


def broken_rules(tensor: TensorMap, start: Sequence[int], *, writes: bool, mode: str = "") -> list[str]:
    """What makes the chip stop with an illegal instruction, in words; empty if nothing does.

    Measured on an H200; of what only Blackwell has, the restrictions of PTX ISA 9.0, 9.7.9.27.1.1 and 5.5.

    Args:
        tensor: its map.
        start: coordinates, as in `box`.
        writes: whether the copy is a store or a reduction.
        mode: as in `box`.
    """
    broken = []
    least = GROUP if tensor.element.padded else UNIT * tensor.group // tensor.group_bytes
    if not tensor.interleave and start[0] % max(least, 1):
        units = f"{GROUP} elements" if tensor.element.padded else f"{UNIT} bytes"
        broken.append(f"the innermost coordinate {start[0]} is not a multiple of {units} ({tensor.type})")
    if tensor.im2col:
        broken += _broken_pixels(tensor, start, mode)
    if writes and min(start) < 0:
        broken.append(f"coordinate {min(start)} of a store is negative")
    elif writes and tensor.im2col and min(tensor.lower) < 0:
        broken.append(f"the lower corner {min(tensor.lower)} of a store is negative")
    elif writes and tensor.im2col and max(tensor.upper) > 0:
        broken.append(f"the upper corner {max(tensor.upper)} of a store is positive")
    if writes and tensor.flip:
        broken.append("a store of a map whose swizzle flips 8 bytes")
    if writes and tensor.type == "b4x16_p64":
        broken.append(f"a store of a tensor of {tensor.type}")
    if mode in ROWS:
        broken += [f"a copy of four rows of a map with {what}" for what in _not_of_rows(tensor)]
    return broken


def _not_of_rows(tensor: TensorMap) -> list[str]:
    """What a map has that gather4 and scatter4 do not take. PTX ISA 9.0, 5.5.3.4."""
    wrong = [f"{tensor.rank} dimensions"] if tensor.rank != 2 else []
    if not wrong and tensor.box[1] != 1:
        wrong.append(f"a box of {tensor.box[1]} rows, not 1")
    return wrong + (["interleaved slices"] if tensor.interleave else [])


def _broken_pixels(tensor: TensorMap, start: Sequence[int], mode: str) -> list[str]:
    """What is wrong with the base pixel of an im2col copy, and with the map of a wide one. PTX ISA 9.0, 5.5.5: a wide
    copy may begin left of its box."""
    first, broken = tensor.first_pixel_dimension, []
    axes = zip("WHD", start[first:], tensor.size[first:], tensor.lower, tensor.upper, strict=False)
    for name, pixel, size, low, high in axes:
        end = size - 1 + high
        if mode in WIDE and (name != "W" or pixel < low):
            continue
        if not low <= pixel <= end:
            broken.append(f"the base pixel's {name} is {pixel}, outside of its box {low} to {end}")
    if mode in WIDE and (tensor.swizzle in (0, 32) or tensor.flip or tensor.interleave):
        broken.append(
            f"a copy with .{mode} of a map with swizzle {tensor.swizzle_name}, interleave {tensor.interleave}"
        )
    if mode == WIDE[1] and tensor.swizzle == 96:
        broken.append(f"a copy with .{mode} of a map with swizzle 96")
    return broken
