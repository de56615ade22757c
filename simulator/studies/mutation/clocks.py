"""Which accesses to shared memory nothing orders, by warp: a small check of its own, without the one that is judged.

Each warp has a clock, a vector of how much it has seen of every warp of its CTA. A barrier of the CTA joins the clocks
of those that arrive into those that leave; an arrival at an mbarrier joins into its clock, a wait takes it over. Copies
(`cp.async`) write when their warp waits for them, and touch their bytes from issue on. Where a warp may have seen more
than is sure (a look at an mbarrier in vain), it is taken to have: what is found here is out of order for certain.
Lanes of a warp are ordered by every instruction that they execute together (`.sync`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

UNIT = 2  # bytes that are told apart; narrower accesses of different threads count as one
Units = NDArray[np.intp]
Pair = tuple[str, int, int]  # what is wrong, and the lines of both sides, the earlier one first
INFLIGHT, RACE, WITHIN, UNWRITTEN = "copy not waited for", "race", "race in a warp", "unwritten"
PROXY = "fence.proxy.async"


@dataclass
class _Copies:
    """The copies of a warp that are not waited for: those of each group, and those of none yet."""

    groups: list[list[tuple[int, Units]]] = field(default_factory=list)
    open: list[tuple[int, Units]] = field(default_factory=list)


class CtaOrder:
    """The order of the accesses to the shared memory of one CTA.

    Attributes:
        found: the pairs of lines whose accesses nothing orders.
    """

    def __init__(self, warps: int, size: int) -> None:
        count = size // UNIT + 1
        self.warps, self.count = warps, count
        self.clocks = np.zeros((warps, warps), np.int32)
        self.clocks[np.arange(warps), np.arange(warps)] = 1
        self.writes = np.zeros((warps, count), np.int32)  # by warp, its tick at its last write
        self.reads = np.zeros((warps, count), np.int32)
        self.atomics = np.zeros(count, np.bool_)  # whether all accesses have been atomic
        self.by_line: dict[tuple[int, bool], NDArray[np.int32]] = {}
        self.lane = np.full((warps, count), -1, np.int32)  # by warp, the lane of its last write
        self.lane_line = np.zeros((warps, count), np.int32)
        self.since = np.zeros((warps, count), np.int32)  # by warp, its turn at that write
        self.turns = np.zeros(warps, np.int32)  # how often the lanes of a warp have met
        self.inflight = np.zeros(count, np.int32)  # the line of the copy that writes there; 0 for none
        self.plain = np.zeros(count, np.int32)  # the line of a store that no fence.proxy.async followed
        self.owner = np.zeros(count, np.int32)  # the warp of that store
        self.touched = np.zeros(count, np.bool_)  # whether anything has written there
        self.copies = [_Copies() for _ in range(warps)]
        self.phases: dict[Any, NDArray[np.int32]] = {}
        self._numbers: dict[int, int] = {}
        self.leaving: dict[int, list[Any]] = {}
        self.mbarriers: dict[int, NDArray[np.int32]] = {}
        self.found: set[Pair] = set()

    # What orders

    def begin(self, warp: int) -> None:
        """A warp executes something: it has left the barriers at which it waited."""
        for key in self.leaving.pop(warp, ()):
            kind = key[0]
            held = self.mbarriers.get(key[1]) if kind == "mbarrier" else self.phases.get(key)
            if held is not None:
                np.maximum(self.clocks[warp], held, out=self.clocks[warp])
            if kind == "bar":
                number, phase = key[1], key[2]
                if self._phase(number) == phase:
                    self._numbers[number] = phase + 1

    def _phase(self, number: int) -> int:
        return self._numbers.setdefault(number, 0)

    def arrive(self, warp: int, number: int, *, waits: bool) -> None:
        """A warp arrives at a barrier of the CTA, and waits there or goes on."""
        key = ("bar", number, self._phase(number))
        held = self.phases.setdefault(key, np.zeros(self.warps, np.int32))
        np.maximum(held, self.clocks[warp], out=held)
        self.clocks[warp, warp] += 1
        if waits:
            self.leaving.setdefault(warp, []).append(key)

    def release(self, warp: int, address: int) -> None:
        """A warp arrives at an mbarrier."""
        held = self.mbarriers.setdefault(address, np.zeros(self.warps, np.int32))
        np.maximum(held, self.clocks[warp], out=held)
        self.clocks[warp, warp] += 1

    def look(self, warp: int, address: int) -> None:
        """A warp looks at an mbarrier, and is taken to have seen it complete."""
        self.leaving.setdefault(warp, []).append(("mbarrier", address))

    def meet(self, warp: int) -> None:
        """The lanes of a warp meet."""
        self.turns[warp] += 1

    # Copies

    def copy(self, warp: int, line: int, units: Units) -> None:
        """A warp issues a copy into these bytes."""
        self._check(warp, line, units, writes=True, atomic=False)
        under_way = self.inflight[units]
        for other in np.unique(under_way[under_way > 0]).tolist():
            self.found.add((RACE, other, line))
        self.inflight[units] = line
        self.copies[warp].open.append((line, units))

    def commit(self, warp: int) -> None:
        """A warp makes its copies a group."""
        own = self.copies[warp]
        own.groups.append(own.open)
        own.open = []

    def wait(self, warp: int, left: int) -> None:
        """A warp waits until at most `left` of its groups are under way."""
        own = self.copies[warp]
        while len(own.groups) > left:
            self._done(warp, own.groups.pop(0))

    def wait_all(self, warp: int) -> None:
        """A warp waits for all of its copies, or lets an mbarrier wait for them."""
        self.commit(warp)
        self.wait(warp, 0)

    def _done(self, warp: int, copies: list[tuple[int, Units]]) -> None:
        for line, units in copies:
            self.inflight[units] = 0
            self._record(warp, line, units, writes=True)

    # The asynchronous proxy

    def fence(self, warp: int) -> None:
        """A warp lets the asynchronous proxy see its stores."""
        self.plain[self.owner == warp] = 0

    def read_through_proxy(self, line: int, units: Units) -> None:
        """An instruction reads these bytes through the asynchronous proxy."""
        unfenced = self.plain[units]
        for other in np.unique(unfenced[unfenced > 0]).tolist():
            self.found.add((PROXY, other, line))

    # Accesses

    def access(
        self, warp: int, line: int, units: Units, lanes: NDArray[np.int32], *, writes: bool, atomic: bool, both: bool
    ) -> None:
        """The lanes of a warp access bytes: `lanes` says for each of `units` which one, -1 for all of them."""
        under_way = self.inflight[units]
        for other in np.unique(under_way[under_way > 0]).tolist():
            self.found.add((INFLIGHT, other, line))
        if not writes or both:
            if not self.touched[units].all():
                self.found.add((UNWRITTEN, 0, line))
            if not (atomic and self.atomics[units].all()):
                self._within(warp, line, units, lanes)
        self._check(warp, line, units, writes=writes, atomic=atomic)
        self._record(warp, line, units, writes=writes)
        if writes:
            self.lane[warp, units], self.lane_line[warp, units] = lanes, line
            self.since[warp, units] = self.turns[warp]
            self.atomics[units] = atomic
            self.plain[units], self.owner[units] = line, warp

    def _within(self, warp: int, line: int, units: Units, lanes: NDArray[np.int32]) -> None:
        late = (self.since[warp, units] == self.turns[warp]) & (self.lane[warp, units] >= 0)
        late &= self.lane[warp, units] != lanes
        for other in np.unique(self.lane_line[warp, units[late]]).tolist():
            self.found.add((WITHIN, other, line))

    def _check(self, warp: int, line: int, units: Units, *, writes: bool, atomic: bool) -> None:
        seen = self.clocks[warp][:, None]
        unseen = self.writes[:, units] > seen
        if writes:
            unseen |= self.reads[:, units] > seen
        unseen[warp] = False
        if atomic:
            unseen &= ~self.atomics[units]
        if not unseen.any():
            return
        for (other, write), table in self.by_line.items():
            if (write or writes) and (unseen & (table[:, units] > seen)).any():
                self.found.add((RACE, other, line))

    def _record(self, warp: int, line: int, units: Units, *, writes: bool) -> None:
        tick = self.clocks[warp, warp]
        (self.writes if writes else self.reads)[warp, units] = tick
        table = self.by_line.get((line, writes))
        if table is None:
            table = self.by_line[line, writes] = np.zeros((self.warps, self.count), np.int32)
        table[warp, units] = tick
        if writes:
            self.touched[units] = True

    def written_elsewhere(self) -> None:
        """Something that this check does not follow (a bulk copy) writes bytes: all count as written, and as seen by
        the asynchronous proxy."""
        self.touched[:] = True
        self.plain[:] = 0
