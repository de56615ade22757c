"""The pipes of a sub-core: when each can take its next instruction, and where instructions delay each other.

The compiled engine has the same rules (`simulator/timing/compiled/engine.c`, functions of the same names).
"""

from __future__ import annotations

from array import array

from isa.forms.record import Unit
from simulator.chip.config import Config
from simulator.compiler.timed_code import TimedOperation
from simulator.timing.operands import Reads
from simulator.timing.records import NEVER, link
from simulator.timing.warp import Warp

# found sooner than members of their enums
_TENSOR = Unit.TENSOR
_ALU = Unit.ALU
_FMA = Unit.FMA
_CONTROL = Unit.CONTROL


class Pipes(Reads):
    """The pipes of one sub-core: see `CoreRecord`.

    Attributes:
        mine: its warps.
        free: by `Unit`, the cycle from which each pipe can take its next instruction.
    """

    def __init__(self, number: int, config: Config, warps: list[Warp]) -> None:
        super().__init__(number=number, tick=NEVER, last_issue=-1)
        self.config, self.mine = config, warps
        self.free = array("q", bytes(8 * len(Unit)))
        self.others = array("q", bytes(24 * (config.sm.tensor_pipes - 1)))
        link(self, free=self.free, others=self.others)
        self.begin_reads(config.reading_stages)
        self.fetch_latency = config.fetch.latency if config.fetch is not None else 0
        self.result_stage = config.registers.written if config.registers is not None else 0
        self.stored = max(config.registers.stored - config.alu.latency, 0) if config.registers is not None else 0

    def pipe_free(self, operation: TimedOperation) -> int:
        """The cycle from which the operation's unit can take it: results of the tensor pipe come out one after the
        other."""
        unit = operation.unit
        cycle = self.free[unit]
        if unit is _TENSOR:
            result_until = self.result_until
            if self.others and (other := self.other_pipe()) >= 0:
                cycle, result_until = self.others[other], self.others[other + 1]
            late = result_until - operation.result_from
            if late > 0:
                cycle += late
            cycle = self.ports_until if self.ports_until > cycle else cycle
            return self.metadata_until if operation.sparse and self.metadata_until > cycle else cycle
        if operation.halves:
            return min(cycle, self.half_free)
        return cycle

    def other_pipe(self) -> int:
        """Where in `others` the tensor pipe stands that takes the next matrix instruction, the one that is free first;
        -1 if it is the one that took the last. Of equals it is the one whose last result is there first."""
        place, first = -1, [self.free[_TENSOR], self.result_until, self.dense]
        for other in range(0, len(self.others), 3):
            numbers = self.others[other : other + 3].tolist()
            if numbers < first:
                place, first = other, numbers
        return place

    def turn_to_pipe(self) -> None:
        """Makes the tensor pipe that is free first the one that instructions take."""
        place = self.other_pipe() if self.others else -1
        if place >= 0:
            mine = self.free[_TENSOR], self.result_until, self.dense
            self.free[_TENSOR], self.result_until, self.dense = self.others[place : place + 3]
            self.others[place : place + 3] = array("q", mine)

    def take(self, warp: Warp, operation: TimedOperation, now: int) -> None:
        """Occupies the tensor or an integer pipe."""
        unit, begin = operation.unit, now
        if unit is _TENSOR:
            self.turn_to_pipe()
            self.ports_until = now + operation.reading
            if operation.sparse:
                self.metadata_until = now + self.config.sm.metadata_cycles
            if self.dense and operation.sparse and not self.depth:
                begin = max(now, self.free[unit] + self.config.pipe.sparse_after_dense)
                warp.put_off(begin - now, now)
            self.result_until, self.dense = operation.result_until, not operation.sparse
            if not self.depth:
                self.reads_until, self.accessed, self.spare = now + operation.ports, 0, operation.spare
                self.reader = self.mine.index(warp)
        if operation.halves and self.half_free <= now:
            self.half_free = now + operation.interval
        else:
            self.free[unit] = begin + operation.interval
        if self.depth:
            self.read(warp, operation)
        if unit is _CONTROL and self.config.sequences is not None:
            self.last_issue = now + self.config.sequences.fetch
        elif (unit is _ALU or unit is _FMA) and not self.depth:
            self.share(now)
            self.free[unit] += self.collide(warp, now, now)
        if operation.compare and not self.depth:  # before the warp's next issue, so that it has one to come at most
            warp.comparison = now + operation.compare
        if unit is _TENSOR and self.reads_until > now and not self.depth:
            leaves_none = operation.ports >= operation.interval - 1
            for other in self.mine:
                if other.comparison > now:
                    self.collide(other, other.comparison, now)
                elif other.comparison == now - 1 and other is not warp and leaves_none:
                    warp.put_off(self.lose(other, operation.ports), now)

    def share(self, now: int) -> None:
        """Lets an integer or float instruction read its registers while the matrix instruction in the pipe reads its
        own: in a cycle that this one can spare, or in one that the pipe loses."""
        if self.reads_until <= now < self.free[_TENSOR]:
            if self.spare:
                self.spare -= 1
            else:
                self.free[_TENSOR] += self.config.pipe.integer

    def access(self, now: int) -> None:
        """Notes an access to shared memory: integer instructions behind it find ports taken longer by the matrix
        instruction that reads through them."""
        if self.reads_until >= now and not self.accessed and not self.depth:
            self.reads_until += self.config.pipe.access
            self.accessed = 1

    def come_late(self, warp: Warp, cycles: int, now: int) -> None:
        """Lets a matrix instruction that has issued begin so many cycles later, and with it all that follows it in its
        warp."""
        self.free[_TENSOR] += cycles
        warp.put_off(cycles, now)

    def collide(self, warp: Warp, cycle: int, now: int) -> int:
        """Delays an instruction in `cycle` whose ports are taken by a matrix instruction: its warp, that of the matrix
        instruction and the tensor pipe lose the time until they are free; returns the cycles lost."""
        lost = max(self.reads_until - cycle, 0)
        if lost and self.mine[self.reader] is not warp:
            self.mine[self.reader].put_off(lost, now)
        return self.lose(warp, lost)

    def lose(self, warp: Warp, cycles: int) -> int:
        """Delays a warp, and the tensor pipe, by so many cycles; returns them."""
        warp.issue_not_before += cycles
        self.free[_TENSOR] += cycles
        return cycles
