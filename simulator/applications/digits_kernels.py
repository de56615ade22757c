"""The hidden layer of the digits network as three CUDA kernels, one for each generation of sparse tensor cores: mma.sp,
wgmma.sp, tcgen05.mma.sp. Their sources, and what nvcc 13.0 makes of them, are in traces/digits/cuda.

    >>> layer = run("ampere")
    >>> layer.d.shape, layer.correct
    ((128, 384), 376)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.descriptors.tensor_map import TensorMap
from simulator.applications import digits_tcgen05
from simulator.applications.digits import Classifier
from simulator.applications.digits_plan import HERE, SIZE, Floats
from simulator.applications.digits_tcgen05 import META_BYTES, TMEM_PLANS
from simulator.simulation.launch.module import Module
from simulator.simulation.launch.report import LaunchReport

SOURCES = HERE / "cuda"
_PLAN = TMEM_PLANS["f16_tcgen05"]
_STEPS, _CHUNKS = 4, 8  # words of metadata in a row, and chunks of 4 bits in each
_BOX = 64  # halves in a row of 128 bytes, which a swizzle permutes


@dataclass(frozen=True)
class Kernel:
    """A kernel and how it is launched.

    Attributes:
        name: of its files, and, behind "digits_", of the kernel.
        threads: of a CTA.
        images: of a CTA.
        shared_bytes: dynamic shared memory.
        boxes: whether TMA brings W and X, by tensor maps.
    """

    name: str
    threads: int
    images: int
    shared_bytes: int = 0
    boxes: bool = True

    @property
    def source(self) -> Path:
        """The CUDA source."""
        return SOURCES / f"{self.name}.cu"

    @property
    def ptx(self) -> Path:
        """What nvcc makes of it."""
        return SOURCES / f"{self.name}.ptx"


GENERATIONS = {
    kernel.name: kernel
    for kernel in (
        Kernel("ampere", 256, 64, boxes=False),
        Kernel("hopper", 256, 64),
        Kernel("blackwell", 128, 192, SIZE * 128 + 2 * 192 * 128),
    )
}


@dataclass(frozen=True)
class Operands:
    """The layer's data as the kernels take them: row-major, and nothing in an order that a chip asks for.

    Attributes:
        w: uint16 [output, 64]: the stored half of W, f16.
        e: uint32 [output, 4]: the metadata of 32 columns of W each, 4 bits a chunk.
        x: uint16 [image, input]: f16.
        bias: float32 [output].
    """

    w: NDArray[np.uint16]
    e: NDArray[np.uint32]
    x: NDArray[np.uint16]
    bias: Floats


@cache
def operands() -> Operands:
    """The operands, from what the trace f16_tcgen05 loads."""
    with np.load(HERE / f"{_PLAN.name}.npz") as data:
        memory, bias = digits_tcgen05.memory(_PLAN, data, 0), digits_tcgen05.biases(_PLAN, data)[0]
    images = memory[_PLAN.meta_at : _PLAN.meta_at + META_BYTES].reshape(1, SIZE, 16)
    codes = digits_tcgen05.metadata_codes(_PLAN, images).reshape(SIZE, _STEPS, _CHUNKS)
    shifts = 4 * np.arange(_CHUNKS, dtype=np.uint32)
    e = np.bitwise_or.reduce(codes.astype(np.uint32) << shifts, axis=2)
    x = np.concatenate([tile.read(memory) for tile in _PLAN.x_tiles])
    return Operands(_PLAN.w_tile.read(memory).astype(np.uint16), e, x.astype(np.uint16), bias)


@dataclass(frozen=True)
class Layer:
    """What a kernel computed.

    Attributes:
        d: float32 [output, image].
        digits: the digit that the network reads in each image.
        correct: how many are right.
        report: of the launch.
    """

    d: Floats
    digits: NDArray[np.int64]
    correct: int
    report: LaunchReport


def run(name: str, **options: Any) -> Layer:
    """Runs the layer with a kernel of `GENERATIONS`; options as of a kernel of `simulator.Module`."""
    kernel, given = GENERATIONS[name], operands()
    w: Any = given.w.copy()
    x: Any = given.x.copy()
    if kernel.boxes:
        w = TensorMap("f16", (_BOX, SIZE), (2 * _BOX,), (_BOX, SIZE), swizzle=128), w
        x = TensorMap("f16", (SIZE, _PLAN.images), (2 * SIZE,), (_BOX, kernel.images), swizzle=128), x
    d = np.zeros((SIZE, _PLAN.images), np.float32)
    function = Module(kernel.ptx).get_function(f"digits_{name}")
    arguments = (w, given.e.copy(), x, given.bias.copy(), d)
    grid = _PLAN.images // kernel.images
    report = function(grid, kernel.threads, arguments, shared_mem=kernel.shared_bytes, **options)
    network = Classifier(_PLAN.name)
    scale = network.data["w_scale"][:, None] * network.data["x_scale"]
    digits = network.of_layers([d * scale])
    return Layer(d, digits, int(np.sum(digits == network.labels)), report)
