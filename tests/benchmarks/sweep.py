"""Shows what sweeps promise: `python -m tests.benchmarks.sweep [--only NAME] [--rounds N] [--points N]`.

cores     500 points in one process and in two, each held to as many cores, in turns
dask      the same points on a local Dask cluster of two workers of which one is killed, and on none: the same table
killed    the same points, killed again and again, and continued: the same bytes
million   a million cheap points: the peak of memory while it runs, at a tenth and at all of them

Others may load the cores: beside each time stands the share of its cores that the work had.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
POINTS = 500
GRID: dict[str, Any] = {
    "type": "f16",
    "tile": "64x64",
    "stages": 2,
    "m": 64,
    "n": 64,
    "k": 64,
    "tensor.sparse_full_k.interval": {"from": 4, "to": 13},
    "memory.latency": {"from": 200, "to": 690, "step": 10},
}
"""500 points, no two of which are the same to the engine."""


def million(points: int) -> dict[str, Any]:
    """So many sizes of a GEMM on one chip: few simulations, much arithmetic."""
    return {
        "m": {"from": 64, "to": 64_000, "step": 64},
        "n": {"from": 64, "to": 64 * (points // 1000), "step": 64},
        "k": 1024,
    }


def sweep(spec: dict[str, Any], output: Path, workers: int, cores: int = 0, dask: str = "") -> subprocess.Popen[str]:
    """A process that runs a sweep, held to so many cores."""
    held = ",".join(map(str, sorted(os.sched_getaffinity(0))[: cores or None]))
    command = [
        sys.executable,
        "-m",
        "tests.benchmarks.sweep",
        "--work",
        json.dumps(spec),
        str(output),
        str(workers),
        dask,
        held,
    ]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def work(spec: str, output: str, workers: str, dask: str, held: str = "") -> None:
    """Runs a sweep in this process, on these cores; prints seconds, processor time, and the peak of memory in bytes."""
    from simulator.studies.sweep import execute

    if held:
        os.sched_setaffinity(0, set(map(int, held.split(","))))
    begin = time.perf_counter()
    execute(json.loads(spec), output, workers=int(workers), dask=dask)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - begin,
                "processor": sum(one.ru_utime + one.ru_stime for one in used),
                "peak": [one.ru_maxrss * 1024 for one in used],
            }
        )
    )


def result(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What `work` printed."""
    out, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"the sweep ended with {process.returncode}")
    found: dict[str, Any] = json.loads(out)
    return found


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def cores(folder: Path, rounds: int) -> None:
    """The ratio of times on one core and on two."""
    ratios = []
    for number in range(rounds):
        found = {}
        for count in (1, 2):
            found[count] = result(sweep(GRID, folder / f"cores{number}_{count}.csv", count, count))
            one = found[count]
            share = one["processor"] / one["seconds"] / count
            used = f"processor {one['processor']:6.1f} s ({share:4.0%} of its cores)"
            print(f"cores    {count}: {one['seconds']:6.1f} s, {used}", flush=True)
        ratios.append(found[1]["seconds"] / found[2]["seconds"])
        alone = 2 * found[1]["processor"] / found[2]["processor"]
        same = digest(folder / f"cores{number}_1.csv") == digest(folder / f"cores{number}_2.csv")
        print(f"cores    {ratios[-1]:.2f} times one core's speed; the same bytes: {same}")
        print(f"cores    {alone:.2f} if each process had its core alone (by processor time)", flush=True)
    print(f"cores    median of {rounds}: {statistics.median(ratios):.2f}", flush=True)


def dask(folder: Path) -> None:
    """A cluster of processes of its own, one of whose workers is killed, beside one process."""
    from distributed import LocalCluster

    plain = folder / "plain.csv"
    result(sweep(GRID, plain, 2))
    make: Any = LocalCluster
    with make(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        process = sweep(GRID, folder / "dask.csv", 1, dask=cluster.scheduler_address)
        parts = folder / "dask.csv.parts"
        while len(list(parts.glob("[0-9]*.part"))) < 40 and process.poll() is None:
            time.sleep(0.05)
        victim = next(iter(cluster.workers.values())).pid
        os.kill(victim, signal.SIGKILL)
        result(process)
    same = digest(plain) == digest(folder / "dask.csv")
    print(f"dask     worker {victim} of two killed after 40 points; the same bytes as without a cluster: {same}")


def killed(folder: Path) -> None:
    """A sweep that is killed five times."""
    output = folder / "killed.csv"
    plain = folder / "plain.csv"
    if not plain.is_file():
        result(sweep(GRID, plain, 2))
    before = 0
    for target in (50, 150, 250, 350, 450):
        process = sweep(GRID, output, 2)
        parts = folder / "killed.csv.parts"
        while len(list(parts.glob("[0-9]*.part"))) < target and process.poll() is None:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        kept = len(list(parts.glob("[0-9]*.part")))
        print(f"killed   after {kept} points (before: {before})")
        before = kept
    victim = next(iter((folder / "killed.csv.parts").glob("[0-9]*.part")))
    victim.write_bytes(victim.read_bytes()[:-20])
    result(sweep(GRID, output, 2))
    print(f"killed   one part cut short, continued to the end; the same bytes: {digest(plain) == digest(output)}")


def memory(folder: Path, points: int) -> None:
    """The peak of memory of many points, and of a tenth of them."""
    for count in (points // 10, points):
        output = folder / f"million{count}.csv"
        found = result(sweep(million(count), output, 2))
        rows = sum(1 for _ in output.open()) - 1
        own, child = (size / 2**20 for size in found["peak"])
        rate = rows / found["seconds"]
        size = output.stat().st_size / 2**20
        print(
            f"million  {rows:,} points in {found['seconds']:,.0f} s ({rate:,.0f} a second), {size:,.0f} MB of CSV: "
            f"peak of memory {own:,.0f} MB, of the largest process that works {child:,.0f} MB"
        )


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        work(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("cores", "dask", "killed", "million"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--points", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.only in (None, "cores"):
            cores(folder, options.rounds)
        if options.only in (None, "dask"):
            dask(folder)
        if options.only in (None, "killed"):
            killed(folder)
        if options.only in (None, "million"):
            memory(folder, options.points)


if __name__ == "__main__":
    main()
