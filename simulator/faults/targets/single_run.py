"""One faulty run of a program through the ordinary executor. It takes every fault, whatever follows from it: errors,
deadlocks and races included."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isa import IsaError, UndefinedBehavior
from isa.forms.mma import MmaForm, is_mma
from isa.forms.tcgen05 import Tcgen05MmaForm, is_tcgen05_mma
from isa.ptx.instruction import Instruction
from isa.tensor_memory.address import TmemAddress
from isa.tensor_memory.metadata import tmem_metadata
from simulator.errors import DeadlockError, TraceError
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.dispatch import executor
from simulator.execute.operands import addresses, reader
from simulator.execute.tcgen05.fetch import Cta, codes, instruction_descriptor
from simulator.faults.detectors.codes import METADATA_RULES, code_checks
from simulator.faults.detectors.metadata_sums import TraceSums
from simulator.faults.targets.injection import FaultInjection
from simulator.faults.targets.register_sites import REGISTER_SITES
from simulator.faults.unit.instruction import UnitFault, with_selector
from simulator.faults.unit.mapping import shares_sub_core
from simulator.faults.unit.sites import UNIT_SITES
from simulator.program.data import Array
from simulator.program.lowering import Operation
from simulator.simulation.group import Group
from simulator.simulation.observer import Observer
from simulator.simulation.session import Session
from simulator.state.registers import Warps

STOPS = {  # the rule that an error states -> the reason of the outcome; any other is "illegal"
    "selector-out-of-range": "illegal-instruction",
    "tmem-alignment": "misaligned-address",
    "misaligned-address": "misaligned-address",
    "deadlock": "deadlock",
}


@dataclass(frozen=True)
class Run:
    """What a faulty run resulted in.

    Attributes:
        reason: why it stopped, one of the reasons of `simulator.faults.outcomes`; empty if it ended, whatever its
            results.
        arrays: what the trace's `.store` statements name; empty where the run did not end.
        met: the cases of undefined behaviour that occurred, by name.
        legality, ordered, alignment, checksum: whether these detectors saw something.
        said: the text of the error.
    """

    reason: str
    arrays: dict[str, Array]
    met: Counter[str]
    legality: bool
    ordered: bool
    alignment: bool
    said: str = ""
    checksum: bool = False


class SingleRun(Observer):
    """Applies one injection to a run, and checks the metadata that matrix instructions read."""

    def __init__(self, session: Session, injection: FaultInjection, sums: TraceSums | None = None) -> None:
        self.session, self.injection, self.sums = session, injection, sums
        self.illegal = self.unordered = self.summed = False
        self._index = -1
        self._unit = UnitFault(injection.row, self._on_unit) if injection.site in UNIT_SITES else None

    def run(self) -> Run:
        """Makes the whole run."""
        machines = self.session.copies()
        reason, said, rule = "", "", ""
        arrays: dict[str, Array] = {}
        try:
            arrays = self.session.run(self, machines=machines).arrays
        except (DeadlockError, UndefinedBehavior, TraceError, IsaError) as error:
            said, rule = str(error), error.rule
            reason = STOPS.get(rule, "illegal")
        self.injection.changed |= self._unit is not None and self._unit.changed
        met = sum((machine.met for machine in machines), Counter[str]())
        legality = self.illegal or any(met[name] for name in METADATA_RULES) or reason == "illegal-instruction"
        return Run(reason, arrays, met, legality, self.unordered, rule == "tmem-alignment", said, self.summed)

    # As an observer

    def before(self, machine: CtaState, group: Group, operation: Operation, index: int) -> Executor | None:
        """Applies the fault, if it is due, before an instruction is executed; returns the executor to use in its place,
        if there is one."""
        injection, instruction = self.injection, operation.instruction
        mine = machine.rank == injection.cta and injection.local in group.warps
        if mine:
            self._index = index
        if injection.there(self._index) and (mine or injection.site not in REGISTER_SITES):
            injection.hit(machine.ctas[injection.cta] if machine.peer is not None else machine)
        self.summed |= self.sums is not None and self.sums.differ(machine, group, operation, index)
        form = instruction.form
        if is_mma(form) and form.sparse:
            struck = mine and injection.site == "selector" and injection.there(index)
            if struck and injection.value != instruction.selector:
                injection.changed = True
                return self._two(instruction, with_selector(instruction, injection.value), group.warps)
            self._look(instruction, form, machine, group.warps)
        elif is_tcgen05_mma(form) and form.sparse:
            self._look_at_cells(instruction, form, machine, group.warps)
        struck = self._unit is not None and machine.rank == injection.cta and self._lasts()
        return self._unit.executor(instruction) if struck and self._unit is not None else None

    def finished(self, machines: list[CtaState]) -> None:
        """Applies, after the last instruction, a fault that strikes there or lasts until then."""
        injection, behind = self.injection, len(self.session.sequences[self.injection.warp])
        if injection.first == behind or injection.there(behind):
            injection.hit(machines[injection.cta])

    def _two(self, right: Instruction, wrong: Instruction, warps: Warps) -> Executor:
        """One warp executes another instruction than the rest of its group."""
        form, struck = right.form, warps == self.injection.local
        assert is_mma(form)

        def run(machine: CtaState, _warps: Warps) -> Outcome:
            for instruction, some in ((wrong, warps[struck]), (right, warps[~struck])):
                if len(some):
                    self._look(instruction, form, machine, some)
                    executor(instruction)(machine, some)
            return NOTHING

        return run

    # Faults of the unit

    def _lasts(self) -> bool:
        """Whether the fault is there: what warps of the sub-core execute before the first instruction of the one that
        counts is struck by a fault of the whole run."""
        return self.injection.there(max(self._index, 0))

    def _on_unit(self, warps: Warps) -> NDArray[np.bool_]:
        """Which warps the fault strikes: all of the sub-core, or the one whose instruction it is if it does not
        last."""
        local = self.injection.local
        return shares_sub_core(warps, local) if self.injection.lasting else np.asarray(warps == local)

    # Detectors

    def _look(self, instruction: Instruction, form: MmaForm, machine: CtaState, warps: Warps) -> None:
        if instruction.selector < form.metadata.selectors:
            words = reader(instruction["e"])(machine, warps)[:, 0]
            illegal, unordered = metadata_checks(form, words, instruction.selector)
            self.illegal |= bool(illegal.any())
            self.unordered |= bool(unordered.any())

    def _look_at_cells(self, instruction: Instruction, form: Tcgen05MmaForm, machine: CtaState, warps: Warps) -> None:
        """Checks the order of the codes in Tensor Memory; execution itself reports codes that are not defined. What
        cannot be read is refused by execution."""
        where, words = addresses(instruction["sp_meta"])(machine, warps), reader(instruction["idesc"])(machine, warps)
        for row in range(len(warps)):
            try:
                idesc = instruction_descriptor(int(words[row, 0, 0]), form.kind)
                metadata = tmem_metadata(form.kind, idesc.m, form.cta_group, form.ws)
                address = TmemAddress.from_word(int(where[row, 0]))
                for cta in machine.ctas if form.cta_group == 2 else (machine,):
                    read_codes = codes(Cta(cta.tmem, cta.shared.data), address, idesc, metadata)
                    self.unordered |= bool(
                        code_checks(read_codes, metadata.legal(read_codes), metadata.sparsity)[1].any()
                    )
            except (IsaError, UndefinedBehavior, IndexError):
                return


def metadata_checks(
    form: MmaForm, words: NDArray[np.uint32], selector: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """`code_checks` of the metadata words [case, lane] that an instruction reads."""
    read_codes = form.metadata.gather(words, selector)
    return code_checks(read_codes, form.metadata.legal(read_codes), form.metadata.sparsity)
