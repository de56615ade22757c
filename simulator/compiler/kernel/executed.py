"""What a warp executed, and the way through machine code that follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from simulator.execute.dynamic_info import Fact


class Executed(NamedTuple):
    """One execution of an instruction, or of a branch or exit under a predicate, by a warp.

    Attributes:
        place: of the item in the kernel.
        lanes: how many threads of the warp stood there (a guard may have let fewer act).
        wavefronts: cycles that it kept shared memory busy; of a branch, the threads that took it.
        fact: what else its time depends on; None for nothing.
    """

    place: int
    lanes: int
    wavefronts: int
    fact: Fact | None


class Segment(NamedTuple):
    """A region that a warp ran through.

    Attributes:
        region: its number.
        steps: by key of a machine instruction (`Micro.key`), its execution, as an index into those of the warp.
        taken: whether the warp goes on elsewhere than behind the region.
    """

    region: int
    steps: Mapping[int, int]
    taken: bool
