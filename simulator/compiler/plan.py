"""In which cycles the compiler believes that instructions issue. Slots that are empty in this view take the counter of
a loop."""

from __future__ import annotations

from isa.forms.record import Unit
from simulator.chip.config import Config
from simulator.compiler.forwarding import usable_from
from simulator.compiler.timed_code import TimedOperation

FIXED_LATENCY = (Unit.TENSOR, Unit.ALU, Unit.FMA)
"""Units whose results come after a fixed number of cycles, which the compiler knows."""

_Kind = tuple[Unit, int, bool, bool]


class Plan:
    """The issue cycles of a block's instructions as the compiler sees them.

    The compiler knows no interval between matrix instructions of unlike kinds, so that its cycles differ from those of
    the chip. Read off the machine code of 886 loops (ptxas 13.0, sm_90a): the addition of a loop's counter stands in
    the first empty slot, and the comparison in the first empty slot from `[schedule] compare` cycles later on.
    Instructions on which more depends go before the addition and the comparison, all others behind them.

    Attributes:
        cycle: the cycle of the last instruction.
        slot: the cycle of the last instruction, or of the last part of the counter.
    """

    def __init__(self, config: Config) -> None:
        self.config, self.cycle, self.slot = config, -1, -1
        self._pipe_free: dict[_Kind, int] = {}
        self._ready: dict[int, tuple[int, Unit]] = {}

    def soonest(self, operation: TimedOperation, distance: int) -> int:
        """The first cycle for the next instruction, which follows the last one by at least `distance` cycles."""
        operands = (usable_from(self.config.alu, self._ready, register, operation) for register in operation.reads)
        pipe_free = self._pipe_free.get(_pipe_of(operation), 0)
        return max(self.cycle + distance, self.slot + 1, pipe_free, *operands, 0)

    def issue(self, operation: TimedOperation, cycle: int) -> None:
        """Issues an instruction in a cycle."""
        self.cycle = self.slot = cycle
        if operation.unit in FIXED_LATENCY:
            self._pipe_free[_pipe_of(operation)] = cycle + operation.interval
            self._ready.update(dict.fromkeys(operation.writes, (cycle + operation.latency, operation.unit)))


def _pipe_of(operation: TimedOperation) -> _Kind:
    """What the compiler takes for a pipe of its own: dense and sparse instructions of the larger K share one."""
    matrix = operation.matrix
    sparse = matrix is not None and matrix.sparse and not matrix.large
    return operation.unit, operation.latency, sparse, matrix is not None and matrix.integer
