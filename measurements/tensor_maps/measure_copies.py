"""Executes random tensor copies on a GPU: loads, im2col loads, stores and reductions, one launch each.

    python -m measurements.tensor_maps.copies_kernel copies.cu && nvcc -arch=sm_90a -cubin -o copies.cubin copies.cu
    python -m measurements.tensor_maps.measure_copies copies.cubin KINDS COUNT SEED copies.npz [SECONDS]

KINDS: letters of load, im2col, store, reduce, and S and R of stores and reductions of im2col maps; "lllsr" draws loads
three times as often; with "n" before the letters the maps are interleaved. SECONDS: when to stop with fewer. Needs a
GPU of sm_90; 9,000 copies take 20 s. Maps, types, operations and coordinates are drawn as the chip takes them
(`REDUCED`, `legal_start`); with "x" before the letters coordinates and operations are drawn freely, and each copy that
ends in an illegal instruction ends its process, which is started again (1 s each).

Written: `records` (fields, result 0 or the driver's error), `data` (of loads the bytes of shared memory from `at` on;
of others the changed bytes of the pool, after their places as u32), `pool`, `given` (what shared memory held).
"""

from __future__ import annotations

import ctypes as c
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from measurements.tensor_maps.copies_kernel import (
    IM2COL,
    IM2COL_REDUCE,
    IM2COL_STORE,
    LOAD,
    OPERATIONS,
    REDUCE,
    SHARED_BYTES,
    STORE,
)
from measurements.tensor_maps.driver import Driver, DriverError
from measurements.tensor_maps.measure_encoding import TYPE_BYTES

KINDS = {"l": LOAD, "i": IM2COL, "s": STORE, "r": REDUCE, "S": IM2COL_STORE, "R": IM2COL_REDUCE}
IM2COLS, REDUCTIONS = (IM2COL, IM2COL_STORE, IM2COL_REDUCE), (REDUCE, IM2COL_REDUCE)
POOL = 1 << 17
TYPES = 13  # of Hopper
_ALL, _WORDS, _HALVES = range(8), (0, 1, 2, 5, 6, 7), (0, 1, 2)
REDUCED = ((), (), _ALL, _WORDS, _WORDS, (1, 2), _HALVES, (0,), (0,), _HALVES, (0,), (0,), (0,))  # by data type
SPECIAL = (
    0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0x3F800000,
    0x3F801000, 0x3F803000, 0x3F805000, 0x7F7FFFFF, 0x7F7FF000, 0x00001000, 0x00003000, 0x7C007C00, 0xFC01FE00,
    0x00010001, 0x03FF0400, 0x7BFF7BFF, 0x7F807F80, 0xFFC07F81, 0x00800080, 0x0000FFFF, 0xFFFFFFFF, 0x7FFFFFFF,
)  # fmt: skip
RECORD = np.dtype([
    ("kind", "u4"), ("operation", "u4"), ("map", "u1", 128), ("rank", "u4"), ("start", "i4", 5), ("offsets", "i4", 3),
    ("result", "u4"), ("done", "u4"), ("pool", "u8"), ("at", "u8"), ("bytes", "u4"),
])  # fmt: skip


def words(size: int) -> Any:
    """uint8 [byte]: random words, a quarter of them special as numbers."""
    generator = np.random.default_rng(5)
    values = generator.integers(0, 2**32, size // 4, dtype=np.uint32)
    some = generator.random(size // 4) < 0.25
    values[some] = generator.choice(np.array(SPECIAL, np.uint32), int(some.sum()))
    return values.view(np.uint8)


def drawn(draw: random.Random, kinds: str, pool: int) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Fields of a map whose tensor lies in the pool, and a copy of it; None if the tensor is too large."""
    free, kind, element = "x" in kinds, KINDS[draw.choice(kinds.strip("nx"))], draw.randrange(TYPES)
    if kind in REDUCTIONS and not free:
        element = draw.choice([number for number, able in enumerate(REDUCED) if able])
    size_of, im2col, swizzle = TYPE_BYTES[element], kind in IM2COLS, draw.randrange(4)
    rank, widest = draw.randint(3 if im2col else 1, 5), (256, 32, 64, 128)[swizzle]
    most = (0, 64, 24, 12, 6, 4)[rank]
    row = draw.choice((widest, 16 * draw.randint(1, widest // 16))) // size_of
    box = [min(row, 256)] + [draw.randint(1, most) for _ in range(rank - 1)]
    size = [draw.choice((box[0], 2 * box[0], draw.randint(1, 3 * box[0] + 1)))]
    size += [draw.randint(1, 2 * most) for _ in range(rank - 1)]
    stride, span = [], size[0] * size_of
    for extent in size[1:]:
        stride.append(-(-span // 16) * 16 + draw.choice((0, 0, 16)))
        span = stride[-1] * extent
    if draw.randrange(10) == 0:
        draw.shuffle(stride)
    reach = size_of + sum((extent - 1) * step for extent, step in zip(size, (size_of, *stride), strict=True))
    offset = draw.choice((0, 32 * draw.randrange(33)))
    corners = [[draw.randint(-3, 3) for _ in range(max(rank - 2, 0))] for _ in range(2)]
    if kind in (IM2COL_STORE, IM2COL_REDUCE) and (not free or draw.randrange(4)):
        corners = [[abs(number) for number in corners[0]], [-abs(number) for number in corners[1]]]
    pixels = draw.choice((draw.randint(1, 16), draw.randint(1, 64)))
    fields = {
        "im2col": int(im2col), "type": element, "rank": rank, "address": pool + offset, "size": size, "stride": stride,
        "box": box, "step": [draw.choice((1, 1, draw.randint(1, 4))) for _ in size], "lower": corners[0],
        "upper": corners[1], "channels": box[0], "pixels": pixels, "interleave": 0, "swizzle": swizzle, "promotion": 0,
        "fill": draw.randrange(2) if element >= 6 else 0,
    }  # fmt: skip
    copy = {
        "kind": kind, "start": legal_start(draw, fields, kind, size_of, free=free),
        "offsets": [draw.randint(0, 3) for _ in range(rank - 2)] if im2col and draw.randrange(3) else [],
        "operation": draw.choice(range(8) if free else REDUCED[element]) if kind in REDUCTIONS else 0,
    }  # fmt: skip
    if "n" in kinds:
        reach = interleave(draw, fields, copy, size_of, free=free)
    if im2col and kind >= STORE:
        copy["offsets"] = []
    return (fields, copy) if reach + offset + 4096 < POOL else None


def interleave(draw: random.Random, fields: dict[str, Any], copy: dict[str, Any], size_of: int, *, free: bool) -> int:
    """Makes the map one of interleaved slices, and its coordinates fit; returns the bytes over which it reaches.

    Dimensions are W, (H, (D,)) slices, images; the box of dimension 0, of which the driver wants 16 bytes, counts W.
    """
    code = draw.randint(1, 2)
    unit = 16 * code
    rank, group = draw.randint(3, 5), max(unit // size_of, 1)
    size = [draw.randint(1, 9) for _ in range(rank)]
    box = [draw.choice((group, group * draw.randint(1, 4), max(16 // size_of, 1) * draw.randint(1, 8)))]
    box += [draw.randint(1, 5) for _ in range(rank - 1)]
    stride = [unit * draw.randint(1, 64 // code) for _ in size[1:]]
    if draw.randrange(2):  # slices of images one behind the other
        span = unit * size[0]
        for axis in range(1, rank):
            stride[axis - 1] = span + draw.choice((0, 0, unit))
            span = stride[axis - 1] * size[axis]
    corners = [[draw.randint(-2, 2) for _ in range(rank - 2)] for _ in range(2)]
    if copy["kind"] >= STORE and (not free or draw.randrange(4)):
        corners = [[abs(number) for number in corners[0]], [-abs(number) for number in corners[1]]]
    fields |= {
        "rank": rank, "size": size, "box": box, "stride": stride, "interleave": code, "channels": box[0],
        "step": [draw.choice((1, 1, 1, draw.randint(1, 4))) for _ in size], "lower": corners[0], "upper": corners[1],
        "pixels": draw.choice((draw.randint(1, 8), draw.randint(1, 40))),
    }  # fmt: skip
    least = -2 if copy["kind"] < STORE or free else 0
    start = []
    for axis in range(rank):
        start.append(draw.randint(least, size[axis] + (2 if free else 0)))
        if fields["im2col"] and axis < rank - 2 and (not free or draw.randrange(4)):
            low, high = corners[0][axis], size[axis] - 1 + corners[1][axis]
            start[-1] = draw.randint(low, max(low, high))
    if fields["im2col"] and draw.randrange(3):
        copy["offsets"] = [draw.randint(0, 2) for _ in range(rank - 2)]
    else:
        copy["offsets"] = []
    copy["start"] = start
    return sum(extent * step for extent, step in zip(size, (unit, *stride), strict=True))


def legal_start(draw: random.Random, fields: dict[str, Any], kind: int, size_of: int, *, free: bool) -> list[int]:
    """Coordinates: the first a multiple of 16 bytes; of a store none negative; of im2col a base pixel."""
    least, group = -2 if kind < STORE or free else 0, max(16 // size_of, 1)
    start = [group * draw.randint(least, max(fields["size"][0] // group + 1, 1))]
    for axis, extent in enumerate(fields["size"][1:], 1):
        last = extent - 1 + (fields["upper"][axis - 1] if 0 < axis < fields["rank"] - 1 else 0)
        if kind in IM2COLS and axis < fields["rank"] - 1 and (not free or draw.randrange(4)):
            start.append(draw.randint(fields["lower"][axis - 1], max(last, fields["lower"][axis - 1])))
        else:
            start.append(draw.choice((0, draw.randint(least - 1 if least else 0, extent + 2))))
    return start


def counts(fields: dict[str, Any]) -> tuple[int, int]:
    """Bytes that a copy counts on its mbarrier, and bytes of shared memory that it reaches over."""
    size_of, width = TYPE_BYTES[fields["type"]], (0, 32, 64, 128)[fields["swizzle"]]
    rows = fields["pixels"]
    if not fields["im2col"]:
        steps = [1, *fields["step"][1:]]
        rows = int(np.prod([-(-a // b) for a, b in zip(fields["box"][1:], steps[1:], strict=True)]))
    inner = fields["box"][0] * size_of
    if fields["interleave"]:
        if not fields["im2col"]:
            counted = [-(-a // b) for a, b in zip(fields["box"], fields["step"], strict=True)]
            rows = int(np.prod([*counted[:-2], counted[-1]]))
        return rows * 16 * fields["interleave"], rows * 16 * fields["interleave"]
    return rows * inner, rows * max(width, inner)


def run(cubin: str, kinds: str, count: int, seed: int, target: str, seconds: float = 1e9) -> None:
    """Executes copies until there are enough, time is over, or one ends in an error."""
    driver, draw, end = Driver(), random.Random(seed), time.monotonic() + seconds
    function = driver.function(cubin, "copy", SHARED_BYTES + 64)
    places = {name: driver.allocate(size) for name, size in (("map", 256), ("case", 256), ("given", 16384))}
    places |= {name: driver.allocate(size) for name, size in (("out", 65536), ("done", 64), ("pool", POOL))}
    pool, given, at = words(POOL), words(16384), 0
    records: list[Any] = []
    data: list[Any] = []
    driver.write(places["given"], given)
    while len(records) < count and (not records or time.monotonic() < end):
        found = drawn(draw, kinds, places["pool"])
        code, encoded = driver.encode(found[0]) if found else (1, b"")
        if found is None or code:
            continue
        fields, copy = found
        size, reach = counts(fields)
        if reach > (40000 if copy["kind"] < STORE else 16384) or (size > 3000 and draw.randrange(5)):
            continue
        record = np.zeros((), RECORD)
        for name, value in (("start", copy["start"]), ("offsets", copy["offsets"])):
            record[name][: len(value)] = value
        case = [copy["kind"], fields["rank"], size, copy["operation"], *record["start"], *record["offsets"], reach + 64]
        for name, content in (("map", encoded), ("done", bytes(16))):
            driver.write(places[name], np.frombuffer(content, np.uint8))
        driver.write(places["case"], np.array(case, np.int32))
        driver.write(places["pool"], pool)
        got = np.zeros(0, np.uint8)
        try:
            arguments = [c.c_uint64(places[name]) for name in ("map", "case", "given", "out", "done")]
            driver.launch(function, arguments, 128, SHARED_BYTES + 64)
            record["done"] = driver.read(places["done"], 4).view(np.uint32)[0]
            if copy["kind"] < STORE:
                got = driver.read(places["out"], reach + 64)
            else:
                after = driver.read(places["pool"], POOL)
                changed = np.flatnonzero(after != pool)
                got = np.concatenate([changed.astype("<u4").view(np.uint8), after[changed]])
        except DriverError as error:
            record["result"] = error.code
        record["map"] = np.frombuffer(encoded, np.uint8)
        for name, value in (("kind", copy["kind"]), ("operation", copy["operation"]), ("rank", fields["rank"])):
            record[name] = value
        record["pool"], record["at"], record["bytes"] = places["pool"], at, len(got)
        records.append(record)
        data.append(got)
        at += len(got)
        if record["result"]:
            break  # the context is lost
    np.savez_compressed(target, records=np.array(records), data=np.concatenate(data), pool=pool, given=given)


def main(cubin: str, kinds: str, count: int, seed: int, target: str, seconds: float = 1e9) -> None:
    """Runs processes until there are enough copies or time is over, and writes what all of them gave."""
    parts: list[Any] = []
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        while (missing := count - sum(len(part["records"]) for part in parts)) > 0 and time.monotonic() < end:
            part = str(Path(folder) / f"{len(parts)}.npz")
            command = [
                sys.executable,
                __file__,
                cubin,
                kinds,
                str(missing),
                str(seed * 1000 + len(parts)),
                part,
                str(end - time.monotonic()),
                "once",
            ]
            subprocess.run(command, check=True)
            with np.load(part) as archive:
                parts.append({name: archive[name] for name in archive.files})
    at = 0
    for part in parts:
        part["records"]["at"] += at
        at += len(part["data"])
    records, data = (np.concatenate([part[name] for part in parts]) for name in ("records", "data"))
    print(f"{len(records)} copies, {int((records['result'] != 0).sum())} end in an error")
    np.savez_compressed(target, records=records, data=data, pool=parts[0]["pool"], given=parts[0]["given"])


if __name__ == "__main__":
    assert len(OPERATIONS) == 8
    (run if sys.argv[7:] == ["once"] else main)(
        sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5], float((*sys.argv[6:], "1e9")[0])
    )
