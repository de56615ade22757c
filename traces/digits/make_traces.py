"""Write the traces and their operands from `weights.npz` and `images.npz`.

    python traces/digits/make_traces.py [--out FOLDER]

Which lane's register holds what comes from the mappings of `isa`: `check` proves, for every form, that the addresses
which the program computes make `ldmatrix` deliver exactly the fragments that `mma.sp` reads.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

sys.path.append(str(Path(__file__).resolve().parents[2]))  # a checkout that is not installed

from isa.fragments.registers import matrix_rows_fragment
from isa.types import ELEMENT_TYPES
from simulator.applications.digits_plan import (
    CHUNK,
    GROUP,
    HERE,
    LANES,
    PLANS,
    SIZE,
    TILE,
    TILE_BYTES,
    WARPS,
    Floats,
    Plan,
    Words,
    smallest_word,
    swizzle,
)

Arrays = dict[str, NDArray[np.generic]]

LIMITS = {"s8": 127.0, "e4m3": 448.0}  # largest magnitude that is used; other types are not scaled


# ---- operands --------------------------------------------------------------------------------------------------------


def encode(numbers: NDArray[np.float64] | Floats, name: str) -> Words:
    """Numbers -> patterns of the type, each in a uint32. Nearest even (tf32: ties away, as `cvt.rna.tf32.f32`); 8-bit
    types clip at their limit."""
    x = np.asarray(numbers, np.float32)
    if name in LIMITS:
        x = np.clip(x, -LIMITS[name], LIMITS[name])
    if name == "tf32":
        return (np.ascontiguousarray(x).view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    if name == "s8":
        return np.rint(x).astype(np.int8).view(np.uint8).astype(np.uint32)
    dtype, word = {
        "f16": (np.float16, np.uint16),
        "bf16": (ml_dtypes.bfloat16, np.uint16),
        "e4m3": (ml_dtypes.float8_e4m3fn, np.uint8),
    }[name]
    return x.astype(dtype).view(word).astype(np.uint32)


def activations(weights: Arrays, images: Arrays) -> Floats:
    """The first layer, float32 [image, 128]. Exact in float64 (integers times float16 values), then rounded once: the
    same on every machine."""
    exact = images["images"].astype(np.float64) @ weights["w1"].astype(np.float64).T + weights["b1"].astype(np.float64)
    return np.maximum(exact, 0.0).astype(np.float32)


def compress(w: NDArray[np.float64], mask: NDArray[np.bool_], plan: Plan) -> tuple[NDArray[np.float64], Words]:
    """A pruned matrix -> (its stored half [128, 64], codes uint32 [128, chunks]). The mask, not the values, says what
    is stored."""
    sparsity = plan.form.metadata.sparsity
    kept = np.nonzero(mask)[1].reshape(SIZE, -1, sparsity.stored)  # columns in ascending order
    inside = kept % sparsity.chunk
    codes = np.array(sparsity.ordered)[inside[..., 0]] if sparsity.stored == 1 else inside[..., 0] | inside[..., 1] << 2
    return np.take_along_axis(w, kept.reshape(SIZE, -1), axis=1), codes.astype(np.uint32)


def metadata_registers(codes: Words, plan: Plan) -> Words:
    """Codes [128, chunks] -> registers uint32 [warp, lane, register]; steps that differ in the selector alone share a
    register."""
    metadata = plan.form.metadata
    steps = np.split(codes.reshape(WARPS, 16, -1), plan.steps, axis=-1)
    registers = np.zeros((plan.e_registers, WARPS, LANES), np.uint32)
    for step, part in enumerate(steps):
        register, selector = divmod(step, metadata.selectors)
        registers[register] = metadata.scatter(part, selector, registers[register])
    return np.ascontiguousarray(np.moveaxis(registers, 0, -1))


def operands(plan: Plan, weights: Arrays, images: Arrays) -> Arrays:
    """The arrays of one trace's data file; D times w_scale (per row) times x_scale is the layer's result."""
    w = weights[f"w2_{plan.network}"].astype(np.float64)
    mask = weights[f"mask_{plan.network}"].astype(np.bool_)
    bias = weights[f"b2_{plan.network}"].astype(np.float64)
    x = activations(weights, images)[: plan.images].astype(np.float64)
    w_scale, x_scale = np.ones(SIZE, np.float32), np.float32(1.0)
    if plan.type in LIMITS:
        w_scale = (np.abs(w).max(axis=1) / LIMITS[plan.type]).astype(np.float32)
        x_scale = np.float32(weights["activation_max"] / LIMITS[plan.type])
    stored, codes = compress(w / w_scale[:, None].astype(np.float64), mask, plan)
    scaled_bias = bias / (w_scale.astype(np.float64) * float(x_scale))
    padded = np.zeros((SIZE, plan.w_pitch * 8 // plan.element.bits), np.uint32)
    padded[:, : SIZE // 2] = encode(stored, plan.type)
    return {
        "w": smallest_word(padded, plan.element.bits),
        "e": metadata_registers(codes, plan),
        "bias": np.rint(scaled_bias).astype(np.int32) if plan.accumulator == "s32" else scaled_bias.astype(np.float32),
        "x": swizzle(smallest_word(encode(x / float(x_scale), plan.type), plan.element.bits)),
        "w_scale": w_scale,
        "x_scale": np.asarray(x_scale),
    }


# ---- addresses -------------------------------------------------------------------------------------------------------


def a_address(plan: Plan, tid: NDArray[np.int64]) -> NDArray[np.int64]:
    """What each lane passes to ldmatrix for A: matrices 0, 1 are rows 0-7, 8-15 of the first 16 bytes, matrices 2, 3 of
    the next 16."""
    lane = tid % LANES
    return ((tid - lane) // 2 + lane % 16) * plan.w_pitch + lane // 16 * CHUNK


def b_address(plan: Plan, tid: NDArray[np.int64]) -> NDArray[np.int64]:
    """What each lane passes to ldmatrix for B: matrix m is 8 images of the m-th 16 bytes; the chunk is swizzled by the
    image."""
    lane = tid % LANES
    return plan.x_at + lane % 8 * plan.x_pitch + (lane // 8 ^ lane % 8) * CHUNK


def check(plan: Plan, data: Arrays) -> None:
    """Shared memory, read by ldmatrix at the addresses of the program, gives the fragments of `isa`; ValueError if
    not."""
    shared = np.zeros(plan.shared, np.uint8)
    shared[: plan.e_at] = data["w"].view(np.uint8).ravel()
    shared[plan.x_at :] = data["x"].view(np.uint8).ravel()
    halves = matrix_rows_fragment(4, False, ELEMENT_TYPES["f16"])
    tid = np.arange(LANES)
    stored = data["w"][:, : SIZE // 2].astype(np.uint32)
    x = swizzle(data["x"]).astype(np.uint32)

    def loaded(address: NDArray[np.int64]) -> Words:
        rows = shared[address[:, None] + np.arange(CHUNK)].view("<u2").astype(np.uint32)  # [32 rows, 8 halves]
        return halves.scatter(rows)

    for step in range(plan.steps):
        k = plan.form.k
        for warp in range(WARPS):
            expected = plan.form.a.scatter(
                np.ascontiguousarray(stored[16 * warp : 16 * warp + 16, step * k // 2 : (step + 1) * k // 2])
            )
            if not np.array_equal(loaded(a_address(plan, tid + LANES * warp) + 2 * CHUNK * step), expected):
                raise ValueError(f"{plan.name}: fragment A of warp {warp}, step {step} is not what ldmatrix delivers")
        for tile in range(plan.images // TILE):
            expected = plan.form.b.scatter(
                np.ascontiguousarray(x[tile * TILE : (tile + 1) * TILE, step * k : (step + 1) * k].T)
            )
            address = (b_address(plan, tid) ^ (step % 2 * 64)) + step // 2 * 128 + tile * TILE * plan.x_pitch
            if not np.array_equal(loaded(address), expected):
                raise ValueError(
                    f"{plan.name}: fragment B of images {tile * TILE}.., step {step} is not what ldmatrix delivers"
                )
    for turn in range(plan.turns):
        unread = plan.x_at + (plan.head + (turn + 1) * GROUP) * plan.x_pitch
        if (turn + 1) * 2 * TILE_BYTES > unread:
            raise ValueError(f"{plan.name}: the results of turn {turn} overwrite activations that nobody has read")
    if plan.bias_at + 4 * SIZE > plan.x_at:
        raise ValueError(f"{plan.name}: weights and activations overlap")


# ---- text ------------------------------------------------------------------------------------------------------------

TID, LANE, SCRATCH, A_ADDRESS, B_EVEN, B_ODD, D_ADDRESS = range(7)
BIAS, META, A, B, ACC, HEAD = 8, 12, 16, 48, 112, 120


def vector(first: int, count: int) -> str:
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


def address(register: int, offset: int) -> str:
    return f"[%r{register}+{offset}]" if offset else f"[%r{register}]"


class Program:
    """The lines of one trace's program."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.lines: list[str] = []
        self.indent = 1

    def put(self, text: str, comment: str = "") -> None:
        line = "    " * self.indent + text
        self.lines.append(f"{line:<56s}// {comment}" if comment else line)

    def note(self, text: str) -> None:
        self.lines += ["", "    " * self.indent + f"// {text}"]

    def addresses(self) -> None:
        plan = self.plan
        self.put(f"mov.u32 %r{TID}, %tid.x;")
        self.put(f"and.b32 %r{LANE}, %r{TID}, 31;", "lane")
        self.note("A: row 16 * warp + lane % 16, second 16 bytes for lanes 16-31")
        self.put(f"and.b32 %r{A_ADDRESS}, %r{LANE}, 15;")
        self.put(f"shr.u32 %r{SCRATCH}, %r{TID}, 5;", "warp")
        self.put(f"mad.lo.u32 %r{A_ADDRESS}, %r{SCRATCH}, 16, %r{A_ADDRESS};", "row")
        self.put(f"shr.u32 %r{SCRATCH}, %r{LANE}, 4;")
        self.put(f"shl.b32 %r{SCRATCH}, %r{SCRATCH}, 4;")
        self.put(f"mad.lo.u32 %r{A_ADDRESS}, %r{A_ADDRESS}, {plan.w_pitch}, %r{SCRATCH};")
        self.note(
            "B: image lane % 8, 16-byte chunk lane / 8, exchanged by XOR with the image; odd steps begin 4 chunks "
            "on (64 bytes), also by XOR"
        )
        self.put(f"and.b32 %r{B_EVEN}, %r{LANE}, 7;", "image")
        self.put(f"shr.u32 %r{SCRATCH}, %r{LANE}, 3;")
        self.put(f"xor.b32 %r{SCRATCH}, %r{SCRATCH}, %r{B_EVEN};", "chunk")
        self.put(f"shl.b32 %r{SCRATCH}, %r{SCRATCH}, 4;")
        self.put(f"mad.lo.u32 %r{B_EVEN}, %r{B_EVEN}, {plan.x_pitch}, %r{SCRATCH};")
        self.put(f"add.u32 %r{B_EVEN}, %r{B_EVEN}, {plan.x_at};")
        self.put(f"xor.b32 %r{B_ODD}, %r{B_EVEN}, 64;")
        self.note(
            "D: a warp's 16 rows of a tile are 512 bytes, two halves of 8 bytes a lane: 512 * warp + 8 * lane = "
            "16 * tid - 8 * lane"
        )
        self.put(f"shl.b32 %r{D_ADDRESS}, %r{TID}, 4;")
        self.put(f"shl.b32 %r{SCRATCH}, %r{LANE}, 3;")
        self.put(f"sub.u32 %r{D_ADDRESS}, %r{D_ADDRESS}, %r{SCRATCH};")

    def constants(self) -> None:
        plan = self.plan
        size = plan.e_registers
        self.note("The copies into shared memory have arrived (a real kernel waits for its cp.async here).")
        self.put("bar.sync 0;")
        self.note(f"A for all {plan.steps} steps, once: the weights stay in registers")
        for step in range(plan.steps):
            self.put(
                f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {vector(A + 4 * step, 4)}, "
                f"{address(A_ADDRESS, 2 * CHUNK * step)};"
            )
        self.note(
            f"metadata: {4 * size} bytes a thread, and the bias of rows lane / 4 and lane / 4 + 8 as the start of "
            f"every sum"
        )
        self.put(f"shl.b32 %r{SCRATCH}, %r{TID}, {(4 * size).bit_length() - 1};")
        self.put(f"ld.shared.v{size}.b32 {vector(META, size)}, {address(SCRATCH, plan.e_at)};")
        self.put(f"shr.u32 %r{SCRATCH}, %r{TID}, 5;")
        self.put(f"shl.b32 %r{SCRATCH}, %r{SCRATCH}, 4;")
        self.put(f"shr.u32 %r{LANE}, %r{LANE}, 2;")
        self.put(f"add.u32 %r{SCRATCH}, %r{SCRATCH}, %r{LANE};", "16 * warp + lane / 4")
        self.put(f"shl.b32 %r{SCRATCH}, %r{SCRATCH}, 2;")
        self.put(f"ld.shared.b32 %r{BIAS}, {address(SCRATCH, plan.bias_at)};")
        self.put(f"ld.shared.b32 %r{BIAS + 2}, {address(SCRATCH, plan.bias_at + 32)};")
        self.put(f"mov.b32 %r{BIAS + 1}, %r{BIAS};")
        self.put(f"mov.b32 %r{BIAS + 3}, %r{BIAS + 2};")

    def group(self, image: int, accumulators: int) -> None:
        """16 images from `image` after the addresses: all loads, then two independent chains of mma.sp into
        `accumulators`."""
        plan = self.plan
        for step in range(plan.steps):
            for tile in range(2):
                offset = step // 2 * 128 + (image + tile * TILE) * plan.x_pitch
                source = B_ODD if step % 2 else B_EVEN
                self.put(
                    f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {vector(B + 8 * step + 4 * tile, 4)}, "
                    f"{address(source, offset)};"
                )
        for step in range(plan.steps):
            for tile in range(2):
                register, selector = divmod(step, plan.form.metadata.selectors)
                d = accumulators + 4 * tile
                c = d if step else BIAS
                self.put(plan.opcode)
                parts = ", ".join(vector(first, 4) for first in (d, A + 4 * step, B + 8 * step + 4 * tile, c))
                self.put(f"    {parts}, %r{META + register}, {selector:#x};")

    def head(self) -> None:
        plan = self.plan
        for image in range(0, plan.head, GROUP):
            self.note(
                f"images {image}-{image + GROUP - 1}: results stay in %r{HEAD + image // 2}-%r{HEAD + image // 2 + 7}"
            )
            self.group(image, HEAD + image // 2)
        if plan.head:
            self.note(f"on to image {plan.head}")
            self.put(f"add.s32 %r{B_EVEN}, %r{B_EVEN}, {plan.head * plan.x_pitch};")
            self.put(f"add.s32 %r{B_ODD}, %r{B_ODD}, {plan.head * plan.x_pitch};")

    def loop(self) -> None:
        plan = self.plan
        self.note(f"the other {plan.images - plan.head} images, {GROUP} a turn")
        self.put(f".repeat {plan.turns} {{")
        self.indent += 1
        self.group(0, ACC)
        self.put("bar.sync 0;", "all warps have read what the results may now overwrite")
        for tile in range(2):
            for half in range(2):
                offset = tile * TILE_BYTES + half * 8 * TILE * 4
                self.put(f"st.shared.v2.b32 {address(D_ADDRESS, offset)}, {vector(ACC + 4 * tile + 2 * half, 2)};")
        self.put(f"add.s32 %r{B_EVEN}, %r{B_EVEN}, {GROUP * plan.x_pitch};")
        self.put(f"add.s32 %r{B_ODD}, %r{B_ODD}, {GROUP * plan.x_pitch};")
        self.put(f"add.s32 %r{D_ADDRESS}, %r{D_ADDRESS}, {2 * TILE_BYTES};")
        self.indent -= 1
        self.put("}")


def header(plan: Plan) -> list[str]:
    """The comments and directives before the program."""
    pitch, row = plan.x_pitch, plan.w_pitch - CHUNK
    both = plan.form.metadata.selectors == 2

    def span(first: int, count: int) -> str:
        return f"    {f'%r{first}-%r{first + count - 1}':<12s} "

    sparse = "1:2" if plan.network == "1of2" else "2:4"
    lines = [
        f"The hidden layer of a handwritten-digits network in {plan.type}, {plan.images} test images:",
        f"    D[128 x {plan.images}] = W[128 x 128, {sparse}] * X[128 x {plan.images}] + bias",
    ]
    if plan.type in LIMITS:
        lines.append(
            "W (per row), X and bias are scaled; D * w_scale * x_scale, both in the data file, is the layer's result."
        )
    if plan.images < 384:
        lines.append(
            f"Only the first {plan.images} of the 384 test images: at {pitch} bytes each, more do not fit beside W."
        )
    lines += [
        (
            "One CTA of 8 warps; warp w owns output rows 16w .. 16w + 15. Written by make_traces.py; classify.py "
            "finishes the classification."
        ),
        "",
        "Registers of a warp",
        "    %r0-%r2      thread, lane, scratch",
        "    %r3          address of A",
        "    %r4, %r5     addresses of B for even and odd steps",
        "    %r6          address of D",
        f"{span(BIAS, 4)}bias: C of the first step",
        (
            f"{span(META, plan.e_registers)}metadata: "
            f"{'one register for two steps, selectors 0 and 1' if both else 'one register a step'}"
        ),
        f"{span(A, 4 * plan.steps)}A: {plan.steps} steps of 4 registers, loaded once",
        f"{span(B, 8 * plan.steps)}B of 16 images: {plan.steps} steps of two tiles of 4 registers",
        f"{span(ACC, 8)}D of 16 images: two tiles of 4 registers",
    ]
    if plan.head:
        room = plan.shared // TILE_BYTES * TILE
        lines.append(
            f"{span(HEAD, plan.head_registers)}D of the first {plan.head} images, to the end: shared memory has "
            f"room for {room}"
        )
    lines += [
        "",
        f"Shared memory, {plan.shared} bytes",
        (
            f"    0       W, the stored half: 128 rows of {row} bytes, padded to {plan.w_pitch}: any 8 neighbouring "
            f"rows touch 32 different banks"
        ),
        f"    {plan.e_at:<7d} metadata: {4 * plan.e_registers} bytes a thread",
        f"    {plan.bias_at:<7d} bias: 128 words",
        (
            f"    {plan.x_at:<7d} X: {plan.images} images of {pitch} bytes, to the end; 16-byte chunk c of image n "
            f"lies at chunk c XOR (n mod 8):"
        ),
        "            the same chunk of 8 neighbouring images touches 32 different banks",
        (
            f"    0       D, growing: for every 8 images a block [128 outputs][8 images] of 32 bits, {TILE_BYTES} "
            f"bytes. It takes the place of W,"
        ),
        (
            "            then of activations that all warps have read. 16 lanes store 128 bytes without a gap: no "
            "bank conflict either"
        ),
    ]
    directives = [
        ".trace 1",
        f".target {plan.target}",
        f".warps {WARPS}",
        f".shared {plan.shared}",
        f'.load shared[0], "{plan.name}.npz", "w";',
        f'.load shared[{plan.e_at}], "{plan.name}.npz", "e";',
        f'.load shared[{plan.bias_at}], "{plan.name}.npz", "bias";',
        f'.load shared[{plan.x_at}], "{plan.name}.npz", "x";',
        "",
    ]
    return [f"// {line}".rstrip() for line in lines] + directives


def trace_text(plan: Plan) -> str:
    """The whole trace."""
    program = Program(plan)
    program.addresses()
    program.constants()
    program.head()
    program.loop()
    stores = [f'.store "{plan.d_key}", shared[0], {plan.d_bytes};']
    if plan.head:
        stores.append(f'.store "{plan.head_key}", %r{HEAD}, {plan.head_registers};')
    return "\n".join([*header(plan), f".warp 0-{WARPS - 1} {{", *program.lines, "}", "", *stores, ""])


def write(out: Path, source: Path = HERE) -> None:
    """All traces and their data into `out`, from the weights and images in `source`."""
    with np.load(source / "weights.npz") as weights_file, np.load(source / "images.npz") as images_file:
        weights, images = dict(weights_file), dict(images_file)
    for plan in PLANS.values():
        data = operands(plan, weights, images)
        check(plan, data)
        np.savez_compressed(out / f"{plan.name}.npz", **data)
        (out / f"{plan.name}.trace").write_text(trace_text(plan), encoding="utf-8", newline="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="write the traces and their operands")
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write to (default: beside this file)")
    write(parser.parse_args().out)


if __name__ == "__main__":
    main()
