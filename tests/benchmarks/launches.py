"""Captured launches beside what the chip did: bytes that differ, cycles, machine instructions, and how fast the
simulator executes them, without time and with it. `f16_chip` is the longest: 28 million warp instructions.

    python -m tests.benchmarks.launches            those of the repository
    python -m tests.benchmarks.launches FOLDER     captures of one's own

Where NAME.sass or NAME.sass.gz lies beside NAME.json, time is that of the machine code.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import simulator
from simulator.program.capture import read_capture
from simulator.tables import Table
from tests.support.paths import GOLDEN

COUNTERS = ("sm_cycles_active_max", "warp_instructions")
COLUMNS = (
    "launch",
    "bytes differing",
    "cycles",
    "chip",
    "error",
    "machine instructions",
    "chip's",
    "M warp instructions/s",
    "with time",
)


def rows(paths: list[Path], config: str = "h100_sxm") -> list[tuple[object, ...]]:
    """A row of the table for each capture."""
    found: list[tuple[object, ...]] = []
    for path in paths:
        try:
            capture = read_capture(path)
            begin = time.perf_counter()
            values = simulator.launch(capture, workers=1)
            seconds = time.perf_counter() - begin
            beside = (path.with_name(f"{path.stem}.sass{end}") for end in ("", ".gz"))
            code = next((each for each in beside if each.exists()), None)
            begin = time.perf_counter()
            timing = simulator.launch(capture, config, workers=1, machine_code=code).timing
            timed = time.perf_counter() - begin
        except simulator.Error as error:
            print(f"{path.stem}: {error}", file=sys.stderr)
            continue
        assert timing is not None
        wrong = sum(each.bytes for each in values.differences or ()) if capture.after else ""
        cycles, instructions = (capture.counters.get(name) for name in COUNTERS)
        error = f"{100 * (timing.cycles / cycles - 1):+.1f} %" if cycles else ""
        speed, with_time = (f"{values.warp_instructions / each / 1e6:.2f}" for each in (seconds, timed))
        found.append(
            (
                path.stem,
                wrong,
                timing.cycles,
                cycles or "",
                error,
                timing.machine_instructions,
                instructions or "",
                speed,
                with_time,
            )
        )
    return found


def main(folder: Path | None = None) -> None:
    """Prints the table, and the mean and worst error of cycles."""
    folders = [folder] if folder is not None else [GOLDEN / "launches", GOLDEN / "planted"]
    paths = [path for each in folders for path in sorted(each.glob("*.json")) if folder or "bug" not in path.stem]
    table = rows(paths)
    print(Table(COLUMNS, table).text())
    errors = [abs(row[2] / row[3] - 1) for row in table if row[3]]  # type: ignore[operator]
    if errors:
        print(f"cycles: mean error {100 * sum(errors) / len(errors):.1f} %, worst {100 * max(errors):.1f} %")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
