"""What nothing has written: registers and bytes that are read all the same, and what their values reach.

A mark is the number of an `Origin`, an instruction that read what nothing had written. Marks go from registers to
registers and memory with the values: through shared memory, ldmatrix, shuffles, and, element by element, through mma.
An origin counts once a marked value reaches global memory, an address, or a decision. Products of wgmma and tcgen05
take no marks from shared memory and Tensor Memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.errors import Error
from isa.forms.mma import is_mma
from isa.forms.record import Time
from isa.ptx.instruction import register_names
from simulator.execute.dispatch import executor
from simulator.execute.launch_state import LaunchState
from simulator.program.kernel import Item, Operation
from simulator.state.registers import WARP_SIZE, Lanes, Sort, Warps, register_place

What = str | tuple[str, int, int]
Marks = NDArray[np.int32]  # 0: defined; else the number of an origin
_SPACES = ("shared", "global")
UNWRITTEN = -1  # of bytes that nothing has written
_MOVES = ("shfl", "selp", "movmatrix")  # instructions that pass values on: they are executed on the marks
_ANSWER = "clusterlaunchcontrol.query_cancel"


@dataclass
class Origin:
    """An instruction that reads what nothing has written.

    Attributes:
        place: of the instruction.
        row, lane: of the first thread, among the warps that are followed so far.
        what: what it reads: a register's name, or a memory, an address there, and bytes.
        count: registers or pieces.
        reached: places that the value reaches, with what it does there: "output", "address", "decision" or "count".
    """

    place: int
    row: int
    lane: int
    what: What
    count: int = 0
    reached: dict[int, str] = field(default_factory=dict)


@dataclass
class Origins:
    """The origins of a launch; a mark is 1 + the place in `found`."""

    found: list[Origin] = field(default_factory=list)
    _numbers: dict[tuple[int, str], int] = field(default_factory=dict)

    def at(self, place: int, row: int, lane: int, what: What, count: int) -> int:
        """The mark of what an instruction reads."""
        key = place, what if isinstance(what, str) else what[0]
        if key not in self._numbers:
            self.found.append(Origin(place, row, lane, what))
            self._numbers[key] = len(self.found)
        self.found[self._numbers[key] - 1].count += count
        return self._numbers[key]

    def last(self, place: int) -> int:
        """The mark of bytes of memory that an instruction has read."""
        mine = (number for (at, what), number in self._numbers.items() if at == place and what in _SPACES)
        return max(mine, default=0)

    def reach(self, marks: Marks, place: int, how: str) -> None:
        """Notes that marked values reach an instruction."""
        for mark in np.unique(marks).tolist():
            if mark > 0:
                self.found[mark - 1].reached.setdefault(place, how)


@dataclass(frozen=True)
class _Names:
    """The registers of an instruction by what they are for."""

    addresses: tuple[str, ...]
    values: tuple[tuple[str, tuple[str, ...]], ...]  # role, registers
    writes: tuple[str, ...]
    counts: tuple[str, ...]  # that an mbarrier counts with, or waits for

    @cached_property
    def every(self) -> tuple[str, ...]:
        """All that it reads."""
        return (*self.addresses, *(name for _, names in self.values for name in names))


class Definedness:
    """The marks of the registers of a batch.

    Attributes:
        loaded: int32 [row, lane, piece]: marks of what the present instruction loads; None: none.
        storing: int32 [row, lane, element]: marks of what it stores; None: none.
    """

    def __init__(self, state: LaunchState, origins: Origins, first_row: int) -> None:
        self.state, self.origins, self.first_row = state, origins, first_row
        self.loaded: Marks | None = None
        self.storing: Marks | None = None
        self._rows = state.batch.rows
        self._exists = state.batch.exists
        self._written: dict[str, Lanes] = {}
        self._full: set[str] = set()
        self._marks: dict[str, Marks] = {}
        self._names: dict[int, _Names] = {}
        self._result: Marks | None = None

    # Instructions

    def before(self, item: Operation, rows: Warps, lanes: Lanes) -> None:
        """Called before threads execute an instruction."""
        names = self._names.get(item.index) or self._named(item)
        self._result = self.storing = None
        if not self._marks and self._full.issuperset(names.every):
            return
        place, form = item.index, item.instruction.form
        for name in names.addresses:
            marks = self._of(name, place, rows, lanes)
            if marks is not None:
                self.origins.reach(marks, place, "address")
        for name in names.counts:
            marks = self._of(name, place, rows, lanes)
            if marks is not None:
                self.origins.reach(marks, place, "count")
        by_role = {}
        for role, registers in names.values:
            found = [self._of(name, place, rows, lanes) for name in registers]
            if any(each is not None for each in found):
                by_role[role] = [np.zeros(lanes.shape, np.int32) if each is None else each for each in found]
        if not by_role:
            return
        access = form.access
        if access is not None and form.opcode.split(".")[0] in ("st", "atom", "red", "stmatrix"):
            parts = next(iter(by_role.values()))
            self.storing = np.zeros((self._rows, WARP_SIZE, len(parts)), np.int32)
            self.storing[rows] = np.stack(parts, axis=-1)
        elif is_mma(form):
            self._result = self._product(item, by_role, rows, lanes)
        else:
            together = np.maximum.reduce([each for parts in by_role.values() for each in parts])
            self._result = np.broadcast_to(together[..., None], (*lanes.shape, max(len(names.writes), 1)))
            if form.opcode.startswith(_MOVES):
                moved = self._moved(item, by_role, rows, lanes)
                self._result = self._result if moved is None else moved

    def after(self, item: Operation, rows: Warps, lanes: Lanes) -> None:
        """Called after threads executed an instruction: its results have the marks of its operands."""
        names = self._names.get(item.index) or self._named(item)
        if item.instruction.form.opcode.startswith(_ANSWER):  # behind a guard; who was refused does not look at it
            lanes = np.ones_like(lanes)
        for name in names.writes:
            if name not in self._full:
                self._write(name, rows, lanes)
        marks = self._loads(item, rows, len(names.writes)) if self.loaded is not None else self._result
        self.loaded = self._result = self.storing = None
        if marks is None and not self._marks:
            return
        for index, name in enumerate(names.writes):
            if marks is None and name not in self._marks:
                continue
            old = self._marks.get(name)
            new = np.zeros((self._rows, WARP_SIZE), np.int32) if old is None else old.copy()
            given = 0 if marks is None else marks[..., min(index, marks.shape[-1] - 1)]
            new[rows] = np.where(lanes, given, new[rows])
            if new.any():
                self._marks[name] = new
            else:
                self._marks.pop(name, None)

    def decides(self, item: Item, rows: Warps, lanes: Lanes) -> None:
        """Called before threads branch, or leave, by a predicate."""
        if item.guard is not None:
            name = item.guard.predicate.name
            if self._marks or name not in self._full:
                marks = self._of(name, item.index, rows, lanes)
                if marks is not None:
                    self.origins.reach(marks, item.index, "decision")

    # Registers

    def _named(self, item: Operation) -> _Names:
        instruction, addresses, values = item.instruction, list[str](), list[tuple[str, tuple[str, ...]]]()
        if instruction.guard is not None:
            addresses.append(instruction.guard.predicate.name)
        for role, operand in zip(instruction.form.roles, instruction.operands, strict=False):
            names = tuple(name for name in register_names(operand) if register_place(name) is not None)
            is_address = "address" in role.shape.value
            if is_address:
                addresses += names
            elif not role.output and names:
                values.append((role.name, names))
        counts = tuple(name for _, names in values for name in names) if instruction.form.time is Time.MBARRIER else ()
        found = self._names[item.index] = _Names(tuple(addresses), tuple(values), item.writes, counts)
        return found

    def _of(self, name: str, place: int, rows: Warps, lanes: Lanes) -> Marks | None:
        """int32 [one of `rows`, lane]: the marks of a register in these lanes; None if there are none."""
        marks = self._marks.get(name)
        found = None if marks is None else np.where(lanes, marks[rows], 0)
        if name not in self._full:
            written = self._written.get(name)
            missing = lanes.copy() if written is None else lanes & ~written[rows]
            if missing.any():
                row = int(missing.any(axis=1).argmax())
                lane = int(missing[row].argmax())
                mark = self.origins.at(place, int(rows[row]) + self.first_row, lane, name, int(missing.sum()))
                found = np.where(missing, mark, 0 if found is None else found).astype(np.int32)
        return found if found is not None and found.any() else None

    def _write(self, name: str, rows: Warps, lanes: Lanes) -> None:
        if len(rows) == self._rows and (lanes | ~self._exists).all():
            self._full.add(name)
            self._written.pop(name, None)
            return
        written = self._written.get(name)
        if written is None:
            written = self._written[name] = ~self._exists
        written[rows] |= lanes
        if written.all():
            self._full.add(name)
            del self._written[name]

    # What instructions do to marks

    def _loads(self, item: Operation, rows: Warps, registers: int) -> Marks:
        """int32 [row, lane, register]: the marks of what was loaded."""
        assert self.loaded is not None
        form, pieces = item.instruction.form, self.loaded[rows]
        if form.fragment is not None and form.opcode.startswith("ldmatrix"):
            count = form.fragment.shape[0]
            bytes_of = np.repeat(pieces[:, :count], 16 // pieces.shape[-1], axis=-1)
            marked = np.where(bytes_of.reshape(len(rows), count, 8, 2).any(axis=-1), np.uint32(1), np.uint32(0))
            found = form.fragment.scatter(marked) != 0
            mark = int(pieces.max())
            return np.where(np.swapaxes(found, 1, 2), mark, 0).astype(np.int32)
        if pieces.shape[-1] >= registers > 0 and pieces.shape[-1] % registers == 0:
            return np.asarray(pieces.reshape(*pieces.shape[:2], registers, -1).max(axis=-1))
        return np.asarray(np.broadcast_to(pieces.max(axis=-1)[..., None], (*pieces.shape[:2], max(registers, 1))))

    def _product(self, item: Operation, by_role: dict[str, list[Marks]], rows: Warps, lanes: Lanes) -> Marks:
        """The marks of D: of an element those of the row of A, the column of B, and C that make it."""
        form: Any = item.instruction.form
        if form.blocks > 1 or form.d_type.bits == 64:  # of stacked products, and of f64, any element
            mark = max(int(np.max(parts)) for parts in by_role.values())
            return np.full((*lanes.shape, form.d.registers), mark, np.int32)
        d_rows = np.zeros((len(rows), form.m, form.n), np.int32)
        for role, parts in by_role.items():
            fragment = {"a": form.a, "b": form.b, "c": form.c}.get(role)
            if fragment is None:  # metadata, scale factors: they may choose any element
                d_rows = np.maximum(d_rows, np.max(parts, axis=(0, 2))[:, None, None])
                continue
            words = np.stack(parts, axis=1)
            marked = fragment.gather(np.where(words != 0, np.uint32(0xFFFFFFFF), np.uint32(0)))
            mark = words.max(axis=(1, 2))[:, None, None]
            if role == "a":
                here = (marked != 0).any(axis=2)[:, :, None]
            elif role == "b":
                here = (marked != 0).any(axis=1)[:, None, :]
            else:
                here = marked != 0
            d_rows = np.where(here, np.maximum(d_rows, mark), d_rows)
        registers = form.d.scatter((d_rows != 0).astype(np.uint32) * np.uint32(0xFF)) != 0
        return np.where(np.swapaxes(registers, 1, 2), int(d_rows.max()), 0).astype(np.int32)

    def _moved(self, item: Operation, by_role: dict[str, list[Marks]], rows: Warps, lanes: Lanes) -> Marks | None:
        """The marks of what an instruction passes on: it is executed once with marks in place of values; None where
        that cannot be done."""
        state, columns = self.state, self.state.registers.columns  # type: ignore[attr-defined]
        names = self._names[item.index]
        kept = {}
        try:
            for role, registers in names.values:
                for index, name in enumerate(registers):
                    place = register_place(name)
                    assert place is not None
                    if place.sort is Sort.PREDICATE:
                        continue
                    kept[place] = columns[place.sort][place.number]
                    marks = np.zeros((self._rows, WARP_SIZE), place.sort.dtype)
                    if role in by_role:
                        marks[rows] = by_role[role][index]
                    columns[place.sort][place.number] = marks
            targets = [place for name in names.writes if (place := register_place(name)) is not None]
            for place in targets:
                kept.setdefault(place, columns[place.sort][place.number])
            before, state.active = state.active, None if lanes.all() else lanes
            try:
                executor(item.instruction)(state, rows)
            finally:
                state.active = before
            found = [columns[place.sort][place.number][rows] for place in targets if place.sort is not Sort.PREDICATE]
            return np.stack([each.astype(np.int32) for each in found], axis=-1) if found else None
        except Error:
            return None
        finally:
            for place, column in kept.items():
                columns[place.sort][place.number] = column
