"""Many runs of a program at once that differ a little from one: copies in lock step with the run that nothing disturbs.

That run takes every warp. A copy takes the warps that something can have disturbed directly, from that time on, and of
shared memory the bytes that differ. It is given up, to be run alone, as soon as an address, a guard or an elected lane
differs, or another warp reads what it wrote differently; and it is finished when nothing differs any more. So nothing
here need know of errors, races or deadlocks. What disturbs the copies is a subclass's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.forms.mma import is_mma
from isa.forms.record import Form, Time, Unit
from isa.types import Bits
from simulator.execute.cta_state import CtaState, Executor
from simulator.execute.dispatch import executor, guarded_lanes
from simulator.execute.operands import addresses, reader
from simulator.program.data import Array
from simulator.program.lowering import Operation
from simulator.simulation.group import Group, grouped
from simulator.simulation.interpreter import Executed
from simulator.simulation.observer import Observer
from simulator.simulation.session import Session
from simulator.state import RegisterFile, SharedMemory
from simulator.state.registers import Warps
from simulator.state.shared import Addresses

EVERY = 24  # dynamic instructions between two looks for copies that are as they should be again


def runs_in_lockstep(session: Session, executed: Executed) -> bool:
    """Whether a program is one of warps in lock step: one CTA, no asynchronous instruction, no race in a run."""
    forms = [operation.instruction.form for operation, _ in session.program.operations]
    if not all(is_mma(form) or _is_plain(form) for form in forms):
        return False
    if session.program.ctas > 1 or executed.undefined["shared-memory-race"]:
        return False
    return len(grouped(session.program.codes)) == len(session.program.codes)


def _is_plain(form: Form) -> bool:
    """Whether rows of copies may execute it side by side: it stays in registers or in the CTA's shared memory."""
    if form.unit is Unit.ALU:
        return form.name not in ("mapa", "shfl")
    return form.unit is Unit.BARRIER or form.time is Time.CLUSTER_BARRIER or form.time.table == "shared"


class Copies(CtaState):
    """A CTA whose further rows of registers are warps of copies."""

    row_warp: Warps

    def special(self, name: str, warps: Warps) -> Bits:
        return super().special(name, self.row_warp[warps])

    def synchronise(self, warps: Warps) -> None:
        """Accesses have no history here."""


class Overlay(SharedMemory):
    """Shared memory of the run without faults, and what differs in each copy.

    Attributes:
        own, differs: uint8 and bool [copy, byte]: where a copy differs, what it has there.
        anyone: bool [byte]: whether a copy may differ.
        spread: bool [copy]: whether a warp that is not in a copy has read a byte that differs in it.
    """

    def __init__(self, data: NDArray[np.uint8], warps: int, row_warp: Warps, row_copy: Warps, copies: int) -> None:
        size = -(-len(data) // 4) * 4
        self.data = data.copy()
        self.warps, self.row_warp, self.row_copy = warps, row_warp, row_copy
        self.own = np.empty((copies, size), np.uint8)
        self.differs = np.zeros((copies, size), np.bool_)
        self.anyone = np.zeros(size, np.bool_)
        self.spread = np.zeros(copies, np.bool_)
        self.member = np.zeros((copies, warps), np.bool_)
        self.member[row_copy[warps:], row_warp[warps:]] = True

    def read(self, addresses: Addresses, width: int, warps: Warps) -> tuple[NDArray[np.uint8], int]:
        golden = warps < self.warps
        self._check(addresses[golden], width)
        places = addresses[..., None] + np.arange(width)
        if golden.any() and not golden.all():  # rows of copies have the addresses of their warps
            position = np.zeros(self.warps, np.intp)
            position[warps[golden]] = np.arange(int(golden.sum()))
            found = self.data[places[golden]][position[self.row_warp[warps]]]
        else:
            found = self.data[places]
        touched = self.anyone[places[golden]] if golden.any() else self.anyone[places]
        if touched.any():
            for row in np.flatnonzero(golden):
                seen = self.differs[:, places[row].ravel()].any(axis=1)
                self.spread |= seen & ~self.member[:, warps[row]]
            rows = np.flatnonzero(~golden)
            copy = self.row_copy[warps[rows]][:, None, None]
            found[rows] = np.where(self.differs[copy, places[rows]], self.own[copy, places[rows]], found[rows])
        return found, 0

    def write(self, addresses: Addresses, values: NDArray[np.uint8], warps: Warps) -> int:
        golden = warps < self.warps
        self._check(addresses[golden], values.shape[-1])
        places = addresses[..., None] + np.arange(values.shape[-1])
        right = places[golden]
        self.data[right] = values[golden]
        if self.anyone[right].any():
            self.differs[:, right[self.anyone[right]]] = False
        rows = np.flatnonzero(~golden)
        wrong = values[rows] != self.data[places[rows]]
        some = np.flatnonzero(wrong.any(axis=(1, 2)))
        if len(some):
            rows, wrong = rows[some], wrong[some]
            copy = np.broadcast_to(self.row_copy[warps[rows]][:, None, None], wrong.shape)
            self.own[copy, places[rows]], self.differs[copy, places[rows]] = values[rows], wrong
            self.anyone[places[rows][wrong]] = True
        return 0

    def words(self, copy: int, word: int) -> int:
        """A 32-bit word of a copy."""
        at = slice(4 * word, 4 * word + 4)
        data = np.where(self.differs[copy, at], self.own[copy, at], self.data[at])
        return int.from_bytes(data.tobytes(), "little")

    def put(self, copy: int, word: int, value: int) -> None:
        """Writes a 32-bit word of a copy."""
        at = slice(4 * word, 4 * word + 4)
        self.own[copy, at] = np.frombuffer(value.to_bytes(4, "little"), np.uint8)
        self.differs[copy, at] = self.own[copy, at] != self.data[at]
        self.anyone[at] |= self.differs[copy, at]


class Lockstep(Observer):
    """Copies of a run: an observer of the run that nothing disturbs.

    Args:
        members: of each copy, its warps.

    Attributes:
        alone: bool [copy]: has to be run alone.
        same: bool [copy]: nothing differs at the end.
        begun, done: bool [copy]: whether it takes part, and whether it does no longer.
        index: by warp, its dynamic instruction.
        row_copy, row_warp: of each row of registers its copy (-1: the run that nothing disturbs) and its warp.
        rows_of: the rows of each copy.
    """

    def __init__(self, session: Session, members: Sequence[Sequence[int]]) -> None:
        self.session = session
        program, loaded, count = session.program, session.initial[0], len(members)
        owners = [(copy, warp) for copy, warps in enumerate(members) for warp in warps]
        self.row_copy = np.array([-1] * program.warps + [copy for copy, _ in owners], np.intp)
        self.row_warp = np.array([*range(program.warps), *(warp for _, warp in owners)], np.intp)
        self.rows_of = [np.flatnonzero(self.row_copy == copy) for copy in range(count)]
        registers = RegisterFile(len(self.row_warp), *program.numbering)
        for bank, source in zip(registers.banks, loaded.registers.banks, strict=True):
            bank[: program.warps] = source
        registers.written[: program.warps] = loaded.registers.written
        self.shared = Overlay(loaded.shared.data, program.warps, self.row_warp, self.row_copy, count)
        how: dict[str, Any] = {"arithmetic": session.arithmetic, "slots": session.slots, "timed": False}
        self.machine = Copies(registers, self.shared, program.warps, session.target, **how)
        self.machine.row_warp = self.row_warp
        self.alone, self.begun, self.done, self.same = (np.zeros(count, np.bool_) for _ in range(4))
        self.index: dict[int, int] = {}
        self._chosen: dict[int, Warps] = {}

    def run(self) -> None:
        """All of them to the end."""
        self.session.run(self, machines=[self.machine])
        self.machine.listeners = ()  # which would keep the memory of all copies in a circle

    # What a subclass says

    def disturb(self, warps: Sequence[int], index: int) -> None:
        """Called before some warps execute their dynamic instruction `index`, and for the end of all of them (its
        number is then behind the last)."""

    def is_over(self, copy: int) -> bool:
        """Whether nothing will disturb a copy any more."""
        raise NotImplementedError

    def executes(self, operation: Operation, rows: Warps, index: int) -> Executor:
        """What executes an operation for these rows."""
        run = executor(operation.instruction)
        return lambda _machine, _warps: run(self.machine, rows)

    # As an observer

    def before(self, machine: CtaState, group: Group, operation: Operation, index: int) -> Executor | None:
        warps = group.warps.tolist()
        self.index.update(dict.fromkeys(warps, index))
        self.disturb(warps, index)
        if index % EVERY == EVERY - 1:
            self._retire()
        rows = self._rows(group)
        if len(rows) > len(group.warps):
            rows = self._parted(operation, group, rows)
        return self.executes(operation, rows, index)

    def finished(self, machines: list[CtaState]) -> None:
        """The last disturbances, and who is as it should be."""
        ends = {warp: len(sequence) for warp, sequence in self.session.sequences.items()}
        self.index.update(ends)
        for warp, end in ends.items():
            self.disturb([warp], end)
        self.alone |= self.shared.spread
        self._retire(end=True)
        self.same |= ~self.begun

    def arrays(self, copy: int) -> dict[str, Array]:
        """What `.store` names, of a copy; -1: of the run without faults."""
        rows = np.arange(self.session.program.warps)
        if copy >= 0 and self.begun[copy]:
            rows[self.row_warp[self.rows_of[copy]]] = self.rows_of[copy]
        found: dict[str, Array] = {}
        for store in self.session.program.stores:
            if store.register is not None:
                registers = slice(store.register, store.register + store.count)
                found[store.name] = self.machine.registers.banks[store.sort][rows, registers]
                continue
            assert store.shared is not None, "global and Tensor Memory are not for batches"
            at = slice(store.shared, store.shared + store.count)
            data = found[store.name] = self.shared.data[at]
            if copy >= 0:
                found[store.name] = np.where(self.shared.differs[copy, at], self.shared.own[copy, at], data)
        return found

    # Copies come and go

    def begin(self, copy: int) -> None:
        """The copy's warps are as they should be up to now; what follows may disturb them."""
        rows, registers = self.rows_of[copy], self.machine.registers
        for bank in (*registers.banks, registers.written):
            bank[rows] = bank[self.row_warp[rows]]
        self.begun[copy] = True
        self._chosen.clear()

    def _retire(self, end: bool = False) -> None:
        """Ends copies in which nothing differs and nothing will."""
        self._leave(np.flatnonzero(self.shared.spread & ~self.done))
        for copy in np.flatnonzero(self.begun & ~self.done).tolist():
            if not end and not self.is_over(copy):
                continue
            rows = self.rows_of[copy]
            banks, warps = self.machine.registers.banks, self.row_warp[rows]
            equal = all((bank[rows] == bank[warps]).all() for bank in banks if bank.shape[1])
            if equal and not self.shared.differs[copy].any():
                self.same[copy] = self.done[copy] = True
                self._chosen.clear()

    def _leave(self, copies: NDArray[np.intp]) -> None:
        if len(copies):
            self.done[copies] = self.alone[copies] = True
            self.shared.differs[copies] = False
            self._chosen.clear()

    def _rows(self, group: Group) -> Warps:
        """Rows of a group: its warps, then those of copies that are under way."""
        key = id(group)
        if key not in self._chosen:
            live = np.isin(self.row_warp, group.warps) & (self.row_copy >= 0)
            live[self.row_copy >= 0] &= (self.begun & ~self.done)[self.row_copy[self.row_copy >= 0]]
            self._chosen[key] = np.concatenate([group.warps, np.flatnonzero(live)]).astype(np.intp)
        return self._chosen[key]

    def _parted(self, operation: Operation, group: Group, rows: Warps) -> Warps:
        """The rows that go on together: copies whose guard, address or elected lanes differ are left to be run
        alone."""
        machine, instruction = self.machine, operation.instruction
        own = np.searchsorted(group.warps, self.row_warp[rows])  # where the warp of each row is among the first rows
        differ = np.zeros(len(rows), np.bool_)
        if instruction.guard is not None:
            lanes = guarded_lanes(instruction.guard, machine, rows)
            differ |= (lanes != lanes[own]).any(axis=1)
        form = instruction.form
        if form.time.table == "shared":
            where = addresses(instruction["address"])(machine, rows)
            differ |= (where != where[own]).any(axis=1)
        elif form.name == "elect":
            mask = reader(instruction["a"])(machine, rows)
            differ |= (mask != mask[own]).any(axis=(1, 2))
        elif is_mma(form) and form.row.scale:
            ids = np.concatenate(
                [reader(instruction[f"{name}_ids"])(machine, rows) for name in ("scale_a", "scale_b")], axis=1
            )
            differ |= (ids != ids[own]).any(axis=(1, 2))
        if not differ.any():
            return rows
        self._leave(np.unique(self.row_copy[rows[differ]]))
        return self._rows(group)
