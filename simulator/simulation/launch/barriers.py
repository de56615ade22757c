"""The barriers of the CTAs of a batch, for threads that may have parted: who waits where, and who goes on.

PTX ISA 9.0, 9.7.13.1 (bar, barrier). A barrier without a number of threads waits for every thread of the CTA that has
not exited. An aligned barrier with a number of threads counts whole warps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.state.mbarrier import Clocks
from simulator.state.registers import WARP_SIZE, Lanes

BARRIERS = 16
EVERY = -1  # waits for all threads of the CTA that have not exited


@dataclass
class LaunchBarriers:
    """The barriers of all CTAs of a batch.

    Attributes:
        warps: warps of a CTA.
        waiting: int8 [row, lane]: 1 + the number of the barrier at which a thread waits; 0 if it does not.
        arrived: int32 [CTA, barrier]: threads that have arrived (whole warps where the barrier is aligned).
        wanted: int32 [CTA, barrier]: how many it waits for; EVERY for all.
        votes: int32 [CTA, barrier, 2]: how many threads gave a predicate to a reduction, and how many a true one.
        tally: int32 [row, lane, 2]: the votes at the last barrier that let the thread go.
        turns: int32 [CTA, barrier]: how often it was complete.
        handed: by CTA and barrier, the clocks of what the warps had done that arrived there and went on.
    """

    rows: int
    warps: int
    waiting: NDArray[np.int8] = field(init=False)
    arrived: NDArray[np.int32] = field(init=False)
    wanted: NDArray[np.int32] = field(init=False)
    votes: NDArray[np.int32] = field(init=False)
    tally: NDArray[np.int32] = field(init=False)
    turns: NDArray[np.int32] = field(init=False)
    handed: dict[tuple[int, int], list[Clocks]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ctas = self.rows // self.warps
        self.turns = np.zeros((ctas, BARRIERS), np.int32)
        self.waiting = np.zeros((self.rows, WARP_SIZE), np.int8)
        self.arrived = np.zeros((ctas, BARRIERS), np.int32)
        self.wanted = np.full((ctas, BARRIERS), EVERY, np.int32)
        self.votes = np.zeros((ctas, BARRIERS, 2), np.int32)
        self.tally = np.zeros((self.rows, WARP_SIZE, 2), np.int32)

    def arrive(
        self, lanes: Lanes, number: NDArray[Any], wanted: NDArray[Any] | None, *, aligned: bool, waits: bool
    ) -> None:
        """Lets threads arrive.

        Args:
            lanes: bool [row, lane]: which threads.
            number: int [row]: the barrier that each row names.
            wanted: int [row]: for how many threads it waits; None for all of the CTA.
            aligned: whether a warp counts whole.
            waits: whether the threads wait for the others (bar.sync, bar.red) or go on (bar.arrive).
        """
        rows = np.flatnonzero(lanes.any(axis=1))
        cta, which = rows // self.warps, number[rows].astype(np.intp)
        counts = np.full(len(rows), WARP_SIZE) if aligned and wanted is not None else lanes[rows].sum(axis=1)
        np.add.at(self.arrived, (cta, which), counts.astype(np.int32))
        self.wanted[cta, which] = EVERY if wanted is None else wanted[rows]
        if waits:
            named = np.zeros(self.rows, np.int8)
            named[rows] = which + 1
            self.waiting[lanes] = np.broadcast_to(named[:, None], lanes.shape)[lanes]

    def vote(self, lanes: Lanes, number: NDArray[Any], values: Lanes) -> None:
        """Notes the predicates bool [row, lane] that threads give to the reduction of the barrier of their row."""
        rows = np.flatnonzero(lanes.any(axis=1))
        counts = np.stack([lanes[rows].sum(axis=1), (lanes & values)[rows].sum(axis=1)], axis=1)
        np.add.at(self.votes, (rows // self.warps, number[rows].astype(np.intp)), counts.astype(np.int32))

    def released(self, live: Lanes) -> Lanes:
        """bool [row, lane]: the threads whose barrier is complete; it is reset.

        Args:
            live: bool [row, lane]: the threads that have not exited.
        """
        threads = live.reshape(-1, self.warps * WARP_SIZE).sum(axis=1)
        wanted = np.where(self.wanted == EVERY, threads[:, None], self.wanted)
        complete = (self.arrived >= wanted) & (self.arrived > 0)
        if not complete.any():
            return np.zeros_like(live)
        self.arrived[complete] = 0
        self.turns += complete
        chosen = np.concatenate([np.zeros((len(complete), 1), np.bool_), complete], axis=1)
        cta = np.arange(self.rows)[:, None] // self.warps
        free: Lanes = chosen[cta, self.waiting]
        if self.votes.any():
            self.tally[free] = self.votes[np.broadcast_to(cta, free.shape)[free], self.waiting[free] - 1]
            self.votes[complete] = 0
        self.waiting[free] = 0
        return free

    def describe(self, batch_cta: int) -> list[str]:
        """Which barriers of a CTA of the batch wait for whom, in words."""
        own = slice(batch_cta * self.warps, (batch_cta + 1) * self.warps)
        lines = []
        for number in range(BARRIERS):
            warps = np.flatnonzero((self.waiting[own] == number + 1).any(axis=1))
            if len(warps):
                names = ", ".join(map(str, warps.tolist()))
                lines.append(
                    f"warp{'s' if len(warps) > 1 else ''} {names} wait{'' if len(warps) > 1 else 's'} "
                    f"at barrier {number}"
                )
        return lines


@dataclass
class ClusterBarriers:
    """The barriers of the clusters of a batch: barrier.cluster. PTX ISA 9.0, 9.7.13.3.

    A phase is complete when every thread of the cluster has arrived in it, or has exited.

    Attributes:
        rows: warps of the batch.
        each: warps of a cluster.
        phase: int32 [cluster]: phases that are complete.
        arrived: bool [row, lane]: threads that have arrived in the present phase.
        since: int32 [row, lane]: the phase in which a thread arrived that it has not waited for; -1: there is none.
        waiting: bool [row, lane]: threads that wait for that phase.
        released: by CTA and phase, the clocks of what its warps had done when they arrived.
        place: int32 [row]: where the threads of a row have waited last.
        passed: called when threads of a row, bool [lane], go on behind a phase.
    """

    rows: int
    each: int
    phase: NDArray[np.int32] = field(init=False)
    arrived: Lanes = field(init=False)
    since: NDArray[np.int32] = field(init=False)
    waiting: Lanes = field(init=False)
    released: dict[tuple[int, int], list[Clocks]] = field(default_factory=dict)
    place: NDArray[np.int32] = field(init=False)
    passed: Callable[[int, Lanes, int], None] | None = None

    def __post_init__(self) -> None:
        self.place = np.zeros(self.rows, np.int32)
        self.phase = np.zeros(self.rows // self.each, np.int32)
        self.arrived = np.zeros((self.rows, WARP_SIZE), np.bool_)
        self.since = np.full((self.rows, WARP_SIZE), -1, np.int32)
        self.waiting = np.zeros((self.rows, WARP_SIZE), np.bool_)

    @property
    def _own(self) -> NDArray[np.int32]:
        """int32 [row, 1]: the phase of each row's cluster."""
        return np.repeat(self.phase, self.each)[:, None]

    def arrive(self, lanes: Lanes) -> Lanes:
        """Lets threads arrive; returns those, bool [row, lane], that have arrived already without waiting."""
        again: Lanes = lanes & (self.since >= 0)
        self.since = np.where(lanes, self._own, self.since)
        self.arrived |= lanes
        return again

    def complete(self, live: Lanes) -> None:
        """Completes the phases in which all threads of a cluster that have not exited have arrived."""
        lacking = (live & ~self.arrived).reshape(len(self.phase), -1).any(axis=1)
        done = ~lacking & self.arrived.reshape(len(self.phase), -1).any(axis=1)
        if done.any():
            self.phase += done
            self.arrived &= ~np.repeat(done, self.each)[:, None]

    def passing(self, lanes: Lanes) -> Lanes:
        """bool [row, lane]: those of some threads whose phase is complete; they have waited for it then."""
        through: Lanes = lanes & (self.since >= 0) & (self.since < self._own)
        if self.passed is not None:
            for row in np.flatnonzero(through.any(axis=1)).tolist():
                self.passed(row, through[row], int(self.since[row][through[row]].max()))
        self.since = np.where(through, -1, self.since)
        self.waiting &= ~through
        return through

    def describe(self, row: int, live: Lanes) -> str:
        """What a cluster's barrier lacks, in words."""
        cluster = row // self.each
        own = slice(cluster * self.each, (cluster + 1) * self.each)
        missing = int((live[own] & ~self.arrived[own]).sum())
        return f"barrier.cluster lacks the arrival of {missing} threads of the cluster"
