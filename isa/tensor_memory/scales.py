"""Where the scale factors of the block-scaled kinds of `tcgen05.mma` lie in Tensor Memory.

Factor j of row m of A (in this CTA), or of column m of B:

    lane m%32, and again 32, 64 and 96 lanes higher    column base + m/32    byte id + j

where id is the a_scale_id or b_scale_id of the instruction descriptor. 128 rows take 4 columns. With cta_group::2 each
CTA holds the factors of its own rows of A and of all columns of B. In layout B (dense, M = 128, cta_group::2) the
halves of B's columns lie apart: half p in lanes 64p to 64p + 31, and again 32 higher. K = 96 (3 or 6 factors, sm_103a)
is not covered.

Blocks are counted in logical K: with a sparse A a factor covers twice as many columns as the name of the vector size
says.

Evidence: published (CUTLASS tmem_sf_frg, JAX; PTX ISA 9.0, 9.7.16.10.7 for factors and ids); layout B's columns of B:
published (CUTLASS, ScaleFactorDuplicated2by2), for N a multiple of 64 alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.descriptors.instruction import InstructionDescriptor, legal_m, legal_n
from isa.errors import IsaError
from isa.forms.tcgen05_rows import KIND_ROWS
from isa.mapping import Digit, Fixed, Mapping
from isa.shared_memory.packing import Bytes
from isa.tensor_memory.address import QUARTER, TMEM_LANES
from isa.tensor_memory.copies import copy
from isa.tensor_memory.datapath import datapath
from isa.types import Bits, pack, typed, unpack

SECTION = "PTX ISA 9.0, 9.7.16.10.7 (block scaling)"
BYTES = 4
BLOCK = 128  # rows or columns whose factors one tcgen05.cp.32x128b brings
_BLOCK_COLUMNS = BLOCK // QUARTER
_TYPES = {"mxf8f6f4": "e4m3", "mxf4": "e2m1", "mxf4nvf4": "e2m1"}  # any type of the kind, to ask for its K


class Gathered(NamedTuple):
    """Scale factors read from Tensor Memory.

    Attributes:
        patterns: uint32 [..., row or column, factor], of the lowest copy.
        differs: where the copies are not all the same, same shape: the result of such an instruction is not defined.
    """

    patterns: Bits
    differs: NDArray[np.bool_]


def scale_factors(kind: str, vector: str = "") -> int:
    """Factors of a row or column in one instruction (K = 96 apart): 1, 2 or 4; raises IsaError for a vector size that
    the kind has not.

    >>> scale_factors("mxf4nvf4", "block16"), scale_factors("mxf8f6f4")
    (4, 1)
    """
    row = next((row for row in KIND_ROWS if row.kind == kind and row.vectors), None)
    if row is None:
        raise IsaError(
            str(kind),
            0,
            f".kind::{kind} has no scale factors",
            ", ".join(r.kind for r in KIND_ROWS if r.vectors),
            section=SECTION,
            rule="idesc",
        )
    factors_of = {v.spelling.removeprefix("scale_vec::"): v.factors for v in row.vectors}
    if vector.removeprefix("scale_vec::") not in factors_of:
        legal = ", ".join(name or "none" for name in factors_of)
        raise IsaError(vector, 0, f".kind::{kind} has no vector size '{vector}'", legal, section=SECTION, rule="idesc")
    return factors_of[vector.removeprefix("scale_vec::")]


def k_per_factor(kind: str, vector: str = "", sparse: bool = False) -> int:
    """Logical columns of A, rows of B, that a factor scales; twice as many if A is sparse. CUTLASS, JAX: published."""
    factors = scale_factors(kind, vector)
    element = _TYPES[kind]
    return InstructionDescriptor(kind, m=128, n=128, a_type=element, b_type=element, sparse=sparse).k // factors


@dataclass(frozen=True)
class TmemScales:
    """The scale factors of A or of B of one instruction, as one CTA holds them.

    Attributes:
        operand: "a" or "b".
        vectors: rows of A in this CTA, or columns of B.
        factors: of each, 1, 2 or 4.
        parts: 2 where the columns of B lie in two halves (layout B), else 1.
    """

    operand: str
    vectors: int
    factors: int
    parts: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows or columns, and factors of each."""
        return self.vectors, self.factors

    @property
    def ids(self) -> tuple[int, ...]:
        """Legal ids: the first byte of the factors in their column."""
        return tuple(range(0, BYTES, self.factors))

    @property
    def columns(self) -> int:
        """Columns of Tensor Memory, the last perhaps filled in part."""
        return -(-self.vectors // (QUARTER * self.parts))

    @property
    def copies(self) -> int:
        """How often each factor is stored."""
        return 4 // self.parts

    def mapping(self, id: int = 0) -> Mapping:
        """Places (lane, column from the base, byte) <-> coordinates (row or n, factor, copy); raises IsaError for an
        illegal id.

        The first coordinate goes on to the end of the last column: those from `vectors` on are not read.
        """
        if id not in self.ids:
            legal = " or ".join(map(str, self.ids))
            raise IsaError(
                str(id),
                -1,
                f"scale factor id {id} with {self.factors} factors",
                legal,
                section=SECTION,
                rule="scale-ids",
            )
        return _mapping(self, int(id))

    def gather(self, words: Bits, id: int = 0) -> Gathered:
        """Cells uint32 [..., 128 lanes, columns] -> the factors, and where their copies differ; raises IsaError for an
        illegal id or another shape."""
        lane, column, byte = (grid[: self.vectors] for grid in self.mapping(id).grid)
        words = typed(words, np.uint32, (TMEM_LANES, self.columns), f"scale factors of {self.operand}: cells")
        every = (words[..., lane, column] >> (8 * byte).astype(np.uint32)) & np.uint32(255)
        return Gathered(every[..., 0], (every != every[..., :1]).any(axis=-1))

    def scatter(self, patterns: Bits, id: int = 0, rest: Bits | None = None) -> Bits:
        """Factors uint32 [..., row or column, factor] -> cells uint32 [..., 128 lanes, columns], all copies; other
        bytes keep `rest` (default 0)."""
        lane, column, byte = (grid[: self.vectors] for grid in self.mapping(id).grid)
        patterns = typed(patterns, np.uint32, self.shape, f"scale factors of {self.operand}: patterns")
        if patterns.size and int(patterns.max()) > 255:
            raise IsaError(
                str(int(patterns.max())),
                -1,
                f"a scale factor of {int(patterns.max())}",
                "patterns of 8 bits",
                section=SECTION,
            )
        fields = np.zeros((*patterns.shape[:-2], TMEM_LANES, self.columns, BYTES), np.uint32)
        if rest is not None:
            fields[...] = unpack(
                typed(rest, np.uint32, (TMEM_LANES, self.columns), f"scale factors of {self.operand}: cells")[
                    ..., None
                ],
                8,
            )
        fields[..., lane, column, byte] = patterns[..., None]
        return pack(fields, 8)[..., 0]

    def image(self, patterns: Bits, id: int = 0) -> Bytes:
        """Factors -> bytes uint8 [..., block, 32, 16] in shared memory: each block of 128 rows or columns for one
        `tcgen05.cp.32x128b.warpx4`.

        Byte of (m, factor j) in its block: 16 * (m%32) + 4 * (m/32) + id + j (published: CUTLASS, JAX). Raises IsaError
        in layout B's two halves."""
        self._whole()
        words = self._padded(self.scatter(patterns, id))
        return np.stack(
            [
                copy("32x128b", "warpx4").gather(words[..., column : column + _BLOCK_COLUMNS])
                for column in self._blocks()
            ],
            axis=-3,
        )

    def from_image(self, image: Bytes, id: int = 0) -> Bits:
        """The inverse of `image`, through the copy: bytes uint8 [..., block, 32, 16] -> factors uint32 [..., row or
        column, factor]."""
        self._whole()
        image = typed(image, np.uint8, (len(self._blocks()), QUARTER, 16), f"scale factors of {self.operand}: image")
        blocks = copy("32x128b", "warpx4").scatter(image)
        words = np.concatenate([blocks[..., i, :, :] for i in range(blocks.shape[-3])], axis=-1)
        return self.gather(words[..., : self.columns], id).patterns

    def _whole(self) -> None:
        if self.parts > 1:
            raise IsaError(
                "32x128b",
                -1,
                "tcgen05.cp.32x128b.warpx4 repeats everything in all quarters",
                "64x128b.warpx2::01_23 in layout B",
                section=SECTION,
            )

    def _blocks(self) -> range:
        return range(0, self.columns, _BLOCK_COLUMNS)

    def _padded(self, words: Bits) -> Bits:
        """Cells with columns of zeros up to whole blocks."""
        return np.concatenate(
            [words, np.zeros((*words.shape[:-1], -self.columns % _BLOCK_COLUMNS), np.uint32)], axis=-1
        )


def tmem_scales(
    kind: str, operand: str, *, m: int, n: int, vector: str = "", cta_group: int = 1, sparse: bool = False
) -> TmemScales:
    """The scale factors of one side of a block-scaled instruction. PTX ISA 9.0, 9.7.16.10.7.

    Args:
        kind: "mxf8f6f4", "mxf4" or "mxf4nvf4".
        operand: "a" or "b".
        m, n: of the instruction, of both CTAs together.
        vector: vector size as it is spelt, e.g. "2X" or "block16"; mxf4nvf4 has no default.

    Raises:
        IsaError: no such instruction; or layout B with an N whose halves do not fill whole quarters, of which no source
            tells.
    """
    factors = scale_factors(kind, vector)
    for name, value, legal in (("M", m, legal_m), ("N", n, legal_n)):
        right = legal(kind, cta_group=cta_group, sparse=sparse)
        if value not in right:
            form = f".kind::{kind}, cta_group::{cta_group}" + ", .sp" * sparse
            raise IsaError(
                str(value),
                -1,
                f"{name} = {value} with {form}",
                f"one of {', '.join(map(str, right))}",
                section="PTX ISA 9.0, 9.7.16.2.1",
                rule="idesc",
            )
    if operand not in ("a", "b"):
        raise IsaError(str(operand), 0, f"unknown operand '{operand}'", "a or b")
    layout = datapath(m, cta_group, sparse)
    parts = layout.parts if operand == "b" else 1
    if n % (QUARTER * parts) and parts > 1:
        reason = f"scale factors of B with N = {n} in layout {layout.name}: no source says where they lie"
        raise IsaError(
            str(n), -1, reason, f"a multiple of {QUARTER * parts}", section="CUTLASS tmem_sf_frg", rule="idesc"
        )
    return _scales(operand, layout.rows if operand == "a" else n, factors, parts)


@lru_cache(maxsize=256)
def _scales(operand: str, vectors: int, factors: int, parts: int) -> TmemScales:
    return TmemScales(operand, vectors, factors, parts)


@lru_cache(maxsize=512)
def _mapping(scales: TmemScales, id: int) -> Mapping:
    axis = "row" if scales.operand == "a" else "n"
    half = QUARTER * scales.columns
    digits = (
        Digit("lane", 1, QUARTER, axis, 1),
        Digit("column", 1, scales.columns, axis, QUARTER),
        Digit("lane", 2 * QUARTER, scales.parts, axis, half),
        Digit("lane", QUARTER, scales.copies, "copy", 1),
        Digit("byte", 1, scales.factors, "factor", 1),
    )
    fixed = (
        (Fixed("byte", scales.factors, BYTES // scales.factors, id // scales.factors),)
        if scales.factors < BYTES
        else ()
    )
    places = (("lane", TMEM_LANES), ("column", scales.columns), ("byte", BYTES))
    axes = ((axis, half * scales.parts), ("factor", scales.factors), ("copy", scales.copies))
    return Mapping(places, axes, tuple(d for d in digits if d.size > 1), fixed)
