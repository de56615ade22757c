"""Asks the driver for random tensor maps: which it refuses, and which 128 bytes it makes of the others.

    python -m measurements.tensor_maps.measure_encoding COUNT SEED maps.npz [new]

Needs a GPU and its driver, and numpy; takes 15 s for 100,000 maps. With "new" the maps are of what Blackwell brought:
sub-byte types, 128-byte swizzles with larger atoms, and wide im2col (`im2col` 2 and 3: modes W and W128). About half of
the maps have one or two fields moved to or over a limit. Written: `maps`, one record a map (fields as given, `code`: 0
or the driver's error, `bytes`).
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np

from measurements.tensor_maps.driver import Driver

TYPE_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 1, 1, 1)  # by CUtensorMapDataType
RECORD = np.dtype([
    ("im2col", "u4"), ("type", "u4"), ("rank", "u4"), ("address", "u8"), ("size", "u8", 5), ("stride", "u8", 4),
    ("box", "u4", 5), ("step", "u4", 5), ("lower", "i4", 3), ("upper", "i4", 3), ("channels", "u4"), ("pixels", "u4"),
    ("interleave", "u4"), ("swizzle", "u4"), ("promotion", "u4"), ("fill", "u4"), ("code", "u4"), ("bytes", "u1", 128),
])  # fmt: skip
EDGES = (
    0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 127, 128, 129, 255, 256, 257, 511, 512, 1023, 1024, 65535,
    65536, 2**20, 2**24, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**36, 2**40 - 16, 2**40, 2**40 + 16, 2**63,
)  # fmt: skip
_CORNERS = {3: 32767, 4: 127, 5: 15}
LISTS = ("size", "stride", "box", "step", "lower", "upper")


def legal_map(draw: random.Random) -> dict[str, Any]:
    """Random fields that the driver likes in most cases."""
    im2col, kind = draw.randrange(3) == 0, draw.choices(range(16), [5] * 13 + [1] * 3)[0]
    interleave, swizzle = draw.choices((0, 1, 2), (8, 1, 1))[0], draw.choices(range(7), [5] * 4 + [1] * 3)[0]
    rank, unit = draw.randint(3 if im2col or interleave else 1, 5), 32 if interleave == 2 else 16
    size = [draw.choice((draw.randint(1, 64), draw.randint(1, 4096), 2 ** draw.randrange(21))) for _ in range(rank)]
    if draw.randrange(4) == 0:
        size[draw.randrange(rank)] = draw.randint(1, 2**32)
    stride, row = [], min(size[0] * TYPE_BYTES[kind], 2**36)
    for extent in size[1:]:
        row = min(-(-row // unit) * unit + draw.choice((0, 0, unit)), 2**40 - unit)
        stride.append(row)
        row *= extent
    width = (16 * draw.randint(1, 16), 32, 64, 128, 128, 128, 128)[swizzle]
    box = [max(min(width, draw.choice((width, 16 * draw.randint(1, 8)))) // TYPE_BYTES[kind], 1)]
    box = [min(box[0], 256)] + [draw.choice((draw.randint(1, 16), draw.randint(1, 256))) for _ in size[1:]]
    most = _CORNERS.get(rank, 15) if draw.randrange(3) == 0 else 8
    corners = [[draw.randint(-most, most) for _ in range(max(rank - 2, 1))] for _ in range(2)]
    return {
        "im2col": int(im2col), "type": kind, "rank": rank, "address": draw.randrange(2 ** draw.randint(8, 42)) * unit,
        "size": size, "stride": stride, "box": box, "step": [draw.choice((1, 1, draw.randint(1, 8))) for _ in size],
        "lower": corners[0], "upper": corners[1], "channels": box[0], "pixels": draw.randint(1, 1024),
        "interleave": interleave, "swizzle": swizzle, "promotion": draw.randrange(4), "fill": draw.randrange(2),
    }  # fmt: skip


def new_map(draw: random.Random) -> dict[str, Any]:
    """Random fields of a map that has something of Blackwell's, and that its driver likes in most cases."""
    fields = legal_map(draw)
    what = draw.choice(("type", "swizzle", "wide", "both", "all"))
    kind = draw.choice((13, 14, 15)) if what in ("type", "both", "all") else draw.randrange(13)
    swizzle = draw.choice((4, 5, 6)) if what in ("swizzle", "both") else draw.choice((0, 3, 4))
    im2col = draw.choice((2, 3)) if what in ("wide", "all") else draw.choice((0, 0, 1))
    interleave = draw.choices((0, 1, 2), (14, 1, 1))[0]
    if im2col > 1:
        swizzle, interleave = (
            draw.choices((0, 1, 2, 3, 4, 5, 6), (1, 1, 3, 3, 3, 1, 1))[0],
            draw.choices((0, 1), (19, 1))[0],
        )
    rank, unit = draw.randint(3 if im2col or interleave else 1, 5), 32 if kind > 13 or interleave == 2 else 16
    group = {13: 32, 14: 128, 15: 128}.get(kind, max(16 // TYPE_BYTES[kind], 1))
    width = (256, 32, 64, 128, 128, 128, 128)[swizzle] * (2 if kind == 13 else 1) // TYPE_BYTES[kind]
    box = [group * draw.randint(1, max(min(width, 256) // group, 1))]
    box += [draw.choice((draw.randint(1, 8), draw.randint(1, 40))) for _ in range(rank - 1)]
    most = draw.choice((3, 3, 14))
    corners = [[draw.randint(-most, most) for _ in range(max(rank - 2, 1))] for _ in range(2)]
    return fields | {
        "im2col": im2col, "type": kind, "rank": rank, "address": draw.randrange(2 ** draw.randint(8, 42)) * unit,
        "size": [group * draw.randint(1, 64)] + [draw.randint(16, 4096) for _ in range(rank - 1)],
        "stride": [unit * draw.choice((draw.randint(1, 4096), draw.randrange(2**30))) for _ in range(rank - 1)],
        "box": box, "step": [draw.choice((1, 1, draw.randint(1, 8))) for _ in range(rank)], "channels": box[0],
        "lower": corners[0], "upper": corners[1], "pixels": draw.choice((draw.randint(1, 64), draw.randint(1, 1024))),
        "interleave": interleave, "swizzle": swizzle, "fill": draw.choices((0, 1), (5, 1))[0],
    }  # fmt: skip


def disturb(fields: dict[str, Any], draw: random.Random) -> None:
    """Moves one field to or over a limit."""
    name = draw.choice(tuple(fields)[3:])
    if name in LISTS and fields[name]:
        place, value = draw.randrange(len(fields[name])), draw.choice(EDGES)
        if name in ("lower", "upper"):
            value = draw.choice((-1, 1)) * (value % 40000)
        elif name in ("box", "step"):
            value %= 2**32
        fields[name][place] = value // 16 * 16 if name == "stride" and draw.randrange(2) else value
    elif name == "address":
        fields[name] = draw.choice((0, 1, 8, 16, 32, 2**47, 2**48 - 16, 2**48, 2**57, 2**64 - 16))
    elif name in ("channels", "pixels"):
        fields[name] = draw.choice(EDGES) % 2**32
    elif name not in LISTS:
        fields[name] = draw.choice((0, 1, 2, 3, 4, 5, 8, 16))


def main(count: int, seed: int, target: str, what: str = "") -> None:
    """Asks, and writes the records."""
    driver, draw, records = Driver(), random.Random(seed), np.zeros(count, RECORD)
    for record in records:
        fields = (new_map if what == "new" else legal_map)(draw)
        for _ in range(draw.choice((0, 0, 1, 1, 2))):
            disturb(fields, draw)
        for name, value in fields.items():
            if name in LISTS:
                record[name][: len(value)] = value[: len(record[name])]
            else:
                record[name] = value
        record["code"], data = driver.encode(fields)
        record["bytes"] = np.frombuffer(data, np.uint8)
    print(f"{int((records['code'] == 0).sum())} of {count} maps are legal")
    np.savez_compressed(target, maps=records)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
