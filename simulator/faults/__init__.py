"""Fault campaigns: what one wrong bit of a sparse instruction does. docs/faults.md has the file formats, the models and
the measures.

>>> from simulator.faults import Instruction, single_bits
>>> subject = Instruction("mma.sp.m16n8k32.f32.f16.f16.f32", cases=2)
>>> faults = single_bits(subject, "e")                         # every bit of the metadata that the instruction reads
>>> results = subject.run(faults)
>>> len(faults), int((results["outcome"] == SDC).sum())
(1024, 1024)
"""

from __future__ import annotations

import numpy as np

from simulator.faults.instruction import Instruction
from simulator.faults.outcomes import MASKED, SDC
from simulator.faults.space import Group, drawn, population
from simulator.faults.statistics import sample_size, wilson
from simulator.faults.table import Faults

__all__ = ["MASKED", "SDC", "Faults", "Group", "Instruction", "population", "sample_size", "single_bits", "wilson"]


def single_bits(subject: Instruction, site: str, where: str = "live") -> Faults:
    """Every single-bit flip of a site, for every case: of bits that are read ("live"), of the others ("dead"), or
    "all"."""
    every = population(Group(site, site, "flip", where), subject.sites[site], subject.layout, subject.cases)
    faults = every.make(np.arange(every.size))
    faults["id"] = np.arange(every.size)
    return drawn(faults, subject.seed)
