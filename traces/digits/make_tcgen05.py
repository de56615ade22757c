"""Write the traces of `tcgen05.mma.sp` and their operands from `weights.npz` and `images.npz`.

    python traces/digits/make_tcgen05.py [--out FOLDER]

Which byte of shared memory and which cell of Tensor Memory holds what comes from the mappings of `isa`; before a file
is written, its bytes are read back through them and compared with the matrices that they stand for.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
from make_traces import LIMITS, Arrays, activations, encode, vector
from numpy.typing import NDArray

sys.path.append(str(Path(__file__).resolve().parents[2]))  # a checkout that is not installed

from isa.shared_memory.tile import Tile
from isa.tensor_memory.address import TmemAddress
from isa.tensor_memory.metadata import PAIR, TILE_CHUNKS
from simulator.applications import digits_tcgen05 as tcgen05_plan
from simulator.applications.digits_plan import HERE, SIZE, Words
from simulator.applications.digits_tcgen05 import (
    BLOCK,
    LOAD_COLUMNS,
    META_AT,
    META_BYTES,
    PATTERN,
    SCALE_A_AT,
    SCALE_B_AT,
    SCALE_B_COLUMNS,
    SCALE_BYTES,
    TMEM_PLANS,
    WARPS,
    Block,
    N,
    TmemPlan,
)

Reals = NDArray[np.float64]

LARGEST_E2M1, LARGEST_UE4M3 = 6.0, 448.0


# ---- operands --------------------------------------------------------------------------------------------------------


def pruned(name: str, weights: Arrays) -> tuple[Reals, NDArray[np.bool_], Reals]:
    """The hidden layer of a network: its weights, which of them are stored, its biases.

    "4of8" is the dense network, pruned here in pairs and not trained on: of every 4 pairs of neighbouring inputs the 2
    of the largest sums of squares stay, the lower ones on a tie.
    """
    if name != "4of8":
        return (
            weights[f"w2_{name}"].astype(np.float64),
            weights[f"mask_{name}"].astype(np.bool_),
            weights[f"b2_{name}"].astype(np.float64),
        )
    dense = weights["w2_dense"].astype(np.float64)
    squares = (dense**2).reshape(SIZE, -1, 4, 2).sum(axis=-1)
    mask = np.zeros(squares.shape, np.bool_)
    np.put_along_axis(mask, np.argsort(-squares, axis=-1, kind="stable")[..., :2], True, axis=-1)
    both = np.repeat(mask, 2, axis=-1).reshape(SIZE, SIZE)
    return dense * both, both, weights["b2_dense"].astype(np.float64)


def compress(w: Reals, mask: NDArray[np.bool_], plan: TmemPlan) -> tuple[Reals, Words]:
    """A pruned matrix -> (its stored half [128, 64], codes uint32 [128, chunks]). The mask, not the values, says what
    is stored."""
    sparsity = plan.metadata.sparsity
    kept = np.nonzero(mask)[1].reshape(SIZE, -1, sparsity.stored)  # columns in ascending order
    wide = sparsity.stored // 2  # columns that an index moves: 1, or 2 where pairs are stored
    inside = kept[..., ::wide] % sparsity.chunk // wide
    return np.take_along_axis(w, kept.reshape(SIZE, -1), axis=1), (inside[..., 0] | inside[..., 1] << 2).astype(
        np.uint32
    )


def scaled_blocks(x: Reals, unit: float, size: int) -> tuple[Words, Words]:
    """Rows of numbers -> patterns of e2m1, and factors of ue4m3 [row, block] for every `size` numbers; x is about e2m1
    * factor * unit.

    The factor makes the largest magnitude of its block 6, as far as 4 significant bits allow; all roundings to nearest
    even.
    """
    blocks = x.reshape(len(x), -1, size) / unit
    wanted = np.minimum(np.abs(blocks).max(axis=-1) / LARGEST_E2M1, LARGEST_UE4M3)
    rounded = wanted.astype(np.float32).astype(ml_dtypes.float8_e4m3fn)
    factors = rounded.astype(np.float64)[..., None]
    quotients = np.divide(blocks, factors, out=np.zeros_like(blocks), where=factors > 0)
    clipped = np.clip(quotients, -LARGEST_E2M1, LARGEST_E2M1).astype(np.float32)
    patterns = clipped.astype(ml_dtypes.float4_e2m1fn).view(np.uint8).astype(np.uint32).reshape(x.shape)
    return patterns, rounded.view(np.uint8).astype(np.uint32)


def units(plan: TmemPlan, w: Reals, weights: Arrays) -> tuple[NDArray[np.float32], np.float32]:
    """w_scale of each row, x_scale: 1 for f16, as in `make_traces` for 8-bit types, one number for all of W where
    blocks have their own factors."""
    limit = LARGEST_E2M1 * LARGEST_UE4M3 if plan.scaled else LIMITS.get(plan.type, 0.0)
    if not limit:
        return np.ones(SIZE, np.float32), np.float32(1.0)
    rows = np.broadcast_to(np.abs(w).max(), SIZE) if plan.scaled else np.abs(w).max(axis=1)
    return (rows / limit).astype(np.float32), np.float32(weights["activation_max"] / limit)


def operands(plan: TmemPlan, weights: Arrays, images: Arrays) -> Arrays:
    """The arrays of one trace's data file; those of CTA 0 or 1 of a pair end with its number."""
    x = activations(weights, images)[: plan.images].astype(np.float64)
    data: Arrays = {}
    for cta, network in enumerate(plan.networks):
        end = str(cta) if plan.group > 1 else ""
        w, mask, bias = pruned(network, weights)
        w_scale, x_scale = units(plan, w, weights)
        stored, codes = compress(w, mask, plan)
        if plan.scaled:
            a, factors_a = scaled_blocks(stored, float(w_scale[0]), BLOCK // 2)
            b, factors_b = scaled_blocks(x, float(x_scale), BLOCK)
            data |= {
                "scale_a": plan.scales[0].image(factors_a),
                "scale_b": np.stack([plan.scales[1].image(f) for f in np.split(factors_b, len(b) // N)]),
            }
        else:
            a, b = (
                encode(stored / w_scale[:, None].astype(np.float64), plan.type),
                encode(x / float(x_scale), plan.type),
            )
        scaled_bias = bias / (w_scale.astype(np.float64) * float(x_scale))
        tiles = zip(plan.x_tiles, b.reshape(len(plan.x_tiles), plan.group, N // plan.group, SIZE)[:, cta], strict=True)
        data |= {
            f"w{end}": _image([(plan.w_tile, a)]),
            f"x{end}": _image(list(tiles)),
            f"e{end}": metadata_images(plan, codes),
            f"bias{end}": np.rint(scaled_bias).astype(np.int32)
            if plan.accumulator == "s32"
            else scaled_bias.astype(np.float32),
            "w_scale": w_scale,
            "x_scale": np.asarray(x_scale),
        }
    return data


def _image(tiles: list[tuple[Tile, Words]]) -> NDArray[np.uint8]:
    """Tiles that follow one another, as TMA brings them: their bytes."""
    memory = np.zeros(sum(tile.size for tile, _ in tiles) + tiles[0][0].start, np.uint8)
    for tile, patterns in tiles:
        tile.write(memory, patterns)
    return memory[tiles[0][0].start :]


def metadata_images(plan: TmemPlan, codes: Words) -> NDArray[np.uint8]:
    """Codes [128, chunks] -> images uint8 [image, 128, 16] for `tcgen05.cp.128x128b`; blocks of W in different lanes
    share one."""
    padded = np.pad(codes, ((0, 0), (0, TILE_CHUNKS - codes.shape[1])))
    rows = np.split(padded, SIZE // plan.layout.rows)
    lanes = plan.lanes * (len(rows) // len(plan.lanes))
    found = np.stack([plan.metadata.tile_image(part, lane) for part, lane in zip(rows, lanes, strict=True)])
    shared: NDArray[np.uint8] = np.bitwise_or.reduce(found, axis=0, keepdims=True)
    return found if plan.meta_images > 1 else shared


def check(plan: TmemPlan, data: Arrays, weights: Arrays, images: Arrays) -> None:
    """The bytes, read back through the mappings, are the layer as far as its types are exact; ValueError if not.

    W may be off by a part of the weight and by so many w_scale: nothing for f16, a rounding for the others, where 2688
    w_scale is the largest e2m1.
    """
    part, more = {"f16": (0.0, 0.0), "e4m3": (2.0**-4, 2.0**-10), "s8": (0.0, 0.5001), "e2m1": (0.25, 0.05 * 2688)}[
        plan.type
    ]
    for cta, network in enumerate(plan.networks):
        wanted, mask, _ = pruned(network, weights)
        w = tcgen05_plan.dense_weights(plan, data, cta) * data["w_scale"][:, None]
        if w[~mask].any() or (np.abs(w - wanted) > np.abs(wanted) * part + data["w_scale"][:, None] * more).any():
            raise ValueError(f"{plan.name}: W of CTA {cta} is not what its tile, metadata and scale factors say")
    x = tcgen05_plan.inputs(plan, data) * data["x_scale"]
    wanted = activations(weights, images)[: plan.images]
    if x.shape != wanted.shape or np.corrcoef(x.ravel(), wanted.ravel())[0, 1] < 0.99:
        raise ValueError(f"{plan.name}: X is not what its tiles and scale factors say")
    if any(tile.start % PATTERN for tile in (plan.w_tile, *plan.x_tiles)):
        raise ValueError(f"{plan.name}: a tile is not at the beginning of a swizzle pattern")


# ---- text ------------------------------------------------------------------------------------------------------------

TID, LANE, BASE, TADDR, SCRATCH, BIAS, CONTROL, IDESC, OTHER, BARRIER, D = 0, 1, 2, 3, 4, 5, 7, 8, 10, 11, 16
A_DESC, B_DESC, A_STEP, B_STEP, COPY = range(5)
SLOT = 16  # where tcgen05.alloc writes, from the control block on; before it two mbarriers


def moved(register: int, offset: int) -> str:
    return f"[%r{register}+{offset}]" if offset else f"[%r{register}]"


class Program:
    """The lines of the program of some warps."""

    def __init__(self, plan: TmemPlan, indent: int = 1) -> None:
        self.plan, self.group, self.indent = plan, f"cta_group::{plan.group}", indent
        self.lines: list[str] = []

    def put(self, text: str, comment: str = "") -> None:
        line = "    " * self.indent + text
        self.lines.append(f"{line:<76s}// {comment}" if comment else line)

    def note(self, text: str) -> None:
        self.lines += ["", "    " * self.indent + f"// {text}"]

    def everyone(self) -> None:
        """All threads wait for each other; what they did to Tensor Memory before is done, what follows comes after."""
        self.put("tcgen05.fence::before_thread_sync;")
        if self.plan.group > 1:
            self.put("barrier.cluster.arrive.release.aligned;")
            self.put("barrier.cluster.wait.acquire.aligned;")
        else:
            self.put("bar.sync 0;")
        self.put("tcgen05.fence::after_thread_sync;")

    def start(self, first: bool) -> None:
        self.put(f"mov.u32 %r{TID}, %tid.x;")
        self.put(f"and.b32 %r{LANE}, %r{TID}, 31;")
        self.put(f"mov.u32 %r{CONTROL}, {self.plan.control_at};")
        if first:
            self.note(
                "one warp allocates; one of its threads initialises the mbarriers, and will issue everything "
                "asynchronous"
            )
            self.put(f"setp.eq.u32 %p0, %r{TID}, 0;")
            self.put(f"tcgen05.alloc.{self.group}.sync.aligned.shared::cta.b32 {moved(CONTROL, SLOT)}, 512;")
            self.put(f"tcgen05.relinquish_alloc_permit.{self.group}.sync.aligned;")
            for barrier in (0, 8):
                self.put(f"@%p0 mbarrier.init.shared::cta.b64 {moved(CONTROL, barrier)}, 1;")
            self.put("@%p0 fence.mbarrier_init.release.cluster;")
        self.note(
            "The copies into shared memory have arrived, too (a real kernel waits for the mbarrier of its TMA here)."
        )
        self.everyone()
        self.put(f"ld.shared.b32 %r{BASE}, {moved(CONTROL, SLOT)};")

    def places(self) -> None:
        plan = self.plan
        self.note(
            "this warp's part of D: lanes from 32 * (warp % 4) on, columns from 192 * (warp / 4) on; and the "
            "mbarrier that tells that it is done"
        )
        self.put(f"shr.u32 %r{SCRATCH}, %r{TID}, 5;", "warp")
        self.put(f"and.b32 %r{TADDR}, %r{SCRATCH}, 3;")
        self.put(f"shl.b32 %r{TADDR}, %r{TADDR}, 21;")
        self.put(f"add.u32 %r{TADDR}, %r{TADDR}, %r{BASE};")
        self.put(f"shr.u32 %r{SCRATCH}, %r{SCRATCH}, 2;", "group of warps")
        self.put(f"mad.lo.u32 %r{TADDR}, %r{SCRATCH}, {N}, %r{TADDR};")
        if plan.meta_images > 1 and plan.lanes[0]:
            self.put(f"add.u32 %r{TADDR}, %r{TADDR}, {TmemAddress(plan.lanes[0], 0).word:#x};", f"lane {plan.lanes[0]}")
        self.put(f"mad.lo.u32 %r{BARRIER}, %r{SCRATCH}, 8, %r{CONTROL};")

    def biases(self) -> None:
        """D starts as the bias of its row: read it, store it into every column."""
        plan = self.plan
        if plan.meta_images > 1:
            self.note("the biases of rows 16 * warp + lane / 4 and 8 below, with which D starts")
            self.put(f"shr.u32 %r{SCRATCH}, %r{TID}, 5;")
            self.put(f"shl.b32 %r{SCRATCH}, %r{SCRATCH}, 4;")
            self.put(f"shr.u32 %r{BIAS}, %r{LANE}, 2;")
            self.put(f"add.u32 %r{SCRATCH}, %r{SCRATCH}, %r{BIAS};")
        elif plan.layout.half:
            self.note("the bias of row 16 * (warp % 4) + lane % 16 + 64 * (lane / 16), with which D starts")
            self.put(f"and.b32 %r{SCRATCH}, %r{TID}, 96;")
            self.put(f"shr.u32 %r{SCRATCH}, %r{SCRATCH}, 1;")
            self.put(f"and.b32 %r{BIAS}, %r{LANE}, 15;")
            self.put(f"add.u32 %r{SCRATCH}, %r{SCRATCH}, %r{BIAS};")
            self.put(f"and.b32 %r{BIAS}, %r{LANE}, 16;")
            self.put(f"mad.lo.u32 %r{SCRATCH}, %r{BIAS}, 4, %r{SCRATCH};")
        else:
            self.note("the bias of row 32 * (warp % 4) + lane, with which D starts")
            self.put(f"and.b32 %r{SCRATCH}, %r{TID}, 127;")
        self.put(f"shl.b32 %r{SCRATCH}, %r{SCRATCH}, 2;")
        self.put(f"ld.shared.b32 %r{BIAS}, {moved(SCRATCH, plan.bias_at)};")
        values = [BIAS] * plan.load.registers
        if plan.meta_images > 1:
            self.put(f"ld.shared.b32 %r{BIAS + 1}, {moved(SCRATCH, plan.bias_at + 32)};")
            values = [BIAS + r // 2 % 2 for r in range(plan.load.registers)]
        names = "{" + ", ".join(f"%r{value}" for value in values) + "}"
        for column in range(0, N, LOAD_COLUMNS):
            self.put(f"tcgen05.st.sync.aligned.{plan.load.shape}.x{plan.load.repeats}.b32 {moved(TADDR, column)},")
            self.put(f"    {names};")
        self.put("tcgen05.wait::st.sync.aligned;")
        self.everyone()

    def copy(self, shape: str, column: int, start: int) -> None:
        rows = int(shape.split("x", maxsplit=1)[0])
        descriptor = Tile(rows, 16, "u8", swizzle="none", start=start).descriptor.encode()
        self.put(f"mov.b64 %rd{COPY}, {descriptor:#018x};")
        self.put(f"@%p0 tcgen05.cp.{self.group}.{shape} {moved(BASE, column)}, %rd{COPY};")

    def multiply(self) -> None:
        """The thread that issues: copies, chains of tcgen05.mma.sp, a commit after each half of D."""
        plan = self.plan
        self.note("sparsity metadata from shared memory to Tensor Memory, 4 columns a copy")
        for image in range(plan.meta_images):
            self.copy("128x128b", META_AT + 4 * image, plan.meta_at + META_BYTES * image)
        if plan.scaled:
            self.note("scale factors of A")
            self.copy("32x128b.warpx4", SCALE_A_AT, plan.scale_a_at)
        self.note(
            "descriptors of A, B and the instruction"
            + (", one for each sparsity selector" if len(plan.metadata.selectors) > 1 else "")
        )
        self.put(f"mov.b64 %rd{A_DESC}, {plan.w_tile.descriptor.encode():#018x};")
        for selector in plan.metadata.selectors:
            self.put(f"mov.b32 %r{IDESC + selector}, {plan.descriptor(selector).encode():#010x};")
        if any(plan.lanes):
            self.put(f"add.u32 %r{OTHER}, %r{BASE}, {TmemAddress(16, 0).word:#x};", "lane 16")
        for warps in (0, 1):
            for block in plan.blocks(warps):
                self.chain(block)
            self.note(f"columns {warps * N} to {warps * N + N - 1} of D are complete when this arrives")
            self.commit(8 * warps)

    def chain(self, block: Block) -> None:
        """The MMAs of one block of D over K."""
        plan = self.plan
        tile = plan.x_tiles[block.image // N]
        self.note(
            f"rows {block.row} to {block.row + plan.layout.rows - 1} of W, images {block.image} to "
            f"{block.image + N - 1}"
        )
        if plan.scaled:
            number = block.image // N
            for copy in (0, 1):
                at = SCALE_B_AT + SCALE_B_COLUMNS * number + 4 * copy
                self.copy("32x128b.warpx4", at, plan.scale_b_at + SCALE_BYTES * (2 * number + copy))
        self.put(f"mov.b64 %rd{B_DESC}, {tile.descriptor.encode():#018x};")
        first = plan.w_tile.descriptor.start_address
        base = OTHER if block.lane else BASE
        for step in range(plan.steps):
            pair, selector = divmod(step, len(plan.metadata.selectors))
            a = self.advanced(A_DESC, A_STEP, plan.w_tile.at(k=step * plan.k // 2, row=block.row).start_address - first)
            b = self.advanced(B_DESC, B_STEP, tile.at(k=step * plan.k).start_address - tile.start)
            meta = moved(base, plan.meta_column(block) + PAIR * pair)
            scales = (
                f"{moved(BASE, SCALE_A_AT)}, {moved(BASE, SCALE_B_AT + SCALE_B_COLUMNS * (block.image // N))}, "
                if plan.scaled
                else ""
            )
            self.put(f"@%p0 {plan.opcode}")
            self.put(f"    {moved(base, block.column)}, %rd{a}, %rd{b}, {meta}, %r{IDESC + selector}, {scales}1;")

    def advanced(self, base: int, register: int, offset: int) -> int:
        """The 64-bit register with a descriptor so many bytes on."""
        if not offset:
            return base
        self.put(f"add.s64 %rd{register}, %rd{base}, {offset // 16};", f"+ {offset} bytes")
        return register

    def commit(self, barrier: int) -> None:
        opcode = f"@%p0 tcgen05.commit.{self.group}.mbarrier::arrive::one.shared::cluster"
        if self.plan.group > 1:
            self.put("mov.u16 %rs0, 3;", "both CTAs")
            self.put(f"{opcode}.multicast::cluster.b64 {moved(CONTROL, barrier)}, %rs0;")
        else:
            self.put(f"{opcode}.b64 {moved(CONTROL, barrier)};")

    def finish(self, first: bool) -> None:
        plan = self.plan
        self.note(
            "wait for this half of D, bring it home (a real kernel branches back to a try_wait that has not succeeded)"
        )
        self.put(f"mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r{BARRIER}], 0;")
        self.put("tcgen05.fence::after_thread_sync;")
        for i, column in enumerate(range(0, N, LOAD_COLUMNS)):
            self.put(f"tcgen05.ld.sync.aligned.{plan.load.shape}.x{plan.load.repeats}.b32")
            self.put(f"    {vector(D + i * plan.load.registers, plan.load.registers)}, {moved(TADDR, column)};")
        self.put("tcgen05.wait::ld.sync.aligned;")
        self.note("nobody uses Tensor Memory any more")
        self.everyone()
        if first:
            self.put(f"tcgen05.dealloc.{self.group}.sync.aligned.b32 %r{BASE}, 512;")


def program(plan: TmemPlan, first: bool, issues: bool, indent: int) -> list[str]:
    """The program of warp 0 (`first`), which issues everything asynchronous in CTA 0 (`issues`), or of the others."""
    text = Program(plan, indent)
    text.start(first)
    text.places()
    text.biases()
    if issues:
        text.multiply()
    text.finish(first)
    return text.lines


def programs(plan: TmemPlan) -> Iterator[str]:
    """All .warp blocks."""
    others = f".warp 1-{WARPS - 1} {{"
    if plan.group == 1:
        yield from (".warp 0 {", *program(plan, True, True, 1), "}", "", others, *program(plan, False, False, 1), "}")
        return
    for cta in (0, 1):
        yield from (f".cta {cta} {{", "    .warp 0 {", *program(plan, True, cta == 0, 2), "    }", "}", "")
    yield from (".cta 0-1 {", f"    {others}", *program(plan, False, False, 2), "    }", "}")


def header(plan: TmemPlan) -> Iterator[str]:
    """The comments before the directives."""
    sparse = {"2of4": "2:4", "1of2": "1:2, a special case of 2:4", "4of8": "4:8 in pairs"}
    yield (
        f"The hidden layer of a handwritten-digits network with tcgen05.mma.sp, .kind::{plan.kind}, "
        f"{plan.images} test images:"
    )
    yield f"    D[128 x {plan.images}] = W[128 x 128, {sparse[plan.networks[0]]}] * X[128 x {plan.images}] + bias"
    if plan.group > 1:
        yield (
            f"and in CTA 1 of the pair the hidden layer of another network ({sparse[plan.networks[1]]}) on the "
            f"same images: M = 256."
        )
    if not (plan.scaled or plan.type == "f16"):
        yield "W (per row), X and bias are scaled; D * w_scale * x_scale, both in the data file, is the layer's result."
    if plan.scaled:
        yield (
            f"W and X are e2m1 with a factor in ue4m3 for every {BLOCK} logical columns, and a number for each matrix:"
        )
        yield "D * w_scale * x_scale, both in the data file, is the layer's result."
    yield (
        "8 warps: thread 0 issues copies and MMAs; warps 0-3 bring home columns 0-191 of D, warps 4-7 columns 192-383."
    )
    yield "Written by make_tcgen05.py; classify.py finishes the classification."
    yield ""
    yield f"Tensor Memory, data path layout {plan.layout.name}"
    for warps in (0, 1):
        for block in plan.blocks(warps):
            where = f"columns {block.column}-{block.column + N - 1}" + f", lane {block.lane}" * plan.layout.half
            yield (
                f"    {where:<25s} D: rows {block.row}-{block.row + plan.layout.rows - 1}, images "
                f"{block.image}-{block.image + N - 1}"
            )
    yield f"    {f'columns {META_AT}-{META_AT + 4 * plan.meta_images - 1}':<25s} sparsity metadata"
    if plan.scaled:
        last = SCALE_B_AT + SCALE_B_COLUMNS * len(plan.x_tiles) - 1
        yield f"    {f'columns {SCALE_A_AT}-{SCALE_A_AT + 3}':<25s} scale factors of A"
        yield (
            f"    {f'columns {SCALE_B_AT}-{last}':<25s} scale factors of B, {SCALE_B_COLUMNS} columns for each "
            f"192 images"
        )
    yield ""
    yield f"Shared memory{' of each CTA' if plan.group > 1 else ''}, {plan.shared_bytes} bytes"
    tile, x = plan.w_tile, plan.x_tiles[0]
    row = SIZE // 2 * plan.element.bits // 8
    yield f"    0       A: W, the stored half: 128 rows of {row} bytes, K-major, swizzle {tile.swizzle}"
    share = f"{len(plan.x_tiles)} x {x.rows}" if len(plan.x_tiles) > 1 else str(x.rows)
    yield f"    {x.start:<7d} B: X, {share} images of {2 * row} bytes, K-major, swizzle {x.swizzle}"
    yield f"    {plan.meta_at:<7d} metadata: 128 rows of 16 bytes" + f", {plan.meta_images} times" * (
        plan.meta_images > 1
    )
    if plan.scaled:
        yield (
            f"    {plan.scale_a_at:<7d} scale factors of A: 32 rows of 16 bytes; of B at {plan.scale_b_at}: "
            f"{2 * len(plan.x_tiles)} such images"
        )
    yield f"    {plan.bias_at:<7d} bias: 128 words"
    yield f"    {plan.control_at:<7d} two mbarriers; the address that tcgen05.alloc writes"


def directives(plan: TmemPlan) -> Iterator[str]:
    yield from (".trace 1", ".target sm_100a", f".warps {WARPS}", f".shared {plan.shared_bytes}")
    for cta in range(plan.group):
        place = f"cta{cta}.shared" if plan.group > 1 else "shared"
        yield from (f'.load {place}[{at}], "{plan.name}.npz", "{key}";' for key, at in tcgen05_plan.loads(plan, cta))


def trace_text(plan: TmemPlan) -> str:
    """The whole trace."""
    comments = (f"// {line}".rstrip() for line in header(plan))
    store = f'.store "{plan.d_key}", %r{D}, {plan.registers};'
    return "\n".join([*comments, *directives(plan), "", *programs(plan), "", store, ""])


def write(out: Path, source: Path = HERE) -> None:
    """All traces and their data into `out`, from the weights and images in `source`."""
    with np.load(source / "weights.npz") as weights_file, np.load(source / "images.npz") as images_file:
        weights, images = dict(weights_file), dict(images_file)
    for plan in TMEM_PLANS.values():
        data = operands(plan, weights, images)
        check(plan, data, weights, images)
        np.savez_compressed(out / f"{plan.name}.npz", **data)
        (out / f"{plan.name}.trace").write_text(trace_text(plan), encoding="utf-8", newline="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="write the traces of tcgen05.mma.sp and their operands")
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write to (default: beside this file)")
    write(parser.parse_args().out)


if __name__ == "__main__":
    main()
