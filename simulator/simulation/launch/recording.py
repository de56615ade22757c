"""What the warps of some CTAs executed, in order, and what each access cost: what the time of a launch is made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from isa.forms.synchronisation import sees_other_threads
from simulator.execute.cta_state import Outcome
from simulator.execute.dynamic_info import Fact
from simulator.program.kernel import Kernel, Operation
from simulator.simulation.demand import Work, work_of
from simulator.state.registers import WARP_SIZE, Lanes, Warps
from simulator.timing.config import Config
from simulator.timing.kernel.executed import Executed


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
        """Items that the warps executed, and branches under a predicate."""
        return sum(len(steps) for steps in self.steps)


def work_of_recordings(config: Config, kernel: Kernel, recordings: Sequence[Recording]) -> Work:
    """The least work of the CTAs that these recordings are of. What a guard leaves out of an access counts, too."""
    counts: Counter[int] = Counter()
    facts: Counter[Fact] = Counter()
    accessed = 0
    for step in chain.from_iterable(steps for recording in recordings for steps in recording.steps):
        item = kernel.items[step.place]
        if not isinstance(item, Operation):
            continue
        counts[step.place] += 1
        access = item.instruction.form.access
        if step.fact is not None:
            facts[step.fact] += 1
        elif access is not None and step.wavefronts:
            accessed += step.lanes * access.bytes
    operations = ((kernel.items[place], count) for place, count in counts.items())
    instructions = [(item.instruction, count) for item, count in operations if isinstance(item, Operation)]
    return work_of(config, instructions, facts, accessed, 1)


class Recorder:
    """Notes every item that the rows of a batch execute; given to `Run` as `note`.

    Attributes:
        wanted: bool [row]: those that are noted.
    """

    def __init__(self, wanted: NDArray[np.bool_]) -> None:
        self.wanted = wanted.tolist()
        self.steps: list[list[Executed]] = [[] for _ in self.wanted]

    def __call__(self, place: int, rows: Warps, lanes: Lanes | None, outcome: Outcome) -> None:
        counts = [WARP_SIZE] * len(rows) if lanes is None else lanes.sum(axis=1).tolist()
        waves = [0] * len(rows) if outcome.wavefronts is None else outcome.wavefronts.tolist()
        facts = outcome.facts or (None,) * len(rows)
        for row, count, wave, fact in zip(rows.tolist(), counts, waves, facts, strict=True):
            if self.wanted[row]:
                self.steps[row].append(Executed(place, count, wave, fact))

    def recordings(self, ctas: NDArray[np.int64], warps: int, kernel: Kernel) -> list[Recording]:
        """The recordings of the wanted CTAs among these, of `warps` warps each. Of a loop that waits for other threads
        one turn is kept: how long the chip waits is not known."""
        seeing = {
            place
            for place, item in enumerate(kernel.items)
            if isinstance(item, Operation) and sees_other_threads(item.instruction.form)
        }
        steps = [waited_once(steps, seeing) for steps in self.steps] if seeing else self.steps
        return [
            Recording(int(cta), steps[index * warps : (index + 1) * warps])
            for index, cta in enumerate(ctas)
            if self.wanted[index * warps]
        ]


LONGEST_WAIT = 8  # items of a loop that does nothing but wait


def waited_once(steps: list[Executed], seeing: set[int]) -> list[Executed]:
    """The steps of a warp without the turns of loops that wait, but for the last of each: a place that looks at what
    others write, and comes again within LONGEST_WAIT items."""
    kept: list[Executed] = []
    last: dict[int, int] = {}
    for step in steps:
        if step.place in seeing:
            before = last.get(step.place)
            if before is not None and 0 < len(kept) - before <= LONGEST_WAIT and kept[before].place == step.place:
                del kept[before:]
            last[step.place] = len(kept)
        kept.append(step)
    return kept
