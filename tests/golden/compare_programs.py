"""Times of whole programs: the traces that an H100 ran, cycle counts from the first instruction to the last, beside the
simulated ones (measurements/results/traces.csv; measurements/run_traces.py measured them).

    python -m tests.golden.compare_programs
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import simulator
from simulator.tables import aligned, read_rows

MEASURED = Path(__file__).resolve().parents[2] / "measurements" / "results" / "traces.csv"


class Program(NamedTuple):
    """A trace with its cycles on an H100 and in the simulator."""

    trace: str
    measured: int
    simulated: int

    @property
    def error(self) -> float:
        """By which part of the measured cycles the simulated ones are more."""
        return self.simulated / self.measured - 1


def programs() -> Iterator[Program]:
    """Every trace that was measured."""
    for row in read_rows(MEASURED):
        report = simulator.run(row["trace"], "h100_sxm", arithmetic="none")
        yield Program(row["trace"], int(row["cycles"]), report.cycles)


def main() -> int:
    """Prints the table."""
    found = list(programs())
    rows = [(one.trace, f"{one.measured:,}", f"{one.simulated:,}", f"{one.error:+.1%}") for one in found]
    print("\n".join(aligned([("trace", "H100, cycles", "simulated", "error"), *rows], "<>")))
    errors = [abs(one.error) for one in found]
    print(f"all {len(found)} programs: mean error {sum(errors) / len(errors):.1%}, worst {max(errors):.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
