"""What a sweep will take: its points ask for the runs of the engine that they need, which are counted and not made.
Some points, drawn at random, are run to see how long a run takes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from zlib import crc32

from isa.forms.record import Unit
from simulator.chip.config import Config
from simulator.floating_point import guarded
from simulator.studies.gemm.best import expected
from simulator.studies.gemm.persistent import PersistentTile
from simulator.studies.gemm.remembered import Key, made, planned
from simulator.studies.gemm.tile import Tile
from simulator.studies.sweep.evaluate import ask, row
from simulator.studies.sweep.spec import Sweep
from simulator.timing.result import Timing

_COUNTED = 4_096  # points whose runs are counted one by one; of more, a sample
_LEAST = 64  # points that are counted, however long it takes
_TWICE = 5  # runs that two points ask for: with fewer, a sample says nothing about how many more there are
_ODD = 97  # made-up cycles of runs that differ in anything differ by less


@dataclass(frozen=True)
class Forecast:
    """What a sweep would take.

    Attributes:
        points: how many there are.
        simulations: runs of the engine that one process makes, about; those that differ in what the engine sees.
        seconds: of one process, about.
        tried: points that were run for this.
        counted: points whose runs were counted: all, or a sample of them.
        cheap: seconds of a point whose runs are remembered.
        points_of_runs: for each run, how many points of the sweep need it; of a sample one number, the mean.
    """

    points: int
    simulations: int
    seconds: float
    tried: int
    counted: int
    cheap: float
    points_of_runs: tuple[float, ...]

    def on(self, cores: int) -> float:
        """Seconds on so many cores, about: each process makes the runs that its own points need, which are taken to be
        spread at random."""
        mine = sum(1 - (1 - 1 / cores) ** points for points in self.points_of_runs)
        part = mine / len(self.points_of_runs) if self.points_of_runs else 1.0
        return (self.seconds - self.points * self.cheap) * part + self.points * self.cheap / cores


@guarded
def forecast(sweep: Sweep, seconds: float = 5.0, most: int = 8) -> Forecast:
    """About how long a sweep takes: counts the runs of its points, and runs some points, each twice, since the second
    time its runs are remembered.

    Args:
        seconds: after which no further point is begun, of those that are counted and of those that are run.
        most: points that are run.
    """
    drawn = Random(0).sample(range(sweep.count), min(sweep.count, _COUNTED))
    counted, asked = _counted(sweep, drawn, seconds)
    simulations = _all_runs(asked, sweep.count / counted)
    began, first, again, before = time.monotonic(), list[float](), list[float](), made()
    for number in drawn[:most]:
        for times in (first, again):
            start = time.monotonic()
            row(sweep, number)
            times.append(time.monotonic() - start)
        if time.monotonic() - began > seconds:
            break
    cheap = sum(again) / len(again)
    each = max(sum(first) - sum(again), 0.0) / max(made() - before, 1)
    points = tuple(asked) if counted == sweep.count else (sum(asked) * sweep.count / counted / max(simulations, 1),)
    return Forecast(
        sweep.count, simulations, simulations * each + sweep.count * cheap, len(first), counted, cheap, points
    )


def _all_runs(asked: Sequence[int], times: float) -> int:
    """About how many runs there are, if those of one point in `times` were asked for: Chao's estimator (Scandinavian
    Journal of Statistics 11, 1984), by how many runs one point asked for and how many two did.

    Args:
        asked: for each run that was asked for, by how many points.
    """
    if times <= 1:
        return len(asked)
    most = round(len(asked) * times)
    once, twice = asked.count(1), asked.count(2)
    if twice < _TWICE:
        return most if once else len(asked)
    return min(most, len(asked) + once * (once - 1) // (2 * (twice + 1)))


def _counted(sweep: Sweep, numbers: Sequence[int], seconds: float) -> tuple[int, list[int]]:
    """How many points were asked for their runs, and by how many of them each run was needed."""
    began = time.monotonic()
    needed: Counter[Key] = Counter()
    with planned(_MADE_UP) as plan:
        for count, number in enumerate(numbers, 1):
            plan.asked.clear()
            ask(sweep, number)
            needed.update(plan.asked.keys())
            if count >= _LEAST and time.monotonic() - began > seconds:
                return count, list(needed.values())
    return len(numbers), list(needed.values())


def _of_mma(tile: Tile, k: int, chip: Config, ctas: int, sms: int, later: int, rounds: int = 1, *more: int) -> Timing:
    cycles = rounds * expected(tile, k // tile.bk, chip, ctas, sms, later)
    return _timing(round(cycles) + _odd(tile, ctas, sms, more))


def _of_persistent(tile: PersistentTile, iterations: int, rounds: int, chip: Config, *more: int) -> Timing:
    return _timing(rounds * (2_000 + iterations * tile.bn * 4) + _odd(tile, *more))


def _of_trace(name: str, chip: Config) -> Timing:
    return _timing(1_000 + _odd(name, chip.name))


_MADE_UP: dict[str, Callable[..., Any]] = {
    "run": _of_mma,
    "tcgen05_run": _of_persistent,
    "wgmma_run": _of_persistent,
    "timed": _of_trace,
}


def _odd(*values: object) -> int:
    """Some cycles, others for other values, the same in each process."""
    return crc32(repr(values).encode()) % _ODD


def _timing(cycles: int) -> Timing:
    """A run of so many cycles that nobody made."""
    return Timing(cycles, {}, [1], [[1] * len(Unit)], 1, 0, ((cycles, cycles),), (1,), 1)
