"""An SM in SimPy: sub-cores issue, units take time, warps wait. Integer cycles; events, never ticks.

A sub-core has one pending event: the next cycle in which one of its warps can issue. It issues at most one instruction a cycle, from the warp
that its policy puts first among those whose operands are ready and whose unit is free; warps issue in order. The result of an instruction
is ready `latency` cycles after issue, its unit free after `interval`; shared memory is one server of the SM behind a port of each sub-core,
in order of issue, sub-core by sub-core within a cycle (the priority of the events sees to that, so that a run depends on nothing but its
inputs).

Dependencies are exact: read-after-write on every register, write-after-write by the order of completion. Write-after-read needs no wait:
operands are read at issue, and every result comes later than that.
"""

from __future__ import annotations

from dataclasses import dataclass

import simpy

from simulator.errors import DeadlockError
from simulator.execute.barrier import Barriers
from simulator.timing.config import Config
from simulator.timing.model import TimedCode, TimedLoop, TimedOperation, Unit, Wait

_WAITS = len(Wait)
_PRODUCER = {Unit.TENSOR: Wait.DEPENDENCY, Unit.ALU: Wait.DEPENDENCY, Unit.SHARED: Wait.SHARED, Unit.BARRIER: Wait.BARRIER}
_PIPE = {Unit.TENSOR: Wait.TENSOR, Unit.ALU: Wait.ALU, Unit.SHARED: Wait.SHARED, Unit.BARRIER: Wait.ISSUE}
_FIXED = (Unit.TENSOR, Unit.ALU)  # units whose latency the compiler knows


@dataclass(frozen=True)
class Timing:
    """What a run took.

    Attributes:
        cycles: from 0 until every result is there.
        waits: for each warp with a program, by `Wait`, its cycles; each row sums to `cycles`.
        issued: instructions issued by each sub-core.
        busy: for each sub-core, by unit (tensor, alu), cycles for which the unit was taken.
        shared_busy: cycles for which shared memory was taken.
        skipped: cycles that were not simulated one by one, since the state of the SM repeated.
    """

    cycles: int
    waits: dict[int, list[int]]
    issued: list[int]
    busy: list[list[int]]
    shared_busy: int
    skipped: int


class Tick(simpy.Event):
    """A sub-core's next look at its warps; events of a cycle happen in the order of the sub-cores."""

    def __init__(self, env: simpy.Environment, delay: int, priority: int) -> None:
        super().__init__(env)
        self._ok, self._value = True, None
        self.at = int(env.now) + delay
        env.schedule(self, priority=priority, delay=delay)  # type: ignore[arg-type]


class Warp:
    """A warp's place in its program and what it waits for."""

    __slots__ = (
        "base", "blocked", "cause", "code", "counts", "done", "gate", "gate_cause", "id", "last", "operation", "pc", "producers", "ready", "runs",
        "starts", "wanted",
    )  # fmt: skip

    def __init__(self, number: int, code: TimedCode, registers: int, base: int) -> None:
        self.id, self.code, self.base = number, code, base
        self.pc = 0
        self.counts = [0] * len(code.ends)  # runs of each loop that are done
        self.runs: dict[int, int] = {}  # executions of operations whose time varies
        self.ready = [0] * registers  # when each register can be read
        self.producers = [Unit.TENSOR] * registers  # the unit that wrote it last
        self.starts = [0] * len(code.ends)  # when the current run of each loop could begin
        self.last = -1  # cycle of the last issue
        self.gate, self.gate_cause = 0, Wait.ISSUE  # no issue before, because of a barrier or a loop's end
        self.wanted, self.cause = 0, Wait.DEPENDENCY  # when the operands of the next operation are ready
        self.blocked = self.done = False
        self.operation: TimedOperation | None = None


class SubCore:
    """One of the SM's partitions: its warps, its pipes, its scheduler."""

    def __init__(self, sm: Sm, number: int, warps: list[Warp], policy: str) -> None:
        self.sm, self.number, self.warps, self.policy = sm, number, warps, policy
        self.free = [0, 0, 0, 0]  # when each unit takes its next instruction, by Unit
        self.last_issue = -1
        self.favourite = 0  # place of the warp that the policy remembers
        self.tick: Tick | None = None

    def wake(self, at: int) -> None:
        """Looks again at cycle `at`, or earlier if that is planned already."""
        now = int(self.sm.env.now)
        at = max(at, now, self.last_issue + 1)
        if self.tick is not None and self.tick.at <= at:
            return
        self.tick = Tick(self.sm.env, at - now, self.number)
        assert self.tick.callbacks is not None
        self.tick.callbacks.append(self.step)

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
        for warp in self.warps:
            if not (warp.done or warp.blocked):
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
        at = self.free[operation.unit]
        at = max(at, warp.wanted)
        return warp.gate if warp.gate > at else at

    def choose(self, now: int) -> Warp | None:
        """The warp to issue from: the policy's first among those that can."""
        if self.last_issue == now:
            return None
        count = len(self.warps)
        first = 0 if self.policy == "oldest" else self.favourite
        if self.policy == "greedy-oldest":
            order = [first, *(i for i in range(count) if i != first)]
        else:
            order = [(first + i) % count for i in range(count)]
        for place in order:
            warp = self.warps[place]
            if not (warp.done or warp.blocked) and self.earliest(warp) <= now:
                self.favourite = (place + 1) % count if self.policy == "round-robin" else place
                return warp
        return None

    def state(self, now: int) -> tuple[object, ...]:
        """What decides this sub-core's future, relative to `now`."""
        remembered = 0 if self.policy == "oldest" else self.favourite
        tick = None if self.tick is None else self.tick.at - now
        oldest = min((warp.last for warp in self.warps if not warp.done), default=now)
        return (tick, max(self.last_issue - now, -1), remembered, *(at - now if at > oldest else None for at in self.free))


class Sm:
    """One SM running one CTA."""

    def __init__(self, config: Config, codes: list[TimedCode], warps: int, registers: int, *, skip: bool = True) -> None:
        self.env = simpy.Environment()
        self.done = self.env.event()
        self.config, self.skip = config, skip
        programs = {warp: code for code in codes for warp in code.warps if code.items}
        self.warps = [Warp(number, code, registers, place * _WAITS) for place, (number, code) in enumerate(sorted(programs.items()))]
        cores = config.sm.sub_cores
        self.cores = [SubCore(self, i, [w for w in self.warps if w.id % cores == i], config.issue.policy) for i in range(cores)]
        self.barriers = Barriers(warps)
        self.shared_free = self.barrier_free = 0  # when these servers take the next access or arrival
        alu = config.alu
        self.extra = [[0] * len(Unit) for _ in Unit]  # [consumer][producer]: cycles beyond the producer's latency
        self.extra[Unit.TENSOR][Unit.ALU] = alu.tensor_latency - alu.latency
        self.extra[Unit.SHARED][Unit.ALU] = alu.address_latency - alu.latency
        self.margin = max(max(row) for row in self.extra)
        self.unfinished = len(self.warps)
        self.end = 0
        # Everything that is counted, in one list, so that a skipped period can be added n times: waits of each warp by Wait, then for
        # each sub-core instructions issued, tensor and integer cycles, then shared-memory cycles.
        self.counted = [0] * (len(self.warps) * _WAITS + cores * 3 + 1)
        self.boundary: tuple[Warp, TimedLoop] | None = None
        self.skipper = Skipper(self)

    def run(self) -> Timing:
        """Runs to the end.

        Raises:
            DeadlockError: warps are unfinished and nothing is left to happen.
        """
        for warp in self.warps:
            self.prepare(warp)
        for core in self.cores:
            if core.warps:
                core.wake(0)
        if self.warps:
            try:
                self.env.run(until=self.done)
            except RuntimeError as error:
                if self.done.triggered:
                    raise
                raise DeadlockError((*self.barriers.describe(), f"{self.unfinished} of {len(self.warps)} warps are unfinished")) from error
        return self.result()

    def result(self) -> Timing:
        cycles = self.end + self.skipper.skipped
        cores = len(self.cores)
        waits = {}
        for warp in self.warps:
            row = self.counted[warp.base : warp.base + _WAITS]
            row[Wait.FINISHED] = cycles - sum(row)
            waits[warp.id] = row
        rest = self.counted[len(self.warps) * _WAITS :]
        return Timing(cycles, waits, rest[:cores], [[rest[cores + i], rest[2 * cores + i]] for i in range(cores)], rest[-1], self.skipper.skipped)

    def prepare(self, warp: Warp) -> None:
        """Works out when the operands of the warp's next operation are ready, and for which of them it waits."""
        operation = warp.code.items[warp.pc]
        assert isinstance(operation, TimedOperation)
        warp.operation = operation
        wanted, producer, ready, extra = 0, Unit.TENSOR, warp.ready, self.extra[operation.unit]
        for register in operation.reads:
            at = ready[register] + extra[warp.producers[register]]
            if at > wanted:
                wanted, producer = at, warp.producers[register]
        for register in operation.writes:
            at = ready[register] - operation.latency + 1
            if at > wanted:
                wanted, producer = at, warp.producers[register]
        warp.wanted, warp.cause = wanted, _PRODUCER[producer]

    def issue(self, core: SubCore, warp: Warp, now: int) -> None:
        """Issues the warp's next operation in this cycle."""
        operation = warp.operation
        assert operation is not None
        self.account(core, warp, operation, now)
        core.last_issue = warp.last = now
        self.counted[len(self.warps) * _WAITS + core.number] += 1
        finished = now + self.start(core, warp, operation, now)
        self.end = max(self.end, finished)
        self.advance(warp, now)

    def account(self, core: SubCore, warp: Warp, operation: TimedOperation, now: int) -> None:
        """Says where the warp's cycles since its last issue went: its gate, then its operands, then its unit, then the scheduler."""
        counted, base, at = self.counted, warp.base, warp.last + 1
        for until, cause in (
            (warp.gate, warp.gate_cause),
            (warp.wanted, warp.cause),
            (core.free[operation.unit], _PIPE[operation.unit]),
            (now, Wait.ISSUE),
        ):
            if until > at:
                counted[base + cause] += until - at
                at = until
        counted[base + Wait.ISSUED] += 1

    def start(self, core: SubCore, warp: Warp, operation: TimedOperation, now: int) -> int:
        """Occupies the unit and marks the results; returns the cycles until all of it is done."""
        counted, cores = self.counted, len(self.cores)
        base = len(self.warps) * _WAITS
        unit, latency = operation.unit, operation.latency
        if unit is Unit.BARRIER:
            self.arrive(warp, operation, now)
            return 1
        if unit is Unit.SHARED:
            latency = self.serve(core, warp, operation, now)
        else:
            core.free[unit] = now + operation.interval
            counted[base + cores * (1 + unit) + core.number] += operation.interval
            if operation.blocking:
                warp.gate, warp.gate_cause = now + latency, Wait.DEPENDENCY
        for register in operation.writes:
            warp.ready[register] = now + latency
            warp.producers[register] = unit
        return latency

    def serve(self, core: SubCore, warp: Warp, operation: TimedOperation, now: int) -> int:
        """Queues an access to shared memory; returns the cycles until its value is there, or until a store is done."""
        shared = self.config.shared
        wavefronts = self.wavefronts(warp, operation)
        begin = max(now, self.shared_free)
        self.shared_free = begin + wavefronts * shared.cycles
        self.counted[-1] += wavefronts * shared.cycles
        core.free[Unit.SHARED] = max(now + max(shared.port_minimum, wavefronts * shared.port_cycles), begin)
        if not operation.writes:
            return self.shared_free - now
        return begin - now + operation.latency + shared.wavefront_latency * (wavefronts - 1)

    def wavefronts(self, warp: Warp, operation: TimedOperation) -> int:
        assert operation.costs is not None
        assert operation.column is not None
        run = 0
        if len(operation.costs) > 1:
            run = warp.runs.get(warp.pc, 0)
            warp.runs[warp.pc] = run + 1
        return operation.costs[run][operation.column[warp.id]]

    def arrive(self, warp: Warp, operation: TimedOperation, now: int) -> None:
        assert operation.barrier is not None
        warp.blocked = True
        self.barrier_free = max(now, self.barrier_free) + self.config.barrier.arrival
        for released in self.barriers.arrive(*operation.barrier, [warp.id]):
            for other in self.warps:
                if other.id in released:
                    other.blocked, other.gate, other.gate_cause = False, max(other.gate, self.barrier_free + operation.latency), Wait.BARRIER
                    self.cores[other.id % len(self.cores)].wake(other.gate)

    def advance(self, warp: Warp, now: int) -> None:
        """Moves on to the next operation, through the ends of loops."""
        items, pc = warp.code.items, warp.pc + 1
        if not warp.blocked and warp.gate <= now:
            warp.gate = 0
        while pc < len(items) and isinstance(item := items[pc], TimedLoop):
            self.branch(warp, item.loop, now)
            warp.counts[item.loop] += 1
            if warp.counts[item.loop] < item.count:
                pc = item.start
                if self.skip and warp is self.reference() and item.constant:
                    self.boundary = (warp, item)
            else:
                warp.counts[item.loop] = 0
                pc += 1
        warp.pc = pc
        if pc < len(items):
            self.prepare(warp)
            return
        warp.done = True
        self.unfinished -= 1
        if not self.unfinished:
            self.done.succeed()

    def branch(self, warp: Warp, loop: int, now: int) -> None:
        """The end of a loop's body: no issue before the counter, the comparison and the branch are done."""
        rule = self.config.loop
        at = now + 1
        if rule.drain:
            at = max(at, max((r for r, producer in zip(warp.ready, warp.producers, strict=True) if producer in _FIXED), default=0))
        at = max(at + rule.cycles, warp.starts[loop] + rule.minimum)
        if at > warp.gate:
            warp.gate, warp.gate_cause = at, Wait.BRANCH
        warp.starts[loop] = warp.gate

    def reference(self) -> Warp | None:
        """The warp at whose loop ends the state is compared: the first that is not finished."""
        return next((warp for warp in self.warps if not warp.done), None)

    def after_step(self) -> None:
        if self.boundary is not None:
            warp, loop = self.boundary
            self.boundary = None
            self.skipper.look(warp, loop)


class Skipper:
    """Skips the repetitions of a period: when the state at a loop's end, relative to now, has been there before, all follows again.

    Compared is everything that decides the future but the counts of one loop a warp, the one as deep as the reference's. The number of
    periods skipped is the largest after which no warp has left that loop; counters grow by as many periods.
    """

    LIMIT = 4096

    def __init__(self, sm: Sm) -> None:
        self.sm = sm
        self.skipped = 0
        # For each depth of loops: when a state was met (skipped cycles counted), the runs of the loops then, and what had been counted.
        self.seen: dict[int, dict[tuple[object, ...], tuple[int, list[int], list[int]]]] = {}

    def look(self, reference: Warp, loop: TimedLoop) -> None:
        if loop.count - reference.counts[loop.loop] < 2:
            return
        sm, now = self.sm, int(self.sm.env.now)
        chosen = [self.loop_of(warp, loop.depth) for warp in sm.warps]
        if any(which is not None and not which.constant for which in chosen):
            return
        counts = [0 if which is None else warp.counts[which.loop] for warp, which in zip(sm.warps, chosen, strict=True)]
        key, seen = self.state(chosen, now), self.seen.setdefault(loop.depth, {})
        before = seen.get(key)
        if before is not None:
            self.jump(chosen, counts, now + self.skipped, before)
            return
        if len(seen) >= self.LIMIT:
            seen.clear()
        seen[key] = (now + self.skipped, counts, list(sm.counted))

    def jump(self, chosen: list[TimedLoop | None], counts: list[int], now: int, before: tuple[int, list[int], list[int]]) -> None:
        then, old_counts, old_counted = before
        steps = [new - old for new, old in zip(counts, old_counts, strict=True)]
        limits = [
            (which.count - 1 - count) // step for which, count, step in zip(chosen, counts, steps, strict=True) if which is not None and step > 0
        ]
        periods = min(limits, default=0)
        if periods <= 0:
            return
        for warp, which, step in zip(self.sm.warps, chosen, steps, strict=True):
            if which is not None:
                warp.counts[which.loop] += periods * step
        self.sm.counted = [new + periods * (new - old) for new, old in zip(self.sm.counted, old_counted, strict=True)]
        self.skipped += periods * (now - then)

    @staticmethod
    def loop_of(warp: Warp, depth: int) -> TimedLoop | None:
        """The loop at this depth in which the warp is."""
        if warp.done:
            return None
        inside = warp.code.inside[warp.pc]
        return warp.code.ends[inside[depth]] if len(inside) > depth else None

    def state(self, chosen: list[TimedLoop | None], now: int) -> tuple[object, ...]:
        sm = self.sm
        waiting = tuple((number, tuple(warps)) for number, warps in sorted(sm.barriers.arrived.items()) if warps)
        minimum = sm.config.loop.minimum
        coming = max(sm.end - now, 0)
        parts: list[object] = [coming, max(sm.shared_free - now, 0), max(sm.barrier_free - now, 0), waiting, *(core.state(now) for core in sm.cores)]
        for warp, which in zip(sm.warps, chosen, strict=True):
            if warp.done:
                parts.append(None)
                continue
            ready = tuple((at - now, warp.producers[r]) if at + sm.margin > now else 0 for r, at in enumerate(warp.ready))
            starts = tuple(max(at + minimum - now, 0) for at in warp.starts)
            counts = tuple(-1 if which is not None and i == which.loop else count for i, count in enumerate(warp.counts))
            gate = (warp.gate - now, warp.gate_cause) if warp.gate > warp.last else None
            wanted = (warp.wanted - now, warp.cause) if warp.wanted > warp.last else None
            parts.append((warp.pc, warp.blocked, warp.last - now, gate, wanted, counts, starts, ready))
        return tuple(parts)


def simulate(config: Config, codes: list[TimedCode], warps: int, registers: int, *, skip: bool = True) -> Timing:
    """Runs the programs of a CTA of `warps` warps on one SM of the config's chip.

    Args:
        registers: registers of a warp.
        skip: whether to skip repetitions (the result is the same, and tests compare).
    """
    return Sm(config, codes, warps, max(registers, 1), skip=skip).run()
