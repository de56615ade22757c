"""A tile of a GEMM by `tcgen05.mma`: the part of D that a CTA, or a pair of CTAs, computes at a time.

D[m][n] = sum over k of A[m][k] * B[n][k]. One instruction has the tile's rows and columns: 128 rows with one CTA
(cta_group::1), 256 with a pair, each of which holds half of the rows of A and of D, and half of the columns of B. An
iteration brings A (as it is stored), B, the metadata and the scale factors to one of `stages` places in shared memory,
in the canonical K-major layouts; D stays in Tensor Memory, twice if there is room, so that one tile is stored while the
next is multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from isa import IsaError, Target, decode
from isa.descriptors.instruction import InstructionDescriptor
from isa.forms.tcgen05_rows import KIND_ROWS
from isa.shared_memory.packing import operand_element, packing
from isa.shared_memory.tile import Tile as SharedTile
from isa.tensor_memory.metadata import TILE_CHUNKS, TmemMetadata, tmem_metadata
from isa.tensor_memory.scales import BLOCK, TmemScales, k_per_factor, scale_factors, tmem_scales
from isa.types import ElementType
from simulator.studies.gemm.tile import tile_sizes

KIND_OF = {
    "f16": "f16", "bf16": "f16", "tf32": "tf32", "e4m3": "f8f6f4", "e5m2": "f8f6f4", "e3m2": "f8f6f4",
    "e2m3": "f8f6f4", "e2m1": "f8f6f4", "s8": "i8", "u8": "i8",
}  # fmt: skip
"""The kind without block scales that multiplies a type."""

SCALED = {"mxf8f6f4": ("scale_vec::1X", "ue8m0"), "mxf4": ("scale_vec::2X", "ue8m0"),
          "mxf4nvf4": ("scale_vec::4X", "ue4m3")}  # fmt: skip
"""Kinds with block scales: the vector size that is used, and the type of the factors."""

ROW = 128  # bytes of a row of the widest swizzle
STAGES = tuple(range(2, 9))
WARPS = 8  # four that store D, one that multiplies, three that copy
COLUMNS = 512  # of Tensor Memory
META_BYTES, SCALE_BYTES = 2048, 512  # what one tcgen05.cp.128x128b and one .32x128b.warpx4 read
_CONTROL = 256  # bytes for mbarriers and the address that tcgen05.alloc writes
_PATTERN = 1024  # bytes after which a swizzle repeats


@dataclass(frozen=True)
class Tcgen05Tile:
    """The work of a CTA, or of a pair, at a time.

    Attributes:
        type: the type of A and B, a key of `KIND_OF`.
        bm, bn, bk: rows of A (128; 256 with a pair), rows of B, and columns of K in an iteration.
        stages: how many tiles of A and B are in shared memory at a time.
        sparse: whether A is sparse: 2:4, 1:2 of tf32, 4:8 in pairs of kinds mxf4 and mxf4nvf4.
        kind: of the instruction; "" for the one without block scales.
        accumulator: the type of D in Tensor Memory and in memory: "f32", or "s32" of kind i8.
        cluster_m, cluster_n: CTAs of a cluster along M and N, which share what they read from L2; 0: those that
            multiply together alone.
    """

    type: str
    bm: int
    bn: int
    bk: int
    stages: int
    sparse: bool = True
    kind: str = ""
    accumulator: str = ""
    cluster_m: int = 0
    cluster_n: int = 0

    def __post_init__(self) -> None:
        if self.type not in KIND_OF:
            raise IsaError(self.type, -1, f"tcgen05.mma does not multiply {self.type}", ", ".join(KIND_OF))
        kind = self.kind or KIND_OF[self.type]
        object.__setattr__(self, "kind", kind)
        legal = kinds_of(self.type)
        if kind not in legal:
            raise IsaError(kind, -1, f".kind::{kind} does not multiply {self.type}", ", ".join(legal))
        own = "s32" if kind == "i8" else "f32"
        if self.accumulator not in ("", own):
            reason = f"the kernels of tcgen05.mma accumulate {self.type} in {own}, not {self.accumulator}"
            raise IsaError(self.accumulator, -1, reason, own)
        object.__setattr__(self, "accumulator", own)
        problem = self.problem()
        if problem:
            raise IsaError(f"{self.type} {self.bm}x{self.bn}x{self.bk}", -1, *problem)
        object.__setattr__(self, "cluster_m", self.cluster_m or self.group)
        object.__setattr__(self, "cluster_n", self.cluster_n or 1)
        self.descriptor(0).check(cta_group=self.group, scale_vec=self.vector.removeprefix("scale_vec::"))

    def __str__(self) -> str:
        where = "a pair of CTAs" if self.group == 2 else "one CTA"
        scaled = f" (kind {self.kind})" if self.scaled else ""
        shape = f"{'sparse' if self.sparse else 'dense'} {self.type}{scaled} {self.bm}x{self.bn}x{self.bk}"
        return f"{shape}, tcgen05.mma by {where}, {self.stages} stages, clusters of {self.cluster_m}x{self.cluster_n}"

    def problem(self) -> tuple[str, str] | None:
        """What is wrong with the tile, and what would be right; None if nothing is wrong."""
        if self.stages not in STAGES:
            return f"{self.stages} stages", ", ".join(map(str, STAGES))
        if self.bm not in (128, 256):
            return f"{self.bm} rows", "128, or 256 for a pair of CTAs: M of tcgen05.mma at its full rate"
        cluster = self.cluster_m or self.group, self.cluster_n or 1
        if any(size not in (1, 2, 4, 8, 16) for size in cluster) or cluster[0] < self.group or prod(cluster) > 16:
            legal = f"{self.group}x1 to 16 CTAs, powers of two, {self.group} or more along M"
            return f"a cluster of {cluster[0]}x{cluster[1]} CTAs", legal
        step = 16 * self.group if not self.sparse and self.kind != "i8" else 32
        if not step <= self.bn <= 256 or self.bn % step:
            return f"{self.bn} columns", f"multiples of {step} to 256, N of tcgen05.mma"
        rows = tuple(ROW // 16 * packing(self.element_name).per_unit * count for count in (1, 2))
        if self.bk not in rows:
            return f"bk = {self.bk}", f"{' or '.join(map(str, rows))} for {self.type}: rows of B of 128 or 256 bytes"
        if self.tmem_columns > COLUMNS:
            return f"{self.tmem_columns} columns of Tensor Memory", f"at most {COLUMNS}: fewer stages, or columns of D"
        return None

    # The instruction

    @property
    def group(self) -> int:
        """CTAs that multiply together: 1, or 2 with 256 rows."""
        return self.bm // 128

    @property
    def scaled(self) -> bool:
        """Whether the kind has scale factors."""
        return self.kind in SCALED

    @property
    def vector(self) -> str:
        """The vector size of the scale factors as the opcode spells it; "" without."""
        return SCALED[self.kind][0] if self.scaled else ""

    @property
    def opcode(self) -> str:
        """The opcode of the matrix instruction."""
        scale = f".block_scale.{self.vector}" if self.scaled else ""
        return f"tcgen05.mma{'.sp' if self.sparse else ''}.cta_group::{self.group}.kind::{self.kind}{scale}"

    def descriptor(self, step: int) -> InstructionDescriptor:
        """The instruction descriptor of a step of an iteration."""
        how: dict[str, Any] = {"m": self.bm, "n": self.bn, "a_type": self.type, "b_type": self.type}
        how["sparse"] = self.sparse
        if self.scaled:
            place = step * scale_factors(self.kind, self.vector) % 4
            how |= {"scale_type": SCALED[self.kind][1], "a_scale_id": place, "b_scale_id": place}
        else:
            how |= {"d_type": self.accumulator}
            if self.sparse:
                how["selector"] = step % len(self.metadata.selectors)
        return InstructionDescriptor(self.kind, **how)

    @cached_property
    def k(self) -> int:
        """Logical K of one instruction."""
        return self.descriptor(0).k

    @property
    def steps(self) -> int:
        """Matrix instructions of an iteration."""
        return self.bk // self.k

    def check_target(self, target: str | Target) -> None:
        """IsaError, the decoder's or the descriptor's, where the target has no such instruction."""
        operands = ["[%r0]", "%rd1", "%rd2", *["[%r3]"] * self.sparse, "%r4", *["[%r5]", "[%r6]"] * self.scaled, "%p1"]
        decode(f"{self.opcode} {', '.join(operands)};", target)
        self.descriptor(0).check(
            cta_group=self.group, target=target, scale_vec=self.vector.removeprefix("scale_vec::"), sparse=self.sparse
        )

    @property
    def element_name(self) -> str | ElementType:
        """What the tiles in shared memory hold: how many bytes an element takes depends on the kind."""
        return operand_element(self.type, self.kind) if self.scaled else self.type

    @property
    def element(self) -> ElementType:
        """The element type of A and B."""
        return operand_element(self.type, self.kind)

    @cached_property
    def metadata(self) -> TmemMetadata:
        """The layout of the metadata in Tensor Memory."""
        return tmem_metadata(self.kind, self.bm, self.group)

    @cached_property
    def scales(self) -> tuple[TmemScales, TmemScales]:
        """The layouts of the scale factors of A and of B of one instruction."""
        how: dict[str, Any] = {"m": self.bm, "n": self.bn, "vector": self.vector, "cta_group": self.group}
        how["sparse"] = self.sparse
        return tmem_scales(self.kind, "a", **how), tmem_scales(self.kind, "b", **how)

    @property
    def block(self) -> int:
        """Logical columns of K that a scale factor covers."""
        return k_per_factor(self.kind, self.vector, self.sparse)

    # Shared memory of a CTA

    @property
    def columns_a(self) -> int:
        """Columns of A as it is stored, in an iteration."""
        return self.bk // 2 if self.sparse else self.bk

    @property
    def rows_a(self) -> int:
        """Rows of A, and of D, in a CTA."""
        return self.bm // self.group

    @property
    def rows_b(self) -> int:
        """Rows of B in a CTA."""
        return self.bn // self.group

    def _tile(self, rows: int, columns: int, start: int) -> SharedTile:
        width = columns // packing(self.element_name).per_unit * 16
        swizzle = {128: "128B", 64: "64B", 256: "128B"}[width]
        return SharedTile(rows, columns, self.element_name, swizzle=swizzle, start=start)

    def tile_a(self, stage: int = 0) -> SharedTile:
        """Where A of a stage lies."""
        return self._tile(self.rows_a, self.columns_a, stage * self.stage_bytes)

    def tile_b(self, stage: int = 0) -> SharedTile:
        """Where B of a stage lies."""
        return self._tile(self.rows_b, self.bk, stage * self.stage_bytes + self.bytes_a)

    @cached_property
    def bytes_a(self) -> int:
        """Bytes of A of a stage in a CTA."""
        return self._tile(self.rows_a, self.columns_a, 0).size

    @cached_property
    def bytes_b(self) -> int:
        """Bytes of B of a stage in a CTA."""
        return self._tile(self.rows_b, self.bk, 0).size

    @property
    def images_e(self) -> int:
        """Copies of metadata to Tensor Memory in an iteration."""
        return -(-self.bk // self.metadata.sparsity.chunk // TILE_CHUNKS) if self.sparse else 0

    @property
    def images_scale(self) -> int:
        """Copies of the scale factors of 128 rows to Tensor Memory in an iteration."""
        return -(-self.steps * scale_factors(self.kind, self.vector) // 4) if self.scaled else 0

    @property
    def blocks_b(self) -> int:
        """Blocks of 128 columns of B, whose scale factors are copied apart."""
        return -(-self.bn // BLOCK)

    @property
    def bytes_extra(self) -> int:
        """Bytes of metadata and scale factors of a stage in a CTA."""
        return META_BYTES * self.images_e + SCALE_BYTES * self.images_scale * (1 + self.blocks_b)

    @property
    def stage_bytes(self) -> int:
        """Bytes of a stage in shared memory, a whole number of swizzle patterns."""
        return -(-(self.bytes_a + self.bytes_b + self.bytes_extra) // _PATTERN) * _PATTERN

    @property
    def control(self) -> int:
        """Where the mbarriers lie in shared memory."""
        return self.stages * self.stage_bytes

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a CTA."""
        return self.control + _CONTROL

    # Tensor Memory

    @property
    def columns_extra(self) -> int:
        """Columns of Tensor Memory for metadata and scale factors of a stage."""
        return 4 * self.images_e + 4 * self.images_scale * (1 + self.blocks_b)

    @property
    def buffers(self) -> int:
        """How many tiles of D are in Tensor Memory at a time: 2 if there is room."""
        return 2 if 2 * self.bn + self.stages * self.columns_extra <= COLUMNS else 1

    @property
    def tmem_columns(self) -> int:
        """Columns of Tensor Memory that are used."""
        return self.buffers * self.bn + self.stages * self.columns_extra

    # What an estimate asks

    @property
    def cluster(self) -> int:
        """CTAs of a cluster."""
        return self.cluster_m * self.cluster_n

    @property
    def tiles_m(self) -> int:
        """Tiles of a cluster along M, which share columns of B."""
        return self.cluster_m // self.group

    @property
    def tiles_n(self) -> int:
        """Tiles of a cluster along N, which share rows of A."""
        return self.cluster_n

    @property
    def warps(self) -> int:
        """Warps of a CTA."""
        return WARPS

    @property
    def bytes_d(self) -> int:
        """Bytes of an element of D."""
        return 4

    @property
    def row_a(self) -> int:
        """Bytes of a row of A, as it is stored, in an iteration."""
        return self.bytes_a // self.rows_a

    @property
    def row_b(self) -> int:
        """Bytes of a row of B in an iteration."""
        return self.bytes_b // self.rows_b

    @property
    def bytes_e(self) -> int:
        """Bytes of metadata and scale factors in an iteration, of all CTAs."""
        return self.bytes_extra * self.group


def kinds_of(type: str) -> tuple[str, ...]:
    """The kinds that multiply a type."""
    kinds = {row.kind for row in KIND_ROWS}
    scaled = {"f8f6f4": ["mxf8f6f4"]}.get(KIND_OF[type], [])
    found = [KIND_OF[type], *scaled, *(["mxf4", "mxf4nvf4"] if type == "e2m1" else [])]
    return tuple(kind for kind in found if kind in kinds)


def parse_tcgen05_tile(
    text: str,
    type: str,
    *,
    stages: int | None = None,
    sparse: bool = True,
    kind: str = "",
    accumulator: str = "",
    shared_bytes: int = 232448,
    cluster: tuple[int, int] = (0, 0),
) -> Tcgen05Tile:
    """A tile from text such as "256x128x128", or "256x128" with rows of 128 bytes of A as it is stored.

    Args:
        cluster: CTAs of a cluster along M and N.
        stages: as many as `shared_bytes` and Tensor Memory hold, but 6 at most, if not given.

    Raises:
        IsaError: no such tile.
    """
    bm, bn, bk = tile_sizes(text, "256x128x128")
    if type not in KIND_OF:
        raise IsaError(type, -1, f"tcgen05.mma does not multiply {type}", ", ".join(KIND_OF))
    name = kind or KIND_OF[type]
    element = operand_element(type, name) if name in SCALED and name in kinds_of(type) else type
    if bk is None:
        bk = ROW // 16 * packing(element).per_unit * (2 if sparse else 1)
    if stages is not None:
        return Tcgen05Tile(type, bm, bn, bk, stages, sparse, kind, accumulator, *cluster)
    least = Tcgen05Tile(type, bm, bn, bk, 2, sparse, kind, accumulator, *cluster)
    fitting = [
        count
        for count in range(2, 7)
        if count * least.stage_bytes + _CONTROL <= shared_bytes
        and least.buffers * bn + count * least.columns_extra <= COLUMNS
    ]
    return Tcgen05Tile(type, bm, bn, bk, max(fitting, default=2), sparse, kind, accumulator, *cluster)
