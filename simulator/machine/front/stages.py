"""The read stages of a sub-core: the instruction in each, and which of its operands are still to be read."""

from __future__ import annotations

from typing import Any

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
    def hold_up(self, cycle: cython.longlong) -> cython.void:
        """Lets it be forwarded nothing in this cycle; operands that arrive now become readable next cycle."""
        k: cython.int
        for k in range(3):
            if self.filed[k] >= cycle:
                self.filed[k] = max(self.filed[k], cycle + 1)
                self.given[k] = max(self.given[k], cycle + 1)

    @cython.cfunc
    def take_others_from_file(self, bank: cython.int) -> cython.void:
        """Lets its instruction be forwarded no more results in this bank, as it has read one that has
        just come to the register file."""
        slot: cython.int
        for slot in range(3):
            if self.unread >> (2 * slot + bank) & 1:
                self.given[slot] = self.filed[slot]

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


@cython.final
@cython.cclass
class ReadStages:
    """Those of a sub-core, in a ring.

    Attributes:
        count: how many; oldest, newest: the last and the first; `empty`: whether nothing is in any.
    """

    count: cython.int
    oldest: Stage
    newest: Stage
    empty: cython.bint

    def __init__(self, count: Any) -> None:
        self.count, self.empty = count, True
        self.oldest = self.newest = Stage()
        for _ in range(count - 1):
            self.newest.behind = Stage()
            self.newest = self.newest.behind
        self.newest.behind = self.oldest

    @cython.cfunc
    def asks(self, late: cython.bint) -> cython.bint:
        """Whether an operand is still to be read, or, of instructions that may be `late`, a register to be written."""
        stage: Stage = self.oldest
        for _ in range(self.count):
            if stage.unread or (late and stage.writes):
                return True
            stage = stage.behind
        return False

    @cython.cfunc
    def move(self, cycle: cython.longlong, cycles: cython.longlong) -> cython.void:
        """Moves instructions, of which there are, on by so many stages from this cycle on."""
        stages: cython.int = self.count
        step: cython.int = min(cycles, stages)
        k: cython.int
        stage: Stage = self.oldest
        for k in range(step):
            if stage.instruction is not None:
                stage.leave(cycle + k)
            stage.clear()
            self.newest, stage = stage, stage.behind
        self.oldest = stage
        self.empty = True
        for _ in range(step, stages):
            if stage.operands or stage.instruction is not None:
                self.empty = False
                return
            stage = stage.behind

    @cython.cfunc
    def go_ahead(self, cycle: cython.longlong) -> cython.void:
        """Moves on what is ahead of a matrix instruction that waits in this cycle: what is behind the second stage."""
        if self.count > 2:
            last: Stage = self.oldest
            if last.instruction is not None:
                last.leave(cycle)
            last.clear()
            third: Stage = last  # from the beginning
            for _ in range(self.count - 3):
                third = third.behind
            if third is not last:
                self.oldest = self.newest.behind = last.behind
                third.behind, last.behind = last, third.behind

    @cython.cfunc
    def state(self, words: Words, now: cython.longlong) -> cython.void:
        """All that decides how they go on."""
        stage: Stage = self.oldest
        for _ in range(self.count):
            stage.state(words, now)
            stage = stage.behind
