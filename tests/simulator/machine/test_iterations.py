"""Warps that load, store and multiply again and again, clock by clock, against an H200, the same SM
(measurements/results/shared_memory_iterations.csv.gz, written by measurements/measure_shared_memory_iterations.py)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest

from isa.forms.record import Unit
from simulator.studies.validation import pieces
from simulator.tables import read_rows
from tests.support.cases import exhaustive
from tests.support.paths import ROOT
from tests.support.straight_code import KNOWN, Step, clocks_of, is_access, steps

SEVERAL = 4  # iterations that a row has, at least
SETTLED = 2  # the first of them that counts: those before wait for their code


class Row(NamedTuple):
    """A row of the table: the body's steps with their waits and what they wait for; when each warp begins; its
    clocks."""

    steps: list[Step]
    begins: list[tuple[int, int]]
    clocks: list[list[int]]

    @property
    def kind(self) -> str:
        """What is in the body: loads, stores and matrix instructions, by their first letters."""
        names = [name for name, *_ in self.steps]
        matrix = any("full" in name or "small" in name for name in names)
        return "m" * matrix + "s" * any(n[:3] == "st." for n in names) + "l" * any(n[:2] == "ld" for n in names)

    @property
    def reads(self) -> int:
        """How many clocks an iteration has."""
        return sum(name == "clock" for name, *_ in self.steps)


def rows() -> Iterator[Row]:
    """The rows with several iterations."""
    for row in read_rows(ROOT / "measurements" / "results" / "shared_memory_iterations.csv.gz"):
        clocks = [list(map(int, own.split("/"))) for own in row["clocks"].split("; ")]
        begins = [(int(warp), int(at)) for warp, at in (own.split("+") for own in row["begins"].split("; "))]
        found = Row(list(steps(row["body"])), begins, clocks)
        if len(clocks[0]) // found.reads >= SEVERAL:
            yield found


def simulated(row: Row) -> list[list[int]]:
    """The clocks of each warp in the simulation."""
    warps = {warp: (at, row.steps) for warp, at in row.begins}
    return [own[1:] for own in clocks_of(warps, len(row.clocks[0]) // row.reads)]


def error(row: Row) -> float:
    """By how much the cycles of an iteration are off, on average of the warps."""
    first = row.reads * SETTLED - 1
    ours = [(own[-1] - own[first]) for own in simulated(row)]
    return float(np.mean([abs(ours / (own[-1] - own[first]) - 1) for ours, own in zip(ours, row.clocks, strict=True)]))


@exhaustive
@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_iterations_take_as_long_as_on_the_chip(every: int) -> None:
    """Loads alone within 1.3 % on average, stores alone within 3 %; loads among matrix instructions, where warps keep
    one of several rhythms (a warp that waits for a scoreboard gives way, which is not modelled), 4.5 %."""
    off: dict[str, list[float]] = defaultdict(list)
    for row in [*rows()][::every]:
        off[row.kind].append(error(row))
    if every == 1:
        counts = {kind: len(found) for kind, found in off.items()}
        assert counts == {"l": 615, "s": 83, "sl": 105, "m": 56, "ml": 345, "msl": 29, "ms": 8}
    means = {kind: float(np.mean(found)) for kind, found in off.items()}
    assert means["l"] < 0.013
    assert means["s"] < 0.03
    assert means["sl"] < 0.03
    assert means["m"] < 0.015
    assert means["ml"] < 0.045


def test_a_lone_warp_takes_the_cycles_of_the_chip() -> None:
    """But for a cycle or two of code that is not in the nearest cache."""
    alone = [row for row in rows() if len(row.begins) == 1]
    off = [abs(b - a) for row in alone for a, b in zip(gaps(row.clocks[0]), gaps(simulated(row)[0]), strict=True)]
    assert len(alone) == 79
    assert np.mean(off) < 0.5


def gaps(clocks: list[int]) -> list[int]:
    """Cycles from one clock to the next, of the iterations that count."""
    return [after - at for at, after in pairwise(clocks)][SETTLED:]


def test_every_body_has_a_place_in_the_model() -> None:
    """All kinds of accesses and matrix instructions of the table are known."""
    names = {name for row in rows() for name, *_ in row.steps if name not in ("clock", "nop")}
    units = {pieces.named(KNOWN, name).unit if not is_access(name) else KNOWN[name].unit for name in names}
    assert units == {Unit.SHARED, Unit.TENSOR}
