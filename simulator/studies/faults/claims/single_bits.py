"""Claim: single-bit injection underestimates how often a network is wrong.

Fernandes dos Santos, Kritikakou, Rodriguez Condia, Guerrero-Balaguera, Sonza Reorda, Sentieys, Rech, "Characterizing a
Neutron-Induced Fault Model for Deep Neural Networks", IEEE Transactions on Nuclear Science 70(4), 2023, arXiv
2211.13094. From its abstract: YOLOv3's misdetections in a neutron beam, and with fault models from register-transfer
level, are 8.66 times as frequent as with single-bit flips injected in software.

Here: the reference is a bit of a word of D, which is what software injectors flip. Against it stand faults that
software injectors do not make. The rate is that of inferences (a fault with an image) whose class changes, of all whose
outputs of the layer a fault has changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.studies.faults.claims.clusters import Counts, clustered
from simulator.studies.faults.claims.fault_sets import OUTPUTS, PORTS, REGISTERS, STORAGE, FaultSet
from simulator.studies.faults.claims.layers import campaigns
from simulator.studies.faults.networks.injection import Campaign

REFERENCE = OUTPUTS[0].name
SETS = (*OUTPUTS, *REGISTERS, *STORAGE, *PORTS)
CLAIMED_RATIO = 8.66
_MORE = 50  # times as many faults where one fault strikes one image


@dataclass(frozen=True, eq=False)
class Rate:
    """How often a set of faults changes classes.

    Attributes:
        layer, type, faults: which.
        inferences: of each fault, the images whose outputs of the layer it changes: [fault].
        critical: how many of these change their class: [fault].
    """

    layer: str
    type: str
    faults: str
    inferences: Counts
    critical: Counts

    @property
    def rate(self) -> float:
        """The share of corrupted inferences that are critical."""
        return float(self.critical.sum() / max(self.inferences.sum(), 1))

    def record(self, reference: Rate) -> dict[str, Any]:
        """The row of a table. The interval counts faults as clusters; the ratio is None where the reference has no
        critical inference, or this set has none that is corrupted."""
        low, high = clustered(self.critical, self.inferences)
        known = reference.rate > 0 and bool(self.inferences.any())
        ratio = self.rate / reference.rate if known else None
        return {
            "layer": self.layer, "type": self.type, "faults": self.faults, "injected": len(self.inferences),
            "inferences": int(self.inferences.sum()), "critical": int(self.critical.sum()), "rate": self.rate,
            "rate_low": low, "rate_high": high, "ratio": ratio,
        }  # fmt: skip


def rate(name: str, of: Campaign, faults: FaultSet, count: int, seed: int) -> Rate:
    """How often a set of faults in a layer changes classes."""
    inferences, critical = (np.zeros(count, np.int64) for _ in range(2))
    for changes in faults.effects(of, count, seed):
        cases = of.judge(of.blank(np.arange(int(changes.fault.max(initial=-1)) + 1)), changes)
        np.add.at(inferences, cases.fault, 1)
        np.add.at(critical, cases.fault, cases.changed)
    return Rate(name, of.layer.kind.name, faults.name, inferences, critical)


def study(types: Sequence[str], count: int, seed: int, images: int = 0) -> Iterator[Rate]:
    """Every layer, type and set of faults. There are more faults where one strikes one image, so that their rates are
    as well known as those of faults that strike all."""
    for name, of in campaigns(types, images):
        for faults in SETS:
            yield rate(name, of, faults, count * (_MORE if faults.one_image else 1), seed)


def summed(rows: Sequence[Rate], faults: str, type: str = "") -> Rate:
    """All rows with these faults as one; of one type, or of all."""
    mine = [row for row in rows if row.faults == faults and type in ("", row.type)]
    inferences, critical = (np.concatenate([getattr(row, name) for row in mine]) for name in ("inferences", "critical"))
    return Rate("all", type or "all", faults, inferences, critical)
