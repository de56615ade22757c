"""The timing of shared memory: when each access is served, wavefront by wavefront, and when its values arrive.

An access leaves its sub-core through a port (`simulator.timing.port`) that carries its registers one after the other,
in the order of issue; matrix instructions come between. The SM then serves one wavefront a
cycle, of any access that has one to give. Wavefronts of one warp keep a distance: of one access, and from its last to
the first of the warp's next access, so that a lone warp cannot use more than a part of the SM's bandwidth and two can.
A sub-core lets a number of accesses wait for their first wavefront and issues no more until one of them has it.

An access is given its place when it is issued, so that the time of its value is known then. A matrix instruction that
goes before it at the port makes the value come later; the wavefronts keep the cycles that they have taken.

The compiled engine has the same rules (`simulator/timing/compiled/engine.c`, functions of the same names).
"""

from __future__ import annotations

import ctypes
import re
from array import array
from collections.abc import Callable
from typing import NamedTuple

from isa.forms.record import Unit
from simulator.timing.banked_port import BankedPort
from simulator.timing.core_records import SmRecord
from simulator.timing.model import TimedOperation
from simulator.timing.observer import TimingObserver
from simulator.timing.pipes import Pipes
from simulator.timing.port import Port
from simulator.timing.records import SendingRecord, link
from simulator.timing.tables import Shared
from simulator.timing.warp import Warp

TAKEN, GAP = b"\1", b"\2"  # what is in a slot
STORES = 3  # as many as half of what a matrix instruction takes of the port, at least
WINDOW = 1 << 14  # cycles of which is known whether they are taken, at first


class Access(NamedTuple):
    """When an access is done, in cycles of the run.

    Attributes:
        cycles: how many cycles it takes of shared memory.
        ready: the first cycle in which an instruction that needs the value can issue; of a store, the one after its
            last wavefront.
        read: the first cycle in which an instruction that overwrites its address or the value that it stores can issue.
    """

    cycles: int
    ready: int
    read: int


class SharedMemory:
    """The shared memory of each SM of a run, and the ports of the sub-cores to it.

    Attributes:
        slots: slots of a cycle, as many as the server gives wavefronts in `cycles` cycles; a wavefront takes as many
            slots as that are cycles.
        window: how many slots of each SM are in `taken`: a byte for each, TAKEN where a wavefront is served, GAP where
            a store could have been. The first of SM s is slot first[s].
        changed: is told of each warp whose access comes later than it has been told.
        taken_until: for each SM, the slot after the last that is taken.
        turn: when the next access of each warp may begin.
        ports: those of the sub-cores.
        free, free_to_loads: find slots in `taken` for a wavefront: those of no access, and gaps as well.
    """

    def __init__(
        self,
        rule: Shared,
        record: SmRecord,
        cores: list[Pipes],
        warps: int,
        changed: Callable[[Warp], None],
        observer: TimingObserver | None = None,
    ) -> None:
        self.rule, self.record, self.observer, self.cores = rule, record, observer, cores
        sms, self.slots = record.sms, rule.wavefronts
        self.first, self.taken_until = array("q", [0] * sms), array("q", [0] * sms)
        self.turn = array("q", [0] * warps)
        link(record, first=self.first, taken_until=self.taken_until, turn=self.turn)
        self.changed = changed
        self.ports = [self.port(core) for core in cores]
        self.taken, self.window = bytearray(), 0
        self.free = re.compile(rb"\0{%d}" % rule.cycles)
        self.free_to_loads = re.compile(rb"[\0\2]{%d}" % rule.cycles)
        self.resize(WINDOW)

    def port(self, core: Pipes) -> Port | BankedPort:
        """The port of a sub-core, as the config knows it."""
        if not core.depth:
            return Port(core, self.rule, core.config.pipe)

        def delay(access: SendingRecord, cycles: int, before: SendingRecord | None) -> None:
            self.put_off(core, access, cycles, before)
            warp = core.mine[access.warp]
            if not (warp.done or warp.blocked):
                self.changed(warp)

        def come_later(access: SendingRecord, cycles: int) -> None:
            warp = core.mine[access.warp]
            if cycles > 0:
                self.come_later(warp, access, cycles)
                if not (warp.done or warp.blocked):
                    self.changed(warp)

        return BankedPort(core, self.rule, delay, come_later)

    def resize(self, window: int) -> None:
        """Makes the window longer."""
        old, self.record.window = self.window, window
        begins = range(0, self.record.sms * old, old) if old else [0] * self.record.sms
        self.taken = bytearray().join(self.taken[begin : begin + old].ljust(window, b"\0") for begin in begins)
        self.window = window
        self.record.taken_array = ctypes.addressof(ctypes.c_char.from_buffer(self.taken))

    def make_room(self, sm: int, until: int, now: int) -> None:
        """Sees to it that all slots before `until` are in the window: forgets those before slot `now`, and makes it
        longer where that is not enough."""
        if until <= self.first[sm] + self.window:
            return
        begin, passed = sm * self.window, min(now - self.first[sm], self.window)
        self.taken[begin : begin + self.window] = self.taken[begin + passed : begin + self.window].ljust(
            self.window, b"\0"
        )
        self.first[sm] = now
        if until > now + self.window:
            self.resize(max(2 * self.window, 2 * (until - now)))

    def serve(self, core: Pipes, warp: Warp, operation: TimedOperation, now: int) -> Access:
        """Gives an access that is issued now its place, and returns when it is done."""
        rule, port = self.rule, self.ports[core.number]
        begin, until, soonest, read = port.send(now, operation)
        if self.observer is not None:
            self.observer.serve("shared", warp.cta, begin, until, core.number)
        count = warp.wavefronts(operation)
        if 0 < core.config.pipe.gap < operation.sent:
            core.stores = min(core.stores + 1, STORES)
        first, last = self.place(warp.cta, max(soonest, self.turn[warp.place]), count, now, load=not operation.slow)
        self.leave_vector_gap(core, warp.cta, operation, last, now)
        self.turn[warp.place] = last + rule.wavefront_interval
        ready = last + (operation.latency if operation.writes else self.served)
        entry = port.access(core.accesses_made)
        core.accesses_made += 1
        entry.begin, entry.until, entry.soonest = begin, until, soonest
        entry.warp, entry.pc, entry.first, entry.last = core.mine.index(warp), warp.pc, first, last
        entry.ready, entry.read = ready, read
        if isinstance(port, BankedPort):
            port.writes(entry, operation)
        self.wait(core, now + 1)
        return Access(count * rule.cycles, ready, read)

    def give_port(self, core: Pipes, operation: TimedOperation, now: int) -> tuple[int, list[Warp]]:
        """Gives a sub-core's port to a matrix instruction that wants it from `now` on; accesses that it goes before
        come later, with their values. Their wavefronts keep the cycles that they have of the SM.

        Returns:
            the cycles by which the instruction is late, and the warps whose accesses come later.
        """
        put_off: list[Warp] = []
        port = self.ports[core.number]
        if isinstance(port, BankedPort):  # it goes by what instructions read, cycle by cycle
            return 0, put_off

        def delay(access: SendingRecord, cycles: int, before: SendingRecord | None) -> None:
            put_off.append(core.mine[access.warp])
            self.put_off(core, access, cycles, before)

        return port.give(operation, now, delay), put_off

    @staticmethod
    def come_later(warp: Warp, access: SendingRecord, cycles: int) -> None:
        """Lets the values of an access come so many cycles later."""
        for register in warp.operation_at(access.pc).writes:
            if warp.ready[register] == access.ready:
                warp.ready[register] += cycles
        access.ready += cycles

    def put_off(self, core: Pipes, access: SendingRecord, cycles: int, before: SendingRecord | None) -> None:
        """Lets the registers of an access be read so many cycles later, and its values come later if they wait for
        that, or for those of the access before."""
        warp = core.mine[access.warp]
        operation, place = warp.operation_at(access.pc), warp.place
        turn = before.last + self.rule.wavefront_interval if before is not None else 0
        later = max(access.soonest, turn) - access.first
        if later > 0:
            if self.turn[place] == access.last + self.rule.wavefront_interval:
                self.turn[place] += later
            self.come_later(warp, access, later)
            access.first += later
            access.last += later
            access.due += later
            access.written += later
            self.wait(core, core.free[Unit.SHARED])
        for register in operation.reads:
            if warp.pinned[register] == access.read:
                warp.pinned[register] += cycles
        if warp.sent == access.read:
            warp.sent += cycles
        if operation.frees >= 0 and warp.boards[operation.frees] == access.read:
            warp.boards[operation.frees] += cycles
        access.read += cycles

    def leave_gap(self, core: Pipes, sm: int, operation: TimedOperation, now: int) -> None:
        """Takes the wavefronts that the SM cannot give to stores while a matrix instruction comes between the registers
        of one: half of what it takes of the port, as two sub-cores send at a time, but no more than stores have come
        since the last one."""
        gap = min(operation.port // 2, core.stores) if core.port_until > now else 0
        core.stores = 0
        if gap:
            self.place(sm, now, gap, now, load=False, mark=GAP, gap=True)

    def leave_vector_gap(self, core: Pipes, sm: int, operation: TimedOperation, last: int, now: int) -> None:
        """Takes the wavefronts that the SM gives to nobody behind a load whose registers come together, after some
        of the same sub-core whose registers come one by one.

        Args:
            last: the cycle of the load's last wavefront.
        """
        gap, each = self.rule.vector_gap, self.rule.vector_after
        if operation.vector:
            lost = min((2 * core.matrices + each) // (2 * each), gap)
            self.place(sm, last, lost, now, gap=True)
            core.matrices = 0
        elif operation.matrices:
            core.matrices = min(core.matrices + 1, gap * each)

    @property
    def served(self) -> int:
        """Cycles until a wavefront is over."""
        return -(-self.rule.cycles // self.slots)

    def wait(self, core: Pipes, soonest: int) -> None:
        """Says from when on, not before `soonest`, the sub-core has room for another access: when the first of as many
        as may wait has its first wavefront."""
        oldest = core.accesses_made - self.rule.queue
        if oldest >= 0:
            core.free[Unit.SHARED] = max(soonest, self.ports[core.number].access(oldest).first)

    def place(
        self, sm: int, soonest: int, count: int, now: int, *, load: bool = True, mark: bytes = TAKEN, gap: bool = False
    ) -> tuple[int, int]:
        """Takes slots for `count` wavefronts of one access from cycle `soonest` on; returns the cycles in which the
        first and the last of them begin. A load fills gaps that stores have left, too.

        Args:
            gap: the slots stay empty, for all or, marked as GAP, for stores; no observer is told.
        """
        rule, slots = self.rule, self.slots
        slot = first = last = soonest * slots
        spacing = max(rule.cycles, rule.wavefront_interval * slots)
        self.make_room(sm, max(slot, self.taken_until[sm]) + count * spacing, now * slots)
        begin, wavefront = sm * self.window - self.first[sm], mark * rule.cycles
        free = self.free_to_loads if load else self.free
        for number in range(count):
            found = free.search(self.taken, begin + slot)
            assert found is not None
            slot = found.start() - begin
            self.taken[begin + slot : begin + slot + rule.cycles] = wavefront
            first, last = slot if number == 0 else first, slot
            if self.observer is not None and not gap:
                self.observer.serve("shared memory", sm, slot // slots, slot // slots + self.served)
            slot += rule.wavefront_interval * slots
        if count:
            self.taken_until[sm] = max(self.taken_until[sm], last + rule.cycles)
        return first // slots, last // slots

    def block(self, sm: int, now: int, cycles: int) -> int:
        """Takes `cycles` in one piece, after all accesses that have a place; returns the first."""
        slots = self.slots
        begin = max(now, -(-self.taken_until[sm] // slots))
        self.make_room(sm, (begin + cycles) * slots, now * slots)
        place = sm * self.window - self.first[sm] + begin * slots
        self.taken[place : place + cycles * slots] = b"\1" * (cycles * slots)
        self.taken_until[sm] = (begin + cycles) * slots
        if self.observer is not None:
            self.observer.serve("shared memory", sm, begin, begin + cycles)
        return begin

    def state(self, now: int) -> list[int]:
        """All that decides what happens next, in cycles relative to `now`."""
        state, cycle = [], now * self.slots
        for sm, (first, until) in enumerate(zip(self.first, self.taken_until, strict=True)):
            begin = sm * self.window - first
            state += [max(until - cycle, 0), *self.taken[begin + cycle : begin + max(until, cycle)]]
        for core, port in zip(self.cores, self.ports, strict=True):
            made = core.accesses_made
            waiting = min(made, self.rule.queue - 1)
            state.append(waiting)
            state += (max(port.access(number).first - now, 0) for number in range(made - waiting, made))
        for port in self.ports:
            state += port.state(now)
        state += (max(cycle - now, 0) for cycle in self.turn)
        return state
