"""Estimates of shares from samples that are not plain ones: weighted (importance sampling), stratified, clustered.

All rest on sums over the observations (`Sums`), which add up block by block, so that no row has to stay in memory. An
interval is Wilson's at the effective size of the sample: the size of a plain sample with the same variance (Korn and
Graubard, "Confidence intervals for proportions with small expected number of positive counts estimated from survey
data", Survey Methodology 24, 1998, with Wilson's interval, as Dean and Pagano, Journal of Survey Statistics and
Methodology 3, 2015, compare). Variances are linearised (Särndal, Swensson, Wretman, "Model Assisted Survey Sampling",
1992, sections 5.6 and 5.7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.errors import ViewError
from simulator.statistics.distributions import t_quantile
from simulator.statistics.shares import finite_size, quantile, score_interval

Reals = NDArray[np.float64]


class Estimate(NamedTuple):
    """An estimated share.

    Attributes:
        share: the estimate.
        low, high: the ends of its confidence interval; both the share itself where nothing was left to chance.
        size: the effective size: of a plain sample without end with the same variance.
        design_effect: how many times the variance of a plain sample of as many observations this one has.
    """

    share: float
    low: float
    high: float
    size: float
    design_effect: float = 1.0


@dataclass(frozen=True)
class Sums:
    """Sums over the observations of a group, with a weight w and a hit y (0 or 1) each.

    Attributes:
        count: how many observations.
        weight, weight2: the sums of w and of w squared.
        hit, hit2: the sums of w y and of w squared times y.
    """

    count: int
    weight: float
    weight2: float
    hit: float
    hit2: float

    @classmethod
    def of(cls, hits: Sequence[bool] | NDArray[np.bool_], weights: Sequence[float] | Reals | None = None) -> Sums:
        """The sums of observations; all weights are 1 if there are none."""
        seen = np.asarray(hits, np.float64)
        w = np.ones(len(seen)) if weights is None else np.asarray(weights, np.float64)
        if w.shape != seen.shape or not (np.isfinite(w) & (w >= 0)).all() or w.sum() <= 0:
            raise ViewError(f"{len(w)} weights of {len(seen)} faults", "a number from 0 for each, not all of them 0")
        return cls(
            len(seen), float(w.sum()), float((w * w).sum()), float((w * seen).sum()), float((w * w * seen).sum())
        )

    @property
    def share(self) -> float:
        """The weighted share of hits: Hajek's estimate."""
        return min(1.0, self.hit / self.weight)

    @property
    def uniform(self) -> bool:
        """Whether all weights are the same."""
        return abs(self.weight2 * self.count - self.weight**2) <= 1e-9 * self.weight**2

    def size(self, population: int = 0) -> float:
        """The effective size, see `Estimate`. With weights it has no correction for a finite population (which would
        make it larger), and where every observation is a hit, or none is, it is Kish's: what the weights alone cost."""
        if self.uniform or 0 < population <= self.count:
            return finite_size(self.count, population)
        p = self.share
        spread = self.hit2 * (1 - 2 * p) + p * p * self.weight2
        if p * (1 - p) <= 0 or spread <= 0:
            return self.weight**2 / self.weight2
        return p * (1 - p) * self.weight**2 / spread


def estimated(sums: Sums, population: int = 0, confidence: float = 0.95) -> Estimate:
    """The share from a sample whose observations were drawn one by one: Hajek's estimate, sum(w y) / sum(w).

    Args:
        population: of which it was drawn without repetition; 0 for one without end.
    """
    size, p = sums.size(population), sums.share
    low, high = score_interval(p, size, quantile(confidence))
    if population and sums.uniform and not math.isinf(size):  # what was seen is certain
        low = max(low, p * sums.count / population)
        high = min(high, 1 - (1 - p) * sums.count / population)
    return Estimate(p, low, high, size, 0.0 if math.isinf(size) else sums.count / size)


def horvitz_thompson(sums: Sums, population: int, confidence: float = 0.95) -> Estimate:
    """The share by Horvitz and Thompson: sum(w y) / N, for weights that are one over the probability with which each
    fault was drawn, independently of the others (Poisson sampling). Its interval is the normal one."""
    if population < 1:
        raise ViewError(f"a population of {population}", "how many faults there are, for an estimate of their total")
    share = sums.hit / population
    variance = max(0.0, sums.hit2 - sums.hit) / population**2
    half = quantile(confidence) * math.sqrt(variance)
    plain = share * (1 - share) / sums.count
    size = share * (1 - share) / variance if variance > 0 else math.inf
    effect = variance / plain if plain > 0 else 1.0
    return Estimate(share, max(0.0, share - half), min(1.0, share + half), size, effect)


def clustered(weights: Reals, hits: Reals, count: int, confidence: float = 0.95) -> Estimate:
    """The share when whole clusters were drawn (operand sets, each with many faults): cluster-robust variance with
    m / (m - 1), and Student's t with m - 1 degrees of freedom for m clusters.

    Where all clusters have the same share, so that nothing varies between them, a cluster counts as one observation:
    fewer than there are, so that the interval is not too narrow.

    Args:
        weights, hits: for each cluster, the sums of w and of w y.
        count: how many observations there are in all.
    """
    whole = float(weights.sum())
    share = min(1.0, float(hits.sum()) / whole)
    return _of_clusters(share, (hits - share * weights) / whole, count, confidence)


class Clusters(NamedTuple):
    """The sums of a stratum by cluster: their numbers, and for each the sums of w and of w y."""

    numbers: NDArray[np.integer]
    weights: Reals
    hits: Reals


def clustered_strata(
    strata: Sequence[Clusters], populations: Sequence[int], count: int, confidence: float = 0.95
) -> Estimate:
    """The share in all strata together, which the same clusters go through: every stratum counts by its population, and
    what a cluster has in several of them varies together. As `clustered` with one stratum."""
    if len(strata) != len(populations) or not strata or min(populations) < 1:
        raise ViewError(f"populations {list(populations)} of {len(strata)} groups", "how many faults each group has")
    every = np.unique(np.concatenate([stratum.numbers for stratum in strata]))
    apart, share = np.zeros(len(every)), 0.0
    for stratum, population in zip(strata, populations, strict=True):
        part, whole = population / sum(populations), float(stratum.weights.sum())
        p = min(1.0, float(stratum.hits.sum()) / whole)
        share += part * p
        apart[np.searchsorted(every, stratum.numbers)] += part * (stratum.hits - p * stratum.weights) / whole
    return _of_clusters(min(1.0, share), apart, count, confidence)


def _of_clusters(share: float, apart: Reals, count: int, confidence: float) -> Estimate:
    """The estimate from how far each cluster pulls the share from what it is."""
    clusters = len(apart)
    if clusters < 2:
        raise ViewError(f"{clusters} clusters", "two or more, for a variance between them")
    variance, spread = clusters / (clusters - 1) * float((apart**2).sum()), share * (1 - share)
    alike = spread <= 0 or variance <= 0
    size = float(clusters) if alike else spread / variance
    z = quantile(confidence) if alike else t_quantile(confidence, clusters - 1)
    return Estimate(share, *score_interval(share, size, z), size, count / size)


def bootstrapped(
    weights: Reals, hits: Reals, count: int, confidence: float = 0.95, *, draws: int = 9_999, seed: int = 0
) -> Estimate:
    """The share with an interval from clusters drawn again and again, with repetition (Efron's percentiles; Davison and
    Hinkley 1997, section 3.8). Arguments as of `clustered`; equal seeds give equal intervals."""
    clusters = len(weights)
    if clusters < 2:
        raise ViewError(f"{clusters} clusters", "two or more, to draw from")
    rng, shares = np.random.default_rng(seed), []
    for first in range(0, draws, 1000):
        times = rng.multinomial(clusters, np.full(clusters, 1 / clusters), min(1000, draws - first))
        shares.append((times @ hits) / (times @ weights))
    every = np.concatenate(shares)
    low, high = np.quantile(every, [(1 - confidence) / 2, (1 + confidence) / 2]).tolist()
    p, variance = min(1.0, float(hits.sum() / weights.sum())), float(every.var(ddof=1))
    size = p * (1 - p) / variance if variance > 0 else float(clusters)
    return Estimate(p, low, high, size, count / size)


def stratified(strata: Sequence[Sums], populations: Sequence[int], confidence: float = 0.95) -> Estimate:
    """The share in all strata together, each of which was sampled by itself and counts by its population.

    Where a stratum has no hits, or nothing else, its variance is that at the centre of Wilson's interval: it is not
    taken for known. Strata of which all was seen add no variance.
    """
    if len(strata) != len(populations) or not strata or min(populations) < 1:
        raise ViewError(f"populations {list(populations)} of {len(strata)} groups", "how many faults each group has")
    whole, z = sum(populations), quantile(confidence)
    share = middle = variance = 0.0
    for sums, population in zip(strata, populations, strict=True):
        part, size, p = population / whole, sums.size(population), sums.share
        centre = p if math.isinf(size) or 0 < p < 1 else (p * size + z * z / 2) / (size + z * z)
        share, middle = share + part * p, middle + part * centre
        variance += 0.0 if math.isinf(size) else part * part * centre * (1 - centre) / size
    share = min(1.0, share)
    spread = share * (1 - share) or middle * (1 - middle)
    size = spread / variance if variance > 0 else math.inf
    low, high = score_interval(share, size, z)
    count = sum(sums.count for sums in strata)
    return Estimate(share, low, high, size, 0.0 if math.isinf(size) else count / size)
