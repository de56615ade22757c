# ruff: noqa: B023 - closures are called at once
"""Builds and runs gemm.cu and memory.cu.

python measure.py build [--folder build]        # needs nvcc; no GPU
python measure.py run [--folder build] [--results results]   # needs the GPU, cupy, nvidia-smi; half a minute
"""

from __future__ import annotations

import argparse
import csv
import importlib
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from variants import Variant, variants

HERE = Path(__file__).parent
LOW, HIGH = 48, 240  # iterations, multiples of 2, 3 and 4
SMS = 132
SECTIONS = ("latencies", "rows", "loads_stores", "bulk", "launches_of_nothing", "gemm")


def build(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    common = ["nvcc", "-std=c++17", "-arch=sm_90a", "-cubin", "-O3"]
    jobs = [[*common, "-o", str(folder / "memory.cubin"), str(HERE / "memory.cu")]]
    jobs += [[*common, *v.defines, "-o", str(folder / f"{v.name}.cubin"), str(HERE / "gemm.cu")] for v in variants()]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda job: subprocess.run(job, check=True), jobs))
    print(len(jobs), "cubins")


class Table:
    """A CSV file that grows as results come."""

    def __init__(self, path: Path, head: str) -> None:
        self.path, self.head, self.writer = path, head, None

    def add(self, **row: Any) -> None:
        with self.path.open("a", newline="") as file:
            if self.writer is None:
                file.write(f"# {self.head}\n")
                self.writer = True  # type: ignore[assignment]
                csv.writer(file, lineterminator="\n").writerow(row)
            csv.writer(file, lineterminator="\n").writerow(
                [round(x, 4) if isinstance(x, float) else x for x in row.values()]
            )


class Runner:
    def __init__(self, folder: Path, results: Path, launches: int) -> None:
        self.cp = importlib.import_module("cupy")
        self.folder, self.results, self.launches = folder, results, launches
        results.mkdir(parents=True, exist_ok=True)
        query = [
            "nvidia-smi",
            "--query-gpu=name,driver_version,clocks.sm,clocks.mem,clocks.max.sm",
            "--format=csv,noheader",
        ]
        self.gpu = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0]
        print(self.gpu, flush=True)
        self.memory = self.cp.RawModule(path=str(folder / "memory.cubin"))
        self.arena = self.cp.zeros(3 << 30, dtype=self.cp.uint8)
        self.begun = time.perf_counter()

    def say(self, what: str) -> None:
        print(f"{time.perf_counter() - self.begun:6.1f} s  {what}", flush=True)

    def kernel(self, name: str, shared: int) -> Any:
        kernel = self.memory.get_function(name)
        kernel.max_dynamic_shared_size_bytes = max(shared, 1024)
        return kernel

    def flush(self) -> None:
        """Something else in L2."""
        self.arena[-(160 << 20) :] = 0

    def span(self, name: str, ctas: int, warps: int, arguments: Any, shared: int, cold: bool) -> tuple[float, float]:
        """Cycles from the first to the last clock of each CTA, best launch: the largest and the mean over CTAs."""
        cp = self.cp
        clocks = cp.zeros((ctas, warps, 2), dtype=cp.uint64)
        best = (1e18, 1e18)
        kernel = self.kernel(name, shared)
        for _ in range(self.launches):
            if cold:
                self.flush()
            kernel((ctas,), (32 * warps,), arguments(clocks), shared_mem=max(shared, 1024))
            got = cp.asnumpy(clocks).astype(np.int64)
            cycles = got[:, :, 1].max(1) - got[:, :, 0].min(1)
            best = min(best, (float(cycles.max()), float(cycles.mean())))
        return best

    def slope(
        self, name: str, ctas: int, warps: int, arguments: Any, shared: int, rounds: tuple[int, int], where: str = "l2"
    ) -> tuple[float, float]:
        """Cycles of one round: difference of two counts, of the slowest CTA and of the mean."""
        low, high = (
            self.span(name, ctas, warps, lambda clocks, n=n: arguments(n, clocks), shared, where == "hbm")
            for n in rounds
        )
        return (high[0] - low[0]) / (rounds[1] - rounds[0]), (high[1] - low[1]) / (rounds[1] - rounds[0])

    # ---- memory.cu

    def latencies(self) -> None:
        cp, table = self.cp, Table(self.results / "latency.csv", self.gpu)
        sink, clocks = cp.zeros(4, dtype=cp.uint32), cp.zeros((1, 1, 2), dtype=cp.uint64)
        rng = np.random.default_rng(1)

        def chase(name: str, base: Any, first: int, rounds: int, size: int = 0) -> float:
            best = 1e18
            for _ in range(3):
                if size > 100 << 20:
                    self.flush()
                self.kernel(name, 0)((1,), (32,), (base, np.uint32(first), np.int32(rounds), clocks, sink))
                got = cp.asnumpy(clocks).astype(np.int64)[0, 0]
                best = min(best, (got[1] - got[0]) / rounds)
            return best

        for name, size, stride in (
            ("chase_ca", 8 << 10, 128),
            ("chase_cg", 8 << 10, 128),
            ("chase_cg", 1 << 20, 128),
            ("chase_cg", 8 << 20, 256),
            ("chase_cg", 16 << 20, 512),
            ("chase_cg", 30 << 20, 512),
            ("chase_cg", 1 << 30, 65536),
            ("chase_cg", 1 << 30, 16384),
        ):
            count = size // stride
            order = rng.permutation(count).astype(np.uint32)
            ring = np.empty(count, np.uint32)
            ring[order] = np.roll(order, -1) * np.uint32(stride)
            self.arena[:size].view(cp.uint32)[:: stride // 4] = cp.asarray(ring)
            for _ in range(1 if size > 100 << 20 else 2):
                cycles = chase(name, self.arena, int(order[0]) * stride, count, size)
            table.add(what="chase", kernel=name, bytes=size, stride=stride, cycles=cycles)
        lines = np.arange(512, dtype=np.uint32) * 128
        self.arena[: 512 * 128].view(cp.uint32)[::32] = cp.asarray(lines)
        for line in lines:
            table.add(
                what="line",
                kernel="chase_cg",
                bytes=int(line),
                stride=0,
                cycles=chase("chase_cg", self.arena, int(line), 64),
            )
        self.arena[:] = 0
        self.say("latencies")

    def walk(self, cta: int, warp: int, advance: int, mask: int) -> tuple[Any, ...]:
        return (np.uint64(cta), np.uint32(warp), np.uint32(advance), np.uint32(mask))

    def loads_stores(self) -> None:
        cp = self.cp
        sink, table = cp.zeros(4, dtype=cp.uint32), Table(self.results / "loads_stores.csv", self.gpu)
        for sms in (1, 8, 33, 66, 132):
            for warps, count in ((1, 1), (1, 4), (4, 4), (8, 4), (16, 4), (16, 8)):
                for where in ("l2", "hbm"):
                    window = (32768 if where == "l2" else 16 << 20) // warps
                    walk = self.walk(warps * window, window, 512 * count, window - 1)
                    cycles, mean = self.slope(
                        f"load_{count}",
                        sms,
                        warps,
                        lambda n, clocks, walk=walk: (self.arena, *walk, np.int32(n), clocks, sink),
                        0,
                        (64, 512 if where == "l2" else min(512, window // (512 * count))),
                        where,
                    )
                    table.add(
                        what="load",
                        sms=sms,
                        where=where,
                        warps=warps,
                        count=count,
                        cycles=cycles,
                        mean=mean,
                        bytes_per_cycle=warps * 512 * count / cycles,
                    )
            for name, each in (("store_rows", 4096), ("store_fragments", 2048)):
                for warps in (1, 4, 8):
                    for where in ("l2", "hbm"):
                        window = (65536 if where == "l2" else 16 << 20) // warps
                        walk = self.walk(warps * window, window, each, window - 1)
                        if name == "store_fragments":  # 8 rows of 256 bytes, 16384 apart; then the next 256 bytes
                            walk = self.walk(
                                16 << 20, 131072 if where == "l2" else 1 << 20, 256, 1023 if where == "l2" else 16383
                            )
                        cycles, mean = self.slope(
                            name,
                            sms,
                            warps,
                            lambda n, clocks, walk=walk: (self.arena, *walk, np.int32(n), clocks),
                            0,
                            (64, 512),
                            where,
                        )
                        table.add(
                            what=name,
                            sms=sms,
                            where=where,
                            warps=warps,
                            count=8,
                            cycles=cycles,
                            mean=mean,
                            bytes_per_cycle=warps * each / cycles,
                        )
        self.say("loads, stores")

    def bulk(self) -> None:
        table = Table(self.results / "bulk.csv", self.gpu)
        for sms in (1, 8, 33, 66, 132):
            for where in ("l2", "hbm"):
                for size in (1024, 2048, 4096, 8192, 16384, 32768, 65536):
                    for depth in (1, 2, 4, 8):
                        if (
                            depth * size > 192 << 10
                            or (sms not in (1, 132) and depth not in (1, 4))
                            or (where == "hbm" and sms not in (1, 132))
                        ):
                            continue
                        window = max(65536, size * 2) if where == "l2" else 16 << 20
                        walk = self.walk(window, 0, size, window - 1)
                        rounds = (32, 288) if where == "l2" else (16, min(288, window // size))
                        if rounds[1] <= rounds[0]:
                            continue
                        cycles, mean = self.slope("bulk", sms, 1, lambda n, clocks, walk=walk: (self.arena, *walk,
                        np.int32(n), clocks, np.uint32(size), np.uint32(depth)),
                                                  depth * size + 128, rounds, where)  # fmt: skip
                        table.add(
                            sms=sms,
                            where=where,
                            size=size,
                            depth=depth,
                            cycles=cycles,
                            mean=mean,
                            bytes_per_cycle=size / cycles,
                        )
        table = Table(self.results / "mbarrier.csv", self.gpu)
        for warps in (1, 2, 4, 8):
            cycles, _ = self.slope(
                "mbarrier_round", 1, warps, lambda n, clocks: (np.int32(n), clocks), 1024, (64, 1024)
            )
            table.add(warps=warps, cycles=cycles)
        self.say("bulk")

    def rows(self) -> None:
        """cp.async by size, row and SMs; random contents (and zeros, where the last column says so)."""
        cp, table = self.cp, Table(self.results / "rows.csv", self.gpu)
        sets: dict[str, list[int]] = {"0": [0], "0,1": [0, 1], "0,2": [0, 2], "0,16": [0, 16],
        "0-3": list(range(4)), "0,2,4,6": [0, 2, 4, 6], "0-7": list(range(8)),
                                      "0-15": list(range(16)), "even<32": list(range(0, 32, 2)),
                                      "0-32": list(range(33)), "0-65": list(range(66)),
                                      "even": list(range(0, 132, 2)), "0-98": list(range(99)),
                                      "all": list(range(132))}  # fmt: skip

        def one(label: str, kind: str, warps: int, count: int, groups: int, own: int, what: str) -> None:
            active = np.zeros(256, np.uint8)
            for place, sm in enumerate(sets[label]):
                active[sm] = place + 1
            marks = cp.asarray(active)
            size = int(kind.split("_", maxsplit=1)[0])
            each = 32 * size * count
            clocks = cp.zeros((SMS, warps, 2), dtype=cp.uint64)
            kernel = self.kernel(f"rows_{kind}_{count}_{groups}", 131072 + 65536)
            row = int(kind.split("_")[2])
            mask = 8191 if len(sets[label]) <= 4 or what == "hbm" else 8 * row - 1
            walk = self.walk(own * (16 << 20), 0, row, mask)
            best = {}
            for rounds in (16, 64) if what == "hbm" else (64, 576):
                got = []
                for _ in range(4):
                    if what == "hbm":
                        self.flush()
                    kernel(
                        (SMS,),
                        (32 * warps,),
                        (self.arena, *walk, np.int32(rounds), clocks, marks),
                        shared_mem=131072 + 65536,
                    )
                    c = cp.asnumpy(clocks).astype(np.int64)
                    c = c[c[:, 0, 1] > 0]
                    spent = c[:, :, 1].max(1) - c[:, :, 0].min(1)
                    got.append((float(spent.max()), float(spent.mean())))
                best[rounds] = min(got)
            (few, low), (many, high) = best.items()
            cycles, mean = ((high[i] - low[i]) / (many - few) for i in (0, 1))
            table.add(sms=label.replace(",", " "), n=len(sets[label]), kind=kind, warps=warps, count=count,
            groups=groups, own=own, data=what, cycles=cycles, mean=mean,
                      bytes_per_cycle=warps * each / cycles, bytes_per_cycle_mean=warps * each / mean)  # fmt: skip

        kinds = (
            "16_0_512",
            "16_0_256",
            "16_0_128",
            "16_0_64",
            "16_0_32",
            "16_1_128",
            "8_1_256",
            "8_1_128",
            "4_1_128",
            "4_1_64",
        )
        for what in ("random", "zeros"):
            if what == "random":
                for i in range(0, 3 << 30, 1 << 28):
                    self.arena[i : i + (1 << 28)] = cp.random.randint(0, 256, 1 << 28, dtype=cp.uint8)
            else:
                self.arena[:] = 0
            for kind in kinds if what == "random" else ("16_0_512", "16_0_128"):
                for warps in (1, 2, 4, 8):
                    for count, groups in ((1, 1), (4, 1), (8, 1), (4, 4), (8, 2), (8, 4)):
                        one("0", kind, warps, count, groups, 1, what)
            for label in sets:
                for kind in ("16_0_512", "16_0_128", "16_0_64", "16_0_32"):
                    for own in (1, 0):
                        for warps, count, groups in ((8, 8, 4), (4, 8, 2), (4, 4, 1)):
                            one(label, kind, warps, count, groups, own, what)
                            if own and what == "random" and kind in ("16_0_512", "16_0_128", "16_0_64"):
                                one(label, kind, warps, count, groups, own, "hbm")
        self.say("rows")

    def launches_of_nothing(self) -> None:
        cp, table = self.cp, Table(self.results / "launch.csv", self.gpu)
        kernel = self.kernel("nothing", 1024)
        for ctas in (1, 132, 1024, 4096):
            times = []
            for _ in range(20):
                start, stop = cp.cuda.Event(), cp.cuda.Event()
                start.record()
                kernel((ctas,), (128,), ())
                stop.record()
                stop.synchronize()
                times.append(cp.cuda.get_elapsed_time(start, stop) * 1e3)
            start, stop = cp.cuda.Event(), cp.cuda.Event()
            start.record()
            for _ in range(200):
                kernel((ctas,), (128,), ())
            stop.record()
            stop.synchronize()
            table.add(
                ctas=ctas,
                best_us=min(times),
                median_us=float(np.median(times)),
                back_to_back_us=cp.cuda.get_elapsed_time(start, stop) * 5,
            )
        self.say("launches")

    # ---- gemm.cu

    def problem(self, v: Variant, m: int, n: int) -> dict[str, Any]:
        """Small integers, random legal metadata, and the product."""
        cp = self.cp
        cp.random.seed(3)
        k, dtype = v.k, {"f16": cp.float16, "bf16": cp.float32, "s8": cp.int8}[v.type]
        stored = k // 2 if v.sparse else k
        a = cp.random.randint(-3, 4, (m, stored)).astype(dtype)
        b = cp.random.randint(-3, 4, (n, k)).astype(dtype)
        full, words = a.astype(cp.float32), cp.zeros(1, dtype=cp.uint32)
        if v.sparse:
            pairs = cp.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
            chosen = pairs[cp.random.randint(0, 6, (m, k // 4))]
            full = cp.zeros((m, k // 4, 4), cp.float32)
            rows, chunks = cp.ogrid[:m, : k // 4]
            for i in (0, 1):
                full[rows, chunks, chosen[..., i]] = a.reshape(m, k // 4, 2)[..., i].astype(cp.float32)
            full = full.reshape(m, k)
            words = self.metadata(v, (chosen[..., 0] | chosen[..., 1] << 2).astype(cp.uint32))

        def raw(x: Any) -> Any:
            return (x.view(cp.uint32) >> 16).astype(cp.uint16) if v.type == "bf16" else x

        return {"a": raw(a), "b": raw(b), "e": words, "d": (full, b.astype(cp.float32))}

    def metadata(self, v: Variant, codes: Any) -> Any:
        """Codes [row, chunk] as the kernel reads them: word [K block][rows of a warp][lane][m16 tile]."""
        cp = self.cp
        m, chunks = codes.shape
        tiles = v.bm // v.warps_m // 16
        lane = cp.arange(32)
        group, within = lane // 4, lane % 4
        per_word = 16  # chunks of a row and block: 64 columns of f16, 64 of s8
        blocks = chunks // per_word
        words = cp.zeros((blocks, m // (16 * tiles), 32, tiles), cp.uint32)
        grid = codes.reshape(m // (16 * tiles), tiles, 16, blocks, per_word)
        for q in range(8):
            if v.type == "s8":
                row, chunk = group + 8 * (within & 1), 8 * (within >> 1) + q
            else:  # lanes 4g + 2s + h: step s of two, half h
                row, chunk = group + 8 * (q >> 2), 8 * (within >> 1) + 4 * (within & 1) + (q & 3)
            words |= cp.moveaxis(grid[:, :, row, :, chunk], 0, 2).transpose(3, 0, 2, 1) << cp.uint32(4 * q)
        return words

    def load(self, v: Variant) -> Any:
        kernel = self.cp.RawModule(path=str(self.folder / f"{v.name}.cubin")).get_function("gemm")
        kernel.max_dynamic_shared_size_bytes = v.shared_bytes
        return kernel

    def place(self, v: Variant, problem: dict[str, Any]) -> tuple[Any, Any, Any]:
        """A, B and metadata in the arena, with room behind each."""
        cp, found, at = self.cp, [], 0
        for name in ("a", "b", "e"):
            flat = problem[name].reshape(-1).view(cp.uint8)
            self.arena[at : at + flat.size] = flat
            found.append(self.arena[at:])
            at += flat.size + (4 << 20)
        return found[0], found[1], found[2]

    def gemm(self, m: int = 4096, n: int = 4096) -> None:
        cp = self.cp
        one, chip = Table(self.results / "one_sm.csv", self.gpu), Table(self.results / "chip.csv", self.gpu)
        problems: dict[Any, Any] = {}
        d = cp.zeros((m, n), dtype=cp.float32)
        details = {}  # type: ignore[var-annotated]
        for v in variants():
            key = (v.type, v.sparse)
            if key not in problems:
                problems = {key: self.problem(v, m, n)}
                left, right = problems[key]["d"]
                problems[key]["product"] = left @ right.T
            problem = problems[key]
            if v.sparse:  # the order of words depends on the tile
                fresh = self.problem(v, m, n)
                problem["e"] = fresh["e"]
            a, b, e = self.place(v, problem)
            kernel = self.load(v)
            attributes = kernel.attributes
            clocks = cp.zeros((m // v.bm) * (n // v.bn) * v.threads // 32 * 4, dtype=cp.uint64)
            times = cp.zeros((m // v.bm) * (n // v.bn) * 4, dtype=cp.uint64)
            pitch_e = np.int32(m // 16 * 128)

            def launch(grid: tuple[int, int], iterations: int, kernel: Any = kernel, v: Variant = v) -> None:
                kernel(
                    grid,
                    (v.threads,),
                    (a, b, e, d, clocks, times, np.int32(iterations), np.int32(m), np.int32(n), pitch_e),
                    shared_mem=v.shared_bytes,
                )

            labels = {"variant": v.name, "type": v.type, "sparse": int(v.sparse), "bm": v.bm, "bn": v.bn,
            "bk": v.bk, "warps": v.threads // 32,
                      "stages": v.stages, "mode": v.mode, "registers": attributes["num_regs"],
                      "spills": attributes["local_size_bytes"]}  # fmt: skip
            best = {}
            for iterations in (LOW, HIGH):
                got = []
                for _ in range(self.launches + 2):
                    launch((1, 1), iterations)
                    c = cp.asnumpy(clocks)[: v.threads // 32 * 4].reshape(-1, 4).astype(np.int64)
                    got.append((int(c[:, 2].max() - c[:, 1].min()), int(c[:, 2].max() - c[:, 0].min())))
                best[iterations] = (min(x for x, _ in got), min(x for _, x in got), max(x for x, _ in got))
            per = (best[HIGH][0] - best[LOW][0]) / (HIGH - LOW)
            one.add(**labels, low=LOW, high=HIGH, cycles_low=best[LOW][0], cycles_high=best[HIGH][0],
            slowest_high=best[HIGH][2], entry_to_stop_high=best[HIGH][1],
                    cycles_per_iteration=per)  # fmt: skip
            if v.mode:
                continue
            iterations = -(-v.k // v.bk // v.stages) * v.stages
            wrong = ""
            if iterations * v.bk == v.k:
                d[:] = -1
                launch((n // v.bn, m // v.bm), iterations)
                result = d.view(cp.int32).astype(cp.float32) if v.type == "s8" else d
                wrong = str(int((result != problem["product"]).sum()))
            for columns, rows in (
                (n // v.bn, m // v.bm),
                (2048 // v.bn, 2048 // v.bm),
                (1024 // v.bn, m // v.bm),
                (12, 11),
            ):
                if columns * v.bn <= n and rows * v.bm <= m:
                    self.whole_chip(chip, details, {**labels, "m": rows * v.bm, "n": columns * v.bn,
                    "k": iterations * v.bk, "wrong": wrong},
                                    (columns, rows), clocks, times, lambda grid=(columns, rows),
                                    count=iterations: launch(grid, count))  # fmt: skip
            np.savez_compressed(self.results / "chip_ctas.npz", **details)
            self.say(v.name)

    def whole_chip(
        self, chip: Table, details: Any, labels: Any, grid: tuple[int, int], clocks: Any, times: Any, launch: Any
    ) -> None:
        cp, ctas, spent = self.cp, grid[0] * grid[1], []
        for _ in range(12):
            start, stop = cp.cuda.Event(), cp.cuda.Event()
            start.record()
            launch()
            stop.record()
            stop.synchronize()
            t = cp.asnumpy(times).reshape(-1, 4).astype(np.int64)[:ctas]
            c = cp.asnumpy(clocks).reshape(-1, labels["warps"], 4).astype(np.int64)[:ctas]
            spent.append((cp.cuda.get_elapsed_time(start, stop) * 1e3, t, c))
        us, t, c = min(spent, key=lambda row: row[0])
        if labels["m"] == 4096 == labels["n"]:
            details[labels["variant"]] = np.concatenate([c.min(1)[:, :2], c.max(1)[:, 2:], t], axis=1)
        together = max(int((t[t[:, 2] == sm, 0] < t[t[:, 2] == sm, 1].min()).sum()) for sm in set(t[:, 2]))
        entry, loop, store = (float((c[:, :, i + 1].max(1) - c[:, :, i].min(1)).mean()) for i in range(3))
        chip.add(**labels, ctas=ctas, best_us=us, median_us=float(np.median([x for x, *_ in spent])),
        first_to_last_us=float(t[:, 1].max() - t[:, 0].min()) / 1e3,
                 mhz=self.clock(t, c), ctas_per_sm=together, entry_cycles=entry, loop_cycles=loop, store_cycles=store,
                 tflops=2.0 * labels["m"] * labels["n"] * labels["k"] / us / 1e6)  # fmt: skip

    @staticmethod
    def clock(t: Any, c: Any) -> float:
        """MHz: clock against globaltimer of the CTAs of SM 0, first entry to last end."""
        some = t[:, 2] == t[0, 2]
        ticks = t[some, 3].max() - c[some][:, 0, 0].min()
        return float(ticks / (t[some, 1].max() - t[some, 0].min()) * 1e3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("build", "run"))
    parser.add_argument("--folder", type=Path, default=HERE / "build")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--launches", type=int, default=5)
    parser.add_argument("--only", default="", help="methods of Runner, comma-separated")
    options = parser.parse_args()
    if options.step == "build":
        build(options.folder)
        return
    runner = Runner(options.folder, options.results, options.launches)
    for what in options.only.split(",") if options.only else SECTIONS:
        try:
            getattr(runner, what)()
        except Exception as error:  # the other measurements are worth having
            import traceback

            traceback.print_exc()
            print("FAILED", what, error, flush=True)


if __name__ == "__main__":
    main()
