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
