"""What a launch gave: the bytes in its buffers, how many instructions ran, what was undefined, and what it found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.program.kernel import Kernel, Operation
from simulator.simulation.launch.batches import Executed
from simulator.simulation.launch.completion import CompletionResult
from simulator.simulation.launch.timing import LaunchTiming
from simulator.simulation.listing import shown_name


@dataclass(frozen=True)
class Difference:
    """A buffer that is not what a capture says.

    Attributes:
        buffer: its name.
        elements, bytes: how many differ.
        place: index of the first element that differs.
        value, expected: what it is, and what the capture says.
    """

    buffer: str
    elements: int
    bytes: int
    place: tuple[int, ...]
    value: Any
    expected: Any

    def __str__(self) -> str:
        where = ", ".join(map(str, self.place))
        return (
            f"buffer '{self.buffer}': {self.elements} elements differ ({self.bytes} bytes); the first is [{where}]: "
            f"{self.value}, expected {self.expected}"
        )


@dataclass(frozen=True)
class LaunchReport:
    """The result of a launch.

    Attributes:
        kernel: the entry that ran.
        grid, block: CTAs and threads, as (x, y, z).
        arrays: by name, the buffers that the kernel may have written, after the run.
        warp_instructions: instructions of warps that were executed, as PTX counts them.
        instructions: the same by opcode, the most frequent first.
        tensor_instructions: those that multiply matrices.
        fma: multiply-adds that these name, pruned products included.
        undefined: how often each case that PTX leaves undefined occurred.
        target: whose arithmetic was used.
        executions: by place, how often a warp executed the item.
        timing: how long it takes on the config's chip; None if no config was given.
        differences: where buffers are not what the capture says; None if there was no capture.
        printed: what the kernel has printed (`printf`), at most 2^20 characters.
        cluster: CTAs of a cluster, as (x, y, z).
        completion: what another completion than that at issue has found; None: it was at issue.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arrays: Mapping[str, NDArray[Any]]
    warp_instructions: int
    instructions: Mapping[str, int]
    tensor_instructions: int
    fma: int
    undefined: Counter[str]
    target: str
    executions: NDArray[np.int64] = field(repr=False)
    timing: LaunchTiming | None = None
    differences: tuple[Difference, ...] | None = None
    printed: str = ""
    cluster: tuple[int, int, int] = (1, 1, 1)
    completion: CompletionResult | None = None

    def with_arrays(
        self, arrays: Mapping[str, NDArray[Any]], differences: tuple[Difference, ...] | None = None
    ) -> LaunchReport:
        """The same report with these arrays, and how they differ from what a capture says."""
        return replace(self, arrays=arrays, differences=differences)

    @property
    def trace(self) -> str:
        """The kernel's name as tables show it, not longer than a line."""
        return shown_name(self.kernel)

    @property
    def cycles(self) -> int | None:
        """Cycles in which the SM with most CTAs is busy; None without a config."""
        return self.timing.cycles if self.timing is not None else None

    def as_dict(self) -> dict[str, Any]:
        """The report without its arrays, for JSON."""
        return (
            {
                "kernel": self.kernel,
                "grid": list(self.grid),
                "block": list(self.block),
                "cluster": list(self.cluster),
                "target": self.target,
                "warp_instructions": self.warp_instructions,
                "tensor_instructions": self.tensor_instructions,
                "fma": self.fma,
                "instructions": dict(self.instructions),
                "undefined": dict(self.undefined),
            }
            | ({"printed": self.printed} if self.printed else {})
            | ({"completion": asdict(self.completion)} if self.completion is not None else {})
            | (self.timing.as_dict() if self.timing is not None else {})
        )


def counted(kernel: Kernel, executed: Executed) -> tuple[dict[str, int], int, int]:
    """Warp instructions by opcode (the most frequent first), those that multiply matrices, and their multiply-adds.
    An instruction of a warpgroup counts once for its four warps among these."""
    opcodes: Counter[str] = Counter()
    tensor, fma = 0, executed.multiplied
    for item, count in zip(kernel.items, executed.counts.tolist(), strict=True):
        if not count:
            continue
        opcodes[item.opcode] += count
        if isinstance(item, Operation) and item.instruction.form.is_matrix:
            form = item.instruction.form
            tensor += count // form.warps
            fma += count // form.warps * form.fma
    return dict(opcodes.most_common()), tensor, fma
