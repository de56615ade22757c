"""Loop overhead and NOPs, which issue behind an instruction of a warp without a place of their own in its program."""

from __future__ import annotations

from typing import Any

import cython

from simulator.machine.front.program import NEVER, Instruction, Words, numbers


@cython.final
@cython.cclass
class Upkeep:
    """What issues behind the last instruction of a warp.

    Attributes:
        entries: twice the cycle of issue, and 1 with the yield hint; of `count`, the first `seen` have issued.
        due: when the next of them is to issue; NEVER if all have.
        counter: bit p if the one at p compares the loop counter, which reads the register `runs`.
    """

    entries: cython.longlong[::1]
    seen: cython.int
    count: cython.int
    due: cython.longlong
    counter: cython.longlong
    runs: cython.longlong

    def __init__(self, most: Any) -> None:
        self.entries = numbers([0]) * (most + 1)
        self.seen, self.count, self.due, self.counter, self.runs = 0, 0, NEVER, 0, 0

    @cython.cfunc
    def begin(self, instruction: Instruction, now: cython.longlong) -> cython.void:
        """Notes what issues behind an instruction that issues now."""
        self.seen, self.count, self.due = 0, instruction.upkeep_count, NEVER
        if self.count:
            self.counter, self.runs = instruction.counter, instruction.runs
            k: cython.int
            for k in range(self.count):
                self.entries[k] = 2 * now + instruction.upkeep[k]
            self.due = self.entries[0] >> 1

    @cython.cfunc
    def end(self) -> cython.void:
        """Notes that the one that was due has issued."""
        self.seen += 1
        self.due = self.entries[self.seen] >> 1 if self.seen < self.count else NEVER

    @cython.cfunc
    def stop(self) -> cython.void:
        """Forgets all of them, at the end of a program."""
        self.count, self.due = 0, NEVER

    @cython.cfunc
    def put_off(self, cycles: cython.longlong) -> cython.void:
        """Lets what is left come so many cycles later."""
        k: cython.int
        for k in range(self.seen, self.count):
            self.entries[k] += 2 * cycles
        if self.due < NEVER:
            self.due += cycles

    @cython.cfunc
    def stand_still(self, cycle: cython.longlong) -> cython.void:
        """Lets those come a cycle later that are not over by this one."""
        k: cython.int
        for k in range(self.seen, self.count):
            if self.entries[k] >> 1 >= cycle:
                self.entries[k] += 2
        if self.seen < self.count:
            self.due = self.entries[self.seen] >> 1

    @cython.cfunc
    def is_last_hint(self, cycle: cython.longlong) -> cython.bint:
        """Whether but one NOP with the yield hint is left, which issues in this cycle."""
        return self.seen + 1 == self.count and self.entries[self.seen] == 2 * cycle + 1

    @cython.cfunc
    def state(self, words: Words, now: cython.longlong) -> cython.void:
        """All that is left, relative to `now`."""
        k: cython.int
        for k in range(self.seen, self.count):
            words.add(self.entries[k] - 2 * now)
        words.add(-1)
