"""What binds a GEMM by `mma` and `mma.sp`: for each limit the part of the kernel's time that it would take alone.

Busy times of units that the engine tells of are its own. Two paths that matrix instructions take beside their pipe, and
the issue slot, follow from the instructions that a sub-core runs: each takes them for a fixed number of cycles.
"""

from __future__ import annotations

from math import ceil

from isa.forms.record import Unit
from simulator.chip.config import Config
from simulator.simulation.demand import METADATA, PORTS
from simulator.studies.gemm.tile import Tile
from simulator.timing.result import Timing

BOUND = 0.5  # a limit that takes less than this part of the time does not bind
LATENCY = "latency (no unit is taken for most of the time)"
ISSUE, QUEUE = "issue slots", "tcgen05 queue"
_BEHIND = 0.99  # the queue waits while products are made and shared memory is read: as much as they take is theirs


def bound_of(shares: dict[str, float]) -> str:
    """The limit that takes most of the time; `LATENCY` if none takes half of it."""
    limits = {name: share for name, share in shares.items() if name != "waves"}
    bound = max(limits, key=lambda name: limits[name] * (_BEHIND if name == QUEUE else 1))
    return bound if limits[bound] >= BOUND else LATENCY


def shares(
    tile: Tile, sizes: tuple[int, int, int], chip: Config, ctas: tuple[int, int], timing: Timing, cycles: int
) -> dict[str, float]:
    """The parts of the time for which the units of the fullest SM are busy, and the part that L2 would need alone.

    Args:
        sizes: m, n, k in whole tiles.
        ctas: how many CTAs the run of `timing` has, and how many the fullest SM has in the whole kernel.
        cycles: those of the kernel.
    """
    assert chip.l2 is not None
    m, n, k = sizes
    together, on_sm = ctas
    whole = max(cycles, 1) * together / on_sm  # for the work of the run
    stages = (m // tile.bm) * (n // tile.bn) * (k // tile.bk)
    metadata, ports = _paths(tile, k // tile.bk, chip, together)
    return {
        "tensor": max(busy[Unit.TENSOR] for busy in timing.busy) / (whole * chip.sm.tensor_pipes),
        METADATA: metadata / whole,
        PORTS: ports / whole,
        ISSUE: max(timing.issued) / (whole * chip.issue.width),
        "alu": max(busy[Unit.ALU] for busy in timing.busy) / whole,
        "shared memory": timing.shared_busy / whole,
        "path to L2": timing.memory_busy / whole,
        "L2 reads": chip.l2.read_cycles(stages * tile.stage_bytes, stages * tile.stage_lines) / cycles,
        "stores": tile.bytes_d * m * n / chip.l2.write_bytes / cycles,
    }


def _paths(tile: Tile, iterations: int, chip: Config, ctas: int) -> tuple[int, int]:
    """Cycles for which the sub-core with most warps takes its path of metadata, and the ports of the register file that
    its tensor pipes share."""
    metadata, ports = chip.path_cycles(tile.form)
    warps = ceil(ctas * tile.warps / chip.sm.sub_cores)
    instructions = warps * tile.instructions // tile.warps * iterations
    return instructions * metadata, instructions * ports
