"""What a warp executed, and its path through machine code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from simulator.execute.dynamic_info import Fact


class Executed(NamedTuple):
    """One execution of an instruction, or of a branch or exit under a predicate, by a warp.

    Attributes:
        place: the place of the item in the kernel.
        lanes: how many threads of the warp were there, whether or not their guard let them act.
        wavefronts: cycles for which it kept shared memory busy; for a branch, how many threads took it.
        fact: what else its time depends on; None for nothing.
    """

    place: int
    lanes: int
    wavefronts: int
    fact: Fact | None


class Segment(NamedTuple):
    """A region that a warp ran through.

    Attributes:
        region: the number of the region.
        steps: for each machine instruction (`Micro.key`), the index of its execution among those of the warp.
        taken: whether the warp jumped from the end of the region.
    """

    region: int
    steps: Mapping[int, int]
    taken: bool
