"""The state of a warp, for the comparison of two moments."""

from __future__ import annotations

import cython

from simulator.machine.front.program import BOARDS, NEVER, Words
from simulator.machine.front.warp import Warp


@cython.cfunc
def add_warp(warp: Warp, words: Words, now: cython.longlong, accesses: cython.longlong) -> cython.void:
    """All that decides what it does next, in cycles relative to `now`, but for the counts of its loops.

    Args:
        accesses: how many accesses its sub-core has made: those whose values are under way count from there.
    """
    words.add(max(warp.turn + warp.rules.lag - now, 0))
    words.add(max(warp.behind + warp.rules.lag - now, 0))
    words.add(max(warp.outside_turn - now, 0))
    words.add(warp.between)
    if warp.done:
        words.add(-1 - warp.blocked)
        return
    since: cython.longlong = now if warp.blocked else warp.last
    words.add(warp.pc)
    words.add(warp.blocked)
    words.add(since - now)
    if warp.blocked:  # what of its wait will count as one for operands
        words.add(max(warp.operands_not_before - warp.last - 1, 0))
    if warp.issue_not_before > since:
        words.add(1)
        words.add(warp.issue_not_before - now)
        words.add(warp.issue_not_before_reason)
        words.add(warp.operands_not_before - now)
        words.add(max(warp.jump_leaves - now + 1, 0) if warp.jump_leaves < NEVER else -1)
    else:
        words.add(0)
    if warp.operands_ready > since:
        words.add(1)
        words.add(warp.operands_ready - now if warp.operands_ready < NEVER else -NEVER)
        words.add(warp.operands_reason)
    else:
        words.add(0)
    words.add(warp.ended)
    words.add(max(warp.access - now, 0))
    words.add(max(warp.sent - now, 0))
    k: cython.int
    for k in range(warp.program.loops):
        words.add(max(warp.starts[k] + warp.rules.loop_minimum - now, 0))
    add_registers(warp, words, now, accesses)
    for k in range(warp.program.count):
        if warp.turns[k]:
            words.add(k)
            words.add(warp.turns[k])
    words.add(-1)
    warp.upkeep.state(words, now)


@cython.cfunc
def add_registers(warp: Warp, words: Words, now: cython.longlong, accesses: cython.longlong) -> cython.void:
    """When its registers can be read and overwritten, and its scoreboards are free, relative to `now`."""
    margin: cython.longlong = warp.rules.margin
    k: cython.int
    cycle: cython.longlong
    for k in range(warp.registers):
        cycle = warp.ready[k]
        if cycle + margin > now:
            words.add(k)
            words.add(cycle - now if cycle < NEVER else cycle - 2 * NEVER - accesses)
            words.add(warp.producers[k])
    words.add(-1)
    for k in range(warp.registers):
        if warp.readable[k] + margin > now:
            words.add(k)
            words.add(warp.readable[k] - now)
    words.add(-1)
    for k in range(warp.registers):
        if warp.pinned[k] > now:
            words.add(k)
            words.add(warp.pinned[k] - now)
    words.add(-1)
    for k in range(2 * BOARDS):
        cycle = max(warp.boards[k], now)
        words.add(cycle - now if cycle < NEVER else cycle - 2 * NEVER - accesses)
