"""The result of a run: how long it took, and for how long each unit was busy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """The cycles of a run, where they went, and for how long each unit was taken.

    Attributes:
        cycles: from 0 until every result is there.
        waits: for each warp with a program, by `StallReason`, its cycles; each row sums to `cycles`.
        issued: instructions issued by each sub-core.
        busy: for each sub-core, by unit (tensor, alu), cycles for which the unit was taken.
        shared_busy: cycles for which shared memory was taken (of a pair, that of the SM where it was taken longer).
        skipped: cycles that were not simulated one by one, since the state of the SM repeated.
        tcgen05_busy: for each SM, cycles for which the tcgen05 unit took no other instruction, and of these, cycles of
            products.
        wgmma_busy: the same of the unit of wgmma.
        tmem_busy: for each sub-core, cycles for which its path to Tensor Memory was taken.
        memory_busy: cycles for which the path from L2 brought lines (of a pair, that of the SM where it was taken
            longer).
    """

    cycles: int
    waits: dict[int, list[int]]
    issued: list[int]
    busy: list[list[int]]
    shared_busy: int
    skipped: int
    tcgen05_busy: tuple[tuple[int, int], ...] = ()
    tmem_busy: tuple[int, ...] = ()
    memory_busy: int = 0
    wgmma_busy: tuple[tuple[int, int], ...] = ()

    @property
    def tensor_share(self) -> float:
        """The share of the cycles of all SMs in which their tensor cores multiply: pipes of sub-cores that are taken,
        or products of the units of wgmma or tcgen05."""
        pipes = sum(tensor for tensor, _ in self.busy) / max(len(self.busy), 1)
        units = [sum(products for _, products in unit) / max(len(unit), 1) for unit in self.units.values()]
        return (pipes + sum(units)) / max(self.cycles, 1)

    @property
    def units(self) -> dict[str, tuple[tuple[int, int], ...]]:
        """By name, the units of tensor cores that work behind issue, as `tcgen05_busy`; none that was never taken."""
        units = {"tcgen05": self.tcgen05_busy, "wgmma": self.wgmma_busy}
        return {name: unit for name, unit in units.items() if any(taken for taken, _ in unit)}
