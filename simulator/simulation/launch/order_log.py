"""The log of a launch that the order checker reads: what tcgen05 instructions touch and what orders them, cluster by
cluster, as traces have it.

Of ordinary stores and copies only the bytes are kept that some tcgen05 instruction reads. What an mbarrier or a barrier
did is not counted again: the log says which phase it was in.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.ptx.instruction import Instruction
from isa.tensor_memory.address import COLUMNS, TMEM_LANES
from simulator.execute.events import Event, Listener, Region
from simulator.execute.launch_state import LaunchState
from simulator.program.kernel import Kernel, Operation
from simulator.state.columns import LaunchShared
from simulator.state.registers import Warps
from simulator.state.tensor_memory import Allocation

Places = NDArray[np.int64]
_EVERY_LANE = 0xFFFFFFFF


class Meeting(NamedTuple):
    """A warp at a barrier of its CTA or cluster: which use of the barrier, and whether it leaves or arrives."""

    phase: Hashable
    leaves: bool


@dataclass
class ClusterLog:
    """What one cluster did.

    Attributes:
        events: in order; CTAs are numbered by their rank, lines are those of the PTX.
        phases: by number of an event, how many phases each mbarrier that it names, (CTA, offset), has completed.
        meetings: by number of an event, the barrier that it is about.
    """

    events: list[Event] = field(default_factory=list)
    phases: dict[int, dict[tuple[int, int], int]] = field(default_factory=dict)
    meetings: dict[int, Meeting] = field(default_factory=dict)


class OrderLog(Listener):
    """Listens to a batch.

    Args:
        state: of the batch, before its first instruction. Its `completion` must tell of stores.
        kernel: that runs; the lines of events are those of its items.
    """

    wants_accesses = True

    def __init__(self, state: LaunchState, kernel: Kernel) -> None:
        self._state, self._items = state, kernel.items
        self._size = state.cluster_size
        self._place = {number: place for place, number in enumerate(state.batch.ctas.tolist())}
        self._logs = [ClusterLog() for _ in range(len(self._place) // self._size)]
        self._stores: list[dict[tuple[int, int], list[Places]]] = [{} for _ in self._logs]  # by warp and place
        self._allocating: dict[int, int] = {}  # by CTA, the event of its last tcgen05.alloc
        self._freed: dict[int, list[Allocation]] = {}
        self._met: dict[int, Operation] = {}  # by warp, the barrier at which it arrived last
        state.listen(self)
        assert state.completion is not None
        state.completion.log = self

    def logs(self) -> list[ClusterLog]:
        """What each cluster has done so far."""
        for cluster in range(len(self._logs)):
            self._flush(cluster)
        return [_needed(log) for log in self._logs]

    # What is told

    def accessed(self, event: Event) -> None:
        """As `Listener.accessed`."""
        cluster, rank = divmod(self._place[event.cta], self._size)
        self._flush(cluster)
        if event.kind.startswith("tcgen05.alloc"):
            self._allocating[event.cta] = len(self._logs[cluster].events)
        elif event.kind.startswith("tcgen05.dealloc"):
            freed = self._freed.pop(event.cta, [])
            event = event._replace(writes=tuple(_columns(each)._replace(cta=event.cta) for each in freed))
        log = self._logs[cluster]
        phases = self._phases(event)
        if phases:
            self._settle(log, event.instruction, phases)
            log.phases[len(log.events)] = phases
        reads, writes = (tuple(map(self._ranked, regions)) for regions in (event.reads, event.writes))
        line = self._items[event.line].line
        log.events.append(event._replace(cta=rank, line=line, reads=reads, writes=writes))

    def at_barrier(self, line: int, warp: int, phase: Hashable, *, leaves: bool) -> None:
        """As `Listener.at_barrier`."""
        place, own = divmod(warp, self._state.warps)
        cluster, rank = divmod(place, self._size)
        self._flush(cluster)
        log, item = self._logs[cluster], self._items[line]
        if not leaves:
            assert isinstance(item, Operation)
            self._met[warp] = item
        item = self._met[warp]
        log.meetings[len(log.events)] = Meeting(phase, leaves)
        log.events.append(Event("barrier", item.instruction, rank, ((own, _EVERY_LANE),), item.line))

    def columns_allocated(self, cta: int, line: int, allocation: Allocation) -> None:
        """As `Listener.columns_allocated`."""
        cluster, rank = divmod(self._place[cta], self._size)
        events, index = self._logs[cluster].events, self._allocating[cta]
        events[index] = events[index]._replace(writes=(_columns(allocation)._replace(cta=rank),))

    def columns_freed(self, cta: int, line: int, allocation: Allocation) -> None:
        """As `Listener.columns_freed`."""
        self._freed.setdefault(cta, []).append(allocation)

    def stored(self, places: Places, warps: Warps, place: int) -> None:
        """Called when warps store to shared memory, with the places in that of the batch [warp, ...]."""
        for row, own in zip(warps.tolist(), places, strict=True):
            cluster = row // self._state.warps // self._size
            self._stores[cluster].setdefault((row, place), []).append(own.ravel())

    def copied(self, places: Places, rows: Warps, place: int) -> None:
        """Called when a copy that warps [element] have asked for begins, with the places [element, byte] that it
        writes."""
        for row, own in zip(rows.tolist(), places, strict=True):
            cluster = row // self._state.warps // self._size
            self._flush(cluster)
            self._log_stores(cluster, row, place, own)

    # How it is kept

    def _flush(self, cluster: int) -> None:
        stores = self._stores[cluster]
        if stores:
            self._stores[cluster] = {}
            for (row, place), parts in stores.items():
                self._log_stores(cluster, row, place, np.unique(np.concatenate(parts)))

    def _log_stores(self, cluster: int, row: int, place: int, places: Places) -> None:
        shared, item = self._state.shared, self._items[place]
        assert isinstance(shared, LaunchShared)
        ctas, offsets = np.divmod(places, shared.stride)
        own, warp = divmod(row, self._state.warps)
        regions = tuple(
            Region("shared", int(cta) % self._size, offsets[ctas == cta], "bytes") for cta in np.unique(ctas)
        )
        assert isinstance(item, Operation)
        instruction = item.instruction
        event = Event(
            instruction.form.opcode, instruction, own % self._size, ((warp, _EVERY_LANE),), item.line, (), regions
        )
        self._logs[cluster].events.append(event)

    def _phases(self, event: Event) -> dict[tuple[int, int], int]:
        found = {}
        for region in (*event.reads, *event.writes):
            if region.space == "mbarrier":
                live = self._state.holders[self._place[region.cta]].mbarriers.live
                for offset in region.cells.ravel().tolist():
                    if offset in live:
                        found[self._place[region.cta] % self._size, offset] = live[offset].phase
        return found

    @staticmethod
    def _settle(log: ClusterLog, instruction: Instruction, phases: dict[tuple[int, int], int]) -> None:
        """Of warps that execute an instruction together the last one tells of a phase: all of them had arrived then."""
        index = len(log.events) - 1
        while index >= 0 and log.events[index].instruction is instruction:
            for place in phases:
                log.phases.get(index, {}).pop(place, None)
            index -= 1

    def _ranked(self, region: Region) -> Region:
        return region._replace(cta=self._place[region.cta] % self._size)


def _columns(allocation: Allocation) -> Region:
    """The cells of an allocation."""
    columns = np.arange(allocation.base, allocation.base + allocation.columns)
    return Region("tmem", 0, (np.arange(TMEM_LANES)[:, None] * COLUMNS + columns).ravel(), "cells")


def _needed(log: ClusterLog) -> ClusterLog:
    """The log with those bytes of stores and copies alone that a tcgen05 instruction reads."""
    read: dict[int, NDArray[np.bool_]] = {}
    for event in log.events:
        for region in event.reads:
            if region.space == "shared" and region.cells.size:
                size = int(region.cells.max()) + 1
                mask = read.get(region.cta, np.zeros(0, np.bool_))
                if len(mask) < size:
                    mask = np.pad(mask, (0, size - len(mask)))
                mask[region.cells] = True
                read[region.cta] = mask
    return ClusterLog([_kept(event, read) for event in log.events], log.phases, log.meetings)


def _kept(event: Event, read: dict[int, NDArray[np.bool_]]) -> Event:
    if all(region.space != "shared" for region in event.writes):
        return event
    kept: Sequence[Region] = [
        region._replace(cells=_inside(region.cells, read.get(region.cta))) for region in event.writes
    ]
    return event._replace(writes=tuple(region for region in kept if region.cells.size))


def _inside(cells: Places, mask: NDArray[np.bool_] | None) -> Places:
    if mask is None:
        return cells[:0]
    cells = cells[cells < len(mask)]
    return cells[mask[cells]]
