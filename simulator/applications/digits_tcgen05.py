"""What the tcgen05 traces share: forms, the plans of shared memory and Tensor Memory, and the way from stored bytes
back to matrices.

The layer is D[128 outputs x images] = W[128 x 128, sparse] * X[128 x images] + bias in each CTA. W is A, the images are
the columns of B. Where an element lies comes from `isa`; this file says only where tiles lie. Needs numpy and `isa`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.descriptors.instruction import InstructionDescriptor
from isa.fragments.metadata import stored_columns
from isa.shared_memory.packing import operand_element
from isa.shared_memory.tile import Tile
from isa.tensor_memory.address import TMEM_LANES
from isa.tensor_memory.datapath import DatapathLayout, datapath
from isa.tensor_memory.metadata import TILE_CHUNKS, TmemMetadata, tmem_metadata
from isa.tensor_memory.moves import Move, move
from isa.tensor_memory.scales import TmemScales, tmem_scales
from isa.types import ELEMENT_TYPES, SCALE_TYPES, ElementType
from simulator.applications.digits_plan import LANES, SIZE, Floats, Words, values

WARPS = 8  # two groups of four: each group of four reaches all lanes of Tensor Memory
N = 192  # images of one instruction, and columns of D that a group of warps brings home
D_COLUMNS = 2 * N
LOAD_COLUMNS = 64  # columns of D that one tcgen05.ld brings
PATTERN = 1024  # bytes after which a 128B swizzle repeats: every tile starts at a multiple
META_BYTES, SCALE_BYTES = 2048, 512  # what one tcgen05.cp.128x128b and one .32x128b.warpx4 read
META_AT, SCALE_A_AT, SCALE_B_AT = D_COLUMNS, D_COLUMNS + 8, D_COLUMNS + 12  # columns of Tensor Memory
SCALE_B_COLUMNS = 8  # of one tile of 192 images: two copies of 4 columns
VECTOR = "scale_vec::4X"
BLOCK = 32  # logical columns of a scale factor: .scale_vec::4X says 16, and A is sparse
SWIZZLE_OF_ROW = {128: "128B", 64: "64B", 32: "32B"}

Arrays = Mapping[str, NDArray[Any]]


class Block(NamedTuple):
    """A block of D: rows of W from `row`, images from `image`, at this lane and column of Tensor Memory."""

    row: int
    image: int
    lane: int
    column: int


@dataclass(frozen=True)
class TmemPlan:
    """One trace.

    Attributes:
        name: of the trace and its data.
        kind: of tcgen05.mma.
        type: of A and B, as the instruction descriptor names it.
        accumulator: type of D.
        m: of the instruction.
        networks: the pruned networks of weights.npz, one for each CTA; "4of8" is made of the dense one.
        lanes: base lanes of D: two where the halves of W take turns in the lanes (layout F).
        images: how many of the test images the trace runs, from the first.
    """

    name: str
    kind: str
    type: str
    accumulator: str
    m: int = SIZE
    networks: tuple[str, ...] = ("2of4",)
    lanes: tuple[int, ...] = (0,)
    images: int = 384

    @property
    def group(self) -> int:
        """CTAs of the trace: cta_group."""
        return len(self.networks)

    @property
    def scaled(self) -> bool:
        return self.kind.startswith("mx")

    @property
    def opcode(self) -> str:
        scale = f".block_scale.{VECTOR}" if self.scaled else ""
        return f"tcgen05.mma.sp.cta_group::{self.group}.kind::{self.kind}{scale}"

    @cached_property
    def element(self) -> ElementType:
        return operand_element(self.type, self.kind)

    @cached_property
    def layout(self) -> DatapathLayout:
        return datapath(self.m, self.group, sparse=True)

    @cached_property
    def metadata(self) -> TmemMetadata:
        return tmem_metadata(self.kind, self.m, self.group)

    def descriptor(self, selector: int = 0) -> InstructionDescriptor:
        """The instruction descriptor."""
        how: dict[str, Any] = {"m": self.m, "n": N, "a_type": self.type, "b_type": self.type, "sparse": True}
        if self.scaled:
            return InstructionDescriptor(self.kind, **how, scale_type="ue4m3")
        return InstructionDescriptor(self.kind, **how, d_type=self.accumulator, selector=selector)

    @cached_property
    def k(self) -> int:
        """Logical K of an instruction."""
        return self.descriptor().k

    @property
    def steps(self) -> int:
        return SIZE // self.k

    # Shared memory

    def _tile(self, rows: int, columns: int, start: int) -> Tile:
        element: str | ElementType = self.element if self.scaled else self.type
        return Tile(
            rows, columns, element, swizzle=SWIZZLE_OF_ROW[min(columns * self.element.bits // 8, 128)], start=start
        )

    @cached_property
    def w_tile(self) -> Tile:
        """The stored half of W in one CTA: 128 rows of 64 elements."""
        return self._tile(SIZE, SIZE // 2, 0)

    @cached_property
    def x_tiles(self) -> tuple[Tile, ...]:
        """X in one CTA, a tile for every 192 images; a CTA of a pair has half of each."""
        rows, start = N // self.group, self.w_tile.size
        size = self._tile(rows, SIZE, 0).size
        return tuple(self._tile(rows, SIZE, start + i * size) for i in range(self.images // N))

    @property
    def meta_at(self) -> int:
        last = self.x_tiles[-1]
        return last.start + last.size

    @property
    def meta_images(self) -> int:
        """Images of metadata: one, but for M = 64 at a single lane, where the halves of W need one each."""
        return SIZE // self.layout.rows // len(self.lanes)

    @property
    def scale_a_at(self) -> int:
        return self.meta_at + META_BYTES * self.meta_images

    @property
    def scale_b_at(self) -> int:
        return self.scale_a_at + SCALE_BYTES * self.scaled

    @property
    def bias_at(self) -> int:
        return self.scale_b_at + 2 * SCALE_BYTES * len(self.x_tiles) * self.scaled

    @property
    def control_at(self) -> int:
        """Two mbarriers, then the word that tcgen05.alloc writes."""
        return self.bias_at + 4 * SIZE

    @property
    def shared_bytes(self) -> int:
        return self.control_at + 32

    @cached_property
    def scales(self) -> tuple[TmemScales, TmemScales]:
        """Of A and of B of one instruction."""
        how: dict[str, Any] = {"m": self.m, "n": N, "vector": VECTOR, "cta_group": self.group, "sparse": True}
        return tmem_scales(self.kind, "a", **how), tmem_scales(self.kind, "b", **how)

    # Tensor Memory

    def blocks(self, warps: int) -> tuple[Block, ...]:
        """The blocks of D that lie in the columns of a group of four warps, 0 or 1."""
        rows = range(0, SIZE, self.layout.rows)
        if len(self.lanes) == len(rows):
            return tuple(Block(row, warps * N, lane, warps * N) for row, lane in zip(rows, self.lanes, strict=True))
        return (Block(self.layout.rows * warps, 0, self.lanes[0], warps * N),)

    def meta_column(self, block: Block) -> int:
        """The columns with the metadata of a block."""
        return META_AT + 4 * (block.row // self.layout.rows if self.meta_images > 1 else 0)

    @cached_property
    def load(self) -> Move:
        """The move between D and registers: all 32 lanes of a quarter, or 16 of them where D takes but these."""
        return move("16x256b", LOAD_COLUMNS // 8) if self.meta_images > 1 else move("32x32b", LOAD_COLUMNS)

    @property
    def registers(self) -> int:
        """Registers of each thread for its part of D."""
        return self.load.registers * (N // LOAD_COLUMNS)

    @property
    def d_key(self) -> str:
        return f"d_{self.name}"

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """What the trace stores: [warp, register, lane], of a pair [CTA, warp, register, lane]."""
        shape = (WARPS, self.registers, LANES)
        return shape if self.group == 1 else (self.group, *shape)


TMEM_PLANS: dict[str, TmemPlan] = {
    plan.name: plan
    for plan in (
        TmemPlan("f16_tcgen05", "f16", "f16", "f32"),
        TmemPlan("f16_tcgen05_m64", "f16", "f16", "f32", m=64, images=N),
        TmemPlan("f16_tcgen05_m64_lane16", "f16", "f16", "f32", m=64, lanes=(16,), images=N),
        TmemPlan("f16_tcgen05_m64_both", "f16", "f16", "f32", m=64, lanes=(0, 16)),
        TmemPlan("s8_tcgen05", "i8", "s8", "s32"),
        TmemPlan("e4m3_tcgen05", "f8f6f4", "e4m3", "f32"),
        TmemPlan("mxf4nvf4_tcgen05", "mxf4nvf4", "e2m1", "f32", networks=("4of8",)),
        TmemPlan("f16_tcgen05_pair", "f16", "f16", "f32", m=256, networks=("2of4", "1of2")),
    )
}


# From stored bytes back to matrices


def results(plan: TmemPlan, stored: Words) -> Words:
    """What the trace stores -> patterns of D, uint32 [CTA, 128 outputs, images]."""
    found = np.zeros((plan.group, SIZE, plan.images), np.uint32)
    for cta, registers in enumerate(stored.reshape(plan.group, WARPS, N // LOAD_COLUMNS, plan.load.registers, LANES)):
        cells = np.zeros((TMEM_LANES, D_COLUMNS), np.uint32)
        for warp in range(WARPS):
            lane = 32 * (warp % 4) + (plan.lanes[0] if plan.meta_images > 1 else 0)
            part = np.concatenate(list(plan.load.scatter(registers[warp])), axis=1)
            cells[lane : lane + plan.load.lanes, warp // 4 * N : (warp // 4 + 1) * N] = part
        for row, image, base, column in (block for warps in (0, 1) for block in plan.blocks(warps)):
            lanes, place = plan.layout.d(N, base).grid
            found[cta, row : row + plan.layout.rows, image : image + N] = cells[lanes, column + place]
    return found


def _shared(parts: Iterator[tuple[int, NDArray[Any]]], size: int) -> NDArray[np.uint8]:
    """Shared memory with the bytes of these arrays."""
    memory = np.zeros(size, np.uint8)
    for at, array in parts:
        data = np.ascontiguousarray(array).view(np.uint8).ravel()
        memory[at : at + data.size] = data
    return memory


def memory(plan: TmemPlan, data: Arrays, cta: int) -> NDArray[np.uint8]:
    """Shared memory of a CTA as the trace loads it."""
    return _shared(((at, data[key]) for key, at in loads(plan, cta)), plan.shared_bytes)


def loads(plan: TmemPlan, cta: int) -> list[tuple[str, int]]:
    """Keys of the arrays of a CTA, and where they go."""
    end = str(cta) if plan.group > 1 else ""
    places = [("w", 0), ("x", plan.x_tiles[0].start), ("e", plan.meta_at)]
    places += [("scale_a", plan.scale_a_at), ("scale_b", plan.scale_b_at)] if plan.scaled else []
    return [(key + end, at) for key, at in (*places, ("bias", plan.bias_at))]


def metadata_codes(plan: TmemPlan, images: NDArray[np.uint8]) -> Words:
    """The images of metadata in shared memory, uint8 [image, 128, 16] -> codes uint32 [128 rows, chunks]."""
    rows = range(0, SIZE, plan.layout.rows)
    lanes = plan.lanes if len(plan.lanes) == len(rows) else plan.lanes * len(rows)
    sources = range(len(rows)) if plan.meta_images > 1 else [0] * len(rows)
    parts = [plan.metadata.from_image(images[i], lane) for i, lane in zip(sources, lanes, strict=True)]
    return np.concatenate(parts)[:, : SIZE // plan.metadata.sparsity.chunk]


def dense_weights(plan: TmemPlan, data: Arrays, cta: int) -> Floats:
    """W of a CTA with zeros where it is pruned, without the scales of `w_scale`; float32 [128, 128], exact."""
    shared = memory(plan, data, cta)
    stored = numbers(plan, plan.w_tile.read(shared))
    images = shared[plan.meta_at : plan.scale_a_at].reshape(-1, SIZE, 16)
    columns = stored_columns(metadata_codes(plan, images), plan.metadata.sparsity)
    dense = np.zeros((SIZE, SIZE), np.float32)
    np.put_along_axis(dense, columns, stored, axis=1)
    if not plan.scaled:
        return dense
    image = shared[plan.scale_a_at : plan.scale_b_at].reshape(1, 32, 16)
    return dense * np.repeat(factors(plan.scales[0].from_image(image)), BLOCK, axis=1)


def inputs(plan: TmemPlan, data: Arrays) -> Floats:
    """X, float32 [images, 128], exact, without `x_scale`: of a pair from both CTAs."""
    memories = [memory(plan, data, cta) for cta in range(plan.group)]
    x = numbers(plan, np.concatenate([tile.read(shared) for tile in plan.x_tiles for shared in memories]))
    if not plan.scaled:
        return x
    images = memories[0][plan.scale_b_at : plan.bias_at].reshape(-1, 2, 32, 16)
    patterns = np.concatenate([plan.scales[1].from_image(image) for image in images])
    return x * np.repeat(factors(patterns), BLOCK, axis=1)


def biases(plan: TmemPlan, data: Arrays) -> Floats:
    """float32 [CTA, 128]."""
    return np.stack([data[loads(plan, cta)[-1][0]].astype(np.float32) for cta in range(plan.group)])


def numbers(plan: TmemPlan, patterns: Words) -> Floats:
    """What patterns of A and B mean."""
    if plan.scaled:
        return np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)[patterns]
    return values(patterns, plan.element)


def factors(patterns: Words) -> Floats:
    """What patterns of ue4m3 mean."""
    return values(patterns, SCALE_TYPES["ue4m3"])


def layer_values(plan: TmemPlan, patterns: Words) -> Floats:
    """What patterns of D mean."""
    return values(patterns, ELEMENT_TYPES[plan.accumulator])


assert TILE_CHUNKS * 4 == SIZE  # one image of metadata holds that of the whole layer
