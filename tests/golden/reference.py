"""The arithmetic once more, one output at a time in Python fractions: slow, independent of numpy and of the simulator's tables.

Follows the rules as stated in `simulator.arithmetic.rows`, `fused` and `exact`; shares no code with them but the rows' numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from isa.types import ElementType
from simulator.arithmetic import SumRow

Number = tuple[str, int, Fraction, int]
"""("nan" | "inf" | "number", sign, magnitude, exponent of the leading place)"""


def read(pattern: int, element: ElementType) -> Number:
    """One pattern."""
    pattern >>= element.padding
    fraction = pattern & ((1 << element.fraction) - 1)
    field = pattern >> element.fraction & ((1 << element.exponent) - 1)
    sign = pattern >> (element.fraction + element.exponent) & 1
    if field == (1 << element.exponent) - 1:
        if element.infinity:
            return ("nan" if fraction else "inf"), sign, Fraction(0), 0
        if fraction == (1 << element.fraction) - 1:
            return "nan", sign, Fraction(0), 0
    exponent = max(field, 1) - element.bias
    significand = fraction + ((1 << element.fraction) if field else 0)
    return "number", sign, significand * Fraction(2) ** (exponent - element.fraction), exponent


def leading_place(x: Fraction) -> int:
    """floor(log2 x) of a positive fraction."""
    guess = x.numerator.bit_length() - x.denominator.bit_length()
    return guess if Fraction(2) ** guess <= x else guess - 1


def write(x: Fraction, element: ElementType, nearest: bool, kept: int | None = None) -> int:
    """Round once (to nearest even, or toward zero) and return the pattern's magnitude bits; the sign is the caller's business."""
    kept = element.fraction if kept is None else kept
    magnitude = abs(x)
    if magnitude == 0:
        return 0
    exponent = max(leading_place(magnitude), 1 - element.bias)
    scaled = magnitude / Fraction(2) ** (exponent - kept)
    digits = round(scaled) if nearest else int(scaled)  # Python rounds ties of fractions to even
    pattern = ((exponent + element.bias - 1) << element.fraction) + (digits << (element.fraction - kept))
    return min(pattern, ((1 << element.exponent) - 1) << element.fraction)


def special(terms: Sequence[tuple[Number, Number]], c: Number, result: ElementType) -> int | None:
    """The result if a NaN or an infinity decides it."""
    infinite = set()
    for x, y in terms:
        if "nan" in (x[0], y[0]):
            return result.mask >> 1
        if "inf" in (x[0], y[0]):
            if (x[0] == "number" and x[2] == 0) or (y[0] == "number" and y[2] == 0):
                return result.mask >> 1
            infinite.add(x[1] ^ y[1])
    if c[0] == "nan":
        return result.mask >> 1
    if c[0] == "inf":
        infinite.add(c[1])
    if len(infinite) == 2:
        return result.mask >> 1
    if infinite:
        return infinite.pop() << (result.bits - 1) | ((1 << result.exponent) - 1) << result.fraction
    return None


def step(terms: Sequence[tuple[Number, Number]], c: Number, row: SumRow, result: ElementType) -> int:
    """One aligned, truncated, fused sum."""
    decided = special(terms, c, result)
    if decided is not None:
        return decided
    summands = [(x[1] ^ y[1], x[2] * y[2], x[3] + y[3]) for x, y in terms] + [c[1:]]
    top = max([exponent for _, magnitude, exponent in summands if magnitude] + [row.floor(result)])
    unit = Fraction(2) ** (top - row.fraction)
    total = sum((-1 if sign else 1) * int(magnitude / unit) for sign, magnitude, _ in summands) * unit
    pattern = write(total, result, nearest=result.bits == 16, kept=row.kept if result.bits == 32 else None)
    return pattern | (1 << (result.bits - 1) if total < 0 and pattern else 0)


def chip(terms: tuple[Sequence[int], Sequence[int]], c: int, inputs: tuple[ElementType, ElementType], result: ElementType, row: SumRow) -> int:
    """All steps of an instruction, for one output: patterns in the order of the stored columns."""
    pairs = [(read(x, inputs[0]), read(y, inputs[1])) for x, y in zip(*terms, strict=True)]
    if row.through:
        pairs = [(_as_f16(x), _as_f16(y)) for x, y in pairs]
    length = row.step_bytes // (2 if row.through or inputs[0].bits == 16 else inputs[0].bits // 8)
    first = [p for i, p in enumerate(pairs) if not (row.split and i // row.split % 2)]
    second = [p for i, p in enumerate(pairs) if row.split and i // row.split % 2]
    total = 0 if row.add_last else c
    for group in (first, second):
        for i in range(0, len(group), length):
            total = step(group[i : i + length], read(total, result), row, result)
    return add(c, total, result) if row.add_last else total


def add(x: int, y: int, result: ElementType) -> int:
    """IEEE addition to nearest even of two patterns, with the canonical NaN."""
    one = ("number", 0, Fraction(1), 0)
    return exact_numbers([(read(x, result), one)], read(y, result), result)


def exact(a: Sequence[int], b: Sequence[int], c: int, inputs: tuple[ElementType, ElementType], result: ElementType) -> int:
    """The correctly rounded sum, for one output."""
    return exact_numbers([(read(x, inputs[0]), read(y, inputs[1])) for x, y in zip(a, b, strict=True)], read(c, result), result)


def exact_numbers(terms: Sequence[tuple[Number, Number]], c: Number, result: ElementType) -> int:
    decided = special(terms, c, result)
    if decided is not None:
        return decided
    total = sum(((-1) ** (x[1] ^ y[1]) * x[2] * y[2] for x, y in terms), (-1) ** c[1] * c[2])
    return write(total, result, nearest=True) | (1 << (result.bits - 1) if total < 0 else 0)


def _as_f16(x: Number) -> Number:
    """The exponent that the number has as f16."""
    return (x[0], x[1], x[2], max(leading_place(x[2]), -14)) if x[2] else x
