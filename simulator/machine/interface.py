"""What a unit of an SM sees of its SM, and of the machine around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import simpy

from simulator.chip.config import Config
from simulator.compiler.timed_code import StallReason
from simulator.execute.dynamic_info import Barrier


class Arrivals(Protocol):
    """The mbarriers of all CTAs."""

    def arrive_at(self, cycle: int, barriers: tuple[Barrier, ...]) -> None:
        """Plans one arrival on each of these mbarriers in a later cycle."""

    def transact(self, barrier: Barrier, count: int, now: int) -> None:
        """Counts bytes that are announced (`count` above 0) or have arrived (below 0)."""

    def phase(self, barrier: Barrier) -> Any:
        """Returns the current phase of an mbarrier."""

    def add(self, barrier: Barrier, phase: Any) -> None:
        """Adds an mbarrier that something else owns."""

    def arrive(self, barrier: Barrier, now: int) -> None:
        """Counts one arrival."""


class ClusterOfUnits(Protocol):
    """The CTAs that run together, one or a pair."""

    @property
    def units(self) -> Sequence[Any]:
        """The tcgen05 units of all SMs."""

    @property
    def pair(self) -> bool:
        """Whether these are the CTAs of a pair."""


class MachineOfUnits(Protocol):
    """The SMs that run a CTA, or a pair of CTAs.

    Attributes:
        env: SimPy's environment.
        observer: is told of issues and units; None for nobody.
    """

    env: simpy.Environment
    config: Config
    observer: Any

    @property
    def mbarriers(self) -> Arrivals:
        """The mbarriers of all CTAs."""

    @property
    def mbarrier_latency(self) -> int:
        """Cycles from an arrival until a warp that waits can issue."""

    @property
    def cluster(self) -> ClusterOfUnits:
        """The CTAs of the machine."""

    def lasts(self, cycle: int) -> None:
        """Notes the cycle of a result; the run ends no sooner."""

    def limit(self, cycle: int) -> None:
        """Stops the fronts before this cycle, in which something happens outside them."""


class SmOfUnits(Protocol):
    """One SM.

    Attributes:
        cta: the number of its CTA.
        front, front_code: its front, and the module of functions that units call with it.
    """

    env: simpy.Environment
    cta: int
    observer: Any
    front: Any
    front_code: Any

    @property
    def machine(self) -> MachineOfUnits:
        """The machine that it belongs to."""

    def release(self, warp: Any, cycle: int, reason: StallReason) -> None:
        """Ends the wait of a blocked warp, which can issue from this cycle on."""

    def wake(self) -> None:
        """Lets a front that sleeps go on in the cycle in which it does something next."""
