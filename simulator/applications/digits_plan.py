"""What the digits traces of `mma.sp` share: instruction forms, sizes, the plan of shared memory, and the
conversion of stored bytes back to matrices.

The layer is D[128 outputs x images] = W[128 x 128] * X[128 x images] + bias, computed by one CTA of 8 warps; warp w
owns output rows 16w .. 16w + 15. Where an element sits in a register comes from `isa`; this file says only where tiles
sit in shared memory. It needs only numpy and `isa`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from isa.forms.mma import MmaForm, mma_forms
from isa.fragments.metadata import stored_columns
from isa.types import ElementType
from simulator.resources import folder

HERE = folder("traces") / "digits"
SIZE = 128  # inputs and outputs of the layer
WARPS = 8
LANES = 32
CHUNK = 16  # bytes that one lane's address of ldmatrix covers, and the unit of the swizzle
TILE = 8  # images of one mma (n)
GROUP = 2 * TILE  # images of one turn of the loop
SHARED = 160 * 1024  # what an A100 can give to one CTA; an H100 has more
SMALL = 99 * 1024  # what every GeForce RTX since Ampere can
TILE_BYTES = SIZE * TILE * 4  # results of one tile of 8 images: [128 outputs][8 images] of 32 bits

Words = NDArray[np.uint32]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Plan:
    """One trace: its types, its instruction and its sizes.

    Attributes:
        name: the name of the trace and its data.
        type: the element type of A and B.
        shape: m, n, k as PTX writes it.
        accumulator: the element type of C and D.
        target: the lowest target that has the instruction.
        network: "2of4" or "1of2", the pruned network of weights.npz.
        images: how many of the test images the trace runs, from the first.
        head: how many of them leave their results in registers (their results do not fit in shared memory).
        shared: the bytes of shared memory of the CTA.
    """

    name: str
    type: str
    shape: str
    accumulator: str
    target: str
    network: str
    images: int
    head: int
    shared: int = SHARED

    @property
    def opcode(self) -> str:
        """The opcode of the matrix instruction."""
        types = f"{self.accumulator}.{self.type}.{self.type}.{self.accumulator}"
        return f"mma.sp::ordered_metadata.sync.aligned.{self.shape}.row.col.{types}"

    @cached_property
    def form(self) -> MmaForm:
        """The form of the matrix instruction."""
        return mma_forms()[self.opcode]

    @property
    def element(self) -> ElementType:
        """The element type of A and B."""
        return self.form.a_type

    @property
    def steps(self) -> int:
        """How many mma.sp instructions a chain has: 128 inputs / k."""
        return SIZE // self.form.k

    @property
    def e_registers(self) -> int:
        """How many metadata registers there are: with s selectors one register serves s steps."""
        return self.steps // self.form.metadata.selectors

    @property
    def x_pitch(self) -> int:
        """The bytes of one image's activations: 128, 256 or 512, swizzled, not padded."""
        return SIZE * self.element.bits // 8

    @property
    def w_pitch(self) -> int:
        """The bytes of one stored row of W: half of its 128 columns, padded by 16 bytes so that 8 rows fall on 8
        different sets of 4 banks."""
        return self.x_pitch // 2 + CHUNK

    @property
    def e_at(self) -> int:
        """The offset of the metadata in shared memory."""
        return SIZE * self.w_pitch

    @property
    def bias_at(self) -> int:
        """The offset of the bias in shared memory."""
        return self.e_at + WARPS * LANES * 4 * self.e_registers

    @property
    def x_at(self) -> int:
        """The offset of the activations, which end where shared memory ends."""
        return self.shared - self.images * self.x_pitch

    @property
    def turns(self) -> int:
        """How many turns the loop has."""
        return (self.images - self.head) // GROUP

    @property
    def d_bytes(self) -> int:
        """The bytes of results in shared memory, from offset 0."""
        return (self.images - self.head) // TILE * TILE_BYTES

    @property
    def head_registers(self) -> int:
        """How many registers of each thread hold results at the end."""
        return self.head // TILE * self.form.d.registers

    @property
    def d_key(self) -> str:
        """The name of the stored array with the results in shared memory."""
        return f"d_{self.name}"

    @property
    def head_key(self) -> str:
        """The name of the stored array with the results in registers."""
        return f"head_{self.name}"


PLANS: dict[str, Plan] = {
    plan.name: plan
    for plan in (
        Plan("f16", "f16", "m16n8k32", "f32", "sm_80", "2of4", 384, 64),
        Plan("bf16", "bf16", "m16n8k32", "f32", "sm_80", "2of4", 384, 64),
        Plan("tf32", "tf32", "m16n8k16", "f32", "sm_80", "1of2", 240, 0),  # 240 rows of 512 bytes fit beside W
        Plan("s8", "s8", "m16n8k64", "s32", "sm_80", "2of4", 384, 64),
        Plan("e4m3", "e4m3", "m16n8k64", "f32", "sm_89", "2of4", 384, 64),
        Plan("f16_99kb", "f16", "m16n8k32", "f32", "sm_80", "2of4", 304, 112, SMALL),  # 304 fit beside W
    )
}


def swizzle(rows: NDArray[np.unsignedinteger]) -> NDArray[np.unsignedinteger]:
    """Exchange the 16-byte chunks of each row: chunk c of row n goes to chunk c XOR (n mod 8). Its own inverse.

    Eight rows of 128, 256 or 512 bytes begin at the same bank; after the exchange the same chunk of eight neighbouring
    rows lies on eight different sets of 4 banks, so that each 8 x 8 matrix of an ldmatrix comes in one cycle.
    """
    count, pitch = rows.shape[0], rows.shape[1] * rows.itemsize
    chunks = np.ascontiguousarray(rows).view(np.uint8).reshape(count, pitch // CHUNK, CHUNK)
    source = np.arange(pitch // CHUNK) ^ (np.arange(count) % 8)[:, None]
    moved = np.take_along_axis(chunks, source[..., None], axis=1)
    return moved.reshape(count, pitch).view(rows.dtype)


def values(patterns: Words, element: ElementType) -> Floats:
    """The exact numbers that finite patterns of an element type stand for."""
    if not element.is_float:
        shift = np.uint32(32 - element.bits)
        return ((patterns << shift).view(np.int32) >> np.int32(shift)).astype(np.float32)
    p = (patterns >> np.uint32(element.padding)).astype(np.int64)
    fraction = p & ((1 << element.fraction) - 1)
    exponent = (p >> element.fraction) & ((1 << element.exponent) - 1)
    significand = np.where(exponent > 0, fraction + (1 << element.fraction), fraction)
    magnitude = np.ldexp(significand.astype(np.float64), np.maximum(exponent, 1) - element.bias - element.fraction)
    signed = np.where(p >> (element.fraction + element.exponent) & 1, -magnitude, magnitude)
    return np.asarray(signed, np.float32)


def metadata_codes(plan: Plan, e: Words) -> Words:
    """The codes in metadata registers uint32 [warp, lane, register], as uint32 [128 rows, chunks of the whole row]."""
    selectors = plan.form.metadata.selectors
    parts = [
        plan.form.metadata.gather(e[..., step // selectors], step % selectors) for step in range(plan.steps)
    ]  # each [warp, row, chunk]
    return np.concatenate(parts, axis=-1).reshape(SIZE, -1)


def dense_weights(plan: Plan, w: NDArray[np.unsignedinteger], e: Words) -> Words:
    """W as patterns uint32 [128, 128], with zeros where it is pruned, from the padded stored rows and the metadata."""
    stored = w[:, : SIZE // 2].astype(np.uint32)
    columns = stored_columns(metadata_codes(plan, e), plan.form.metadata.sparsity)
    patterns = np.zeros((SIZE, SIZE), np.uint32)
    np.put_along_axis(patterns, columns, stored, axis=1)
    return patterns


def layer_results(plan: Plan, d: NDArray[np.uint8], head: Words) -> Words:
    """The patterns of D, uint32 [128 outputs, images], from the stored outputs of a run: `d` is bytes, `head` is [warp,
    register, lane]."""
    tiles = d.view("<u4").reshape(-1, SIZE, TILE)
    body = np.moveaxis(tiles, 0, 1).reshape(SIZE, -1)
    if not plan.head:
        return body
    fragments = head.reshape(WARPS, -1, plan.form.d.registers, LANES)
    blocks = plan.form.d.gather(fragments)  # [warp, tile, row, column]
    first = np.moveaxis(blocks, 1, 2).reshape(SIZE, plan.head)
    return np.concatenate([first, body], axis=1)


def smallest_word(patterns: Words, bits: int) -> NDArray[np.unsignedinteger]:
    """Patterns as unsigned integers of their own width in bits."""
    return patterns.astype(np.dtype(f"<u{bits // 8}"))
