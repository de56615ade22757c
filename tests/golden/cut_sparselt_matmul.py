"""Cuts the recordings of record_sparselt_matmul.py to the small files beside this one.

    python -m tests.golden.cut_sparselt_matmul FOLDER

Of each product some rows and columns stay (rows 1 to 6 of the wide operands hold the NaN and infinities); the statuses
of all combinations of types become one line in the order that `compare_sparselt_matmul.unpacked` knows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FILES = Path(__file__).parent
ROWS, COLUMNS = {"cfg": 8}, {"cfg": 16}  # that stay; of the others 16 and 32


def cut(key: str, array: NDArray[Any]) -> NDArray[Any] | None:
    """The part of an array that stays, None for none."""
    words = key.split("|")
    kind, name = words[0], words[5]
    rows, columns = ROWS.get(kind, 16), COLUMNS.get(kind, 32)
    if key.endswith("|D"):
        return array[..., :rows, :columns] if kind != "cfg" or name in ("default", "split1") else None
    if name in ("C", "C2"):
        return array[..., :rows, :columns]
    if array.ndim == 1:
        return array[:columns] if kind == "sparseb" else array[:rows]
    if name == "bias":
        return array[:, :rows]
    return array[..., : columns if name in ("B", "B2") else rows, :]


def main() -> None:
    folder = Path(sys.argv[1])
    with np.load(folder / "cusparselt_matmul.npz") as data:
        parts = {key: cut(key, data[key]) for key in data.files}
    log = json.loads((folder / "cusparselt_matmul.json").read_text())["log"]
    np.savez_compressed(
        FILES / "cusparselt_matmul.npz", **{key: part for key, part in parts.items() if part is not None}
    )
    types = " ".join(str(row[1]) for row in log if row[0].startswith("types"))
    others = [row[:2] for row in log if not row[0].startswith("types")]
    library = "cuSPARSELt 0.8.0, NVIDIA H100 80GB HBM3, driver 580, 2026-11-22"
    stored = {"library": library, "types": types, "log": others}
    (FILES / "cusparselt_matmul.json").write_text(json.dumps(stored, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
