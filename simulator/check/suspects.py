"""Looks for the mistake behind a wrong result: it runs the launch again with one thing changed, and sees whether the
result becomes the captured one.

What is tried is what people get wrong in sparse kernels: another sparsity selector, two registers of A or B swapped,
metadata taken from the row before or after. A change is believed if fewer elements are wrong with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from isa.errors import Error
from isa.forms.mma import is_mma
from isa.ptx.instruction import Immediate, Instruction, Register, Vector
from simulator.execute.cta_state import CtaState, Executor, Outcome
from simulator.execute.dispatch import executor
from simulator.execute.operands import place_of
from simulator.execute.registry import Array
from simulator.program.capture import Capture
from simulator.program.kernel import Kernel, Operation
from simulator.simulation.launch.batches import Setup
from simulator.simulation.launch.captured import differences, place
from simulator.simulation.launch.interpreter import prepared, step_of
from simulator.simulation.launch.launching import Options, prepare
from simulator.simulation.launch.run import Run
from simulator.state.registers import WARP_SIZE, Warps

MOST_INSTRUCTIONS = 1_000_000  # warp instructions of a launch that is run again and again
LANES_OF_A_ROW = 4  # lanes that hold metadata of one row of mma.sp; isa.fragments.metadata
LESS = 0.97  # the share of wrong elements that must be left at most for a change to be believed


@dataclass(frozen=True)
class Suspect:
    """A change that makes the result better.

    Attributes:
        items: the instructions that are changed.
        what: the mistake, in words.
        fix: the change.
        left: elements that are still wrong.
    """

    items: tuple[Operation, ...]
    what: str
    fix: str
    left: int


def suspects(capture: Capture, kernel: Kernel, options: Options, params: Array, wrong: int, ran: int) -> list[Suspect]:
    """The changes of matrix instructions that make a wrong result better, the best first.

    Args:
        wrong: elements that are wrong.
        ran: warp instructions of the launch; a long one is not run again.
    """
    sparse = [
        item
        for item in kernel.items
        if isinstance(item, Operation) and is_mma(item.instruction.form) and item.instruction.form.is_sparse
    ]
    if not sparse or ran > MOST_INSTRUCTIONS:
        return []
    trial = _Trial(capture, kernel, options, params)
    found = _selectors(trial, sparse, wrong)
    for name in "ab":
        count = max(_registers(item.instruction, name) for item in sparse)
        for first, second in combinations(range(count), 2):
            swapped = {item.index: executor(_swapped(item.instruction, name, first, second)) for item in sparse}
            left = trial.wrong(swapped)
            what = f"registers {first} and {second} of operand {name} are swapped"
            found.append(Suspect(tuple(sparse), what, f"swap registers {first} and {second} of {name}", left))
    for step, word in ((LANES_OF_A_ROW, "next"), (-LANES_OF_A_ROW, "previous")):
        left = trial.wrong({item.index: _rotated(item, step) for item in sparse})
        what = "metadata is that of another row"
        found.append(Suspect(tuple(sparse), what, f"take the metadata of the {word} row", left))
    return sorted((each for each in found if each.left <= LESS * wrong), key=lambda each: each.left)[:1]


def _selectors(trial: _Trial, sparse: Sequence[Operation], wrong: int) -> list[Suspect]:
    """Another selector in single instructions; those that help together."""
    helped: dict[int, Executor] = {}
    items: list[Operation] = []
    for item in sparse:
        form, own = item.instruction.form, item.instruction.selector
        assert is_mma(form)
        for other in range(form.metadata.selectors):
            if other != own:
                changed = executor(_with(item.instruction, "f", Immediate(other)))
                if trial.wrong({item.index: changed}) <= LESS * wrong:
                    helped[item.index] = changed
                    items.append(item)
                    break
    if not helped:
        return []
    wrong_ones = ", ".join(dict.fromkeys(str(item.instruction.selector) for item in items))
    return [
        Suspect(tuple(items), f"the sparsity selector {wrong_ones} is wrong", "another selector", trial.wrong(helped))
    ]


def _registers(instruction: Instruction, name: str) -> int:
    operand = instruction[name]
    return len(operand.elements) if isinstance(operand, Vector) else 1


def _with(instruction: Instruction, name: str, operand: Immediate | Vector) -> Instruction:
    operands = tuple(
        operand if role.name == name else each
        for role, each in zip(instruction.form.roles, instruction.operands, strict=False)
    )
    return replace(instruction, operands=operands)


def _swapped(instruction: Instruction, name: str, first: int, second: int) -> Instruction:
    operand = instruction[name]
    if not isinstance(operand, Vector) or second >= len(operand.elements):
        return instruction
    elements = list(operand.elements)
    elements[first], elements[second] = elements[second], elements[first]
    return _with(instruction, name, Vector(tuple(elements)))


def _rotated(item: Operation, step: int) -> Executor:
    """An executor that takes each lane's metadata from `step` lanes further."""
    execute, operand = executor(item.instruction), item.instruction["e"]
    assert isinstance(operand, Register)
    number = place_of(operand.name).number

    def run(machine: CtaState, warps: Warps) -> Outcome:
        before = machine.registers.read(warps, [number])
        machine.registers.write(warps, [number], before[..., (np.arange(WARP_SIZE) + step) % WARP_SIZE])
        try:
            return execute(machine, warps)
        finally:
            machine.registers.write(warps, [number], before)

    return run


class _Trial:
    """Runs a launch with some executors in place of others."""

    def __init__(self, capture: Capture, kernel: Kernel, options: Options, params: Array) -> None:
        self.capture, self.kernel, self.options, self.params = capture, kernel, options, params

    def wrong(self, changed: dict[int, Executor]) -> int:
        """How many elements are wrong with these executors, by the places of their items."""
        capture = self.capture
        memory = place(capture).memory
        setup: Setup = prepare(self.kernel, capture.grid, capture.block, memory, self.params, self.options)
        code = prepared(self.kernel)
        for index, execute in changed.items():
            item = self.kernel.items[index]
            assert isinstance(item, Operation)
            code.steps[index] = step_of(item, execute)
        try:
            Run(code, setup.state(np.arange(setup.geometry.ctas)), setup.budget).run()
        except Error:
            return int(sum(array.size for array in capture.after.values()))
        arrays = {
            name: memory[name].data.view(capture.buffers[name].type).reshape(capture.buffers[name].shape)
            for name in capture.after
        }
        return sum(each.elements for each in differences(capture, arrays))
