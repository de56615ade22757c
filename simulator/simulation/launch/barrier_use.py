"""How the threads of a launch use barriers of their CTA: warps that come in part, numbers of threads that do not agree,
arrivals that may count in another use of the barrier.

PTX ISA 9.0, 9.7.13.1 (bar, barrier). A use of a barrier begins with its first arrival, and ends with the one that
completes it. An arrival in the next use must come behind all arrivals of this one, or it may as well count in this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simulator.program.kernel import Kernel, Operation
from simulator.program.kernel.flow import follows
from simulator.simulation.launch.barriers import EVERY
from simulator.simulation.launch.threads import AWAY, DONE, Threads
from simulator.state.registers import LANE, WARP_SIZE, Lanes, Warps
from simulator.tables import runs_in_words

DIVERGENCE, MISMATCH, PAIRED = "barrier-divergence", "barrier-mismatch", "barrier-paired"
Mask = NDArray[np.bool_]


class Knowledge(Protocol):
    """What threads know of each other (`simulator.check.memory_model.clocks.Clocks`)."""

    stamp: NDArray[np.int32]

    def known(self, row: Warps, lane: Warps, other: NDArray[Any]) -> NDArray[np.int32]:
        """int32 [n]: the stamps up to which threads (row, lane) know others."""


class Actor(NamedTuple):
    """Who does something: the CTA of the grid, its warp, which lanes (in words), and the place of the instruction."""

    cta: int
    warp: int
    lanes: str
    place: int


@dataclass
class Misuse:
    """A barrier that is not used as it must be.

    Attributes:
        rule: its name.
        who: the thread at which it shows.
        what: what happens, in words.
        other: the other side; None: there is none.
        access: what the other side does, in words.
        where: the barrier, in words.
        also: the places of further instructions.
        count: how often.
    """

    rule: str
    who: Actor
    what: str
    other: Actor | None
    access: str
    where: str
    also: tuple[int, ...] = ()
    count: int = 1


@dataclass
class Misuses:
    """What was found so far in a launch, by rule and places."""

    found: dict[tuple[object, ...], Misuse] = field(default_factory=dict)

    def add(self, misuse: Misuse) -> None:
        """Adds one; those with the same rule and places are one."""
        key = misuse.rule, misuse.who.place, misuse.other.place if misuse.other else -1
        if key in self.found:
            self.found[key].count += misuse.count
        else:
            self.found[key] = misuse


class Arrival(NamedTuple):
    """Threads of a warp that arrive at a barrier.

    Attributes:
        place: of the instruction.
        row: of the warp.
        lanes: bool [lane].
        threads: how many they count for.
        wanted: for how many threads the barrier waits, as they say; EVERY: for all of the CTA.
        stamp: of the warp, when it arrived.
        missing: bool [lane]: of an aligned barrier, threads that have not come.
        ranks: int32 [lane]: the ranks at which the threads of the warp were then.
    """

    place: int
    row: int
    lanes: Mask
    threads: int
    wanted: int
    stamp: int
    missing: Mask
    ranks: NDArray[np.int32]


class BarrierUse:
    """Follows the barriers of the CTAs of a batch."""

    def __init__(self, kernel: Kernel, ctas: Sequence[int], warps: int, threads: Threads, misuses: Misuses) -> None:
        self.kernel, self.ctas, self.warps, self.threads, self.misuses = kernel, ctas, warps, threads, misuses
        self.knowledge: Knowledge | None = None
        self._place_of = {rank: place for place, rank in enumerate(kernel.rank)}
        self._open: dict[tuple[int, int], list[Arrival]] = {}
        self._last: dict[tuple[int, int], list[Arrival]] = {}
        self._reached: dict[int, frozenset[int]] = {}

    def arrives(
        self, place: int, lanes: Lanes, number: NDArray[Any], wanted: NDArray[Any] | None, aligned: bool, held: Lanes
    ) -> None:
        """Threads, bool [row, lane], arrive at the barrier `number` [row] of their CTA; called before it counts them.

        Args:
            wanted: int [row]: for how many threads it waits; None for all of the CTA.
            aligned: whether all threads of a warp must come.
            held: bool [row, lane]: threads that their guard lets pass by.
        """
        live = self.threads.live
        for row in np.flatnonzero(lanes.any(axis=1)).tolist():
            ranks = np.where(self.threads.at[row] == AWAY, self.threads.back[row], self.threads.at[row])
            ranks = np.where(held[row], self.kernel.rank[min(place + 1, len(self.kernel.rank) - 1)], ranks)
            missing = live[row] & ~lanes[row] if aligned else np.zeros(WARP_SIZE, np.bool_)
            count = WARP_SIZE if aligned and wanted is not None else int(lanes[row].sum())
            stamp = int(self.knowledge.stamp[row]) if self.knowledge is not None else 0
            told = EVERY if wanted is None else int(wanted[row])
            arrival = Arrival(place, row, lanes[row].copy(), count, told, stamp, missing, ranks)
            key = row // self.warps, int(number[row])
            self._open.setdefault(key, []).append(arrival)
            if told != EVERY and not missing.any():
                self._unordered(key, arrival)

    def completes(self, cta: int, number: int) -> None:
        """A barrier of a CTA of the batch is complete, and the use ends."""
        arrivals = self._open.pop((cta, number), [])
        self._last[cta, number] = arrivals
        self._judge((cta, number), arrivals, over=True)

    def ends(self) -> None:
        """The run ends; threads that still wait do so for ever."""
        for key, arrivals in self._open.items():
            self._judge(key, arrivals, over=False)
        self._open = {}

    # Judgement

    def _judge(self, key: tuple[int, int], arrivals: list[Arrival], *, over: bool) -> None:
        if any(arrival.missing.any() for arrival in arrivals):
            self._divergent(key, arrivals, over=over)
        elif not self._disagree(key, arrivals):
            self._too_many(key, arrivals)
        self._paired(key, arrivals)

    def _disagree(self, key: tuple[int, int], arrivals: list[Arrival]) -> bool:
        """Whether the warps of one use give different numbers of threads, which is told."""
        own = slice(key[0] * self.warps, (key[0] + 1) * self.warps)
        every = {int(self.threads.exists[own].sum()), int(self.threads.live[own].sum())}
        every |= {-(-count // WARP_SIZE) * WARP_SIZE for count in every}
        first = arrivals[0]
        for arrival in arrivals:
            one, other = first.wanted, arrival.wanted
            if one == other or (EVERY in (one, other) and {one, other} - {EVERY} <= every):
                continue
            what = f"barrier {key[1]} waits for {_threads(other)} here, and for {_threads(one)} at line {{other}}"
            self._add(MISMATCH, key, arrival, first, what, f"waits for {_threads(one)}")
            return True
        return False

    def _too_many(self, key: tuple[int, int], arrivals: list[Arrival]) -> None:
        """Tells of arrivals in one use that are more than it waits for."""
        total, wanted = sum(arrival.threads for arrival in arrivals), arrivals[0].wanted
        if wanted == EVERY or total <= wanted:
            return
        warps = runs_in_words(sorted({arrival.row % self.warps for arrival in arrivals}))
        what = f"{total} threads, those of warps {warps}, arrive at barrier {key[1]}, which waits for {wanted}"
        self._add(MISMATCH, key, arrivals[-1], arrivals[0], what, "arrives")

    def _unordered(self, key: tuple[int, int], arrival: Arrival) -> None:
        """Tells of an arrival that nothing orders behind those of the use before."""
        last = [each for each in self._last.get(key, ()) if each.row != arrival.row and not each.missing.any()]
        if self.knowledge is None or not last:
            return
        lanes = np.flatnonzero(arrival.lanes)
        rows = np.full(len(lanes), arrival.row)
        for each in last:
            other = np.full(len(lanes), each.row * WARP_SIZE + int(each.lanes.argmax()))
            if int(self.knowledge.known(rows, lanes, other).max()) < each.stamp:
                warps = runs_in_words(sorted({one.row % self.warps for one in (*last, arrival)}))
                what = (
                    f"the arrival at barrier {key[1]}, which waits for {_threads(arrival.wanted)}, may count in the "
                    f"use before: nothing orders it behind the arrival of warp {each.row % self.warps} at line "
                    f"{{other}}; warps {warps} share the barrier"
                )
                self._add(MISMATCH, key, arrival, each, what, "arrives")
                return

    def _paired(self, key: tuple[int, int], arrivals: list[Arrival]) -> None:
        """Notes warps that meet at a barrier of all threads from different lines."""
        places = sorted({arrival.place for arrival in arrivals})
        if len(places) < 2 or any(arrival.wanted != EVERY or arrival.missing.any() for arrival in arrivals):
            return
        one, other = (next(each for each in arrivals if each.place == place) for place in (places[-1], places[0]))
        what = f"warps meet at barrier {key[1]} from different lines: this one, and line {{other}}"
        self._add(PAIRED, key, one, other, what, "arrives", tuple(places[1:-1]))

    # Warps that come in part

    def _divergent(self, key: tuple[int, int], arrivals: list[Arrival], *, over: bool) -> None:
        told: set[tuple[int, frozenset[int]]] = set()
        for arrival in arrivals:
            here = np.logical_or.reduce(
                [each.lanes for each in arrivals if (each.row, each.place) == (arrival.row, arrival.place)]
            )
            missing = arrival.missing & ~here
            at = self._elsewhere(arrival, missing, arrivals, over=over)
            if at is None:
                continue
            rank, lanes = at
            other = arrival._replace(place=self._place_of[rank], lanes=lanes)
            sides = arrival.row, frozenset((arrival.place, other.place))
            if sides in told:
                continue
            told.add(sides)
            item = self.kernel.items[other.place]
            what = (
                f"{_lanes(here)} of warp {arrival.row % self.warps} come to barrier {key[1]} without {_lanes(lanes)}, "
                f"which went on to line {item.line}"
            )
            self._add(DIVERGENCE, key, arrival._replace(lanes=here), other, what, "is elsewhere")

    def _elsewhere(
        self, arrival: Arrival, missing: Mask, arrivals: list[Arrival], *, over: bool
    ) -> tuple[int, Mask] | None:
        """The rank at which threads of a warp are, or were, that an aligned barrier misses, and which these are; None
        if all are on the way to it, or went off to exit."""
        row = arrival.row
        now = self.threads.at[row]
        for each in arrivals:
            if each.row == row and each.place != arrival.place and (each.lanes & missing).any():
                return self.kernel.rank[each.place], each.lanes & missing
        waiting = missing & (now == AWAY)
        for rank in np.unique(self.threads.back[row][waiting]).tolist():
            place = self._place_of[rank]
            if not self.threads.parked[row][waiting & (self.threads.back[row] == rank)].any():
                place -= 1  # threads that wait at a barrier go on behind it
            if not over or arrival.place not in self._reach(place):
                return self.kernel.rank[place], waiting & (self.threads.back[row] == rank)
        for rank in np.unique(arrival.ranks[missing & ~waiting]).tolist():
            lanes = missing & ~waiting & (arrival.ranks == rank)
            gone = lanes & (now == DONE)
            place = self._place_of.get(rank, -1)
            if place >= 0 and (gone.any() or arrival.place not in self._reach(place)):
                common = self._reach(place) & self._reach(arrival.place + 1)
                if any(isinstance(self.kernel.items[each], Operation) for each in common):
                    return rank, lanes
        return None

    def _reach(self, place: int) -> frozenset[int]:
        """The places that threads may come to from a place, itself among them."""
        if place not in self._reached:
            seen, left = {place}, [place]
            while left:
                for each in follows(self.kernel.items[left.pop()]):
                    if each not in seen and each < len(self.kernel.items):
                        seen.add(each)
                        left.append(each)
            self._reached[place] = frozenset(seen)
        return self._reached[place]

    def _add(
        self, rule: str, key: tuple[int, int], arrival: Arrival, other: Arrival, what: str, access: str,
        also: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        line = self.kernel.items[other.place].line
        self.misuses.add(
            Misuse(rule, self._actor(arrival), what.format(other=line), self._actor(other), access,
                   f"barrier {key[1]}", also)
        )  # fmt: skip

    def _actor(self, arrival: Arrival) -> Actor:
        cta, warp = divmod(arrival.row, self.warps)
        lanes = "" if arrival.lanes.all() else _lanes(arrival.lanes)
        return Actor(int(self.ctas[cta]), warp, lanes, arrival.place)


def _threads(wanted: int) -> str:
    return "all threads" if wanted == EVERY else f"{wanted} threads"


def _lanes(lanes: Mask) -> str:
    return f"lane{'s' if lanes.sum() > 1 else ''} {runs_in_words(LANE[lanes].tolist())}"
