"""Validates whole GEMMs of chips that nobody here has measured against TFLOPS that others have published.

The figures (configs/measurements/published_gemms.csv) are of kernels that their authors wrote, with the tile, warps and
stages that they name, and of libraries. Each is compared as the time of one of many launches in a stream. The kernel is
tcsim's own: where an author takes rows of 64 bytes of K, which it does not have, it takes 128, and half of the stages.
Clocks under load are known where a source prints them; else the config's counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from simulator.chip.config import Config, load_config
from simulator.resources import folder
from simulator.studies.gemm.estimate import in_stream, kernel_cycles
from simulator.studies.gemm.tile import STAGES, Tile, instruction, parse_tile
from simulator.studies.validation.group import Group, Row, assumed
from simulator.tables import read_rows

_ROW = 128  # bytes of K in an iteration, at least


@cache
def figures() -> Mapping[str, tuple[dict[str, str], ...]]:
    """The published GEMMs of each config."""
    found: dict[str, list[dict[str, str]]] = {}
    for line in read_rows(folder("configs") / "measurements" / "published_gemms.csv"):
        found.setdefault(line["config"], []).append(line)
    return {config: tuple(lines) for config, lines in found.items()}


def tile_of(line: Mapping[str, str]) -> Tile:
    """tcsim's tile for a published kernel."""
    bm, bn, *bk = (int(part) for part in line["tile"].split("x"))
    bits, stages = instruction(line["type"], sparse=False).a_type.bits, int(line["stages"])
    row = bk[0] * bits // 8 if bk else _ROW
    if row < _ROW:
        stages = max(-(-stages * row // _ROW), STAGES[0])
    along = tuple(int(part) for part in line["warps"].split("x")) if line["warps"] else None
    warps = (along[0], along[1]) if along else None
    text = f"{bm}x{bn}x{max(row, _ROW) * 8 // bits}"
    return parse_tile(text, line["type"], sparse=False, stages=stages, warps=warps)


def rows(config: Config, short: bool) -> list[Row]:
    """Microseconds of each published GEMM of the chip; in the short form of its smallest."""
    lines = sorted(figures()[config.name], key=lambda line: int(line["m"]) * int(line["n"]) * int(line["k"]))
    return [_row(config, line) for line in (lines[:1] if short else lines)]


def _row(config: Config, line: dict[str, str]) -> Row:
    m, n, k = (int(line[name]) for name in "mnk")
    tile, chip = tile_of(line), load_config(config, {"chip.clock_mhz": float(line["mhz"])} if line["mhz"] else ())
    measured = 2 * m * n * k / float(line["tflops"]) * 1e-6
    simulated = in_stream(kernel_cycles(tile, m, n, k, chip), chip) * 1e6
    warps = f", warps {line['warps']}" if line["warps"] else ""
    label = f"{line['type']} {m}x{n}x{k}, {line['tile']}{warps}, {line['stages']} stages"
    keys = (("type", line["type"]), ("size", f"{m}x{n}x{k}"))
    return Row(label, keys, measured, simulated, assumed(config, ("l2", "memory", "hbm", "launch")))


def _group(config: str) -> Group:
    lines = figures()[config]
    return Group(
        "published-gemm",
        "whole GEMMs, microseconds in a stream of launches",
        "; ".join(dict.fromkeys(line["source"] for line in lines)),
        rows,
        ("type",),
        note="kernels of their authors, at a clock that few sources print; tcsim's of the same tile stands for each",
        seconds=1.5 * len(lines),
    )


GROUPS = {config: (_group(config),) for config in figures()}
