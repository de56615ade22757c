"""The sum of integer matrix instructions: exact, then wrapped modulo 2^32 or saturated once. PTX ISA 9.0, 9.7.14.5.14
and 9.7.14.6.3 (.satfinite); measured on H100."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isa.types import ELEMENT_TYPES, Bits
from simulator.arithmetic.formats import integers
from simulator.arithmetic.hooks import Hooks

S32 = ELEMENT_TYPES["s32"]


def integer_sum(products: NDArray[np.int32], c: Bits, *, saturate: bool, hooks: Hooks | None = None) -> Bits:
    """Products [n, product, output] and C patterns (s32) [n, output] -> D patterns uint32 [n, output].

    Args:
        products: int32; 128 products of two bytes stay below 2^23, so their sum cannot overflow.
        c: patterns of s32.
        saturate: clamp the sum, C included, to the range of s32 (once); otherwise keep its low 32 bits.
        hooks: what may change the sum.
    """
    addend = integers(c, S32)
    total: NDArray[np.int64] = np.add.reduce(products, axis=1, dtype=np.int32) + addend
    if hooks is not None:
        total += hooks.shift(0, products, addend)
    if saturate:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    wrapped: Bits = (total & 0xFFFFFFFF).astype(np.uint32)
    return wrapped if hooks is None else hooks.result(0, wrapped)
