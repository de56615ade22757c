"""Follows a run: the accesses of all threads, and what orders them, as the PTX memory model has it.

`Follower` is told by the executors (`simulator.execute.memory_order`). What threads access by themselves is in
`accesses`, what orders them in `synchronisation`; here are asynchronous operations and the mbarriers that they need.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.check.memory_model.pieces import Threads, Touched, threads_of_warp
from simulator.check.memory_model.semantics import Semantics
from simulator.check.memory_model.synchronisation import Synchronised
from simulator.execute.asynchronous import PRODUCT, TENSOR, Key, Mask, Pending
from simulator.state.mbarrier import SIZE
from simulator.state.registers import WARP_SIZE, Warps


class Follower(Synchronised):
    """Follows one batch; implements `simulator.execute.memory_order.MemoryOrder`."""

    def uses_mbarrier(self, key: Key, warp: int, lanes: Iterable[int], *, begins: bool) -> None:
        """As in `MemoryOrder`."""
        rows, mask = threads_of_warp(warp, lanes)
        at = self._cta_at[key[0]] * self._data.stride + key[1]
        lane = np.flatnonzero(mask[0])
        size = 1 << self.shared.shift if self.shared.shift > 3 else SIZE
        places, access, row = np.full(len(lane), at), np.arange(len(lane)), np.full(len(lane), warp)
        touched = self._cut(self.shared, self._data.data, places, size, access, row, lane)
        place, means = self.state.line, self.semantics
        self.clocks.touched[rows] = True
        self._judge.after_write("shared", touched, place, means, "writes" if begins else "updates")
        if begins:
            self._judge.after_reads("shared", touched, place, means, "writes")
            self._write("shared", touched, place, Semantics(), None, None)

    # Asynchronous operations

    def begins(self, op: Pending) -> None:
        """As in `MemoryOrder`."""
        if op.kind == TENSOR or op.generic:
            return
        means = Semantics()
        self.clocks.touched[op.rows[:, 0]] = True
        if op.effect.reads is not None:
            whole = op.kind == PRODUCT
            touched = self._of_places(op.effect.reads, op.rows[:, 0], op.lanes)
            self._judge.after_write("shared", touched, op.place, means, "reads", whole=whole)
        if op.effect.writes is not None:
            touched = self._of_places(op.effect.writes, op.rows[:, 0], op.lanes)
            self._judge.after_write("shared", touched, op.place, means, "writes")
            self._judge.after_reads("shared", touched, op.place, means, "writes")
            touched.shadow.undefined[touched.pieces] = 0  # who reads too early is named by the operation
        if op.kind == PRODUCT:
            for row in op.rows.ravel().tolist():
                self._products.setdefault(row, []).append((int(self._groups[row]), op.number))

    def waited(self, op: Pending, chosen: Mask) -> None:
        """As in `MemoryOrder`."""
        for touched, write in self._ended(op, chosen):
            row = touched.threads.row
            if op.kind == PRODUCT:  # whichever warp of its warpgroup has waited knows what the unit has done
                leaders, which = np.unique(row, return_inverse=True)
                units = [self.clocks.unit(each // self.clocks.warps, ("product", each)) for each in leaders.tolist()]
                self._note(touched, -2 - np.array(units)[which], op.number, op, write)
            else:
                self._note(touched, touched.threads.number, self.clocks.stamp[row], op, write)

    def completed(self, op: Pending, chosen: Mask, key: Key, phase: int) -> None:
        """As in `MemoryOrder`."""
        for touched, write in self._ended(op, chosen):
            unit = self.clocks.unit(int(touched.threads.row[0]) // self.clocks.warps, key)
            self._note(touched, np.full(len(touched.pieces), -2 - unit), phase + 1, op, write)

    def _ended(self, op: Pending, chosen: Mask) -> Iterator[tuple[Touched, bool]]:
        """What the chosen elements of an operation have read and written (True) in shared memory."""
        if op.kind == TENSOR or op.generic or not chosen.any():
            return
        for places, write in ((op.effect.reads, False), (op.effect.writes, True)):
            if places is not None:
                yield self._of_places(places[chosen], op.rows[chosen, 0], op.lanes[chosen]), write

    def _note(self, touched: Touched, thread: NDArray[Any], stamp: Any, op: Pending, write: bool) -> None:
        if write:
            touched.shadow.write(touched.pieces, thread, stamp, op.place, 0)
            touched.shadow.undefined[touched.pieces] = 0
        else:
            slot = np.where(thread < 0, self.clocks.warps, touched.threads.row % self.clocks.warps)
            touched.shadow.read(touched.pieces, thread, slot, stamp, op.place, 0, whole=True)

    def _of_places(self, places: NDArray[np.int64], rows: Warps, lanes: NDArray[np.intp]) -> Touched:
        """The pieces of bytes [element, byte] in shared memory that asynchronous operations of threads access."""
        pieces = places >> self.shared.shift
        fresh = np.ones(pieces.shape, np.bool_)
        fresh[:, 1:] = pieces[:, 1:] != pieces[:, :-1]
        access = np.nonzero(fresh)[0]
        return Touched(self.shared, pieces[fresh], access, Threads(rows[access], lanes[access]), 0, self._data.data)

    def products_committed(self, rows: Warps) -> None:
        """As in `MemoryOrder`."""
        self._groups[rows] += 1

    def products_waited(self, rows: Warps, left: int) -> None:
        """As in `MemoryOrder`."""
        for row in rows.tolist():
            done = [number for group, number in self._products.get(row, ()) if group < self._groups[row] - left]
            if done:
                leader = row - row % self.state.warps % 4
                unit = self.clocks.unit(row // self.clocks.warps, ("product", leader))
                everyone = np.ones((1, WARP_SIZE), np.bool_)
                self.clocks.acquire_unit(np.array([row], np.intp), everyone, unit, max(done))
                self._products[row] = [pair for pair in self._products[row] if pair[1] > max(done)]
