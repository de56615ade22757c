"""Waits, yield hints and loop overhead of the instructions between two ends of loops, for a warp that is alone."""

from __future__ import annotations

from isa.forms.record import Unit
from simulator.chip.config import Config
from simulator.compiler.forwarding import INTEGER_PIPES, usable_from
from simulator.compiler.operation_parts import Overhead
from simulator.compiler.timed_code import StallReason, TimedOperation

FILLER, ADDITION, COMPARISON = range(3)  # kinds of loop overhead: a NOP or a branch; the two parts of a loop's counter
_PIPE_TAKEN = {Unit.TENSOR: StallReason.TENSOR, Unit.ALU: StallReason.ALU, Unit.FMA: StallReason.ALU}
_BEHIND_ALL = 1 << 30  # a slot behind all others
FIXED_LATENCY = (Unit.TENSOR, Unit.ALU, Unit.FMA)
"""Units whose results come after a fixed number of cycles, which the compiler knows."""

_Kind = tuple[Unit, int, bool, bool]


class BlockSchedule:
    """The issue cycles of a block's instructions, and what the compiler writes into them.

    Attributes:
        last: the last instruction; None before the first.
        cycle: its cycle.
        slot: the cycle of the last instruction, or of the loop overhead behind it.
        upkeep: loop overhead behind the last instruction: cycle and kind of each.
        ready: for each register, the cycle in which its own unit can use it, and that unit.
        plan: the cycles in which the compiler believes that the instructions issue.
        counter: the next part of the loop's counter: from which slot of the plan, and from which cycle on, it can
            stand; None if there is no further part.
        compared: whether that part is the comparison.
        hinted: the cycle of the last yield hint.
        ahead: cycles by which the addition of the counter delays the first instruction.
    """

    def __init__(self, config: Config, loop: bool) -> None:
        self.config = config
        self.last: TimedOperation | None = None
        self.cycle = 0
        self.slot = 0
        self.upkeep: list[tuple[int, int]] = []
        self.ready: dict[int, tuple[int, Unit]] = {}
        self.plan = Plan(config)
        self.counter: tuple[int, int] | None = (1, 1) if loop and config.schedule.compare else None
        self.compared = False
        self.hinted = 0
        self.ahead = 0
        self._unit_free: dict[Unit, int] = {}
        self._tensor_free = [0] * config.sm.tensor_pipes
        self._ports_free = 0  # the register file's ports that all tensor pipes share
        self._metadata_free = 0  # the path of metadata that they share

    def add(self, operation: TimedOperation, path: int) -> None:
        """Places the next instruction in the first cycle that it can issue in.

        Args:
            operation: the instruction.
            path: cycles from its issue until the last result that depends on it is there.
        """
        if self.last is None:
            self._start(operation, path)
            return
        distance = self.last.shortest_stall
        unit_free = max(self.cycle + distance, self._free_from(operation))
        operands_ready = self._operands_ready(operation)
        self._place_counter(self.plan.soonest(operation, distance), operation, path)
        self.plan.issue(operation, self.plan.soonest(operation, distance))
        cycle = max(unit_free, operands_ready, self.slot + 1)
        padded = self._pad(cycle)
        for_operands = padded if operands_ready >= unit_free else max(operands_ready, self.cycle + 1)
        self.last.stall = padded - self.cycle
        self.last.operand_stall = for_operands - self.cycle
        self.last.stall_reason = _PIPE_TAKEN.get(operation.unit, StallReason.DEPENDENCY)
        self._write_hints(padded)
        self._issue(operation, cycle)

    def close(self, branch: bool) -> None:
        """Ends the block: all results of a fixed latency arrive, and a loop branches."""
        if self.last is None:
            return
        cycle = self.cycle + self.last.shortest_stall
        if self.config.loop.drain:
            cycle = max((cycle, *(ready for ready, _ in self.ready.values())))
        if branch:
            self._place_counter(_BEHIND_ALL)
            cycle = max(cycle, self.slot + 1, self.cycle + self.last.shortest_stall + self.config.loop.cycles)
        if self.last.blocking:
            cycle = max(cycle, self.cycle + self.last.latency)
        if branch:
            self._place_branch(cycle)
        cycle += self.ahead
        self._write_hints(cycle)
        self.last.stall, self.last.operand_stall = cycle - self.cycle, 1
        self.last.stall_reason = StallReason.BRANCH if branch else StallReason.DEPENDENCY

    def _start(self, operation: TimedOperation, path: int) -> None:
        """Places the first instruction. In a loop, a matrix instruction comes behind the addition of the counter if the
        addition goes first. Loads, stores and integer instructions come before the addition in nine of ten loops."""
        if self.counter and operation.unit is Unit.TENSOR and not self._goes_before_counter(operation, path):
            compare = self.config.schedule.compare
            self.ahead, self.compared, self.counter = 1, True, (compare, compare)
        self.plan.issue(operation, self.ahead)
        self._issue(operation, self.ahead)

    def _issue(self, operation: TimedOperation, cycle: int) -> None:
        """Issues an instruction in a cycle, and notes when its unit is free and its results are ready."""
        self.last, self.cycle, self.slot = operation, cycle, cycle
        operation.stall = operation.operand_stall = 1
        operation.stall_reason = StallReason.ISSUED
        if operation.unit not in FIXED_LATENCY:
            for register in operation.writes:
                self.ready.pop(register, None)
            return
        self._occupy(operation, cycle)
        for register in operation.writes:
            self.ready[register] = cycle + operation.latency, operation.unit

    # Units and operands

    def _free_from(self, operation: TimedOperation) -> int:
        """The cycle from which the operation's unit can take it."""
        if operation.unit is not Unit.TENSOR:
            return self._unit_free.get(operation.unit, 0)
        return max(min(self._tensor_free), self._ports_free, self._metadata_free if operation.sparse else 0)

    def _occupy(self, operation: TimedOperation, cycle: int) -> None:
        """Occupies the operation's unit from a cycle on."""
        self._unit_free[operation.unit] = cycle + operation.interval
        if operation.unit is Unit.TENSOR:
            pipe = self._tensor_free.index(min(self._tensor_free))
            self._tensor_free[pipe] = cycle + operation.interval
            self._ports_free = cycle + (operation.matrix.file_ports if operation.matrix is not None else 0)
            if operation.sparse:
                self._metadata_free = cycle + self.config.sm.metadata_cycles

    def _operands_ready(self, operation: TimedOperation) -> int:
        """The cycle from which the operation can read its operands and write its results in order."""
        assert self.last is not None
        cycles = [usable_from(self.config.alu, self.ready, register, operation) for register in operation.reads]
        if self.last.blocking:
            cycles.append(self.cycle + self.last.latency)
        for register in operation.writes:
            cycles.append(self.ready.get(register, (0, Unit.ALU))[0] - operation.latency + 1)
        if operation.unit is Unit.CONTROL:  # a call finds all results arrived
            cycles += [usable_from(self.config.alu, self.ready, register, operation) for register in self.ready]
        return max(cycles, default=0)

    # Loop overhead

    def _goes_before_counter(self, operation: TimedOperation, path: int) -> bool:
        """Whether the compiler lets an instruction go before the next part of the loop's counter. The longer path that
        depends on it decides, and of two paths that are equally long the longer latency."""
        rule = self.config.schedule
        return path > rule.compared_path if self.compared else (path, operation.latency) > (rule.path, rule.latency)

    def _place_counter(self, planned: int, operation: TimedOperation | None = None, path: int = 0) -> None:
        """Puts the loop's counter into slots that are empty in the compiler's view.

        Args:
            planned: the slot in which the next instruction issues in that view.
            operation: that instruction; None at the end of the block.
            path: as in `add`.
        """
        assert self.last is not None
        compare = self.config.schedule.compare
        while self.counter:
            soonest, earliest = self.counter
            slot = max(soonest, self.plan.slot + 1)
            if slot > planned:
                return
            if slot == planned and operation is not None and self._goes_before_counter(operation, path):
                return
            self.plan.slot, self.slot = slot, max(self.slot + 1, earliest)
            self.upkeep.append((self.slot, COMPARISON if self.compared else ADDITION))
            if self.compared:
                self.counter = None
            else:
                self.compared = True
                self.counter = (slot + compare, self.slot + compare)

    def _pad(self, cycle: int) -> int:
        """Adds NOPs where the wait until a cycle is too long for one instruction; returns when the next one issues."""
        rule = self.config.schedule
        while cycle - self.slot > rule.stall:
            self.slot += rule.stall
            self.upkeep.append((self.slot, FILLER))
            cycle = max(cycle, self.slot + rule.nop)
        return cycle

    def _place_branch(self, cycle: int) -> None:
        """Places the branch of a loop whose next run begins in a cycle. The branch asks for the whole wait if that is
        short enough; NOPs before the branch ask for the rest."""
        longest = self.config.schedule.stall
        place = max(self.slot + 1, cycle - longest)
        for slot in range(self.slot + 1, place, longest):
            self.upkeep.append((slot, FILLER))
        self.upkeep.append((place, FILLER))
        if self.ahead:
            self.upkeep.append((cycle, ADDITION))

    # Yield hints

    def _write_hints(self, cycle: int) -> None:
        """Gives yield hints to the last operation and to the loop overhead between it and a cycle."""
        operation, rule = self.last, self.config.schedule
        assert operation is not None
        upkeep, self.upkeep = self.upkeep, []
        operation.yields, operation.overhead = False, ()
        ends = [*(slot for slot, _ in upkeep[1:]), cycle]
        hints = [
            kind == FILLER or 0 < rule.integer_yields <= end - slot
            for (slot, kind), end in zip(upkeep, ends, strict=False)  # without upkeep there is one end more
        ]
        if rule.yields:
            first = upkeep[0][0] if upkeep else cycle
            operation.yields = not operation.jumps and self._hints_at(operation, first - self.cycle)
            operation.overhead = tuple(
                Overhead(slot - self.cycle, hint, kind == COMPARISON)
                for (slot, kind), hint in zip(upkeep, hints, strict=True)
            )
        hinted = [self.cycle] if operation.yields else []
        hinted += [slot for (slot, _), hint in zip(upkeep, hints, strict=True) if hint]
        self.hinted = max(hinted, default=self.hinted)

    def _hints_at(self, operation: TimedOperation, wait: int) -> bool:
        """Whether an operation that waits for so many cycles has the hint: for a long wait, or because an integer
        instruction waits and no instruction had the hint for long."""
        rule = self.config.schedule
        if operation.unit not in INTEGER_PIPES:
            return 0 < rule.yields <= wait
        overdue = wait > 1 and self.cycle - self.hinted >= rule.yields
        return overdue or 0 < rule.integer_yields <= wait


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
