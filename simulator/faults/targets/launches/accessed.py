"""When the words of shared memory and of buffers are accessed in a launch without faults, for intervals between them.

Positions are the events of the run (`noted.Noted`): of shared memory those of its CTA; of buffers those of all CTAs,
batch after batch, where CTAs that go in lock step count once. A fault strikes right behind the access that begins its
interval; where none does, before the first instruction, or, in a buffer, before the launch.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from simulator.faults.intervals import Accessed, Positions
from simulator.faults.targets.launches.caches import CacheUses
from simulator.faults.targets.launches.golden import Golden
from simulator.faults.targets.launches.memory import NEVER
from simulator.faults.targets.target import refuse


def known(golden: Golden | None, site: str) -> Golden:
    """A launch of which it is known when words of a memory are accessed.

    Raises:
        ConfigError: one that was not watched, or that has too many accesses to keep.
    """
    kept = False
    if golden is not None:
        kept = all(uses.known for uses in golden.shared) if site == "shared" else golden.accesses is not None
    if golden is None or not kept:
        reason = f"intervals of site {site} in a launch whose accesses are not all kept"
        raise refuse("faults.at", reason, "a launch of which many faults run together, docs/faults_launches.md")
    return golden


def of_site(
    golden: Golden, site: str, cta: int, places: NDArray[np.int64], caches: Callable[[], CacheUses]
) -> Accessed:
    """When words of a memory are accessed, in a launch of which that is known.

    Args:
        site: "shared" or "l1", of the CTA; "global" or "l2".
        places: int64 [word]: where each word of site `global` lies (`memory.AddressMap`), in bytes.
        caches: gives what L1 and L2 hold, where that is asked for.
    """
    if site == "shared":
        return of_shared(golden, cta)
    if site == "l1":
        return of_l1(golden, cta, places, caches())
    return of_buffers(golden, places, caches() if site == "l2" else None)


def of_shared(golden: Golden, cta: int) -> Accessed:
    """When words of the shared memory of a CTA are accessed."""
    words, events = golden.shared[int(golden.portion_of[cta])].accesses(int(golden.index_of[cta]))
    return _of_cta(golden, cta, words, events)


def of_buffers(golden: Golden, places: NDArray[np.int64], caches: CacheUses | None = None) -> Accessed:
    """When words of buffers are accessed, in a launch whose accesses are kept.

    Args:
        places: as in `of_site`.
        caches: where words of L2 are meant, which are there from their first access on.
    """
    assert golden.accesses is not None
    word_at = np.full(golden.places.size // 4, -1, np.int64)
    word_at[places // 4] = np.arange(len(places))
    cells, positions, warp, at = [], [], [], []
    before = 0
    for portion, noted, accesses in zip(golden.portions, golden.noted, golden.accesses, strict=True):
        rows, events, numbers = noted.executed
        _, first = np.unique(events, return_index=True)
        warp.append(portion.ctas[rows[first] // golden.warps] * golden.warps + rows[first] % golden.warps)
        at.append(numbers[first] + 1)
        cells += [word_at[words % len(word_at)] for words, _, _ in accesses]
        positions += [np.full(len(words), before + event) for words, event, _ in accesses]
        before += len(noted.places)
    none = np.zeros(0, np.int64)
    found, when = np.concatenate([none, *cells]), np.concatenate([none, *positions])
    if caches is not None:
        fills = caches.l2_fills[places // 4]
        filled = np.flatnonzero(fills < NEVER)
        found, when = np.append(found, filled), np.append(when, fills[filled])
    there = found >= 0
    strikes = _Behind(np.concatenate([none, *warp]), np.concatenate([none, *at]), (0, -1))
    return Accessed(found[there], when[there], np.arange(before + 1), strikes, caches is not None)


def of_l1(golden: Golden, cta: int, places: NDArray[np.int64], caches: CacheUses) -> Accessed:
    """When words of the L1 of a CTA are read there, or stored to by the CTA; they are there from their fill on.

    Args:
        places: as in `of_site`.
    """
    used, fills = caches.of_l1(cta), caches.l1_fills(cta)[places // 4]
    word_at = np.full(caches.words, -1, np.int64)
    word_at[places // 4] = np.arange(len(places))
    filled = np.flatnonzero(fills < NEVER)
    cells, positions = word_at[used.word], used.position
    there = (cells >= 0) & (positions > fills[np.maximum(cells, 0)])  # a store before the fill finds nothing
    cells, positions = np.append(cells[there], filled), np.append(positions[there], fills[filled])
    begun = int(caches.starts[int(golden.portion_of[cta])])
    return _of_cta(golden, cta, cells, positions - begun)._replace(filled=True)


def _of_cta(golden: Golden, cta: int, cells: Positions, events: Positions) -> Accessed:
    """Accesses at events of the batch of a CTA, by the instructions that the CTA executes."""
    warps = golden.warps
    rows, every, numbers = golden.noted[int(golden.portion_of[cta])].executed
    mine = np.flatnonzero(rows // warps == int(golden.index_of[cta]))
    own, first = np.unique(every[mine], return_index=True)
    chosen = mine[first]
    strikes = _Behind(cta * warps + rows[chosen] % warps, numbers[chosen] + 1, (cta * warps, 0))
    return Accessed(cells, np.searchsorted(own, events), np.arange(len(own) + 1), strikes)


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
