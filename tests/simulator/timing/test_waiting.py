"""Which warp of a sub-core goes first if one waits for a scoreboard, clock by clock, against an H200, the same SM
(measurements/results/scoreboard_waits.csv.gz, written by measurements/measure_scoreboard_waits.py)."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from simulator.tables import read_rows
from tests.support.paths import ROOT
from tests.support.straight_code import HINTED, Step, clocks_of, steps

NEAR = 1  # cycles by which a clock may be off where warps share the port to shared memory


class Row(NamedTuple):
    """A row of the table: of each warp when it begins and its body; and the clocks of each."""

    warps: dict[int, tuple[int, list[Step]]]
    clocks: list[list[int]]

    @property
    def together(self) -> int:
        """Until when all warps run their bodies; behind its own each goes on to instructions that the table has not."""
        return min(own[-1] for own in self.clocks)


def rows(kind: str) -> list[Row]:
    found = []
    for row in read_rows(ROOT / "measurements" / "results" / "scoreboard_waits.csv.gz"):
        if row["kind"] == kind:
            warps = {}
            for text in row["warps"].split("; "):
                begin, body = text.split(": ")
                warp, at = begin.split("+")
                warps[int(warp)] = int(at), list(steps(body))
            found.append(Row(warps, [list(map(int, own.split("/"))) for own in row["clocks"].split("; ")]))
    return found


def same(row: Row) -> tuple[int, int]:
    """How many clocks, in order, are as measured up to the first that is not, and how many there are."""
    pairs = [
        (measured, simulated)
        for own, ours in zip(row.clocks, clocks_of(row.warps), strict=True)
        for measured, simulated in zip(own, ours[1:], strict=True)
        if measured < row.together
    ]
    pairs.sort()
    return next((place for place, (a, b) in enumerate(pairs) if abs(a - b) > NEAR), len(pairs)), len(pairs)


def test_a_warp_that_waits_for_its_last_load_gives_way_if_it_is_tried_in_vain() -> None:
    """Beside a warp that multiplies all the time: 425 of 440 rows have every clock as measured, whether the
    one that waits stays out for 200 cycles or goes first each time."""
    found = [same(row) for row in rows("stream")]
    assert len(found) == 440
    assert sum(ours == all_ for ours, all_ in found) >= 420


def test_a_warp_that_waits_for_an_older_load_gives_way() -> None:
    """At whatever distance from the matrix instructions of the other warp."""
    found = [same(row) for row in rows("phase")]
    assert len(found) == 252
    assert sum(ours == all_ for ours, all_ in found) >= 250


def test_a_hinted_operand_of_another_warp_takes_what_is_kept() -> None:
    """Additions and comparisons with the yield hint, in the slots of A and B, beside a warp that keeps these: it takes
    the chip's cycles in every row; without the hint, where nothing is lost, in most, and within 6."""
    off: dict[bool, list[int]] = {True: [], False: []}
    for row in rows("kept"):
        hinted = row.warps[4][1][0][1] >= HINTED
        off[hinted].append(abs(row.clocks[0][-1] - clocks_of(row.warps)[0][-1]))
    assert len(off[True]) == len(off[False]) == 96
    assert not any(off[True])
    assert max(off[False]) <= 6
    assert sum(not cycles for cycles in off[False]) > 50


@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_random_code_is_in_step_for_long(every: int) -> None:
    """Two and three warps that load and multiply at random: most clocks are as measured before the first that is not.
    What warps have issued before is not known, and decides here, too."""
    found = [same(row) for row in rows("random")[::every]]
    assert sum(ours for ours, _ in found) > 0.55 * sum(all_ for _, all_ in found)
