"""Which threads are followed, and the races that were met among them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.check.memory_model.races import Party, Races


@dataclass
class Ledger:
    """The threads that are followed, batch after batch.

    Attributes:
        warps, cluster: warps of a CTA, CTAs of a cluster.
        ctas: of each batch, the numbers of its CTAs.
        races: that were met.
    """

    warps: int
    cluster: int
    ctas: list[NDArray[np.int64]] = field(default_factory=list)
    races: Races = field(default_factory=Races)

    @property
    def rows(self) -> int:
        """Warps that have been followed so far."""
        return sum(len(each) for each in self.ctas) * self.warps

    def party(self, row: int, lane: int, place: int, access: str = "reads") -> Party:
        """A side, of the row of a warp among all that are followed."""
        return Party(place, int(np.concatenate(self.ctas)[row // self.warps]), row % self.warps, lane, access)
