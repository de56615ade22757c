"""What binds a GEMM or a run: a design in which one thing alone is slowed is bound by that thing."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import simulator
from simulator.chip.config import load_config
from simulator.studies.gemm import Estimate, estimate, parse_tile, tile_for
from simulator.studies.gemm.shares import ISSUE, LATENCY
from simulator.studies.roofline import roofline
from simulator.studies.sweep import run
from tests.support.cases import exhaustive, over

SLOWED = {
    "tensor": ["tensor.*.interval=x8"],
    "metadata path": ["sm.metadata_cycles=40"],
    "operand ports": ["sm.tensor_pipes=4", "operands.shared=true", "operands.registers=1", "operands.step=32"],
    "alu": ["alu.interval=80"],
    "shared memory": ["shared.cycles=x4"],
    "path to L2": ["memory.line_cycles=x8"],
    "L2 reads": ["l2.read_bytes=x0.2"],
    "stores": ["l2.write_bytes=x0.02"],
    "device memory": ["hbm.bytes=80"],
    LATENCY: ["memory.copy_latency=x20"],
}
SLOWED_TCGEN05 = {
    "tensor": ["tcgen05.kind.*.rate=x0.125"],
    "tcgen05 queue": ["tcgen05.shape.*.interval=x400"],
    "shared memory": ["tcgen05.operand_bytes=12"],
    "path to L2": ["memory.bulk_bytes=20"],
    "L2 reads": ["l2.read_bytes=x0.05"],
    "stores": ["l2.write_bytes=80"],
    "device memory": ["hbm.bytes=80"],
    LATENCY: ["memory.bulk_latency=x50"],
}


def found(sets: list[str], tile: str = "64x64") -> Estimate:
    """The estimate of a product of K = 512 on an H100 with these settings."""
    return estimate(parse_tile(tile, "f16", stages=3), 512, 1024, 512, load_config("h100_sxm", sets))


@exhaustive
@pytest.mark.parametrize("name", SLOWED)
def test_a_product_is_bound_by_what_alone_is_slow(name: str) -> None:
    answer = found(SLOWED[name])
    assert answer.bound == name, answer.shares
    assert {*SLOWED, ISSUE} - {LATENCY} == set(answer.shares) - {"waves"}
    assert all(share <= 1.02 for share in answer.shares.values())


@exhaustive
def test_a_product_whose_units_are_all_fast_is_bound_by_issue() -> None:
    """No unit's: one sub-core issues for all warps, beside pipes and memories that hold nothing up."""
    fast = ["tensor.*.interval=1", "alu.interval=1", "shared.wavefronts=16", "l2.read_bytes=x16", "hbm.bytes=x16"]
    four, one = (found([*fast, *more], "256x128") for more in ([], ["sm.sub_cores=1"]))
    assert one.bound == ISSUE, one.shares
    assert four.bound != ISSUE
    assert one.shares[ISSUE] * one.cycles == pytest.approx(4 * four.shares[ISSUE] * four.cycles, rel=0.02)


@over("name", list(SLOWED_TCGEN05), distinct=lambda name: name if name in ("tcgen05 queue", "stores") else "")
def test_a_product_by_tcgen05_is_bound_by_what_alone_is_slow(name: str) -> None:
    chip = load_config("b200", SLOWED_TCGEN05[name])
    answer = estimate(tile_for("128x128", "f16", sparse=False, stages=4, config=chip), 1024, 1024, 512, chip)
    assert answer.bound == name, answer.shares
    assert set(SLOWED_TCGEN05) - {LATENCY} == set(answer.shares) - {"waves"}


def test_time_in_which_nothing_runs_is_no_units() -> None:
    """Shares are parts of the kernel's cycles: a device memory that answers late takes from the part of every unit."""
    late = found(["hbm.latency=x100"])
    assert late.bound == LATENCY
    assert late.cycles > 3 * found([]).cycles
    assert late.shares["shared memory"] < found([]).shares["shared memory"] / 3


def test_the_path_of_metadata_is_a_roof() -> None:
    """Rooflines, too."""
    for sets, bound in (([], "shared memory"), (["sm.metadata_cycles=64"], "metadata path")):
        report = simulator.run("digits/f16", load_config("h100_sxm", sets), arithmetic="none")
        point = roofline([report]).points[0]
        assert point.bound == bound
        assert 0 < point.share <= 1


def test_the_time_at_the_power_limit_stands_beside_the_headline(tcsim: Callable[..., tuple[int, str, str]]) -> None:
    """Above the limit the clock falls until power is at it: that of the operations grows as clock to 1 + exponent."""
    sets = ["energy.limit_w=120", "energy.static_w=60"]
    chip, free = load_config("h100_sxm", sets), found(["energy.limit_w=100000"])
    answer = found(sets)
    assert chip.energy is not None
    assert chip.launch is not None
    assert answer.power_w is not None
    assert answer.limited_clock_mhz is not None
    factor = answer.limited_clock_mhz / chip.chip.clock_mhz
    assert 60 + (answer.power_w - 60) * factor ** (1 + chip.energy.exponent) == pytest.approx(120)
    launch = chip.launch.gap_ns / 1e3
    assert answer.limited_time_us == pytest.approx((answer.time_us - launch) / factor + launch)
    assert (free.limited_clock_mhz, free.limited_time_us, free.limited_tflops) == (None, None, None)
    size = ["--m", "512", "--n", "1024", "--k", "512", "--tile", "64x64", "--stages", "3", "--path", "mma"]
    options = ["gemm", *size, *(text for one in sets for text in ("--set", one))]
    data = json.loads(tcsim(*options, "--format", "json")[1])
    assert data["limited_time_us"] == answer.limited_time_us
    assert f"at the power limit about {answer.limited_time_us:,.1f} us" in tcsim(*options)[1]
    spec = {"m": 512, "n": 1024, "k": 512, "tile": "64x64", "stages": 3, "path": "mma"}
    spec |= {"energy.limit_w": 120, "energy.static_w": 60}
    assert run(spec, workers=1)["limited_time_us"][0] == answer.limited_time_us
    report = simulator.run("digits/f16", chip, arithmetic="none")
    assert report.limited_time_us is not None
    assert json.loads(report.json())["limited_time_us"] == report.limited_time_us > report.time_us
    assert "to which the power limit lowers the clock" in report.table()
