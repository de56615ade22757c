"""The CTAs that run together: one, or a pair on two SMs. They share the barrier of the cluster, and the tcgen05 units
of a pair work together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from simulator.execute.dynamic_info import CLUSTER, NEXT, Barrier
from simulator.machine.interface import MachineOfUnits, Warp
from simulator.machine.mbarriers import Phase


class Places(NamedTuple):
    """Where the CTAs of a launch are whose clusters are timed.

    Attributes:
        homes: by the number of a CTA in the grid, its SM among those of the machine.
        arrivals: how many arrivals complete each phase of the barriers of clusters (`dynamic_info.meeting`), and each
            end of all CTAs of a cluster (`NEXT`).
        size: CTAs of a cluster.
    """

    homes: Mapping[int, int]
    arrivals: Mapping[Barrier, int]
    size: int = 1


NOWHERE = Places({}, {})


class ClusterBarrier(Phase):
    """The barrier of the cluster: an mbarrier that is there from the start, and expects every warp that has not ended.

    Attributes:
        arrived: warps that have arrived in its current phase.
    """

    def __init__(self, warps: int) -> None:
        super().__init__(warps, warps)
        self.arrived: set[Warp] = set()

    def settle(self) -> bool:
        """Ends the phase if it lacks nothing more; returns whether it ended."""
        ended = super().settle()
        if ended:
            self.arrived.clear()
        return ended


class Cluster:
    """The CTAs of a machine.

    Args:
        warps: of all CTAs, those that have a program.
        sms: the SM of each CTA.
        places: of a launch.

    Attributes:
        barrier: barrier.cluster, which warps reach as the mbarrier `CLUSTER`.
        free: by SM, when the next warp of it can arrive at a barrier of a launch's clusters.
    """

    def __init__(self, machine: MachineOfUnits, warps: int, sms: Sequence[Any], places: Places = NOWHERE) -> None:
        self.machine, self.sms, self.barrier = machine, sms, ClusterBarrier(warps)
        self.free, self.size = [0] * len(sms), places.size
        machine.mbarriers.add(CLUSTER, self.barrier)
        for barrier, count in places.arrivals.items():
            machine.mbarriers.add(barrier, Phase(count, count))

    @property
    def pair(self) -> bool:
        """Whether these are the CTAs of a pair."""
        return len(self.sms) > 1

    @property
    def units(self) -> list[Any]:
        """The tcgen05 units of all SMs."""
        return [sm.unit for sm in self.sms if sm.unit is not None]

    def units_of_pair(self, cta: int) -> list[Any]:
        """The tcgen05 units of the pair that a CTA belongs to: those of the SMs whose ranks differ in the last bit."""
        return [sm.unit for sm in self.sms[cta & ~1 : (cta | 1) + 1] if sm.unit is not None]

    def arrive(self, warp: Warp) -> None:
        """Notes that a warp is at the barrier; its arrival counts `mbarrier_latency` cycles later."""
        self.barrier.arrived.add(warp)

    def meet(self, barrier: Barrier, sm: int, now: int) -> None:
        """Lets a warp of an SM arrive at the barrier of a launch's cluster; where one CTA ends, the next begins at
        once."""
        config = self.machine.config
        if barrier[0] == NEXT:
            self.machine.mbarriers.arrive_at(now + 1, (barrier,))
            return
        at = max(now, self.free[sm])
        self.free[sm] = at + config.barrier.arrival
        latency = config.barrier.latency
        if self.size > 1 and config.cluster is not None:
            base, more = config.cluster.barrier_latency
            latency = base + more * (self.size - 1).bit_length()
        self.machine.mbarriers.arrive_at(at + latency, (barrier,))

    def leave(self, warp: Warp, now: int) -> None:
        """Notes that a warp has ended: the barrier does not wait for it any more."""
        self.barrier.expected -= 1
        if warp not in self.barrier.arrived:
            self.machine.mbarriers.arrive(CLUSTER, now)

    def state(self, warps: Sequence[Warp]) -> tuple[bool, ...]:
        """Returns which of these warps have arrived, beside the state of all mbarriers."""
        return tuple(warp in self.barrier.arrived for warp in warps)
