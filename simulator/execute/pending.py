"""What a warp waits for at an instruction that is not done yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class PendingWait(NamedTuple):
    """What a warp waits for before its instruction is done.

    Attributes:
        ready: tells whether the wait is over; once over, it stays over.
        finish: does what is left of the instruction.
        describe: says what is lacking, for a deadlock's message: "phase 2 of the mbarrier at shared[64]: 3 of 4
        arrivals".
        waiting: gives the warps that still wait, where each is done for itself; None: all until all are done.
    """

    ready: Callable[[], bool]
    finish: Callable[[], None]
    describe: Callable[[], str]
    waiting: Callable[[], list[int]] | None = None
