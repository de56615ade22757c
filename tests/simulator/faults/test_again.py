"""Faults computed again, from rows and documentation alone (tests/golden/again), have the outcomes, numbers and
detectors that the simulator says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.golden.again import judged
from tests.golden.compare_faults_again import TARGETS, compare

_ONE_OF_EACH = {
    "mma.sp.f16": 200,
    "mma.sp.mxf4nvf4": 200,
    "tcgen05.sp.f16": 200,
    "launch direct": 200,
    "trace digits/f16": 60,
}


@pytest.mark.parametrize(("name", "count"), _ONE_OF_EACH.items())
def test_drawn_faults_are_as_computed_again(name: str, count: int) -> None:
    found = compare(name, count)
    assert found.faults >= count
    assert found.equal, found.first


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", TARGETS)
def test_many_drawn_faults_are_as_computed_again(name: str) -> None:
    found = compare(name, 300, seed=2)
    assert found.faults >= 300
    assert found.equal, found.first


def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judged, "parity", lambda turned: np.zeros(len(turned), np.bool_))
    found = compare("mma.sp.s8", 100)
    assert found.detectors
    assert not found.equal
    assert "parity" in found.first
