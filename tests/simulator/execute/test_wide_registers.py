"""Registers of 128 bits, accesses of 256, vector atomics, refused requests for clusters, and what is not executed: by
kernels, against what PTX's text says."""

from __future__ import annotations

import subprocess
from shutil import which

import numpy as np
import pytest
from numpy.typing import NDArray

import simulator

Words = NDArray[np.uint32]
HEAD = """.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 p) {{
.reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<19>; .reg .f32 %f<9>; .reg .b64 %rd<9>; .reg .b128 %rq<9>, wide;
.shared .align 128 .b8 s[256];
ld.param.u64 %rd1, [p];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd3, %r1, 16;
add.u64 %rd2, %rd1, %rd3;
"""


def ran(body: str, data: Words, threads: int = 1, target: str = "sm_90a") -> Words:
    """The words that a kernel leaves in its buffer."""
    text = f"{HEAD.format(target=target)}{body}\nret;\n}}\n"
    if which("ptxas"):
        done = subprocess.run(["ptxas", "-arch", target, "-", "-o", "/dev/null"], input=text, text=True, check=False,
                              capture_output=True)  # fmt: skip
        assert done.returncode == 0, done.stderr
    found = data.copy()
    simulator.Module(text).get_function("k")((1, 1, 1), (threads, 1, 1), (found,))
    return found


def test_moves_loads_and_stores_of_128_bits() -> None:
    """Words 0 1 2 3 of each thread become 2 3 0 1 by halves, and 3 2 1 0 by words through shared memory."""
    data = np.arange(32, dtype=np.uint32)
    swapped = """ld.global.b128 %rq1, [%rd2];
    mov.b128 {%rd4, %rd5}, %rq1;
    mov.b128 wide, {%rd5, %rd4};
    st.global.b128 [%rd2], wide;"""
    np.testing.assert_array_equal(ran(swapped, data, 8).reshape(-1, 4), data.reshape(-1, 4)[:, [2, 3, 0, 1]])
    reversed_ = """ld.global.b128 %rq1, [%rd2];
    mov.b128 {%r2, %r3, %r4, %r5}, %rq1;
    mov.b128 %rq2, {%r5, %r4, %r3, %r2};
    mov.u32 %r6, s; cvt.u32.u64 %r7, %rd3; add.u32 %r6, %r6, %r7;
    st.shared.b128 [%r6], %rq2;
    ld.shared.b128 %rq3, [%r6];
    mov.b128 {_, %rd5}, %rq3;
    mov.b128 {%rd4, _}, %rq3;
    st.global.v2.b64 [%rd2], {%rd4, %rd5};"""
    np.testing.assert_array_equal(ran(reversed_, data, 8).reshape(-1, 4), data.reshape(-1, 4)[:, ::-1])


@pytest.mark.parametrize(("space", "place"), [("global", "%rd1"), ("shared", "s"), ("shared::cluster", "s")])
def test_atomics_of_128_bits(space: str, place: str) -> None:
    """cas takes 128 bits for equal if both halves are; exch and cas give what was there."""
    body = f"""ld.global.b128 %rq1, [%rd1];
    st.{space}.b128 [{place}], %rq1;
    ld.global.b128 %rq2, [%rd1+16];
    atom.{space}.cas.b128 %rq3, [{place}], %rq2, %rq2;
    st.global.b128 [%rd1+32], %rq3;
    atom.{space}.cas.b128 %rq3, [{place}], %rq1, %rq2;
    atom.{space}.exch.b128 %rq4, [{place}], 5;
    ld.{space}.b128 %rq5, [{place}];
    st.global.b128 [%rd1+48], %rq3;
    st.global.b128 [%rd1+64], %rq4;
    st.global.b128 [%rd1+80], %rq5;"""
    first, second = [1, 2, 3, 4], [1, 2, 3, 9]  # the low halves are equal
    data = np.array([*first, *second, *[0] * 16], np.uint32)
    found = ran(body, data).reshape(-1, 4).tolist()
    assert found[2:] == [first, first, second, [5, 0, 0, 0]]


def test_loads_and_stores_of_256_bits() -> None:
    data = np.arange(32, dtype=np.uint32)
    body = """ld.global.v8.b32 {%r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9}, [%rd1];
    st.global.v8.b32 [%rd1+32], {%r9, %r8, %r7, %r6, %r5, %r4, %r3, %r2};
    ld.global.nc.L2::evict_first.v4.b64 {%rd4, %rd5, %rd6, %rd7}, [%rd1+64];
    st.relaxed.gpu.global.L1::no_allocate.v4.b64 [%rd1+96], {%rd7, _, %rd5, %rd6};"""
    found = ran(body, data, target="sm_100a")
    np.testing.assert_array_equal(found[8:16], data[:8][::-1])
    np.testing.assert_array_equal(found[24:], [22, 23, 26, 27, 18, 19, 20, 21])  # `_` leaves what is there


def test_vector_atomics() -> None:
    """Two threads add to the same four elements; what they get back is what was there."""
    body = """mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000; mov.f32 %f3, 0f00000000; mov.f32 %f4, 0fBF800000;
    atom.global.add.v4.f32 {%f5, %f6, %f7, %f8}, [%rd1+32], {%f1, %f2, %f3, %f4};
    st.global.v4.f32 [%rd2], {%f5, %f6, %f7, %f8};
    mov.b32 %r2, 0x3C004000;
    red.global.add.noftz.v2.f16x2 [%rd1+48], {%r2, %r2};"""
    data = np.zeros(16, np.uint32)
    data[8:12] = np.array([1, 1, 1, 1], np.float32).view(np.uint32)
    found = ran(body, data, 2)
    steps = np.array([1, 2, 0, -1], np.float32)
    assert found[:12].view(np.float32).reshape(3, 4).tolist() == [
        [1, 1, 1, 1],
        (1 + steps).tolist(),
        (1 + 2 * steps).tolist(),
    ]
    assert found[12:].tolist() == [0x40004400, 0x40004400, 0, 0]


def test_refused_request_for_a_cluster() -> None:
    """The response completes its 16 bytes on the mbarrier, and says that no cluster was cancelled."""
    body = """mov.u32 %r2, s; st.shared.b32 [s], -1;
    mbarrier.init.shared.b64 [s+16], 1;
    mbarrier.arrive.expect_tx.shared.b64 _, [s+16], 16;
    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r2], [%r2+16];
    WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [s+16], 0; @!%p1 bra WAIT;
    ld.shared.b128 %rq1, [s];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %rq1;
    selp.u32 %r3, 1, 2, %p2;
    @%p2 clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r3, %rq1;
    st.global.u32 [%rd1], %r3;"""
    assert ran(body, np.zeros(4, np.uint32), target="sm_100a").tolist() == [2, 0, 0, 0]


def test_maps_are_copied_to_global_memory() -> None:
    body = """mov.u32 %r2, s; cvt.u32.u64 %r3, %rd3; add.u32 %r2, %r2, %r3;
    ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd2]; st.shared.v4.b32 [%r2], {%r4, %r5, %r6, %r7};
    bar.sync 0; mov.u32 %r2, s;
    add.u64 %rd4, %rd1, 512;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd4], [%r2], 128;"""
    data = np.arange(160, dtype=np.uint32)
    found = ran(body, data, 8)
    np.testing.assert_array_equal(found[128:], data[:32])


def test_multimem_says_why_it_is_not_executed() -> None:
    body = "multimem.red.relaxed.sys.global.add.u32 [%rd1], %r1;"
    with pytest.raises(simulator.Error, match="memories of several GPUs, and one is simulated"):
        ran(body, np.zeros(4, np.uint32))


def test_registers_of_128_bits_for_narrower_types_are_refused() -> None:
    with pytest.raises(simulator.Error, match="register of 128 bits for a narrower type"):
        ran("ld.global.u32 %rq1, [%rd1];", np.zeros(4, np.uint32))
