"""The results of the order checker: missing links, reads of unwritten cells, overlapping operands, missing waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.check.accesses import Access, Execution
from simulator.check.links import Missing
from simulator.execute.events import Event


class Unwritten(NamedTuple):
    """A read of cells of Tensor Memory that nothing has written."""

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
    allocation: Execution


@dataclass
class Result:
    """All that the order checker noted; the same lines are kept once.

    Attributes:
        missing: missing links, by (link, lines, roles, memory).
        unwritten: reads of unwritten cells, by (line, role).
        overlaps: operands of one mma that share cells, by (line, roles).
        strays: uses of mbarriers that no initialisation precedes, by (line, line of the mbarrier.init).
        early: uses of Tensor Memory that no allocation precedes, by (line, line of the tcgen05.alloc).
        unfinished: executions that nobody waits for, and whether it is the other CTA of the pair that does not.
        counts: how often each key of `missing` occurred.
    """

    missing: dict[tuple[object, ...], Missing] = field(default_factory=dict)
    unwritten: dict[tuple[int, str], Unwritten] = field(default_factory=dict)
    overlaps: dict[tuple[int, str, str], Overlap] = field(default_factory=dict)
    strays: dict[tuple[int, int], Stray] = field(default_factory=dict)
    early: dict[tuple[int, int], Early] = field(default_factory=dict)
    unfinished: list[tuple[Execution, bool]] = field(default_factory=list)
    counts: dict[tuple[object, ...], int] = field(default_factory=dict)
