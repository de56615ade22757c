"""What rounding a matrix to a type does to its numbers, and what is said of it: nothing is rounded without a word."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from isa.types import ELEMENT_TYPES
from simulator.arithmetic.convert import convert, to_float64
from simulator.arithmetic.deviation import Deviation, deviation
from simulator.studies.sparselt.given import Given
from simulator.studies.sparselt.matrices import Patterns, as_patterns, matrix_type, numbers_of, to_values

MOST = 0.5  # of a matrix's numbers: what is lost beyond it is warned of
_WARNING = "warning: "


@dataclass(frozen=True)
class Rounding:
    """What rounding a matrix to a type did to its numbers.

    Attributes:
        type: what it was rounded to.
        elements: of the matrix.
        rounded: numbers that are others now.
        occupied: numbers that were finite and not zero; of them
        zeroed: those that became 0, and
        saturated: those beyond the type's largest number, which became it, infinity or NaN.
        became_numbers: NaN and infinities that became finite numbers.
        smallest, largest: of the magnitudes of the numbers that are not zero; 0 if there are none.
        error: of all numbers, against those given.
    """

    type: str
    elements: int
    rounded: int
    occupied: int
    zeroed: int
    saturated: int
    became_numbers: int
    smallest: float
    largest: float
    error: Deviation

    def notes(self, name: str) -> tuple[str, ...]:
        """What to tell the reader, a line each; `name` is the matrix's, for example "A: "."""
        lines = []
        if self.rounded:
            lines.append(f"{name}{self.rounded:,} of {self.elements:,} numbers were rounded to {self.type}")
        for count, became in (
            (self.zeroed, f"became 0 in {self.type}"),
            (self.saturated, f"are beyond the largest number of {self.type}"),
        ):
            if count > MOST * self.occupied or (count and became.startswith("are")):
                loud = _WARNING if count > MOST * self.occupied else ""
                lines.append(
                    f"{loud}{name}{count:,} of {self.occupied:,} numbers that are not 0 {became} (magnitudes are "
                    f"{self.smallest:.3g} to {self.largest:.3g}): scale the matrix to the type's range before"
                )
        if self.became_numbers:
            what = f"{self.became_numbers:,} NaN or infinite elements"
            lines.append(f"{_WARNING}{name}{what} became numbers in {self.type}")
        return tuple(lines)

    def to_dict(self) -> dict[str, object]:
        """As plain values, ready for JSON."""
        counts = {name: getattr(self, name) for name in ("type", "elements", "rounded", "zeroed", "saturated")}
        return counts | {"became_numbers": self.became_numbers} | self.error.to_dict()


def rounding_of(matrix: ArrayLike | Given, patterns: Patterns, type: str, rounded: int) -> Rounding:
    """What rounding a matrix to patterns of a type did; `rounded` is what `as_patterns` counted."""
    if not rounded:
        return Rounding(type, patterns.size, 0, 0, 0, 0, 0, 0.0, 0.0, Deviation())
    before, after = numbers_of(matrix, type), to_values(patterns, type)
    finite = np.isfinite(before)
    occupied = finite & (before != 0)
    sizes = np.abs(before[occupied])
    return Rounding(
        type,
        patterns.size,
        rounded,
        int(occupied.sum()),
        int((occupied & (after == 0)).sum()),
        int((sizes > largest_number(type)).sum()),
        int((~finite & np.isfinite(after)).sum()),
        float(sizes.min()) if sizes.size else 0.0,
        float(sizes.max()) if sizes.size else 0.0,
        deviation(after, before),
    )


def rounding_to_tf32(patterns: Patterns) -> Rounding:
    """What the tensor core does to numbers of f32, which it multiplies as tf32."""
    nearest = convert(patterns, "f32", "tf32")
    before = to_values(patterns, "f32")
    after = to_float64(nearest, ELEMENT_TYPES["tf32"])
    rounded = int(((after != before) & ~np.isnan(before)).sum())
    sizes = np.abs(before[np.isfinite(before) & (before != 0)])
    span = (float(sizes.min()), float(sizes.max())) if sizes.size else (0.0, 0.0)
    zeroed, error = int(((after == 0) & (before != 0)).sum()), deviation(after, before)
    return Rounding("tf32", patterns.size, rounded, sizes.size, zeroed, 0, 0, *span, error)


def largest_number(type: str) -> float:
    """The largest magnitude that a type has on both sides of zero (s8: 128, which it has below)."""
    element = matrix_type(type)
    if not element.is_float:
        return float(1 << (element.bits - 1))
    values = {"e2m1": 6.0, "e4m3": 448.0, "e5m2": 57344.0, "f16": 65504.0}
    name = element.name
    if name in values:
        return values[name]
    return float((2 - 2.0**-element.fraction) * 2.0 ** ((1 << (element.exponent - 1)) - 1))


def patterns_told(matrix: ArrayLike | Given, type: str) -> Patterns:
    """A matrix as patterns of a type; a Python warning where that loses most of it, as s8 does of numbers below 1."""
    patterns, rounded = as_patterns(matrix, type)
    if rounded:
        for line in rounding_of(matrix, patterns, type, rounded).notes(""):
            if line.startswith(_WARNING):
                warnings.warn(line.removeprefix(_WARNING), stacklevel=3)
    return patterns
