"""Measures when the warps of a CTA begin the timed loop of `programs.py`: they leave a barrier together, and then take
turns on their sub-core to read the clock and to come to the loop.

    python measure_warp_starts.py  #

Needs the GPU, cupy and the cubin of group `random` (`measure_loops.py build --groups random`). Writes
results/warp_starts.csv: for each number of warps and each of them, the cycles by which its clock is later than the
first of the CTA: the median of all programs and launches, and the 10th and 90th percentile."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import measure_loops
import numpy as np
import programs as p

HERE = Path(__file__).resolve().parent
WARPS = (5, 6, 7, 8, 12, 16, 24, 32)
LAUNCHES = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=HERE / "build")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    options = parser.parse_args()
    device = measure_loops.Device()
    module = device.cupy.RawModule(path=str(options.build / "random.cubin"))
    programs = measure_loops.wanted(["random"])
    zeros = device.cupy.zeros(p.SHARED_BYTES // 4, dtype=device.cupy.uint32)
    offsets: dict[int, list[np.ndarray]] = {warps: [] for warps in WARPS}
    for program in programs:
        kernel = module.get_function(program.name)
        table = device.cupy.asarray(p.register_table(program, 0))
        for warps in WARPS:
            for launch in range(LAUNCHES + 1):
                device.cycles(kernel, table, zeros, warps, 96)
                start = device.cupy.asnumpy(device.clocks)[0, :warps].astype(np.int64)
                if launch:  # the first one fetches the code
                    offsets[warps].append(start - start.min())
    options.results.mkdir(parents=True, exist_ok=True)
    with (options.results / "warp_starts.csv").open("w", newline="") as file:
        file.write(f"# {device.name}; {len(programs)} programs of group random, {LAUNCHES} launches of each\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["warps", "warp", "median_cycles", "percentile_10_cycles", "percentile_90_cycles"])
        for warps, rows in offsets.items():
            table = np.array(rows)
            for warp in range(warps):
                column = table[:, warp]
                writer.writerow([warps, warp, *(int(np.percentile(column, q)) for q in (50, 10, 90))])


if __name__ == "__main__":
    main()
