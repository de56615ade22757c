"""What tcsim says of the GEMM kernels by wgmma that were measured (`measurements.hopper.gemm`, results/gemm.csv):

    python -m measurements.hopper.compare_gemm [--kernels PART] [--worst 10]

What ncu counts of an empty kernel is added to what is simulated. Every third kernel and size, by a digest of their
names, is held out of what fits the model.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from measurements.hopper.gemm import name_of, tiles
from measurements.hopper.measure import held_out
from simulator.chip.config import load_config
from simulator.studies.gemm.estimate import filled, kernel_cycles

EMPTY = 2890  # cycles that ncu counts of a kernel that does nothing, on 132 SMs with 384 threads: H200, 2026-11-29
RESULTS = Path(__file__).parent / "results" / "gemm.csv"


class Row(NamedTuple):
    """A kernel and a size: cycles as measured (the least of some launches) and as simulated."""

    kernel: str
    m: int
    n: int
    k: int
    measured: float
    simulated: float

    @property
    def error(self) -> float:
        """In percent."""
        return 100 * (self.simulated / self.measured - 1)

    @property
    def held_out(self) -> bool:
        """Whether the model was fitted without it."""
        return held_out(f"{self.kernel} {self.m}x{self.n}x{self.k}")


def rows(part: str = "", config: str = "h200") -> Iterator[Row]:
    """All kernels whose names have this part, with all sizes."""
    chip = load_config(config)
    named = {name_of(tile): tile for tile in tiles()}
    with RESULTS.open() as file:
        for row in csv.DictReader(file):
            if part not in row["kernel"]:
                continue
            m, n, k = (int(row[name]) for name in "mnk")
            tile = named[row["kernel"]]
            cycles = kernel_cycles(tile, *filled(tile, m, n, k), chip) + EMPTY
            yield Row(row["kernel"], m, n, k, float(row["least_cycles"]), cycles)


def main() -> None:
    """Prints errors of what was fitted and what was held out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", default="", metavar="PART")
    parser.add_argument("--worst", type=int, default=10)
    options = parser.parse_args()
    found = list(rows(options.kernels))
    for held in (False, True):
        errors = [abs(row.error) for row in found if row.held_out == held]
        if errors:
            what = "held out" if held else "fitted"
            print(
                f"{what:9} {len(errors):4} GEMMs, mean {np.mean(errors):.2f}, median {np.median(errors):.2f}, "
                f"worst {max(errors):.1f} %"
            )
    for row in sorted(found, key=lambda row: -abs(row.error))[: options.worst]:
        size = f"{row.m}x{row.n}x{row.k}"
        cycles = f"measured {row.measured:9,.0f} simulated {row.simulated:9,.0f} {row.error:+.1f} %"
        print(f"{row.kernel:50} {size:16} {cycles}")


if __name__ == "__main__":
    main()
