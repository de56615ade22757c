"""What the matrix descriptors of Hopper and Blackwell share: swizzles, the fields of a matrix, and which byte holds an
element.

Sources: PTX ISA 9.0, 9.7.15.5.1.2 and 9.7.16.3 (strides, canonical layouts); CUTLASS, include/cute: mma_sm90_desc.hpp,
mma_sm100_desc.hpp and mma_traits_sm90_gmma.hpp. Strides, starts inside the pattern, base offsets and what follows
the row of a swizzle: measured on an NVIDIA H100, November 2026 (tests/golden/launches/wgmma_*), with random values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from isa.descriptors.bitfields import Field, SingleTableDescriptor, Value
from isa.errors import IsaError


class Swizzle(NamedTuple):
    """One swizzle mode.

    Attributes:
        code: value of the field.
        units: 16-byte units in a row of the pattern.
        pattern: bytes after which the pattern repeats, hence the alignment that needs no base offset. Table 41; it
            names "128-Byte swizzle" once, that this covers both 128-byte modes is inferred.
        bits, base, distance: CuTe's Swizzle<bits, base, distance>: address bits [base, base + bits) are XORed with
            those `distance` higher.
        k_rows: k of an MN-major atom.
    """

    code: int
    units: int
    pattern: int
    bits: int
    base: int
    distance: int
    k_rows: int

    def apply(self, address: int, phase: int = 0) -> int:
        """The swizzled address; `phase` is where the pattern starts."""
        picked = ((address - phase) >> (self.base + self.distance)) & ((1 << self.bits) - 1)
        return address ^ (picked << self.base)


START = Field(
    "start_address", 0, 14, "first byte of the matrix in shared memory (18 bits, without the four lowest)", shift=4
)
STRIDE = Field("stride_offset", 32, 14, "stride dimension byte offset, without the four lowest bits", shift=4)
BASE = Field("base_offset", 49, 3, "(start of the swizzle pattern >> 7) & 7; 0 where it is aligned to its size")


def leading(also: str = "") -> Field:
    """The field of the leading dimension's offset; `also`: what else it may be."""
    return Field(
        "leading_offset", 16, 14, f"leading dimension byte offset{also}, without the four lowest bits", shift=4
    )


def swizzle_names(swizzles: Mapping[str, Swizzle]) -> dict[str, dict[int, Value]]:
    """The codes of a field of swizzle modes, for `Field.names`."""
    return {"": {mode.code: name for name, mode in swizzles.items()}}


@dataclass(frozen=True)
class MatrixDescriptor(SingleTableDescriptor):
    """The descriptor of a matrix in shared memory; addresses and offsets in bytes, multiples of 16 below 2^18."""

    WIDTH: ClassVar[int] = 64
    SWIZZLES: ClassVar[Mapping[str, Swizzle]] = {}
    CROSSES_ROWS: ClassVar[bool] = False  # whether it is known what follows the row of a swizzle

    start_address: int = field(default=0, kw_only=True)
    leading_offset: int = field(default=0, kw_only=True)
    stride_offset: int = field(default=0, kw_only=True)
    base_offset: int = field(default=0, kw_only=True)
    swizzle: Value = field(default="none", kw_only=True)

    @property
    def mode(self) -> Swizzle:
        """The swizzle mode; raises IsaError for a code that stands for none."""
        if isinstance(self.swizzle, int):
            raise IsaError(
                str(self.swizzle), -1, f"swizzle code {self.swizzle} is invalid", ", ".join(self.SWIZZLES),
                rule=self.RULE,
            )  # fmt: skip
        return self.SWIZZLES[self.swizzle]

    @property
    def two_chunks(self) -> bool:
        """Whether the leading offset is the address of a second chunk."""
        return False

    def byte_address(self, row: int, byte: int = 0, *, transposed: bool = False, element_bytes: int = 1) -> int:
        """The shared-memory byte of a place in the matrix.

        Args:
            row: K-major: row of A or column of B. MN-major: k.
            byte: along the contiguous dimension. K-major: k times the bytes of an element. MN-major: row of A or column
                of B, times those bytes.
            transposed: MN-major.
            element_bytes: for the check that `byte` starts an element.

        Raises IsaError where there is no such place, or no layout is documented.
        """
        if row < 0 or byte < 0 or byte % element_bytes:
            raise IsaError(
                f"row {row}, byte {byte}",
                -1,
                "no place in the matrix",
                f"not negative, bytes in steps of {element_bytes}",
                rule=self.RULE,
            )
        self.check_place(byte, transposed)
        linear = self.start_address + self.unit_offset(row, byte // 16, transposed=transposed) + byte % 16
        return self.mode.apply(linear, self.base_offset << 7)

    def check_place(self, byte: int, transposed: bool) -> None:
        """Raises IsaError if no layout is documented for this byte of a row."""

    def unit_offset(self, line: Any, unit: Any, *, transposed: bool) -> Any:
        """Bytes from the start to a 16-byte unit, before the swizzle; integers or integer arrays that broadcast.

        Eight lines make an atom (four k with 32-byte atoms), whose lines are as wide as the row of the swizzle. Along a
        line the next atom is at the leading offset, across lines at the stride offset; an MN-major matrix without
        swizzle has them exchanged.

        Args:
            line: K-major: row of A or column of B. MN-major (`transposed`): k.
            unit: along the contiguous dimension.
        """
        mode = self.mode
        lines = mode.k_rows if transposed else 8
        along, across = self.leading_offset, self.stride_offset
        if transposed and mode.units == 1:
            along, across = across, along
        return (
            line % lines * 16 * mode.units
            + line // lines * across
            + unit % mode.units * 16
            + unit // mode.units * along
        )
