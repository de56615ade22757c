"""One fault of a running program: which words it changes, what it makes of them, and when.

flip, set, word, own  strike once, before dynamic instruction `at`; with `until` above at + 1 the struck bits keep their
                      new value up to there
stuck0, stuck1        hold from `at` to before `until`, or to the end (-1): they are applied again before every
                      instruction
doubled               before instruction `at` a second word gets what a word holds, which the instruction in front of
                      that has written
lost                  before instruction `at` a word gets back what it held before the instruction in front of that

A value of `at` below 0 is the start of the run. A fault in registers counts the dynamic instructions of its own warp;
one in shared or Tensor Memory strikes when the warp `case` gets to `at`, and is held before every instruction of any
warp. A fault in a selector concerns the `mma.sp` that the warp executes as `at`; below 0 it concerns all that the warp
executes. An intermittent fault is there in the first `duty` of each `period` instructions from `at` on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits
from simulator.execute.cta_state import CtaState
from simulator.faults.group import STUCK
from simulator.faults.models import BY_NAME, DOUBLED, LOST, OWN, Model, OwnModels, bits_of, own_bits
from simulator.faults.patterns import Pattern
from simulator.faults.spread import Places, Site, places
from simulator.faults.table import MODELS, SITES, Faults
from simulator.faults.targets.register_sites import REGISTER_SITES
from simulator.faults.unit.sites import UNIT_SITES

FOREVER = np.iinfo(np.int64).max
Numbers = NDArray[np.int64]
_NONE: OwnModels = MappingProxyType({})
_HELD = [MODELS.index(name) for name in STUCK]
_STRETCHED = [MODELS.index("selector")]  # of the whole run where no time is given
_UNITS = [SITES.index(name) for name in UNIT_SITES]


def simple(faults: Faults) -> NDArray[np.bool_]:
    """Whether faults are simple, bool [fault] (of one row: one): steady, and in a word that something stores."""
    return steady(faults) & ~np.isin(faults["site"], _UNITS)


def steady(faults: Faults) -> NDArray[np.bool_]:
    """Whether faults have one place each, and are there all the time from their first instruction to their last."""
    return np.asarray((faults["along"] == 0) & (faults["period"] == 0) & ~np.isin(faults["model"], [LOST, DOUBLED]))


class Target(Protocol):
    """What an injection needs to know of its target."""

    @property
    def sites(self) -> dict[str, Site]: ...
    @property
    def own(self) -> OwnModels: ...
    @property
    def patterns(self) -> tuple[Pattern, ...]: ...


class Place(NamedTuple):
    """A word that a fault changes, and the bits that it concerns."""

    word: int
    lane: int
    mask: int


@dataclass
class FaultInjection:
    """One fault of a program.

    Attributes:
        row: the fault's row in the list.
        warp: the warp, over all CTAs, whose instructions are counted; for registers and selectors also the warp that is
            struck.
        cta, local: the CTA of that warp, and the warp's number in it.
        mask: the bits that the fault concerns at its first place.
        first, last: the dynamic instructions between which it is applied.
        places: all its places.
        own: the models of one's own.
        target: what the bits of the first place become; set when the fault first strikes.
        changed: whether the fault has changed anything yet.
        was: the word at the first place before the first strike.
        struck: by number of a place, the bits that the first strike changed.
    """

    row: Any
    site: str
    model: str
    warp: int
    cta: int
    local: int
    word: int
    lane: int
    mask: int
    value: int
    first: int
    last: int
    places: tuple[Place, ...]
    own: OwnModels = field(default_factory=dict, compare=False)
    target: int | None = None
    changed: bool = False
    was: int = 0
    struck: dict[int, int] = field(default_factory=dict)
    _more: dict[int, int] = field(default_factory=dict)
    _before: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, fault: Any, warps: int, target: Target | None = None) -> FaultInjection:
        """The injection that a row of a list describes. The row has been checked already; `warps` is the number of
        warps of a CTA, `target` has the models of one's own and the patterns that the row names."""
        return cls.all_of(np.array([fault]), warps, target)[0]

    @classmethod
    def all_of(cls, faults: Faults, warps: int, target: Target | None = None) -> list[FaultInjection]:
        """The injections that rows of a list describe, see `of`."""
        every, own = Injections.of(faults, warps), _NONE if target is None else target.own
        names = every._fields[2:-2]
        found = []
        for row, *numbers in zip(faults, *(getattr(every, name).tolist() for name in names), strict=True):
            of = dict(zip(names, numbers, strict=True))
            at: tuple[Place, ...] = (Place(of["word"], of["lane"], of["mask"]),)
            site, model = SITES[int(row["site"])], MODELS[int(row["model"])]
            if model == "doubled":
                at += (Place(int(row["word2"]), int(row["lane2"]), of["mask"]),)
            if target is not None and row["along"]:
                at = _places(row, at[0], target.sites[site], target.patterns)
            found.append(cls(row, site, model, value=int(row["value"]), places=at, own=own, **of))
        return found

    @property
    def simple(self) -> bool:
        """Whether the fault is simple."""
        return bool(simple(self.row))

    @property
    def lasting(self) -> bool:
        """Whether the fault is applied more than once."""
        return self.last > self.first + 1

    def there(self, index: int) -> bool:
        """Whether the fault is applied before a dynamic instruction."""
        return self.first <= index < self.last and on_duty(self.row, index - self.first)

    def applied(self, now: int, number: int = 0) -> int:
        """The word at one of the places with the fault in it. The first call decides what the bits of a flip become; of
        a lost write it notes what the second restores. Of a doubled one the first place is the word that is written."""
        if self.model == "lost" and number not in self._before:
            self._before[number] = now
            return now
        if self.model == "doubled":
            if number == 0:
                self.target = now
                return now
            assert self.target is not None
            self.was = now
            self.struck[number] = now ^ self.target
            self.changed |= now != self.target
            return self.target
        mask, target = self.places[number].mask, self.target if number == 0 else self._more.get(number)
        if target is None:
            target = self._becomes(now, mask, number) & 0xFFFFFFFF
            self.struck[number] = (now ^ target) & mask
            if number == 0:
                self.was, self.target = now, target
            self._more[number] = target
        new = now & ~mask | target & mask
        self.changed |= new != now
        return new

    def _becomes(self, now: int, mask: int, number: int) -> int:
        if self.model == "own":
            words = np.array([now], np.uint32), np.array([mask], np.uint32)
            return int(own_bits(np.array([self.row]), words[1], words[0], self.own)[0])
        model: Model = BY_NAME[self.model]
        return int(model.becomes(now, self.value, self._before.get(number, 0)))

    def hit(self, machine: CtaState) -> None:
        """Applies the fault to the state of its CTA. Nothing happens for a selector, which is part of an instruction
        and no state."""
        words = words_of(machine, self.site)
        if words is None:
            return
        for number, (word, lane, _) in enumerate(self.places):
            place = place_of(self.site, self.local, word, lane)
            words[place] = self.applied(int(words[place]), number)


def _places(row: Any, first: Place, site: Site, patterns: tuple[Pattern, ...]) -> tuple[Place, ...]:
    """All places of a fault that has several."""
    faults, mask = np.array([row]), np.array([first.mask], np.uint32)
    begin = Places(np.zeros(1, np.int64), np.array([first.word]), np.array([first.lane]), mask)
    return tuple(Place(*map(int, each)) for each in zip(*places(faults, begin, site, patterns)[1:], strict=True))


def on_duty(fault: Any, since: int) -> bool:
    """Whether an intermittent fault is there, so many instructions after its first; every other fault always is."""
    period = int(fault["period"])
    return not period or since % period < int(fault["duty"])


class Injections(NamedTuple):
    """Many faults of a program, as arrays with an entry for each; attributes as those of `FaultInjection`, with the
    numbers of sites; `struck` has the bits that the first strike changed, zeros before it."""

    faults: Faults
    site: Numbers
    warp: Numbers
    cta: Numbers
    local: Numbers
    word: Numbers
    lane: Numbers
    mask: Bits
    first: Numbers
    last: Numbers
    struck: Bits
    own: OwnModels

    @classmethod
    def of(cls, faults: Faults, warps: int, own: OwnModels = _NONE) -> Injections:
        """The injections that rows of a list describe. The rows have been checked already; `warps` is the number of
        warps of a CTA, `own` the models of one's own."""
        warp, at, until = (faults[name].astype(np.int64) for name in ("case", "at", "until"))
        lost = faults["model"] == LOST
        first = np.maximum(at - lost, 0)
        whole = (np.isin(faults["model"], _STRETCHED) | np.isin(faults["site"], _UNITS)) & (at < 0)
        held = np.isin(faults["model"], _HELD) | whole
        last = np.where(until >= 0, np.maximum(until, first + 1), np.where(held, FOREVER, first + 1))
        last = np.where(lost | (faults["model"] == DOUBLED), np.maximum(at, 0) + 1, last)
        site, word, lane = (faults[name].astype(np.int64) for name in ("site", "word", "lane"))
        return cls(faults, site, warp, *np.divmod(warp, warps), word, lane, bits_of(faults), first, last,
                   np.zeros(len(faults), np.uint32), own)  # fmt: skip

    @property
    def simple(self) -> NDArray[np.bool_]:
        """Whether each fault is simple."""
        return simple(self.faults)

    def some(self, index: Any) -> Injections:
        """Some of the faults."""
        columns: list[Any] = [*(column[index] for column in self[:-1]), self.own]
        return Injections(*columns)

    def becomes(self, some: NDArray[np.intp], now: Bits) -> Bits:
        """What the bits under the mask become where some of the faults first strike the words `now`."""
        models, values, target = self.faults["model"][some], self.faults["value"][some], np.zeros(len(some), np.uint32)
        for number in np.flatnonzero(np.bincount(models)).tolist():
            mine = models == number
            if number == OWN:
                rows = some[mine]
                target[mine] = own_bits(self.faults[rows], self.mask[rows], now[mine], self.own)
            else:
                model: Model = BY_NAME[MODELS[number]]
                target[mine] = model.becomes(now[mine], values[mine], np.uint32(0))
        self.struck[some] = (now ^ target) & self.mask[some]
        return target


def words_of(machine: CtaState, site: str) -> NDArray[Any] | None:
    """The array of words of a site in a CTA: registers [warp, register, lane], shared memory [word] or Tensor Memory
    [lane, column]; None for a selector and for the unit. `place_of` is the index of a word."""
    if site in REGISTER_SITES:
        return machine.registers.banks[REGISTER_SITES[site][0]]
    if site == "shared":
        return machine.shared.data[: len(machine.shared.data) // 4 * 4].view(np.uint32)
    return machine.tmem.words if site == "tmem" else None


def place_of(site: str, warp: int, word: int, lane: int) -> tuple[int, ...]:
    """Where a word lies in the array that `words_of` gives; `warp` is a number within its CTA."""
    if site in REGISTER_SITES:
        return warp, word, lane
    return (word,) if site == "shared" else (lane, word)
