"""Measures energy on a GPU: builds the kernels, runs each for a second and reads NVML's energy counter.

python measure.py build [--folder build]                              # needs nvcc; no GPU
python measure.py run [--folder build] [--results results] [--seconds 420] [--only NAME,...]   # the GPU, cupy
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import importlib
import importlib.util
import json
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "gemm")]
from forms import FORMS, STUDY, contents  # noqa: E402
from kernels import UNROLL, source  # noqa: E402
from variants import Variant, variants  # noqa: E402

SMS = 132
GEMMS = [
    "f16_64x64x64_w2x2_s4",
    "f16_128x64x64_w2x2_s4",
    "f16_128x128x64_w2x2_s3",
    "f16_128x128x64_w2x4_s4",
    "f16_128x128x128_w2x4_s3",
    "f16_128x256x64_w2x4_s3",
    "f16_256x128x64_w4x2_s4",
    "bf16_64x64x64_w2x2_s3",
    "bf16_128x128x64_w2x4_s3",
    "s8_64x64x128_w2x2_s4",
    "s8_128x128x128_w2x2_s3",
    "s8_128x128x128_w2x4_s4",
    "s8_128x256x128_w2x4_s3",
    "s8_256x128x128_w4x2_s4",
    "dense_f16_64x64x64_w2x2_s4",
    "dense_f16_128x128x64_w2x2_s3",
    "dense_f16_128x128x64_w2x4_s4",
]
VALUE_FORMS = ("mma_k16_f16_f32", "sp_k32_f16_f32")
OTHER_FORMS = ["mma_k16_bf16_f32", "sp_k32_bf16_f32", "mma_k8_tf32_f32", "mma_k32_s8_s32", "sp_k64_s8_s32"]
OTHERS = ("held", "half", "tenth", "integers", "positive", "zero_a", "zero_b")
NEW = ("quarter", "half_b", "uniform", "repeated")
MOST = 2**31 - 1
L2, DEVICE = 16 << 20, 2 << 30
"""Bytes that the kernels of L2 and of device memory walk over."""


@dataclass(frozen=True)
class Row:
    """One measurement: a kernel with contents on a grid; `where` for kernels of global memory ("l1", "l2", "hbm")."""

    kernel: str
    content: str
    grid: int = SMS
    where: str = ""

    @property
    def label(self) -> str:
        return " ".join(filter(None, (self.kernel, self.content, self.where, str(self.grid))))


def rows() -> list[Row]:
    """Everything that is measured once in a pass."""
    found = [Row("rest", ""), Row("sleeping", "")]
    found += [Row(form.name, content) for form in FORMS for content in ("zeros", "random")]
    found += [Row(name, content) for name in VALUE_FORMS for content in STUDY]
    found += [Row("sp_k32_f16_f32", content) for content in ("constant_metadata", "held_metadata")]
    found += [Row(name, content, grid) for name in VALUE_FORMS for content in ("zeros", "random") for grid in (66, 264)]
    plain = "iadd lop3 imad ffma shf mov ldmatrix_x4 ldmatrix_x2 ldmatrix_x1".split()  # noqa: SIM905
    plain += "lds_b32 lds_b32_conflict8 lds_v4 sts_b32 sts_v4".split()  # noqa: SIM905
    found += [Row("heavy", "numbers", grid) for grid in (33, 66, 132, 264, 528)]
    found += [Row(name, "random", 528) for name in VALUE_FORMS]
    found += [Row(name, content) for name in OTHER_FORMS for content in OTHERS]
    found += [Row(name, content) for name in VALUE_FORMS for content in NEW]
    found += [Row(name, content) for name in plain for content in ("zeros", "random")]
    found += [Row("bar", "zeros")]
    walks = [("ldg_ca", "l1"), *((name, where) for name in ("ldg_cg", "cp_async", "stg") for where in ("l2", "hbm"))]
    found += [Row(name, content, 2 * SMS, where) for name, where in walks for content in ("zeros", "random")]
    found += [Row(f"gemm {name}", content, 4096) for name in GEMMS for content in ("zeros", "random")]
    found += [Row(f"gemm {name}", "random", 1024) for name in GEMMS]
    return found + [Row(f"gemm {name}", "integers", 4096) for name in GEMMS[:7:2]]


def build(folder: Path) -> None:
    """Compiles everything and writes the contents of the registers."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "energy.cu").write_text(source())
    common = ["nvcc", "-std=c++17", "-gencode=arch=compute_90a,code=sm_90a", "-cubin", "-O3"]
    jobs = [[*common, "-o", str(folder / "energy.cubin"), str(folder / "energy.cu")]]
    gemm = HERE.parent / "gemm" / "gemm.cu"
    jobs += [[*common, *v.defines, "-o", str(folder / f"{v.name}.cubin"), str(gemm)] for v in _gemms().values()]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda job: subprocess.run(job, check=True), jobs))
    by_name = {form.name: form for form in FORMS}
    inputs = {f"{r.kernel}|{r.content}": contents(by_name[r.kernel], r.content) for r in rows() if r.kernel in by_name}
    np.savez_compressed(folder / "inputs.npz", **inputs)
    print(len(jobs), "cubins,", len(inputs), "contents")


def _gemms() -> dict[str, Variant]:
    return {v.name: v for v in variants() if v.name in GEMMS}


class Nvml:
    """The counters of the GPU."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.library.nvmlInit_v2()
        self.device = ctypes.c_void_p()
        self.library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device))

    def _ask(self, name: str, kind: Any, *before: Any) -> int:
        value = kind()
        code = getattr(self.library, name)(self.device, *before, ctypes.byref(value))
        return -1 if code else int(value.value)

    def energy_mj(self) -> int:
        return self._ask("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong)

    def state(self) -> dict[str, int]:
        """Clocks in MHz, temperature in degrees, power in mW, reasons of throttling as bits."""
        return {
            "sm_mhz": self._ask("nvmlDeviceGetClockInfo", ctypes.c_uint, 1),
            "memory_mhz": self._ask("nvmlDeviceGetClockInfo", ctypes.c_uint, 2),
            "celsius": self._ask("nvmlDeviceGetTemperature", ctypes.c_uint, 0),
            "power_mw": self._ask("nvmlDeviceGetPowerUsage", ctypes.c_uint),
            "throttle": self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong),
            "limit_mw": self._ask("nvmlDeviceGetEnforcedPowerLimit", ctypes.c_uint),
        }


class Watch(threading.Thread):
    """Notes each change of the energy counter with its time, and the state a few times."""

    def __init__(self, nvml: Nvml) -> None:
        super().__init__(daemon=True)
        self.nvml, self.over = nvml, False
        self.changes: list[tuple[float, int]] = []
        self.states: list[tuple[float, dict[str, int]]] = []

    def run(self) -> None:
        last, asked = -1, 0.0
        while not self.over:
            energy, now = self.nvml.energy_mj(), time.perf_counter()
            if energy != last:
                self.changes.append((now, energy))
                last = energy
            if now - asked > 0.2:
                self.states.append((now, self.nvml.state()))
                asked = now
            time.sleep(0.002)


class Runner:
    """Runs measurements and writes each as soon as it is there."""

    def __init__(self, folder: Path, results: Path, each: float) -> None:
        self.cp = importlib.import_module("cupy")
        self.folder, self.results, self.each = folder, results, each
        results.mkdir(parents=True, exist_ok=True)
        self.nvml = Nvml()
        self.before = self._idle(1.0)
        self.module = self.cp.RawModule(path=str(folder / "energy.cubin"))
        self.inputs = np.load(folder / "inputs.npz")
        self.arena = self.cp.zeros(DEVICE, dtype=self.cp.uint8)
        self.filled = "zeros"
        self.out = self.cp.zeros(4096, dtype=self.cp.uint32)
        self.writer: Any = None
        self.raw: list[Any] = []
        print("before any work", self.before, self.nvml.state(), flush=True)

    def _idle(self, seconds: float) -> float:
        begin, first = time.perf_counter(), self.nvml.energy_mj()
        time.sleep(seconds)
        return (self.nvml.energy_mj() - first) / 1e3 / (time.perf_counter() - begin)

    def fill(self, content: str) -> None:
        """The arena's contents."""
        if content == self.filled:
            return
        step = 1 << 28
        self.arena[:step] = self.cp.random.randint(0, 256, step, dtype=self.cp.uint8) if content == "random" else 0
        for i in range(step, DEVICE, step):
            self.arena[i : i + step] = self.arena[:step]
        self.filled = content

    def launcher(self, row: Row) -> tuple[Any, int, int, str]:
        """A function of a number of turns that launches them; instructions, bytes a turn; what they are."""
        if row.kernel.startswith("gemm "):
            return self.gemm(row)
        kernel, cp = self.module.get_function(f"k_{row.kernel}"), self.cp
        if row.where:
            self.fill(row.content)
            size = {"l1": 16 << 10, "l2": L2, "hbm": DEVICE}[row.where]
            shared = 65536 if row.kernel == "cp_async" else 0
            kernel.max_dynamic_shared_size_bytes = 65536
            arguments = lambda n: (self.arena, self.out, np.int32(n), np.uint64(size))  # noqa: E731
            return (
                lambda n: kernel((row.grid,), (256,), arguments(n), shared_mem=shared),
                row.grid * 8 * UNROLL,
                row.grid * 8 * UNROLL * 512,
                "accesses",
            )
        words = self._words(row)
        data = cp.asarray(words)
        return (
            lambda n: kernel((row.grid,), (128,), (data, self.out, np.int32(min(n, 2**31 - 1)))),
            row.grid * 4 * UNROLL,
            0,
            "instructions",
        )

    def _words(self, row: Row) -> Any:
        key, words = f"{row.kernel}|{row.content}", np.zeros(8192, np.uint32)
        if key in self.inputs.files:
            found = self.inputs[key].reshape(-1)
            words[: found.size] = found
        elif row.content == "random" and row.kernel == "ffma":
            rng = np.random.default_rng(5)
            values = rng.choice([-1, 1], 8192) * rng.uniform(0.3, 0.9, 8192)
            words = values.astype(np.float32).view(np.uint32)
        elif row.content == "numbers":  # pairs of f16 that are f32 below 1 too
            rng = np.random.default_rng(5)
            words = encode_pairs(rng)
        elif row.content == "random":
            words = np.random.default_rng(5).integers(0, 1 << 32, 8192, dtype=np.uint32)
        return words

    def gemm(self, row: Row) -> tuple[Any, int, int, str]:
        cp, m, n = self.cp, row.grid, row.grid
        v = _gemms()[row.kernel.split()[1]]
        k, stored = v.k, v.k // 2 if v.sparse else v.k
        scale = 32 if v.type == "s8" else 1

        def matrix(shape: tuple[int, int]) -> Any:
            if row.content == "zeros":
                x = cp.zeros(shape, cp.float32)
            elif row.content == "integers":
                x = cp.random.randint(-3, 4, shape).astype(cp.float32)
            else:
                x = cp.random.standard_normal(shape, dtype=cp.float32) * scale
            if v.type == "bf16":
                return (x.view(cp.uint32) >> 16).astype(cp.uint16)
            return cp.rint(x).clip(-127, 127).astype(cp.int8) if v.type == "s8" else x.astype(cp.float16)

        from_gemm = _gemm_runner()
        pieces, words = [matrix((m, stored)), matrix((n, k))], cp.zeros(1, cp.uint32)
        if v.sparse:
            legal = cp.array([4, 8, 12, 9, 13, 14], cp.uint32)
            words = from_gemm.metadata(self, v, legal[cp.random.randint(0, 6, (m, k // 4))])
        self.filled = ""
        places, at = [], 0
        for piece in (*pieces, words):
            flat = piece.reshape(-1).view(cp.uint8)
            self.arena[at : at + flat.size] = flat
            places.append(self.arena[at:])
            at += flat.size + (4 << 20)
        d = cp.zeros((m, n), dtype=cp.float32)
        ctas = (m // v.bm) * (n // v.bn)
        clocks, times = cp.zeros(ctas * v.threads // 32 * 4, cp.uint64), cp.zeros(ctas * 4, cp.uint64)
        kernel = cp.RawModule(path=str(self.folder / f"{v.name}.cubin")).get_function("gemm")
        kernel.max_dynamic_shared_size_bytes = v.shared_bytes
        turns = -(-v.k // v.bk // v.stages) * v.stages
        arguments = (*places, d, clocks, times, np.int32(turns), np.int32(m), np.int32(n), np.int32(m // 16 * 128))

        def launch(count: int) -> None:
            for _ in range(count):
                kernel((n // v.bn, m // v.bm), (v.threads,), arguments, shared_mem=v.shared_bytes)

        return launch, 1, turns * v.bk, "kernels"

    def measure(self, row: Row, turn: int) -> None:
        cp = self.cp
        launch, each, moved, what = (None, 0, 0, "") if row.kernel == "rest" else self.launcher(row)
        count = 0
        if launch is not None:
            count = 3 if what == "kernels" else 200
            while count < MOST // 8:  # how many turns fill the time
                cp.cuda.runtime.deviceSynchronize()
                begin = time.perf_counter()
                launch(count)
                cp.cuda.runtime.deviceSynchronize()
                spent = time.perf_counter() - begin
                if spent > 0.02:
                    break
                count *= 8
            count = min(max(int(count * self.each / spent), 1), MOST)
        watch = Watch(self.nvml)
        watch.start()
        time.sleep(0.01)
        begin = time.perf_counter()
        if launch is None:
            time.sleep(self.each)
        else:
            launch(count)
            cp.cuda.runtime.deviceSynchronize()
        end = time.perf_counter()
        time.sleep(0.03)
        watch.over = True
        watch.join()
        self.note(row, turn, count * each, count * moved, begin, end, watch, what)

    def note(
        self, row: Row, turn: int, count: int, moved: int, begin: float, end: float, watch: Watch, what: str
    ) -> None:
        inside = [(t, e) for t, e in watch.changes if begin + 0.3 * self.each < t <= end]
        power = float("nan")
        if len(inside) > 1:
            power = (inside[-1][1] - inside[0][1]) / 1e3 / (inside[-1][0] - inside[0][0])
        states = [s for t, s in watch.states if begin + 0.3 * self.each < t <= end] or [watch.states[-1][1]]
        record = {
            "kernel": row.kernel,
            "content": row.content,
            "where": row.where,
            "ctas": row.grid,
            "repeat": turn,
            "what": what,
            "count": count,
            "bytes_or_k": moved,
            "seconds": round(end - begin, 5),
            "power_w": round(power, 2),
            "samples": len(inside),
            **{key: round(float(np.mean([s[key] for s in states])), 1) for key in states[0] if key != "throttle"},
            "throttle": int(np.bitwise_or.reduce([s["throttle"] for s in states])),
        }
        with (self.results / "energy.csv").open("a", newline="") as file:
            if self.writer is None:
                csv.writer(file, lineterminator="\n").writerow(record)
                self.writer = True
            csv.writer(file, lineterminator="\n").writerow(record.values())
        self.raw.append([row.label, turn, begin, end, watch.changes])
        mean = (end - begin) * power / max(count, 1) * 1e9
        print(f"{row.label:44s} {power:7.1f} W {mean:12.2f} nJ {record['sm_mhz']:6.0f} MHz", flush=True)


def encode_pairs(rng: np.random.Generator) -> Any:
    """Normal f16 numbers, two in a word."""
    return rng.standard_normal(16384).astype(np.float16).view(np.uint32)


def _gemm_runner() -> Any:
    """The class of ../gemm/measure.py, whose name is this one's."""
    spec = importlib.util.spec_from_file_location("gemm_measure", HERE.parent / "gemm" / "measure.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gemm_measure"] = module
    spec.loader.exec_module(module)
    return module.Runner


def run(options: Any) -> None:
    """Passes over all rows in random order until the time is up."""
    begun = time.perf_counter()
    runner, rng, failed = Runner(options.folder, options.results, options.each), np.random.default_rng(22), set()
    asked = [r for r in rows() if not options.only or any(r.label.startswith(x) for x in options.only.split(","))]
    if options.done:
        done = set(options.done.read_text().splitlines())
        asked = [r for r in asked if r.label not in done]
    for turn in range(options.passes):
        for i in rng.permutation(len(asked)):
            row = asked[i]
            if time.perf_counter() - begun > options.seconds or row in failed:
                continue
            try:
                runner.measure(row, turn)
            except Exception:  # the others are worth having
                failed.add(row)
                print("FAILED", row.label, flush=True)
                traceback.print_exc()
    (options.results / "samples.json").write_text(json.dumps(runner.raw))
    print(f"{time.perf_counter() - begun:.0f} s, failed: {[r.label for r in failed]}")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("build", "run"))
    parser.add_argument("--folder", type=Path, default=HERE / "build")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--seconds", type=float, default=420.0, help="no measurement begins later")
    parser.add_argument("--each", type=float, default=1.0, help="seconds of a measurement")
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--done", type=Path, help="a file of labels that are left out")
    parser.add_argument("--only", default="", help="beginnings of labels, comma-separated")
    options = parser.parse_args()
    build(options.folder) if options.step == "build" else run(options)


if __name__ == "__main__":
    main()
