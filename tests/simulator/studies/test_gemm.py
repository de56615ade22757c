"""Generated GEMM kernels: right products, legal tiles, estimates near what an H100 took."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simulator
from isa import IsaError
from simulator.cli import main
from simulator.errors import ConfigError
from simulator.studies.gemm import Tile, estimate, kernel_trace, parse_tile
from simulator.studies.gemm.trace import layout
from simulator.studies.validation import gemm
from simulator.timing.config import load_config
from tests.support.cases import examples
from tests.support.paths import ROOT

TRACES = ROOT / "traces" / "gemm"
TILES = ("64x64x64", "128x64x64", "64x128x64", "128x128x128", "64x64x128")


def test_the_shipped_trace_gives_the_product() -> None:
    report = simulator.run("gemm/f16_64x64x64")
    wanted = np.load(TRACES / "f16_64x64x64.npz")["product"]
    assert np.array_equal(report.arrays["d"].view(np.float32).reshape(64, 64), wanted)
    assert not report.undefined
    assert not report.warnings
    assert report.memory.conflicts == 0


def _operands(tile: Tile, k: int, rng: np.random.Generator) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Small integers as the kernel reads them, and the product; metadata by PTX's figures, lane by lane."""
    dtype = {"f16": np.float16, "bf16": np.float32, "s8": np.int8}[tile.type]
    stored = k // 2 if tile.sparse else k
    a, b = rng.integers(-3, 4, (tile.bm, stored)), rng.integers(-3, 4, (tile.bn, k))
    full, words = a, np.zeros(1, np.uint32)
    if tile.sparse:
        pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])[rng.integers(0, 6, (tile.bm, k // 4))]
        full = np.zeros((tile.bm, k // 4, 4), np.int64)
        np.put_along_axis(full, pairs, a.reshape(tile.bm, k // 4, 2), axis=2)
        full = full.reshape(tile.bm, k)
        codes = pairs[..., 0] | pairs[..., 1] << 2
        words = np.zeros((k // 64, tile.warps_m, 32, tile.tiles_m), np.uint32)
        for block, warp, lane, m in np.ndindex(words.shape):
            row, (group, within) = 16 * (warp * tile.tiles_m + m), divmod(lane, 4)
            for q in range(8):
                if tile.type == "s8":
                    at = row + group + 8 * (within & 1), 16 * block + 8 * (within >> 1) + q
                else:
                    at = row + group + 8 * (q >> 2), 16 * block + 4 * within + (q & 3)
                words[block, warp, lane, m] |= np.uint32(codes[at] << 4 * q)

    def raw(values: np.ndarray) -> np.ndarray:
        cast = values.astype(dtype)
        return (cast.view(np.uint32) >> 16).astype(np.uint16) if tile.type == "bf16" else cast

    return {"a": raw(a), "b": raw(b), "e": words}, full @ b.T


@settings(deadline=None, max_examples=examples(6))
@given(
    st.sampled_from(("f16", "bf16", "s8")),
    st.sampled_from(TILES),
    st.sampled_from((2, 3, 4)),
    st.booleans(),
    st.integers(1, 6),
)
def test_products(
    tmp_path_factory: pytest.TempPathFactory, kind: str, size: str, stages: int, sparse: bool, tiles: int
) -> None:
    m, n, k = size.split("x")
    try:
        tile = parse_tile(f"{m}x{n}x{int(k) * (2 if kind == 's8' else 1)}", kind, stages=stages, sparse=sparse)
    except IsaError:
        return
    if tile.shared_bytes > load_config("h100_sxm").sm.shared_bytes:
        return
    depth, folder = tiles * tile.bk, tmp_path_factory.mktemp("gemm")
    arrays, product = _operands(tile, depth, np.random.default_rng(tiles))
    np.savez(folder / "x.npz", **arrays)  # type: ignore[arg-type]
    where = layout(tile, depth)
    loads = "\n".join(
        f'.load global[{at}], "x.npz", "{name}";'
        for name, at in (("a", 0), ("b", where.b), ("e", where.e))
        if name != "e" or sparse
    )
    (folder / "x.trace").write_text(kernel_trace(tile, depth, loads=loads))
    report = simulator.run(folder / "x.trace", None, compare=0)
    d = report.arrays["d"].view(np.int32 if kind == "s8" else np.float32).reshape(tile.bm, tile.bn)
    assert np.array_equal(d, product)
    assert not report.undefined


@pytest.mark.parametrize(
    ("text", "kind", "warps", "stages", "reason"),
    [
        ("128x128", "f16", None, 3, "not a tile"),
        ("100x128x64", "f16", None, 3, "rows for"),
        ("128x128x32", "f16", None, 3, "bk = 32"),
        ("128x128x64", "tf32", None, 3, "not one of the generator's"),
        ("128x128x64", "f16", (1, 1), 3, "rows for 1 warps"),
        ("256x256x64", "f16", (4, 1), 3, "registers"),
        ("128x128x64", "f16", (2, 2), 9, "9 stages"),
    ],
)
def test_tiles_that_are_none(text: str, kind: str, warps: tuple[int, int] | None, stages: int, reason: str) -> None:
    with pytest.raises(IsaError, match=reason) as error:
        parse_tile(text, kind, warps=warps, stages=stages)
    assert error.value.legal


@pytest.mark.exhaustive
def test_estimates() -> None:
    tile = parse_tile("128x256x64", "f16", stages=4)
    found = estimate(tile, 4096, 4096, 4096)
    assert (found.ctas, found.resident, found.waves) == (512, 1, 4)
    measured = next(
        line
        for line in gemm._table("h100_gemm_chip.csv")
        if line["variant"] == "f16_128x256x64_w2x4_s4" and line["m"] == line["n"] == "4096"
    )
    assert abs(found.time_us / float(measured["best_us"]) - 1) < 0.1
    assert abs(found.cycles / (float(measured["first_to_last_us"]) * float(measured["mhz"])) - 1) < 0.1
    small = estimate(tile, 128, 256, 4096)
    assert small.waves == 1
    assert small.cycles < found.wave_cycles * 1.05


def test_estimates_that_cannot_be_made() -> None:
    tile = parse_tile("128x256x64", "f16", stages=4)
    with pytest.raises(IsaError, match="no multiple"):
        estimate(tile, 4000, 4096, 4096)
    with pytest.raises(ConfigError, match="no times for global memory"):
        estimate(tile, 4096, 4096, 4096, "b200")


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["gemm", "--m", "256", "--n", "256", "--k", "512", "--tile", "64x64x64"]
    assert main([*arguments, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ctas"] == 16
    assert found["bound"]
    assert main(arguments) == 0
    assert "bound by" in capsys.readouterr().out
    assert main([*arguments, "--trace", str(tmp_path / "x.trace")]) == 0
    assert simulator.run(tmp_path / "x.trace", arithmetic="none").cycles > 0
    for bad in (
        ["--tile", "1x1x1"],
        ["--warps", "two"],
        ["--k", "100"],
        ["--config", "nowhere"],
        ["--trace", str(tmp_path / "no" / "x")],
    ):
        assert main([*arguments, *bad]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
