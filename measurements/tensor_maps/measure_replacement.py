"""Executes tensormap.replace on random maps: the 128 bytes before and after.

    python -m measurements.tensor_maps.measure_replacement copies.cubin COUNT SEED replaced.npz

Needs a GPU of sm_90; the cubin is that of `measure_copies.py`. Written: `before`, `after` (uint8 [case, 128]), `field`
(index into `names`), `value` (uint64), `names` (name of the field, ordinal or code, whether that is the code).
"""

from __future__ import annotations

import ctypes as c
import random
import sys
from typing import Any

import numpy as np

from measurements.tensor_maps.copies_kernel import SHARED_BYTES, fields
from measurements.tensor_maps.driver import Driver
from measurements.tensor_maps.measure_encoding import legal_map


def main(cubin: str, count: int, seed: int, target: str) -> None:
    """Executes, and writes what changed."""
    driver, draw, names = Driver(), random.Random(seed), list(fields())
    function = driver.function(cubin, "change", SHARED_BYTES + 64)
    here, there = driver.allocate(128), driver.allocate(128)
    before: list[Any] = []
    after: list[Any] = []
    chosen, values = list[int](), list[int]()
    while len(before) < count:
        code, encoded = driver.encode(legal_map(draw))
        if code:
            continue
        field = draw.randrange(len(names))
        value = draw.choice((draw.getrandbits(64), draw.getrandbits(32), draw.randrange(300), draw.randrange(9)))
        driver.write(here, np.frombuffer(encoded, np.uint8))
        arguments = [c.c_uint64(here), c.c_int(field), c.c_uint64(value), c.c_uint64(there)]
        driver.launch(function, arguments, 32, SHARED_BYTES + 64)
        before.append(np.frombuffer(encoded, np.uint8))
        after.append(driver.read(there, 128))
        chosen.append(field)
        values.append(value)
    listed = np.array([(name, "" if which is None else str(which), str(int(coded))) for name, which, coded in names])
    np.savez_compressed(
        target, before=np.array(before), after=np.array(after), field=np.array(chosen, np.uint8),
        value=np.array(values, np.uint64), names=listed,
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
