"""The sum that a tensor core itself computes, in numpy: products and C are aligned, truncated, added together and
rounded once. `compiled/kernel.c` does the same steps and is tested to be equal.

Every term (a product, or C) is aligned to the largest exponent of the terms, truncated toward zero to a number of
fraction bits, and added exactly; the sum is rounded once. Exponents are those of `Decoded`: a product's is the sum of
its factors', not normalised. Arrays are laid out [column of B, product, output], so that every operation runs along
many outputs.

Source: `simulator.arithmetic.rows`; measured on H100, November 2026.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from isa.types import Bits, ElementType
from simulator.arithmetic.formats import NO_EXPONENT, Decoded, Exponents, Reals, decode, encode, powers
from simulator.arithmetic.hooks import Hooks
from simulator.arithmetic.rows import SumRule


def fused_step(
    value: Reals,
    exponent: Exponents,
    c: Decoded,
    rule: SumRule,
    result: ElementType,
    step: int = 0,
    hooks: Hooks | None = None,
) -> Bits:
    """One step: the sum of products and C, rounded to `result` (f32: toward zero, f16: to nearest even).

    Args:
        value: terms [n, product, output], exact: products, or groups of products with their scales.
        exponent: the exponents that they are aligned by, same shape.
        c: [n, output].
        rule: parameters.
        result: f32 or f16.
        step, hooks: the number of the step, and what may change its sum and its result.

    Returns:
        Patterns uint32 [n, output].

    Why float64 is exact here: terms have at most 24 significant bits. `scale` is a power of two between 2^-280 and
    2^174 and terms lie between 2^-286 and 2^290, so scaling neither rounds nor underflows to anything but what is cut
    anyway. A scaled term is below 2^(fraction + 2) <= 2^27, or 2^(fraction + 11) <= 2^46 for groups (at most 16
    products of 6 * 6, scales below 2^2), whose integer part `trunc` gives exactly; at most 65 of the first, or 5 of the
    second, stay below 2^49, so the sum is exact in any order, and so is scaling back. Infinities and NaN pass through
    all of it by IEEE's rules, which are the tensor core's.
    """
    with np.errstate(invalid="ignore"):  # infinities of both signs: NaN, as it should be
        top = np.maximum(exponent.max(axis=1), c.exponent)
        np.maximum(top, rule.floor(result), out=top)
        scale = powers(rule.fraction - top)
        aligned = value * scale[:, None, :]
        np.trunc(aligned, out=aligned)
        total = np.add.reduce(aligned, axis=1)
        addend = np.trunc(c.value * scale)
        total += addend
        if hooks is not None:
            total += hooks.shift(step, aligned, addend)
        total *= powers(top - rule.fraction)
    d = encode(total, result, nearest=result.bits == 16, fraction=rule.kept if result.bits == 32 else None)
    return d if hooks is None else hooks.result(step, d)


def fused_sum(
    products: Decoded,
    c: Bits,
    rule: SumRule,
    types: tuple[ElementType, ElementType],
    steps: tuple[int, ...],
    hooks: Hooks | None = None,
) -> Bits:
    """All steps of an instruction: products [n, product, output] in the order of `rule.steps`, C patterns [n, output]
    -> D patterns.

    Args:
        products: decoded products.
        c: patterns of C.
        rule: parameters.
        types: of C, f32 or f16, and of D and of what passes from step to step.
        steps: products in each step, summing to their number.
        hooks: what may change the sums.
    """
    c_type, result = types
    bounds = [sum(steps[:i]) for i in range(len(steps) + 1)]
    addend = decode(c, c_type)
    total = decode(np.zeros_like(c), result) if rule.add_last else addend
    pattern = c
    for step, (start, stop) in enumerate(pairwise(bounds)):
        terms = products.value[:, start:stop], products.exponent[:, start:stop]
        pattern = fused_step(*terms, total, rule, result, step, hooks)
        total = decode(pattern, result)
    return add_rounded(addend.value, total.value, result) if rule.add_last else pattern


def add_rounded(x: Reals, y: Reals, result: ElementType) -> Bits:
    """x + y to nearest even; both are numbers of `result`.

    An exact float64 sum would need more than 53 bits, but rounding first to 53 and then to 24 (or 11) bits is harmless
    for a sum of two numbers of that size: 53 >= 2 * 24 + 2 (Figueroa 1995). Subnormal sums are exact in both.
    """
    with np.errstate(invalid="ignore"):
        return encode(x + y, result, nearest=True)


def grouped_sum(
    products: Decoded, scale: Decoded, c: Bits, rule: SumRule, result: ElementType, hooks: Hooks | None = None
) -> Bits:
    """Products [n, product, output], in groups of `rule.group` with one scale each [n, group, output], and C -> D
    patterns [n, output].

    A group is added exactly; it is aligned by the exponent of its scale alone, and takes part if it has a product that
    is not zero. Source: MMA-Sim 2.1.1 (mxf4, mxf4nvf4); which products a sparse instruction groups is inferred.
    """
    n, count, outputs = products.value.shape
    shape = (n, count // rule.group, rule.group, outputs)
    with np.errstate(invalid="ignore"):  # a scale that is NaN
        value = np.add.reduce(products.value.reshape(shape), axis=2) * scale.value
    present = products.exponent.reshape(shape).max(axis=2) > NO_EXPONENT // 2
    exponent = np.where(present, scale.exponent, np.int16(NO_EXPONENT))
    return fused_step(value, exponent, decode(c, result), rule, result, 0, hooks)
