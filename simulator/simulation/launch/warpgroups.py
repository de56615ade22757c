"""Instructions that the four warps of a warpgroup execute together: `wgmma.mma_async`. Warps that come apart wait there
for the others of their warpgroup. PTX ISA 9.0, 9.7.15.1 (warpgroup)."""

from __future__ import annotations

from typing import NoReturn

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
    groups = warps // size
    present = here.all(axis=1).reshape(-1, warps)
    found = np.zeros_like(present)
    together = present[:, : groups * size].reshape(-1, groups, size).all(axis=2)
    found[:, : groups * size] = np.repeat(together, size, axis=1)
    return found.ravel()


def incomplete(run: Run) -> None:
    """Raises LaunchError if warps wait for others of their warpgroup that never come."""
    for place, waiting in run.gathered.items():
        rows = np.flatnonzero(waiting.any(axis=1))
        if len(rows):
            _refuse(run, place, int(rows[0]), waiting)


def _refuse(run: Run, place: int, row: int, waiting: Lanes) -> NoReturn:
    """Raises the error of a warpgroup of which only some threads are at an instruction."""
    item = run.code.kernel.items[place]
    assert isinstance(item, Operation)
    size, warps = item.instruction.form.warps, run.state.warps
    first = row % warps // size * size
    own = waiting.reshape(-1, warps, waiting.shape[1])[row // warps, first : first + size]
    missing = [str(first + warp) for warp in range(size) if warp >= len(own) or not own[warp].all()]
    some = f"{'warps' if len(missing) > 1 else 'warp'} {', '.join(missing)}"
    reason = f"deadlock: '{item.text}' waits for {some} of its warpgroup" + (
        f"; the CTA has {warps} warps" if first + size > warps else ""
    )
    legal = f"all threads of {size} consecutive warps, the first a multiple of {size}, at the same instruction"
    raise run.error(item, reason, legal, row=row, rule="aligned-threads")
