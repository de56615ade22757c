"""What tcsim says of captured launches that were measured (`measurements.hopper.captures`, results/captures.csv), from
their PTX alone:

    python -m measurements.hopper.compare_captures [--captures PART] [--config h200]

Simulated cycles stand beside `sm__cycles_active.max`, the median of some launches: cycles in which the SM that works
longest is busy. `[launch] start_cycles` is of code that has never run; kernels that do nothing were measured in the
same turns, where it had, and the second simulated column begins as late as they say.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import simulator
from measurements.hopper.captures import EMPTY, GOLDEN
from simulator.chip.config import load_config
from simulator.errors import ConfigError
from simulator.program.capture import read_capture
from simulator.tables import Table

RESULTS = Path(__file__).parent / "results" / "captures.csv"
COLUMNS = ("capture", "CTAs", "measured", "config as it is", "error", "started as measured", "error ", "spread")


class Row(NamedTuple):
    """A captured launch: its CTAs, cycles as measured (the median, the least and the most of some launches), as
    simulated with the config as it is, and with the start of a kernel that does nothing."""

    capture: str
    ctas: int
    measured: float
    least: float
    most: float
    simulated: float
    started: float

    def error(self, simulated: float) -> float:
        """Of so many cycles, in percent."""
        return 100 * (simulated / self.measured - 1)


def measured() -> dict[str, dict[str, float]]:
    """What was measured, by capture and column."""
    with RESULTS.open() as file:
        return {row.pop("capture"): {key: float(value) for key, value in row.items()} for row in csv.DictReader(file)}


def start_cycles(ctas: int) -> float:
    """Cycles in which an SM is busy with a kernel of so many CTAs that does nothing and has run before: those of the
    largest one measured that has no more."""
    known = measured()
    return max((count, known[name]["median"]) for name, count in EMPTY.items() if count <= ctas)[1]


def rows(part: str = "", config: str = "h200") -> Iterator[Row]:
    """The captures whose names have this part, and that lie in the repository and have a time."""
    for name, counted in measured().items():
        path = GOLDEN / f"{name}.json"
        if part not in name or not path.exists():
            continue
        capture = read_capture(path)
        ctas = int(np.prod(capture.grid))
        cycles = []
        for changes in ({}, {"launch.start_cycles": round(start_cycles(ctas))}):
            try:
                timing = simulator.launch(capture, load_config(config, changes), workers=1).timing
            except ConfigError:
                break
            assert timing is not None
            cycles.append(float(timing.cycles))
        if cycles:
            yield Row(name, ctas, counted["median"], counted["least"], counted["most"], *cycles)


def main() -> None:
    """Prints the table, and the mean and the worst error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captures", default="", metavar="PART")
    parser.add_argument("--config", default="h200")
    options = parser.parse_args()
    found = list(rows(options.captures, options.config))
    table = [
        (
            row.capture, row.ctas, round(row.measured), round(row.simulated), f"{row.error(row.simulated):+.1f} %",
            round(row.started), f"{row.error(row.started):+.1f} %", f"{row.least:.0f} to {row.most:.0f}",
        )
        for row in found
    ]  # fmt: skip
    print(Table(COLUMNS, table).text())
    for column in ("simulated", "started"):
        errors = [abs(row.error(getattr(row, column))) for row in found]
        print(f"{column}: mean {np.mean(errors):.1f} %, worst {max(errors):.1f} %")


if __name__ == "__main__":
    main()
