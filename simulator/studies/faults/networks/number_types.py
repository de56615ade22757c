"""The types in which a layer's operands are stored, and how numbers become patterns of them.

f16 and bf16 hold the numbers themselves, rounded to the nearest. s8 and e4m3 hold them divided by a scale: each row of
weights by its own, so that its largest magnitude is the type's largest number, and all activations of a layer by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.forms.mma import MmaForm, mma_forms
from isa.types import ELEMENT_TYPES, Bits, ElementType
from simulator.arithmetic.convert import from_float64, to_float64
from simulator.arithmetic.formats import integers
from simulator.errors import ViewError, did_you_mean

Reals = NDArray[np.float64]


@dataclass(frozen=True)
class NumberType:
    """One type of operands.

    Attributes:
        name: the element type of weights and activations.
        accumulator: the element type of D.
        opcode: the instruction that multiplies a tile.
        largest: the number that the largest magnitude is scaled to; 0: numbers are not scaled.
    """

    name: str
    accumulator: str
    opcode: str
    largest: float = 0.0

    @property
    def element(self) -> ElementType:
        """The element type of weights and activations."""
        return ELEMENT_TYPES[self.name]

    @property
    def result(self) -> ElementType:
        """The element type of D."""
        return ELEMENT_TYPES[self.accumulator]

    @property
    def form(self) -> MmaForm:
        """The form of the instruction."""
        return mma_forms()[f"mma.sp::ordered_metadata.sync.aligned.{self.opcode}"]

    def scales(self, largest: Reals) -> Reals:
        """What to divide numbers of these largest magnitudes by."""
        if not self.largest:
            return np.ones_like(largest)
        return np.where(largest > 0, largest / self.largest, 1.0)

    def patterns(self, numbers: NDArray[Any]) -> Bits:
        """Numbers, divided by their scale, as patterns: to the nearest, saturated where the type is scaled."""
        values = np.asarray(numbers, np.float64)
        if not self.element.is_float:
            most = self.largest
            return np.asarray(np.clip(np.rint(values), -most, most).astype(np.int8).view(np.uint8), np.uint32)
        return from_float64(values, self.element, satfinite=bool(self.largest))

    def numbers(self, patterns: Bits) -> Reals:
        """The numbers that patterns of an operand stand for."""
        return numbers_of(patterns, self.element)


def numbers_of(patterns: Bits, element: ElementType) -> Reals:
    """The numbers that patterns of a type stand for, float64."""
    if not element.is_float:
        return integers(patterns, element).astype(np.float64)
    return to_float64(patterns, element)


TYPES = {
    kind.name: kind
    for kind in (
        NumberType("f16", "f32", "m16n8k32.row.col.f32.f16.f16.f32"),
        NumberType("bf16", "f32", "m16n8k32.row.col.f32.bf16.bf16.f32"),
        NumberType("s8", "s32", "m16n8k64.row.col.s32.s8.s8.s32", 127.0),
        NumberType("e4m3", "f32", "m16n8k64.row.col.f32.e4m3.e4m3.f32", 448.0),
    )
}


def number_type(name: str) -> NumberType:
    """The type of a name; ViewError for any other."""
    if name not in TYPES:
        raise ViewError(f"no layer is stored as '{name}'{did_you_mean(name, TYPES)}", ", ".join(TYPES))
    return TYPES[name]
