"""What GEMMs lose of L2, and what an SM may read beyond its share of it."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.chip.config import load_config
from simulator.simulation.session import Session
from simulator.studies.gemm import estimate, kernel_trace, parse_tile
from simulator.studies.gemm.held import delay, missing
from simulator.studies.validation import gemm

H100 = load_config("h100_sxm")


def _lost(lines: int, places: int) -> float:
    """The share of `lines`, which are wanted in turn, that a cache of `places` lines with random replacement lacks."""
    rng = np.random.default_rng(lines)
    where, held = np.full(lines, -1), np.full(places, -1)
    misses = 0
    for turn in range(8):
        for line in range(lines):
            if where[line] < 0:
                misses += turn >= 4
                place = rng.integers(places)
                if held[place] >= 0:
                    where[held[place]] = -1
                where[line], held[place] = place, line
    return misses / lines / 4


@pytest.mark.parametrize("size", [1024, 1536, 2048])
def test_what_l2_loses_is_what_random_replacement_loses(size: int) -> None:
    """A cache that is played line by line loses as much as the law says; two copies halve the room."""
    assert H100.l2 is not None
    tile = parse_tile("128x128x64", "f16", stages=2, sparse=False)
    touched = size * size * (2 + 2 + 4) * 2
    assert missing(tile, size, size, size, H100) == pytest.approx(_lost(touched // 131072, 400), abs=0.04)
    assert delay(tile, size, size, size, H100) in range(406)


def test_a_burst_is_served_at_once_and_the_rest_at_the_sms_share() -> None:
    """Copies of 512 bytes in 4 lines, which a warp sends 8 cycles apart: each takes 672 bytes of L2's rate, of which
    the first 8,000 wait for nothing."""
    assert H100.l2 is not None
    assert (H100.l2.burst_bytes, H100.l2.request_bytes, H100.l2.read_bytes) == (8000, 40, 7300)
    for count, late in ((12, 0), (13, 0), (48, -(-(47 * 672 - 8000) * 132 // 7300) - 47 * 8)):
        session = Session(gemm.copy_trace(128, 1, count, 1, 1), H100, arithmetic="none")
        assert session.time(sms=132).cycles - session.time(sms=1).cycles == late, count


def test_repetitions_are_skipped_with_bursts() -> None:
    tile = parse_tile("64x64x64", "f16", stages=2)
    session = Session(kernel_trace(tile, 1024), H100, arithmetic="none")
    assert session.time(sms=132).cycles == session.time(sms=132, skip=False).cycles


@pytest.mark.exhaustive
def test_two_stages_wait_for_device_memory() -> None:
    """Two stages show the latency of copies, four hide it: on an H100 the loop of the former takes 1,060 cycles for
    1408 x 1536 and 1,394 for 4096 x 4096, that of the latter 896 and 904 (h100_gemm_chip.csv)."""
    cycles = {}
    for stages in (2, 4):
        tile = parse_tile("128x128x64", "f16", warps=(2, 4), stages=stages)
        kept, lost = (estimate(tile, rows, 1536, 1024).wave_cycles for rows in (1408, 16384))
        cycles[stages] = lost / kept
    assert cycles[2] > 1.12
    assert cycles[4] < 1.04
