"""Faults a second of one core, many at a time against one by one: `python -m tests.benchmarks.faults [--faults N]
[--rounds N]`.

Seconds are those of the processor that this process had, since others may use it, too; the ratio is of the same faults,
drawn from those of the campaign.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from simulator.faults.campaign import read_campaign
from simulator.faults.group import Group
from simulator.faults.population import population
from simulator.faults.table import Faults
from simulator.faults.targets.program import ProgramTarget
from simulator.faults.targets.tcgen05 import Tcgen05Target
from simulator.resources import folder

_SEED = 1
_OPERANDS = ("a", "shared", "e", "d")


class Measured(NamedTuple):
    """A target, the faults to inject many at a time, and how many of them one by one."""

    what: str
    target: ProgramTarget | Tcgen05Target
    faults: Faults
    alone: int


def measured(count: int) -> Iterator[Measured]:
    """What is measured, `count` faults of each."""
    rng = np.random.default_rng(_SEED)
    for name, alone in (("digits", 60), ("alignment", 600)):
        campaign = read_campaign(folder("campaigns") / f"{name}.toml")
        target = campaign.subject
        assert isinstance(target, ProgramTarget | Tcgen05Target)
        yield Measured(
            f"campaigns/{name}.toml", target, _mixed(np.concatenate(list(campaign.faults())), count, rng), alone
        )
    for kind in ("f16", "i8", "mxf4nvf4.block_scale.scale_vec::4X"):
        target = Tcgen05Target(f"tcgen05.mma.sp.cta_group::1.kind::{kind}", 128, 64)
        parts = []
        for site in _OPERANDS:
            every = population(Group(site, site, "flip"), target.sites[site], target.layout, 1)
            parts.append(every.make(rng.integers(every.size, size=-(-count // len(_OPERANDS)))))
        yield Measured(f"operands of {target.opcode}", target, _mixed(np.concatenate(parts), count, rng), 300)


def _mixed(faults: Faults, count: int, rng: np.random.Generator) -> Faults:
    """So many of the faults, each as often as the others."""
    mixed = rng.permutation(np.tile(faults, -(-count // len(faults))))[:count]
    mixed["id"] = np.arange(count)
    return mixed


def seconds(target: ProgramTarget | Tcgen05Target, faults: Faults) -> float:
    """Seconds of the processor for a fault."""
    begin = time.process_time()
    for first in range(0, len(faults), target.batch):
        target.run(faults[first : first + target.batch])
    return (time.process_time() - begin) / len(faults)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=12_288, help="of each campaign (default 12288)")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ["TCSIM_THREADS"] = "1"
    print(f"{'faults a second, many at a time and one by one':<70} {'many':>8} {'one':>6} {'ratio':>8}")
    for what, target, faults, alone in measured(options.faults):
        other = replace(target, together=False)
        for each in (target, other):
            each.run(faults[:8])  # makes what is made once
        rounds = [(seconds(target, faults), seconds(other, faults[:alone])) for _ in range(options.rounds)]
        many, one = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"{what:<70} {1 / many:>8,.0f} {1 / one:>6,.0f} {one / many:>8,.1f}")


if __name__ == "__main__":
    main()
