"""A loop of ldmatrix and mma.sp on the machine, and the barest model of it in SimPy: what an event for each issue
costs at least."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import simpy

import isa
from simulator.chip.config import load_config
from simulator.compiler.compile import compile_code
from simulator.compiler.timed_code import Periodic
from simulator.program.blocks import Block, Repeat, Step
from simulator.program.lowering import linearise
from simulator.timing.result import Timing
from simulator.timing.run import simulate

WARPS, TURNS, PAIRS = 8, 250, 8
INSTRUCTIONS = WARPS * (2 * PAIRS * TURNS + 1)


class Loop:
    """8 warps that load fragments and multiply them: 32,008 instructions."""

    def __init__(self) -> None:
        steps = [step for pair in range(PAIRS) for step in _pair(pair % 4)]
        block = Block(tuple(range(WARPS)), (Repeat(TURNS, tuple(steps), 1), _step("mov.u32 %r0, 1;")), 1)
        code = linearise(block)
        waves = dict.fromkeys(block.warps, Periodic((4,)))
        self.config = load_config("h100_sxm")
        costs = {place: waves for place, step in enumerate(steps) if step.instruction.form.access is not None}
        self.code = compile_code(code, self.config, costs)

    def __call__(self, skip: bool = False) -> Timing:
        timing = simulate(self.config, [self.code], WARPS, skip=skip)
        assert sum(timing.issued) == INSTRUCTIONS
        return timing


def _pair(number: int) -> tuple[Step, Step]:
    a, d = (_vector(first + 4 * number) for first in (32, 0))
    load = f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {a}, [%r60];"
    multiply = f"mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {d}, {a}, {_vector(48)}, {d}, %r61, 0;"
    return _step(load), _step(multiply)


def _step(text: str) -> Step:
    return Step(isa.decode(text, target="sm_90a"), 1)


def _vector(first: int) -> str:
    return "{" + ", ".join(f"%r{first + i}" for i in range(4)) + "}"


def bare_simpy() -> None:
    """As many instructions, each of which takes an issue slot and a unit of its sub-core, and some time."""
    env = simpy.Environment()
    slots, units = ([simpy.Resource(env) for _ in range(4)] for _ in range(2))

    def warp(core: int) -> Iterator[Any]:
        for _ in range(INSTRUCTIONS // WARPS):
            with slots[core].request() as slot:
                yield slot
                with units[core].request() as unit:
                    yield unit
                    yield env.timeout(8)

    for number in range(WARPS):
        env.process(warp(number % 4))  # type: ignore[arg-type]
    env.run()
