"""The main job: the digits layer in every type, through the simulator, finished to a classification."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import simulator
from tests.support.cases import over
from tests.support.paths import ROOT

TYPES = ("f16", "bf16", "tf32", "s8", "e4m3")


def kind_of(name: str) -> str:
    """Floating point or integers."""
    return "integer" if name == "s8" else "float"


@pytest.fixture(scope="module")
def classify() -> ModuleType:
    folder = ROOT / "traces" / "digits"
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location("classify", folder / "classify.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


@over("name", TYPES, distinct=kind_of)
def test_the_layer_is_classified_as_numpy_does(classify: ModuleType, name: str) -> None:
    report = simulator.run(f"digits/{name}")
    facts = classify.finish(report.arrays, name)
    assert facts["images"] >= 240
    assert facts["accuracy"] >= 0.97
    assert facts["different"] == 0
    assert facts["largest_difference"] < 1e-5
    assert report.undefined == {}
    assert report.warnings == []
    assert report.memory.conflicts == 0
    assert report.largest_ulp is not None


@over("name", TYPES, distinct=kind_of)
def test_skipping_repetitions_changes_nothing(name: str) -> None:
    """Warps of an H100 fall into a late period within these short loops, or none; those of an A100 do soon."""
    config = "h100_sxm" if name == "e4m3" else "a100"
    whole = simulator.run(f"digits/{name}", config=config, arithmetic="none", skip=False)
    short = simulator.run(f"digits/{name}", config=config, arithmetic="none")
    assert short.skipped_cycles > 0
    assert (short.cycles, short.waits, short.utilisation) == (whole.cycles, whole.waits, whole.utilisation)


@over("name", ["f16", "bf16", "tf32", "s8"], distinct=kind_of)
def test_an_a100_runs_it_too(name: str) -> None:
    report = simulator.run(f"digits/{name}", config="a100")
    assert report.target == "sm_80"
    assert any("[alu]" in line for line in report.assumed)
    assert any("inferred" in line for line in report.assumed) == (name != "s8")


def test_exact_arithmetic_moves_the_last_bits_alone() -> None:
    chip, exact = (simulator.run("digits/f16", arithmetic=name) for name in ("chip", "exact"))
    a, b = (np.asarray(r.arrays["head_f16"]).view(np.float32) for r in (chip, exact))
    assert (a != b).any()
    assert np.abs(a - b).max() < 1e-5
    assert exact.largest_ulp is None


def test_a_trace_can_be_named_by_its_path() -> None:
    path = Path(ROOT / "traces" / "digits" / "s8.trace")
    assert simulator.run(path, arithmetic="none").cycles == simulator.run("digits/s8", arithmetic="none").cycles
