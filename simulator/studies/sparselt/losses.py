"""What a product loses against the matrices as they were given, and which step loses it.

D of a narrow type passes through three steps, each of which may lose what matters: A and B are rounded to their type, A
is pruned, and the chip adds in its own way and rounds the result. Distances from the exact product of the rounded and
pruned matrices see the last of them alone: where rounding has made all of A zero, D is exactly zero, and wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from isa.types import ELEMENT_TYPES
from simulator.arithmetic.convert import convert, to_float64
from simulator.arithmetic.deviation import Deviation, deviation
from simulator.studies.sparselt.epilogue import Epilogue, finish_numbers
from simulator.studies.sparselt.given import Given
from simulator.studies.sparselt.matrices import Patterns, numbers_of, to_values
from simulator.studies.sparselt.scales import BlockScales

Reals = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Stages:
    """A product as its matrices go through the steps.

    Attributes:
        type: of A and B.
        given: A, B and C as they were given [batch, row, column].
        rounded: A, B and C as patterns, before A (or B, see `pruned`) is pruned.
        pruned: the operands that are multiplied, A and B.
        epilogue: what happens to the sums.
        blocks: factors of blocks of A and B, if there are any.
        turned: whether all this is the transposed product.
    """

    type: str
    given: tuple[Given, Given, Given | None]
    rounded: tuple[Patterns, Patterns]
    pruned: tuple[Patterns, Patterns]
    epilogue: Epilogue
    blocks: BlockScales | None
    turned: bool = False

    def losses(self, d: Reals) -> dict[str, Deviation | None]:
        """What each step loses, and all of them together, relative to the product of the matrices as given.

        Args:
            d: D as the chip computes it, [batch, m, n].

        Steps: "rounding" of A, B and C to their types (of f32: to tf32), "pruning" (None where the product did not
        prune), "arithmetic" of the chip, with rounding to D's type, and "total".
        """
        wanted = self._product(self._numbers(self.given), self._addend())
        rounded = self._product([self._values(x) for x in self.rounded], self.epilogue.c)
        cut = any(x is not y for x, y in zip(self.rounded, self.pruned, strict=True))
        pruned = self._product([self._values(x) for x in self.pruned], self.epilogue.c) if cut else rounded
        signal = deviation(wanted, wanted).signal
        found: dict[str, Deviation | None] = {
            "rounding": replace(deviation(rounded, wanted), signal=signal),
            "pruning": replace(deviation(pruned, rounded), signal=signal) if cut else None,
            "arithmetic": replace(deviation(d, pruned), signal=signal),
            "total": replace(deviation(d, wanted), signal=signal),
        }
        return found

    def _numbers(self, given: tuple[Given, Given, Given | None]) -> list[Reals]:
        return [_stacked(numbers_of(x, self.type)) for x in given[:2] if x is not None]

    def _addend(self) -> Reals | None:
        """C as given, where it is read."""
        c = self.given[2]
        if self.epilogue.c is None or c is None:
            return None
        if not c.own and c.array.dtype.kind == "f":
            return _stacked(c.array.astype(np.float64))
        return np.asarray(self.epilogue.c, np.float64)

    def _values(self, patterns: Patterns) -> Reals:
        if self.type == "f32":
            return to_float64(convert(patterns, "f32", "tf32"), ELEMENT_TYPES["tf32"])
        return to_values(patterns, self.type)

    def _product(self, operands: list[Reals], c: NDArray[np.floating] | None) -> Reals:
        a, b = operands
        if self.blocks is not None:
            a, b = (x * _spread(f, self.blocks) for x, f in ((a, self.blocks.a), (b, self.blocks.b)))
        with np.errstate(invalid="ignore", over="ignore"):
            sums = np.matmul(a, b.transpose(0, 2, 1))
        return finish_numbers(sums, self.epilogue if c is None else replace(self.epilogue, c=c))


def _stacked(x: Reals) -> Reals:
    return x if x.ndim == 3 else x[None]


def _spread(factors: NDArray[np.uint32], blocks: BlockScales) -> Reals:
    """Factors [row, K / block] as numbers [row, K]."""
    return np.repeat(to_float64(factors, blocks.type), blocks.block, axis=-1)
