"""Lets tcgen05 instructions of a launch happen when `simulator.execute.completion` says so.

An mma, a cp or a shift is complete when the mbarrier of a tcgen05.commit of its thread is looked at, a load or a store
at its tcgen05.wait. Descriptors, addresses and what a store takes from registers are read at issue; shared and Tensor
Memory when the instruction happens.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from isa.forms.record import Form
from simulator.execute.asynchronous import LOAD, SIGNAL, STORE, TENSOR, Effect, Signal, TensorCells
from simulator.execute.completion import Completion
from simulator.execute.cta_state import CtaState
from simulator.execute.launch_state import LaunchState
from simulator.execute.tcgen05.regions import Touched
from simulator.state.columns import LaunchShared
from simulator.state.registers import WARP_SIZE, Warps

Act = Callable[[], None]


def completion_of(machine: CtaState) -> Completion | None:
    """Who says when instructions happen; None: they happen at issue."""
    found = machine.completion
    return found if found is not None and found.late else None


def happen(machine: CtaState, form: Form, warp: int, lane: int, touched: Touched, act: Act) -> None:
    """Lets a product, a copy or a shift of a thread happen. Where they happen at issue, `simulator.check` follows their
    order; who may read what copies write is said here."""
    completion = machine.completion
    assert completion is not None
    places = read_places(machine, touched)
    if not completion.late:
        completion.shared.touch_owed(places)
        act()
        return
    reads = places[None] if places.size else None

    def store(_: NDArray[np.bool_], __: object) -> None:
        with completion.shared.as_fenced(places):
            act()

    rows, lanes = np.array([[warp]], np.intp), np.array([lane], np.intp)
    effect = Effect(lambda _: None, store, reads)
    completion.begin(TENSOR, form.name, effect, rows, lanes, cells=_cells(touched))


def move(machine: CtaState, form: Form, warp: int, touched: Touched, act: Act, registers: tuple[str, ...] = ()) -> None:
    """Lets a load (whose registers are given) or a store of a warp happen."""
    completion = machine.completion
    assert completion is not None
    rows, lanes = np.array([[warp]], np.intp), np.zeros(1, np.intp)
    effect = Effect(lambda _: None, lambda _, __: act())
    kind = LOAD if registers else STORE
    completion.begin(kind, form.name, effect, rows, lanes, cells=_cells(touched), registers=registers)


def wait(completion: Completion, warps: Warps, *, stores: bool) -> None:
    """tcgen05.wait::st or ::ld of warps."""
    every = np.ones((len(warps), WARP_SIZE), np.bool_)
    completion.wait(STORE if stores else LOAD, warps, every, every=True)


def commit(machine: CtaState, form: Form, warp: int, lane: int, targets: list[int]) -> None:
    """tcgen05.commit: an arrival at each of these mbarriers when all that its thread has issued is complete."""
    completion = machine.completion
    assert completion is not None
    covers = [
        op for op in completion.pending.get(TENSOR, ()) if int(op.rows[0, 0]) == warp and int(op.lanes[0]) == lane
    ]
    for target in targets:
        holder, offset = machine.holder(target, warp)
        signal = Signal((holder.number, offset), holder.mbarriers.at(offset), 0, 1)

        def store(_: NDArray[np.bool_], __: object, target: int = target) -> None:
            machine.signal(target, warp, [lane])
            machine.arrive(target, warp)

        rows, lanes = np.array([[warp]], np.intp), np.array([lane], np.intp)
        completion.begin(SIGNAL, form.name, Effect(lambda _: None, store), rows, lanes, signal, covers=covers)


def read_places(machine: CtaState, touched: Touched) -> NDArray[np.int64]:
    """Where an instruction reads shared memory, in that of the batch."""
    assert isinstance(machine, LaunchState)
    shared = machine.shared
    assert isinstance(shared, LaunchShared)
    ctas = {holder.number: place for place, holder in enumerate(machine.holders)}
    found = [each.cells.ravel() + ctas[each.cta] * shared.stride for each in touched.reads if each.space == "shared"]
    return np.concatenate([np.zeros(0, np.int64), *found])


def _cells(touched: Touched) -> list[TensorCells]:
    return [
        TensorCells(region.cta, region.cells.ravel(), writes)
        for writes, regions in ((False, touched.reads), (True, touched.writes))
        for region in regions
        if region.space == "tmem"
    ]
