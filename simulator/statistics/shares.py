"""Shares: how many faults to inject, and the interval that a count of outcomes gives.

Sample size: Leveugle, Calvez, Maistri, Vanhauwaert, "Statistical fault injection: quantified error and confidence",
DATE 2009, equation 4 (finite population). Interval: Wilson 1927; unlike Wald's it does not shrink to nothing where no
fault of a kind was seen.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from simulator.errors import ViewError


def quantile(confidence: float) -> float:
    """The two-sided quantile of the normal distribution: 1.96 for 0.95. ViewError unless 0 < confidence < 1."""
    if not 0 < confidence < 1:
        raise ViewError(f"a confidence of {confidence}", "between 0 and 1, such as 0.95")
    return NormalDist().inv_cdf((1 + confidence) / 2)


def sample_size(population: int, margin: float, confidence: float = 0.95, share: float = 0.5) -> int:
    """How many of `population` faults to inject for an error margin.

    Args:
        margin: half the width of the interval, as a share: 0.01.
        confidence: the probability that the interval holds the true share: 0.95.
        share: the expected share of the outcome; 0.5 needs the most.

    >>> sample_size(1_000_000, 0.01, 0.99), sample_size(512, 0.05)
    (16317, 220)
    """
    if not 0 < margin < 1 or not 0 < share < 1 or population < 1:
        raise ViewError(
            f"a margin of {margin}, a share of {share}, {population} faults",
            "margin and share between 0 and 1, at least 1 fault",
        )
    spread = quantile(confidence) ** 2 * share * (1 - share)
    return min(population, math.ceil(population / (1 + margin**2 * (population - 1) / spread)))


def score_interval(share: float, size: float, z: float) -> tuple[float, float]:
    """Wilson's interval of a share that was seen in a sample of this (effective) size; the share itself where the size
    is infinite. `z` is the two-sided quantile."""
    if math.isinf(size):
        return share, share
    centre = (share * size + z * z / 2) / (size + z * z)
    half = z / (size + z * z) * math.sqrt(size * share * (1 - share) + z * z / 4)
    return max(0.0, centre - half), min(1.0, centre + half)


def wilson(hits: int, count: int, confidence: float = 0.95) -> tuple[float, float]:
    """The confidence interval of a share, when `hits` of `count` faults were seen.

    >>> [round(end, 4) for end in wilson(0, 1000)]
    [0.0, 0.0038]
    """
    _check(hits, count)
    return score_interval(hits / count, count, quantile(confidence))


def finite_size(count: int, population: int) -> float:
    """How large a sample of an endless population says as much as `count` of `population` drawn without repetition:
    count (N - 1) / (N - count), by the variance of the hypergeometric distribution; infinite where all were drawn. A
    population of 0 is endless."""
    if not population or count < 1:
        return float(count)
    return math.inf if count >= population else count * (population - 1) / (population - count)


def finite_wilson(hits: int, count: int, population: int, confidence: float = 0.95) -> tuple[float, float]:
    """The confidence interval of a share of `population` faults, of which `count` were drawn without repetition.

    Wilson's, at the size that `finite_size` gives, and never beyond what is certain: the hits that were seen, and the
    others. Where every fault was injected both ends are the share. A population of 0 is endless.

    >>> [round(end, 4) for end in finite_wilson(30, 100, 200)], finite_wilson(50, 200, 200)
    ([0.2406, 0.367], (0.25, 0.25))
    """
    _check(hits, count)
    if population and count > population:
        raise ViewError(f"{count} of {population} faults", "a sample that is no larger than the population")
    size = finite_size(count, population)
    low, high = score_interval(hits / count, size, quantile(confidence))
    if not population or math.isinf(size):
        return low, high
    return max(low, hits / population), min(high, 1 - (count - hits) / population)


def _check(hits: int, count: int) -> None:
    if not 0 <= hits <= count or not count:
        raise ViewError(f"{hits} of {count}", "0 to the count, of at least 1")
