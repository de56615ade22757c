"""Instructions at which threads wait for others: those of whole warps, those that name the threads of their warp, and
the barriers of a CTA."""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.forms.synchronisation import is_aligned, is_arrival, is_reduction
from isa.ptx.instruction import Immediate
from simulator.execute.cta_state import Executor, Outcome
from simulator.execute.operands import predicate, reader, writer
from simulator.program.kernel import Operation
from simulator.simulation.launch.run import PARTED, Reduction, Run, Step, taken, whole
from simulator.simulation.launch.threads import AWAY, Group
from simulator.simulation.launch.watch import Watch
from simulator.state.registers import WARP_SIZE, Lanes

FRUITLESS = 1024  # looks of threads at mbarriers, while nobody arrives, after which these are taken to wait for ever
LOOKS = 16  # loads of a loop that may wait for others, after which these go on


def together(item: Operation, execute: Executor) -> Step:
    """An instruction of whole warps, or of the threads that its mask names: a warp waits until all are there."""
    instruction, form = item.instruction, item.instruction.form
    mask = instruction.by_role.get("membermask")
    read = reader(mask) if mask is not None else None
    every = isinstance(mask, Immediate) and mask.value & 0xFFFFFFFF == 0xFFFFFFFF

    def step(run: Run, group: Group, place: int) -> int:
        if group.lanes is None:
            return executed(run, group, item, execute)
        lanes, threads = group.lanes, run.threads
        live = threads.live[group.rows]
        needed = live
        if read is not None and not every:
            named: Lanes = read(run.state, group.rows)[:, 0] >> np.arange(WARP_SIZE, dtype=np.uint32) & 1 != 0
            needed = live & np.asarray((named & lanes).any(axis=1))[:, None] & named
        late: Any = (needed & ~lanes).any(axis=1)
        if not late.any():
            if form.collective and mask is None:
                run.state.active = None
            try:
                return executed(run, group, item, execute)
            finally:
                run.state.active = lanes
        rank, rows = run.code.rank, len(threads.exists)
        run.counts[place] -= len(group.rows)
        threads.move(group.members, rank[place])
        threads.park(whole(group, lanes & late[:, None], rows), rank[place])
        return PARTED

    return step


def looking(execute: Step) -> Step:
    """Executes an instruction with which threads may wait in a loop for what others write
    (`isa.forms.synchronisation.sees_other_threads`); those that have done it LOOKS times let others go on."""

    def step(run: Run, group: Group, place: int) -> int:
        following = execute(run, group, place)
        run.looks += 1
        if run.looks < LOOKS or following < 0:
            return following
        run.looks = 0
        run.threads.move(group.members, run.code.rank[following])
        run.threads.give_way(group.rank)
        return PARTED

    return step


def awaiting(item: Operation, execute: Executor) -> Step:
    """mbarrier.test_wait and try_wait: threads whose phase is not complete let others go on at once, as they will look
    again. If all threads do nothing but look, they wait for ever."""

    def step(run: Run, group: Group, place: int) -> int:
        outcome, following = outcome_of(run, group, item, execute), item.index + 1
        if outcome.block is None:
            return following
        if run.state.arrivals != run.arrivals:
            run.arrivals, run.idle = run.state.arrivals, 0
            run.watching[:] = False
        run.watching |= group.members
        run.idle += 1
        others = run.threads.live & ~run.watching & (run.threads.at < AWAY)
        if run.idle > FRUITLESS and not others.any():
            row = int(group.rows[0])
            reason = f"deadlock: threads wait for {outcome.block.describe()}, and nothing else goes on"
            raise run.error(item, reason, "as many arrivals as a phase expects", row=row, rule="deadlock")
        run.threads.move(group.members, run.code.rank[following])
        run.threads.give_way(group.rank)
        return PARTED

    return step


def executed(run: Run, group: Group, item: Operation, execute: Executor) -> int:
    outcome_of(run, group, item, execute)
    return item.index + 1


def outcome_of(run: Run, group: Group, item: Operation, execute: Executor) -> Outcome:
    """Executes an instruction for a group, and tells those who look on."""
    if run.watch is not None:
        return _watched(run, group, item, execute, run.watch)
    outcome = execute(run.state, group.rows)
    if run.note is not None:
        run.note(item.index, group.rows, group.lanes, outcome)
    return outcome


def _watched(run: Run, group: Group, item: Operation, execute: Executor, watch: Watch) -> Outcome:
    lanes = taken(run, group, item.instruction.guard)
    watch.before(item, group.rows, lanes)
    outcome = execute(run.state, group.rows)
    watch.after(item, group.rows, lanes, outcome)
    return outcome


def barrier(item: Operation) -> Step:
    """bar and barrier: the threads wait, or (arrive) do not; a reduction counts the predicates that they give."""
    instruction, form = item.instruction, item.instruction.form
    reduces = is_reduction(form)
    operation = next((q for q in form.qualifiers if q in ("popc", "and", "or")), "")
    vote = predicate(instruction["c"]) if reduces else None
    write = writer(instruction["d"], 32 if operation == "popc" else 1) if reduces else None
    number, *rest = (reader(instruction[name]) for name in "ab" if name in instruction.by_role)
    aligned, waits = is_aligned(form), not is_arrival(form)

    def step(run: Run, group: Group, place: int) -> int:
        state, rows = run.state, len(run.threads.exists)
        lanes = taken(run, group, instruction.guard)
        if not lanes.any():
            return place + 1
        which, wanted = np.zeros(rows, np.int64), None
        first = lanes.argmax(axis=1)
        which[group.rows] = number(state, group.rows)[:, 0][np.arange(len(first)), first]
        if rest:
            wanted = np.zeros(rows, np.int64)
            wanted[group.rows] = rest[0](state, group.rows)[:, 0][np.arange(len(first)), first]
        members = whole(group, lanes, rows)
        if run.note is not None:
            run.note(place, group.rows, group.lanes, Outcome())
        if run.watch is not None:  # what it writes is there before a thread goes on
            run.watch.before(item, group.rows, lanes)
            run.watch.after(item, group.rows, lanes, Outcome())
        if vote is not None and write is not None:
            values = np.zeros_like(members)
            values[group.rows] = vote(state, group.rows)
            run.barriers.vote(members, which, values)
            run.pending.append(Reduction(members.copy(), operation, write))
        run.barriers.arrive(members, which, wanted, aligned=aligned, waits=waits)
        run.threads.move(group.members, run.code.rank[place + 1])
        if waits:
            run.threads.wait(members, run.code.rank[place + 1])
        run.release()
        return PARTED

    return step
