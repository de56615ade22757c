"""Hypotheses about where threads go: the bound of a loop, and a branch around instructions that is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

from isa.forms.record import Time
from isa.ptx.instruction import Guard, Immediate, Register
from simulator.check.blame.change import Hypothesis, name_of, replaced, with_operand
from simulator.check.blame.mixing import Skip
from simulator.check.blame.products import unread_registers
from simulator.check.blame.seen import Array, of_words, seen_as
from simulator.program.kernel import Branch, Kernel, Operation
from simulator.state.registers import Sort, register_place

BOUND, STEPPED = 0.87, 0.6  # weight of a loop's bound that is a turn off: a constant, a register
UNREAD, UNREACHED, BOTH = (
    0.86,
    0.88,
    0.93,
)  # weight of a missing branch: nothing reads its predicate, or comes to its label
FAR = 128  # places between a predicate and the end of what its branch goes around at most
_TURN = 1 << 32
_TOLD_TO_DEBUGGERS = re.compile(r"L__(?:tmp|func|info|debug|pack|sec)")  # labels that no branch is meant for


@dataclass(frozen=True)
class Loop:
    """A loop, and the comparison that decides whether it goes on.

    Attributes:
        branch: back to its beginning.
        comparison: that its guard comes from.
        steps: by how much its counters change in a turn.
    """

    branch: Branch
    comparison: Operation
    steps: tuple[int, ...]


def control_hypotheses(kernel: Kernel, executed: Set[int]) -> Iterator[Hypothesis]:
    """All about where the threads of a kernel go.

    Args:
        executed: the places that threads come to.
    """
    for loop in loops(kernel):
        if loop.comparison.index in executed:
            yield from _bounds(kernel, loop)
    yield from _missing_branches(kernel, executed)


# Loops


def loops(kernel: Kernel) -> Iterator[Loop]:
    """The loops of a kernel whose end a comparison decides."""
    operations = [item for item in kernel.items if isinstance(item, Operation)]
    for branch in kernel.items:
        if isinstance(branch, Branch) and branch.guard is not None and branch.target <= branch.index:
            name = branch.guard.predicate.name
            inside = [each for each in operations if branch.target <= each.index < branch.index]
            for item in inside:
                if name in item.writes and {"a", "b"} <= item.instruction.by_role.keys():
                    yield Loop(branch, item, _steps(item, inside))


def _steps(comparison: Operation, inside: Sequence[Operation]) -> tuple[int, ...]:
    """By how much the counters that a comparison reads change in a turn; 1 if nothing says so."""
    found = set()
    for item in inside:
        amount = item.instruction.by_role.get("b")
        adds = set(item.writes) & set(comparison.reads) and item.opcode.startswith("add")
        if adds and isinstance(amount, Immediate) and amount.value:
            value = amount.value % _TURN
            found.add(min(value, _TURN - value))
    return tuple(sorted(found)) or (1,)


def _bounds(kernel: Kernel, loop: Loop) -> Iterator[Hypothesis]:
    """A loop's bound that is one turn off."""
    item, bound = loop.comparison, loop.comparison.instruction.by_role["b"]
    for step in sorted({sign * each for each in loop.steps for sign in (1, -1)}):
        key = ("bound", step)
        if isinstance(bound, Immediate):
            changed = with_operand(item.instruction, "b", replace(bound, value=bound.value + step))
            what = f"the bound of the loop is a turn off: {bound.value} where {bound.value + step} is meant"
            yield replaced(item, changed, key, what, BOUND)
        elif isinstance(bound, Register) and (place := register_place(bound.name)) and place.sort is not Sort.PREDICATE:
            name = name_of(kernel, bound.name)
            far = f"{abs(step)} too {'low' if step > 0 else 'high'}"
            action = seen_as(bound.name, of_words(partial(_moved, step=step)))
            what = f"the bound of the loop is a turn off: {name} is {far} here"
            fix = f"{'add' if step > 0 else 'subtract'} {abs(step)} {'to' if step > 0 else 'from'} the bound {name}"
            yield Hypothesis({item.index: (action,)}, key, what, fix, None, STEPPED)


def _moved(values: Array, step: int) -> Array:
    return (values.astype("int64") + step).astype(values.dtype)


# Branches that are missing


def labels(kernel: Kernel) -> dict[int, str]:
    """By place, the label that stands before it, of those of the kernel's own text."""
    function = kernel.module.functions.get(kernel.name)
    found: dict[int, str] = {}
    for statement in function.statements if function is not None else ():
        if statement.label and not _TOLD_TO_DEBUGGERS.search(statement.label):
            behind = (item.index for item in kernel.items if item.line >= statement.line)
            found.setdefault(next(behind, len(kernel.items) - 1), statement.label)
    return found


def _missing_branches(kernel: Kernel, executed: Set[int]) -> Iterator[Hypothesis]:
    """A predicate is computed, and no branch goes around what only some threads may execute: the predicate is one
    that nothing reads, or nobody comes to the label behind these instructions by a branch."""
    unread, named = set(unread_registers(kernel)), labels(kernel)
    reached = {item.target for item in kernel.items if isinstance(item, Branch)}
    for item in kernel.items:
        if not isinstance(item, Operation) or item.index not in executed:
            continue
        for name in item.writes:
            place = register_place(name)
            if place is None or place.sort is not Sort.PREDICATE:
                continue
            for end, label in named.items():
                if item.index < end <= item.index + FAR and (name in unread or end not in reached):
                    weight = UNREAD if end in reached else BOTH if name in unread else UNREACHED
                    yield from _around(kernel, item, name, (end, label), weight)


def _around(kernel: Kernel, writer: Operation, name: str, end: tuple[int, str], weight: float) -> Iterator[Hypothesis]:
    """A branch to a label behind what computes its predicate, or behind each place at which threads meet on the way."""
    place, label = end
    predicate, short = name_of(kernel, name), label.rpartition(":")[2]
    first = writer.index + 1
    starts = [first, *(each.index + 1 for each in kernel.items[first:place] if _meets(each))]
    for number, start in enumerate(each for each in starts if each < place):
        if not isinstance(kernel.items[start], Operation):
            continue
        before = kernel.items[start - 1].line
        for negated in (False, True):
            guard = f"@{'!' if negated else ''}{predicate}"
            what = (
                f"a branch is missing around what stands before {short}: threads go there that the predicate "
                f"{predicate} of line {writer.line} is to keep out"
            )
            fix = f"write '{guard} bra {short};' as a guard behind line {before}"
            likely = weight * (0.97 if negated else 1.0) * 0.97**number
            skip = Skip(Guard(Register(name), negated), place)
            yield Hypothesis({start: skip}, ("branch", place), what, fix, None, likely)


def _meets(item: object) -> bool:
    """Whether threads meet at an item, which a branch does not go around if it can help it."""
    return isinstance(item, Operation) and item.instruction.form.time in (Time.BARRIER, Time.CLUSTER_BARRIER)
