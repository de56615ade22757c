"""Sums that are known to tell one chip's arithmetic from another's, with what each gives.

Products are powers of two times small numbers, written as `(a, b)`; those not named are zero. Source of the expected
results: MMA-Sim 2.1.1 (measured by its authors on every architecture), each also explained by the rule that it shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, nan

import numpy as np
from numpy.typing import NDArray

from isa.types import ElementType
from tests.golden.mmasim_cases import Instruction

Number = float
OLD, NEW = ("Turing", "Ampere", "Ada Lovelace"), ("Hopper", "Blackwell", "RTX Blackwell")


@dataclass(frozen=True)
class Probe:
    """One dot product.

    Attributes:
        shows: what it is about.
        inputs: type of A and B.
        result: type of D.
        products: column -> factors.
        c: addend.
        old: pattern of the result on Turing to Ada, None if it has none there.
        new: on Hopper and later.
        others: factors of the columns that are not named.
        only: `family|architecture` of the instructions that it is for, if not for all.
    """

    shows: str
    inputs: str
    result: str
    products: tuple[tuple[int, Number, Number], ...]
    c: Number
    old: int | None
    new: int | None
    others: tuple[Number, Number] = (0.0, 0.0)
    only: tuple[str, ...] = ()

    def expected(self, instruction: Instruction) -> int | None:
        """The pattern that the instruction gives; None if the probe is not for it."""
        types = (instruction.a_type.name, instruction.b_type.name, instruction.d_type.name)
        if types != (self.inputs, self.inputs, self.result) or instruction.block:
            return None
        if self.only and f"{instruction.family}|{instruction.architecture}" not in self.only:
            return None
        if instruction.shape == "m8n8k4" and self.inputs == "f16":  # Volta's sum
            return None
        if any(column >= instruction.mnk[2] for column, _, _ in self.products):
            return None
        return self.old if instruction.architecture in OLD else self.new if instruction.architecture in NEW else None


def _two(exponent: int) -> float:
    return 2.0**exponent


_SQUARES = ((0, 1.5, 1.5), (1, -1.5, 1.5))
_TIE = (0, _two(-11), _two(-14))
_LEAST = _two(-126)
_BELOW_TWO = 2 - _two(-23)

PROBES = (
    Probe("24 fraction bits", "f16", "f32", _SQUARES, _two(-24), 0x33800000, 0x33800000),
    Probe("25 fraction bits, products not normalised", "f16", "f32", _SQUARES, _two(-25), 0, 0x33000000),
    Probe("no 26th fraction bit", "f16", "f32", _SQUARES, _two(-26), 0, 0),
    Probe(
        "step boundary after 8 products",
        "f16",
        "f32",
        ((0, 1, 1), (1, _two(-12), _two(-12)), (8, -1, 1)),
        0.0,
        0,
        0x33800000,
    ),
    Probe("tie broken by 2^-44", "f16", "f16", (_TIE, (1, _two(-20), _two(-24))), 0.0, 1, 1),
    Probe("tie broken by 2^-45", "f16", "f16", (_TIE, (1, _two(-21), _two(-24))), 0.0, 0, 1),
    Probe("tie broken by 2^-46: floor", "f16", "f16", (_TIE, (1, _two(-22), _two(-24))), 0.0, 0, 1),
    Probe("tie not broken by 2^-47: floor", "f16", "f16", (_TIE, (1, _two(-23), _two(-24))), 0.0, 0, 0),
    Probe("2^-149 - 2^-156: floor", "bf16", "f32", ((0, _two(-23), _LEAST), (1, -_two(-30), _LEAST)), 0.0, 0, 0),
    Probe("2^-149 - 2^-157: floor", "bf16", "f32", ((0, _two(-23), _LEAST), (1, -_two(-31), _LEAST)), 0.0, 1, 0),
    Probe("2^-149 - 2^-158: floor", "bf16", "f32", ((0, _two(-23), _LEAST), (1, -_two(-32), _LEAST)), 0.0, 1, 0),
    Probe("2^-149 - 2^-159: floor", "bf16", "f32", ((0, _two(-23), _LEAST), (1, -_two(-33), _LEAST)), 0.0, 1, 1),
    Probe("a sum that overflows", "bf16", "f32", ((0, _two(127), 1), (1, _two(127), 1)), 0.0, 0x7F800000, 0x7F800000),
    Probe("products beyond f32", "bf16", "f32", ((0, _two(127), _two(127)), (1, -_two(127), _two(127))), 1.0, 0, 0),
    Probe(
        "an infinity against products beyond f32",
        "bf16",
        "f32",
        ((0, _two(127), _two(127)),),
        -inf,
        0xFF800000,
        0xFF800000,
    ),
    Probe("fused", "f64", "f64", ((0, 1 + _two(-52), 1 + _two(-52)),), -1 - _two(-51), 0x3970 << 48, 0x3970 << 48),
    Probe("a product beyond f64", "f64", "f64", ((0, _two(1000), _two(1000)),), 1.0, 0x7FF0 << 48, 0x7FF0 << 48),
    Probe(
        "an infinity against a product beyond f64",
        "f64",
        "f64",
        ((0, _two(1000), _two(1000)),),
        -inf,
        0xFFF0 << 48,
        0xFFF0 << 48,
    ),
    Probe("a product below f64", "f64", "f64", ((0, -_two(-600), _two(-600)),), 0.0, 1 << 63, 1 << 63, (-0.0, 1)),
    Probe("infinity times zero", "f16", "f32", ((0, inf, 0),), 0.0, 0x7FFFFFFF, 0x7FFFFFFF),
    Probe("infinities of both signs", "f16", "f32", ((0, inf, 1), (1, -inf, 1)), 0.0, 0x7FFFFFFF, 0x7FFFFFFF),
    Probe("NaN in C", "f16", "f32", (), nan, 0x7FFFFFFF, 0x7FFFFFFF),
    Probe("infinity times zero, f16", "f16", "f16", ((0, inf, 0),), 0.0, 0x7FFF, 0x7FFF),
    Probe("nothing but negative zeros", "f16", "f32", (), -0.0, 0, 0, (-0.0, -0.0)),
    Probe("nothing but negative zeros", "f16", "f16", (), -0.0, 0, 0, (-0.0, -0.0)),
    Probe("products and C negative zeros", "f16", "f32", (), -0.0, 0, 0, (-0.0, 1)),
    Probe("products and C negative zeros", "f16", "f16", (), -0.0, 0, 0, (-0.0, 1)),
    Probe("a negative number cut to zero", "bf16", "f32", ((0, -_two(-60), _two(-100)),), 0.0, 0, 0),
    Probe("tie to even, down", "f16", "f16", ((0, 1, 1), (1, _two(-11), 1)), 0.0, 0x3C00, 0x3C00),
    Probe("tie to even, up", "f16", "f16", ((0, 1, 1), (1, 3 * _two(-11), 1)), 0.0, 0x3C02, 0x3C02),
    Probe(
        "13 fraction bits kept",
        "e4m3",
        "f32",
        (),
        _BELOW_TWO,
        0x3FFFFC00,
        0x3FFFFC00,
        only=("mma|Ada Lovelace", "wgmma|Hopper"),
    ),
    Probe(
        "23 fraction bits kept",
        "e4m3",
        "f32",
        (),
        _BELOW_TWO,
        None,
        0x3FFFFFFF,
        only=("mma|RTX Blackwell", "tcgen05|Blackwell"),
    ),
)


def pattern(value: Number, element: ElementType) -> int:
    """The pattern of a number that the type holds."""
    sign = 1 << element.sign_bit if np.signbit(value) else 0
    magnitude = abs(value)
    infinity = ((1 << element.exponent) - 1) << element.fraction
    if np.isnan(magnitude) or np.isinf(magnitude):
        return sign | (infinity | bool(np.isnan(magnitude))) << element.padding
    if magnitude == 0:
        return sign
    exponent = max(int(np.frexp(magnitude)[1]) - 1, 1 - element.bias)
    digits = Fraction(magnitude) / Fraction(2) ** (exponent - element.fraction)
    if digits.denominator != 1:
        raise ValueError(f"{value} is no {element}")
    return sign | (((exponent + element.bias - 1) << element.fraction) + int(digits)) << element.padding


def record(probe: Probe, instruction: Instruction) -> NDArray[np.void]:
    """The probe as one case of the instruction (d zero)."""
    case = np.zeros(1, instruction.record(1, 1))
    named = {column: (x, y) for column, x, y in probe.products}
    for column in range(instruction.mnk[2]):
        x, y = named.get(column, probe.others)
        case["a"][0, 0, column] = pattern(x, instruction.a_type)
        case["b"][0, column, 0] = pattern(y, instruction.b_type)
    case["c"] = pattern(probe.c, instruction.c_type)
    return case


def probes(instruction: Instruction) -> NDArray[np.void]:
    """All probes that are for the instruction."""
    found = [record(probe, instruction) for probe in PROBES if probe.expected(instruction) is not None]
    return np.concatenate(found) if found else np.zeros(0, instruction.record(1, 1))
