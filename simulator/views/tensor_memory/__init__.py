"""A map of Tensor Memory: which columns and lanes hold D, A, metadata and scale factors of a program at each moment.

>>> from simulator.views.tensor_memory import memory_map
>>> memory = memory_map("digits/f16_tcgen05")
>>> [(each.role, each.columns) for each in memory.intervals if each.role == "D"]
[('D', range(0, 192)), ('D', range(192, 384))]
"""

from __future__ import annotations

from pathlib import Path

from simulator.views.tensor_memory.lives import Interval, Moment
from simulator.views.tensor_memory.recorded import MemoryMap, map_of_launch, map_of_trace

__all__ = ["Interval", "MemoryMap", "Moment", "memory_map"]


def memory_map(target: str | Path, cta: int = 0) -> MemoryMap:
    """Runs a trace, all of its CTAs, or the cluster of one CTA of a captured launch, and says what Tensor Memory holds.

    Args:
        target: a trace, its path or its name; or a captured launch: NAME.json.
        cta: which CTA of a launch.

    Raises:
        ViewError: nothing is in Tensor Memory, or there is no such CTA.
        TraceError, CaptureError, LaunchError, IsaError: what cannot be read or run.
    """
    return map_of_launch(target, cta) if str(target).endswith(".json") else map_of_trace(target)
