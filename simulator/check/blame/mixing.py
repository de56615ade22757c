"""Executors and steps of which the rows of each copy have their own, and what they come to together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isa.ptx.instruction import Guard
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.pending import PendingWait
from simulator.simulation.launch.run import PARTED, Run, Step, taken, whole
from simulator.simulation.launch.threads import Group
from simulator.state.registers import Warps


@dataclass(frozen=True)
class Skip:
    """A branch that stands before an instruction.

    Attributes:
        guard: of the threads that take it.
        target: the place at which they go on.
    """

    guard: Guard
    target: int


def skipping(step: Step, skip: Skip, mine: NDArray[np.bool_] | None = None) -> Step:
    """A step with a branch before it.

    Args:
        mine: bool [row]: the rows that have the branch; None: all.
    """

    def run_step(run: Run, group: Group, place: int) -> int:
        lanes = taken(run, group, skip.guard)
        if mine is not None:
            lanes = lanes & mine[group.rows][:, None]
        if not lanes.any():
            return step(run, group, place)
        if lanes.all() if group.lanes is None else np.array_equal(lanes, group.lanes):
            return skip.target
        threads, going = run.threads, whole(group, lanes, len(run.threads.exists))
        threads.move(group.members & ~going, run.code.rank[place])
        threads.move(going, run.code.rank[skip.target])
        return PARTED

    return run_step


def by_rows(executors: Sequence[Executor], which: NDArray[np.intp], rows: int) -> Executor:
    """An executor that runs one of several, by the copy that a row belongs to."""

    def run(machine: CtaState, warps: Warps) -> Outcome:
        numbers, before, outcomes = which[warps // rows], machine.active, list[Outcome]()
        present: list[int] = np.unique(numbers).tolist()
        if len(present) == 1:
            return executors[present[0]](machine, warps)
        try:
            for number in reversed(present):
                chosen = np.flatnonzero(numbers == number)
                machine.active = None if before is None else before[chosen]
                outcomes.append(executors[number](machine, warps[chosen]))
        finally:
            machine.active = before
        return joined(outcomes)

    return run


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of parts as one: the warps of each wait for what makes these wait."""
    blocks = [each.block for each in outcomes if each.block is not None]
    if len(blocks) < 2:
        return next((each for each in outcomes if each.block is not None), outcomes[-1] if outcomes else NOTHING)

    def ready() -> bool:
        done = [each.ready() for each in blocks]  # each of them goes on as far as it can
        return all(done)

    def finish() -> None:
        for each in blocks:
            each.finish()

    def waiting() -> list[int]:
        return [row for each in blocks if each.waiting is not None for row in each.waiting()]

    alone = any(each.waiting is None for each in blocks)
    return Outcome(block=PendingWait(ready, finish, blocks[0].describe, None if alone else waiting))
