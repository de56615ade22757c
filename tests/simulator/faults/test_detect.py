"""Detectors that a run is asked for, each against what it says of itself, computed in another way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.arithmetic.convert import to_float64
from simulator.faults.campaign import read_campaign
from simulator.faults.detectors.afterwards import look
from simulator.faults.detectors.asked import Asked, read_asked
from simulator.faults.outcomes import MASKED, SDC, flag
from simulator.faults.targets.mma import MmaTarget
from simulator.faults.targets.program import ProgramTarget
from tests.support.cases import exhaustive
from tests.support.paths import GOLDEN

Tcsim = Callable[..., tuple[int, str, str]]
F16 = "mma.sp::ordered_metadata.m16n8k32.f32.f16.f16.f32"


def _ran(subject: Any, detect: Asked, **group: Any) -> tuple[Any, Any, Any]:
    """The target, the faults and the results of a campaign of one group."""
    campaign = read_campaign(subject, group)
    target, faults = campaign.subject, np.concatenate(list(campaign.faults()))
    detect = detect.bounded(target.largest)
    with detect.detecting():
        results = target.run(faults)
        look(target, faults, results, detect)
    return target, faults, results


def _sees(results: Any, name: str) -> Any:
    return (results["detectors"] & flag(name)) != 0


def test_detectors_of_results_look_at_d_alone() -> None:
    """NaN and infinity, numbers beyond a bound, and an expression, of D computed again; masked faults, too."""
    detect = read_asked(["nonfinite,range=20", "(d < -10).sum(axis=(1, 2)) > 3"])
    for site, kind in (("a", "infinity"), ("b", "flip"), ("c", "flip"), ("d", "flip")):
        target, faults, results = _ran(F16, detect, site=site, kind=kind, count=200)
        assert isinstance(target, MmaTarget)
        d = to_float64(target.form.d.gather(target.execute(target.faulty(faults)[0], faults)), "f32")
        with np.errstate(invalid="ignore"):
            assert (_sees(results, "nonfinite") == ~np.isfinite(d).all(axis=(1, 2))).all()
            assert (_sees(results, "range") == (np.abs(d) > 20).any(axis=(1, 2))).all()
            assert (_sees(results, "own") == ((d < -10).sum(axis=(1, 2)) > 3)).all()
        assert _sees(results, "range").any()


def test_the_bound_of_range_is_of_other_products(tcsim: Tcsim, tmp_path: Path) -> None:
    """Its false alarms are counted on products that the bound does not know."""
    target = MmaTarget(F16)
    listed, results = tmp_path / "l.csv", tmp_path / "r.csv"
    assert tcsim("faults", "list", F16, "--site", "d", "--faults", "9", "--output", listed)[0] == 0
    assert tcsim("faults", "run", listed, "--output", results, "--detect", "range")[0] == 0
    failed = (np.abs(target.fresh()) > target.largest).any(axis=(1, 2)).sum()
    head = results.read_text().split("\nid,")[0]
    assert f"# range_false_alarms: {failed} of 256" in head
    assert f"# detect: range={target.largest:g}" in head
    assert f"range fails {failed} of 256 products" in tcsim("faults", "report", results)[1]


def test_a_second_execution_sees_what_it_does_not_share() -> None:
    detect = read_asked(["duplicate"])
    for subject, site, sees in (
        (F16, "a", False), (F16, "e", False), (F16, "d", True), (F16, "output", True),
        ("digits/f16", "registers", True), (GOLDEN / "planted" / "bug0.json", "global", False),
    ):  # fmt: skip
        more = {"at": "any"} if site == "registers" else {}
        kind = "stuck1" if site == "output" else "flip"
        _, _, results = _ran(subject, detect, site=site, kind=kind, count=40, **more)
        corrupt = results["outcome"] == SDC
        assert corrupt.any()
        assert (_sees(results, "duplicate") == (corrupt if sees else False)).all(), site


def test_checksums_of_metadata_miss_what_cancels() -> None:
    """One bit changes the sum over the lanes of a register; the same bit in two lanes does not."""
    detect = read_asked(["checksum"])
    _, _, results = _ran(F16, detect, site="e", kind="flip", count=50)
    assert _sees(results, "checksum").all()
    _, _, results = _ran(F16, detect, site="e", along="lanes", span=2)
    assert not _sees(results, "checksum").any()
    _, _, results = _ran(F16, detect, site="e", along="lanes", span=3, count=50)
    assert _sees(results, "checksum").all()


@exhaustive
@pytest.mark.parametrize("subject", ["digits/f16", GOLDEN / "planted" / "bug0.json"])
def test_codes_beside_the_words_of_programs(subject: Any) -> None:
    """A flip in a word that is read is seen, two in one word by the Hsiao code alone; a word that is not read, not."""
    detect = read_asked(["parity,secded"])
    for bits, parity in ((1, True), (2, False)):
        group = {"kind": "flip"} if bits == 1 else {"kind": "flips", "bits": 2}
        _, _, results = _ran(subject, detect, where="op=mma.sp role=a", count=60, **group)
        corrupt = results["outcome"] != MASKED
        assert corrupt.any()
        assert (_sees(results, "parity")[corrupt] == parity).all()
        assert _sees(results, "secded")[corrupt].all()
    target, faults, results = _ran(subject, detect, site="registers", at="any", count=200)
    if isinstance(target, ProgramTarget):
        unread = np.array([target.unread(target.injection(fault)) for fault in faults])
        assert (_sees(results, "parity") == ~unread).all()


@pytest.mark.parametrize(
    ("detect", "words"),
    [
        ("rnge", "rnge: is no detector, did you mean 'range'?"),
        ("range=-1", "'range=-1'; legal: range=X"),
        ("d + 1", "gives float64"),
        ("abs(q) > 1", "no array or function 'q'"),
        ("gone.py:f", "gone.py:f: is not there"),
    ],
)
def test_detectors_that_are_none(tcsim: Tcsim, tmp_path: Path, detect: str, words: str) -> None:
    listed = tmp_path / "l.csv"
    assert tcsim("faults", "list", F16, "--site", "d", "--faults", "9", "--output", listed)[0] == 0
    code, out, said = tcsim("faults", "run", listed, "--output", tmp_path / "r.csv", "--detect", detect)
    assert (code, out, said.count("\n")) == (2, "", 1)
    assert words in said
    assert not (tmp_path / "r.csv").exists()


def test_a_function_of_a_file(tcsim: Tcsim, tmp_path: Path) -> None:
    file, listed, results = tmp_path / "w.py", tmp_path / "l.csv", tmp_path / "r.csv"
    file.write_text("def big(d):\n    return np.abs(d) > 0\n")
    assert tcsim("faults", "list", F16, "--site", "d", "--faults", "9", "--output", listed)[0] == 0
    assert tcsim("faults", "run", listed, "--output", results, "--detect", f"{file}:big", "--workers", "2")[0] == 0
    rows = [line for line in results.read_text().splitlines() if line[0].isdigit()]
    assert len(rows) == 9
    assert all("own" in row for row in rows)
