"""GEMM kernels by tcgen05.mma: right products of every kind and type, tiles that are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import simulator
from isa import IsaError
from simulator.studies.gemm import Tile, estimate, tile_for
from simulator.studies.gemm.tcgen05 import Tcgen05Tile, global_images, parse_tcgen05_tile, tcgen05_trace
from simulator.studies.gemm.tcgen05.tile import KIND_OF, kinds_of
from tests.support.cases import PROGRAMS
from tests.support.scattered import scattered

NUMPY: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "s8": np.int8, "u8": np.uint8,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn, "e2m1": ml_dtypes.float4_e2m1fn,
}  # fmt: skip
FACTORS = {"ue8m0": {0.5: 126, 1.0: 127, 2.0: 128}, "ue4m3": {0.5: 0x30, 1.0: 0x38, 2.0: 0x40}}
EVERY = [(name, kind, sparse) for name in KIND_OF for kind in kinds_of(name) for sparse in (True, False)]
SIZES, LOOPS = ("128x96", "128x256", "256x128", "256x256", "256x192"), [(1, 1), (2, 3)]
PARTS = [
    (*what, size, LOOPS if PROGRAMS >= 1000 else LOOPS[number % 2 :][:1])
    for number, what in enumerate(EVERY)
    for place, size in enumerate(SIZES)
    if PROGRAMS >= 1000 or place == number % len(SIZES)
]
"""Each kind with one size and loop in turn; with TCSIM_PROGRAMS=1000 all of them."""
FEW = [("f16", "f16", True), ("s8", "i8", False), ("e2m3", "mxf8f6f4", True), ("e2m1", "mxf4nvf4", True)]


def patterns(values: np.ndarray, tile: Tcgen05Tile) -> np.ndarray:
    """Elements as `global_images` takes them: e2m1 of kinds with bytes in bits 2 to 5."""
    cast = values.astype(NUMPY[tile.type])
    bits = cast.view(f"u{cast.itemsize}").astype(np.uint32)
    return bits << 2 if tile.type == "e2m1" and "f8f6f4" in tile.kind else bits


def problem(tile: Tcgen05Tile, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Global memory with small integers, and the product."""
    low = 0 if tile.type == "u8" else -2
    stored = k // 2 if tile.sparse else k
    a, b = rng.integers(low, 3, (tile.bm, stored)), rng.integers(low, 3, (tile.bn, k))
    full, codes, scales = a, None, None
    if tile.sparse:
        kept, unit = (1, 1) if tile.type == "tf32" else (2, 2 if tile.kind.startswith("mxf4") else 1)
        full, codes = scattered(a, kept, unit, rng)
    left, right = full.astype(float), b.astype(float)
    if tile.scaled:
        table = FACTORS["ue4m3" if tile.kind == "mxf4nvf4" else "ue8m0"]
        numbers, words = np.array(list(table)), np.array(list(table.values()), np.uint32)
        chosen = [rng.integers(0, 3, (rows, k // tile.block)) for rows in (tile.bm, tile.bn)]
        scales = words[chosen[0]], words[chosen[1]]
        left, right = (
            matrix * np.repeat(numbers[which], tile.block, axis=1)
            for matrix, which in zip((left, right), chosen, strict=True)
        )
    return global_images(tile, patterns(a, tile), patterns(b, tile), codes, scales), left @ right.T


def check(tile: Tcgen05Tile, k: int, rounds: int, folder: Path) -> None:
    """The kernel on operands of its own gives their product, column by column, with nothing undefined."""
    memory, product = problem(tile, k, np.random.default_rng(k))
    np.savez(folder / "x.npz", memory=memory)
    text = tcgen05_trace(tile, k, rounds=rounds, loads='.load global[0], "x.npz", "memory";')
    (folder / "x.trace").write_text(text)
    report = simulator.run(folder / "x.trace", None, undefined="raise", compare=0)
    kind = np.int32 if tile.accumulator == "s32" else np.float32
    assert np.array_equal(report.arrays["d"].view(kind).reshape(tile.bn, tile.bm).T, product)
    assert report.warnings == ["values alone: without a config there are no cycles"]


@pytest.mark.parametrize(("name", "kind", "sparse"), FEW)
def test_products(tmp_path: Path, name: str, kind: str, sparse: bool) -> None:
    pair = parse_tcgen05_tile("256x32", name, kind=kind, sparse=sparse, stages=2)
    check(pair, 3 * pair.bk, 1, tmp_path)


@pytest.mark.exhaustive
def test_large_products_on_a_b200_and_b300_come_near_what_libraries_reach() -> None:
    """cuBLASLt on a B300: 2,119 TFLOPS of bf16 at 8192 (Antoniomv7/gb300-microbench @1f27767); the tensor cores' rate
    bounds it."""
    tile = tile_for("", "bf16", sparse=False, config="b300")
    found = estimate(tile, 8192, 8192, 8192, "b300")
    assert found.bound == "tensor"
    assert abs(found.tflops / 2119 - 1) < 0.05


@pytest.mark.exhaustive
def test_a_sparse_a_takes_half_the_products_and_shared_memory_and_copies_leave_less() -> None:
    found = estimate(tile_for("", "bf16", sparse=False, config="b300"), 8192, 8192, 8192, "b300")
    sparse = estimate(tile_for("", "bf16", sparse=True, config="b300"), 8192, 8192, 8192, "b300")
    assert 1.4 < sparse.tflops / found.tflops < 2
    assert sparse.shares["path to L2"] > found.shares["path to L2"]


def test_tiles_for_chips() -> None:
    assert tile_for("", "s8", sparse=True, config="b200") == tile_for("256x256", "s8", sparse=True, config="b200")
    assert isinstance(tile_for("", "s8", sparse=True, config="b300"), Tile)  # no .kind::i8 there
    thor, b200 = (tile_for("", "f16", sparse=True, config=name) for name in ("jetson_thor", "b200"))
    assert isinstance(thor, Tcgen05Tile)
    assert isinstance(b200, Tcgen05Tile)
    assert (thor.cluster, b200.cluster) == (4, 8)  # 20 SMs are no whole number of eights


@pytest.mark.parametrize(
    ("text", "how", "reason"),
    [
        ("64x64", {}, "64 rows"),
        ("256x24", {}, "24 columns"),
        ("256x256x32", {}, "bk = 32"),
        ("256x256", {"stages": 9}, "9 stages"),
        ("256x256", {"kind": "mxf4"}, "does not multiply f16"),
        ("256x256", {"accumulator": "f16"}, "accumulate f16 in f32"),
        ("256x256", {"cluster": (1, 1)}, "cluster of 1x1"),
        ("256", {}, "not a tile"),
    ],
)
def test_tiles_that_are_none(text: str, how: dict[str, Any], reason: str) -> None:
    with pytest.raises(IsaError, match=reason) as error:
        parse_tcgen05_tile(text, "f16", **how)
    assert error.value.legal


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "kind", "sparse", "size", "loops"), PARTS)
def test_every_product(
    tmp_path: Path, name: str, kind: str, sparse: bool, size: str, loops: list[tuple[int, int]]
) -> None:
    for rows, rounds in loops:
        first = parse_tcgen05_tile(size, name, kind=kind, sparse=sparse)
        bk = first.bk // 2 * rows if sparse else first.bk * rows
        tile = parse_tcgen05_tile(f"{size}x{bk}", name, kind=kind, sparse=sparse)
        if tile.shared_bytes <= 232448:
            check(tile, (tile.stages + 1) * tile.bk, rounds, tmp_path)
