"""What device memory and L2 bring in a second does not depend on the clock of the SMs; earlier keys mean what they
meant."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from simulator import ConfigError, gemm, load_config
from simulator.chip.config import config_names
from simulator.chip.entries import entries, select
from simulator.resources import folder
from simulator.tables import read_rows
from tests.support.cases import exhaustive, over

CYCLES = {  # L2 reads, L2 writes, device memory in bytes a cycle at the config's clock; device memory's latency
    "a100": (5120, 1333, 998, 267),
    "b200": (10240, 3830, 3924, 405),
    "b300": (10240, 3830, 3656, 405),
    "h100_sxm": (7300, 1900, 1610, 405),
    "h200": (7300, 1900, 2307, 405),
    "h800_pcie": (6227, 1641, 1061, 298),
    "jetson_thor": (1384, 518, 159, 405),
    "rtx3070ti": (728, 272, 317, 405),
    "rtx3090": (1243, 465, 509, 405),
    "rtx4090": (1940, 726, 369, 405),
    "rtx5070ti": (1061, 397, 337, 405),
    "rtx5080": (1273, 476, 338, 405),
    "rtx5090": (2577, 964, 686, 405),
    "rtx_pro_6000": (2849, 1066, 631, 405),
}


def rates(name: str | Path, overrides: dict[str, object] | None = None) -> tuple[int, int, int, int]:
    """L2 reads, L2 writes, device memory in bytes a cycle, its latency in cycles."""
    chip = load_config(name, overrides or {})
    assert chip.l2 is not None
    assert chip.hbm is not None
    return chip.l2.read_bytes, chip.l2.write_bytes, chip.hbm.bytes, chip.hbm.latency


@over("name", config_names())
def test_rates_in_cycles_follow_the_sm_clock(name: str) -> None:
    """At the config's clock they are those that were measured or published in cycles; at others GB/s and ns stay."""
    own, clock = rates(name), load_config(name).chip.clock_mhz
    assert own == CYCLES[name]
    for factor in (0.5, 2, 3):
        *sizes, latency = rates(name, {"chip.clock_mhz": clock * factor})
        assert latency == pytest.approx(own[3] * factor, abs=factor)
        for size, before in zip(sizes, own, strict=False):
            assert size * factor == pytest.approx(before, abs=factor)


@exhaustive
def test_time_of_a_memory_bound_gemm_does_not_depend_on_the_sm_clock() -> None:
    """Few columns: 470 MB of A are read once. It took half the time at twice the clock: 5,893 GB/s of HBM3."""
    sizes = 28672, 64, 2048
    tile = gemm.tile_for("128x64", "f16", sparse=False, stages=4, config="h100_sxm")
    found = [gemm.estimate(tile, *sizes, load_config("h100_sxm", {"chip.clock_mhz": mhz})) for mhz in (1830, 3660)]
    moved = sum(2 * a * b for a, b in ((28672, 2048), (64, 2048), (28672, 64)))
    for mhz, one in zip((1830, 3660), found, strict=True):
        assert one.bound == "device memory"
        assert moved / (one.cycles / mhz) / 1e3 < 2950  # GB/s
    assert found[1].time_us == pytest.approx(found[0].time_us, rel=0.01)


@pytest.mark.exhaustive
def test_l2_bandwidth_in_seconds_does_not_depend_on_the_sm_clock() -> None:
    """Kernels of 64x64 tiles, which L2 bounds, took 10 % fewer cycles of an H100's SMs at 1,399 MHz than at 1,760, and
    13 % more at 1,980."""
    places = folder("configs") / "measurements"
    chip = next(
        line
        for line in read_rows(places / "h100_gemm_chip.csv")
        if line["variant"] == "f16_64x64x64_w2x2_s4" and line["m"] == line["n"] == "4096"
    )
    usual = float(chip["first_to_last_us"]) * float(chip["mhz"])
    kernel = gemm.parse_tile("64x64x64", "f16", stages=4, warps=(2, 2))

    def simulated(mhz: float) -> int:
        return gemm.estimate(kernel, 4096, 4096, 4096, load_config("h100_sxm", {"chip.clock_mhz": mhz})).cycles

    for line in read_rows(places / "h100_energy_gemm.csv"):
        if line["variant"] == "f16_64x64x64_w2x2_s4" and line["size"] == "4096" and line["content"] != "integers":
            mhz = float(line["mhz"])
            measured = float(line["microseconds"]) * mhz / usual
            assert math.copysign(1, measured - 1) == math.copysign(1, mhz - 1760)
            assert simulated(mhz) / simulated(float(chip["mhz"])) == pytest.approx(measured, rel=0.12)


OLD = """base = "h100_sxm"
[chip]
clock_mhz = 1000
source = "assumed: a slower one"
[l2]
read_bytes = 5000
[hbm]
bytes = 800
latency = 300
"""


def test_files_with_keys_of_earlier_versions_mean_the_same(tmp_path: Path) -> None:
    """They are cycles of the file's own clock, also below another file and with another clock set."""
    path, child = tmp_path / "mine.toml", tmp_path / "child.toml"
    path.write_text(OLD)
    child.write_text('base = "mine.toml"\n[chip]\nclock_mhz = 2000\nsource = "assumed: faster"\n')
    assert rates(path) == (5000, 3477, 800, 300)
    assert rates(child) == rates(path, {"chip.clock_mhz": 2000}) == (2500, 1738, 400, 600)
    assert load_config(path).sources["l2"].startswith("assumed: what if read_bytes = 5000 (mine.toml); otherwise ")
    path.write_text(OLD.replace("read_bytes = 5000", "read_bytes = 5000\nread_gbs = 5000.0"))
    with pytest.raises(ConfigError, match=r"l2.read_bytes: beside l2.read_gbs, which says the same; legal: one of"):
        load_config(path)
    path.write_text(OLD.replace("read_bytes = 5000", "read_bytes = 0"))
    with pytest.raises(ConfigError, match=r"l2.read_bytes: 0; legal: an integer from 1 to 1,048,576 \(bytes a cycle\)"):
        load_config(path)


def test_overrides_with_keys_of_earlier_versions_mean_the_same() -> None:
    """A factor is one of what the config has, a number is of the clock that is set, in whatever order."""
    assert rates("h100_sxm", {"l2.read_bytes": 5000, "hbm.bytes": 800, "hbm.latency": 300})[::2] == (5000, 800)
    chip = load_config("h100_sxm", ["l2.read_bytes=x2", "hbm.bytes=x1/2"])
    assert chip.l2 is not None
    assert chip.hbm is not None
    assert (chip.l2.read_bytes, chip.hbm.bytes) == (14600, 805)
    assert chip.overridden == "l2.read_bytes=x2; hbm.bytes=x1/2"
    assert rates("h100_sxm", {"l2.read_bytes": 5000, "chip.clock_mhz": 3660})[0] == 5000
    assert [entry.key for entry in select(entries("h100_sxm"), ["hbm.bytes"], "h100_sxm")] == ["hbm.gbs"]


@over(
    ("overrides", "words"),
    [
        (["hbm.bytes=0"], "hbm.bytes: 0; legal: an integer from 1"),
        (["hbm.bytes=x"], "hbm.bytes: 'x'; legal: an integer from 1"),
        (["hbm.gbs=3", "hbm.bytes=4"], "hbm.bytes: beside hbm.gbs"),
        (["l2.read_gbs=0.1"], "l2.read_gbs: 0.1 GB/s are 0 bytes in a cycle of 1,830 MHz; legal: 1.83 to"),
        (["l2.read_gbs=nan"], "l2.read_gbs: nan; legal: a number above 0"),
        (["chip.clock_mhz=0.001"], "bytes in a cycle of 0.001 MHz"),
        (["hbm.latency_ns=1e6"], "hbm.latency_ns: 1e.06 ns are 1,830,000 cycles"),
    ],
)
def test_rates_without_a_legal_value_in_cycles_are_refused(overrides: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        load_config("h100_sxm", overrides)
    assert caught.value.legal
