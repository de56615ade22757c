"""Instructions with which threads may wait in a loop for what others write, and those with which others write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.forms.record import Form
from isa.ptx.instruction import Instruction, Sink
from simulator.execute.operands import reader
from simulator.program.kernel import Operation
from simulator.simulation.launch.run import PARTED, Run, Step, taken
from simulator.simulation.launch.threads import Group
from simulator.state.registers import Lanes, Warps

LOOKS = 16  # loads of a loop that may wait for others, after which these go on

_Operands = tuple[NDArray[Any], ...]
_Kept = tuple[Callable[[Run, Warps], _Operands], Callable[[Run, Warps, _Operands], Lanes]]


def looking(execute: Step) -> Step:
    """Executes an instruction with which threads may wait in a loop for what others write
    (`isa.forms.synchronisation.sees_other_threads`); those that have done it LOOKS times let others go on."""

    def step(run: Run, group: Group, place: int) -> int:
        following = execute(run, group, place)
        run.spinning.looked(place, group.rows, group.lanes)
        run.looks += 1
        if run.looks < LOOKS or following < 0:
            return following
        run.looks = 0
        run.threads.move(group.members, run.code.rank[following])
        run.threads.give_way(group.rank)
        return PARTED

    return step


def changing(item: Operation, execute: Step) -> Step:
    """An instruction that writes to memory, or does what others may wait for: whoever looks may see something new."""
    guard = item.instruction.guard

    def step(run: Run, group: Group, place: int) -> int:
        if run.spinning.quiet and (guard is None or taken(run, group, guard).any()):
            run.spinning.changed()
        return execute(run, group, place)

    return step


def exchanging(item: Operation, execute: Step) -> Step:
    """An atomic operation, which may leave memory as it is: a lock that is taken, a counter that is read."""
    instruction, form = item.instruction, item.instruction.form
    kept = _leaves_alone(instruction, form)

    def step(run: Run, group: Group, place: int) -> int:
        if not run.spinning.suspected:
            return execute(run, group, place)
        lanes = taken(run, group, instruction.guard)
        before = kept[0](run, group.rows) if kept is not None else None
        following = execute(run, group, place)
        if kept is None or before is None or (lanes & ~kept[1](run, group.rows, before)).any():
            run.spinning.changed()
        return following

    return step


def _leaves_alone(instruction: Instruction, form: Form) -> _Kept | None:
    """How to find out for which threads, bool [row, lane], an atomic operation has left memory as it was: what reads
    its operands before, and what compares them with its result; None: it is taken to write."""
    operation = next((q for q in form.qualifiers if q in ("cas", "exch", "add", "or", "xor")), "")
    if not operation or "f" in form.qualifiers[-1] or form.elements > 1 or form.width not in (32, 64):
        return None
    bits, old = form.width, instruction.by_role.get("d")
    reads = [reader(instruction[name], bits) for name in "bc" if name in instruction.by_role]

    def before(run: Run, rows: Warps) -> _Operands:
        return tuple(read(run.state, rows)[:, 0] for read in reads)

    if operation in ("add", "or", "xor"):
        return before, lambda run, rows, given: np.asarray(given[0] == 0)
    if old is None or isinstance(old, Sink):
        return None
    result = reader(old, bits)

    def same(run: Run, rows: Warps, given: _Operands) -> Lanes:
        found = result(run.state, rows)[:, 0]
        unlike: Lanes = np.asarray(found != given[0])
        return unlike if operation == "cas" else ~unlike

    return before, same
