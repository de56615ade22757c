"""How accesses to shared memory read their registers, on chips with stages and banks (`simulator.timing.operands`).

An access leaves the stages and comes to the port of its sub-core, which reads a register every `[shared] port_cycles`,
in the order of issue: the values of a store, then the address. An access finds the port free when the last one has read
its last register so long ago. A store takes `[shared] store_latency` more to begin, unless it waits already when that
register is read. Each read takes its bank for the cycle, before integer and float instructions and before metadata.

A matrix instruction that has begun to read goes on. An access reads in a cycle that it leaves free if it leaves the one
free, too, in which the port would read the next register: between A and C of one with f16 accumulators. One that would
begin in a cycle in which an access reads waits for it. One that has not got its metadata in its first stage reads it
instead of the access, which then reads a cycle later; the next register comes when it would have come.

Results of loads and shuffles are written `[registers] written` cycles before an instruction that needs them can issue,
and the registers of a load before that one by one. In a cycle in which a matrix instruction lets none be written
(`late` of its class) they wait.

Measured: H100 80GB, 2026-11-26, `tests/hardware/pieces.py`: all of 22,148 sequences but one.

The compiled engine has the same rules (`simulator/timing/compiled/engine.c`, functions of the same names).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from simulator.timing.model import TimedOperation
from simulator.timing.pipes import Pipes
from simulator.timing.port import Delay, Ring, Sent
from simulator.timing.records import NEVER, NO_MORE, SendingRecord
from simulator.timing.tables import Shared


def trailing_ones(mask: int) -> int:
    """How many of the lowest bits are 1, up to the first that is not."""
    return (~mask & mask + 1).bit_length() - 1


class BankedPort(Ring):
    """The port of one sub-core. When registers are read is foreseen when an access issues, as if no other instruction
    came, and put off when that turns out to be too early.

    Args:
        delay: is told which access comes by how many cycles later, and the one before it of the same warp, if that
            waits here, too.
        come_later: is told which access has its value by how many cycles later.
    """

    def __init__(
        self, core: Pipes, shared: Shared, delay: Delay, come_later: Callable[[SendingRecord, int], None]
    ) -> None:
        super().__init__(core, shared)
        self.delay, self.come_later = delay, come_later
        core.port, core.last_read, core.port_step = self, -shared.port_cycles, shared.port_cycles

    def send(self, now: int, operation: TimedOperation) -> Sent:
        """Foresees when an access that issues now has been read."""
        core, rule = self.core, self.shared
        entry = self.access(core.accesses_made)
        entry.arrives, entry.values, entry.left, entry.banks = (
            now + core.depth,
            operation.slow,
            operation.sent,
            operation.banks,
        )
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

    def writes(self, entry: SendingRecord, operation: TimedOperation) -> None:
        """Notes when the results of an access are written."""
        count = len(operation.writes)
        entry.unwritten = count
        entry.step = 1 if operation.together else (entry.last - entry.first) // max(count - 1, 1)
        entry.due = entry.written = entry.ready - self.core.result_stage - max(count - 1, 0) * entry.step

    def hold_writes(self, cycle: int) -> None:
        """Lets nothing be written in a cycle: results come later."""
        for access in self.latest():
            while access.unwritten and access.written < cycle:
                access.unwritten -= 1
                access.due += access.step
                access.written = max(access.due, access.written + 1)
            if access.unwritten and access.written == cycle:
                access.written += 1
                last = max(access.due + (access.unwritten - 1) * access.step, access.written + access.unwritten - 1)
                self.come_later(access, last + self.core.result_stage - access.ready)

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
        core = self.core
        if core.deferred:
            return core.read_cycle
        return self.access(core.accesses_read).next if core.accesses_read < core.accesses_made else NEVER

    def read(self, cycle: int) -> int:
        """Lets the port read in a cycle; returns the banks that are taken: bit 0 for even registers, bit 1 for odd
        ones."""
        core = self.core
        taken, core.deferred = core.deferred, 0
        if core.accesses_read == core.accesses_made:
            return taken
        access = self.access(core.accesses_read)
        if access.next > cycle:
            return taken
        if (closed := core.closed(1)) & 1:
            self.put_off(core.accesses_read, trailing_ones(closed))
            return taken
        bank = 1 << (access.banks & 1)
        access.banks >>= 1
        access.left -= 1
        access.next += self.shared.port_cycles
        if not access.left:
            core.accesses_read += 1
            core.last_read = cycle
        if core.metadata_waits():
            core.deferred = bank
            return taken
        return taken | bank

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
        core, access, before = self.core, self.access(number), None
        for other in range(core.accesses_read, number):
            if self.access(other).warp == access.warp:
                before = self.access(other)
        access.next += cycles
        access.soonest += cycles
        access.until += cycles
        self.delay(access, cycles, before)
        if number + 1 < core.accesses_made:
            self.keep_order(number + 1)
        else:
            core.port_until = access.until

    def state(self, now: int) -> list[int]:
        """All that decides what the port does next, in cycles relative to `now`."""
        core = self.core
        state = [max(core.last_read + self.shared.port_cycles - now, 0), core.deferred]
        for access in map(self.access, self.unread()):
            state += (access.arrives - now, access.next - now, access.left, access.banks, *self.words(access, now))
        for access in self.latest():
            last = access.written + max(access.step, 1) * (access.unwritten - 1)
            if access.unwritten and last >= now:
                state += (access.unwritten, access.due - now, access.written - now, access.step, access.warp, access.pc)
                state.append(access.ready - now)
        return [*state, NO_MORE]
