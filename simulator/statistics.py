"""Statistics of fault campaigns: how many faults to inject, and what their outcomes say about all faults.

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


def wilson(hits: int, count: int, confidence: float = 0.95) -> tuple[float, float]:
    """The confidence interval of a share, when `hits` of `count` faults were seen.

    >>> [round(end, 4) for end in wilson(0, 1000)]
    [0.0, 0.0038]
    """
    if not 0 <= hits <= count or not count:
        raise ViewError(f"{hits} of {count}", "0 to the count, of at least 1")
    z = quantile(confidence)
    centre = (hits + z * z / 2) / (count + z * z)
    half = z / (count + z * z) * math.sqrt(hits * (count - hits) / count + z * z / 4)
    return max(0.0, centre - half), min(1.0, centre + half)
