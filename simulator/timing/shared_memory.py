"""Shared memory of the SMs: ports of the sub-cores, wavefronts, and when values arrive.

An access leaves its sub-core through a port that carries its registers (addresses, and values of a store) one after the other, in the order of
issue. The SM then serves one wavefront a cycle, of any access that has one to give. Wavefronts of one warp keep a distance: of one access, and from
its last to the first of the warp's next access, so that a lone warp cannot use more than a part of the SM's bandwidth and two can.

An access is given its place when it is issued: nothing that comes later changes it. So the time of a value is known at issue, and the state is
little: cycles that are taken, and when ports and warps are free again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simulator.timing.model import TimedOperation, Unit

if TYPE_CHECKING:
    from simulator.timing.config import Shared
    from simulator.timing.cores import SubCore, Warp


class Access(NamedTuple):
    """When an access is done, in cycles of the run.

    Attributes:
        cycles: for which it takes shared memory.
        ready: the first in which an instruction that needs the value can issue; of a store, the one after its last wavefront.
        read: the first in which an instruction that overwrites its address or the value that it stores can issue.
    """

    cycles: int
    ready: int
    read: int


class SharedMemory:
    """Shared memory of each SM of a run."""

    def __init__(self, rule: Shared, sms: int, cores: int, warps: int) -> None:
        self.rule = rule
        self.first = [0] * sms  # cycle of the lowest bit of `taken`
        self.taken = [0] * sms  # a bit for each cycle in which a wavefront is served
        self.port = [0] * cores  # when each sub-core's port takes the next access
        self.turn = [0] * warps  # when the next access of each warp may begin

    def serve(self, core: SubCore, warp: Warp, operation: TimedOperation, now: int) -> Access:
        """Gives an access that is issued now its place."""
        rule, values = self.rule, operation.sent - 1
        sent = max(now, self.port[core.number])
        self.port[core.number] = sent + operation.sent * rule.port_cycles
        at = sent + (values * rule.port_cycles + rule.store_latency if values else 0)
        count = wavefronts(warp, operation)
        if values:
            core.free[Unit.TENSOR] = max(core.free[Unit.TENSOR], self.port[core.number])
        last = self.place(warp.cta, max(at, self.turn[warp.place]), count, now)
        self.turn[warp.place] = last + rule.wavefront_interval
        ready = last + (operation.latency if operation.writes else rule.cycles)
        return Access(count * rule.cycles, ready, self.port[core.number] + rule.operand_latency)

    def place(self, sm: int, at: int, count: int, now: int) -> int:
        """Takes cycles for `count` wavefronts of one access from `at` on; returns the cycle of the last."""
        rule = self.rule
        if now > self.first[sm]:
            self.taken[sm] >>= now - self.first[sm]
            self.first[sm] = now
        taken, place, width = self.taken[sm], at - self.first[sm], (1 << rule.cycles) - 1
        for _ in range(count):
            while busy := taken >> place & width:
                place += busy.bit_length()
            taken |= width << place
            place += rule.wavefront_interval
        self.taken[sm] = taken
        return self.first[sm] + place - rule.wavefront_interval

    def block(self, sm: int, now: int, cycles: int) -> int:
        """Takes `cycles` in one piece, after all that has a place; returns the first."""
        begin = max(now, self.first[sm] + self.taken[sm].bit_length())
        self.taken[sm] |= ((1 << cycles) - 1) << begin - self.first[sm]
        return begin

    def state(self, now: int) -> tuple[object, ...]:
        """What decides the future, relative to `now`."""
        taken = tuple(bits >> max(now - first, 0) << max(first - now, 0) for bits, first in zip(self.taken, self.first, strict=True))
        return (taken, *(max(at - now, 0) for at in (*self.port, *self.turn)))


def wavefronts(warp: Warp, operation: TimedOperation) -> int:
    """Of this execution."""
    assert operation.costs is not None
    assert operation.column is not None
    run = 0
    if len(operation.costs) > 1:
        run = warp.runs.get(warp.pc, 0)
        warp.runs[warp.pc] = run + 1
    return operation.costs[run][operation.column[warp.id]]
