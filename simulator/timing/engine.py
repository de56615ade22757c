"""An SM in SimPy: sub-cores issue, units take time, warps wait. Integer cycles; events, never ticks.

A sub-core has one pending event: the next cycle in which one of its warps can issue. It issues at most one instruction
a cycle, from the warp that its policy puts first among those that have waited as compiled, whose operands are ready and
whose unit is free; warps issue in order. Shared memory is one server of the SM behind a port of each sub-core, in order
of issue, sub-core by sub-core within a cycle (the priority of the events sees to that, so that a run depends on nothing
but its inputs).

Dependencies are exact: read-after-write on every register, write-after-write by the order of completion. Those on
matrix and integer instructions are waits, too, that the compiler has written into the code (`schedule`), and that count
from issue. Write-after-read waits for accesses to shared and global memory alone, which read their registers some time
after issue and pin them until then; all others read theirs at issue.

What goes on after issue (tcgen05, mbarriers) is in `asynchronous`. The CTAs of a pair run on an SM each, in one
simulation: warp w of CTA c has the number c * (warps of a CTA) + w, and sub-cores are counted on.
"""

from __future__ import annotations

from typing import Any

import simpy

from isa.forms.record import Unit
from simulator.errors import DeadlockError
from simulator.execute.barrier import Barriers
from simulator.execute.dynamic_info import (
    CLUSTER,
    ArriveFacts,
    ExpectFacts,
    InitFacts,
    MoveFacts,
    MoveWaitFacts,
    WaitFacts,
)
from simulator.timing.asynchronous import Asynchronous
from simulator.timing.config import Config
from simulator.timing.cores import SubCore, Warp
from simulator.timing.global_memory import GlobalMemory
from simulator.timing.model import Job, StallReason, TimedCode, TimedLoop, TimedOperation
from simulator.timing.recorder import Recorder, Stall
from simulator.timing.result import Timing
from simulator.timing.schedule import extra, schedule
from simulator.timing.sequences import expand
from simulator.timing.shared_memory import SharedMemory
from simulator.timing.skipper import Skipper
from simulator.timing.tcgen05 import Cost

_WAITS = len(StallReason)
_PRODUCER = {
    Unit.TENSOR: StallReason.DEPENDENCY,
    Unit.ALU: StallReason.DEPENDENCY,
    Unit.SHARED: StallReason.SHARED,
    Unit.BARRIER: StallReason.BARRIER,
    Unit.TCGEN05: StallReason.TCGEN05,
    Unit.TMEM: StallReason.TMEM,
    Unit.SYNC: StallReason.MBARRIER,
    Unit.GLOBAL: StallReason.GLOBAL,
    Unit.FMA: StallReason.DEPENDENCY,
    Unit.CONTROL: StallReason.DEPENDENCY,
}
_PIPE = {
    Unit.TENSOR: StallReason.TENSOR,
    Unit.ALU: StallReason.ALU,
    Unit.SHARED: StallReason.SHARED,
    Unit.BARRIER: StallReason.ISSUE,
    Unit.TCGEN05: StallReason.TCGEN05,
    Unit.TMEM: StallReason.TMEM,
    Unit.SYNC: StallReason.ISSUE,
    Unit.GLOBAL: StallReason.ISSUE,
    Unit.FMA: StallReason.ALU,
    Unit.CONTROL: StallReason.ISSUE,
}
_COUNTED = (Unit.TENSOR, Unit.ALU)
_ASYNCHRONOUS = (Unit.TCGEN05, Unit.TMEM, Unit.SYNC)


class Sm:
    """One SM running one CTA, or two that run a pair of CTAs."""

    def __init__(
        self,
        config: Config,
        codes: list[TimedCode],
        warps: int,
        registers: int,
        *,
        skip: bool = True,
        ctas: int = 1,
        sms: int = 1,
        recorder: Recorder | None = None,
    ) -> None:
        codes = [expand(code, config) for code in codes]
        registers = max(
            [
                registers,
                *(1 + max((*item.reads, *item.writes), default=0) for code in codes for item in _operations(code)),
            ]
        )
        self.env = simpy.Environment()
        self.done = self.env.event()
        self.config, self.skip = config, skip
        self.ctas, self.cta_warps, sub_cores = ctas, warps, config.sm.sub_cores
        programs = {warp: code for code in codes for warp in code.warps if code.items}
        self.warps = []
        for place, (number, code) in enumerate(sorted(programs.items())):
            cta, local = divmod(number, max(warps, 1))
            self.warps.append(Warp(number, code, registers, place, cta, cta * sub_cores + local % sub_cores))
        cores = sub_cores * ctas
        self.cores = [
            SubCore(self, i, [w for w in self.warps if w.core == i], config.issue.policy) for i in range(cores)
        ]
        self.barriers = [Barriers(warps) for _ in range(ctas)]
        self.shared = SharedMemory(config.shared, ctas, cores, len(self.warps))
        self.barrier_free = [0] * ctas  # when the barrier units take the next arrival
        for code in codes:
            schedule(code.items, config)
        self.extra = [[extra(config, producer, consumer) for producer in Unit] for consumer in Unit]
        self.margin = max(max(row) for row in self.extra) + max(
            config.shared.overlap_latency, config.alu.change_latency
        )
        self.unlike = config.pipe.sparse_after_dense + max(
            c.result_until for c in config.tensor
        )  # what unlike matrix instructions may wait
        self.unfinished = len(self.warps)
        self.end = 0
        # Everything that is counted, in one list, so that a skipped period can be added n times: waits of each warp by
        # StallReason, then for each sub-core instructions issued, tensor and integer cycles and those of the path to Tensor
        # Memory, then for each SM cycles of shared memory, of the tcgen05 unit, of products there, and of the path to
        # global memory.
        self.per_core = len(self.warps) * _WAITS
        self.per_sm = self.per_core + cores * 4
        self.counted = [0] * (self.per_sm + ctas * 4)
        self.boundary: tuple[Warp, TimedLoop] | None = None
        self.skipper = Skipper(self)
        self.recorder = self.shared.recorder = recorder
        self.queues = self.asynchronous(codes)
        self.memory: GlobalMemory | None = None
        if config.memory is not None and self.has_jobs(codes, (Unit.GLOBAL, Unit.SHARED)):
            self.memory = GlobalMemory(self, config.memory, config.l2, sms)
        if recorder is not None:
            recorder.attach(self, codes)

    def asynchronous(self, codes: list[TimedCode]) -> Asynchronous | None:
        """The units that work after issue, if the programs use them."""
        tables = self.config.tcgen05
        if not self.has_jobs(codes, _ASYNCHRONOUS) or (tables is None and self.config.mbarrier is None):
            return None
        queues = Asynchronous(self, self.ctas, tables.queue.queue if tables is not None else 1)
        queues.init(CLUSTER, len(self.warps))
        return queues

    @staticmethod
    def has_jobs(codes: list[TimedCode], units: tuple[Unit, ...]) -> bool:
        """Whether the programs have operations of these units that do something after issue."""
        return any(
            isinstance(item, TimedOperation) and item.unit in units and item.jobs
            for code in codes
            for item in code.items
        )

    @property
    def mbarrier_latency(self) -> int:
        """From an arrival until a warp that waits can issue."""
        found = self.config.mbarrier or (self.config.tcgen05.mbarrier if self.config.tcgen05 is not None else None)
        assert found is not None
        return found.latency

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
            except DeadlockError:
                raise
            except RuntimeError as error:
                if self.done.triggered:
                    raise
                waiting = [line for barriers in self.barriers for line in barriers.describe()] + (
                    self.queues.describe() if self.queues else []
                )
                raise DeadlockError(
                    (*waiting, f"{self.unfinished} of {len(self.warps)} warps are unfinished")
                ) from error
        return self.result()

    def result(self) -> Timing:
        cycles = self.end + self.skipper.skipped
        cores = len(self.cores)
        waits = {}
        for warp in self.warps:
            row = self.counted[warp.base : warp.base + _WAITS]
            row[StallReason.FINISHED] = cycles - sum(row)
            waits[warp.id] = row
        rest, per_sm = self.counted[self.per_core :], self.counted[self.per_sm :]
        busy = [[rest[cores + i], rest[2 * cores + i]] for i in range(cores)]
        shared, unit, tensor, path = (per_sm[i * self.ctas : (i + 1) * self.ctas] for i in range(4))
        more: dict[str, Any] = {}
        if self.memory is not None:
            more["memory_busy"] = max(path)
        if self.queues is not None and self.config.tcgen05 is not None:
            more |= {
                "tcgen05_busy": tuple(zip(unit, tensor, strict=True)),
                "tmem_busy": tuple(rest[3 * cores : 4 * cores]),
            }
        return Timing(cycles, waits, rest[:cores], busy, max(shared), self.skipper.skipped, **more)

    def prepare(self, warp: Warp) -> None:
        """Works out when the operands of the warp's next operation are ready, and for which of them it waits."""
        operation = warp.code.items[warp.pc]
        assert isinstance(operation, TimedOperation)
        warp.operation = operation
        wanted, producer, ready, extra = 0, Unit.TENSOR, warp.ready, self.extra[operation.unit]
        if operation.unit is Unit.SHARED:
            wanted, producer = warp.access, Unit.SHARED
        for register in operation.reads:
            made = warp.producers[register]
            at = ready[register] + extra[made] + (operation.forwarding_penalty if made is Unit.ALU else 0)
            if at > wanted:
                wanted, producer = at, made
        for register in operation.writes:
            variable = warp.producers[register] in (
                Unit.SHARED,
                Unit.GLOBAL,
            )  # a scoreboard says when it is there, and nothing before
            at = ready[register] if variable else ready[register] - operation.latency + 1
            if at > wanted:
                wanted, producer = at, warp.producers[register]
            if warp.pinned[register] > wanted:
                wanted, producer = warp.pinned[register], Unit.SHARED
        warp.wanted, warp.cause = wanted, _PRODUCER[producer]

    def issue(self, core: SubCore, warp: Warp, now: int) -> None:
        """Issues the warp's next operation in this cycle."""
        operation = warp.operation
        assert operation is not None
        self.account(core, warp, operation, now)
        core.last_issue = warp.last = now
        self.counted[self.per_core + core.number] += 1
        finished = now + self.start(core, warp, operation, now)
        if self.recorder is not None:
            self.recorder.issued(core, now, finished)
        self.end = max(self.end, finished)
        self.advance(warp, now)

    def account(self, core: SubCore, warp: Warp, operation: TimedOperation, now: int) -> None:
        """Says where the warp's cycles since its last issue went: what was compiled, its gate, its operands, its unit,
        the scheduler."""
        counted, base, at = self.counted, warp.base, warp.last + 1
        stalls: list[Stall] | None = None if self.recorder is None else []
        for until, cause in (
            (warp.held, StallReason.DEPENDENCY),
            (warp.gate, warp.gate_cause),
            (warp.wanted, warp.cause),
            (
                core.opens(operation) if operation.unit is not Unit.TCGEN05 else self.opened(core, warp),
                _PIPE[operation.unit],
            ),
            (now, StallReason.ISSUE),
        ):
            if until > at:
                counted[base + cause] += until - at
                if stalls is not None:
                    stalls.append(Stall(cause, at, until))
                at = until
        counted[base + (StallReason.SEQUENCE if operation.part else StallReason.ISSUED)] += 1
        if self.recorder is not None and stalls is not None:
            self.recorder.issue(core, warp, operation, now, stalls)

    def start(self, core: SubCore, warp: Warp, operation: TimedOperation, now: int) -> int:
        """Occupies the unit and marks the results; returns the cycles until all of it is done."""
        counted, cores = self.counted, len(self.cores)
        base = self.per_core
        unit, latency = operation.unit, operation.latency
        warp.held, warp.gate, warp.gate_cause = (
            now + operation.operand_stall,
            now + operation.stall,
            operation.stall_reason,
        )
        if unit is Unit.BARRIER:
            self.arrive(warp, operation, now)
            return 1
        if unit in _ASYNCHRONOUS:
            return self.launch(core, warp, operation, now)
        if operation.jobs is not None:
            return self.memory.launch(core, warp, operation, now) if self.memory is not None else 1
        if unit is Unit.SHARED:
            latency = self.access(core, warp, operation, now)
        else:
            core.take(warp, operation, now)
            if unit in _COUNTED:
                counted[base + cores * (1 + unit) + core.number] += operation.interval
        for register in operation.writes:
            warp.ready[register] = now + latency
            warp.producers[register] = unit
        return latency

    def access(self, core: SubCore, warp: Warp, operation: TimedOperation, now: int) -> int:
        """Sends an access to shared memory; returns the cycles until its value is there, or until a store is done."""
        core.collide(warp, now, self.config.pipe.access)
        found = self.shared.serve(core, warp, operation, now)
        self.count_shared(warp.cta, found.cycles)
        warp.access = now + operation.interval
        for register in operation.reads:
            warp.pinned[register] = found.read
        warp.sent = found.read
        return found.ready - now

    def count_path(self, cta: int, cycles: int) -> None:
        """The path from L2 brings lines."""
        self.counted[self.per_sm + 3 * self.ctas + cta] += cycles

    def launch(self, core: SubCore, warp: Warp, operation: TimedOperation, now: int) -> int:
        """Issues an operation that works on after issue, or that waits for one; returns the cycles until its registers
        are written."""
        job = self.job(warp, operation)
        for register in operation.writes:  # of a load, again below
            warp.ready[register], warp.producers[register] = now + 1, operation.unit
        if job is None or self.queues is None:
            return 1
        match job.fact:
            case MoveFacts(store=store) if job.cost is not None:
                core.free[Unit.TMEM] = now + job.cost.interval
                self.counted[self.per_core + 3 * len(self.cores) + core.number] += job.cost.interval
                for register in operation.writes:
                    warp.ready[register] = now + job.cost.latency
                warp.moves[store] = max(warp.moves[store], now + job.cost.latency)
                return job.cost.latency
            case MoveWaitFacts(store=store):
                warp.gate, warp.gate_cause = max(warp.moves[store], warp.gate), StallReason.TMEM
            case InitFacts(barrier=barrier, count=count):
                self.queues.init(barrier, count)
            case ExpectFacts(barrier=barrier, count=count):
                self.queues.transact(barrier, count, now)
            case ArriveFacts(barrier=barrier, count=count, expect=expect):
                warp.arrived |= barrier == CLUSTER
                if expect:
                    self.queues.transact(barrier, expect, now)
                self.queues.fly((barrier,) * count, now + self.mbarrier_latency)
            case WaitFacts(barrier=barrier, parity=parity):
                warp.blocked = StallReason.MBARRIER if self.queues.wait(warp, barrier, parity) else None
            case _ if operation.unit is Unit.TCGEN05:
                assert self.config.tcgen05 is not None
                core.free[Unit.TCGEN05] = now + self.config.tcgen05.queue.issue
                self.queues.submit(warp, job, now)
        return 1

    @staticmethod
    def job(warp: Warp, operation: TimedOperation) -> Job | None:
        """What this execution does."""
        jobs = operation.jobs.get(warp.id) if operation.jobs else None
        if not jobs:
            return None
        if len(jobs) == 1:
            return jobs[0]
        turn = warp.turns.get(warp.pc, 0)
        warp.turns[warp.pc] = (turn + 1) % len(jobs)
        return jobs[turn]

    def opened(self, core: SubCore, warp: Warp) -> int:
        """When the warp's sub-core and the queue of its SM could take an instruction."""
        return max(core.free[Unit.TCGEN05], self.queues.opened[warp.cta] if self.queues is not None else 0)

    def count_shared(self, cta: int, cycles: int) -> None:
        """Shared memory of an SM is taken for so many cycles."""
        self.counted[self.per_sm + cta] += cycles

    def count_unit(self, cta: int, cost: Cost, interval: int) -> None:
        """The tcgen05 unit of an SM has taken an instruction."""
        self.counted[self.per_sm + self.ctas + cta] += interval
        self.counted[self.per_sm + 2 * self.ctas + cta] += cost.tensor
        if self.recorder is not None:
            now = int(self.env.now)
            self.recorder.serve("tcgen05", cta, now, now + interval)

    def release(self, warp: Warp, now: int, cause: StallReason = StallReason.MBARRIER) -> None:
        """What the warp waits for is complete: it can issue at `now`."""
        warp.blocked = None
        if warp.done:  # nothing issues that would count the wait
            self.counted[warp.base + cause] += now - 1 - warp.last
            if self.recorder is not None:
                self.recorder.end(warp, Stall(cause, warp.last + 1, now))
            self.finish(warp, now)
            return
        warp.gate, warp.gate_cause = max(warp.gate, now), cause
        self.cores[warp.core].wake(warp.gate)

    def wake_cores(self, cta: int, now: int) -> None:
        """The queue of an SM has room again."""
        for core in self.cores:
            if core.warps and core.warps[0].cta == cta:
                core.wake(now)

    def arrive(self, warp: Warp, operation: TimedOperation, now: int) -> None:
        assert operation.barrier is not None
        warp.blocked = StallReason.BARRIER
        cta, first = warp.cta, warp.cta * self.cta_warps
        self.barrier_free[cta] = max(now, self.barrier_free[cta]) + self.config.barrier.arrival
        for released in self.barriers[cta].arrive(*operation.barrier, [warp.id - first]):
            for other in self.warps:
                if other.cta == cta and other.id - first in released:
                    other.blocked, other.gate = None, max(other.gate, self.barrier_free[cta] + operation.latency)
                    other.gate_cause = StallReason.BARRIER
                    self.cores[other.core].wake(other.gate)

    def advance(self, warp: Warp, now: int) -> None:
        """Moves on to the next operation, through the ends of loops."""
        items, pc = warp.code.items, warp.pc + 1
        if not warp.blocked and warp.gate <= now:
            warp.gate = 0
        while pc < len(items) and isinstance(item := items[pc], TimedLoop):
            self.branch(warp, item)
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
        if warp.blocked not in (StallReason.MBARRIER, StallReason.GLOBAL):
            self.finish(warp, now)

    def finish(self, warp: Warp, now: int) -> None:
        """The program of a warp is over, and so is the wait with which it may have ended."""
        self.unfinished -= 1
        if self.queues is not None:
            self.queues.leave(warp, now)
        self.check_done()

    def check_done(self) -> None:
        """Ends the run when all programs are over and nothing works on."""
        if (
            not self.unfinished
            and all(part is None or part.idle for part in (self.queues, self.memory))
            and not self.done.triggered
        ):
            self.done.succeed()

    def branch(self, warp: Warp, end: TimedLoop) -> None:
        """The end of a loop's body: no issue before the counter, the comparison and the branch are done."""
        at = warp.starts[end.loop] + self.config.loop.minimum
        if at > warp.gate:
            warp.gate, warp.gate_cause = at, StallReason.BRANCH
        unread = max((warp.ready[register] for register in end.unread), default=0)
        unread = max(unread, warp.sent)  # operands of accesses under way have been read
        if unread > warp.gate:
            warp.gate, warp.gate_cause = unread, StallReason.SHARED
        warp.starts[end.loop] = warp.gate

    def reference(self) -> Warp | None:
        """The warp at whose loop ends the state is compared: the first that is not finished."""
        return next((warp for warp in self.warps if not warp.done), None)

    def after_step(self) -> None:
        if self.boundary is not None:
            warp, loop = self.boundary
            self.boundary = None
            self.skipper.look(warp, loop)


def _operations(code: TimedCode) -> list[TimedOperation]:
    return [item for item in code.items if isinstance(item, TimedOperation)]


def simulate(
    config: Config,
    codes: list[TimedCode],
    warps: int,
    registers: int,
    *,
    skip: bool = True,
    ctas: int = 1,
    sms: int = 1,
    recorder: Recorder | None = None,
) -> Timing:
    """Runs the programs of a CTA of `warps` warps on one SM of the config's chip, or of `ctas` CTAs of as many warps on
    an SM each.

    Args:
        registers: registers of a warp.
        skip: whether to skip repetitions (the result is the same, and tests compare).
        ctas: 2 for a pair of CTAs; warp w of CTA c is c * warps + w in `codes`.
        sms: SMs of the chip that do the same at the same time and share L2.
        recorder: is told about each issue and each unit.
    """
    return Sm(config, codes, warps, max(registers, 1), skip=skip, ctas=ctas, sms=sms, recorder=recorder).run()
