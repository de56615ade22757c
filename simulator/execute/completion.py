"""When asynchronous operations of a launch complete: at issue, as late as PTX allows, or at moments that a seed draws.

An operation is handed over with what it does (`Effect`: it fetches its sources, then stores its results) and with what
it signals: a group of its threads, or an mbarrier. It stays pending until somebody has waited for that signal. Whoever
touches its bytes before that is named, whenever the operation's values come.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.execute.asynchronous import (
    COPY,
    KINDS,
    PRODUCT,
    WAITS,
    Effect,
    Key,
    Log,
    Machine,
    Mask,
    Pending,
    Signal,
    TensorCells,
    replaced,
)
from simulator.execute.policy import Policy
from simulator.execute.tensor_marks import TensorMarks
from simulator.state.mbarrier import Mbarrier
from simulator.state.registers import WARP_SIZE, Lanes, Sort, Warps
from simulator.state.watched import Places, WatchedShared

_EXPECT = "an expect_tx of its bytes before the phase ends"
_SPREAD = 64  # accesses within which an operation completes whose moment is drawn


@dataclass(eq=False)
class Completion:
    """The pending operations of a batch.

    Attributes:
        columns: the registers of 32 bits, by number.
        rows: warps of the batch.
        lines: by place, the line of the PTX.
        accumulators: numbers of the registers that the kernel's products read.
        batch: which batch it is, so that each draws other moments.
        log: is told what is written to shared memory.
    """

    policy: Policy
    machine: Machine
    shared: WatchedShared
    columns: list[NDArray[Any]]
    rows: int
    lines: Sequence[int]
    accumulators: Sequence[int] = ()
    batch: int = 0
    log: Log | None = None
    pending: dict[str, list[Pending]] = field(default_factory=dict)
    signals: dict[Key, list[Pending]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng((self.policy.seed, self.batch))
        self._count, self._time, self._next, self._busy = 0, 0, math.inf, False
        self._commits = {kind: np.zeros((self.rows, WARP_SIZE), np.int64) for kind in KINDS}
        self.late = self.policy.name != "issue"  # whether values may come at another time than issue
        self.tensor = TensorMarks(self)
        self._old = 0.0  # the share of accesses that see what is not fenced as it was
        self._by_number: dict[int, Pending] = {}
        sees_old = self.policy.name in ("earliest", "seed")  # others never show what is not fenced as it was
        held = self.accumulators if sees_old else ()
        self._held = {number: np.zeros_like(self.columns[number]) for number in held}
        self.shared.watcher = self

    # Operations begin

    def begin(
        self,
        kind: str,
        name: str,
        effect: Effect,
        rows: NDArray[np.intp],
        lanes: NDArray[np.intp],
        signal: Signal | None = None,
        *,
        commutes: bool = False,
        cells: Sequence[TensorCells] = (),
        covers: Sequence[Pending] | None = None,
        registers: Sequence[str] = (),
        generic: bool = False,
    ) -> None:
        """Takes over an operation of threads, [element, warp] and [element].

        Args:
            commutes: whether others may write the same bytes meanwhile (reductions).
            cells, covers, generic: as in `Pending`.
            registers: that it writes when it completes.
        """
        self.begins()
        self._count += 1
        groups = self._commits[kind][rows[:, 0], lanes]
        done, waited, fetched = (np.zeros(len(rows), np.bool_) for _ in range(3))
        op = Pending(
            self._count, self.machine.line, kind, name, effect, rows, lanes, groups, signal, self._drawn(), done,
            waited, fetched, cells=cells, covers=covers, generic=generic,
        )  # fmt: skip
        self.tensor.begin(op, registers)
        if effect.reads is not None:
            self.shared.touch_owed(effect.reads)
            self._unfenced(effect.reads)
        if effect.writes is not None and not commutes:
            self.shared.touch_owed(effect.writes)
            self.shared.touch_lent(effect.writes)
        if effect.writes is not None and self.log is not None:
            self.log.copied(effect.writes, rows[:, 0], self.machine.line)
        for marks, places in ((self.shared.lent, effect.reads), (self.shared.owed, effect.writes)):
            if places is not None:
                marks[places] = op.number
        self._by_number[op.number] = op
        if self.machine.order is not None:
            self.machine.order.begins(op)
        self.pending.setdefault(kind, []).append(op)
        if signal is not None:
            self.signals.setdefault(signal.key, []).append(op)
        if op.due <= self._time:
            self._complete(op, ~op.done)
        else:
            self._next = min(self._next, op.due)

    def _drawn(self) -> float:
        if self.policy.name != "seed":
            return math.inf if self.policy.name == "latest" else self._time
        later = self._time + int(self._random.integers(1, _SPREAD))
        return (float(self._time), math.inf, float(later))[int(self._random.integers(3))]

    def _unfenced(self, places: Places) -> None:
        stores = self.shared.stored[places]
        count = int((stores > 0).sum())
        if count:
            line = self.lines[int(stores[stores > 0][0]) - 1]
            what = f"{count} bytes that line {line} stored: missing fence.proxy.async between the store and the read"
            self.machine.note_undefined("async-unfenced", count, what)

    # Groups

    def commit(self, kind: str, rows: Warps, lanes: Lanes) -> None:
        """Threads [row, lane] of rows close their group."""
        self._commits[kind][rows] += lanes
        if kind == PRODUCT and self.machine.order is not None:
            self.machine.order.products_committed(rows[lanes.any(axis=1)])

    def wait(
        self, kind: str, rows: Warps, lanes: Lanes, left: int = 0, *, every: bool = False, reads: bool = False
    ) -> None:
        """Threads wait for all their groups but the last `left`.

        Args:
            every: whether what is in no group yet is waited for, too.
            reads: whether sources alone are waited for (.read).
        """
        self.begins()
        limit = np.full((self.rows, WARP_SIZE), -1, np.int64)
        last = self._commits[kind][rows] - left
        limit[rows] = np.where(lanes, np.iinfo(np.int64).max if every else last, -1)
        for op in list(self.pending.get(kind, ())):
            chosen = (op.groups[:, None] < limit[op.rows, op.lanes[:, None]]).any(axis=1) & ~op.waited
            if not chosen.any():
                continue
            if reads:
                self._fetch(op, chosen & ~op.fetched)
                self._unmark(op, chosen)
                self._tell(op, chosen)
            else:
                self._complete(op, chosen)
                self._retire(op, chosen)
        if kind == PRODUCT and self.machine.order is not None:
            self.machine.order.products_waited(rows[lanes.any(axis=1)], left)

    # mbarriers

    def looked_at(self, key: Key, barrier: Mbarrier, phase: int) -> None:
        """Called before a thread looks whether a phase is complete: completes what alone is lacking."""
        self.begins()
        found = [(op, op.signal) for op in self.signals.get(key, ()) if op.signal is not None and not op.done.all()]
        if not found or barrier.phase != phase:
            return
        if barrier.pending > sum(signal.arrivals for _, signal in found):
            return
        if barrier.transactions > sum(signal.bytes for _, signal in found):
            return
        for op, _ in found:
            if barrier.phase == phase:
                self._complete(op, ~op.done)

    def seen(self, key: Key, phase: int) -> None:
        """Called when a thread has seen that a phase is complete."""
        for op in list(self.signals.get(key, ())):
            if op.done.all() and op.ended <= phase:
                if op.signal is not None and op.signal.arrivals:
                    for copy, mine in self._before_arrival(op):
                        self._retire(copy, mine & copy.done & ~copy.waited, key, phase)
                self._retire(op, ~op.waited, key, phase)

    def _tell(self, op: Pending, chosen: Mask, key: Key | None = None, phase: int = 0) -> None:
        """Tells who follows the memory order that elements have been waited for: by their group, or by a phase."""
        order = self.machine.order
        if order is None or not chosen.any():
            return
        if key is None:
            order.waited(op, chosen)
        else:
            order.completed(op, chosen, key, phase)

    def _before_arrival(self, arrival: Pending) -> list[tuple[Pending, Mask]]:
        """What an arrival covers: the copies of the threads of cp.async.mbarrier.arrive that they began before it, or
        the operations of the thread of tcgen05.commit."""
        if arrival.covers is not None:
            return [(op, np.ones(len(op.done), np.bool_)) for op in arrival.covers]
        threads = np.zeros((self.rows, WARP_SIZE), np.bool_)
        threads[arrival.rows[:, 0], arrival.lanes] = True
        copies = [op for op in self.pending.get(COPY, ()) if op.number < arrival.number]
        return [(op, threads[op.rows[:, 0], op.lanes]) for op in copies]

    # Completion

    def finish(self) -> bool:
        """Completes everything; returns whether there was anything left."""
        left = [op for ops in self.pending.values() for op in ops if not op.done.all()]
        for op in sorted(left, key=lambda op: op.number):
            self._complete(op, ~op.done)
        return bool(left)

    def _fetch(self, op: Pending, chosen: Mask) -> None:
        if chosen.any():
            op.data = self._within(op, lambda: op.effect.fetch(chosen))
            op.fetched |= chosen

    def complete(self, op: Pending) -> None:
        """Lets an operation be complete now."""
        self._complete(op, ~op.done)

    def _complete(self, op: Pending, chosen: Mask) -> None:
        """Lets the values of elements come. Products of a warpgroup come in order."""
        chosen = chosen & ~op.done
        if not chosen.any():
            return
        op.done |= chosen
        for other in self.tensor.earlier(op, self.pending):
            self._complete(other, ~other.done)
        if op.kind == PRODUCT:
            leaders = op.rows[chosen, 0]
            for other in list(self.pending.get(PRODUCT, ())):
                if other.number < op.number and not other.done.all():
                    self._complete(other, np.isin(other.rows[:, 0], leaders))
        if op.signal is not None:
            if op.signal.arrivals:
                for copy, mine in self._before_arrival(op):
                    self._complete(copy, mine)
            op.ended = op.signal.barrier.phase
        self._fetch(op, chosen & ~op.fetched)
        data, op.data = op.data, None
        self._within(op, lambda: op.effect.store(chosen, data))

    def _within(self, op: Pending, act: Callable[[], Any]) -> Any:
        """Lets an operation act, as its instruction."""
        machine = self.machine
        before = machine.line, machine.active
        machine.line, machine.active = op.place, None
        if self.policy.name == "seed":  # all that is not fenced is old, some, or nothing
            self._old = (0.0, 0.5, 1.0)[int(self._random.integers(3))]
        try:
            with self.acting("copy" if op.kind == COPY or op.generic else "proxy"):
                return act()
        finally:
            machine.line, machine.active = before

    @contextmanager
    def acting(self, proxy: str) -> Iterator[None]:
        """While accesses to shared memory are those of an asynchronous operation, as `WatchedShared.asynchronous`."""
        before = self.shared.asynchronous, self._busy
        self.shared.asynchronous, self._busy = proxy, True
        try:
            yield
        finally:
            self.shared.asynchronous, self._busy = before

    def _unmark(self, op: Pending, chosen: Mask) -> None:
        for marks, places in ((self.shared.lent, op.effect.reads), (self.shared.owed, op.effect.writes)):
            if places is not None:
                mine = places[chosen].ravel()
                marks[mine[marks[mine] == op.number]] = 0

    def _retire(self, op: Pending, chosen: Mask, key: Key | None = None, phase: int = 0) -> None:
        """Forgets elements that have been waited for: by their group, or by a phase of an mbarrier."""
        if not chosen.any():
            return
        self._tell(op, chosen, key, phase)
        self._unmark(op, chosen)
        op.waited |= chosen
        if not op.waited.all():
            return
        self.tensor.unmark(op)
        self.pending[op.kind].remove(op)
        del self._by_number[op.number]
        if op.signal is not None:
            self.signals[op.signal.key].remove(op)

    # As a watcher of shared memory

    @property
    def place(self) -> int:
        """As in `Watcher`."""
        return self.machine.line

    def begins(self) -> None:
        """As in `Watcher`: time goes on, for operations whose moment is drawn."""
        if self._busy:
            return
        self._time += 1
        if self._time < self._next:
            return
        left = [op for ops in self.pending.values() for op in ops if not op.done.all()]
        for op in sorted(left, key=lambda op: op.due):
            if op.due <= self._time:
                self._complete(op, ~op.done)
        self._next = min((op.due for op in left if not op.done.all()), default=math.inf)

    def stored(self, places: Places, warps: Warps) -> None:
        """As in `Watcher`."""
        if self.log is not None:
            self.log.stored(places, warps, self.machine.line)

    def touched(self, numbers: NDArray[np.int32], what: str, units: str = "bytes") -> None:
        """As in `Watcher`: names the operation that nobody has waited for."""
        found, counts = np.unique(numbers[numbers > 0], return_counts=True)
        op, count = self._by_number[int(found[0])], int(counts[0])
        rule, missing = "async-pending", WAITS[op.kind]
        if op.signal is not None and self._unexpected(op, op.signal):
            rule, missing = "async-unexpected", _EXPECT
        where = f"{count} {units} that {op.name} of line {self.lines[op.place]} {what}: missing {missing}"
        self.machine.note_undefined(rule, count, where)

    def _unexpected(self, op: Pending, signal: Signal) -> bool:
        """Whether the mbarrier of a copy has been told of fewer bytes than come."""
        if op.done.all():
            return signal.barrier.phase == op.ended and signal.barrier.transactions < 0
        left = [other.signal for other in self.signals[signal.key] if not other.done.all()]
        return signal.barrier.transactions < sum(each.bytes for each in left if each is not None)

    def chosen_old(self, accesses: tuple[int, ...]) -> Mask:
        """As in `Watcher`."""
        if self.policy.name == "seed":
            return self._random.random(accesses) < self._old
        return np.full(accesses, self.policy.name == "earliest")

    # Registers of products

    def fenced(self, rows: Warps) -> None:
        """wgmma.fence: products see the registers of these warps as they are now."""
        for number, held in self._held.items():
            self._held[number] = replaced(held, self.columns[number], rows)

    def written(self, rows: Warps, numbers: Sequence[int]) -> None:
        """Products have written registers, which the next products see without a fence."""
        for number in numbers:
            if number in self._held:
                self._held[number] = replaced(self._held[number], self.columns[number], rows)

    def as_seen(self, read: Callable[[], Any]) -> Any:
        """What a product reads of its registers: as they are, or as they were at the last wgmma.fence."""
        if not bool(self.chosen_old((1,))[0]):
            return read()
        columns = self.columns
        now = {number: columns[number] for number in self._held}
        try:
            for number, held in self._held.items():
                columns[number] = held
            return read()
        finally:
            for number, column in now.items():
                columns[number] = column


def completion_of(
    machine: Any, batch: int, policy: Policy, lines: Sequence[int], accumulators: Sequence[int]
) -> Completion:
    """The completion of the operations of a batch, whose shared memory is a `WatchedShared`."""
    registers = machine.registers
    return Completion(
        policy, machine, machine.shared, registers.columns[Sort.WORD], registers.rows, lines, accumulators, batch
    )
