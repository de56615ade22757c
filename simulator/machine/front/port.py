"""The port of a sub-core to shared memory: when it reads the registers of accesses.

An access leaves the read stages and comes to the port, which reads a register every `port_cycles`, in the order of
issue: the values of a store, then the address. An access finds the port free when the last one has read its last
register so long ago. A store takes `store_latency` more to begin, unless it waits already when that register is read.
Each read takes its bank for the cycle, before integer and float instructions and before metadata.

An access reads in a cycle that matrix instructions leave open. One that has not got its metadata in its first stage
reads it instead of the access, which then reads a cycle later; the next register comes when it would have come.

In a cycle one sub-core of an SM reads the address of a load: of several that would, the one that has read one the
longest ago. The others read a cycle later.

Measured: H100 80GB and H200, 34,410 sequences of machine code (docs/timing.md, Shared memory).
"""

from __future__ import annotations

from typing import Any

import cython

from simulator.machine.front.access import Access, Clocked
from simulator.machine.front.matrix_reads import MatrixReads
from simulator.machine.front.program import NEVER, Instruction, Words, numbers
from simulator.machine.front.rules import Rules
from simulator.machine.front.warp import Warp


@cython.cfunc
def trailing_ones(mask: cython.longlong) -> cython.longlong:
    """How many of the lowest bits are 1, up to the first that is not."""
    count: cython.longlong = 0
    while mask & 1:
        mask >>= 1
        count += 1
    return count


@cython.final
@cython.cclass
class Port:
    """The port of one sub-core. When registers are read is foreseen when an access issues, as if no other instruction
    came, and put off when that turns out to be too early.

    Attributes:
        core: its sub-core.
        accesses: a ring of its last accesses; so many have been `made`, so many have been `read`, and so many `taken`
            by the SM, the last one in cycle `taken_at`. `head`: the first that has not been; None if all have.
        last_read: when the last access that is done was read.
        free_from: when the port is free behind all that has issued.
        room_from: from when on another access can issue.
        deferred: the bank of a register that it reads in the next cycle, instead of in this one.
        granted_at: when it has read the last address of a load.
        read_cycle: the cycle that the read stages have come to.
        blocked_writes: by cycle modulo 64, the banks to which nothing could be written in it, below the cycle itself.
        following: the port of the next sub-core, of the last the first.
    """

    rules: Rules
    core: Clocked
    matrix: MatrixReads
    accesses: list
    head: Access
    size: cython.longlong
    made: cython.longlong
    read: cython.longlong
    taken: cython.longlong
    taken_at: cython.longlong
    last_read: cython.longlong
    free_from: cython.longlong
    room_from: cython.longlong
    deferred: cython.longlong
    granted_at: cython.longlong
    read_cycle: cython.longlong
    blocked_writes: cython.longlong[::1]
    following: Port

    def __init__(self, rules: Rules, core: Clocked, matrix: MatrixReads, place: Any) -> None:
        self.rules, self.core, self.matrix = rules, core, matrix
        self.size = 1 << int(rules.queue + 7).bit_length()
        self.accesses = [None] * self.size
        self.made = self.read = self.taken = 0
        self.head = None
        self.taken_at = self.granted_at = place
        self.last_read, self.free_from, self.room_from = -rules.port_cycles, 0, 0
        self.deferred, self.read_cycle, self.following = 0, 0, self
        self.blocked_writes = numbers([0] * 64)

    @cython.cfunc
    @cython.inline
    def access(self, number: cython.longlong) -> Access:
        """One of the last accesses, of which so many were made before."""
        return self.accesses[number & (self.size - 1)]

    @cython.cfunc
    def send(self, warp: Warp, instruction: Instruction, now: cython.longlong) -> Access:
        """Foresees when the registers of an access that issues now will have been read."""
        rules: Rules = self.rules
        access: Access = Access.__new__(Access)
        self.accesses[self.made & (self.size - 1)] = access
        access.warp, access.pc, access.instruction = warp, warp.pc, instruction
        access.arrives, access.banks = now + rules.stages, instruction.banks
        access.left = access.sent = instruction.sent
        begin: cython.longlong = self.first_read(access, self.last_before(self.made))
        begin += trailing_ones(self.matrix.closed(0) >> min(max(begin - self.read_cycle, 0), 63))
        access.begin, access.next = begin, begin
        self.free_from = begin + instruction.sent * rules.port_cycles
        access.until = self.free_from
        access.soonest = self.free_from - rules.port_cycles - rules.stages
        access.read = access.soonest + rules.port_cycles + rules.operand_latency
        if instruction.slow:
            access.read -= rules.store_latency
        access.ready = NEVER + self.made
        access.values = 0 if instruction.write_count else instruction.sent - 1
        access.count = access.behind = access.passed = 0
        access.issue = access.following = None
        if self.head is None:
            self.head = access
        self.made += 1
        return access

    @cython.ccall
    def take(self, now: cython.longlong, cycles: cython.longlong) -> cython.longlong:
        """Gives the port for so many cycles to an access to global memory that issues now, behind all others; returns
        the first of them. Which registers it reads when was not measured: it is in nobody's way."""
        rules: Rules = self.rules
        begin: cython.longlong = max(now, self.last_before(self.made) + rules.port_cycles - rules.stages)
        if self.read == self.made:
            self.last_read = max(self.last_read, begin + cycles + rules.stages - rules.port_cycles)
        self.free_from = begin + cycles
        return begin

    @cython.cfunc
    def first_read(self, access: Access, last: cython.longlong) -> cython.longlong:
        """When an access reads its first register, if the one before it has read its last one in cycle `last`."""
        free: cython.longlong = last + self.rules.port_cycles
        if not access.instruction.slow or access.arrives <= last:
            return max(access.arrives, free)
        return max(access.arrives, free) + self.rules.store_latency

    @cython.cfunc
    def last_before(self, number: cython.longlong) -> cython.longlong:
        """When the access before this one reads its last register."""
        if number > self.read:
            return self.access(number - 1).until - self.rules.port_cycles
        return self.last_read

    @cython.cfunc
    def next_read(self) -> cython.longlong:
        """The first cycle in which a register may be read."""
        return self.read_cycle if self.deferred else self.next_unread()

    @cython.cfunc
    def next_unread(self) -> cython.longlong:
        """When the first access with registers to read reads the next of them, if nothing puts it off. One whose
        predecessor the SM has not taken cannot begin."""
        if self.read == self.made or self.read > self.taken:
            return NEVER
        return self.access(self.read).next

    @cython.cfunc
    def pass_on(self, now: cython.longlong, cycle: cython.longlong) -> cython.void:
        """Notes that the SM takes its first access now. The one behind that begins from this cycle on."""
        self.taken += 1
        self.taken_at = now
        self.head = None
        if self.taken < self.made:
            self.head = self.access(self.taken)
            cycles: cython.longlong = cycle - self.head.next
            if cycles > 0:
                self.put_off(self.taken, cycles)
            self.update_room()

    @cython.cfunc
    def update_room(self) -> cython.void:
        """Works out when the sub-core has room for another access, as far as that is known."""
        number: cython.longlong = self.made - self.rules.queue
        if number < 0:
            return
        access: Access = self.access(number)
        begin: cython.longlong = NEVER
        if number < self.read or (number == self.read and access.left < access.sent):
            begin = access.begin
        elif number == self.read and number <= self.taken:
            begin = access.next
        if begin < NEVER:
            begin += self.rules.queue_latency - self.rules.stages
        if begin != self.room_from:
            self.room_from = begin
            self.core.wake(begin)

    @cython.cfunc
    def read_bank(self, cycle: cython.longlong) -> cython.longlong:
        """Lets the port read in a cycle; returns the banks taken: bit 0 for even registers, bit 1 for odd ones."""
        taken: cython.longlong = self.deferred
        self.deferred = 0
        if self.read == self.made:
            return taken
        access: Access = self.access(self.read)
        if access.next > cycle or self.read > self.taken:
            return taken
        closed: cython.longlong = self.matrix.closed(1)
        if closed & 1:
            self.put_off(self.read, trailing_ones(closed))
            return taken
        if access.left == access.sent:
            if not (access.instruction.slow or self.is_granted(cycle)):
                return taken
            access.begin = cycle
        bank: cython.longlong = 1 << (access.banks & 1)
        access.banks >>= 1
        access.left -= 1
        access.next += self.rules.port_cycles
        if not access.left:
            self.read += 1
            self.last_read = cycle
        self.update_room()
        if self.matrix.metadata_waits():
            self.deferred = bank
            return taken
        return taken | bank

    @cython.cfunc
    def asks(self, cycle: cython.longlong) -> cython.bint:
        """Whether the address of a load would be read in this cycle, to which the sub-core has come."""
        if self.next_unread() != cycle:
            return False
        access: Access = self.access(self.read)
        return access.left == access.sent and not (access.instruction.slow or self.matrix.closed(1) & 1)

    @cython.cfunc
    def is_granted(self, cycle: cython.longlong) -> cython.bint:
        """Lets one sub-core of the SM read the address of a load in a cycle; returns whether that is this one, which
        would. The others that would are put off by a cycle."""
        first: Port = self
        asking: cython.longlong = 0  # bit k, if the kth of the others would
        bit: cython.longlong = 1
        other: Port = self.following
        while other is not self:
            if other.next_unread() <= cycle:
                other.core.settle(cycle)
                if other.asks(cycle):
                    asking |= bit
                    if other.granted_at < first.granted_at:
                        first = other
            other, bit = other.following, bit << 1
        first.granted_at = cycle
        if first is not self:
            self.put_off(self.read, 1)
        while asking:
            other = other.following
            if asking & 1 and other is not first:
                other.put_off(other.read, 1)
            asking >>= 1
        return first is self

    @cython.cfunc
    def hold(self, cycle: cython.longlong) -> cython.void:
        """Lets accesses that are still in the read stages, which stand still, come a cycle later."""
        number: cython.longlong
        for number in range(self.read, self.made):
            access: Access = self.access(number)
            if access.arrives > cycle:
                access.arrives += 1
                self.keep_order(number)

    @cython.cfunc
    def keep_order(self, number: cython.longlong) -> cython.void:
        """Puts an access off that would read before it has come, or before the port is free."""
        access: Access = self.access(number)
        cycles: cython.longlong = self.first_read(access, self.last_before(number)) - access.next
        if cycles > 0:
            self.put_off(number, cycles)

    @cython.cfunc
    def put_off(self, number: cython.longlong, cycles: cython.longlong) -> cython.void:
        """Lets an access read what is left so many cycles later, and those behind it if they wait for that."""
        access: Access = self.access(number)
        access.next += cycles
        access.soonest += cycles
        access.until += cycles
        access.read_later(cycles)
        if number + 1 < self.made:
            self.keep_order(number + 1)
        else:
            self.free_from = access.until
        self.update_room()

    @cython.cfunc
    def block_writes(self, cycle: cython.longlong, banks: cython.longlong) -> cython.void:
        """Notes that nothing can be written to these banks of the sub-core in a cycle."""
        before: cython.longlong = self.blocked_writes[cycle & 63]
        if before >> 2 != cycle:
            before = cycle << 2
        self.blocked_writes[cycle & 63] = before | banks & 3

    @cython.cfunc
    @cython.inline
    def writes_blocked(self, cycle: cython.longlong) -> cython.longlong:
        """The banks to which nothing can be written in a cycle."""
        word: cython.longlong = self.blocked_writes[cycle & 63]
        return word & 3 if word >> 2 == cycle else 0

    @cython.cfunc
    def state(self, words: Words, now: cython.longlong) -> cython.void:
        """All that decides what the port does next, in cycles relative to `now`."""
        rules: Rules = self.rules
        waiting: cython.longlong = min(self.made, rules.queue - 1)
        words.add(waiting)
        words.add(self.made - self.taken)
        words.add(self.made - self.read)
        number: cython.longlong
        for number in range(self.made - waiting, self.made):
            words.add(max(self.access(number).begin - now + rules.queue_latency, 0))
        access: Access
        for number in range(self.taken, self.made):
            access = self.access(number)
            words.add(access.soonest - now)
            words.add(access.count)
            words.add(max(access.behind - now + rules.lag, 0))
        words.add(max(self.last_read + rules.port_cycles - now, 0))
        words.add(self.deferred)
        for number in range(self.read, self.made):
            access = self.access(number)
            words.add(access.arrives - now)
            words.add(access.next - now)
            words.add(access.left)
            words.add(access.banks)
            words.add(access.until - now)
            words.add(access.warp.place)
            words.add(access.pc)
            words.add(access.soonest - now)
            words.add(access.read - now)
