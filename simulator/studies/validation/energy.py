"""Validates the `[energy]` of a config against measured GEMM kernels, none of which its numbers were made from, and
the dependence on values against what it was fitted to."""

from __future__ import annotations

import re
from dataclasses import replace

from simulator.chip.config import Config
from simulator.resources import folder
from simulator.simulation.energy_values import activity
from simulator.studies.gemm.energy import spent
from simulator.studies.gemm.held import dram_bytes
from simulator.studies.gemm.tile import Tile
from simulator.studies.validation.group import Group, Row
from simulator.tables import read_rows

SOURCE = "measured: H100 80GB HBM3, 2026-11-22, measurements/energy"
_NAME = re.compile(r"(dense_)?(\w+?)_(\d+)x(\d+)x(\d+)_w(\d)x(\d)_s(\d)")
_K = 4096
_SHORT = ("f16_128x128x64_w2x2_s3", "s8_128x128x128_w2x4_s4", "dense_f16_128x128x64_w2x4_s4")


def tile_of(variant: str) -> tuple[Tile, int]:
    """The tile of a measured kernel by its name, and its K, a whole number of turns of its stages."""
    found = _NAME.fullmatch(variant)
    assert found is not None, variant
    dense, kind, *sizes = found.groups()
    bm, bn, bk, along_m, along_n, stages = map(int, sizes)
    return Tile(kind, bm, bn, bk, along_m, along_n, stages, not dense), -(-_K // bk // stages) * stages * bk


def gemm_rows(config: Config, short: bool) -> list[Row]:
    """Joules of whole kernels, run again and again, with the time and the clock that they were measured at."""
    rows = []
    for line in read_rows(folder("configs") / "measurements" / "h100_energy_gemm.csv"):
        if short and line["variant"] not in _SHORT:
            continue
        tile, k = tile_of(line["variant"])
        sizes = int(line["size"]), int(line["size"]), k
        chip = replace(config, chip=replace(config.chip, clock_mhz=float(line["mhz"])))
        stays = sizes[0] != _K  # the smaller stay in L2
        moved = (0, 0) if stays else dram_bytes(tile, *sizes, chip, rows=True)
        energy = spent(
            tile, sizes, chip, _active(config, tile, line["content"]), float(line["microseconds"]) / 1e6, moved
        )
        assert energy is not None
        kind = ("" if tile.sparse else "dense ") + tile.type
        keys = (("content", line["content"]), ("type", kind), ("size", f"{line['size']} x {line['size']} x {k}"))
        rows.append(Row(f"{line['variant']}, {line['content']}", keys, float(line["joules"]), energy.nj / 1e9))
    return rows


def _active(config: Config, tile: Tile, content: str) -> float:
    """The activity of what a kernel was given."""
    import numpy as np

    from simulator.arithmetic.convert import from_float64

    if content == "integers":
        rng = np.random.default_rng(0)
        a, b = (from_float64(rng.integers(-3, 4, 8192).astype(float), tile.type) for _ in "ab")
        return activity(config, tile.type, a, b)
    return 0.0 if content == "zeros" else 1.0


GROUPS = {
    "h100_sxm": (
        Group(
            "energy",
            "energy of whole GEMM kernels at their measured time and clock, joules (held out)",
            SOURCE,
            gemm_rows,
            ("content", "type", "size"),
            seconds=1,
            note="random operands at 4096 x 4096 run at the power limit, 1,360 to 1,670 MHz",
        ),
    )
}
