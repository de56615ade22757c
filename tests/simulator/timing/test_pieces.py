"""Accesses and matrix instructions that meet at the port to shared memory, to the cycle, against an H100
(configs/measurements/h100_pieces.csv.gz, written by tests/hardware/pieces.py)."""

from __future__ import annotations

from collections import Counter

from simulator.studies.validation import pieces
from simulator.timing.config import load_config
from tests.support.cases import examples

H100 = load_config("h100_sxm")


def pairs(asked: str) -> list[tuple[pieces.Events, int]]:
    """An access and a matrix instruction up to 12 cycles before it or 5 behind it, and how far the engine is off.
    (Further behind, the instruction that waits is itself held up on the chip.)"""
    known = pieces.operations(H100)
    return [
        (events, pieces.cycles(H100, known, events, asked) - measured)
        for events, question, measured in pieces.sequences()
        if question == asked and len(events) == 2 and (events[0][0] in pieces.MATRIX or events[0][1] <= 5)
    ]


def test_a_value_comes_as_much_later_as_on_the_chip() -> None:
    """Which of a load and a matrix instruction goes first at the port, and what that costs."""
    near = pairs("value")
    assert len(near) == 6 * 5 * 17
    assert [events for events, off in near if off] == []


def test_registers_of_a_store_are_read_as_much_later_as_on_the_chip() -> None:
    """Exact, but where a sparse matrix instruction meets the last register of `st.b32`."""
    near = pairs("registers")
    assert len(near) == 3 * 5 * 17
    off = {(events[0], events[1][0].split()[0]) for events, off in near if off}
    assert off == {(("st.b32", 4), "sp")}


def test_what_instructions_cost_each_other() -> None:
    """Sequences of three and more: three in four take the chip's cycles exactly, nine in ten within one."""
    known = pieces.operations(H100)
    some = [row for row in pieces.sequences() if row[1] == "issue"][:: 9808 // examples(9808, 800)]
    off = Counter(
        pieces.cycles(H100, known, *row[:2]) - row[2] - sum(g for _, g in row[0]) - pieces.FAR for row in some
    )
    assert off[0] > 0.75 * len(some)
    assert off[0] + off[1] + off[-1] > 0.91 * len(some)
