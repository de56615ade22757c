"""Distributions that tests and intervals need: chi-square and Student's t for whole degrees of freedom, the binomial at
one half, and the hypergeometric. Sums that end, so that no library of special functions is needed."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from simulator.errors import ViewError

Reals = NDArray[np.float64]


def chi_square_tail(value: float, freedom: int) -> float:
    """The probability of a chi-square above `value`, with `freedom` degrees of freedom: Abramowitz and Stegun 1964,
    26.4.4 and 26.4.5.

    >>> round(chi_square_tail(3.841459, 1), 6), round(chi_square_tail(9.487729, 4), 6)
    (0.05, 0.05)
    """
    if freedom < 1 or value <= 0:
        return 1.0
    half, odd = value / 2, freedom % 2
    total = math.erfc(math.sqrt(half)) if odd else 0.0
    for step in range(freedom // 2):
        power = step + odd / 2
        total += math.exp(power * math.log(half) - half - math.lgamma(power + 1))
    return min(1.0, total)


def t_between(value: float, freedom: int) -> float:
    """The probability that Student's t lies between -value and value: Abramowitz and Stegun 1964, 26.7.3 and 26.7.4."""
    angle = math.atan(value / math.sqrt(freedom))
    cosine, sine = math.cos(angle) ** 2, math.sin(angle)
    odd = freedom % 2
    term = total = math.cos(angle) if odd else 1.0
    for step in range(2 + odd, freedom - 1, 2):
        term *= cosine * (step - 1) / step
        total += term
    if not odd:
        return sine * total
    return 2 / math.pi * (angle + (sine * total if freedom > 1 else 0.0))


def t_quantile(confidence: float, freedom: int) -> float:
    """The two-sided quantile of Student's t.

    >>> round(t_quantile(0.95, 4), 4), round(t_quantile(0.95, 1), 4)
    (2.7764, 12.7062)
    """
    if freedom < 1 or not 0 < confidence < 1:
        raise ViewError(f"t of {freedom} degrees of freedom at {confidence}", "at least 1, and between 0 and 1")
    low, high = 0.0, 1.0
    while t_between(high, freedom) < confidence:
        low, high = high, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if t_between(middle, freedom) < confidence else (low, middle)
    return (low + high) / 2


def log_choose(n: int, k: NDArray[np.int64]) -> Reals:
    """The logarithm of n over k, for each k."""
    return np.asarray(math.lgamma(n + 1) - _log_factorial(k) - _log_factorial(n - k))


def _log_factorial(n: NDArray[np.int64]) -> Reals:
    """ln n!, for each n: exact below 257, Stirling's series above (its next term is below 1e-18)."""
    small = np.cumsum(np.log(np.maximum(np.arange(257), 1)))
    x = np.maximum(n, 256).astype(np.float64)
    series = 1 / (12 * x) - 1 / (360 * x**3) + 1 / (1260 * x**5)
    large = x * np.log(x) - x + 0.5 * np.log(2 * math.pi * x) + series
    return np.where(n < 257, small[np.clip(n, 0, 256)], large)


def sign_test(one: int, other: int) -> float:
    """The two-sided probability that a fair coin falls as unevenly as `one` to `other`, exactly.

    >>> round(sign_test(1, 9), 6)
    0.021484
    """
    count, least = one + other, min(one, other)
    if not count:
        return 1.0
    tail = np.exp(log_choose(count, np.arange(least + 1)) - count * math.log(2)).sum()
    return min(1.0, 2 * float(tail))


def fisher(a: int, b: int, c: int, d: int) -> float:
    """Fisher's exact test of the table [[a, b], [c, d]], two-sided: the probability of all tables with the same margins
    that are at most as likely.

    >>> round(fisher(3, 1, 1, 3), 6)  # the lady who tasted tea
    0.485714
    """
    row, column, total = a + b, a + c, a + b + c + d
    cells = np.arange(max(0, row + column - total), min(row, column) + 1)
    logs = log_choose(column, cells) + log_choose(total - column, row - cells)
    chances = np.exp(logs - logs.max())
    seen = chances[a - cells[0]]
    return min(1.0, float(chances[chances <= seen * (1 + 1e-7)].sum() / chances.sum()))
