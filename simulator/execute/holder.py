"""A CTA as an instruction finds it, in a trace (`CtaState`) or in a launch (`LaunchState`)."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simulator.state.mbarrier import Mbarriers
from simulator.state.tensor_memory import TensorMemory


class Holder(Protocol):
    """A CTA as an instruction finds it: its memories, whichever warp, in a trace or in a launch, executes that."""

    @property
    def mbarriers(self) -> Mbarriers:
        """Its mbarriers."""

    @property
    def number(self) -> int:
        """Which CTA it is."""

    @property
    def shared_name(self) -> str:
        """Its shared memory in messages, behind "at shared[8]": " of CTA 1", or nothing for the only one."""

    @property
    def shared_bytes(self) -> NDArray[np.uint8]:
        """Its shared memory, uint8 [byte], where descriptors of matrices begin to count."""

    @property
    def tmem(self) -> TensorMemory:
        """Its Tensor Memory."""
