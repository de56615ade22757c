"""Makes a function of each item of a kernel, which executes it for all threads of a batch of CTAs that stand there.

An instruction is executed by the same function as in a trace (`simulator.execute.dispatch`). Control flow is here;
where threads wait for others, `simulator.simulation.launch.meetings` says how, and
`simulator.simulation.launch.run` does it.
"""

from __future__ import annotations

import numpy as np

from isa.errors import Error
from isa.forms.record import Time
from isa.forms.synchronisation import is_atomic, is_mbarrier_wait, sees_other_threads, writes_memory
from simulator.execute.cta_state import Executor, Outcome
from simulator.execute.dispatch import executor
from simulator.execute.operands import reader
from simulator.execute.registry import prepare
from simulator.program.kernel import Branch, Exit, Item, Kernel, Operation, Switch, SystemCall, Trap, Unsupported
from simulator.simulation.launch.looking import changing, exchanging, looking
from simulator.simulation.launch.meetings import (
    awaiting,
    barrier,
    cluster_barrier,
    executed,
    mask_of,
    named,
    settle,
    together,
)
from simulator.simulation.launch.run import KNOWN, PARTED, Code, Run, Step, taken, whole
from simulator.simulation.launch.system import system_call
from simulator.simulation.launch.threads import AWAY, Group, all_lanes
from simulator.simulation.launch.warpgroups import of_warpgroups


def prepared(kernel: Kernel) -> Code:
    """A kernel whose items have become functions. What cannot be executed raises when it is reached."""
    places = [0] * len(kernel.items)
    for place, rank in enumerate(kernel.rank):
        places[rank] = place
    meets: dict[int, Executor] = {}
    return Code(kernel, [_step(item, meets) for item in kernel.items], kernel.rank, places, meets, {})


def _step(item: Item, meets: dict[int, Executor]) -> Step:
    match item:
        case Operation():
            return _operation(item, meets)
        case Branch():
            return _branch(item)
        case Switch():
            return _switch(item)
        case Exit():
            return _exit(item)
        case Trap():
            return _stopping(item, "the kernel stops itself here: 'trap'", "", rule="trap")
        case SystemCall():
            return system_call(item)
        case Unsupported():
            return _stopping(item, item.reason, item.legal or KNOWN)


def not_executed(kernel: Kernel) -> list[tuple[int, str, str]]:
    """(line, instruction, why) of what a launch of the kernel would stop at."""
    found = []
    for item in kernel.items:
        if isinstance(item, Unsupported):
            found.append((item.line, item.text, item.reason))
        elif isinstance(item, Operation) and item.instruction.form.time not in (Time.BARRIER, Time.CLUSTER_BARRIER):
            try:
                executor(item.instruction)
            except Error as error:
                found.append((item.line, item.text, error.reason))
    return found


def _decides(run: Run, group: Group, item: Item) -> None:
    """Tells who watches that threads of a group decide where to go on."""
    if run.watch is not None and item.guard is not None:
        run.watch.decides(item, group.rows, all_lanes(len(group.rows)) if group.lanes is None else group.lanes)


def _branch(item: Branch) -> Step:
    target, guard = item.target, item.guard
    if guard is None:
        return lambda run, group, place: target

    def step(run: Run, group: Group, place: int) -> int:
        lanes = taken(run, group, guard)
        _decides(run, group, item)
        if run.note is not None:
            run.note(place, group.rows, group.lanes, Outcome(wavefronts=lanes.sum(axis=1)))
        if not lanes.any():
            return place + 1
        if lanes.all() if group.lanes is None else np.array_equal(lanes, group.lanes):
            return target
        going, threads = whole(group, lanes, len(run.threads.exists)), run.threads
        threads.move(group.members & ~going, run.code.rank[place + 1])
        threads.move(going, run.code.rank[target])
        return PARTED

    return step


def _switch(item: Switch) -> Step:
    read = reader(item.register)

    def step(run: Run, group: Group, place: int) -> int:
        lanes = taken(run, group, item.guard)
        index = read(run.state, group.rows)[:, 0]
        if lanes.any() and int(index[lanes].max()) >= len(item.targets):
            reason = f"brx.idx with index {int(index[lanes].max())} of a table of {len(item.targets)} labels"
            raise run.error(item, reason, f"0 to {len(item.targets) - 1}", rule="branch-index")
        rows, threads = len(run.threads.exists), run.threads
        threads.move(group.members, run.code.rank[place + 1] if place + 1 < len(run.code.rank) else AWAY)
        for number in np.unique(index[lanes]).tolist():
            threads.move(whole(group, lanes & (index == number), rows), run.code.rank[item.targets[number]])
        return PARTED

    return step


def _exit(item: Exit) -> Step:
    def step(run: Run, group: Group, place: int) -> int:
        lanes = taken(run, group, item.guard)
        _decides(run, group, item)
        if run.note is not None and item.guard is not None:
            run.note(place, group.rows, group.lanes, Outcome(wavefronts=lanes.sum(axis=1)))
        if not lanes.any():
            return place + 1
        leaving = whole(group, lanes, len(run.threads.exists))
        if item.guard is not None:
            run.threads.move(group.members, run.code.rank[place + 1])
        run.threads.exit(leaving)
        if run.threads.parked.any():
            settle(run, group.rows)
        run.release()
        return PARTED

    return step


def _stopping(item: Item, reason: str, legal: str, *, rule: str = "not-executable") -> Step:
    def step(run: Run, group: Group, place: int) -> int:
        lanes = taken(run, group, item.guard)
        if not lanes.any():
            return place + 1
        raise run.error(item, reason, legal, row=int(group.rows[lanes.any(axis=1).argmax()]), rule=rule)

    return step


def _operation(item: Operation, meets: dict[int, Executor]) -> Step:
    if item.instruction.form.time is Time.BARRIER:
        return barrier(item)
    if item.instruction.form.time is Time.CLUSTER_BARRIER:
        return cluster_barrier(item)
    try:
        execute = executor(item.instruction)
    except Error as error:
        return _stopping(item, error.reason, error.legal or KNOWN)
    if item.instruction.form.collective and item.instruction.form.warps == 1:
        meets[item.index] = execute
    elif mask_of(item) is not None:
        meets[item.index] = prepare(item.instruction)
    step = step_of(item, execute)
    return changing(item, step) if writes_memory(item.instruction.form) else step


def step_of(item: Operation, execute: Executor) -> Step:
    """The function of an instruction that has this executor."""
    form = item.instruction.form
    if mask_of(item) is not None:
        return named(item, execute)
    if form.warps > 1:
        return of_warpgroups(item, execute)
    if form.collective:
        return together(item, execute)
    if is_mbarrier_wait(form):
        return awaiting(item, execute)

    def step(run: Run, group: Group, place: int) -> int:
        return executed(run, group, item, execute)

    if is_atomic(form):
        return looking(exchanging(item, step))
    return looking(step) if sees_other_threads(form) else step
