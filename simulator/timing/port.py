"""The port of a sub-core to shared memory: when it sends the registers of accesses, and how matrix instructions come
between them.

So it is on chips without `[registers]` in their config; with it, see `simulator.timing.banked_port`.

The port sends accesses in the order of issue: the addresses, then the values of a store, `[shared] port_cycles` for
each register. A part of a matrix instruction's registers comes the same way, `port` cycles of its class, beginning
`[pipe] port_delay` cycles before an access that issues in the same cycle could begin. It goes first: before accesses
that have not begun, and between two registers of a store. A load that has begun is not interrupted. Behind a matrix
instruction a load begins `[pipe] turnaround` cycles later than a store.

A sparse matrix instruction that finds an access under way is late, and its warp with it: by a cycle for a load, until
the next register for a store. A dense one is not, but the pipe takes the next a cycle later.

The compiled engine has the same rules (`simulator/timing/compiled/engine.c`, functions of the same names).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import NamedTuple

from isa.forms.record import Unit
from simulator.chip.memory import Shared
from simulator.chip.tables import Pipe
from simulator.compiler.timed_code import TimedOperation
from simulator.timing.pipes import Pipes
from simulator.timing.records import MORE_ACCESSES, NEVER, NO_MORE, SendingRecord

Delay = Callable[[SendingRecord, int], None]


class Sent(NamedTuple):
    """When the port sends an access, in cycles of the run.

    Attributes:
        begin, until: from when and until when the port is taken.
        soonest: the first cycle in which a wavefront can come.
        read: the first cycle in which an instruction that overwrites its address or the value that it stores can issue.
    """

    begin: int
    until: int
    soonest: int
    read: int


class Ring:
    """The accesses of one sub-core, in a ring that is longer than as many as can wait: for the port, or for their first
    wavefront."""

    def __init__(self, core: Pipes, shared: Shared, has_room: Callable[[int], None]) -> None:
        self.core, self.shared, self.has_room = core, shared, has_room
        self.ring = (SendingRecord * (shared.queue + MORE_ACCESSES))()
        core.accesses_array = ctypes.addressof(self.ring)

    def access(self, number: int) -> SendingRecord:
        """One of the last accesses, of which so many were made before."""
        entry: SendingRecord = self.ring[number % len(self.ring)]
        return entry

    def latest(self) -> Iterator[SendingRecord]:
        """All accesses of the ring, in order."""
        made = self.core.accesses_made
        return map(self.access, range(max(made - len(self.ring), 0), made))

    @staticmethod
    def words(access: SendingRecord, now: int) -> tuple[int, ...]:
        """What decides how an access goes on at any port, in cycles relative to `now`."""
        return access.until - now, access.values, access.warp, access.pc, access.soonest - now, access.read - now


class Port(Ring):
    """The port of one sub-core of a chip whose banks of registers are not known."""

    def __init__(self, core: Pipes, shared: Shared, pipe: Pipe, has_room: Callable[[int], None]) -> None:
        super().__init__(core, shared, has_room)
        self.pipe = pipe

    def send(self, now: int, operation: TimedOperation) -> Sent:
        """Gives the port to an access that issues now."""
        core, rule, values = self.core, self.shared, operation.sent - 1
        self.access(core.accesses_made).values = values
        begin = self.take(now, operation.sent * rule.port_cycles, values)
        soonest = begin + (values * rule.port_cycles + rule.store_latency if values else 0)
        return Sent(begin, core.port_until, soonest, core.port_until + rule.operand_latency)

    def take(self, now: int, cycles: int, values: int = 0) -> int:
        """Gives the port for so many cycles to an access that issues now, with the values of a store or none; returns
        the first of them."""
        core = self.core
        begin = max(now, core.port_until, core.port_stores if values else core.port_loads)
        core.port_until = begin + cycles
        return begin

    def room(self) -> None:
        """Says when the sub-core has room for another access, as far as that is known."""
        number = self.core.accesses_made - self.shared.queue
        if number > self.core.accesses_taken:
            self.has_room(NEVER)
        elif number >= 0:
            self.has_room(self.access(number).begin + self.shared.queue_latency)

    def release(self, number: int, cycle: int) -> None:
        """Notes that the SM has taken all accesses before this one."""
        self.room()

    def pending(self, now: int) -> Iterator[SendingRecord]:
        """The accesses that the port has not sent by `now`, in order."""
        return (access for access in self.latest() if access.until > now)

    def give(self, operation: TimedOperation, now: int, delay: Delay) -> int:
        """Gives the port to a matrix instruction that wants it from `now` on; accesses that it goes before come later.

        Args:
            delay: is told which access comes by how many cycles later.

        Returns:
            the cycles by which the instruction is late.
        """
        if not operation.port:
            return 0
        core, late, before, under_way = self.core, 0, 0, True
        for access in [*self.pending(now)]:
            if under_way and access.begin < now + (not access.values):
                if operation.sparse:
                    late = self.late(access, now)
                else:
                    core.free[Unit.TENSOR] += self.pipe.integer
                if access.values and now <= access.until - self.shared.port_cycles:  # registers are left
                    access.begin += operation.port
                    access.until += operation.port
                    delay(access, operation.port)
            else:
                free = now + late + operation.port + (0 if access.values else self.pipe.turnaround)
                cycles = max(before, free) - access.begin
                if cycles > 0:
                    access.begin += cycles
                    access.soonest += cycles
                    access.until += cycles
                    delay(access, cycles)
            under_way, before = False, access.until
        core.port_stores = now + late + operation.port
        core.port_loads = core.port_stores + self.pipe.turnaround
        core.port_until = max(core.port_until, before)
        self.room()
        return late

    def late(self, access: SendingRecord, now: int) -> int:
        """How late a sparse matrix instruction is that wants the port `now`, while it sends this access."""
        return (access.begin - now) % self.shared.port_cycles if access.values else 1

    def state(self, now: int) -> list[int]:
        """All that decides what the port does next, in cycles relative to `now`."""
        core = self.core
        state = [max(cycle - now, 0) for cycle in (core.port_until, core.port_stores, core.port_loads)]
        for access in self.pending(now - self.pipe.port_delay):
            state += (access.begin - now, *self.words(access, now))
        return [*state, NO_MORE]
