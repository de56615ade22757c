"""`tanh.approx.f32` of an H100, on which the library's GELU rests.

`tanh_h100.npz` was recorded on an NVIDIA H100 (driver 580) in November 2026. From 3 on, where GELU of a negative number
is a small difference, it holds every value. Below that it holds points, 16,384 from 2 to 3 and 512 in each smaller
power of two, from each of which a straight line leads to the next (on, where the pieces of the chip's function end and
its values jump): at most 2^-20 off, so that of 100,000 GELUs about three have another last place in bf16.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Singles = NDArray[np.float32]
Reals = NDArray[np.float64]

_FILE = Path(__file__).with_name("tanh_h100.npz")
_IDENTITY = 2.0**-8  # below it the result is the operand (measured: all of them)
_LOWEST, _POINTS = -8, 512  # first power of two of the points, and how many each power has
_PIECES = 16  # of the function of the chip in a power of two, at most: where its values may jump
_MIDDLE, _MIDDLE_POINTS = 2.0, 16384  # where points become denser, and how many there are from there to the tail
_TAIL = 3.0  # from here on every value is known
_SPLIT, _ONE = 4.0, 8.0  # where its inputs become coarser, where the result is 1
_TAIL_STEP, _SPLIT_STEP = 2.0**-20, 2.0**-18  # of inputs that are told apart
_UNIT = 2.0**-24  # of the values from 2 on


@cache
def _tables() -> tuple[Reals, Reals, Reals, Reals, Reals]:
    """Values of the points and what they grow by to the next, for both densities, and all values of the tail."""
    with np.load(_FILE) as data:
        points: Reals = data["samples"].view(np.float32).astype(np.float64)
        middle = (int(data["middle"]) + np.concatenate([[0], np.cumsum(data["growth"].astype(np.int64))])) * _UNIT
        missing = np.zeros(round((_SPLIT - _TAIL) / _TAIL_STEP + (_ONE - _SPLIT) / _SPLIT_STEP), np.int64)
        missing[0] = int(data["start"])
        missing[np.cumsum(data["gap"].astype(np.int64))] = data["step"]
    tail: Reals = np.asarray(1.0 - np.cumsum(missing) * _UNIT, np.float64)
    return (
        points,
        _growth(points, _POINTS // _PIECES),
        middle,
        _growth(middle, 2 * _MIDDLE_POINTS // _PIECES),
        tail,
    )


def _growth(points: Reals, piece: int) -> Reals:
    """Differences to the next point; that to the first of the next piece is continued from inside."""
    growth = np.diff(points, append=points[-1:])
    last = np.arange(piece - 1, len(points), piece)
    growth[last] = 2 * growth[last - 1] - growth[last - 2]
    return growth


def tanh_approx(x: Singles) -> Singles:
    """What the instruction gives, float32 of the same shape."""
    points, growth, middle, middle_growth, tail = _tables()
    size = np.abs(x).astype(np.float64)
    number = np.where(np.isnan(size), 0.0, size)
    fraction, exponent = np.frexp(np.clip(number, _IDENTITY, np.nextafter(_MIDDLE, 0)))
    low = _line(points, growth, (2 * fraction - 1 + exponent - 1 - _LOWEST) * _POINTS)
    between = np.clip(number, _MIDDLE, np.nextafter(_TAIL, 0))
    high = _line(middle, middle_growth, (between - _MIDDLE) / (_TAIL - _MIDDLE) * _MIDDLE_POINTS)
    inside = np.clip(number, _TAIL, _ONE)
    fine = (inside - _TAIL) / _TAIL_STEP
    coarse = (_SPLIT - _TAIL) / _TAIL_STEP + (inside - _SPLIT) / _SPLIT_STEP
    place = np.minimum(np.where(inside < _SPLIT, fine, coarse).astype(np.int64), len(tail) - 1)
    known = np.where(number >= _ONE, 1.0, np.where(number >= _TAIL, tail[place], high))
    found = np.where(number < _IDENTITY, number, np.where(number < _MIDDLE, low, known))
    return np.copysign(np.where(np.isnan(size), np.nan, found), x).astype(np.float32)


def _line(points: Reals, growth: Reals, position: Reals) -> Reals:
    """Between points, at positions counted in them."""
    before = np.minimum(position.astype(np.int64), len(points) - 1)
    return points[before] + growth[before] * (position - before)
