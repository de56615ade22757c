"""Cut the recorded H100 results down to what the tests carry.

    python tests/golden/make_subset.py DIR

DIR holds the full `mma_sp_ordered.npz`, `mma_sp_plain.npz` and `mma_dense.npz`. Cases are recorded in equal blocks, one
for each kind of values (normal, wide, bits, cancel, subnormal, special, integer, halfway); cases are taken at equal
distances, so that the kinds stay mixed, from a place that changes with the form. Every form, selector and sort of
metadata stays.
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

import numpy as np

KEPT = {
    "mma_sp_ordered.npz": {"valid": 8, "random": 3},
    "mma_sp_plain.npz": {"valid": 5, "random": 3},
    "mma_dense.npz": {"none": 16},
}


def subset(source: Path, kept: dict[str, int]) -> dict[str, np.ndarray]:
    """The chosen cases of one file, under the same keys."""
    result = {}
    with np.load(source) as data:
        for key in data.files:
            name, what = key.rsplit("|", 1)
            if what == "kind":
                continue
            parts = name.split("|")
            count = kept[parts[-1] if len(parts) > 1 else "none"]
            cases = len(data[key])
            chosen = (np.arange(count) * cases // count + zlib.crc32(name.encode()) % cases) % cases
            result[key] = data[key][np.sort(chosen)]
    return result


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: make_subset.py DIR")
    for file, how_many in KEPT.items():
        target = Path(__file__).parent / file
        np.savez_compressed(target, **subset(Path(sys.argv[1]) / file, how_many))
        print(f"{target}: {target.stat().st_size} bytes")
