"""Cut cuSPARSELt's recorded strip prunings down to what the tests carry.

    python tests/golden/make_cusparselt.py DIR

DIR holds the full `cusparselt.npz`: what cuSPARSELt 0.8 on an NVIDIA H100 pruned, compressed and multiplied. Kept are
the inputs and outputs of PRUNE_SPMMA_STRIP, 64 x 64, under `TYPE|KIND|in` and `TYPE|KIND|out`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

TARGET = Path(__file__).parent / "cusparselt_strip.npz"


def subset(source: Path) -> dict[str, np.ndarray]:
    """The strip prunings of the file, element patterns as unsigned integers."""
    with np.load(source) as data:
        chosen = [key.split("|") for key in data.files if key.startswith("prune|") and "|strip|" in key]
        return {
            f"{type}|{kind}|{what}": data["|".join((op, type, kind, how, what))]
            for op, type, kind, how, what in chosen
            if what != "compressed"
        }


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: make_cusparselt.py DIR")
    np.savez_compressed(TARGET, **subset(Path(sys.argv[1]) / "cusparselt.npz"))
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")
