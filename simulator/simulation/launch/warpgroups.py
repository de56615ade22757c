"""Instructions that the four warps of a warpgroup execute together: `wgmma.mma_async`. Warps that come apart wait there
for the others of their warpgroup. PTX ISA 9.0, 9.7.15.1 (warpgroup)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.execute.cta_state import Executor
from simulator.program.kernel import Operation
from simulator.simulation.launch.meetings import executed
from simulator.simulation.launch.run import PARTED, Run, Step, taken, whole
from simulator.simulation.launch.threads import Group
from simulator.state.registers import Lanes


def of_warpgroups(item: Operation, execute: Executor) -> Step:
    """An instruction of whole warpgroups, which each thread waits at until all of its warpgroup are here."""
    size = item.instruction.form.warps

    def step(run: Run, group: Group, place: int) -> int:
        every = len(run.threads.exists)
        if item.guard is None and group.lanes is None and len(group.rows) == every and run.state.warps % size == 0:
            return executed(run, group, item, execute)
        arriving = whole(group, taken(run, group, item.guard), every)
        run.counts[place] -= len(group.rows)
        run.threads.move(group.members & ~arriving, run.code.rank[place + 1])
        here = arriving | run.gathered.get(place, np.zeros_like(arriving))
        ready = _whole_groups(here, run.state.warps, size)
        run.gathered[place] = here & ~ready[:, None]
        run.threads.wait(arriving & ~ready[:, None], run.code.rank[place])
        rows = np.flatnonzero(ready)
        if len(rows):
            members = np.zeros_like(arriving)
            members[rows] = True
            _execute(run, group._replace(rows=rows, lanes=None, members=members), item, execute)
            run.counts[place] += len(rows)
            run.threads.move(members, run.code.rank[place + 1])
        return PARTED

    return step


def _execute(run: Run, group: Group, item: Operation, execute: Executor) -> None:
    before, run.state.active = run.state.active, None
    try:
        executed(run, group, item, execute)
    finally:
        run.state.active = before


def _whole_groups(here: Lanes, warps: int, size: int) -> NDArray[np.bool_]:
    """bool [row]: whether every thread of the row's warpgroup is here; `warps` of a CTA that are left over are in
    none."""
    present = here.all(axis=1).reshape(-1, warps)
    found, groups = np.zeros_like(present), warps // size
    together = present[:, : groups * size].reshape(len(present), groups, size).all(axis=2)
    found[:, : groups * size] = np.repeat(together, size, axis=1)
    return found.ravel()
