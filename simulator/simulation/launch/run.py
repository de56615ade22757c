"""The execution of a kernel by one batch of CTAs: which threads stand where, who waits for whom, and how it ends.

Its items are functions, which `simulator.simulation.launch.interpreter` makes. Branches part threads, and
`simulator.simulation.launch.threads` brings them together again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from isa.errors import Error
from isa.ptx.instruction import Guard
from simulator.execute.cta_state import Executor, Outcome
from simulator.execute.launch_state import LaunchState
from simulator.execute.operands import Writer, place_of
from simulator.execute.pending import PendingWait
from simulator.program.kernel import Exit, Item, Kernel
from simulator.simulation.launch.barriers import ClusterBarriers, LaunchBarriers
from simulator.simulation.launch.blame import blamed, source_of
from simulator.simulation.launch.deadlock import deadlock
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.mbarrier_use import Uses
from simulator.simulation.launch.spinning import ROUND, Spinning
from simulator.simulation.launch.threads import PATIENT, Group, Threads, all_lanes
from simulator.simulation.launch.watch import Watch
from simulator.state.columns import LaunchShared
from simulator.state.registers import WARP_SIZE, Lanes, Sort, Warps

BUDGET = 20_000_000_000  # warp instructions of a launch, unless told otherwise
Note = Callable[[int, Warps, "Lanes | None", Outcome], None]
Step = Callable[["Run", Group, int], int]  # executes an item for a group; gives the place of the next one, or PARTED
PARTED = -1
KNOWN = "the instructions of docs/kernels.md"


class Code(NamedTuple):
    """A kernel as it is executed.

    Attributes:
        steps: by place, what executes the item.
        place_of: by rank, the place.
        meets: by place, what executes an instruction for threads of a warp that have met there.
        kinds: a number for each opcode (or place) at which threads of a warp wait for others.
    """

    kernel: Kernel
    steps: list[Step]
    rank: tuple[int, ...]
    place_of: list[int]
    meets: dict[int, Executor]
    kinds: dict[str | int, int]


@dataclass(eq=False)
class Reduction:
    """Threads that wait for the result of a bar.red: which (bool [row, lane]), of what, and how it is written."""

    members: Lanes
    operation: str
    write: Writer


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
        size = int(np.prod(state.batch.geometry.cluster))
        self.cluster = ClusterBarriers(len(everyone), state.warps * size)
        self.counts = [0] * len(code.steps)
        if state.clustered and isinstance(state.shared, LaunchShared):
            self._exits = [code.rank[i.index] for i in code.kernel.items if isinstance(i, Exit) and i.guard is None]
            state.shared.ended = self._ended
        self.pending: list[Reduction] = []
        self.blocked: list[tuple[PendingWait, Warps]] = []  # warps that an instruction keeps waiting, and for what
        self.arrivals, self.idle = 0, 0  # of threads at mbarriers; looks at these since the last
        self.watching: Lanes = np.zeros_like(self.threads.exists)  # threads that have looked in vain since
        self.printed = ""  # by printf
        self.gathered: dict[int, Lanes] = {}  # by place, threads that wait there for others of their warpgroup
        self.follows = state.wants_accesses  # whether listeners follow barriers
        self.spinning = Spinning(registers.columns, self.threads)
        self.uses: Uses | None = None  # who follows barriers for a check
        self.looks = 0  # how often threads have looked for what others write, since these had a turn

    def run(self) -> None:
        """Executes the kernel to its end.

        Raises:
            LaunchError: an instruction that is not executed, an address outside of memory, threads that wait for ever,
                a budget that is used up.
        """
        while True:
            if self.blocked:
                self._unblock()
            group = self.threads.next()
            if group is not None:
                self._advance(group)
                if self.spinning.suspected:
                    self._look_for_rounds(group)
            elif not self.release():
                if self.threads.live.any():
                    self.stuck()
                if self.state.completion is not None:
                    self.state.completion.finish()
                if self.uses is not None:
                    self.uses.ends(stuck=False)
                self._note_leaks()
                return

    def _advance(self, group: Group) -> None:
        """Executes items until the group parts, waits, or comes to a place of other threads."""
        rank, steps, counts, state = self.code.rank, self.code.steps, self.counts, self.state
        place, rows, limit = self.code.place_of[group.rank], len(group.rows), group.limit
        left = min(self.budget // rows, group.quantum, ROUND if self.spinning.suspected else PATIENT)
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
            if left == 0:
                self.threads.give_way(rank[place])
                self.spinning.tired()
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

    def _note_leaks(self) -> None:
        """Notes the allocations of Tensor Memory that have outlived their CTA."""
        for cta, allocation in self.state.leaked():
            where = f"{allocation.columns} columns at {allocation.base}{cta.shared_name}"
            self.state.note_undefined("tmem-leak", 1, where)

    # Waiting

    def block(self, wait: PendingWait, rows: Warps, rank: int) -> None:
        """Lets warps wait until an instruction that they have come to is done, and go on at this rank then."""
        still = rows if wait.waiting is None else np.array(wait.waiting(), np.intp)
        self.threads.wait(self._of_rows(still), rank)
        self.blocked.append((wait, still))

    def _unblock(self) -> None:
        """Lets those warps go on whose instruction is done now."""
        for index, (wait, rows) in reversed(list(enumerate(self.blocked))):
            try:
                over = wait.ready()
            except Error as error:
                item = self._waiting_item(int(rows[0]))
                raise self.error(item, error.reason, error.legal, row=int(rows[0]), rule=error.rule) from error
            still = rows[:0] if over else rows if wait.waiting is None else np.array(wait.waiting(), np.intp)
            self.threads.release(self._of_rows(np.setdiff1d(rows, still)))
            self.blocked[index] = wait, still
            if over:
                wait.finish()
                del self.blocked[index]

    def _waiting_item(self, row: int) -> Item:
        """The instruction at which a warp waits, behind which it goes on."""
        lane = int(self.threads.live[row].argmax())
        return self.code.kernel.items[self.code.place_of[int(self.threads.back[row, lane])] - 1]

    def _of_rows(self, rows: Warps) -> Lanes:
        """bool [row, lane]: the threads of some rows that have not exited."""
        members = np.zeros_like(self.threads.exists)
        members[rows] = self.threads.live[rows]
        return members

    def release(self) -> bool:
        """Lets the threads go on whose barrier is complete; returns whether there are any."""
        at_clusters = self._release_clusters()
        followed = self.follows or self.barriers.handed or self.state.order is not None
        waiting = self.barriers.waiting.copy() if followed else None
        turns = self.barriers.turns.copy() if self.uses is not None else None
        free = self.barriers.released(self.threads.live)
        if self.uses is not None and turns is not None:
            for cta, number in np.argwhere(self.barriers.turns != turns).tolist():
                self.uses.barriers.completes(cta, number)
        if not free.any():
            return at_clusters
        if waiting is not None:
            self._leave(free, waiting - 1)
        self.state.synchronise(np.flatnonzero(free.any(axis=1)))
        for pending in list(self.pending):
            self._deliver(pending, free & pending.members)
        self.threads.release(free)
        return True

    def _leave(self, free: Lanes, numbers: NDArray[Any]) -> None:
        """Lets threads leave the barriers `numbers` [row, lane]: they see what those had done that arrived at them and
        did not wait (bar.arrive), and listeners are told."""
        for key, clocks in list(self.barriers.handed.items()):
            cta, number = key
            own = slice(cta * self.state.warps, (cta + 1) * self.state.warps)
            rows = np.flatnonzero((free[own] & (numbers[own] == number)).any(axis=1))
            for row in rows.tolist():
                self.state.acquire(own.start + row, clocks)
            if len(rows):
                del self.barriers.handed[key]
        if self.follows:
            self._tell_barrier(free, numbers, leaves=True)
        order = self.state.order
        if order is not None:
            for use, rows, lanes in self._by_barrier(free, numbers):
                order.leaves(use, rows, lanes)

    def _by_barrier(self, threads: Lanes, numbers: NDArray[Any]) -> Iterator[tuple[Hashable, Warps, Lanes]]:
        """Threads, bool [row, lane], by the barrier of their CTA that `numbers` [row, lane] name: a key of the barrier,
        the rows, and bool [one of these, lane]."""
        row, lane = np.nonzero(threads)
        named = np.unique(np.stack([row // self.state.warps, numbers[row, lane]]), axis=1)
        for cta, number in named.T.tolist():
            own = slice(cta * self.state.warps, (cta + 1) * self.state.warps)
            lanes = threads[own] & (numbers[own] == number)
            some = np.flatnonzero(lanes.any(axis=1))
            yield ("barrier", cta, number), some + own.start, lanes[some]

    def arrive_only(self, members: Lanes, number: NDArray[Any]) -> None:
        """Notes, where races are looked for, what threads had done that arrive at a barrier and do not wait there."""
        for row in np.flatnonzero(members.any(axis=1)).tolist() if self.state.completion is not None else ():
            key = row // self.state.warps, int(number[row])
            self.barriers.handed.setdefault(key, []).extend(self.state.release(row))

    def _tell_barrier(self, threads: Lanes, numbers: NDArray[Any], *, leaves: bool) -> None:
        """Tells listeners that threads [row, lane] arrive at the barriers `numbers` [row, lane], or leave them."""
        for row in np.flatnonzero(threads.any(axis=1)).tolist():
            cta = row // self.state.warps
            for number in np.unique(numbers[row][threads[row]]).tolist():
                turn = int(self.barriers.turns[cta, number]) - leaves
                self._tell(row, ("bar", cta, number, turn), leaves=leaves)

    def _tell(self, row: int, phase: tuple[Hashable, ...], *, leaves: bool) -> None:
        for listener in self.state.listeners:
            listener.at_barrier(self.state.line, row, phase, leaves=leaves)

    def tell_arrival(self, members: Lanes, number: NDArray[Any]) -> None:
        """Tells listeners that threads arrive at the barrier of their row's number, int [row]."""
        numbers = np.broadcast_to(number[:, None], members.shape)
        if self.follows:
            self._tell_barrier(members, numbers, leaves=False)
        order = self.state.order
        if order is not None:
            for key, rows, lanes in self._by_barrier(members, numbers):
                order.arrives(key, rows, lanes)

    def _release_clusters(self) -> bool:
        """Lets the threads go on that wait at a cluster's barrier whose phase is complete; whether there are any."""
        if not self.cluster.waiting.any():
            return False
        self.cluster.complete(self.threads.live)
        free = self.pass_clusters(self.cluster.waiting.copy())
        if free.any():
            self.threads.release(free)
        return bool(free.any())

    def arrive_at_clusters(self, members: Lanes, *, orders: bool = True) -> Lanes:
        """Lets threads arrive at the barrier of their cluster; returns those that have arrived already.

        Args:
            orders: whether the arrival releases what they did before it: not with .relaxed, where a fence does.
        """
        again = self.cluster.arrive(members)
        for row in np.flatnonzero(members.any(axis=1)).tolist() if self.follows else ():
            self._tell(row, ("cluster", row // self.cluster.each, int(self.cluster.since[row].max())), leaves=False)
        for row in np.flatnonzero(members.any(axis=1)).tolist() if self.state.completion is not None else ():
            key = row // self.state.warps, int(self.cluster.since[row].max())
            self.cluster.released.setdefault(key, []).extend(self.state.release(row))
        if self.state.order is not None:
            for use, rows in self._by_cluster(members, self.cluster.since):
                self.state.order.arrives(use, rows, members[rows], orders=orders)
        return again

    def _by_cluster(self, threads: Lanes, since: NDArray[np.int32]) -> Iterator[tuple[Hashable, Warps]]:
        """Threads, bool [row, lane], by the phase `since` of their cluster's barrier in which they have arrived."""
        row, lane = np.nonzero(threads)
        named = np.unique(np.stack([row // self.cluster.each, since[row, lane]]), axis=1)
        for cluster, phase in named.T.tolist():
            yield ("cluster", cluster, phase), np.unique(row[row // self.cluster.each == cluster])

    def pass_clusters(self, threads: Lanes) -> Lanes:
        """Those of some threads that the barrier of their cluster lets go; they see what others of their CTA had done
        when they arrived."""
        since = self.cluster.since
        free = self.cluster.passing(threads)
        if self.state.order is not None:
            for use, rows in self._by_cluster(free, since):
                self.state.order.leaves(use, rows, free[rows], last=False)
        for row in np.flatnonzero(free.any(axis=1)).tolist() if self.follows else ():
            self._tell(row, ("cluster", row // self.cluster.each, int(since[row][free[row]].max())), leaves=True)
        for row in np.flatnonzero(free.any(axis=1)).tolist() if self.state.completion is not None else ():
            key = row // self.state.warps, int(since[row][free[row]].max())
            self.state.acquire(row, self.cluster.released.get(key, []))
        return free

    def _ended(self) -> Lanes:
        """bool [CTA]: those of which no thread is left, or none that does more than exit."""
        over = np.logical_or(~self.threads.live, np.isin(self.threads.at, self._exits))
        ended: Lanes = np.logical_and.reduce(over.reshape(-1, self.state.warps * WARP_SIZE), axis=1)
        return ended

    def _deliver(self, pending: Reduction, threads: Lanes) -> None:
        """Writes the result of bar.red into the threads that its barrier has let go."""
        rows: Warps = np.flatnonzero(threads.any(axis=1))
        if not len(rows):
            return
        given, true = np.moveaxis(self.barriers.tally[rows], -1, 0)
        value = {"popc": true, "and": true == given, "or": true > 0}[pending.operation]
        before, self.state.active = self.state.active, threads[rows]
        pending.write(self.state, rows, value[:, None])
        self.state.active = before
        pending.members &= ~threads
        if not pending.members.any():
            self.pending.remove(pending)

    def stuck(self) -> NoReturn:
        """Raises the error of threads that wait for ever."""
        if self.uses is not None:
            self.uses.ends(stuck=True)
        raise deadlock(self)

    def _look_for_rounds(self, group: Group) -> None:
        """Gives up if all threads look in vain, round after round, where nobody has written for long."""
        if not self.spinning.ran(group.rows, group.members):
            return
        completion = self.state.completion
        if completion is not None and completion.finish():
            self.spinning.changed()
            return
        self.stuck()

    def _endless(self, place: int) -> NoReturn:
        item = self.code.kernel.items[place]
        reason = f"the budget of warp instructions is used up here, at '{item.text}': a loop that does not end?"
        raise self.error(item, reason, "a larger budget, if the kernel is that long", rule="instruction-budget")

    def error(self, item: Item, reason: str, legal: str = "", *, row: int | None = None, rule: str = "") -> LaunchError:
        """The error of an item, with its line and the warp."""
        thread = ""
        if row is not None:
            x, y, z = self.state.batch.cta_of(row)
            thread = f"CTA ({x}, {y}, {z}), warp {row % self.state.warps}"
        return LaunchError(reason, legal, line=item.line, source=source_of(item), thread=thread, rule=rule)


def taken(run: Run, group: Group, guard: Guard | None) -> Lanes:
    """bool [row of the group, lane]: its threads that a guard lets through."""
    lanes = all_lanes(len(group.rows)) if group.lanes is None else group.lanes
    if guard is None:
        return lanes
    values: Lanes = run.state.registers.read(group.rows, [place_of(guard.predicate.name).number], Sort.PREDICATE)[:, 0]
    return lanes & ~values if guard.negated else lanes & values


def whole(group: Group, lanes: Lanes, rows: int) -> Lanes:
    """Threads of a group as threads of all rows."""
    if len(group.rows) == rows:
        return lanes
    spread = np.zeros((rows, WARP_SIZE), np.bool_)
    spread[group.rows] = lanes
    return spread
