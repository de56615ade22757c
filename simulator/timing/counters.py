"""The counters of the timing engine: cycles and instructions, by warp, sub-core and unit.

All counts can be copied and multiplied, so that a period of a loop that is skipped counts as often as it was left out.
"""

from __future__ import annotations

from simulator.timing.model import StallReason

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
        self.stalls = [0] * (warps * REASONS)
        self.issued = [0] * cores
        self.busy = [0] * cores, [0] * cores
        self.tensor_memory = [0] * cores
        self.shared = [0] * sms
        self.tcgen05 = [0] * sms
        self.products = [0] * sms
        self.path = [0] * sms
        self.ledger: list[int] = []

    def _all(self) -> tuple[list[int], ...]:
        return (
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

    def snapshot(self) -> tuple[list[int], ...]:
        """A copy of all counts; its first list is `stalls`."""
        return tuple(list(counts) for counts in self._all())

    def repeat(self, before: tuple[list[int], ...], periods: int) -> None:
        """Counts what has happened since the snapshot `before` another `periods` times."""
        for counts, old in zip(self._all(), before, strict=True):
            counts[:] = [new + periods * (new - was) for new, was in zip(counts, old, strict=True)]
