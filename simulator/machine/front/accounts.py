"""Where the cycles of warps have gone: waits that the compiler wrote, releases, operands, the unit, the scheduler."""

from __future__ import annotations

from typing import Any

import cython

from simulator.machine.front.pipes import Pipe
from simulator.machine.front.program import DEPENDENCY, ISSUED, NOT_CHOSEN, SEQUENCE, SHARED, Instruction
from simulator.machine.front.rules import Rules
from simulator.machine.front.sub_core import SubCore
from simulator.machine.front.warp import Warp
from simulator.machine.observer import Stall, Waits
from simulator.machine.reasons import BY_NUMBER


@cython.final
@cython.cclass
class Accounts:
    """The accounts of an SM.

    Attributes:
        observer: is told of each issue; None for nobody. `stalls`: what it is told of the one at hand.
    """

    rules: Rules
    observer: object
    stalls: list

    def __init__(self, rules: Rules, observer: Any) -> None:
        self.rules, self.observer, self.stalls = rules, observer, []

    @cython.cfunc
    @cython.exceptval(check=True)
    def issue(self, core: SubCore, warp: Warp, instruction: Instruction, now: cython.longlong) -> cython.int:
        """Counts where the cycles of a warp since its last issue went, which issues this instruction now."""
        if self.observer is not None:
            self.stalls = []
        cycle: cython.longlong = warp.last + 1
        if cycle < now:
            cycle = self.charge(warp, cycle, warp.operands_not_before, DEPENDENCY)
            cycle = self.charge(warp, cycle, warp.issue_not_before, warp.issue_not_before_reason)
            cycle = self.charge(warp, cycle, warp.operands_ready, warp.operands_reason)
            taken: cython.int = self.rules.pipe_taken[instruction.unit]
            cycle = self.charge(warp, cycle, core.unit_free(instruction), taken)
            self.charge(warp, cycle, now, NOT_CHOSEN)
        warp.stalls[SEQUENCE if instruction.part else ISSUED] += 1
        if self.observer is not None:
            waits = Waits(warp.issue_not_before, warp.operands_ready, warp.operands_not_before)
            number: cython.longlong = core.cta * self.rules.sub_cores + core.number
            self.observer.issue(warp.id, number, instruction.timed, now, self.stalls, waits)
        return 0

    @cython.cfunc
    @cython.exceptval(check=True)
    def issued(
        self, core: SubCore, instruction: Instruction, now: cython.longlong, finished: cython.longlong
    ) -> cython.int:
        """Tells the observer when the result of an instruction is there, and when its unit takes another."""
        pipe: Pipe = core.pipes[instruction.unit]
        self.observer.issued(now, finished, now if instruction.unit == SHARED else pipe.free)
        return 0

    @cython.cfunc
    @cython.exceptval(check=True)
    def end(self, warp: Warp, cycle: cython.longlong, reason: cython.int) -> cython.int:
        """Counts the wait, until this cycle, of a warp whose program is over."""
        warp.stalls[reason] += cycle - 1 - warp.last
        if self.observer is not None:
            self.observer.end(warp.id, Stall(BY_NUMBER[reason], warp.last + 1, cycle))
        return 0

    @cython.cfunc
    @cython.exceptval(check=True)
    def charge(self, warp: Warp, cycle: cython.longlong, until: cython.longlong, reason: cython.int) -> cython.longlong:
        """Counts the cycles from `cycle` to before `until`, if there are any, for a reason; returns where the next
        begins."""
        if until <= cycle:
            return cycle
        warp.stalls[reason] += until - cycle
        if self.observer is not None:
            self.stalls.append(Stall(BY_NUMBER[reason], cycle, until))
        return until
