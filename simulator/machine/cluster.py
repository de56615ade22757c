"""The CTAs that run together: one, or a pair on two SMs. They share the barrier of the cluster, and the tcgen05 units
of a pair work together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simulator.execute.dynamic_info import CLUSTER
from simulator.machine.interface import MachineOfUnits, Warp
from simulator.machine.mbarriers import Phase


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

    Attributes:
        barrier: barrier.cluster, which warps reach as the mbarrier `CLUSTER`.
    """

    def __init__(self, machine: MachineOfUnits, warps: int, sms: Sequence[Any]) -> None:
        self.machine, self.sms, self.barrier = machine, sms, ClusterBarrier(warps)
        machine.mbarriers.add(CLUSTER, self.barrier)

    @property
    def pair(self) -> bool:
        """Whether these are the CTAs of a pair."""
        return len(self.sms) > 1

    @property
    def units(self) -> list[Any]:
        """The tcgen05 units of all SMs."""
        return [sm.unit for sm in self.sms if sm.unit is not None]

    def arrive(self, warp: Warp) -> None:
        """Notes that a warp is at the barrier; its arrival counts `mbarrier_latency` cycles later."""
        self.barrier.arrived.add(warp)

    def leave(self, warp: Warp, now: int) -> None:
        """Notes that a warp has ended: the barrier does not wait for it any more."""
        self.barrier.expected -= 1
        if warp not in self.barrier.arrived:
            self.machine.mbarriers.arrive(CLUSTER, now)

    def state(self, warps: Sequence[Warp]) -> tuple[bool, ...]:
        """Returns which of these warps have arrived, beside the state of all mbarriers."""
        return tuple(warp in self.barrier.arrived for warp in warps)
