"""The memory accesses of a recorded run: which execution touches which cells, as which operand.

A run touches the same regions again and again. So the memory is cut once into atoms, sets of cells that lie in exactly
the same regions; from then on a region is a handful of atoms, whatever its size, and state is kept for each atom.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.execute.events import Event

Cells = NDArray[np.int64]
GENERIC, COPY, ALLOC, DEALLOC, INITIAL = "generic", "copy", "alloc", "dealloc", "initial"
_SPACES = ("shared", "tmem")
KINDS = {
    "tcgen05.mma": "mma",
    "tcgen05.mma.ws": "mma",
    "tcgen05.cp": "cp",
    "tcgen05.shift": "shift",
    "tcgen05.ld": "ld",
    "tcgen05.st": "st",
}
COMMITTED = ("mma", "cp", "shift")


@dataclass(frozen=True, eq=False, slots=True)
class Execution:
    """One execution of an instruction by one warp, with its place in the order of its warp and of its unit.

    Attributes:
        kind: "mma", "cp", "shift", "ld", "st" (asynchronous), "generic" (an ordinary access to shared memory), "copy"
            (of launches: `simulator.execute.completion` says who may read what it writes), "alloc", "dealloc", or
            "initial".
        actor, clock: the clock component of its warp, and its number among the accesses of the warp, from 1.
        unit, sequence: the clock component of its asynchronous unit, and its number there from 1; -1 and 0 if it is
            synchronous.
        accumulators: the regions of D, one for each CTA.
        after: executions that it follows as the second of a pipelined pair; filled while the log is read.
    """

    event: Event
    kind: str
    warp: int
    actor: int
    clock: int
    unit: int = -1
    sequence: int = 0
    accumulators: tuple[int, ...] = ()
    after: set[Execution] = field(default_factory=set)

    @property
    def line(self) -> int:
        """The line of its instruction in the trace."""
        return self.event.line


class Access(NamedTuple):
    """One region that an execution reads or writes, as one of its operands."""

    operation: Execution
    role: str
    write: bool
    space: str
    cta: int

    @property
    def line(self) -> int:
        """The line of its instruction in the trace."""
        return self.operation.event.line


@dataclass(frozen=True, eq=False, slots=True)
class State:
    """What last happened to some cells: the last write, and the reads since then."""

    writer: Access | None = None
    readers: tuple[Access, ...] = ()

    def after(self, access: Access) -> State:
        """The state once `access` has happened. Of accesses in the same role the latest of a unit, or of a warp, stands
        for those before it."""
        if access.write:
            return _EMPTY if access.operation.kind == DEALLOC else State(access)
        return State(self.writer, (*(reader for reader in self.readers if _stream(reader) != _stream(access)), access))


_EMPTY = State()


def _stream(access: Access) -> tuple[object, ...]:
    operation = access.operation
    return operation.unit, operation.actor if operation.unit < 0 else -1, operation.kind, access.role


def kind_of(event: Event) -> str | None:
    """The kind of an asynchronous instruction: mma, cp, shift, ld or st; None for any other."""
    return KINDS.get(event.instruction.form.name)


def synchronous_kind_of(event: Event) -> str:
    """The kind of any other instruction that accesses memory."""
    if event.kind.startswith("tcgen05.dealloc"):
        return DEALLOC
    return COPY if event.kind.startswith("cp.async") else GENERIC


def group_of(event: Event) -> int:
    """The cta_group of an instruction, 1 or 2; 0 where it names none."""
    return event.instruction.form.cta_group


def unit_of(event: Event, kind: str, warp: int, mask: int) -> tuple[object, ...]:
    """The unit whose instructions complete in order: the mma, cp and shift of one thread and cta_group, or the loads,
    or the stores, of a warp."""
    return ("tc", event.cta, warp, mask, group_of(event)) if kind in COMMITTED else (kind, event.cta, warp)


class Raw(NamedTuple):
    """A region of an event, for the warp at `place` among those of the event (-1: for all of them)."""

    place: int
    role: str
    write: bool
    space: str
    cta: int
    cells: Cells


@dataclass(frozen=True, eq=False, slots=True)
class Touch:
    """A region as atoms of its memory."""

    role: str
    write: bool
    space: str
    cta: int
    region: int
    atoms: frozenset[int]


def touches(event: Event) -> list[Raw]:
    """The regions of an event with their roles, reads before writes."""
    touched = []
    for write, regions in ((False, event.reads), (True, event.writes)):
        for region in regions:
            if region.space not in _SPACES:
                continue
            where = region.role, write, region.space, region.cta
            if len(event.threads) > 1 and region.cells.ndim > 1 and region.cells.shape[0] == len(event.threads):
                touched += [Raw(place, *where, cells) for place, cells in enumerate(region.cells)]
            else:
                touched.append(Raw(-1, *where, region.cells))
    return touched


@dataclass
class _Memory:
    """One memory of one CTA, cut into atoms.

    Attributes:
        labels: int64 [cell]: the atom that the cell is in.
        sizes: for each atom, how many cells it has.
        states: for each atom, what last happened to it.
    """

    labels: Cells
    sizes: list[int]
    states: list[State] = field(default_factory=list)

    def cut(self, cells: Cells) -> None:
        """Cuts atoms in two so that these cells, all different, become whole atoms."""
        inside = self.labels[cells]
        counts = np.bincount(inside.astype(np.intp, copy=False), minlength=len(self.sizes))
        renamed = np.arange(len(self.sizes))
        for atom in np.flatnonzero(counts).tolist():
            if counts[atom] < self.sizes[atom]:
                renamed[atom] = len(self.sizes)
                self.sizes[atom] -= int(counts[atom])
                self.sizes.append(int(counts[atom]))
        self.labels[cells] = renamed[inside]


class Distinct:
    """Keeps one array for all that are equal, so that a region that is touched again takes no memory again."""

    def __init__(self) -> None:
        self._alike: dict[tuple[object, ...], list[Cells]] = {}
        self._kept: set[int] = set()

    def __call__(self, cells: Cells) -> Cells:
        """The first array with these contents and this shape; it lives as long as this object."""
        if id(cells) in self._kept or not cells.size:
            return cells
        alike = self._alike.setdefault((cells.shape, int(cells.flat[0]), int(cells.flat[-1])), [])
        for other in alike:
            if np.array_equal(other, cells):
                return other
        alike.append(cells)
        self._kept.add(id(cells))
        return cells


class Partition:
    """All regions of a log as atoms, and the state of each atom."""

    def __init__(self, raw: Sequence[list[Raw]], written: Mapping[int, Cells]) -> None:
        distinct, numbers = Distinct(), dict[tuple[str, int, int], int]()
        self._cells: list[Cells] = []
        places: list[tuple[str, int]] = []

        def intern(space: str, cta: int, cells: Cells) -> int:
            key = space, cta, id(distinct(cells))
            if key not in numbers:
                numbers[key] = len(self._cells)
                self._cells.append(np.unique(cells))
                places.append((space, cta))
            return numbers[key]

        numbered = [[(item, intern(item.space, item.cta, item.cells)) for item in items] for items in raw]
        initial = [(cta, intern("tmem", cta, cells)) for cta, cells in written.items() if len(cells)]
        self._memories = _cut(self._cells, places)
        atoms = [
            frozenset(np.unique(self._memories[place].labels[cells]).tolist())
            for place, cells in zip(places, self._cells, strict=True)
        ]
        self._touches = [
            [
                (item.place, Touch(item.role, item.write, item.space, item.cta, number, atoms[number]))
                for item, number in items
            ]
            for items in numbered
        ]
        for cta, number in initial:
            event = Event("initial", None, cta, (), 0)  # type: ignore[arg-type] # no instruction has written it
            access = Access(Execution(event, INITIAL, 0, 0, 0), "initial data", True, "tmem", cta)
            state = State(access)
            for atom in atoms[number]:
                self._memories["tmem", cta].states[atom] = state

    def of(self, index: int, place: int) -> list[Touch]:
        """The regions that the warp at this place of an event touches."""
        return [touch for owner, touch in self._touches[index] if owner in (-1, place)]

    def states(self, touch: Touch) -> Iterator[tuple[State, list[int]]]:
        """The states of a region's cells, each with its atoms; they may change while this runs."""
        states = self._memories[touch.space, touch.cta].states
        distinct: dict[State, list[int]] = {}
        for atom in touch.atoms:
            distinct.setdefault(states[atom], []).append(atom)
        return iter(distinct.items())

    def become(self, touch: Touch, atoms: Iterable[int], state: State) -> None:
        """Sets the state of these atoms of a region's memory."""
        states = self._memories[touch.space, touch.cta].states
        for atom in atoms:
            states[atom] = state

    def cells(self, touch: Touch, atoms: Sequence[int]) -> Cells:
        """The cells of these atoms within a region."""
        mine = self._cells[touch.region]
        return mine[np.isin(self._memories[touch.space, touch.cta].labels[mine], np.array(atoms))]


def _cut(regions: Sequence[Cells], places: Sequence[tuple[str, int]]) -> dict[tuple[str, int], _Memory]:
    memories: dict[tuple[str, int], _Memory] = {}
    for place in dict.fromkeys(places):
        mine = [cells for cells, other in zip(regions, places, strict=True) if other == place and len(cells)]
        size = max((int(cells[-1]) + 1 for cells in mine), default=1)
        memory = memories[place] = _Memory(np.zeros(size, np.int64), [size])
        for cells in mine:
            memory.cut(cells)
        memory.states = [_EMPTY] * len(memory.sizes)
    return memories


def describe(space: str, cta: int, cells: Cells, ctas: int = 1) -> str:
    """Cells in words: "lanes 0 to 31, columns 0 to 63 of Tensor Memory" or "bytes 0 to 1023 of shared memory"."""
    whose = f" of CTA {cta}" if ctas > 1 else ""
    if space == "tmem":
        return f"{_span('lane', cells // 512)}, {_span('column', cells % 512)} of Tensor Memory{whose}"
    return f"{_span('byte', cells)} of shared memory{whose}"


def _span(what: str, numbers: Cells) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return f"{what} {low}" if low == high else f"{what}s {low} to {high}"
