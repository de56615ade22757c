"""Measures wgmma, bulk tensor copies, barriers and pipelines of Hopper.

    python -m measurements.hopper.measure build FOLDER     # PTX and cubins; needs ptxas, no GPU
    python -m measurements.hopper.measure run FOLDER OUT.csv [--seconds S]

Each kernel is launched with two counts of iterations, each `REPEATS` times; the smallest difference of the clocks of
the slowest warp of the first CTA (and of the slowest CTA) divided by the iterations is what one iteration takes. Groups
and names are those of `all_kernels`; every third loop (by a digest of its name) is held out of what fits the model.
"""

from __future__ import annotations

import argparse
import csv
import ctypes as c
import hashlib
import itertools
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from measurements.hopper import clusters
from measurements.hopper.copies import Copies, cluster_barrier, own_arrival, ping_pong
from measurements.hopper.kernels import HEADER, RECORD, SHARED, WARPS, Kernel
from measurements.hopper.pipelines import Pipeline
from measurements.hopper.products import Stream
from measurements.tensor_maps.driver import Driver

REPEATS = 3
SIZES = (8, 16, 24, 32, 48, 64, 80, 96, 128, 160, 192, 224, 256)
FEWER = (8, 32, 64, 128, 192, 256)  # of other types than f16 with f32
KINDS = (("f16", "f32"), ("f16", "f16"), ("tf32", "f32"), ("e4m3", "f32"), ("s8", "s32"))
MODULE = 16  # kernels of a module
SILENT = 20.0  # seconds
SERIALISED = "serialised.txt"  # names of kernels whose wgmma ptxas did not leave asynchronous: not measured


def streams() -> Iterator[Stream]:
    """Loops of wgmma."""
    both = (False, True)
    for (kind, d), n, sparse, registers in itertools.product(KINDS, SIZES, both, both):
        if (kind, d) != ("f16", "f32") and n not in FEWER:
            continue
        same = {"kind": kind, "n": n, "d": d, "sparse": sparse, "registers": registers}
        yield Stream(**same)
        yield Stream(**same, pending=0)
        yield Stream(**same, unrolled=1, pending=0)
        yield Stream(**same, warpgroups=2)
        if n <= 128 and (kind, d) == ("f16", "f32"):
            yield Stream(**same, chains=2)
    for n, sparse, registers, warpgroups in itertools.product((16, 32, 64, 96, 128), both, both, (3, 4)):
        yield Stream("f16", n, sparse=sparse, registers=registers, warpgroups=warpgroups)
    for n, sparse, registers, unrolled in itertools.product((16, 64, 128, 256), both, both, (1, 2, 8)):
        yield Stream("f16", n, sparse=sparse, registers=registers, unrolled=unrolled)
        yield Stream("f16", n, sparse=sparse, registers=registers, unrolled=unrolled, pending=0, issue=True)
    for n, sparse, swizzle, registers in itertools.product((32, 64, 128, 256), both, ("none", "32B", "64B"), both):
        yield Stream("f16", n, sparse=sparse, swizzle=swizzle, registers=registers)
    for n, sparse, major in itertools.product((32, 64, 128, 256), both, ("mk", "kn", "mn")):
        yield Stream("f16", n, sparse=sparse, major=major)
    for (kind, d), n, sparse in itertools.product(
        (("bf16", "f32"), ("e5m2", "f32"), ("e4m3", "f16"), ("u8", "s32")), (16, 64, 256), both
    ):
        yield Stream(kind, n, d, sparse)
    for n, sparse, warpgroups, pending in itertools.product((64, 128, 256), both, (1, 2), (0, 1)):
        yield Stream("f16", n, sparse=sparse, warpgroups=warpgroups, unrolled=2, pending=pending)


def copies() -> Iterator[Copies]:
    """Loops of bulk copies."""
    for ctas, (rows, width, swizzle), stages in itertools.product(
        (1, 132),
        ((8, 128, "none"), (64, 128, "none"), (64, 128, "128B"), (128, 128, "128B"), (256, 128, "128B"),
         (64, 64, "64B"), (64, 32, "32B"), (64, 16, "none"), (64, 256, "none"), (128, 64, "none"), (256, 64, "64B")),
        (1, 2, 4),
    ):  # fmt: skip
        yield Copies(rows, width, stages, swizzle, ctas=ctas)
    for ctas, rows in itertools.product((1, 132), (8, 32, 128, 256)):
        yield Copies(rows, 128, 4, linear=True, ctas=ctas, total=8192)
        yield Copies(rows, 128, 1, linear=True, ctas=ctas, total=8192)
        yield Copies(rows, 128, 4, "128B", ctas=ctas, total=1 << 22)
        yield Copies(rows, 128, 1, "128B", ctas=ctas, total=1 << 22)
    for ctas, boxes, rows in itertools.product((1, 132), (2, 3, 4), (64, 128)):
        yield Copies(rows, 128, 2, "128B", boxes=boxes, ctas=ctas)
    for ctas, rows, stages, reads in itertools.product((1, 132), (8, 64, 128), (1, 2, 4), (False, True)):
        yield Copies(rows, 128, stages, "128B", stores=True, reads=reads, ctas=ctas)


def barriers() -> Iterator[Kernel]:
    """Loops of barriers."""
    for size, warps in itertools.product((1, 2, 4, 8), (1, 4, 12)):
        yield cluster_barrier(size, warps, size)
    yield from (cluster_barrier(2, 4, 132), ping_pong(False), ping_pong(True), own_arrival(False), own_arrival(True))


def of_clusters() -> Iterator[Kernel]:
    """Loops of arrivals, fences and copies between CTAs of a cluster."""
    yield from (clusters.fence("cluster"), clusters.fence("gpu"), clusters.open_wait())
    for place, scope in itertools.product(("own", "local", "remote"), ("cta", "relaxed", "cluster")):
        yield clusters.ping_pong(place, scope)
        yield from (clusters.arrivals(place, scope, warps) for warps in (1, 4))
    yield from (clusters.sent(size, False) for size in (4, 8, 16))
    yield from (clusters.sent(size, True) for size in (16, 256, 1024, 4096, 16384))
    yield from (clusters.chase(False), clusters.chase(True))
    for what, words, warps, remote in itertools.product(("load", "store"), (1, 2, 4), (1, 4, 16), (False, True)):
        yield clusters.traffic(what, words, warps, remote)
    for size, warps in itertools.product((2, 4, 8), (1, 4, 12)):
        yield cluster_barrier(size, warps, size, relaxed=True)
    for rows, size, stages in itertools.product((64, 128, 256), (2, 4, 8), (1, 2, 4)):
        if rows * 128 * stages + clusters.DATA <= SHARED:
            yield from (clusters.Multicast(rows, size, stages, ctas).kernel() for ctas in (size, 128 // size * size))


def pipelines() -> Iterator[Pipeline]:
    """Main loops of products, loaded by tensor maps."""
    for (kind, d), n, sparse, ctas, warpgroups in itertools.product(
        (("f16", "f32"), ("tf32", "f32"), ("e4m3", "f32"), ("s8", "s32")),
        (64, 128, 256),
        (False, True),
        (1, 132),
        (1, 2),
    ):
        for stages in (2, 3, 4):
            one = Pipeline(kind, n, sparse, stages, warpgroups, ctas=ctas, d=d)
            if one.stage_bytes * stages + 1024 <= SHARED and (kind == "f16" or stages == 3):
                yield one
                if sparse:
                    yield Pipeline(kind, n, sparse, stages, warpgroups, True, ctas=ctas, d=d)
    for n, sparse, ctas, pending in itertools.product((64, 128, 256), (False, True), (1, 132), (0, 1)):
        yield (
            Pipeline("f16", n, sparse, 3, 2, pending=pending, ctas=ctas)
            if pending == 0
            else Pipeline("f16", n, sparse, 3, 2, multicast=2, ctas=max(ctas, 2))
        )
    for n, sparse, multicast, stages, warpgroups in itertools.product(
        (64, 128, 256), (False, True), (2, 4), (2, 3, 4), (1, 2)
    ):
        for ctas in (multicast, 128):
            one = Pipeline("f16", n, sparse, stages, warpgroups, multicast=multicast, ctas=ctas, scope="cta")
            if one.stage_bytes * stages + 1024 <= SHARED:
                yield one


def all_kernels(only: str = "") -> list[tuple[str, Kernel]]:
    """Each kernel with its group whose name this pattern finds; those that do not fit into shared memory are left out,
    and a name comes once."""
    found = [("stream", one.kernel()) for one in streams()]
    found += [("copies", one.kernel()) for one in copies()]
    found += [("barriers", one) for one in barriers()]
    found += [("clusters", one) for one in of_clusters()]
    found += [("pipelines", one.kernel()) for one in pipelines()]
    named = {kernel.name: (group, kernel) for group, kernel in found}
    return [each for name, each in named.items() if re.search(only, name)]


def held_out(name: str) -> bool:
    """Whether a loop is kept back from what fits the model: a third of them."""
    return hashlib.sha256(name.encode()).digest()[0] % 3 == 0


def build(folder: Path, only: str) -> None:
    """Writes and assembles the modules."""
    folder.mkdir(parents=True, exist_ok=True)
    kernels = [kernel for _, kernel in all_kernels(only)]

    def one(number: int) -> list[str]:
        source = folder / f"module{number}.ptx"
        source.write_text(
            HEADER + "".join(kernel.text() for kernel in kernels[number * MODULE : (number + 1) * MODULE])
        )
        command = ["ptxas", "-arch=sm_90a", "-o", str(source.with_suffix(".cubin")), str(source)]
        said = subprocess.run(command, check=True, capture_output=True, text=True)
        return re.findall(r"serialized due to .*'(\w+)'", said.stdout + said.stderr)

    with ThreadPoolExecutor() as pool:
        serialised = list(pool.map(one, range(-(-len(kernels) // MODULE))))
    (folder / SERIALISED).write_text("\n".join(itertools.chain(*serialised)))


class Gpu:
    """GPU 0: loads modules, makes maps, launches."""

    def __init__(self) -> None:
        self.driver = Driver()
        self.pool = self.driver.allocate(1 << 30)
        self.out = self.driver.allocate(1 << 21)
        self.modules: dict[str, Any] = {}

    def function(self, cubin: str, name: str) -> Any:
        """A kernel of a module, which is loaded once."""
        if cubin not in self.modules:
            self.modules[cubin] = c.c_void_p()
            self.driver.call("cuModuleLoad", c.byref(self.modules[cubin]), cubin.encode())
        function = c.c_void_p()
        self.driver.call("cuModuleGetFunction", c.byref(function), self.modules[cubin], name.encode())
        self.driver.call("cuFuncSetAttribute", function, 8, SHARED - 1024)
        return function

    def map(self, rows: int, row_bytes: int, box_rows: int, box_bytes: int, swizzle: str) -> bytes:
        """A map of bytes."""
        code, words = self.driver.encode({
            "type": 0, "rank": 2, "address": self.pool, "size": [row_bytes, rows], "stride": [row_bytes],
            "box": [box_bytes, box_rows], "step": [1, 1], "interleave": 0,
            "swizzle": {"none": 0, "32B": 1, "64B": 2, "128B": 3}[swizzle], "promotion": 2, "fill": 0, "im2col": 0,
        })  # fmt: skip
        assert code == 0, (code, rows, row_bytes, box_rows, box_bytes, swizzle)
        return words

    def clocks(self, function: Any, kernel: Kernel, loops: int, maps: list[Any]) -> Any:
        """u64 [CTA, warp, clock] of one launch."""
        arguments = [c.c_uint64(self.out), c.c_uint32(loops), *maps]
        pointers = (c.c_void_p * len(arguments))(*[c.cast(c.byref(each), c.c_void_p) for each in arguments])
        self.driver.call(
            "cuLaunchKernel", function, kernel.ctas, 1, 1, kernel.threads, 1, 1, SHARED - 1024, None, pointers, None
        )
        self.driver.call("cuCtxSynchronize")
        data = self.driver.read(self.out, kernel.ctas * WARPS * RECORD).view(np.uint64)
        return data.reshape(kernel.ctas, WARPS, 3)[:, : kernel.threads // 32].astype(np.int64)

    def measure(self, kernel: Kernel, folder: Path, module: int) -> dict[str, Any]:
        """The row of one kernel."""
        function = self.function(str(folder / f"module{module}.cubin"), kernel.name)
        maps = []
        for number in range(4):
            held = (c.c_uint8 * 128)()
            if number < len(kernel.maps):
                c.memmove(held, self.map(*kernel.maps[number]), 128)
            maps.append(held)
        spans, parts = [], []
        for loops in kernel.loops:
            taken = [self.clocks(function, kernel, loops, maps) for _ in range(REPEATS + 1)][1:]
            took = [np.where(t[..., 0] > 0, t[..., 1] - t[..., 0], 0) for t in taken]
            spans.append([int(cycles[0].max()) for cycles in took])
            parts.append([int(cycles.max()) for cycles in took])
            last = int(taken[-1][0, :, 2].max())
        count = kernel.loops[1] - kernel.loops[0]
        return {
            "first": (min(spans[1]) - min(spans[0])) / count, "all": (min(parts[1]) - min(parts[0])) / count,
            "short": min(spans[0]), "long": min(spans[1]), "part": last,
        }  # fmt: skip


def run(folder: Path, result: Path, seconds: float, only: str) -> None:
    """Measures every kernel, until the time is up. A process that ends or says nothing for `SILENT` seconds (an error
    or a hang of the GPU) loses its kernel alone: the next one goes on behind it."""
    result.write_text("group,name,cycles,cycles_all,short,long,part\n")
    kernels = all_kernels(only)
    count, until = len(kernels), time.monotonic() + seconds
    first = 0
    while first < count and time.monotonic() < until:
        command = [
            sys.executable,
            "-m",
            "measurements.hopper.measure",
            "part",
            str(folder),
            str(result),
            f"--only={only}",
        ]
        child = subprocess.Popen([*command, "--first", str(first)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        watch = threading.Timer(SILENT, child.kill)
        watch.start()
        for line in child.stdout:
            first = int(line)
            watch.cancel()
            watch = threading.Timer(SILENT if time.monotonic() < until else 0, child.kill)
            watch.start()
        watch.cancel()
        if child.wait():
            print("failed:", kernels[min(first, count - 1)][1].name, flush=True)
            first += 1


def run_part(folder: Path, result: Path, first: int, only: str) -> None:
    """Measures the kernels from `first` on; prints the number of each next one."""
    gpu, kernels = Gpu(), all_kernels(only)
    serialised = set((folder / SERIALISED).read_text().split())
    with result.open("a", newline="") as file:
        writer = csv.writer(file)
        for number, (group, kernel) in list(enumerate(kernels))[first:]:
            print(number, flush=True)
            if kernel.name in serialised:
                continue
            row = gpu.measure(kernel, folder, number // MODULE)
            values = [round(row["first"], 3), round(row["all"], 3), row["short"], row["long"], row["part"]]
            writer.writerow([group, kernel.name, *values])
            file.flush()
        print(len(kernels), flush=True)


def main() -> None:
    """Builds or runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("build", "run", "part"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("result", type=Path, nargs="?")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default="", help="a pattern of names")
    options = parser.parse_args()
    if options.what == "build":
        build(options.folder, options.only)
    elif options.what == "run":
        run(options.folder, options.result, options.seconds, options.only)
    else:
        run_part(options.folder, options.result, options.first, options.only)


if __name__ == "__main__":
    main()
