"""The shared memory of an SM behind the ports of its sub-cores, in plain loops: what it takes and what begins, cycle by
cycle. A second opinion on `simulator.timing.shared_memory`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from simulator.timing.config import Config

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


class Server:
    """One SM. What happens in a cycle is decided `late` cycles later."""

    def __init__(self, config: Config, ports: int) -> None:
        self.rule = config.shared
        self.late = max(config.reading_stages, config.pipe.port_delay) + 1
        self.sent: list[list[Access]] = [[] for _ in range(ports)]  # by port, in order
        self.took = [0] * ports
        self.order = [*range(ports)]  # the port that was served the longest ago first
        self.queue: list[tuple[int, Access]] = []
        self.taken, self.gaps = set[int](), set[int]()  # cycles with a wavefront, and those kept from stores
        self.singles = [0] * ports  # loads of four registers one by one since the last whose registers come together
        self.begun = -9
        self.senders = [0] * min(config.shared.senders, ports)  # until when stores are sent
        self.returned: dict[int, int] = {}  # registers of loads that come back, by cycle

    @property
    def waiting(self) -> list[Access]:
        """What has not begun."""
        unseen = [a for took, accesses in zip(self.took, self.sent, strict=True) for a in accesses[took:]]
        return [*(access for _, access in self.queue), *unseen]

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
        waves = sum(access.waves for access in self.waiting)
        begin = max([now - 1, *self.taken]) + 1 + waves * self.rule.cycles
        self.taken |= set(range(begin, begin + cycles))
        return begin

    def step(self, now: int) -> None:
        """Decides what happens some cycles ago."""
        then = now - self.late
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
        reach = self.rule.reach - (self.begun == then - 1)
        for place, (port, access) in enumerate(self.queue):
            if place >= reach and not access.store:
                continue
            if any(other.owner is access.owner for _, other in self.queue[:place]) or access.owner.turn > then:
                continue
            found = self.places(then, access.waves, access.store)
            if found[0] == then:
                del self.queue[place]
                self.begun = then
                self.begin(port, access, found)
                break
        for port, n in enumerate(self.took):
            for access in self.sent[port][n : n + 1]:
                late = min(self.senders) - access.soonest
                if access.values and access.soonest <= then and late > 0:
                    access.soonest += late
                    access.later(late)

    def begin(self, port: int, access: Access, found: list[int]) -> None:
        rule = self.rule
        self.taken |= {cycle for place in found for cycle in self.cycles(place)}
        access.owner.turn, last = found[-1] + rule.wavefront_interval, found[-1]
        if access.written == 4 and access.together:
            lost = min(round(self.singles[port] / rule.vector_after + 1e-9), rule.vector_gap)
            self.taken |= {cycle for place in self.places(last, lost, False) for cycle in self.cycles(place)}
            self.singles[port] = 0
        self.singles[port] += access.written == 4 and not access.together
        self.gaps -= self.taken
        done = last + access.latency
        access.told(done + self.later(access, found[0], last))

    def later(self, access: Access, first: int, last: int) -> int:
        """How much later a load's last register comes back, since all sub-cores get but so many a cycle."""
        step = 0 if access.together else (last - first) // max(access.written - 1, 1)
        most, at = -(-self.rule.wavefronts // self.rule.cycles), 0
        for number in range(access.written):
            at = max(at, last + 1 - (access.written - 1 - number) * step)
            while self.returned.get(at, 0) == most:
                at += 1
            self.returned[at] = self.returned.get(at, 0) + 1
        soonest = last + 1 + (access.written - 1) // most * access.together
        return at - soonest if access.written else 0
