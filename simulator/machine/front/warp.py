"""A warp: how far it is in its program, and until when each thing makes it wait."""

from __future__ import annotations

from typing import Any

import cython

from simulator.machine.front.program import (
    ALU,
    BOARDS,
    BRANCH,
    DEPENDENCY,
    GLOBAL,
    NEVER,
    NOT_CHOSEN,
    REASONS,
    SHARED,
    TENSOR,
    UNITS,
    Instruction,
    LoopEnd,
    Program,
    Repeated,
    numbers,
)
from simulator.machine.front.rules import Rules
from simulator.machine.front.upkeep import Upkeep


@cython.final
@cython.cclass
class Warp:
    """One warp.

    Attributes:
        id: its number over all CTAs; `core`: its sub-core's number in the SM, `place`: its own in the sub-core.
        pc: the place of its next instruction in its program; `next`: that instruction.
        done: whether its program is over.
        blocked: what it waits for until it is released, a stall reason; 0 for nothing.
        last: the cycle of its last issue; `acted`: the same, with loop overhead and NOPs.
        gives_way: whether its last instruction had the yield hint.
        counted: its instructions, as the issue policy counts them.
        issue_not_before: it issues nothing before this cycle, because of a barrier, the end of a loop or a wait that
            the compiler wrote; `issue_not_before_reason`: which.
        operands_not_before: the same because of a compiled wait for operands.
        operands_ready: when the operands of the next instruction are ready; `operands_reason`: what the last of them
            comes from.
        jump_leaves: the last cycle in which a jump that it has issued is in the read stages; NEVER if its last
            instruction was none.
        access: when its next access to shared memory can issue.
        sent: when all registers of accesses under way have been read.
        ready: for each register, when it can be read; `producers`: the unit that wrote it last; `readable`: when the
            register file has what an integer or float instruction wrote; `pinned`: when it can be overwritten, as an
            access to memory still reads it.
        boards: for each scoreboard of machine code, when the registers of its accesses have been read; then for each,
            when their values are there.
        counts: for each loop, how many runs are done; `starts`: when the current run could begin.
        ended: one more than the place of the loop end that it has come to, if the accesses that it waits for there may
            yet come later; else 0.
        turns: for each item, the position of its next execution in what differs between executions.
        costs: for each item its `Repeated` wavefronts, or None.
        upkeep: loop overhead and NOPs behind its last instruction.
        turn: when its next access to shared memory may begin; `behind`: when it may because of the warp's last access
            to global memory; `between`: whether it has sent something to shared memory since.
        outside_turn: when its next access to global memory may pass the pipe to shared memory.
        released_late: cycles that it waits after its barrier has released it.
        stalls: cycles by stall reason.
    """

    rules: Rules
    program: Program
    id = cython.declare(cython.int, visibility="public")
    cta: cython.int
    core: cython.int
    place: cython.int
    rank: cython.int
    next: Instruction
    pc = cython.declare(cython.int, visibility="public")
    done = cython.declare(cython.bint, visibility="public")
    blocked = cython.declare(cython.int, visibility="public")
    last: cython.longlong
    acted: cython.longlong
    gives_way: cython.bint
    counted: cython.longlong
    issue_not_before: cython.longlong
    issue_not_before_reason: cython.int
    operands_not_before: cython.longlong
    operands_ready: cython.longlong
    operands_reason: cython.int
    jump_leaves: cython.longlong
    access: cython.longlong
    sent: cython.longlong
    registers: cython.int
    ready: cython.longlong[::1]
    producers: cython.longlong[::1]
    readable: cython.longlong[::1]
    pinned: cython.longlong[::1]
    boards: cython.longlong[::1]
    counts: cython.longlong[::1]
    starts: cython.longlong[::1]
    ended: cython.int
    turns: cython.longlong[::1]
    costs: list
    upkeep: Upkeep
    turn: cython.longlong
    behind: cython.longlong
    between: cython.bint
    outside_turn: cython.longlong
    released_late: cython.longlong
    stalls: cython.longlong[::1]
    seen: cython.longlong

    def __init__(
        self, rules: Rules, program: Program, number: Any, cta: Any, core: Any, place: Any, rank: Any, registers: Any
    ) -> None:
        self.rules, self.program, self.id, self.cta = rules, program, number, cta
        self.core, self.place, self.rank, self.registers = core, place, rank, registers
        self.pc, self.done, self.blocked, self.last, self.acted = 0, False, 0, -1, -1
        self.gives_way, self.counted = False, program.timed.counted
        self.issue_not_before, self.issue_not_before_reason = 0, NOT_CHOSEN
        self.operands_not_before, self.operands_ready, self.operands_reason = 0, 0, DEPENDENCY
        self.jump_leaves, self.access, self.sent = NEVER, 0, 0
        self.ready, self.readable = numbers([0]) * registers, numbers([0]) * registers
        self.pinned, self.producers = numbers([0]) * registers, numbers([TENSOR]) * registers
        self.boards = numbers([0]) * (2 * BOARDS)
        self.counts, self.starts = numbers([0]) * (program.loops + 1), numbers([0]) * (program.loops + 1)
        self.turns, self.ended = numbers([0]) * (program.count + 1), 0
        self.costs = [None] * program.count
        for at, by_warp in program.costs.items():
            self.costs[at] = by_warp.get(number)
        self.upkeep = Upkeep(program.longest_upkeep)
        self.turn, self.behind, self.between, self.outside_turn, self.released_late = 0, 0, False, 0, 0
        self.stalls = numbers([0]) * REASONS
        self.next, self.seen = program.items[0], 0
        self.prepare()

    @cython.ccall
    def wait_until(self, cycle: cython.longlong, reason: cython.int) -> cython.void:
        """Lets the warp issue nothing before this cycle, and notes why."""
        self.issue_not_before = max(self.issue_not_before, cycle)
        self.issue_not_before_reason = reason

    def hold_accesses(self, cycle: Any) -> None:
        """Lets the next access of the warp issue in this cycle at the earliest."""
        self.access = max(self.access, cycle)

    def went_outside(self, cycle: Any) -> None:
        """Notes that an access to global memory is out by this cycle: what the warp sends to shared memory next keeps
        behind it."""
        self.behind, self.between = cycle, False

    @cython.ccall
    def prepare(self) -> cython.void:
        """Works out when the operands of the next instruction are ready, and for which of them it waits."""
        rules: Rules = self.rules
        instruction: Instruction = self.next
        unit: cython.int = instruction.unit
        latest: cython.longlong = 0
        source: cython.int = TENSOR
        if unit == SHARED:
            latest, source = self.access, SHARED
        passed: cython.longlong = self.last - rules.margin  # what was there by then is no matter
        k: cython.int
        register: cython.longlong
        producer: cython.int
        cycle: cython.longlong
        for k in range(instruction.read_count):
            register = instruction.reads[k]
            cycle = self.ready[register]
            if cycle > passed:
                producer = self.producers[register]
                cycle += rules.extra[unit * UNITS + producer]
                if producer == ALU:
                    cycle += instruction.forwarding_penalty
                if cycle > latest:
                    latest, source = cycle, producer
        for k in range(instruction.write_count):
            register = instruction.writes[k]
            cycle = self.ready[register]
            if cycle > passed:
                producer = self.producers[register]
                if producer == SHARED and unit == SHARED:  # values arrive in order
                    cycle = 0
                elif producer not in (SHARED, GLOBAL):
                    cycle += 1 - instruction.latency
                if cycle > latest:
                    latest, source = cycle, producer
            if self.pinned[register] > latest:
                latest, source = self.pinned[register], SHARED
        for k in range(instruction.await_count):
            cycle = self.boards[instruction.awaits[k]]
            if cycle > latest:
                latest, source = cycle, SHARED
        if self.ended:
            cycle = self.branch_ready(self.program.items[self.ended - 1])
            if cycle > latest:
                latest, source = cycle, SHARED
        self.operands_ready, self.operands_reason = latest, rules.produced_by[source]

    @cython.cfunc
    def end_loop(self, end: LoopEnd, pc: cython.int) -> cython.void:
        """Delays it at the end of a loop's body, at this place, until the loop overhead is done. The accesses that
        its branch waits for may yet come later, so that waits for them as for operands."""
        cycle: cython.longlong = self.starts[end.loop] + self.rules.loop_minimum
        if cycle > self.issue_not_before:
            self.issue_not_before, self.issue_not_before_reason = cycle, BRANCH
        self.ended = pc + 1
        self.starts[end.loop] = self.issue_not_before

    @cython.cfunc
    def branch_ready(self, end: LoopEnd) -> cython.longlong:
        """When the branch at the end of a loop is done that waits for accesses."""
        latest: cython.longlong = 0
        k: cython.int
        for k in range(end.unread_count):
            latest = max(latest, self.ready[end.unread[k]])
        if end.coded:
            for k in range(end.await_count):
                latest = max(latest, self.boards[end.awaits[k]])
        else:
            latest = max(latest, self.sent)
        return latest + end.branch

    @cython.cfunc
    def put_off(self, cycles: cython.longlong) -> cython.void:
        """Lets its overhead instructions and what follows come so many cycles later."""
        self.upkeep.put_off(cycles)
        self.issue_not_before += cycles

    @cython.cfunc
    def stand_still(self, cycle: cython.longlong) -> cython.void:
        """Lets compiled waits and overhead instructions that are not over by `cycle` come a cycle later. A jump waits
        only while it is in the read stages. A NOP with the yield hint that would issue in the next cycle comes later,
        but not what follows: that waits a cycle for the hint in any case."""
        begins: cython.longlong = self.issue_not_before
        hinted: cython.bint = begins == cycle + 3 and self.upkeep.is_last_hint(cycle + 1)
        self.upkeep.stand_still(cycle)
        if cycle <= begins and not hinted and cycle <= self.jump_leaves:
            self.issue_not_before += 1
            if self.jump_leaves < NEVER:
                self.jump_leaves += 1
        if self.operands_not_before >= cycle and not hinted:
            self.operands_not_before += 1

    @cython.cfunc
    def wavefronts(self) -> cython.longlong:
        """How many wavefronts this execution of its next instruction takes."""
        repeated: Repeated = self.costs[self.pc]
        if repeated.count == 1:
            return repeated.entries[0]
        position: cython.longlong = self.turns[self.pc]
        self.turns[self.pc] = position + 1 if position + 1 < repeated.count else repeated.prefix
        return repeated.entries[position]

    def next_job(self) -> Any:
        """What this execution of its next instruction does outside the front: a `Job`; None if it does nothing."""
        executions = self.next.timed.jobs.get(self.id)
        if executions is None:
            return None
        entries = executions.entries
        if len(entries) == 1:
            return entries[0]
        position: cython.longlong = self.turns[self.pc]
        self.turns[self.pc] = executions.after(position)
        return entries[position]

    @cython.ccall
    def set_ready(self, register: cython.int, cycle: cython.longlong, unit: cython.int) -> cython.void:
        """Notes when a register can be read, and which unit writes it."""
        self.ready[register], self.producers[register] = cycle, unit

    def count_of(self, loop: Any) -> int:
        """How many runs of a loop are done."""
        return self.counts[loop]

    def repeat_loop(self, loop: Any, runs: Any) -> None:
        """Counts so many runs more of a loop."""
        self.counts[loop] += runs

    def stall_counts(self) -> list[int]:
        """Cycles by stall reason."""
        return list(self.stalls)

    def count_stall(self, reason: Any, cycles: Any) -> None:
        """Counts cycles for a stall reason."""
        self.stalls[reason] += cycles

    @cython.cfunc
    def sends(self, instruction: Instruction, read: cython.longlong, ready: cython.longlong) -> cython.void:
        """Notes of an access that issues when its registers are read, and what stands for when its values are there."""
        k: cython.int
        for k in range(instruction.read_count):
            self.pinned[instruction.reads[k]] = read
        self.sent = read
        if instruction.frees >= 0:
            self.boards[instruction.frees] = read
        if instruction.fills >= 0:
            self.boards[instruction.fills] = ready
        for k in range(instruction.write_count):
            self.ready[instruction.writes[k]], self.producers[instruction.writes[k]] = ready, SHARED

    @cython.cfunc
    def values_come(self, instruction: Instruction, before: cython.longlong, ready: cython.longlong) -> cython.void:
        """Notes when the values of an access are there; `before`: what has stood for that until now."""
        k: cython.int
        for k in range(instruction.write_count):
            if self.ready[instruction.writes[k]] == before:
                self.ready[instruction.writes[k]] = ready
        if instruction.fills >= 0 and self.boards[instruction.fills] == before:
            self.boards[instruction.fills] = ready

    @cython.cfunc
    def read_later(self, instruction: Instruction, read: cython.longlong, cycles: cython.longlong) -> cython.void:
        """Lets the registers of an access, which would have been read by `read`, be read so many cycles later."""
        k: cython.int
        for k in range(instruction.read_count):
            if self.pinned[instruction.reads[k]] == read:
                self.pinned[instruction.reads[k]] += cycles
        if self.sent == read:
            self.sent += cycles
        if instruction.frees >= 0 and self.boards[instruction.frees] == read:
            self.boards[instruction.frees] += cycles
        if not self.done:
            self.prepare()
