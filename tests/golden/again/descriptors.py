"""Instruction and shared-memory descriptors of `tcgen05.mma`, from the tables of docs/descriptors.md: what they say,
and whether they are legal. Without `.ws`, for kinds f16, f8f6f4, i8 and mxf8f6f4 on sm_100."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

SMEM_BYTES = 1 << 16
_FLOATS = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
TYPES = {
    "f16": {0: "f16", 1: "bf16"}, "f8f6f4": _FLOATS, "mxf8f6f4": _FLOATS, "i8": {0: "u8", 1: "s8"},
}  # fmt: skip
_BYTES = ("e4m3", "e5m2", "u8", "s8")
_RESULTS = {"f16": {0: "f16", 1: "f32"}, "f8f6f4": {0: "f16", 1: "f32"}, "i8": {2: "s32"}}


class Kind(NamedTuple):
    """What an opcode says.

    Attributes:
        name: the kind.
        sparse: whether A is sparse.
        ctas: how many CTAs execute it.
    """

    name: str
    sparse: bool
    ctas: int

    @property
    def scaled(self) -> bool:
        """Whether it has block scales."""
        return self.name.startswith("mx")

    @property
    def k(self) -> int:
        """Logical columns of A."""
        return (16 if self.name == "f16" else 32) * (2 if self.sparse else 1)

    @property
    def bits(self) -> int:
        """Bits of an element of A or B."""
        return 16 if self.name == "f16" else 8


class Idesc(NamedTuple):
    """What an instruction descriptor says."""

    selector: int
    saturate: bool
    d: str
    a: str
    b: str
    negate: tuple[bool, bool]
    transposed: tuple[bool, bool]
    n: int
    m: int
    ids: tuple[int, int]


def idesc_of(word: int, kind: Kind, a_in_tmem: bool) -> Idesc | None:
    """Reads an instruction descriptor; None for one that is not legal."""

    def bits(first: int, last: int) -> int:
        return word >> first & (1 << last - first + 1) - 1

    n, kinds = bits(17, 22) << 3, TYPES[kind.name]
    a, b = kinds.get(bits(7, 9)), kinds.get(bits(10, 12))
    bad = bits(2, 2) != kind.sparse or bits(6, 6) or a is None or b is None
    saturate, negate, transposed = bool(bits(3, 3)), (bool(bits(13, 13)), bool(bits(14, 14))), bits(15, 16)
    bad = (
        bad or (transposed & 1 and a_in_tmem) or (saturate and kind.name != "i8") or (any(negate) and kind.name == "i8")
    )
    if kind.scaled:
        m, d, selector = bits(27, 28) << 7, "f32", 0
        bad = bad or bits(23, 23) != 1 or bits(24, 26) or bits(31, 31)
        ids = bits(29, 30), bits(4, 5)
    else:
        m, found, selector, ids = bits(24, 28) << 4, _RESULTS[kind.name].get(bits(4, 5)), bits(0, 1), (0, 0)
        d = found or ""
        bad = bad or found is None or bits(23, 23) or bits(29, 31)
        bad = bad or (d == "f16" and "bf16" in (a, b))
        if kind.sparse:
            bad = bad or selector > (kind.name == "f16")
    if bad or m not in _rows(kind) or n not in _columns(kind, bool(transposed & 2) and b in _BYTES):
        return None
    return Idesc(selector, saturate, d, str(a), str(b), negate, (bool(transposed & 1), bool(transposed & 2)), n, m, ids)


def _rows(kind: Kind) -> tuple[int, ...]:
    if kind.scaled:
        return (128,) if kind.ctas == 1 else (256,) if kind.sparse else (128, 256)
    return (64, 128) if kind.ctas == 1 else (128, 256)


def _columns(kind: Kind, transposed: bool) -> Any:
    if transposed:  # of a type of 8 bits
        return range(16 * kind.ctas, 257, 16 * kind.ctas)
    if kind.name == "i8":
        return [8, 24, *range(16, 257, 16)] if kind.ctas == 1 else range(32, 257, 32)
    return range(8 * kind.ctas, 257, 8 * kind.ctas)


def addresses(word: int, rows: int, columns: int, size: int, transposed: bool) -> Any:
    """The byte address of every element [row, k] of an operand of `size` bytes an element in shared memory; None for a
    descriptor that is not legal or reaches beyond the memory."""
    start, leading, stride = (((word >> first) & 0x3FFF) << 4 for first in (0, 16, 32))
    swizzle = word >> 61 & 7
    if word >> 46 & 7 != 1 or word >> 52 & 0x1FF or swizzle in (1, 3, 5, 7):
        return None
    row, k = np.ogrid[:rows, :columns]
    unit, width = 16 // size, {0: 1, 2: 8, 4: 4, 6: 2}[swizzle]  # elements of 16 bytes; how many of these in a row
    if transposed:
        inner, outer = row // unit % width, row // unit // width
        steps = (leading, stride) if swizzle else (stride, leading)
        found = start + row % unit * size + 16 * inner + outer * steps[0] + k % 8 * 16 * width + k // 8 * steps[1]
    else:
        along = k * size
        found = start + row // 8 * stride + row % 8 * 16 * width
        found = found + (along if swizzle else along % 16 + along // 16 * leading)
    found = found ^ (found >> 7 & width - 1) << 4
    return found if int(found.max()) + size <= SMEM_BYTES else None
