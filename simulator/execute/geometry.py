"""How many CTAs and threads a launch has, and which CTAs run in lock step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from isa.forms.launch_control import RESPONSE_BYTES
from isa.types import Bits
from simulator.state.registers import WARP_SIZE, Lanes

Dim = tuple[int, int, int]


@dataclass(frozen=True)
class Geometry:
    """How many CTAs and threads a launch has, as (x, y, z).

    Attributes:
        grid: CTAs.
        block: threads of a CTA.
        cluster: CTAs of a cluster.
        explicit: whether the kernel or the launch says that there are clusters, be they of one CTA.
    """

    grid: Dim
    block: Dim
    cluster: Dim = (1, 1, 1)
    explicit: bool = False

    @property
    def ctas(self) -> int:
        """CTAs of the launch."""
        return int(np.prod(self.grid))

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return int(np.prod(self.block))

    @property
    def warps(self) -> int:
        """Warps of a CTA; the last one may lack threads."""
        return -(-self.threads // WARP_SIZE)

    def whole_clusters(self, ctas: NDArray[np.int64]) -> NDArray[np.int64]:
        """All CTAs of the clusters of which some are given, cluster by cluster, in each by rank."""
        places, clusters = (
            split(np.arange(self.ctas), self.grid),
            [a // b for a, b in zip(self.grid, self.cluster, strict=True)],
        )
        of, inside = ([part[axis] for axis in range(3)] for part in self._parts(places))
        number = of[0] + clusters[0] * (of[1] + clusters[1] * of[2])
        rank = inside[0] + self.cluster[0] * (inside[1] + self.cluster[1] * inside[2])
        order = np.lexsort((rank, number))
        kept: NDArray[np.int64] = order[np.isin(number[order], number[ctas])]
        return kept

    def _parts(self, places: tuple[Bits, Bits, Bits]) -> tuple[list[Bits], list[Bits]]:
        """For places in the grid, the cluster's and those within the cluster."""
        sizes = [np.uint32(size) for size in self.cluster]
        pairs = list(zip(places, sizes, strict=True))
        return [place // size for place, size in pairs], [place % size for place, size in pairs]

    def place(self, number: int) -> Dim:
        """%ctaid of a CTA by its number."""
        x, y, z = self.cta(np.array([number]))
        return int(x[0]), int(y[0]), int(z[0])

    def cta(self, number: NDArray[np.int64]) -> tuple[Bits, Bits, Bits]:
        """%ctaid of CTAs by their number: x is counted first."""
        return split(number, self.grid)


def split(number: NDArray[np.int64], extent: Dim) -> tuple[Bits, Bits, Bits]:
    x, rest = number % extent[0], number // extent[0]
    return x.astype(np.uint32), (rest % extent[1]).astype(np.uint32), (rest // extent[1]).astype(np.uint32)


@dataclass(frozen=True)
class Batch:
    """The CTAs of a launch that run in lock step.

    Attributes:
        geometry: of the whole launch.
        ctas: int64 [CTA]: their numbers in the grid, x first.
    """

    geometry: Geometry
    ctas: NDArray[np.int64]

    @property
    def rows(self) -> int:
        """Warps of the batch: rows of registers."""
        return len(self.ctas) * self.geometry.warps

    @cached_property
    def thread(self) -> NDArray[np.int64]:
        """int64 [row, lane]: the number of each thread within its CTA, x first."""
        own = np.arange(self.rows, dtype=np.int64)[:, None] % self.geometry.warps
        return own * WARP_SIZE + np.arange(WARP_SIZE)

    @cached_property
    def exists(self) -> Lanes:
        """bool [row, lane]: whether there is such a thread; the last warp of a CTA may lack some."""
        return self.thread < self.geometry.threads

    def cta_of(self, row: int) -> Dim:
        """%ctaid of the CTA of a row."""
        return self.geometry.place(int(self.ctas[row // self.geometry.warps]))


@dataclass
class Unstarted:
    """The CTAs of a launch that have not started.

    Attributes:
        geometry: of the launch.
        ctas: int64 [CTA]: their numbers, cluster by cluster, in the order in which they start.
    """

    geometry: Geometry
    ctas: NDArray[np.int64]

    def start(self, count: int) -> NDArray[np.int64]:
        """The next CTAs, which start now."""
        starting, self.ctas = self.ctas[:count], self.ctas[count:]
        return starting

    def cancel(self) -> NDArray[np.uint32]:
        """Takes away the next cluster, which will never start; returns the answer, uint32 [4]."""
        answer = np.zeros(RESPONSE_BYTES // 4, np.uint32)
        if len(self.ctas):
            cluster = self.start(int(np.prod(self.geometry.cluster)))
            answer[:] = *(int(axis[0]) for axis in self.geometry.cta(cluster[:1])), 1
        return answer
