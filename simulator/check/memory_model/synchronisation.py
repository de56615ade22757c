"""Follows what orders threads: instructions of whole warps, barriers, fences and mbarriers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from simulator.check.memory_model.accesses import Accesses
from simulator.check.memory_model.clocks import Released
from simulator.check.memory_model.pieces import threads_of_warp
from simulator.check.memory_model.semantics import Scope
from simulator.execute.asynchronous import Key
from simulator.state.registers import Lanes, Warps


class Synchronised(Accesses):
    """Follows the accesses of one batch and what orders its threads."""

    # Threads of a warp, barriers, fences

    def warps_met(self, warps: Warps, lanes: Lanes, masks: NDArray[np.uint32] | None) -> None:
        """As in `MemoryOrder`."""
        if masks is None:
            self.clocks.meet(warps, lanes)
            return
        left = lanes.copy()
        while left.any():
            first = np.take_along_axis(masks, left.argmax(axis=1)[:, None], axis=1)
            alike = left & (masks == first)
            some = alike.any(axis=1)
            self.clocks.meet(warps[some], alike[some])
            left &= ~alike

    def fenced(self, warps: Warps, lanes: Lanes) -> None:
        """As in `MemoryOrder`."""
        self.memories.locations.fenced(self, warps, lanes)

    def arrives(self, key: object, warps: Warps, lanes: Lanes, *, orders: bool = True) -> None:
        """As in `MemoryOrder`."""
        if orders:
            released = self.clocks.release(warps, lanes)
        else:
            fences = self.memories.locations
            pairs = zip(warps.tolist(), lanes, strict=True)
            found = [fences.of_fences(self, row, own, Scope.CLUSTER) for row, own in pairs]
            released = Released(np.zeros(self.clocks.pool.shape[1], np.int32))
            for each in found:
                released = released if each is None else released.joined(each)
        known = self._barriers.get(key)
        self._barriers[key] = released if known is None else known.joined(released)
        self.memories.locations.arrives(self, key, warps, lanes)

    def leaves(self, key: object, warps: Warps, lanes: Lanes, *, last: bool = True) -> None:
        """As in `MemoryOrder`."""
        released = self._barriers.pop(key, None) if last else self._barriers.get(key)
        if released is None:
            return
        self.clocks.acquire(warps, lanes, released)
        if lanes.all():
            self.clocks.touched[warps] = False
        self.memories.locations.leaves(self, key, warps, lanes)
        self.clocks.tidy()

    # mbarriers

    def signals(self, key: Key, phase: int, warp: int, lanes: Iterable[int], *, orders: bool) -> None:
        """As in `MemoryOrder`."""
        rows, mask = threads_of_warp(warp, lanes)
        if not orders:
            released = self.memories.locations.of_fences(self, warp, mask[0], Scope.CLUSTER)
            if released is None:
                return
        else:
            released = self.clocks.release(rows, mask)
        phases = self._phases.setdefault(key, {})
        before = phases.get(phase) or (phases[max(phases)] if phases else None)
        phases[phase] = released if before is None else before.joined(released)

    def sees(self, key: Key, phase: int, warp: int, lanes: Iterable[int], *, orders: bool) -> None:
        """As in `MemoryOrder`."""
        rows, mask = threads_of_warp(warp, lanes)
        phases = self._phases.get(key, {})
        known = [number for number in phases if number <= phase]
        vector = phases[max(known)].vector if known else np.zeros(self.clocks.pool.shape[1], np.int32)
        unit = self.clocks.unit(warp // self.clocks.warps, key)
        vector = np.pad(vector, (0, max(unit + 1 - len(vector), 0)))
        vector[unit] = max(vector[unit], phase + 1)
        released = Released(vector, phases[max(known)].others if known else {})
        for number in sorted(known)[:-1]:
            del phases[number]
        if orders:
            self.clocks.acquire(rows, mask, released)
        else:
            self.memories.locations.looked(self, warp, mask[0], released)
