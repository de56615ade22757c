"""A read stage of a sub-core: the instruction in it, and which of its operands are still to be read."""

from __future__ import annotations

import cython

from simulator.machine.front.program import Instruction, Words, numbers
from simulator.machine.front.warp import Warp


@cython.final
@cython.cclass
class Stage:
    """A read stage, and the instruction in it.

    Attributes:
        unread, operands: which operands are still to be read, and which its instruction has: bit 2 * slot + bank.
        writes: the banks that it writes.
        filed, given: by slot, since when an operand can be read from the register file, and since when in the last
            stage.
        behind: the stage before it; behind the first, the last.
        warp, instruction: whose, and which, if it is known; None in an empty stage.
    """

    unread: cython.longlong
    operands: cython.longlong
    writes: cython.longlong
    filed: cython.longlong[::1]
    given: cython.longlong[::1]
    behind: Stage
    warp: Warp
    instruction: Instruction

    def __init__(self) -> None:
        self.filed, self.given = numbers([0, 0, 0]), numbers([0, 0, 0])
        self.clear()

    @cython.cfunc
    def clear(self) -> cython.void:
        """Empties it."""
        self.unread = self.operands = self.writes = 0
        self.filed[0] = self.filed[1] = self.filed[2] = self.given[0] = self.given[1] = self.given[2] = 0
        self.warp = self.instruction = None

    @cython.cfunc
    def leave(self, cycle: cython.longlong) -> cython.void:
        """Notes from when on the results can be read of its instruction, which leaves behind this cycle."""
        k: cython.int
        for k in range(self.instruction.write_count):
            self.warp.readable[self.instruction.writes[k]] = cycle + self.instruction.latency

    @cython.cfunc
    def state(self, words: Words, now: cython.longlong) -> cython.void:
        words.add(self.unread)
        words.add(self.operands)
        words.add(self.writes)
        k: cython.int
        for k in range(3):
            words.add(max(self.filed[k] - now, 0))
            words.add(max(self.given[k] - now, 0))
        words.add(-1 if self.warp is None else self.warp.place)
