"""Cut captured launches of `wgmma` to two cases of each row (of wgmma_n to one): of a sparse row one with defined
metadata and one with undefined, of both one with random descriptors and one as libraries write them.

    python -m tests.golden.cut_wgmma FOLDER

FOLDER has the whole captures wgmma_*.json. Needs no GPU.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np

LAUNCHES = Path(__file__).with_name("launches")
CASES = {"wgmma_n": [1]}  # of others an odd one, whose descriptors are random, of the first half, and an even one


def cut(path: Path) -> None:
    """Writes the cut capture beside the others of the project."""
    capture = json.loads(path.read_text())
    cases = CASES.get(path.stem, [1, capture["grid"][0] // 2 + capture["grid"][0] // 2 % 2])
    with np.load(path.with_suffix(".npz")) as arrays:
        kept = {name: array if name == "in|pool" else array[:, cases] for name, array in arrays.items()}
    for name, buffer in capture["buffers"].items():
        array = kept.get(f"in|{name}", kept.get(f"out|{name}"))
        assert array is not None
        buffer |= {"shape": list(array.shape), "bytes": array.nbytes}
    capture["grid"][0] = len(cases)
    target = LAUNCHES / path.name
    np.savez_compressed(target.with_suffix(".npz"), **kept)
    target.write_text(json.dumps(capture) + "\n")
    shutil.copyfile(path.with_suffix(".ptx"), target.with_suffix(".ptx"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.golden.cut_wgmma FOLDER")
    for whole in sorted(Path(sys.argv[1]).glob("wgmma_*.json")):
        cut(whole)
