"""Machine code that was read from a file, as `Replay` takes it. Warps whose path through it cannot be found take
machine code that is made from the PTX."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.compiler.kernel.executed import Executed, Segment
from simulator.compiler.kernel.machine import MachineCode, machine_code
from simulator.compiler.kernel.sass import sass_code
from simulator.compiler.kernel.walk import LostError, Walker
from simulator.program.kernel import Kernel
from simulator.program.sass import Function


class GivenCode:
    """Machine code from a file, and for lost warps machine code that is made from the PTX.

    Attributes:
        regions: the basic blocks of the file's machine code, then the regions of the other.
        registers: how many registers are numbered.
        spare: the machine code for lost warps.
        walker: finds the path of a warp through the file's machine code.
    """

    def __init__(self, kernel: Kernel, function: Function) -> None:
        sass = sass_code(kernel, function)
        self.spare: MachineCode = machine_code(kernel)
        self.walker = Walker(sass, kernel)
        self.regions = (*sass.regions, *self.spare.regions)
        self.registers = max(sass.registers, self.spare.registers)
        self._count = len(sass.regions)
        self._ways: dict[tuple[tuple[int, int], ...], list[Segment]] = {}
        self._lost: set[tuple[tuple[int, int], ...]] = set()

    def way(self, steps: Sequence[Executed]) -> list[Segment]:
        """The regions that a warp ran through."""
        key = tuple((step.place, step.lanes) for step in steps)
        if key not in self._ways:
            try:
                self._ways[key] = self.walker.way(steps)
            except LostError:
                self._lost.add(key)
                self._ways[key] = [each._replace(region=each.region + self._count) for each in self.spare.way(steps)]
        return self._ways[key]

    def lost(self, steps: Sequence[Executed]) -> bool:
        """Whether the path of a warp through the file's machine code was not found."""
        self.way(steps)
        return tuple((step.place, step.lanes) for step in steps) in self._lost
