"""A kernel of a launch whose matrix instructions run on a unit with a fault.

For whoever runs launches with faults: `on_struck_unit` makes of the functions of a kernel those under a fault, which
`simulator.simulation.launch.run.Run` executes as any others, and `rows_on_sub_core` says which rows of a batch are on
the struck sub-core.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.faults.unit.instruction import UnitFault
from simulator.faults.unit.mapping import shares_sub_core
from simulator.program.kernel import Operation
from simulator.simulation.launch.interpreter import step_of
from simulator.simulation.launch.run import Code
from simulator.state.registers import Warps


def on_struck_unit(code: Code, fault: UnitFault) -> Code:
    """The same kernel, but that `mma` and `mma.sp` run on a unit with a fault wherever `fault.strikes` says so."""
    steps, meets = list(code.steps), dict(code.meets)
    for place, item in enumerate(code.kernel.items):
        if isinstance(item, Operation) and (execute := fault.executor(item.instruction)) is not None:
            steps[place], meets[item.index] = step_of(item, execute), execute
    return code._replace(steps=steps, meets=meets)


def rows_on_sub_core(
    ctas: NDArray[np.integer[Any]], warps: int, cta: int, local: int, lasts: Callable[[], bool] = lambda: True
) -> Callable[[Warps], NDArray[np.bool_]]:
    """What `UnitFault.strikes` is for a batch: which rows are warps of the struck sub-core, while the fault lasts.

    Args:
        ctas: the numbers of the CTAs of the batch, in order.
        warps: of a CTA; its rows stand one after the other.
        cta, local: a warp of the sub-core.
        lasts: whether the fault is there at the time of the call.
    """

    def strikes(rows: Warps) -> NDArray[np.bool_]:
        mine = (ctas[rows // warps] == cta) & shares_sub_core(rows % warps, local)
        return np.asarray(mine & lasts())

    return strikes
