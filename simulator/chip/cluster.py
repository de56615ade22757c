"""The table of a config for clusters of CTAs: `[cluster]`. docs/configs.md describes its format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from simulator.chip.memory import BytesPerCycle
from simulator.chip.tables import Cycles
from simulator.toml_tables import Between

Clusters = Annotated[int, Between(0, 4096, "clusters")]
Times = Annotated[float, Between(1, 64, "times")]
Rooms = tuple[
    Clusters, Clusters, Clusters, Clusters, Clusters, Clusters, Clusters, Clusters, Clusters, Clusters, Clusters,
    Clusters, Clusters, Clusters, Clusters,
]  # fmt: skip # of 2 to 16 CTAs
LARGEST = 16


@dataclass(frozen=True)
class ClusterTable:
    """`[cluster]`: where clusters have room, and what its CTAs, each on an SM of its own, do with each other.

    Attributes:
        rooms: how many clusters of 2, 3, ... 16 CTAs are on the chip at once, with one CTA on each SM: the SMs of a
            cluster are near each other.
        barrier_latency: cycles from the last arrival at barrier.cluster until a waiting warp can issue; and how many
            more for each time that the CTAs of the cluster are twice as many.
        load_latency: cycles from a load of another CTA's shared memory until an instruction that needs it can issue.
        load_bytes, store_bytes: bytes in a cycle that an SM loads from others, and stores there.
        store_latency: cycles from an st.async until its bytes count on the mbarrier.
        copy_latency: cycles from a bulk copy to another CTA until its first bytes are there.
        copy_bytes: bytes in a cycle that these copies bring.
        multicast_reads: how many times its bytes a copy to several CTAs takes of what L2 reads for the SM that asks.
    """

    rooms: Rooms
    barrier_latency: tuple[Cycles, Cycles]
    load_latency: Cycles
    load_bytes: BytesPerCycle
    store_bytes: BytesPerCycle
    store_latency: Cycles
    copy_latency: Cycles
    copy_bytes: BytesPerCycle
    multicast_reads: Times = 1.0

    def at_once(self, size: int, sms: int) -> int:
        """How many clusters have room at once, with one CTA on each SM; 0 where they are too large.

        Args:
            size: CTAs of a cluster.
            sms: SMs of the chip.
        """
        if size == 1:
            return sms
        return min(self.rooms[size - 2], sms // size) if size <= LARGEST else 0
