"""What a fault does to a word, and when: the part that whole traces and their batches share.

flip, set, word    strike once, before dynamic instruction `at`; with `until` above at + 1 the struck bits keep their
new value up to there stuck0, stuck1     hold from `at` to before `until`, or to the end (-1): they are applied again
before every instruction

`at` below 0 is the start of the run. A fault in registers counts the dynamic instructions of its own warp; one in
shared or Tensor Memory strikes when the warp `case` gets to `at`, and is held before every instruction of any warp.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import ConfigError
from simulator.execute.cta_state import CtaState
from simulator.faults.table import MODELS, SITES

FOREVER = np.iinfo(np.int64).max
TRACE_SITES = ("registers", "shared", "tmem", "selector")
TRACE_MODELS = ("flip", "stuck0", "stuck1", "set", "word", "selector")


@dataclass
class FaultInjection:
    """One fault of a trace, in words.

    Attributes:
        warp: whose time counts, over all CTAs; and whose register or instruction it is.
        cta, local: its CTA, and its number there.
        mask: bits that it concerns.
        first, last: dynamic instructions between which it is applied.
        target: what the bits become, once that is known.
        changed: whether it has changed anything.
        was: the word before it struck first.
    """

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
    target: int | None = field(default=None)
    changed: bool = False
    was: int = 0

    @property
    def lasting(self) -> bool:
        """Whether it is applied more than once."""
        return self.last > self.first + 1

    def applied(self, now: int) -> int:
        """The word with the fault in it; the first call decides what the bits of a flip become."""
        if self.target is None:
            self.was = now
            self.target = {"flip": ~now, "stuck0": 0, "stuck1": ~0}.get(self.model, self.value)
        new = (now & ~self.mask | self.target & self.mask) & 0xFFFFFFFF
        self.changed |= new != now
        return new

    def hit(self, machine: CtaState) -> None:
        """Applies it to the CTA that it is in; a selector is no state."""
        words = words_of(machine, self.site)
        if words is not None:
            at = place_of(self)
            words[at] = self.applied(int(words[at]))


def words_of(machine: CtaState, site: str) -> NDArray[np.uint32] | None:
    """The words of a site: [warp, register, lane], [word] or [lane, column]."""
    if site == "registers":
        return machine.registers.values
    if site == "shared":
        data = machine.shared.data
        return data[: len(data) // 4 * 4].view(np.uint32)
    return machine.tmem.words if site == "tmem" else None


def place_of(strike: FaultInjection) -> tuple[int, ...]:
    """Where its word is in `words_of`."""
    if strike.site == "registers":
        return strike.local, strike.word, strike.lane
    return (strike.word,) if strike.site == "shared" else (strike.lane, strike.word)


def strike_of(fault: Any, warps: int) -> FaultInjection:
    """A row of a list of faults.

    Args:
        warps: of one CTA.

    Raises:
        ConfigError: a site or a model that faults of traces have not.
    """
    site, model = SITES[int(fault["site"])], MODELS[int(fault["model"])]
    if site not in TRACE_SITES or model not in TRACE_MODELS or (site == "selector") != (model == "selector"):
        legal = "flip, stuck0, stuck1, set and word in registers, shared and tmem; selector in selector"
        raise ConfigError("campaign", "faults", f"model {model} in site {site} of a trace", legal)
    warp, at, until = int(fault["case"]), int(fault["at"]), int(fault["until"])
    first = max(at, 0)
    held = model in ("stuck0", "stuck1") or (model == "selector" and at < 0)
    last = max(until, first + 1) if until >= 0 else FOREVER if held else first + 1
    cta, local = divmod(warp, warps)
    mask = 0xFFFFFFFF if model == "word" else int(fault["mask"])
    return FaultInjection(
        site, model, warp, cta, local, int(fault["word"]), int(fault["lane"]), mask, int(fault["value"]), first, last
    )
