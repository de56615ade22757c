"""Many slightly different runs of one program at once: disturbed copies run in lock step with one undisturbed run.

Fault injection uses this to try many faults in the time of one run. Only what differs is kept of a copy, and only what
reads it is executed: a warp of a copy has a row of registers while any of them differs from the undisturbed warp's, and
shared memory has an entry for each word that differs (`simulator.simulation.overlay`). So a copy costs nothing before
it is disturbed, after its differences have been overwritten, and while nothing reads them.

A copy may access other addresses than the undisturbed run. One whose access breaks a rule stops; one whose guard or
elected lanes differ where that matters, or whose access may race, is left to be run alone. A subclass says what
disturbs the copies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa import IsaError, UndefinedBehavior
from isa.types import Bits
from simulator.execute.cta_state import CtaState, Executor, Outcome
from simulator.execute.dispatch import executor
from simulator.program.data import Array
from simulator.program.lowering import Operation
from simulator.simulation.footprints import MOST_WARPS, Footprints
from simulator.simulation.group import Group
from simulator.simulation.interpreter import Executed
from simulator.simulation.liveness import Uses
from simulator.simulation.observer import Observer
from simulator.simulation.overlay import Overlay
from simulator.simulation.rows import Prepared, Rows, is_plain, same_part
from simulator.simulation.session import Session
from simulator.state.registers import Warps
from simulator.state.shared import AddressError

Copies = NDArray[np.intp]
_EVERY = 8  # dynamic instructions between two searches for rows that are not needed any more


def runs_in_lockstep(session: Session, executed: Executed) -> bool:
    """Whether copies of a program can run in lock step: it has one CTA, no asynchronous instruction, no carry flag and
    no race, and stores registers and shared memory alone."""
    if session.program.ctas > 1 or executed.undefined["shared-memory-race"]:
        return False
    if any(store.register is None and store.shared is None for store in session.program.stores):
        return False
    if "carry" in vars(executed.machine) or session.program.warps > MOST_WARPS:
        return False
    if not all(is_plain(operation.instruction.form) for operation, _ in session.program.operations):
        return False
    return len(executed.groups) == len(session.program.codes)


class CopiesState(CtaState):
    """A CTA with further rows of registers, which are warps of the copies.

    Attributes:
        row_warp: intp [row]: the warp that each row is, or is a copy of.
    """

    row_warp: Warps

    def special(self, name: str, warps: Warps) -> Bits:
        return super().special(name, self.row_warp[warps])


class Lockstep(Observer):
    """Runs disturbed copies beside one undisturbed run, which it observes.

    Args:
        footprints: what the undisturbed run accesses.
        uses: by warp, when its 32-bit registers are read and written.
        copies: how many there are.

    Attributes:
        rows: the registers of the undisturbed warps, and those of copies that differ.
        shared: shared memory likewise.
        live: bool [copy]: whether it takes part.
        alone: bool [copy]: whether it has to be run alone.
        later: bool [copy]: whether there was no room for it.
        stopped: by copy, the rule for which it stopped.
        rewritten: bool [warp, register]: whether a 32-bit register of a warp has been written since the subclass, which
            clears this, last disturbed it.
        index: int64 [warp]: the number of the current dynamic instruction; -1 before the first.
    """

    def __init__(self, session: Session, footprints: Footprints, uses: dict[int, Uses], copies: int) -> None:
        self.session, self._uses = session, uses
        program, loaded = session.program, session.initial[0]
        self.rows = Rows(program.warps, program.numbering, copies)
        for bank, source in zip(self.rows.registers.banks, loaded.registers.banks, strict=True):
            bank[: program.warps] = source
        self.rows.registers.written[: program.warps] = loaded.registers.written
        self.shared = Overlay(loaded.shared.data, footprints, self.rows.warp, self.rows.copy, copies)
        how: dict[str, Any] = {"arithmetic": session.arithmetic, "slots": session.slots, "timed": False}
        self.machine = CopiesState(self.rows.registers, self.shared, program.warps, session.target, **how)
        self.machine.row_warp = self.rows.warp
        self.live = np.ones(copies, np.bool_)
        self.alone, self.later = (np.zeros(copies, np.bool_) for _ in range(2))
        self.stopped: dict[int, str] = {}
        self.index = np.full(program.warps, -1, np.int64)
        self.rewritten = np.zeros((program.warps, program.numbering.words), np.bool_)
        self._prepared: dict[tuple[int, int], Prepared] = {}

    def run(self) -> None:
        """Runs the program and all of its copies to the end."""
        self.session.run(self, machines=[self.machine])
        self.machine.listeners = ()  # which would keep the memory of all copies in a circle

    def golden(self) -> dict[str, Array]:
        """By name, the arrays that the undisturbed run has stored."""
        rows, stored = np.arange(self.session.program.warps), dict[str, Array]()
        for store in self.session.program.stores:
            if store.register is not None:
                registers = slice(store.register, store.register + store.count)
                stored[store.name] = self.rows.registers.banks[store.sort][rows, registers]
                continue
            assert store.shared is not None, "global and Tensor Memory are not for lock step"
            stored[store.name] = self.shared.data[store.shared : store.shared + store.count]
        return stored

    # What a subclass says

    def disturb(self, warps: Warps, index: int) -> None:
        """Called before some warps execute their dynamic instruction `index`, and once more at the end of each warp's
        program (`index` is then the number of its dynamic instructions)."""

    def wanted(self, prepared: Prepared, group: Group, index: int) -> Copies | None:
        """Rows that have to execute an operation although nothing in them differs; None for none."""
        return None

    def executes(self, prepared: Prepared, rows: Warps, index: int) -> Executor:
        """The executor of an operation for these rows of copies."""
        return executor(prepared.operation.instruction)

    def look(self, prepared: Prepared, group: Group, rows: Warps) -> None:
        """Called before the copies' rows execute an operation of whole registers, and the undisturbed warps, too."""

    # As an observer

    def before(self, machine: CtaState, group: Group, operation: Operation, index: int) -> Executor | None:
        self.index[group.warps] = index
        if index % _EVERY == 0 and self.rows.scarce:
            self.rows.collect(self._read_again(group.warps))
        self.disturb(group.warps, index)
        key = id(group.code), operation.index
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = self._prepared[key] = Prepared.of(operation, self.session.program.numbering)
        if operation.barrier is None:
            return lambda _machine, _warps: self._execute(prepared, group, index)
        rows = self.rows.differing(prepared, group.warps)
        if len(rows):
            self._fill(prepared, rows, group)
            self._leave(rows[~same_part(self.machine, prepared, rows, self.rows.warp[rows])])
        return None

    def finished(self, machines: list[CtaState]) -> None:
        """Applies the last disturbances."""
        for warp, sequence in self.session.sequences.items():
            self.index[warp] = len(sequence)
        if self.rows.scarce:
            self.rows.collect(self._read_again(np.arange(len(self.index))))
        for warp, sequence in self.session.sequences.items():
            self.disturb(np.array([warp], np.intp), len(sequence))

    # Operations

    def _execute(self, prepared: Prepared, group: Group, index: int) -> Outcome:
        """Executes an operation for the undisturbed warps, then for the rows of copies that differ in what it reads."""
        instruction = prepared.operation.instruction
        more = self.wanted(prepared, group, index)
        rows = self.rows.differing(prepared, group.warps)
        if more is not None:
            rows = np.union1d(rows, more)
        self.rewritten[group.warps[:, None], prepared.words] = True
        if prepared.whole:
            return self._whole(prepared, group, rows, index)
        if len(rows):
            self._fill(prepared, rows, group)
            rows = self._parted(prepared, rows)
        memory = prepared.shared and self.shared.entries.total > 0
        held = self.rows.read(prepared, group.warps) if memory else None
        outcome = executor(instruction)(self.machine, group.warps)
        if memory and held is not None and self.shared.touched:
            reached = self._reached(rows)
            if len(reached):
                self.rows.fill(prepared, reached, group.warps, held)
                rows = np.concatenate([rows, reached])
        rows = rows[self.rows.copy[rows] >= 0]
        if len(rows):
            rows = rows[np.lexsort((self.rows.warp[rows], self.rows.copy[rows]))]
            self._run(prepared, rows, index)
        if prepared.shared:
            self.shared.settle()
            self._settled()
        self.rows.written(prepared, group.warps, rows)
        return outcome

    def _whole(self, prepared: Prepared, group: Group, rows: Warps, index: int) -> Outcome:
        """The same for an operation of whole registers: the rows come first, and read what does not differ from the
        undisturbed warps."""
        self.rows.registers.through = True
        try:
            if len(rows):
                rows = self._parted(prepared, rows)
            self.look(prepared, group, rows)
            if len(rows):
                self._run(prepared, rows, index)
        finally:
            self.rows.registers.through = False
        outcome = executor(prepared.operation.instruction)(self.machine, group.warps)
        self.rows.written(prepared, group.warps, rows)
        return outcome

    def _run(self, prepared: Prepared, rows: Warps, index: int) -> None:
        """Executes an operation for rows of copies; what cannot be executed together is left to be run alone."""
        try:
            self.executes(prepared, rows, index)(self.machine, rows)
        except (IsaError, UndefinedBehavior, AddressError):
            self._leave(rows)

    def _fill(self, prepared: Prepared, rows: Warps, group: Group) -> None:
        """Gives rows the registers of their warps that an operation reads and that do not differ."""
        self.rows.fill(prepared, rows, group.warps, self.rows.read(prepared, group.warps))

    def _parted(self, prepared: Prepared, rows: Warps) -> Warps:
        """The rows that go on together; copies of which only a part of a warp would execute what whole warps execute,
        or whose elected lanes or ids of scale factors differ, are left to be run alone."""
        right = same_part(self.machine, prepared, rows, self.rows.warp[rows])
        if right.all():
            return rows
        self._leave(rows[~right])
        return rows[self.rows.copy[rows] >= 0]

    def _reached(self, rows: Warps) -> Warps:
        """Rows of the copies, and warps, that have just read a word of shared memory in which the copy differs, without
        these rows."""
        count, parts = self.shared.entries.count, [np.zeros(0, np.int64)]
        for words, warps in self.shared.touched:
            hot = np.nonzero(count[words])
            parts.append(words[hot] * len(self.index) + warps[hot[0]])
        pairs = np.unique(np.concatenate(parts))
        if not len(pairs):
            return np.zeros(0, np.intp)
        word, warp = np.divmod(pairs, len(self.index))
        at, copy, _ = self.shared.entries.of(word[np.diff(word, prepend=-1) != 0])
        at, copy = at[self.live[copy]], copy[self.live[copy]]
        start, stop = np.searchsorted(word, at, side="left"), np.searchsorted(word, at, side="right")
        entry = np.repeat(stop - np.cumsum(stop - start), stop - start) + np.arange(int((stop - start).sum()))
        keys = np.unique(np.repeat(copy, stop - start) * len(self.index) + warp[entry])
        found = self.row(*np.divmod(keys, len(self.index)))
        known = np.zeros(len(self.rows.copy), np.bool_)
        known[rows] = True
        found = found[found >= 0]
        return found[~known[found] & (self.rows.copy[found] >= 0)]

    def _settled(self) -> None:
        """Ends the copies of which shared memory says that they stop, or that it does not know how they go on. Of one
        that breaks two rules at once it is not known here which is met first, and of one that stops before its race is
        over whether it is met at all."""
        stops, alone = self.shared.stops, self.shared.alone
        if not stops and not alone:
            return
        stopped = [copy for copy, _ in stops]
        alone |= {copy for copy in stopped if stopped.count(copy) > 1 or self.shared.may_race(copy)}
        self.stopped |= {copy: rule for copy, rule in stops if copy >= 0 and copy not in alone}
        self.alone[list(alone)] = True
        self._end([*alone, *(copy for copy in stopped if copy >= 0)])
        self.shared.stops, self.shared.alone = set(), set()

    # Copies come and go

    def _read_again(self, warps: Warps) -> NDArray[np.bool_]:
        """Whether each register of each warp may be read before it is written whole: bool [warp, number]. These warps
        are about to execute their current instruction, the others have."""
        again = np.ones((len(self.index), self.rows.differs.shape[0]), np.bool_)
        words = np.arange(self.session.program.numbering.words)
        for warp, uses in self._uses.items():
            again[warp, words] = uses.read_first(words, int(self.index[warp]) + (warp not in warps))
        return again

    def row(self, copies: NDArray[np.integer], warps: NDArray[np.integer]) -> Warps:
        """The rows of warps in copies, each pair once, which get one if they have none. Copies for which there is no
        room are done later, and have none (-1)."""
        rows = self.rows.of(copies, warps)
        if len(rows) and rows.min() < 0:
            missing = np.unique(copies[rows < 0])
            self.later[missing] = True
            self._end(missing.tolist())
            rows[np.isin(copies, missing)] = -1
        return rows

    def _leave(self, rows: Warps) -> None:
        """Leaves the copies of these rows to be run alone."""
        copies = np.unique(self.rows.copy[rows])
        self.alone[copies[copies >= 0]] = True
        self._end(copies[copies >= 0].tolist())

    def _end(self, copies: Iterable[int]) -> None:
        """Lets copies take no part any more."""
        some = np.unique(np.array(list(copies), np.intp))
        self.live[some] = False
        self.rows.drop(some)
