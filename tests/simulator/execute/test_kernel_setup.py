"""What kernels of Hopper say beside their work: how many registers a warp has, which thread issues, and what fences
order the proxies, in a launch and in a trace."""

from __future__ import annotations

import numpy as np

import isa
import simulator

SETUP = """
griddepcontrol.wait;
setmaxnreg.{change}.sync.aligned.u32 {registers};
fence.mbarrier_init.release.cluster;
fence.proxy.async; fence.proxy.async.global; fence.proxy.async.shared::cta;
fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;
fence.proxy.tensormap::generic.release.gpu;
fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
fence.acq_rel.cluster;
membar.proxy.alias;
prefetch.tensormap [%rd1];
griddepcontrol.launch_dependents;
"""
KERNEL = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) {{
.reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
{setup}
setp.lt.u32 %p1, %r1, {first};
@%p1 bra DONE;
activemask.b32 %r2;
elect.sync %r3|%p2, %r2;
mul.wide.u32 %rd2, %r1, 4;
add.u64 %rd1, %rd1, %rd2;
@%p2 add.u32 %r3, %r3, 100;
st.global.u32 [%rd1], %r3;
DONE: ret;
}}
"""


def test_one_of_the_threads_that_are_there_is_elected() -> None:
    out = np.zeros(64, np.uint32)
    text = KERNEL.format(setup=SETUP.format(change="dec", registers=40), first=5)
    simulator.Module(text).get_function("k")(1, 64, (out,), config=None)
    warps = np.zeros((2, 32), np.uint32)
    warps[0, 5:] = 5
    warps[:, 0], warps[0, 0], warps[0, 5] = 100, 0, 105
    assert out.tolist() == warps.ravel().tolist()


def test_a_trace_goes_on_behind_what_says_nothing_of_values() -> None:
    lines = SETUP.format(change="inc", registers=232).replace("; ", ";\n")
    head = ".trace 1\n.target sm_90a\n.warps 1\n.global 4096\n.warp 0 {\nmov.u64 %rd1, 0;\n"
    trace = f'{head}{lines}mov.u32 %r1, 7;\n}}\n.store "d", %r1, 1;\n'
    assert (simulator.run(trace, config="h100_sxm").arrays["d"] == 7).all()


def test_a_count_of_registers_is_a_multiple_of_8_from_24_to_256() -> None:
    taken = []
    for number in range(300):
        try:
            isa.decode(f"setmaxnreg.inc.sync.aligned.u32 {number};", "sm_90a")
        except isa.IsaError:
            continue
        taken.append(number)
    assert taken == list(range(24, 257, 8))
