"""How far numbers are from the ones that they should be, all together: what distances in ulp do not tell.

A result near zero may be millions of ulp from the exact one without anything being lost; the relative Frobenius error
(the root of the summed squares of the errors, over that of the reference), the ratio of signal to noise in dB that
follows from it, and the largest absolute error are what a sum over many results feels.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log10, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits, ElementType
from simulator.arithmetic.convert import to_float64
from simulator.arithmetic.formats import integers, ulp_distance

Reals = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Deviation:
    """Numbers beside their reference.

    Attributes:
        elements: pairs of finite numbers, which are what is measured.
        left_out: pairs of which one is infinite or NaN.
        broken: those of them whose reference is a finite number.
        noise: the sum of the squares of the errors.
        signal: the sum of the squares of the references.
        largest: the largest absolute error; 0 without elements.
    """

    elements: int = 0
    left_out: int = 0
    broken: int = 0
    noise: float = 0.0
    signal: float = 0.0
    largest: float = 0.0

    def __add__(self, other: Deviation) -> Deviation:
        """Of both sets of numbers together."""
        return Deviation(
            self.elements + other.elements,
            self.left_out + other.left_out,
            self.broken + other.broken,
            self.noise + other.noise,
            self.signal + other.signal,
            max(self.largest, other.largest),
        )

    @property
    def relative(self) -> float | None:
        """The relative Frobenius error; None where all references are 0 and something else came out, or nothing can
        be compared."""
        if not self.elements or (not self.signal and self.noise):
            return None
        return sqrt(self.noise / self.signal) if self.noise else 0.0

    @property
    def sqnr_db(self) -> float | None:
        """20 log10 of the references' norm over the errors'; None where there is no error, or no reference but 0."""
        return 10 * log10(self.signal / self.noise) if self.noise and self.signal else None

    def to_dict(self) -> dict[str, Any]:
        """As plain values, ready for JSON: numbers that are infinite are None."""
        return {
            "relative_error": self.relative,
            "sqnr_db": self.sqnr_db,
            "largest_error": self.largest if self.elements else None,
            "left_out": self.left_out,
            "not_finite": self.broken,
        }

    def __str__(self) -> str:
        left = f"; left out: {self.left_out:,} NaN or infinite" if self.left_out else ""
        left += f", {self.broken:,} of them where a number belongs" if self.broken else ""
        if not self.elements:
            return f"nothing to compare{left}"
        if not self.noise:
            return f"none{left}"
        if self.relative is None:
            return f"at most {self.largest:.3g}, where all should be 0{left}"
        shown = f"{self.relative:.2%}" if self.relative >= 1e-4 else f"{self.relative:.2g}"
        ratio = f"{self.sqnr_db:.1f} dB" if self.sqnr_db is not None else "-"
        return f"relative {shown}, SQNR {ratio}, at most {self.largest:.3g}{left}"


def deviation(found: Reals, reference: Reals) -> Deviation:
    """How far numbers are from their reference, of the same shape."""
    x, y = np.asarray(found, np.float64), np.asarray(reference, np.float64)
    finite = np.isfinite(x) & np.isfinite(y)
    same = finite.all()
    kept, wanted = (x.ravel(), y.ravel()) if same else (x[finite], y[finite])
    if not kept.size:
        return Deviation(0, x.size, int(np.isfinite(y).sum()))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        error = np.abs(kept - wanted)
        noise, signal = _squares(error), _squares(wanted)
    return Deviation(
        int(kept.size),
        int(x.size - kept.size),
        0 if same else int((np.isfinite(y) & ~np.isfinite(x)).sum()),
        noise,
        signal,
        float(error.max()),
    )


@dataclass(frozen=True)
class Apart:
    """Results of instructions beside the exact ones of the same operands.

    Attributes:
        largest_ulp: the largest distance, in units in the last place; -1: nothing was compared.
        error: how far they are apart all together.
    """

    largest_ulp: int = -1
    error: Deviation = Deviation()

    def __add__(self, other: Apart) -> Apart:
        """Of both together."""
        return Apart(max(self.largest_ulp, other.largest_ulp), self.error + other.error)


def apart(found: Bits, exact: Bits, element: ElementType) -> Apart:
    """How far patterns of a type are from the exact ones, of the same shape."""
    differ = (found != exact).any()
    largest = int(ulp_distance(found, exact, element).max()) if differ else 0
    right = numbers(exact, element)
    return Apart(largest, deviation(numbers(found, element) if differ else right, right))


def numbers(patterns: Bits, element: ElementType) -> Reals:
    """What patterns stand for, in float64."""
    if element.bits == 64 and element.is_float:
        return np.ascontiguousarray(patterns).view(np.float64)
    return to_float64(patterns, element) if element.is_float else integers(patterns, element).astype(np.float64)


def _squares(x: Reals) -> float:
    return float(np.dot(x, x))
