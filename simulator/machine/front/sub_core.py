"""A sub-core: its warps and their pipes, and what it issues in which cycle."""

from __future__ import annotations

from typing import Any

import cython

from simulator.machine.front.access import Clock, Clocked
from simulator.machine.front.collector import Collector
from simulator.machine.front.issue_policy import IssuePolicy
from simulator.machine.front.matrix_reads import MatrixReads
from simulator.machine.front.pipes import Pipe, pipes_of
from simulator.machine.front.port import Port
from simulator.machine.front.program import (
    MOST_KINDS,
    NEVER,
    TCGEN05,
    Instruction,
    Words,
)
from simulator.machine.front.rules import Rules
from simulator.machine.front.upkeep import Upkeep
from simulator.machine.front.warp import Warp

MOST_STORES = cython.declare(cython.longlong, 3)  # stores that a matrix instruction leaves a gap for, at most


@cython.final
@cython.cclass
class UnitQueue:
    """The queue of an SM's tcgen05 unit: whether it is full, and since when it has room."""

    full: cython.bint
    room_since: cython.longlong

    def __init__(self) -> None:
        self.full, self.room_since = False, 0


@cython.final
@cython.cclass
class SubCore(Clocked):
    """One sub-core.

    Attributes:
        number: in its SM; `cta`: its SM; `following`: the next sub-core.
        tick: the cycle in which it looks at its warps next; NEVER if nothing makes it look.
        last_issue: the cycle of its last issue, in which it has issued `issues` instructions.
        pipes: by unit, what takes its instructions.
        stores: stores, up to a number, that have issued since the last matrix instruction and leave it a gap.
        issued: how many instructions.
        due_from: no loop overhead is due before this cycle.
    """

    rules: Rules
    number: cython.int
    cta: cython.int
    following: SubCore
    warps: list
    first: Warp
    count: cython.int
    pipes: list
    stores: cython.longlong
    matrix: MatrixReads
    port: Port
    collector: Collector
    unit_queue: UnitQueue
    policy: IssuePolicy
    issued: cython.longlong
    picked_due: cython.bint
    due_from: cython.longlong

    def __init__(self, rules: Rules, clock: Clock, number: Any, cta: Any, unit_queue: UnitQueue) -> None:
        self.rules, self.number, self.cta, self.unit_queue = rules, number, cta, unit_queue
        self.clock, self.tick, self.last_issue, self.issues, self.width = clock, NEVER, -1, 0, rules.width
        self.warps, self.count, self.first, self.following = [], 0, None, None
        self.stores = 0
        self.matrix = MatrixReads()
        self.port = Port(rules, self, self.matrix, number - rules.sub_cores)
        self.collector = Collector(rules, self, self.port, self.matrix)
        self.pipes = pipes_of(rules, self.port)
        self.policy = IssuePolicy(rules, self.warps)
        self.issued, self.picked_due = 0, False
        self.due_from = NEVER

    # Pipes

    @cython.cfunc
    @cython.inline
    def pipe(self, unit: cython.int) -> Pipe:
        return self.pipes[unit]

    @cython.cfunc
    @cython.inline
    def pipe_free(self, instruction: Instruction) -> cython.longlong:
        """The cycle from which the instruction's unit can take it."""
        pipe: Pipe = self.pipes[instruction.unit]
        return pipe.free_from(instruction)

    @cython.cfunc
    def unit_free(self, instruction: Instruction) -> cython.longlong:
        """The same, with the queue of the tcgen05 unit."""
        cycle: cython.longlong = self.pipe_free(instruction)
        return max(cycle, self.unit_queue.room_since) if instruction.unit == TCGEN05 else cycle

    @cython.cfunc
    def take(self, warp: Warp, instruction: Instruction, now: cython.longlong) -> cython.void:
        """Occupies the pipe of a matrix, integer, float or control instruction, which enters the read stages."""
        pipe: Pipe = self.pipes[instruction.unit]
        pipe.take(instruction, now)
        self.collector.enter(warp, instruction)

    # When a warp can issue

    @cython.ccall
    def set_free(self, unit: cython.int, cycle: cython.longlong) -> cython.void:
        """Notes when a unit of the sub-core that works outside the front takes the next instruction."""
        pipe: Pipe = self.pipe(unit)
        pipe.busy += cycle - max(pipe.free, self.clock.now)
        pipe.free = cycle

    @cython.cfunc
    def stalls(self, warp: Warp) -> cython.bint:
        """Whether the warp's next instruction finds no room in the queue of the tcgen05 unit."""
        return self.unit_queue.full and warp.next.unit == TCGEN05

    @cython.ccall
    def earliest(self, warp: Warp) -> cython.longlong:
        """The first cycle in which the warp can issue its next instruction, if no other warp issues before."""
        return max(self.pipe_free(warp.next), warp.operands_ready, warp.issue_not_before)

    @cython.cfunc
    def next_issue(self, soonest: cython.longlong) -> cython.longlong:
        """The first cycle, from `soonest` on, in which a warp can issue; NEVER if all wait for others."""
        first: cython.longlong = NEVER
        warp: Warp
        for warp in self.warps:
            if warp.done or warp.blocked:
                continue
            cycle: cython.longlong = max(warp.operands_ready, warp.issue_not_before)
            if cycle < first:
                cycle = max(cycle, self.pipe_free(warp.next))
                if cycle < first and not self.stalls(warp):
                    if cycle <= soonest:
                        return soonest
                    first = cycle
        return first

    @cython.cfunc
    def able(self, warp: Warp, now: cython.longlong) -> cython.bint:
        """Whether the warp can issue its next instruction in this cycle."""
        if warp.issue_not_before > now or warp.operands_ready > now or warp.done or warp.blocked:
            return False
        return self.pipe_free(warp.next) <= now and not self.stalls(warp)

    # Which warp issues

    @cython.cfunc
    def choose(self, now: cython.longlong) -> Warp:
        """The warp to issue from in this cycle, or None. Loop overhead and NOPs that go before it issue."""
        if self.last_issue >= now and (self.last_issue > now or self.issues >= self.width):
            return None
        self.settle(now)
        if self.collector.frozen:
            return None
        warp: Warp
        if self.due_from <= now:  # loop overhead issues in this cycle only if an instruction can, too
            for warp in self.warps:
                if self.able(warp, now):
                    break
            else:
                return None
        while True:
            place: cython.int = self.pick(now, True)
            if place < 0:
                return None
            if not self.picked_due:
                break
            self.issue_upkeep(place, now)
            self.issues = self.issued_in(now) + 1
            self.last_issue = now
            if self.issues == self.width:
                self.postpone(now)
                return None
        if self.issued_in(now) + 1 == self.width:
            self.postpone(now)
        warp = self.warps[place]
        self.policy.note(warp, now)
        self.policy.pass_on()
        self.note_hint(warp, warp.next.yields)
        return warp

    @cython.cfunc
    def pick(self, now: cython.longlong, with_able: cython.bint) -> cython.int:
        """The place of the warp that the policy prefers among those whose next instruction can issue (`with_able`) and
        those whose loop overhead is due; -1 for none. `picked_due` says whether it is its overhead that issues."""
        best: Warp = None
        best_key: cython.longlong = NEVER
        best_due: cython.bint = False
        warp: Warp
        for warp in self.warps:
            due: cython.bint = self.policy.hinted and warp.upkeep.due == now
            if not due and not (with_able and self.able(warp, now)):
                continue
            if best is None:
                best, best_due = warp, due
                continue
            if best_key == NEVER:
                best_key = self.policy.key(best, best_due, self.pipe_free(best.next), now)
            key: cython.longlong = self.policy.key(warp, due, self.pipe_free(warp.next), now)
            if key < best_key:
                best, best_key, best_due = warp, key, due
        self.picked_due = best_due
        return -1 if best is None else best.place

    @cython.cfunc
    def note_hint(self, warp: Warp, hinted: cython.bint) -> cython.void:
        """Notes whether what the warp issues has the yield hint."""
        warp.gives_way = hinted
        if hinted:
            self.collector.let_go(warp)

    # Loop overhead

    @cython.cfunc
    def issued_in(self, now: cython.longlong) -> cython.longlong:
        """How many instructions have issued in this cycle."""
        return self.issues if self.last_issue == now else 0

    @cython.cfunc
    def first_due(self) -> cython.longlong:
        """When the first overhead instruction of a warp is due."""
        first: cython.longlong = NEVER
        warp: Warp
        for warp in self.warps:
            first = min(first, warp.upkeep.due)
        self.due_from = first
        return first

    @cython.cfunc
    def issue_upkeep(self, place: cython.int, now: cython.longlong) -> cython.void:
        """Lets an overhead instruction of the warp issue in this cycle."""
        warp: Warp = self.warps[place]
        self.policy.note(warp, now)
        upkeep: Upkeep = warp.upkeep
        self.note_hint(warp, upkeep.entries[upkeep.seen] & 1)
        if upkeep.seen < MOST_KINDS and upkeep.counter >> upkeep.seen & 1:
            self.collector.enter_operand(warp, upkeep.runs, 0, 0, warp.gives_way)
        upkeep.end()

    @cython.cfunc
    def postpone(self, now: cython.longlong) -> cython.void:
        """Lets overhead instructions that are due in this cycle come a cycle later."""
        if not self.policy.hinted or self.due_from > now:
            return
        warp: Warp
        for warp in self.warps:
            if warp.upkeep.due == now:
                warp.put_off(1)

    @cython.cfunc
    def settle(self, now: cython.longlong) -> cython.void:
        """Lets overhead instructions issue that come before this cycle, registers be read, and counts see what has
        issued."""
        if self.policy.hinted and self.due_from < now:
            self.settle_upkeep(now)
        if self.port.read_cycle < now:
            self.catch_up(now)
        if self.policy.seen < self.policy.made:
            self.policy.see(now)

    @cython.cfunc
    def settle_upkeep(self, now: cython.longlong) -> cython.void:
        """Lets overhead instructions issue that come before this cycle."""
        while True:
            cycle: cython.longlong = self.first_due()
            if cycle >= now:
                return
            if self.port.read_cycle < cycle:
                self.catch_up(cycle)
                continue  # it may have been put off
            if self.policy.counting:
                self.policy.see(cycle)
            for _ in range(self.width - self.issued_in(cycle)):
                place: cython.int = self.pick(cycle, False)
                if place >= 0:
                    self.issue_upkeep(place, cycle)
            self.postpone(cycle)

    @cython.cfunc
    def catch_up(self, now: cython.longlong) -> cython.void:
        """Lets the read stages go on to this cycle; where they stand still, nothing issues, and the waits of all warps
        and for the pipes last a cycle longer."""
        while self.port.read_cycle < now:
            cycle: cython.longlong = -self.collector.catch_up(now)
            if cycle > 0:
                self.stand_still(cycle)

    @cython.cfunc
    def stand_still(self, cycle: cython.longlong) -> cython.void:
        """Lets nothing issue in this cycle."""
        warp: Warp
        for warp in self.warps:
            warp.stand_still(cycle)
        pipe: Pipe
        for pipe in self.pipes:
            pipe.stand_still(cycle)
        self.policy.stand_still(cycle)

    # The state, for comparison

    @cython.cfunc
    def state(self, words: Words, now: cython.longlong) -> cython.void:
        """All that decides what this sub-core does next, in cycles relative to `now`, to which it has settled."""
        oldest: cython.longlong = now
        running: cython.int = 0
        warp: Warp
        for warp in self.warps:
            if not warp.done:
                running += 1
                if not warp.blocked and warp.last < oldest:
                    oldest = warp.last
        words.add(self.tick - now if self.tick < NEVER else -1)
        words.add(max(self.last_issue - now, -1))
        words.add(self.issues if self.last_issue >= now else 0)
        self.policy.state(words, now, running < 2)
        words.add(self.stores)
        pipe: Pipe
        for pipe in self.pipes:
            pipe.state(words, now, oldest)
        self.collector.state(words, now)
        self.port.state(words, now)
