"""Executes a kernel for a batch of CTAs: all threads that stand at the same place at once, whatever their CTA.

An item is executed by the same function as in a trace (`simulator.execute.dispatch`). Control flow is here: branches
part threads and `simulator.simulation.launch.threads` brings them together again; barriers and instructions that name
threads of the warp wait for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from isa.errors import Error
from isa.forms.record import Time
from isa.forms.synchronisation import is_aligned
from isa.ptx.instruction import Guard, Immediate
from simulator.execute.cta_state import Executor, Outcome
from simulator.execute.dispatch import executor
from simulator.execute.launch_state import LaunchState
from simulator.execute.operands import place_of, reader
from simulator.program.kernel import Branch, Exit, Item, Kernel, Operation, Switch, Trap, Unsupported
from simulator.simulation.launch.barriers import LaunchBarriers
from simulator.simulation.launch.blame import blamed
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.threads import AWAY, Group, Threads, all_lanes
from simulator.simulation.launch.watch import Watch
from simulator.state.registers import WARP_SIZE, Lanes, Sort, Warps

BUDGET = 20_000_000_000  # warp instructions of a launch, unless told otherwise
Note = Callable[[int, Warps, "Lanes | None", Outcome], None]
Step = Callable[["Run", Group, int], int]  # executes an item for a group; gives the place of the next one, or PARTED
PARTED = -1
KNOWN = "the instructions of docs/kernels.md"
NOT_IN_LAUNCHES = ("tcgen05", "tmem", "mbarrier")  # tables of instructions whose state is that of a trace's CTA


class Code(NamedTuple):
    """A kernel as it is executed.

    Attributes:
        steps: by place, what executes the item.
        place_of: by rank, the place.
    """

    kernel: Kernel
    steps: list[Step]
    rank: tuple[int, ...]
    place_of: list[int]


def prepared(kernel: Kernel) -> Code:
    """A kernel whose items have become functions. What cannot be executed raises when it is reached."""
    places = [0] * len(kernel.items)
    for place, rank in enumerate(kernel.rank):
        places[rank] = place
    return Code(kernel, [_step(item) for item in kernel.items], kernel.rank, places)


class Run:
    """The execution of a kernel by one batch.

    Attributes:
        counts: by place, how often a warp has executed the item.
        budget: how many warp instructions are left until the launch is given up.
    """

    def __init__(
        self, code: Code, state: LaunchState, budget: int = BUDGET, note: Note | None = None, watch: Watch | None = None
    ) -> None:
        self.code, self.state, self.budget, self.note, self.watch = code, state, budget, note, watch
        registers: Any = state.registers
        everyone: Warps = registers.everyone
        self.threads = Threads(everyone, state.batch.exists, code.rank[0])
        self.barriers = LaunchBarriers(len(everyone), state.warps)
        self.counts = [0] * len(code.steps)

    def run(self) -> None:
        """Executes the kernel to its end.

        Raises:
            LaunchError: an instruction that is not executed, an address outside of memory, threads that wait for ever,
                a budget that is used up.
        """
        while True:
            group = self.threads.next()
            if group is not None:
                self._advance(group)
            elif not self._released():
                if self.threads.live.any():
                    self._stuck()
                return

    def _advance(self, group: Group) -> None:
        """Executes items until the group parts, waits, or comes to a place of other threads."""
        rank, steps, counts, state = self.code.rank, self.code.steps, self.counts, self.state
        place, rows, limit = self.code.place_of[group.rank], len(group.rows), group.limit
        left = min(self.budget // rows, group.quantum)
        allowed = left
        state.active = group.lanes
        try:
            while left > 0:
                counts[place] += rows
                left -= 1
                state.line = place
                following = steps[place](self, group, place)
                if following < 0:
                    return
                place = following
                if rank[place] >= limit:
                    break
            self.threads.move(group.members, rank[place])
        except LaunchError:
            raise
        except Error as error:
            state.active = group.lanes
            raise blamed(error, self.code.kernel, self.code.kernel.items[place], state, group) from error
        finally:
            state.active = None
            self.budget -= (allowed - left) * rows
            state.clock += allowed - left
        if self.budget < rows:
            self._endless(place)

    # Waiting

    def _released(self) -> bool:
        """Lets the threads go on whose barrier is complete; returns whether there are any."""
        free = self.barriers.released(self.threads.live)
        if not free.any():
            return False
        self.state.synchronise(np.flatnonzero(free.any(axis=1)))
        self.threads.release(free)
        return True

    def _stuck(self) -> NoReturn:
        """Raises the error of threads that wait for ever."""
        kernel, threads, state = self.code.kernel, self.threads, self.state
        row = int(np.flatnonzero(threads.live.any(axis=1))[0])
        cta = row // state.warps
        if threads.parked[row].any():
            lane = int(threads.parked[row].argmax())
            item = kernel.items[self.code.place_of[int(threads.back[row, lane])]]
            gone = WARP_SIZE - int(threads.live[row].sum())
            reason = (
                f"deadlock: {int(threads.parked[row].sum())} threads of warp {row % state.warps} wait at '{item.text}' "
                f"for others of their warp that never come there ({gone} have exited)"
            )
            legal = "all threads that the instruction names, or a warp whole, at the same instruction"
            raise self.error(item, reason, legal, row=row, rule="aligned-threads")
        lines = self.barriers.describe(cta)
        done = np.flatnonzero(~threads.live[cta * state.warps : (cta + 1) * state.warps].any(axis=1)).tolist()
        ended = f"; warps {', '.join(map(str, done))} have exited" if done else ""
        lane = int((self.barriers.waiting[row] > 0).argmax())
        item = kernel.items[self.code.place_of[int(threads.back[row, lane])] - 1]
        reason = f"deadlock: {'; '.join(lines)}{ended}"
        raise self.error(item, reason, "as many threads at a barrier as it waits for", row=row, rule="deadlock")

    def _endless(self, place: int) -> NoReturn:
        item = self.code.kernel.items[place]
        reason = f"the budget of warp instructions is used up here, at '{item.text}': a loop that does not end?"
        raise self.error(item, reason, "a larger budget, if the kernel is that long", rule="instruction-budget")

    def error(self, item: Item, reason: str, legal: str = "", *, row: int | None = None, rule: str = "") -> LaunchError:
        """The error of an item, with its line and the warp."""
        source = f"{item.source[0]}:{item.source[1]}" if item.source else ""
        thread = ""
        if row is not None:
            x, y, z = self.state.batch.cta_of(row)
            thread = f"CTA ({x}, {y}, {z}), warp {row % self.state.warps}"
        return LaunchError(reason, legal, line=item.line, source=source, thread=thread, rule=rule)


# Items as functions


def _step(item: Item) -> Step:
    match item:
        case Operation():
            return _operation(item)
        case Branch():
            return _branch(item)
        case Switch():
            return _switch(item)
        case Exit():
            return _exit(item)
        case Trap():
            return _stopping(item, "the kernel stops itself here: 'trap'", "")
        case Unsupported():
            return _stopping(item, item.reason, item.legal or KNOWN)


def taken(run: Run, group: Group, guard: Guard | None) -> Lanes:
    """bool [row of the group, lane]: its threads that a guard lets through."""
    lanes = all_lanes(len(group.rows)) if group.lanes is None else group.lanes
    if guard is None:
        return lanes
    values: Lanes = run.state.registers.read(group.rows, [place_of(guard.predicate.name).number], Sort.PREDICATE)[:, 0]
    return lanes & ~values if guard.negated else lanes & values


def _whole(group: Group, lanes: Lanes, rows: int) -> Lanes:
    """Threads of a group as threads of all rows."""
    if len(group.rows) == rows:
        return lanes
    spread = np.zeros((rows, WARP_SIZE), np.bool_)
    spread[group.rows] = lanes
    return spread


def _branch(item: Branch) -> Step:
    target, guard = item.target, item.guard
    if guard is None:
        return lambda run, group, place: target

    def step(run: Run, group: Group, place: int) -> int:
        lanes = taken(run, group, guard)
        if not lanes.any():
            return place + 1
        if lanes.all() if group.lanes is None else np.array_equal(lanes, group.lanes):
            return target
        going, threads = _whole(group, lanes, len(run.threads.exists)), run.threads
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
            threads.move(_whole(group, lanes & (index == number), rows), run.code.rank[item.targets[number]])
        return PARTED

    return step


def _exit(item: Exit) -> Step:
    def step(run: Run, group: Group, place: int) -> int:
        lanes = taken(run, group, item.guard)
        if not lanes.any():
            return place + 1
        leaving = _whole(group, lanes, len(run.threads.exists))
        if item.guard is not None:
            run.threads.move(group.members, run.code.rank[place + 1])
        run.threads.exit(leaving)
        run.threads.release(run.barriers.released(run.threads.live))
        return PARTED

    return step


def _stopping(item: Item, reason: str, legal: str) -> Step:
    def step(run: Run, group: Group, place: int) -> int:
        lanes = taken(run, group, item.guard)
        if not lanes.any():
            return place + 1
        raise run.error(item, reason, legal, row=int(group.rows[lanes.any(axis=1).argmax()]), rule="not-executable")

    return step


def _operation(item: Operation) -> Step:
    form = item.instruction.form
    if form.time is Time.BARRIER:
        return _barrier(item)
    if form.time.table in NOT_IN_LAUNCHES or form.time is Time.CLUSTER_BARRIER:
        return _stopping(item, f"'{form.opcode}' is executed in traces, but not in launches", KNOWN)
    try:
        execute = executor(item.instruction)
    except Error as error:
        return _stopping(item, error.reason, error.legal or KNOWN)
    return step_of(item, execute)


def step_of(item: Operation, execute: Executor) -> Step:
    """The function of an instruction that has this executor."""
    form = item.instruction.form
    if form.collective or "membermask" in {role.name for role in form.roles}:
        return _together(item, execute)

    def step(run: Run, group: Group, place: int) -> int:
        if run.watch is not None:
            return _watched(run, group, item, execute, run.watch)
        outcome = execute(run.state, group.rows)
        if run.note is not None:
            run.note(place, group.rows, group.lanes, outcome)
        return place + 1

    return step


def _watched(run: Run, group: Group, item: Operation, execute: Executor, watch: Watch) -> int:
    lanes = taken(run, group, item.instruction.guard)
    watch.before(item, group.rows, lanes)
    outcome = execute(run.state, group.rows)
    watch.after(item, group.rows, lanes, outcome)
    return item.index + 1


def _together(item: Operation, execute: Executor) -> Step:
    """An instruction of whole warps, or of the threads that its mask names: a warp waits until all are there."""
    instruction, form = item.instruction, item.instruction.form
    mask = instruction.by_role.get("membermask")
    read = reader(mask) if mask is not None else None
    every = isinstance(mask, Immediate) and mask.value & 0xFFFFFFFF == 0xFFFFFFFF

    def step(run: Run, group: Group, place: int) -> int:
        if group.lanes is None:
            return _executed(run, group, item, execute)
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
                return _executed(run, group, item, execute)
            finally:
                run.state.active = lanes
        rank, rows = run.code.rank, len(threads.exists)
        run.counts[place] -= len(group.rows)
        threads.move(group.members, rank[place])
        threads.park(_whole(group, lanes & late[:, None], rows), rank[place])
        return PARTED

    return step


def _executed(run: Run, group: Group, item: Operation, execute: Executor) -> int:
    if run.watch is not None:
        return _watched(run, group, item, execute, run.watch)
    outcome = execute(run.state, group.rows)
    if run.note is not None:
        run.note(item.index, group.rows, group.lanes, outcome)
    return item.index + 1


def _barrier(item: Operation) -> Step:
    """bar and barrier: the threads wait, or (arrive) do not."""
    instruction, form = item.instruction, item.instruction.form
    number, *rest = (reader(instruction[name]) for name in "ab" if name in instruction.by_role)
    aligned, waits = is_aligned(form), "arrive" not in form.opcode.split(".")

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
        members = _whole(group, lanes, rows)
        if run.note is not None:
            run.note(place, group.rows, group.lanes, Outcome())
        run.barriers.arrive(members, which, wanted, aligned=aligned, waits=waits)
        run.threads.move(group.members, run.code.rank[place + 1])
        if waits:
            run.threads.wait(members, run.code.rank[place + 1])
        free = run.barriers.released(run.threads.live)
        if free.any():
            state.synchronise(np.flatnonzero(free.any(axis=1)))
            run.threads.release(free)
        return PARTED

    return step
