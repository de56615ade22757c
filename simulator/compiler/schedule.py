"""The waits that the compiler writes into the code: how long a warp pauses after each instruction.

The results of matrix and integer instructions come after a fixed number of cycles. No interlock watches them: ptxas
writes into each instruction for how many cycles its warp issues nothing (the stall count, at most 15; a NOP for the
rest), and so do we, for the order in which the trace is written. The waits count from issue, so what delays an
instruction delays all that follow it in its warp. Results of memory and of asynchronous units are waited for when the
time comes: that is the engine's part.

At the ends of a loop everything of a fixed latency has arrived. Its counter is an addition and, a few cycles later, a
comparison, in issue slots that the compiler takes for empty (`_Plan`). It counts cycles as if one instruction could ask
for any wait; where NOPs make one longer, later instructions do not wait less for that.

An instruction with a long wait has the yield hint: the scheduler turns to another warp behind it. Of integer
instructions one that waits two cycles has it, too, if none had it for 12 cycles (`[schedule] yields`). The counter,
NOPs and the branch have it, and they issue between the instructions of a trace, so they are noted with the one before
them.

Measured on an H100 (tests/hardware/README.md, "Unlike instructions"): waits, hints and places of the counter equal
those in the machine code of 1,148 of 1,160 random loops (tests/simulator/compiler/test_schedule_hints.py).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import count, islice, pairwise

from isa.forms.record import Unit
from simulator.chip.config import Config
from simulator.chip.tables import Alu
from simulator.compiler.timed_code import KEPT, StallReason, TimedCode, TimedLoop, TimedOperation, operand

_FIXED = (Unit.TENSOR, Unit.ALU, Unit.FMA)
_PIPE = {Unit.TENSOR: StallReason.TENSOR, Unit.ALU: StallReason.ALU, Unit.FMA: StallReason.ALU}
_INTEGER = (Unit.ALU, Unit.FMA)
_END = 1 << 30  # a slot behind all others
FILLER, ADDITION, COMPARISON = range(3)  # a NOP or a branch; those of a loop's counter
_KINDS = 62  # of so many instructions `TimedOperation.counter` can say what they are


def scheduled(code: TimedCode, config: Config) -> TimedCode:
    """The code with the compiler's waits in its operations, if it has none yet."""
    if code.scheduled:
        return code
    schedule(code.items, config)
    return replace(code, scheduled=True)


def schedule(items: Sequence[TimedOperation | TimedLoop], config: Config) -> None:
    """Fills in `stall`, `operand_stall`, `stall_reason`, `compare`, `yields` and `upkeep` of every operation."""
    starts = {item.start for item in items if isinstance(item, TimedLoop)}
    paths = _paths(items, starts)
    block = _Block(config, loop=False)
    for place, item in enumerate(items):
        if place in starts:
            block.close(branch=False)
            block = _Block(config, loop=True)
        if isinstance(item, TimedLoop):
            block.close(branch=True)
            block = _Block(config, loop=False)
        else:
            block.add(item, paths[place])
    block.close(branch=False)
    if config.registers is not None:
        _keep(items)
        _place_runs(items)


def _keep(items: Sequence[TimedOperation | TimedLoop]) -> None:
    """Marks the operands A and B that the compiler keeps for a later matrix instruction: `.reuse` of machine code."""
    for place, item in enumerate(items):
        if isinstance(item, TimedOperation) and item.unit is Unit.TENSOR:
            item.operands = tuple(
                number & ~KEPT | KEPT * _kept(items, place, slot) for slot, number in enumerate(item.operands)
            )


def _kept(items: Sequence[TimedOperation | TimedLoop], place: int, slot: int) -> bool:
    """Whether the compiler keeps A (slot 0) or B (1) of the matrix instruction at this place.

    It does if the next one of its kind (integers, or floats) whose operand it can keep reads the same registers, as
    many, and nothing stands before that one but matrix instructions and comparisons of a loop's counter, all without
    the yield hint. So ptxas 13.0 has it in 1,154 of 1,160 loops, and in the other six but for one flag
    (tests/simulator/compiler/test_kept_operands.py).
    """
    item = items[place]
    assert isinstance(item, TimedOperation)
    for before, other in pairwise(islice(items, place, None) if item.keeps[slot] else ()):
        if not (isinstance(before, TimedOperation) and isinstance(other, TimedOperation) and _goes_on(before)):
            return False
        if other.unit is not Unit.TENSOR or not other.operands:
            return False
        if other.integer == item.integer and other.keeps[slot]:
            same = (other.operands[slot] ^ item.operands[slot]) & ~KEPT == 0
            return same and other.keeps[slot] == item.keeps[slot]
    return False


def _goes_on(item: TimedOperation) -> bool:
    """Whether an instruction and all that issues behind it without being an operation leave kept operands alone."""
    compares = (item.counter >> number & 1 and not entry & 1 for number, entry in enumerate(item.upkeep))
    return not item.yields and all(compares)


def _place_runs(items: Sequence[TimedOperation | TimedLoop]) -> None:
    """Puts the number of a loop's runs into the first register that the code leaves free."""
    operations = [item for item in items if isinstance(item, TimedOperation)]
    used = {register for item in operations for register in (*item.reads, *item.writes)}
    free = operand(0, next(register for register in count() if register not in used))
    for item in operations:
        item.runs = free


def _paths(items: Sequence[TimedOperation | TimedLoop], starts: Container[int]) -> list[int]:
    """For each operation the cycles from its issue until the last result that depends on it is there, in its block."""
    paths, waiting = [0] * len(items), dict[int, int]()  # by register, the longest path of those that read it
    for place in range(len(items) - 1, -1, -1):
        item = items[place]
        if isinstance(item, TimedLoop):
            waiting.clear()
            continue
        paths[place] = item.latency + max((waiting.pop(register, 0) for register in item.writes), default=0)
        for register in item.reads:
            waiting[register] = max(waiting.get(register, 0), paths[place])
        if place in starts:
            waiting.clear()
    return paths


def extra(alu: Alu, producer: Unit, consumer: Unit) -> int:
    """Cycles beyond the producer's latency until an instruction of another unit can use its result."""
    if producer not in _INTEGER or consumer is producer:
        return 0
    if consumer in _INTEGER:
        return alu.change_latency
    if consumer in (Unit.TENSOR, Unit.CONTROL):
        return alu.tensor_latency - alu.latency
    return 0 if consumer is Unit.BARRIER else alu.address_latency - alu.latency


@lru_cache(maxsize=64)
def extras(alu: Alu) -> tuple[tuple[int, ...], ...]:
    """`extra` of all units, by consumer and producer."""
    return tuple(tuple(extra(alu, producer, consumer) for producer in Unit) for consumer in Unit)


class _Plan:
    """When instructions issue in the compiler's view, which knows no interval between matrix instructions of unlike
    kinds: in it lie the empty slots that the counter of a loop takes.

    Read off the machine code of 886 loops (ptxas 13.0, sm_90a): the addition stands in the first empty slot, the
    comparison in the first one from `[schedule] compare` cycles later on. Instructions on which more depends go before
    them, and they before others.

    Attributes:
        cycle: of the last instruction.
        slot: of the last instruction or of the counter's.
    """

    def __init__(self, config: Config) -> None:
        self.config, self.cycle, self.slot = config, -1, -1
        self.free: dict[tuple[Unit, int, bool, bool], int] = {}
        self.ready: dict[int, tuple[int, Unit]] = {}

    def soonest(self, operation: TimedOperation, behind: int) -> int:
        """The first cycle for the next instruction, which follows the last by `behind` cycles at least."""
        operands = (_available(self.config, self.ready, register, operation) for register in operation.reads)
        return max(self.cycle + behind, self.slot + 1, self.free.get(_kind(operation), 0), *operands, 0)

    def issue(self, operation: TimedOperation, cycle: int) -> None:
        """Issues an instruction."""
        self.cycle = self.slot = cycle
        if operation.unit in _FIXED:
            self.free[_kind(operation)] = cycle + operation.interval
            self.ready.update(dict.fromkeys(operation.writes, (cycle + operation.latency, operation.unit)))


def _kind(operation: TimedOperation) -> tuple[Unit, int, bool, bool]:
    """What the compiler takes for a pipe of its own. Dense and sparse instructions of the larger K share one."""
    sparse = operation.sparse and not operation.large
    return operation.unit, operation.latency, sparse, operation.integer


def _available(config: Config, ready: Mapping[int, tuple[int, Unit]], register: int, consumer: TimedOperation) -> int:
    """The cycle from which `consumer` can use a register; 0 if nothing in the block wrote it."""
    cycle, producer = ready.get(register, (0, Unit.ALU))
    late = consumer.forwarding_penalty if producer is Unit.ALU else 0
    return cycle + extra(config.alu, producer, consumer.unit) + late if cycle else 0


class _Block:
    """Instructions between two ends of loops, placed in the cycles of a warp that is alone."""

    def __init__(self, config: Config, loop: bool) -> None:
        self.config = config
        self.last: TimedOperation | None = None
        self.at = 0  # cycle of the last instruction
        self.slot = 0  # cycle of the last instruction or of what fills the time
        # cycles of what fills the time, and which instruction of the counter it is
        self.upkeep: list[tuple[int, int]] = []
        self.free: dict[Unit, int] = {}
        self.tensor_free = [0] * config.sm.tensor_pipes
        self.paths_free = [0, 0]  # the ports that tensor pipes share, and the path of metadata
        self.ready: dict[int, tuple[int, Unit]] = {}
        self.plan = _Plan(config)
        # The counter of a loop: from which slot of the plan, and from which cycle on, its next instruction can stand.
        self.counter = [(1, 1)] if loop and config.schedule.compare else []
        self.compared = False
        self.hinted = 0  # cycle of the last yield hint
        self.ahead = 0  # cycles by which the addition of the counter delays the first instruction

    def add(self, operation: TimedOperation, path: int) -> None:
        """Places the next instruction in the first cycle that it can issue in; `path` as in `_paths`."""
        if self.last is None:
            self.start(operation, path)
            return
        free = max(self.at + self.last.shortest_stall, self.unit_free(operation))
        operands_ready = max((self.available(register, operation) for register in operation.reads), default=0)
        if self.last.blocking:
            operands_ready = max(operands_ready, self.at + self.last.latency)
        for register in operation.writes:
            operands_ready = max(operands_ready, self.ready.get(register, (0, Unit.ALU))[0] - operation.latency + 1)
        if operation.unit is Unit.CONTROL:  # a call finds everything arrived
            operands_ready = max((operands_ready, *(self.available(register, operation) for register in self.ready)))
        self.place(self.plan.soonest(operation, self.last.shortest_stall), operation, path)
        self.plan.issue(operation, self.plan.soonest(operation, self.last.shortest_stall))
        cycle = max(free, operands_ready, self.slot + 1)
        padded = self.pad(cycle)
        self.last.stall, self.last.operand_stall = (
            padded - self.at,
            (padded if operands_ready >= free else max(operands_ready, self.at + 1)) - self.at,
        )
        self.last.stall_reason = _PIPE.get(operation.unit, StallReason.DEPENDENCY)
        self.hint(padded)
        self.begin(operation, cycle)

    def start(self, operation: TimedOperation, path: int) -> None:
        """Places the first instruction: in a loop behind the addition of the counter, if that goes before a matrix
        instruction. Loads, stores and integer instructions come first in nine of ten loops."""
        if self.counter and operation.unit is Unit.TENSOR and not self.goes_first(operation, path):
            compare = self.config.schedule.compare
            self.ahead, self.compared, self.counter = 1, True, [(compare, compare)]
        self.plan.issue(operation, self.ahead)
        self.begin(operation, self.ahead)

    def goes_first(self, operation: TimedOperation, path: int) -> bool:
        """Whether the compiler lets an instruction go before the next part of the loop's counter: the longer path that
        depends on it, and of two that are equally long the longer latency, decides."""
        rule = self.config.schedule
        return path > rule.compared_path if self.compared else (path, operation.latency) > (rule.path, rule.latency)

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
        return _available(self.config, self.ready, register, consumer)

    def place(self, planned: int, operation: TimedOperation | None = None, path: int = 0) -> None:
        """Puts the loop's counter into slots that are empty in the compiler's view.

        Args:
            planned: in which slot the next instruction issues in that view.
            operation: that instruction; None at the end.
            path: of it.
        """
        assert self.last is not None
        rule = self.config.schedule
        while self.counter:
            soonest, earliest = self.counter[0]
            slot = max(soonest, self.plan.slot + 1)
            if slot > planned or (slot == planned and operation is not None and self.goes_first(operation, path)):
                break
            self.counter.clear()
            self.plan.slot, self.slot = slot, max(self.slot + 1, earliest)
            self.upkeep.append((self.slot, COMPARISON if self.compared else ADDITION))
            if self.compared:
                self.last.compare = self.slot - self.at
            else:
                self.compared, self.counter = True, [(slot + rule.compare, self.slot + rule.compare)]

    def pad(self, cycle: int) -> int:
        """Adds NOPs before `cycle` where the wait is too long for one instruction; returns when the next one issues."""
        rule = self.config.schedule
        while cycle - self.slot > rule.stall:
            self.slot += rule.stall
            self.upkeep.append((self.slot, FILLER))
            cycle = max(cycle, self.slot + rule.nop)
        return cycle

    def hint(self, cycle: int) -> None:
        """Gives the last operation, and what issues behind it before `cycle`, the yield hints that the compiler writes:
        into instructions with a long wait, and into integer instructions if none had it for as long."""
        rule, operation = self.config.schedule, self.last
        assert operation is not None
        ends = [*(slot for slot, _ in self.upkeep[1:]), cycle]
        codes = [
            2 * (slot - self.at) + (kind == FILLER or 0 < rule.integer_yields <= end - slot)
            for (slot, kind), end in zip(self.upkeep, ends, strict=False)  # without upkeep there is one end more
        ]
        wait = (self.upkeep[0][0] if self.upkeep else cycle) - self.at
        shortest = rule.integer_yields if operation.unit in _INTEGER else rule.yields
        overdue = operation.unit in _INTEGER and wait > 1 and self.at - self.hinted >= rule.yields
        operation.yields = bool(rule.yields) and not operation.jumps and (overdue or 0 < shortest <= wait)
        operation.upkeep = tuple(codes) if rule.yields else ()
        kinds = self.upkeep[:_KINDS] if rule.yields else []
        operation.counter = sum(1 << place for place, (_, kind) in enumerate(kinds) if kind == COMPARISON)
        given = [self.at + code // 2 for code in (int(operation.yields), *codes) if code & 1]
        self.hinted = max(given, default=self.hinted)
        self.upkeep = []

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

    def branch(self, cycle: int) -> None:
        """Places the branch of a loop whose next run begins in `cycle`: it asks for the whole wait if it can; NOPs
        before it ask for the rest."""
        longest = self.config.schedule.stall
        place = max(self.slot + 1, cycle - longest)
        for slot in range(self.slot + 1, place, longest):
            self.upkeep.append((slot, FILLER))
        self.upkeep.append((place, FILLER))
        if self.ahead:
            self.upkeep.append((cycle, ADDITION))

    def close(self, branch: bool) -> None:
        """Ends the block: all results of a fixed latency arrive, and a loop branches."""
        if self.last is None:
            return
        cycle = self.at + self.last.shortest_stall
        if self.config.loop.drain:
            cycle = max((cycle, *(ready for ready, _ in self.ready.values())))
        if branch:
            self.place(_END)
            cycle = max(cycle, self.slot + 1, self.at + self.last.shortest_stall + self.config.loop.cycles)
        if self.last.blocking:
            cycle = max(cycle, self.at + self.last.latency)
        if branch:
            self.branch(cycle)
        cycle += self.ahead
        self.hint(cycle)
        self.last.stall, self.last.operand_stall = cycle - self.at, 1
        self.last.stall_reason = StallReason.BRANCH if branch else StallReason.DEPENDENCY
