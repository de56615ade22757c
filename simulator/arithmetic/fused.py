"""The tensor core's own sum: aligned, truncated, fused.

Every term (a product, or C) is aligned to the largest exponent of the terms, truncated toward zero to a number of fraction bits, and added
exactly; the sum is rounded once. Exponents are those of `Decoded`: a product's is the sum of its factors', not normalised. Arrays are laid
out [column of B, product, output], so that every operation runs along many outputs.
Source: `simulator.arithmetic.rows`; measured on H100, November 2026.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from isa.types import Bits, ElementType
from simulator.arithmetic.formats import Decoded, Exponents, Reals, decode, encode, powers
from simulator.arithmetic.rows import SumRow


def fused_step(value: Reals, exponent: Exponents, c: Decoded, row: SumRow, result: ElementType) -> Bits:
    """One step: the sum of products and C, rounded to `result` (f32: toward zero, f16: to nearest even).

    Args:
        value: products [n, product, output], exact.
        exponent: their exponents, same shape.
        c: [n, output].
        row: parameters.
        result: f32 or f16.

    Returns:
        Patterns uint32 [n, output].

    Why float64 is exact here: products have at most 22 significant bits and c 24. `scale` is a power of two between 2^-235 and 2^158 and
    products lie between 2^-272 and 2^256, so scaling neither rounds nor underflows. A scaled term is below 2^(fraction + 2) <= 2^27, whose
    integer part `trunc` gives exactly; at most 65 of them stay below 2^34, so the sum is exact in any order, and so is scaling back.
    Infinities and NaN pass through all of it by IEEE's rules, which are the tensor core's.
    """
    with np.errstate(invalid="ignore"):  # infinities of both signs: NaN, as it should be
        top = np.maximum(exponent.max(axis=1), c.exponent)
        np.maximum(top, row.floor(result), out=top)
        scale = powers(row.fraction - top)
        aligned = value * scale[:, None, :]
        np.trunc(aligned, out=aligned)
        total = np.add.reduce(aligned, axis=1)
        total += np.trunc(c.value * scale)
        total *= powers(top - row.fraction)
    return encode(total, result, nearest=result.bits == 16, fraction=row.kept if result.bits == 32 else None)


def fused_sum(products: Decoded, c: Bits, row: SumRow, result: ElementType, steps: tuple[int, ...]) -> Bits:
    """All steps of an instruction: products [n, product, output] in the order of `row.steps`, C patterns [n, output] -> D patterns.

    Args:
        products: decoded products.
        c: patterns of type `result`.
        row: parameters.
        result: type of C and D, f32 or f16.
        steps: products in each step, summing to their number.
    """
    bounds = [sum(steps[:i]) for i in range(len(steps) + 1)]
    total = np.zeros_like(c) if row.add_last else c
    for start, stop in pairwise(bounds):
        total = fused_step(products.value[:, start:stop], products.exponent[:, start:stop], decode(total, result), row, result)
    if not row.add_last:
        return total
    # An exact float64 sum would need more than 53 bits, but rounding first to 53 and then to 24 (or 11) bits is harmless for a sum of two
    # numbers of that size: 53 >= 2 * 24 + 2 (Figueroa 1995). Subnormal sums are exact in both.
    with np.errstate(invalid="ignore"):
        final = decode(c, result).value + decode(total, result).value
    return encode(final, result, nearest=True)
