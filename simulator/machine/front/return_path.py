"""The way of loaded registers from shared memory back to the sub-cores of an SM.

Behind its wavefront a register goes through a pipe of the SM, which one register leaves in a cycle (as many as the SM
serves wavefronts), in the order of their wavefronts; those of a vector load all stand behind its last one. Then it
waits in a queue of its sub-core. In a cycle one register is written for the whole SM, of the sub-cores that have one in
turn by number. A sub-core is passed over if its register file takes nothing in the bank of its first register.

There is room for `[shared] loads` registers of loads that have begun. An ldmatrix takes a place for each of its
registers, any other load one; it is free again `freed` cycles behind the one in which the register leaves the pipe, of
a vector the last.

Measured: H200, 178 codes of loads on one, two and four sub-cores, every clock (docs/timing.md, Shared memory). Where
wavefronts take a part of a cycle, times are counted in such parts (slots).
"""

from __future__ import annotations

import cython

from simulator.machine.front.access import Access
from simulator.machine.front.program import NEVER, ONE, Instruction, Words
from simulator.machine.front.rules import Rules
from simulator.machine.front.sub_core import SubCore


@cython.freelist(64)
@cython.no_gc
@cython.final
@cython.cclass
class Returning:
    """A register of a load that is on its way.

    Attributes:
        core, access: its sub-core, and its load.
        bank: that of the register, as a bit.
        place: whether it takes a place of those for loads that have begun; final: whether it is the load's last.
        following: the one behind it.
        soonest, slot: in which slot it can leave the pipe, and in which it does.
    """

    core: SubCore
    access: Access
    bank: cython.longlong
    place: cython.int
    final: cython.bint
    following: Returning
    soonest: cython.longlong
    slot: cython.longlong


@cython.final
@cython.cclass
class ReturnPath:
    """That of an SM.

    Attributes:
        first, last: of a chain of the registers on their way, in the order in which they leave the pipe; `count`: how
            many.
        width: registers that leave it in a cycle; `loads`: places for registers of loads that have begun.
        ahead: cycles from the one in which a register leaves the pipe, at the earliest, until its value is there;
            `behind_write`: how many of these are behind the one in which it is written.
        wait: cycles behind that in which a register leaves the pipe until it must be known when it is written.
        left: the last slot in which a register has left the pipe that is written.
        decided: the slot up to which is known what is written.
        served: the sub-core whose register was written last.
        places: for loads that have begun, taken by registers on their way.
        now: the cycle in which it is decided what is written.
    """

    rules: Rules
    first: Returning
    last: Returning
    count: cython.longlong
    width: cython.longlong
    loads: cython.longlong
    ahead: cython.longlong
    behind_write: cython.longlong
    wait: cython.longlong
    left: cython.longlong
    decided: cython.longlong
    cursor: cython.longlong
    served: cython.int
    places: cython.longlong
    now: cython.longlong

    def __init__(self, rules: Rules) -> None:
        self.rules, self.first, self.last, self.count = rules, None, None, 0
        self.width = -(-rules.wavefronts // rules.cycles)
        self.loads = rules.loads * self.width
        self.ahead, self.behind_write = rules.latency - 1, rules.written
        self.wait = max(self.ahead, rules.lag + rules.freed)
        self.left = self.decided = self.cursor = self.places = self.now = 0
        self.served = rules.sub_cores - 1

    @cython.cfunc
    @cython.inline
    def cycle_of(self, slot: cython.longlong) -> cython.longlong:
        """The cycle that a slot is in."""
        return slot if self.width == 1 else slot // self.width

    # Loads that begin

    @cython.cfunc
    def fits_from(self, instruction: Instruction, cycle: cython.longlong) -> cython.longlong:
        """The first cycle, from this one on, in which there is room for the registers of an access."""
        count: cython.longlong = instruction.write_count
        left: cython.longlong = self.loads - (min(count, 1) if instruction.together else count)
        if not count or not self.count or self.places <= left:
            return cycle
        many: cython.longlong = self.places - left
        register: Returning = self.first
        while register.place < many and register.following is not None:
            many -= register.place
            register = register.following
        return max(self.cycle_of(register.slot) + self.rules.freed, cycle)

    @cython.cfunc
    def add(self, core: SubCore, access: Access, first: cython.longlong, last: cython.longlong) -> cython.void:
        """Lets the registers of a load come that has its first and last wavefront in these cycles."""
        instruction: Instruction = access.instruction
        count: cython.int = instruction.write_count
        step: cython.longlong = 0 if instruction.together else (last - first) // max(count - 1, 1)
        soonest: cython.longlong = (last + 1 - (count - 1) * step) * self.width
        before: Returning = None
        if self.last is not None and self.last.soonest <= soonest:
            before = self.last
        left: cython.longlong = self.left
        k: cython.int
        register: Returning
        other: Returning = self.first if before is None else None
        for k in range(count):
            while other is not None and other.soonest <= soonest:
                if k:
                    left = other.slot = max(other.soonest, left + 1)
                before, other = other, other.following
            register = Returning.__new__(Returning)
            register.core, register.access, register.bank = core, access, 1 << (instruction.writes[k] & 1)
            register.final = k == count - 1
            register.place = register.final or not instruction.together
            self.places += register.place
            register.soonest = register.slot = soonest
            soonest += step * self.width
            register.following = other
            if before is None:
                self.first = register
            else:
                left = max(left, before.slot)
                before.following = register
            if other is None:
                self.last = register
            left = register.slot = max(register.slot, left + 1)
            before = register
        self.count += count
        while other is not None:
            left = other.slot = max(other.soonest, left + 1)
            other = other.following

    # What is written

    @cython.cfunc
    def due(self) -> cython.longlong:
        """The cycle in which it must be known what has been written."""
        if self.first is None:
            return NEVER
        return self.cycle_of(max(self.first.slot, self.decided)) + self.wait

    @cython.cfunc
    def written_until(self, now: cython.longlong) -> cython.longlong:
        """The slot up to which it can be decided now what is written: registers whose places are free, where all
        sub-cores have come so far."""
        return min(now - self.ahead + self.behind_write, now - self.rules.lag - self.rules.freed + 1) * self.width

    @cython.cfunc
    def begin_writing(self, now: cython.longlong) -> cython.void:
        """Begins to decide now what is written, from where that is known on."""
        self.cursor, self.now = self.decided, now

    @cython.cfunc
    def write_next(self, until: cython.longlong) -> Returning:
        """Takes out the next register that is written before slot `until`, or None. Its `slot` becomes that in which it
        is written."""
        while self.cursor < until and self.first is not None:
            slot: cython.longlong = self.cursor
            register: Returning = self.next_written(slot)
            if register is not None:
                self.served = register.core.number
                self.left = max(self.left, register.slot)
                register.slot = slot
            self.cursor = slot + 1
            if self.first is not None:
                self.cursor = max(self.cursor, self.first.slot)
            if register is not None:
                return register
        self.decided = max(self.decided, until)
        return None

    @cython.cfunc
    def next_written(self, slot: cython.longlong) -> Returning:
        """Takes out the register that is written in a slot; None for none."""
        cycle: cython.longlong = self.cycle_of(slot) + self.ahead - self.behind_write
        register: Returning = self.first
        if register.following is None or register.following.slot > slot:
            if register.slot > slot or not self.takes(register, cycle):
                return None
            self.take_out(register, None)
            return register
        found: Returning = None
        found_behind: Returning = None
        before: Returning = None
        turn: cython.int = self.rules.sub_cores
        seen: cython.longlong = 0
        while register is not None and register.slot <= slot:
            number: cython.int = register.core.number
            if not seen >> number & 1:
                seen |= ONE << number
                its: cython.int = number - self.served - 1
                if its < 0:
                    its += self.rules.sub_cores
                if its < turn and self.takes(register, cycle):
                    found, found_behind, turn = register, before, its
            before, register = register, register.following
        if found is not None:
            self.take_out(found, found_behind)
        return found

    @cython.cfunc
    @cython.inline
    def takes(self, register: Returning, cycle: cython.longlong) -> cython.bint:
        """Whether its sub-core takes a register in this cycle."""
        core: SubCore = register.core
        if core.port.read_cycle <= cycle:
            core.settle(self.now)
        return not register.bank & core.port.writes_blocked(cycle)

    @cython.cfunc
    def take_out(self, register: Returning, before: Returning | None) -> cython.void:
        """Takes out a register that stands behind this one, or first."""
        if before is None:
            self.first = register.following
        else:
            before.following = register.following
        if register.following is None:
            self.last = before
        register.following = None
        self.count -= 1
        self.places -= register.place

    @cython.cfunc
    def state(self, words: Words, now: cython.longlong) -> cython.void:
        """All that decides what comes next, in cycles and slots relative to `now`."""
        words.add(max(self.left - (now - self.rules.lag) * self.width, 0))
        words.add(self.served)
        words.add(self.count)
        register: Returning = self.first
        while register is not None:
            words.add(register.core.number)
            words.add(register.access.warp.place)
            words.add(register.access.pc)
            words.add(register.bank)
            words.add(register.place)
            words.add(register.final)
            words.add(register.access.ready - NEVER - register.core.port.made)
            words.add(register.soonest - now * self.width)
            words.add(register.slot - now * self.width)
            register = register.following
