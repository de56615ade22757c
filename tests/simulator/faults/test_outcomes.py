"""What is said of a corruption: bits, pattern, judgement; by an expression, and by a function, on every target."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isa.types import ELEMENT_TYPES
from simulator.arithmetic.convert import to_float64
from simulator.faults import outcomes, read_results
from simulator.faults.campaign import read_campaign
from simulator.faults.judgement import Judgement
from simulator.faults.outcomes import JUDGED, PATTERNS, SDC, compare, judged_by, patterns
from simulator.faults.targets.launch import LaunchTarget
from simulator.faults.targets.program import ProgramTarget
from simulator.faults.targets.target import FaultTarget
from simulator.studies.faults.summary import summarise
from tests.support.cases import exhaustive
from tests.support.paths import ROOT, TESTS

Tcsim = Callable[..., tuple[int, str, str]]
MMA = "mma.sp::ordered_metadata.m16n8k32.f32.f16.f16.f32"
TCGEN05 = "tcgen05.mma.sp.cta_group::1.kind::f16"
SMALL = """
[subject]
opcode = "OPCODE"
[[faults]]
site = "a"
kind = "flip"
count = 300
[[faults]]
site = "c"
kind = "flip"
count = 300
"""


def _pattern(wrong: NDArray[np.bool_], names: list[int]) -> str:
    """The class by its definition, one element after the other."""
    places = [(names[row], column) for row, column in zip(*np.nonzero(wrong), strict=True)]
    rows, columns = ({place[axis] for place in places} for axis in (0, 1))
    if len(places) < 2:
        return ("none", "single")[len(places)]
    if len(rows) == 1 or len(columns) == 1:
        return "row" if len(rows) == 1 else "column"
    box = (max(rows) - min(rows) + 1) * (max(columns) - min(columns) + 1)
    return "block" if 2 * len(places) >= box else "random"


def test_patterns() -> None:
    rng = np.random.default_rng(1)
    wrong = rng.random((600, 5, 6)) < rng.choice([0.0, 0.03, 0.08, 0.3, 0.8], (600, 1, 1))
    wrong[:100, 1:] = False
    wrong[100:200, :, 1:] = False
    for names in ([0, 1, 2, 3, 4], [2, 3, 9, 10, 40]):  # the numbers of the rows count, where some are left out
        found = [PATTERNS[number] for number in patterns(wrong, np.array(names))]
        assert found == [_pattern(each, names) for each in wrong]
        assert set(found) == set(PATTERNS)
    right = rng.integers(0, 1 << 32, (600, 5, 6), dtype=np.uint32)
    got = right ^ np.where(wrong, rng.integers(1, 1 << 32, right.shape, dtype=np.uint32), np.uint32(0))
    for element in (ELEMENT_TYPES["f32"], None):
        results = outcomes.empty(np.arange(600))
        compare(results, got, right, element)
        assert results["bits"].tolist() == [sum(int(x).bit_count() for x in each.flat) for each in got ^ right]
        assert [PATTERNS[number] for number in results["pattern"]] == [_pattern(each, list(range(5))) for each in wrong]


# Judgement


@pytest.fixture
def listed(tmp_path: Path, tcsim: Tcsim) -> Path:
    (tmp_path / "c.toml").write_text(SMALL.replace("OPCODE", MMA))
    assert tcsim("faults", "list", tmp_path / "c.toml", "--output", tmp_path / "list.csv")[0] == 0
    return tmp_path / "list.csv"


def test_a_threshold_judges_corruptions(tmp_path: Path, listed: Path, tcsim: Tcsim) -> None:
    plain, judged, expression = tmp_path / "p.csv", tmp_path / "j.csv", "max_rel <= 1e-2 and not nonfinite > 0"
    assert tcsim("faults", "run", listed, "--output", plain)[0] == 0
    assert tcsim("faults", "run", listed, "--output", judged, "--tolerate", expression, "--workers", "2")[0] == 0
    assert f"# tolerate: {expression}\n" in judged.read_text()
    assert set(read_results(plain)["judged"]) == {""}
    frame = read_results(judged)
    corrupt, fine = frame["outcome"] == "sdc", (frame["max_rel"] <= 1e-2) & (frame["nonfinite"] == 0)
    should = np.where(corrupt, np.where(fine, "tolerable", "critical"), "")
    assert frame["judged"].tolist() == should.tolist()
    assert set(should) == set(JUDGED)
    summary = summarise(judged)
    assert summary.total["critical"] == (should == "critical").sum()
    assert "critical" in tcsim("faults", "report", judged)[1]
    code, _, said = tcsim("faults", "run", listed, "--output", judged, "--tolerate", "pattern == 'row' or bits < 3")
    assert code == 0, said
    frame = read_results(judged)
    fine = (frame["pattern"] == "row") | (frame["bits"] < 3)
    assert ((frame["judged"] == "tolerable") == (fine & (frame["outcome"] == "sdc"))).all()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def critical(got, golden): return got > golden", r"bool \[\d+, 16, 8\] for \d+ faults"),
        ("def critical(got, golden):\n    return 1 / 0", "line 2: ZeroDivisionError"),
        ("def critical(got, golden):\n    got[:] = 0", "line 2: ValueError: assignment destination is read-only"),
        ("def other(got, golden): return got", "is no function of the file"),
        ("def critical(:", "line 1: SyntaxError"),
        (None, "is not there"),
    ],
)
def test_bad_functions(tmp_path: Path, listed: Path, tcsim: Tcsim, source: str | None, words: str) -> None:
    if source is not None:
        (tmp_path / "judge.py").write_text(source)
    output = tmp_path / "r.csv"
    code, out, said = tcsim("faults", "run", listed, "--output", output, "--judge", tmp_path / "judge.py")
    assert (code, out, said.count("\n"), output.exists()) == (2, "", 1, False)
    assert not output.with_name("r.csv.parts").exists()  # so that the mended function can be tried
    assert re.search(words, said)
    assert "legal:" in said


@pytest.mark.parametrize(
    "expression", ["max_rle < 1", "max_rel", "max_rel <", "outcome == 'sdc'", "open('x')", "1 < 2"]
)
def test_bad_expressions(tmp_path: Path, listed: Path, tcsim: Tcsim, expression: str) -> None:
    code, out, said = tcsim("faults", "run", listed, "--output", tmp_path / "r.csv", "--tolerate", expression)
    assert (code, out, said.count("\n")) == (2, "", 1)
    assert "max_ulp" in said
    assert tcsim("faults", "run", listed, "--output", "r.csv", "--tolerate", "bits < 2", "--judge", "j.py")[0] == 2


def _targets() -> dict[str, Any]:
    return {
        "mma": MMA,
        "tcgen05": TCGEN05,
        "program": ROOT / "campaigns" / "digits.toml",
        "launch": TESTS / "golden" / "planted" / "faults.toml",
    }


@exhaustive
@pytest.mark.parametrize("name", ["mma", "tcgen05", "program", "launch"])
def test_a_function_judges_whole_results_of_every_target(tmp_path: Path, name: str) -> None:
    given = _targets()[name]
    if isinstance(given, str):
        (tmp_path / "c.toml").write_text(
            SMALL.replace("OPCODE", given).replace(chr(34) + "c" + chr(34), chr(34) + "d" + chr(34))
        )
        given = tmp_path / "c.toml"
    campaign = read_campaign(given)
    faults = np.concatenate(list(campaign.faults()))
    faults = faults[:: max(1, len(faults) // {"mma": 600, "tcgen05": 40, "program": 60, "launch": 12}[name])]
    seen: list[tuple[NDArray[Any], NDArray[Any]]] = []

    def critical(got: NDArray[Any], golden: NDArray[Any]) -> NDArray[np.bool_]:
        seen.append((got.copy(), golden.copy()))
        return np.asarray((got != golden).sum(axis=(1, 2)) > 1)

    target: FaultTarget = campaign.subject
    with judged_by(critical):
        results = target.run(faults)
    plain = target.run(faults)
    corrupt = results["outcome"] == SDC
    assert corrupt.any()
    assert (results["judged"] > 0).tolist() == corrupt.tolist()
    same = [field for field in results.dtype.names or () if field != "judged"]
    assert (results[same] == plain[same]).all()
    assert sum(len(got) for got, _ in seen) == corrupt.sum()
    for got, golden in seen:
        assert got.shape == golden.shape
        if isinstance(target, ProgramTarget | LaunchTarget):
            assert got.shape[1:] == target.stored.golden_matrix.shape
    if name == "program":
        assert isinstance(target, ProgramTarget)
        number = int(np.flatnonzero(results["class_changed"] > 0)[0]) if (results["class_changed"] > 0).any() else 0
        arrays = target.alone(faults[number])[0].arrays
        assert results["accuracy"][number] == round(384 * target.stored.accuracy(arrays))
        assert set(results["accuracy"][~corrupt & (results["outcome"] == 0)]) == {376}  # as without a fault
    else:
        assert set(results["accuracy"]) == {-1}
    assert all((got != golden).any(axis=(1, 2)).all() for got, golden in seen)


def test_values_of_a_function(tmp_path: Path) -> None:
    """Floats are numbers, integers whole ones: a judge written in numpy agrees with the columns of results."""
    (tmp_path / "c.toml").write_text(SMALL.replace("OPCODE", MMA))
    campaign = read_campaign(tmp_path / "c.toml")
    faults = np.concatenate(list(campaign.faults()))
    source = "def critical(got, golden):\n    return np.nanmax(np.abs(got - golden), axis=(1, 2)) > 0.5"
    judgement = Judgement(source=source, path="judge.py")
    with judgement.judging():
        results = campaign.subject.run(faults)
    finite = (results["outcome"] == SDC) & (results["nonfinite"] == 0)
    assert (results["judged"][finite] == np.where(results["max_abs"][finite] > 0.5, 2, 1)).all()
    bits = np.array([[[0x80, 0xFF]]], np.uint32)
    assert outcomes.values(bits, ELEMENT_TYPES["s8"]).tolist() == [[[-128, -1]]]
    assert outcomes.values(bits, None).tolist() == bits.tolist()
    assert to_float64(np.uint32(0x3C00), ELEMENT_TYPES["f16"]) == 1.0


# Files


_LATER = {
    "bits": 0, "pattern": "none", "judged": "", "accuracy": -1, "corrections": "", "left_ulp": 0, "left_abs": 0.0,
}  # fmt: skip


@pytest.mark.parametrize(("lacks", "last"), [(7, "class_changed"), (3, "accuracy")])
def test_results_of_earlier_versions_are_read(
    tmp_path: Path, listed: Path, tcsim: Tcsim, lacks: int, last: str
) -> None:
    results, old = tmp_path / "r.csv", tmp_path / "old.csv"
    assert tcsim("faults", "run", listed, "--output", results)[0] == 0
    old.write_text(
        "".join(line if line[0] == "#" else ",".join(line.split(",")[:-lacks]) + "\n" for line in results.open())
    )
    frame, before = read_results(results), read_results(old)
    later = list(_LATER)[-lacks:]
    kept = [name for name in frame.columns if name not in later]
    assert kept[-1] == last
    assert before[kept].equals(frame[kept])
    assert [set(before[name]) for name in later] == [{_LATER[name]} for name in later]
    assert tcsim("faults", "report", old)[0] == 0
    strange = old.read_text().replace("class_changed", "class_changed,mine", 1)
    (tmp_path / "s.csv").write_text(strange)
    code, _, said = tcsim("faults", "report", tmp_path / "s.csv")
    assert (code, said.count("\n")) == (2, 1)
    assert "other columns" in said


def test_detectors_have_room() -> None:
    assert np.iinfo(outcomes.DTYPE["detectors"]).bits == 32
    name = outcomes.DETECTORS[-1]
    assert outcomes.flags(**{name: np.array([True, False])}).tolist() == [1 << len(outcomes.DETECTORS) - 1, 0]
