"""Products through a compressed operand, of any sparsity pattern: every stored element of A meets the row of B that its
metadata picks, and a chip's tensor core adds up.

The sum is a chain of instructions over ascending stored columns, each of which takes as many as the dense instruction
of the type does and adds them to the accumulator by that instruction's rule (for 2:4 on an H100 these are the bits of
`mma.sp`: tests/simulator/arithmetic/test_compressed.py).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isa.errors import IsaError
from isa.sparsity.storage import Compressed, rows_of
from isa.targets import Target
from isa.types import Bits, ElementType, element_type
from simulator.arithmetic.product import product

_ROW_BITS = 256  # of a row of A as it is stored, in one instruction
_PIECE = 1 << 22  # elements of B that are gathered at a time


def multiply(
    a: Compressed,
    b: Bits,
    c: Bits | None = None,
    *,
    target: str | Target,
    type: str | ElementType,
    accumulator: str | ElementType = "f32",
    family: str = "mma",
    depth: int = 0,
    arithmetic: str = "chip",
) -> NDArray[np.uint32]:
    """D = A * B + C as a hypothetical instruction of the target's tensor core would compute it.

    Args:
        a: A [m, K] as its pattern stores it.
        b: patterns uint32 [K, n].
        c: patterns of the accumulator's type uint32 [m, n]; without it zeros.
        target: the chip whose arithmetic it is, e.g. "sm_90a".
        type: of A and B.
        accumulator: of C and D: "f32", "f16" or "s32".
        family: whose rules of summation: "mma", "wgmma" or "tcgen05".
        depth: stored columns that one instruction takes; 0: those of the type's widest `mma`, 32 bytes of a row.
        arithmetic: "chip", or "exact": all of the sum, rounded once.

    Returns:
        D, patterns uint32 [m, n].

    Raises:
        IsaError: shapes that do not fit, or no arithmetic known for the types.
    """
    element, result = (element_type(t) if isinstance(t, str) else t for t in (type, accumulator))
    b = np.asarray(b, np.uint32)
    rows, k = a.shape
    if b.ndim != 2 or b.shape[0] != k:
        raise IsaError("b", -1, f"b has shape {b.shape}", f"uint32 [{k}, n]: as many rows as A has columns")
    values, columns = rows_of(a)
    depth = depth or _ROW_BITS // element.bits
    d = np.zeros((rows, b.shape[1]), np.uint32) if c is None else np.asarray(c, np.uint32)
    if d.shape != (rows, b.shape[1]):
        raise IsaError("c", -1, f"c has shape {d.shape}", f"uint32 [{rows}, {b.shape[1]}]")
    step = values.shape[1] if arithmetic == "exact" else depth
    filled = -(-values.shape[1] // step) * step - values.shape[1]
    values = np.pad(values, ((0, 0), (0, filled)))
    columns = np.pad(columns, ((0, 0), (0, filled)), constant_values=k)
    picked = np.vstack([b, np.zeros((1, b.shape[1]), np.uint32)])  # row K: what a place that stores nothing meets
    out = np.empty_like(d)
    at_once = max(_PIECE // (step * b.shape[1]), 1)
    for first in range(0, rows, at_once):
        part = slice(first, first + at_once)
        sums = d[part, None, :]
        for start in range(0, values.shape[1], step):
            of = slice(start, start + step)
            sums = product(
                values[part, None, of], picked[columns[part, of]], sums, family=family, target=target,
                a_type=element, b_type=element, d_type=result, arithmetic=arithmetic,
            )  # fmt: skip
        out[part] = sums[:, 0]
    return out
