"""Claim: of silent corruptions less than 40 % are single bits, and NaN and infinity are 1.01 %.

Tung, Huang, Saxena, Shirvani, Hukerikar, Jain, Tyagi, Gongalore, "The Anatomy of Silent Data Corruption: GPU Error
Pattern Study and Modeling Guidance", DSN 2026 (industry track), arXiv 2605.04213. From its abstract: gate-level
stuck-at faults of a data-centre GPU, 63 microbenchmarks, three million simulator hours; NaN and infinity are 1.01 % of
outcomes that are silent corruptions, single-bit flips less than 40 % of bit-flip events.

Here: faults of storage, of registers, and stuck bits at the ports of one dot-product unit (`fault_sets`), in layers of
three networks; each word of D that differs is counted, by how many of its bits differ. Gates inside of the unit are not
modelled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.studies.faults.claims.fault_sets import OUTPUTS, PORTS, REGISTERS, STORAGE, FaultSet
from simulator.studies.faults.claims.layers import campaigns
from simulator.studies.faults.networks.injection import Campaign
from simulator.studies.faults.networks.number_types import numbers_of

SETS = (*STORAGE, *REGISTERS, OUTPUTS[0], *PORTS)
CLAIMED_SINGLE, CLAIMED_NONFINITE = 0.40, 0.0101
BITS = 33  # a word differs in 0 to 32 bits


@dataclass(frozen=True)
class Anatomy:
    """The words of D that a set of faults corrupts.

    Attributes:
        layer, type, faults: which.
        injected, corrupting: how many faults there were, and how many of them change D.
        by_bits: how many corrupted words differ in so many bits, [33].
        nonfinite: how many of them became NaN or infinite.
        nonfinite_faults: how many faults made at least one of these.
        single_faults: how many faults corrupt by single bits alone, in every word that they change.
    """

    layer: str
    type: str
    faults: str
    injected: int
    corrupting: int
    by_bits: NDArray[np.int64]
    nonfinite: int
    nonfinite_faults: int
    single_faults: int

    @property
    def words(self) -> int:
        """Corrupted words."""
        return int(self.by_bits.sum())

    @property
    def single(self) -> float:
        """The share of corrupted words that differ in one bit."""
        return float(self.by_bits[1] / max(self.words, 1))

    @property
    def median(self) -> int:
        """How many bits differ in the median corrupted word."""
        return int(np.searchsorted(np.cumsum(self.by_bits), (self.words + 1) // 2)) if self.words else 0

    def record(self) -> dict[str, Any]:
        """The row of a table: shares of corrupted words, and of faults that corrupt."""
        words, faults = max(self.words, 1), max(self.corrupting, 1)
        return {
            "layer": self.layer, "type": self.type, "faults": self.faults, "injected": self.injected,
            "corrupting": self.corrupting, "words": self.words, "single_bit": self.single, "median_bits": self.median,
            "nonfinite": self.nonfinite / words, "single_bit_faults": self.single_faults / faults,
            "nonfinite_faults": self.nonfinite_faults / faults,
        }  # fmt: skip


def anatomy(name: str, of: Campaign, faults: FaultSet, count: int, seed: int) -> Anatomy:
    """The corrupted words of a set of faults in a layer."""
    by_bits = np.zeros(BITS, np.int64)
    words, several, odd_words = (np.zeros(count, np.int64) for _ in range(3))
    for changes in faults.effects(of, count, seed):
        flipped = np.bitwise_count(changes.word ^ of.running.d[changes.row, changes.column])
        by_bits += np.bincount(flipped, minlength=BITS)
        odd = ~np.isfinite(numbers_of(changes.word, of.layer.kind.result))
        np.add.at(words, changes.fault, 1)
        np.add.at(several, changes.fault, flipped > 1)
        np.add.at(odd_words, changes.fault, odd)
    corrupting, single = int((words > 0).sum()), int(((words > 0) & (several == 0)).sum())
    odd_faults = int((odd_words > 0).sum())
    return Anatomy(
        name, of.layer.kind.name, faults.name, count, corrupting, by_bits, int(odd_words.sum()), odd_faults, single
    )


def study(types: Sequence[str], count: int, seed: int, images: int = 0) -> Iterator[Anatomy]:
    """Every layer, type and set of faults."""
    for name, of in campaigns(types, images):
        for faults in SETS:
            yield anatomy(name, of, faults, count, seed)


def summed(rows: Sequence[Anatomy], faults: Sequence[str], type: str = "") -> Anatomy:
    """The sum of rows with these faults; of one type, or of all."""
    mine = [row for row in rows if row.faults in faults and type in ("", row.type)]
    numbers = [sum(getattr(row, name) for row in mine) for name in ("injected", "corrupting")]
    bits = np.sum([row.by_bits for row in mine], axis=0)
    rest = [sum(getattr(row, name) for row in mine) for name in ("nonfinite", "nonfinite_faults", "single_faults")]
    return Anatomy("all", type or "all", ", ".join(faults), numbers[0], numbers[1], bits, rest[0], rest[1], rest[2])
