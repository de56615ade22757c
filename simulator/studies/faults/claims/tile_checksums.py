"""Checksums of the tiles of a layer's product: what algorithm-based fault tolerance sees of a fault.

A product is cut into tiles of at most 64 x 64, as the kernel of `tcsim faults cost` computes them. Row and column sums
of each are predicted from the operands before any fault (`simulator.faults.detectors.checksums`). The tolerance is of
the tiles of some images, the checks are tried on those of others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.faults.detectors.checksums import Checksums, FalseAlarms, Predicted, predicted
from simulator.studies.faults.networks.injection import Campaign
from simulator.studies.faults.networks.number_types import numbers_of
from simulator.studies.faults.networks.sites import Changes

Reals = NDArray[np.float64]
SIDE = 64
_TOGETHER = 256  # tiles that are checked together


@dataclass(frozen=True, eq=False)
class TileChecks:
    """The checks of the tiles of a layer's product.

    Attributes:
        of: the campaign.
        stored: "" checks D as the accumulators hold it, "f16" after it was rounded to f16.
        rows_alone: row checksums are checked, column checksums are not.
        margin: the tolerance is so many times the largest difference of the products that set it.
    """

    of: Campaign
    stored: str = ""
    rows_alone: bool = False
    margin: float = 1.5

    @cached_property
    def first_image(self) -> int:
        """The first image that the checks are tried on; those before it set the tolerance."""
        return len(self.of.subject.labels) // 2

    @property
    def first_column(self) -> int:
        """The first column of D of the tiles that the checks are tried on: the first whole tile of these images."""
        return -(-self.first_image * self.of.places // SIDE) * SIDE

    @cached_property
    def d(self) -> Reals:
        """D without a fault in tiles [row tile, column tile, 64, 64], as it is stored."""
        d = self._rounded(numbers_of(self.of.running.d, self.of.layer.kind.result))
        high = _tiled(d)
        return _tiled(high.transpose(2, 0, 1)).transpose(2, 0, 3, 1)

    @cached_property
    def should(self) -> Predicted:
        """What the sums of every tile should be, [row tile, column tile, sum]."""
        layer = self.of.layer
        a = _tiled(layer.numbers[: layer.rows])
        b = _tiled(layer.kind.numbers(self.of.running.b).T).transpose(0, 2, 1)
        parts = [
            predicted(np.broadcast_to(piece, (len(b), *piece.shape)), b, np.zeros((len(b), SIDE, SIDE))) for piece in a
        ]
        return Predicted(*(np.stack(sums) for sums in zip(*parts, strict=True)))

    @cached_property
    def checks(self) -> Checksums:
        """The checks of all tiles, with the tolerance that the first images give."""
        last = self.first_column // SIDE
        calibration = _flat(self.d[:, :last]), Predicted(*(_flat(sums[:, :last]) for sums in self.should))
        checks = Checksums(Predicted(*map(_flat, self.should)), calibration)
        checks.row_tolerance *= self.margin
        checks.column_tolerance = np.inf if self.rows_alone else checks.column_tolerance * self.margin
        return checks

    @cached_property
    def false_alarms(self) -> FalseAlarms:
        """How many tiles without a fault, of those that the checks are tried on, fail."""
        first = self.first_column // SIDE
        fresh = Predicted(*(_flat(sums[:, first:]) for sums in self.should))
        failed = self.checks.fails(_flat(self.d[:, first:]), fresh)
        return FalseAlarms(int(failed.sum()), len(failed))

    def sees(self, changes: Changes) -> NDArray[np.bool_]:
        """For each changed element, whether its tile fails a check with all that its fault changes there."""
        wide = self.d.shape[1]
        tile = changes.row // SIDE * wide + changes.column // SIDE
        pairs, pair = np.unique(changes.fault * self.d.shape[0] * wide + tile, return_inverse=True)
        which = pairs % (self.d.shape[0] * wide)
        value = self._rounded(numbers_of(changes.word, self.of.layer.kind.result))
        order = np.argsort(pair, kind="stable")
        ends = np.searchsorted(pair[order], np.arange(len(pairs) + 1))
        seen = np.zeros(len(pairs), np.bool_)
        golden = _flat(self.d)
        for start in range(0, len(pairs), _TOGETHER):
            stop = min(start + _TOGETHER, len(pairs))
            mine = order[ends[start] : ends[stop]]
            tiles = golden[which[start:stop]]
            tiles[pair[mine] - start, changes.row[mine] % SIDE, changes.column[mine] % SIDE] = value[mine]
            seen[start:stop] = self.checks.sees(tiles, which[start:stop])
        return np.asarray(seen[pair])

    def _rounded(self, values: Reals) -> Reals:
        if self.stored != "f16":
            return values
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(np.float16).astype(np.float64)


def _tiled(x: NDArray[Any]) -> NDArray[Any]:
    """The first axis cut into [tile, 64]; zeros fill the last tile."""
    x = np.pad(x, [(0, -len(x) % SIDE), *((0, 0) for _ in x.shape[1:])])
    return x.reshape(-1, SIDE, *x.shape[1:])


def _flat(x: NDArray[Any]) -> NDArray[Any]:
    """[row tile, column tile, ...] -> [tile, ...]."""
    return x.reshape(-1, *x.shape[2:])
