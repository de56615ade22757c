"""Finds out that a launch will never end: all threads look again and again for what nobody writes.

A warp whose registers and places come back to what they were, while nobody has written to memory, does the same for
ever: what it does depends on them alone. If that holds for every warp that goes on, nothing will ever change. A warp
that computes, counts its attempts, or reads a clock never comes back, so it is never given up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.simulation.launch.threads import AWAY, Threads
from simulator.state.registers import Lanes, Warps

QUIET = 2048  # looks, while nobody writes, after which the states of warps are compared
ROUND = 1021  # items of one turn meanwhile: a prime number, so that a loop is met at another item in each turn
TIMES = 3  # how often a warp comes back before it is taken to go round for ever


class Spinning:
    """What the warps of a batch do while nobody writes.

    Attributes:
        quiet: looks for what others write, since the last write.
        looked_at: int32 [row, lane]: the place of the last instruction with which a thread looked; -1: none.
    """

    def __init__(self, columns: Sequence[Sequence[NDArray[Any]]], threads: Threads) -> None:
        rows, self.quiet = len(threads.exists), 0
        self._columns, self._threads = columns, threads
        self.looked_at = np.full(threads.exists.shape, -1, np.int32)
        self._known: list[bytes] = [b""] * rows  # the state that a warp is compared with
        self._visits, self._next = np.zeros(rows, np.int64), np.ones(rows, np.int64)
        self._since, self._period = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        self._returned = np.zeros(rows, np.int64)  # how often the state has come back
        self._ran: Lanes = np.zeros_like(threads.exists)  # since that state
        self._began = False

    @property
    def suspected(self) -> bool:
        """Whether nobody has written for so long that states are compared."""
        return self.quiet > QUIET

    def changed(self) -> None:
        """Somebody writes, or may write."""
        self.quiet = 0
        self._began = False

    def looked(self, place: int, rows: Warps, lanes: Lanes | None) -> None:
        """Threads, bool [one of `rows`, lane] (None: all), look for what others write."""
        self.quiet += 1
        if lanes is None:
            self.looked_at[rows] = place
        else:
            self.looked_at[rows] = np.where(lanes, place, self.looked_at[rows])

    def tired(self) -> None:
        """Threads have used up a turn without a break, as in a loop that does not look: as good as many looks."""
        self.quiet += 1 if self.suspected else QUIET // 4

    def ran(self, rows: Warps, members: Lanes) -> bool:
        """Notes that threads bool [row, lane] of some rows had a turn; returns whether all threads go round for
        ever."""
        if not self._began:
            self._begin()
        self._ran |= members
        for row, state in zip(rows.tolist(), self._states(rows), strict=True):
            self._compare(row, state)
        able = (self._threads.at < AWAY).any(axis=1)
        needed = able | (self._visits > 0)
        return bool(needed.any() and (self._returned[needed] >= TIMES).all())

    def _begin(self) -> None:
        self._began = True
        self._known = [b""] * len(self._known)
        for each in (self._visits, self._since, self._period, self._returned):
            each[:] = 0
        self._next[:] = 1
        self._ran[:] = False

    def _compare(self, row: int, state: bytes) -> None:
        """Compares a warp's state with the one that is kept of it, which a later one replaces after 1, 2, 4, ... turns,
        so that a round of any length is found."""
        self._visits[row] += 1
        self._since[row] += 1
        able = self._threads.at[row] < AWAY
        if state == self._known[row] and not (able & ~self._ran[row]).any():
            self._returned[row] += 1
            self._period[row], self._since[row] = self._since[row], 0
            self._ran[row] = False
        elif self._visits[row] >= self._next[row] and not self._returned[row]:
            self._known[row], self._since[row] = state, 0
            self._next[row] *= 2
            self._ran[row] = False
        elif self._returned[row] and self._since[row] > 2 * self._period[row]:  # it has left its round
            self._returned[row], self._next[row] = 0, self._visits[row] + 1

    def _states(self, rows: Warps) -> list[bytes]:
        """Of some rows all that decides what their threads do, as long as memory stays what it is."""
        threads = self._threads
        places = (threads.at, threads.back, threads.parked)
        sorts = [*(columns for columns in self._columns if columns), *([each] for each in places)]
        parts = [np.stack([column[rows] for column in columns], axis=1) for columns in sorts]
        return [b"".join(part[index].tobytes() for part in parts) for index in range(len(rows))]
