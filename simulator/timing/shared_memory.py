"""The timing of shared memory: when each access is served, wavefront by wavefront, and when its values arrive.

An access leaves its sub-core through a port that carries its registers (addresses, and values of a store) one after the
other, in the order of issue; matrix instructions wait while it carries values. The SM then serves one wavefront a
cycle, of any access that has one to give. Wavefronts of one warp keep a distance: of one access, and from its last to
the first of the warp's next access, so that a lone warp cannot use more than a part of the SM's bandwidth and two can.
A sub-core lets a number of accesses wait for their first wavefront and issues no more until one of them has it.

An access is given its place when it is issued: nothing that comes later changes it. So the time of a value is known at
issue, and the state is
little: cycles that are taken, and when ports and warps are free again.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from isa.forms.record import Unit
from simulator.timing.model import TimedOperation
from simulator.timing.observer import TimingObserver
from simulator.timing.pipes import Pipes
from simulator.timing.tables import Shared
from simulator.timing.warp import Warp


class Access(NamedTuple):
    """When an access is done, in cycles of the run.

    Attributes:
        cycles: how many cycles it takes of shared memory.
        ready: the first cycle in which an instruction that needs the value can issue; of a store, the one after its
        last
            wavefront.
        read: the first cycle in which an instruction that overwrites its address or the value that it stores can issue.
    """

    cycles: int
    ready: int
    read: int


class SharedMemory:
    """The shared memory of each SM of a run, and the ports of the sub-cores to it."""

    def __init__(self, rule: Shared, sms: int, cores: int, warps: int, observer: TimingObserver | None = None) -> None:
        self.rule, self.observer = rule, observer
        self.first = [0] * sms  # cycle of the lowest bit of `taken`
        self.taken = [0] * sms  # a bit for each cycle in which a wavefront is served
        self.port = [0] * cores  # when each sub-core's port takes the next access
        self.queues: list[deque[int]] = [
            deque() for _ in range(cores)
        ]  # first wavefronts of the accesses that each sub-core issued last
        self.turn = [0] * warps  # when the next access of each warp may begin

    def serve(self, core: Pipes, warp: Warp, operation: TimedOperation, now: int) -> Access:
        """Gives an access that is issued now its place, and returns when it is done."""
        rule, values = self.rule, operation.sent - 1
        sent = max(now, self.port[core.number])
        self.port[core.number] = sent + operation.sent * rule.port_cycles
        if self.observer is not None:
            self.observer.serve("shared", warp.cta, sent, self.port[core.number], core.number)
        soonest = sent + (values * rule.port_cycles + rule.store_latency if values else 0)
        count = warp.wavefronts(operation)
        if values:
            core.stores_until = self.port[core.number]
        first, last = self.place(warp.cta, max(soonest, self.turn[warp.place]), count, now)
        self.wait(core, first, now)
        self.turn[warp.place] = last + rule.wavefront_interval
        ready = last + (operation.latency if operation.writes else rule.cycles)
        return Access(count * rule.cycles, ready, self.port[core.number] + rule.operand_latency)

    def wait(self, core: Pipes, first: int, now: int) -> None:
        """Counts an access that waits for its first wavefront, and says when the sub-core has room for another."""
        queue = self.queues[core.number]
        queue.append(first)
        if len(queue) == self.rule.queue:
            core.free[Unit.SHARED] = max(now + 1, queue.popleft())

    def place(self, sm: int, soonest: int, count: int, now: int) -> tuple[int, int]:
        """Takes cycles for `count` wavefronts of one access from `soonest` on; returns the cycles of the first and of
        the last."""
        rule = self.rule
        if now > self.first[sm]:
            self.taken[sm] >>= now - self.first[sm]
            self.first[sm] = now
        taken, place, width = self.taken[sm], soonest - self.first[sm], (1 << rule.cycles) - 1
        begun = last = place
        for number in range(count):
            while (ahead := taken >> place) & width:
                place += (
                    (~ahead & ahead + 1).bit_length() - 1 if ahead & 1 else 1
                )  # past the cycles that are taken without a gap
            taken |= width << place
            begun, last = place if number == 0 else begun, place
            if self.observer is not None:
                self.observer.serve("shared memory", sm, self.first[sm] + place, self.first[sm] + place + rule.cycles)
            place += rule.wavefront_interval
        self.taken[sm] = taken
        return self.first[sm] + begun, self.first[sm] + last

    def block(self, sm: int, now: int, cycles: int) -> int:
        """Takes `cycles` in one piece, after all accesses that have a place; returns the first."""
        begin = max(now, self.first[sm] + self.taken[sm].bit_length())
        self.taken[sm] |= ((1 << cycles) - 1) << begin - self.first[sm]
        if self.observer is not None:
            self.observer.serve("shared memory", sm, begin, begin + cycles)
        return begin

    def state(self, now: int) -> tuple[object, ...]:
        """All that decides what happens next, in cycles relative to `now`."""
        taken = tuple(
            bits >> max(now - first, 0) << max(first - now, 0)
            for bits, first in zip(self.taken, self.first, strict=True)
        )
        queues = tuple(tuple(max(cycle - now, 0) for cycle in queue) for queue in self.queues)
        return (taken, queues, *(max(cycle - now, 0) for cycle in (*self.port, *self.turn)))
