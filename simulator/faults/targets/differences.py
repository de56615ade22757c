"""What copies of a program that ran in lock step stored differently, and how that is judged: many copies at once, and
only the bytes that differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits
from simulator.applications.class_changes import ClassChanges
from simulator.applications.stored import ROW_BYTES, Stored
from simulator.faults import outcomes
from simulator.faults.outcomes import Observed, Results, Whole, judge
from simulator.program.data import Array
from simulator.program.program import Program
from simulator.simulation.lockstep import Copies, Lockstep
from simulator.state.registers import WARP_SIZE, Sort

Integers = NDArray[np.int64]
Look = Callable[[Results, Bits, Bits, Whole], None]
_TOGETHER = 1 << 21  # bytes of stored rows that are judged together


class Changes(NamedTuple):
    """Whether faults changed anything, and whether something that is read was changed."""

    changed: NDArray[np.bool_]
    read: NDArray[np.bool_]


class Bytes(NamedTuple):
    """Bytes that copies stored differently: the copy, the place among the bytes of `Stored.matrix`, the value."""

    copy: Copies
    place: Integers
    value: NDArray[np.uint8]

    def of(self, first: int, last: int) -> slice:
        """The entries of some copies, where entries are in the order of the copies."""
        return slice(*np.searchsorted(self.copy, [first, last]).tolist())


class Differences:
    """Judges the copies of lock-step runs of one program.

    Args:
        program: the program.
        stored: what it stores without faults.
        look: lets checksums look at results, see `RunningTarget.look_at_product`.
    """

    def __init__(self, program: Program, stored: Stored, look: Look) -> None:
        self.program, self.stored, self.look = program, stored, look
        sizes = {name: -(-array.nbytes // ROW_BYTES) * ROW_BYTES for name, array in sorted(stored.golden.items())}
        starts = np.cumsum([0, *sizes.values()]).tolist()
        self._first = dict(zip(sizes, starts, strict=False))
        golden = stored.golden_matrix.astype(f"<u{stored.width}")
        self._golden = np.ascontiguousarray(golden).view(np.uint8).reshape(-1, ROW_BYTES)

    @cached_property
    def _classes(self) -> ClassChanges | None:
        return ClassChanges.of(self.stored)

    def find(self, runs: Lockstep) -> Bytes:
        """The bytes that copies of a run, which is over, stored differently; in the order of copies and places."""
        parts = [Bytes(np.zeros(0, np.intp), np.zeros(0, np.int64), np.zeros(0, np.uint8))]
        word, copy, value = runs.shared.entries.every()
        alive = runs.live[copy]
        word, copy, value = word[alive], copy[alive], value[alive]
        for store in self.program.stores:
            first = self._first[store.name]
            if store.register is not None:
                parts.append(_registers(runs, store.sort, store.register, store.count, first))
                continue
            assert store.shared is not None, "global and Tensor Memory are not for lock step"
            place = (4 * word[:, None] + np.arange(4)) - store.shared
            inside = (place >= 0) & (place < store.count)
            values = np.ascontiguousarray(value.astype("<u4")).view(np.uint8).reshape(-1, 4)
            copies = np.broadcast_to(copy[:, None], place.shape)
            parts.append(Bytes(copies[inside].astype(np.intp), place[inside] + first, values[inside]))
        copies, places, values = (np.concatenate(column) for column in zip(*parts, strict=True))
        differ = values != self._golden.ravel()[places]
        copies, places, values = copies[differ], places[differ], values[differ]
        order = np.lexsort((places, copies))
        return Bytes(copies[order], places[order], values[order])

    def judge(
        self, results: Results, found: Bytes, changes: Changes, seen: dict[str, NDArray[np.bool_]],
        stopped: NDArray[np.uint8], policy: str,
    ) -> None:  # fmt: skip
        """Fills in the outcomes of copies, of which there are as many as results."""
        row = found.place // ROW_BYTES
        fresh = (np.diff(found.copy, prepend=-1) != 0) | (np.diff(row, prepend=-1) != 0)
        number = np.cumsum(fresh) - 1  # of each entry: of its copy and row
        copy, rows = found.copy[fresh], row[fresh]
        slot = np.arange(len(copy)) - np.searchsorted(copy, copy)
        counts = np.bincount(copy, minlength=len(results))
        for some in _alike(counts):
            new = np.full(len(results), -1, np.int64)
            new[some] = np.arange(len(some))
            mine = new[copy] >= 0
            table = np.zeros((len(some), max(1, int(counts[some].max()))), np.int64)
            table[new[copy[mine]], slot[mine]] = rows[mine]
            right = self._golden[table]
            got = right.copy()
            entry = new[found.copy] >= 0
            got[new[found.copy[entry]], slot[number[entry]], found.place[entry] % ROW_BYTES] = found.value[entry]
            part = results[some]
            of = Changes(changes.changed[some], changes.read[some])
            seen_by = {name: mask[some] for name, mask in seen.items()}
            observed = Observed(self._elements(got), seen_by, stopped[some])
            known = np.arange(table.shape[1]) < counts[some][:, None]
            whole = Whole(np.where(known, table, -1), self.stored.golden_matrix)
            golden = self._elements(right)
            judge(part, of, observed, golden, self.stored.element, policy, whole)
            self.look(part, observed.got, golden, whole)
            corrupt = np.flatnonzero(part["outcome"] == outcomes.SDC)
            part["first_row"][corrupt] = table[corrupt, part["first_row"][corrupt]]
            results[some] = part
        self._classify(results, found)

    def _elements(self, data: NDArray[np.uint8]) -> Bits:
        """Bytes [copy, row, byte] as elements."""
        return data.view(f"<u{self.stored.width}").astype(np.uint32)

    def _classify(self, results: Results, found: Bytes) -> None:
        """Notes how many images of the digits network change their class."""
        if not self.stored.classifier:
            return
        corrupt = np.flatnonzero(results["outcome"] == outcomes.SDC)
        left = corrupt
        if self._classes is not None:
            changed, right, certain = self._classes.count(found.copy, found.place, found.value, len(results))
            results["class_changed"][corrupt], results["accuracy"][corrupt] = changed[corrupt], right[corrupt]
            left = corrupt[~certain[corrupt]]
        for copy in left.tolist():
            entries = found.of(copy, copy + 1)
            arrays = self._arrays(found.place[entries], found.value[entries])
            results["class_changed"][copy], results["accuracy"][copy] = self.stored.classified(arrays)

    def _arrays(self, places: Integers, values: NDArray[np.uint8]) -> dict[str, Array]:
        """The stored arrays of one copy."""
        arrays: dict[str, Array] = {}
        for name, golden in self.stored.golden.items():
            array = np.ascontiguousarray(golden).copy()
            mine = (places >= self._first[name]) & (places < self._first[name] + array.nbytes)
            array.view(np.uint8).reshape(-1)[places[mine] - self._first[name]] = values[mine]
            arrays[name] = array
        return arrays


def _registers(runs: Lockstep, sort: Sort, register: int, count: int, first: int) -> Bytes:
    """The bytes of stored registers that differ in copies."""
    rows, bank = runs.rows, runs.rows.registers.banks[sort]
    number = rows.registers.numbering.first(sort) + register
    which, row = np.nonzero(rows.differs[number : number + count])
    values = np.ascontiguousarray(bank[row, register + which])
    size = values.itemsize
    lanes = np.arange(WARP_SIZE * size)
    place = first + ((rows.warp[row] * count + which) * WARP_SIZE * size)[:, None] + lanes
    copy = np.broadcast_to(rows.copy[row][:, None], place.shape)
    return Bytes(copy.ravel(), place.ravel(), values.view(np.uint8).ravel())


def _alike(counts: NDArray[np.intp]) -> Iterator[Copies]:
    """The numbers of copies with about as many rows each, few enough to be judged together."""
    order = np.argsort(counts, kind="stable")
    first = 0
    while first < len(order):
        most = max(1, 2 * int(counts[order[first]]))
        last = min(
            int(np.searchsorted(counts[order], most, side="right")), first + max(1, _TOGETHER // (most * ROW_BYTES))
        )
        yield order[first:last]
        first = last
