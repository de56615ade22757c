"""Shared memory against silicon, its places by hand, and what a loop's machine code says about waiting."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.forms.record import Unit
from simulator.chip.config import load_config
from simulator.compiler.timed_code import TimedLoop, TimedOperation, unread
from simulator.machine.front.wavefronts import TAKEN, Wavefronts
from simulator.studies.validation.group import Row
from simulator.studies.validation.measured_loops import Loop
from simulator.studies.validation.shared_memory import GROUPS, _loops
from tests.support.cases import examples, exhaustive, over

H100, A100 = load_config("h100_sxm"), load_config("a100")
NAMED = {group.name: group for groups in GROUPS.values() for group in groups}


def mean(rows: list[Row]) -> float:
    return float(np.mean([abs(row.error) for row in rows]))


def loop(name: str) -> Loop:
    return next(found for found in _loops() if found.name == name)


# Against silicon


@exhaustive
@pytest.mark.parametrize(
    ("name", "short", "rows", "limit"),
    [
        ("loads", True, 12, 0.025),
        ("ldmatrix", False, 39, 0.01),
        pytest.param("loads", False, 72, 0.02, marks=pytest.mark.exhaustive),
    ],
)
def test_dependent_loads(name: str, short: bool, rows: int, limit: float) -> None:
    found = NAMED[name].rows(A100 if name == "ldmatrix" else H100, short)
    assert len(found) == rows
    assert mean(found) < limit


@pytest.mark.exhaustive
def test_streams_of_loads_and_stores() -> None:
    rows = NAMED["shared"].rows(H100, True)
    assert len(rows) > 80
    assert mean(rows) < 0.02
    assert np.median([abs(row.error) for row in rows]) < 0.002


@exhaustive
def test_steps_with_matrix_instructions() -> None:
    rows = NAMED["steps"].rows(H100, True)
    assert {dict(row.keys)["kind"] for row in rows} == {"gemm", "beside", "random", "held out"}
    assert mean(rows) < 0.08


@exhaustive
@over(
    ("name", "warps"),
    [
        ("memory_port_x4_p0_c0", 4),  # a lone warp: 2 cycles a wavefront
        ("memory_port_x4_p0_c0", 8),  # two warps of one sub-core: 1
        ("memory_port_s1_p0_c0", 16),  # the port: 4, 6 and 10 cycles a store
        ("memory_port_s2_p0_c0", 16),
        ("memory_port_s4_p0_c0", 16),
        ("memory_port_x4_p0_all", 32),  # the SM: 1 cycle a wavefront
        ("memory_port_s4_p0_all", 32),
        ("shared_store_load_st_v4_b32", 1),
        ("memory_value_s4_p0_all", 1),  # a stored value is overwritten
        ("memory_mixed_x4_s4_all", 1),
        ("memory_mixed_l1_s4_all", 1),
        ("shared_chase_ld_b32_p128", 1),  # 32 wavefronts
    ],
)
def test_what_a_rule_was_read_from(name: str, warps: int) -> None:
    found = loop(name)
    assert abs(found.on(H100).simulated(warps) / found.cycles[warps] - 1) < 0.02


def test_a_rule_off_is_seen() -> None:
    """Without its rule each of these loops is far from what was measured."""
    for name, warps, change in (
        ("memory_port_s4_p0_c0", 16, {"port_cycles": 1}),
        ("memory_port_x4_p0_c0", 4, {"wavefront_interval": 1}),
        ("memory_value_s4_p0_all", 1, {"operand_latency": 0}),
        ("shared_chase_ld_v4_b32_p16", 1, {"register_latency": 0}),
        ("memory_chase_add_x1_all", 1, {"overlap_latency": 0}),
        ("memory_beside_s4_n4_m8_all", 1, {"port_cycles": 0}),
    ):
        found = loop(name)
        if "overlap_latency" in change:  # the stalls of the machine code hold it already
            found = replace(found, parts=tuple(replace(part, stalls=()) for part in found.parts))
        config = replace(H100, shared=replace(H100.shared, **change))
        assert abs(found.on(config).simulated(warps) / found.cycles[warps] - 1) > 0.03, name


# By hand


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40), st.integers(1, 33)), min_size=1, max_size=30),
    st.integers(1, 3),
    st.integers(0, 3),
)
@settings(max_examples=examples(100), deadline=None)
def test_places(accesses: list[tuple[int, int, int]], cycles: int, interval: int) -> None:
    """Wavefronts never share a cycle, keep their distance, and take the first cycles that are left."""
    rules: Any = SimpleNamespace(wavefronts=1, cycles=cycles, wavefront_interval=interval, lag=0)
    memory = Wavefronts(rules, 0, None)
    taken: set[int] = set()
    now = 0
    for later, ahead, count in accesses:
        now += later
        at, wanted = now + ahead, []
        for _ in range(count):
            while any(cycle in taken for cycle in range(at, at + cycles)):
                at += 1
            wanted.append(at)
            taken |= set(range(at, at + cycles))
            at += interval
        last = memory.place(now + ahead, count, now, True, TAKEN)
        assert (memory.first_placed, last) == (wanted[0], wanted[-1])
    begin = memory.block(now, 50, now)
    assert begin == max(now, max(taken) + 1)
    assert memory.place(begin, 1, now, True, TAKEN) == begin + 50


def test_what_nothing_reads() -> None:
    """Loaded in one run of a loop, overwritten in the next."""
    ins = [
        TimedOperation(Unit.SHARED, 23, 4, (9,), (0,), 0),  # read below
        TimedOperation(Unit.SHARED, 23, 4, (9,), (1,), 0),  # never read
        TimedOperation(Unit.SHARED, 23, 4, (2,), (2,), 0),  # read in the next run
        TimedOperation(Unit.ALU, 4, 2, (0,), (3,), 0),
        TimedOperation(Unit.SHARED, 23, 4, (9,), (3,), 0),  # overwritten by the addition
    ]
    assert unread([*ins, TimedLoop(0, 2, 0, 0)]) == (1, 3)


def test_scoreboards_are_part_of_a_measured_loop() -> None:
    """The fourth product of this step waits for the last load, which shares a scoreboard with its operand."""
    found = loop("gemm_2a4b8_e")
    part = found.parts[0]
    boards = [board for _, board, *_ in part.boards if board >= 0]
    (shared,) = {board for board in boards if boards.count(board) > 1}
    last = max(place for place, (_, board, *_) in enumerate(part.boards) if board == shared)
    freed, _, *awaited = part.boards[last]
    own = (*part.boards[:last], (freed, -1, *awaited), *part.boards[last + 1 :])
    alone = replace(found, parts=(replace(part, boards=own),))
    assert found.on(H100).simulated(1) - alone.on(H100).simulated(1) > 5
