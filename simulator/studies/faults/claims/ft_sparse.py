"""Claim: checksums of sparse products cut critical corruptions by up to 4.87 times, at up to 7.59 % more time.

Rodriguez Condia, Ahmadilivani, Raik, Jenihhin, Sonza Reorda, "FT-Sparse: Algorithm-Based Fault Tolerance for Sparse
CNNs Using Structured Sparsity in GPUs", IEEE VLSI Test Symposium 2026, 10.1109/VTS69484.2026.11563359. From its
abstract: faults are "errors in sparse indices and compressed weights"; critical are corruptions that change what a CNN
says; overhead is that of kernels on GPUs, on the mean. Its text was not at hand.

Here: single bits of stored values and of metadata; critical is an inference (a fault with an image) whose class
changes; a corruption that the checksums of `tile_checksums` see is no corruption any more, because the product is
computed again from operands that are read again (assumed: the fault is gone then).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from simulator.statistics import wilson
from simulator.studies.faults.claims.fault_sets import REGISTERS, STORAGE, FaultSet
from simulator.studies.faults.claims.layers import campaigns
from simulator.studies.faults.claims.tile_checksums import TileChecks
from simulator.studies.faults.networks.injection import Campaign

SETS = (*STORAGE, *REGISTERS)
CLAIMED_FACTOR, CLAIMED_OVERHEAD = 4.87, 0.0759
TILES = ("64x64x64 2x2", "128x64x64 2x2", "128x128x64 2x4")  # of the kernel that is timed: m x n x k, warps


@dataclass(frozen=True)
class Coverage:
    """What the checksums see of a set of faults in a layer.

    Attributes:
        layer, type, faults, checksums: which; `checksums` is a key of `CHECKS`.
        corrupted: inferences whose outputs of the layer differ.
        seen: how many of them the checksums see.
        critical: how many of them change their class.
        missed: how many of the critical ones the checksums do not see.
        critical_faults, missed_faults: how many faults have a critical inference, and one that is missed.
        alarms, tiles: tiles without a fault that fail a check, and how many were tried.
    """

    layer: str
    type: str
    faults: str
    checksums: str
    corrupted: int
    seen: int
    critical: int
    missed: int
    critical_faults: int
    missed_faults: int
    alarms: int
    tiles: int

    @property
    def factor(self) -> float:
        """How many times fewer critical inferences there are; infinite where none is missed."""
        return self.critical / self.missed if self.missed else float("inf") if self.critical else 1.0

    @property
    def least_factor(self) -> float:
        """The factor for the upper end of the interval (95 %) of the share of critical faults that have an inference
        that is missed: inferences of one fault are not independent."""
        return 1 / wilson(self.missed_faults, self.critical_faults)[1] if self.critical_faults else 1.0

    def record(self) -> dict[str, Any]:
        """The row of a table."""
        return {
            "layer": self.layer, "type": self.type, "checksums": self.checksums,
            "faults": self.faults, "corrupted": self.corrupted,
            "seen": self.seen, "critical": self.critical, "critical_missed": self.missed,
            "critical_faults": self.critical_faults, "critical_faults_missed": self.missed_faults,
            "factor": self.factor if np.isfinite(self.factor) else None, "factor_at_least": self.least_factor,
            "false_alarms": self.alarms, "tiles": self.tiles,
        }  # fmt: skip


class Seen(NamedTuple):
    """What checks see: numbers as in `Coverage`."""

    corrupted: int
    seen: int
    critical: int
    missed: int
    critical_faults: int
    missed_faults: int


def coverage(of: Campaign, checks: Sequence[TileChecks], faults: FaultSet, count: int, seed: int) -> list[Seen]:
    """What each of several checks sees of faults, in the images that they are tried on."""
    total = np.zeros((len(checks), 6), np.int64)
    for changes in faults.effects(of, count, seed):
        cases = of.judge(of.blank(np.arange(int(changes.fault.max(initial=-1)) + 1)), changes)
        for i, one in enumerate(checks):
            seen = np.zeros(len(cases.fault), np.bool_)
            seen[cases.of[one.sees(changes)]] = True
            tried = cases.image >= -(-one.first_column // of.places)
            critical = tried & cases.changed
            missed = critical & ~seen
            struck = (len(np.unique(cases.fault[mine])) for mine in (critical, missed))
            total[i] += [tried.sum(), (tried & seen).sum(), critical.sum(), missed.sum(), *struck]
    return [Seen(*(int(number) for number in numbers)) for numbers in total]


CHECKS: dict[str, dict[str, Any]] = {
    "rows and columns": {},
    "rows alone": {"rows_alone": True},
    "rows alone, D in f16": {"rows_alone": True, "stored": "f16"},
}
"""The checksums that are tried, arguments of `TileChecks`. D is stored in f16 where it has no scale: f16 and bf16."""


def study(types: Sequence[str], count: int, seed: int, images: int = 0) -> Iterator[Coverage]:
    """Every layer, type, set of faults and kind of checksums."""
    for name, of in campaigns(types, images):
        scaled = bool(of.layer.kind.largest)
        checks = {words: TileChecks(of, **how) for words, how in CHECKS.items() if not (scaled and "stored" in how)}
        for faults in SETS:
            numbers = coverage(of, list(checks.values()), faults, count, seed)
            for (words, one), each in zip(checks.items(), numbers, strict=True):
                yield Coverage(name, of.layer.kind.name, faults.name, words, *each, *one.false_alarms)


def overheads(tiles: Sequence[str] = TILES) -> Iterator[tuple[str, dict[str, float]]]:
    """The time that checksums add to the kernel of a tile on an H100, as a share, by the detectors of
    `simulator.studies.faults.cost`."""
    from simulator.studies.faults.cost import costs
    from simulator.studies.gemm.tile import Tile

    for text in tiles:
        shape, warps = text.split()
        (m, n, k), (warps_m, warps_n) = (map(int, part.split("x")) for part in (shape, warps))
        found = costs(Tile("f16", m, n, k, warps_m, warps_n, 4), detectors=("none", "abft", "abft rows"))
        yield f"{shape}, {warps} warps", {cost.name: cost.overhead for cost in found}


def summed(rows: Sequence[Coverage], checksums: str, faults: Sequence[str]) -> Coverage:
    """The sum of the rows with these checksums and faults."""
    mine = [row for row in rows if row.checksums == checksums and row.faults in faults]
    names = ("corrupted", "seen", "critical", "missed", "critical_faults", "missed_faults", "alarms", "tiles")
    total = {name: sum(getattr(row, name) for row in mine) for name in names}
    return Coverage("all", "all", " and ".join(faults), checksums, **total)
