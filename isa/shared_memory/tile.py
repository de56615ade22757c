"""Whole matrices in shared memory, laid out in the canonical layouts of CUTLASS and PTX, with the descriptors that name
their pieces. The module also reads what `tcgen05.cp` copies.

A `Tile` is a whole matrix, usually of several K steps: made once, its descriptors advanced from step to step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np

from isa.errors import IsaError
from isa.mapping import Integers
from isa.shared_memory.descriptor import SWIZZLES, SharedMemoryDescriptor
from isa.shared_memory.layout import (
    LINE,
    MN,
    WINDOW,
    K,
    operand_bits,
    read_operand,
    refuse,
    unit_addresses,
    write_operand,
)
from isa.shared_memory.matrix_descriptor import Swizzle
from isa.shared_memory.packing import DECOMPRESSIONS, UNIT, Bytes, Packing, packing
from isa.types import Bits, ElementType


@dataclass(frozen=True)
class Tile:
    """A matrix in shared memory in a canonical layout.

    Atoms are 8 rows x one swizzle row of K (K-major), or one swizzle row of M or N x 8 k (4 k with 32-byte atoms). They
    follow one another along M or N first, as CUTLASS's tile_to_shape puts them by default, or along K first.

    Attributes:
        rows: of A (M), or columns of B (N), that one CTA holds.
        columns: K as stored: half of it for a sparse A.
        element: type; by name "e2m1" is the one in bytes.
        major: "K" or "MN".
        swizzle: a name of `isa.shared_memory.descriptor.SWIZZLES`.
        start: first byte; a multiple of 16 without swizzle, else of 128, and a base offset is set where it is not one
            of the pattern (inferred).
        k_first: whether atoms follow one another along K first.

    IsaError ("smem-size", "smem-unaligned", "smem-major", "smem-window") where there is no such tile.

    >>> tile = Tile(128, 64, "f16", swizzle="128B", start=1024)
    >>> tile.at(k=16).start_address, tile.descriptor.stride_offset, tile.size
    (1056, 1024, 16384)
    """

    rows: int
    columns: int
    element: str | ElementType
    major: str = K
    swizzle: str = "128B"
    start: int = 0
    k_first: bool = False

    def __post_init__(self) -> None:
        if self.swizzle not in SWIZZLES:
            raise IsaError(
                self.swizzle, 0, f"unknown swizzle '{self.swizzle}'", "; ".join(SWIZZLES), rule="smem-descriptor"
            )
        if self.major not in (K, MN):
            raise IsaError(self.major, 0, f"unknown major-ness '{self.major}'", "K, MN")
        if self.major == K and self._mode.base == 5:
            refuse(
                "smem-major",
                "no K-major layout is documented for swizzle 128B, 32B atoms",
                "128B, 64B, 32B, none; or MN-major",
            )
        step = LINE if self._mode.bits else UNIT
        if self.start % step or self.start < 0:
            refuse("smem-unaligned", f"a {self.swizzle} tile at byte {self.start}", f"a multiple of {step}")
        for name, size, unit in (("rows", self.rows, self._row_step), ("columns", self.columns, self._column_step)):
            if size < 1 or size % unit:
                refuse(
                    "smem-size",
                    f"{size} {name} of {self.element}, {self.major}-major, swizzle {self.swizzle}",
                    f"a multiple of {unit}",
                )
        if self.start + self.size > WINDOW:
            refuse("smem-window", f"{self.size} bytes at {self.start}", f"up to byte {WINDOW - 1}")

    @property
    def _mode(self) -> Swizzle:
        return SWIZZLES[self.swizzle]

    @property
    def _packing(self) -> Packing:
        return packing(self.element)

    @property
    def _span(self) -> int:
        """The number of elements in one row of the swizzle."""
        return self._mode.units * self._packing.per_unit

    @property
    def _row_step(self) -> int:
        return 8 if self.major == K else self._span

    @property
    def _column_step(self) -> int:
        return self._packing.per_unit if self.major == K else self._mode.k_rows

    @property
    def _atoms(self) -> tuple[int, int]:
        """The number of atoms along M or N, and along K."""
        return self.rows // self._row_step, -(-self.columns // (self._span if self.major == K else self._mode.k_rows))

    @property
    def _atom_bytes(self) -> int:
        return UNIT * self._mode.units * (8 if self.major == K else self._mode.k_rows)

    @property
    def size(self) -> int:
        """Bytes that the tile takes, from `start` on."""
        return self._atom_bytes * self._atoms[0] * self._atoms[1]

    @property
    def strides(self) -> tuple[int, int]:
        """Bytes from one atom to the next along M or N, and along K."""
        across_rows, across_k = self._atoms
        return (
            (self._atom_bytes * across_k, self._atom_bytes)
            if self.k_first
            else (self._atom_bytes, self._atom_bytes * across_rows)
        )

    @cached_property
    def descriptor(self) -> SharedMemoryDescriptor:
        """The descriptor of the tile's beginning. In a K-major swizzle the leading offset is not used; it is 16, as
        CUTLASS writes it."""
        along_rows, along_k = self.strides
        leading, stride = along_k, along_rows
        if self._mode.bits:
            leading, stride = (UNIT, along_rows) if self.major == K else (along_rows, along_k)
        # offsets of a tile that is one atom wide may not fit their field, and are not used
        leading, stride = (offset if offset < WINDOW else 0 for offset in (leading, stride))
        base = self.start >> 7 & 7 if self._mode.bits and self.start % self._mode.pattern else 0
        return SharedMemoryDescriptor(
            start_address=self.start,
            leading_offset=leading,
            stride_offset=stride,
            base_offset=base,
            swizzle=self.swizzle,
        )

    def at(self, *, k: int = 0, row: int = 0) -> SharedMemoryDescriptor:
        """The descriptor of the part of the tile that begins at this row and this (stored) k.

        K-major, a K step adds 32 bytes to the start address of A and of a dense B, 64 to that of a sparse B, until the
        swizzle row ends (published: CUTLASS, JAX); then, or without swizzle, the next atom follows. IsaError
        ("smem-size") where no descriptor can begin.
        """
        for name, place, size, unit in (
            ("row", row, self.rows, self._row_step),
            ("k", k, self.columns, self._column_step),
        ):
            if place % unit or not 0 <= place < size:
                refuse("smem-size", f"a piece that begins at {name} {place}", f"multiples of {unit} below {size}")
        along_rows, along_k = self.strides
        offset = row // self._row_step * along_rows
        if self.major == K:
            unit = k // self._packing.per_unit
            offset += unit // self._mode.units * along_k + unit % self._mode.units * UNIT
        else:
            offset += k // self._mode.k_rows * along_k
        return self._moved(self.start + offset)

    def bits(self) -> Integers:
        """Addresses in bits, int64 [row, k], of every element of the tile."""
        parts = [
            operand_bits(piece, major=self.major, rows=self.rows, columns=stop - k, element=self.element)
            for k, stop, piece in self._pieces()
        ]
        return np.concatenate(parts, axis=1)

    def read(self, memory: Bytes) -> Bits:
        """The patterns uint32 [row, k] of the whole tile."""
        parts = [
            read_operand(memory, piece, major=self.major, rows=self.rows, columns=stop - k, element=self.element)
            for k, stop, piece in self._pieces()
        ]
        return np.concatenate(parts, axis=1)

    def write(self, memory: Bytes, patterns: Bits) -> None:
        """Writes the whole tile; patterns uint32 [row, k]."""
        if patterns.shape != (self.rows, self.columns):
            raise IsaError(
                str(patterns.shape), -1, "patterns are not of the tile's shape", str((self.rows, self.columns))
            )
        for k, stop, piece in self._pieces():
            write_operand(memory, patterns[:, k:stop], piece, major=self.major, element=self.element)

    def _pieces(self) -> Iterator[tuple[int, int, SharedMemoryDescriptor]]:
        """The parts of the tile that one descriptor reaches, as (first k, one past the last k, descriptor): the whole
        tile, or for K-major tiles one swizzle row of K at a time."""
        step = self._span if self.major == K and self._mode.bits else self.columns
        for k in range(0, self.columns, step):
            yield k, min(k + step, self.columns), self.at(k=k)

    def _moved(self, start: int) -> SharedMemoryDescriptor:
        old = self.descriptor
        return SharedMemoryDescriptor(
            start_address=start,
            leading_offset=old.leading_offset,
            stride_offset=old.stride_offset,
            base_offset=old.base_offset,
            swizzle=self.swizzle,
        )


# tcgen05.cp

# Shape of tcgen05.cp -> rows and bytes of a row in shared memory. PTX ISA 9.0, 9.7.16.2.3 and 9.7.16.9 (tcgen05.cp).
COPY_SHAPES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"128x256b": (128, 32), "4x256b": (4, 32), "128x128b": (128, 16), "64x128b": (64, 16), "32x128b": (32, 16)}
)


def copy_addresses(descriptor: SharedMemoryDescriptor, shape: str) -> Integers:
    """Byte addresses int64 [row, unit] of the 16-byte units that `tcgen05.cp` of this shape reads.

    Core matrices of 8 rows x 16 bytes: the next 8 rows at the stride offset, the second 16 bytes of a 256-bit row at
    the leading offset, or next to the first in a swizzle: the K-major layouts of an operand (published: CUTLASS makes
    the descriptor of a copy as that of a K-major operand; kernels copy 128x256b out of 128B and 64B swizzles). Rows of
    16 bytes use no leading offset. Raises IsaError as `unit_addresses`.
    """
    rows, size = _copy_shape(shape)
    return unit_addresses(descriptor, major=K, lines=rows, units=size // UNIT)


def read_copy(memory: Bytes, descriptor: SharedMemoryDescriptor, shape: str, *, source: str = "") -> Bytes:
    """The bytes uint8 [row, byte] that `tcgen05.cp` of this shape brings to Tensor Memory; a row goes to one lane,
    lowest byte first.

    Args:
        memory: uint8 [bytes].
        descriptor, shape: the source.
        source: "" for bytes as they are; "b4x16_p64" or "b6x16_p32": 16 elements of 4 or 6 bits and their padding in 16
            bytes, made 16 bytes.

    That the source takes as many bytes as the destination is inferred from the names of the formats; that 4 bits come
    in bits 5-2 of their byte, 6 bits in bits 5-0, with zeros around, is inferred.
    """
    rows, size = _copy_shape(shape)
    if source not in ("", *DECOMPRESSIONS):
        raise IsaError(source, 0, f"unknown source format '{source}'", ", ".join(DECOMPRESSIONS))
    element = DECOMPRESSIONS.get(source, "u8")
    return read_operand(memory, descriptor, major=K, rows=rows, columns=size, element=element).astype(np.uint8)


def _copy_shape(shape: str) -> tuple[int, int]:
    if shape not in COPY_SHAPES:
        raise IsaError(shape, 0, f"unknown shape '{shape}' of tcgen05.cp", ", ".join(COPY_SHAPES))
    return COPY_SHAPES[shape]
