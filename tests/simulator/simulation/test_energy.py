"""Energies: the table of a config, what a run and a GEMM cost, and how values matter."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import simulator
from isa import mma_form
from simulator.arithmetic.convert import from_float64
from simulator.chip.config import config_names, load_config
from simulator.errors import ConfigError
from simulator.resources import folder
from simulator.simulation.energy import over_limit
from simulator.simulation.energy_values import activity
from simulator.studies.gemm import estimate, parse_tile
from simulator.studies.gemm.wgmma import parse_wgmma_tile
from tests.support.cases import exhaustive

H100 = load_config("h100_sxm")
TRACE = """.trace 1
.target sm_90a
.warps 4
.shared 4096
.warp 0-3 {
    mov.u32 %r0, %laneid;
    .repeat 100 {
        mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
            {%r4,%r5,%r6,%r7}, {%r8,%r9,%r10,%r11}, {%r12,%r13}, {%r4,%r5,%r6,%r7};
    }
}"""


def test_a_run_costs_what_its_instructions_cost() -> None:
    report = simulator.run(TRACE, H100)
    assert report.energy is not None
    assert H100.energy is not None
    scale = H100.energy.scale(1830)
    assert report.energy.parts["matrix instructions"] == pytest.approx(400 * 5.3 * scale)
    assert report.energy.parts["rest"] == pytest.approx(143 / 132 * report.time_us * 1e3)
    assert report.energy_nj == pytest.approx(sum(report.energy.parts.values()))
    assert report.energy_nj is not None
    assert report.power_w == pytest.approx(report.energy_nj / report.time_us / 1e3 * 132)
    row = report.to_frame().iloc[0]
    assert row.energy_nj == report.energy_nj
    assert row.energy_per_fma_pj == pytest.approx(report.energy_nj * 1e3 / (400 * 2048))
    assert json.loads(report.json())["energy"]["parts"]["rest"] == report.energy.parts["rest"]


def test_sparse_products_take_more_a_multiply_add_but_less_a_named_one() -> None:
    assert H100.energy is not None
    (dense, _), (sparse, _) = (
        H100.energy.find(mma_form(f"{name}.sync.aligned.{shape}.row.col.f32.f16.f16.f32"))
        for name, shape in (("mma", "m16n8k16"), ("mma.sp::ordered_metadata", "m16n8k32"))
    )
    assert 1.0 < sparse.nj[1] / dense.nj[1] < 2.0


def test_an_instruction_without_a_class_is_scaled_and_said() -> None:
    report = simulator.run(TRACE.replace("m16n8k16", "m16n8k8").replace(",%r10,%r11}, {%r12,%r13}", "}, {%r12}"), H100)
    assert report.energy is not None
    assert not report.energy.notes
    assert H100.energy is not None
    bare = replace(H100, energy=replace(H100.energy, tensor=H100.energy.tensor[:1]))
    report = simulator.run(TRACE, bare)
    assert any("by multiply-adds" in note for note in report.assumed)


def test_without_a_table_there_is_no_energy() -> None:
    report = simulator.run(TRACE, replace(H100, energy=None))
    assert report.energy_nj is report.power_w is report.energy is None
    assert "energy" not in report.table()


def test_a_gemm_at_the_limit_says_which_clock_the_chip_would_take() -> None:
    found = estimate(parse_tile("64x64", "f16", sparse=True), 512, 512, 512)
    assert found.energy_j is not None
    assert found.power_w == pytest.approx(found.energy_j / found.time_us * 1e6)
    assert found.power_w is not None
    assert found.tflops_per_watt == pytest.approx(found.tflops / found.power_w)
    assert found.edp_js == pytest.approx(found.energy_j * found.time_us / 1e6)
    zeros = estimate(parse_tile("64x64", "f16", sparse=True), 512, 512, 512, activity=0.0)
    assert zeros.energy_j is not None
    assert zeros.energy_j < 0.95 * found.energy_j
    assert "lower its clock to about 1,521 MHz" in over_limit(H100, 980.0)
    assert over_limit(H100, 650.0) == ""


DENSE = parse_wgmma_tile("128x256", "f16", sparse=False, cluster=(2, 1))


def test_gemms_by_wgmma_have_the_energy_of_their_products_and_bytes() -> None:
    m, n, k = 1024, 2048, 512
    found = estimate(DENSE, m, n, k)
    assert H100.energy is not None
    assert found.energy is not None
    assert found.energy_j is not None
    scale, parts = H100.energy.scale(1830), found.energy.parts
    columns = m / 64 * n / 8 * k / 16  # of 64 x 8 and of 32 bytes along K
    assert parts["matrix instructions"] == pytest.approx(columns * (18.16 + 7.43 / 32) * scale)
    copied = m / 128 * n / 256 * k * (128 + 256) * 2
    assert parts["L2"] == pytest.approx((copied * 17.4 + m * n * 2 * 65.3) / 1e3 * scale)
    assert parts["device memory"] == pytest.approx(((m + n) * k * 2 * 99.7 + m * n * 2 * 65.5) / 1e3 * scale)
    assert parts["rest"] == pytest.approx(143 * found.time_us * 1e3)
    assert found.energy_j == pytest.approx(sum(parts.values()) / 1e9)
    assert found.power_w == pytest.approx(found.energy_j / found.time_us * 1e6)
    zeros = estimate(DENSE, m, n, k, activity=0.0)
    assert zeros.energy_j is not None
    assert zeros.energy_j < 0.6 * found.energy_j
    assert zeros.cycles == found.cycles


@exhaustive
def test_large_random_gemms_by_wgmma_meet_the_power_limit() -> None:
    found = estimate(DENSE, 8192, 8192, 8192)
    assert found.power_w is not None
    assert found.power_w > 700
    assert found.limited_clock_mhz is not None
    assert 1200 < found.limited_clock_mhz < 1830
    assert found.limited_time_us is not None
    assert found.time_us < 1515 < found.limited_time_us < 1.15 * 1515  # cuBLAS on an H100
    zeros = estimate(DENSE, 8192, 8192, 8192, activity=0.0)
    assert zeros.limited_clock_mhz is None


def test_wgmma_energies_are_those_of_the_measured_loops() -> None:
    """Instructions of two widths, as an H200 took them (measurements/hopper/results/energy.csv)."""
    assert H100.energy is not None
    dense, sparse = (H100.energy.find_wgmma("f16", kind) for kind in (False, True))
    assert dense is not None
    assert sparse is not None
    assert dense.of(256) == pytest.approx((98.7, 588.7), rel=0.01)
    assert dense.of(64) == pytest.approx((26.4, 155.5), rel=0.04)
    assert dense.of(256, a_in_registers=True) == pytest.approx((97.4, 581.2), rel=0.01)
    assert sparse.of(64) == pytest.approx((30.4, 163.5), rel=0.08)
    assert H100.energy.find_wgmma("e2m1", False) is None
    assert H100.energy.shared_byte < H100.energy.copied_byte < H100.energy.l2_load_byte


def test_other_chips_take_the_energies_of_wgmma() -> None:
    for name in ("h200", "h800_pcie"):
        chip = load_config(name)
        assert chip.energy is not None
        assert H100.energy is not None
        assert chip.energy.wgmma == H100.energy.wgmma
    a100 = load_config("a100").energy
    assert a100 is not None
    assert H100.energy is not None
    assert a100.shared_byte == pytest.approx(tuple(1.43 * each for each in H100.energy.shared_byte))
    older = replace(H100.energy, l2_copy_byte=None, l2_shared_byte=None, wgmma=())
    assert older.shared_byte == older.copied_byte == older.l2_load_byte
    assert estimate(DENSE, 512, 512, 512, replace(H100, energy=older)).energy is None


def test_values_explain_what_was_measured() -> None:
    """Contents of an f16 instruction, drawn again here, against the energies that an H100 took for them."""
    rng = np.random.default_rng(7)
    assert H100.energy is not None
    form = mma_form("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    low, high = H100.energy.find(form)[0].nj
    normal = rng.standard_normal((2, 8192))
    contents = {
        "zeros": normal * 0,
        "random": normal,
        "ones": np.ones_like(normal),
        "integers": rng.integers(-3, 4, normal.shape).astype(float),
        "powers": np.copysign(2.0 ** rng.integers(-3, 4, normal.shape), normal),
        "half": np.stack([normal[0] * (rng.random(8192) < 0.5), normal[1]]),
    }
    rows = (folder("configs") / "measurements" / "h100_energy_values.csv").read_text().splitlines()[1:]
    measured = {tuple(row.split(",")[:2]): float(row.split(",")[2]) for row in rows}
    for content, (a, b) in contents.items():
        bits = (from_float64(x + 0.0, "f16") for x in (a, b))
        found = low + (high - low) * activity(H100, "f16", *bits)
        assert found == pytest.approx(measured["mma_k16_f16_f32", content], rel=0.15), content


@pytest.mark.parametrize("name", config_names())
def test_other_chips_say_that_their_energies_are_assumed(name: str) -> None:
    config = load_config(name)
    if name != "h100_sxm" and config.energy is not None:
        assert config.status("energy") == "assumed"
        same_sm = name == "h200"  # whose energies are those of the H100 at the clock at which they were measured
        assert config.energy.clock_mhz == (H100.energy.clock_mhz if same_sm and H100.energy else config.chip.clock_mhz)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("weights = [0.19, ", "weights = [0.5, ", "four parts of 1"),
        ("load = [0.164, 0.163]", "load = 0.164", "a list of 2"),
        ("columns = [3.048, 18.16]", "columns = [3.048]", "a list of 2"),
        ("static_w = 143", "static_W = 143", "did you mean 'static_w'"),
        ("[energy]\nclock_mhz = 1980", '[energy]\nlike = "b200"\nclock_mhz = 1980', "unknown key"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    text = (folder("configs") / "h100_sxm.toml").read_text()
    assert old in text
    (tmp_path / "mine.toml").write_text(text.replace(old, new))
    with pytest.raises(ConfigError, match=complaint):
        load_config(tmp_path / "mine.toml")
