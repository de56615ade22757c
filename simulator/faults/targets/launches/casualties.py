"""What has become of copies of CTAs that run beside each other: which of them go on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.faults.outcomes import reason
from simulator.faults.targets.launches.single import why

RUNNING, STOPPED, ALONE = range(3)
"""A copy goes on; it has stopped by itself, as a launch with its fault does; its fault needs a launch of its own."""


class Casualties:
    """The copies of a batch that are not to go on.

    Attributes:
        state: uint8 [copy]: `RUNNING`, `STOPPED` or `ALONE`.
        reason: uint8 [copy]: why it stopped, a number of `outcomes.REASONS`.
        refused: bool [copy]: whether a check in front of the core stopped it.
        fresh: copies that have ended since somebody looked.
    """

    def __init__(self, copies: int) -> None:
        self.state = np.zeros(copies, np.uint8)
        self.reason = np.zeros(copies, np.uint8)
        self.refused = np.zeros(copies, np.bool_)
        self.fresh: list[int] = []

    def end(self, copies: NDArray[np.integer], state: int) -> NDArray[np.integer]:
        """Ends copies, named once or several times; returns those that went on until now."""
        some = np.unique(copies)
        some = some[self.state[some] == RUNNING]
        self.state[some] = state
        self.fresh += some.tolist()
        return np.asarray(some)

    def stop(self, copies: NDArray[np.integer], rule: str, *, refused: bool = False) -> None:
        """Stops copies for breaking a rule. Where threads of one break several in one instruction, its own launch is to
        say which counts."""
        number = reason(why(rule))
        again = np.unique(copies)
        again = again[(self.state[again] == STOPPED) & (self.reason[again] != number)]
        self.state[again] = ALONE
        some = self.end(copies, STOPPED)
        self.reason[some] = number
        self.refused[some] = refused
