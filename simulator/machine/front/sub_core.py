"""A sub-core: its warps, its pipes, and which warp issues next in which cycle.

Measured: 19,000 decisions of two to four warps on an H100 80GB (docs/timing.md, Which warp issues). Each warp has a
counter of four bits. Every instruction counts; when a warp issues whose counter is full, the counters of all warps are
halved instead. A decision knows what has issued up to `counted_behind` cycles before it. Of the warps that can issue,
those whose last instruction had the yield hint wait for the others; the warp that issued last goes on for `greedy`
cycles; else the one with the smallest count goes first, of equals the one with the highest number.
"""

from __future__ import annotations

from typing import Any

import cython

from simulator.machine.front.collector import Collector
from simulator.machine.front.matrix_reads import MatrixReads
from simulator.machine.front.pipes import HalvedPipe, Pipe, PortPipe, TensorPipes
from simulator.machine.front.port import Clock, Clocked, Port
from simulator.machine.front.program import (
    ALU,
    CONTROL,
    FMA,
    NEVER,
    SHARED,
    TCGEN05,
    TENSOR,
    UNITS,
    Instruction,
    Words,
    numbers,
)
from simulator.machine.front.rules import Rules
from simulator.machine.front.warp import Warp

OLDEST = cython.declare(cython.int, 0)
GREEDY_OLDEST = cython.declare(cython.int, 1)
GREEDY_ROUND_ROBIN = cython.declare(cython.int, 2)
ROUND_ROBIN = cython.declare(cython.int, 3)
LEAST_ISSUED = cython.declare(cython.int, 4)
MOST_STORES = cython.declare(cython.longlong, 3)  # stores that a matrix instruction leaves a gap for, at most


@cython.final
@cython.cclass
class UnitQueue:
    """The queue of an SM's tcgen05 unit: whether it is full, and since when it has room."""

    full: cython.bint
    room_since: cython.longlong

    def __init__(self) -> None:
        self.full, self.room_since = False, 0

    def fill(self, full: Any) -> None:
        """Notes whether it is full."""
        self.full = full

    def has_room(self, now: Any) -> None:
        """Notes that it has room from now on."""
        self.full, self.room_since = False, now


@cython.final
@cython.cclass
class SubCore(Clocked):
    """One sub-core.

    Attributes:
        number: in its SM; `cta`: its SM.
        tick: the cycle in which it looks at its warps next; NEVER if nothing makes it look.
        last_issue: the cycle of its last issue, in which it has issued `issues` instructions.
        pipes: by unit, what takes its instructions.
        stores: stores, up to a number, that have issued since the last matrix instruction and leave it a gap.
        favourite: the place of the warp that the issue policy remembers, since cycle `turned`.
        recent: a ring of the last instructions, loop overhead included: cycle and place; of `issues_made`, the first
            `issues_seen` are in the counts.
        issued: instructions.
    """

    rules: Rules
    number: cython.int
    cta: cython.int
    warps: list
    count: cython.int
    pipes: list
    stores: cython.longlong
    matrix: MatrixReads
    port: Port
    collector: Collector
    unit_queue: UnitQueue
    policy: cython.int
    counting: cython.bint
    hinted: cython.bint
    favourite: cython.int
    turned: cython.longlong
    recent: cython.longlong[::1]
    ring: cython.longlong
    issues_made: cython.longlong
    issues_seen: cython.longlong
    issued: cython.longlong
    picked_due: cython.bint
    due_from: cython.longlong

    def __init__(self, rules: Rules, clock: Clock, number: Any, cta: Any, unit_queue: UnitQueue) -> None:
        self.rules, self.number, self.cta, self.unit_queue = rules, number, cta, unit_queue
        self.clock, self.tick, self.last_issue, self.issues, self.width = clock, NEVER, -1, 0, rules.width
        self.warps, self.count = [], 0
        self.stores = 0
        self.matrix = MatrixReads()
        self.port = Port(rules, self, self.matrix, number - rules.sub_cores)
        self.collector = Collector(rules, self, self.port, self.matrix)
        self.pipes = [Pipe(False) for _ in range(UNITS)]
        self.pipes[TENSOR], self.pipes[ALU], self.pipes[FMA] = TensorPipes(rules), Pipe(True), HalvedPipe(True)
        self.pipes[SHARED] = PortPipe(self.port)
        self.policy = rules.policy
        self.counting = rules.policy == LEAST_ISSUED
        self.hinted = self.counting or rules.policy == GREEDY_ROUND_ROBIN
        self.favourite, self.turned = 0, 0
        self.ring = 1 << (rules.counted_behind * rules.width + 1).bit_length() if self.counting else 2
        self.recent = numbers([0] * (2 * self.ring))
        self.issues_made = self.issues_seen = 0
        self.issued, self.picked_due = 0, False
        self.due_from = NEVER

    @cython.cfunc
    @cython.inline
    def warp(self, place: cython.int) -> Warp:
        return cython.cast(Warp, self.warps[place])

    # Pipes

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def pipe(self, unit: cython.int) -> Pipe:
        return cython.cast(Pipe, self.pipes[unit])

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def pipe_free(self, instruction: Instruction) -> cython.longlong:
        """The cycle from which the instruction's unit can take it."""
        return self.pipe(instruction.unit).free_from(instruction)

    @cython.cfunc
    @cython.exceptval(check=False)
    def unit_free(self, instruction: Instruction) -> cython.longlong:
        """The same, with the queue of the tcgen05 unit."""
        cycle: cython.longlong = self.pipe_free(instruction)
        return max(cycle, self.unit_queue.room_since) if instruction.unit == TCGEN05 else cycle

    @cython.cfunc
    @cython.exceptval(check=False)
    def take(self, warp: Warp, instruction: Instruction, now: cython.longlong) -> cython.void:
        """Occupies the pipe of a matrix, integer, float or control instruction, which enters the read stages."""
        self.pipe(instruction.unit).take(instruction, now)
        if instruction.unit == CONTROL:
            self.last_issue = now + self.rules.call_slot
        self.collector.enter(warp, instruction)

    # When a warp can issue

    @cython.ccall
    def set_free(self, unit: cython.int, cycle: cython.longlong) -> cython.void:
        """Notes when a unit of the sub-core that works outside the front takes the next instruction."""
        pipe: Pipe = self.pipe(unit)
        pipe.busy += cycle - max(pipe.free, self.clock.now)
        pipe.free = cycle

    def taken_at(self) -> Any:
        """When the SM has taken its last access."""
        return self.port.taken_at

    def granted_at(self) -> Any:
        """When it has read the last address of a load."""
        return self.port.granted_at

    @cython.cfunc
    @cython.exceptval(check=False)
    def stalls(self, warp: Warp) -> cython.bint:
        """Whether the warp's next instruction finds no room in the queue of the tcgen05 unit."""
        return self.unit_queue.full and warp.next.unit == TCGEN05

    @cython.ccall
    def earliest(self, warp: Warp) -> cython.longlong:
        """The first cycle in which the warp can issue its next instruction, if no other warp issues before."""
        return max(self.pipe_free(warp.next), warp.operands_ready, warp.issue_not_before)

    @cython.cfunc
    @cython.exceptval(check=False)
    def next_issue(self, soonest: cython.longlong) -> cython.longlong:
        """The first cycle, from `soonest` on, in which a warp can issue; NEVER if all wait for others."""
        first: cython.longlong = NEVER
        k: cython.int
        for k in range(self.count):
            warp: Warp = self.warp(k)
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
    @cython.exceptval(check=False)
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
        k: cython.int
        found: cython.bint = False
        for k in range(self.count):
            if self.able(self.warp(k), now):
                found = True
                break
        if not found:
            return None
        while True:
            place: cython.int = self.pick(now, True)
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
        warp: Warp = self.act(place, now)
        self.note_hint(warp, warp.next.yields)
        if self.policy == ROUND_ROBIN:
            self.favourite = (place + 1) % self.count
        return warp

    @cython.cfunc
    @cython.exceptval(check=False)
    def pick(self, now: cython.longlong, with_able: cython.bint) -> cython.int:
        """The place of the warp that the policy prefers among those whose next instruction can issue (`with_able`) and
        those whose loop overhead is due; -1 for none. `picked_due` says whether it is its overhead that issues."""
        best: cython.int = -1
        best_key: cython.longlong = NEVER
        best_due: cython.bint = False
        n: cython.int = self.count
        k: cython.int
        for k in range(n):
            warp: Warp = self.warp(k)
            due: cython.bint = self.hinted and warp.due == now
            if not due and not (with_able and self.able(warp, now)):
                continue
            key: cython.longlong = self.rank(warp, k, due, now)
            if key < best_key:
                best, best_key, best_due = k, key, due
        self.picked_due = best_due
        return best

    @cython.cfunc
    @cython.exceptval(check=False)
    def rank(self, warp: Warp, place: cython.int, due: cython.bint, now: cython.longlong) -> cython.longlong:
        """The order in which the policy prefers warps, the smallest first: the favourite, if it goes on; then those
        whose last instruction had no yield hint; of these by what the policy counts."""
        n: cython.longlong = self.count
        behind: cython.longlong = place - self.favourite
        if behind < 0:
            behind += n
        if self.policy == OLDEST:
            return place
        if self.policy == GREEDY_OLDEST:
            return -1 if place == self.favourite else place
        if self.policy == ROUND_ROBIN:
            return behind
        if place == self.favourite and not warp.gives_way and self.goes_on(warp, due, now):
            return -1
        hinted: cython.longlong = cython.cast(cython.longlong, 1) << 50 if warp.gives_way else 0
        if self.counting:
            return hinted + warp.counted * (n + 1) + (n - place)
        if warp.gives_way:
            return hinted + warp.acted * (n + 1) + place
        return behind if behind else n

    @cython.cfunc
    @cython.exceptval(check=False)
    def goes_on(self, warp: Warp, due: cython.bint, now: cython.longlong) -> cython.bint:
        """Whether the warp that issued last, without the yield hint, goes before all others: for `greedy` cycles. Where
        issues are counted, also behind that unless its unit has just become free, to which it has no more right than
        those that have waited; a pipe that takes an instruction every second cycle is left to it a cycle longer."""
        since: cython.longlong = now - self.turned
        if due or since < self.rules.greedy:
            return True
        if not self.counting:
            return False
        unit: cython.int = warp.next.unit
        if since == self.rules.greedy and (unit in (ALU, FMA, CONTROL)):
            return True
        return self.pipe_free(warp.next) < now

    @cython.cfunc
    def act(self, place: cython.int, now: cython.longlong) -> Warp:
        """Notes that the warp at this place issues in this cycle."""
        warp: Warp = self.warp(place)
        self.favourite, self.turned, warp.acted = place, now, now
        if self.counting:
            at: cython.longlong = 2 * (self.issues_made & (self.ring - 1))
            self.recent[at], self.recent[at + 1] = now, place
            self.issues_made += 1
        return warp

    @cython.cfunc
    @cython.exceptval(check=False)
    def note_hint(self, warp: Warp, hinted: cython.bint) -> cython.void:
        """Notes whether what the warp issues has the yield hint."""
        warp.gives_way = hinted
        if hinted:
            self.collector.let_go(warp)

    @cython.cfunc
    @cython.exceptval(check=False)
    def see(self, now: cython.longlong) -> cython.void:
        """Counts what has issued up to `counted_behind` cycles before this one."""
        while self.issues_seen < self.issues_made:
            at: cython.longlong = 2 * (self.issues_seen & (self.ring - 1))
            if self.recent[at] > now - self.rules.counted_behind:
                return
            warp: Warp = self.warp(cython.cast(cython.int, self.recent[at + 1]))
            if warp.counted < self.rules.most_counted:
                warp.counted += 1
            else:
                k: cython.int
                for k in range(self.count):
                    other: Warp = self.warp(k)
                    other.counted >>= 1
            self.issues_seen += 1

    # Loop overhead

    @cython.cfunc
    @cython.exceptval(check=False)
    def issued_in(self, now: cython.longlong) -> cython.longlong:
        """How many instructions have issued in this cycle."""
        return self.issues if self.last_issue == now else 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def first_due(self) -> cython.longlong:
        """When the first overhead instruction of a warp is due."""
        first: cython.longlong = NEVER
        k: cython.int
        for k in range(self.count):
            first = min(first, self.warp(k).due)
        self.due_from = first
        return first

    @cython.cfunc
    @cython.exceptval(check=False)
    def issue_upkeep(self, place: cython.int, now: cython.longlong) -> cython.void:
        """Lets an overhead instruction of the warp issue in this cycle."""
        warp: Warp = self.act(place, now)
        seen: cython.int = warp.upkeep_seen
        self.note_hint(warp, warp.upkeep[seen] & 1)
        if warp.counter >> seen & 1:
            self.collector.enter_operand(warp, warp.runs, 0, 0, warp.gives_way)
        warp.end_upkeep()

    @cython.cfunc
    @cython.exceptval(check=False)
    def postpone(self, now: cython.longlong) -> cython.void:
        """Lets overhead instructions that are due in this cycle come a cycle later."""
        if not self.hinted or self.due_from > now:
            return
        k: cython.int
        for k in range(self.count):
            if self.warp(k).due == now:
                self.warp(k).put_off(1)

    @cython.cfunc
    @cython.exceptval(check=False)
    def settle(self, now: cython.longlong) -> cython.void:
        """Lets overhead instructions issue that come before this cycle, registers be read, and counts see what has
        issued."""
        if self.hinted and self.due_from < now:
            self.settle_upkeep(now)
        self.catch_up(now)
        if self.counting:
            self.see(now)

    @cython.cfunc
    @cython.exceptval(check=False)
    def settle_upkeep(self, now: cython.longlong) -> cython.void:
        """Lets overhead instructions issue that come before this cycle."""
        while True:
            cycle: cython.longlong = self.first_due()
            if cycle >= now:
                return
            if self.port.read_cycle < cycle:
                self.catch_up(cycle)
                continue  # it may have been put off
            if self.counting:
                self.see(cycle)
            for _ in range(self.width - self.issued_in(cycle)):
                place: cython.int = self.pick(cycle, False)
                if place >= 0:
                    self.issue_upkeep(place, cycle)
            self.postpone(cycle)

    @cython.cfunc
    @cython.exceptval(check=False)
    def catch_up(self, now: cython.longlong) -> cython.void:
        """Lets the read stages go on to this cycle; where they stand still, nothing issues, and the waits of all warps
        and for the pipes last a cycle longer."""
        while self.port.read_cycle < now:
            cycle: cython.longlong = -self.collector.catch_up(now)
            if cycle > 0:
                self.stand_still(cycle)

    @cython.cfunc
    @cython.exceptval(check=False)
    def stand_still(self, cycle: cython.longlong) -> cython.void:
        """Lets nothing issue in this cycle."""
        k: cython.int
        for k in range(self.count):
            self.warp(k).stand_still(cycle)
        for k in range(UNITS):
            self.pipe(k).stand_still(cycle)
        if self.turned < cycle:
            self.turned += 1

    # The state, for comparison

    @cython.cfunc
    @cython.exceptval(check=False)
    def state(self, words: Words, now: cython.longlong) -> cython.void:
        """All that decides what this sub-core does next, in cycles relative to `now`, to which it has settled."""
        oldest: cython.longlong = now
        running: cython.int = 0
        k: cython.int
        warp: Warp
        for k in range(self.count):
            warp = self.warp(k)
            if not warp.done:
                running += 1
                if not warp.blocked and warp.last < oldest:
                    oldest = warp.last
        words.add(self.tick - now if self.tick < NEVER else -1)
        words.add(max(self.last_issue - now, -1))
        words.add(self.issues if self.last_issue >= now else 0)
        self.policy_state(words, now, running < 2)
        words.add(self.stores)
        for k in range(UNITS):
            self.pipe(k).state(words, now, oldest)
        self.collector.state(words, now)
        self.port.state(words, now)

    @cython.cfunc
    @cython.exceptval(check=False)
    def policy_state(self, words: Words, now: cython.longlong, alone: cython.bint) -> cython.void:
        """What the issue policy remembers. A warp that has the sub-core for itself goes first whatever is counted."""
        words.add(0 if self.policy == OLDEST else self.favourite)
        if not self.hinted:
            return
        words.add(min(now - self.turned, self.rules.greedy + 1))
        k: cython.int
        for k in range(self.count):
            warp: Warp = self.warp(k)
            decides: cython.longlong = 0
            if not alone:
                decides = warp.counted if self.counting else self.older_than(warp)
            words.add(decides)
            words.add(warp.gives_way)
        n: cython.longlong
        for n in range(self.issues_made if alone else self.issues_seen, self.issues_made):
            at: cython.longlong = 2 * (n & (self.ring - 1))
            words.add(now - self.recent[at])
            words.add(self.recent[at + 1])
        words.add(-1)

    @cython.cfunc
    @cython.exceptval(check=False)
    def older_than(self, warp: Warp) -> cython.longlong:
        """How many warps have an older last instruction."""
        count: cython.longlong = 0
        k: cython.int
        for k in range(self.count):
            if self.warp(k).acted < warp.acted or (
                self.warp(k).acted == warp.acted and self.warp(k).place < warp.place
            ):
                count += 1
        return count
