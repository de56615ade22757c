"""The time of clusters in launches, against loops that were measured on an H200 (measurements/hopper)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import simulator
from measurements.hopper.compare import cycles, measured
from measurements.hopper.kernels import HEADER
from measurements.hopper.measure import all_kernels
from simulator.errors import ConfigError
from tests.support.cases import exhaustive

KERNELS = {kernel.name: kernel for _, kernel in all_kernels()}
MEASURED = measured()
MEETING = (
    HEADER
    + """
.visible .entry meeting(.param .u64 out)
{
.reg .b32 %x<4>; .reg .b64 %t<4>;
mov.u32 %x0, %cluster_ctarank; barrier.cluster.arrive; barrier.cluster.wait;
ld.param.u64 %t0, [out]; mov.u32 %x1, %ctaid.x; mul.wide.u32 %t1, %x1, 4; add.u64 %t0, %t0, %t1;
st.global.u32 [%t0], %x0; ret;
}
"""
)


def _error(name: str) -> float:
    return abs(cycles(KERNELS[name]) / MEASURED[name] - 1)


@exhaustive
@pytest.mark.parametrize(
    "name",
    [
        "pipe_dense_f16_f32_n64_s2_w1_plain_m2_c2_p1_cta", "pipe_dense_f16_f32_n64_s3_w1_plain_m4_c4_p1_cta",
        "multicast_r128_m2_s1_c2", "multicast_r256_m4_s2_c4", "cluster_barrier_2_w4_c2",
        "cluster_barrier_relaxed_4_w4_c4", "sent_bulk_1024", "sent_store_8", "chase_remote",
        "traffic_store_remote_v4_w4", "load_linear_r256_b128_s4_none_t8192_c1_x1",
    ],
)  # fmt: skip
def test_loops_take_as_long_as_measured(name: str) -> None:
    assert _error(name) < 0.06


def _launch(ctas: int, cluster: int, config: simulator.Config | str = "h100_sxm") -> simulator.LaunchReport:
    function = simulator.Module(MEETING).get_function()
    out = np.zeros(ctas, np.uint32)
    report = function(ctas, 128, (out,), cluster=cluster, workers=1, config=config)
    np.testing.assert_array_equal(report.arrays.get("out", out), np.arange(ctas) % cluster)
    return report


def test_clusters_follow_one_another_where_no_more_have_room() -> None:
    """An H100 has room for 15 clusters of 8 CTAs for each CTA on an SM; those beyond wait for places."""
    config = simulator.load_config("h100_sxm")
    one = replace(config, sm=replace(config.sm, ctas=1))
    times = [_launch(8 * clusters, 8, one).timing for clusters in (15, 16, 31)]
    assert all(time is not None for time in times)
    first, second, third = (time for time in times if time is not None)
    assert first.placement.clusters == 15
    assert [len(time.placement.slots) for time in (first, second, third)] == [8, 8, 8]
    assert [len(time.placement.slots[0]) for time in (first, second, third)] == [1, 2, 3]
    assert first.cycles < second.cycles < third.cycles
    assert second.placement.slots[3] == (3, 123)


def test_larger_clusters_meet_later() -> None:
    times = [_launch(size, size).cycles for size in (1, 2, 8)]
    assert times == sorted(times)
    assert len(set(times)) == 3


def test_a_chip_without_times_of_clusters_says_so() -> None:
    config = replace(simulator.load_config("h100_sxm"), cluster=None)
    with pytest.raises(ConfigError, match=r"no times for clusters.*a config with \[cluster\]"):
        _launch(2, 2, config)
