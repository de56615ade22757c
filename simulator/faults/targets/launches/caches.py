"""What L1 and L2 hold in a launch without faults.

The model is that of the timing of launches (`simulator.machine.memory.L1`): a sector of 32 bytes comes to L2 with its
first access, and to the L1 of a CTA with its first load that goes through L1 (loads without .cg, .cv or .volatile, and
cp.async.ca; stores bring nothing to L1, and change what is there). Nothing leaves L2 before the end of the launch, nor
L1 before the end of its CTA (assumed: what a launch accesses fits). CTAs on one SM share its L1 on a chip; here each
has its own (assumed).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.execute.copies import through_l1
from simulator.faults.targets.injection import FaultInjection
from simulator.faults.targets.launches.golden import Golden
from simulator.faults.targets.launches.memory import NEVER, READ, WHOLE
from simulator.program.kernel import Operation
from simulator.state.global_memory import SECTOR_BYTES

CACHES = ("l1", "l2")
_SECTOR_WORDS = SECTOR_BYTES // 4
Numbers = NDArray[np.int64]


class _Accesses(NamedTuple):
    """All accesses of global memory, each word of each CTA: the CTA, the word, the position, whether it is read through
    L1, whether it is overwritten whole, and whether it is written at all."""

    cta: Numbers
    word: Numbers
    position: Numbers
    cached: NDArray[np.bool_]
    whole: NDArray[np.bool_]
    written: NDArray[np.bool_]

    def some(self, index: NDArray[np.bool_]) -> _Accesses:
        """Some of the accesses."""
        columns: list[Any] = [column[index] for column in self]
        return _Accesses(*columns)


class CacheUses:
    """When words are in L1 and L2, and when they are used there. Positions are events of all batches, one after the
    other; words are places / 4 (`memory.AddressMap`).

    Args:
        golden: a launch whose accesses are kept.
    """

    def __init__(self, golden: Golden) -> None:
        assert golden.accesses is not None
        self.golden, self.words = golden, golden.places.size // 4
        self._of_l1, self._l1_fills = dict[int, _Accesses](), dict[int, Numbers]()
        self.starts = np.cumsum([0, *(len(noted.places) for noted in golden.noted)])

    @cached_property
    def accesses(self) -> _Accesses:
        """All accesses, in the order of the launch."""
        golden = self.golden
        assert golden.accesses is not None
        forms = [item.instruction.form if isinstance(item, Operation) else None for item in golden.kernel.items]
        cached = np.array([form is not None and through_l1(form) for form in forms], np.bool_)
        columns: list[list[Numbers]] = [[np.zeros(0, np.int64)] for _ in range(4)]
        for start, noted, accesses in zip(self.starts.tolist(), golden.noted, golden.accesses, strict=False):
            for keys, event, how in accesses:
                through = int(cached[noted.places[event]]) if how == READ else 0
                for column, value in zip(columns[1:], (start + event, how, through), strict=True):
                    column.append(np.full(len(keys), value))
                columns[0].append(keys)
        keys, position, how_all, through_all = (np.concatenate(column) for column in columns)
        cta, word = np.divmod(keys, self.words)
        return _Accesses(cta, word, position, through_all != 0, how_all == WHOLE, how_all != READ)

    def of_l1(self, cta: int) -> _Accesses:
        """The accesses of a CTA that concern its L1: loads through it, and stores."""
        if cta not in self._of_l1:
            every = self.accesses
            self._of_l1[cta] = every.some((every.cta == cta) & (every.cached | every.written))
        return self._of_l1[cta]

    @cached_property
    def l2_fills(self) -> Numbers:
        """The position at which each word comes to L2, int64 [word]; `NEVER`."""
        return self._fills(self.accesses)

    def l1_fills(self, cta: int) -> Numbers:
        """The same of the L1 of a CTA."""
        if cta not in self._l1_fills:
            mine = self.of_l1(cta)
            self._l1_fills[cta] = self._fills(mine.some(mine.cached))
        return self._l1_fills[cta]

    def _fills(self, accesses: _Accesses) -> Numbers:
        found = np.full(-(-self.words // _SECTOR_WORDS), NEVER, np.int64)
        np.minimum.at(found, accesses.word // _SECTOR_WORDS, accesses.position)
        return np.repeat(found, _SECTOR_WORDS)[: self.words]

    def struck(self, cta: int, local: int, first: int) -> int:
        """How many positions there are before a warp of a CTA executes its dynamic instruction `first`."""
        portion, row = int(self.golden.portion_of[cta]), int(self.golden.index_of[cta]) * self.golden.warps + local
        return int(self.starts[portion]) + self.golden.noted[portion].event(row, first)

    def resident(self, injection: FaultInjection, places: Numbers) -> bool:
        """Whether the word of a fault in a cache is there when it strikes; `places` as in `accessed.of_site`."""
        fills = self.l2_fills if injection.site == "l2" else self.l1_fills(injection.cta)
        struck = self.struck(injection.cta, injection.local, injection.first)
        return int(injection.row["at"]) >= 0 and int(fills[int(places[injection.word]) // 4]) < struck

    def seen(self, cta: int, word: int, position: int) -> bool:
        """Whether a load through L1 reads a word of a CTA from a position on, before the CTA overwrites it."""
        mine = self.of_l1(cta)
        later = mine.some((mine.word == word) & (mine.position >= position))
        ends = later.position[later.whole]
        return bool((later.position[later.cached] < (ends.min() if len(ends) else NEVER)).any())


def in_memory(injection: FaultInjection) -> FaultInjection:
    """A fault in L2 as one in the word of memory that it holds: all read it there, and what is stored there is what the
    host reads behind the launch."""
    return replace(injection, site="global") if injection.site == "l2" else injection
