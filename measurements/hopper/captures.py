"""Captured launches on a GPU again: whether their bytes come out, and how long they take.

    python -m measurements.hopper.captures build FOLDER [NAME.json ...]   # cubins and data; needs ptxas, no GPU
    python -m measurements.hopper.captures run FOLDER                     # on a GPU: `ROUNDS` launches of each
    python -m measurements.hopper.captures read FOLDER NCU.csv OUT.csv    # what ncu said of `run`

    ncu --csv --clock-control none --cache-control none \\
        --metrics sm__cycles_active.max,sm__cycles_elapsed.max,gpu__time_duration.sum,sm__inst_executed.sum,\\
    launch__registers_per_thread python -m measurements.hopper.captures run FOLDER > NCU.csv

Without names, `build` takes the captures of tests/golden/launches that have data. Buffers whose addresses a capture
states keep their distances; words of 8 bytes in parameters and buffers that point into them are moved with them.
Tensor maps whose bytes are zeros are encoded by the driver. In each round kernels take turns, with buffers written
anew: a kernel's code has run before, but others ran since. A launch that takes longer than `LONGEST` ends the process.
`measurements.hopper.compare_captures` prints errors.
"""

from __future__ import annotations

import argparse
import csv
import ctypes as c
import json
import os
import shutil
import subprocess
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from measurements.tensor_maps.driver import Driver

ROUNDS = 8
LONGEST = 10.0  # seconds of a launch
GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "launches"
EMPTY = {"empty_1": 1, "empty_4": 4, "empty_132": 132}  # CTAs of kernels that do nothing
METRICS = {
    "active": "sm__cycles_active.max", "elapsed": "sm__cycles_elapsed.max", "ns": "gpu__time_duration.sum",
    "instructions": "sm__inst_executed.sum", "registers": "launch__registers_per_thread",
}  # fmt: skip
MAP_BYTES = 128
PAGE = 1 << 21  # bytes
_CTYPES = {
    "s8": c.c_int8, "u8": c.c_uint8, "s16": c.c_int16, "u16": c.c_uint16, "s32": c.c_int32, "u32": c.c_uint32,
    "s64": c.c_int64, "u64": c.c_uint64, "f32": c.c_float, "f64": c.c_double,
}  # fmt: skip
_EMPTY_PTX = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry empty() { ret; }\n"


def build(folder: Path, captures: Sequence[Path]) -> None:
    """Assembles the kernels, and puts down what is needed where there is no tcsim."""
    from simulator.program.capture import read_capture

    folder.mkdir(parents=True, exist_ok=True)
    jobs: list[dict[str, Any]] = []
    for path in captures or sorted(GOLDEN.glob("*.json")):
        capture = read_capture(path)
        if not capture.has_data:
            continue
        _assemble(Path(capture.ptx), folder / f"{path.stem}.cubin")
        said = json.loads(path.read_text())
        shutil.copyfile(path.parent / said["data"], folder / f"{path.stem}.npz")
        params = [(kind, value.hex() if kind == "bytes" else value) for kind, value in capture.params]
        buffers = {name: (spec.bytes, spec.address) for name, spec in capture.buffers.items()}
        fields = {name: getattr(capture, name) for name in ("entry", "grid", "block", "cluster", "dynamic_shared")}
        maps = said.get("tensor_maps") or []
        jobs.append({"name": path.stem, "params": params, "buffers": buffers, "maps": maps, **fields})
    (folder / "empty.ptx").write_text(_EMPTY_PTX)
    for name, ctas in EMPTY.items():
        _assemble(folder / "empty.ptx", folder / f"{name}.cubin")
        np.savez(folder / f"{name}.npz")
        none: dict[str, Any] = {"params": [], "buffers": {}, "maps": [], "cluster": None, "dynamic_shared": 0}
        jobs.append({"name": name, "entry": "empty", "grid": (ctas, 1, 1), "block": (128, 1, 1), **none})
    (folder / "jobs.json").write_text(json.dumps(jobs))


def _assemble(source: Path, target: Path) -> None:
    subprocess.run(["ptxas", "-arch=sm_90a", "-o", str(target), str(source)], check=True)


class _Attribute(c.Structure):  # CUlaunchAttribute
    _fields_ = (("id", c.c_int), ("pad", c.c_int), ("value", c.c_uint32 * 16))


class _Launch(c.Structure):  # CUlaunchConfig
    _fields_ = (
        ("grid", c.c_uint32 * 3), ("block", c.c_uint32 * 3), ("shared", c.c_uint32), ("stream", c.c_void_p),
        ("attributes", c.c_void_p), ("count", c.c_uint32),
    )  # fmt: skip


class Gpu:
    """GPU 0."""

    CLUSTER = 4  # the attribute of a launch

    def __init__(self) -> None:
        self.driver = Driver()

    def launch(self, function: c.c_void_p, job: Mapping[str, Any], arguments: Sequence[Any]) -> None:
        """Runs a grid to its end."""
        pointers = (c.c_void_p * max(len(arguments), 1))(*[c.cast(c.byref(each), c.c_void_p) for each in arguments])
        own = (_Attribute * 1)(_Attribute(self.CLUSTER, 0, (c.c_uint32 * 16)(*(job["cluster"] or ()))))
        grid, block = ((c.c_uint32 * 3)(*job[name]) for name in ("grid", "block"))
        count = int(job["cluster"] is not None)
        launch = _Launch(grid, block, job["dynamic_shared"], None, c.cast(own, c.c_void_p), count)
        self.driver.call("cuLaunchKernelEx", c.byref(launch), function, pointers, None)
        self.driver.call("cuCtxSynchronize")


class Launched:
    """A captured launch whose buffers lie on the GPU."""

    def __init__(self, gpu: Gpu, folder: Path, job: Mapping[str, Any]) -> None:
        self.gpu, self.job = gpu, job
        data = np.load(folder / f"{job['name']}.npz")
        buffers: dict[str, tuple[int, int | None]] = job["buffers"]
        self.held = {name: (at, at + size) for name, (size, at) in buffers.items() if at is not None}
        self.shift = self._moved()
        self.places = {
            name: at + self.shift if at is not None else gpu.driver.allocate(size)
            for name, (size, at) in buffers.items()
        }
        self.before: dict[str, Any] = {}
        for name, (size, _) in buffers.items():
            given = data[f"in|{name}"] if f"in|{name}" in data else np.zeros(size, np.uint8)
            self.before[name] = self._pointing(np.ascontiguousarray(given).reshape(-1).view(np.uint8))
        outputs = [name[len("out|") :] for name in data if name.startswith("out|")]
        self.after = {name: np.ascontiguousarray(data[f"out|{name}"]).reshape(-1).view(np.uint8) for name in outputs}
        self.bytes = {
            number: self._pointing(np.frombuffer(bytes.fromhex(value), np.uint8))
            for number, (kind, value) in enumerate(job["params"])
            if kind == "bytes"
        }
        for fields in job["maps"]:
            self._encode(fields)
        self.arguments = [self._argument(number, *param) for number, param in enumerate(job["params"])]
        cubin = str(folder / f"{job['name']}.cubin")
        self.function = gpu.driver.function(cubin, job["entry"], job["dynamic_shared"])

    def _moved(self) -> int:
        """By how many bytes buffers with addresses lie elsewhere; they keep their places in a page."""
        if not self.held:
            return 0
        first, last = min(first for first, _ in self.held.values()), max(last for _, last in self.held.values())
        first = first // PAGE * PAGE
        return -(-self.gpu.driver.allocate(last - first + PAGE) // PAGE) * PAGE - first

    def _pointing(self, data: Any) -> Any:
        """A copy of uint8 [byte] in which pointers into buffers with addresses point to where these lie."""
        data = data.copy()
        words = data[: len(data) // 8 * 8].view(np.uint64)
        inside = np.zeros(len(words), bool)
        for first, last in self.held.values():
            inside |= (words >= first) & (words < last)
        words[inside] += np.uint64(self.shift % (1 << 64))
        return data

    def _encode(self, fields: Mapping[str, Any]) -> None:
        holder = self.before[fields["buffer"]] if fields.get("buffer") else self.bytes[fields["param"]]
        own = holder[fields.get("offset", 0) :][:MAP_BYTES]
        if own.any():
            return
        code, words = self.gpu.driver.encode({
            "type": fields["data_type"], "rank": fields["rank"], "address": fields["address"] + self.shift,
            "size": fields["size"], "stride": fields["stride_bytes"], "box": fields["box"],
            "step": fields["element_stride"], "interleave": fields.get("interleave", 0),
            "swizzle": fields.get("swizzle", 0), "promotion": fields.get("l2_promotion", 0),
            "fill": fields.get("fill", 0), "im2col": 0,
        })  # fmt: skip
        if code:
            raise RuntimeError(f"the driver refuses a map: {code}")
        own[:] = np.frombuffer(words, np.uint8)

    def _argument(self, number: int, kind: str, value: Any) -> Any:
        if kind == "buffer":
            return c.c_uint64(self.places[value])
        if kind == "bytes":
            return (c.c_uint8 * len(self.bytes[number])).from_buffer_copy(self.bytes[number].tobytes())
        return _CTYPES[kind](value)

    def run(self) -> int:
        """Launches; the number of wrong bytes."""
        for name, content in self.before.items():
            self.gpu.driver.write(self.places[name], content)
        self.gpu.launch(self.function, self.job, self.arguments)
        found = {name: self.gpu.driver.read(self.places[name], len(known)) for name, known in self.after.items()}
        return sum(int((found[name] != known).sum()) for name, known in self.after.items())


def run(folder: Path) -> None:
    """Launches every capture in `ROUNDS` turns; order.json names the launches that ncu tells of, in their order."""
    gpu, launches, order = Gpu(), [], []
    for job in json.loads((folder / "jobs.json").read_text()):
        launches.append(Launched(gpu, folder, job))
    for turn in range(ROUNDS):
        for each in launches:
            watch = threading.Timer(LONGEST, _hung, (each.job["name"],))
            watch.start()
            wrong = each.run()
            watch.cancel()
            order.append((each.job["name"], wrong))
            if turn == 0 or wrong:
                print(f"{each.job['name']}: {wrong} of {sum(map(len, each.after.values()))} bytes differ", flush=True)
    (folder / "order.json").write_text(json.dumps(order))


def _hung(name: str) -> None:
    print(f"{name}: no end after {LONGEST:.0f} seconds", flush=True)
    os._exit(1)


def read(folder: Path, source: Path, result: Path) -> None:
    """Writes what ncu counted of each capture: active cycles of the first launch, the least, the median and the most of
    all, and medians of the rest."""
    lines = source.read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith('"ID"'))
    counted: dict[int, dict[str, float]] = defaultdict(dict)
    for row in csv.DictReader(lines[first:]):
        counted[int(row["ID"])][row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
    order = json.loads((folder / "order.json").read_text())
    if len(counted) != len(order):
        raise RuntimeError(f"{len(counted)} launches were counted, {len(order)} made")
    own: dict[str, list[dict[str, float]]] = defaultdict(list)
    wrong: dict[str, int] = defaultdict(int)
    for number, (name, differing) in zip(sorted(counted), order, strict=True):
        own[name].append(counted[number])
        wrong[name] = max(wrong[name], differing)
    with result.open("w", newline="") as file:
        writer = csv.writer(file)
        columns = ["first", "least", "median", "most", "elapsed", "ns", "instructions", "registers"]
        writer.writerow(["capture", *columns, "bytes_differing"])
        for name, rows in own.items():
            values = {short: [row[metric] for row in rows] for short, metric in METRICS.items()}
            active = values.pop("active")
            numbers = [active[0], min(active), np.median(active), max(active), *map(np.median, values.values())]
            writer.writerow([name, *(round(float(number)) for number in numbers), wrong[name]])


def main() -> None:
    """Builds, runs or reads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("build", "run", "read"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", type=Path, nargs="*")
    options = parser.parse_args()
    if options.what == "build":
        build(options.folder, options.files)
    elif options.what == "run":
        run(options.folder)
    else:
        read(options.folder, *options.files)


if __name__ == "__main__":
    main()
