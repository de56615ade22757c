"""Loops that call a routine, on two warps of a sub-core, instruction by instruction: against a clock in the place of
each in turn, on an H200 (measurements/measure_calls.py)."""

from __future__ import annotations

import pytest

from simulator.studies.validation.programs import COUNTS
from simulator.timing.engine import simulate
from tests.support.cases import examples, exhaustive, over
from tests.support.stepping import BEGIN, Loop, late, loops, operations, readings, reads, repeated
from tests.support.straight_code import H100

LOOPS = loops("calls.json.gz")
EXACT = (
    "spo_m16n8k64_s32_s4_u4_c2",
    "spo_m16n8k64_s32_s4_u4_c4",
    "spo_m16n8k64_s32_s4_s4_c4",
    "mma_m16n8k64_s32_u4_u4_c4",
)


def named(names: tuple[str, ...]) -> list[Loop]:
    return [loop for loop in LOOPS if loop["name"].removeprefix("mma_").removesuffix("_none") in names]


@over("loop", named(EXACT), ids=lambda loop: loop["name"], distinct=lambda loop: loop["name"])
def test_loops_to_the_cycle(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every clock of both warps, in all calls of the first iteration; or every fifth."""
    clocks, some = reads(monkeypatch), list(readings(loop, 1))[:: examples(1, 5)]
    assert len(some) > 10
    for reading in some:
        assert [cycles for _, cycles in late(loop, reading, clocks)] == [0, 0], reading


def off(loop: Loop, warps: int) -> float:
    """By how much the cycles of an iteration are off."""
    measured, begins = loop["cycles"][str(warps)]
    every, starts = operations(loop), [BEGIN + begin for begin in begins]
    few, many = (simulate(H100, [repeated(loop, every, n, warps)], warps, starts=starts).cycles for n in COUNTS)
    return float((many - few) / (COUNTS[1] - COUNTS[0]) / measured - 1)


@exhaustive
def test_iterations_behind_a_known_start() -> None:
    """What an iteration of 43 loops takes on 5 to 24 warps."""
    found = sorted(abs(off(loop, int(warps))) for loop in LOOPS for warps in loop["cycles"])
    assert len(found) == 215
    assert sum(found) / len(found) < 0.0065
    assert found[-3] < 0.062
