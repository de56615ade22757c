"""How CTAs follow each other in the places of an SM: builds and runs places.cu for each variant of four stages.

python places.py [--folder build] [--results results]   # needs nvcc and the GPU; a quarter of a minute

results/places.csv: `ctas`; `places` of an SM; the fewest and the most CTAs of an SM; cycles of a CTA on average, and on
the fastest and the slowest SM; of its loop; `gap_cycles`, the median from a CTA's last instruction to the first of the
one that takes its place.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from variants import Variant, variants

HERE = Path(__file__).parent


def run(v: Variant, folder: Path) -> np.ndarray[Any, Any]:
    """For each CTA: SM, and the clock at its begin, before its loop, after it, at its end."""
    program = folder / f"places_{v.name}"
    subprocess.run(
        ["nvcc", "-std=c++17", "-arch=sm_90a", "-O3", *v.defines, "-o", str(program), str(HERE / "places.cu")],
        check=True,
    )
    text = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    return np.array([[int(field) for field in line.split(",")] for line in text.splitlines()], np.int64)


def summary(v: Variant, ctas: np.ndarray[Any, Any]) -> dict[str, Any]:
    """The row of a variant."""
    of_sm = [ctas[ctas[:, 0] == sm] for sm in np.unique(ctas[:, 0])]
    places = max(int((sm[:, 1] < sm[:, 4].min()).sum()) for sm in of_sm)
    gaps = [np.sort(sm[:, 1])[places:] - np.sort(sm[:, 4])[: len(sm) - places] for sm in of_sm]
    means = [float((sm[:, 4] - sm[:, 1]).mean()) for sm in of_sm]
    return {
        "variant": v.name,
        "ctas": len(ctas),
        "places": places,
        "fewest": min(map(len, of_sm)),
        "most": max(map(len, of_sm)),
        "cta_cycles": round(float((ctas[:, 4] - ctas[:, 1]).mean())),
        "fastest_sm": round(min(means)),
        "slowest_sm": round(max(means)),
        "loop_cycles": round(float((ctas[:, 3] - ctas[:, 2]).mean())),
        "gap_cycles": round(float(np.median(np.concatenate(gaps)))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=HERE / "build")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    rows = [summary(v, run(v, options.folder)) for v in variants() if v.stages == 4 and not v.mode]
    with (options.results / "places.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
