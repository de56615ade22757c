"""How accesses to shared memory read their registers, on chips with stages and banks (`simulator.timing.operands`).

An access leaves the stages and comes to the port of its sub-core, which reads a register every `[shared] port_cycles`,
in the order of issue: the values of a store, then the address. An access finds the port free when the last one has read
its last register so long ago. A store takes `[shared] store_latency` more to begin, unless it waits already when that
register is read. Each read takes its bank for the cycle, before integer and float instructions and before metadata.

A matrix instruction that has begun to read goes on. An access reads in a cycle that it leaves open (`closed_by` of
`simulator.timing.operands`): between A and C of one with f16 accumulators, and where B is kept. One that would begin in
a cycle in which an access reads waits for it. One that has not got its metadata in its first stage reads it
instead of the access, which then reads a cycle later; the next register comes when it would have come.

In a cycle one sub-core of an SM reads the address of a load: of several that would, the one that has read one the
longest ago. The others read a cycle later.

Measured: H100 80GB and H200 (the same SM), 2026-11-26, `tests/hardware/pieces.py`: all of 34,410 sequences but 24.

The compiled engine has the same rules (`simulator/timing/compiled/engine.c`, functions of the same names).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from simulator.chip.memory import Shared
from simulator.compiler.timed_code import TimedOperation
from simulator.timing.pipes import Pipes
from simulator.timing.port import Delay, Ring, Sent
from simulator.timing.records import NEVER, NO_MORE, SendingRecord


def trailing_ones(mask: int) -> int:
    """How many of the lowest bits are 1, up to the first that is not."""
    return (~mask & mask + 1).bit_length() - 1


class BankedPort(Ring):
    """The port of one sub-core. When registers are read is foreseen when an access issues, as if no other instruction
    came, and put off when that turns out to be too early.

    Args:
        delay: is told which access comes by how many cycles later.
        hold_writes: is told in which cycle nothing can be written to which banks.
        has_room: is told from when on the sub-core has room for another access.
        settle: lets the sub-core come to a cycle.

    Attributes:
        others: those of the other sub-cores of the SM.
    """

    def __init__(
        self,
        core: Pipes,
        shared: Shared,
        delay: Delay,
        hold_writes: Callable[[int, int], None],
        has_room: Callable[[int], None],
        settle: Callable[[int], None],
    ) -> None:
        super().__init__(core, shared, has_room)
        self.delay, self.hold_writes, self.settle = delay, hold_writes, settle
        core.port, core.last_read, core.port_step = self, -shared.port_cycles, shared.port_cycles
        self.others: Sequence[BankedPort] = ()

    def send(self, now: int, operation: TimedOperation) -> Sent:
        """Foresees when an access that issues now has been read."""
        core, rule = self.core, self.shared
        entry = self.access(core.accesses_made)
        entry.arrives, entry.values, entry.banks = now + core.depth, operation.slow, operation.banks
        entry.left = entry.sent = operation.sent
        begin = self.first_read(entry, self.last_before(core.accesses_made))
        begin += trailing_ones(core.closed(0) >> max(begin - core.read_cycle, 0))
        entry.next, core.port_until = begin, begin + operation.sent * rule.port_cycles
        soonest = core.port_until - rule.port_cycles - core.depth
        read = soonest + rule.port_cycles + rule.operand_latency - rule.store_latency * operation.slow
        return Sent(begin, core.port_until, soonest, read)

    def take(self, now: int, cycles: int) -> int:
        """Gives the port for so many cycles to an access to global memory that issues now, behind all others; returns
        the first of them. Which registers it reads when was not measured: it is in nobody's way."""
        core = self.core
        last = self.last_before(core.accesses_made)
        begin = max(now, last + self.shared.port_cycles - core.depth)
        if core.accesses_read == core.accesses_made:
            core.last_read = max(core.last_read, begin + cycles + core.depth - self.shared.port_cycles)
        core.port_until = begin + cycles
        return begin

    def first_read(self, access: SendingRecord, last: int) -> int:
        """When an access reads its first register, if the one before it has read its last one in cycle `last`."""
        free = last + self.shared.port_cycles
        if not access.values or access.arrives <= last:
            return max(access.arrives, free)
        return max(access.arrives, free) + self.shared.store_latency

    def last_before(self, number: int) -> int:
        """When the access before this one reads its last register."""
        if number > self.core.accesses_read:
            return self.access(number - 1).until - self.shared.port_cycles
        return self.core.last_read

    def unread(self) -> Iterator[int]:
        """The numbers of accesses that have registers to read, in order."""
        yield from range(self.core.accesses_read, self.core.accesses_made)

    def next_read(self) -> int:
        """The first cycle in which a register may be read."""
        if self.core.deferred:
            return self.core.read_cycle
        return min(self.next_unread(), self.next_returned())

    def next_unread(self) -> int:
        """When the first access with registers to read reads the next of them, if nothing puts it off."""
        core = self.core
        if core.accesses_read == core.accesses_made or self.held(core.accesses_read):
            return NEVER
        return self.access(core.accesses_read).next

    def held(self, number: int) -> bool:
        """Whether an access cannot begin because the SM has not taken the one before."""
        return number > self.core.accesses_taken

    def release(self, number: int, cycle: int) -> None:
        """Lets an access begin from this cycle on, as the one before has been taken."""
        if number < self.core.accesses_made:
            cycles = cycle - self.access(number).next
            if cycles > 0:
                self.put_off(number, cycles)
            self.room()

    def room(self) -> None:
        """Says when the sub-core has room for another access, as far as that is known."""
        core, rule = self.core, self.shared
        number = core.accesses_made - rule.queue
        if number < 0:
            return
        access = self.access(number)
        if number < core.accesses_read or (number == core.accesses_read and access.left < access.sent):
            begin = access.begin
        elif number == core.accesses_read and not self.held(number):
            begin = access.next
        else:
            begin = NEVER
        self.has_room(begin - core.depth + rule.queue_latency if begin < NEVER else NEVER)

    def read(self, cycle: int) -> int:
        """Lets the port read in a cycle; returns the banks that are taken: bit 0 for even registers, bit 1 for odd
        ones."""
        core = self.core
        taken, core.deferred = core.deferred | self.returned(cycle), 0
        if core.accesses_read == core.accesses_made:
            return taken
        access = self.access(core.accesses_read)
        if access.next > cycle or self.held(core.accesses_read):
            return taken
        if (closed := core.closed(1)) & 1:
            self.put_off(core.accesses_read, trailing_ones(closed))
            return taken
        if access.left == access.sent:
            if not (access.values or self.is_granted(cycle)):
                return taken
            access.begin = cycle
        bank = 1 << (access.banks & 1)
        access.banks >>= 1
        access.left -= 1
        access.next += self.shared.port_cycles
        if not access.left:
            core.accesses_read += 1
            core.last_read = cycle
        self.room()
        if core.metadata_waits():
            core.deferred = bank
            return taken
        return taken | bank

    def asks(self, cycle: int) -> bool:
        """Whether the address of a load would be read in this cycle, to which the sub-core has come."""
        if self.next_unread() != cycle:
            return False
        access = self.access(self.core.accesses_read)
        return access.left == access.sent and not (access.values or self.core.closed(1) & 1)

    def is_granted(self, cycle: int) -> bool:
        """Lets one sub-core of the SM read the address of a load in a cycle; returns whether that is this one, which
        would. The others that would are put off by a cycle."""
        asking = [self]
        for other in self.others:
            if other.next_unread() <= cycle:
                other.settle(cycle)
                asking += [other] * other.asks(cycle)
        first = min(asking, key=lambda port: port.core.granted_at)
        first.core.granted_at = cycle
        for other in asking:
            if other is not first:
                other.put_off(other.core.accesses_read, 1)
        return first is self

    def returned(self, cycle: int) -> int:
        """The banks from which returns read in a cycle: `simulator.timing.returns`."""
        core, banks = self.core, 0
        for warp in core.mine if cycle <= core.return_until else ():
            first, second = core.returns.reads_at(warp)
            banks |= (first == cycle) | (second == cycle) << 1
        return banks

    def next_returned(self) -> int:
        """The first cycle, from that on to which the stages have come, in which a return may read."""
        core, found = self.core, NEVER
        for warp in core.mine if core.read_cycle <= core.return_until else ():
            for cycle in core.returns.reads_at(warp):
                found = cycle if core.read_cycle <= cycle < found else found
        return found

    def hold(self, cycle: int) -> None:
        """Lets accesses that are still in the stages come a cycle later, which stand still."""
        for number in self.unread():
            access = self.access(number)
            if access.arrives > cycle:
                access.arrives += 1
                self.keep_order(number)

    def keep_order(self, number: int) -> None:
        """Puts an access off that would read before it has come, or before the port is free."""
        access = self.access(number)
        cycles = self.first_read(access, self.last_before(number)) - access.next
        if cycles > 0:
            self.put_off(number, cycles)

    def put_off(self, number: int, cycles: int) -> None:
        """Lets an access read what is left so many cycles later, and those behind it if they wait for that."""
        core, access = self.core, self.access(number)
        access.next += cycles
        access.soonest += cycles
        access.until += cycles
        self.delay(access, cycles)
        if number + 1 < core.accesses_made:
            self.keep_order(number + 1)
        else:
            core.port_until = access.until
        self.room()

    def state(self, now: int) -> list[int]:
        """All that decides what the port does next, in cycles relative to `now`."""
        core = self.core
        state = [max(core.last_read + self.shared.port_cycles - now, 0), core.deferred]
        for access in map(self.access, self.unread()):
            state += (access.arrives - now, access.next - now, access.left, access.banks, *self.words(access, now))
        return [*state, NO_MORE]


def connect(ports: Sequence[object]) -> None:
    """Lets the ports of an SM know of each other."""
    banked = [port for port in ports if isinstance(port, BankedPort)]
    for port in banked:
        port.others = [other for other in banked if other is not port]
