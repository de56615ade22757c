"""One faulty run of a trace by the ordinary executor, whatever the fault does to it: errors, deadlocks and races
included."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from isa import IsaError, UndefinedBehavior
from isa.forms.mma import MmaForm
from isa.forms.tcgen05 import Tcgen05MmaForm
from isa.ptx.instruction import Instruction
from isa.tensor_memory.address import TmemAddress
from isa.tensor_memory.metadata import tmem_metadata
from simulator.errors import DeadlockError, TraceError
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.dispatch import executor
from simulator.execute.operands import addresses, reader
from simulator.execute.tcgen05.fetch import Cta, codes, instruction_descriptor
from simulator.faults.injection import FaultInjection
from simulator.faults.lockstep import judged, with_selector
from simulator.faults.outcomes import DUE, HANG, SDC
from simulator.faults.program import Program
from simulator.program.data import Array
from simulator.program.lowering import Operation
from simulator.simulation.group import Group
from simulator.simulation.observer import Observer
from simulator.state.registers import Warps

_ALIGNMENT = ("base-lane", "half-mismatch", "odd-metadata-column")  # of isa.tensor_memory.datapath.violations
_LEGALITY = ("invalid-metadata", "unordered-metadata", "invalid-metadata-tf32", "undefined-metadata")


@dataclass(frozen=True)
class Run:
    """What a faulty run came to.

    Attributes:
        outcome, reason: of `simulator.faults.outcomes`; SDC stands for a run that ended, whatever its results.
        arrays: what `.store` names; empty where the run did not end.
        met: undefined cases, by name.
        legality, ordered, alignment: whether the detectors saw something.
        said: the error's text.
    """

    outcome: int
    reason: str
    arrays: dict[str, Array]
    met: Counter[str]
    legality: bool
    ordered: bool
    alignment: bool
    said: str = ""


class SingleRun(Observer):
    """An observer that applies one strike, and looks at the metadata that matrix instructions read."""

    def __init__(self, program: Program, strike: FaultInjection) -> None:
        self.program, self.strike = program, strike
        self.illegal = self.unordered = False
        self._index = -1

    def run(self) -> Run:
        """The whole run."""
        machines = self.program.machines()
        outcome, reason, said, alignment = SDC, "", "", False
        arrays: dict[str, Array] = {}
        try:
            arrays = self.program.run(self, machines=machines).arrays
        except DeadlockError as error:
            outcome, reason, said = HANG, "deadlock", str(error)
        except UndefinedBehavior as error:
            reason = "illegal-instruction" if error.rule == "selector-out-of-range" else "illegal"
            outcome, said = DUE, str(error)
        except (TraceError, IsaError) as error:
            said = str(error)
            alignment = any(name in said for name in _ALIGNMENT)
            outcome, reason = DUE, "misaligned-address" if alignment or "misaligned" in said else "illegal"
        met = sum((machine.met for machine in machines), Counter[str]())
        legality = self.illegal or any(met[name] for name in _LEGALITY) or reason == "illegal-instruction"
        return Run(outcome, reason, arrays, met, legality, self.unordered, alignment, said)

    # As an observer

    def before(self, machine: CtaState, group: Group, operation: Operation, index: int) -> Executor | None:
        strike = self.strike
        mine = machine.rank == strike.cta and strike.local in group.warps
        if mine:
            self._index = index
        if strike.first <= self._index < strike.last and (mine or strike.site != "registers"):
            strike.hit(self.program_machine(machine))
        instruction = operation.instruction
        form = instruction.form
        if isinstance(form, MmaForm) and form.sparse:
            changed = (
                mine
                and strike.site == "selector"
                and strike.first <= index < strike.last
                and strike.value != instruction.selector
            )
            if changed:
                strike.changed = True
                return _two(instruction, with_selector(instruction, strike.value), group.warps, strike.local, self)
            self._look(instruction, form, machine, group.warps)
        elif isinstance(form, Tcgen05MmaForm) and form.sparse:
            self._look_at_cells(instruction, form, machine, group.warps)
        return None

    def program_machine(self, machine: CtaState) -> CtaState:
        """The CTA that the fault is in."""
        return machine.ctas[self.strike.cta] if machine.peer is not None else machine

    def finished(self, machines: list[CtaState]) -> None:
        strike = self.strike
        behind = len(self.program.sequences[strike.warp])
        if strike.first == behind or (strike.first < behind < strike.last):
            strike.hit(machines[strike.cta])

    # Detectors

    def _look(self, instruction: Instruction, form: MmaForm, machine: CtaState, warps: Warps) -> None:
        if instruction.selector < form.metadata.selectors:
            illegal, unordered = judged(
                form.metadata.gather(reader(instruction["e"])(machine, warps)[:, 0], instruction.selector), form
            )
            self.illegal |= bool(illegal.any())
            self.unordered |= bool(unordered.any())

    def _look_at_cells(self, instruction: Instruction, form: Tcgen05MmaForm, machine: CtaState, warps: Warps) -> None:
        """Order of the codes in Tensor Memory; whether they are defined is met by execution. What cannot be read,
        execution refuses."""
        where, words = addresses(instruction["sp_meta"])(machine, warps), reader(instruction["idesc"])(machine, warps)
        for row in range(len(warps)):
            try:
                idesc = instruction_descriptor(int(words[row, 0, 0]), form.kind)
                metadata = tmem_metadata(form.kind, idesc.m, form.cta_group, form.ws)
                address = TmemAddress.from_word(int(where[row, 0]))
                for cta in machine.ctas if form.cta_group == 2 else (machine,):
                    found = codes(Cta(cta.tmem, cta.shared.data), address, idesc, metadata)
                    low, high = found & np.uint32(3), found >> np.uint32(2)
                    legal = np.isin(found, metadata.sparsity.ordered) if form.kind == "tf32" else low < high
                    self.unordered |= not bool(legal.all())
            except (IsaError, UndefinedBehavior, IndexError):
                return


def _two(right: Instruction, wrong: Instruction, warps: Warps, warp: int, watch: SingleRun) -> Executor:
    """One warp executes another instruction than the rest of its group."""

    def run(machine: CtaState, _warps: Warps) -> Outcome:
        rest, form = warps[warps != warp], right.form
        assert isinstance(form, MmaForm)
        for instruction, some in ((wrong, np.array([warp])), (right, rest)):
            if len(some):
                watch._look(instruction, form, machine, some)
                executor(instruction)(machine, some)
        return NOTHING

    return run
