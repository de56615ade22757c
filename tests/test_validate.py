"""The timing model against measured streams, and the table in the documentation that says how far it is."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable

import pytest

from simulator.timing.config import load_config
from simulator.validate import MEASURED, groups, uniform
from simulator.validate_tcgen05 import PUBLISHED, headline, published_rows, summaries
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


def test_published_rows_of_tcgen05(tcsim: Tcsim) -> None:
    """All 432 rows within the limits, and every table of the documentation is what the command prints."""
    code, out, err = tcsim("validate", "--config", "b200", "--worst", "0")
    assert (code, err) == (0, "")
    assert out.strip() in (ROOT / "docs" / "timing.md").read_text()
    rows = published_rows(load_config("b200"))
    found = {s.metric: s for s in summaries(rows) if s.group == "all"}
    assert {metric: s.rows for metric, s in found.items()} == {"latency": 216, "stream": 216, "steady": 216, "difference": 14}
    assert found["latency"].mean <= 3
    assert max(found[metric].mean for metric in ("stream", "steady", "difference")) <= 0.025


def test_published_rows_are_those_of_the_source() -> None:
    """Figures that the source's article and tables print, and what is left out: its F4 rows, booked with twice the K that was issued."""
    with (ROOT / "configs" / "measurements" / PUBLISHED["b200"]).open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    by_name = {(r["kind"], r["a"], r["cta_group"], r["m"], r["n"], r["metric"], r["depth"]): float(r["value"]) for r in rows}
    assert len(by_name) == len(rows)
    assert by_name["f16", "SS", "1", "128", "64", "interval", "256"] == 48.5559
    assert by_name["f16", "SS", "2", "256", "256", "latency", "1"] == 298
    assert {(r["kind"], r["k"]) for r in rows} == {("f16", "16"), ("f8f6f4", "32"), ("i8", "32"), ("mxf8f6f4", "32"), ("mxf4", "64")}
    assert all("@" in r["source"] for r in rows)


def test_validate_tcgen05_formats(tcsim: Tcsim) -> None:
    code, out, _ = tcsim("validate", "--config", "b300", "--format", "json")
    assert code == 0
    report = json.loads(out)
    assert len(report["rows"]) == 6
    assert report["summary"][0]["mean"] < 0.02
    assert {p["status"] for p in report["predictions"]} == {"assumed"}
    code, out, _ = tcsim("validate", "--config", "b300", "--format", "csv")
    assert len(list(csv.DictReader(out.splitlines()))) == 6
    code, _, err = tcsim("validate", "--config", "b300", "--limit", "1")
    assert code == 1
    assert "mean error (interval: (cycles of 256 MMAs - cycles of 64) / 192) 1.58% is above the limit of 1 %" in err
    code, _, err = tcsim("validate", "--config", "b200", "--latency-limit", "0.1")
    assert code == 1
    assert "0.52 cycles is above the limit of 0.1 cycles" in err
    code, _, err = tcsim("validate", "--config", "jetson_thor")
    assert code == 2
    assert "no measured streams of jetson_thor come with tcsim" in err


def test_headline(tcsim: Tcsim) -> None:
    """Dense by hand: 255 intervals of 128 cycles and a latency of 298; the sparse ones say that they are assumed."""
    code, out, _ = tcsim("validate", "--config", "b200", "--headline")
    assert code == 0
    lines = out.splitlines()
    assert "K = 4096" in lines[0]
    assert all(("assumed" in line) == line.startswith("sparse") for line in lines[2:])
    dense, sparse, copied, *_ = headline(load_config("b200"))
    assert (dense.mmas, dense.cycles) == (256, 255 * 128 + 298)
    assert (sparse.mmas, sparse.cycles) == (128, 127 * 128 + 298)
    assert (copied.cycles, copied.bound) == (sparse.cycles + 32 * 16, "tensor + cp")
    assert sparse.speedup == dense.cycles / sparse.cycles
    code, out, _ = tcsim("validate", "--config", "b200", "--headline", "--format", "json")
    assert json.loads(out)[0]["title"] == "dense, A in shared memory"
    code, out, _ = tcsim("validate", "--config", "b200", "--headline", "--format", "csv")
    assert len(list(csv.DictReader(out.splitlines()))) == 6
    code, _, err = tcsim("validate", "--config", "a100", "--headline")
    assert code == 2
    assert "a100 has no times for tcgen05" in err
