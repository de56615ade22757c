"""Vector clocks of the threads of a batch: what each thread knows of each other thread of its cluster, and of other
clusters.

The stamp of a warp grows whenever one of its threads hands on what it has done. An access bears the stamp of its warp;
a thread knows an access of another one if it knows a stamp of that thread that is as high. Threads that have passed a
barrier together know the same, so a vector is kept once for all of them (`pool`); what threads know of others of their
own warp, which parts and meets most often, is kept beside (`inside`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.check.memory_model.pieces import threads_of_warp
from simulator.state.registers import WARP_SIZE, Lanes, Warps

Vector = NDArray[np.int32]
Others = dict[int, Vector]  # by cluster of the launch
EVERYTHING = np.iinfo(np.int32).max
_UNITS = 64  # asynchronous units of a cluster at first: mbarriers and tensor cores


@dataclass(frozen=True, eq=False)
class Released:
    """What threads hand on: their own knowledge, and that of other clusters.

    Attributes:
        vector: int32 [thread or unit of the cluster]: the stamps up to which it is known.
        others: the same of threads of other clusters.
    """

    vector: Vector
    others: Others = field(default_factory=dict)

    def joined(self, other: Released) -> Released:
        """What both hand on; of one cluster."""
        return Released(np.maximum(self.vector, other.vector), joined(self.others, other.others))


def joined(one: Others, other: Others) -> Others:
    """The maximum of both, cluster by cluster."""
    if not other or one is other:
        return one
    if not one:
        return other
    return {
        key: np.maximum(one[key], other[key]) if key in one and key in other else one.get(key, other.get(key))  # type: ignore[misc]
        for key in one.keys() | other.keys()
    }


class Clocks:
    """What the threads of a batch know. Clusters stand side by side; each has `warps` warps.

    Attributes:
        stamp: int32 [row]: of each warp, from 1.
        inside: int32 [row, lane, lane]: what a thread knows of others of its warp.
        know: intp [row, lane]: which row of `pool` says what it knows of its cluster.
        pool: int32 [vector, thread or unit].
        elsewhere: intp [row, lane]: which of `others` says what it knows of other clusters.
        touched: bool [row]: warps that have accessed memory since their threads met.
    """

    def __init__(self, rows: int, warps: int) -> None:
        self.rows, self.warps, self.threads = rows, warps, warps * WARP_SIZE
        self.stamp = np.ones(rows, np.int32)
        self.inside = np.zeros((rows, WARP_SIZE, WARP_SIZE), np.int32)
        self.know = np.zeros((rows, WARP_SIZE), np.intp)
        self.pool = np.zeros((256, self.threads + _UNITS), np.int32)
        self.elsewhere = np.zeros((rows, WARP_SIZE), np.intp)
        self.others: list[Others] = [{}]
        self.touched = np.zeros(rows, np.bool_)
        self._used = 1
        self._units: list[dict[Any, int]] = [{} for _ in range(max(rows // warps, 1))]

    # Asynchronous units

    def unit(self, cluster: int, key: Any) -> int:
        """The place in the vectors of a cluster of an asynchronous unit: an mbarrier, or a tensor core's queue."""
        units = self._units[cluster]
        if key not in units:
            units[key] = self.threads + len(units)
            if units[key] >= self.pool.shape[1]:
                self.pool = np.pad(self.pool, ((0, 0), (0, _UNITS)))
        return units[key]

    # Lookup

    def known(self, row: Warps, lane: Warps, other: NDArray[Any]) -> NDArray[np.int32]:
        """int32 [n]: the stamps up to which threads (row, lane) know others of their cluster: threads row * 32 + lane
        of the batch, or -2 - place for a unit."""
        other_row, other_lane = np.divmod(other, WARP_SIZE)
        column = np.where(other < 0, -2 - other, (other_row % self.warps) * WARP_SIZE + other_lane)
        known = self.pool[self.know[row, lane], column]
        same = (other >= 0) & (other_row == row)
        if same.any():
            own = self.inside[row, lane, other_lane]
            known = np.where(same, np.where(other_lane == lane, EVERYTHING, own), known)
        return known

    def known_elsewhere(self, row: int, lane: int, cluster: int, place: int) -> int:
        """The stamp up to which a thread knows a thread of another cluster."""
        vector = self.others[self.elsewhere[row, lane]].get(cluster)
        return 0 if vector is None else int(vector[place])

    # Handing on

    def release(self, rows: Warps, lanes: Lanes) -> Released:
        """What threads of one cluster, bool [one of `rows`, lane], know and have done."""
        vector = self.of_threads(rows, lanes)
        ids = np.unique(self.elsewhere[rows][lanes])
        others: Others = {}
        for each in ids.tolist():
            others = joined(others, self.others[each])
        self.stamp[rows] += 1
        return Released(vector, others)

    def of_threads(self, rows: Warps, lanes: Lanes) -> Vector:
        """The vector of what threads of one cluster know and have done, with a place for each unit."""
        ids = np.unique(self.know[rows][lanes])
        vector = self.pool[ids[0]].copy() if len(ids) == 1 else self.pool[ids].max(axis=0)
        own = vector[: self.threads].reshape(self.warps, WARP_SIZE)
        inside = np.where(lanes[:, :, None], self.inside[rows], 0).max(axis=1)
        done = np.where(lanes, self.stamp[rows][:, None], 0)
        np.maximum.at(own, rows % self.warps, np.maximum(inside, done))
        return np.asarray(vector)

    def acquire(self, rows: Warps, lanes: Lanes, released: Released) -> None:
        """Lets threads of one cluster know what others of it have released."""
        given = self._fitting(released.vector)
        own = given[: self.threads].reshape(self.warps, WARP_SIZE)[rows % self.warps]
        inside = self.inside[rows]
        self.inside[rows] = np.where(lanes[:, :, None], np.maximum(inside, own[:, None, :]), inside)
        know = self.know[rows]
        for each in np.unique(know[lanes]).tolist():
            mixed = np.maximum(self.pool[each], given)
            if not np.array_equal(mixed, self.pool[each]):
                self.know[rows] = np.where(lanes & (know == each), self._keep(mixed), self.know[rows])
        self._learn(rows, lanes, released.others)

    def acquire_elsewhere(self, row: int, lane: int, cluster: int, released: Released, own: int) -> None:
        """Lets a thread know what a thread of another cluster has released; `own`: its own cluster."""
        rows, lanes = threads_of_warp(row, [lane])
        others = joined(released.others, {cluster: released.vector})
        if own in others:
            mine = others[own]
            others = {key: vector for key, vector in others.items() if key != own}
            self.acquire(rows, lanes, Released(mine))
        self._learn(rows, lanes, others)

    def acquire_unit(self, rows: Warps, lanes: Lanes, place: int, value: int) -> None:
        """Lets threads of one cluster know what a unit has done up to a number."""
        vector = np.zeros(self.pool.shape[1], np.int32)
        vector[place] = value
        self.acquire(rows, lanes, Released(vector))

    def meet(self, rows: Warps, lanes: Lanes) -> None:
        """Lets threads of each warp, bool [one of `rows`, lane], know all that the others of them have done."""
        chosen = self.touched[rows] | self._unlike(rows, lanes)
        if not chosen.any():
            return
        rows, lanes = rows[chosen], lanes[chosen]
        stamps, inside = self.stamp[rows], self.inside[rows]
        known = np.where(lanes[:, :, None], inside, 0).max(axis=1)
        known = np.maximum(known, np.where(lanes, stamps[:, None], 0))
        self.inside[rows] = np.where(lanes[:, :, None], known[:, None, :], inside)
        for index in np.flatnonzero(self._unlike(rows, lanes)).tolist():
            self._even(rows[index : index + 1], lanes[index : index + 1])
        self.stamp[rows] += 1
        self.touched[rows[lanes.all(axis=1)]] = False

    def _unlike(self, rows: Warps, lanes: Lanes) -> NDArray[np.bool_]:
        """bool [one of `rows`]: warps whose threads know different things of other warps."""
        first = lanes.argmax(axis=1)[:, None]
        unlike = np.zeros(len(rows), np.bool_)
        for table in (self.know, self.elsewhere):
            mine = table[rows]
            unlike |= (lanes & (mine != np.take_along_axis(mine, first, axis=1))).any(axis=1)
        return unlike

    def _even(self, rows: Warps, lanes: Lanes) -> None:
        ids = np.unique(self.know[rows][lanes])
        if len(ids) > 1:
            place = self._keep(self.pool[ids].max(axis=0))
            self.know[rows] = np.where(lanes, place, self.know[rows])
        others: Others = {}
        for each in np.unique(self.elsewhere[rows][lanes]).tolist():
            others = joined(others, self.others[each])
        self._learn(rows, lanes, others)

    # Storage

    def _fitting(self, vector: Vector) -> Vector:
        missing = self.pool.shape[1] - len(vector)
        return np.pad(vector, (0, missing)) if missing > 0 else vector

    def _learn(self, rows: Warps, lanes: Lanes, others: Others) -> None:
        if not others:
            return
        before = self.elsewhere[rows]
        for each in np.unique(before[lanes]).tolist():
            mixed = joined(self.others[each], others)
            if mixed is not self.others[each]:
                self.others.append(mixed)
                self.elsewhere[rows] = np.where(lanes & (before == each), len(self.others) - 1, self.elsewhere[rows])

    def _keep(self, vector: Vector) -> int:
        """The place in the pool of a new vector."""
        if self._used == len(self.pool):
            self.pool = np.pad(self.pool, ((0, len(self.pool)), (0, 0)))
        self.pool[self._used] = self._fitting(vector)
        self._used += 1
        return self._used - 1

    def tidy(self) -> None:
        """Forgets the vectors that no thread refers to any more, if many have come."""
        if self._used < 256:
            return
        used, places = np.unique(self.know, return_inverse=True)
        if len(used) * 2 > self._used:
            return
        used = np.concatenate([[0], used])
        self.know = places.reshape(self.know.shape) + 1
        self.pool[: len(used)] = self.pool[used]
        self._used = len(used)
