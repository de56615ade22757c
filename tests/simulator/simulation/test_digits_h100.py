"""Whole traces against what an H100 stored, bit for bit: the digits traces, and random ones (measurements/README.md
says how they were run)."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import simulator
from simulator.applications.digits_plan import PLANS, layer_results
from tests.support.paths import ROOT, TESTS

sys.path.insert(0, str(ROOT / "measurements"))

import run_traces

from tests.support.cases import over

DIGITS = run_traces.DIGITS
with np.load(TESTS / "golden" / "random_traces.npz") as file:
    RANDOM = dict(file)
SEEDS = sorted({int(key.split("/")[0].removeprefix("random_")) for key in RANDOM})


def assert_same(ours: np.ndarray, theirs: np.ndarray, what: str) -> None:
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), what
    wrong = np.argwhere(ours != theirs)
    assert not len(wrong), f"{what}: {len(wrong)} values differ, the first at {wrong[0]}"


@pytest.mark.parametrize("name", DIGITS)
def test_digits_give_every_bit_that_an_h100_gave(name: str) -> None:
    arrays = simulator.run(f"digits/{name}", "h100_sxm", compare=0).arrays
    with np.load(TESTS / "golden" / "digits_h100.npz") as golden:
        stored = {key.split("/")[1]: golden[key] for key in golden.files if key.startswith(name + "/")}
    assert set(arrays) == set(stored)
    for key, array in arrays.items():
        assert_same(array, stored[key], key)


def test_the_smaller_digits_trace_gives_the_bits_of_the_same_images() -> None:
    small, large = PLANS["f16_99kb"], PLANS["f16"]
    arrays = simulator.run("digits/f16_99kb", "rtx4090", compare=0).arrays
    assert small.type == large.type
    with np.load(TESTS / "golden" / "digits_h100.npz") as golden:
        theirs = layer_results(large, golden[f"f16/{large.d_key}"], golden[f"f16/{large.head_key}"])
    h100 = simulator.run("digits/f16_99kb", "h100_sxm", compare=0).arrays
    ours = layer_results(small, h100[small.d_key], h100[small.head_key])
    assert ours.shape == (128, 304)
    assert_same(ours, theirs[:, :304], "D")
    assert arrays.keys() == h100.keys()


@over("seed", SEEDS, distinct=lambda seed: min(seed, 12))
def test_random_traces_give_every_bit_that_an_h100_gave(seed: int, tmp_path: Path) -> None:
    golden = {key: RANDOM[f"random_{seed:03}/{key}"] for key in ("text", "registers", "shared")}
    warps = len(golden["registers"])
    report = simulator.run(
        run_traces.write_random(tmp_path, seed, warps, golden["text"].tobytes().decode()), "h100_sxm", compare=0
    )
    before = run_traces.random_inputs(seed, warps)
    assert "shared-memory-race" not in report.undefined
    for key in ("registers", "shared"):
        assert_same(
            report.arrays[key], golden[key] ^ before[key], key
        )  # the golden file holds differences, which pack well


def test_random_traces_use_every_native_type() -> None:
    text = "".join(RANDOM[f"random_{seed:03}/text"].tobytes().decode() for seed in SEEDS)
    opcodes = {line.split()[0] for line in text.splitlines() if line.startswith("mma.sp")}
    assert {opcode.split(".")[-3] for opcode in opcodes} >= {"f16", "bf16", "tf32", "s8", "u8"}
    assert len(SEEDS) >= 40


def test_one_flipped_bit_is_found() -> None:
    golden = RANDOM["random_000/registers"]
    changed = golden.copy()
    changed[-1, -1, -1] ^= np.uint32(1 << 13)
    with pytest.raises(AssertionError, match="1 values differ"):
        assert_same(golden, changed, "registers")
