"""The base class of fault targets that run: traces and captured launches, in which a fault has a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits, ElementType
from simulator.applications.stored import Stored
from simulator.faults.aim.executed import Static
from simulator.faults.table import SITES, Faults
from simulator.faults.targets.target import FaultTarget


class RunningTarget(FaultTarget):
    """A program of several warps, and what it stores."""

    when = True

    @property
    @abstractmethod
    def stored(self) -> Stored:
        """The comparison of what is stored with what is stored without faults."""

    @property
    @abstractmethod
    def warps_of_a_cta(self) -> int:
        """How many warps a CTA has."""

    @abstractmethod
    def instructions(self, warp: int) -> int:
        """How many dynamic instructions a warp executes."""

    @abstractmethod
    def executed(self, warp: int) -> NDArray[np.int64]:
        """Of each dynamic instruction of a warp the number of its item, int64 [n]."""

    @abstractmethod
    def statics(self, warp: int) -> dict[int, Static]:
        """The instructions of a warp's program by number of item."""

    @abstractmethod
    def register_words(self, names: Iterable[str]) -> tuple[int, ...]:
        """The words of the site `registers` that these registers are."""

    @abstractmethod
    def names_of(self, register: str) -> tuple[str, ...]:
        """What the text calls a register."""

    def right(self, case: int) -> tuple[Bits, ElementType | None]:
        """What is stored without faults, and its type."""
        return self.stored.golden_matrix, self.stored.element

    def apart(self, faults: Faults) -> NDArray[np.bool_]:
        """A second run has registers and memories of its own, and the same buffers before it."""
        return np.asarray((faults["site"] != SITES.index("global")) | (faults["at"] >= 0))
