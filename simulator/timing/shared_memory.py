"""The timing of shared memory: when each access is served, wavefront by wavefront, and when its values arrive.

An access leaves its sub-core through a port (`simulator.timing.port`) that carries its registers one after the other,
in the order of issue; matrix instructions come between. Behind the ports the SM takes one access a cycle into its
queue: of the sub-cores that have one, that whose last one was taken the longest ago. A store waits at its port until no
more than a few others are being sent (`senders`). Of the loads at the first places of the queue (`reach`) and of all
stores, the first that can begins as soon as a wavefront is free; an access whose warp's last one is not through waits,
and lets others pass. Wavefronts of one warp keep a distance, of one access and from its last to the first of the warp's
next one, so that a lone warp cannot use more than a part of the SM's bandwidth, and two accesses are served in turn.
A load begins only if there is room for its registers, which then come back to the sub-cores
(`simulator.timing.return_path`).

When an access begins is decided so late that nothing can delay its registers at the port any more, and before its
values can matter: until then they count as never ready.

The queue holds a number of accesses. A sub-core sends the registers of an access when the SM has taken the one before,
lets a number of accesses wait for that, and issues no more until one of them has come to the port.

Measured: H100 80GB and H200 (the same SM), 2026-11-26, `tests/hardware/turns.py`, `iterations.py`.

The compiled engine has the same rules (`simulator/timing/compiled/engine.c`, functions of the same names).
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable
from typing import NamedTuple

from isa.forms.record import Unit
from simulator.chip.memory import Shared
from simulator.compiler.timed_code import TimedOperation
from simulator.timing.banked_port import BankedPort, connect
from simulator.timing.core_records import SmRecord
from simulator.timing.cores import SubCore
from simulator.timing.observer import Issue, TimingObserver
from simulator.timing.port import Port
from simulator.timing.records import NEVER, RegisterRecord, SendingRecord, WaitingRecord, link
from simulator.timing.return_path import ReturnPath
from simulator.timing.senders import Senders
from simulator.timing.slots import GAP, Slots
from simulator.timing.warp import Warp

STORES = 3  # as many as half of what a matrix instruction takes of the port, at least


class Access(NamedTuple):
    """An access that has issued.

    Attributes:
        cycles: how many cycles it takes of shared memory.
        ready: what stands for the cycle in which its values are there, until that is known.
        read: the first cycle in which an instruction that overwrites its address or the value that it stores can issue.
    """

    cycles: int
    ready: int
    read: int


class SharedMemory(Slots):
    """The shared memory of each SM of a run, and the ports of the sub-cores to it.

    Attributes:
        changed: is told of each warp whose access comes later than it has been told, or is known to come.
        lasts: is told when each access is done.
        turn: when the next access of each warp may begin.
        behind: for each warp, when what it sends next may begin because of its last access to global memory; between:
            whether it has sent something since.
        waiting: for each SM, the accesses that it has taken and that have not begun, `room` of them at most; there are
            `waits` of them.
        senders: what stores wait for at their ports.
        begun: for each SM, the cycle in which the last access has begun.
        served: for each SM, the cycle up to which it has been decided what is served.
        tick: when the next decision of each SM is due.
        path: that of loaded registers to the sub-cores.
        ports: those of the sub-cores.
        issues: what an observer is to be told of accesses that are not done, by sub-core and `Access.ready`.
    """

    def __init__(
        self,
        rule: Shared,
        record: SmRecord,
        cores: list[SubCore],
        warps: int,
        changed: Callable[[Warp], None],
        lasts: Callable[[int], None],
        observer: TimingObserver | None = None,
    ) -> None:
        super().__init__(rule, record, max(cores[0].depth, cores[0].config.pipe.port_delay) + 1, observer)
        self.cores, self.changed, self.lasts = cores, changed, lasts
        self.turn, self.behind, self.between = (array("q", [0] * warps) for _ in range(3))
        sms = record.sms
        self.cores_of = [cores[sm * len(cores) // sms : (sm + 1) * len(cores) // sms] for sm in range(sms)]
        self.room = rule.waiting + 1
        self.waiting, self.waits = (WaitingRecord * (self.room * sms))(), array("q", [0] * sms)
        record.waiting_array = ctypes.addressof(self.waiting)
        self.begun = array("q", [NEVER] * sms)
        self.served, self.tick = array("q", [0] * sms), array("q", [NEVER] * sms)
        self.path = ReturnPath(rule, record, cores, self.lag, self.arrive)
        record.room, record.lag, record.reach = self.room, self.lag, rule.reach
        link(record, turn=self.turn, behind=self.behind, between=self.between)
        link(record, waits=self.waits, begun=self.begun)
        link(record, served=self.served, serve_tick=self.tick)
        self.issues: dict[tuple[int, int], Issue | None] = {}
        for place, core in enumerate(cores):
            core.taken_at = core.granted_at = place - len(cores)
        self.ports = [self.port(core) for core in cores]
        for own in self.cores_of:
            connect([self.ports[core.number] for core in own])
        record.ring = len(self.ports[0].ring)
        self.senders = Senders(rule, record, self.ports, self.put_off_store)

    def port(self, core: SubCore) -> Port | BankedPort:
        """The port of a sub-core, as the config knows it."""

        def has_room(cycle: int) -> None:
            if core.free[Unit.SHARED] != cycle:
                core.free[Unit.SHARED] = cycle
                core.wake(cycle)

        if not core.depth:
            return Port(core, self.rule, core.config.pipe, has_room)

        def delay(access: SendingRecord, cycles: int) -> None:
            self.put_off(core, access, cycles)
            self.tell(core.mine[access.warp])

        def hold_writes(cycle: int, banks: int) -> None:
            self.path.hold(core, cycle, banks)

        return BankedPort(core, self.rule, delay, hold_writes, has_room, core.settle)

    def tell(self, warp: Warp) -> None:
        """Lets a warp that is not over work out anew when it can go on."""
        if not warp.done:
            self.changed(warp)

    # From the sub-cores

    def send(self, core: SubCore, warp: Warp, operation: TimedOperation, now: int) -> Access:
        """Sends an access that issues now to the port; when it is served is decided later."""
        rule, port = self.rule, self.ports[core.number]
        begin, until, soonest, read = port.send(now, operation)
        if self.observer is not None:
            self.observer.serve("shared", warp.cta, begin, until, core.number)
        if 0 < core.config.pipe.gap < operation.sent:
            core.stores = min(core.stores + 1, STORES)
        entry, ready = port.access(core.accesses_made), NEVER + core.accesses_made
        core.accesses_made += 1
        entry.begin, entry.until, entry.soonest = begin, until, soonest
        entry.count, entry.behind = warp.wavefronts(operation), self.behind[warp.place]
        self.between[warp.place] = 1
        if self.observer is not None:
            self.issues[core.number, ready] = self.observer.current
        entry.warp, entry.pc, entry.ready, entry.read = core.mine.index(warp), warp.pc, ready, read
        self.plan(warp.cta, max(soonest, self.served[warp.cta]))
        port.room()
        return Access(entry.count * rule.cycles, ready, read)

    def plan(self, sm: int, cycle: int) -> None:
        """Plans to decide, not later than needed, what an SM serves in a cycle."""
        self.tick[sm] = min(self.tick[sm], cycle + self.lag)

    def give_port(self, core: SubCore, operation: TimedOperation, now: int) -> tuple[int, list[Warp]]:
        """Gives a sub-core's port to a matrix instruction that wants it from `now` on; accesses that it goes before
        come later.

        Returns:
            the cycles by which the instruction is late, and the warps whose accesses come later.
        """
        put_off: list[Warp] = []
        port = self.ports[core.number]
        if isinstance(port, BankedPort):  # it goes by what instructions read, cycle by cycle
            return 0, put_off

        def delay(access: SendingRecord, cycles: int) -> None:
            put_off.append(core.mine[access.warp])
            self.put_off(core, access, cycles)

        return port.give(operation, now, delay), put_off

    @staticmethod
    def become_ready(warp: Warp, operation: TimedOperation, before: int, ready: int) -> None:
        """Notes when the values of an access are there; `before`: what has stood for that until now."""
        for register in operation.writes:
            if warp.ready[register] == before:
                warp.ready[register] = ready
        if operation.fills >= 0 and warp.boards[operation.fills] == before:
            warp.boards[operation.fills] = ready

    def put_off_store(self, core: SubCore, access: SendingRecord, cycles: int) -> None:
        """Lets a store that is at the port come so many cycles later."""
        access.soonest += cycles
        self.put_off(core, access, cycles)
        self.tell(core.mine[access.warp])

    def put_off(self, core: SubCore, access: SendingRecord, cycles: int) -> None:
        """Lets the registers of an access be read so many cycles later."""
        warp = core.mine[access.warp]
        operation = warp.operation_at(access.pc)
        for register in operation.reads:
            if warp.pinned[register] == access.read:
                warp.pinned[register] += cycles
        if warp.sent == access.read:
            warp.sent += cycles
        if operation.frees >= 0 and warp.boards[operation.frees] == access.read:
            warp.boards[operation.frees] += cycles
        access.read += cycles

    def leave_gap(self, core: SubCore, sm: int, operation: TimedOperation, now: int) -> None:
        """Takes the wavefronts that the SM cannot give to stores while a matrix instruction comes between the registers
        of one: half of what it takes of the port, as two sub-cores send at a time, but no more than stores have come
        since the last one."""
        gap = min(operation.port // 2, core.stores) if core.port_until > now else 0
        core.stores = 0
        if gap:
            self.place(sm, now, gap, now, load=False, mark=GAP, gap=True)

    # In the SM

    def serve(self, sm: int, now: int) -> None:
        """Decides what an SM serves up to `lag` cycles before now."""
        returns = self.path.due(sm) <= now
        for core in self.cores_of[sm]:
            if returns or core.accesses_read < core.accesses_made:
                core.settle(now)
        cycle, until = max(self.served[sm], self.tick[sm] - self.lag), now - self.lag
        while (cycle := self.next_decision(sm, cycle)) <= until:
            self.take(sm, cycle)
            self.begin(sm, cycle)
            self.senders.wait(sm, self.cores_of[sm], cycle)
            cycle += 1
        self.served[sm] = max(self.served[sm], until + 1)
        if returns:
            self.path.write(sm, now)
        self.tick[sm] = min(cycle + self.lag if cycle < NEVER else NEVER, self.path.due(sm))

    def serve_all(self, now: int) -> None:
        """The same for all SMs whose sub-cores have come to now, and what is written up to there."""
        for sm in range(len(self.tick)):
            self.serve(sm, now)
            self.path.write(sm, now)

    def next_decision(self, sm: int, cycle: int) -> int:
        """The first cycle, from this one on, in which an access can be taken or begin."""
        found = NEVER
        for core in self.cores_of[sm]:
            if self.can_take(sm, core):
                found = min(found, max(self.senders.comes(sm, core), cycle))
        for _, access, warp in self.heads(sm, self.rule.reach):
            soonest = max(self.turn[warp.place], access.behind, cycle)
            if soonest < found:
                operation = warp.operation_at(access.pc)
                soonest = self.path.fits_from(sm, operation, soonest)
                found = min(found, self.free_from(sm, soonest, cycle, load=not operation.slow))
        return found

    def heads(self, sm: int, reach: int) -> list[tuple[int, WaitingRecord, Warp]]:
        """The accesses that wait for nothing but wavefronts, the first of each warp, with their places in the queue:
        the loads at the first `reach` places, and all stores."""
        found, seen = [], set[int]()
        for place in range(self.room * sm, self.room * sm + self.waits[sm]):
            access = self.waiting[place]
            warp = self.cores[access.core].mine[access.warp]
            if warp.place not in seen:
                seen.add(warp.place)
                if place < self.room * sm + reach or warp.operation_at(access.pc).slow:
                    found.append((place, access, warp))
        return found

    def can_take(self, sm: int, core: SubCore) -> bool:
        """Whether the sub-core has an access, and the SM's queue room for it."""
        return core.accesses_taken < core.accesses_made and self.waits[sm] < self.rule.waiting

    def take(self, sm: int, cycle: int) -> None:
        """Takes an access into the SM's queue: of the sub-cores that have one, from that which has waited longest."""
        able = [core for core in self.cores_of[sm] if self.can_take(sm, core) and self.senders.comes(sm, core) <= cycle]
        if able:
            core = min(able, key=lambda core: core.taken_at)
            self.senders.send(sm, core, cycle)
            port, access = self.ports[core.number], self.waiting[self.room * sm + self.waits[sm]]
            sent = port.access(core.accesses_taken)
            access.core, access.warp, access.pc, access.count = core.number, sent.warp, sent.pc, sent.count
            access.ready, access.behind, access.passed = sent.ready, sent.behind, 0
            self.waits[sm] += 1
            core.accesses_taken += 1
            core.taken_at = cycle
            port.release(core.accesses_taken, cycle + self.lag)

    def begin(self, sm: int, cycle: int) -> None:
        """Lets the first access begin that can in this cycle."""
        refused = None
        for place, access, warp in self.heads(sm, self.rule.reach - (self.begun[sm] == cycle - 1)):
            operation = warp.operation_at(access.pc)
            if (
                max(self.turn[warp.place], access.behind) > cycle
                or self.free_from(sm, cycle, cycle, load=not operation.slow) != cycle
            ):
                continue
            if self.path.fits_from(sm, operation, cycle) > cycle:
                refused = refused or access
                if refused.passed < self.rule.passes:
                    continue
                return
            if refused is not None:
                refused.passed += 1
            self.begins(self.cores[access.core], warp, access, cycle)
            self.begun[sm] = cycle
            self.waits[sm] -= 1
            for behind in range(place, self.room * sm + self.waits[sm]):
                self.waiting[behind] = self.waiting[behind + 1]
            return

    def begins(self, core: SubCore, warp: Warp, access: WaitingRecord, cycle: int) -> None:
        """Lets an access begin in this cycle; of a store notes when it is done."""
        operation, sm = warp.operation_at(access.pc), warp.cta
        if self.observer is not None:
            self.observer.resume(self.issues[core.number, access.ready])
        first, last = self.place(sm, cycle, access.count, cycle, load=not operation.slow)
        self.turn[warp.place] = last + self.rule.wavefront_interval
        if operation.writes:
            load = RegisterRecord(core=core.number, warp=access.warp, pc=access.pc, ready=access.ready)
            self.path.add(sm, load, operation, first, last)
        else:
            self.done(core, warp, operation, access.ready, last + self.until_served)

    def arrive(self, register: RegisterRecord, cycle: int) -> None:
        """Notes when the values of a load are there: this is its last register, which would be in this cycle if it were
        the only one."""
        core = self.cores[register.core]
        warp, rule = core.mine[register.warp], self.rule
        operation = warp.operation_at(register.pc)
        further = (len(operation.writes) - 1) // self.path.width * operation.together
        self.done(core, warp, operation, register.ready, cycle + operation.latency - rule.latency - further)

    def done(self, core: SubCore, warp: Warp, operation: TimedOperation, before: int, ready: int) -> None:
        """Notes when an access is done, and its values are there; `before`: what has stood for that until now."""
        self.become_ready(warp, operation, before, ready)
        self.lasts(ready)
        if self.observer is not None:
            self.observer.resume(self.issues.pop((core.number, before)))
            self.observer.complete(ready)
        self.tell(warp)
        if not (warp.done or warp.blocked):
            core.wake(core.earliest(warp))

    def ahead(self, sm: int) -> int:
        """Wavefronts of accesses that have issued and not begun."""
        count = 0
        if self.waits[sm]:
            count = sum(access.count for access in self.waiting[self.room * sm : self.room * sm + self.waits[sm]])
        for core in self.cores_of[sm]:
            if core.accesses_taken < core.accesses_made:
                port = self.ports[core.number]
                count += sum(port.access(n).count for n in range(core.accesses_taken, core.accesses_made))
        return count

    def drain(self) -> None:
        """Serves all that waits, at the end of a run."""
        for sm in range(len(self.tick)):
            while self.tick[sm] < NEVER:
                self.record.now = max(self.record.now, self.tick[sm])
                self.serve(sm, self.tick[sm])

    def state(self, now: int) -> list[int]:
        """All that decides what happens next, in cycles relative to `now`."""
        state = self.slots_state(max(now - self.lag, 0))
        for sm, cores in enumerate(self.cores_of):
            oldest_first = sorted(cores, key=lambda core: core.taken_at)
            granted_first = sorted(cores, key=lambda core: core.granted_at)
            state += (*self.path.state(sm, now), self.waits[sm])
            state.append(int(self.begun[sm] - now + self.lag in (-1, 0)))
            state += self.senders.state(sm, now - self.lag)
            for core in cores:
                state += (oldest_first.index(core), granted_first.index(core))
            for access in self.waiting[self.room * sm : self.room * sm + self.waits[sm]]:
                made = self.cores[access.core].accesses_made
                state += (access.core, access.warp, access.pc, access.count, access.ready - NEVER - made, access.passed)
                state.append(max(access.behind - now + self.lag, 0))
        for core, port in zip(self.cores, self.ports, strict=True):
            made = core.accesses_made
            waiting = min(made, self.rule.queue - 1)
            state += (waiting, made - core.accesses_taken)
            state += (
                max(port.access(number).begin - now + self.rule.queue_latency, 0)
                for number in range(made - waiting, made)
            )
            for sent in map(port.access, range(core.accesses_taken, made)):
                state += (sent.soonest - now, sent.count, max(sent.behind - now + self.lag, 0))
        for port in self.ports:
            state += port.state(now)
        state += (max(cycle - now + self.lag, 0) for cycle in (*self.turn, *self.behind))
        state += self.between
        return state
