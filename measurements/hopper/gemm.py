"""The kernels of `tcsim gemm` by wgmma on a GPU: whether their values are right, and how long they take.

    python -m measurements.hopper.gemm build FOLDER          # PTX, cubins, a product of each to check; needs ptxas
    python -m measurements.hopper.gemm check FOLDER          # on a GPU: every element of each product
    python -m measurements.hopper.gemm run FOLDER            # on a GPU: launches of all sizes, `LAUNCHES` of each
    python -m measurements.hopper.gemm read NCU.csv OUT.csv  # what ncu said of `run`

    ncu --csv --clock-control none --cache-control none \\
        --metrics sm__cycles_elapsed.max,gpu__time_duration.sum python -m measurements.hopper.gemm run FOLDER > NCU.csv

Operands of `run` are random numbers; those of `check` small integers, whose sums are exact in every type.
"""

from __future__ import annotations

import argparse
import csv
import ctypes as c
import json
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from measurements.tensor_maps.driver import Driver

SMS = 132
LAUNCHES = 8
SIZES = (
    (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192),
    (4096, 4096, 11008), (128, 14336, 4096), (3072, 1536, 6144),
)  # fmt: skip
CHECKED = (336, 200, 512)
ROOM = 8192 * 11008 * 4  # bytes of the largest operand
_KINDS = {"f16": 6, "bf16": 9, "f32": 7, "s32": 3, "tf32": 7, "e4m3": 0, "e5m2": 0, "s8": 0, "u8": 0}
"""CUtensorMapDataType by type; bytes stand for types of 8 bits."""


def tiles() -> Iterator[Any]:
    """The kernels that are measured."""
    from simulator.studies.gemm.wgmma import parse_wgmma_tile

    def of(text: str, type: str, sparse: bool, schedule: str, cluster: tuple[int, int], output: str = "") -> Any:
        return parse_wgmma_tile(text, type, sparse=sparse, schedule=schedule, cluster=cluster, output=output)

    for cluster in ((1, 1), (2, 1)):
        yield of("128x256", "f16", False, "cooperative", cluster)
        yield of("128x128", "f16", False, "cooperative", cluster)
        yield of("256x128", "f16", False, "cooperative", cluster)
        yield of("128x128", "f16", False, "pingpong", cluster)
        yield of("128x128", "f16", True, "cooperative", cluster)
        yield of("256x128", "f16", True, "cooperative", cluster)
        yield of("128x256", "f16", True, "cooperative", cluster)
        yield of("128x128", "f16", True, "pingpong", cluster)
    yield of("64x128", "f16", False, "pingpong", (1, 1))
    yield of("64x128", "f16", True, "pingpong", (1, 1))
    yield of("64x256", "f16", False, "pingpong", (1, 2))
    yield of("128x64", "f16", True, "cooperative", (1, 2))
    yield of("128x128", "f16", True, "cooperative", (1, 2), "f32")
    yield of("128x128", "f16", False, "cooperative", (1, 2), "f32")
    for type in ("bf16", "tf32", "e4m3", "s8"):
        yield of("128x256" if type != "s8" else "128x128", type, False, "cooperative", (2, 1))
        yield of("128x128", type, True, "cooperative", (2, 1))
    yield of("64x128", "e5m2", True, "pingpong", (2, 2))
    yield of("128x192", "u8", True, "cooperative", (2, 1))


def name_of(tile: Any) -> str:
    """A kernel's name in tables."""
    kind = "sp" if tile.sparse else "dense"
    shape = f"{tile.bm}x{tile.bn}_{tile.schedule}_s{tile.stages}_c{tile.cluster_m}x{tile.cluster_n}"
    return f"{kind}_{tile.type}_{tile.output}_{shape}"


def product(tile: Any, m: int, n: int, k: int, random: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Operands of small integers as they lie in memory, and D as floats."""
    import ml_dtypes

    from simulator.studies.gemm.wgmma.operands import metadata_image

    types: dict[str, Any] = {
        "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32, "s8": np.int8,
        "u8": np.uint8, "s32": np.int32, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    }  # fmt: skip
    low, high = (0, 3) if tile.type == "u8" else (-2, 3)
    a, b = random.integers(low, high, (m, k)), random.integers(low, high, (n, k))
    stored, codes = a, None
    if tile.sparse:
        chunk = tile.metadata.sparsity.chunk
        kept = np.array([(0,), (1,)] if chunk == 2 else [(i, j) for i in range(4) for j in range(i + 1, 4)])
        numbers = np.array((0x4, 0xE) if chunk == 2 else [i | j << 2 for i, j in kept], np.uint32)
        drawn = random.integers(0, len(kept), (m, k // chunk))
        codes, columns = numbers[drawn], kept[drawn]
        groups = a.reshape(m, -1, chunk)
        stored = np.take_along_axis(groups, columns, 2)
        full = np.zeros_like(groups)
        np.put_along_axis(full, columns, stored, 2)
        a, stored = full.reshape(m, k), stored.reshape(m, -1)
    found = {"a": stored.astype(types[tile.type]), "b": b.astype(types[tile.type])}
    found["e"] = metadata_image(tile, codes).reshape(-1) if codes is not None else np.zeros(4, np.uint32)
    found["d"] = (a @ b.T).astype(types[tile.output])
    return {name: np.ascontiguousarray(array).view(np.uint8) for name, array in found.items()}


def build(folder: Path) -> None:
    """Writes and assembles the kernels, and what is needed of them where there is no tcsim."""
    from simulator.studies.gemm.wgmma import wgmma_kernel
    from simulator.studies.gemm.wgmma.chip import launch_of

    folder.mkdir(parents=True, exist_ok=True)
    jobs, random = [], np.random.default_rng(0)
    for tile in tiles():
        name = name_of(tile)
        source = folder / f"{name}.ptx"
        source.write_text(wgmma_kernel(tile))
        subprocess.run(["ptxas", "-arch=sm_90a", "-o", str(source.with_suffix(".cubin")), str(source)], check=True)
        np.savez_compressed(folder / f"{name}.npz", **product(tile, *CHECKED, random))
        fields = ("type", "output", "sparse", "bm", "bn", "bk", "columns_a", "cluster_m", "cluster_n", "cluster")
        job = {field: getattr(tile, field) for field in (*fields, "bytes_d", "bytes_e", "shared_bytes")}
        bits = tile.element.bits
        launches = [[*sizes, *launch_of(tile, *sizes, SMS)] for sizes in (CHECKED, *SIZES)]
        jobs.append(job | {"name": name, "bits": bits, "launches": launches, "threads": 32 * tile.warps})
    (folder / "jobs.json").write_text(json.dumps(jobs))


class Gpu:
    """GPU 0 with room for operands."""

    def __init__(self) -> None:
        self.driver = Driver()
        self.a, self.b, self.d, self.e = (self.driver.allocate(ROOM) for _ in range(4))

    def map(self, address: int, kind: str, columns: int, rows: int, size: int, box: tuple[int, int]) -> Any:
        """A map of a matrix whose rows lie one after another."""
        code, words = self.driver.encode({
            "type": _KINDS[kind], "rank": 2, "address": address, "size": [columns, rows], "stride": [columns * size],
            "box": list(box), "step": [1, 1], "interleave": 0, "swizzle": 3, "promotion": 2, "fill": 0, "im2col": 0,
        })  # fmt: skip
        assert code == 0, (code, kind, columns, rows, box)
        held = (c.c_uint8 * 128)()
        c.memmove(held, words, 128)
        return held

    def launch(self, folder: Path, job: dict[str, Any], launch: list[int], times: int, *more: Any) -> None:
        """Launches a kernel some times, with further arguments if it has such."""
        m, n, k, grid, down, across, raster = launch
        size, stored = job["bits"] // 8, k // 2 if job["sparse"] else k
        function = self.driver.function(str(folder / f"{job['name']}.cubin"), "gemm", job["shared_bytes"])
        box_a, box_b = job["bm"] // job["cluster_n"], job["bn"] // job["cluster_m"]
        columns, wide = job["columns_a"], 128 // job["bytes_d"]
        arguments = [
            self.map(self.a, job["type"], stored, m, size, (columns, box_a)),
            self.map(self.b, job["type"], k, n, size, (columns, box_b)),
            self.map(self.d, job["output"], n, m, job["bytes_d"], (wide, 64)),
            c.c_uint64(self.e), *(c.c_uint32(word) for word in (-(-k // job["bk"]), down, across, raster)),
            *more,
        ]  # fmt: skip
        pointers = (c.c_void_p * len(arguments))(*[c.cast(c.byref(each), c.c_void_p) for each in arguments])
        shape = (grid, 1, 1, job["threads"], 1, 1, job["shared_bytes"], None, pointers, None)
        for _ in range(times):
            self.driver.call("cuLaunchKernel", function, *shape)
        self.driver.call("cuCtxSynchronize")

    def fill(self, job: dict[str, Any], random: np.random.Generator) -> None:
        """Random operands, and legal metadata: a few megabytes again and again."""
        part = 1 << 23
        values = random.standard_normal(part // 4)
        if job["type"] == "f16":
            data = values.astype(np.float16).view(np.uint8)
        elif job["type"] in ("tf32", "bf16"):
            data = values.astype(np.float32).view(np.uint8)
            data = data.reshape(-1, 4)[:, 2:].ravel() if job["type"] == "bf16" else data
        else:  # of 8 bits: no NaN
            mask = 0xFF if job["type"] in ("s8", "u8") else 0xB7
            data = random.integers(0, 256, part, dtype=np.uint8) & np.uint8(mask)
        codes = np.array((0x4, 0xE) if job["type"] == "tf32" else (0x4, 0x8, 0xC, 0x9, 0xD, 0xE), np.uint8)
        drawn = random.integers(0, len(codes), (2, part))
        metadata = codes[drawn[0]] | codes[drawn[1]] << 4
        for address, content in ((self.a, data), (self.b, np.roll(data, 4096)), (self.e, metadata)):
            for first in range(0, ROOM - len(content) + 1, len(content)):
                self.driver.write(address + first, content)


def check(folder: Path) -> None:
    """Compares every element of a product of each kernel."""
    gpu = Gpu()
    for job in json.loads((folder / "jobs.json").read_text()):
        known = np.load(folder / f"{job['name']}.npz")
        for name in "abe":
            gpu.driver.write(getattr(gpu, name), known[name])
        want = known["d"].reshape(-1)
        gpu.driver.write(gpu.d, np.zeros(len(want), np.uint8))
        gpu.launch(folder, job, job["launches"][0], 1)
        wrong = int((gpu.driver.read(gpu.d, len(want)) != want).sum())
        print(f"{job['name']}: {wrong} of {len(want)} bytes differ", flush=True)


def run(folder: Path) -> None:
    """Launches every kernel with every size; what it prints names the launches that ncu tells of, in their order."""
    gpu, filled = Gpu(), ""
    order = []
    for job in sorted(json.loads((folder / "jobs.json").read_text()), key=lambda job: str(job["type"])):
        if filled != job["type"]:
            gpu.fill(job, np.random.default_rng(0))
            filled = job["type"]
        for launch in job["launches"][1:]:
            gpu.launch(folder, job, launch, LAUNCHES)
            order.append([job["name"], *launch[:3]])
    (folder / "order.json").write_text(json.dumps(order))


def read(folder: Path, source: Path, result: Path) -> None:
    """Writes the least cycles and nanoseconds of each kernel and size."""
    lines = source.read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith('"ID"'))
    found: dict[int, dict[str, float]] = defaultdict(dict)
    for row in csv.DictReader(lines[first:]):
        found[int(row["ID"])][row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
    launches = [found[number] for number in sorted(found)]
    order = json.loads((folder / "order.json").read_text())
    assert len(launches) == LAUNCHES * len(order), (len(launches), len(order))
    with result.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["kernel", "m", "n", "k", "least_cycles", "median_cycles", "least_ns", "median_ns"])
        for number, named in enumerate(order):
            own = launches[number * LAUNCHES : (number + 1) * LAUNCHES]
            cycles = [one["sm__cycles_elapsed.max"] for one in own]
            times = [one["gpu__time_duration.sum"] for one in own]
            writer.writerow([*named, min(cycles), np.median(cycles), min(times), np.median(times)])


def main() -> None:
    """Builds, checks, runs or reads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("build", "check", "run", "read"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", type=Path, nargs="*")
    options = parser.parse_args()
    if options.what == "read":
        read(options.folder, *options.files)
    else:
        {"build": build, "check": check, "run": run}[options.what](options.folder)


if __name__ == "__main__":
    main()
