"""What a trial changes: instructions that are executed in place of others, and the mistake that this would mend."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from isa import decode
from isa.errors import Error
from isa.ptx.instruction import Instruction, Operand
from simulator.check.blame.mixing import Skip
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.dispatch import executor
from simulator.execute.registry import prepare
from simulator.program.kernel import Kernel, Operation
from simulator.state.registers import Warps

Action = Instruction | Callable[[Executor], Executor]
"""An instruction; or what makes an executor of that of the instruction in its place."""
_REGISTER = re.compile(r"%(?:rd|rs|r|p)\d+\b")


@dataclass(frozen=True)
class Hypothesis:
    """A mistake that a kernel may have, and the kernel without it.

    Attributes:
        changes: by place, what is executed there instead, in order: nothing at all for an instruction too many; or a
            branch that stands before it.
        key: the kind of change; changes of several instructions with one key may be one mistake.
        mistake, fix: in words; "{}" in the fix stands for the corrected instruction.
        shows: the corrected instruction; None if it is none of PTX.
        weight: how likely such a mistake is beside others, 0 to 1.
        other_keys: further kinds that it is of.
        told: whether the fix in words speaks of all places.
    """

    changes: Mapping[int, tuple[Action, ...] | Skip]
    key: Hashable
    mistake: str
    fix: str
    shows: Instruction | None
    weight: float
    other_keys: tuple[Hashable, ...] = ()
    told: bool = False

    def fix_of(self, kernel: Kernel) -> str:
        """The fix in words, with the corrected instruction."""
        return self.fix.replace("{}", f"'{shown(kernel, self.shows)}'") if self.shows is not None else self.fix

    @property
    def place(self) -> int:
        """The first place that is changed."""
        return min(self.changes)


def replaced(item: Operation, new: Instruction, key: Hashable, mistake: str, weight: float) -> Hypothesis:
    """An instruction is meant that differs from the one that stands there."""
    return Hypothesis({item.index: (new,)}, key, mistake, "write {}", new, weight)


def together(group: Sequence[Hypothesis]) -> Hypothesis:
    """Changes of one kind at several places as one."""
    changes = {place: actions for each in group for place, actions in each.changes.items()}
    return replace(group[0], changes=changes)


def executor_of(actions: Sequence[Action], instruction: Instruction, *, guarded: bool) -> Executor:
    """What executes the actions one after the other in place of an instruction.

    Raises:
        Error: an instruction that cannot be executed.
    """
    make = executor if guarded else prepare
    run = [make(each) if isinstance(each, Instruction) else each(make(instruction)) for each in actions]
    if len(run) == 1:
        return run[0]

    def all_of_them(machine: CtaState, warps: Warps) -> Outcome:
        outcome = NOTHING
        for execute in run:
            outcome = execute(machine, warps)
        return outcome

    return all_of_them


def with_operand(instruction: Instruction, name: str, operand: Operand) -> Instruction:
    """The instruction with another operand of that role."""
    pairs = zip(instruction.form.roles, instruction.operands, strict=False)
    return replace(instruction, operands=tuple(operand if role.name == name else each for role, each in pairs))


def with_opcode(item: Operation, kernel: Kernel, opcode: str) -> Instruction | None:
    """The instruction with another opcode and the same operands; None if there is no such instruction."""
    instruction = item.instruction
    own = instruction.form.opcode
    text = str(replace(instruction, guard=None))
    try:
        other = decode(opcode + text[len(own) :], kernel.module.target, kernel.module.version)
    except Error:
        return None
    if len(other.form.roles) != len(instruction.form.roles) or len(other.operands) != len(instruction.operands):
        return None
    return replace(instruction, form=other.form)


def shown(kernel: Kernel, instruction: Instruction) -> str:
    """The instruction with the names that registers have in the module."""
    return _REGISTER.sub(lambda match: kernel.names.get(match[0], (match[0],))[0], str(instruction))


def name_of(kernel: Kernel, register: str) -> str:
    """The name of a register in the module."""
    return kernel.names.get(register, (register,))[0]
