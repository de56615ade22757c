"""`simulator.studies.accuracy`: statistics against fractions, sums against other ways to compute them, published facts,
and the command line."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import isa
import simulator
from simulator.arithmetic import product
from simulator.arithmetic.convert import to_float64
from simulator.arithmetic.random_operands import DISTRIBUTIONS
from simulator.studies.accuracy import INPUTS, accuracy
from simulator.studies.accuracy.chips import chips, make_problem
from simulator.studies.accuracy.errors import mean_of
from simulator.studies.accuracy.operands import Batch, Drawn, pruned
from simulator.studies.accuracy.sums import chip_sum, f32_sums
from tests.support.cases import over

Tcsim = Callable[..., tuple[int, str, str]]


def round_to(x: Fraction, digits: int, lowest: int, *, nearest: bool = True) -> Fraction:
    """To so many significant bits, the last place not below that of 2^lowest; to nearest even or toward zero."""
    if not x:
        return x
    exponent = math.floor(math.log2(abs(x)))
    exponent += (abs(x) >= Fraction(2) ** (exponent + 1)) - (abs(x) < Fraction(2) ** exponent)
    unit = Fraction(2) ** (max(exponent, lowest) - digits + 1)
    return Fraction(round(x / unit)) * unit if nearest else Fraction(int(x / unit)) * unit


def f32(x: Fraction) -> Fraction:
    return round_to(x, 24, -126)


def exponent_of(x: float, lowest: int) -> int:
    """Of a factor, as the tensor core sees it."""
    return max(math.frexp(x)[1] - 1, lowest)


def fp8_wgmma(a: list[float], b: list[float], c: Fraction) -> Fraction:
    """One instruction: terms cut to 13 bits below the largest exponent, the sum cut to 13 bits; e4m3. arXiv 2512.07004;
    MMA-Sim 2.1.1."""
    terms = [
        (exponent_of(x, -6) + exponent_of(y, -6), Fraction(x) * Fraction(y)) for x, y in zip(a, b, strict=True) if x * y
    ]
    if c:
        terms.append((exponent_of(float(c), -126), c))
    unit = Fraction(2) ** (max([e for e, _ in terms], default=0) - 13)
    return round_to(sum((Fraction(int(x / unit)) * unit for _, x in terms), Fraction(0)), 14, -126, nearest=False)


def matrices(m: int = 7, n: int = 5, k: int = 70, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return tuple(
        rng.normal(0, 1, shape).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) for shape in ((m, k), (k, n))
    )  # type: ignore[return-value]


def test_every_statistic_against_fractions() -> None:
    """A sum of three instructions (K = 70, filled up to 96), and all that is said of its errors, in exact
    arithmetic."""
    a, b = matrices()
    a[2, :40], a[2, 40:] = a[2, 0], 0  # sums of other sizes, too
    line, *_ = accuracy("e4m3", targets="sm_90:wgmma", a=a, b=b).lines
    signed, relative, backward, right = [], [], [], 0
    squares: list[tuple[Fraction, Fraction]] = []
    for row in a.tolist():
        for column in b.T.tolist():
            d, terms = Fraction(0), [Fraction(x) * Fraction(y) for x, y in zip(row, column, strict=True)]
            for start in range(0, 70, 32):
                d = fp8_wgmma(row[start : start + 32], column[start : start + 32], d)
            exact = f32(sum(terms, Fraction(0)))
            away = (d - exact) * (1 if exact > 0 else -1)
            signed.append(away / Fraction(2) ** (exponent_of(float(exact), -126) - 23))
            relative.append(away / abs(exact))
            backward.append(abs(d - exact) / sum(map(abs, terms)))
            right += d == exact
            squares.append(((d - exact) ** 2, exact**2))
    e = line.errors
    ranked = sorted(map(abs, signed))
    assert (e.count, e.measured, e.special, e.zero_wrong) == (35, 35, 0, 0)
    assert e.right == pytest.approx(right / 35)
    assert e.toward_zero == pytest.approx(sum(x < 0 for x in signed) / 35)
    assert e.backward_bias is not None
    assert e.backward_bias.value == pytest.approx(
        float(sum(x if s > 0 else -x for x, s in zip(backward, signed, strict=True)) / 35)
    )
    noise, signal = (float(sum(part)) for part in zip(*squares, strict=True))
    assert e.relative_error == pytest.approx((noise / signal) ** 0.5)
    assert e.sqnr_db == pytest.approx(10 * np.log10(signal / noise))
    assert e.largest_error == pytest.approx(float(max(one for one, _ in squares)) ** 0.5)
    assert e.mean == pytest.approx(float(sum(ranked) / 35))
    assert e.largest == float(ranked[-1])
    assert e.bias is not None
    assert e.bias.value == pytest.approx(float(sum(signed) / 35))
    assert e.relative_bias is not None
    assert e.relative_bias.value == pytest.approx(float(sum(relative) / 35))
    assert e.backward_mean == pytest.approx(float(sum(backward) / 35))
    assert e.backward_largest == pytest.approx(float(max(backward)))
    assert e.percentiles == {
        "50": ranked[17],
        "95": ranked[33],
        "99": ranked[34],
        "99.9": ranked[34],
    }  # of 35 the 18th, 34th and 35th
    expected = [sum(x == 0 for x in ranked)] + [
        sum((1 << i) / 2 * (i > 0) < x <= 1 << i for x in ranked) for i in range(len(e.histogram) - 1)
    ]
    assert list(e.histogram) == expected
    assert sum(e.histogram) == 35
    assert line.worst is not None
    at = max(range(35), key=lambda i: abs(signed[i]))
    assert (line.worst.place, line.worst.ulp) == ({"row": at // 5, "column": at % 5}, float(signed[at]))


@pytest.mark.parametrize(
    ("name", "scale"),
    [("f16", 1.0), ("e5m2", 1.0), ("bf16", 1.0), ("bf16", 2.0**-70), ("tf32", 2.0**-66), ("bf16", 2.0**62)],
)
def test_f32_sums_against_fractions(name: str, scale: float) -> None:
    """Chains of fused multiply-adds and pairwise sums, with products and sums that are subnormal, and products that are
    too large."""
    problem = make_problem(name, None, "f32", sparse=False)
    k = 11
    batch = next(Drawn(problem, k, 40, "normal", scale, 3).batches())
    a, b = to_float64(batch.a[0], problem.a_type), to_float64(batch.b[0], problem.b_type)
    found = [x.view(np.float32)[0] for x in f32_sums(batch, problem)]
    for i, row in enumerate(a.tolist()):
        for j, column in enumerate(b.T.tolist()):
            products = [Fraction(x) * Fraction(y) for x, y in zip(row, column, strict=True)]
            chain, level = Fraction(0), [f32(x) for x in products]
            for term in products:
                chain = f32(chain + term)
            assert found[0][i, j] == float(chain)
            pairs = [
                f32(sum(level[:8][4 * h + 2 * q : 4 * h + 2 * q + 2], Fraction(0))) for h in range(2) for q in range(2)
            ]
            head = f32(f32(pairs[0] + pairs[1]) + f32(pairs[2] + pairs[3]))
            if scale < 2.0**60:  # beyond, single products overflow
                assert found[1][i, j] == float(f32(head + f32(f32(level[8] + level[9]) + level[10])))


@over("spec", ["sm_70", "sm_75", "sm_80", "sm_90", "sm_90:wgmma", "sm_100:tcgen05"])
@over("result", ["f32", "f16"])
def test_chains_of_single_instructions(spec: str, result: str) -> None:
    problem = make_problem("f16", None, result, sparse=False)
    (chip,) = chips(problem, [spec])
    batch = next(Drawn(problem, 40, 50, "normal", 1.0, 5).batches())
    d = np.zeros((1, batch.a.shape[1], batch.b.shape[2]), np.uint32)
    a, b = np.pad(batch.a, ((0, 0), (0, 0), (0, 8))), np.pad(batch.b, ((0, 0), (0, 8), (0, 0)))
    family, number = chip.family, isa.parse_target(spec.partition(":")[0]).number
    for start in range(0, 40, chip.k):
        part = slice(start, start + chip.k)
        shape = "m8n8k4" if spec == "sm_70" else ""
        d = product(
            a[..., part],
            b[:, part],
            d,
            family=family,
            target=f"sm_{number}",
            a_type="f16",
            b_type="f16",
            d_type=result,
            shape=shape,
        )
    np.testing.assert_array_equal(chip_sum(chip, batch, problem), d)


@pytest.mark.parametrize(("name", "form"), [
    ("f16", "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"),
    ("tf32", "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32"),
    ("e4m3", "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.f32.e4m3.e4m3.f32"),
])  # fmt: skip
def test_sparse_chains_through_registers(name: str, form: str) -> None:
    """The same as `simulator.mma_sp` on fragments, two instructions."""
    problem, mma = make_problem(name, None, "f32", sparse=True), isa.mma_form(form)
    (chip,) = chips(problem, ["sm_90"])
    assert (chip.k, chip.family, chip.evidence) == (mma.k, "mma.sp", "measured here")
    dense = next(Drawn(make_problem(name, None, "f32", sparse=False), 2 * mma.k, 1024, "normal", 1.0, 2).batches())
    a, b = pruned(dense.a[0, :16], problem)[None], dense.b[:, :, :8]
    d = np.zeros((1, mma.c.registers, 32), np.uint32)
    for start in range(0, 2 * mma.k, mma.k):
        stored, codes = isa.compress(a[..., start : start + mma.k], mma.metadata.sparsity, mma.a_type)
        operands = mma.a.scatter(stored), mma.b.scatter(b[:, start : start + mma.k]), d, mma.metadata.scatter(codes, 0)
        d = simulator.mma_sp(form, *operands, selector=0, target="sm_90a", undefined="raise")
    batch = Batch(a, b, np.arange(16)[None], np.arange(8)[None])
    np.testing.assert_array_equal(chip_sum(chip, batch, problem), mma.d.gather(d))


def test_truncation_pulls_toward_zero() -> None:
    """With positive products no term and no sum of a truncating chip is above the exact one; plain f32 rounds to
    nearest and has no such bias."""
    result = accuracy("f16", 2048, targets="sm_80,sm_90,sm_90:wgmma", distribution="positive", count=1500)
    *chip_lines, chain, _ = result.lines
    for line in chip_lines:
        assert line.errors.bias is not None
        assert line.errors.mean == -line.errors.bias.value
        assert line.errors.mean > 20
        assert line.errors.right is not None
        assert line.errors.toward_zero == 1 - line.errors.right
        assert line.worst is not None
        assert line.worst.result_value < line.worst.exact_value
    assert chain.errors.bias is not None
    assert chain.errors.bias.error is not None
    assert abs(chain.errors.bias.value) < 5 * chain.errors.bias.error
    negative = accuracy("f16", targets="sm_90", a=-np.ones((1, 300)) / 3, b=np.ones((300, 1)) / 3).lines[0]
    assert negative.errors.bias is not None
    assert negative.errors.bias.value < 0, "toward zero from below, too"


def test_signed_operands_hide_truncation_from_the_mean_alone() -> None:
    """Results of an instruction that keeps more bits than f32 are cut toward zero; on sm_70 terms are, whose signs
    differ."""
    volta, hopper, chain, _ = (x.errors for x in accuracy("f16", 4096, targets="sm_70,sm_90", count=2000, seed=3).lines)
    assert hopper.toward_zero is not None
    assert hopper.toward_zero > 0.75
    for e in (volta, chain):
        assert e.toward_zero is not None
        assert 0.4 < e.toward_zero < 0.65
        assert e.percentiles["50"] < hopper.percentiles["50"]
    assert hopper.backward_bias is not None
    assert hopper.backward_bias.error is not None
    assert hopper.backward_bias.value < -10 * hopper.backward_bias.error


def test_fp8_keeps_13_bits_on_ada_and_in_wgmma_and_more_elsewhere() -> None:
    """Published: 13 fraction bits on sm_89 and in sm_90's wgmma (arXiv 2512.07004), while sm_90's mma runs as f16 and
    Blackwell keeps 25."""
    result = accuracy("e4m3", 4096, targets="sm_89,sm_90:wgmma,sm_90,sm_100:tcgen05,sm_120", count=600, seed=4)
    ada, wgmma, mma, tcgen05, consumer, chain, _ = result.lines
    for narrow in (ada, wgmma):
        assert narrow.worst is not None
        assert narrow.worst.result & 0x3FF == 0
        assert narrow.errors.backward_mean is not None
        assert all(
            narrow.errors.backward_mean > 1000 * (x.errors.backward_mean or 0) for x in (mma, tcgen05, consumer, chain)
        )
        assert narrow.errors.right is not None
        assert mma.errors.right is not None
        assert narrow.errors.right < 0.01
        assert mma.errors.right > 0.5
    assert (tcgen05.errors, tcgen05.worst, tcgen05.group) == (consumer.errors, consumer.worst, consumer.group)
    assert len({line.group for line in result.lines}) == 6
    assert mma.errors != tcgen05.errors


def test_the_standard_error_allows_for_shared_rows_and_columns() -> None:
    """x[i, j] = row[i] + column[j] + own[i, j]: the error of the mean is known, and much larger than that of
    independent values."""
    rng = np.random.default_rng(0)
    m, n = 30, 40
    rows, columns = (x.ravel() for x in np.indices((m, n)))
    means, errors = [], []
    for _ in range(300):
        x = rng.normal(0, 1, (m, 1)) + rng.normal(0, 0.5, (1, n)) + rng.normal(0, 1, (m, n))
        found = mean_of(x.ravel(), rows, columns)
        assert found is not None
        assert found.value == pytest.approx(x.mean())
        assert found.error is not None
        means.append(found.value)
        errors.append(found.error)
    known = math.sqrt(1 / m + 0.25 / n + 1 / (m * n))
    assert np.std(means) == pytest.approx(known, rel=0.15)
    assert np.mean(errors) == pytest.approx(known, rel=0.1)
    assert mean_of(np.array([2.0]), rows[:1], columns[:1]).error is None  # type: ignore[union-attr]


def test_results_without_an_error_are_counted() -> None:
    tiny, huge = 2.0**-14, 60000.0
    a = np.array([[np.inf, 1], [np.nan, 1], [huge, 1], [huge, -huge], [0, 0]])
    b = np.array([[1.0, 4], [1, 1]])
    e = accuracy("f16", targets="sm_90", result="f16", a=a, b=b).lines[0].errors
    assert (e.count, e.special, e.special_wrong) == (
        10,
        6,
        0,
    )  # infinity, NaN, and 4 * 60000 twice, which overflows in both
    assert (e.measured, e.nan, e.right) == (4, 2, 1)
    nothing = accuracy("f16", targets="sm_90", a=np.full((2, 16), np.nan), b=np.ones((16, 3)))
    assert (nothing.lines[0].errors.nan, nothing.lines[0].errors.right) == (6, None)
    assert "6 of 6 exact results are NaN" in nothing.table()
    assert "100.0" not in nothing.table()
    too_large = accuracy("f16", targets="sm_90", a=np.array([[1e6, 1.0]]), b=np.ones((2, 1)))
    assert too_large.lines[0].errors.special == 1
    assert too_large.notes == ("A: 1 of 2 elements rounded to f16, 1 of them, too large for it, to infinity",)
    cancel = accuracy(
        "e4m3", targets="sm_90:wgmma", a=np.array([[256, -256, 0.5, -0.5, 1]]), b=np.array([[256, 256, 0.5, 0.5, 0]]).T
    )
    assert cancel.lines[0].errors.right == 1
    lost = accuracy(
        "f16",
        targets="sm_90",
        a=np.array([[256.0] * 2 + [tiny] * 15]),
        b=np.array([[256.0, -256.0] + [tiny] * 14 + [-14 * tiny]]).T,
    )
    e = lost.lines[0].errors  # the first instruction cuts the small terms, the second has the last of them alone
    assert (e.zero_wrong, e.measured, e.mean, e.right, e.backward_mean) == (
        1,
        0,
        None,
        0,
        pytest.approx(14 * tiny**2 / (2**17 + 28 * tiny**2)),
    )
    assert "exact ones are zero" in lost.table()
    assert json.loads(lost.json())["lines"][0]["errors"]["bias"] is None


def test_the_same_seed_gives_the_same_operands_whatever_chips_are_asked_for() -> None:
    one = accuracy("bf16", 300, targets="sm_90", count=1100, seed=7)
    every = accuracy("bf16", 300, count=1100, seed=7)
    assert one.json() == accuracy("bf16", 300, targets=["sm_90"], count=1100, seed=7).json()
    alike = next(line for line in every.lines if line.name == "sm_90 mma"), *every.lines[-2:]
    assert [(line.errors, line.worst) for line in one.lines] == [(line.errors, line.worst) for line in alike]
    assert one.lines[0].errors != accuracy("bf16", 300, targets="sm_90", count=1100, seed=8).lines[0].errors
    assert one.lines[0].errors.count == 1100


@over("distribution", DISTRIBUTIONS)
@over("name", INPUTS)
def test_distributions(distribution: str, name: str) -> None:
    """Finite numbers of the type, positive where it says so, both signs elsewhere, within the bound."""
    problem = make_problem(name, None, "f32", sparse=False)
    batch = next(Drawn(problem, 256, 1024, distribution, 0.75, 0).batches())
    for patterns, element in ((batch.a, problem.a_type), (batch.b, problem.b_type)):
        values = to_float64(patterns, element)
        assert np.isfinite(values).all()
        assert not (patterns & np.uint32((1 << element.padding) - 1)).any()
        assert (patterns <= element.mask).all()
        assert (values >= 0).all() == (distribution in ("positive", "lognormal"))
        if distribution in ("uniform", "positive"):
            assert np.abs(values).max() <= 0.75
        if distribution == "bits" and element.bits == 8:
            assert len(np.unique(patterns)) == {"e4m3": 254, "e5m2": 248, "e3m2": 64, "e2m3": 64, "e2m1": 16}[name]


def names(*arguments: Any, **options: Any) -> list[tuple[str, int, str]]:
    return [(chip.name, chip.k, chip.evidence) for chip in chips(make_problem(*arguments, **options))]


def test_chips_of_a_type() -> None:
    e4m3 = names("e4m3", None, "f32", sparse=False)
    assert ("sm_89 mma", 32, "measured by others") in e4m3
    assert ("sm_90 mma", 32, "measured here") in e4m3
    assert ("sm_100/103 tcgen05", 32, "measured by others") in e4m3
    assert not any("sm_80" in name for name, _, _ in e4m3)
    f16 = {name: k for name, k, _ in names("f16", None, "f16", sparse=False)}
    assert (f16["sm_70 mma"], f16["sm_75 mma"], f16["sm_90 mma"], f16["sm_90 wgmma"]) == (4, 8, 16, 16)
    assert all(name.endswith(".sp") for name, _, _ in names("tf32", None, "f32", sparse=True))
    assert {k for _, k, _ in names("e4m3", None, "f32", sparse=True)} == {64}
    assert {name.split()[1] for name, _, _ in names("e2m1", "e3m2", "f32", sparse=False)} == {"mma", "tcgen05"}
    assert not any("mma" in name and "sm_90" in name for name, _, _ in names("e2m1", None, "f32", sparse=False))


def test_given_operands(tmp_path: Path, tcsim: Tcsim) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 1, (20, 48)).astype(np.float32), rng.normal(0, 200, (48, 30)).astype(np.float16)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    files = "--a", tmp_path / "a.npy", "--b", tmp_path / "b.npy"
    code, out, err = tcsim("accuracy", "--type", "e4m3", *files, "--targets", "sm_90", "--format", "json")
    assert code == 0
    found = json.loads(out)
    assert (found["k"], found["count"], found["operands"]) == (48, 600, "given")
    large = int((np.abs(b.astype(np.float64)) > 448).sum())
    assert large
    assert f"{large} of them, too large for it, to +-448" in err
    rounded = (
        a.astype(ml_dtypes.float8_e4m3fn).view(np.uint8),
        np.clip(b.astype(np.float32), -448, 448).astype(ml_dtypes.float8_e4m3fn).view(np.uint8),
    )
    same = accuracy("e4m3", targets="sm_90", a=rounded[0], b=rounded[1])
    assert not same.notes
    assert same.to_dict()["lines"] == found["lines"]
    code, out, err = tcsim(
        "accuracy", "--type", "f16", *files, "--targets", "sm_90", "--count", "100", "--format", "csv", "--sparse"
    )
    assert (code, next(csv.DictReader(io.StringIO(out)))["count"]) == (0, "100")
    assert "100 of 600 results compared: 10 rows and 10 columns" in err
    assert "pruned 2:4 by magnitude, 50.0%" in err


def test_the_worst_case_can_be_computed_again(tcsim: Tcsim) -> None:
    for options in ((), ("--sparse",), ("--b-type", "e5m2", "--count", "3000", "--k", "512")):
        code, out, _ = tcsim(
            "accuracy",
            "--type",
            "e4m3",
            "--targets",
            "sm_89,sm_90",
            "--k",
            256,
            "--count",
            700,
            "--format",
            "json",
            "--distribution",
            "bits",
            *options,
        )
        assert code == 0
        found = json.loads(out)
        for line in found["lines"][:2]:
            worst = line["worst"]
            a, b = ([int(x, 16) for x in worst[name].split()] for name in "ab")
            assert len(a) == len(b) == found["k"]
            again = accuracy(
                found["a_type"], b_type=found["b_type"], targets=line["targets"], sparse=found["sparse"],
                a=np.array([a], np.uint8), b=np.array([b], np.uint8).T,
            ).lines[0].worst  # fmt: skip
            assert again is not None
            assert (f"0x{again.result:08x}", f"0x{again.exact:08x}", again.ulp) == (
                worst["result"],
                worst["exact"],
                worst["ulp"],
            )
            assert again.ulp == line["errors"]["largest"] * np.sign(again.ulp)


def test_formats(tcsim: Tcsim, tmp_path: Path) -> None:
    options = "accuracy", "--type", "e4m3", "--k", "64", "--count", "200"
    code, table, err = tcsim(*options)
    assert (code, err) == (0, "")
    assert table.startswith("e4m3 x e4m3 -> f32, K = 64: 200 results of normal, scale 1, seed 0\n")
    for words in ("sm_90 wgmma", "measured by others", "inferred", "f32 FMA chain", "largest errors", "99.9 %"):
        assert words in table
    assert max(map(len, table.splitlines())) <= 180  # of a histogram that spans 29 powers of two
    code, out, _ = tcsim(*options, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    found = json.loads(tcsim(*options, "--format", "json")[1])
    assert [row["name"] for row in rows] == [line["name"] for line in found["lines"]]
    for row, line in zip(rows, found["lines"], strict=True):
        counts = [int(row[f"ulp_{edge}"]) for edge in found["histogram_edges_ulp"]]
        assert counts[: len(line["errors"]["histogram"])] == line["errors"]["histogram"]
        assert sum(counts) == int(row["measured"]) == 200
        assert float(row["bias_ulp"]) == line["errors"]["bias"]["value"]
    code, out, _ = tcsim(*options, "--out", tmp_path / "x.csv")
    assert (code, out) == (0, "")
    assert list(csv.DictReader((tmp_path / "x.csv").open())) == rows
    tcsim(*options, "--out", tmp_path / "x.txt")
    assert (tmp_path / "x.txt").read_text() == table


@over(
    ("arguments", "words"),
    [
        ((), ("--type",)),
        (("--type", "f8"), ("f8", "e4m3")),
        (("--type", "s8"), ("s8", "integers are added exactly", "f16")),
        (("--type", "f16", "--result", "f64"), ("f64", "f32, f16")),
        (("--type", "bf16", "--result", "f16"), ("no chip is known", "bf16 x bf16 -> f16")),
        (("--type", "f16", "--b-type", "bf16"), ("f16 x bf16",)),
        (("--type", "f16", "--targets", " ,"), ("list of targets is empty", "sm_90, sm_100")),
        (("--type", "f16", "--targets", "sm_12"), ("sm_12", "sm_90")),
        (("--type", "f16", "--targets", "sm_90:hmma"), ("column 7", "hmma", "wgmma")),
        (("--type", "e4m3", "--targets", "sm_89,sm_80"),
        ("sm_80 has no mma of e4m3", "sm_89, sm_90", "sm_90:wgmma", "sm_100:tcgen05")),
        (("--type", "e2m1", "--targets", "sm_90:wgmma"), ("sm_90 has no wgmma of e2m1", "sm_120")),
        (("--type", "f16", "--targets", "sm_75", "--sparse"), ("sm_75 has no mma.sp", "sm_80")),
        (("--type", "f16", "--distribution", "gauss"), ("gauss", "normal, uniform")),
        (("--type", "f16", "--k", "0"), ("k = 0", "1 to")),
        (("--type", "f16", "--count", "-3"), ("count = -3", "1 to")),
        (("--type", "f16", "--scale", "nan"), ("scale = nan", "positive")),
        (("--type", "f16", "--seed", "-1"), ("seed = -1",)),
        (("--type", "f16", "--a", "{good}"), ("operand B is missing",)),
        (("--type", "f16", "--a", "nothing.npy", "--b", "{good}"), ("nothing.npy", "is not there", "No such file")),
        (("--type", "f16", "--a", "{text}", "--b", "{good}"), ("text.npy", "no array of numbers", ".npy")),
        (("--type", "f16", "--a", "{objects}", "--b", "{good}"), ("objects.npy", "no array of numbers")),
        (("--type", "f16", "--a", "{several}", "--b", "{good}"), ("several.npz", "several arrays")),
        (("--type", "f16", "--a", "{good}", "--b", "{vector}"), ("B has shape (4,)", "[K, N]")),
        (("--type", "f16", "--a", "{good}", "--b", "{good}"), ("A has 4 columns and B 3 rows",)),
        (("--type", "f16", "--a", "{integers}", "--b", "{integers}"), ("array of int64", "float16")),
        (("--type", "e4m3", "--a", "{wide}", "--b", "{wide}"), ("0x1ff", "0xff")),
        (("--type", "f16", "--a", "{square}", "--b", "{square}", "--k", "7"), ("k = 7", "K = 4")),
        (("--type", "f16", "--plot", "x.gif"), ("x.gif", ".png")),
        (("--type", "f16", "--plot", "/nowhere/at/all/x.png"), ("/nowhere/at/all/x.png", "no such folder")),
        (("--type", "f16", "--out", "/nowhere/at/all/x.csv"), ("/nowhere/at/all/x.csv", "no such folder")),
    ],
)  # fmt: skip
def test_bad_use_is_exit_2_and_one_line(
    tcsim: Tcsim, tmp_path: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    pytest.importorskip("matplotlib")
    arrays = {
        "good": np.ones((3, 4)), "vector": np.ones(4), "square": np.ones((4, 4)), "integers": np.ones((4, 4), np.int64),
        "wide": np.full((4, 4), 0x1FF, np.uint16), "objects": np.array([[None]]),
    }  # fmt: skip
    paths = {name: tmp_path / f"{name}.npy" for name in (*arrays, "text")} | {"several": tmp_path / "several.npz"}
    for name, array in arrays.items():
        np.save(paths[name], array, allow_pickle=True)  # type: ignore[arg-type]
    np.savez(paths["several"], a=np.ones((3, 4)))
    paths["text"].write_text("1 2 3\n")
    code, out, err = tcsim("accuracy", *(argument.format(**paths) for argument in arguments))
    assert (code, out) == (2, "")
    assert len(err.strip().splitlines()) == 1, err
    for word in words:
        assert word in err


@pytest.mark.parametrize("suffixes", [(".svg",), pytest.param((".png", ".pdf", ".svg"), marks=pytest.mark.exhaustive)])
def test_plots(tcsim: Tcsim, tmp_path: Path, suffixes: tuple[str, ...]) -> None:
    pytest.importorskip("matplotlib")
    starts = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}
    options = "accuracy", "--type", "f16", "--k", "128", "--count", "60"
    for suffix in suffixes:
        assert tcsim(*options, "--plot", tmp_path / f"x{suffix}")[0] == 0
        assert (tmp_path / f"x{suffix}").read_bytes().startswith(starts[suffix])
    text = (tmp_path / "x.svg").read_text()
    for label in ("sm_90 mma", "[measured here]", "[inferred]", "f32 pairwise", "error in ulp"):
        assert label in text
    tcsim(*options, "--plot", tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text() == text
    nothing = accuracy("f16", targets="sm_90", a=np.full((1, 4), np.inf), b=np.ones((4, 1)))
    from simulator.studies.accuracy.plot import write_plot

    write_plot(nothing, tmp_path / "empty.png")
    assert (tmp_path / "empty.png").stat().st_size > 1000


def test_without_matplotlib(tcsim: Tcsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, err = tcsim("accuracy", "--type", "f16", "--plot", tmp_path / "x.png")
    assert (code, out) == (2, "")
    assert "tcsim[plots]" in err
    assert tcsim("accuracy", "--type", "f16", "--k", "16", "--count", "10")[0] == 0
