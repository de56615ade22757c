"""Joins files of `measure_copies.py` that were recorded by processes of their own.

python -m measurements.tensor_maps.join joined.npz FILE...
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np


def join(target: str, names: Sequence[str]) -> None:
    """Writes one file; pool and what shared memory held are those of the first, and alike in all."""
    parts = []
    for name in names:
        with np.load(name) as archive:
            parts.append({key: archive[key] for key in archive.files})
    at = 0
    for part in parts:
        assert all((part[name] == parts[0][name]).all() for name in ("pool", "given"))
        part["records"]["at"] += at
        at += len(part["data"])
    records, data = (np.concatenate([part[name] for part in parts]) for name in ("records", "data"))
    np.savez_compressed(target, records=records, data=data, pool=parts[0]["pool"], given=parts[0]["given"])


if __name__ == "__main__":
    join(sys.argv[1], sys.argv[2:])
