"""What a product gives: D as the chip computes it, D exactly, how far apart they are, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isa.types import ELEMENT_TYPES, PACKED_E2M1
from simulator.arithmetic.convert import to_float64
from simulator.arithmetic.deviation import Deviation, deviation
from simulator.arithmetic.formats import integers, ulp_distance
from simulator.studies.sparselt.cost import Cost
from simulator.studies.sparselt.losses import Stages
from simulator.studies.sparselt.matrices import Patterns, to_values
from simulator.studies.sparselt.rounding import Rounding
from simulator.studies.sparselt.support import DEFAULT_LIBRARY

if TYPE_CHECKING:
    import pandas


def values_of(patterns: Patterns, type: str) -> NDArray[np.float64]:
    """The numbers that patterns of C or D stand for."""
    if type == "e2m1":
        return to_values(patterns, type)
    element = ELEMENT_TYPES[type]
    words = patterns.astype(np.uint32)
    return to_float64(words, element) if element.is_float else integers(words, element).astype(np.float64)


@dataclass(frozen=True)
class Product:
    """The result of `matmul`.

    Attributes:
        d: patterns [m, n] or [batch, m, n], unsigned, of the width of `d_type`.
        exact: the exact sums of the given operands through the epilogue in float64, rounded once, like `d`; None where
            it was not asked for.
        d_type: name of the element type of both.
        cost: time on the config's chip; None without a config.
        d_scale: D-out factors, patterns [m, n / block] or [batch, m, n / block]; None without.
        library: version of cuSPARSELt whose table the types were looked up in.
        notes: what the reader should know: rounded operands, NaN, scales that the chip does not apply.
        rounding: by name ("a", "b", "c"), what rounding the operands to their types did to them.
        stages: the operands on their way, for `losses`.
    """

    d: Patterns
    exact: Patterns | None
    d_type: str
    cost: Cost | None
    notes: tuple[str, ...]
    d_scale: Patterns | None = None
    library: str = DEFAULT_LIBRARY
    rounding: dict[str, Rounding] = field(default_factory=dict, repr=False)
    stages: Stages | None = field(default=None, repr=False, compare=False)

    @property
    def cycles(self) -> int | None:
        """Cycles on the chip; None without a config."""
        return None if self.cost is None else self.cost.cycles

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """D as numbers."""
        return values_of(self.d, self.d_type)

    @cached_property
    def ulp(self) -> NDArray[np.int64] | None:
        """How many numbers of D's type lie between each element and the exact one; see `ulp_distance`."""
        if self.exact is None:
            return None
        element = PACKED_E2M1 if self.d_type == "e2m1" else ELEMENT_TYPES[self.d_type]
        return ulp_distance(self.d.astype(np.uint32), self.exact.astype(np.uint32), element)

    @cached_property
    def error(self) -> Deviation | None:
        """How far D is from `exact`, the product of the matrices after they were rounded and pruned."""
        return None if self.exact is None else deviation(self.values, values_of(self.exact, self.d_type))

    @cached_property
    def losses(self) -> dict[str, Deviation | None]:
        """What D lacks of the product of the matrices as they were given, in float64: by "rounding", "pruning" (None
        where the product did not prune), "arithmetic" and in "total"; see `Stages.losses`. Of D with D-out factors
        none of them is known."""
        if self.stages is None or self.d_scale is not None:
            return {}
        values = self.values if self.values.ndim == 3 else self.values[None]
        if self.stages.turned:
            values = values.transpose(0, 2, 1)
        return self.stages.losses(values)

    def summary(self) -> dict[str, Any]:
        """Of the elements of D: how many there are and are NaN; of those whose exact value is a number, the share that
        equals it (None if there are none), the distances from it, the relative Frobenius error, the ratio of signal to
        noise in dB and the largest absolute error; and as `losses` the last three against the matrices as given, for
        each step. "Exact" is the product of the matrices as they were multiplied, rounded and pruned."""
        nan = int(np.isnan(self.values).sum())
        found: dict[str, Any] = {"elements": self.d.size, "nan": nan}
        if self.ulp is not None and self.exact is not None:
            known = ~np.isnan(values_of(self.exact, self.d_type))
            apart = self.ulp[known & ~np.isnan(self.values)]
            found |= {
                "right": float((apart == 0).sum() / known.sum()) if known.any() else None,
                "mean_ulp": float(apart.mean()) if apart.size else None,
                "largest_ulp": int(apart.max()) if apart.size else None,
            }
            assert self.error is not None
            found |= {name: self.error.to_dict()[name] for name in ("relative_error", "sqnr_db", "largest_error")}
            found["losses"] = {name: None if loss is None else loss.to_dict() for name, loss in self.losses.items()}
        return found

    def to_frame(self) -> pandas.DataFrame:
        """One row an element: batch, row, column, d, exact, ulp (numbers, not patterns)."""
        import pandas

        shape = self.d.shape if self.d.ndim == 3 else (1, *self.d.shape)
        batch, row, column = (index.ravel() for index in np.indices(shape))
        table: dict[str, Any] = {"batch": batch, "row": row, "column": column, "d": self.values.ravel()}
        if self.exact is not None and self.ulp is not None:
            table |= {"exact": values_of(self.exact, self.d_type).ravel(), "ulp": self.ulp.ravel()}
        return pandas.DataFrame(table)
