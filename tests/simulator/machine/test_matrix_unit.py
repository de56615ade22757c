"""Times of wgmma and of copies by tensor maps in launches, against loops that an H200 ran (measurements/hopper)."""

from __future__ import annotations

import pytest

import simulator
from measurements.hopper.compare import comparable, cycles, launched, measured
from measurements.hopper.measure import all_kernels, held_out
from simulator.compiler.wgmma import product_cost
from simulator.errors import ConfigError
from simulator.execute.dynamic_info import ProductFacts
from tests.support.cases import exhaustive, over

CONFIG = simulator.load_config("h100_sxm")
KERNELS = {kernel.name: kernel for _, kernel in all_kernels()}
TAIL = "s128B_kk"


@over(
    ("n", "sparse", "registers", "interval"),
    [(64, False, False, 32), (16, False, False, 20), (128, True, False, 80), (256, True, False, 144),
     (256, True, True, 128), (8, False, True, 13), (128, False, True, 64)],
)  # fmt: skip
def test_intervals(n: int, sparse: bool, registers: bool, interval: int) -> None:
    """What one product after the other takes on the GPU, to the cycle."""
    cost = product_cost(CONFIG, ProductFacts(n, sparse, registers, False))
    assert cost.interval == interval
    name = f"{'sp' if sparse else 'dense'}_f16_f32_n{n}_{'rs' if registers else 'ss'}_w2_u4_p1_c1_{TAIL}"
    assert measured()[name] / 8 == pytest.approx(interval, rel=0.003)


FEW = {  # a few of each kind, and how many percent they may be off
    f"dense_f16_f32_n64_ss_w1_u4_p1_c1_{TAIL}": 0.5,
    f"dense_f16_f32_n128_ss_w1_u4_p0_c1_{TAIL}": 1.0,
    f"sp_e4m3_f32_n192_ss_w2_u4_p1_c1_{TAIL}": 0.5,
    "pipe_dense_f16_f32_n64_s3_w1_plain_m1_c1_p1": 8.0,
    "pipe_sp_f16_f32_n128_s3_w2_plain_m1_c1_p1": 6.0,
    "load_r64_b128_s1_128B_t32768_c1_x1": 4.0,
    "store_r64_b128_s2_128B_t32768_c1_x1": 1.0,
}


@exhaustive
@over("name", list(FEW))
def test_loops_take_what_a_gpu_takes(name: str) -> None:
    assert cycles(KERNELS[name]) == pytest.approx(measured()[name], rel=FEW[name] / 100)


@exhaustive
def test_main_loops_held_out() -> None:
    """Warp-specialised loops that the numbers were not fitted to: each eighth."""
    loops = [kernel for _, kernel in comparable("pipelines") if held_out(kernel.name)][::4]
    errors = [abs(cycles(kernel) / measured()[kernel.name] - 1) for kernel in loops]
    assert len(errors) >= 8
    assert sum(errors) / len(errors) < 0.05
    assert max(errors) < 0.15


def test_two_warpgroups_share_the_unit() -> None:
    """As long as one that issues twice as many products."""
    one, two = (KERNELS[f"dense_f16_f32_n128_ss_w{w}_u4_p1_c1_{TAIL}"] for w in (1, 2))
    assert cycles(two) == pytest.approx(2 * cycles(one), rel=0.01)


def test_reports_say_how_busy_the_unit_is() -> None:
    """A sparse product of N = 128 multiplies for 64 cycles and keeps the unit for 80, which its operands take."""
    timing = launched(KERNELS[f"sp_f16_f32_n128_ss_w2_u4_p1_c1_{TAIL}"], 40)
    assert timing.tensor_busy / timing.units_busy["wgmma"] == pytest.approx(64 / 80, abs=0.01)
    assert timing.units_busy["wgmma"] > 0.8


def test_what_has_no_time() -> None:
    with pytest.raises(ConfigError, match=r"no times for wgmma.*a config with \[wgmma\]"):
        product_cost(simulator.load_config("b200"), ProductFacts(64, False, False, False))
