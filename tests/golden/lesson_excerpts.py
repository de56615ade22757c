"""Writes the recordings that the lessons read, `lessons/*.npz`: a few cases of each of this folder's, so that the
installed package stays small.

    python -m tests.golden.lesson_excerpts
"""

from __future__ import annotations

import numpy as np

from isa.types import Bits
from tests.support.paths import GOLDEN

FOLDER = GOLDEN / "lessons"
SPARSE = ("mma_sp_ordered.npz", "mma_sp_plain.npz")
DENSE = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
LOOKED_AT = ("m16n8k32_f32_f16_f16_f32", "_f32_tf32_tf32_f32")
"""Forms that lesson 4 looks at one by one: three cases of each selector with random metadata; of others one case of
selector 0."""


def excerpts() -> dict[str, dict[str, Bits]]:
    """The files' names and arrays."""
    sparse: dict[str, Bits] = {}
    for name in SPARSE:
        with np.load(GOLDEN / name) as recorded:
            for key in recorded.files:
                looked_at = any(part in key for part in LOOKED_AT)
                if looked_at or "|0|" in key:
                    sparse[key] = recorded[key][: 3 if looked_at and "|random|" in key else 1]
    with np.load(GOLDEN / "mma_dense.npz") as recorded:
        dense = {f"{DENSE}|{way}": recorded[f"{DENSE}|{way}"] for way in ("in", "out")}
    return {"mma_sp.npz": sparse, "mma_dense.npz": dense}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, arrays in excerpts().items():
        np.savez_compressed(FOLDER / name, **arrays)  # type: ignore[arg-type]
