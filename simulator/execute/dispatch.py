"""Turns a decoded instruction into a function that executes it, for any number of warps of a CTA at once.

The functions themselves are in a module for each family; each is registered beside its definition
(`simulator.execute.registry`). This module imports them all, and applies guards.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from isa import IsaError
from isa.ptx.instruction import Guard, Instruction
from simulator.execute import (
    approximate,
    atomics,
    bits,
    bulk_copies,
    compare,
    conversions,
    convert,
    copies,
    extended,
    extremes,
    fences,
    floating,
    integer,
    launch_control,
    logic,
    matrix,
    memory,
    spaces,
    sync,
    tensor_copies,
    tensor_map_changes,
    tensor_map_copies,
    video,
    warp,
    wgmma,
)
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.dynamic_info import Fact, Idle
from simulator.execute.operands import place_of
from simulator.execute.registry import prepare
from simulator.state.registers import WARP_SIZE, Lanes, Sort, Warps

FAMILIES = (
    approximate,
    atomics,
    bits,
    bulk_copies,
    compare,
    conversions,
    convert,
    copies,
    extended,
    extremes,
    fences,
    floating,
    integer,
    launch_control,
    logic,
    matrix,
    memory,
    spaces,
    sync,
    tensor_copies,
    tensor_map_changes,
    tensor_map_copies,
    video,
    warp,
    wgmma,
)  # importing them registers them


@lru_cache(maxsize=65536)
def executor(instruction: Instruction) -> Executor:
    """The function that executes this instruction.

    Raises:
        IsaError: no function is registered for it.
    """
    run = prepare(instruction)
    return run if instruction.guard is None else guarded(instruction, run)


# Guards: @%p0


def guarded_lanes(guard: Guard, machine: CtaState, warps: Warps) -> Lanes:
    """bool [warp, lane]: which threads a guard lets execute its instruction."""
    lanes: Lanes = machine.registers.read(warps, [place_of(guard.predicate.name).number], Sort.PREDICATE)[:, 0]
    return ~lanes if guard.negated else lanes


def guarded(instruction: Instruction, run: Executor) -> Executor:
    """An executor that executes an instruction for those threads alone whose guard lets them."""
    guard, collective = instruction.guard, instruction.form.collective
    assert guard is not None
    off = Idle() if instruction.form.dynamic else None

    def run_guarded(machine: CtaState, warps: Warps) -> Outcome:
        lanes, before = guarded_lanes(guard, machine, warps), machine.active
        if before is not None:
            lanes = lanes & before
        some, every = np.logical_or.reduce(lanes, axis=1), np.logical_and.reduce(lanes, axis=1)
        if not some.any():
            idle = np.zeros(len(warps), np.int64)
            return (
                Outcome(idle, idle)
                if instruction.form.time.table == "shared"
                else Outcome(facts=(off,) * len(warps))
                if off
                else NOTHING
            )
        if collective and (some != every).any():
            row = int((some != every).argmax())
            reason = (
                f"'{instruction.form.opcode}' in {int(lanes[row].sum())} of the {WARP_SIZE} threads of "
                f"warp {int(warps[row])}"
            )
            raise IsaError(str(instruction), 0, reason, "all threads of a warp, or none", rule="aligned-threads")
        chosen = np.flatnonzero(some)
        machine.active = None if every[chosen].all() else lanes[chosen]
        try:
            outcome = run(machine, warps if len(chosen) == len(warps) else warps[chosen])
        finally:
            machine.active = before
        return _spread(outcome, chosen, lanes)

    return run_guarded


def _spread(outcome: Outcome, chosen: NDArray[np.intp], lanes: Lanes) -> Outcome:
    """The outcome of the chosen warps as one of all warps, of which the others did nothing."""
    if outcome.facts and len(chosen) < len(lanes):
        facts: list[Fact | None] = [Idle()] * len(lanes)
        for place, fact in zip(chosen, outcome.facts, strict=True):
            facts[place] = fact
        outcome = outcome._replace(facts=tuple(facts))
    if outcome.wavefronts is not None:
        busy = np.zeros(len(lanes), np.int64)
        busy[chosen] = outcome.wavefronts
        return outcome._replace(wavefronts=busy, lanes=lanes.sum(axis=1))
    return outcome
