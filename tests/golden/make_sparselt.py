"""Cuts the recordings of cuSPARSELt and PyTorch down to what the tests carry.

    python -m tests.golden.make_sparselt DATA ARRANGED

DATA holds `h100/cusparselt.npz` and `h100/torch_semi_structured.npz`; ARRANGED the files of `record_sparselt.py`, one a
type and `torch_tiles.npz`. Kept are all prunings of cuSPARSELt's, PyTorch's tiles, some of PyTorch's conversions
(`TORCH`), and of ARRANGED the matrices with ties, NaN and infinities of some shapes (`ARRANGED`, `TILES`).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

TARGET = Path(__file__).parent / "sparselt.npz"
TORCH = ("f16|32x64", "bf16|32x64", "s8|32x64", "f32|32x64", "f16|96x192", "s8|160x256", "f32|160x256")
ARRANGED = ("f16|32x96", "bf16|32x32", "f32|24x40", "s8|64x160", "e4m3|32x32", "e5m2|32x96")
TILES = ("torchtile|f16|64x128|special|", "torchtile|bf16|64x128|special|", "torchtile|f16|128x128|special|in")
BUFFERS = "torchtile|f16|128x128|special|default|cusparselt|"


def subset(data: Path, arranged: Path) -> dict[str, np.ndarray]:
    """All arrays of the small file."""
    kept: dict[str, np.ndarray] = {}
    with np.load(data / "h100" / "cusparselt.npz") as found:
        for key in found.files:
            parts = key.split("|")
            if parts[0] == "prune":
                kept["|".join(parts[:3] + parts[4:]) if parts[4] == "in" else key] = found[key]
    with np.load(data / "h100" / "torch_semi_structured.npz") as found:
        for key in found.files:
            if key.startswith("torchtile") or any(key.startswith(f"torch|{name}|") for name in TORCH):
                kept[key] = found[key]
    for path in sorted(arranged.glob("*.npz")):
        with np.load(path) as found:
            for key in found.files:
                matrices = any(key.startswith(f"arranged|{name}|special|") for name in ARRANGED)
                if matrices or key.startswith((*TILES, BUFFERS)):
                    kept[key] = found[key]
    return kept


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: make_sparselt.py DATA ARRANGED")
    np.savez_compressed(TARGET, **subset(Path(sys.argv[1]), Path(sys.argv[2])))
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")
