"""Number formats of tensor cores, decoded from their definition (PTX ISA 9.0, 5.2, docs/formats.md): sign, significand
and exponent of every pattern, without any of the simulator's arithmetic."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Format(NamedTuple):
    """A number format.

    Attributes:
        bits: of the place that an element has in a register.
        exponent, fraction, bias: of a float; exponent 0 for an integer, whose `bias` is 1 where it has a sign.
        low: the position of the element's lowest bit in its place.
        special: "ieee" (infinity and NaN), "top" (NaN is all ones, no infinity), "none".
        signed: whether a float has a sign.
    """

    bits: int
    exponent: int = 0
    fraction: int = 0
    bias: int = 0
    low: int = 0
    special: str = "ieee"
    signed: bool = True

    @property
    def used(self) -> int:
        """The bits of a place that are looked at."""
        if not self.exponent:
            return (1 << self.bits) - 1
        return ((1 << self.exponent + self.fraction + self.signed) - 1) << self.low

    @property
    def is_float(self) -> bool:
        """Whether it is a float."""
        return self.exponent > 0


FORMATS = {
    "f32": Format(32, 8, 23, 127),
    "tf32": Format(32, 8, 10, 127, low=13),
    "f16": Format(16, 5, 10, 15),
    "bf16": Format(16, 8, 7, 127),
    "e5m2": Format(8, 5, 2, 15),
    "e4m3": Format(8, 4, 3, 7, special="top"),
    "e3m2": Format(8, 3, 2, 3, special="none"),
    "e2m3": Format(8, 2, 3, 1, special="none"),
    "e2m1": Format(8, 2, 1, 1, low=2, special="none"),
    "e2m1 packed": Format(4, 2, 1, 1, special="none"),
    "ue8m0": Format(8, 8, 0, 127, special="top", signed=False),
    "ue4m3": Format(8, 4, 3, 7, special="top", signed=False),
    "s32": Format(32, bias=1),
    "s8": Format(8, bias=1),
    "u8": Format(8),
    "s4": Format(4, bias=1),
    "u4": Format(4),
}


class Parts(NamedTuple):
    """Decoded floats: value = (-1)^negative * significand * 2^(exponent - fraction)."""

    negative: Any
    significand: Any
    exponent: Any
    nan: Any
    infinite: Any
    fraction: int

    def at(self, index: Any) -> Parts:
        """Some of them."""
        return Parts(*(array[index] for array in self[:5]), self.fraction)

    @property
    def value(self) -> Any:
        """As float64."""
        found = np.ldexp(self.significand.astype(np.float64), self.exponent - self.fraction)
        found = np.where(self.infinite, np.inf, np.where(self.nan, np.nan, found))
        return np.where(self.negative, -found, found)


def parts(patterns: Any, form: Format) -> Parts:
    """Decodes floats. A subnormal has the exponent of the smallest normal number, and no hidden one."""
    kept = np.asarray(patterns).astype(np.int64) >> form.low
    field, fraction = kept >> form.fraction & ((1 << form.exponent) - 1), kept & ((1 << form.fraction) - 1)
    negative = (kept >> form.exponent + form.fraction & 1 == 1) & form.signed
    lowest = 1 if form.fraction else 0  # ue8m0 has powers of two alone
    significand = fraction | np.where(field >= lowest, 1 << form.fraction, 0)
    exponent = np.maximum(field, lowest) - form.bias
    top, full = field == (1 << form.exponent) - 1, (1 << form.fraction) - 1
    never = np.zeros_like(top)
    nan = {"ieee": top & (fraction != 0), "top": top & (fraction == full), "none": never}[form.special]
    infinite = top & (fraction == 0) if form.special == "ieee" else never
    return Parts(negative, np.where(nan | infinite, 1, significand), exponent, nan, infinite, form.fraction)


def whole(patterns: Any, form: Format) -> Any:
    """Decodes integers."""
    kept = np.asarray(patterns).astype(np.int64)
    return kept - ((kept >> form.bits - 1 & 1) << form.bits) if form.bias else kept


def value(patterns: Any, form: Format) -> Any:
    """The numbers as float64."""
    return parts(patterns, form).value if form.is_float else whole(patterns, form).astype(np.float64)


def rank(patterns: Any, form: Format) -> Any:
    """The place of each number among all numbers of its format; both zeros are 0."""
    if not form.is_float:
        return whole(patterns, form)
    size = np.asarray(patterns).astype(np.int64) & (1 << form.exponent + form.fraction) - 1
    return np.where(parts(patterns, form).negative, -size, size)
