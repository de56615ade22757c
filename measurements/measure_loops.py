"""Measures the programs of `programs.py` on the NVIDIA GPU at hand.

    python measure_loops.py build  # PTX and cubins, one of each for a group of programs (no GPU needed)
    python measure_loops.py run    # every program on one SM: results/GROUP.csv and results/device.json

`run` needs cupy. Each program is launched with two loop counts, each several times; the smallest of each counts, and
their difference divided by the difference of the loop counts is what one iteration costs. `ends_of_first` are the
cycles by which each warp ends later than the first one to end when the loop has one iteration, in the launch of median
length: the first iteration waits for its instructions, by sub-core, so that warps come to the second one at different
times. `loops.py` adds the SASS and writes results/loops.json.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import importlib
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import mixed
import operations
import programs as p
from all_programs import all_programs

HERE = Path(__file__).resolve().parent


def wanted(groups: list[str] | None) -> list[p.Program]:
    """All programs, or those of some groups."""
    return [
        x
        for x in (*all_programs(), *mixed.mixed_programs(), *operations.operation_programs())
        if groups is None or x.group in groups
    ]


def build(folder: Path, ptxas: str, groups: list[str] | None) -> None:
    """Write and assemble one module for each group."""
    folder.mkdir(parents=True, exist_ok=True)
    everything = wanted(groups)
    for group in sorted({x.group for x in everything}):
        source = folder / f"{group}.ptx"
        source.write_text(p.ptx_module([x for x in everything if x.group == group]))
        subprocess.run([ptxas, "-arch=sm_90a", "-o", str(source.with_suffix(".cubin")), str(source)], check=True)


class Device:
    """One CTA at a time on the GPU: launches a kernel and reads the clocks of its warps."""

    def __init__(self) -> None:
        cupy = self.cupy = importlib.import_module("cupy")
        self.sink = cupy.zeros(2, dtype=cupy.uint32)
        self.clocks = cupy.zeros((2, 32), dtype=cupy.uint64)
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        self.name = (
            subprocess.run(query, capture_output=True, text=True, check=True)
            .stdout.splitlines()[0]
            .replace(", ", ", driver ")
        )

    def cycles(self, kernel: Any, table: Any, image: Any, warps: int, iterations: int) -> int:
        """Cycles from the first warp's clock before the loop to the last warp's after it."""
        return self.launch(kernel, table, image, warps, iterations)[0]

    def launch(self, kernel: Any, table: Any, image: Any, warps: int, iterations: int) -> tuple[int, list[int]]:
        """The cycles of a launch (`cycles`), and by how much later than the first each warp ends."""
        kernel(
            (1,), (32 * warps,), (table, image, self.sink, self.clocks[0], self.clocks[1], self.cupy.uint32(iterations))
        )
        start, stop = self.cupy.asnumpy(self.clocks)[:, :warps]
        return int(stop.max() - start.min()), (stop - stop.min()).astype(int).tolist()


def run(build_folder: Path, results: Path, date: str, launches: int, groups: list[str] | None) -> None:
    device = Device()
    cupy = device.cupy
    everything = wanted(groups)
    modules = {g: cupy.RawModule(path=str(build_folder / f"{g}.cubin")) for g in sorted({x.group for x in everything})}
    probe = everything[0]
    zeros = cupy.zeros((p.TABLE_REGISTERS + 1, 32), dtype=cupy.uint32)
    device.cycles(
        modules[probe.group].get_function(probe.name), zeros, cupy.zeros(p.SHARED_BYTES // 4, dtype=cupy.uint32), 1, 1
    )
    base = int(cupy.asnumpy(device.sink)[1])
    print(device.name, "shared memory of a kernel starts at", base, flush=True)

    rows: dict[str, list[dict[str, Any]]] = {g: [] for g in modules}
    for program in everything:
        begun = time.perf_counter()
        kernel = modules[program.group].get_function(program.name)
        table, image = cupy.asarray(p.register_table(program, base)), cupy.asarray(p.image(program.image, base))
        low, high = p.iterations(program)
        registers = (kernel.attributes["num_regs"] + 7) // 8 * 8
        for warps in program.warps:
            if registers * 32 * warps > 65536:
                continue
            timed = {n: [device.cycles(kernel, table, image, warps, n) for _ in range(launches)] for n in (low, high)}
            per_iteration = (min(timed[high]) - min(timed[low])) / (high - low)
            once = sorted(device.launch(kernel, table, image, warps, 1) for _ in range(launches))
            rows[program.group].append(
                {
                    "program": program.name,
                    "instruction": program.instruction,
                    **program.labels,
                    "warps": warps,
                    "instructions": program.count,
                    "iterations_low": low,
                    "iterations_high": high,
                    "cycles_low": min(timed[low]),
                    "cycles_high": min(timed[high]),
                    "cycles_per_iteration": round(per_iteration, 3),
                    "cycles_per_instruction": round(per_iteration / program.count, 4),
                    "slowest_minus_best_launch": max(timed[high]) - min(timed[high]),
                    "registers": kernel.attributes["num_regs"],
                    "ends_of_first": " ".join(map(str, once[launches // 2][1])),
                }
            )
        if time.perf_counter() - begun > 5:
            print("slow:", program.name, round(time.perf_counter() - begun, 1), "s", flush=True)

    results.mkdir(parents=True, exist_ok=True)
    for group, lines in rows.items():
        with (results / f"{group}.csv").open("w", newline="") as file:
            file.write(f"# {device.name}, {date}; one CTA on one SM; best of {launches} launches for each loop count\n")
            writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)
    (results / "device.json").write_text(
        json.dumps({"gpu": device.name, "date": date, "launches": launches, "shared_base": base}) + "\n"
    )
    print({g: len(lines) for g, lines in rows.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("build", "run"))
    parser.add_argument("--build", type=Path, default=HERE / "build")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--ptxas", default="ptxas")
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    parser.add_argument("--groups", nargs="+", help="these groups alone")
    parser.add_argument("--launches", type=int, default=5)
    options = parser.parse_args()
    if options.step == "build":
        build(options.build, options.ptxas, options.groups)
    else:
        run(options.build, options.results, options.date, options.launches, options.groups)


if __name__ == "__main__":
    main()
