"""The rules of an SM: what an issue does, where a warp's cycles went, how warps wait and go on.

A sub-core issues at most one instruction a cycle, from the warp that its policy puts first among those that have waited
as compiled, whose operands are ready and whose unit is free; warps issue in order. Shared memory is one server of the
SM behind a port of each sub-core (`shared_memory`).

Dependencies are exact: read-after-write on every register, write-after-write by the order of completion. Those on
matrix and integer instructions are waits, too, that the compiler has written into the code (`schedule`), and that count
from issue. Write-after-read waits for accesses to shared and global memory alone, which read their registers some time
after issue and pin them until then; all others read theirs at issue.

What goes on after issue (tcgen05, mbarriers) is in `asynchronous`. The CTAs of a pair run on an SM each, in one
simulation: warp w of CTA c has the number c * (warps of a CTA) + w, and sub-cores are counted on.

These rules are the specification. The compiled engine (`simulator/timing/compiled/engine.c`) has those of them that are
needed all the time once more, in functions of the same names, and tests compare the two.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

from isa.forms.record import Unit
from simulator.chip.config import Config
from simulator.compiler.forwarding import extras
from simulator.compiler.timed_code import StallReason, TimedCode, TimedLoop, TimedOperation, has_jobs, registers_of
from simulator.execute.barrier import Barriers
from simulator.execute.dynamic_info import CLUSTER
from simulator.program.lowering import after_loop_end
from simulator.timing.asynchronous import Asynchronous
from simulator.timing.cores import SubCore
from simulator.timing.global_memory import GlobalMemory
from simulator.timing.machine import Machine
from simulator.timing.observer import Stall, TimingObserver
from simulator.timing.reasons import BY_NUMBER, PIPE_TAKEN, PRODUCED_BY
from simulator.timing.records import ASLEEP, NEVER, plain
from simulator.timing.returns import Returns
from simulator.timing.shared_memory import SharedMemory
from simulator.timing.warp import Warp, warps_of
from simulator.timing.yielding import come_to_wait, note_busy

ASYNCHRONOUS = (Unit.TCGEN05, Unit.TMEM, Unit.SYNC)
_PIPES = (Unit.TENSOR, Unit.ALU)  # whose cycles are counted
_SCOREBOARD = (int(Unit.SHARED), int(Unit.GLOBAL))  # which say when their results are there
# found sooner than members of their enums
_TENSOR, _ALU, _SHARED, _BARRIER, _TCGEN05 = Unit.TENSOR, Unit.ALU, Unit.SHARED, Unit.BARRIER, Unit.TCGEN05
_CONTROL = Unit.CONTROL
_DEPENDENCY, _ISSUE, _ISSUED = StallReason.DEPENDENCY, StallReason.ISSUE, StallReason.ISSUED


class Sm(Machine):
    """One SM running one CTA, or two that run a pair of CTAs.

    Args:
        codes: the programs, with sequences in the place of what the chip does not have, and compiled waits.
        skip: whether to stop at ends of loops, so that repetitions can be skipped.
        compiled: whether the compiled engine is to work on the records.

    Attributes:
        margin: cycles for which a result can matter after it is there.
        boundary: the warp that the last step has brought to the end of a loop, and that loop, where a repetition may
            be found.
        over: whether all programs are over and nothing works on.
        settle: brings a sub-core to the present cycle.
    """

    def __init__(
        self,
        config: Config,
        codes: list[TimedCode],
        warps: int,
        *,
        skip: bool,
        compiled: bool,
        ctas: int = 1,
        sms: int = 1,
        observer: TimingObserver | None = None,
    ) -> None:
        self.codes = codes
        kind, core_kind = (Warp, SubCore) if compiled else (plain(Warp), plain(SubCore))
        placed = warps_of(codes, warps, registers_of(codes), config.sm.sub_cores, kind)
        super().__init__(config, placed, ctas=ctas, cta_warps=warps, observer=observer, compiled=compiled)
        self.record.sms, self.record.skip = ctas, skip
        unlike = config.pipe.sparse_after_dense + max((c.result_until for c in config.tensor), default=0)
        self.cores = [
            core_kind(number, config, self.record, [warp for warp in placed if warp.core == number], unlike)
            for number in range(config.sm.sub_cores * ctas)
        ]
        self.barriers = [Barriers(warps) for _ in range(ctas)]
        self.barrier_free = [0] * ctas  # when the barrier units take the next arrival
        self.shared = SharedMemory(
            config.shared, self.record, self.cores, len(placed), self.prepare, self.lasts, observer
        )
        self.returns = Returns(config.sequences, self.record, placed, self.cores)
        self.extra = extras(config.alu)
        for core in self.cores:
            core.changes, core.returns = self.extra, self.returns
        self.margin = max(max(row) for row in self.extra) + max(
            config.shared.overlap_latency, config.alu.change_latency
        )
        self.produced_by = array("q", [PRODUCED_BY[unit] for unit in Unit])
        self.pipe_taken = array("q", [PIPE_TAKEN[unit] for unit in Unit])
        self.unfinished = len(placed)
        self.boundary: tuple[Warp, TimedLoop] | None = None
        self.over = not placed
        self.settle: Callable[[SubCore], None] = lambda core: core.settle(self.now)
        self.queues = self.asynchronous(codes)
        for core in self.cores:
            core.queues = self.queues
        self.memory: GlobalMemory | None = None
        if config.memory is not None and has_jobs(codes, (Unit.GLOBAL, Unit.SHARED)):
            self.memory = GlobalMemory(self, self.shared, self.queues, config.memory, config.l2, sms)
        for warp in placed:
            self.prepare(warp)
        for core in self.cores:
            core.tick = 0 if core.mine else NEVER

    def asynchronous(self, codes: list[TimedCode]) -> Asynchronous | None:
        """The units that work after issue, if the programs use them."""
        tables = self.config.tcgen05
        if not has_jobs(codes, ASYNCHRONOUS) or (tables is None and self.config.mbarrier is None):
            return None
        queues = Asynchronous(self, self.shared, tables.queue.queue if tables is not None else 1)
        queues.init(CLUSTER, len(self.warps))
        return queues

    # Issue

    def step(self, core: SubCore) -> None:
        """Lets a sub-core issue the instruction that can issue in this cycle, and plans when it looks again."""
        core.tick, now = NEVER, self.now
        if now >= self.record.returns_look:
            self.returns.look(now)
        chosen = core.choose(now)
        if chosen is not None:
            self.issue(core, chosen, now)
        cycle = core.next_issue(max(now, core.open_from()) if chosen is not None else now + 1)
        if cycle != NEVER:
            core.wake(cycle)

    def prepare(self, warp: Warp) -> None:
        """Works out when the operands of the warp's next operation are ready, and for which of them it waits."""
        operation = warp.operation
        ready, pinned, extra = warp.ready, warp.pinned, self.extra[operation.unit]
        latest, source = 0, int(_TENSOR)
        if operation.unit is _SHARED:
            latest, source = warp.access, _SHARED
        passed = warp.last - self.margin  # what was there by then is no matter
        for register in operation.reads:
            if ready[register] > passed:
                producer = warp.producers[register]
                cycle = ready[register] + extra[producer] + (operation.forwarding_penalty if producer == _ALU else 0)
                if cycle > latest:
                    latest, source = cycle, producer
        for register in operation.writes:
            if ready[register] > passed:
                producer, cycle = warp.producers[register], ready[register]
                if producer == _SHARED == operation.unit:  # values arrive in order
                    cycle = 0
                elif producer not in _SCOREBOARD:
                    cycle += 1 - operation.latency
                if cycle > latest:
                    latest, source = cycle, producer
            if pinned[register] > latest:
                latest, source = pinned[register], _SHARED
        for board in operation.awaits:
            if warp.boards[board] > latest:
                latest, source = warp.boards[board], _SHARED
        if warp.ended and (read := self.unread(warp, warp.code.items[warp.ended - 1])) > latest:
            latest, source = read, _SHARED
        warp.operands_ready, warp.operands_reason = latest, self.produced_by[source]

    def issue(self, core: SubCore, warp: Warp, now: int) -> None:
        """Issues the warp's next operation in this cycle."""
        operation = warp.operation
        self.account(core, warp, operation, now)
        core.issues = core.issues + 1 if core.last_issue == now else 1
        core.last_issue = warp.last = now
        warp.keep_up(operation, now)
        self.counters.issued[core.number] += 1
        if core.counting and warp.scheduled:
            note_busy(warp, now)
        finished = now + self.start(core, warp, operation, now)
        if self.observer is not None:
            self.observer.issued(core, now, finished)
        self.lasts(finished)
        self.advance(warp, now)

    def account(self, core: SubCore, warp: Warp, operation: TimedOperation, now: int) -> None:
        """Counts where the warp's cycles since its last issue went: waits that the compiler wrote, releases, operands,
        the unit, the scheduler."""
        counted, base, cycle, stalls = self.counters.stalls, warp.base, warp.last + 1, list[Stall]()
        if cycle < now:
            unit = operation.unit
            free = core.pipe_free(operation) if unit is not _TCGEN05 else core.queue_free(warp)
            for until, reason in (
                (warp.operands_not_before, _DEPENDENCY),
                (warp.issue_not_before, warp.issue_not_before_reason),
                (warp.operands_ready, warp.operands_reason),
                (free, self.pipe_taken[unit]),
                (now, _ISSUE),
            ):
                if until > cycle:
                    counted[base + reason] += until - cycle
                    if self.observer is not None:
                        stalls.append(Stall(BY_NUMBER[reason], cycle, until))
                    cycle = until
        counted[base + (StallReason.SEQUENCE if operation.part else _ISSUED)] += 1
        if self.observer is not None:
            self.observer.issue(core, warp, operation, now, stalls)

    def start(self, core: SubCore, warp: Warp, operation: TimedOperation, now: int) -> int:
        """Occupies the operation's unit and notes when its results are ready; returns the cycles until all of it is
        done."""
        unit, latency = operation.unit, operation.latency
        warp.operands_not_before = now + operation.operand_stall
        warp.issue_not_before, warp.issue_not_before_reason = now + operation.stall, operation.stall_reason
        warp.gone = now + core.depth if unit is _CONTROL else NEVER
        if unit is _BARRIER:
            self.arrive(warp, operation, now)
            return 1
        if unit in ASYNCHRONOUS:
            return self.launch(core, warp, operation, now)
        if operation.jobs is not None:
            return self.memory.launch(core, warp, operation, now) if self.memory is not None else 1
        if unit is _SHARED:
            return self.access(core, warp, operation, now)
        if operation.returning:
            self.returns.ask(warp, now)
        core.take(warp, operation, now)
        if unit is _TENSOR:
            self.share_port(core, warp, operation, now)
        if unit in _PIPES:
            self.counters.busy[unit][core.number] += operation.interval
        for register in operation.writes:
            warp.ready[register] = now + latency
            warp.producers[register] = unit
        return latency

    def share_port(self, core: SubCore, warp: Warp, operation: TimedOperation, now: int) -> None:
        """Lets a matrix instruction that has issued come between accesses at the port to shared memory."""
        late, put_off = self.shared.give_port(core, operation, now - self.config.pipe.port_delay)
        core.come_late(warp, late, now)
        for other in put_off:
            if other is not warp and not other.done:
                self.prepare(other)
        if core.stores:
            self.shared.leave_gap(core, warp.cta, operation, now)

    def access(self, core: SubCore, warp: Warp, operation: TimedOperation, now: int) -> int:
        """Sends an access to shared memory, of which is decided later when its value is there, or a store is done."""
        core.access(now)
        sent = self.shared.send(core, warp, operation, now)
        self.counters.shared[warp.cta] += sent.cycles
        warp.access = now + operation.interval
        for register in operation.reads:
            warp.pinned[register] = sent.read
        warp.sent = sent.read
        if operation.frees >= 0:
            warp.boards[operation.frees] = sent.read
        if operation.fills >= 0:
            warp.boards[operation.fills] = sent.ready
        for register in operation.writes:
            warp.ready[register], warp.producers[register] = sent.ready, _SHARED
        return 1

    def launch(self, core: SubCore, warp: Warp, operation: TimedOperation, now: int) -> int:
        """Issues an operation that works on after issue, or that waits for one; returns the cycles until its registers
        are written."""
        for register in operation.writes:  # of a load again, when it is launched
            warp.ready[register], warp.producers[register] = now + 1, operation.unit
        return 1 if self.queues is None else self.queues.launch(core, warp, operation, now)

    # Waiting, and going on

    def release(self, warp: Warp, now: int, reason: StallReason = StallReason.MBARRIER) -> None:
        """Ends the wait of a blocked warp, which can issue from `now` on, or is finished."""
        warp.blocked = 0
        if warp.done:  # nothing issues that would count the wait
            self.counters.stalls[warp.base + reason] += now - 1 - warp.last
            if self.observer is not None:
                self.observer.end(warp, Stall(reason, warp.last + 1, now))
            self.finish(warp, now)
            return
        self.go_on(warp, now, reason)

    def wake_cores(self, cta: int, now: int) -> None:
        """Lets the sub-cores of a CTA's SM look at their warps again."""
        for core in self.cores:
            if core.mine and core.mine[0].cta == cta:
                core.wake(now)

    def arrive(self, warp: Warp, operation: TimedOperation, now: int) -> None:
        """Lets a warp arrive at a barrier of its CTA, and plans the release of all that the barrier lets go."""
        assert operation.barrier is not None
        warp.blocked, barrier = StallReason.BARRIER, self.config.barrier
        warp.behind = 0
        if operation.stall_reason == StallReason.BRANCH:  # the branch, and what waits before it, begins at the release
            warp.behind = max(operation.stall - barrier.stall, min(operation.stall - 1, self.config.loop.cycles))
        cta, first = warp.cta, warp.cta * self.cta_warps
        self.barrier_free[cta] = max(now, self.barrier_free[cta]) + barrier.arrival
        for released in self.barriers[cta].arrive(*operation.barrier, [warp.id - first]):
            for other in self.warps:
                if other.cta == cta and other.id - first in released:
                    other.blocked = 0
                    free = self.barrier_free[cta] + operation.latency
                    self.go_on(other, free + other.behind, StallReason.BARRIER)

    def go_on(self, warp: Warp, cycle: int, reason: StallReason) -> None:
        """Lets a warp issue from a cycle on. Its sub-core settles before: what stood still until then does not
        delay the wait that begins."""
        core = self.cores[warp.core]
        self.settle(core)
        warp.wait_until(cycle, reason)
        core.wake(warp.issue_not_before)

    def advance(self, warp: Warp, now: int) -> None:
        """Moves a warp on to its next operation, through the ends of loops."""
        items, pc, warp.ended = warp.code.items, warp.pc + 1, 0
        before, last = warp.operation, warp.pc
        if not warp.blocked and warp.issue_not_before <= now:
            warp.issue_not_before = 0
        while pc < len(items) and isinstance(item := items[pc], TimedLoop):
            self.branch(warp, item, pc)
            end, pc = pc, after_loop_end(item, pc, warp.counts)
            if pc <= end and self.record.skip and warp is self.reference(warp, now):
                self.boundary = (warp, item)
        warp.pc = pc
        if pc < len(items):
            self.prepare(warp)
            if self.cores[warp.core].counting:
                come_to_wait(warp, before)
            self.cores[warp.core].come_to(warp, before, now, before.unit is _CONTROL or pc <= last)
            return
        warp.done, warp.upkeep_count = True, 0
        if warp.blocked not in (StallReason.MBARRIER, StallReason.GLOBAL):
            self.finish(warp, now)

    def finish(self, warp: Warp, now: int) -> None:
        """Notes that the program of a warp is over, and so is the wait with which it may have ended."""
        self.unfinished -= 1
        if self.queues is not None:
            self.queues.leave(warp, now)
        self.check_done()

    def check_done(self) -> None:
        """Ends the run when all programs are over and nothing works on."""
        if not self.unfinished and all(part is None or part.idle for part in (self.queues, self.memory)):
            self.over = True

    def branch(self, warp: Warp, end: TimedLoop, pc: int) -> None:
        """Delays a warp at the end of a loop's body, at this place, until the counter, the comparison and the branch
        are done."""
        cycle = warp.starts[end.loop] + self.config.loop.minimum
        if cycle > warp.issue_not_before:
            warp.issue_not_before, warp.issue_not_before_reason = cycle, StallReason.BRANCH
        unread = self.unread(warp, end)
        if self.config.reading_stages or unread >= NEVER:
            warp.ended = pc + 1
        elif unread > warp.issue_not_before:
            warp.issue_not_before, warp.issue_not_before_reason = unread, StallReason.SHARED
        warp.starts[end.loop] = warp.issue_not_before

    def unread(self, warp: Warp, end: TimedLoop | TimedOperation) -> int:
        """When the branch at the end of a loop is done that waits for accesses."""
        assert isinstance(end, TimedLoop)
        read = (warp.boards[board] for board in end.awaits) if end.coded else (warp.sent,)
        return max((*(warp.ready[register] for register in end.unread), *read), default=0) + end.branch

    def reference(self, candidate: Warp, now: int) -> Warp:
        """The warp at whose loop ends the state is compared: the first that is in a loop and not asleep, or the
        candidate."""
        for warp in self.warps:
            if warp is candidate or (not warp.done and warp.last > now - ASLEEP and warp.code.inside[warp.pc]):
                return warp
        return candidate
