"""What the warps of some CTAs executed, in order, and what each access cost: what the time of a launch is made from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.execute.cta_state import Outcome
from simulator.state.registers import WARP_SIZE, Lanes, Warps
from simulator.timing.kernel.replay import Executed


@dataclass(frozen=True)
class Recording:
    """What the warps of one CTA executed.

    Attributes:
        cta: its number in the grid, x first.
        steps: by warp, in the order of execution.
    """

    cta: int
    steps: list[list[Executed]]

    @property
    def warp_instructions(self) -> int:
        """Items that the warps executed."""
        return sum(len(steps) for steps in self.steps)


class Recorder:
    """Notes every item that the rows of a batch execute; given to `Run` as `note`."""

    def __init__(self, rows: int) -> None:
        self.steps: list[list[Executed]] = [[] for _ in range(rows)]

    def __call__(self, place: int, rows: Warps, lanes: Lanes | None, outcome: Outcome) -> None:
        counts = [WARP_SIZE] * len(rows) if lanes is None else lanes.sum(axis=1).tolist()
        waves = [0] * len(rows) if outcome.wavefronts is None else outcome.wavefronts.tolist()
        facts = outcome.facts or (None,) * len(rows)
        for row, count, wave, fact in zip(rows.tolist(), counts, waves, facts, strict=True):
            self.steps[row].append(Executed(place, count, wave, fact))

    def recordings(self, ctas: NDArray[np.int64], warps: int) -> list[Recording]:
        """The recordings of a batch of these CTAs, of `warps` warps each."""
        return [Recording(int(cta), self.steps[index * warps : (index + 1) * warps]) for index, cta in enumerate(ctas)]
