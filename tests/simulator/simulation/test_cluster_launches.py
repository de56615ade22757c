"""clusterlaunchcontrol in launches: running clusters take over the work of those that have not started."""

from __future__ import annotations

import numpy as np
import pytest

import simulator

# Each CTA notes for every cluster that it works for: who does it, and how many it has done before
KERNEL = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 D)
{cluster}
{{
.reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<4>; .reg .b128 %q;
.shared .align 16 .b8 answer[16];
.shared .align 8 .b64 bar;
ld.param.u64 %rd1, [D];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x;
mov.u32 %r3, %ctaid.y;
mov.u32 %r4, %nctaid.x;
mov.u32 %r5, %cluster_ctarank;
mov.u32 %r20, %cluster_nctarank;
mad.lo.u32 %r6, %r3, %r4, %r2;
mov.u32 %r7, 0;
sub.u32 %r2, %r2, %r5;
setp.eq.u32 %p1, %r1, 0;
setp.eq.and.u32 %p2, %r5, 0, %p1;
@%p1 mbarrier.init.shared::cta.b64 [bar], 1;
barrier.cluster.arrive; barrier.cluster.wait;
WORK:
mad.lo.u32 %r8, %r3, %r4, %r2;
add.u32 %r8, %r8, %r5;
mul.wide.u32 %rd2, %r8, 8;
add.s64 %rd2, %rd2, %rd1;
shl.b32 %r9, %r7, 16;
or.b32 %r9, %r9, %r6;
@%p1 st.global.v2.u32 [%rd2], {{%r9, 1}};
@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
barrier.cluster.arrive; barrier.cluster.wait;
@{asks} clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{multicast}.b128 [answer], [bar];
and.b32 %r10, %r7, 1;
LOOK:
mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], %r10;
@!%p3 bra LOOK;
add.u32 %r7, %r7, 1;
ld.shared.b128 %q, [answer];
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p4, %q;
@!%p4 bra END;
clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {{%r2, %r3, %r11, _}}, %q;
clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %r12, %q;
setp.eq.u32 %p5, %r12, %r3;
@%p5 bra WORK;
trap;
END:
barrier.cluster.arrive; barrier.cluster.wait;
ret;
}}
"""


@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize(("sms", "resident"), [(0, 8), (4, 4), (64, 16)])  # without a chip, half of the launch starts
def test_running_clusters_take_over_all_that_have_not_started(cluster: int, sms: int, resident: int) -> None:
    many = cluster > 1
    text = KERNEL.format(
        cluster=f".reqnctapercluster {cluster}, 1, 1" if many else "",
        asks="%p2" if many else "%p1",
        multicast=".multicast::cluster::all" if many else "",
    )
    out = np.zeros((4, 4, 2), np.uint32)
    simulator.Module(text).get_function("k")((4, 4), 64, (out,), sms=sms)
    assert (out[..., 1] == 1).all()  # each CTA's work is done, once
    doer, before = out[..., 0].ravel() & 0xFFFF, out[..., 0].ravel() >> 16
    started = np.arange(16) < resident
    assert (doer[started] == np.arange(16)[started]).all()
    assert (before[started] == 0).all()
    assert (doer[~started] < resident).all()
    assert (before[~started] > 0).all()
    assert (doer % cluster == np.arange(16) % cluster).all()
