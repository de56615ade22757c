"""GEMM kernels by wgmma: right products of every type, what threads hold of metadata, tiles that are none, and who
multiplies where."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import simulator
from isa import IsaError
from simulator.chip.config import load_config
from simulator.errors import Error
from simulator.studies.gemm import (
    Tile,
    WgmmaTile,
    estimate,
    fastest,
    parse_wgmma_tile,
    tile_for,
    tiles_of,
    wgmma_kernel,
)
from simulator.studies.gemm.choice import WGMMA_TILES
from simulator.studies.gemm.shares import LATENCY
from simulator.studies.gemm.wgmma.chip import WgmmaKernel, launch_of
from simulator.studies.gemm.wgmma.operands import metadata_image, tensor_maps
from simulator.studies.gemm.wgmma.tile import OUTPUTS
from simulator.studies.sparselt.descriptors import MatmulDescriptor, MatrixDescriptor
from simulator.studies.sparselt.plan import Plan, search
from simulator.studies.sparselt.pruning import prune
from simulator.studies.sweep import run
from tests.support.cases import over
from tests.support.ptxas import PTXAS, assembles
from tests.support.scattered import scattered

Tcsim = Callable[..., tuple[int, str, str]]
NUMPY: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32, "s8": np.int8, "u8": np.uint8,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "s32": np.int32,
}  # fmt: skip
EVERY = [
    (tile, name, sparse, {"output": output, "cluster": cluster})
    for number, (name, output) in enumerate((name, output) for name, of in OUTPUTS.items() for output in of)
    for sparse in (True, False)
    for tile, cluster in (("128x128", (1, 1)), ("64x64", (1, 2)), ("256x64", (2, 1)))[number % 2 :]
]
FEW: list[tuple[str, str, bool, dict[str, Any]]] = [
    ("128x64", "f16", True, {}),
    ("64x64", "e4m3", False, {}),
    ("64x32", "tf32", True, {}),
    ("128x64", "s8", True, {"cluster": (2, 2)}),
]


def problem(tile: WgmmaTile, m: int, n: int, k: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """A as it is stored, B, metadata as the kernel loads them, and the product; small integers."""
    rng = np.random.default_rng(m + n + k)
    low = 0 if tile.type == "u8" else -2
    a, b = rng.integers(low, 3, (m, k // 2 if tile.sparse else k)), rng.integers(low, 3, (n, k))
    full, image = a, np.zeros(4, np.uint32)
    if tile.sparse:
        full, codes = scattered(a, 1 if tile.type == "tf32" else 2, 1, rng)
        image = metadata_image(tile, codes).reshape(-1)
    return a.astype(NUMPY[tile.type]), b.astype(NUMPY[tile.type]), image, full @ b.T


def check(tile: WgmmaTile, m: int, n: int, k: int, sms: int, **how: Any) -> None:
    """The kernel gives the product, with nothing undefined."""
    a, b, image, product = problem(tile, m, n, k)
    d = np.full((m, n), -77, NUMPY[tile.output])
    launch = launch_of(tile, m, n, k, sms)
    words = (np.uint32(x) for x in (-(-k // tile.bk), launch.clusters_m, launch.clusters_n, launch.raster))
    arguments = (*zip(tensor_maps(tile, m, n, k), (a, b, d), strict=True), image, *words)
    function = simulator.Module(wgmma_kernel(tile)).get_function()
    options: dict[str, Any] = {
        "shared_mem": tile.shared_bytes,
        "cluster": tile.cluster,
        "workers": 1,
        "undefined": "raise",
    }
    report = function(launch.grid, 32 * tile.warps, arguments, **options, **how)
    assert np.array_equal(d.astype(float), product), str(tile)
    assert not report.undefined


@over("case", FEW, ids=str)
def test_products(case: tuple[str, str, bool, dict[str, Any]]) -> None:
    """Ragged sizes; more iterations than stages, and more tiles than CTAs: loops of both go round."""
    text, name, sparse, how = case
    tile = parse_wgmma_tile(text, name, sparse=sparse, stages=2, **how)
    check(tile, 2 * tile.bm * tile.cluster_m + 8, tile.bn + 16, 3 * tile.bk, tile.cluster)


@pytest.mark.exhaustive
@over("case", EVERY, ids=str)
def test_every_product(case: tuple[str, str, bool, dict[str, Any]]) -> None:
    text, name, sparse, how = case
    for stages in (2, 3):
        tile = parse_wgmma_tile(text, name, sparse=sparse, stages=stages, **how)
        check(tile, 3 * tile.bm - 8, 2 * tile.bn + 16, 4 * tile.bk, 2 * tile.cluster)


@pytest.mark.parametrize("tile", ["128x64", pytest.param("64x64", marks=pytest.mark.exhaustive)])
def test_products_whose_copies_and_instructions_complete_late(tile: str) -> None:
    check(parse_wgmma_tile(tile, "f16", stages=2), 136, 80, 384, 1, completion="latest")


def test_threads_hold_the_metadata_of_their_rows() -> None:
    """PTX ISA 9.0, figures of 9.7.15.6.2: of f16 a register has the codes of a row for 32 columns of K (8 chunks) in
    threads 0 and 1 of each quad, by turns of two selectors; other rows are filled up with a legal code."""
    tile = parse_wgmma_tile("128x64", "f16", stages=2)
    codes = np.full((65, 32), 0x4, np.uint32)
    codes[3, :8] = 0xE
    image = metadata_image(tile, codes)
    assert image.shape == (1, 1, 2, 128, 2)
    assert image.nbytes == tile.bytes_e
    held = np.argwhere(image != 0x44444444)
    assert {tuple(place) for place in held[:, :3]} == {(0, 0, 0)}
    assert {int(thread) // 4 for thread in held[:, 3]} == {3}
    assert {int(word) for word in held[:, 4]} == {0}


# Tiles


@pytest.mark.parametrize(
    ("text", "how", "reason"),
    [
        ("32x128", {}, "32 rows"),
        ("192x64", {"schedule": "cooperative"}, "192 rows"),
        ("128x72", {}, "72 columns"),
        ("128x128x64", {}, "bk = 64"),
        ("256x256", {}, "256 accumulators a thread"),
        ("128x128", {"stages": 13}, "13 stages"),
        ("128x128", {"schedule": "fast"}, "schedule 'fast'"),
        ("128x128", {"output": "s32"}, "D of s32 from f16"),
        ("128x128", {"accumulator": "f16"}, "accumulate f16 in f32"),
        ("128x128", {"cluster": (3, 1)}, "a cluster of 3x1"),
        ("128", {}, "not a tile"),
    ],
)
def test_tiles_that_are_none(text: str, how: dict[str, Any], reason: str) -> None:
    with pytest.raises(IsaError, match=reason) as error:
        parse_wgmma_tile(text, "f16", **how)
    assert error.value.legal


def test_libraries_path_is_the_default_and_mma_what_it_lacks() -> None:
    for name in ("h100_sxm", "h200", "h800_pcie"):
        assert tiles_of(name) == WGMMA_TILES
        assert isinstance(tile_for("", "f16", sparse=True, config=name), WgmmaTile)
    ways: list[tuple[str, dict[str, Any]]] = [
        ("f16", {"path": "mma"}), ("f16", {"warps": (2, 2)}), ("f16", {"accumulator": "f16"}), ("s4", {}), ("u4", {}),
    ]  # fmt: skip
    for name, how in ways:
        assert isinstance(tile_for("", name, sparse=True, config="h100_sxm", **how), Tile)
    for path, words in (("wgmma", "wgmma"), ("tcgen05", "a100 has no tcgen05.mma"), ("cuda", "no kernels of 'cuda'")):
        with pytest.raises(Error, match=words):
            estimate(tile_for("", "f16", sparse=True, config="a100", path=path), 256, 256, 256, "a100")
    with pytest.raises(IsaError, match=r'bk = 64; legal: 128 for f16.*; or path "mma", which has this tile'):
        tile_for("64x64x64", "f16", sparse=True, config="h100_sxm")
    for text, path in (("64x64x64", "wgmma"), ("100x100", "")):
        with pytest.raises(IsaError) as error:
            tile_for(text, "f16", sparse=True, config="h100_sxm", path=path)
        assert "path" not in error.value.legal


# Time


def test_the_command_says_who_multiplies(tcsim: Tcsim, tmp_path: Path) -> None:
    size = ["gemm", "--m", "256", "--n", "128", "--k", "256", "--tile", "128x64", "--stages", "2"]
    code, out, err = tcsim(*size)
    assert (code, err) == (0, "")
    assert out.startswith("sparse f16 to f16 128x64x128, wgmma cooperative, ")
    assert "kernel " in out
    assert json.loads(tcsim(*size, "--path", "mma", "--format", "json")[1])["tile"]["warps_m"] == 2
    ptx = tmp_path / "k.ptx"
    assert tcsim(*size, "--schedule", "pingpong", "--kernel", ptx)[0] == 0
    tile = parse_wgmma_tile("128x64", "f16", stages=2, schedule="pingpong")
    assert ptx.read_text() == wgmma_kernel(tile)
    for more, said in (
        (["--trace", "x.trace"], "--kernel for kernels by wgmma, --trace for all others"),
        (["--path", "mma", "--kernel", "x.ptx"], "--kernel for kernels by wgmma, --trace for all others"),
        (["--trace", "x", "--kernel", "y"], "one of them"),
        (["--a", "w.npy", "--b", "x.npy", "--kernel", "x.ptx"], "--kernel without --a"),
        (["--path", "mma", "--schedule", "pingpong"], 'path "wgmma"'),
        (["--path", "wgmma", "--warps", "2x2"], 'path "mma"'),
    ):
        code, out, err = tcsim(*size, *more)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert said in err


@pytest.mark.skipif(PTXAS is None, reason="needs ptxas")
@over("case", FEW + EVERY, ids=str, distinct=lambda case: str(case) if case in FEW else "")
def test_ptxas_takes_kernels(case: tuple[str, str, bool, dict[str, Any]]) -> None:
    text, name, sparse, how = case
    assert assembles(wgmma_kernel(parse_wgmma_tile(text, name, sparse=sparse, **how)), "sm_90a") == (True, "")


SLOWED = {
    "tensor": ["wgmma.columns=1"],
    "shared memory": ["wgmma.operand_bytes=16"],
    "path to L2": ["memory.bulk_bytes=20"],
    "L2 reads": ["l2.read_bytes=x1/16"],
    "stores": ["l2.write_bytes=40"],
    "device memory": ["hbm.bytes=80"],
    LATENCY: ["memory.tensor_latency=[9000, 9000]"],
}


@over("name", list(SLOWED), distinct=lambda name: name if name == "shared memory" else "")
def test_a_product_by_wgmma_is_bound_by_what_alone_is_slow(name: str) -> None:
    chip = load_config("h100_sxm", SLOWED[name])
    answer = estimate(tile_for("128x128", "f16", sparse=False, stages=3, config=chip), 1024, 1024, 1024, chip)
    assert answer.bound == name, answer.shares
    assert set(SLOWED) - {LATENCY} == set(answer.shares) - {"waves"}
    assert all(share <= 1.05 for share in answer.shares.values()), answer.shares


def test_iterations_and_tiles_add_up() -> None:
    """Twice the iterations of a tile take as much longer as an iteration says; what a later tile adds is its main loop
    and less than the first one took."""
    chip = load_config("h100_sxm")
    tile = tile_for("128x64", "f16", sparse=False, stages=2, config=chip)
    assert isinstance(tile, WgmmaTile)
    kernels = [WgmmaKernel(tile, 128 * 11, 64 * 36, k, chip) for k in (1024, 2048)]
    assert [kernel.rounds for kernel in kernels] == [3, 3]
    short, long = kernels
    assert long.first - short.first == pytest.approx(16 * short.iteration, rel=0.01)
    assert 0 < short.following < short.first
    assert short.following > 16 * short.tensor_cycles


def test_time_alone_is_the_time_of_a_launch() -> None:
    """arithmetic="none": the same cycles, and nothing is written."""
    tile = parse_wgmma_tile("128x64", "f16", stages=2)
    a, b, image, product = problem(tile, 128, 64, 256)
    maps, function = tensor_maps(tile, 128, 64, 256), simulator.Module(wgmma_kernel(tile)).get_function()
    cycles = {}
    for arithmetic in ("chip", "none"):
        d = np.full((128, 64), -77, np.float16)
        arguments = (*zip(maps, (a, b, d), strict=True), image, *map(np.uint32, (2, 1, 1, 1)))
        how: dict[str, Any] = {"shared_mem": tile.shared_bytes, "config": "h100_sxm", "workers": 1}
        report = function(1, 32 * tile.warps, arguments, arithmetic=arithmetic, **how)
        assert np.array_equal(d, product if arithmetic == "chip" else np.full_like(d, -77))
        assert report.timing is not None
        cycles[arithmetic] = report.timing.cycles
    assert cycles["none"] == cycles["chip"] > 1000


def test_a_sweep_takes_a_path() -> None:
    spec = {"m": 256, "n": 64, "k": 256, "tile": "128x64", "stages": 2, "path": ["mma", "wgmma"]}
    frame = run(spec, workers=1)
    for row in frame.to_dict("records"):
        tile = tile_for("128x64", "f16", sparse=True, stages=2, config="h100_sxm", path=row["path"])
        assert (row["error"], row["cycles"]) == ("", estimate(tile, 256, 64, 256).cycles)
    assert frame["cycles"].nunique() == 2
    plain = run({key: value for key, value in spec.items() if key != "path"}, workers=1)
    assert plain["cycles"][0] == frame["cycles"][1]


def test_products_and_plans_are_timed_by_the_path() -> None:
    rng = np.random.default_rng(3)
    a, b = prune(rng.standard_normal((64, 128)).astype(np.float16), "f16", "strip"), rng.standard_normal((64, 128))
    of_a, of_b = (MatrixDescriptor(64, 128, "f16", structured=structured) for structured in (True, False))
    of_d = MatrixDescriptor(64, 64, "f16")
    memory = [d.write(x[None].view(np.uint16)) for d, x in ((of_a, a), (of_b, b.astype(np.float16)))]
    for path, kind in (("", WgmmaTile), ("mma", Tile)):
        tiles = tiles_of("h100_sxm", path)
        best = search("f16", 64, 64, 128, tiles=tiles[3:4], split_k=(1,), path=path)
        assert best.to_frame()["tile"].tolist() == [tiles[3]] == ["128x64"]
        plan = Plan(MatmulDescriptor(of_a, of_b, of_d, of_d), best.best, "h100_sxm", path)
        cost = plan(*memory, exact=False)[1].cost
        assert cost is not None
        assert type(cost.kernel.tile) is kind
        assert cost.cycles == best.choices[0][1].cycles
    with pytest.raises(IsaError, match=r"tile 64x64 has no config id; legal: 128x128, 128x256"):
        search("f16", 64, 64, 128, tiles=("64x64",))


@pytest.mark.exhaustive
def test_no_tile_is_much_faster_than_the_one_that_is_found() -> None:
    found = fastest("f16", 2048, 1024, 512)
    each = [estimate(tile_for(t, "f16", sparse=True, config="h100_sxm"), 2048, 1024, 512).cycles for t in WGMMA_TILES]
    assert isinstance(found.tile, WgmmaTile)
    assert found.cycles <= 1.03 * min(each)
