"""What a sum can be told to do otherwise than its rule says: the seam between the sums and disturbances of the unit.

`sums`, `fused` and `integer` call these methods where a word of the unit exists: a product, the terms at the adder, the
result of a step. They know nothing of faults; `disturbance` is what the methods do.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits
from simulator.arithmetic.formats import Decoded


class Hooks(Protocol):
    """Arrays are those of `sums`: [n, product in order of summation, output]."""

    def products(self, left: Decoded, right: Decoded, products: Decoded) -> None:
        """Changes products of floats in place; `left` and `right` are their factors."""

    def integer_products(self, products: NDArray[np.int32]) -> None:
        """Changes products of integers in place."""

    def shift(self, step: int, terms: NDArray[Any], addend: NDArray[Any]) -> NDArray[Any]:
        """By how much the sum of a step changes, [n, output]: an integer in units of the last bit of the terms.

        Args:
            step: the number of the step.
            terms: the terms as the adder takes them, whole numbers [n, term, output]; NaN and infinities stay such.
            addend: the term that C, or the sum so far, gives, [n, output].
        """

    def result(self, step: int, patterns: Bits) -> Bits:
        """What becomes of the rounded result of a step, patterns [n, output]."""
