"""Pairs of accesses that nothing orders, as they are met; the same pair of instructions is one race."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Apart(NamedTuple):
    """How far apart two threads are: what could order them."""

    same_warp: bool
    same_cta: bool
    same_cluster: bool


class Party(NamedTuple):
    """One side of a race.

    Attributes:
        place: of the instruction; -1: an asynchronous operation whose instruction is not known.
        cta: number of the CTA in the launch.
        warp, lane: within the CTA; a lane of -1: the whole warp.
        access: "reads", "writes" or "updates".
    """

    place: int
    cta: int
    warp: int
    lane: int
    access: str


@dataclass
class Race:
    """Two instructions that access the same bytes, at least one of them writing, with nothing that orders them.

    Attributes:
        first, second: an example; the first came first in this run.
        space: "shared" or "global".
        address: of the first byte that both access, in the space.
        size: bytes of a piece there.
        count: pieces.
        benign: whether all the writes in question changed no value.
        narrow: whether both are strong operations whose scope does not reach the other.
        one_instruction: whether both are threads of the same execution.
    """

    first: Party
    second: Party
    space: str
    address: int
    size: int
    apart: Apart
    count: int = 0
    benign: bool = True
    narrow: bool = False
    one_instruction: bool = False


Key = tuple[Any, ...]


@dataclass
class Races:
    """The races that were met, by the places of both instructions and how they access."""

    found: dict[Key, Race] = field(default_factory=dict)

    def add(self, race: Race, count: int, *, benign: bool) -> None:
        """Adds pieces to a race that is known, or a new one; one that is not benign becomes the example."""
        key = race.first.place, race.second.place, race.first.access, race.second.access, race.space, race.apart
        known = self.found.get(key)
        if known is None or (known.benign and not benign):
            race.count, race.benign = count + (known.count if known else 0), benign
            self.found[key] = race
        else:
            known.count += count


def groups(*keys: NDArray[Any]) -> list[NDArray[np.intp]]:
    """The indices of equal rows of keys, each [n], group by group."""
    stacked = np.stack([np.asarray(key, np.int64) for key in keys], axis=1)
    _, which = np.unique(stacked, axis=0, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    bounds = np.flatnonzero(np.diff(which.ravel()[order])) + 1
    return np.split(order, bounds)
