"""Samples of a population are drawn with the probabilities that their weights say, and what is estimated from them is
what the population has."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.cli.main import main
from simulator.errors import ConfigError
from simulator.faults import sampling
from simulator.faults.campaign import read_campaign
from simulator.faults.element_kinds import Population
from simulator.faults.group import Group
from simulator.faults.sampling import sample
from simulator.faults.table import empty
from simulator.statistics.designs import Sums, estimated, horvitz_thompson
from simulator.studies.faults.report import as_text
from simulator.studies.faults.summary import summarise
from tests.support.cases import exhaustive

SIZE = 6_000


def _make(index: Any) -> Any:
    """Faults whose weights are the lengths of intervals, some of them long."""
    rows = empty(len(index))
    rows["word"], rows["lane"], rows["mask"] = index // 1024, index // 32 % 32, np.uint32(1) << (index % 32)
    rows["weight"] = 1 + (index * 7919 % 97 == 0) * 40 + index % 5
    return rows


POPULATION = Population(SIZE, _make)
EVERY = _make(np.arange(SIZE))
HIT = (np.arange(SIZE) % 32 > 24) | (EVERY["weight"] > 20) | (np.arange(SIZE) * 31 % 11 == 3)


def _group(count: int, **keys: Any) -> Group:
    return Group("g", "registers", at="intervals", count=count, **keys)


def _estimates(group: Group, draws: int) -> tuple[Any, Any]:
    """Share, low, high, size of `draws` samples, and how often each fault was drawn."""
    found, times = [], np.zeros(SIZE)
    for seed in range(draws):
        index, factors = sample(group, POPULATION, 0, seed)
        assert index is not None
        assert (np.diff(index) > 0).all()
        assert len(index) == group.count
        weights = EVERY["weight"][index] * (1.0 if factors is None else factors)
        found.append(tuple(estimated(Sums.of(HIT[index], weights), SIZE))[:4])
        times[index] += 1
    return np.array(found), times


@pytest.mark.parametrize("most", [1 << 20, 0], ids=["one phase", "two phases"])
@pytest.mark.parametrize(
    ("importance", "strata"),
    [("weight", ""), ("weight * where(bit > 24, 4, 1)", ""), ("", "bit"), ("weight / size", "lane // 8")],
)
@pytest.mark.parametrize("draws", [150, pytest.param(1500, marks=exhaustive)])
def test_what_is_estimated(
    draws: int, importance: str, strata: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "MOST", most)
    truth = float((EVERY["weight"] * HIT).sum() / EVERY["weight"].sum())
    found, _times = _estimates(_group(400, importance=importance, strata=strata), draws)
    plain, _ = _estimates(_group(400), draws)
    spread = found[:, 0].std()
    assert abs(found[:, 0].mean() - truth) < 5 * spread / np.sqrt(draws) + 0.003  # Hajek's bias is of order 1 / count
    covered = ((found[:, 1] <= truth) & (truth <= found[:, 2])).mean()
    assert covered > (0.9 if draws < 1000 else 0.93)
    if importance:
        assert spread < 0.8 * plain[:, 0].std()  # what it is for
        assert found[:, 3].mean() > 1.5 * plain[:, 3].mean()
    _, factors = sample(_group(400, importance=importance, strata=strata), POPULATION, 0, 1)
    assert factors is not None
    assert factors.min() >= 1


def test_each_fault_has_its_probability() -> None:
    draws, group = 2000, _group(400, importance="weight ** 2")
    _, times = _estimates(group, draws)
    chance = sampling.inclusion(EVERY["weight"] ** 2, 400)
    assert chance.sum() == pytest.approx(400)
    certain = chance == 1
    assert certain.sum() == (EVERY["weight"] > 20).sum()
    assert (times[certain] == draws).all()
    error = (times[~certain] / draws - chance[~certain]) / np.sqrt(chance[~certain] * (1 - chance[~certain]) / draws)
    assert np.abs(error).max() < 5
    assert error.std() == pytest.approx(1, abs=0.1)
    low = chance[~certain] * len(chance[~certain]) / chance[~certain].sum()
    assert low.max() / low.min() == pytest.approx(25)


def test_strata_have_their_parts() -> None:
    index, factors = sample(_group(330, strata="lane"), POPULATION, 0, 5)
    assert index is not None
    assert factors == pytest.approx(SIZE / 330)
    lanes, whole = Counter(EVERY["lane"][index].tolist()), Counter(EVERY["lane"].tolist())
    assert all(abs(lanes[lane] - 330 * count / SIZE) < 1 for lane, count in whole.items())
    index, factors = sample(_group(330, strata="lane", importance="1 / size"), POPULATION, 0, 5)
    assert index is not None
    assert factors is not None
    lanes = Counter(EVERY["lane"][index].tolist())
    assert set(lanes.values()) <= {10, 11}  # equally many of each
    assert factors == pytest.approx(np.array([whole[lane] / (330 / 32) for lane in EVERY["lane"][index].tolist()]))
    total = Sums.of(np.ones(330, np.bool_), factors)
    assert horvitz_thompson(total, SIZE).share == pytest.approx(1, abs=0.01)


def test_lists_of_samples_are_reported(tmp_path: Path) -> None:
    """A group that was drawn unequally counts by its population beside one that was not."""
    file = tmp_path / "two.toml"
    file.write_text(
        '[subject]\nopcode = "mma.sp::ordered_metadata.m16n8k32.f32.f16.f16.f32"\ntarget = "sm_90a"\ncases = 2\n'
        '[[faults]]\nsite = "e"\nkind = "flip"\n'
        '[[faults]]\nsite = "c"\nkind = "flip"\ncount = 300\nimportance = "where(bit >= 23, 8, 1)"\nstrata = "bit"\n'
    )
    listed, found = tmp_path / "list.csv", tmp_path / "results.csv"
    for command in (
        ["list", file, "--output", listed],
        ["run", listed, "--output", found, "--tolerate", "max_rel < 1e-3"],
    ):
        assert main(["faults", *map(str, command)]) == 0
    summary = summarise(found)
    assert summary.together
    assert not summary.total.uniform
    assert "all, by population" in as_text(summary)
    (counts,) = [each for each in summary.groups if each.name == "c flip"]
    every = tmp_path / "every.toml"
    every.write_text(file.read_text().partition("count = ")[0])
    assert main(["faults", "list", str(every), "--output", str(listed)]) == 0
    found = tmp_path / "whole.csv"
    assert main(["faults", "run", str(listed), "--output", str(found), "--tolerate", "max_rel < 1e-3"]) == 0
    (whole,) = [each for each in summarise(found).groups if each.name == "c flip"]
    for outcome in ("masked", "critical"):
        _share, low, high = counts.share(outcome, 0.999)
        assert low <= whole.share(outcome)[0] <= high, outcome
        assert 0 < high - low < 0.3, outcome


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"count": 5, "importance": "bit - 3"}, "is -3 at word 0, lane 0"),
        ({"count": 5, "importance": "bits"}, "no array or function 'bits'"),
        ({"count": 5, "strata": "lane[:2]"}, "gives no finite number for each fault"),
        ({"count": 5, "strata": "size"}, "no array or function 'size'"),
        ({"importance": "weight"}, "of a group that injects every fault"),
    ],
)
def test_what_draws_nothing(keys: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason.replace("[", r"\[")):
        list(read_campaign("mma.sp.m16n8k32.f32.f16.f16.f32", {"site": "e", **keys}).faults())
