"""Follows the accesses of threads to shared and global memory: each is compared with the last write of its bytes, a
write with the last reads, too; a pair that nothing orders is a race."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.check.memory_model.clocks import Clocks, Released
from simulator.check.memory_model.following import Notes
from simulator.check.memory_model.judge import Judge
from simulator.check.memory_model.ledger import Ledger
from simulator.check.memory_model.memories import Memories
from simulator.check.memory_model.pieces import Threads, Touched
from simulator.check.memory_model.races import Party
from simulator.check.memory_model.semantics import Semantics
from simulator.check.memory_model.shadow import SILENT, Shadow
from simulator.check.memory_model.strays import Attempt
from simulator.check.memory_model.taint import UNWRITTEN, Definedness, Marks
from simulator.execute.asynchronous import Key
from simulator.execute.launch_state import LaunchState
from simulator.state.columns import LaunchShared
from simulator.state.device_memory import DeviceMemory
from simulator.state.registers import WARP_SIZE, Lanes, Warps
from simulator.state.shared import Addresses
from simulator.state.windows import RANK_BIT


class Accesses:
    """Follows the accesses of one batch: who accessed which bytes last, and which pairs race."""

    def __init__(self, state: LaunchState, memories: Memories) -> None:
        self.state, self.memories = state, memories
        shared = state.shared
        assert isinstance(shared, LaunchShared)
        self.first_row = memories.rows  # of the batch among all that are followed
        memories.ctas.append(state.batch.ctas)
        warps = state.warps * memories.cluster
        self.clocks = Clocks(state.batch.rows, warps)
        self.shared = Shadow(shared.data.size, memories.shared_shift, warps + 1, UNWRITTEN)
        self.values = Definedness(state, memories.origins, self.first_row)
        self._data = shared
        self.local: Shadow | None = None
        self.notes = Notes()
        self.far: dict[tuple[int, int, int], tuple[int, int]] = {}  # CTA, row and place of an access to it: lane, stamp
        self._judge = Judge(memories, self.clocks, self.first_row)
        self._barriers: dict[object, Released] = {}
        self._phases: dict[Key, dict[int, Released]] = {}
        self._products: dict[int, list[tuple[int, int]]] = {}  # by row: the group and the number of each product
        self._groups = np.zeros(state.batch.rows, np.int64)
        self._cta_at = {int(number): place for place, number in enumerate(state.batch.ctas.tolist())}

    @property
    def ledger(self) -> Ledger:
        """The threads that are followed."""
        return self.memories

    @property
    def semantics(self) -> Semantics:
        """What the present instruction means for the order of threads."""
        return self.memories.semantics[self.state.line]

    # Accesses

    def reads(
        self, space: str, where: Addresses, size: int, warps: Warps, lanes: Lanes, *, whole: bool = False
    ) -> None:
        """As in `MemoryOrder`."""
        if space == "local":
            self._load(space, self._of_threads(where, size, warps, lanes))
            return
        place, means = self.state.line, self.semantics
        for touched in self._touched(space, where, size, warps, lanes, "reads"):
            shadow, pieces, threads = touched.shadow, touched.pieces, touched.threads
            self._judge.after_write(space, touched, place, means, "reads", whole=whole)
            slot = threads.row % self.clocks.warps if space == "shared" else (threads.row & 1)
            thread, stamp = self._judge.number(space, threads), self.clocks.stamp[threads.row]
            shadow.read(pieces, thread, slot, stamp, place, means.flags, whole)
            self._load(space, touched)
            if means.strong:
                self._observe(space, touched)
        if means.strong:
            self.memories.locations.loaded(self, space, where, warps, lanes)

    def writes(self, space: str, where: Addresses, data: NDArray[np.uint8], warps: Warps, lanes: Lanes) -> None:
        """As in `MemoryOrder`."""
        if space == "local":
            self._store(space, self._of_threads(where, data.shape[-1], warps, lanes))
            return
        place, means = self.state.line, self.semantics
        for touched in self._touched(space, where, data.shape[-1], warps, lanes, "writes"):
            unit, each = 1 << touched.shadow.shift, max(data.shape[-1] >> touched.shadow.shift, 1)
            given = data[lanes].reshape(-1, each, unit)[touched.access[::each]].reshape(-1, unit)
            silent = _silent(touched, given)
            self._judge.after_write(space, touched, place, means, "writes", silent=silent)
            self._judge.after_reads(space, touched, place, means, "writes", silent=silent)
            self._write(space, touched, place, means, silent, given)
            self._store(space, touched)
        if means.strong:
            self.memories.locations.stored(self, space, where, warps, lanes)

    def updates(self, space: str, where: Addresses, size: int, warps: Warps, lanes: Lanes) -> None:
        """As in `MemoryOrder`."""
        place, means = self.state.line, self.semantics
        for touched in self._touched(space, where, size, warps, lanes, "updates"):
            self._judge.after_write(space, touched, place, means, "updates")
            self._judge.after_reads(space, touched, place, means, "updates")
            self._load(space, touched)
            before = touched.shadow.undefined[touched.pieces]
            self._write(space, touched, place, means, None, None)
            self._store(space, touched)
            if not means.exchanges and before.any():  # what was there is part of what is there now
                self._keep_marks(space, touched, before)
        self.memories.locations.updated(self, space, where, warps, lanes)

    def _of_threads(self, where: Addresses, size: int, warps: Warps, lanes: Lanes) -> Touched:
        """The pieces of local memory that threads access; what lies outside is left to who reads it."""
        local = self.state.local
        if self.local is None:
            count = self.state.batch.rows * WARP_SIZE * local.stride
            self.local = Shadow(count, self.memories.local_shift, 0, UNWRITTEN)
        index, lane = np.nonzero(lanes & (where >= 0) & (where + size <= local.size) & (where % size == 0))
        row, offset = warps[index], np.broadcast_to(where, lanes.shape)[index, lane]
        places = (row * WARP_SIZE + lane) * local.stride + offset
        return self._cut(self.local, local.data, places, size, np.arange(len(row)), row, lane)

    def _load(self, space: str, touched: Touched) -> None:
        """Hands the marks of pieces that are read on to the registers."""
        marks = touched.shadow.undefined[touched.pieces]
        if not marks.any():
            return
        fresh = np.flatnonzero(marks == UNWRITTEN)
        row, lane = touched.threads
        if fresh.size:
            first = int(fresh[0])
            what = space, touched.base + (int(touched.pieces[first]) << touched.shadow.shift), 1 << touched.shadow.shift
            origin = self.memories.origins.at(
                self.state.line, int(row[first]) + self.first_row, int(lane[first]), what, len(fresh)
            )
            marks = np.where(marks == UNWRITTEN, origin, marks)
        each = touched.each
        if self.values.loaded is None:
            self.values.loaded = np.zeros((self.state.batch.rows, WARP_SIZE, each), np.int32)
        self.values.loaded[row[::each], lane[::each]] = marks.reshape(-1, each)

    def _keep_marks(self, space: str, touched: Touched, before: Marks) -> None:
        """Keeps the marks of pieces that an atomic operation has updated."""
        marks = np.where(before == UNWRITTEN, self.memories.origins.last(self.state.line), before)
        marks = np.maximum(marks, touched.shadow.undefined[touched.pieces])
        touched.shadow.undefined[touched.pieces] = marks
        if space == "global":
            self.memories.origins.reach(marks, self.state.line, "output")

    def _store(self, space: str, touched: Touched) -> None:
        """Gives pieces that are written the marks of what is stored."""
        storing = self.values.storing
        if storing is None:
            touched.shadow.undefined[touched.pieces] = 0
            return
        if not touched.pieces.size:
            return
        each = touched.each
        element = np.arange(len(touched.pieces)) % each * storing.shape[-1] // each
        marks = storing[touched.threads.row, touched.threads.lane, element]
        touched.shadow.undefined[touched.pieces] = marks
        if space == "global":
            self.memories.origins.reach(marks, self.state.line, "output")

    def _observe(self, space: str, touched: Touched) -> None:
        """Notes who has read strongly what a strong operation wrote last: that write comes before what the reader does
        then. PTX ISA 9.0, 8.9.4 (observation order), 8.9.5 (causality order)."""
        number, stamps = self._judge.number(space, touched.threads), self.clocks.stamp[touched.threads.row]
        for piece, thread, stamp in zip(touched.pieces.tolist(), number.tolist(), stamps.tolist(), strict=True):
            touched.shadow.observers[piece] = thread, stamp

    def _write(
        self, space: str, touched: Touched, place: int, means: Semantics, silent: Any, data: NDArray[np.uint8] | None
    ) -> None:
        number, stamps = self._judge.number(space, touched.threads), self.clocks.stamp[touched.threads.row]
        flags = means.flags if silent is None else means.flags | np.where(silent, SILENT, 0)
        lost = touched.shadow.write(touched.pieces, number, stamps, place, flags)
        if data is not None and not means.counts and lost.any():
            self._judge.within_instruction(space, touched, place, lost, data)

    def _touched(
        self, space: str, where: Addresses, size: int, warps: Warps, lanes: Lanes, access: str
    ) -> Iterator[Touched]:
        """The pieces of an access, memory by memory; what lies outside of all is a stray."""
        index, lane = np.nonzero(lanes)
        if not len(index):
            return
        row, address = warps[index], np.broadcast_to(where, lanes.shape)[index, lane]
        self.clocks.touched[warps] = True
        if space == "shared":
            inside = self._data.inside(address, size)
            if not inside.all():
                self.memories.strays.shared(self, Attempt(address, size, row, lane, access), ~inside)
            if self.memories.cluster > 1:
                self._note_far(address[inside], row[inside], lane[inside])
            places = self._data.places(address[inside], row[inside])
            chosen = np.flatnonzero(inside)
            yield self._cut(self.shared, self._data.data, places, size, chosen, row[inside], lane[inside])
            return
        memory, attempt = self.state.memory, Attempt(address, size, row, lane, access)
        assert isinstance(memory, DeviceMemory)
        which = np.searchsorted(memory.starts, address, side="right") - 1
        for number in np.unique(which).tolist():
            chosen = np.flatnonzero(which == number)
            buffer = memory.buffers[number] if number >= 0 else None
            good = np.zeros(len(chosen), np.bool_)
            if buffer is not None:
                good = (address[chosen] + size <= buffer.end) & (address[chosen] % size == 0)
                self.memories.strays.declared(self, attempt, buffer, chosen[good])
            if not good.all():
                self.memories.strays.beyond(self, attempt, buffer, chosen[~good])
            chosen = chosen[good]
            if buffer is not None and len(chosen):
                offsets = address[chosen] - buffer.address
                shadow, base = self.memories.shadow(buffer), buffer.address
                yield self._cut(shadow, buffer.storage, offsets, size, chosen, row[chosen], lane[chosen], base)

    def lands(self, where: Addresses, size: int, warps: Warps, lanes: Lanes) -> Lanes:
        """As in `MemoryOrder`."""
        index, lane = np.nonzero(lanes)
        row, address = warps[index], np.broadcast_to(where, lanes.shape)[index, lane]
        inside = self._data.inside(address, size)
        if inside.all():
            return lanes
        self.memories.strays.shared(self, Attempt(address, size, row, lane, "writes"), ~inside)
        kept = lanes.copy()
        kept[index[~inside], lane[~inside]] = False
        return kept

    def _note_far(self, address: NDArray[np.int64], row: Warps, lane: NDArray[np.intp]) -> None:
        """Notes accesses to shared memory of other CTAs, which must not exit before these."""
        first = row // self.clocks.warps * self.memories.cluster
        target = first + (address >> RANK_BIT)
        for index in np.flatnonzero(target != row // self.state.warps).tolist():
            key = int(target[index]), int(row[index]), self.state.line
            self.far[key] = int(lane[index]), int(self.clocks.stamp[row[index]])

    def end(self) -> list[tuple[int, Party]]:
        """What other CTAs have accessed of the shared memory of CTAs that may have exited before: the number of such a
        CTA, and who accessed it. Called when all threads have exited."""
        found = []
        for (cta, row, place), (lane, stamp) in self.far.items():
            rows = np.arange(cta * self.state.warps, (cta + 1) * self.state.warps)
            column = row % self.clocks.warps * WARP_SIZE + lane
            if int(self.clocks.pool[self.clocks.know[rows], column].max()) < stamp:
                party = self.memories.party(row + self.first_row, lane, place)
                found.append((int(self.state.batch.ctas[cta]), party))
        return found

    def _cut(
        self,
        shadow: Shadow,
        held: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        size: int,
        access: NDArray[np.intp],
        row: Warps,
        lane: NDArray[np.intp],
        base: int = 0,
    ) -> Touched:
        pieces = shadow.pieces(offsets, size)
        each = pieces.shape[1]
        if each > 1:
            access, row, lane = (np.repeat(one, each) for one in (access, row, lane))
        return Touched(shadow, pieces.ravel(), access, Threads(row, lane), base, held)

    def moves(
        self, space: str, where: Addresses, size: int, warp: int, lane: int, *, data: NDArray[np.uint8] | None = None
    ) -> None:
        """As in `MemoryOrder`: the pieces as those of several warp-wide accesses of one lane each."""
        unit = 1 << self.memories.shift
        if space == "global" and size % unit:
            return  # pieces of a box that are finer than the kernel's other accesses are not followed
        if space == "global" and (off := where % unit != 0).any():
            where, data = where[~off], data if data is None else data[~off]
        rows = np.full(len(where), warp, np.intp)
        lanes = np.zeros((len(where), WARP_SIZE), np.bool_)
        lanes[:, lane] = True
        addresses = np.broadcast_to(where[:, None], lanes.shape)
        if self.semantics.atomic:
            self.updates(space, addresses, size, rows, lanes)
        elif data is None:
            self.reads(space, addresses, size, rows, lanes)
        else:
            spread = np.broadcast_to(data[:, None], (*lanes.shape, data.shape[-1]))
            self.writes(space, addresses, spread, rows, lanes)

    def defined(self, where: Addresses, size: int, warps: Warps) -> None:
        """As in `MemoryOrder`."""
        for places in self._data.places(where, warps):
            self.shared.undefined[self.shared.pieces(places, size).ravel()] = 0


def _silent(touched: Touched, data: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """bool [n]: the pieces whose bytes are already those that are written, uint8 [n, byte]."""
    shift = touched.shadow.shift
    places = (touched.pieces << shift)[:, None] + np.arange(1 << shift)
    written = touched.shadow.undefined[touched.pieces] == 0
    same: NDArray[np.bool_] = (touched.held[places] == data).all(axis=1) & written
    return same
