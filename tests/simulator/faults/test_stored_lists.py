"""Lists that version 0.1.0 wrote still run and give what it gave: a sample of each campaign that comes along."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.paths import TESTS

Tcsim = Callable[..., tuple[int, str, str]]
FOLDER = TESTS / "golden" / "faults_0.1"


@pytest.mark.parametrize("name", ["alignment", "digits", "metadata", "operands"])
def test_lists_of_0_1(tcsim: Tcsim, tmp_path: Path, name: str) -> None:
    output = tmp_path / "results.csv"
    code, _, said = tcsim("faults", "run", FOLDER / f"{name}.list.csv", "--output", output)
    assert code == 0, said
    rows = [line for line in output.read_text().splitlines() if not line.startswith("#")]
    recorded = (FOLDER / f"{name}.results.csv").read_text().splitlines()
    columns = recorded[0].count(",") + 1  # later versions write more
    assert [_without_abft(",".join(row.split(",")[:columns])) for row in rows] == list(map(_without_abft, recorded))
    assert len(rows) > 50


def _without_abft(row: str) -> str:
    """A row without what checksums saw: those of 0.1 took their tolerance from the tested products."""
    return row.replace("+abft", "").replace(",abft", ",")


def test_a_list_of_other_operands_is_refused(tcsim: Tcsim, tmp_path: Path) -> None:
    changed = tmp_path / "list.csv"
    changed.write_text((FOLDER / "metadata.list.csv").read_text().replace("# operands: ", "# operands: 0"))
    code, _, said = tcsim("faults", "run", changed, "--output", tmp_path / "results.csv")
    assert code == 2
    assert "digest" in said
    assert not (tmp_path / "results.csv").exists()
