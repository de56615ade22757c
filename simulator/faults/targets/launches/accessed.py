"""When the words of shared memory and of buffers are accessed in a launch without faults, for intervals between them.

Positions are the events of the run (`noted.Noted`): of shared memory those of its CTA; of buffers those of all CTAs,
batch after batch, where CTAs that go in lock step count once. A fault strikes right behind the access that begins its
interval; where none does, before the first instruction, or, in a buffer, before the launch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.faults.intervals import Accessed, Positions
from simulator.faults.targets.launches.golden import Golden


def of_shared(golden: Golden, cta: int) -> Accessed | None:
    """When words of the shared memory of a CTA are accessed; None if there were too many accesses to keep."""
    portion, index = int(golden.portion_of[cta]), int(golden.index_of[cta])
    uses, noted = golden.shared[portion], golden.noted[portion]
    if not uses.known:
        return None
    rows, events, numbers = noted.executed
    warps = golden.warps
    mine = np.flatnonzero(rows // warps == index)
    own, first = np.unique(events[mine], return_index=True)
    chosen = mine[first]
    words, accessed = uses.accesses(index)
    return Accessed(
        words, np.searchsorted(own, accessed), np.arange(len(own) + 1),
        _Behind(cta * warps + rows[chosen] % warps, numbers[chosen] + 1, (cta * warps, 0)),
    )  # fmt: skip


def of_buffers(golden: Golden, places: NDArray[np.int64]) -> Accessed | None:
    """When words of buffers are accessed; None if there were too many accesses to keep.

    Args:
        places: int64 [word]: where each word of site `global` lies (`memory.AddressMap`), in bytes.
    """
    if golden.accesses is None:
        return None
    word_at = np.full(golden.places.size // 4, -1, np.int64)
    word_at[places // 4] = np.arange(len(places))
    cells, positions, warp, at = [], [], [], []
    before = 0
    for portion, noted, accesses in zip(golden.portions, golden.noted, golden.accesses, strict=True):
        rows, events, numbers = noted.executed
        _, first = np.unique(events, return_index=True)
        warp.append(portion.ctas[rows[first] // golden.warps] * golden.warps + rows[first] % golden.warps)
        at.append(numbers[first] + 1)
        cells += [word_at[words] for words, _, _ in accesses]
        positions += [np.full(len(words), before + event) for words, event, _ in accesses]
        before += len(noted.places)
    none = np.zeros(0, np.int64)
    found, when = np.concatenate([none, *cells]), np.concatenate([none, *positions])
    there = found >= 0
    strikes = _Behind(np.concatenate([none, *warp]), np.concatenate([none, *at]), (0, -1))
    return Accessed(found[there], when[there], np.arange(before + 1), strikes)


class _Behind:
    """Strikes behind the positions at which intervals begin.

    Args:
        warp, at: by position, a warp that executes it, and how many instructions that warp has executed then.
        start: the same at the start.
    """

    def __init__(self, warp: Positions, at: Positions, start: tuple[int, int]) -> None:
        self.warp, self.at = np.append(start[0], warp), np.append(start[1], at)

    def __call__(self, before: Positions, ends: Positions) -> tuple[Positions, Positions]:
        """As `Accessed.strikes`."""
        return self.warp[before + 1], self.at[before + 1]
