"""Instructions on a unit with a fault: D of faults of one instruction, and an executor for programs that run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.forms.mma import MmaForm, is_mma
from isa.ptx.instruction import Immediate, Instruction
from isa.types import Bits
from simulator.arithmetic import Operands
from simulator.arithmetic.anatomy import sums_on_unit
from simulator.arithmetic.disturbance import Disturbance, disturbed
from simulator.execute.cta_state import CtaState, Executor, Outcome
from simulator.execute.dispatch import executor, guarded
from simulator.execute.matrix import scale_reader
from simulator.execute.mma import Scales, execute_mma, matrices, sum_of
from simulator.execute.operands import reader, writer
from simulator.execute.wgmma import multiplied_by
from simulator.faults.unit.forms import has_unit
from simulator.faults.unit.rows import SELECTOR_INPUT, disturbance, selectors
from simulator.faults.unit.warpgroup import StruckCores
from simulator.state.registers import Warps


def put(form: MmaForm, d: Bits, what: Disturbance, patterns: Bits) -> None:
    """Writes elements of D into its registers uint32 [case, register, lane]; each entry of `what` has a case of its
    own."""
    lane, register, element = (grid[what.row, what.column] for grid in form.d.mapping.grid)
    low = (form.d_type.bits * element).astype(np.uint32)
    kept = d[what.case, register, lane] & ~(np.uint32(form.d_type.mask) << low)
    d[what.case, register, lane] = kept | patterns << low


@dataclass
class UnitFault:
    """A fault of the tensor core of a sub-core, while a program runs.

    Attributes:
        row: the row of the list.
        strikes: says which of the warps (of a batch: rows) that execute an instruction are on that sub-core.
        changed: whether the fault has changed a word of the unit yet.
    """

    row: Any
    strikes: Callable[[Warps], NDArray[np.bool_]]
    changed: bool = False
    _disturbances: dict[tuple[str, int], Disturbance] = field(default_factory=dict)

    def executor(self, instruction: Instruction) -> Executor | None:
        """What executes a matrix instruction in place of its own executor; None for one that the fault cannot strike.
        For `mma` it reads operands, calls `execute_mma`, and writes D of the struck warps once more."""
        form = instruction.form
        if not has_unit(form):
            return None
        run: Executor | None
        if not is_mma(form):
            run = multiplied_by(StruckCores(self), instruction, form)
        elif int(self.row["site"]) == SELECTOR_INPUT:
            run = self._other_selector(instruction, form)
        else:
            run = self._disturbed(instruction, form)
        if run is None or instruction.guard is None:
            return run
        return guarded(instruction, run)

    def _other_selector(self, instruction: Instruction, form: MmaForm) -> Executor | None:
        if not form.sparse or form.metadata.selectors < 2:
            return None
        (value,) = selectors(np.array([self.row]), instruction.selector, form.metadata.selectors).tolist()
        wrong, right = executor(_plain(with_selector(instruction, value))), executor(_plain(instruction))

        def run(machine: CtaState, warps: Warps) -> Outcome:
            struck = self.strikes(warps)
            self.changed |= bool(struck.any()) and value != instruction.selector
            if struck.all() or not struck.any():
                return (wrong if struck.any() else right)(machine, warps)
            wrong(machine, warps[struck])
            return right(machine, warps[~struck])

        return run

    def _disturbed(self, instruction: Instruction, form: MmaForm) -> Executor | None:
        if int(self.row["lane"]) >= form.m * form.n:
            return None
        inner = executor(_plain(instruction))
        a, b, c = (reader(instruction[name]) for name in "abc")
        e = reader(instruction["e"]) if form.sparse else None
        scales = scale_reader(instruction, form) if form.row.scale else None
        write, selector = writer(instruction["d"]), instruction.selector if form.sparse else 0

        def run(machine: CtaState, warps: Warps) -> Outcome:
            struck = warps[self.strikes(warps)]
            if not len(struck) or machine.arithmetic == "none":
                return inner(machine, warps)
            words = [read(machine, struck) for read in (a, b, c)]
            codes = None if e is None else e(machine, struck)[:, 0]
            groups = scales(machine, struck) if scales else [(slice(None), None)]
            outcome = inner(machine, warps)
            d = np.empty((len(struck), form.d.registers, words[0].shape[2]), np.uint32)
            for some, factors in groups:
                chosen = None if codes is None else codes[some]
                d[some] = self._d(machine, form, [word[some] for word in words], chosen, selector, factors)
            write(machine, struck, d)
            return outcome

        return run

    def _d(
        self, machine: CtaState, form: MmaForm, words: list[Bits], e: Bits | None, selector: int, scales: Scales | None
    ) -> Bits:
        """D of some warps whose unit is struck, uint32 [warp, register, lane]."""
        a, b, c = words
        how = sum_of(form, machine.target, machine.arithmetic)
        d = execute_mma(form, a, b, c, e, selector, target=machine.target, arithmetic=machine.arithmetic, scales=scales)
        if sums_on_unit(how):
            operands: Operands = matrices(form, a, b, form.c.gather(c), e, selector, scales)
            key = form.opcode, len(a)
            what = self._disturbances.get(key)
            if what is None:
                rows = np.repeat(np.array([self.row]), len(a))
                what = self._disturbances[key] = disturbance(rows, how, np.arange(len(a)))
            patterns, changed = disturbed(how, operands, what)
            put(form, d, what, patterns)
            self.changed |= bool(changed.any())
        return d


def with_selector(instruction: Instruction, value: int) -> Instruction:
    """The matrix instruction with another sparsity selector."""
    names = [role.name for role in instruction.form.roles]
    operands = [
        Immediate(value) if name == "f" else operand for name, operand in zip(names, instruction.operands, strict=False)
    ]
    return replace(instruction, operands=tuple(operands))


def _plain(instruction: Instruction) -> Instruction:
    """The instruction without its guard, which is applied around it."""
    return instruction if instruction.guard is None else replace(instruction, guard=None)
