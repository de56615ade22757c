"""Which warps give way because their next instruction waits for a scoreboard.

A warp whose next instruction waits for a scoreboard that is busy already when its last one issues gives way as if that
one had had the yield hint: until it issues again it goes behind all others that can issue and do not give way. It does
not matter that the scoreboard is free by then.

A scoreboard that the last instruction itself takes is busy too late for that. Then the next instruction may be tried in
vain, and its warp gives way from then on: if in the cycle before its turn comes its pipe is free and no other warp
issues. Otherwise it is not tried before its scoreboard is free, and keeps its place.

Only machine code says which instruction waits for which scoreboard, so in a trace no warp gives way for that. Behind
the integer instructions of a loop, which no trace has (`TimedOperation.upkeep`), the hint of the last one decides.

Measured: two and three warps of a sub-core, of which one waits and another multiplies, straight code with a clock
behind matrix instructions (`tests/hardware/waiting.py`, H200, the same SM, 2026-11-27).

The compiled engine has the same rules (`simulator/timing/compiled/engine.c`, functions of the same names).
"""

from __future__ import annotations

from collections.abc import Sequence

from simulator.compiler.timed_code import TimedOperation
from simulator.timing.pipes import Pipes
from simulator.timing.warp import Warp


def note_busy(warp: Warp, now: int) -> None:
    """Notes which scoreboards are busy before the instruction that issues now takes one."""
    warp.untried = warp.busy = 0
    for board, until in enumerate(warp.boards):
        warp.busy |= (until > now) << board


def come_to_wait(warp: Warp, before: TimedOperation) -> None:
    """Lets a warp give way that has issued `before`, if its next instruction waits for a scoreboard that was busy then;
    notes if it waits for one that `before` has taken."""
    awaits = warp.operation.awaits
    if not awaits or warp.upkeep_count:
        return
    if any(warp.busy >> board & 1 for board in awaits):
        warp.gives_way = 1
    else:
        warp.untried = int(before.frees in awaits or before.fills in awaits)


def try_waiting(core: Pipes, warps: Sequence[Warp], now: int) -> None:
    """Lets warps give way that are tried in vain by this cycle."""
    for warp in warps:
        if warp.untried and warp.issue_not_before <= now:
            warp.untried = 0
            begins = warp.issue_not_before
            idle = all(other.acted != begins - 1 for other in warps if other is not warp)
            if idle and warp.operands_ready > begins > core.pipe_free(warp.operation):
                warp.gives_way = 1
