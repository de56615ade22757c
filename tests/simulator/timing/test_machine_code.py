"""Machine code that was measured: the engine keeps the waits of the compiler, and gives what the chip took."""

from __future__ import annotations

import pytest

from simulator.chip.config import load_config
from simulator.compiler.timed_code import TimedOperation
from simulator.studies.validation.machine_code import STARTED, emulated, loops, machine_loop, timed
from simulator.studies.validation.programs import iteration
from tests.support.cases import exhaustive

H100 = load_config("h100_sxm")


@exhaustive
@pytest.mark.parametrize(
    ("name", "alone", "full"),
    [
        ("mma_mma_m16n8k32_f32_e4m3_e4m3_c2_b", 0.02, 0.04),  # A converted once; from the trace alone 35 % off
        ("mma_spo_m16n8k64_f32_e4m3_e4m3_c1_all", 0.02, 0.04),  # all operands new; on one warp 31 % off
        ("mma_mma_m16n8k64_s32_s4_s4_c1_none", 0.02, 0.03),  # a call
    ],
)
def test_measured_machine_code(name: str, alone: float, full: float) -> None:
    forms, known = loops()
    entry = next(entry for entry in known if entry["name"] == name)
    loop = machine_loop(H100, entry["body"], forms)
    most = max(map(int, entry["cycles"]))
    assert abs(iteration(loop, 1) / entry["cycles"]["1"] - 1) < alone
    assert abs(iteration(loop, most) / entry["cycles"][str(most)] - 1) < full


@exhaustive
def test_behind_a_known_start() -> None:
    """Where begins and counts are known, one loop on all numbers of warps within 2 %, but for two warps of a sub-core,
    whose rhythm on the chip follows from the fetching of code, which is not modelled."""
    forms, known = loops()
    entry = next(e for e in known if e["group"] == STARTED and e["name"] == "mma_spo_m16n8k64_s32_s4_u4_c2_none")
    found = [*timed(H100, forms, entry)]
    assert [warps for warps, *_ in found] == [5, 8, 12, 16, 24, 28]
    off = {warps: abs(simulated / measured - 1) for warps, measured, simulated in found}
    assert off.pop(8) < 0.08
    assert max(off.values()) < 0.02


@pytest.mark.exhaustive
def test_each_number_of_warps_is_once_among_the_rows() -> None:
    rows = emulated(load_config("h100_sxm"), True)
    places = [(row.label, dict(row.keys)["warps"]) for row in rows]
    assert len(places) == len({*places})


@exhaustive
def test_packed_additions_take_the_half_of_products() -> None:
    """Two HADD2 behind each matrix instruction issue as often as on the chip; with either half of the FMA pipe to
    choose from, 4 % more often."""
    forms, known = loops()
    entry = next(entry for entry in known if entry["name"] == "operation_hadd2_x2_mma_m16n8k8_f16_f16_f16")
    loop = machine_loop(H100, entry["body"], forms)
    for warps in ("8", "32"):
        simulated = iteration(loop, int(warps), entry["begins"][warps])
        assert abs(simulated / entry["cycles"][warps] - 1) < 0.005


def test_waits_are_the_compilers() -> None:
    """Nothing writes its own waits over those of machine code, and a shuffle by a constant sends its value alone."""
    forms, known = loops()
    entry = next(entry for entry in known if entry["name"] == "mma_spo_m16n8k64_f32_e4m3_e4m3_c1_all")
    loop = machine_loop(H100, entry["body"], forms)
    iteration(loop, 1)
    operations = [item for item in loop.code.items if isinstance(item, TimedOperation)]
    assert [op.stall for op in operations[:-1]] == [stall for _, stall, *_ in entry["body"][:-1]]
    assert [op.yields for op in operations] == [bool(row[4][0]) for row in entry["body"]]
    assert {op.access.sent for op in operations if op.access is not None} == {1}
