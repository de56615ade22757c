"""Tensor maps by the numbers of the CUDA driver's enumerations: CUtensorMapDataType, CUtensorMapInterleave,
CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill. CUDA 13.0, cuda.h."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isa.descriptors.tensor_map_fields import (
    ATOMS,
    DRIVER_SWIZZLES,
    FILLS,
    INTERLEAVES,
    PROMOTIONS,
    SWIZZLES,
    TYPE_OF_DRIVER,
)
from isa.descriptors.tensor_map_rules import refuse

ENUMERATIONS: Mapping[str, int] = {
    "data_type": len(TYPE_OF_DRIVER), "interleave": len(INTERLEAVES), "swizzle": len(DRIVER_SWIZZLES),
    "l2_promotion": len(PROMOTIONS), "fill": len(FILLS),
}  # fmt: skip
"""How many numbers each enumeration has, from 0 on."""


def of_driver(numbers: Mapping[str, int]) -> dict[str, Any]:
    """The fields of `TensorMap` that these numbers of `ENUMERATIONS` mean.

    Raises:
        IsaError: a number that its enumeration does not have.
    """
    for name, count in ENUMERATIONS.items():
        if not 0 <= numbers[name] < count:
            raise refuse(numbers[name], f"{name} {numbers[name]}", f"0 to {count - 1}", name)
    swizzle, atom = DRIVER_SWIZZLES[numbers["swizzle"]]
    return {
        "type": TYPE_OF_DRIVER[numbers["data_type"]].name, "interleave": INTERLEAVES[numbers["interleave"]],
        "swizzle": SWIZZLES[swizzle], "atom": ATOMS[atom][0], "flip": ATOMS[atom][1],
        "l2_promotion": PROMOTIONS[numbers["l2_promotion"]], "fill": FILLS[numbers["fill"]],
    }  # fmt: skip


def wide_corners(rank: int, lower: int, upper: int) -> dict[str, Sequence[int]]:
    """The corners of a map of cuTensorMapEncodeIm2colWide: those of W, and 0. So the driver of an
    H200 writes it, measured."""
    return {name: (number, *(0,) * (rank - 3)) for name, number in (("lower", lower), ("upper", upper))}
