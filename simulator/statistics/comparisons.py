"""Whether two campaigns differ, and by how much: tests of counts, and effect sizes with intervals.

Differences of shares: Newcombe, "Interval estimation for the difference between independent proportions", Statistics in
Medicine 17, 1998, 873-890, method 10; of pairs: "Improved confidence intervals for the difference between binomial
proportions based on paired data", the same, 2635-2650, method 10. Odds ratios: Woolf 1955, with one half more in each
cell where one is empty (Haldane 1956). h: Cohen, "Statistical Power Analysis for the Behavioral Sciences", 1988,
chapter 6. McNemar 1947. Several tests at once: Holm 1979.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.errors import ViewError
from simulator.statistics.distributions import chi_square_tail, fisher, sign_test
from simulator.statistics.shares import quantile, score_interval

Counts = NDArray[np.int64]
LEAST_EXPECTED = 5  # a cell for which chi-square is used (Cochran 1954)
MOST_EXACT = 10_000  # pairs that differ, for an exact test
DRAWS = 9_999  # tables of a permutation test


class Test(NamedTuple):
    """A test of the hypothesis that two samples do not differ.

    Attributes:
        name: chi-square, fisher, permutation, mcnemar or stuart-maxwell; "" if there was nothing to test.
        statistic: its statistic; NaN for exact tests.
        p: the probability of a difference at least as large by chance.
    """

    name: str
    statistic: float
    p: float


class Effect(NamedTuple):
    """How large a difference is: second share minus first, with its interval; the ratio of odds, second by first, with
    its interval; Cohen's h."""

    difference: float
    low: float
    high: float
    odds_ratio: float
    odds_low: float
    odds_high: float
    h: float


def chi_square(table: NDArray[np.float64]) -> Test:
    """Pearson's chi-square of a table of counts [sample, class], without correction; empty rows and columns count
    nothing."""
    found = np.asarray(table, np.float64)
    found = found[found.sum(axis=1) > 0][:, found.sum(axis=0) > 0]
    freedom = (found.shape[0] - 1) * (found.shape[1] - 1)
    if found.size == 0 or freedom < 1:
        return Test("", math.nan, 1.0)
    expected = _expected(found)
    statistic = float(((found - expected) ** 2 / expected).sum())
    return Test("chi-square", statistic, chi_square_tail(statistic, freedom))


def _expected(table: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum())


def independent(first: Sequence[int], second: Sequence[int], seed: int = 0) -> Test:
    """The test of two samples by their counts of each class: chi-square where every cell is expected to have 5 or more,
    else Fisher's exact test for two classes, and for more a permutation test of the chi-square (equal seeds give equal
    results)."""
    table = np.array([first, second], np.int64)
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] < 2 or not table.sum(axis=1).all():
        return Test("", math.nan, 1.0)
    if _expected(table.astype(np.float64)).min() >= LEAST_EXPECTED:
        return chi_square(table.astype(np.float64))
    if table.shape[1] == 2:
        (a, b), (c, d) = table.tolist()
        return Test("fisher", math.nan, fisher(a, b, c, d))
    return permutation(table, seed)


def permutation(table: Counts, seed: int = 0) -> Test:
    """The chi-square of a table of two samples against those of samples that are dealt out again at random."""
    totals, expected = table.sum(axis=0), _expected(table.astype(np.float64))
    statistic = float(((table - expected) ** 2 / expected).sum())
    dealt = np.random.default_rng(seed).multivariate_hypergeometric(
        totals, int(table[0].sum()), DRAWS, method="marginals"
    )
    distance = (dealt - expected[0]) ** 2
    others = (distance / expected[0] + distance / expected[1]).sum(axis=1)
    as_far = int((others >= statistic * (1 - 1e-12)).sum())
    return Test("permutation", statistic, (1 + as_far) / (1 + DRAWS))


def homogeneity(pairs: NDArray[np.float64]) -> Test:
    """Whether two runs of the same faults have the same shares of all classes: Stuart (1955) and Maxwell (1970), of a
    table of pairs [class in the first, class in the second]."""
    table = np.asarray(pairs, np.float64)
    table = table[np.ix_(*[(table.sum(axis=0) + table.sum(axis=1)) > 0] * 2)]
    moved = (table.sum(axis=1) - table.sum(axis=0))[:-1]
    spread = np.diag(table.sum(axis=1) + table.sum(axis=0)) - table - table.T
    spread = spread[:-1, :-1]
    freedom = int(np.linalg.matrix_rank(spread)) if len(spread) else 0
    if not freedom:
        return Test("", math.nan, 1.0)
    statistic = float(moved @ np.linalg.pinv(spread) @ moved)
    return Test("stuart-maxwell", statistic, chi_square_tail(statistic, freedom))


def mcnemar(only_first: int, only_second: int) -> Test:
    """McNemar's test of pairs: how many have the outcome in the first run alone, and in the second alone. Exact up to
    10,000 such pairs, above as chi-square with Edwards's correction."""
    apart = only_first + only_second
    if not apart:
        return Test("", math.nan, 1.0)
    if apart <= MOST_EXACT:
        return Test("mcnemar", math.nan, sign_test(only_first, only_second))
    statistic = (abs(only_first - only_second) - 1) ** 2 / apart
    return Test("mcnemar", statistic, chi_square_tail(statistic, 1))


def effect(first: float, first_size: float, second: float, second_size: float, confidence: float = 0.95) -> Effect:
    """The effect between two independent samples, from their shares and (effective) sizes.

    >>> found = effect(48 / 80, 80, 56 / 70, 70)  # Newcombe's first example
    >>> round(found.low, 4), round(found.high, 4), round(found.h, 3)
    (0.0524, 0.3339, 0.442)
    """
    if min(first_size, second_size) <= 0 or not (0 <= first <= 1 and 0 <= second <= 1):
        raise ViewError(f"shares {first}, {second} of {first_size}, {second_size}", "shares of at least one fault")
    z = quantile(confidence)
    (l1, u1), (l2, u2) = score_interval(first, first_size, z), score_interval(second, second_size, z)
    difference = second - first
    low = difference - math.hypot(second - l2, u1 - first)
    high = difference + math.hypot(u2 - second, first - l1)
    return Effect(difference, low, high, *_odds((first, first_size), (second, second_size), z), _h(first, second))


def _odds(first: tuple[float, float], second: tuple[float, float], z: float) -> tuple[float, float, float]:
    """The odds ratio of two shares with their sizes, second by first, with Woolf's interval."""
    cells = [part * size for share, size in (second, first) for part in (share, 1 - share)]
    a, b, c, d = (cell + 0.5 for cell in cells) if min(cells) <= 0 else cells
    log, half = math.log(a * d / (b * c)), z * math.sqrt(1 / a + 1 / b + 1 / c + 1 / d)
    return math.exp(log), _exp(log - half), _exp(log + half)


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0))


def _h(first: float, second: float) -> float:
    """Cohen's h: the difference of two shares on the scale where it is equally hard to see anywhere."""
    return 2 * math.asin(math.sqrt(second)) - 2 * math.asin(math.sqrt(first))


def paired_effect(
    both: float, only_first: float, only_second: float, neither: float, confidence: float = 0.95
) -> Effect:
    """The effect between two runs of the same faults: how many have the outcome in both, in one alone, in neither. The
    odds ratio is that of pairs that differ: second alone by first alone."""
    count, z = both + only_first + only_second + neither, quantile(confidence)
    if not count:
        raise ViewError("no pairs", "results of at least one fault in both files")
    p1, p2 = (both + only_first) / count, (both + only_second) / count
    (l1, u1), (l2, u2) = score_interval(p1, count, z), score_interval(p2, count, z)
    margins = (both + only_first) * (only_second + neither) * (both + only_second) * (only_first + neither)
    cross = both * neither - only_first * only_second
    if cross > 0:  # Newcombe's method 10 takes one half of the count off, as Edwards does
        cross = max(cross - count / 2, 0)
    phi = cross / math.sqrt(margins) if margins else 0.0
    difference = p2 - p1
    low = difference - _correlated(p2 - l2, u1 - p1, phi)
    high = difference + _correlated(u2 - p2, p1 - l1, phi)
    cells = [float(only_second), float(only_first)]
    more, less = (cell + 0.5 for cell in cells) if min(cells) == 0 else cells
    log, half = math.log(more / less), z * math.sqrt(1 / more + 1 / less)
    return Effect(difference, low, high, math.exp(log), _exp(log - half), _exp(log + half), _h(p1, p2))


def _correlated(one: float, other: float, phi: float) -> float:
    return math.sqrt(max(0.0, one * one - 2 * phi * one * other + other * other))


def holm(chances: Sequence[float]) -> list[float]:
    """Probabilities of several tests as they are when any of them may be large by chance.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, largest = [0.0] * len(chances), 0.0
    for place, number in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        largest = max(largest, min(1.0, (len(chances) - place) * chances[number]))
        adjusted[number] = largest
    return adjusted
