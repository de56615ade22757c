"""What the digits traces of tcgen05 share: instruction forms, the plans of shared memory and Tensor Memory, and the
conversion of stored bytes back to matrices.

In each CTA the layer is D[128 outputs x images] = W[128 x 128, sparse] * X[128 x images] + bias. W is A, the images are
the columns of B. Where an element lies comes from `isa`; this file says only where tiles lie. It needs only numpy and
`isa`.
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
    """A block of D: rows of W from `row` on and images from `image` on, at this lane and column of Tensor Memory."""

    row: int
    image: int
    lane: int
    column: int


@dataclass(frozen=True)
class TmemPlan:
    """One trace: its types, its instruction and its sizes.

    Attributes:
        name: the name of the trace and its data.
        kind: the kind of tcgen05.mma.
        type: the type of A and B, as the instruction descriptor names it.
        accumulator: the type of D.
        m: M of the instruction.
        networks: the pruned networks of weights.npz, one for each CTA; "4of8" is made from the dense one.
        lanes: the base lanes of D: two where the halves of W take turns in the lanes (layout F).
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
        """How many CTAs the trace has, which is its cta_group."""
        return len(self.networks)

    @property
    def scaled(self) -> bool:
        """Whether the kind has scale factors."""
        return self.kind.startswith("mx")

    @property
    def opcode(self) -> str:
        """The opcode of the matrix instruction."""
        scale = f".block_scale.{VECTOR}" if self.scaled else ""
        return f"tcgen05.mma.sp.cta_group::{self.group}.kind::{self.kind}{scale}"

    @cached_property
    def element(self) -> ElementType:
        """The element type of A and B."""
        return operand_element(self.type, self.kind)

    @cached_property
    def layout(self) -> DatapathLayout:
        """The data path layout of D."""
        return datapath(self.m, self.group, sparse=True)

    @cached_property
    def metadata(self) -> TmemMetadata:
        """The layout of the metadata in Tensor Memory."""
        return tmem_metadata(self.kind, self.m, self.group)

    def descriptor(self, selector: int = 0) -> InstructionDescriptor:
        """The instruction descriptor."""
        how: dict[str, Any] = {"m": self.m, "n": N, "a_type": self.type, "b_type": self.type, "sparse": True}
        if self.scaled:
            return InstructionDescriptor(self.kind, **how, scale_type="ue4m3")
        return InstructionDescriptor(self.kind, **how, d_type=self.accumulator, selector=selector)

    @cached_property
    def k(self) -> int:
        """The logical K of an instruction."""
        return self.descriptor().k

    @property
    def steps(self) -> int:
        """How many instructions go along the 128 inputs."""
        return SIZE // self.k

    # Shared memory

    def _tile(self, rows: int, columns: int, start: int) -> Tile:
        """A tile of rows and columns at this offset of shared memory."""
        element: str | ElementType = self.element if self.scaled else self.type
        return Tile(
            rows, columns, element, swizzle=SWIZZLE_OF_ROW[min(columns * self.element.bits // 8, 128)], start=start
        )

    @cached_property
    def w_tile(self) -> Tile:
        """The tile of the stored half of W in one CTA: 128 rows of 64 elements."""
        return self._tile(SIZE, SIZE // 2, 0)

    @cached_property
    def x_tiles(self) -> tuple[Tile, ...]:
        """The tiles of X in one CTA, one for every 192 images; a CTA of a pair has half of each."""
        rows, start = N // self.group, self.w_tile.size
        size = self._tile(rows, SIZE, 0).size
        return tuple(self._tile(rows, SIZE, start + i * size) for i in range(self.images // N))

    @property
    def meta_at(self) -> int:
        """The offset of the metadata in shared memory."""
        last = self.x_tiles[-1]
        return last.start + last.size

    @property
    def meta_images(self) -> int:
        """How many images of the metadata there are: one, except for M = 64 at a single lane, where the halves of W
        need one each."""
        return SIZE // self.layout.rows // len(self.lanes)

    @property
    def scale_a_at(self) -> int:
        """The offset of the scale factors of A in shared memory."""
        return self.meta_at + META_BYTES * self.meta_images

    @property
    def scale_b_at(self) -> int:
        """The offset of the scale factors of B in shared memory."""
        return self.scale_a_at + SCALE_BYTES * self.scaled

    @property
    def bias_at(self) -> int:
        """The offset of the bias in shared memory."""
        return self.scale_b_at + 2 * SCALE_BYTES * len(self.x_tiles) * self.scaled

    @property
    def control_at(self) -> int:
        """The offset of two mbarriers, which are followed by the word that tcgen05.alloc writes."""
        return self.bias_at + 4 * SIZE

    @property
    def shared_bytes(self) -> int:
        """How many bytes of shared memory a CTA takes."""
        return self.control_at + 32

    @cached_property
    def scales(self) -> tuple[TmemScales, TmemScales]:
        """The layouts of the scale factors of A and of B for one instruction."""
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
        """The first column of the metadata of a block."""
        return META_AT + 4 * (block.row // self.layout.rows if self.meta_images > 1 else 0)

    @cached_property
    def load(self) -> Move:
        """The move between D and registers: all 32 lanes of a quarter, or 16 of them where D takes only these."""
        return move("16x256b", LOAD_COLUMNS // 8) if self.meta_images > 1 else move("32x32b", LOAD_COLUMNS)

    @property
    def registers(self) -> int:
        """How many registers of each thread hold its part of D."""
        return self.load.registers * (N // LOAD_COLUMNS)

    @property
    def d_key(self) -> str:
        """The name of the stored array with the results."""
        return f"d_{self.name}"

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape of what the trace stores: [warp, register, lane], for a pair [CTA, warp, register, lane]."""
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
    """The patterns of D, uint32 [CTA, 128 outputs, images], from what the trace stores."""
    patterns = np.zeros((plan.group, SIZE, plan.images), np.uint32)
    for cta, registers in enumerate(stored.reshape(plan.group, WARPS, N // LOAD_COLUMNS, plan.load.registers, LANES)):
        cells = np.zeros((TMEM_LANES, D_COLUMNS), np.uint32)
        for warp in range(WARPS):
            lane = 32 * (warp % 4) + (plan.lanes[0] if plan.meta_images > 1 else 0)
            part = np.concatenate(list(plan.load.scatter(registers[warp])), axis=1)
            cells[lane : lane + plan.load.lanes, warp // 4 * N : (warp // 4 + 1) * N] = part
        for row, image, base, column in (block for warps in (0, 1) for block in plan.blocks(warps)):
            lanes, place = plan.layout.d(N, base).grid
            patterns[cta, row : row + plan.layout.rows, image : image + N] = cells[lanes, column + place]
    return patterns


def _shared(parts: Iterator[tuple[int, NDArray[Any]]], size: int) -> NDArray[np.uint8]:
    """Shared memory of `size` bytes that holds these arrays, each given with its offset."""
    memory = np.zeros(size, np.uint8)
    for offset, array in parts:
        data = np.ascontiguousarray(array).view(np.uint8).ravel()
        memory[offset : offset + data.size] = data
    return memory


def memory(plan: TmemPlan, data: Arrays, cta: int) -> NDArray[np.uint8]:
    """The shared memory of a CTA as the trace loads it."""
    return _shared(((offset, data[key]) for key, offset in loads(plan, cta)), plan.shared_bytes)


def loads(plan: TmemPlan, cta: int) -> list[tuple[str, int]]:
    """The keys of the arrays that a CTA loads, and the offset in shared memory to which each goes."""
    end = str(cta) if plan.group > 1 else ""
    places = [("w", 0), ("x", plan.x_tiles[0].start), ("e", plan.meta_at)]
    places += [("scale_a", plan.scale_a_at), ("scale_b", plan.scale_b_at)] if plan.scaled else []
    return [(key + end, offset) for key, offset in (*places, ("bias", plan.bias_at))]


def metadata_codes(plan: TmemPlan, images: NDArray[np.uint8]) -> Words:
    """The codes uint32 [128 rows, chunks] of the images of metadata in shared memory, uint8 [image, 128, 16]."""
    rows = range(0, SIZE, plan.layout.rows)
    lanes = plan.lanes if len(plan.lanes) == len(rows) else plan.lanes * len(rows)
    sources = range(len(rows)) if plan.meta_images > 1 else [0] * len(rows)
    parts = [plan.metadata.from_image(images[i], lane) for i, lane in zip(sources, lanes, strict=True)]
    return np.concatenate(parts)[:, : SIZE // plan.metadata.sparsity.chunk]


def dense_weights(plan: TmemPlan, data: Arrays, cta: int) -> Floats:
    """W of a CTA with zeros where it is pruned, exact and without the scales of `w_scale`: float32 [128, 128]."""
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
    """X, exact and without `x_scale`: float32 [images, 128], for a pair put together from both CTAs."""
    memories = [memory(plan, data, cta) for cta in range(plan.group)]
    x = numbers(plan, np.concatenate([tile.read(shared) for tile in plan.x_tiles for shared in memories]))
    if not plan.scaled:
        return x
    images = memories[0][plan.scale_b_at : plan.bias_at].reshape(-1, 2, 32, 16)
    patterns = np.concatenate([plan.scales[1].from_image(image) for image in images])
    return x * np.repeat(factors(patterns), BLOCK, axis=1)


def biases(plan: TmemPlan, data: Arrays) -> Floats:
    """The biases, float32 [CTA, 128]."""
    return np.stack([data[loads(plan, cta)[-1][0]].astype(np.float32) for cta in range(plan.group)])


def numbers(plan: TmemPlan, patterns: Words) -> Floats:
    """The numbers that patterns of A and B stand for."""
    if plan.scaled:
        return np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)[patterns]
    return values(patterns, plan.element)


def factors(patterns: Words) -> Floats:
    """The numbers that patterns of ue4m3 stand for."""
    return values(patterns, SCALE_TYPES["ue4m3"])


def layer_values(plan: TmemPlan, patterns: Words) -> Floats:
    """The numbers that patterns of D stand for."""
    return values(patterns, ELEMENT_TYPES[plan.accumulator])


assert TILE_CHUNKS * 4 == SIZE  # one image of metadata holds that of the whole layer
