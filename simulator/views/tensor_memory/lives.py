"""What the cells of Tensor Memory hold while a program runs: contents that are written, used and given up.

The content of a cell begins when an instruction writes it without reading it, and ends with the last instruction that
touches it before another content comes, its columns are given back or the run ends. What a tcgen05.mma first takes it
for names it, D, A, metadata or scale factors, from its beginning on; what no tcgen05.mma uses is named by how it came.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.tensor_memory.address import COLUMNS, TMEM_LANES
from simulator.execute.events import Event, Region
from simulator.state.tensor_memory import Allocation
from simulator.tables import runs_in_words

Integers = NDArray[np.int64]

# From what only moves cells to what a tcgen05.mma takes them for
ROLES = (
    "initial data",
    "stored registers",
    "copied bytes",
    "D",
    "A",
    "metadata",
    "scale factors of A",
    "scale factors of B",
)
ALLOCATION = "allocation"
_USED = ROLES.index("D")  # from here on the roles of operands
_INITIAL, _STORED, _COPIED = range(3)
_CELLS = TMEM_LANES * COLUMNS
_EMPTY = -1


class Moment(NamedTuple):
    """An instruction of one warp that touches Tensor Memory.

    Attributes:
        number: how many there have been in the run, with this one; 0: the beginning of the run.
        line: its line; 0: none.
        opcode: what it is; empty at the beginning.
    """

    number: int
    line: int
    opcode: str


START = Moment(0, 0, "")


class Interval(NamedTuple):
    """Cells that hold one operand for a time.

    Attributes:
        cta: whose Tensor Memory it is.
        role: one of `ROLES`, or `ALLOCATION`.
        lanes: the lanes, ascending.
        columns: the columns.
        first: the instruction that began to write them.
        last: the last instruction that touched them; of an allocation, the one that gave it back.
    """

    cta: int
    role: str
    lanes: tuple[int, ...]
    columns: range
    first: Moment
    last: Moment

    @property
    def lanes_in_words(self) -> str:
        """`0 to 15, 32 to 47`."""
        return runs_in_words(self.lanes)

    def holds(self, moment: int) -> bool:
        """Whether the cells hold it after the instruction of this number: its last use is not before that."""
        return self.first.number <= moment <= self.last.number


class Lives:
    """The contents of the cells of one CTA; the moments are numbers in a list that all CTAs share.

    Args:
        cta: its number.
        written: bool [lane, column]: what is there before the run; None: nothing.
    """

    def __init__(self, cta: int, written: NDArray[np.bool_] | None = None) -> None:
        self.cta = cta
        self._role = np.full(_CELLS, _EMPTY, np.int64)
        self._first, self._last, self._piece = (np.zeros(_CELLS, np.int64) for _ in range(3))
        self._ended: list[Integers] = []  # [cell, role, piece, next role, first, last] each
        self._held: dict[Allocation, int] = {}
        self._given_back: list[tuple[Allocation, int, int]] = []
        self._moments = [0]  # at which this CTA's memory was touched
        if written is not None:
            self._begin(np.flatnonzero(written), _INITIAL, 0)

    def touched(self, event: Event, moment: int) -> None:
        """Notes what an instruction reads and writes of this CTA's cells."""
        self._moments.append(moment)
        reads, writes = (self._own(regions) for regions in (event.reads, event.writes))
        for region in reads:
            self._use(region.cells.ravel(), ROLES.index(region.role) if region.role in ROLES else _EMPTY, moment)
        for region in writes:
            kept = [other.cells.ravel() for other in reads if other.role == region.role]
            cells = region.cells.ravel()
            if region.role in ROLES:
                new = np.setdiff1d(cells, np.concatenate(kept)) if kept else cells
                self._begin(new, ROLES.index(region.role), moment, piece=int(cells.min()))
                self._piece[cells] = cells.min()
            elif not kept:
                self._begin(cells, _COPIED if event.kind.startswith("tcgen05.cp") else _STORED, moment)

    def _own(self, regions: tuple[Region, ...]) -> list[Region]:
        return [region for region in regions if region.space == "tmem" and region.cta == self.cta]

    def _use(self, cells: Integers, role: int, moment: int) -> None:
        """Notes that cells are read, and as what; those that nothing has written have been there from the start."""
        self._begin(cells[self._role[cells] == _EMPTY], _INITIAL, 0)
        if role != _EMPTY:
            before = self._role[cells]
            self._begin(cells[(before >= _USED) & (before != role)], role, moment)
            self._role[cells] = role
        self._last[cells] = moment

    def _begin(self, cells: Integers, role: int, moment: int, piece: int = 0) -> None:
        """Gives cells a new content."""
        self._end(cells, role)
        self._role[cells], self._piece[cells], self._first[cells], self._last[cells] = role, piece, moment, moment

    def _end(self, cells: Integers, following: int = _EMPTY) -> None:
        """Ends the contents that cells have; `following` is the role of what comes in their place."""
        full = cells[self._role[cells] != _EMPTY]
        if full.size:
            role, piece, first, last = (part[full] for part in (self._role, self._piece, self._first, self._last))
            self._ended.append(np.stack([full, role, piece, np.full_like(full, following), first, last]))
        self._role[cells] = _EMPTY

    def allocated(self, allocation: Allocation, moment: int) -> None:
        """Notes that columns have been allocated."""
        self._moments.append(moment)
        self._held[allocation] = moment

    def freed(self, allocation: Allocation, moment: int) -> None:
        """Notes that columns have been given back."""
        self._moments.append(moment)
        self._given_back.append((allocation, self._held.pop(allocation), moment))
        columns = np.arange(allocation.base, allocation.base + allocation.columns)
        self._end((np.arange(TMEM_LANES)[:, None] * COLUMNS + columns).ravel())

    def intervals(self, moments: list[Moment]) -> list[Interval]:
        """All intervals up to now, in the order of their beginning."""
        self._end(np.arange(_CELLS))
        last, every = len(moments) - 1, tuple(range(TMEM_LANES))
        still = [(allocation, first, last) for allocation, first in self._held.items()]
        found = [
            Interval(self.cta, ALLOCATION, every, range(a.base, a.base + a.columns), moments[first], moments[final])
            for a, first, final in (*self._given_back, *still)
        ]
        ended = np.concatenate(self._ended, axis=1) if self._ended else np.zeros((6, 0), np.int64)
        for role, group in _groups(ended):
            for lanes, columns, first, final in _rectangles(*group, np.array(self._moments)):
                found.append(Interval(self.cta, ROLES[role], lanes, columns, moments[first], moments[final]))
        return sorted(found, key=lambda each: (each.first.number, each.role != ALLOCATION, each.columns.start))


def _groups(ended: Integers) -> Iterator[tuple[int, tuple[Integers, Integers, Integers]]]:
    """Contents that may belong together: of one role, of one matrix D, with the same role after them, and the n-th such
    of their cells. For each its role, its cells, and when they began and ended."""
    cell, role, piece, following, first, last = ended[:, np.lexsort((ended[4], ended[0], *ended[3:0:-1]))]
    kind = np.stack([role, piece, following])
    same = np.zeros(cell.size, np.bool_)
    same[1:] = (cell[1:] == cell[:-1]) & (kind[:, 1:] == kind[:, :-1]).all(axis=0)
    number = np.arange(cell.size)
    turn = number - np.maximum.accumulate(np.where(same, 0, number))
    key = np.stack([*kind, turn])
    order = np.lexsort((cell, *key[::-1]))
    cuts = np.flatnonzero((key[:, order][:, 1:] != key[:, order][:, :-1]).any(axis=0)) + 1
    for part in np.split(order, cuts):
        if part.size:
            yield int(role[part[0]]), (cell[part], first[part], last[part])


def _rectangles(
    cell: Integers, first: Integers, last: Integers, moments: Integers
) -> Iterator[tuple[tuple[int, ...], range, int, int]]:
    """Cells as lanes x neighbouring columns that are filled at the same time or one right after the other, as the CTA's
    own moments count, with their first and last moment."""
    lane, column = np.divmod(cell, COLUMNS)
    order = np.lexsort((lane, column))
    lane, column, first, last = lane[order], column[order], first[order], last[order]
    open_lanes: tuple[int, ...] = ()
    start = stop = begin = end = _EMPTY
    for part in np.split(np.arange(cell.size), np.flatnonzero(np.diff(column)) + 1):
        lanes, here = tuple(lane[part].tolist()), int(column[part[0]])
        earliest, latest = int(first[part].min()), int(last[part].max())
        if here == stop and lanes == open_lanes and _meet((begin, end), (earliest, latest), moments):
            stop, begin, end = here + 1, min(begin, earliest), max(end, latest)
            continue
        if open_lanes:
            yield open_lanes, range(start, stop), begin, end
        open_lanes, start, stop, begin, end = lanes, here, here + 1, earliest, latest
    yield open_lanes, range(start, stop), begin, end


def _meet(one: tuple[int, int], other: tuple[int, int], moments: Integers) -> bool:
    """Whether two times overlap, or no moment of the CTA is between them."""
    (begin, end), (earliest, latest) = (np.searchsorted(moments, times) for times in (one, other))
    return bool(earliest <= end + 1 and begin <= latest + 1)


def changes(intervals: list[Interval]) -> list[int]:
    """The moments at which an interval begins, or has ended just before."""
    return sorted(set(chain.from_iterable((each.first.number, each.last.number + 1) for each in intervals)))
