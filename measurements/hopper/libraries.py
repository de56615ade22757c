"""Times of libraries on Hopper beside those that tcsim gives for its own kernels by wgmma:

    python -m measurements.hopper.libraries [cusparselt|cublas|torch|cutlass]

cuSPARSELt 0.8 and cuBLAS (results/cusparselt.csv: an H100, 2026-11-21, a stream of launches), torch (results/torch.csv:
an H200, least of many), CUTLASS's examples 48 and 62 (results/cutlass.csv: an H200 by ncu). For libraries, which choose
among many kernels, the fastest of a few tiles is taken; for CUTLASS the tile and the cluster of the example.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from measurements.hopper.compare_gemm import EMPTY
from simulator.chip.config import load_config
from simulator.studies.gemm.estimate import filled, in_stream, kernel_cycles
from simulator.studies.gemm.wgmma import WgmmaTile, parse_wgmma_tile

RESULTS = Path(__file__).parent / "results"
TILES = {True: ("128x128", "128x64", "64x128"), False: ("128x256", "128x128", "64x128")}
EXAMPLES = {
    "48": ("128x128", "tf32", (4, 2), "f32"), "62": ("128x128", "f16", (1, 2), "f32"),
    "62 ping-pong": ("64x128", "f16", (1, 2), "f32"),
}  # fmt: skip
"""Tile, type, cluster and type of D of CUTLASS's examples."""


class Row(NamedTuple):
    """A product of a library: microseconds as measured and as simulated, and the tile that was taken."""

    library: str
    product: str
    measured: float
    simulated: float
    tile: str

    @property
    def error(self) -> float:
        """In percent."""
        return 100 * (self.simulated / self.measured - 1)


def best(type: str, sparse: bool, m: int, n: int, k: int, config: str) -> tuple[float, str]:
    """Microseconds in a stream of launches, and the tile, of the fastest of a few."""
    chip = load_config(config)
    found = []
    for text in TILES[sparse]:
        tile = parse_wgmma_tile(text, type, sparse=sparse)
        found.append((in_stream(kernel_cycles(tile, *filled(tile, m, n, k), chip), chip) * 1e6, text))
    return min(found)


def of_library(which: str) -> Iterator[Row]:
    """cuSPARSELt, or cuBLAS beside it."""
    with (RESULTS / "cusparselt.csv").open() as file:
        for row in csv.DictReader(file):
            if row["library"] != which:
                continue
            type, m, n, k = "tf32" if row["type"] == "f32" else row["type"], int(row["m"]), int(row["n"]), int(row["k"])
            simulated, tile = best(type, which == "cusparselt", m, n, k, "h100_sxm")
            yield Row(which, f"{type} {m}x{n}x{k}", float(row["microseconds"]), simulated, tile)


def of_torch() -> Iterator[Row]:
    """torch's dense products."""
    with (RESULTS / "torch.csv").open() as file:
        for row in csv.DictReader(file):
            type, m, n, k = (
                {"float16": "f16", "bfloat16": "bf16"}[row["type"]],
                int(row["m"]),
                int(row["n"]),
                int(row["k"]),
            )
            simulated, tile = best(type, False, m, n, k, "h200")
            yield Row("torch", f"{type} {m}x{n}x{k}", float(row["least_us"]), simulated, tile)


def of_cutlass() -> Iterator[Row]:
    """CUTLASS's examples, in cycles."""
    chip = load_config("h200")
    with (RESULTS / "cutlass.csv").open() as file:
        for row in csv.DictReader(file):
            text, type, cluster, output = EXAMPLES[row["example"]]
            m, n, k, sparse = int(row["m"]), int(row["n"]), int(row["k"]), row["kernel"].startswith("sparse")
            tile: WgmmaTile = parse_wgmma_tile(text, type, sparse=sparse, cluster=cluster, output=output)
            simulated = kernel_cycles(tile, *filled(tile, m, n, k), chip) + EMPTY
            name = f"{row['example']} {row['kernel']} {m}x{n}x{k}"
            yield Row("cutlass", name, float(row["least_cycles"]), simulated, text)


def main() -> None:
    """Prints each product with its error, and their means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", nargs="*", default=["cusparselt", "cublas", "torch", "cutlass"])
    options = parser.parse_args()
    for library in options.library:
        rows = []
        for row in {"torch": of_torch, "cutlass": of_cutlass}.get(library, lambda name=library: of_library(name))():
            numbers = f"{row.measured:11,.1f} {row.simulated:11,.1f} {row.error:+6.1f} %  {row.tile}"
            print(f"{row.library:10} {row.product:36} {numbers}", flush=True)
            rows.append(row)
        errors = [abs(row.error) for row in rows]
        print(f"{library}: mean {np.mean(errors):.1f}, median {np.median(errors):.1f}, worst {max(errors):.1f} %")


if __name__ == "__main__":
    main()
