"""Which CTAs an SM executes, and with clusters, which CTAs the SMs of a cluster execute.

CTAs go to SMs in turn, one more on each as long as there is room; what is left follows when others end. The CTAs of a
cluster are on an SM each, of SMs that are near each other, so that fewer clusters have room than the SMs would hold
(`[cluster] rooms`). A cluster follows when all CTAs of another have ended, in their places (assumed).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.chip.config import Config
from simulator.errors import ConfigError
from simulator.program.kernel import Kernel
from simulator.simulation.launch.batches import Setup
from simulator.simulation.launch.errors import LaunchError

RESERVED = 1024  # bytes of shared memory that the system keeps of each CTA; CUDA programming guide, 8.0 and later
MOST_REGISTERS = 255
UNIT = 8  # registers of a thread are given in units of this many; CUDA occupancy calculator, 3.0 and later
TURNS = 3  # CTAs one after the other in a place that are timed one by one; further ones take as long as the last
_BUSIEST = 2  # SMs that must be expected to get so many CTAs of an incomplete round; fitted, see `last_ctas`
_KEPT, _MORE = (
    0.75,
    8,
)  # registers of machine code for each live word of the PTX; fitted to six kernels, docs/kernels.md


@dataclass(frozen=True)
class Placement:
    """Which CTAs an SM executes, or the SMs of a cluster.

    Attributes:
        slots: for each CTA that the SM holds at a time, the CTAs that have that place one after the other; with
            clusters of all SMs that one cluster is on, SM by SM.
        left: CTAs of the longest of these rows that are not timed one by one.
        resident: CTAs that there is room for.
        registers: of a thread.
        limit: what decides how many CTAs there is room for: "registers", "shared memory", "warps" or "CTAs".
        size: CTAs of a cluster, each on an SM.
        clusters: that the chip has room for at a time, with one CTA on each SM; SMs, where there are no clusters.
    """

    slots: tuple[tuple[int, ...], ...]
    left: int
    resident: int
    registers: int
    limit: str
    size: int = 1
    clusters: int = 1

    @property
    def places(self) -> int:
        """CTAs that are on each SM at a time."""
        return len(self.slots) // self.size

    @property
    def whole(self) -> float:
        """All CTAs of the SM for each that is timed."""
        longest = len(self.slots[0])
        return (longest + self.left) / longest

    @property
    def ctas(self) -> NDArray[np.int64]:
        """The CTAs that are timed, ascending."""
        return np.array(sorted(cta for slot in self.slots for cta in slot), np.int64)


def placed_on_sm(setup: Setup, config: Config, registers: int | None = None) -> Placement:
    """The CTAs of the SM that has most of them.

    Args:
        registers: of a thread, as ptxas says; None: estimated from the live values of the PTX.

    Raises:
        LaunchError: a CTA that does not fit on an SM, or clusters that fit nowhere.
        ConfigError: clusters, on a chip whose config says nothing of them.
    """
    kernel, warps, sm = setup.kernel, setup.geometry.warps, config.sm
    registers = registers or estimated_registers(kernel, warps)
    rooms = {
        "registers": sm.registers // (32 * warps * -(-registers // UNIT) * UNIT),
        "shared memory": (sm.shared_bytes + RESERVED) // (setup.shared_bytes + RESERVED),
        "warps": sm.warps // warps,
        "CTAs": sm.ctas,
    }
    limit = min(rooms, key=lambda name: rooms[name])
    if not rooms[limit]:
        reason = (
            f"a CTA of {warps} warps, {registers} registers a thread and {setup.shared_bytes} bytes of shared memory"
        )
        raise LaunchError(f"{reason} does not fit on an SM of {config.label}", f"fewer {limit}", rule="launch-geometry")
    size = math.prod(setup.geometry.cluster)
    at_once, ctas = clusters_at_once(config, size), setup.geometry.ctas
    members = setup.geometry.whole_clusters(np.arange(ctas)).reshape(-1, size) if size > 1 else None
    mine = _on_one_sm(ctas // size, at_once, rooms[limit])
    slots = [mine[place :: rooms[limit]] for place in range(min(rooms[limit], len(mine)))]
    left = max(len(slots[0]) - TURNS, 0)
    kept = tuple(
        tuple(slot[:TURNS]) if members is None else tuple(members[slot[:TURNS], rank].tolist())
        for rank in range(size)
        for slot in slots
    )
    return Placement(kept, left, rooms[limit], registers, limit, size, at_once)


def clusters_at_once(config: Config, size: int) -> int:
    """Clusters of `size` CTAs that a chip has room for at a time, with one CTA on each SM: its SMs, if that is 1.

    Raises:
        LaunchError: clusters that fit nowhere.
        ConfigError: the config says nothing of clusters.
    """
    if size == 1:
        return config.chip.sms
    if config.cluster is None:
        reason = f"{config.name} has no times for clusters"
        raise ConfigError(config.path, "cluster", reason, "a config with [cluster], such as h100_sxm, or none")
    found = config.cluster.at_once(size, config.chip.sms)
    if not found:
        reason = f"a cluster of {size} CTAs has no room on {config.label}"
        raise LaunchError(reason, "smaller clusters", rule="launch-geometry")
    return found


def _on_one_sm(ctas: int, sms: int, room: int) -> list[int]:
    """The CTAs of the SM that gets most of them, in their order; or the clusters of the SMs that get most."""
    rounds, last = divmod(ctas, sms * room)
    if not rounds:
        return list(range(0, ctas, sms))
    first = sms * room * rounds
    return [*range(0, first, sms), *range(first, first + last_ctas(last, sms, room))]


def last_ctas(last: int, sms: int, room: int) -> int:
    """How many of the last CTAs of a launch one SM gets, when there are fewer than the chip has room for.

    They take places as these become free, which is as good as by chance: the largest number that at least `_BUSIEST`
    SMs are expected to get. Measured: H200, 2026-11-23, places of 22 grids (docs/kernels.md).
    """
    most = min(last, room)
    ways = math.comb(sms * room, last)
    chances = [math.comb(room, n) * math.comb(sms * room - room, last - n) for n in range(1, most + 1)]
    expected = (sms * sum(chances[n:]) / ways for n in range(most))
    return max((n for n, sms_expected in enumerate(expected, 1) if sms_expected >= _BUSIEST), default=min(most, 1))


def estimated_registers(kernel: Kernel, warps: int) -> int:
    """Registers of a thread that ptxas is taken to need: PTX keeps more values alive than machine code does, which
    computes some again."""
    most = min(MOST_REGISTERS, 65536 // (32 * warps) // UNIT * UNIT)
    return min(-(-int(_KEPT * kernel.live_words + _MORE) // UNIT) * UNIT, max(most, 16))
