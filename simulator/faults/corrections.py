"""What detectors that correct would have made of a fault: the names of these detectors, and of what comes of it.

Only `secded` and `abft` correct. In a row of results the field `corrections` has two bits for each of them, and its
text is such as `secded:exact+abft:near`; `left_ulp` and `left_abs` say how far from the right value `near` is.

exact   what was wrong is right again, bit for bit
near    of `abft`: the one wrong element is nearer to the right value than before, and everything else is right
wrong   a miscorrection: what was right became wrong, or something wrong is left that now counts as right
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

CORRECTORS = ("secded", "abft")
HOW = ("", "exact", "near", "wrong")
NONE, EXACT, NEAR, WRONG = range(len(HOW))
_BITS = 2  # of the field, for each detector


def field(name: str, how: NDArray[np.integer]) -> NDArray[np.uint8]:
    """The bits of the field `corrections` that say what comes of corrections by a detector, uint8 of the same shape."""
    return (how << (_BITS * CORRECTORS.index(name))).astype(np.uint8)


def of(name: str, fields: NDArray[np.integer]) -> NDArray[np.uint8]:
    """What a detector's corrections come to, numbers of `HOW`."""
    return (fields >> (_BITS * CORRECTORS.index(name)) & ((1 << _BITS) - 1)).astype(np.uint8)


@cache
def text(number: int) -> str:
    """The field in words."""
    hows = [number >> _BITS * place & ((1 << _BITS) - 1) for place in range(len(CORRECTORS))]
    return "+".join(f"{name}:{HOW[how]}" for name, how in zip(CORRECTORS, hows, strict=True) if how)
