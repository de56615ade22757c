"""Vector clocks: what each warp of a recorded run may rely on, and what an mbarrier hands from warp to warp.

A clock is int32 [component]: for each warp and each asynchronous unit, how many of its first instructions count as
ordered before.
"""

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
    """The clocks that say what a warp may rely on.

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
        """That of a warp at the start: all of its `size` components are 0."""
        seen, ordered, fenced, received, proxied = np.zeros((5, size), np.int32)
        return cls(seen, ordered, fenced, received, proxied)

    def released(self, *, relaxed: bool = False) -> tuple[Clock, Clock, Clock]:
        """The clocks that an arrival hands on: seen, tcgen05-ordered, proxied. A relaxed one hands on what was seen at
        the last memory fence, and what a tcgen05.fence::before_thread_sync stands behind (PTX ISA 9.0, 9.7.16.6.4)."""
        ordered = np.maximum(self.fenced, self.received)
        if not relaxed:
            return self.seen.copy(), ordered, self.proxied.copy()
        if self.snapshot is None:
            return np.zeros_like(self.seen), ordered, np.zeros_like(self.proxied)
        return self.snapshot[0], ordered, self.snapshot[2]

    def acquire(self, released: tuple[Clock, Clock, Clock]) -> None:
        """Takes over clocks that others released: seen, tcgen05-ordered, proxied."""
        for mine, other in zip((self.seen, self.received, self.proxied), released, strict=True):
            np.maximum(mine, other, out=mine)

    def look(self, released: tuple[Clock, Clock, Clock]) -> None:
        """Takes over, as a relaxed wait does, what the next tcgen05.fence::after_thread_sync orders; the rest at the
        next memory fence."""
        np.maximum(self.received, released[1], out=self.received)
        self.relaxed.append(released)

    def acquire_relaxed(self) -> None:
        """Takes over what relaxed waits have seen, as a memory fence after them does."""
        for released in self.relaxed:
            self.acquire(released)
        self.relaxed.clear()

    def complete(self, unit: int, count: int) -> None:
        """Notes that the first `count` instructions of a unit are complete, as a wait of this warp has shown."""
        self.seen[unit] = self.ordered[unit] = count


def join(into: list[Clock], others: Iterable[Clock]) -> list[Clock]:
    """The maximum of both, clock by clock; `into` may be empty."""
    others = list(others)
    return [np.maximum(mine, other) for mine, other in zip(into, others, strict=True)] if into else others


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
        """Called after arrivals or bytes: if they complete the phase, keeps what it hands on."""
        if self.settle():
            self.phases.append(list(self.released))

    def reach(self, phase: int) -> None:
        """Notes that so many phases are complete, as the run itself has counted them."""
        while len(self.phases) < phase:
            self.phases.append(list(self.released))

    def handed_on(self, parity: int | None) -> list[Clock]:
        """The clocks released by the phase that a wait of this parity (None: the last phase) is for."""
        if not self.phases:
            return []
        last = len(self.phases) - 1
        if parity is not None and last & 1 != parity and last:
            last -= 1
        return self.phases[last]


def departures(events: Sequence[Event], warps: int) -> dict[tuple[int, int], tuple[int, list[Actor]]]:
    """For each warp that leaves a barrier, by (number of the event, place in it): the number of the barrier's use, and
    the warps that left with it."""
    left: dict[tuple[int, int], tuple[int, list[Actor]]] = {}
    filling: dict[tuple[int, int], tuple[int, list[Actor]]] = {}
    turn = 0
    for index, event in enumerate(events):
        named = barrier_of(event.instruction)
        if named is None:
            continue
        expected, key = named[1] or warps, (event.cta, named[0])
        for place, (warp, _) in enumerate(event.threads):
            if key not in filling:
                turn += 1
                filling[key] = turn, []
            left[index, place] = filling[key]
            members = filling[key][1]
            members.append((event.cta, warp))
            if len(members) >= expected:
                del filling[key]
    return left
