"""wgmma in launches: what the captures of a GPU (tests/golden/launches/wgmma_*) do not show."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import simulator
from isa.shared_memory.hopper import WgmmaDescriptor
from simulator.check.launches import check_launch
from tests.support.paths import GOLDEN

HEAD = """.version 8.4
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u64 S, .param .u64 D) {
.reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<8>; .reg .f32 %f<8>;
ld.param.u64 %rd1, [S]; ld.param.u64 %rd2, [D];
mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 16; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
shr.u32 %r2, %r1, 5; setp.eq.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r2, 2; setp.lt.u32 %p3, %r1, 16;
mov.u32 %r10, 0; mov.u32 %r11, 0; mov.u32 %r12, 0; mov.u32 %r13, 0;
mov.u32 %r3, smem; shl.b32 %r4, %r1, 4; add.u32 %r3, %r3, %r4;
ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%rd4]; st.shared.v4.u32 [%r3], {%r5, %r6, %r7, %r8};
fence.proxy.async.shared::cta; bar.sync 0;
"""
TAIL = "st.global.v4.u32 [%rd5], {%r10, %r11, %r12, %r13}; ret; }"
D = "{%r10, %r11, %r12, %r13}"
A_WORD, B_WORD = (WgmmaDescriptor(start_address=at, leading_offset=128, stride_offset=256).encode() for at in (0, 2048))
PRODUCT = f"wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.u8 {D}, {A_WORD}, {B_WORD}, 1;"


def run(body: str, threads: int = 256, data: NDArray[np.uint8] | None = None) -> NDArray[np.uint32]:
    """What each thread has in the four registers of D: uint32 [thread, 4]; the first `threads` * 16 bytes of shared
    memory hold `data`."""
    d = np.zeros((threads, 4), np.uint32)
    memory = np.zeros(threads * 16, np.uint8) if data is None else data
    function = simulator.Module(f"{HEAD}{body}\n{TAIL}").get_function("k")
    function(1, threads, (memory, d), shared_mem=8192, config=None)
    return d


def matrix(d: NDArray[np.uint32], group: int = 0) -> NDArray[np.uint32]:
    """D [64, 8] of a warpgroup from the registers of its threads, by PTX's figure."""
    out = np.zeros((64, 8), np.uint32)
    for thread in range(128):
        for i in range(4):
            row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (i // 2)
            out[row, thread % 4 * 2 + i % 2] = d[128 * group + thread, i]
    return out


def stored(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Bytes of shared memory with A [64, 32] at 0 and B^T [8, 32] at 2048, in core matrices of 8 x 16 bytes."""
    data = np.zeros(4096, np.uint8)
    for start, rows in ((0, a), (2048, b)):
        for row, line in enumerate(rows):
            for half in (0, 1):
                at = start + row // 8 * 256 + half * 128 + row % 8 * 16
                data[at : at + 16] = line[16 * half : 16 * half + 16]
    return data


@pytest.fixture(scope="module")
def operands() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    generator = np.random.default_rng(3)
    return generator.integers(0, 256, (64, 32), dtype=np.uint8), generator.integers(0, 256, (8, 32), dtype=np.uint8)


WAYS = {
    "together": PRODUCT,
    "warps that come one after another": f"@%p1 bra A; @%p2 bra B; bra C; A: add.u32 %r20, %r1, 1; bra C;"
    f"B: mul.lo.u32 %r20, %r1, 3; bra C; C: {PRODUCT}",
    "a warp whose lanes part before": f"@%p3 bra A; add.u32 %r20, %r1, 1; A: {PRODUCT}",
    "a warp that waits at a barrier first": f"@!%p1 bra C; bar.sync 1, 64; C: @%p2 bar.sync 1, 64; {PRODUCT}",
}


@pytest.mark.parametrize("body", WAYS.values(), ids=WAYS)
def test_warps_that_come_apart_meet(body: str, operands: tuple[NDArray[np.uint8], NDArray[np.uint8]]) -> None:
    a, b = operands
    d = run(body, data=stored(a, b))
    expected = a.astype(np.uint32) @ b.T.astype(np.uint32)
    assert (matrix(d) == expected).all()
    assert (matrix(d, 1) == expected).all()


def test_warpgroups_go_their_own_ways(operands: tuple[NDArray[np.uint8], NDArray[np.uint8]]) -> None:
    """The second warpgroup multiplies twice, behind a branch that the first does not take; scale-d 0 forgets D."""
    a, b = operands
    twice = f"setp.lt.u32 %p4, %r1, 128; {PRODUCT} @%p4 bra E; {PRODUCT} E:"
    d, expected = run(twice, data=stored(a, b)), a.astype(np.uint32) @ b.T.astype(np.uint32)
    assert (matrix(d) == expected).all()
    assert (matrix(d, 1) == 2 * expected).all()
    again = f"{PRODUCT} {PRODUCT.replace(', 1;', ', %p4;')}"
    d = run(f"setp.ge.u32 %p4, %r1, 128; {again}", data=stored(a, b))
    assert (matrix(d) == expected).all()
    assert (matrix(d, 1) == 2 * expected).all()


def test_accumulators_live_through_a_loop(operands: tuple[NDArray[np.uint8], NDArray[np.uint8]]) -> None:
    """The first product overwrites D by a predicate, later ones add to it: no other register of the loop may have the
    numbers of D's."""
    a, b = operands
    others = "".join(f"mad.lo.u32 %q{n}, %r1, {n}, %r20; " for n in range(40))
    used = "".join(f"xor.b32 %r21, %r21, %q{n}; " for n in range(40))
    body = (
        f".reg .b32 %q<40>, %d<4>; mov.u32 %r20, 0; mov.u32 %r21, 0; setp.ne.u32 %p4, %r1, %r1; LOOP: {others} {used}"
        f"{PRODUCT.replace(', 1;', ', %p4;').replace('%r1', '%d')} setp.eq.u32 %p4, %r1, %r1; add.u32 %r20, %r20, 1;"
        "setp.lt.u32 %p5, %r20, 3; @%p5 bra LOOP; setp.eq.u32 %p6, %r21, 12345; @%p6 trap;"
        "mov.u32 %r10, %d0; mov.u32 %r11, %d1; mov.u32 %r12, %d2; mov.u32 %r13, %d3;"
    )
    assert (matrix(run(body, data=stored(a, b))) == 3 * (a.astype(np.uint32) @ b.T.astype(np.uint32))).all()


def test_named_barriers_have_a_time() -> None:
    """The number is in a register. A warp that syncs begins its work when the other, which works before, arrives; one
    that arrives goes on, and works at the same time."""
    adds = "add.u32 %r3, %r3, 1; " * 200

    def cycles(meeting: str, adds: str) -> int:
        text = (
            ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k() { .reg .pred %p<2>; .reg .b32 %r<4>;\n"
            "mov.u32 %r1, %tid.x; mov.u32 %r2, 1; mov.u32 %r3, 1; setp.ge.u32 %p1, %r1, 32; @%p1 bra B;\n"
            f"{meeting} %r2, 64; {adds} bra E; B: {adds} bar.sync %r2, 64;\n"
            "E: setp.eq.u32 %p1, %r3, 0; @%p1 trap; ret; }"
        )
        timing = simulator.Module(text).get_function("k")(1, 64, (), config="h100_sxm", workers=1).timing
        assert timing is not None
        return timing.cycles

    two, one = (cycles(meeting, adds) - cycles(meeting, "") for meeting in ("bar.sync", "bar.arrive"))
    assert two == pytest.approx(2 * one, rel=0.05)


def test_guards_hold_warpgroups_back(operands: tuple[NDArray[np.uint8], NDArray[np.uint8]]) -> None:
    a, b = operands
    d = run(f"setp.ge.u32 %p4, %r1, 128; @%p4 {PRODUCT}", data=stored(a, b))
    assert not matrix(d).any()
    assert (matrix(d, 1) == a.astype(np.uint32) @ b.T.astype(np.uint32)).all()


def test_bits(operands: tuple[NDArray[np.uint8], NDArray[np.uint8]]) -> None:
    """b1: the ones of the AND of 256 bits; no capture has it."""
    a, b = operands
    d = run(f"wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {D}, {A_WORD}, {B_WORD}, 1;", data=stored(a, b))
    assert (matrix(d) == np.bitwise_count(a[:, None] & b).sum(axis=2)).all()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("body", "threads", "words"),
    [
        (f"@%p1 bra E; {PRODUCT} E:", 256, "waits for warp 0 of its warpgroup"),
        (f"@%p1 ret; {PRODUCT}", 256, "waits for warp 0 of its warpgroup"),
        (f"@%p3 bra E; {PRODUCT} E:", 128, "waits for warp 0 of its warpgroup"),
        (PRODUCT, 96, "waits for warp 3 of its warpgroup; the CTA has 3 warps"),
        (PRODUCT.replace(str(A_WORD), str(0x3FFF)), 128, "the matrix reaches byte|outside of the"),
    ],
)
def test_what_never_comes_together_is_an_error(body: str, threads: int, words: str) -> None:
    with pytest.raises(simulator.LaunchError, match=words):
        run(body, threads)


def test_uneven_descriptors_and_undefined_metadata_are_counted_or_raise() -> None:
    """The first thread's descriptor counts; metadata 0 selects column 0 twice."""
    sparse = f"wgmma.mma_async.sp.sync.aligned.m64n8k64.s32.u8.u8 {D}, {A_WORD}, {B_WORD}, %r13, 0, 1;"
    function = simulator.Module(
        f"{HEAD}cvt.u64.u32 %rd6, %r1; {PRODUCT.replace(str(B_WORD), '%rd6')} mov.u32 %r13, 0; {sparse}\n{TAIL}"
    ).get_function("k")
    arguments = np.zeros(4096, np.uint8), np.zeros((256, 4), np.uint32)
    report = function(1, 256, arguments, shared_mem=8192, config=None)
    assert dict(report.undefined) == {"uneven-operand": 2, "invalid-metadata": 2}
    assert (report.tensor_instructions, report.fma) == (4, 2 * 64 * 8 * (32 + 64))
    with pytest.raises(simulator.LaunchError, match="must be the same in the whole warp"):
        function(1, 256, arguments, shared_mem=8192, config=None, undefined="raise")


def findings(folder: Path, body: str) -> list[str]:
    """What `tcsim check` finds in a kernel, by rule, but for bank conflicts."""
    (folder / "k.ptx").write_text(f"{HEAD}{body}\n{TAIL}")
    buffer = {"bytes": 4096, "type": "uint32", "shape": [1024], "zero": True}
    capture = {
        "name": "k", "ptx": "k.ptx", "entry": "k", "target": "sm_90a", "grid": [1, 1, 1], "block": [256, 1, 1],
        "dynamic_shared": 8192, "params": [{"buffer": "S"}, {"buffer": "D"}], "data": None,
        "buffers": {"S": buffer, "D": buffer | {"output": True}},
    }  # fmt: skip
    (folder / "k.json").write_text(json.dumps(capture))
    return [each.rule for each in check_launch(folder / "k.json").findings if each.rule != "bank-conflict"]


FENCE, COMMIT, WAIT = (f"wgmma.{name};" for name in ("fence.sync.aligned", "commit_group.sync.aligned",
                                                     "wait_group.sync.aligned 0"))  # fmt: skip
IN_REGISTERS = PRODUCT.replace(str(A_WORD), "{%r5, %r6, %r7, %r8}")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"{FENCE} {PRODUCT} {PRODUCT} {COMMIT} {WAIT}", []),
        (f"{FENCE} {IN_REGISTERS} {COMMIT} {WAIT} mov.u32 %r5, 1;", []),
        (f"{PRODUCT} {COMMIT} {WAIT}", ["wgmma-unfenced"]),
        (f"{FENCE} {PRODUCT} {COMMIT} {WAIT} add.u32 %r11, %r11, 1; {PRODUCT} {COMMIT} {WAIT}", ["wgmma-unfenced"]),
        (f"{FENCE} {PRODUCT} {COMMIT}", ["wgmma-pending"]),
        (f"{FENCE} {PRODUCT} {WAIT}", ["wgmma-pending"]),
        (f"{FENCE} {PRODUCT} {COMMIT} {WAIT.replace('0', '1')}", ["wgmma-pending"]),
        (f"{FENCE} {PRODUCT} {COMMIT} {PRODUCT} {COMMIT} {WAIT.replace('0', '1')}", ["wgmma-pending"]),
        (f"{FENCE} {IN_REGISTERS} {COMMIT} mov.u32 %r5, 1; {WAIT}", ["wgmma-pending"]),
        (f"{FENCE} {IN_REGISTERS} {COMMIT} add.u32 %r20, %r5, 1; {WAIT}", []),
        (f"{FENCE} {PRODUCT} {COMMIT} {WAIT} st.shared.u32 [%r3], %r1;", ["shared-memory-race"]),
    ],
)
def test_what_registers_and_memory_of_products_may_not_do(tmp_path: Path, body: str, expected: list[str]) -> None:
    assert findings(tmp_path, body) == expected


def test_a_config_without_times_for_it() -> None:
    with pytest.raises(simulator.ConfigError, match=r"not available on sm_80|has no times for 'wgmma"):
        simulator.launch(GOLDEN / "launches" / "wgmma_tf32.json", config="a100")
