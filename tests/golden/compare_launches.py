"""Compare captured launches of PTX kernels on a GPU with the simulator, byte for byte.

    python -m tests.golden.compare_launches

Prints a line for each launch and a sum; exit status 1 if a byte differs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import simulator
from simulator.program.capture import read_capture

LAUNCHES = Path(__file__).with_name("launches")
CAPTURED = sorted(path for path in LAUNCHES.glob("*.json") if json.loads(path.read_text())["data"])


def main() -> int:
    launches = total = wrong = 0
    for path in CAPTURED:
        report = simulator.launch(path, workers=1)
        assert report.differences is not None
        size = sum(array.nbytes for array in read_capture(path).after.values())
        differing = sum(each.bytes for each in report.differences)
        print(f"  {path.stem:24} {size:12,} bytes {differing:9,} differ")
        launches, total, wrong = launches + 1, total + size, wrong + differing
    print(f"all {launches} launches {total:,} bytes: {wrong:,} differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
