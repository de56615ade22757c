"""In which cycles the shared memory of an SM serves wavefronts, and which are still free.

A cycle has as many slots as the server gives wavefronts in `[shared] cycles` cycles; a wavefront takes as many slots
as that are cycles. Slots are kept in a window, a byte for each, which moves with time.

The compiled engine has the same rules (`simulator/timing/compiled/engine.c`, functions of the same names).
"""

from __future__ import annotations

import ctypes
import re
from array import array
from collections.abc import Callable

from simulator.chip.memory import Shared
from simulator.timing.core_records import SmRecord
from simulator.timing.observer import TimingObserver
from simulator.timing.records import link

TAKEN, GAP = b"\1", b"\2"  # what is in a slot
WINDOW = 1 << 14  # slots of which is known whether they are taken, at first


class Slots:
    """The slots of each SM of a run.

    Attributes:
        slots: slots of a cycle.
        lag: cycles after which nothing changes what an access sends, so that what it takes is decided.
        window: how many slots of each SM are in `taken`: a byte for each, TAKEN where a wavefront is served, GAP where
            a store could have been. The first of SM s is slot first[s].
        taken_until: for each SM, the slot after the last that is taken.
        compiled: takes slots in the compiled engine, if that runs.
        free, free_to_loads: find slots in `taken` for a wavefront: those of no access, and gaps as well.
    """

    def __init__(self, rule: Shared, record: SmRecord, lag: int, observer: TimingObserver | None) -> None:
        self.rule, self.record, self.observer = rule, record, observer
        sms, self.slots, self.lag = record.sms, rule.wavefronts, lag
        self.first, self.taken_until = array("q", [0] * sms), array("q", [0] * sms)
        link(record, first=self.first, taken_until=self.taken_until)
        self.taken, self.window = bytearray(), 0
        self.compiled: Callable[[int, int, int], int] | None = None
        self.free = re.compile(rb"\0{%d}" % rule.cycles)
        self.free_to_loads = re.compile(rb"[\0\2]{%d}" % rule.cycles)
        self.resize(WINDOW)

    def resize(self, window: int) -> None:
        """Makes the window longer."""
        old, self.record.window = self.window, window
        begins = range(0, self.record.sms * old, old) if old else [0] * self.record.sms
        self.taken = bytearray().join(self.taken[begin : begin + old].ljust(window, b"\0") for begin in begins)
        self.window = window
        self.record.taken_array = ctypes.addressof(ctypes.c_char.from_buffer(self.taken))

    def make_room(self, sm: int, until: int, now: int) -> None:
        """Sees to it that all slots before `until` are in the window: forgets those of `lag` cycles before `now`, and
        makes it longer where that is not enough."""
        if until <= self.first[sm] + self.window:
            return
        now = max((now - self.lag) * self.slots, self.first[sm])
        begin, passed = sm * self.window, min(now - self.first[sm], self.window)
        self.taken[begin : begin + self.window] = self.taken[begin + passed : begin + self.window].ljust(
            self.window, b"\0"
        )
        self.first[sm] = now
        if until > now + self.window:
            self.resize(max(2 * self.window, 2 * (until - now)))

    @property
    def until_served(self) -> int:
        """Cycles until a wavefront is over."""
        return -(-self.rule.cycles // self.slots)

    def free_from(self, sm: int, cycle: int, now: int, *, load: bool) -> int:
        """The first cycle, from this one on, in which a wavefront can begin; a load's can in a gap, too."""
        self.make_room(sm, max(cycle * self.slots, self.taken_until[sm]) + 2 * self.rule.cycles, now)
        begin = sm * self.window - self.first[sm]
        found = (self.free_to_loads if load else self.free).search(self.taken, begin + cycle * self.slots)
        assert found is not None
        return (found.start() - begin) // self.slots

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
        self.make_room(sm, max(slot, self.taken_until[sm]) + count * spacing, now)
        begin, taken, width = sm * self.window - self.first[sm], self.taken, rule.cycles
        wavefront, step = mark * width, rule.wavefront_interval * slots
        free, until = self.free_to_loads if load else self.free, self.taken_until[sm]
        for number in range(count):
            if slot < until:  # behind all that is taken the next is free
                found = free.search(taken, begin + slot)
                assert found is not None
                slot = found.start() - begin
            taken[begin + slot : begin + slot + width] = wavefront
            first, last = slot if number == 0 else first, slot
            if self.observer is not None and not gap:
                self.observer.serve("shared memory", sm, slot // slots, slot // slots + self.until_served)
            until = max(until, slot + width)
            slot += step
        self.taken_until[sm] = until
        return first // slots, last // slots

    def last_of(self, sm: int, soonest: int, count: int, now: int) -> int:
        """Takes slots as `place` does; returns the cycle in which the last wavefront begins."""
        if self.compiled is None:
            return self.place(sm, soonest, count, now)[1]
        spacing = max(self.rule.cycles, self.rule.wavefront_interval * self.slots)
        self.make_room(sm, max(soonest * self.slots, self.taken_until[sm]) + count * spacing, now)
        return self.compiled(sm, soonest, count)

    def block(self, sm: int, now: int, cycles: int) -> int:
        """Takes `cycles` in one piece, behind all accesses that have issued; returns the first."""
        slots = self.slots
        begin = max(now, -(-self.taken_until[sm] // slots)) + -(-self.ahead(sm) * self.rule.cycles // slots)
        self.make_room(sm, (begin + cycles) * slots, now)
        place = sm * self.window - self.first[sm] + begin * slots
        self.taken[place : place + cycles * slots] = b"\1" * (cycles * slots)
        self.taken_until[sm] = (begin + cycles) * slots
        if self.observer is not None:
            self.observer.serve("shared memory", sm, begin, begin + cycles)
        return begin

    def ahead(self, sm: int) -> int:
        """Wavefronts of accesses that have issued and that have no slots yet: none here."""
        return 0

    def slots_state(self, now: int) -> list[int]:
        """Which slots are taken from cycle `now` on, and until when."""
        state, cycle = [], now * self.slots
        for sm, (first, until) in enumerate(zip(self.first, self.taken_until, strict=True)):
            begin = sm * self.window - first
            state += [max(until - cycle, 0), *self.taken[begin + cycle : begin + max(until, cycle)]]
        return state
