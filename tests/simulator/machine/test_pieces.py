"""Accesses and matrix instructions that meet at the port to shared memory, to the cycle, against an H100
(configs/measurements/h100_pieces.csv.xz, written by measurements/measure_short_sequences.py)."""

from __future__ import annotations

import pytest

from simulator.chip.config import load_config
from simulator.studies.validation import pieces
from tests.support.cases import examples, exhaustive, step

H100 = load_config("h100_sxm")
WRONG = {"value": 18, "registers": 8, "issue": 2}  # sequences that are a cycle to four off


def off(asked: str) -> list[tuple[pieces.Events, int]]:
    """The sequences of which that was asked, and how far the engine is off; of long ones a part."""
    known = pieces.operations(H100)
    rows = [row for row in pieces.sequences() if row[1] == asked]
    some = rows[:: 30125 // examples(30125, 1600)] if asked == "issue" else rows[:: step(4)]
    ends = {row: sum(gap for _, gap in row[0]) + pieces.FAR if asked == "issue" else 0 for row in some}
    return [(row[0], pieces.cycles(H100, known, *row[:2]) - row[2] - ends[row]) for row in some]


@pytest.mark.exhaustive
def test_a_value_comes_as_much_later_as_on_the_chip() -> None:
    """Which of a load and a matrix instruction reads first, what is kept, and when a result can be written."""
    found = off("value")
    assert len(found) == 8605
    assert sum(error != 0 for _, error in found) <= WRONG["value"]


def test_registers_of_a_store_are_read_as_much_later_as_on_the_chip() -> None:
    found = off("registers")
    assert len(found) == 4016 // step(4)
    assert sum(error != 0 for _, error in found) <= WRONG["registers"] / step(2)


@exhaustive
def test_what_instructions_cost_each_other() -> None:
    """Sequences of two to eight, of which all but two are exact."""
    assert sum(error != 0 for _, error in off("issue")) <= WRONG["issue"]
