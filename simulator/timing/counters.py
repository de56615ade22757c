"""The counters of the timing engine: cycles and instructions, by warp, sub-core and unit.

All counts can be copied and multiplied, so that a period of a loop that is skipped counts as often as it was left out.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from simulator.compiler.timed_code import StallReason

REASONS = len(StallReason)


class Counters:
    """Cycles and instructions counted so far.

    Attributes:
        stalls: cycles of each warp by `StallReason`; those of the warp at place p begin at p * len(StallReason).
        issued: instructions that each sub-core has issued.
        busy: by unit (tensor, integer), for each sub-core the cycles for which it was taken.
        tensor_memory: for each sub-core, cycles for which its path to Tensor Memory was taken.
        shared: for each SM, cycles for which shared memory was taken.
        tcgen05, products: for each SM, cycles for which its tcgen05 unit took no other instruction, and those of
            products there.
        path: for each SM, cycles for which the path from L2 brought lines.
        ledger: what an observer of the run counts for itself.
    """

    def __init__(self, warps: int, cores: int, sms: int) -> None:
        def zeros(count: int) -> array[int]:
            return array("q", bytes(8 * count))

        self.stalls = zeros(warps * REASONS)
        self.issued = zeros(cores)
        self.busy = zeros(cores), zeros(cores)
        self.tensor_memory = zeros(cores)
        self.shared = zeros(sms)
        self.tcgen05 = zeros(sms)
        self.products = zeros(sms)
        self.path = zeros(sms)
        self.ledger: list[int] = []
        self._all: tuple[array[int] | list[int], ...] = (
            self.stalls,
            self.issued,
            *self.busy,
            self.tensor_memory,
            self.shared,
            self.tcgen05,
            self.products,
            self.path,
            self.ledger,
        )

    def all(self) -> tuple[array[int] | list[int], ...]:
        """All counts."""
        return self._all

    def snapshot(self) -> tuple[Sequence[int], ...]:
        """A copy of all counts; its first is `stalls`."""
        return tuple([counts[:] for counts in self._all])

    def repeat(self, before: tuple[Sequence[int], ...], periods: int) -> None:
        """Counts what has happened since the snapshot `before` another `periods` times."""
        for counts, old in zip(self.all(), before, strict=True):
            for place, was in enumerate(old):
                counts[place] += periods * (counts[place] - was)
