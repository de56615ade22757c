"""Files of every past version are read, and give what that version gave: traces, captures, configs, campaigns and
results, in tests/golden/formats."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simulator
from simulator.faults.table import read_head
from simulator.studies.sweep.spec import read_spec
from simulator.version import __version__
from tests.support.paths import GOLDEN

Tcsim = Callable[..., tuple[int, str, str]]
FORMATS = GOLDEN / "formats"
OLD, NEW = FORMATS / "0.1.0", FORMATS / "0.2.0"


def test_this_version_has_its_files() -> None:
    versions = {path.name for path in FORMATS.iterdir() if path.is_dir()}
    assert __version__ in versions
    assert {path.suffix for path in OLD.iterdir()} == {".trace", ".npz", ".toml", ".csv", ".json"}


@pytest.mark.parametrize(
    ("trace", "config", "told"),
    [
        (OLD / "every.trace", OLD / "b200.toml", OLD / "every"),
        (OLD / "sparse.trace", OLD / "h100_sxm.toml", OLD / "sparse"),
        (OLD / "sparse.trace", NEW / "own.toml", NEW / "own"),
    ],
    ids=["every directive", "sparse", "a config with a base"],
)
def test_traces_and_configs(trace: Path, config: Path, told: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cycles, counts, warnings and arrays are those of the version that wrote the report."""
    monkeypatch.chdir(told.parent)
    report = simulator.run(Path(trace.name) if trace.parent == told.parent else trace, config)
    now = json.loads(report.json())
    before = json.loads(told.with_suffix(".report.json").read_text())
    before.pop("trace")
    before.pop("config_path", None)
    before.pop("skipped_cycles")  # how it was simulated, not what it takes
    assert kept(now, before) == before
    if told.with_suffix(".out.npz").exists():
        with np.load(told.with_suffix(".out.npz")) as arrays:
            assert set(arrays.files) == set(report.arrays)
            assert all(np.array_equal(report.arrays[name], arrays[name]) for name in arrays.files)


def kept(now: Any, before: Any) -> Any:
    """What of a report has the keys of an earlier one: a version may say more, and nothing else of the same."""
    if isinstance(now, dict) and isinstance(before, dict):
        return {key: kept(now[key], value) for key, value in before.items()}
    return now


def test_configs_with_keys_that_are_gone_and_without_keys_that_came() -> None:
    config = simulator.load_config(OLD / "h100_sxm.toml")
    assert (config.registers.stages, config.launch and config.launch.cta_cycles) == (3, 0)
    assert simulator.load_config(OLD / "rtx5090.toml").name == "rtx5090"


def rows(path: Path) -> list[dict[str, str]]:
    """The faults of a list, and what came of them, without what detectors see: those are models, which improve."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return [{key: value for key, value in row.items() if key != "detectors"} for row in csv.DictReader(lines)]


@pytest.mark.parametrize("folder", [OLD, NEW], ids=["0.1.0", "0.2.0"])
def test_campaigns_lists_and_results(
    folder: Path, tcsim: Tcsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The campaign gives the same faults, the list the same results, the results the same report."""
    monkeypatch.chdir(folder)
    assert tcsim("faults", "list", "campaign.toml", "--output", tmp_path / "list.csv")[0] == 0
    before = rows(folder / "list.csv")
    pairs = list(zip(rows(tmp_path / "list.csv"), before, strict=True))
    if "launch" in json.loads(read_head(folder / "list.csv").about["subject"]):  # its registers became more
        pairs = [(now, row) for now, row in pairs if row["site"] != "registers"]
    assert [kept(now, row) for now, row in pairs] == [row for _, row in pairs]
    assert pairs
    assert tcsim("faults", "run", "list.csv", "--output", tmp_path / "results.csv")[0] == 0
    before = rows(folder / "results.csv")
    assert [kept(now, row) for now, row in zip(rows(tmp_path / "results.csv"), before, strict=True)] == before
    code, out, _ = tcsim("faults", "report", "results.csv", "--format", "json")
    told, said = json.loads((folder / "report.json").read_text()), json.loads(out)
    assert (code, said["about"]) == (0, told["about"])
    for now, group in zip(said["groups"], told["groups"], strict=True):
        ends = [key for key in group if key.endswith(("_low", "_high"))]  # which now know how many faults there are
        assert {key: kept(now, group)[key] for key in ends} == pytest.approx(
            {key: group[key] for key in ends}, abs=5e-3
        )
        assert kept(now, group) | dict.fromkeys(ends) == group | dict.fromkeys(ends)
    assert read_head(folder / "list.csv").rows > 40


def test_captures() -> None:
    report = simulator.launch(NEW / "launch.json")
    assert report.differences == ()
    assert report.warp_instructions > 100


def test_sweeps(tcsim: Tcsim, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(NEW)
    picture = tmp_path / "front.svg"
    code, _, err = tcsim("sweep", "points.csv", "--pareto", "time_us,max:tflops", "--output", picture)
    assert (code, picture.exists()) == (0, True), err
    assert read_spec("sweep.toml").count == 2
