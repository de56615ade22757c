"""The pipes of a sub-core: when each can take its next instruction, and where instructions delay each other."""

from __future__ import annotations

from isa.forms.record import Unit
from simulator.timing.config import Config
from simulator.timing.model import TimedOperation
from simulator.timing.warp import Warp


class Pipes:
    """The pipes of one sub-core.

    Attributes:
        number: of the sub-core, counted over all SMs.
        free: by `Unit`, the cycle from which each can take its next instruction.
        result_until, dense: of the tensor pipe's last instruction: its `result_until`, and whether it was dense.
        reads_until: the cycle until which the last matrix instruction reads registers through ports that integer
            instructions use.
        compares: (cycle, warp) of the comparisons of loop counters that are to come.
        stores_until: the cycle until which the port to shared memory carries values of stores; matrix instructions wait
            for it.
        last_issue: the cycle of the sub-core's last issue.
    """

    def __init__(self, number: int, config: Config) -> None:
        self.number, self.config = number, config
        self.free = [0] * len(Unit)
        self.result_until, self.dense = 0, False
        self.reads_until = 0
        self.compares: list[tuple[int, Warp]] = []
        self.stores_until = 0
        self.last_issue = -1

    def pipe_free(self, operation: TimedOperation) -> int:
        """The cycle from which the operation's unit can take it: results of the tensor pipe come out one after the
        other."""
        cycle = self.free[operation.unit]
        if operation.unit is Unit.TENSOR:
            return max(cycle + max(self.result_until - operation.result_from, 0), self.stores_until)
        return cycle

    def take(self, warp: Warp, operation: TimedOperation, now: int) -> None:
        """Occupies the tensor or an integer pipe."""
        unit, begin = operation.unit, now
        if unit is Unit.TENSOR:
            if self.dense and operation.sparse:
                begin = max(now, self.free[unit] + self.config.pipe.sparse_after_dense)
            self.result_until, self.dense = operation.result_until, not operation.sparse
            self.reads_until = now + operation.ports
        self.free[unit] = begin + operation.interval
        if unit is Unit.CONTROL and self.config.sequences is not None:
            self.last_issue = now + self.config.sequences.fetch
        elif unit is Unit.ALU or unit is Unit.FMA:
            if self.reads_until <= now < self.free[Unit.TENSOR] and len(operation.reads) > 2:
                self.free[Unit.TENSOR] += self.config.pipe.three_registers
            self.free[unit] += self.collide(warp, now)
        if operation.compare:
            self.compares.append((now + operation.compare, warp))
        if self.compares:
            self.compares = [(cycle, other) for cycle, other in self.compares if cycle > now]
            if unit is Unit.TENSOR:
                for cycle, other in self.compares:
                    self.collide(other, cycle)

    def collide(self, warp: Warp, cycle: int, most: int = 1 << 30) -> int:
        """Delays an instruction in `cycle` whose ports are taken by a matrix instruction: warp and tensor pipe lose the
        time until they are free, at most `most` cycles; returns the cycles lost."""
        lost = max(min(self.reads_until - cycle, most), 0)
        warp.issue_not_before += lost
        self.free[Unit.TENSOR] += lost
        return lost
