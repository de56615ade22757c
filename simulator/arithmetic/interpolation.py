"""The interpolator behind the approximate functions of a chip: a parabola in each segment of an argument.

The leading bits of an argument choose a segment, the others are x. The result is c0 + c1 x + c2 s(x) in fixed point,
exact, in units of 2^-40. s(x) is the square of x without what lies below a column: products of two bits of x that weigh
less than 2^19 (2^17 for x of 16 bits) are never formed. The unit is that of Oberman and Siu, "A high-performance
area-efficient multifunction interpolator" (ARITH 2005); the column and the coefficients (`tables/functions.csv`) were
found from all results of an H100 and an H200 (November 2026, `measurements/functions.py`): but for the lowest bits of
c0, no other integers give them.
"""

from __future__ import annotations

import csv
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Whole = NDArray[np.int64]
UNIT = 40  # results are in 2^-40
_TABLE = Path(__file__).parent / "tables" / "functions.csv"
_LOW = {"rcp": 16}  # width of x; of all others 17


def width(name: str) -> int:
    """The bits of x, below those that choose a segment."""
    return _LOW.get(name, 17)


@lru_cache(maxsize=1)
def _coefficients() -> dict[str, Whole]:
    """c0, c1 and c2 of each segment of each function, int64 [segment, 3]."""
    found: dict[str, list[list[int]]] = {}
    with _TABLE.open(newline="") as stream:
        for row in csv.DictReader(stream):
            found.setdefault(row["function"], []).append([int(row[name]) for name in ("c0", "c1", "c2")])
    return {name: np.array(rows, np.int64) for name, rows in found.items()}


@lru_cache(maxsize=2)
def squares(bits: int) -> Whole:
    """s(x) of all x of so many bits."""
    x, column = np.arange(1 << bits), 2 * bits - 15
    found = np.zeros(len(x), np.int64)
    for low in range(bits):
        for high in range(low, bits):
            weight = 2 * low if high == low else low + high + 1  # two equal products are one of twice the weight
            if weight >= column:
                found += (x >> low & x >> high & 1) << weight - column
    return found


def interpolated(name: str, index: Whole) -> Whole:
    """The function at these places of its table, in units of 2^-40; any shape."""
    bits = width(name)
    chosen, x = _coefficients()[name][index >> bits], index & (1 << bits) - 1
    found: Whole = chosen[..., 0] + chosen[..., 1] * x + chosen[..., 2] * squares(bits)[x]
    return found


def truncated(units: Whole, bits: int = 24) -> Reals:
    """Numbers in units of 2^-40 to so many significant bits, toward zero."""
    part, exponent = np.frexp(units.astype(np.float64))
    found: Reals = np.ldexp(np.trunc(np.ldexp(part, bits)), exponent - bits - UNIT)
    return found
