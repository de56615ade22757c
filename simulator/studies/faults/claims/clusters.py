"""Intervals of shares of inferences. Those of one fault are not independent draws, so faults count as clusters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.statistics import quantile, wilson

Counts = NDArray[np.integer[Any]]


def clustered(hits: Counts, sizes: Counts, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of the share of hits among inferences, of faults that have so many of each.

    The share is the ratio of two sums over faults; its variance is that of a ratio estimator (Cochran, Sampling
    Techniques, 1977, 6.4). Where no inference is a hit, or every one is, the interval is Wilson's for as many faults.

    >>> [round(end, 3) for end in clustered(np.array([0, 10, 0, 0]), np.array([10, 10, 10, 10]))]
    [0.0, 0.74]
    >>> clustered(np.zeros(1000, int), np.full(1000, 384))[1] < 0.004
    True
    """
    struck = sizes > 0
    hits, sizes = hits[struck], sizes[struck]
    faults, total = len(sizes), int(sizes.sum())
    if not total:
        return 0.0, 1.0
    share = float(hits.sum() / total)
    if share in (0.0, 1.0) or faults < 2:
        return wilson(faults if share == 1 else 0, faults, confidence)
    apart = float(((hits - share * sizes) ** 2).sum())
    half = quantile(confidence) * math.sqrt(apart * faults / (faults - 1)) / total
    return max(0.0, share - half), min(1.0, share + half)
