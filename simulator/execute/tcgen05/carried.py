"""Executes tcgen05.mma without rounding D: its exact sums stay beside Tensor Memory (`simulator.state.carried`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.arithmetic.accumulate import accumulate, values_of
from simulator.arithmetic.sums import Operands
from simulator.execute.carried import Places, start
from simulator.execute.tcgen05.fetch import Accumulators, Cta, accumulators
from simulator.execute.tcgen05.plan import Plan, sum_of
from simulator.state.carried import CarryingTensorMemory, Result


def multiply_carried(plan: Plan, cta: Cta, operands: Operands, lanes: NDArray[np.bool_]) -> None:
    """Adds the products of one CTA to its D.

    Args:
        plan: the instruction.
        cta: whose Tensor Memory carries exact values.
        operands: the matrices, a case for each part of N; C is not looked at.
        lanes: bool [128]: the lanes of D that are written.
    """
    tmem = cta.tmem
    assert isinstance(tmem, CarryingTensorMemory)
    d = accumulators(plan.d, plan.idesc, plan.layout, plan.types[2])
    cells, written = tmem.cells(d.lane, d.column), lanes[d.lane]
    _start(plan, cta, tmem, d, written)
    accumulate(sum_of(plan, "exact"), operands, tmem.sums.of(d.element), np.where(written, cells, -1))
    tmem.keep(d.lane[written], d.column[written], Result(d.element, plan.idesc.saturate))


def _start(plan: Plan, cta: Cta, tmem: CarryingTensorMemory, d: Accumulators, written: NDArray[np.bool_]) -> None:
    """Sets the sums of those elements of D that are written to what the instruction adds to: 0, D, or D times 2 to the
    minus scale_d."""
    cells, sums = tmem.cells(d.lane, d.column)[written], tmem.sums.of(d.element)
    if not plan.call.enable:
        sums.set(cells, np.zeros(len(cells)))
        return
    places, result = Places(cells, cells), Result(d.element, plan.idesc.saturate)
    if not plan.call.scale_d:
        start(tmem.sums, places, places, (result, result), lambda: values_of(d.read(cta)[written], d.element))
        return
    exact = tmem.sums.held(cells, d.element)
    exact[exact] = sums.halve(cells[exact], plan.call.scale_d)
    if not exact.all():
        rounded = values_of(d.read(cta)[written], d.element)[~exact]
        sums.set(cells[~exact], rounded.astype(np.float64) * 2.0**-plan.call.scale_d)
