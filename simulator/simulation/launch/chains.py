"""CTAs that wait for one another: whose store, addition or exchange ended which wait.

A thread that looks in a loop for what another CTA writes goes on after the last such write before its last look. Where
all CTAs of a launch are on an SM each, they are timed together, and a wait is over when that write has come to L2.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from isa.forms.synchronisation import is_atomic, sees_as_load
from simulator.chip.config import Config
from simulator.compiler.kernel.regions import Executed
from simulator.compiler.kernel.replay import Marks
from simulator.execute.dynamic_info import FetchFacts, FetchKind
from simulator.program.kernel import Kernel, Operation
from simulator.simulation.launch.batches import Setup, waits_for_clusters
from simulator.simulation.launch.recording import Recording

MOST = 132  # CTAs that are timed together: each is an SM to simulate


class Place(NamedTuple):
    """One execution of an instruction: by the warp of a CTA, as an index into what the warp executed."""

    cta: int
    warp: int
    step: int


class Link(NamedTuple):
    """A write, and a wait that it ended."""

    write: Place
    wait: Place


def may_wait(setup: Setup, config: Config) -> bool:
    """Whether the CTAs of a launch may have to be timed together."""
    few = 1 < setup.geometry.ctas <= min(config.chip.sms, MOST)
    return few and config.mbarrier is not None and config.memory is not None and waits_for_clusters(setup.kernel)


def links(recordings: Sequence[Recording], kernel: Kernel) -> list[Link]:
    """The waits that writes of other CTAs ended, and these writes."""
    writes: dict[int, list[tuple[int, Place]]] = defaultdict(list)
    for recording in recordings:
        for warp, (steps, stamps) in enumerate(zip(recording.steps, recording.stamps, strict=True)):
            for index, (step, stamp) in enumerate(zip(steps, stamps, strict=True)):
                if isinstance(step.fact, FetchFacts) and _writes(step, kernel):
                    for sector in step.fact.where:
                        writes[sector].append((stamp, Place(recording.cta, warp, index)))
    for each in writes.values():
        each.sort()
    found = []
    for recording in recordings:
        for (warp, index), (begin, end) in recording.looks.items():
            step = recording.steps[warp][index]
            fact, item = step.fact, kernel.items[step.place]
            if not isinstance(item, Operation) or not sees_as_load(item.instruction.form):
                continue  # an atomic operation may do something else than wait
            candidates = [
                write
                for sector in (fact.where if isinstance(fact, FetchFacts) else ())
                for write in writes[sector][: bisect_right(writes[sector], (end, Place(1 << 62, 0, 0)))]
                if write[0] > begin and write[1].cta != recording.cta
            ]
            if candidates:
                found.append(Link(max(candidates)[1], Place(recording.cta, warp, index)))
    return found


def _writes(step: Executed, kernel: Kernel) -> bool:
    item = kernel.items[step.place]
    atomic = isinstance(item, Operation) and is_atomic(item.instruction.form)
    return atomic or (isinstance(step.fact, FetchFacts) and step.fact.kind is FetchKind.STORE)


def marks(chain: Sequence[Link], ctas: Sequence[int], warps: int) -> dict[tuple[int, int], Marks]:
    """What a replay has to do beside the executions of warps, by the number of the warp and the index of the execution;
    `ctas` are on an SM each, in this order."""
    number = {cta: place * warps for place, cta in enumerate(ctas)}
    found: dict[tuple[int, int], Marks] = defaultdict(lambda: Marks([], []))
    for name, link in enumerate(chain):
        found[number[link.write.cta] + link.write.warp, link.write.step].posts.append(name)
        found[number[link.wait.cta] + link.wait.warp, link.wait.step].waits.append(name)
    return dict(found)
