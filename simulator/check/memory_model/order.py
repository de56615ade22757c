"""Follows a run: the accesses of all threads, and what orders them, as the PTX memory model has it.

`Follower` is told by the executors (`simulator.execute.memory_order`). Each access is compared with the last write of
its bytes, a write with the last reads, too; a pair that nothing orders is a race.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.check.memory_model.clocks import Clocks, Released
from simulator.check.memory_model.judge import Judge, Threads
from simulator.check.memory_model.locations import Locations, Notes
from simulator.check.memory_model.races import Party, Races
from simulator.check.memory_model.semantics import Scope, Semantics, scope_of
from simulator.check.memory_model.shadow import ATOMIC, SILENT, STRONG, Shadow
from simulator.check.memory_model.strays import Strays
from simulator.check.memory_model.taint import UNWRITTEN, Definedness, Marks, Origins
from simulator.execute.asynchronous import PRODUCT, TENSOR, Key, Mask, Pending
from simulator.execute.launch_state import LaunchState
from simulator.state.columns import LaunchShared
from simulator.state.device_memory import Buffer, DeviceMemory
from simulator.state.mbarrier import SIZE
from simulator.state.registers import WARP_SIZE, Lanes, Warps
from simulator.state.shared import Addresses
from simulator.state.windows import RANK_BIT

_WITHIN = (1 << RANK_BIT) - 1


@dataclass
class Memories:
    """What outlives a batch: the shadows of global memory, what its locations release, and what was found.

    Attributes:
        semantics: by place, what an instruction means for the order of threads.
        shift, shared_shift: the logarithms of the bytes of pieces of global and of shared memory.
        warps, cluster: warps of a CTA, CTAs of a cluster.
        buffers: the shadow of each buffer of global memory, by its address.
        ctas: of each batch, the numbers of its CTAs.
        origins: the instructions that read what nothing had written.
        fresh: the addresses of buffers in which nothing has been written before the launch.
    """

    semantics: list[Semantics]
    shift: int
    shared_shift: int
    warps: int
    cluster: int
    buffers: dict[int, Shadow] = field(default_factory=dict)
    locations: Locations = field(default_factory=Locations)
    races: Races = field(default_factory=Races)
    strays: Strays = field(default_factory=Strays)
    ctas: list[NDArray[np.int64]] = field(default_factory=list)
    origins: Origins = field(default_factory=Origins)
    fresh: set[int] = field(default_factory=set)

    @property
    def rows(self) -> int:
        """Warps that have been followed so far."""
        return sum(len(each) for each in self.ctas) * self.warps

    def party(self, row: int, lane: int, place: int, access: str = "reads") -> Party:
        """A side, of the row of a warp among all that are followed."""
        return Party(place, int(np.concatenate(self.ctas)[row // self.warps]), row % self.warps, lane, access)

    def shadow(self, buffer: Buffer) -> Shadow:
        """The shadow of a buffer; two readers of each piece are kept."""
        if buffer.address not in self.buffers:
            undefined = UNWRITTEN if buffer.address in self.fresh else 0
            self.buffers[buffer.address] = Shadow(buffer.size, self.shift, 2, undefined)
        return self.buffers[buffer.address]


class Touched(NamedTuple):
    """The pieces of one memory that threads access.

    Attributes:
        shadow: of the memory.
        pieces: int64 [n].
        access: intp [n]: which of the accesses each piece belongs to.
        threads: the thread of each piece.
        base: what is added to an offset to get the address that a user knows.
    """

    shadow: Shadow
    pieces: NDArray[np.int64]
    access: NDArray[np.intp]
    threads: Threads
    base: int


class Follower:
    """Follows one batch; implements `simulator.execute.memory_order.MemoryOrder`."""

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
        self.notes = Notes()
        self.far: dict[tuple[int, int, int], tuple[int, int]] = {}  # CTA, row and place of an access to it: lane, stamp
        self._judge = Judge(memories, self.clocks, self.first_row)
        self._barriers: dict[object, Released] = {}
        self._phases: dict[Key, dict[int, Released]] = {}
        self._products: dict[int, list[tuple[int, int]]] = {}  # by row: the group and the number of each product
        self._groups = np.zeros(state.batch.rows, np.int64)
        self._cta_at = {int(number): place for place, number in enumerate(state.batch.ctas.tolist())}

    @property
    def semantics(self) -> Semantics:
        """What the present instruction means for the order of threads."""
        return self.memories.semantics[self.state.line]

    # Accesses

    def reads(
        self, space: str, where: Addresses, size: int, warps: Warps, lanes: Lanes, *, whole: bool = False
    ) -> None:
        """As in `MemoryOrder`."""
        place, means = self.state.line, self.semantics
        for touched in self._touched(space, where, size, warps, lanes, "reads"):
            shadow, pieces, _, threads, _ = touched
            self._judge.after_write(space, touched, place, means, "reads", whole=whole)
            slot = threads.row % self.clocks.warps if space == "shared" else (threads.row & 1)
            thread = threads.number if space == "shared" else threads.number + self.first_row * WARP_SIZE
            shadow.read(pieces, thread, slot, self.clocks.stamp[threads.row], _flagged(place, means), whole)
            self._load(space, touched)
            if means.strong:
                self._observe(space, touched)
        if means.strong:
            self.memories.locations.loaded(self, space, where, warps, lanes)

    def writes(self, space: str, where: Addresses, data: NDArray[np.uint8], warps: Warps, lanes: Lanes) -> None:
        """As in `MemoryOrder`."""
        place, means = self.state.line, self.semantics
        for touched in self._touched(space, where, data.shape[-1], warps, lanes, "writes"):
            unit, each = 1 << touched.shadow.shift, max(data.shape[-1] >> touched.shadow.shift, 1)
            given = data[lanes].reshape(-1, each, unit)[touched.access[::each]].reshape(-1, unit)
            silent = self._silent(space, touched, given)
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

    def _silent(self, space: str, touched: Touched, data: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """bool [n]: the pieces whose bytes are already those that are written."""
        unit = 1 << touched.shadow.shift
        places = (touched.pieces << touched.shadow.shift)[:, None] + np.arange(unit)
        held = self._data.data if space == "shared" else self._buffer_at(touched.base).storage
        same: NDArray[np.bool_] = (held[places] == data).all(axis=1) & (touched.shadow.undefined[touched.pieces] == 0)
        return same

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
        each = int((touched.access == touched.access[0]).sum())
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
        each = int((touched.access == touched.access[0]).sum())
        element = np.arange(len(touched.pieces)) % each * storing.shape[-1] // each
        marks = storing[touched.threads.row, touched.threads.lane, element]
        touched.shadow.undefined[touched.pieces] = marks
        if space == "global":
            self.memories.origins.reach(marks, self.state.line, "output")

    def _observe(self, space: str, touched: Touched) -> None:
        """Notes who has read strongly what a strong operation wrote last: that write comes before what the reader does
        then. PTX ISA 9.0, 8.9.4 (observation order), 8.9.5 (causality order)."""
        threads = touched.threads
        number = threads.number if space == "shared" else threads.number + self.first_row * WARP_SIZE
        stamps = self.clocks.stamp[threads.row]
        for piece, thread, stamp in zip(touched.pieces.tolist(), number.tolist(), stamps.tolist(), strict=True):
            touched.shadow.observers[piece] = thread, stamp

    def _buffer_at(self, address: int) -> Buffer:
        memory = self.state.memory
        assert isinstance(memory, DeviceMemory)
        return next(buffer for buffer in memory.buffers if buffer.address == address)

    def _write(
        self, space: str, touched: Touched, place: int, means: Semantics, silent: Any, data: NDArray[np.uint8] | None
    ) -> None:
        threads = touched.threads
        number = threads.number if space == "shared" else threads.number + self.first_row * WARP_SIZE
        flags = (STRONG if means.strong and not means.data else 0) | means.scope << 2 | (ATOMIC if means.atomic else 0)
        flagged = flags if silent is None else flags | np.where(silent, SILENT, 0)
        lost = touched.shadow.write(touched.pieces, number, self.clocks.stamp[threads.row], place, flagged)
        if data is not None and not flags & STRONG and lost.any():
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
            inside = self._in_shared(address, size, row)
            if not inside.all():
                self.memories.strays.shared(self, address, size, row, lane, ~inside, access)
            if self.memories.cluster > 1:
                self._note_far(address[inside], row[inside], lane[inside])
            places = self._data.places(address[inside], row[inside])
            yield self._cut(self.shared, places, size, np.flatnonzero(inside), row[inside], lane[inside], 0)
            return
        memory: Any = self.state.memory
        which = np.searchsorted(memory.starts, address, side="right") - 1
        for number in np.unique(which).tolist():
            chosen = np.flatnonzero(which == number)
            buffer = memory.buffers[number] if number >= 0 else None
            good = np.zeros(len(chosen), np.bool_)
            if buffer is not None:
                good = (address[chosen] + size <= buffer.end) & (address[chosen] % size == 0)
                self.memories.strays.declared(self, buffer, address, size, row, lane, chosen[good], access)
            if not good.all():
                self.memories.strays.beyond(self, buffer, address, size, row, lane, chosen[~good], access)
            chosen = chosen[good]
            if buffer is not None and len(chosen):
                offsets = address[chosen] - buffer.address
                shadow = self.memories.shadow(buffer)
                yield self._cut(shadow, offsets, size, chosen, row[chosen], lane[chosen], buffer.address)

    def _in_shared(self, address: NDArray[np.int64], size: int, row: Warps) -> NDArray[np.bool_]:
        offset, rank = address & _WITHIN, address >> RANK_BIT
        inside: NDArray[np.bool_] = (address >= 0) & (offset + size <= self._data.size) & (offset % size == 0)
        return inside & (rank < self._data.cluster)

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
        self, shadow: Shadow, offsets: NDArray[np.int64], size: int, access: NDArray[np.intp], row: Warps, lane: Any,
        base: int,
    ) -> Touched:  # fmt: skip
        pieces = shadow.pieces(offsets, size)
        each = pieces.shape[1]
        if each > 1:
            access, row, lane = (np.repeat(one, each) for one in (access, row, lane))
        return Touched(shadow, pieces.ravel(), access, Threads(row, lane), base)

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

    def fenced(self, warps: Warps, lanes: Lanes, scope: str, *, acquires: bool, releases: bool) -> None:
        """As in `MemoryOrder`."""
        reach = scope_of((scope,))
        self.memories.locations.fenced(self, warps, lanes, reach, acquires=acquires, releases=releases)

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
        rows, mask = _one(warp, lanes)
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
        rows, mask = _one(warp, lanes)
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

    def uses_mbarrier(self, key: Key, warp: int, lanes: Iterable[int], *, begins: bool) -> None:
        """As in `MemoryOrder`."""
        rows, mask = _one(warp, lanes)
        at = self._cta_at[key[0]] * self._data.stride + key[1]
        lane = np.flatnonzero(mask[0])
        size = 1 << self.shared.shift if self.shared.shift > 3 else SIZE
        touched = self._cut(
            self.shared, np.full(len(lane), at), size, np.arange(len(lane)), np.full(len(lane), warp), lane, 0
        )
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
        if op.kind == TENSOR or op.generic:
            return
        rows, lanes = op.rows[chosen, 0], op.lanes[chosen]
        for places, write in ((op.effect.reads, False), (op.effect.writes, True)):
            if places is None:
                continue
            touched = self._of_places(places[chosen], rows, lanes)
            if op.kind == PRODUCT:
                units = np.array(
                    [self.clocks.unit(row // self.clocks.warps, ("product", row)) for row in rows.tolist()]
                )[touched.access]  # fmt: skip
                slot = np.full(len(units), self.clocks.warps)
                touched.shadow.read(touched.pieces, -2 - units, slot, op.number, op.place, whole=True)
            else:
                self._note(touched, touched.threads.number, self.clocks.stamp[touched.threads.row], op, write)

    def completed(self, op: Pending, chosen: Mask, key: Key, phase: int) -> None:
        """As in `MemoryOrder`."""
        if op.kind == TENSOR or op.generic or not chosen.any():
            return
        rows = op.rows[chosen, 0]
        unit = self.clocks.unit(int(rows[0]) // self.clocks.warps, key)
        for places, write in ((op.effect.reads, False), (op.effect.writes, True)):
            if places is not None:
                touched = self._of_places(places[chosen], rows, op.lanes[chosen])
                self._note(touched, np.full(len(touched.pieces), -2 - unit), phase + 1, op, write)

    def _note(self, touched: Touched, thread: NDArray[Any], stamp: Any, op: Pending, write: bool) -> None:
        if write:
            touched.shadow.write(touched.pieces, thread, stamp, op.place, 0)
            touched.shadow.undefined[touched.pieces] = 0
        else:
            slot = np.where(thread < 0, self.clocks.warps, touched.threads.row % self.clocks.warps)
            touched.shadow.read(touched.pieces, thread, slot, stamp, op.place, whole=True)

    def _of_places(self, places: NDArray[np.int64], rows: Warps, lanes: NDArray[np.intp]) -> Touched:
        """The pieces of bytes [element, byte] in shared memory that asynchronous operations of threads access."""
        pieces = places >> self.shared.shift
        fresh = np.ones(pieces.shape, np.bool_)
        fresh[:, 1:] = pieces[:, 1:] != pieces[:, :-1]
        access = np.nonzero(fresh)[0]
        return Touched(self.shared, pieces[fresh], access, Threads(rows[access], lanes[access]), 0)

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


def _one(warp: int, lanes: Iterable[int]) -> tuple[Warps, Lanes]:
    mask = np.zeros((1, WARP_SIZE), np.bool_)
    mask[0, list(lanes)] = True
    return np.array([warp], np.intp), mask


def _flagged(place: int, means: Semantics) -> int:
    """A place with flags of a read: whether it is a strong one, and its scope."""
    return place | ((STRONG if means.strong and not means.data else 0) | means.scope << 2) << 26
