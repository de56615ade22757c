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

from simulator.state.registers import WARP_SIZE, Lanes, Warps

DONE = 1 << 30  # the rank of a thread that has exited
AWAY = 1 << 29  # the rank of a thread that waits: at a barrier, or for others of its warp
PATIENCE = 1 << 12  # turns after which threads of higher rank get one, so that a thread can wait in a loop for another
QUANTUM = 1 << 12  # items that they may execute then


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
        parked: bool [row, lane]: whether it waits for other threads of its warp, which its instruction names.
    """

    everyone: Warps
    exists: Lanes
    first: int

    def __post_init__(self) -> None:
        self.at: NDArray[np.int32] = np.where(self.exists, self.first, DONE).astype(np.int32)
        self.back = np.zeros_like(self.at)
        self.parked: Lanes = np.zeros_like(self.exists)
        self._turns = 0
        self._yielded: int | None = None

    @property
    def live(self) -> Lanes:
        """bool [row, lane]: the threads that have not exited."""
        live: Lanes = self.at != DONE
        return live

    def next(self) -> Group | None:
        """The threads that go on next; None if all wait or have exited."""
        rank = int(self.at.min())
        if rank >= AWAY:
            return None
        self._turns += 1
        quantum = DONE
        if self._turns % PATIENCE == 0:
            rank, quantum = int(self.at[self.at < AWAY].max()), QUANTUM
        if self._yielded is not None:
            higher = self.at[(self.at > self._yielded) & (self.at < AWAY)]
            if higher.size:
                rank, quantum = int(higher.min()), QUANTUM
            self._yielded = None
        self._join(rank)
        members = self.at == rank
        others = np.where(members, DONE, self.at)
        limit = AWAY if quantum != DONE else int(others.min())
        some = members.any(axis=1)
        if some.all():
            rows, lanes = self.everyone, members
        else:
            rows = np.flatnonzero(some)
            lanes = members[rows]
        return Group(rank, limit, rows, None if lanes.all() else lanes, members, quantum)

    def _join(self, rank: int) -> None:
        """Threads that wait for others of their warp at this place try again."""
        if self.parked.any():
            here = self.parked & (self.back == rank) & (self.at == rank).any(axis=1)[:, None]
            self.unpark(here)

    def unpark(self, threads: Lanes) -> None:
        """Lets threads that wait for others of their warp try again."""
        chosen = threads & self.parked
        self.at[chosen] = self.back[chosen]
        self.parked[chosen] = False

    def give_way(self, rank: int) -> None:
        """Lets threads of higher rank than this have the next turn: those of this rank wait for what others do."""
        self._yielded = rank

    def move(self, threads: Lanes, rank: int) -> None:
        """Puts threads to an item."""
        self.at[threads] = rank

    def wait(self, threads: Lanes, rank: int) -> None:
        """Lets threads wait until they are released, and go on at this rank then."""
        self.at[threads] = AWAY
        self.back[threads] = rank

    def park(self, threads: Lanes, rank: int) -> None:
        """Lets threads wait for others of their warp."""
        self.wait(threads, rank)
        self.parked[threads] = True

    def release(self, threads: Lanes) -> None:
        """Lets threads go on that waited."""
        self.at[threads] = self.back[threads]

    def exit(self, threads: Lanes) -> None:
        """Ends threads; those of their warps that wait for others look again."""
        self.at[threads] = DONE
        if self.parked.any():
            self.unpark(np.broadcast_to(np.asarray(threads.any(axis=1))[:, None], threads.shape))


def all_lanes(rows: int) -> Lanes:
    """bool [row, lane], all true."""
    return np.ones((rows, WARP_SIZE), np.bool_)
