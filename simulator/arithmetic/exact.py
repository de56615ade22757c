"""The correctly rounded sum, with which a chip's sum is compared: all products and C are added exactly, and the result
is rounded once, to nearest even.

Most sums fit into 62 bits between their largest and smallest places and are added as int64. The rest (products of bf16
span 2^-266 to 2^256) go through superaccumulators.
"""

from __future__ import annotations

import numpy as np

from isa.types import Bits, ElementType
from simulator.arithmetic.formats import (
    NO_EXPONENT,
    Decoded,
    Integers,
    Reals,
    canonical_nan,
    encode_integer,
    infinity,
    powers,
)
from simulator.arithmetic.superaccumulator import FLOATS, Superaccumulators

_ABSENT = NO_EXPONENT // 2  # exponents below this mark terms that are zero or not finite
_FAR = 4096  # place of an absent term's last bit: above all others


def exact_sum(products: Decoded, places: int, c: Decoded, result: ElementType) -> Bits:
    """Products [n, product, output] and C [n, output] -> patterns uint32 [n, output] of `result` (f32, f16).

    Args:
        products: exact products.
        places: fraction bits of a product: those of A's type, of B's, and of both scales'.
        c: of type `result`.
        result: type of C and D.

    An exact zero is +0; a negative sum that rounds to zero is -0; overflow is infinity. NaN (canonical) as for a tensor
    core: from a NaN, infinity times zero, or infinities of both signs.
    """
    with np.errstate(invalid="ignore"):
        plain = (
            np.add.reduce(products.value, axis=1) + c.value
        )  # rounded, but tells infinities and NaN: finite sums are far below 2^1024
    # All terms are below 2^top: four factors below 2 each (with block scales) times 2^exponent.
    top = np.maximum(products.exponent.max(axis=1) + np.int16(4), c.exponent + np.int16(1)).astype(np.int64)
    last = np.where(products.exponent > _ABSENT, products.exponent - np.int16(places), np.int16(_FAR)).min(axis=1)
    last_c = np.where(c.exponent > _ABSENT, c.exponent - np.int16(result.fraction), np.int16(_FAR))
    place = np.minimum(last, last_c).astype(np.int64)
    empty = place == _FAR
    place[empty] = 0
    carries = products.value.shape[1].bit_length()  # as many bits as the number of terms (products and C) takes
    narrow = empty | (top - place + carries <= 62)
    finite = np.isfinite(plain)
    if narrow.all() and finite.all():
        return _narrow_sum(products.value, c.value, place, result)
    pattern = np.zeros(plain.shape, np.uint32)
    for chosen, general in ((narrow & finite, False), (~narrow & finite, True)):
        if chosen.any():
            n, output = np.nonzero(chosen)
            value = products.value[n, :, output].T[None]  # [1, product, chosen output]
            addend = c.value[n, output][None]
            if general:
                rounded = _wide_sum(value[0], addend[0], result)
            else:
                rounded = _narrow_sum(value, addend, place[n, output][None], result)[0]
            pattern[n, output] = rounded
    infinite = np.where(plain < 0, infinity(result) | 1 << (result.bits - 1), infinity(result))
    pattern = np.where(np.isinf(plain), infinite, pattern)
    return np.where(np.isnan(plain), canonical_nan(result), pattern).astype(np.uint32)


def _narrow_sum(value: Reals, c: Reals, place: Integers, result: ElementType) -> Bits:
    """Sums of terms that are multiples of 2^place and whose sum is below 2^(place + 62): int64 holds every term and
    every partial sum."""
    scale = powers(-place)
    total = np.add.reduce((value * scale[:, None, :]).astype(np.int64), axis=1) + (c * scale).astype(np.int64)
    return encode_integer(total < 0, np.abs(total).astype(np.uint64), place, result)


def _wide_sum(value: Reals, c: Reals, result: ElementType) -> Bits:
    """Sums [output] of terms [product, output] and C [output]; any exponents."""
    every = np.arange(len(c))
    sums = Superaccumulators(FLOATS, len(c))
    sums.add_values(every, np.concatenate([value, c[None]]))
    return sums.rounded(every, result)
