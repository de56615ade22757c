"""The fields of a tensor map: the codes of its values, and where they stand among its 1,024 bits.

Measured: see `isa.descriptors.tensor_map`. The driver of an H200 refuses what Blackwell brought (sub-byte types, larger
atoms of the swizzle); their codes and places are those that ptxas 13.0 gives `tensormap.replace` of sm_100a and
sm_103a, which it turns into loads, logic and stores (`measurements/tensor_maps/read_replacements.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class TensorType(NamedTuple):
    """The type of a tensor's elements.

    Attributes:
        name: as `tensormap.replace` spells it, without the dot.
        bytes: of one element; of sub-byte types of the `group` elements that are copied as one.
        code: in the map.
        tf32: whether the map's bit for TF32 is set.
        driver: number of its `CUtensorMapDataType`.
        floating: whether elements outside the tensor can be NaN.
        group: elements in those bytes.
        padded: bytes that they take in shared memory; 0: as many.
    """

    name: str
    bytes: int
    code: int
    tf32: int
    driver: int
    floating: bool
    group: int = 1
    padded: int = 0

    @property
    def shared_bytes(self) -> int:
        """Bytes in shared memory of what is copied as one."""
        return self.padded or self.bytes


TYPES = (
    TensorType("u8", 1, 0, 0, 0, False),
    TensorType("u16", 2, 1, 0, 1, False),
    TensorType("u32", 4, 2, 0, 2, False),
    TensorType("s32", 4, 3, 0, 3, False),
    TensorType("u64", 8, 4, 0, 4, False),
    TensorType("s64", 8, 5, 0, 5, False),
    TensorType("f16", 2, 6, 0, 6, True),
    TensorType("f32", 4, 7, 0, 7, True),
    TensorType("f32.ftz", 4, 8, 0, 10, True),
    TensorType("f64", 8, 9, 0, 8, True),
    TensorType("bf16", 2, 10, 0, 9, True),
    TensorType("tf32", 4, 7, 1, 11, True),
    TensorType("tf32.ftz", 4, 8, 1, 12, True),
    TensorType("b4x16", 1, 11, 0, 13, False, 2),
    TensorType("b4x16_p64", 8, 12, 0, 14, False, 16, 16),
    TensorType("b6x16_p32", 12, 13, 0, 15, False, 16, 16),
)  # in the order of the immediates of tensormap.replace .elemtype: PTX ISA 9.0, 9.7.9.28
HOPPER_TYPES = 13  # the first of them that only Blackwell has
TYPE_OF_NAME = {kind.name: kind for kind in TYPES}
TYPE_OF_CODE = {(kind.code, kind.tf32): kind for kind in TYPES}
TYPE_OF_DRIVER = {kind.driver: kind for kind in TYPES}
BYTES = 128  # of a map
INTERLEAVES = (0, 16, 32)  # bytes of a slice; by code
SWIZZLES = (0, 32, 64, 128, 96)  # bytes of a row of the pattern; by code, of which the third bit stands apart
ATOMS = ((16, 0), (32, 0), (32, 8), (64, 0))  # bytes that a swizzle keeps together, and swaps in odd lines; by code
DRIVER_SWIZZLES = ((0, 0), (1, 0), (2, 0), (3, 0), (3, 1), (3, 2), (3, 3))  # codes of both, by CUtensorMapSwizzle
PROMOTIONS = (0, 64, 128, 256)  # bytes that L2 fetches; by code
FILLS = ("zeros", "nan")  # by code
CORNER_BITS = {3: 16, 4: 8, 5: 5}  # of an im2col corner, by rank
ALIGNMENTS = (16, 256, 512, 1024, 256)  # of the box in shared memory, by code of the swizzle: the map's last word


@dataclass(frozen=True)
class Place:
    """A run of bits of the map: its first bit, and how many."""

    low: int
    width: int

    def get(self, word: int) -> int:
        """The bits of a map of 1,024 bits."""
        return word >> self.low & (1 << self.width) - 1

    def put(self, word: int, value: int) -> int:
        """The map with these bits set to the lowest bits of a value."""
        mask = (1 << self.width) - 1
        return word & ~(mask << self.low) | (value & mask) << self.low


ADDRESS, IM2COL, RANK, TYPE = Place(0, 64), Place(64, 1), Place(68, 3), Place(71, 4)
INTERLEAVE, SWIZZLE, FILL, TF32, PROMOTION = Place(75, 2), Place(77, 2), Place(79, 1), Place(80, 1), Place(81, 2)
ATOM, SWIZZLE_HIGH = Place(83, 3), Place(86, 1)
STRIDES = tuple(Place(96 + 32 * index, 32) for index in range(4))  # bits 4 to 35 of the bytes
STRIDES_HIGH = tuple(Place(224 + 4 * index, 4) for index in range(4))  # bits 36 to 39
SIZES = tuple(Place(256 + 32 * index, 32) for index in range(5))  # less 1
ELEMENT_STRIDES = tuple(Place(416 + 3 * index, 3) for index in range(5))  # less 1
BOX = tuple(Place(440 + 8 * index, 8) for index in range(5))  # less 1; im2col: the first alone, the channels
LOWER, UPPER, PIXELS = Place(448, 16), Place(464, 16), Place(480, 10)  # corners; pixels less 1
BOX_BYTES, ALIGNMENT = Place(512, 24), Place(576, 16)
