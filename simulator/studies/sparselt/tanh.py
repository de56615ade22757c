"""`tanh.approx.f32` of an H100, on which the library's GELU rests.

`tanh_h100.npz` was recorded on an NVIDIA H100 (driver 580) in November 2026. From 0.25 on it holds every value. Below
that it holds 512 points in each power of two, from each of which a straight line leads to the next (on, where the
pieces of the chip's function end and its values jump): at most 2^-24 off, nothing beside the 1 that GELU adds to it.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Singles = NDArray[np.float32]
Reals = NDArray[np.float64]

_FILE = Path(__file__).with_name("tanh_h100.npz")
_IDENTITY = 2.0**-8  # below it the result is the operand (measured: all of them)
_LOWEST, _POINTS = -8, 512  # first power of two of the points, and how many each power has
_PIECE = 32  # points after which a piece of the chip's function may end
_KNOWN = (
    (0.25, 2.0**-21),
    (0.5, 2.0**-20),
    (4.0, 2.0**-18),
    (8.0, 1.0),
)  # from where, and the step of arguments told apart
_UNIT = 2.0**-25  # of the values that are known


@cache
def _tables() -> tuple[Reals, Reals, Reals]:
    """Values of the points, what they grow by to the next, and all values from 0.25 to 8 in the order of arguments."""
    with np.load(_FILE) as data:
        points: Reals = data["points"].view(np.float32).astype(np.float64)
        steps = np.concatenate([[int(data["first"])], data["growth"].astype(np.int64)])
    growth = np.diff(points, append=points[-1:])
    last = np.arange(_PIECE - 1, len(points), _PIECE)
    growth[last] = 2 * growth[last - 1] - growth[last - 2]
    known: Reals = np.asarray(np.cumsum(steps) * _UNIT, np.float64)
    return points, growth, known


def tanh_approx(x: Singles) -> Singles:
    """What the instruction gives, float32 of the same shape."""
    points, growth, known = _tables()
    size = np.abs(x).astype(np.float64)
    number = np.where(np.isnan(size), 0.0, size)
    start, end = _KNOWN[0][0], _KNOWN[-1][0]
    fraction, exponent = np.frexp(np.clip(number, _IDENTITY, np.nextafter(start, 0)))
    position = (2 * fraction - 1 + exponent - 1 - _LOWEST) * _POINTS
    before = np.minimum(position.astype(np.int64), len(points) - 1)
    found = np.where(number < _IDENTITY, number, points[before] + growth[before] * (position - before))
    found = np.where(number < start, found, known[np.minimum(_place(number), len(known) - 1)])
    found = np.where(number < end, found, 1.0)
    return np.copysign(np.where(np.isnan(size), np.nan, found), x).astype(np.float32)


def _place(number: Reals) -> NDArray[np.int64]:
    """Where the values of arguments from 0.25 to 8 are among all of them."""
    place = np.zeros(number.shape)
    for (low, step), (high, _) in pairwise(_KNOWN):
        place += np.floor((np.clip(number, low, high) - low) / step)
    return place.astype(np.int64)
