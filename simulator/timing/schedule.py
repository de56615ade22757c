"""The waits that the compiler writes into the code: how long a warp pauses after each instruction.

The results of matrix and integer instructions come after a fixed number of cycles. No interlock watches them: ptxas
writes into each instruction for how many cycles its warp issues nothing (the stall count, at most 15; a NOP for the
rest), and so do we, for the order in which the trace is written. The waits count from issue, so what delays an
instruction delays all that follow it in its warp. Results of memory and of asynchronous units are waited for when the
time comes: that is the engine's part.

At the ends of a loop everything of a fixed latency has arrived. Its counter is an addition after the first instruction
(after the second, if these are unlike) and a comparison a few cycles later, in issue slots that would be empty.

Measured on an H100 (tests/hardware/README.md, "Unlike instructions"): the waits equal those in the machine code of 646
of 646 regular and 212 of 240 random loops, the others differ by 1 to 3 cycles an iteration.
"""

from __future__ import annotations

from collections.abc import Sequence

from isa.forms.record import Unit
from simulator.timing.config import Config
from simulator.timing.model import StallReason, TimedLoop, TimedOperation

_FIXED = (Unit.TENSOR, Unit.ALU, Unit.FMA)
_PIPE = {Unit.TENSOR: StallReason.TENSOR, Unit.ALU: StallReason.ALU, Unit.FMA: StallReason.ALU}
_INTEGER = (Unit.ALU, Unit.FMA)


def schedule(items: Sequence[TimedOperation | TimedLoop], config: Config) -> None:
    """Fills in `stall`, `operand_stall`, `stall_reason` and `compare` of every operation."""
    starts = {item.start for item in items if isinstance(item, TimedLoop)}
    block = _Block(config, loop=False)
    for place, item in enumerate(items):
        if place in starts:
            block.close(branch=False)
            block = _Block(config, loop=True)
        if isinstance(item, TimedLoop):
            block.close(branch=True)
            block = _Block(config, loop=False)
        else:
            block.add(item)
    block.close(branch=False)


def extra(config: Config, producer: Unit, consumer: Unit) -> int:
    """Cycles beyond the producer's latency until an instruction of another unit can use its result."""
    if producer not in _INTEGER or consumer is producer:
        return 0
    if consumer in _INTEGER:
        return config.alu.change_latency
    if consumer in (Unit.TENSOR, Unit.CONTROL):
        return config.alu.tensor_latency - config.alu.latency
    return 0 if consumer is Unit.BARRIER else config.alu.address_latency - config.alu.latency


def _unlike(one: TimedOperation, other: TimedOperation) -> bool:
    return (one.unit, one.interval, one.sparse) != (other.unit, other.interval, other.sparse)


class _Block:
    """Instructions between two ends of loops, placed in the cycles of a warp that is alone."""

    def __init__(self, config: Config, loop: bool) -> None:
        self.config = config
        self.last: TimedOperation | None = None
        self.at = 0  # cycle of the last instruction
        self.slot = 0  # cycle of the last instruction or of what fills the time
        self.free: dict[Unit, int] = {}
        self.tensor_free = [0] * config.sm.tensor_pipes
        self.paths_free = [0, 0]  # the ports that tensor pipes share, and the path of metadata
        self.ready: dict[int, tuple[int, Unit]] = {}
        # The counter of a loop: cycles of the addition and of the comparison, as far as they are not placed yet.
        self.counter: list[int] = []
        self.first = True
        self.waiting = loop and config.schedule.compare > 0

    def add(self, operation: TimedOperation) -> None:
        """Places the next instruction in the first cycle that it can issue in."""
        if self.last is None:
            self.begin(operation, 0)
            return
        free = max(self.at + self.last.shortest_stall, self.unit_free(operation))
        operands_ready = max((self.available(register, operation) for register in operation.reads), default=0)
        if self.last.blocking:
            operands_ready = max(operands_ready, self.at + self.last.latency)
        for register in operation.writes:
            operands_ready = max(operands_ready, self.ready.get(register, (0, Unit.ALU))[0] - operation.latency + 1)
        if operation.unit is Unit.CONTROL:  # a call finds everything arrived
            operands_ready = max((operands_ready, *(self.available(register, operation) for register in self.ready)))
        cycle = max(free, operands_ready)
        if not (self.waiting and self.first and _unlike(self.last, operation)):
            self.place(cycle)
        self.first = False
        cycle = self.pad(cycle)
        self.last.stall, self.last.operand_stall = (
            cycle - self.at,
            (cycle if operands_ready >= free else max(operands_ready, self.at + 1)) - self.at,
        )
        self.last.stall_reason = _PIPE.get(operation.unit, StallReason.DEPENDENCY)
        self.begin(operation, cycle)

    def unit_free(self, operation: TimedOperation) -> int:
        """The cycle from which the operation's unit can take it."""
        if operation.unit is not Unit.TENSOR:
            return self.free.get(operation.unit, 0)
        ports, path = self.paths_free
        return max(min(self.tensor_free), ports, path if operation.sparse else 0)

    def take(self, operation: TimedOperation, cycle: int) -> None:
        """Occupies the operation's unit."""
        self.free[operation.unit] = cycle + operation.interval
        if operation.unit is Unit.TENSOR:
            self.tensor_free[self.tensor_free.index(min(self.tensor_free))] = cycle + operation.interval
            self.paths_free[0] = cycle + operation.reading
            if operation.sparse:
                self.paths_free[1] = cycle + self.config.sm.metadata_cycles

    def available(self, register: int, consumer: TimedOperation) -> int:
        """The cycle from which `consumer` can use a register; 0 if nothing in the block wrote it."""
        cycle, producer = self.ready.get(register, (0, Unit.ALU))
        return (
            cycle
            + extra(self.config, producer, consumer.unit)
            + (consumer.forwarding_penalty if producer is Unit.ALU else 0)
            if cycle
            else 0
        )

    def place(self, cycle: int) -> None:
        """Puts the loop's counter into empty slots before `cycle`: the addition comes behind the first instruction that
        is like its neighbour."""
        assert self.last is not None
        if self.waiting:
            self.waiting = False
            self.counter = [self.at + 1, self.at + 1 + self.config.schedule.compare]
        while self.counter and (slot := max(self.counter[0], self.slot + 1)) < cycle:
            self.counter.pop(0)
            self.slot = slot
            if not self.counter:
                self.last.compare = slot - self.at

    def pad(self, cycle: int) -> int:
        """Adds NOPs before `cycle` where the wait is too long for one instruction; returns when the next one issues."""
        rule = self.config.schedule
        while cycle - self.slot > rule.stall:
            self.slot += rule.stall
            cycle = max(cycle, self.slot + rule.nop)
        return cycle

    def begin(self, operation: TimedOperation, cycle: int) -> None:
        """Issues an instruction in `cycle`, and notes when its unit is free and its results are ready."""
        self.last, self.at, self.slot = operation, cycle, cycle
        operation.stall, operation.operand_stall, operation.stall_reason, operation.compare = (
            1,
            1,
            StallReason.ISSUED,
            0,
        )
        if operation.unit not in _FIXED:
            for register in operation.writes:
                self.ready.pop(register, None)
            return
        self.take(operation, cycle)
        for register in operation.writes:
            self.ready[register] = cycle + operation.latency, operation.unit

    def close(self, branch: bool) -> None:
        """Ends the block: all results of a fixed latency arrive, and a loop branches."""
        if self.last is None:
            return
        cycle = self.at + self.last.shortest_stall
        if self.config.loop.drain:
            cycle = max((cycle, *(ready for ready, _ in self.ready.values())))
        if branch:
            self.place(cycle)
            cycle = max(cycle, self.at + self.last.shortest_stall + self.config.loop.cycles)
        if self.last.blocking:
            cycle = max(cycle, self.at + self.last.latency)
        self.last.stall, self.last.operand_stall = cycle - self.at, 1
        self.last.stall_reason = StallReason.BRANCH if branch else StallReason.DEPENDENCY
