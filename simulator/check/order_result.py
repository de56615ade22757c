"""What the order of events gives: missing links, reads of nothing, operands that overlap, instructions that nobody
waits for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.check.accesses import Access, Operation
from simulator.check.links import Missing
from simulator.execute.events import Event


class Unwritten(NamedTuple):
    """A read of Tensor Memory that nothing wrote."""

    access: Access
    cells: NDArray[np.int64]


class Overlap(NamedTuple):
    """Two operands of one mma that share cells."""

    first: Access
    second: Access
    cells: NDArray[np.int64]


class Stray(NamedTuple):
    """A use of an mbarrier that its mbarrier.init does not come before."""

    event: Event
    init_line: int
    place: tuple[int, int]


class Early(NamedTuple):
    """A use of Tensor Memory that its tcgen05.alloc, by another warp, does not come before."""

    access: Access
    allocation: Operation


@dataclass
class Result:
    """What was found, each with how often: pairs of lines are reported once."""

    missing: dict[tuple[object, ...], Missing] = field(default_factory=dict)
    unwritten: dict[tuple[int, str], Unwritten] = field(default_factory=dict)
    overlaps: dict[tuple[int, str, str], Overlap] = field(default_factory=dict)
    strays: dict[tuple[int, int], Stray] = field(default_factory=dict)
    early: dict[tuple[int, int], Early] = field(default_factory=dict)
    unfinished: list[tuple[Operation, bool]] = field(default_factory=list)
    counts: dict[tuple[object, ...], int] = field(default_factory=dict)
