"""In which cycles the shared memory of an SM serves wavefronts, and which are still free.

A cycle has as many slots as the server gives wavefronts in `[shared] cycles` cycles; a wavefront takes as many slots as
that are cycles. Slots are kept in a ring, a byte for each, which moves with time.
"""

from __future__ import annotations

from typing import Any

import cython

from simulator.machine.front.program import Words
from simulator.machine.front.rules import Rules

FREE = cython.declare(cython.int, 0)
TAKEN = cython.declare(cython.int, 1)
GAP = cython.declare(cython.int, 2)  # a store could have been here; loads can still be


@cython.final
@cython.cclass
class Wavefronts:
    """The slots of an SM.

    Attributes:
        slots: of a cycle; `width`: of a wavefront; `step`: between two of one warp.
        taken: a ring with what is in each slot from `first` on; `size`: its length, a power of two.
        until: the slot after the last that is taken.
        observer: told when wavefronts are served; None for nobody.
    """

    rules: Rules
    slots: cython.longlong
    width: cython.longlong
    step: cython.longlong
    taken: cython.char[::1]
    size: cython.longlong
    first: cython.longlong
    until: cython.longlong
    first_placed: cython.longlong
    observer: object
    cta: cython.int

    def __init__(self, rules: Rules, cta: Any, observer: Any) -> None:
        self.rules, self.observer, self.cta = rules, observer, cta
        self.slots, self.width = rules.wavefronts, rules.cycles
        self.step = rules.wavefront_interval * rules.wavefronts
        self.size, self.first, self.until, self.first_placed = 1 << 12, 0, 0, 0
        self.taken = bytearray(1 << 12)

    @cython.cfunc
    def make_room(self, until: cython.longlong, now: cython.longlong) -> cython.void:
        """Sees to it that all slots before `until` are in the ring: forgets those of `lag` cycles before `now`, and
        makes it longer where that is not enough."""
        if until <= self.first + self.size:
            return
        begin: cython.longlong = max((now - self.rules.lag) * self.slots, self.first)
        slot: cython.longlong
        for slot in range(self.first, min(begin, self.first + self.size)):
            self.taken[slot & (self.size - 1)] = FREE
        self.first = begin
        if until > begin + self.size:
            longer: cython.longlong = self.size
            while until > begin + longer:
                longer *= 2
            ring = bytearray(longer)
            for slot in range(begin, begin + self.size):
                ring[slot & (longer - 1)] = self.taken[slot & (self.size - 1)]
            self.taken, self.size = ring, longer

    @cython.cfunc
    def find(self, slot: cython.longlong, load: cython.bint) -> cython.longlong:
        """The first slot from this one on in which a wavefront can begin; a load's can in a gap, too."""
        found: cython.longlong = slot
        k: cython.longlong = 0
        what: cython.int
        while k < self.width and found + k < self.until:
            what = self.taken[(found + k) & (self.size - 1)]
            if what == FREE or (load and what == GAP):
                k += 1
            else:
                found, k = found + k + 1, 0
        return found

    @cython.cfunc
    def free_from(self, cycle: cython.longlong, now: cython.longlong, load: cython.bint) -> cython.longlong:
        """The first cycle, from this one on, in which a wavefront can begin."""
        slot: cython.longlong = cycle * self.slots
        if slot >= self.until:
            return cycle
        self.make_room(max(slot, self.until) + 2 * self.width, now)
        return self.find(slot, load) // self.slots

    @cython.cfunc
    @cython.exceptval(check=True)
    def place(
        self,
        soonest: cython.longlong,
        count: cython.longlong,
        now: cython.longlong,
        load: cython.bint,
        mark: cython.int,
    ) -> cython.longlong:
        """Takes slots for `count` wavefronts of one access from cycle `soonest` on, so far apart as those of one warp
        are; returns the cycle in which the last of them begins, and sets `first_placed` to that of the first. A load
        fills gaps that stores have left, too.

        Args:
            mark: TAKEN, or GAP for slots that stay empty for stores.
        """
        slot: cython.longlong = soonest * self.slots
        last: cython.longlong = slot
        self.make_room(max(slot, self.until) + count * max(self.width, self.step), now)
        k: cython.longlong
        number: cython.longlong
        for number in range(count):
            slot = self.find(slot, load)
            if number == 0:
                self.first_placed = slot // self.slots
            for k in range(self.width):
                self.taken[(slot + k) & (self.size - 1)] = mark
            last = slot
            if self.observer is not None and mark == TAKEN:
                begin: cython.longlong = slot // self.slots
                self.observer.serve("shared memory", self.cta, begin, begin - -self.width // self.slots)
            self.until = max(self.until, slot + self.width)
            slot += self.step
        return last // self.slots

    @cython.cfunc
    @cython.exceptval(check=True)
    def block(self, begin: cython.longlong, cycles: cython.longlong, now: cython.longlong) -> cython.longlong:
        """Takes so many cycles in one piece from `begin` on, behind all that is taken; returns the first."""
        begin = max(begin, -(-self.until // self.slots))
        self.make_room((begin + cycles) * self.slots, now)
        slot: cython.longlong
        for slot in range(begin * self.slots, (begin + cycles) * self.slots):
            self.taken[slot & (self.size - 1)] = TAKEN
        self.until = (begin + cycles) * self.slots
        if self.observer is not None:
            self.observer.serve("shared memory", self.cta, begin, begin + cycles)
        return begin

    @cython.cfunc
    def state(self, words: Words, now: cython.longlong) -> cython.void:
        """Which slots are taken from cycle `now` on."""
        slot: cython.longlong
        words.add(max(self.until - now * self.slots, 0))
        for slot in range(max(now * self.slots, self.first), self.until):
            words.add(self.taken[slot & (self.size - 1)])
