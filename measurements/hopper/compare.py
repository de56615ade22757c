"""What tcsim says of the loops of wgmma and bulk tensor copies that were measured, as launches with the PTX alone:

    python -m measurements.hopper.compare [--sample N] [--group stream] [--only PATTERN] [--worst 10]

Loops of one CTA or one cluster; a loop takes a second or two. Errors are in percent of the measured cycles of a turn.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import isa
import simulator
from measurements.hopper.kernels import HEADER, RECORD, SHARED, WARPS, Kernel
from measurements.hopper.measure import all_kernels, held_out
from simulator.simulation.launch.timing import LaunchTiming

RESULTS = Path(__file__).parent / "results" / "loops.csv"
GROUPS = ("stream", "copies", "barriers", "clusters", "pipelines")
LOOPS = (8, 20)
POOL = 1 << 24
OUT = 1 << 21
_SWIZZLES = {"none": 0, "32B": 32, "64B": 64, "128B": 128}


class Row(NamedTuple):
    """A loop: its group and name, cycles of an iteration as measured and as simulated."""

    group: str
    name: str
    measured: float
    simulated: float

    @property
    def error(self) -> float:
        """In percent."""
        return 100 * (self.simulated / self.measured - 1)


def launched(kernel: Kernel, loops: int, config: str | Path = "h100_sxm") -> LaunchTiming:
    """The simulated time of so many iterations."""
    function = simulator.Module(HEADER + kernel.text(filled=False)).get_function()
    pool, out = np.zeros(POOL, np.uint8), np.zeros(max(kernel.ctas * WARPS * RECORD, OUT) + 65536, np.uint8)
    maps: list[object] = [np.zeros(128, np.uint8).tobytes()] * 4
    for number, (rows, width, box_rows, box_width, swizzle) in enumerate(kernel.maps):
        size = width, min(rows, POOL // width)
        tensor = isa.TensorMap(
            "u8", size=size, stride_bytes=(width,), box=(box_width, box_rows), swizzle=_SWIZZLES[swizzle]
        )
        maps[number] = (tensor, pool)
    arguments = (out, loops, *maps)
    report = function(kernel.ctas, kernel.threads, arguments, shared_mem=SHARED - 1024, workers=1, config=config)
    assert report.timing is not None
    return report.timing


def cycles(kernel: Kernel, config: str | Path = "h100_sxm") -> float:
    """Simulated cycles of an iteration."""
    taken = [launched(kernel, loops, config).cycles for loops in LOOPS]
    return (taken[1] - taken[0]) / (LOOPS[1] - LOOPS[0])


def measured() -> dict[str, float]:
    """Measured cycles of an iteration by name."""
    with RESULTS.open() as file:
        return {row["name"]: float(row["cycles"]) for row in csv.DictReader(file)}


def comparable(group: str = "") -> list[tuple[str, Kernel]]:
    """The measured loops that have a simulated time: of one CTA or cluster. Loops of volatile loads are left out, which
    launches take for waits."""
    known = measured()
    return [
        (of, kernel)
        for of, kernel in all_kernels()
        if kernel.name in known
        and kernel.ctas == kernel.cluster
        and not kernel.name.startswith("traffic_load")
        and of in ((group,) if group else GROUPS)
    ]


def compared(chosen: list[tuple[str, Kernel]]) -> Iterator[Row]:
    """Measures against simulations, one after the other."""
    known = measured()
    for group, kernel in chosen:
        yield Row(group, kernel.name, known[kernel.name], cycles(kernel))


def main() -> None:
    """Prints errors by group, of the loops that the model was fitted to and of those held out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--group", default="", choices=("", *GROUPS))
    parser.add_argument("--only", default="", help="a pattern of names")
    parser.add_argument("--worst", type=int, default=10)
    options = parser.parse_args()
    loops = [each for each in comparable(options.group) if re.search(options.only, each[1].name)]
    rows = list(compared(random.Random(options.seed).sample(loops, min(options.sample, len(loops)))))
    for group in dict.fromkeys(row.group for row in rows):
        for held in (False, True):
            errors = [abs(row.error) for row in rows if row.group == group and held_out(row.name) == held]
            if errors:
                what = "held out" if held else "fitted"
                shown = f"mean {np.mean(errors):.2f}, median {np.median(errors):.2f}, worst {max(errors):.1f} %"
                print(f"{group:10} {what:9} {len(errors):4} loops, {shown}")
    for row in sorted(rows, key=lambda row: -abs(row.error))[: options.worst]:
        print(f"{row.name:55} measured {row.measured:8.1f} simulated {row.simulated:8.1f} {row.error:+.1f} %")


if __name__ == "__main__":
    main()
