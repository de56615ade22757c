"""The waits that the compiler writes into the code: how long a warp pauses after each instruction.

The results of matrix and integer instructions come after a fixed number of cycles, and no interlock watches them. ptxas
writes into each instruction for how many cycles its warp issues nothing: the stall count, at most 15, and a NOP for the
rest. This module does the same for the order in which a trace is written. The waits count from issue, so what delays an
instruction delays all that follow it in its warp. Results of memory and of asynchronous units are waited for when the
program runs, which is the part of the timing model.

At the end of a loop, all results of a fixed latency have arrived. The counter of a loop is an addition and, some cycles
later, a comparison, in issue slots that the compiler takes for empty (`block_schedule.Plan`). The counter counts cycles
as if one instruction could ask for any wait; where NOPs make a wait longer, later instructions do not wait less for
that.

An instruction with a long wait has the yield hint: the scheduler turns to another warp behind it. An integer
instruction that waits two cycles has the hint, too, if no instruction had it for 12 cycles (`[schedule] yields`). The
counter, NOPs and the branch have the hint. They issue between the instructions of a trace, so each instruction of the
trace notes those that follow it.

Measured on an H100 (measurements/README.md, "Unlike instructions"): waits, hints and places of the counter equal
those in the machine code of 1,148 of 1,160 random loops (tests/simulator/compiler/test_schedule_hints.py).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from itertools import count, islice, pairwise

from isa.forms.record import Unit
from simulator.chip.config import Config
from simulator.compiler.block_schedule import BlockSchedule
from simulator.compiler.timed_code import TimedCode, TimedLoop, TimedOperation, operations_of


def scheduled(code: TimedCode, config: Config) -> TimedCode:
    """The code with the compiler's waits in its operations, if they are not there yet."""
    if code.scheduled:
        return code
    schedule(code.items, config)
    used = {register for op in operations_of(code) for register in (*op.reads, *op.writes)}
    free = next(register for register in count() if register not in used)
    return replace(code, scheduled=True, run_count=free)


def schedule(items: Sequence[TimedOperation | TimedLoop], config: Config) -> None:
    """Fills in `stall`, `operand_stall`, `stall_reason`, `yields` and `overhead` of every operation."""
    starts = {item.start for item in items if isinstance(item, TimedLoop)}
    paths = _paths(items, starts)
    block = BlockSchedule(config, loop=False)
    for place, item in enumerate(items):
        if place in starts:
            block.close(branch=False)
            block = BlockSchedule(config, loop=True)
        if isinstance(item, TimedLoop):
            block.close(branch=True)
            block = BlockSchedule(config, loop=False)
        else:
            block.add(item, paths[place])
    block.close(branch=False)
    mark_kept_operands(items)


def _paths(items: Sequence[TimedOperation | TimedLoop], starts: Container[int]) -> list[int]:
    """For each operation, the cycles from its issue until the last result in its block that depends on it is there."""
    paths = [0] * len(items)
    longest_reader: dict[int, int] = {}  # by register, the longest path of the later instructions that read it
    for place in range(len(items) - 1, -1, -1):
        item = items[place]
        if isinstance(item, TimedLoop):
            longest_reader.clear()
            continue
        behind = max((longest_reader.pop(register, 0) for register in item.writes), default=0)
        paths[place] = item.latency + behind
        for register in item.reads:
            longest_reader[register] = max(longest_reader.get(register, 0), paths[place])
        if place in starts:
            longest_reader.clear()
    return paths


def mark_kept_operands(items: Sequence[TimedOperation | TimedLoop]) -> None:
    """Sets or clears `Operand.kept` of every operand of every matrix instruction."""
    for place, item in enumerate(items):
        if isinstance(item, TimedOperation) and item.unit is Unit.TENSOR:
            item.operands = tuple(
                operand._replace(kept=_is_kept(items, place, slot)) for slot, operand in enumerate(item.operands)
            )


def _is_kept(items: Sequence[TimedOperation | TimedLoop], place: int, slot: int) -> bool:
    """Whether the compiler keeps A (slot 0) or B (slot 1) of the matrix instruction at this place.

    The compiler keeps the operand if the next matrix instruction of the same kind (integers, or floats) reads the same
    registers in the same slot. Between the two there may be only other matrix instructions and comparisons of a loop's
    counter, all without the yield hint. ptxas 13.0 sets the same flags in 1,154 of 1,160 loops, and differs by one flag
    in each of the other six (tests/simulator/compiler/test_kept_operands.py).
    """
    item = items[place]
    assert isinstance(item, TimedOperation)
    assert item.matrix is not None
    if not item.matrix.keeps[slot]:
        return False
    for before, other in pairwise(islice(items, place, None)):
        if not (isinstance(before, TimedOperation) and isinstance(other, TimedOperation) and _leaves_operands(before)):
            return False
        if other.matrix is None or not other.operands:
            return False
        if other.matrix.integer == item.matrix.integer and other.matrix.keeps[slot]:
            same = other.operands[slot].register == item.operands[slot].register
            return same and other.matrix.keeps[slot] == item.matrix.keeps[slot]
    return False


def _leaves_operands(item: TimedOperation) -> bool:
    """Whether kept operands survive an instruction and the loop overhead that issues behind it: nothing of it has the
    yield hint, and the overhead is comparisons alone."""
    return not item.yields and all(each.compares and not each.yields for each in item.overhead)
