"""Fault injection: what happens when one or more bits go wrong while a sparse tensor core instruction, or a whole
program of them, runs. docs/faults.md describes the file formats, the fault models and the measures.

>>> from simulator.faults import MmaTarget, single_bits
>>> target = MmaTarget("mma.sp.m16n8k32.f32.f16.f16.f32", cases=2)
>>> faults = single_bits(target, "e")                         # every bit of the metadata that the instruction reads
>>> results = target.run(faults)
>>> len(faults), int((results["outcome"] == SDC).sum())
(1024, 1024)
"""

from __future__ import annotations

from simulator.errors import check_option
from simulator.faults.group import Group
from simulator.faults.outcomes import MASKED, SDC
from simulator.faults.population import every_fault, population
from simulator.faults.results import read_results
from simulator.faults.table import Faults
from simulator.faults.targets.mma import MmaTarget
from simulator.statistics import sample_size, wilson

__all__ = [
    "MASKED", "SDC", "Faults", "Group", "MmaTarget", "every_fault", "population", "read_results", "sample_size",
    "single_bits", "wilson",
]  # fmt: skip


def single_bits(target: MmaTarget, site: str, where: str = "live") -> Faults:
    """Every single-bit flip of a site, for every case. `where` selects the bits: "live" (those that the instruction
    reads), "dead" (those that it does not read) or "all".

    Raises:
        IsaError: no such site.
    """
    check_option("site", site, tuple(target.sites))
    return every_fault(Group(site, site, "flip", where), target.sites[site], target.layout, target.cases, target.seed)
