"""The shared memory of an SM behind the ports of its sub-cores, in plain loops: what it takes and what begins, cycle by
cycle. A second opinion on `simulator.timing.shared_memory` and, where nothing keeps registers from being written, on
`simulator.timing.return_path`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from simulator.chip.config import Config

UNKNOWN = 10**9  # and more: the cycle in which a value is there, until that is known


class Owner(Protocol):
    """A warp: when its next access may begin."""

    turn: int


@dataclass(eq=False)
class Access:
    """An access that has issued.

    Attributes:
        soonest: when it may be taken.
        waves: its wavefronts.
        store: whether it is one.
        written: registers that it writes; together: whether they come after the last wavefront.
        latency: cycles behind the last wavefront.
        told: is told when it is done.
        values: of a store.
        later: is told by how many cycles its registers are read later.
        passed: how many have begun before it since it has found no room.
    """

    owner: Owner
    soonest: int
    waves: int
    store: bool
    written: int
    together: bool
    latency: int
    told: Callable[[int], None]
    values: int = 0
    later: Callable[[int], None] = lambda cycles: None
    passed: int = 0

    @property
    def places(self) -> int:
        """How many of its registers need room of their own: only the last, if they come together."""
        return min(self.written, 1) if self.together else self.written


@dataclass(order=True)
class Register:
    """A register that comes back: from when on it can, of which access, and whether it is that one's last."""

    soonest: int
    access: Access = field(compare=False)
    last: bool = field(compare=False)

    @property
    def needs_room(self) -> bool:
        return self.last or not self.access.together


class Server:
    """One SM. What happens in a cycle is decided `late` cycles later."""

    def __init__(self, config: Config, ports: int) -> None:
        self.rule = config.shared
        self.late = max(config.registers.stages, config.pipe.port_delay) + 1
        self.sent: list[list[Access]] = [[] for _ in range(ports)]  # by port, in order
        self.took = [0] * ports
        self.order = [*range(ports)]  # the port that was served the longest ago first
        self.queue: list[tuple[int, Access]] = []
        self.taken, self.gaps = set[int](), set[int]()  # cycles with a wavefront, and those kept from stores
        self.begun = -9
        self.senders = [0] * min(config.shared.senders, ports)  # until when stores are sent
        self.most = -(-self.rule.wavefronts // self.rule.cycles)  # registers that come back in a cycle
        self.pipe: list[Register] = []  # those that have not, the next first
        self.kept: list[tuple[int, Register]] = []  # those that have and need room, and until when

    @property
    def waiting(self) -> list[Access]:
        """What has not begun, or not come back."""
        unseen = [a for took, accesses in zip(self.took, self.sent, strict=True) for a in accesses[took:]]
        returning = [*(register.access for _, register in self.kept), *(register.access for register in self.pipe)]
        return [*(access for _, access in self.queue), *unseen, *returning]

    def has_room(self, access: Access) -> bool:
        """Whether a load can begin."""
        used = sum(register.needs_room for register in self.pipe) + len(self.kept)
        return not access.places or used + access.places <= self.rule.loads

    def cycles(self, place: int) -> range:
        return range(place, place + self.rule.cycles)

    def places(self, at: int, waves: int, store: bool) -> list[int]:
        """Where so many wavefronts find room from a cycle on."""
        found = []
        for _ in range(waves):
            while any(cycle in self.taken or (store and cycle in self.gaps) for cycle in self.cycles(at)):
                at += 1
            found.append(at)
            at += self.rule.wavefront_interval
        return found

    def block(self, now: int, cycles: int) -> int:
        """Takes so many cycles behind all accesses; returns the first."""
        waves = sum(access.waves for access in self.waiting[: -(len(self.pipe) + len(self.kept)) or None])
        begin = max([now - 1, *self.taken]) + 1 + waves * self.rule.cycles
        self.taken |= set(range(begin, begin + cycles))
        return begin

    def step(self, now: int) -> None:
        """Decides what happens some cycles ago."""
        then = now - self.late
        self.come_back(then)
        sending = {port: self.sent[port][n] for port, n in enumerate(self.took) if n < len(self.sent[port])}
        there = {port: access for port, access in sending.items() if access.soonest <= then}
        able = [p for p in self.order if p in there and not (there[p].values and min(self.senders) > then)]
        if able and len(self.queue) < self.rule.waiting:
            access = there[able[0]]
            if access.values:
                self.senders.remove(min(self.senders))
                self.senders.append(then + access.values * self.rule.port_cycles)
            self.queue.append((able[0], access))
            self.took[able[0]] += 1
            self.order.remove(able[0])
            self.order.append(able[0])
        reach, refused = self.rule.reach - (self.begun == then - 1), None
        for place, (_, access) in enumerate(self.queue):
            if place >= reach and not access.store:
                continue
            if any(other.owner is access.owner for _, other in self.queue[:place]) or access.owner.turn > then:
                continue
            found = self.places(then, access.waves, access.store)
            if found[0] > then:
                continue
            if not self.has_room(access):
                refused = refused or access
                if refused.passed == self.rule.passes:
                    break
                continue
            if refused:
                refused.passed += 1
            del self.queue[place]
            self.begun = then
            self.begin(access, found)
            break
        for port, n in enumerate(self.took):
            for access in self.sent[port][n : n + 1]:
                late = min(self.senders) - access.soonest
                if access.values and access.soonest <= then and late > 0:
                    access.soonest += late
                    access.later(late)

    def begin(self, access: Access, found: list[int]) -> None:
        self.taken |= {cycle for place in found for cycle in self.cycles(place)}
        access.owner.turn, first, last = found[-1] + self.rule.wavefront_interval, found[0], found[-1]
        self.gaps -= self.taken
        if not access.written:
            access.told(last + access.latency)
        step = 0 if access.together else (last - first) // max(access.written - 1, 1)
        for left in reversed(range(access.written)):
            self.pipe.append(Register(last + 1 - left * step, access, not left))
        self.pipe.sort()

    def come_back(self, then: int) -> None:
        """Lets registers come back in a cycle, in the order of their wavefronts."""
        for _ in range(self.most):
            if self.pipe and self.pipe[0].soonest <= then:
                register = self.pipe.pop(0)
                if register.needs_room:
                    self.kept.append((then + self.rule.freed, register))
        while self.kept and self.kept[0][0] <= then:
            until, register = self.kept.pop(0)
            if register.last:
                access, further = register.access, (register.access.written - 1) // self.most
                access.told(until - self.rule.freed - 1 + access.latency - further * access.together)
