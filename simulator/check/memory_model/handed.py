"""What threads have released at a location of memory."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.check.memory_model.clocks import Released

Levels = list[Released | None]  # by scope: what reaches threads of the CTA, of the cluster, of the GPU
Thread = tuple[int, int]


@dataclass
class Handed:
    """What the threads of one CTA have released at a location; `thread`: the last of them, row and lane among all that
    are followed."""

    cta: int
    cluster: int
    levels: Levels
    thread: Thread = (-1, -1)
