"""Runs a kernel with registers and shared memory that begin with junk, and gives its outputs or its error.

The junk is what makes a value matter that nothing has written: a right kernel's result does not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.errors import Error
from simulator.execute.launch_state import LaunchState
from simulator.program.capture import Capture
from simulator.program.kernel import Kernel, link
from simulator.simulation.launch.arguments import parameter_bytes
from simulator.simulation.launch.batches import Setup, batches
from simulator.simulation.launch.captured import launch, place
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.interpreter import prepared
from simulator.simulation.launch.launching import Options, prepare
from simulator.simulation.launch.module import Module
from simulator.simulation.launch.run import Code, Run
from simulator.state.columns import Columns
from simulator.state.registers import WARP_SIZE

BUDGET = 50_000_000  # warp instructions of a kernel of which nothing is known yet
LONGER = 20  # times as many as the right kernel takes; a mutant that takes more does not end
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Outcome:
    """What a run gave.

    Attributes:
        arrays: the outputs by name; empty where the run failed.
        error: why it failed; "" where it did not.
        line: of the PTX at which it failed; 0 where it did not, or at none.
        ran: how many warp instructions it took.
    """

    arrays: Arrays
    error: str = ""
    line: int = 0
    ran: int = 0

    def same(self, other: Outcome) -> bool:
        """Whether both give the same bits."""
        return (
            not self.error
            and not other.error
            and all(np.array_equal(_bits(self.arrays[name]), _bits(other.arrays[name])) for name in other.arrays)
        )


def _bits(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def setup_of(capture: Capture, budget: int) -> tuple[Kernel, Setup]:
    """A captured launch that is ready to run, each register of its text with a register of its own."""
    module = Module(capture.ptx)
    kernel = link(module.parsed, module.find(capture.entry), allocate=False)
    placed = place(capture)
    options = Options(
        dynamic_shared=capture.dynamic_shared, cluster=capture.cluster, budget=budget, target=capture.target,
        cooperative=capture.cooperative,
    )  # fmt: skip
    params = parameter_bytes(kernel, placed.values)
    return kernel, prepare(kernel, capture.grid, capture.block, placed.memory, params, options)


def outputs_of(capture: Capture, setup: Setup) -> Arrays:
    """Copies of the buffers that the kernel may have written."""
    return {name: spec.array(setup.memory[name].data).copy() for name, spec in capture.outputs.items()}


def with_junk(capture: Capture, seed: int, budget: int = BUDGET) -> Outcome:
    """Runs all CTAs in this process; asynchronous work is done at once."""
    kernel, setup = setup_of(capture, budget)
    return run(capture, setup, prepared(kernel), seed)


def run(capture: Capture, setup: Setup, code: Code, seed: int) -> Outcome:
    """Runs all CTAs of a launch with this code."""
    left, generator = setup.budget, np.random.default_rng(seed)
    try:
        for ctas in batches(setup):
            state = setup.state(ctas)
            fill(state, generator)
            batch = Run(code, state, left)
            batch.run()
            left = batch.budget
    except LaunchError as error:
        return Outcome({}, error.reason, error.line, setup.budget - left)
    except Error as error:
        return Outcome({}, str(error), 0, setup.budget - left)
    return Outcome(outputs_of(capture, setup), ran=setup.budget - left)


def fill(state: LaunchState, generator: np.random.Generator) -> None:
    """Fills registers (predicates aside) and shared memory with junk."""
    registers: Any = state.registers
    assert isinstance(registers, Columns)
    for column in registers.columns[:2]:
        for number, old in enumerate(column):
            junk = generator.integers(1 << 20, 1 << 30, (registers.rows, WARP_SIZE))
            column[number] = junk.astype(old.dtype)
    data: NDArray[np.uint8] = state.shared.data
    data[:] = generator.integers(1, 255, data.shape, np.uint8)


def with_completion(capture: Capture, completion: str, budget: int) -> Outcome:
    """Runs it with asynchronous work that completes at another moment than at issue."""
    try:
        report = launch(capture, completion=completion, compared=False, workers=1, budget=budget)
    except LaunchError as error:
        return Outcome({}, error.reason, error.line)
    except Error as error:
        return Outcome({}, str(error))
    return Outcome(dict(report.arrays))
