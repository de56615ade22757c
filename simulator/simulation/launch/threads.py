"""Where the threads of a batch are in their kernel, and which of them go on together next.

Every thread has a place. Those at the place of lowest rank go on together: as the place where the sides of a branch
meet has a higher rank than both sides, all threads of the first side arrive there, wait, and are joined by the others.
So threads that part meet again as early as the control flow allows, and loops of different length as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.state.registers import LANE, WARP_SIZE, Lanes, Warps

DONE = 1 << 30  # the rank of a thread that has exited
AWAY = 1 << 29  # the rank of a thread that waits: at a barrier, or for others of its warp
PATIENCE = 1 << 12  # turns after which threads of higher rank get one, so that a thread can wait in a loop for another
PATIENT = 1 << 16  # items of one turn after which they get one
QUANTUM = 1 << 12  # items that they may execute then
PARTING = 16  # of so many turns out of order one is given to threads that leave others of their warp behind
ALL = 0xFFFFFFFF  # the mask that names every thread of a warp


class Group(NamedTuple):
    """Threads that go on together.

    Attributes:
        rank: of the item that they stand at.
        limit: the lowest rank at which other threads stand: there they stop.
        rows: the rows of registers that have such threads; the batch's own array of all rows if all have.
        lanes: bool [row of `rows`, lane]: the threads; None if these are all 32 of each row.
        members: bool [row, lane], of all rows.
        quantum: how many items they may execute.
    """

    rank: int
    limit: int
    rows: Warps
    lanes: Lanes | None
    members: Lanes
    quantum: int


@dataclass
class Threads:
    """The places of all threads of a batch, as ranks.

    Attributes:
        everyone: intp [row]: all rows.
        exists: bool [row, lane]: the threads that there are.
        at: int32 [row, lane]: the rank of the item that each executes next; AWAY while it waits; DONE.
        back: int32 [row, lane]: of a thread that waits, the rank at which it goes on.
        parked: bool [row, lane]: whether it waits for other threads of its warp, which its instruction names. `back` is
            the rank of that instruction then.
        kind: int32 [row, lane]: of a parked thread, a number of what those that it waits for must wait at.
        named: uint32 [row, lane]: of a parked thread, the mask of those.
        by_warp: whether one warp goes on alone until it waits, the last ones first, in place of all in lock step.
        patient: whether those of lowest rank always go on first, and others never have a turn out of order.
    """

    everyone: Warps
    exists: Lanes
    first: int
    by_warp: bool = False
    patient: bool = False

    def __post_init__(self) -> None:
        self.at: NDArray[np.int32] = np.where(self.exists, self.first, DONE).astype(np.int32)
        self.back = np.zeros_like(self.at)
        self.parked: Lanes = np.zeros_like(self.exists)
        self.kind = np.zeros_like(self.at)
        self.named = np.zeros(self.at.shape, np.uint32)
        self._turns = 0
        self._yielded: int | None = None
        self._parting = 0
        self._current = len(self.exists)  # the row that goes on alone
        self._served = -1  # the rank of the threads that had a turn out of order last

    @property
    def turns(self) -> int:
        """How often threads had a turn."""
        return self._turns

    @property
    def live(self) -> Lanes:
        """bool [row, lane]: the threads that have not exited."""
        live: Lanes = self.at != DONE
        return live

    def next(self) -> Group | None:
        """The threads that go on next; None if all wait or have exited."""
        lowest = rank = int(self.at.min())
        if rank >= AWAY:
            return None
        if self.by_warp:
            return self._next_warp()
        self._turns += 1
        if self._turns % PATIENCE == 0 and self._yielded is None and not self.patient:
            self._yielded = rank
        at = self.at
        if self._yielded is not None:
            at = self._may_go_on(self._yielded)
            rank = self._served = self._other(at, self._yielded)
            self._yielded = None
        members = at == rank
        others = np.where(members, DONE, self.at)
        some = members.any(axis=1)
        if rank == lowest:
            limit = int(others.min())
            quantum = PATIENT if limit < AWAY else DONE
        else:  # they stop where others of their warps stand
            limit, quantum = min(int(np.where(others > rank, others, DONE)[some].min()), AWAY), QUANTUM
        if some.all():
            rows, lanes = self.everyone, members
        else:
            rows = np.flatnonzero(some)
            lanes = members[rows]
        return Group(rank, limit, rows, None if lanes.all() else lanes, members, quantum)

    def _next_warp(self) -> Group:
        """The threads of one warp that go on next: of the same one as before until it waits or gives way."""
        able: NDArray[np.intp] = np.flatnonzero((self.at < AWAY).any(axis=1))
        yielded, self._yielded = self._yielded, None
        if yielded is not None or self._current not in able:
            before = able[able < self._current]
            self._current = int(before[-1] if before.size else able[-1])
        own = self.at[self._current]
        rank = int(own.min())
        if rank == yielded:  # other threads of the warp, for which those may wait
            rank = self._served = self._other(own, rank)
        members = np.zeros_like(self.exists)
        members[self._current] = own == rank
        rows = np.array([self._current], np.intp)
        lanes: Lanes = members[rows]
        limit = min(int(np.where(own > rank, own, DONE).min()), AWAY)
        return Group(rank, limit, rows, None if lanes.all() else lanes, members, QUANTUM)

    def _may_go_on(self, rank: int) -> NDArray[np.int32]:
        """int32 [row, lane]: the ranks of the threads that may have a turn in place of those of this rank: of each warp
        those that are the furthest back, so that its threads meet again; the others, for whom these may wait, now and
        then, and where there is nobody else."""
        self._parting = (self._parting + 1) % PARTING
        last: NDArray[np.int32] = np.where(self.at == self.at.min(axis=1, keepdims=True), self.at, DONE)
        return last if self._parting and ((last < AWAY) & (last != rank)).any() else self.at

    def _other(self, at: NDArray[np.int32], rank: int) -> int:
        """The rank of threads, of those at the ranks `at`, that have a turn in place of those of this rank, each in its
        turn; this one if there are no others."""
        others = np.unique(at[(at < AWAY) & (at != rank)])
        if not others.size:
            return rank
        later = others[others > self._served]
        return int(later[0] if later.size else others[0])

    def met(self, rows: Warps) -> Lanes:
        """bool [one of `rows`, lane]: the threads that wait for others of their warp of which all are there: they wait
        at the same kind of instruction with the same mask, or have exited."""
        left, live = self.parked[rows], self.live[rows]
        kinds, masks = self.kind[rows], self.named[rows]
        met = np.zeros_like(left)
        while left.any():
            first = left.argmax(axis=1)[:, None]
            kind, mask = np.take_along_axis(kinds, first, axis=1), np.take_along_axis(masks, first, axis=1)
            alike = left & (kinds == kind) & (masks == mask)
            missing = live & ~alike & (mask >> LANE & 1 != 0)
            met |= alike & ~missing.any(axis=1)[:, None]
            left &= ~alike
        return met

    def unpark(self, rows: Warps, lanes: Lanes, rank: int) -> None:
        """Puts threads that waited for others of their warp, bool [one of `rows`, lane], to an item."""
        self.at[rows] = np.where(lanes, rank, self.at[rows])
        self.parked[rows] &= ~lanes

    def give_way(self, rank: int) -> None:
        """Lets others than the threads of this rank have the next turn: these wait for what others do."""
        self._yielded = rank

    def move(self, threads: Lanes, rank: int) -> None:
        """Puts threads to an item."""
        self.at[threads] = rank

    def wait(self, threads: Lanes, rank: int) -> None:
        """Lets threads wait until they are released, and go on at this rank then."""
        self.at[threads] = AWAY
        self.back[threads] = rank

    def park(self, threads: Lanes, rank: int, kind: int, named: NDArray[np.uint32]) -> None:
        """Lets threads wait for others of their warp at the item of this rank."""
        self.wait(threads, rank)
        self.parked[threads] = True
        self.kind[threads] = kind
        self.named[threads] = named[threads]

    def release(self, threads: Lanes) -> None:
        """Lets threads go on that waited."""
        self.at[threads] = self.back[threads]

    def exit(self, threads: Lanes) -> None:
        """Ends threads."""
        self.at[threads] = DONE


def all_lanes(rows: int) -> Lanes:
    """bool [row, lane], all true."""
    return np.ones((rows, WARP_SIZE), np.bool_)
