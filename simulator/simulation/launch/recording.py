"""What the warps of some CTAs executed, in order, and what each access cost: what the time of a launch is made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from isa.forms.synchronisation import sees_other_threads
from simulator.chip.config import Config
from simulator.compiler.kernel.regions import Executed
from simulator.execute.cta_state import Outcome
from simulator.execute.dynamic_info import Fact, WaitFacts
from simulator.program.kernel import Kernel, Operation
from simulator.simulation.demand import Work, work_of
from simulator.state.registers import WARP_SIZE, Lanes, Warps


@dataclass(frozen=True)
class Recording:
    """What the warps of one CTA executed.

    Attributes:
        cta: its number in the grid, x first.
        steps: by warp, in the order of execution.
        stamps: by warp, when each was executed: a number that grows.
        looks: of loops that waited for other threads, by warp and index of the last look: the stamps of the first look
            and of the last.
    """

    cta: int
    steps: list[list[Executed]]
    stamps: list[list[int]] = field(default_factory=list)
    looks: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

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

    def __init__(self, wanted: NDArray[np.bool_], stamp: int = 0) -> None:
        self.wanted = wanted.tolist()
        self.steps: list[list[Executed]] = [[] for _ in self.wanted]
        self.stamps: list[list[int]] = [[] for _ in self.wanted]
        self.stamp = stamp  # of what is executed next

    def __call__(self, place: int, rows: Warps, lanes: Lanes | None, outcome: Outcome) -> None:
        counts = [WARP_SIZE] * len(rows) if lanes is None else lanes.sum(axis=1).tolist()
        waves = [0] * len(rows) if outcome.wavefronts is None else outcome.wavefronts.tolist()
        facts = outcome.facts or (None,) * len(rows)
        self.stamp += 1
        for row, count, wave, fact in zip(rows.tolist(), counts, waves, facts, strict=True):
            if self.wanted[row]:
                self.steps[row].append(Executed(place, count, wave, fact))
                self.stamps[row].append(self.stamp)

    def recordings(self, ctas: NDArray[np.int64], warps: int, kernel: Kernel) -> list[Recording]:
        """The recordings of the wanted CTAs among these, of `warps` warps each. Of a loop that waits for other threads
        one turn is kept: how long the chip waits is not known."""
        seeing = {
            place
            for place, item in enumerate(kernel.items)
            if isinstance(item, Operation) and sees_other_threads(item.instruction.form)
        }
        found = []
        for index, cta in enumerate(ctas):
            if not self.wanted[index * warps]:
                continue
            own = slice(index * warps, (index + 1) * warps)
            recording = Recording(int(cta), [], [])
            for warp, (steps, stamps) in enumerate(zip(self.steps[own], self.stamps[own], strict=True)):
                kept, times, looks = waited_once(steps, stamps, seeing) if seeing else (steps, stamps, {})
                recording.steps.append(kept)
                recording.stamps.append(times)
                recording.looks.update({(warp, place): look for place, look in looks.items()})
            found.append(recording)
        return found


LONGEST_WAIT = 8  # items of a loop that does nothing but wait


def waited_once(
    steps: list[Executed], stamps: list[int], seeing: set[int]
) -> tuple[list[Executed], list[int], dict[int, tuple[int, int]]]:
    """The steps of a warp and their stamps without the turns of loops that wait, but for the last of each: a place that
    looks at what others write, and comes again within LONGEST_WAIT items; not one that has found the phase of an
    mbarrier complete. Besides, by index of these looks, the stamps of the first and of the last."""
    kept: list[Executed] = []
    times: list[int] = []
    looks: dict[int, tuple[int, int]] = {}
    last: dict[int, int] = {}
    for step, stamp in zip(steps, stamps, strict=True):
        if step.place in seeing:
            before = last.get(step.place)
            if before is not None and 0 < len(kept) - before <= LONGEST_WAIT and _waits(kept[before], step):
                begin = looks.get(before, (times[before], 0))[0]
                for gone in [place for place in looks if place >= before]:
                    del looks[gone]
                del kept[before:], times[before:]
                looks[before] = begin, stamp
            last[step.place] = len(kept)
        kept.append(step)
        times.append(stamp)
    return kept, times, looks


def _waits(before: Executed, step: Executed) -> bool:
    """Whether a look is that before it again, which has found nothing."""
    return before.place == step.place and not isinstance(before.fact, WaitFacts)
