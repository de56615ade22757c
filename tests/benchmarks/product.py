"""A product of whole matrices with the chip's values, exact values and time, on one core and on two: `python -m
tests.benchmarks.product [--size N] [--rounds N]`.

Each run is a process of its own, held to so many cores. What others run at the same time shows in the share of its
cores that a process had; a round in which that is small says little.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def work(size: int) -> dict[str, Any]:
    """One product in this process: seconds of its parts, and the processor time of them all."""
    import numpy as np

    from simulator import sparselt

    rng = np.random.default_rng(1)
    weight, b = (rng.standard_normal((size, size), np.float32).astype(np.float16) for _ in range(2))
    a = sparselt.prune(weight, "f16", "strip")
    sparselt.matmul(a[:64, :64], b[:64, :64], type="f16")  # loads what is loaded once
    begin, processor = time.perf_counter(), time.process_time()
    found = sparselt.matmul(a, b, type="f16", config="h100_sxm")
    seconds, used = time.perf_counter() - begin, time.process_time() - processor
    return {"seconds": seconds, "processor": used, "cycles": found.cycles, **found.summary()}


def run(size: int, cores: int) -> dict[str, Any]:
    """The same in a process that may use so many cores."""
    held = sorted(os.sched_getaffinity(0))[:cores]
    if len(held) < cores:
        raise SystemExit(f"{cores} cores are wanted; this process may use {len(held)}")
    command = [sys.executable, "-m", "tests.benchmarks.product", "--size", str(size), "--work"]
    threads = {name: str(cores) for name in ("TCSIM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
    answer = subprocess.run(
        command,
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | threads,
        preexec_fn=lambda: os.sched_setaffinity(0, held),
    )
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=4096, help="M = N = K, a multiple of 128 (default 4096)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", action="store_true", help="one product in this process, as JSON")
    options = parser.parse_args()
    if options.work:
        print(json.dumps(work(options.size)))
        return
    print(f"{options.size} x {options.size} x {options.size}, f16, 2:4: values, exact values and time")
    ratios = []
    for _ in range(options.rounds):
        one, two = (run(options.size, cores) for cores in (1, 2))
        assert all(one[name] == two[name] for name in ("cycles", "right", "largest_ulp"))
        ratios.append(one["seconds"] / two["seconds"])
        for cores, found in ((1, one), (2, two)):
            share = found["processor"] / found["seconds"] / cores
            print(f"  on {cores}: {found['seconds']:6.1f} s, {found['processor']:6.1f} s of processors ({share:.0%})")
        print(f"  ratio {ratios[-1]:.2f}")
    print(f"median ratio {statistics.median(ratios):.2f}; {one['right']:.2%} as exact, {one['cycles']:,} cycles")


if __name__ == "__main__":
    main()
