"""Measures again what the golden data holds: `pytest -m hardware`, on a machine with an NVIDIA GPU of sm_90, ptxas and
cupy."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.paths import GOLDEN, ROOT

MEASUREMENTS = ROOT / "measurements"

pytestmark = pytest.mark.hardware


def step(script: str, *arguments: str | Path) -> str:
    """Runs a program of measurements/; `measurements.X` as a module, from the root."""
    what = ["-m", script] if script.startswith("measurements.") else [str(MEASUREMENTS / script)]
    command = [sys.executable, *what, *map(str, arguments)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT if script.startswith("measurements.") else None,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_digits_give_the_recorded_bits(tmp_path: Path) -> None:
    step("run_traces.py", "build", "--build", tmp_path / "build", "--random", "1")
    step("run_traces.py", "run", "--build", tmp_path / "build", "--output", tmp_path / "out")
    with np.load(tmp_path / "out" / "outputs.npz") as device, np.load(GOLDEN / "digits_h100.npz") as recorded:
        ours = {name.split("/")[-1]: device[name] for name in device.files}
        assert len(recorded.files) >= 5
        for name in recorded.files:
            assert np.array_equal(ours[name.split("/")[-1]], recorded[name]), name


def test_matrix_streams_take_the_recorded_cycles(tmp_path: Path) -> None:
    step("measure.py", "build", "--build", tmp_path / "build")
    step("measure.py", "run", "--build", tmp_path / "build", "--results", tmp_path / "results")

    def rows(folder: Path) -> dict[tuple[str, str], float]:
        with (folder / "mma.csv").open(newline="") as stream:
            lines = [line for line in stream if not line.startswith("#")]
        return {(row["program"], row["warps"]): float(row["cycles_per_iteration"]) for row in csv.DictReader(lines)}

    recorded, measured = rows(MEASUREMENTS / "results"), rows(tmp_path / "results")
    assert measured.keys() == recorded.keys()
    errors = sorted(abs(measured[key] / recorded[key] - 1) for key in recorded)
    assert errors[len(errors) // 2] < 0.01


def test_faults_in_metadata_give_the_recorded_bits(tmp_path: Path) -> None:
    folders = ("--build", tmp_path / "build", "--output", tmp_path / "out")
    step("measurements.faults", "build", "--recorded", *folders)
    step("measurements.faults", "run", *folders)
    assert ", 0 bits differ from those recorded, digests and errors the same" in step(
        "measurements.faults", "again", *folders
    )
