"""Sub-cores that share nothing are timed apart: the results are those of whole runs. Random programs are compared in
test_front.py."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest

from simulator.chip.config import load_config
from simulator.simulation.session import Session
from simulator.studies.validation.programs import programs
from simulator.studies.validation.streams import Loop, repeated
from simulator.timing import lengths as both
from simulator.timing import run
from simulator.timing.apart import Part, parts
from simulator.timing.run import simulate
from tests.support.cases import exhaustive

H100 = load_config("h100_sxm")
TRACE = """
.trace 1
.target sm_90a
.warps {warps}
.shared 4096
.warp {last} {{
.repeat 40 {{
{body}
}}
}}
"""
D, A, B = "{%r0, %r1, %r2, %r3}", "{%r4, %r5, %r6, %r7}", "{%r8, %r9}"
MATRIX = f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {D}, {A}, {B}, {D};"


def cut(body: str, warps: int, starts: tuple[int, ...] = ()) -> list[Part]:
    session = Session(
        TRACE.format(warps=warps, last=f"0-{warps - 1}" if warps > 1 else 0, body=body).lstrip(),
        "h100_sxm",
        arithmetic="none",
    )
    return parts(session._compiled, 4, warps, starts)


def test_what_is_cut() -> None:
    (part,) = cut(MATRIX, 8)
    assert part.warps == {0: [0, 4], 1: [1, 5], 2: [2, 6], 3: [3, 7]}
    assert [code.warps for code in part.codes] == [(0, 1)]
    assert [[*part.warps] for part in cut(MATRIX, 5)] == [[0], [1, 2, 3]]
    assert [[*part.warps] for part in cut(MATRIX, 4, (0, 7, 0, 7))] == [[0, 2], [1, 3]]
    assert not cut(MATRIX, 1)
    assert not cut(f"{MATRIX} bar.sync 0;", 8)
    assert not cut(f"{MATRIX} ld.shared.b32 %r10, [%r11];", 8)


def loops() -> list[tuple[Loop, dict[str, list[int]]]]:
    """Some measured loops, and when their warps begin."""
    found = programs(330)
    return [(Loop.of(H100, tuple(each["body"])), each.get("begins", {})) for each in found]


@exhaustive
@pytest.mark.parametrize("warps", [5, 12, 32])
def test_whole_and_apart(warps: int) -> None:
    for loop, begins in loops():
        starts = begins.get(str(warps)) or loop.staggered(warps)
        code = repeated(loop.code, range(warps), 96)
        found = simulate(H100, [code], warps, starts=starts)
        with mock.patch.object(run, "parts", return_value=[]):
            whole = simulate(H100, [code], warps, starts=starts)
        assert replace(found, skipped=0) == replace(whole, skipped=0)
        assert found.skipped >= 0


def test_one_warp_is_over_before_the_other_begins() -> None:
    loop, _ = loops()[0]
    code, starts = repeated(loop.code, range(5), 1), (0, 0, 0, 0, 100_000)
    found = both.lengths(H100, code, (3, 9), 5, starts=starts, programs=loop.programs)
    assert found == tuple(loop.cycles(5, count, starts) for count in (3, 9))
    assert found[0] > 100_000


def test_runs_that_are_known() -> None:
    """Sub-cores whose warps begin alike, but later, are simulated once: two warps each on 5, 6 and 8 of them."""
    loop, _ = loops()[0]
    known: both.Known = {}
    for warps in (5, 6, 8):
        begins = [3 * (warp % 4) + 20 * (warp // 4) for warp in range(warps)]
        found = both.lengths(
            H100,
            repeated(loop.code, range(warps), 1),
            (3, 9),
            warps,
            starts=begins,
            programs=loop.programs,
            known=known,
        )
        assert found == tuple(loop.cycles(warps, count, begins) for count in (3, 9))
    assert set(known) == {(1, (3, 9), (0, 20)), (1, (3, 9), (0,))}
