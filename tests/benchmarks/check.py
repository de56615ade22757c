"""What a check of a launch costs beside the launch: both run the same CTAs, one after the other, in one process.

python -m tests.benchmarks.check            launches of the repository
python -m tests.benchmarks.check FOLDER     captures of one's own
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import simulator
from simulator.check.launches import check_launch
from simulator.program.capture import Capture, read_capture
from simulator.tables import Table
from tests.support.paths import GOLDEN

NAMES = ("direct_one_warp", "f16_one_cta", "e4m3_one_cta", "triton_matmul_mma", "barriers", "chain", "wgmma_f16")
ROUNDS = 3


def seconds(act: Callable[[], object]) -> float:
    """The shortest time of some rounds."""
    found = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        act()
        found.append(time.perf_counter() - begin)
    return min(found)


def row(capture: Capture) -> tuple[object, ...]:
    """One launch: its warp instructions, CTAs that are checked, seconds of both, and their ratio for as many CTAs."""
    report = simulator.launch(capture, workers=1)
    plain = seconds(lambda: simulator.launch(capture, workers=1))
    checked = seconds(lambda: check_launch(capture))
    watched, whole = check_launch(capture).ctas
    return (
        capture.path.stem,
        report.warp_instructions,
        f"{watched} of {whole}",
        f"{plain:.3f}",
        f"{checked:.3f}",
        f"{checked / plain:.1f}",
    )


def main(folder: str | None = None) -> None:
    """Prints the table."""
    paths = sorted(Path(folder).glob("*.json")) if folder else [GOLDEN / "launches" / f"{name}.json" for name in NAMES]
    rows = [row(read_capture(path)) for path in paths if path.exists()]
    print(Table(("launch", "warp instructions", "CTAs", "launch s", "check s", "check / launch"), rows).text())


if __name__ == "__main__":
    main(*sys.argv[1:2])
