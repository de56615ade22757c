"""One fault of a running program: which word it changes, what it makes of it, and when.

flip, set, word  strike once, before dynamic instruction `at`; with `until` above at + 1 the struck bits keep their new
                 value up to there
stuck0, stuck1   hold from `at` to before `until`, or to the end (-1): they are applied again before every instruction

A value of `at` below 0 is the start of the run. A fault in registers counts the dynamic instructions of its own warp;
one in shared or Tensor Memory strikes when the warp `case` gets to `at`, and is held before every instruction of any
warp. A fault in a selector concerns the `mma.sp` that the warp executes as `at`; below 0 it concerns all that the warp
executes. A fault of the tensor core unit (`simulator.faults.unit`) concerns matrix instructions: one that strikes once,
the one that the warp executes as `at`; one that lasts, or whose `at` is below 0, those of all warps of its sub-core.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.execute.cta_state import CtaState
from simulator.faults.models import BY_NAME, Model, bits_of
from simulator.faults.table import MODELS, SITES
from simulator.faults.unit.sites import UNIT_SITES

FOREVER = np.iinfo(np.int64).max


@dataclass
class FaultInjection:
    """One fault of a program.

    Attributes:
        row: the fault's row in the list.
        warp: the warp, over all CTAs, whose instructions are counted; for registers and selectors also the warp that is
            struck.
        cta, local: the CTA of that warp, and the warp's number in it.
        mask: the bits that the fault concerns.
        first, last: the dynamic instructions between which it is applied.
        target: what the bits become; set when the fault first strikes.
        changed: whether the fault has changed anything yet.
        was: the word before the first strike.
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
    target: int | None = None
    changed: bool = False
    was: int = 0

    @classmethod
    def of(cls, fault: Any, warps: int) -> FaultInjection:
        """The injection that a row of a list describes. The row has been checked already; `warps` is the number of
        warps of a CTA."""
        site, model = SITES[int(fault["site"])], MODELS[int(fault["model"])]
        warp, start, until, word, lane, value = (
            int(fault[n]) for n in ("case", "at", "until", "word", "lane", "value")
        )
        first = max(start, 0)
        held = model in ("stuck0", "stuck1") or ((model == "selector" or site in UNIT_SITES) and start < 0)
        last = max(until, first + 1) if until >= 0 else FOREVER if held else first + 1
        cta, local = divmod(warp, warps)
        return cls(fault, site, model, warp, cta, local, word, lane, int(bits_of(fault)), value, first, last)

    @property
    def lasting(self) -> bool:
        """Whether the fault is applied more than once."""
        return self.last > self.first + 1

    def applied(self, now: int) -> int:
        """The word with the fault in it. The first call decides what the bits of a flip become."""
        if self.target is None:
            model: Model = BY_NAME[self.model]
            self.was, self.target = now, model.becomes(now, self.value, 0) & 0xFFFFFFFF
        new = now & ~self.mask | self.target & self.mask
        self.changed |= new != now
        return new

    def hit(self, machine: CtaState) -> None:
        """Applies the fault to the state of its CTA. Nothing happens for a selector, which is part of an instruction
        and no state."""
        words = words_of(machine, self.site)
        if words is not None:
            place = {"registers": (self.local, self.word, self.lane), "shared": (self.word,)}
            place_of_word = place.get(self.site, (self.lane, self.word))
            words[place_of_word] = self.applied(int(words[place_of_word]))


def words_of(machine: CtaState, site: str) -> NDArray[np.uint32] | None:
    """The array of words of a site in a CTA: registers [warp, register, lane], shared memory [word] or Tensor Memory
    [lane, column]; None for a selector and for the unit."""
    if site == "registers":
        return machine.registers.values
    if site == "shared":
        return machine.shared.data[: len(machine.shared.data) // 4 * 4].view(np.uint32)
    return machine.tmem.words if site == "tmem" else None
