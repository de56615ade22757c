"""The timing model against measured streams, and the table in the documentation that says how far it is."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable

import pytest

from simulator.timing.config import load_config
from simulator.validate import MEASURED, groups, uniform
from tests.conftest import ROOT

Tcsim = Callable[..., tuple[int, str, str]]


@pytest.mark.long
def test_uniform_streams_are_within_three_percent(tcsim: Tcsim) -> None:
    """The whole of the measured streams; the documentation's table must be what the command prints."""
    code, out, _ = tcsim("validate", "--worst", "0")
    assert code == 0
    table = out.split("\nworst")[0].rstrip()
    assert table in (ROOT / "docs" / "timing.md").read_text()
    rows = uniform(load_config("h100_sxm"))
    assert len(rows) == 1512
    summary = groups(rows)[0]
    assert summary.mean < 0.01
    assert summary.worst < 0.07


def test_a_sample_of_the_streams(tcsim: Tcsim, monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """Every form with 1, 2 and 8 chains and 1 to 8 warps: a short form of the same."""
    import simulator.validate as module

    measured = list(module._measured(ROOT / "configs" / "measurements" / MEASURED["h100_sxm"]))
    sample = [row for row in measured if row[1] in (1, 2, 8) and row[2] in (1, 4, 5, 8)]
    monkeypatch.setattr(module, "_measured", lambda path: sample)
    code, out, _ = tcsim("validate", "--format", "json")
    assert code == 0
    report = json.loads(out)
    assert len(report["rows"]) == len(sample) == 18 * 12
    assert report["summary"][0]["mean"] < 0.02
    code, _, err = tcsim("validate", "--limit", "0.001")
    assert code == 1
    assert "above the limit" in err
    code, out, _ = tcsim("validate", "--format", "csv")
    assert len(list(csv.DictReader(out.splitlines()))) == len(sample)
