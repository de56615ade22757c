"""What `tcsim sweep --dry-run` says, beside what a sweep then does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from simulator.simulation.launch.module import Function
from simulator.simulation.session import Session
from simulator.studies.sweep import forecast, read_spec, run
from simulator.studies.sweep.planning import _all_runs
from tests.support.cases import exhaustive, over

Tcsim = Callable[..., tuple[int, str, str]]


@pytest.fixture
def simulations(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts what the engine simulates, under "made"."""
    counter: Counter[str] = Counter()

    def count(place: type, name: str) -> None:
        simulate = getattr(place, name)

        def counted(*args: Any, **named: Any) -> Any:
            counter["made"] += 1
            return simulate(*args, **named)

        monkeypatch.setattr(place, name, counted)

    count(Session, "time")
    count(Function, "timing")
    return counter


MMA = {"m": [256, 4096], "n": 64, "k": 64, "tile": "64x64", "path": "mma", "sparse": [True, False]}
SWEEPS: dict[str, dict[str, Any]] = {
    "what only multiplies waves, and what the engine does not see": MMA
    | {"alu.latency": 5, "hbm.bytes": ["x1", "x2"], "relative": {"sparse": False}},
    "two pages of a trace's times": {
        "trace": "digits/f16",
        "alu.latency": [3, 5, 6],
        "shared.latency": [31, 34, 35, 36, 37, 38],
        "hbm.bytes": ["x1", "x2"],
    },
    "wgmma": {
        "m": [256, 512],
        "n": 8448,
        "k": 256,
        "tile": "128x64",
        "stages": 2,
        "hbm.bytes": ["x1", "x2"],
    },
    "tcgen05": {
        "config": "b200",
        "m": [256, 512],
        "n": 2048,
        "k": [256, 512],
        "tile": "128x64",
        "hbm.bytes": ["x1", "x2"],
    },
}


@exhaustive
@over("name", list(SWEEPS))
def test_a_sweep_makes_as_many_simulations_as_it_was_told_to(name: str, simulations: Counter[str]) -> None:
    simulations.clear()
    sweep = read_spec(SWEEPS[name])
    found = forecast(sweep)
    frame = run(sweep, workers=1)
    assert set(frame["error"]) == {""}
    assert found.counted == found.points == len(frame)
    assert simulations["made"] == found.simulations
    assert found.simulations > 3


def test_a_search_for_the_best_kernel_is_about_as_long_as_told(simulations: Counter[str]) -> None:
    sweep = read_spec({"m": 1024, "n": 256, "k": 512, "tile": "best", "config": "a100", "alu.latency": 6})
    found = forecast(sweep)
    run(sweep, workers=1)
    assert found.simulations == pytest.approx(simulations["made"], rel=0.25)


def test_every_process_makes_the_runs_of_its_points() -> None:
    """Eight points that all need the same runs take two processes as long as one, but for what is remembered."""
    of_mma = {"m": 64, "n": 64, "k": 64, "tile": "64x64", "path": "mma"}
    sweep = read_spec(of_mma | {"hbm.bytes": [f"x{i}" for i in range(1, 9)]})
    found = forecast(sweep)
    assert set(found.points_of_runs) == {8}
    assert found.on(1) == pytest.approx(found.seconds)
    assert found.on(2) >= 0.99 * (found.seconds - found.points * found.cheap)


def test_runs_that_a_sample_did_not_ask_for() -> None:
    random = Random(0)
    asked = list(Counter(random.randrange(5_000) for _ in range(4_000)).values())
    assert _all_runs(asked, 10) == pytest.approx(5_000, rel=0.1)
    assert _all_runs([1] * 100, 10) == 1_000
    assert _all_runs([3, 1, 2], 1) == 3
