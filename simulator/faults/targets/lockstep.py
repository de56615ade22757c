"""Runs many faulty copies of a program at once, in lock step beside the run without faults.

It builds on `simulator.simulation.lockstep`. A copy holds only the warp of its register fault, or all warps for a fault
in shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from isa.forms.mma import MmaForm, is_mma
from simulator.execute.cta_state import CtaState, Executor, Outcome
from simulator.execute.dispatch import executor
from simulator.execute.operands import reader
from simulator.faults.targets.injection import FaultInjection
from simulator.faults.targets.single_run import metadata_checks
from simulator.faults.unit.instruction import with_selector
from simulator.program.lowering import Operation
from simulator.simulation.lockstep import Lockstep
from simulator.simulation.session import Session
from simulator.state.registers import Warps

ROWS = 256  # warps of copies that run together


class LockstepRuns(Lockstep):
    """Runs of one program, one copy for each injection.

    Attributes:
        illegal, unordered: bool [copy]: whether metadata that a matrix instruction read, and that differs from the run
            without faults, held a code that is undefined, or one whose indices do not ascend.
    """

    def __init__(self, session: Session, injections: Sequence[FaultInjection]) -> None:
        super().__init__(session, [members(session, injection) for injection in injections])
        self.injections = injections
        self.illegal, self.unordered = (np.zeros(len(injections), np.bool_) for _ in range(2))
        self._starting: dict[tuple[int, int], list[int]] = {}
        for copy, injection in enumerate(injections):
            self._starting.setdefault((injection.local, injection.first), []).append(copy)
        self._held: dict[int, list[int]] = {}  # by warp, copies whose register fault is applied again
        self._held_shared: list[int] = []

    def disturb(self, warps: Sequence[int], index: int) -> None:
        """Applies the faults that strike, or last, before dynamic instruction `index` of these warps."""
        for warp in warps:
            for copy in self._starting.get((warp, index), ()):
                self._strike(copy)
            if held := self._held.get(warp):
                self._hold(held, index)
        shared, self._held_shared = self._held_shared, []
        for copy in shared:
            injection = self.injections[copy]
            if not self.done[copy] and self.index[injection.local] < injection.last:
                self._hit_shared(copy)
                self._held_shared.append(copy)

    def is_over(self, copy: int) -> bool:
        """Whether the fault of a copy will not be applied any more."""
        return self.index[self.injections[copy].local] >= self.injections[copy].last

    def _strike(self, copy: int) -> None:
        """Applies the fault of a copy for the first time."""
        self.begin(copy)
        injection = self.injections[copy]
        if injection.site == "registers":
            place = self.rows_of[copy][0], injection.word, injection.lane
            values = self.machine.registers.values
            values[place] = injection.applied(int(values[place]))
            if injection.lasting:
                self._held.setdefault(injection.local, []).append(copy)
        elif injection.site == "shared":
            self._hit_shared(copy)
            if injection.lasting:
                self._held_shared.append(copy)

    def _hit_shared(self, copy: int) -> None:
        """Applies the fault of a copy to its shared memory."""
        injection = self.injections[copy]
        self.shared.put(copy, injection.word, injection.applied(self.shared.words(copy, injection.word)))

    def _hold(self, held: list[int], index: int) -> None:
        """Applies again, in the registers of a warp, the faults that last."""
        held[:] = [copy for copy in held if not self.done[copy] and index < self.injections[copy].last]
        injections = [self.injections[copy] for copy in held]
        rows = np.array([self.rows_of[copy][0] for copy in held], np.intp)
        word, lane = (
            np.array([getattr(injection, name) for injection in injections], np.intp) for name in ("word", "lane")
        )
        mask = np.array([injection.mask for injection in injections], np.uint32)
        target = np.array([injection.target or 0 for injection in injections], np.uint32)
        values = self.machine.registers.values
        now = values[rows, word, lane]
        new = now & ~mask | target & mask
        values[rows, word, lane] = new
        for number in np.flatnonzero(now != new):
            injections[number].changed = True

    def executes(self, operation: Operation, rows: Warps, index: int) -> Executor:
        """What to execute in place of the operation, so that a copy with a faulty selector uses its own."""
        form, instruction = operation.instruction.form, operation.instruction
        if not is_mma(form) or not form.sparse:
            return super().executes(operation, rows, index)
        selectors = np.full(len(rows), instruction.selector)
        golden = int((self.row_copy[rows] < 0).sum())
        for row in range(golden, len(rows)):
            injection = self.injections[int(self.row_copy[rows[row]])]
            if injection.site == "selector" and injection.first <= index < injection.last:
                selectors[row] = injection.value
                injection.changed |= injection.value != instruction.selector
        self._look(form, operation, rows, selectors)

        def run(machine: CtaState, _warps: Warps) -> Outcome:
            outcome = Outcome()
            for value in np.unique(selectors).tolist():
                outcome = executor(instruction if value == instruction.selector else with_selector(instruction, value))(
                    machine, rows[selectors == value]
                )
            return outcome

        return run

    def _look(self, form: MmaForm, operation: Operation, rows: Warps, selectors: NDArray[np.int64]) -> None:
        """Runs the detectors of the metadata on codes that differ from those of the run without faults."""
        words = reader(operation.instruction["e"])(self.machine, rows)[:, 0]
        own = np.zeros(self.session.program.warps, np.intp)
        first = self.row_copy[rows] < 0
        own[self.row_warp[rows[first]]] = np.flatnonzero(first)
        differ = np.flatnonzero(
            (words != words[own[self.row_warp[rows]]]).any(axis=1) | (selectors != operation.instruction.selector)
        )
        for value in np.unique(selectors[differ]).tolist():
            some = differ[selectors[differ] == value]
            copies = self.row_copy[rows[some]]
            illegal, unordered = metadata_checks(form, words[some], value)
            self.illegal[copies] |= illegal
            self.unordered[copies] |= unordered


def members(session: Session, injection: FaultInjection) -> list[int]:
    """The warps of a copy: those that the fault can touch directly."""
    return [injection.local] if injection.site != "shared" else sorted(session.sequences)
