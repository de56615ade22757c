"""Vector clocks of a log: what each warp may rely on, and what an mbarrier hands on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.execute.barrier import barrier_of
from simulator.execute.events import Event
from simulator.state.mbarrier import PhaseCounter

Clock = NDArray[np.int32]
Actor = tuple[int, int]  # CTA, warp


@dataclass
class Knowledge:
    """What a warp may rely on.

    Attributes:
        seen: what happened before its next ordinary instruction.
        ordered: what its next asynchronous tcgen05 instruction comes after.
        fenced: of that, what lies before a tcgen05.fence::before_thread_sync, so that a barrier hands it on.
        received: what barriers handed to it, and the next tcgen05.fence::after_thread_sync makes `ordered`.
        proxied: ordinary accesses before a fence.proxy.async.
        snapshot: what was seen, fenced and proxied at its last memory fence, which a relaxed arrival releases.
        relaxed: what relaxed waits have seen, and the next memory fence acquires.
    """

    seen: Clock
    ordered: Clock
    fenced: Clock
    received: Clock
    proxied: Clock
    snapshot: tuple[Clock, Clock, Clock] | None = None
    relaxed: list[tuple[Clock, Clock, Clock]] = field(default_factory=list)

    @classmethod
    def nothing(cls, size: int) -> Knowledge:
        seen, ordered, fenced, received, proxied = np.zeros((5, size), np.int32)
        return cls(seen, ordered, fenced, received, proxied)

    def released(self) -> tuple[Clock, Clock, Clock]:
        """What an arrival hands on: seen, tcgen05-ordered, proxied."""
        return self.seen.copy(), np.maximum(self.fenced, self.received), self.proxied.copy()

    def acquire(self, known: tuple[Clock, Clock, Clock]) -> None:
        for mine, other in zip((self.seen, self.received, self.proxied), known, strict=True):
            np.maximum(mine, other, out=mine)

    def acquire_relaxed(self) -> None:
        """A memory fence after relaxed waits."""
        for known in self.relaxed:
            self.acquire(known)
        self.relaxed.clear()

    def complete(self, unit: int, count: int) -> None:
        """A wait of its own: this much of a unit is complete."""
        self.seen[unit] = self.ordered[unit] = count


def join(into: list[Clock], known: Iterable[Clock]) -> list[Clock]:
    """What both say, clock by clock; `into` may be empty."""
    known = list(known)
    return [np.maximum(mine, other) for mine, other in zip(into, known, strict=True)] if into else known


@dataclass
class Mbarrier(PhaseCounter):
    """An mbarrier, replayed from the log.

    Attributes:
        owner, created: the component of the warp that initialised it, and that warp's count then.
        line: of the mbarrier.init.
        released: what those who arrived have released so far.
        phases: what each completed phase has released.
    """

    owner: int = 0
    created: int = 0
    line: int = 0
    released: list[Clock] = field(default_factory=list)
    phases: list[list[Clock]] = field(default_factory=list)

    def arrived(self) -> None:
        """After arrivals or bytes: hands on what is released if they complete the phase."""
        if self.settle():
            self.phases.append(list(self.released))

    def handed_on(self, parity: int | None) -> list[Clock]:
        """What the phase that a wait of this parity is for has released."""
        if not self.phases:
            return []
        last = len(self.phases) - 1
        if parity is not None and last & 1 != parity and last:
            last -= 1
        return self.phases[last]


def departures(events: Sequence[Event], warps: int) -> dict[tuple[int, int], tuple[int, list[Actor]]]:
    """For each warp that leaves a barrier, (number of event, place in it): which time that is, and who left with it."""
    left: dict[tuple[int, int], tuple[int, list[Actor]]] = {}
    filling: dict[tuple[int, int], tuple[int, list[Actor]]] = {}
    turn = 0
    for index, event in enumerate(events):
        named = barrier_of(event.instruction)
        if named is None:
            continue
        wanted, key = named[1] or warps, (event.cta, named[0])
        for place, (warp, _) in enumerate(event.threads):
            if key not in filling:
                turn += 1
                filling[key] = turn, []
            left[index, place] = filling[key]
            members = filling[key][1]
            members.append((event.cta, warp))
            if len(members) >= wanted:
                del filling[key]
    return left
