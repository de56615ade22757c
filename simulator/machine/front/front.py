"""The front of an SM: its sub-cores, and the shared memory behind them. It advances itself, cycle by cycle or faster,
to the next event that anything else could cause.

A sub-core issues at most `[issue] width` instructions a cycle, from the warp that its policy puts first among those
that have waited as compiled, whose operands are ready and whose unit is free; warps issue in order.

Dependencies are exact: read-after-write on every register, write-after-write by the order of completion. Those on
matrix and integer instructions are waits, too, that the compiler has written into the code, and that count from issue.
Write-after-read waits for accesses to shared and global memory alone, which read their registers some time after issue
and pin them until then.
"""

from __future__ import annotations

from typing import Any

import cython

from simulator.machine.front.access import Access, Clock
from simulator.machine.front.accounts import Accounts
from simulator.machine.front.program import (
    AT_BARRIER,
    BARRIER,
    BRANCH,
    CONTROL,
    NEVER,
    SHARED,
    TENSOR,
    Instruction,
    LoopEnd,
    Program,
    Words,
)
from simulator.machine.front.rules import Rules
from simulator.machine.front.shared_memory import SharedMemory
from simulator.machine.front.sub_core import SubCore, UnitQueue
from simulator.machine.front.warp import Warp
from simulator.machine.outcomes import BOUNDARY, OUTSIDE, PAUSE, WAITS

STEPS = cython.declare(cython.longlong, 1_000_000)  # at once
# Cycles without an issue after which the state is compared at another warp's loop ends.
ASLEEP = cython.declare(cython.longlong, 10_000)


@cython.final
@cython.cclass
class Front:
    """The front of one SM.

    Attributes:
        cores, warps: its sub-cores, and its warps by number; `first`: the first of a chain of these sub-cores.
        shared: its shared memory.
        unit_queue: the queue of its tcgen05 unit.
        skip: whether to stop at ends of loops.
        until: the cycle up to which `advance` runs; whoever plans an event before that in the meantime brings it
            forward (`limit`).
        outside: issues what the front cannot do alone (`launch`), and is told of warps that are over (`leave`).
        barriers: those of its CTA; `barrier_free`: when their unit takes the next arrival.
        unfinished: warps whose programs are not over.
        boundary_warp, boundary_loop: after BOUNDARY, the warp and the loop end that it is at.
    """

    rules = cython.declare(Rules, visibility="readonly")
    clock = cython.declare(Clock, visibility="readonly")
    cores: list
    first: SubCore
    warps: list
    shared: SharedMemory
    unit_queue: UnitQueue
    accounts: Accounts
    observer: object
    outside: object
    barriers: object
    barrier_free = cython.declare(cython.longlong, visibility="readonly")
    skip: cython.bint
    until: cython.longlong
    unfinished = cython.declare(cython.longlong, visibility="readonly")
    cta: cython.int
    first_warp: cython.int
    chosen: Warp
    chosen_core: SubCore
    boundary_warp: Warp
    boundary_loop: LoopEnd
    words: Words

    def __init__(self, rules: Rules, cta: Any, first_warp: Any, skip: Any, observer: Any, barriers: Any) -> None:
        self.rules, self.cta, self.first_warp, self.skip, self.observer = rules, cta, first_warp, skip, observer
        self.barriers, self.barrier_free, self.outside = barriers, 0, None
        self.accounts = Accounts(rules, observer)
        self.clock, self.unit_queue = Clock(), UnitQueue()
        self.cores = [SubCore(rules, self.clock, number, cta, self.unit_queue) for number in range(rules.sub_cores)]
        self.first = self.cores[0]
        for number in range(rules.sub_cores - 1):
            core: SubCore = self.cores[number]
            core.following = self.cores[number + 1]
        self.shared = SharedMemory(rules, self.clock, self.cores, cta, observer)
        self.warps, self.unfinished, self.until, self.words = [], 0, 0, Words()
        self.chosen = self.chosen_core = self.boundary_warp = self.boundary_loop = None

    def use(self, outside: Any) -> None:
        """Lets this issue what the front cannot do alone."""
        self.outside = outside

    def place(self, program: Program, number: Any, registers: Any, start: Any) -> Any:
        """Puts a warp of this program on its sub-core, where it issues from the cycle `start` on; returns it."""
        core: SubCore = self.cores[(number - self.first_warp) % self.rules.sub_cores]
        warp = Warp(self.rules, program, number, self.cta, core.number, core.count, len(self.warps), registers)
        warp.issue_not_before = start
        core.warps.append(warp)
        core.count += 1
        core.tick = 0
        self.warps.append(warp)
        self.unfinished += 1
        return warp

    # Time

    @cython.ccall
    def limit(self, cycle: cython.longlong) -> cython.void:
        """Lets `advance` return before this cycle, in which something happens outside."""
        self.until = min(self.until, cycle)

    @cython.ccall
    def next_step(self) -> cython.longlong:
        """The cycle in which the front does something next; NEVER if it waits for others."""
        next: cython.longlong = self.shared.tick
        core: SubCore
        for core in self.cores:
            next = min(next, core.tick)
        return next

    @cython.ccall
    @cython.exceptval(check=True)
    def advance(self, until: cython.longlong) -> cython.int:
        """Runs every step before cycle `until`; returns why it has stopped."""
        self.until = until
        shared: SharedMemory = self.shared
        for _ in range(STEPS):
            core: SubCore = self.first
            other: SubCore = core.following
            while other is not None:
                if other.tick < core.tick:
                    core = other
                other = other.following
            if min(core.tick, shared.tick) >= self.until:
                return WAITS
            if shared.tick <= core.tick:
                self.clock.now = shared.tick
                shared.serve(shared.tick)
                continue
            self.clock.now = core.tick
            self.step(core)
            if self.chosen is not None:
                return OUTSIDE
            if self.boundary_warp is not None:
                return BOUNDARY
        return PAUSE

    @cython.cfunc
    @cython.exceptval(check=True)
    def step(self, core: SubCore) -> cython.void:
        """Lets a sub-core issue the instruction that can issue in this cycle, and plans when it looks again."""
        core.tick = NEVER
        now: cython.longlong = self.clock.now
        warp: Warp = core.choose(now)
        if warp is None:
            core.wake(core.next_issue(now + 1))
        elif warp.next.synced and self.outside is not None:
            self.chosen, self.chosen_core = warp, core
        else:
            self.issue(core, warp, now)

    @cython.ccall
    @cython.exceptval(check=True)
    def issue_chosen(self) -> cython.void:
        """After OUTSIDE: issues the instruction, in the same cycle, to which everything else has come."""
        core: SubCore = self.chosen_core
        warp: Warp = self.chosen
        now: cython.longlong = self.clock.now
        self.chosen = None
        self.issue(core, warp, now)

    @cython.ccall
    def at_boundary(self) -> object:
        """After BOUNDARY: the warp and the loop end that it is at."""
        found = self.boundary_warp, self.boundary_loop
        self.boundary_warp = None
        return found

    # Issue

    @cython.cfunc
    @cython.exceptval(check=True)
    def issue(self, core: SubCore, warp: Warp, now: cython.longlong) -> cython.void:
        """Issues the warp's next instruction in this cycle, and plans when its sub-core looks again."""
        instruction: Instruction = warp.next
        self.accounts.issue(core, warp, instruction, now)
        core.issues = core.issues + 1 if core.last_issue == now else 1
        core.last_issue = warp.last = now
        warp.upkeep.begin(instruction, now)
        core.due_from = min(core.due_from, warp.upkeep.due)
        core.issued += 1
        finished: cython.longlong = now + self.start(core, warp, instruction, now)
        if self.observer is not None:
            self.accounts.issued(core, instruction, now, finished)
        self.clock.lasts(finished)
        self.advance_warp(core, warp, now)
        core.wake(core.next_issue(max(now, core.open_from())))

    @cython.cfunc
    @cython.exceptval(check=True)
    def start(self, core: SubCore, warp: Warp, instruction: Instruction, now: cython.longlong) -> cython.longlong:
        """Occupies the instruction's unit and notes when its results are ready; returns the cycles until all of it is
        done."""
        unit: cython.int = instruction.unit
        warp.operands_not_before = now + instruction.operand_stall
        warp.issue_not_before, warp.issue_not_before_reason = now + instruction.stall, instruction.stall_reason
        warp.jump_leaves = now + self.rules.stages if unit == CONTROL else NEVER
        if unit == BARRIER:
            self.arrive(warp, instruction, now)
            return 1
        if instruction.outside:
            return 1 if self.outside is None else self.outside.launch(core, warp, instruction.timed, now)
        if unit == SHARED:
            access: Access = self.shared.send(core, warp, instruction, now)
            warp.access = now + instruction.interval
            warp.sends(instruction, access.read, access.ready)
            return 1
        core.take(warp, instruction, now)
        if unit == TENSOR and core.stores:
            self.shared.leave_gap(core, instruction, now)
        k: cython.int
        for k in range(instruction.write_count):
            warp.ready[instruction.writes[k]] = now + instruction.latency
            warp.producers[instruction.writes[k]] = unit
        return instruction.latency

    # Ends of loops and programs

    @cython.cfunc
    @cython.exceptval(check=True)
    def advance_warp(self, core: SubCore, warp: Warp, now: cython.longlong) -> cython.void:
        """Moves a warp on to its next instruction, through the ends of loops."""
        program = warp.program
        pc: cython.int = warp.pc + 1
        warp.ended = 0
        if not warp.blocked and warp.issue_not_before <= now:
            warp.issue_not_before = 0
        while pc < program.count and program.ends[pc]:
            end: LoopEnd = program.items[pc]
            warp.end_loop(end, pc)
            warp.counts[end.loop] += 1
            if warp.counts[end.loop] < end.count:
                if self.skip and self.is_reference(warp, now):
                    self.boundary_warp, self.boundary_loop = warp, end
                pc = end.start
            else:
                warp.counts[end.loop] = 0
                pc += 1
        warp.pc = pc
        if pc < program.count:
            warp.next = program.items[pc]
            warp.prepare()
            return
        warp.done = True
        warp.upkeep.stop()
        if not warp.blocked or warp.blocked == AT_BARRIER:
            self.finish(warp, now)

    @cython.cfunc
    def is_reference(self, candidate: Warp, now: cython.longlong) -> cython.bint:
        """Whether this is the warp at whose loop ends the state is compared: the first that is in a loop and not
        asleep, or itself."""
        warp: Warp
        for warp in self.warps:
            if warp is candidate:
                return True
            if not warp.done and warp.last > now - ASLEEP and warp.next.looped:
                return False
        return True

    @cython.cfunc
    @cython.exceptval(check=True)
    def finish(self, warp: Warp, now: cython.longlong) -> cython.void:
        """Notes that the program of a warp is over, and so is the wait with which it may have ended."""
        self.unfinished -= 1
        if self.outside is not None:
            self.outside.leave(warp, now)

    # Waiting, and going on

    @cython.cfunc
    @cython.exceptval(check=True)
    def arrive(self, warp: Warp, instruction: Instruction, now: cython.longlong) -> cython.void:
        """Lets a warp arrive at a barrier of its CTA, and plans the release of all that the barrier lets go."""
        waits = instruction.timed.barrier_waits
        if waits:
            warp.blocked, warp.released_late = AT_BARRIER, 0
        if instruction.stall_reason == BRANCH:  # the branch, and what waits before it, begins at the release
            least: cython.longlong = min(instruction.stall - 1, self.rules.loop_cycles)
            warp.released_late = max(instruction.stall - self.rules.barrier_stall, least)
        self.barrier_free = max(now, self.barrier_free) + self.rules.barrier_arrival
        other: Warp
        for released in self.barriers.arrive(*instruction.timed.barrier, [warp.id - self.first_warp], waits):
            for other in self.warps:
                if other.id - self.first_warp in released:
                    other.blocked = 0
                    self.go_on(other, self.barrier_free + instruction.latency + other.released_late, AT_BARRIER)

    @cython.cfunc
    def go_on(self, warp: Warp, cycle: cython.longlong, reason: cython.int) -> cython.void:
        """Lets a warp issue from a cycle on. Its sub-core settles before: what stood still until then does not
        delay the wait that begins."""
        core: SubCore = self.cores[warp.core]
        core.settle(self.clock.now)
        warp.wait_until(cycle, reason)
        core.wake(warp.issue_not_before)

    @cython.ccall
    @cython.exceptval(check=True)
    def release(self, warp: Warp, now: cython.longlong, cycle: cython.longlong, reason: cython.int) -> cython.void:
        """Ends, `now`, the wait of a blocked warp, which can issue from `cycle` on, or is finished."""
        self.clock.now = now
        warp.blocked = 0
        if warp.done:  # nothing issues that would count the wait
            self.accounts.end(warp, cycle, reason)
            self.finish(warp, now)
            return
        self.go_on(warp, cycle, reason)

    @cython.ccall
    def wake_all(self, now: cython.longlong) -> cython.void:
        """Lets the sub-cores look at their warps again."""
        self.clock.now = now
        core: SubCore
        for core in self.cores:
            if core.count:
                core.wake(now)

    def drain(self) -> None:
        """Serves all that waits in shared memory, at the end of a run."""
        self.shared.drain()
