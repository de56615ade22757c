"""The matrix descriptor of `wgmma`: where A or B lies in shared memory and how it is swizzled.

Sources: PTX ISA 9.0, 9.7.15.5.1.2.2 (matrix descriptor format); CUTLASS, GmmaDescriptor of
include/cute/arch/mma_sm90_desc.hpp. Every field, and bits that are none, measured on an NVIDIA H100, November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from isa.descriptors.bitfields import Field, Severity, reserved
from isa.descriptors.fields import table_markdown
from isa.mapping import Integers
from isa.shared_memory.descriptor import SWIZZLES as BLACKWELL
from isa.shared_memory.layout import unit_addresses
from isa.shared_memory.matrix_descriptor import BASE, START, STRIDE, MatrixDescriptor, Swizzle, leading, swizzle_names

SWIZZLES: Mapping[str, Swizzle] = {
    name: BLACKWELL[name]._replace(code=code) for code, name in enumerate(("none", "128B", "64B", "32B"))
}
TABLE = (
    START,
    reserved(14, 2, "no field", severity=Severity.WARNING),
    leading(),
    reserved(30, 2, "no field", severity=Severity.WARNING),
    STRIDE,
    reserved(46, 3, "no field", severity=Severity.WARNING),
    BASE,
    reserved(52, 10, "no field", severity=Severity.WARNING),
    Field("swizzle", 62, 2, "swizzle mode", names=swizzle_names(SWIZZLES)),
)


@dataclass(frozen=True)
class WgmmaDescriptor(MatrixDescriptor):
    """The 64-bit descriptor of a matrix of `wgmma` in shared memory.

    >>> hex(WgmmaDescriptor(start_address=1024, stride_offset=1024, leading_offset=16, swizzle="128B").encode())
    '0x4000004000010040'
    """

    TITLE: ClassVar[str] = "matrix descriptor of wgmma"
    TABLE: ClassVar[tuple[Field, ...]] = TABLE
    SOURCE: ClassVar[str] = "PTX ISA 9.0, 9.7.15.5.1.2.2"
    RULE: ClassVar[str] = "smem-descriptor"
    SWIZZLES: ClassVar[Mapping[str, Swizzle]] = SWIZZLES
    CROSSES_ROWS: ClassVar[bool] = True


def of_hopper(descriptor: MatrixDescriptor) -> WgmmaDescriptor:
    """The descriptor of Hopper that names the same matrix as one of Blackwell; IsaError for a swizzle that Hopper
    lacks."""
    names = ("start_address", "leading_offset", "stride_offset", "base_offset", "swizzle")
    return WgmmaDescriptor(**{name: getattr(descriptor, name) for name in names})


@lru_cache(maxsize=2048)
def unit_addresses_of(word: int, major: str, lines: int, units: int) -> Integers:
    """As `isa.shared_memory.layout.unit_addresses`, of the descriptor that is this word; an array that is not to be
    changed."""
    addresses = unit_addresses(WgmmaDescriptor.decode(word), major=major, lines=lines, units=units)
    addresses.setflags(write=False)
    return addresses


def wgmma_markdown() -> str:
    """The part of docs/descriptors.md on this descriptor."""
    return f"""## Matrix descriptor of wgmma

64 bits, by which `wgmma.mma_async` reads A and B on Hopper. {WgmmaDescriptor.SOURCE}.

{table_markdown(TABLE)}

The canonical layouts are those above, K-major and MN-major, without 32-byte atoms. All of it is measured on an H100,
with random starts, strides and base offsets: the swizzle is the XOR of address bits 4 to 6 with bits 7 to 9 of the
address less 128 bytes for each of the base offset; a start inside a swizzle row is added before the XOR; and a K-major
row that is wider than its swizzle (64 bytes of a sparse product's B with 32B) goes on at the leading offset, as it does
from unit to unit without swizzle."""
