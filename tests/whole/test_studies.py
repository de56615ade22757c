"""The tables of docs/studies.md are what its commands give: a cheap part of them."""

from __future__ import annotations

import tomllib

import pytest

from simulator import sweep
from tests.support.paths import ROOT


def _cells(text: str, start: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(start))
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.exhaustive  # numbers of a page; what makes them has tests of its own
@pytest.mark.parametrize(("n", "k", "column"), [(4096, 128, 1), (64, 4096, 5)])
def test_speedups_by_size(n: int, k: int, column: int) -> None:
    spec = tomllib.loads((ROOT / "configs" / "sweeps" / "pays_size.toml").read_text())
    subject = next(x for x in spec["subject"] if x["config"] == "h100_sxm" and k in [x["k"], *_listed(x["k"])])
    frame = sweep.run(spec | {"subject": [subject | {"n": n, "k": k}]}, workers=1)
    text = (ROOT / "docs" / "studies.md").read_text()
    assert f"{frame['speedup'][0]:.2f}" == _cells(text, "| h100_sxm | 1")[column]


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []
