"""Published claims: what checksums of tiles see, what stuck ports do, how corrupted words are counted, and that each
command says what it should."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from simulator.statistics import wilson
from simulator.studies.faults.claims.anatomy import anatomy
from simulator.studies.faults.claims.clusters import clustered
from simulator.studies.faults.claims.fault_sets import OUTPUTS, PORTS, STORAGE, _of_port, at_site
from simulator.studies.faults.claims.ft_sparse import coverage, overheads
from simulator.studies.faults.claims.report import CLAIMS
from simulator.studies.faults.claims.single_bits import rate
from simulator.studies.faults.claims.tile_checksums import SIDE, TileChecks
from simulator.studies.faults.networks import NumpySubject, campaign, digit_images, network
from simulator.studies.faults.networks.injection import Campaign
from simulator.studies.faults.networks.sites import Changes

Tcsim = Callable[..., tuple[int, str, str]]


@cache
def of(type: str, name: str = "digits_mlp", layer: str = "fc2", images: int = 384) -> Campaign:
    given = digit_images(images)
    return campaign(NumpySubject(network(name), given.images, given.labels), layer, type=type)


def change(row: int, column: int, word: int) -> Changes:
    return Changes(np.array([0]), np.array([row]), np.array([column]), np.array([word], np.uint32))


@pytest.mark.parametrize("rows_alone", [False, True])
def test_checksums_see_what_is_larger_than_their_tolerance(rows_alone: bool) -> None:
    one = of("f16")
    checks = TileChecks(one, rows_alone=rows_alone)
    assert checks.false_alarms.failed == 0
    assert checks.false_alarms.products == 2 * (384 - 192) // SIDE
    d = one.running.d.view(np.float32)
    tolerances = checks.checks.row_tolerance, checks.checks.column_tolerance
    assert np.isinf(tolerances[1]) == rows_alone
    for apart, seen in ((0.05 * min(tolerances), False), (5 * tolerances[0], True)):
        value = np.float32(d[70, 300] + apart)
        assert checks.sees(change(70, 300, int(value.view(np.uint32))))[0] == seen
    assert checks.sees(change(70, 300, 0x7FC00000))[0]  # NaN


def test_checks_of_rounded_results_tolerate_more() -> None:
    one = of("f16")
    whole, rounded = (TileChecks(one, stored, rows_alone=True) for stored in ("", "f16"))
    assert rounded.checks.row_tolerance > 100 * whole.checks.row_tolerance > 0
    assert rounded.false_alarms.failed == 0
    value = np.float32(one.running.d.view(np.float32)[70, 300] + 10 * whole.checks.row_tolerance)
    slight = change(70, 300, int(value.view(np.uint32)))
    assert (whole.sees(slight)[0], rounded.sees(slight)[0]) == (True, False)


def test_checksums_of_integers_are_exact() -> None:
    one = of("s8")
    checks = TileChecks(one)
    assert (checks.checks.row_tolerance, checks.checks.column_tolerance) == (0.0, 0.0)
    assert checks.sees(change(1, 200, int(one.running.d[1, 200]) ^ 1)).all()


def test_checksums_see_every_critical_fault_of_storage() -> None:
    """The factor of FT-Sparse's abstract is 4.87; here none is missed."""
    one = of("f16")
    checks = TileChecks(one, rows_alone=True)
    ((corrupted, seen, critical, missed, faults, _),) = coverage(one, [checks], STORAGE[0], 150, 1)
    assert corrupted >= seen > 0
    assert (critical > 0, missed) == (True, 0)
    assert 0 < faults < 150
    checks.checks.row_tolerance = np.inf  # which sees NaN alone
    ((_, seen, _, missed, _, missed_faults),) = coverage(one, [checks], STORAGE[0], 150, 1)
    assert (seen, missed, missed_faults) == (0, critical, faults)


@pytest.mark.exhaustive
def test_row_checksums_cost_less_than_is_claimed() -> None:
    for _, cost in overheads():
        assert 0 < cost["abft rows"] < 0.0759 < cost["abft"]


@pytest.mark.parametrize("which", ["a", "b", "e", "d"])
def test_stuck_ports_are_operands_changed_by_hand(which: str) -> None:
    """Of s8, which adds up exactly: one unit of 16 x 8 multiplies with a bit of one operand stuck."""
    one = of("s8", images=64)
    layer, running = one.layer, one.running
    for fault in range(6):
        draws, again = (np.random.default_rng(fault) for _ in range(2))
        changes = _of_port(running, which, 3, draws)
        row, column, stuck = int(again.integers(16)), int(again.integers(8)), bool(again.integers(2))
        element = int(again.integers(64 if which == "b" else 32))
        bit = int(again.integers({"e": 2, "d": 32}.get(which, 8)))
        values, codes, b = layer.values.astype(np.int64), layer.codes.astype(np.int64), running.b.astype(np.int64)

        def held(x: np.ndarray, at: int, stuck: bool = stuck) -> np.ndarray:
            return x | 1 << at if stuck else x & ~(1 << at)

        if which == "a":
            values[:, element::32] = held(values[:, element::32], bit)
        if which == "b":
            b[element::64] = held(b[element::64], bit)
        if which == "e":
            codes[:, element // 2 :: 16] = held(codes[:, element // 2 :: 16], bit + 2 * (element % 2))
        expected = np.zeros((layer.rows, running.columns), np.int64)
        for step in range(layer.steps):
            for stored in range(32 * step, 32 * step + 32):
                picked = 4 * (stored // 2) + (codes[:, stored // 2] >> 2 * (stored % 2) & 3)
                left = values[:, stored].astype(np.uint8).view(np.int8).astype(np.int64)
                expected += left[:, None] * b[picked].astype(np.uint8).view(np.int8)
            if which == "d":
                expected = held(expected & 0xFFFFFFFF, bit)
                expected = expected - (expected >> 31 << 32)
        got = running.d.view(np.int32).astype(np.int64)
        got[changes.row, changes.column] = changes.word.view(np.int32)
        assert set(changes.fault) <= {3}
        mine = np.ix_(np.arange(row, layer.rows, 16), np.arange(column, running.columns, 8))
        assert (got[mine] == expected[mine]).all()
        other = np.ones(got.shape, np.bool_)
        other[mine] = False
        assert (got == running.d.view(np.int32))[other].all()


def test_corrupted_words_are_counted_by_their_bits() -> None:
    one = of("f16", images=64)
    flips = anatomy("fc2", one, OUTPUTS[0], 200, 2)
    assert (flips.corrupting, flips.words, flips.single, flips.median) == (200, 200, 1.0, 1)
    assert flips.single_faults == 200
    pairs = anatomy("fc2", one, at_site("d", "word"), 200, 2)
    assert 14 <= pairs.median <= 18
    tile = anatomy("fc2", one, OUTPUTS[2], 5, 2)
    assert (tile.words, tile.by_bits[1], tile.single_faults) == (5 * 128, 5 * 128, 5)
    assert anatomy("fc2", one, OUTPUTS[3], 5, 2).words == 5 * 128
    stuck = anatomy("fc2", one, PORTS[1], 60, 2)  # exponents of activations
    assert stuck.nonfinite_faults > 0
    assert stuck.single < 0.4


def test_random_words_of_d_are_worse_than_single_bits() -> None:
    one = of("f16")
    flips, words = (rate("fc2", one, faults, 1000, 3) for faults in OUTPUTS[:2])
    assert flips.inferences.sum() == words.inferences.sum() == 1000
    assert words.rate > 2 * flips.rate > 0
    assert words.record(flips)["ratio"] == words.rate / flips.rate


def test_inferences_of_one_fault_are_not_independent() -> None:
    """Of single inferences the interval is the binomial's; 100 alike of each fault do not make it narrower."""
    draws = np.random.default_rng(0)
    hits = draws.random(400) < 0.2
    alone = clustered(hits.astype(int), np.ones(400, int))
    assert np.allclose(alone, np.mean(hits) + np.array([-1, 1]) * 1.96 * np.std(hits) / 20, atol=1e-3)
    assert np.allclose(alone, clustered(100 * hits.astype(int), np.full(400, 100)))
    assert clustered(np.zeros(3, int), np.array([0, 5, 5])) == wilson(0, 2)
    assert clustered(np.zeros(3, int), np.zeros(3, int)) == (0.0, 1.0)


def test_claims_are_commands(tcsim: Tcsim) -> None:
    few = ("--faults", "1", "--images", "256", "--type", "s8")
    code, out, _ = tcsim("faults", "claim", "anatomy", *few, "--format", "json")
    rows = json.loads(out)
    assert (code, len(rows)) == (0, 5 * 10)
    assert {row["faults"] for row in rows} > {"values", "metadata", "port e"}
    code, out, _ = tcsim("faults", "claim", "single-bit", *few)
    assert (code, out.splitlines()[0]) == (0, f"claim: {CLAIMS['single-bit'].title}")
    for wrong in (("--images", "8"), ("--faults", "1000000"), ("--seed", "-1")):
        code, out, err = tcsim("faults", "claim", "anatomy", *wrong)
        assert (code, out, err.count("\n")) == (2, "", 1)
