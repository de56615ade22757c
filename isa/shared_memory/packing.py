"""How narrow elements fill the 16-byte units of shared memory that `tcgen05.mma` reads, and which bit patterns the
tensor core makes of them.

Every layout of shared memory moves whole units of 16 bytes; inside a unit elements follow one another, lowest bits
first. Elements of 8, 16 and 32 bits fill a unit. Of kinds f8f6f4 and mxf8f6f4, 16 elements take one unit whatever their
width: 4-bit ones 8 bytes and 8 of padding, 6-bit ones 12 and 4 (published: PTX ISA 9.0, 9.7.16, packing formats of
sub-byte types; the tensor-map types .b4x16_p64 and .b6x16_p32). Of kinds mxf4 and mxf4nvf4, 32 elements fill a unit
(published), the first of two in the lower nibble (inferred: one good source, CUTLASS's order).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from isa.errors import IsaError
from isa.types import PACKED_E2M1, Bits, ElementType, Kind, element_type

UNIT = 16  # bytes
DECOMPRESSIONS: Mapping[str, str] = MappingProxyType({"b4x16_p64": "e2m1", "b6x16_p32": "e3m2"})
"""Source formats of `tcgen05.cp` with .b8x16, and a type that is packed like that."""

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Packing:
    """How the elements of one type lie in a 16-byte unit.

    Attributes:
        bits: of an element in memory.
        shift: where its lowest bit is in the pattern (2 for e2m1 in a byte; published for ldmatrix and mma, inferred
            for tcgen05).
        per_unit: elements in 16 bytes.
    """

    bits: int
    shift: int
    per_unit: int

    @property
    def data_bytes(self) -> int:
        """Bytes of a unit that hold elements; padding follows."""
        return self.bits * self.per_unit // 8

    @property
    def mask(self) -> int:
        """The bits of a pattern that memory holds."""
        return (1 << self.bits) - 1 << self.shift

    def units(self, elements: int) -> int:
        """The number of units that this many elements take."""
        return -(-elements // self.per_unit)

    def unpack(self, units: Bytes) -> Bits:
        """Units uint8 [..., n, 16] into patterns uint32 [..., n * per_unit]; padding is dropped."""
        data = np.ascontiguousarray(units)
        lead = data.shape[:-2]
        if self.bits >= 8:
            return data.view(f"<u{self.bits // 8}").reshape(*lead, -1).astype(np.uint32)
        data = data[..., : self.data_bytes]
        if self.bits == 1:
            return np.unpackbits(data, axis=-1, bitorder="little").reshape(*lead, -1).astype(np.uint32)
        if self.bits == 4:
            fields = np.stack([data & 15, data >> 4], axis=-1).astype(np.uint32)
        else:
            triples = data.reshape(*lead, -1, 3).astype(np.uint32)
            words: Bits = np.bitwise_or.reduce(triples << np.arange(0, 24, 8, dtype=np.uint32), axis=-1)
            fields = (words[..., None] >> np.arange(0, 24, 6, dtype=np.uint32)) & np.uint32(63)
        patterns: Bits = fields.reshape(*lead, -1) << np.uint32(self.shift)
        return patterns

    def pack_into(self, units: Bytes, patterns: Bits) -> None:
        """The inverse of `unpack`: writes patterns [..., n * per_unit] into units uint8 [..., n, 16]; padding keeps its
        bytes."""
        shape = (*units.shape[:-1], -1)
        values = patterns >> np.uint32(self.shift)
        if self.bits >= 8:
            units[...] = np.ascontiguousarray(values.astype(f"<u{self.bits // 8}")).view(np.uint8).reshape(units.shape)
        elif self.bits == 1:
            units[...] = np.packbits(values.astype(np.uint8), axis=-1, bitorder="little").reshape(units.shape)
        elif self.bits == 4:
            pairs = values.reshape(*values.shape[:-1], -1, 2)
            units[..., : self.data_bytes] = (pairs[..., 0] | pairs[..., 1] << 4).astype(np.uint8).reshape(shape)
        else:
            words = np.bitwise_or.reduce(
                values.reshape(*values.shape[:-1], -1, 4) << np.arange(0, 24, 6, dtype=np.uint32), axis=-1
            )
            triples = (words[..., None] >> np.arange(0, 24, 8, dtype=np.uint32)) & np.uint32(255)
            units[..., : self.data_bytes] = triples.astype(np.uint8).reshape(shape)


def packing(element: str | ElementType) -> Packing:
    """The packing of a type; by name, "e2m1" is the one of f8f6f4 and mxf8f6f4, `isa.types.PACKED_E2M1` that of mxf4
    and mxf4nvf4.

    Raises IsaError for types that no operand of `tcgen05.mma` in shared memory can have.
    """
    return _packing(element_type(element))


@lru_cache(maxsize=64)
def _packing(element: ElementType) -> Packing:
    if element == PACKED_E2M1:
        return Packing(4, 0, 32)
    if element.bits == 8 and element.kind is Kind.FLOAT and element.signed:
        stored = 1 + element.exponent + element.fraction
        return Packing(stored, element.padding, 16)
    if element.bits in (1, 8, 16, 32):
        return Packing(element.bits, 0, 128 // element.bits)
    raise IsaError(
        str(element),
        -1,
        f"no operand of wgmma or tcgen05.mma in shared memory has type {element}",
        "types of 1, 8, 16 or 32 bits, or packed e2m1",
    )


def operand_element(name: str, kind: str) -> ElementType:
    """The type that an instruction descriptor's name means for a kind: e2m1 is packed with mxf4 and mxf4nvf4, in bytes
    otherwise."""
    return PACKED_E2M1 if name == "e2m1" and kind in ("mxf4", "mxf4nvf4") else element_type(name)
