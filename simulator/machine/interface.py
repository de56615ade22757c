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
        """Counts bytes that are announced, or, below 0, that have arrived."""

    def phase(self, barrier: Barrier) -> Any:
        """The current phase of an mbarrier."""


class MachineOfUnits(Protocol):
    """The SMs that run a CTA, or a pair of CTAs.

    Attributes:
        env: SimPy's environment.
        observer: is told of issues and units; None for nobody.
        touched: lines of memory that have come before.
        arrived: warps that are at the barrier of the cluster.
    """

    env: simpy.Environment
    config: Config
    observer: Any
    touched: set[int]
    arrived: set[Any]

    @property
    def mbarriers(self) -> Arrivals:
        """The mbarriers of all CTAs."""

    @property
    def mbarrier_latency(self) -> int:
        """Cycles from an arrival until a warp that waits can issue."""

    @property
    def units(self) -> Sequence[Any]:
        """The tcgen05 units of all SMs."""

    @property
    def pair(self) -> bool:
        """Whether these are the SMs of a pair of CTAs."""

    def lasts(self, cycle: int) -> None:
        """Notes that a result is there in this cycle."""

    def limit(self, cycle: int) -> None:
        """Lets the fronts look in this cycle what has happened."""


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
