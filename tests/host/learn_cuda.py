"""Times the tcgen05 matrix products of github.com/gau-nernst/learn-cuda (02e_matmul_sm100), of single CTAs and
of a pair, beside the TFLOPS that their author measured on a B200:

    python -m tests.host.learn_cuda SOURCES [--build FOLDER] [--config b200] [--size 4096]

SOURCES is the folder 02e_matmul_sm100 of that repository @1454f8b, whose kernels nvcc 13 compiles unmodified (two
headers of PyTorch are replaced by an empty one). What the CTAs of one SM do is executed, on zeros, and timed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import isa
from simulator.chip.config import Config, load_config
from simulator.program.kernel import link
from simulator.simulation.launch.arguments import parameter_bytes
from simulator.simulation.launch.batches import record
from simulator.simulation.launch.launching import Options, prepare
from simulator.simulation.launch.module import Module
from simulator.simulation.launch.placement import placed_on_sm
from simulator.simulation.launch.timing import LaunchTiming, time_of
from simulator.state.device_memory import DeviceMemory

STUB = "#include <cuda.h>\n#include <cuda_bf16.h>\n#define TORCH_CHECK(...) ((void)0)\n"
ROWS = 128  # of a tile of D
PUBLISHED = "README.md there: bf16, M = N = K = 4096, PyTorch 2.10, CUDA 13.0, a B200 of Modal"


class Product(NamedTuple):
    """A kernel.

    Attributes:
        name: as in the README.
        source, entry: its file, and a part of its entry's name.
        columns, depth, stages: of a tile of D, of K in a stage, and how many stages.
        swizzle, boxes: of the tensor maps: bytes, and how many dimensions their boxes have.
        tflops: published.
        group: CTAs that multiply together.
        more: further arguments.
    """

    name: str
    source: str
    entry: str
    columns: int
    depth: int
    stages: int
    swizzle: int
    boxes: int
    tflops: float
    group: int = 1
    more: tuple[int, ...] = ()


PRODUCTS = (
    Product("v1a", "matmul_v1", "Lb0E", 256, 256, 1, 0, 2, 255.73),
    Product("v1b", "matmul_v1", "Lb1E", 256, 256, 1, 0, 3, 254.37),
    Product("v2a", "matmul_v2", "Lb0E", 256, 256, 1, 128, 2, 699.39),
    Product("v2b", "matmul_v2", "Lb1E", 256, 256, 1, 128, 3, 721.02),
    Product("v3", "matmul_v3", "", 256, 128, 2, 128, 3, 914.42),
    Product("v4", "matmul_v4", "", 128, 64, 7, 128, 3, 1053.61),
    Product("v5", "matmul_v5", "Lb0E", 256, 64, 7, 128, 3, 1169.65, 2, (0, 0)),
)


def compiled(sources: Path, build: Path, name: str) -> str:
    """The PTX of a file."""
    (build / "torch").mkdir(parents=True, exist_ok=True)
    (build / "torch" / "library.h").write_text(STUB)
    target = build / f"{name}.ptx"
    if not target.exists():
        options = ["-w", "-ptx", "-arch=sm_100a", "-std=c++17", "-I", str(build), "-o", str(target)]
        subprocess.run(["nvcc", *options, str(sources / f"{name}.cu")], check=True)
    return target.read_text()


def tensor_map(product: Product, size: int, rows: int) -> isa.TensorMap:
    """The map of a matrix of size x size, for boxes of so many rows."""
    unit = product.swizzle // 2 or 8  # columns of a row of a box
    strides = {2: (2 * size,), 3: (2 * size, 2 * unit)}[product.boxes]
    extents = (size, size) if product.boxes == 2 else (unit, size, size // unit)
    box = (unit, rows, product.depth // unit)[: product.boxes]
    return isa.TensorMap("bf16", extents, strides, box, swizzle=product.swizzle)


def timed(text: str, product: Product, chip: Config, size: int) -> LaunchTiming:
    """The time of a product of size x size x size."""
    module = Module(text)
    (entry,) = (name for name in re.findall(r"\.entry (\w+)\(", text) if product.entry in name)
    kernel, memory = module.get_function(entry).kernel, DeviceMemory()
    buffers = [memory.place(name, 2 * size * size).address for name in "ABC"]
    maps = [
        tensor_map(product, size, rows).encode(address)
        for address, rows in zip(buffers, (ROWS, product.columns // product.group), strict=False)
    ]
    values: Sequence[int | float | bytes] = (*maps, buffers[2], size, size, size, *product.more)
    shared = 2 * (ROWS + product.columns // product.group) * product.depth * product.stages
    grid = (size // ROWS) * (size // product.columns)
    options = Options(config=chip, dynamic_shared=shared)
    setup = prepare(kernel, (grid, 1, 1), (ROWS, 1, 1), memory, parameter_bytes(kernel, values), options)
    numbered = replace(setup, kernel=link(kernel.module, kernel.name, allocate=False, fmad=kernel.fmad))
    placement = placed_on_sm(numbered, chip)
    return time_of(numbered, chip, record(setup, placement.ctas), placement, size**3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path)
    parser.add_argument("--build", type=Path, default=Path("out/learn_cuda"))
    parser.add_argument("--config", default="b200")
    parser.add_argument("--size", type=int, default=4096)
    options = parser.parse_args()
    chip = load_config(options.config)
    gap = chip.launch.gap_ns / 1e3 if chip.launch is not None else 0.0  # they were launched one after the other
    print(f"published: {PUBLISHED}")
    print(f"{'kernel':8}{'cycles':>12}{'us':>9}{'TFLOPS':>9}{'published':>11}{'time':>8}{'busy':>8}")
    for product in PRODUCTS:
        timing = timed(compiled(options.sources, options.build, product.source), product, chip, options.size)
        tflops = 2 * options.size**3 / (timing.time_us + gap) / 1e6
        error = ["-", "-"]
        if options.size == 4096:
            error = [f"{product.tflops:.0f}", f"{100 * (product.tflops / tflops - 1):+.1f}%"]
        numbers = f"{timing.cycles:>12,}{timing.time_us:>9.1f}{tflops:>9.0f}{error[0]:>11}{error[1]:>8}"
        print(f"{product.name:8}{numbers}{100 * timing.tensor_busy:>7.1f}%", flush=True)


if __name__ == "__main__":
    main()
