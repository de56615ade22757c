"""The arithmetic once more, one output at a time in exact Python numbers: slow, independent of numpy and of the
simulator's tables.

Follows the rules as stated in `simulator.arithmetic.rows`, `fused`, `chain` and `exact`; shares no code with them but
the numbers of the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import prod
from typing import NamedTuple

from isa.types import F64, SCALE_TYPES, ElementType
from simulator.arithmetic import SumRule
from tests.support.dyadic import Dyadic

Number = tuple[str, int, Dyadic, int]
"""("nan" | "inf" | "number", sign, magnitude, exponent of the leading place)"""
Term = tuple[Number, ...]
"""The factors of a product: an element of A, one of B, and the block scales of both, if there are any."""


_ZERO = Dyadic(0)


class Types(NamedTuple):
    """Of the operands and of the result."""

    a: ElementType
    b: ElementType
    c: ElementType
    d: ElementType


class Factors(NamedTuple):
    """Block scale factors of a row of A and a column of B: patterns, each for an equal share of the products, and the
    type of all."""

    a: Sequence[int]
    b: Sequence[int]
    type: ElementType


def read(pattern: int, element: ElementType) -> Number:
    """One pattern."""
    pattern >>= element.padding
    fraction = pattern & ((1 << element.fraction) - 1)
    field = pattern >> element.fraction & ((1 << element.exponent) - 1)
    sign = pattern >> (element.fraction + element.exponent) & 1 if element.signed else 0
    if element.nan and field == (1 << element.exponent) - 1:
        if element.infinity and not element.finite_top and element not in SCALE_TYPES.values():
            return ("nan" if fraction else "inf"), sign, _ZERO, 0
        if fraction == (1 << element.fraction) - 1:
            return "nan", sign, _ZERO, 0
    if not element.fraction:  # ue8m0: powers of two alone
        return "number", sign, Dyadic(1, field - element.bias), field - element.bias
    exponent = max(field, 1) - element.bias
    significand = fraction + ((1 << element.fraction) if field else 0)
    return "number", sign, Dyadic(significand, exponent - element.fraction), exponent


def _leading_place(numerator: int, denominator: int) -> int:
    """floor(log2) of a positive number."""
    guess = numerator.bit_length() - denominator.bit_length()
    return guess if denominator << max(guess, 0) <= numerator << max(-guess, 0) else guess - 1


def write(x: Fraction | Dyadic, element: ElementType, nearest: bool, kept: int | None = None) -> int:
    """Round once (to nearest even, or toward zero) and return the pattern's magnitude bits; the sign is the caller's
    business."""
    kept = element.fraction if kept is None else kept
    numerator, denominator = abs(x.numerator), x.denominator
    if not numerator:
        return 0
    exponent = max(_leading_place(numerator, denominator), 1 - element.bias)
    lift = exponent - kept
    unit = denominator << max(lift, 0)
    digits, rest = divmod(numerator << max(-lift, 0), unit)
    if nearest and (2 * rest > unit or (2 * rest == unit and digits % 2)):
        digits += 1
    pattern = ((exponent + element.bias - 1) << element.fraction) + (digits << (element.fraction - kept))
    return min(pattern, infinity(element))


def infinity(element: ElementType) -> int:
    return ((1 << element.exponent) - 1) << element.fraction


def special(terms: Sequence[Term], c: Number, result: ElementType) -> int | None:
    """The result if a NaN or an infinity decides it."""
    infinite = set()
    for term in terms:
        if any(kind == "nan" for kind, *_ in term):
            return result.mask >> 1
        if any(kind == "inf" for kind, *_ in term):
            if any(kind == "number" and not magnitude for kind, _, magnitude, _ in term):
                return result.mask >> 1
            infinite.add(sum(sign for _, sign, _, _ in term) % 2)
    if c[0] == "nan":
        return result.mask >> 1
    if c[0] == "inf":
        infinite.add(c[1])
    if len(infinite) == 2:
        return result.mask >> 1
    if infinite:
        return infinite.pop() << (result.bits - 1) | infinity(result)
    return None


def value(term: Term) -> Dyadic:
    """A product of numbers, exact and signed."""
    negative = sum(sign for _, sign, _, _ in term) % 2
    digits = prod(magnitude.digits for _, _, magnitude, _ in term)
    return Dyadic(-digits if negative else digits, sum(magnitude.place for _, _, magnitude, _ in term))


def aligned(summands: Sequence[tuple[Dyadic, int]], rule: SumRule, result: ElementType) -> int:
    """Summands (number, exponent), all finite, those that are left out not among them: truncated each, added,
    rounded."""
    top = max([exponent for _, exponent in summands] + [rule.floor(result)])
    unit = top - rule.fraction
    total = sum((-1 if number.digits < 0 else 1) * number.whole(unit) for number, _ in summands)
    pattern = write(
        Dyadic(total, unit), result, nearest=result.bits == 16, kept=rule.kept if result.bits == 32 else None
    )
    return pattern | (1 << (result.bits - 1) if total < 0 and pattern else 0)


def step(terms: Sequence[Term], c: Number, rule: SumRule, result: ElementType) -> int:
    """One aligned, truncated, fused sum."""
    decided = special(terms, c, result)
    if decided is not None:
        return decided
    summands = [(value(term), sum(exponent for *_, exponent in term)) for term in (*terms, (c,))]
    return aligned([summand for summand in summands if summand[0]], rule, result)


def chip(
    elements: tuple[Sequence[int], Sequence[int]], c: int, types: Types, rule: SumRule, factors: Factors | None = None
) -> int:
    """All steps of an instruction, for one output: patterns of A and what they meet in B, in the order of the stored
    columns."""
    pairs: list[Term] = [(read(x, types.a), read(y, types.b)) for x, y in zip(*elements, strict=True)]
    if rule.chained:
        return chain(pairs, read(c, types.c), types.d)
    if rule.group:
        assert factors is not None
        return grouped(pairs, list(scales(factors, len(pairs))), read(c, types.c), rule, types.d)
    if factors is not None:
        pairs = [(*pair, *scale) for pair, scale in zip(pairs, scales(factors, len(pairs)), strict=True)]
    if rule.through:
        pairs = [tuple(_as_f16(x) for x in pair) for pair in pairs]
    length = rule.step_bytes * 8 // (16 if rule.through else types.a.bits)
    first = [p for i, p in enumerate(pairs) if not (rule.split and i // rule.split % 2)]
    second = [p for i, p in enumerate(pairs) if rule.split and i // rule.split % 2]
    total, read_as = (0, types.d) if rule.add_last else (c, types.c)
    for group in (first, second):
        for i in range(0, len(group), length):
            total, read_as = step(group[i : i + length], read(total, read_as), rule, types.d), types.d
    return add(c, total, types.d) if rule.add_last else total


def scales(factors: Factors, products: int) -> Iterator[Term]:
    """Both scales of each product."""
    for i in range(products):
        yield tuple(read(side[i * len(side) // products], factors.type) for side in (factors.a, factors.b))


def grouped(pairs: Sequence[Term], scale: Sequence[Term], c: Number, rule: SumRule, result: ElementType) -> int:
    """Groups of products added exactly, then scaled and aligned by their scales; a group without a product that is not
    zero is left out."""
    decided = special([*pairs, *scale], c, result)  # no element is infinite, so this is NaN of a scale, or C
    if decided is not None:
        return decided
    summands = [(value((c,)), c[3])] if c[2] else []
    for i in range(0, len(pairs), rule.group):
        products = [value(pair) for pair in pairs[i : i + rule.group]]
        if any(products) and value(scale[i]):
            summands.append((sum(products, _ZERO) * value(scale[i]), sum(exponent for *_, exponent in scale[i])))
    return aligned(summands, rule, result)


def add(x: int, y: int, result: ElementType) -> int:
    """IEEE addition to nearest even of two patterns, with the canonical NaN; a zero sum is +0."""
    one = ("number", 0, Dyadic(1), 0)
    return exact_numbers([(read(x, result), one)], read(y, result), result)


def exact(a: Sequence[int], b: Sequence[int], c: int, types: Types, factors: Factors | None = None) -> int:
    """The correctly rounded sum, for one output."""
    terms: list[Term] = [(read(x, types.a), read(y, types.b)) for x, y in zip(a, b, strict=True)]
    if factors is not None:
        terms = [(*term, *scale) for term, scale in zip(terms, scales(factors, len(terms)), strict=True)]
    return exact_numbers(terms, read(c, types.c), types.d)


def exact_numbers(terms: Sequence[Term], c: Number, result: ElementType) -> int:
    decided = special(terms, c, result)
    if decided is not None:
        return decided
    total = sum((value(term) for term in terms), value((c,)))
    return write(total, result, nearest=True) | (1 << (result.bits - 1) if total.digits < 0 else 0)


def _as_f16(x: Number) -> Number:
    """The exponent that the number has as f16."""
    return (x[0], x[1], x[2], max(_leading_place(x[2].numerator, x[2].denominator), -14)) if x[2] else x


# Multiply-adds as IEEE 754-2019 has them


def multiply_add(x: Number, y: Number, z: Number, element: ElementType, rounding: str = "rn") -> int | None:
    """x * y + z as a pattern, rounded once to nearest even ("rn"), toward zero ("rz"), down ("rm") or up ("rp"); None:
    invalid or NaN."""
    sign_bit = 1 << (element.bits - 1)
    decided = special([(x, y)], z, element)
    if decided is not None:
        return decided if decided & (sign_bit - 1) == infinity(element) else None
    total = value((x, y)) + value((z,))
    if not total:
        negative = (
            rounding == "rm" if (x[1] ^ y[1]) != z[1] or value((z,)) else z[1] == 1
        )  # 6.3: signs that differ, and sums that cancel
        return sign_bit if negative else 0
    pattern = write(total, element, nearest=rounding == "rn")
    if rounding in (("rp",) if total.digits > 0 else ("rm",)):
        below = read(pattern, element)  # infinity where the magnitude was cut: it is too large for any number
        pattern += below[0] == "number" and (below[2] - abs(total)).digits < 0
    elif rounding != "rn" and pattern == infinity(element):
        pattern -= 1  # the largest number
    return pattern | (sign_bit if total.digits < 0 else 0)


def chain(pairs: Sequence[Term], c: Number, result: ElementType) -> int:
    """m8n8k4 of f16 as f32 multiply-adds. With an f32 result from +0 up, C last; else C takes in two pairs, and is
    rounded to f16 at the end."""
    f32 = ElementType("f32", 32, exponent=8, fraction=23)
    one = read(0x3F800000, f32)

    def fma(x: Number, y: Number, z: Number) -> Number:
        found = multiply_add(x, y, z, f32)
        return ("nan", 0, _ZERO, 0) if found is None else read(found, f32)

    if result.bits == 32:
        total = read(0, f32)
        for x, y in pairs:
            total = fma(x, y, total)
        total = fma(c, one, total)
    else:
        total = c
        for (x, y), (z, w) in (pairs[:2], pairs[2:]):
            # The product of two f16 is an f32; minus zero as addend leaves its sign alone.
            total = fma(fma(z, w, fma(x, y, read(1 << 31, f32))), one, total)
    if total[0] == "nan":
        return result.mask >> 1
    sign = total[1] << (result.bits - 1)
    return sign | (infinity(result) if total[0] == "inf" else write(total[2], result, nearest=True))


def multiply_add_f64(a: int, b: int, c: int, rounding: str = "rn") -> int:
    """One f64 multiply-add of the chip, patterns: NaN of B before C before A, quiet, with sign and payload;
    0xFFF8000000000000 if invalid."""
    numbers = {pattern: read(pattern, F64) for pattern in (a, b, c)}
    for pattern in (b, c, a):
        if numbers[pattern][0] == "nan":
            return pattern | 1 << 51
    found = multiply_add(numbers[a], numbers[b], numbers[c], F64, rounding)
    return 0xFFF8 << 48 if found is None else found
