"""What strong operations hand from thread to thread: release and acquire patterns at each scope.

A pattern releases by an operation with .release, or by a fence before a strong write; it acquires by one with
.acquire, or by a fence behind a strong read that has seen the write. PTX ISA 9.0, 8.8 (release and acquire patterns),
8.9.2 (synchronization). What a fence of one thread covers goes through a barrier to others, whose relaxed writes then
hand it on; and a barrier acquires what its threads have seen by strong reads: the CTA whose atomic operation comes last
reads what others left, behind __syncthreads() alone. PTX does not say so, but NVIDIA's samples rely on it (assumed).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.check.memory_model.clocks import Clocks, Released
from simulator.check.memory_model.following import Following
from simulator.check.memory_model.handed import Handed, Levels
from simulator.check.memory_model.pieces import threads_of_warp
from simulator.check.memory_model.semantics import Scope
from simulator.state.registers import Lanes, Warps


@dataclass
class Locations:
    """The locations of strong writes that release something.

    Attributes:
        entries: by location, what its present value hands on, by CTA.
    """

    entries: dict[tuple[str, int], dict[int, Handed]] = field(default_factory=dict)

    # Fences. What a thread has fenced is kept by the follower of its batch.

    def fenced(self, follower: Following, warps: Warps, lanes: Lanes) -> None:
        """Threads execute a fence: what they have seen by strong reads is acquired, and what they know is fenced from
        now on."""
        notes, means = follower.notes, follower.semantics
        for index, lane in np.argwhere(lanes).tolist() if means.acquires else ():
            row = int(warps[index])
            for handed, reach in notes.seen.pop((row, lane), ()):
                self._acquire(follower, row, lane, handed, min(reach, means.scope))
            for released in notes.looked.pop((row, lane), ()):
                follower.clocks.acquire(*threads_of_warp(row, [lane]), released)
        for index in np.flatnonzero(lanes.any(axis=1)).tolist() if means.releases else ():
            row = int(warps[index])
            for lane in np.flatnonzero(lanes[index]).tolist():
                known = follower.clocks.of_threads(*threads_of_warp(row, [lane]))
                released = Released(known, _others(follower, row, lane))
                levels = notes.fenced.setdefault((row, lane), [None, None, None])
                for level in range(means.scope + 1):
                    levels[level] = released
            follower.clocks.stamp[row] += 1

    def of_fences(self, follower: Following, row: int, lanes: NDArray[np.bool_], scope: Scope) -> Released | None:
        """What threads of a warp have fenced for a scope; None: nothing."""
        notes, found = follower.notes, None
        for lane in np.flatnonzero(lanes).tolist():
            one = notes.fenced.get((row, lane), _NOTHING)[scope]
            found = one if found is None else found if one is None else found.joined(one)
        return found

    def looked(self, follower: Following, row: int, lanes: NDArray[np.bool_], released: Released) -> None:
        """A relaxed wait has seen what a fence will acquire."""
        for lane in np.flatnonzero(lanes).tolist():
            follower.notes.looked.setdefault((row, lane), []).append(released)

    def arrives(self, follower: Following, key: object, warps: Warps, lanes: Lanes) -> None:
        """Threads arrive at a barrier: what they have fenced is handed on, as fenced."""
        notes = follower.notes
        if not notes.fenced and not notes.seen:
            return
        gathered = notes.barriers.setdefault(key, [None, None, None])
        seen = notes.seen_at.setdefault(key, [])
        for index, lane in np.argwhere(lanes).tolist():
            thread = int(warps[index]), lane
            _merge(gathered, notes.fenced.get(thread, _NOTHING))
            seen += notes.seen.pop(thread, [])

    def leaves(self, follower: Following, key: object, warps: Warps, lanes: Lanes) -> None:
        """Threads leave a barrier."""
        notes = follower.notes
        gathered, seen = notes.barriers.pop(key, None), notes.seen_at.pop(key, [])
        if gathered is None:
            return
        handed = {id(each): (each, scope) for each, scope in seen}
        for index, lane in np.argwhere(lanes).tolist():
            row = int(warps[index])
            if any(gathered):
                _merge(notes.fenced.setdefault((row, lane), [None, None, None]), gathered)
            for each, scope in handed.values():
                self._acquire(follower, row, lane, each, scope)

    # Strong operations

    def stored(self, follower: Following, space: str, where: NDArray[Any], warps: Warps, lanes: Lanes) -> None:
        """Threads store strongly: what they release takes the place of what was there."""
        means, notes = follower.semantics, follower.notes
        if not (means.releases or notes.fenced or self.entries):
            return
        for row, lane, key in _each(follower, space, where, warps, lanes):
            handed = self._released(follower, row, lane, means.releases, means.scope)
            before = self.entries.pop(key, {})
            thread = row + follower.first_row, lane
            own = next((each for each in before.values() if each.thread == thread), None)
            if handed is not None and own is not None:
                _merge(handed.levels, own.levels)
            kept = handed or own  # a release stands behind further strong writes of its thread, too
            if kept is not None:
                self.entries[key] = {kept.cta: kept}

    def updated(self, follower: Following, space: str, where: NDArray[Any], warps: Warps, lanes: Lanes) -> None:
        """Threads update atomically: they see what was released, and add what they release."""
        means, notes = follower.semantics, follower.notes
        if not (means.releases or notes.fenced or self.entries):
            return
        for row, lane, key in _each(follower, space, where, warps, lanes):
            if means.returns:
                self._see(follower, row, lane, key, means.acquires, means.scope)
            handed = self._released(follower, row, lane, means.releases, means.scope)
            if handed is not None:
                entry = self.entries.setdefault(key, {})
                known = entry.get(handed.cta)
                if known is not None:
                    handed = replace(handed, levels=_merge(list(known.levels), handed.levels))
                entry[handed.cta] = handed

    def loaded(self, follower: Following, space: str, where: NDArray[Any], warps: Warps, lanes: Lanes) -> None:
        """Threads load strongly."""
        if self.entries:
            means = follower.semantics
            for row, lane, key in _each(follower, space, where, warps, lanes):
                self._see(follower, row, lane, key, means.acquires, means.scope)

    def _see(
        self, follower: Following, row: int, lane: int, key: tuple[str, int], acquires: bool, scope: Scope
    ) -> None:
        entry = self.entries.get(key)
        if not entry:
            return
        for handed in list(entry.values()):
            if acquires:
                self._acquire(follower, row, lane, handed, scope)
            else:
                seen = follower.notes.seen.setdefault((row, lane), [])
                if not any(known is handed for known, _ in seen):
                    seen.append((handed, scope))

    def _released(self, follower: Following, row: int, lane: int, releases: bool, scope: Scope) -> Handed | None:
        levels: Levels = list(follower.notes.fenced.get((row, lane), _NOTHING))[: scope + 1] + [None] * (2 - scope)
        if releases:
            rows, one = threads_of_warp(row, [lane])
            released = follower.clocks.release(rows, one)
            levels = [released if level <= scope else None for level in range(3)]
        if not any(levels):
            return None
        whole = row + follower.first_row
        return Handed(whole // follower.ledger.warps, whole // follower.clocks.warps, levels, (whole, lane))

    @staticmethod
    def _acquire(follower: Following, row: int, lane: int, handed: Handed, scope: Scope | int) -> None:
        whole, clocks = row + follower.first_row, follower.clocks
        near = whole // clocks.warps == handed.cluster
        level = 0 if whole // follower.ledger.warps == handed.cta else 1 if near else 2
        released = handed.levels[level]
        if released is None or level > scope:
            return
        if near:
            clocks.acquire(*threads_of_warp(row, [lane]), released)
        else:
            clocks.acquire_elsewhere(row, lane, handed.cluster, released, whole // clocks.warps)


_NOTHING: Levels = [None, None, None]


def _others(follower: Following, row: int, lane: int) -> dict[int, NDArray[np.int32]]:
    clocks: Clocks = follower.clocks
    return clocks.others[int(clocks.elsewhere[row, lane])]


def _merge(into: Levels, other: Sequence[Released | None]) -> Levels:
    """Adds to what is handed on at each scope, in place."""
    for level, given in enumerate(other):
        mine = into[level]
        if given is not None and mine is not given:
            into[level] = given if mine is None else mine.joined(given)
    return into


def _each(
    follower: Following, space: str, where: NDArray[Any], warps: Warps, lanes: Lanes
) -> list[tuple[int, int, tuple[str, int]]]:
    """The threads, row and lane, with the location that each accesses."""
    index, lane = np.nonzero(lanes)
    address = np.broadcast_to(where, lanes.shape)[index, lane]
    if space == "shared":
        address = follower.state.places(warps[index], address) + (follower.first_row << 32)
    return [
        (row, one, (space, at))
        for row, one, at in zip(warps[index].tolist(), lane.tolist(), address.tolist(), strict=True)
    ]
