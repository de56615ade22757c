"""Which faults of a group's population are injected, where not all are: simple random samples, importance samples, and
stratified ones.

A simple sample takes every fault with the same probability. With `importance`, an expression, a fault is drawn with a
probability in proportion to it, and its weight becomes one over that probability (times the weight that it had), so
that weighted shares are of the population all the same. With `strata`, an expression whose values divide the
population, each stratum has its part of the sample to within one fault.

Both are systematic samples with unequal probabilities from a list in random order, sorted by stratum (Madow, "On the
theory of systematic sampling, II", Annals of Mathematical Statistics 20, 1949): no fault is drawn twice, each has
exactly the probability that its weight says, and faults whose probability would be above one are taken for certain.
Populations above `MOST` are drawn from in two phases: first a simple sample, in which the expressions are looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import ConfigError
from simulator.faults.element_kinds import Population
from simulator.faults.group import Group
from simulator.faults.models import bits_of
from simulator.faults.spread import Indices, lowest
from simulator.faults.table import Faults, seeds
from simulator.numpy_expression import ExpectationError, evaluate
from simulator.statistics import sample_size

NAMES = ("word", "lane", "bit", "case", "at", "weight", "size")
"""What the expressions may name: the struck word, lane and lowest bit, the set of operands or warp, the time, the
weight that the fault has without them; `importance` also how many faults the stratum has."""
MOST = 1 << 20  # faults whose expressions are looked at, or `_PHASE` times as many as are wanted
_PHASE = 4
_CHUNK = 1 << 18
Reals = NDArray[np.float64]


def wanted(group: Group, size: int) -> int:
    """How many faults of a group are injected, of the `size` that there are. ConfigError for more than these."""
    if group.margin:
        return sample_size(size, group.margin, group.confidence)
    if group.count > size:
        raise _wrong(group, "count", f"{group.count:,} of {size:,} faults", f"at most {size:,}, or no count for all")
    return group.count or size


def sample(group: Group, one: Population, number: int, seed: int) -> tuple[Indices | None, Reals | None]:
    """What is drawn of a population.

    Args:
        group: the group, `number` among those of its campaign.
        seed: of the campaign; equal seeds draw equal faults.

    Returns:
        Indices into the population, ascending, without repetition (None: all), and by what the weight of each fault is
        multiplied (None: by 1).

    Raises:
        ConfigError: an expression that gives no number for each fault, or an importance that is not above 0.
    """
    count = wanted(group, one.size)
    if count == one.size:
        return None, None
    rng = np.random.Generator(np.random.Philox(int(seeds(seed, np.array([-1 - number]))[0])))
    if not group.importance and not group.strata:
        return np.sort(rng.choice(one.size, count, replace=False, shuffle=False)), None
    looked = max(MOST, _PHASE * count)
    every = np.arange(one.size) if looked >= one.size else np.sort(rng.choice(one.size, looked, replace=False))
    importance, order = _looked_at(group, one, every, rng)
    chance = inclusion(importance, count)
    picked = np.sort(order[systematic(chance[order], rng.random())])
    return every[picked], one.size / len(every) / chance[picked]


def inclusion(importance: Reals, count: int) -> Reals:
    """With which probability each fault is drawn, float64 [fault]: in proportion to its importance, at most 1, `count`
    in all."""
    chance = np.zeros(len(importance))
    certain = np.zeros(len(importance), np.bool_)
    while True:
        rest = float(importance[~certain].sum())
        chance[:] = np.where(certain, 1.0, importance * ((count - int(certain.sum())) / rest if rest else 0.0))
        beyond = (chance >= 1) & ~certain
        if not beyond.any():
            return chance
        certain |= beyond


def systematic(chance: Reals, start: float) -> Indices:
    """The places that a systematic sample draws, ascending: those at which the sum of probabilities up to there passes
    start, start + 1, ...; `start` is between 0 and 1, at random."""
    ends = np.cumsum(chance)
    count = round(float(ends[-1]))
    ends *= count / ends[-1]  # the sum is a whole number, but for rounding
    return np.minimum(np.searchsorted(ends, start + np.arange(count), side="right"), len(chance) - 1)


def _looked_at(group: Group, one: Population, every: Indices, rng: np.random.Generator) -> tuple[Reals, Indices]:
    """The importance of faults, and the order in which they are drawn: by stratum, at random in each."""
    parts = [every[first : first + _CHUNK] for first in range(0, len(every), _CHUNK)]
    order = rng.permutation(len(every))
    sizes: Reals = np.ones(len(every))
    if group.strata:
        values = np.concatenate([_values(group, "strata", one.make(part)) for part in parts])
        _, stratum, counts = np.unique(values, return_inverse=True, return_counts=True)
        sizes = np.asarray(counts[stratum] * (one.size / len(every)), np.float64)
        order = order[np.argsort(stratum[order], kind="stable")]
    if not group.importance:
        return np.ones(len(every)), order
    split = np.split(sizes, np.cumsum([len(part) for part in parts])[:-1])
    known = [_values(group, "importance", one.make(part), size) for part, size in zip(parts, split, strict=True)]
    importance = np.concatenate(known)
    low = int(importance.argmin())
    if importance[low] <= 0:
        (row,) = one.make(every[[low]])
        reason = f"'{group.importance}' is {importance[low]:g} at word {row['word']}, lane {row['lane']}"
        raise _wrong(group, "importance", reason, "numbers above 0: what is never drawn is not in the estimate")
    return importance, order


def _values(group: Group, key: str, rows: Faults, size: Reals | None = None) -> Reals:
    """What the expression of a key gives for faults, float64 [fault]."""
    text = getattr(group, key)
    names: dict[str, Any] = {name: rows[name].astype(np.int64) for name in ("word", "lane", "case", "at")}
    names |= {"bit": lowest(bits_of(rows)).astype(np.int64), "weight": rows["weight"].copy()}
    if size is not None:
        names["size"] = size
    try:
        found = np.asarray(evaluate(text, names))
        numbers = np.broadcast_to(found.astype(np.float64), (len(rows),))
    except ExpectationError as error:
        raise _wrong(group, key, error.reason, f"an expression of {', '.join(names)}") from None
    except (TypeError, ValueError):
        numbers = np.full(1, np.nan)
    if len(numbers) != len(rows) or not np.isfinite(numbers).all():
        raise _wrong(group, key, f"'{text}' gives no finite number for each fault", f"numbers, of {', '.join(names)}")
    return numbers


def _wrong(group: Group, key: str, reason: str, legal: str) -> ConfigError:
    return ConfigError("campaign", f"{group.name}.{key}", reason, legal)
