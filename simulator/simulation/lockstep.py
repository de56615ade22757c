"""Many slightly different runs of one program at once: disturbed copies run in lock step with one undisturbed run.

Fault injection uses this to try many faults in the time of one run. The undisturbed run has a row of registers for
every warp. A copy has rows for the warps that a fault can disturb directly, from that time on, and keeps those bytes of
shared memory that differ. A copy is given up, to be run alone, as soon as an address, a guard or an elected lane
differs, or as soon as another warp reads a byte that the copy wrote differently. It is finished when nothing differs
any more. So this module need not know about errors, races or deadlocks. A subclass says what disturbs the copies.
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

EVERY = 24  # dynamic instructions between two searches for copies in which nothing differs any more


def runs_in_lockstep(session: Session, executed: Executed) -> bool:
    """Whether copies of a program can run in lock step: it has one CTA, no asynchronous instruction and no race."""
    forms = [operation.instruction.form for operation, _ in session.program.operations]
    if not all(is_mma(form) or _is_plain(form) for form in forms):
        return False
    if session.program.ctas > 1 or executed.undefined["shared-memory-race"]:
        return False
    return len(grouped(session.program.codes)) == len(session.program.codes)


def _is_plain(form: Form) -> bool:
    """Whether copies may execute an instruction side by side: it uses registers and the CTA's shared memory alone."""
    if form.unit is Unit.ALU:
        return form.name not in ("mapa", "shfl")
    return form.unit is Unit.BARRIER or form.time is Time.CLUSTER_BARRIER or form.time.table == "shared"


class Copies(CtaState):
    """A CTA with further rows of registers, which are the warps of the copies.

    Attributes:
        row_warp: intp [row]: the warp that each row is, or is a copy of.
    """

    row_warp: Warps

    def special(self, name: str, warps: Warps) -> Bits:
        return super().special(name, self.row_warp[warps])

    def synchronise(self, warps: Warps) -> None:
        """Does nothing: this memory keeps no history of accesses in which races could be detected."""


class Overlay(SharedMemory):
    """The shared memory of the undisturbed run, and the bytes that differ from it in each copy.

    Attributes:
        differs: bool [copy, byte]: whether the byte differs in the copy.
        own: uint8 [copy, byte]: the copy's byte, where it differs.
        anyone: bool [byte]: whether the byte may differ in any copy.
        spread: bool [copy]: whether a warp without a row in the copy has read a byte that differs in it.
        member: bool [copy, warp]: whether the copy has a row for the warp.
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
        """As `SharedMemory.read`, for rows of copies as they have it; never a race."""
        golden = warps < self.warps
        self._check(addresses[golden], width)
        places = addresses[..., None] + np.arange(width)
        if golden.any() and not golden.all():  # rows of copies have the addresses of their warps
            position = np.zeros(self.warps, np.intp)
            position[warps[golden]] = np.arange(int(golden.sum()))
            data = self.data[places[golden]][position[self.row_warp[warps]]]
        else:
            data = self.data[places]
        touched = self.anyone[places[golden]] if golden.any() else self.anyone[places]
        if touched.any():
            for row in np.flatnonzero(golden):
                seen = self.differs[:, places[row].ravel()].any(axis=1)
                self.spread |= seen & ~self.member[:, warps[row]]
            rows = np.flatnonzero(~golden)
            copy = self.row_copy[warps[rows]][:, None, None]
            data[rows] = np.where(self.differs[copy, places[rows]], self.own[copy, places[rows]], data[rows])
        return data, 0

    def write(self, addresses: Addresses, values: NDArray[np.uint8], warps: Warps) -> int:
        """As `SharedMemory.write`, for rows of copies where they differ; never a race."""
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
        """A 32-bit word of shared memory as a copy has it, as an integer."""
        span = slice(4 * word, 4 * word + 4)
        data = np.where(self.differs[copy, span], self.own[copy, span], self.data[span])
        return int.from_bytes(data.tobytes(), "little")

    def put(self, copy: int, word: int, value: int) -> None:
        """Writes a 32-bit word of shared memory in one copy."""
        span = slice(4 * word, 4 * word + 4)
        self.own[copy, span] = np.frombuffer(value.to_bytes(4, "little"), np.uint8)
        self.differs[copy, span] = self.own[copy, span] != self.data[span]
        self.anyone[span] |= self.differs[copy, span]


class Lockstep(Observer):
    """Runs disturbed copies beside one undisturbed run, which it observes.

    Args:
        members: for each copy, the warps that may be disturbed directly.

    Attributes:
        alone: bool [copy]: whether it has to be run alone.
        same: bool [copy]: whether nothing differs at the end.
        begun, done: bool [copy]: whether it has begun to take part, and whether it has ceased to.
        index: by warp, the number of its current dynamic instruction.
        row_copy, row_warp: intp [row]: the copy (-1: the undisturbed run) and the warp of each row of registers.
        rows_of: for each copy, its rows.
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
        """Runs the program and all of its copies to the end."""
        self.session.run(self, machines=[self.machine])
        self.machine.listeners = ()  # which would keep the memory of all copies in a circle

    # What a subclass says

    def disturb(self, warps: Sequence[int], index: int) -> None:
        """Called before some warps execute their dynamic instruction `index`, and once more at the end of each warp's
        program (`index` is then the number of its dynamic instructions)."""

    def is_over(self, copy: int) -> bool:
        """Whether nothing will disturb a copy any more."""
        raise NotImplementedError

    def executes(self, operation: Operation, rows: Warps, index: int) -> Executor:
        """The executor of an operation for these rows."""
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
        """Applies the last disturbances, and notes the copies in which nothing differs."""
        ends = {warp: len(sequence) for warp, sequence in self.session.sequences.items()}
        self.index.update(ends)
        for warp, end in ends.items():
            self.disturb([warp], end)
        self.alone |= self.shared.spread
        self._retire(end=True)
        self.same |= ~self.begun

    def arrays(self, copy: int) -> dict[str, Array]:
        """By name, the arrays that the program's `.store` lines ask for, of a copy; -1: of the undisturbed run."""
        rows = np.arange(self.session.program.warps)
        if copy >= 0 and self.begun[copy]:
            rows[self.row_warp[self.rows_of[copy]]] = self.rows_of[copy]
        stored: dict[str, Array] = {}
        for store in self.session.program.stores:
            if store.register is not None:
                registers = slice(store.register, store.register + store.count)
                stored[store.name] = self.machine.registers.banks[store.sort][rows, registers]
                continue
            assert store.shared is not None, "global and Tensor Memory are not for batches"
            span = slice(store.shared, store.shared + store.count)
            data = stored[store.name] = self.shared.data[span]
            if copy >= 0:
                stored[store.name] = np.where(self.shared.differs[copy, span], self.shared.own[copy, span], data)
        return stored

    # Copies come and go

    def begin(self, copy: int) -> None:
        """Starts a copy: its rows take over what the undisturbed warps hold now, and may be disturbed from here on."""
        rows, registers = self.rows_of[copy], self.machine.registers
        for bank in (*registers.banks, registers.written):
            bank[rows] = bank[self.row_warp[rows]]
        self.begun[copy] = True
        self._chosen.clear()

    def _retire(self, end: bool = False) -> None:
        """Ends the copies in which nothing differs and nothing will be disturbed any more."""
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
        """The rows of a group: its warps, then the rows of these warps in copies that are under way."""
        key = id(group)
        if key not in self._chosen:
            live = np.isin(self.row_warp, group.warps) & (self.row_copy >= 0)
            live[self.row_copy >= 0] &= (self.begun & ~self.done)[self.row_copy[self.row_copy >= 0]]
            self._chosen[key] = np.concatenate([group.warps, np.flatnonzero(live)]).astype(np.intp)
        return self._chosen[key]

    def _parted(self, operation: Operation, group: Group, rows: Warps) -> Warps:
        """The rows that go on together; copies whose guard, address or elected lanes differ are left to be run
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
        elif (members := instruction.by_role.get("membermask")) is not None:
            mask = reader(members)(machine, rows)
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
