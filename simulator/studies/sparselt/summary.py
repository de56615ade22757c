"""What pruning took away: kept norm, zeros in each row, and how often each pattern of a strip was chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from simulator.arithmetic.deviation import Deviation, deviation
from simulator.studies.sparselt.matrices import Arrangement, as_patterns, numbers_of, sparsity, to_values
from simulator.studies.sparselt.rounding import Rounding, rounding_of
from simulator.tables import Table

if TYPE_CHECKING:
    from pandas import DataFrame


_LOST = ("lost by rounding", "lost by pruning", "lost together")


@dataclass(frozen=True)
class PruneSummary:
    """A matrix before and after pruning.

    Attributes:
        rows, columns: of the matrix.
        type: of its elements.
        elements_kept: that are not zero after pruning.
        kept_l1, kept_l2: the sum of magnitudes and the Euclidean norm after, as a share of that of the matrix as it was
            given; elements that are not finite are left out. (Rounding may enlarge them: above 1.)
        not_finite: elements that are NaN or infinite before.
        zeros_least, zeros_mean, zeros_most: zeros in a row along K, after.
        patterns: pattern of a strip along K ("1010": first and third element are not zero) -> how many strips.
        rounding: what rounding to the type did to the numbers, before anything was pruned.
        losses: how far the matrix is from the one given: by "rounding", by "pruning", and in "total".
    """

    rows: int
    columns: int
    type: str
    elements_kept: int
    kept_l1: float
    kept_l2: float
    not_finite: int
    zeros_least: int
    zeros_mean: float
    zeros_most: int
    patterns: dict[str, int]
    rounding: Rounding
    losses: dict[str, Deviation]

    def as_dict(self) -> dict[str, Any]:
        """As plain values, ready for JSON."""
        left_out = ("rounding", "losses")
        found = {key: value for key, value in vars(self).items() if key not in left_out and not key.startswith("_")}
        return found | {
            "rounding": self.rounding.to_dict(),
            "losses": {name: loss.to_dict() for name, loss in self.losses.items()},
        }

    @property
    def strips(self) -> Table:
        """The histogram of patterns: columns pattern, strips, share."""
        total = max(1, sum(self.patterns.values()))
        return Table(("pattern", "strips", "share"), [(name, n, n / total) for name, n in self.patterns.items()])

    def to_frame(self) -> DataFrame:
        """The histogram of patterns as a pandas DataFrame."""
        return self.strips.frame()

    def table(self) -> str:
        lines = [
            f"matrix               {self.rows} x {self.columns} {self.type}",
            f"elements kept        {self.elements_kept} of {self.rows * self.columns}",
            f"kept norm            L1 {self.kept_l1:.4%}, L2 {self.kept_l2:.4%}",
            f"zeros a row          least {self.zeros_least}, mean {self.zeros_mean:.2f}, most {self.zeros_most}",
        ]
        lines += [f"{name:<20} {loss}" for name, loss in zip(_LOST, self.losses.values(), strict=True)]
        if self.not_finite:
            lines.append(f"NaN or infinite      {self.not_finite}, not counted in the norm")
        lines += ["", f"{'pattern':<10} {'strips':>9} {'share':>8}"]
        lines += [f"{pattern:<10} {count:>9} {share:>8.2%}" for pattern, count, share in self.strips.rows]
        return "\n".join(lines) + "\n"


def summarise(
    before: ArrayLike, after: ArrayLike, type: str, *, order: str = "row", op: str = "n", operand: str = "a"
) -> PruneSummary:
    """The summary of a matrix as it was given and of its pruned form, patterns or floats [row, column]."""
    first = numbers_of(before, type)
    patterns, rounded = as_patterns(before, type)
    middle, second = to_values(patterns, type), to_values(as_patterns(after, type)[0], type)
    total = deviation(second, first)
    arrangement = Arrangement(order, op, operand)
    finite = np.isfinite(first)
    shares = [_share(np.where(finite, first, 0), np.where(finite, second, 0), power) for power in (1, 2)]
    occupied = np.asarray(arrangement.by_k(second != 0))
    zeros = (~occupied).sum(axis=1)
    rows, columns = first.shape
    return PruneSummary(
        rows,
        columns,
        type,
        int(occupied.sum()),
        shares[0],
        shares[1],
        int((~finite).sum()),
        int(zeros.min()),
        float(zeros.mean()),
        int(zeros.max()),
        _histogram(occupied, sparsity(type).chunk),
        rounding_of(before, patterns, type, rounded),
        {
            "rounding": replace(deviation(middle, first), signal=total.signal),
            "pruning": replace(deviation(second, middle), signal=total.signal),
            "total": total,
        },
    )


def _share(before: np.ndarray[Any, Any], after: np.ndarray[Any, Any], power: int) -> float:
    whole = float((np.abs(before) ** power).sum())
    part = float((np.abs(after) ** power).sum())
    return (part / whole) ** (1 / power) if whole else 1.0


def _histogram(occupied: np.ndarray[Any, Any], chunk: int) -> dict[str, int]:
    """Strips of each pattern, the most frequent first."""
    width = occupied.shape[1] // chunk * chunk
    strips = occupied[:, :width].reshape(-1, chunk)
    numbers, counts = np.unique(strips @ (1 << np.arange(chunk)), return_counts=True)
    order = np.lexsort((numbers, -counts))
    return {"".join(str(int(numbers[i]) >> bit & 1) for bit in range(chunk)): int(counts[i]) for i in order}
