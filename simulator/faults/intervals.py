"""Intervals between the accesses of a word: a fault of one moment strikes there as at any other moment of the interval.

Each interval of each word is listed once, and its length is its weight. The weights of a word add up to the time for
which it is there, so that the weighted share of an outcome is an architectural vulnerability factor for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.faults.aim.executed import Block
from simulator.faults.spread import Site

Positions = NDArray[np.int64]
_FACTOR, _SHIFT = np.uint64(0xBF58476D1CE4E5B9), np.uint64(29)  # of a hash; any will do


class Accessed(NamedTuple):
    """When the words of one memory are accessed. Time is counted in positions: one for each thing that is executed, and
    one more, the end.

    Attributes:
        cells: int64 [access]: word * lanes + lane of the site.
        positions: int64 [access]: when it is accessed, read or written, in whole or in part.
        clock: int64 [position]: the time of each position, ascending; the last is the end.
        strikes: gives for intervals, of which each begins behind one position (-1: at the start) and ends with another,
            the warp and the dynamic instruction of it before which a fault strikes.
        filled: whether a word is there from its first access on, and never where it has none; else it always is.
    """

    cells: Positions
    positions: Positions
    clock: Positions
    strikes: Callable[[Positions, Positions], tuple[Positions, Positions]]
    filled: bool = False


def blocks_of_intervals(accessed: Accessed, site: Site) -> Iterator[Block]:
    """The intervals of all words of a site as faults of warps, those of words with the same accesses together."""
    lanes, end = site.live.shape[1], len(accessed.clock) - 1
    every = np.arange(site.live.size)
    keys = np.unique(
        np.concatenate([accessed.cells * (end + 1) + accessed.positions, every * (end + 1) + end])
    )  # each word has an interval that ends with the end
    cells, ends = np.divmod(keys, end + 1)
    starts = np.searchsorted(cells, every)
    counts = np.diff(starts, append=len(cells))
    for members in _alike(ends, starts, counts):
        positions = ends[starts[members[0]] :][: counts[members[0]]]
        before = np.concatenate([[-1], positions[:-1]])
        lengths = accessed.clock[positions] - np.where(before < 0, 0, accessed.clock[before])
        some = np.flatnonzero((lengths > 0) & ((before >= 0) | (not accessed.filled)))
        warps, times = accessed.strikes(before[some], positions[some])
        for words, its_lanes in _rectangles(members, lanes):
            for warp in np.unique(warps).tolist():
                mine = warps == warp
                weights = lengths[some][mine].astype(np.float64)
                yield Block(warp, times[mine], words, weights, its_lanes)


def _alike(ends: Positions, starts: Positions, counts: Positions) -> Iterator[Positions]:
    """Cells that have the same ends, a group after the other in the order of their first cells."""
    mixed = (ends.astype(np.uint64) + np.uint64(1)) * _FACTOR
    mixed = (mixed ^ (mixed >> _SHIFT)) * _FACTOR
    hashes = np.add.reduceat(mixed ^ (mixed >> _SHIFT), starts)
    _, first, same = np.unique(hashes, return_index=True, return_inverse=True)
    length = counts[first[same]]
    right = bool((counts == length).all())
    if right:
        step = np.arange(len(ends)) - np.repeat(starts, counts)
        right = bool((ends == ends[np.repeat(starts[first[same]], counts) + step]).all())
    if not right:  # two histories with one hash: each cell by itself
        first = same = np.arange(len(starts))
    order = np.argsort(same, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(same))[:-1])
    yield from (groups[number] for number in np.argsort(first).tolist())


def _rectangles(cells: Positions, lanes: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...] | None]]:
    """Cells as words and lanes: words that have the same lanes together; None for a site of one lane."""
    if lanes == 1:
        yield tuple(cells.tolist()), None
        return
    words: dict[int, list[int]] = {}
    for word, lane in zip(*(part.tolist() for part in np.divmod(cells, lanes)), strict=True):
        words.setdefault(word, []).append(lane)
    found: dict[tuple[int, ...], list[int]] = {}
    for word, its_lanes in words.items():
        found.setdefault(tuple(its_lanes), []).append(word)
    yield from ((tuple(group), its_lanes) for its_lanes, group in found.items())
