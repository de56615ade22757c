"""Kernels whose lanes part, exchange data under masks and meet again: drawn ones beside a model of single lanes and
beside what a GPU gave, and small ones with the right answer written down."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

import simulator
from measurements.diverged import CTAS, THREADS, digest, text
from tests.support.cases import examples, exhaustive
from tests.support.diverged_lanes import expected
from tests.support.paths import GOLDEN

MEASURED = GOLDEN / "diverged_h100.json.gz"


def launched(seed: int) -> list[int]:
    out = np.zeros(CTAS * THREADS, np.uint32)
    report = simulator.Module(text(seed)).get_function("k")((CTAS,), (THREADS,), (out,))
    assert not report.undefined
    return [int(word) for word in out]


@exhaustive
def test_drawn_kernels_give_what_single_lanes_give() -> None:
    for seed in range(examples(400, 10)):
        assert launched(seed) == expected(seed, order=seed), seed


@exhaustive
@pytest.mark.skipif(not MEASURED.exists(), reason="nothing is recorded")
def test_drawn_kernels_give_what_a_gpu_gave() -> None:
    rows = json.loads(gzip.decompress(MEASURED.read_bytes()))
    for row in rows[: examples(len(rows), 10)]:
        assert digest(text(row["seed"])) == row["digest"]
        if row["words"] is not None:
            assert launched(row["seed"]) == row["words"], row["seed"]


HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
HALVES = "mov.u32 %r1, %laneid; setp.lt.u32 %p1, %r1, 16; ld.param.u64 %rd1, [D]; mul.wide.u32 %rd2, %r1, 4;"
STORED = "add.u64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r9; ret;"


def result(body: str, budget: int = 200_000) -> list[int]:
    """The words that the 32 lanes of a kernel leave."""
    kernel = f"{HEAD}.visible .entry k(.param .u64 D) {{\n.reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<8>;\n"
    out = np.zeros(33, np.uint32)
    report = simulator.Module(f"{kernel}{body}\n}}\n").get_function("k")(1, 32, (out,), budget=budget)
    assert not report.undefined
    return [int(word) for word in out[:32]]


def test_a_mask_waits_for_lanes_that_have_not_yet_set_their_mask() -> None:
    """Lanes wait for those that the masks of the arrived name, whatever the registers of the others hold so far."""
    found = result(
        f"{HALVES} @%p1 bra LOW; mov.u32 %r2, 0xffff0000; redux.sync.add.u32 %r3, %r1, %r2; bra.uni OUT;\n"
        "LOW: mov.u32 %r2, 0xffff; redux.sync.max.u32 %r3, %r1, %r2; redux.sync.max.u32 %r3, %r3, %r2;\n"
        f"OUT: mov.u32 %r4, -1; redux.sync.add.u32 %r9, %r3, %r4; {STORED}"
    )
    assert found == [16 * 15 + 16 * sum(range(16, 32))] * 32


def test_lanes_at_different_places_meet() -> None:
    """The same opcode and mask: bar.warp.sync, shfl, vote, match and redux, constants on one side alone."""
    for opcode, low, high, right in (
        ("bar.warp.sync", "-1", "%r5", lambda lane: 0),
        ("shfl.sync.bfly.b32", "%r9, %r1, 16, 31, -1", "%r9, %r6, %r7, %r8, %r5",
         lambda lane: lane + 16 if lane < 16 else lane - 15),
        ("vote.sync.ballot.b32", "%r9, 1, -1", "%r9, !%p2, %r5", lambda lane: 0x00FFFFFF),
        ("match.any.sync.b32", "%r9, 3, -1", "%r9, %r4, %r5", lambda lane: 0x0008FFFF if lane in (*range(16), 19)
         else 1 << lane),
        ("redux.sync.add.u32", "%r9, 1, -1", "%r9, %r4, %r5", lambda lane: 16 + sum(range(16))),
    ):  # fmt: skip
        found = result(
            f"{HALVES} mov.u32 %r9, 0; @%p1 bra LOW; sub.u32 %r4, %r1, 16; mov.u32 %r5, -1; add.u32 %r6, %r1, 0;"
            f"mov.u32 %r7, 16; mov.u32 %r8, 31; setp.ge.u32 %p2, %r1, 24; {opcode} {high}; bra.uni OUT;\n"
            f"LOW: add.u32 %r1, %r1, 1; {opcode} {low};\nOUT: {STORED}"
        )
        assert found == [right(lane) for lane in range(32)], opcode


def test_masks_that_differ_within_one_instruction() -> None:
    """Each half exchanges under its own mask, although both stand at one place."""
    found = result(f"{HALVES} selp.b32 %r2, 0xffff, 0xffff0000, %p1; redux.sync.add.u32 %r9, %r1, %r2; {STORED}")
    assert found == [sum(range(16))] * 16 + [sum(range(16, 32))] * 16


def test_lanes_that_have_exited_or_are_held_back_are_not_waited_for() -> None:
    """PTX waits for the threads of the mask that have not exited; a guard that is false passes by."""
    found = result(
        f"{HALVES} mov.u32 %r9, 0; setp.gt.u32 %p2, %r1, 27; @%p2 ret; vote.sync.ballot.b32 %r9, 1, -1;"
        f"@%p1 bar.warp.sync 0xffff; {STORED}"
    )
    assert found == [0x0FFFFFFF] * 28 + [0] * 4


def test_a_lane_that_spins_does_not_starve_the_one_that_it_waits_for() -> None:
    """A lock of a warp, taken by each lane in turn, and a flag that another lane of the warp sets."""
    lock = result(
        f"{HALVES} AGAIN: atom.global.cas.b32 %r2, [%rd1+128], 0, 1; setp.ne.u32 %p2, %r2, 0; @%p2 bra AGAIN;"
        f"add.u32 %r9, %r1, 7; membar.gl; atom.global.exch.b32 %r2, [%rd1+128], 0; {STORED}"
    )
    flag = result(
        f"{HALVES} setp.eq.u32 %p2, %r1, 31; @%p2 bra SETS;\nSPIN: ld.global.u32 %r9, [%rd1+128];"
        f"setp.eq.u32 %p3, %r9, 0; @%p3 bra SPIN; bra.uni OUT;\n"
        f"SETS: mov.u32 %r9, 5; st.global.u32 [%rd1+128], %r9;\nOUT: {STORED}",
        budget=5_000_000,
    )
    assert lock == list(range(7, 39))
    assert flag == [5] * 32


def test_a_real_deadlock_says_who_waits_for_whom() -> None:
    with pytest.raises(simulator.LaunchError) as error:
        result(f"{HALVES} @%p1 bra LOW; bar.warp.sync -1; bra.uni OUT;\nLOW: bar.warp.sync 0x1ffff;\nOUT: {STORED}")
    assert "lanes 0 to 15 of warp 0 wait at 'bar.warp.sync 0x1ffff;' for lane 16" in str(error.value)
    assert "lane 16 waits at line 6, 'bar.warp.sync -1;', with mask 0xffffffff" in str(error.value)


def test_a_load_from_a_constant_shared_address_is_timed() -> None:
    text = (
        f"{HEAD}.visible .entry k(.param .u64 D) {{\n.reg .b32 %r<4>; .reg .b64 %rd<4>; .shared .align 4 .b32 flag;\n"
        "mov.u32 %r1, 9; st.shared.u32 [flag], %r1; bar.warp.sync -1; ld.shared.u32 %r2, [flag];"
        "ld.param.u64 %rd1, [D]; st.global.u32 [%rd1], %r2; ret;\n}\n"
    )
    out = np.zeros(1, np.uint32)
    assert simulator.Module(text).get_function("k")(1, 32, (out,), config="h100_sxm").cycles
    assert out.tolist() == [9]
