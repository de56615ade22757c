"""Barriers that are not used as they must be, by name: who is missing, which numbers disagree, who waits for whom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simulator
from simulator.check.launch_finding import LaunchFinding
from simulator.check.launches import check_launch
from simulator.program.capture import write_capture
from tests.support.cases import exhaustive

CAPTURES = Path(__file__).parents[2] / "golden" / "sanitizer" / "captures"
HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 D)\n{\n"
DECLARED = (
    ".reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %rd<9>; .shared .align 8 .b64 bar; .shared .align 16 .b8 s[1024];\n"
)
LANE = "mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31; shr.u32 %r3, %r1, 5; ld.param.u64 %rd1, [D]; mov.u32 %r9, bar;\n"
STORE = "mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r2;\n"


def text(body: str) -> str:
    return f"{HEAD}{DECLARED}{LANE}{body}ret;\n}}\n"


def line_of(body: str, part: str) -> int:
    """The line of the module that a part of the body stands in."""
    return text(body)[: text(body).index(part)].count("\n") + 1


def found(tmp_path: Path, body: str, threads: int = 64) -> list[LaunchFinding]:
    """What the check of a kernel of one CTA finds that is no race."""
    path, data = tmp_path / "c.json", np.zeros(128, np.uint32)
    grid, block = (1, 1, 1), (threads, 1, 1)
    write_capture(path, text(body), "k", grid, block, [{"buffer": "D"}], {"D": data}, {}, target="sm_90a")
    return [each for each in check_launch(path).findings if "race" not in each.rule]


def run(body: str, threads: int = 64, **options: Any) -> str:
    """The error with which a kernel ends; "" for none."""
    function = simulator.Module(text(body)).get_function("k")
    try:
        function(1, threads, (np.zeros(128, np.uint32),), **options)
    except simulator.LaunchError as error:
        return str(error)
    return ""


# Barriers of a CTA

HALF = "setp.lt.u32 %p1, %r2, 16;\n"


def test_a_barrier_in_one_half_of_a_warp_names_both_halves(tmp_path: Path) -> None:
    body = f"{HALF}@!%p1 bra OUT;\nbar.sync 0;\nOUT:\n{STORE}bar.sync 0;\n"
    divergent = [each for each in found(tmp_path, body) if each.rule == "barrier-divergence"]
    assert [each.line for each in divergent] == [line_of(body, "bar.sync 0;\nOUT")]
    assert "lanes 0 to 15 of warp 0 come to barrier 0 without lanes 16 to 31" in divergent[0].what
    assert divergent[0].other is not None
    assert divergent[0].other.line == line_of(body, "bar.sync 0;\nret")


RIGHT = {
    "the sides meet before": f"{HALF}@%p1 bra LOW;\nadd.u32 %r4, %r4, 1;\nLOW:\nbar.sync 0;\n{STORE}",
    "some have exited": f"{HALF}@!%p1 ret;\nbar.sync 0;\n{STORE}",
    "some do nothing but exit": f"{HALF}@!%p1 bra OUT;\nbar.sync 0;\n{STORE}OUT:\n",
    "the halves of a warp come one after the other": (
        f"{HALF}mov.u32 %r5, 0;\nL: bar.sync 0;\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p2, %r5, 4;\n@!%p2 bra OUT;\n"
        f"@%p1 bra L;\nadd.u32 %r6, %r6, 1;\nbra L;\nOUT:\n{STORE}"
    ),
    "one warp arrives and one waits": (
        f"setp.eq.u32 %p1, %r3, 0;\n@%p1 bra A;\nbar.sync 1, 64;\nbra OUT;\nA: bar.arrive 1, 64;\nOUT:\n{STORE}"
    ),
}


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_right_barriers_are_not_accused(tmp_path: Path, body: str) -> None:
    assert [each.rule for each in found(tmp_path, body) if each.serious] == []


def test_numbers_of_threads_that_do_not_agree(tmp_path: Path) -> None:
    body = "setp.eq.u32 %p1, %r3, 0;\n@%p1 bra A;\nbar.sync 1, 64;\nbra OUT;\nA:\nbar.arrive 1, 96;\nOUT:\n"
    (mismatch,) = [each for each in found(tmp_path, body) if each.rule == "barrier-mismatch"]
    assert mismatch.other is not None
    assert {mismatch.line, mismatch.other.line} == {line_of(body, "bar.sync 1"), line_of(body, "bar.arrive")}
    assert {"64", "96"} <= set(mismatch.what.split())


def test_more_warps_share_a_barrier_than_it_waits_for(tmp_path: Path) -> None:
    """Warps 0 and 1, and warps 2 and 3, each take the other pair for theirs; with barriers of their own they do not."""
    pairs = "shr.u32 %r4, %r3, 1; add.u32 %r5, %r4, 1;\n"
    assert any(each.rule == "barrier-mismatch" for each in found(tmp_path, "bar.sync 1, 64;\n", threads=128))
    assert not found(tmp_path, f"{pairs}bar.sync %r5, 64;\nbar.sync %r5, 64;\n", threads=128)
    in_turn = (  # one pair after the other: a barrier of all is between
        "setp.lt.u32 %p1, %r3, 2;\n@!%p1 bra A;\nbar.sync 1, 64;\nA: bar.sync 0;\n"
        "@%p1 bra OUT;\nbar.sync 1, 64;\nOUT:\n"
    )
    assert not [each for each in found(tmp_path, in_turn, threads=128) if each.serious]


def test_arrivals_that_nothing_orders_behind_the_use_before(tmp_path: Path) -> None:
    """A producer arrives twice; nothing tells it that the consumer has come to the first use."""
    body = (
        "setp.eq.u32 %p1, %r3, 0;\n@%p1 bra A;\nbar.sync 1, 64;\nbar.sync 1, 64;\nbra OUT;\n"
        "A:\nbar.arrive 1, 64;\nbar.arrive 1, 64;\nOUT:\n"
    )
    assert any(each.rule == "barrier-mismatch" for each in found(tmp_path, body))


def test_syncthreads_that_meet_across_lines_is_a_hidden_note(tmp_path: Path) -> None:
    body = "setp.eq.u32 %p1, %r3, 0;\n@%p1 bra A;\nbar.sync 0;\nbra OUT;\nA:\nbar.sync 0;\nOUT:\n"
    (note,) = found(tmp_path, body)
    assert (note.rule, note.serious) == ("barrier-paired", False)


def test_a_thread_that_its_mask_leaves_out_is_named_where_it_shuffles() -> None:
    findings = check_launch(CAPTURES / "shuffle_halves_mask.json").findings
    assert [(each.rule, each.line) for each in findings if each.serious] == [("warp-mask", 81)]


# mbarriers

INIT = "setp.eq.u32 %p1, %r1, 0;\n@%p1 mbarrier.init.shared.b64 [%r9], 1;\nbar.sync 0;\n"
WAIT = "W{n}: mbarrier.try_wait.parity.shared.b64 %p2, [%r9], {parity};\n@!%p2 bra W{n};\n"
EXPECT = "@%p1 mbarrier.arrive.expect_tx.shared.b64 %rd5, [%r9], {bytes};\n"
COPY = (
    "mov.u32 %r10, s;\n"
    "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%rd1], 256, [%r9];\n"
)
READ = "ld.shared.u32 %r2, [%r10];\n" + STORE


def test_bytes_that_no_copy_brings(tmp_path: Path) -> None:
    body = INIT + EXPECT.format(bytes=512) + COPY + WAIT.format(n=0, parity=0) + READ
    findings = {each.rule: each for each in found(tmp_path, body)}
    expect, copy, wait = (line_of(body, part) for part in ("@%p1 mbarrier.arrive", "@%p1 cp.async", "W0: mbar"))
    assert f"line {expect} announces 512 bytes, the copies of line {copy} bring 256" in findings["deadlock"].what
    assert "warps 0, 1 wait" in findings["deadlock"].what
    assert findings["deadlock"].line == wait
    assert set(findings["deadlock"].also) == {expect, copy}
    assert findings["expect-tx-mismatch"].line == expect
    right = INIT + EXPECT.format(bytes=256) + COPY + WAIT.format(n=0, parity=0) + READ
    assert not [each for each in found(tmp_path, right) if each.serious]


def test_a_wait_that_does_not_wait_is_said_where_its_bytes_are_read(tmp_path: Path) -> None:
    body = INIT + WAIT.format(n=0, parity=1) + EXPECT.format(bytes=256) + COPY + "bar.sync 0;\n" + READ
    (pending,) = [each for each in found(tmp_path, body) if each.rule == "async-pending"]
    wait = line_of(body, "W0: mbar")
    assert f"the wait at line {wait} does not wait: it asks for the phase before the first" in pending.what
    assert wait in pending.also


def test_a_second_wait_for_a_phase_is_a_hidden_note(tmp_path: Path) -> None:
    body = INIT + EXPECT.format(bytes=256) + COPY + WAIT.format(n=0, parity=0) + READ + WAIT.format(n=1, parity=0)
    (note,) = found(tmp_path, body)
    assert (note.rule, note.line, note.serious) == ("mbarrier-phase-reused", line_of(body, "W1: mbar"), False)


# Who waits for whom


def test_all_groups_that_wait_are_named_with_what_they_wait_for() -> None:
    body = (
        "setp.eq.u32 %p1, %r3, 0;\nsetp.eq.u32 %p2, %r3, 1;\n@%p1 bra A;\n@%p2 bra B;\nbar.sync 2, 128;\nbra OUT;\n"
        "A:\nbar.sync 1, 64;\nbra OUT;\nB: ld.volatile.global.u32 %r4, [%rd1+8];\nsetp.eq.u32 %p3, %r4, 0;\n"
        "@%p3 bra B;\nOUT:\n"
    )
    said = run(body, threads=128, budget=10_000_000)
    for part in ("warp 0 waits at barrier 1", "for 32 more of its 64 threads", "warps 2, 3 wait at barrier 2"):
        assert part in said
    assert "for 64 more of its 128 threads" in said
    assert "warp 1 waits at line" in said
    assert "for bytes 8 to 11 of buffer 'D', which hold 0, and nobody writes there" in said


LOOP = "L: {look}\nsetp.eq.u32 %p3, %r4, {value};\n@%p3 bra L;\n"


@exhaustive
@pytest.mark.parametrize(
    ("look", "value"),
    [
        ("ld.volatile.global.u32 %r4, [%rd1];", 0),
        ("ld.global.u32 %r4, [%rd1];", 0),
        ("atom.global.cas.b32 %r4, [%rd1], 1, 5;", 0),
        ("atom.global.add.u32 %r4, [%rd1], 0;", 0),
        ("nanosleep.u32 20; ld.acquire.gpu.global.u32 %r4, [%rd1];", 0),
        ("ld.volatile.shared.u32 %r4, [%r9]; bar.sync 0;", 0),
    ],
)
def test_a_loop_that_waits_for_what_nobody_writes_is_given_up_early(look: str, value: int) -> None:
    said = run(LOOP.format(look=look, value=value), budget=3_000_000)
    assert "deadlock: warps 0, 1 " in said


GOES_ON = {
    "a warp computes for long before it writes": (
        "setp.eq.u32 %p1, %r3, 0;\n@%p1 bra L;\nmov.u32 %r5, 0;\nC: add.u32 %r5, %r5, 1;\n"
        "setp.lt.u32 %p2, %r5, 60000;\n@%p2 bra C;\nst.volatile.global.u32 [%rd1], 1;\nbra OUT;\n"
        "L: ld.volatile.global.u32 %r4, [%rd1];\nsetp.eq.u32 %p3, %r4, 0;\n@%p3 bra L;\nOUT:\n"
    ),
    "all give up after many attempts": (
        "mov.u32 %r5, 0;\nL: nanosleep.u32 20;\nld.volatile.global.u32 %r4, [%rd1];\nadd.u32 %r5, %r5, 1;\n"
        "setp.lt.u32 %p2, %r5, 9000;\nsetp.eq.and.u32 %p3, %r4, 0, %p2;\n@%p3 bra L;\n"
    ),
    "attempts at an mbarrier": (
        f"{INIT}mov.u32 %r5, 0;\nL: mbarrier.try_wait.parity.shared.b64 %p2, [%r9], 0;\nadd.u32 %r5, %r5, 1;\n"
        "setp.lt.and.u32 %p3, %r5, 9000, !%p2;\n@%p3 bra L;\n"
    ),
    "by the clock": (
        "mov.u64 %rd4, %clock64;\nL: ld.volatile.global.u32 %r4, [%rd1];\nmov.u64 %rd5, %clock64;\n"
        "sub.u64 %rd6, %rd5, %rd4;\nsetp.lt.u64 %p3, %rd6, 40000;\n@%p3 bra L;\n"
    ),
    "a lock that each lane takes in turn": (
        "L: atom.global.cas.b32 %r4, [%rd1], 0, 1;\nsetp.ne.u32 %p3, %r4, 0;\n@%p3 bra L;\nmembar.gl;\n"
        "atom.global.exch.b32 %r4, [%rd1], 0;\n"
    ),
}


@pytest.mark.parametrize("body", GOES_ON.values(), ids=GOES_ON)
def test_what_goes_on_is_never_given_up(body: str) -> None:
    assert run(body, budget=50_000_000) == ""
