"""Estimates, intervals, tests and effect sizes agree with scipy, with published worked examples, and with what they say
of themselves: intervals cover as often as they should."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from simulator.errors import ViewError
from simulator.statistics import finite_wilson, wilson
from simulator.statistics.comparisons import (
    chi_square,
    effect,
    holm,
    homogeneity,
    independent,
    mcnemar,
    paired_effect,
    permutation,
)
from simulator.statistics.designs import (
    Clusters,
    Sums,
    bootstrapped,
    clustered,
    clustered_strata,
    estimated,
    horvitz_thompson,
    stratified,
)
from simulator.statistics.distributions import chi_square_tail, fisher, sign_test, t_quantile

Bools = NDArray[np.bool_]


def test_distributions_are_scipys() -> None:
    for freedom in range(1, 13):
        values = [0.01, 0.5, 3.0, 11.0, 60.0]
        assert [chi_square_tail(x, freedom) for x in values] == pytest.approx(stats.chi2.sf(values, freedom), rel=1e-9)
        for confidence in (0.5, 0.9, 0.99):
            assert t_quantile(confidence, freedom) == pytest.approx(
                stats.t.ppf((1 + confidence) / 2, freedom), rel=1e-9
            )
    rng = np.random.default_rng(2)
    for scale in (4, 40, 100_000):
        for a, b, c, d in rng.integers(0, scale, (20, 4)).tolist():
            assert fisher(a, b, c, d) == pytest.approx(stats.fisher_exact([[a, b], [c, d]]).pvalue, rel=1e-6, abs=1e-12)
            if a + b:
                assert sign_test(a, b) == pytest.approx(stats.binomtest(a, a + b).pvalue, rel=1e-6)


def test_wilson_and_finite_populations() -> None:
    for hits, count in ((0, 30), (7, 30), (500, 1000)):
        found = stats.binomtest(hits, count).proportion_ci(0.9, "wilson")
        assert wilson(hits, count, 0.9) == pytest.approx((found.low, found.high))
        assert finite_wilson(hits, count, 10**9, 0.9) == pytest.approx(wilson(hits, count, 0.9), abs=1e-6)
        assert finite_wilson(hits, count, count) == (hits / count, hits / count)
    low, high = finite_wilson(0, 90, 100)
    assert (low, high <= 0.1) == (0.0, True)  # at most the ten that were not seen
    for wrong in ((5, 4, 9), (1, 10, 9)):
        with pytest.raises(ViewError):
            finite_wilson(*wrong)


def test_published_intervals() -> None:
    """Newcombe 1998, table II: 56/70 against 48/80, method 10; table III of the other: 36, 12, 2, 0 of 50 pairs."""
    found = effect(48 / 80, 80, 56 / 70, 70)
    assert (found.difference, found.low, found.high) == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)
    assert found.h == pytest.approx(2 * math.asin(math.sqrt(0.8)) - 2 * math.asin(math.sqrt(0.6)))
    paired = paired_effect(36, 2, 12, 0)
    assert (paired.difference, paired.low, paired.high) == pytest.approx((0.2, 0.0569, 0.3404), abs=5e-5)
    assert paired.odds_ratio == 6.0
    assert stats.contingency.odds_ratio([[56, 14], [48, 32]], kind="sample").statistic == pytest.approx(
        found.odds_ratio
    )
    ends = stats.contingency.odds_ratio([[56, 14], [48, 32]], kind="sample").confidence_interval(0.95)
    assert (found.odds_low, found.odds_high) == pytest.approx((ends.low, ends.high))


def test_tests_are_scipys() -> None:
    table = np.array([[30, 14, 40], [22, 40, 61]])
    known = stats.chi2_contingency(table, correction=False)
    found = chi_square(table.astype(float))
    assert (found.statistic, found.p) == pytest.approx((known.statistic, known.pvalue))
    assert independent([30, 14, 40, 0], [22, 40, 61, 0]) == found
    assert independent([8, 2], [1, 9]).name == "fisher"
    small = permutation(np.array([[5, 1, 0], [2, 2, 4]]))
    exact = stats.fisher_exact(np.array([[5, 1, 0], [2, 2, 4]]))  # of another statistic, but of the same tables
    assert small.p == pytest.approx(exact.pvalue, abs=0.03)
    assert mcnemar(12, 2).p == pytest.approx(stats.binomtest(2, 14).pvalue)
    assert mcnemar(6000, 5700).p == pytest.approx(stats.chi2.sf(299**2 / 11700, 1))
    assert mcnemar(0, 0).name == ""
    pairs = np.array([[20, 10, 5], [3, 30, 15], [0, 5, 40]], float)
    assert homogeneity(pairs).statistic == pytest.approx(_stuart(pairs))
    assert homogeneity(np.array([[20.0, 12], [2, 9]])).statistic == pytest.approx((12 - 2) ** 2 / 14)
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def _stuart(n: NDArray[np.float64]) -> float:
    """Stuart's statistic of three classes in closed form (Fleiss and Everitt 1971)."""
    d = n.sum(axis=1) - n.sum(axis=0)
    m = {(i, j): (n[i, j] + n[j, i]) / 2 for i, j in ((0, 1), (0, 2), (1, 2))}
    above = m[1, 2] * d[0] ** 2 + m[0, 2] * d[1] ** 2 + m[0, 1] * d[2] ** 2
    return float(above / (2 * (m[0, 1] * m[1, 2] + m[0, 1] * m[0, 2] + m[0, 2] * m[1, 2])))


# Designs


def test_equal_weights_change_nothing() -> None:
    hits = np.arange(400) % 7 == 0
    plain, weighted = estimated(Sums.of(hits)), estimated(Sums.of(hits, np.full(400, 3.5)))
    assert plain == pytest.approx(weighted)
    assert plain[1:3] == pytest.approx(wilson(int(hits.sum()), 400))
    assert estimated(Sums.of(hits), 1000)[1:3] == pytest.approx(finite_wilson(int(hits.sum()), 400, 1000))
    one = stratified([Sums.of(hits)], [1000])
    assert one[:3] == pytest.approx(estimated(Sums.of(hits), 1000)[:3])
    alone = clustered(np.ones(400), hits.astype(float), 400)  # every fault a cluster: a plain sample
    assert alone.design_effect == pytest.approx(400 / 399)
    assert clustered_strata([Clusters(np.arange(400), np.ones(400), hits.astype(float))], [9], 400) == alone
    with pytest.raises(ViewError):
        clustered(np.ones(1), np.ones(1), 1)
    with pytest.raises(ViewError):
        Sums.of(hits, np.zeros(400))


def test_weighted_variance_by_hand() -> None:
    """The linearised variance is that of the ratio, by the delta method over all pairs (jackknife in the limit)."""
    rng = np.random.default_rng(3)
    w, y = rng.uniform(1, 9, 500), rng.random(500) < 0.3
    found = estimated(Sums.of(y, w))
    jackknife = np.array([np.average(np.delete(y, i), weights=np.delete(w, i)) for i in range(500)])
    variance = 499 / 500 * ((jackknife - jackknife.mean()) ** 2).sum()
    assert found.share == pytest.approx(np.average(y, weights=w))
    assert found.share * (1 - found.share) / found.size == pytest.approx(variance, rel=0.02)
    clusters = rng.integers(0, 25, 500)
    weights, hits = (np.bincount(clusters, values, 25).astype(np.float64) for values in (w, w * y))
    robust, again = clustered(weights, hits, 500), bootstrapped(weights, hits, 500, seed=1)
    left = np.array([(hits.sum() - b) / (weights.sum() - a) for a, b in zip(weights, hits, strict=True)])
    assert robust.share * (1 - robust.share) / robust.size == pytest.approx(
        24 / 25 * ((left - left.mean()) ** 2).sum(), rel=0.1
    )
    assert (again.low, again.high) == pytest.approx((robust.low, robust.high), abs=0.012)
    assert again == bootstrapped(weights, hits, 500, seed=1)


def _covered(trial: Callable[[np.random.Generator], tuple[float, float, float]], trials: int = 2000) -> float:
    """How often an interval (share, low, high) of a trial holds the truth."""
    rng = np.random.default_rng(11)
    found = [trial(rng) for _ in range(trials)]
    return float(np.mean([low <= truth <= high for truth, low, high in found]))


@pytest.mark.exhaustive
def test_intervals_cover() -> None:
    """Simulated campaigns: 95 % intervals hold the truth in about 95 % of them (two standard errors are 1 %)."""
    rng = np.random.default_rng(5)
    population = rng.random(2000) < 0.12

    def finite(rng: np.random.Generator) -> tuple[float, float, float]:
        seen = rng.choice(population, 900, replace=False)
        return population.mean(), *finite_wilson(int(seen.sum()), 900, 2000)

    strata = [rng.random(size) < share for size, share in ((5000, 0.02), (800, 0.5), (300, 0.97))]
    truth = float(np.concatenate(strata).mean())

    def layered(rng: np.random.Generator) -> tuple[float, float, float]:
        samples = [Sums.of(rng.choice(each, 150, replace=False)) for each in strata]
        return truth, *stratified(samples, [len(each) for each in strata])[1:3]

    score = rng.gamma(2.0, size=20_000)
    harm = rng.random(20_000) < np.clip(score / 10, 0, 1)
    chance = score / score.sum()

    def important(rng: np.random.Generator) -> tuple[float, float, float]:
        chosen = rng.choice(20_000, 600, p=chance)
        return harm.mean(), *estimated(Sums.of(harm[chosen], 1 / chance[chosen]))[1:3]

    def poisson(rng: np.random.Generator) -> tuple[float, float, float]:
        taken = rng.random(20_000) < (p := np.minimum(1, 600 * chance))
        return harm.mean(), *horvitz_thompson(Sums.of(harm[taken], 1 / p[taken]), 20_000)[1:3]

    def sets(rng: np.random.Generator) -> tuple[float, float, float]:
        shares = rng.beta(3, 7, 20)  # each operand set has a share of its own; 0.3 on average
        hits = rng.binomial(200, shares).astype(float)
        return 0.3, *clustered(np.full(20, 200.0), hits, 4000)[1:3]

    def layered_sets(rng: np.random.Generator) -> tuple[float, float, float]:
        shares, numbers = rng.beta(3, 7, 20), np.arange(20)  # the same sets in both strata
        counts = [rng.binomial(100, np.minimum(1, factor * shares)).astype(float) for factor in (1.0, 0.5)]
        strata = [Clusters(numbers, np.full(20, 100.0), hits) for hits in counts]
        return 0.25 * 0.3 + 0.75 * 0.15, *clustered_strata(strata, [1000, 3000], 4000)[1:3]

    def naive(rng: np.random.Generator) -> tuple[float, float, float]:
        return 0.3, *wilson(int(rng.binomial(200, rng.beta(3, 7, 20)).sum()), 4000)

    def pairs(rng: np.random.Generator) -> tuple[float, float, float]:
        both, first, second, neither = rng.multinomial(80, [0.3, 0.1, 0.2, 0.4]).tolist()
        return 0.1, *paired_effect(both, first, second, neither)[1:3]

    for trial in (finite, layered, important, poisson, sets, layered_sets, pairs):
        assert 0.935 <= _covered(trial) <= 0.975, trial.__name__
    assert _covered(naive) < 0.5, "operand sets that are taken for independent draws"


@pytest.mark.exhaustive
def test_stopping_costs_little_coverage() -> None:
    """Looking after every 50 faults until a 95 % interval is 3 % wide to either side."""

    def stopped(rng: np.random.Generator) -> tuple[float, float, float]:
        seen = rng.random(4000) < 0.2
        for count in range(50, 4001, 50):
            low, high = wilson(int(seen[:count].sum()), count)
            if high - low <= 0.06:
                return 0.2, low, high
        raise AssertionError("never narrow")

    assert 0.93 <= _covered(stopped) <= 0.965
