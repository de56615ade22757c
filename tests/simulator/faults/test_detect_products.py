"""Checksums of products that traces and launches store, against products that are made again in numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.applications.digits_plan import PLANS, dense_weights, layer_results, swizzle, values
from simulator.faults import corrections
from simulator.faults.campaign import read_campaign
from simulator.faults.detectors.afterwards import look
from simulator.faults.detectors.asked import read_asked
from simulator.faults.detectors.products import shuffled
from simulator.faults.outcomes import MASKED, SDC, flag
from simulator.faults.targets.running import RunningTarget
from tests.support.paths import GOLDEN, ROOT

Tcsim = Callable[..., tuple[int, str, str]]
DIRECT = GOLDEN / "launches" / "direct_one_warp.json"
GEMM = str(ROOT / "traces" / "gemm" / "f16_64x64x64.trace")
_B = "B.astype(uint16).view(float16).astype(float64)"
_COLUMNS = "4 * (arange(128) // 2) + (repeat(E, 8, axis=1) >> 4 * (arange(128) // 2 % 4) + 2 * (arange(128) % 2) & 3)"
SPARSE = f"abft=D:16,8,8=einsum('rs,nrs->rn', A.astype(uint16).view(float16).astype(float64), {_B}[:, {_COLUMNS}])"


def _ran(subject: Any, detect: str, **group: Any) -> tuple[Any, Any, Any, Any]:
    """The target, the faults, their results, and the product that was checked."""
    campaign = read_campaign(subject, group)
    target, faults = campaign.subject, np.concatenate(list(campaign.faults()))
    assert isinstance(target, RunningTarget)
    asked = target.prepared(read_asked([detect]))
    with asked.detecting():
        results = target.run(faults)
        look(target, faults, results, asked)
        alone = replace(target, together=False).run(faults[:6])  # type: ignore[type-var, call-arg] # a dataclass
        look(target, faults[:6], alone, asked)
    assert (alone == results[:6]).all()
    return target, faults, results, target._product(asked)


def _checked(target: Any, faults: Any, results: Any, product: Any, d_of: Callable[[Any], Any], should: Any) -> int:
    """Runs faults again, one by one, and compares with the sums of D that `d_of` reads from what is stored; returns how
    many single elements were corrected."""
    rows, columns = should.sum(axis=1), should.sum(axis=0)
    golden, corrected = d_of(target.stored.golden), 0
    for fault, result in zip(faults, results, strict=True):
        if result["outcome"] not in (MASKED, SDC):
            assert not result["corrections"]
            continue
        arrays = target.alone(fault)[0].arrays if result["outcome"] == SDC else target.stored.golden
        d = d_of(arrays).astype(np.float64)
        with np.errstate(invalid="ignore"):
            bad_rows = ~(np.abs(d.sum(axis=1) - rows) <= product.tolerances[0])
            bad_columns = ~(np.abs(d.sum(axis=0) - columns) <= product.tolerances[1])
        assert bool(result["detectors"] & flag("abft")) == bool(bad_rows.any() or bad_columns.any())
        how = int(corrections.of("abft", result["corrections"]))
        assert (how > 0) == (bad_rows.sum() == 1 and bad_columns.sum() == 1)
        if how:
            row, column = int(bad_rows.argmax()), int(bad_columns.argmax())
            mended = d_of(arrays).copy()
            by_rows = product.tolerances[0] <= product.tolerances[1]
            others = np.delete(d[row], column) if by_rows else np.delete(d[:, column], row)
            mended[row, column] = (rows[row] if by_rows else columns[column]) - others.sum()
            same = (mended == golden).all()
            assert (how == corrections.EXACT) == same
            if how == corrections.NEAR:
                wrong = np.argwhere(mended != golden).tolist()
                assert wrong == [[row, column]]
                apart = abs(float(mended[row, column]) - float(golden[row, column]))
                assert result["left_abs"] == pytest.approx(apart, rel=1e-9)
            corrected += 1
    return corrected


def test_the_layer_of_a_trace() -> None:
    """Faults in registers of a digits layer; the product is made again from weights and images."""
    target, faults, results, product = _ran(
        "digits/f16", "abft,tolerance=6e-4", site="registers", where="op=mma.sp role=destination", count=24
    )
    plan = PLANS["f16"]
    with np.load(ROOT / "traces" / "digits" / "f16.npz") as data:
        w = values(dense_weights(plan, data["w"], data["e"]), plan.element).astype(np.float64)
        x = values(swizzle(data["x"]).astype(np.uint32), plan.element).astype(np.float64)
        layer = w @ x.T + data["bias"][:, None].astype(np.float64)
    for axis, tolerance in ((1, product.tolerances[0]), (0, product.tolerances[1])):
        mine, sums = layer.sum(axis=axis), (product.should.rows[0], product.should.columns[0])[1 - axis]
        assert np.abs(mine - sums).max() < tolerance / 2

    def d_of(arrays: Any) -> Any:
        return layer_results(plan, arrays["d_f16"], arrays["head_f16"]).view(np.float32)

    exact = product._unrounded(product._made((), 0, exact=True), 0)
    assert np.abs(exact - layer).max() < 2e-6
    assert _checked(target, faults, results, product, d_of, exact) > 5
    assert not (results["detectors"][results["outcome"] == MASKED] & flag("abft")).any()
    assert target.false_alarms() is None  # nobody asks


def test_a_launch_whose_product_is_an_expression() -> None:
    """Faults in buffers and in the D of a sparse kernel; A is expanded here by its metadata, in loops."""
    for group in ({"site": "global"}, {"site": "registers", "where": "op=mma.sp role=destination"}):
        target, faults, results, product = _ran(str(DIRECT), SPARSE, count=40, **group)
        before = target.capture.before
        a, b = (before[name].view(np.float16).astype(np.float64) for name in "AB")
        dense = np.zeros((16, 256))
        for row in range(16):
            for stored in range(128):
                chunk = stored // 2
                code = int(before["E"][row, chunk // 4]) >> 4 * (chunk % 4) & 15
                dense[row, 4 * chunk + (code >> 2 if stored % 2 else code & 3)] = a[row, stored]
        product_ = dense @ b.T
        assert np.allclose(product.should.rows[0], product_.sum(axis=1), rtol=1e-12)
        _checked(target, faults, results, product, lambda arrays: arrays["D"], product_)
        assert set(product.drawn) == {"A", "E", "B"}


def test_integers_are_exact_and_a_part_of_what_is_stored() -> None:
    """The tolerance of integers is 0, and what they correct is right; a wrong element beside the product is left."""
    _, _, results, product = _ran("digits/s8", "abft", site="registers", at="any", count=80)
    assert product.tolerances == (0.0, 0.0)
    how = corrections.of("abft", results["corrections"])
    single = results["elements"] == 1
    assert single.any()
    assert (how[single] == corrections.EXACT).all()
    group = {"site": "registers", "where": "op=mma.sp role=destination", "count": 60}
    target, faults, results, product = _ran(str(DIRECT), "abft=D:10,5,8", **group)
    golden = target.stored.golden["D"]
    seen = results["detectors"] & flag("abft") != 0
    for fault, caught in zip(faults, seen, strict=True):
        arrays = target.alone(fault)[0].arrays
        wrong = arrays["D"].view(np.uint32) != golden.view(np.uint32) if arrays else golden.astype(bool) & False
        assert not caught or wrong[:10, :5].any()
    assert seen.any()


def test_tolerances_are_of_other_operands() -> None:
    """Twice the largest difference of runs whose words have changed places; other such runs count the false alarms."""
    target, *_, product = _ran(GEMM, "abft=d:64,64,64", site="registers", at="any", count=10)
    assert set(product.drawn) == {"a", "b", "e"}
    rows = []
    for seed in range(1, 9):
        session = target.session
        machines = [
            session.fresh(carries=carries, change=lambda load, array, seed=seed: (
                shuffled(array, seed, product.drawn.index(load.key))
            ))
            for carries in (False, True)
        ]  # fmt: skip
        chip, exact = (session.run(machines=each).arrays["d"].view(np.float32).reshape(64, 64) for each in machines)
        noise = np.random.default_rng([seed, 1 << 20]).uniform(-0.5, 0.5, exact.shape) * np.spacing(np.abs(exact))
        rows.append(np.abs(chip.astype(float).sum(axis=1) - (exact + noise).sum(axis=1)).max())
    assert product.tolerances[0] == pytest.approx(2 * max(rows), rel=1e-6)
    alarms = product.false_alarms()
    assert alarms is not None
    assert alarms.products == 16
    assert alarms.failed <= 2


def test_the_head_and_the_workers(tcsim: Tcsim, tmp_path: Path) -> None:
    """The tolerances are measured once and stand in the head; any number of workers gives the same bytes."""
    listed, one, two = (tmp_path / name for name in ("l.csv", "1.csv", "2.csv"))
    assert tcsim("faults", "list", DIRECT, "--site", "global", "--faults", "60", "--output", listed)[0] == 0
    for results, workers in ((one, "1"), (two, "2")):
        assert tcsim("faults", "run", listed, "--output", results, "--detect", "abft=D", "--workers", workers)[0] == 0
    assert one.read_bytes() == two.read_bytes()
    head = one.read_text().split("\nid,")[0]
    assert "# detect: abft=D\n# abft_tolerances: " in head
    assert "# abft_false_alarms: " in head
    said = tcsim("faults", "report", one)[1]
    assert "abft fails" in said
    assert "of 16 products" in said


@pytest.mark.parametrize(
    ("subject", "detect", "words"),
    [
        (DIRECT, "abft", "no product of a launch is known"),
        (DIRECT, "abft=Q", "nothing is stored as 'Q'; legal: D"),
        (DIRECT, "abft=D:16,9,8", "9 columns at a leading dimension of 8"),
        (DIRECT, "abft=D=A @@", "'A @@' is no expression"),
        (DIRECT, "abft=D=A.T", "is 128 x 16; legal: 16 x 8, as D"),
        (DIRECT, "abft=D=zeros((16, 8))", "has no tolerance"),
        (DIRECT, "abft=D=Z @ A", "no array or function 'Z'"),
        (DIRECT, "abft=D=gone.npy", "gone.npy"),
        (DIRECT, "tolerance=1", "is of abft, which is not there"),
        (GEMM, "abft", "no product of this trace is known"),
        (GEMM, "abft=d", "'d' has no rows and columns; legal: d:ROWS,COLUMNS,LD"),
        ("mma.sp.m16n8k32.f32.f16.f16.f32", "abft", "without being asked for"),
    ],
)
def test_products_that_are_none(tcsim: Tcsim, tmp_path: Path, subject: Any, detect: str, words: str) -> None:
    listed = tmp_path / "l.csv"
    site = "d" if str(subject).startswith("mma") else "registers"
    assert tcsim("faults", "list", subject, "--site", site, "--faults", "3", "--output", listed)[0] == 0
    code, out, said = tcsim("faults", "run", listed, "--output", tmp_path / "r.csv", "--detect", detect)
    assert (code, out, said.count("\n")) == (2, "", 1), said
    assert words in said
    assert not (tmp_path / "r.csv").exists()
