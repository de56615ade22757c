"""The registers of many copies of a program's warps, of which only those that differ are kept, and what of an operation
decides who has to execute it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.forms.mma import is_mma
from isa.forms.record import Form, Time, Unit
from isa.types import Bits
from simulator.execute.cta_state import CtaState
from simulator.execute.dispatch import guarded_lanes
from simulator.execute.operands import reader
from simulator.program.lowering import Operation
from simulator.state import RegisterFile
from simulator.state.registers import Numbering, Sort, Warps

Mask = NDArray[np.bool_]
_BYTES = 80 << 20  # of registers of copies
_MOST_ROWS = 4096
_LEAST_ROWS = 128


def is_plain(form: Form) -> bool:
    """Whether copies may execute an instruction side by side: it uses registers and the CTA's shared memory alone."""
    if is_mma(form):
        return True
    if form.time.table == "shared":
        return "shared::cluster" not in form.qualifiers
    if form.time is Time.CLUSTER_BARRIER:
        return True
    return form.unit in (Unit.ALU, Unit.BARRIER) and form.name not in ("mapa", "shfl")


@dataclass(frozen=True)
class Prepared:
    """An operation, and which registers decide who has to execute it.

    Attributes:
        reads: the numbers of the registers that are read. Where there is a guard those that are written are among them,
            since threads that it leaves out keep what they hold.
        writes: the numbers of those that are written.
        by_sort: by sort of registers, the places in `reads` and the indices in their bank.
        shared: whether it accesses shared memory.
        whole: whether it reads and writes whole registers and nothing else.
    """

    operation: Operation
    reads: NDArray[np.intp]
    writes: NDArray[np.intp]
    by_sort: tuple[tuple[Sort, NDArray[np.intp], NDArray[np.intp]], ...]
    written: tuple[tuple[Sort, NDArray[np.intp], NDArray[np.intp]], ...]
    shared: bool
    whole: bool

    @property
    def words(self) -> NDArray[np.intp]:
        """The 32-bit registers that are written."""
        return next((index for sort, _, index in self.written if sort is Sort.WORD), self.writes[:0])

    @classmethod
    def of(cls, operation: Operation, numbering: Numbering) -> Prepared:
        """An operation of a program with these registers."""
        instruction, writes = operation.instruction, np.array(operation.writes, np.intp)
        shared = instruction.form.time.table == "shared"
        kept = operation.writes if instruction.guard is not None else ()
        reads = np.array(list(dict.fromkeys((*operation.reads, *kept))), np.intp)
        return cls(
            operation, reads, writes, _by_sort(reads, numbering), _by_sort(writes, numbering),
            shared, not shared and instruction.guard is None,
        )  # fmt: skip


def _by_sort(
    numbers: NDArray[np.intp], numbering: Numbering
) -> tuple[tuple[Sort, NDArray[np.intp], NDArray[np.intp]], ...]:
    parts = []
    for sort in Sort:
        first = numbering.first(sort)
        places = np.flatnonzero((numbers >= first) & (numbers < first + numbering[sort]))
        if len(places):
            parts.append((sort, places, numbers[places] - first))
    return tuple(parts)


class CopiesRegisters(RegisterFile):
    """Registers of undisturbed warps and of rows of copies.

    Attributes:
        warp: intp [row]: the warp of each row.
        differs: bool [number, row]: whether a register of a row differs from its warp's.
        through: whether rows read the registers that do not differ from their warps; else they hold them themselves.
    """

    warp: Warps
    differs: Mask
    through = False

    def read(self, warps: Warps, registers: Sequence[int], sort: Sort = Sort.WORD) -> NDArray[Any]:
        """As `RegisterFile.read`."""
        if not self.through:
            return super().read(warps, registers, sort)
        bank, index = self.banks[sort], np.asarray(registers, np.intp)
        values = bank[self.warp[warps][:, None], index]
        register, row = np.nonzero(self.differs[index + self._first[sort]][:, warps])
        values[row, register] = bank[warps[row], index[register]]
        return values


class Rows:
    """Registers of the undisturbed warps, and behind them rows for warps of copies.

    Attributes:
        registers: of all rows; of a copy's row only the registers that differ hold what they should.
        copy, warp: intp [row]: the copy (-1: the undisturbed run, or nobody's row) and the warp of each row.
        differs: bool [number, row]: whether a register of a row differs from its warp's.
    """

    def __init__(self, warps: int, numbering: Numbering, copies: int) -> None:
        each = 128 * numbering.words + 256 * numbering.wide + 32 * numbering.predicates + 64 * numbering.halves
        room = max(_LEAST_ROWS, min(_MOST_ROWS, _BYTES // max(each, 1), copies * warps))
        self.registers = CopiesRegisters(warps + room, *numbering)
        self.copy = np.full(warps + room, -1, np.intp)
        self.warp = np.zeros(warps + room, np.intp)
        self.warp[:warps] = np.arange(warps)
        self.differs = np.zeros((numbering.total, warps + room), np.bool_)
        self.registers.warp, self.registers.differs = self.warp, self.differs
        self._row = np.full((warps, copies), -1, np.int32)
        self._free = np.arange(warps, warps + room)
        self._warps, self._few = warps, room // 8

    def differing(self, prepared: Prepared, warps: Warps) -> Warps:
        """The rows of these warps in which a register that is read differs."""
        rows = np.flatnonzero(np.logical_or.reduce(self.differs[prepared.reads], axis=0))
        return rows if len(warps) == self._warps else rows[np.isin(self.warp[rows], warps)]

    def read(self, prepared: Prepared, warps: Warps) -> list[NDArray[Any]]:
        """What undisturbed warps hold in the registers that an operation reads, by sort."""
        return [self.registers.banks[sort][warps[:, None], index] for sort, _, index in prepared.by_sort]

    def fill(self, prepared: Prepared, rows: Warps, warps: Warps, held: list[NDArray[Any]]) -> None:
        """Gives rows what their warps hold in those registers that do not differ."""
        place = np.searchsorted(warps, self.warp[rows])
        for (sort, places, index), values in zip(prepared.by_sort, held, strict=True):
            register, row = np.nonzero(~self.differs[prepared.reads[places]][:, rows])
            self.registers.banks[sort][rows[row], index[register]] = values[place[row], register]

    def written(self, prepared: Prepared, warps: Warps, rows: Warps) -> None:
        """Notes what differs after the undisturbed warps and these rows have executed an operation."""
        if not len(prepared.writes):
            return
        differs = np.zeros((len(prepared.writes), self.differs.shape[1]), np.bool_)
        if len(warps) < self._warps:
            others = ~np.isin(self.warp, warps)
            differs[:, others] = self.differs[prepared.writes][:, others]
        own = rows[self.copy[rows] >= 0]
        for sort, places, index in prepared.written:
            bank = self.registers.banks[sort]
            if len(own):
                right = bank[self.warp[own][:, None], index]
                differs[places[:, None], own] = (bank[own[:, None], index] != right).any(axis=2).T
        self.differs[prepared.writes] = differs

    def set(self, rows: Warps, word: NDArray[np.integer], lane: NDArray[np.integer], value: Bits) -> None:
        """Writes one lane of a 32-bit register of each row, of which no two are of one row and register."""
        values, clean = self.registers.values, ~self.differs[word, rows]
        values[rows[clean], word[clean]] = values[self.warp[rows[clean]], word[clean]]
        values[rows, word, lane] = value
        self.differs[word, rows] = (values[rows, word] != values[self.warp[rows], word]).any(axis=1)

    def get(self, rows: Warps, warps: Warps, word: NDArray[np.integer], lane: NDArray[np.integer]) -> Bits:
        """One lane of a 32-bit register of each row, or where that is -1 of the undisturbed warp."""
        own = (rows >= 0) & self.differs[word, rows]
        values: Bits = self.registers.values[np.where(own, rows, warps), word, lane]
        return values

    # Rows come and go

    def known(self, copies: NDArray[np.integer], warps: Any) -> Warps:
        """The rows of warps in copies, -1 where there is none."""
        rows: Warps = self._row[warps, copies].astype(np.intp)
        return rows

    def of(self, copies: NDArray[np.integer], warps: NDArray[np.integer]) -> Warps:
        """The rows of warps in copies, each pair once: new ones for those that have none, and -1 where there is no
        room."""
        rows = self.known(copies, warps)
        missing = np.flatnonzero(rows < 0)[: len(self._free)]
        rows[missing], self._free = self._free[: len(missing)], self._free[len(missing) :]
        new = rows[missing]
        self._row[warps[missing], copies[missing]] = new
        self.copy[new], self.warp[new] = copies[missing], warps[missing]
        return rows

    @property
    def scarce(self) -> bool:
        """Whether few rows are free."""
        return len(self._free) < self._few

    def collect(self, read: Mask) -> None:
        """Frees the rows in which nothing differs that is `read` before it is written, bool [warp, number]."""
        used = np.flatnonzero(self.copy >= 0)
        self.differs[:, used] &= read[self.warp[used]].T
        self._release(used[~self.differs[:, used].any(axis=0)])

    def drop(self, copies: NDArray[np.intp]) -> None:
        """Frees the rows of copies."""
        rows = self._row[:, copies].ravel()
        self._release(rows[rows >= 0].astype(np.intp))

    def _release(self, rows: Warps) -> None:
        self._row[self.warp[rows], self.copy[rows]] = -1
        self.copy[rows] = -1
        self.differs[:, rows] = False
        self._free = np.concatenate([self._free, rows])


def same_part(machine: CtaState, prepared: Prepared, rows: Warps, warps: Warps) -> Mask:
    """Whether each row may execute an operation together with others: it takes part as its undisturbed warp does where
    a whole warp has to, and has the same elected lanes, and ids of scale factors."""
    instruction = prepared.operation.instruction
    form = instruction.form
    right = np.ones(len(rows), np.bool_)
    if instruction.guard is not None:
        lanes = guarded_lanes(instruction.guard, machine, rows)
        if form.collective or prepared.operation.barrier is not None:
            right &= (lanes == guarded_lanes(instruction.guard, machine, warps)).all(axis=1)
    if (members := instruction.by_role.get("membermask")) is not None:
        right &= _alike(reader(members), machine, rows, warps)
    elif is_mma(form) and form.row.scale:
        for name in ("scale_a_ids", "scale_b_ids"):
            right &= _alike(reader(instruction[name]), machine, rows, warps)
    return right


def _alike(read: Any, machine: CtaState, rows: Warps, warps: Warps) -> Mask:
    return np.asarray((read(machine, rows) == read(machine, warps)).all(axis=(1, 2)))
