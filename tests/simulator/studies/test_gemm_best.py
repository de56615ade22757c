"""The search for the fastest kernel of a GEMM, beside all kernels simulated one by one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import product

import pytest

from isa import IsaError
from simulator.chip.config import load_config
from simulator.errors import ConfigError
from simulator.studies.gemm import fastest, parse_tile, tiles_of
from simulator.studies.gemm.best import candidate
from simulator.studies.gemm.estimate import check_chip, kernel_cycles
from simulator.studies.gemm.kinds import AnyTile
from simulator.studies.gemm.tile import STAGES
from simulator.studies.sweep import run
from tests.support.cases import alike, exhaustive, over

Tcsim = Callable[..., tuple[int, str, str]]


@exhaustive  # a smaller search: test_no_kernel_is_much_faster
def test_stages_are_searched_beside_tiles(tcsim: Tcsim) -> None:
    """Three stages leave room for two CTAs of 128x128 on an SM, which are faster than any tile with as many stages as
    fit; two stages of 256x64 are close."""
    code, out, err = tcsim("gemm", "--dense", "--path", "mma", "--tile", "best", "--format", "json")
    kernels, simulated = map(int, re.findall(r"\d+", err)[:2])
    assert kernels > 30
    assert simulated < 13  # for which a user waits some seconds
    found = json.loads(out)
    assert code == 0
    assert found["resident"] == 2
    config = load_config("h100_sxm")
    tiles = (parse_tile(*name, sparse=False, stages=n) for *name, n in (("256x64", "f16", 2), ("128x128", "f16", 3)))
    narrow, other = (kernel_cycles(tile, 4096, 4096, 4096, config) for tile in tiles)
    assert [found["tile"][name] for name in ("bm", "bn", "stages")] == [128, 128, 3]
    assert found["cycles"] == other < narrow < 1.05 * other
    assert "tile 128x128, 3 stages, 2 CTAs per SM" in err


@over(
    "size",
    [
        ("rtx4090", "e4m3", True, 1024, 1024, 512),
        ("a100", "s8", False, 1024, 256, 512),
        ("h100_sxm", "f16", True, 512, 512, 512),
        ("h100_sxm", "f16", False, 4096, 4096, 4096),
    ],
    distinct=alike,
)
def test_no_kernel_is_much_faster(size: tuple[str, str, bool, int, int, int]) -> None:
    """Of all tiles and stages; and none takes less time than its bound."""
    name, kind, sparse, *sizes = size
    m, n, k = sizes
    chip = load_config(name)
    every: dict[AnyTile, int] = {}
    for text, stages in product(tiles_of(chip, "mma"), STAGES):
        try:
            tile = parse_tile(text, kind, sparse=sparse, stages=stages)
            check_chip(tile, chip)
        except (IsaError, ConfigError):
            continue
        every[tile] = kernel_cycles(tile, m, n, k, chip)
        assert candidate(tile, m, n, k, chip).least <= every[tile]
    found = fastest(kind, m, n, k, chip, sparse=sparse, path="mma")
    assert found.candidates == len(every)
    assert found.simulated < len(every) / 2
    assert found.cycles == every[found.tile]
    assert found.cycles <= 1.02 * min(every.values())


def test_stages_that_are_given_are_kept() -> None:
    for stages in (2, 4):
        assert fastest("f16", 256, 256, 256, stages=stages, path="mma").tile.stages == stages
    for path, stages in (("mma", 9), ("wgmma", 13)):
        with pytest.raises(IsaError, match=f"{stages} stages"):
            fastest("f16", 256, 256, 256, stages=stages, path=path)
    with pytest.raises(ConfigError, match="bytes of shared memory; legal: at most 232,448: fewer stages"):
        fastest("f16", 256, 256, 256, stages=9)


@exhaustive
def test_a_sweep_names_the_kernel_that_it_found() -> None:
    frame = run({"tile": "best", "m": 1024, "n": 512, "k": [256], "sparse": False}, workers=1)
    for row in frame.to_dict("records"):
        found = fastest("f16", 1024, 512, row["k"], sparse=False)
        named = row["best_tile"], row["best_stages"], row["resident"], row["cycles"]
        assert named == (found.name, found.tile.stages, found.resident, found.cycles)
