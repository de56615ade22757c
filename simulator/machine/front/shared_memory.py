"""The shared memory of an SM: when each access is served, wavefront by wavefront, and when its values arrive.

Behind the ports of its sub-cores (`port`) the SM takes one access a cycle into its queue: of the sub-cores that have
one, that whose last one was taken the longest ago. A store waits at its port while as many others as the SM can take
values from (`senders`) are being sent. Of the loads at the first places of the queue (`reach`) and of all stores, the
first that can begins as soon as a wavefront is free; an access whose warp's last one is not through waits, and lets
others pass. Wavefronts of one warp keep a distance, so that a lone warp cannot use more than a part of the SM's
bandwidth, and two accesses are served in turn. A load begins only if there is room for its registers, which then come
back to the sub-cores (`return_path`).

When an access begins is decided so late (`lag`) that nothing can delay its registers at the port any more, and before
its values can matter: until then they count as never ready.

Measured: H100 80GB and H200 (docs/timing.md, Shared memory).
"""

from __future__ import annotations

from typing import Any

import cython

from simulator.machine.front.access import Access, AccessQueue, Clock
from simulator.machine.front.port import Port
from simulator.machine.front.program import NEVER, Instruction, Words
from simulator.machine.front.return_path import Returning, ReturnPath
from simulator.machine.front.rules import Rules
from simulator.machine.front.senders import Senders
from simulator.machine.front.sub_core import MOST_STORES, SubCore
from simulator.machine.front.warp import Warp
from simulator.machine.front.wavefronts import GAP, TAKEN, Wavefronts


@cython.final
@cython.cclass
class SharedMemory:
    """That of one SM.

    Attributes:
        port: that of its first sub-core.
        queue: accesses that it has taken and that have not begun.
        senders: what sends the values of stores.
        begun: the cycle in which the last access has begun.
        served: the cycle up to which it has been decided what is served; `tick`: when the next decision is due.
        busy: slots taken by accesses.
    """

    rules: Rules
    clock: Clock
    cores: list
    port: Port
    wavefronts: Wavefronts
    path: ReturnPath
    queue: AccessQueue
    senders: Senders
    begun: cython.longlong
    served: cython.longlong
    tick: cython.longlong
    busy: cython.longlong
    observer: object

    def __init__(self, rules: Rules, clock: Clock, cores: Any, cta: Any, observer: Any) -> None:
        self.rules, self.clock, self.cores, self.observer = rules, clock, cores, observer
        self.wavefronts, self.path = Wavefronts(rules, cta, observer), ReturnPath(rules)
        self.queue, self.senders = AccessQueue(), Senders(rules)
        self.begun, self.served, self.tick, self.busy = NEVER, 0, NEVER, 0
        core: SubCore = cores[rules.sub_cores - 1]
        last: Port = core.port
        for core in cores:
            last.following = core.port
            last = core.port
        self.port = last.following

    # From the sub-cores

    @cython.cfunc
    def send(self, core: SubCore, warp: Warp, instruction: Instruction, now: cython.longlong) -> Access:
        """Sends an access that issues now to the port; when it is served is decided later."""
        access: Access = core.port.send(warp, instruction, now)
        if self.observer is not None:
            self.observer.serve(
                "shared", warp.cta, access.begin, access.until, core.cta * self.rules.sub_cores + core.number
            )
            access.issue = self.observer.current
        if 0 < self.rules.gap < instruction.sent:
            core.stores = min(core.stores + 1, MOST_STORES)
        access.count, access.behind = warp.wavefronts(), warp.behind
        warp.between = True
        self.busy += access.count * self.rules.cycles
        self.plan(max(access.soonest, self.served))
        core.port.update_room()
        return access

    @cython.cfunc
    def plan(self, cycle: cython.longlong) -> cython.void:
        """Plans to decide, not later than needed, what is served in a cycle."""
        self.tick = min(self.tick, cycle + self.rules.lag)

    @cython.cfunc
    @cython.exceptval(check=True)
    def leave_gap(self, core: SubCore, instruction: Instruction, now: cython.longlong) -> cython.void:
        """Takes the wavefronts that the SM cannot give to stores while a matrix instruction comes between the registers
        of one: half of what it takes of the port, as two sub-cores send at a time, but no more than stores have come
        since the last one."""
        gap: cython.longlong = min(instruction.port // 2, core.stores) if core.port.free_from > now else 0
        core.stores = 0
        if gap:
            self.wavefronts.place(now, gap, now, False, GAP)

    # What begins

    @cython.cfunc
    @cython.exceptval(check=True)
    def serve(self, now: cython.longlong) -> cython.void:
        """Decides what is served up to `lag` cycles before now."""
        returns: cython.bint = self.path.due() <= now
        until: cython.longlong = now - self.rules.lag
        port: Port = self.port
        for _ in range(self.rules.sub_cores):
            if port.head is not None and port.head.soonest <= until and port.read < port.made:
                port.core.settle(now)
            port = port.following
        cycle: cython.longlong = self.next_decision(max(self.served, self.tick - self.rules.lag))
        while cycle <= until:
            self.take(cycle)
            self.begin(cycle)
            self.put_off_stores(cycle)
            cycle = self.next_decision(cycle + 1)
        self.served = max(self.served, until + 1)
        if returns:
            self.write(now)
        self.tick = min(cycle + self.rules.lag if cycle < NEVER else NEVER, self.path.due())

    @cython.cfunc
    def next_decision(self, cycle: cython.longlong) -> cython.longlong:
        """The first cycle, from this one on, in which an access can be taken or begin."""
        found: cython.longlong = NEVER
        if self.queue.count < self.rules.waiting:
            port: Port = self.port
            for _ in range(self.rules.sub_cores):
                if port.head is not None and port.head.soonest < found:
                    found = min(found, self.senders.comes(port.head))
                port = port.following
            if found <= cycle:
                return cycle
        k: cython.int = 0
        access: Access = self.queue.first
        self.queue.ask()
        while access is not None:
            head: cython.bint = self.queue.is_head(access, k, self.rules.reach)
            k += 1
            if head:
                soonest: cython.longlong = max(access.warp.turn, access.behind, cycle)
                if soonest < found:
                    soonest = self.path.fits_from(access.instruction, soonest)
                    if soonest < found:
                        found = min(found, self.wavefronts.free_from(soonest, cycle, not access.instruction.slow))
            access = access.following
        return found

    @cython.cfunc
    def take(self, cycle: cython.longlong) -> cython.void:
        """Takes an access into the queue: of the sub-cores that have one, from that which has waited longest."""
        if self.queue.count >= self.rules.waiting:
            return
        first: Port = None
        port: Port = self.port
        for _ in range(self.rules.sub_cores):
            if (
                port.head is not None
                and (first is None or port.taken_at < first.taken_at)
                and self.senders.comes(port.head) <= cycle
            ):
                first = port
            port = port.following
        if first is None:
            return
        self.senders.send(first.head, cycle)
        self.queue.append(first.head)
        first.pass_on(cycle, cycle + self.rules.lag)

    @cython.cfunc
    @cython.exceptval(check=True)
    def begin(self, cycle: cython.longlong) -> cython.void:
        """Lets the first access begin that can in this cycle."""
        refused: Access = None
        reach: cython.int = self.rules.reach - (self.begun == cycle - 1)
        k: cython.int = -1
        before: Access = None
        access: Access = None
        self.queue.ask()
        while k + 1 < self.queue.count:
            before, access = access, self.queue.first if access is None else access.following
            k += 1
            if not self.queue.is_head(access, k, reach) or max(access.warp.turn, access.behind) > cycle:
                continue
            if self.wavefronts.free_from(cycle, cycle, not access.instruction.slow) != cycle:
                continue
            if self.path.fits_from(access.instruction, cycle) > cycle:
                if refused is None:
                    refused = access
                if refused.passed < self.rules.passes:
                    continue
                return
            if refused is not None:
                refused.passed += 1
            self.queue.remove(access, before)
            self.begun = cycle
            self.begins(access, cycle)
            return

    @cython.cfunc
    @cython.exceptval(check=True)
    def begins(self, access: Access, cycle: cython.longlong) -> cython.void:
        """Lets an access begin in this cycle; of a store notes when it is done."""
        instruction: Instruction = access.instruction
        slots: Wavefronts = self.wavefronts
        if self.observer is not None:
            self.observer.resume(access.issue)
        last: cython.longlong = slots.place(cycle, access.count, cycle, not instruction.slow, TAKEN)
        access.warp.turn = last + self.rules.wavefront_interval
        core: SubCore = self.cores[access.warp.core]
        if instruction.write_count:
            self.path.add(core, access, slots.first_placed, last)
        else:
            self.done(core, access, last - -self.rules.cycles // self.rules.wavefronts)

    @cython.cfunc
    def put_off_stores(self, cycle: cython.longlong) -> cython.void:
        """Puts off the stores that cannot be sent in this cycle, as others are."""
        port: Port = self.port
        for _ in range(self.rules.sub_cores):
            access: Access = port.head
            if access is not None and access.values and access.soonest <= cycle:
                late: cython.longlong = self.senders.comes(access) - access.soonest
                if late > 0:
                    access.soonest += late
                    access.read_later(late)
            port = port.following

    # What arrives

    @cython.cfunc
    @cython.exceptval(check=True)
    def write(self, now: cython.longlong) -> cython.void:
        """Decides what registers of loads are written up to now."""
        until: cython.longlong = self.path.written_until(now)
        self.path.begin_writing(now)
        while True:
            register: Returning = self.path.write_next(until)
            if register is None:
                return
            if register.final:
                instruction: Instruction = register.access.instruction
                arrives: cython.longlong = self.path.cycle_of(register.slot) + self.path.ahead
                if instruction.together:  # those of a cycle come together
                    arrives -= (instruction.write_count - 1) // self.path.width
                self.done(register.core, register.access, arrives + instruction.latency - self.rules.latency)

    @cython.cfunc
    @cython.exceptval(check=True)
    def done(self, core: SubCore, access: Access, ready: cython.longlong) -> cython.void:
        """Notes when an access is done, and its values are there."""
        warp: Warp = access.warp
        warp.values_come(access.instruction, access.ready, ready)
        self.clock.lasts(ready)
        if self.observer is not None:
            self.observer.resume(access.issue)
            self.observer.complete(ready)
        if not warp.done:
            warp.prepare()
            if not warp.blocked:
                core.wake(core.earliest(warp))

    # From outside the front

    @cython.ccall
    @cython.exceptval(check=True)
    def block(self, now: cython.longlong, cycles: cython.longlong) -> cython.longlong:
        """Takes `cycles` in one piece, behind all accesses that have issued; returns the first."""
        ahead: cython.longlong = self.queue.wavefronts()
        core: SubCore
        number: cython.longlong
        for core in self.cores:
            for number in range(core.port.taken, core.port.made):
                ahead += core.port.access(number).count
        slots: cython.longlong = self.wavefronts.slots
        begin: cython.longlong = max(now, -(-self.wavefronts.until // slots)) - -ahead * self.rules.cycles // slots
        self.busy += cycles * slots
        return self.wavefronts.block(begin, cycles, now)

    @cython.cfunc
    @cython.exceptval(check=True)
    def drain(self) -> cython.void:
        """Serves all that waits, at the end of a run."""
        while self.tick < NEVER:
            self.clock.now = max(self.clock.now, self.tick)
            self.serve(self.tick)

    @cython.cfunc
    def state(self, words: Words, now: cython.longlong) -> cython.void:
        """All that decides what happens next, in cycles relative to `now`."""
        lag: cython.longlong = self.rules.lag
        self.wavefronts.state(words, max(now - lag, 0))
        self.path.state(words, now)
        words.add(self.queue.count)
        words.add(self.begun - now + lag == -1 or self.begun - now + lag == 0)
        self.senders.state(words, now - lag)
        port: Port = self.port
        other: Port
        for _ in range(self.rules.sub_cores):  # the order in which they were taken, and granted
            order: cython.int = 0
            other = port.following
            while other is not port:
                order += (other.taken_at < port.taken_at) + 64 * (other.granted_at < port.granted_at)
                other = other.following
            words.add(order)
            port = port.following
        core: SubCore
        access: Access = self.queue.first
        while access is not None:
            core = self.cores[access.warp.core]
            words.add(core.number)
            words.add(access.warp.place)
            words.add(access.pc)
            words.add(access.count)
            words.add(access.ready - NEVER - core.port.made)
            words.add(access.passed)
            words.add(max(access.behind - now + lag, 0))
            access = access.following
