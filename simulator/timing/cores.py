"""Sub-cores and warps: who issues next, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import simpy

from isa.forms.record import Unit
from simulator.timing.events import At
from simulator.timing.model import StallReason, TimedCode, TimedOperation

if TYPE_CHECKING:
    from simulator.timing.engine import Sm


class Warp:
    """A warp's place in its program and what it waits for."""

    __slots__ = (
        "access",
        "arrived",
        "base",
        "blocked",
        "cause",
        "code",
        "complete",
        "core",
        "counts",
        "cta",
        "done",
        "gate",
        "gate_cause",
        "held",
        "id",
        "last",
        "moves",
        "operation",
        "pc",
        "pinned",
        "place",
        "producers",
        "ready",
        "runs",
        "sent",
        "starts",
        "turns",
        "wanted",
    )

    def __init__(self, number: int, code: TimedCode, registers: int, place: int, cta: int, core: int) -> None:
        self.id, self.code, self.place, self.cta, self.core = number, code, place, cta, core
        self.base = place * len(StallReason)  # where its cycles are counted
        self.pc = 0
        self.counts = [0] * len(code.ends)  # runs of each loop that are done
        self.runs: dict[int, int] = {}  # executions of operations whose time varies
        self.ready = [0] * registers  # when each register can be read
        self.producers = [Unit.TENSOR] * registers  # the unit that wrote it last
        self.pinned = [0] * registers  # when each register, read by an access to shared memory, can be overwritten
        self.sent = 0  # when all of them have been read
        self.access = 0  # when the next access to shared memory can issue
        self.starts = [0] * len(code.ends)  # when the current run of each loop could begin
        self.last = -1  # cycle of the last issue
        self.gate, self.gate_cause = (
            0,
            StallReason.ISSUE,
        )  # no issue before, because of a barrier, a loop's end or what is compiled
        self.held = 0  # compiled, too: no issue before, because of operands
        self.wanted, self.cause = 0, StallReason.DEPENDENCY  # when the operands of the next operation are ready
        self.blocked: StallReason | None = None  # what it waits for until somebody releases it: BARRIER or MBARRIER
        self.done = False
        self.operation: TimedOperation | None = None
        self.turns: dict[int, int] = {}  # executions of operations with several jobs, modulo their number
        self.complete = 0  # when all that the warp has queued at the tcgen05 unit is complete; what is not started does not count yet
        self.moves = [0, 0]  # when all its tcgen05.ld, and all its tcgen05.st, are complete
        self.arrived = False  # at the barrier of the cluster, in its current phase


class SubCore:
    """One of the SM's partitions: its warps, its pipes, its scheduler."""

    def __init__(self, sm: Sm, number: int, warps: list[Warp], policy: str) -> None:
        self.sm, self.number, self.warps, self.policy = sm, number, warps, policy
        self.free = [0] * len(Unit)  # when each unit takes its next instruction, by Unit
        self.until, self.dense = (
            0,
            False,
        )  # of the tensor pipe's last instruction: `result_until`, and whether it was dense
        self.reads = 0  # until when the last matrix instruction reads registers that integer instructions would read
        self.compares: list[tuple[int, Warp]] = []  # comparisons of loop counters that are to come
        self.carried = (
            0  # until when the port to shared memory carries values of stores, which matrix instructions wait for
        )
        self.last_issue = -1
        self.favourite = 0  # place of the warp that the policy remembers
        self.tick: At | None = None  # the next look at the warps

    def wake(self, at: int) -> None:
        """Looks again at cycle `at`, or earlier if that is planned already."""
        at = max(at, int(self.sm.env.now), self.last_issue + 1)
        if self.tick is not None and self.tick.at <= at:
            return
        self.tick = At(self.sm.env, at, self.number, self.step)

    def step(self, tick: simpy.Event) -> None:
        """Issues what can issue in this cycle and plans the next look."""
        if tick is not self.tick:
            return
        self.tick = None
        now = int(self.sm.env.now)
        chosen = self.choose(now)
        if chosen is not None:
            self.sm.issue(self, chosen, now)
        at = self.next_issue(now + 1)
        if at is not None:
            self.wake(at)
        self.sm.after_step()

    def next_issue(self, soonest: int) -> int | None:
        """The first cycle, from `soonest` on, in which a warp can issue; None if all wait for others."""
        found: int | None = None
        queues = self.sm.queues
        for warp in self.warps:
            if not (warp.done or warp.blocked or (queues is not None and queues.stalls(warp))):
                at = self.earliest(warp)
                if at <= soonest:
                    return soonest
                if found is None or at < found:
                    found = at
        return found

    def earliest(self, warp: Warp) -> int:
        """When the warp can issue, if nobody else does before."""
        operation = warp.operation
        assert operation is not None
        at = max(self.opens(operation), warp.wanted)
        return warp.gate if warp.gate > at else at

    def opens(self, operation: TimedOperation) -> int:
        """When the operation's unit can take it: results of the tensor pipe come out one after the other."""
        at = self.free[operation.unit]
        if operation.unit is Unit.TENSOR:
            return max(at + max(self.until - operation.result_from, 0), self.carried)
        return at

    def take(self, warp: Warp, operation: TimedOperation, now: int) -> None:
        """Occupies the tensor or the integer pipe."""
        unit, begin = operation.unit, now
        if unit is Unit.TENSOR:
            if self.dense and operation.sparse:
                begin = max(now, self.free[unit] + self.sm.config.pipe.sparse_after_dense)
            self.until, self.dense, self.reads = operation.result_until, not operation.sparse, now + operation.ports
        self.free[unit] = begin + operation.interval
        if unit is Unit.CONTROL and self.sm.config.sequences is not None:
            self.last_issue = now + self.sm.config.sequences.fetch
        elif unit is Unit.ALU or unit is Unit.FMA:
            if self.reads <= now < self.free[Unit.TENSOR] and len(operation.reads) > 2:
                self.free[Unit.TENSOR] += self.sm.config.pipe.three_registers
            self.free[unit] += self.collide(warp, now)
        if operation.compare:
            self.compares.append((now + operation.compare, warp))
        if self.compares:
            self.compares = [(at, other) for at, other in self.compares if at > now]
            if unit is Unit.TENSOR:
                for at, other in self.compares:
                    self.collide(other, at)

    def collide(self, warp: Warp, at: int, most: int = 1 << 30) -> int:
        """An instruction in cycle `at` finds its ports taken by a matrix instruction: warp and pipes lose the time
        until they are free, or `most`."""
        lost = max(min(self.reads - at, most), 0)
        warp.gate += lost
        self.free[Unit.TENSOR] += lost
        return lost

    def choose(self, now: int) -> Warp | None:
        """The warp to issue from: the policy's first among those that can."""
        if self.last_issue >= now:
            return None
        count, queues = len(self.warps), self.sm.queues
        first = 0 if self.policy == "oldest" else self.favourite
        if self.policy == "greedy-oldest":
            order = [first, *(i for i in range(count) if i != first)]
        else:
            order = [(first + i) % count for i in range(count)]
        for place in order:
            warp = self.warps[place]
            if (
                not (warp.done or warp.blocked or (queues is not None and queues.stalls(warp)))
                and self.earliest(warp) <= now
            ):
                self.favourite = (place + 1) % count if self.policy == "round-robin" else place
                return warp
        return None

    def state(self, now: int) -> tuple[object, ...]:
        """What decides this sub-core's future, relative to `now`."""
        remembered = 0 if self.policy == "oldest" else self.favourite
        tick = None if self.tick is None else self.tick.at - now
        oldest = min((warp.last for warp in self.warps if not (warp.done or warp.blocked)), default=now)
        pipe = (self.until, self.dense) if self.free[Unit.TENSOR] + self.sm.unlike > oldest else None
        free = (at - now if at + self.sm.unlike > oldest else None for at in self.free)
        coming = tuple((at - now, warp.id) for at, warp in self.compares if at > now)
        until = (max(self.reads - now, 0), max(self.carried - now, 0))
        return (tick, max(self.last_issue - now, -1), remembered, pipe, until, coming, *free)
