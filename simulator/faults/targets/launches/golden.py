"""The launch without faults, watched: what every CTA reads and writes, when each warp executes what, and the moments
from which copies with faults can start."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.errors import Error
from isa.forms.synchronisation import acts_alone
from simulator.faults.targets.launches.memory import Access, AddressMap, Footprint, SeenMemory
from simulator.faults.targets.launches.noted import Noted, written_by
from simulator.faults.targets.launches.ordered import Moment, OrderedRun, moment_bytes
from simulator.faults.targets.launches.register_uses import RegisterUses
from simulator.faults.targets.launches.seen_shared import SeenShared, SharedUses
from simulator.program.kernel import Item, Kernel, Operation, SystemCall
from simulator.simulation.launch.batches import Setup, batches
from simulator.simulation.launch.run import Code
from simulator.state.registers import Lanes

_CLOCKS = ("%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")
MOMENT_BYTES = 1 << 27  # the most that the moments of a launch may take
MOST_MOMENTS = 12
MOST_READERS = 1 << 26  # CTAs times words of global memory, as bytes of the table of readers
MOST_EVENTS = 1 << 22  # dynamic instructions whose times are kept
STEPS, TURNS = 1 << 15, 1 << 11  # of a launch in which no thread has a turn out of order


def follows(kernel: Kernel, setup: Setup) -> bool:
    """Whether copies of CTAs can stand for a launch of a kernel: nothing but loads, stores and copies of threads
    accesses memory, nothing waits for what others write or asks for the time, and CTAs are on their own."""
    if int(np.prod(setup.geometry.cluster)) > 1 or setup.workspace:
        return False
    return all(_is_plain(item) for item in kernel.items)


def _is_plain(item: Item) -> bool:
    if isinstance(item, SystemCall):
        return False
    if not isinstance(item, Operation):
        return True
    return acts_alone(item.instruction.form) and not any(clock in item.text for clock in _CLOCKS)


@dataclass(frozen=True)
class Portion:
    """A batch of CTAs without faults: which (int64 [CTA]), and moments of its run, the first at its beginning."""

    ctas: NDArray[np.int64]
    moments: list[Moment]


class _KeptRun(OrderedRun):
    """A run that keeps moments, evenly in time as far as can be known before its end."""

    def __init__(self, code: Code, setup: Setup, memory: SeenMemory, ctas: NDArray[np.int64], most: int) -> None:
        memory.ctas = ctas
        state = replace(setup, memory=memory).state(ctas)
        self.noted = Noted(state, written_by(setup.kernel))
        memory.event = lambda: len(self.noted.places)
        self.shared = SeenShared(setup.shared_bytes, len(ctas), state.warps, memory.event)
        state.shared = self.shared
        super().__init__(code, state, self.noted)
        self.memory, self.most, self.every = memory, most, 32
        self.moments = [self.moment(0, self.noted.counts, memory.data)]
        self._next = self.every
        self.paused = lambda: self.steps >= self._next

    def after_turn(self) -> None:
        """Keeps the moment, if it is time; twice as rarely once there are too many."""
        if self.steps < self._next:
            return
        if self.resumable:
            self.moments.append(self.moment(len(self.noted.places), self.noted.counts, self.memory.data))
        if len(self.moments) > self.most:
            self.every *= 2
            del self.moments[1::2]
        self._next = self.steps + self.every


@dataclass
class Golden:
    """A launch without faults.

    Attributes:
        kernel: what runs.
        places: where addresses lie in the array of all buffers.
        footprint: which CTA reads and writes what.
        portions: the batches in which it ran.
        portion_of, index_of: by CTA, which portion it is in, and where.
        final: uint8 [place]: the buffers at the end.
        items: int64 [warp]: items that each warp executes.
        noted: by portion, what its warps execute.
        shared: by portion, when words of shared memory are read and written.
        accesses: by portion, those of global memory (`memory.SeenMemory.accesses`); None if there were too many.
    """

    kernel: Kernel
    places: AddressMap
    footprint: Footprint
    portions: list[Portion]
    portion_of: NDArray[np.intp]
    index_of: NDArray[np.intp]
    final: NDArray[np.uint8]
    items: NDArray[np.int64]
    noted: list[Noted]
    shared: list[SharedUses]
    accesses: list[list[Access]] | None

    @property
    def warps(self) -> int:
        """How many warps a CTA has."""
        return len(self.items) // len(self.portion_of)

    @cached_property
    def sequences(self) -> list[tuple[NDArray[np.intp], NDArray[np.uint32]]]:
        """For each warp the places of what it executes, and the mask of the threads that do."""
        found: list[tuple[NDArray[np.intp], NDArray[np.uint32]]] = []
        for noted in self.noted:
            rows = np.concatenate([np.zeros(0, np.intp), *noted.rows])
            each = [len(part) for part in noted.rows]
            places = np.repeat(np.array(noted.places, np.intp), each)
            masks = [
                np.full(count, 0xFFFFFFFF, np.uint32) if lanes is None else _packed(lanes)
                for count, lanes in zip(each, noted.lanes, strict=True)
            ]
            lanes = np.concatenate([np.zeros(0, np.uint32), *masks])
            order = np.argsort(rows, kind="stable")
            ends = np.searchsorted(rows[order], np.arange(1, len(noted.counts)))
            found += zip(np.split(places[order], ends), np.split(lanes[order], ends), strict=True)
        return found

    @cached_property
    def uses(self) -> RegisterUses:
        """When registers are read and written."""
        return RegisterUses(self.kernel, self.sequences)

    def cta_rows(self, cta: int) -> slice:
        """The warps of a CTA."""
        return slice(cta * self.warps, (cta + 1) * self.warps)


def _packed(lanes: Lanes) -> NDArray[np.uint32]:
    return np.packbits(lanes, axis=1, bitorder="little").view("<u4")[:, 0].astype(np.uint32)


def watched(kernel: Kernel, code: Code, setup: Setup, counts: NDArray[np.int64], outputs: Any) -> Golden | None:
    """Watches a launch without faults; None if copies of its CTAs cannot stand for it.

    Args:
        setup: the launch, whose buffers stay as they are.
        counts: int64 [warp]: dynamic instructions that it executes.
        outputs: by name the bytes that its output buffers hold at the end, uint8 [byte].
    """
    places, ctas, warps = AddressMap(setup.memory), setup.geometry.ctas, setup.geometry.warps
    if not (places.fits and follows(kernel, setup)):
        return None
    if ctas * places.size // 4 > MOST_READERS or int(counts.sum()) > MOST_EVENTS:
        return None
    seen = SeenMemory(places, warps, places.flattened(setup.memory), ctas)
    parts = batches(setup)
    rows = len(parts[0]) * warps
    size = moment_bytes(rows, kernel.numbering.words_each, len(parts[0]) * setup.shared_bytes, places.size)
    most = max(min(MOST_MOMENTS, MOMENT_BYTES // size // len(parts)), 1)
    runs: list[tuple[_KeptRun, NDArray[np.int64]]] = []
    accesses: list[list[Access] | None] = []
    try:
        for part in parts:
            seen.accesses = None if None in accesses else []
            run = _KeptRun(code, setup, seen, part, most)
            run.run()
            runs.append((run, part))
            accesses.append(seen.accesses)
    except Error:
        return None
    found = np.concatenate([run.noted.counts for run, _ in runs])
    same = all((_bytes_of(places, seen, name)[: len(right)] == right).all() for name, right in outputs.items())
    footprint = Footprint(seen, ctas)
    if seen.disputed or not footprint.independent or not same or not np.array_equal(found, counts):
        return None
    order = np.concatenate(parts)
    portion_of, index_of = np.zeros(ctas, np.intp), np.zeros(ctas, np.intp)
    for number, part in enumerate(parts):
        portion_of[part], index_of[part] = number, np.arange(len(part))
    assert (order == np.arange(ctas)).all(), "CTAs run in their order"
    return Golden(
        kernel, places, footprint, [Portion(part, run.moments) for run, part in runs], portion_of, index_of, seen.data,
        np.concatenate([run.items for run, _ in runs]), [run.noted for run, _ in runs],
        [SharedUses(run.shared, len(run.noted.places)) for run, _ in runs],
        None if None in accesses else [part for part in accesses if part is not None],
    )  # fmt: skip


def _bytes_of(places: AddressMap, seen: SeenMemory, name: str) -> NDArray[np.uint8]:
    first = int(places.first[places.names.index(name)])
    return seen.data[first:]
