"""The waits that the compiler writes into the code: how long a warp pauses after each instruction.

The results of matrix and integer instructions come after a fixed number of cycles, and no interlock watches them. ptxas
writes into each instruction for how many cycles its warp issues nothing: the stall count, at most 15, and a NOP for the
rest. This module does the same for the order in which a trace is written. The waits count from issue, so what delays an
instruction delays all that follow it in its warp. Results of memory and of asynchronous units are waited for when the
program runs, which is the part of the timing model.

At the end of a loop, all results of a fixed latency have arrived. The counter of a loop is an addition and, some cycles
later, a comparison, in issue slots that the compiler takes for empty (`simulator.compiler.plan`). The counter counts
cycles as if one instruction could ask for any wait; where NOPs make a wait longer, later instructions do not wait less
for that.

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
from itertools import count

from simulator.chip.config import Config
from simulator.compiler.block_schedule import BlockSchedule
from simulator.compiler.kept_operands import mark_kept_operands
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
