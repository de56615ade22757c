"""Descriptors, plans, algorithm selections and the time of products."""

from __future__ import annotations

import numpy as np
import pytest

from isa.errors import IsaError
from simulator.studies.gemm import Tcgen05Tile, Tile, tiles_of
from simulator.studies.sparselt.cost import TILES, cost, tile_for
from simulator.studies.sparselt.descriptors import MatmulDescriptor, MatrixDescriptor
from simulator.studies.sparselt.multiply import matmul
from simulator.studies.sparselt.plan import AlgorithmSelection, Plan, search
from simulator.studies.sparselt.pruning import prune
from tests.support.cases import exhaustive

RNG = np.random.default_rng(15)


def operands(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """A pruned, f16, and B."""
    a, b = (RNG.standard_normal((rows, k)).astype(np.float16) for rows in (m, n))
    return prune(a, "f16", "strip"), b


def test_memory_of_descriptors() -> None:
    described = MatrixDescriptor(16, 32, "f16", order="col", ld=24, batches=2, batch_stride=1024)
    values = RNG.integers(0, 1 << 16, (2, 16, 32)).astype(np.uint16)
    memory = described.write(values)
    assert memory.size == described.size == 1024 + 31 * 24 + 16
    assert np.array_equal(described.read(memory), values)
    assert memory[1024 + 3 * 24 + 5] == values[1, 5, 3]
    wide = MatrixDescriptor(16, 32, "f16", batches=3, batch_stride=0)
    assert np.array_equal(wide.read(values[0])[2], values[0])
    with pytest.raises(IsaError, match="elements in memory"):
        described.read(memory[:-1])


@pytest.mark.parametrize(
    "orders", [("row", "row", "row"), ("col", "row", "col"), ("row", "col", "row"), ("col", "col", "col")]
)
@pytest.mark.parametrize("ops", ["nt", "tn"])
def test_a_plan_gives_the_same_in_every_layout(orders: tuple[str, str, str], ops: str) -> None:
    a, b = operands(32, 48, 64)
    c = RNG.standard_normal((32, 48)).astype(np.float16)
    wanted = matmul(a, b, c, type="f16", beta=0.5, bias=c[:, 0]).d
    of_a, of_b = a if ops[0] == "n" else a.T, b.view(np.uint16) if ops[1] == "t" else b.view(np.uint16).T
    descriptors = [
        MatrixDescriptor(*x.shape, "f16", order=order, structured=i == 0)
        for i, (x, order) in enumerate(zip((of_a, of_b, c, c), (*orders, orders[2]), strict=True))
    ]
    plan = Plan(MatmulDescriptor(*descriptors, op_a=ops[0], op_b=ops[1]))
    lying = [d.write(x[None].view(np.uint16)) for d, x in zip(descriptors, (of_a, of_b, c), strict=False)]
    memory, product = plan(*lying, beta=0.5, bias=c[:, 0].copy())
    assert np.array_equal(product.d[0], wanted)
    assert np.array_equal(descriptors[3].read(memory)[0], wanted)


@pytest.mark.parametrize(
    ("selection", "target", "words"),
    [
        ({"split_k": 2}, "sm_90a", "split_k = 2"),
        ({"mode": "streamk"}, "sm_90a", "mode 'streamk'"),
        ({"mode": "none"}, "sm_90a", "mode 'none'"),
        ({"buffers": 1}, "sm_90a", "1 split-K buffers"),
        ({"config_id": len(TILES)}, "sm_90a", "config id"),
        ({"iterations": 0}, "sm_90a", "iterations"),
        ({"split_k": 4, "buffers": 4}, "sm_80", "4 split-K buffers"),
    ],
)
def test_selections_that_the_library_refuses(selection: dict[str, object], target: str, words: str) -> None:
    with pytest.raises(IsaError, match=words):
        AlgorithmSelection(**selection).check(target)  # type: ignore[arg-type]


def test_selections_that_it_takes() -> None:
    AlgorithmSelection(split_k=-1, mode="two_kernels").check("sm_90a")
    AlgorithmSelection(split_k=4, buffers=3).check("sm_80")
    AlgorithmSelection(mode="streamk").check("sm_100a")


@pytest.mark.exhaustive
def test_time_has_its_parts_and_the_best_tile_is_found() -> None:
    a, b = operands(256, 128, 128)
    c = np.zeros((256, 128), np.float16)
    plain = matmul(a, b, type="f16", config="h100_sxm", exact=False)
    more = matmul(a, b, c, beta=1.0, type="f16", config="h100_sxm", exact=False, split_k=2)
    assert plain.cost is not None
    assert more.cost is not None
    assert plain.exact is None
    assert plain.ulp is None
    assert plain.cycles == plain.cost.kernel.cycles
    assert more.cost.reduction_cycles > 0
    assert more.cost.epilogue_cycles > 0
    assert more.cycles == more.cost.kernel.cycles + more.cost.reduction_cycles + more.cost.epilogue_cycles
    found = search("f16", 256, 128, 128, tiles=tiles_of("h100_sxm")[:2], split_k=(1,))
    assert found.choices[0][1].cycles <= found.choices[-1][1].cycles
    assert set(found.to_frame().columns) >= {"config_id", "tile", "cycles", "time_us"}
    with pytest.raises(IsaError):
        search("e2m1", 128, 128, 128)


@exhaustive
def test_a_product_is_timed_with_the_instructions_of_its_type() -> None:
    a, b = (RNG.integers(-2, 3, (32, 64)).astype(np.float32) for _ in range(2))
    shapes = {}
    for kind, compute in (("f32", "32f"), ("f16", "16f"), ("s8", "32i")):
        left = prune(a, kind, "strip")
        how = {"config": "h100_sxm", "tile": "64x64", "path": "mma"}
        found = matmul(left, b, type=kind, compute=compute, exact=False, **how).cost  # type: ignore[arg-type]
        assert found is not None
        assert found.kernel == cost(found.kernel.tile, 32, 32, 64, "h100_sxm").kernel
        assert isinstance(found.kernel.tile, Tile)
        shapes[kind] = found.kernel.tile.form.opcode.split("aligned.")[1]
    assert shapes == {
        "f32": "m16n8k16.row.col.f32.tf32.tf32.f32",
        "f16": "m16n8k32.row.col.f16.f16.f16.f16",
        "s8": "m16n8k64.row.col.s32.s8.s8.s32",
    }
    fp8 = tile_for("64x64", "e4m3", sparse=True)
    assert isinstance(fp8, Tile)
    assert fp8.form.opcode.endswith("m16n8k64.row.col.f32.e4m3.e4m3.f32")
    blackwell = matmul(left, b.astype(np.int8), type="s8", config="b200", tile="128x32", exact=False).cost
    assert blackwell is not None
    assert isinstance(blackwell.kernel.tile, Tcgen05Tile)
    with pytest.raises(IsaError, match=r"lists no product of e4m3 .* for sm_80"):
        matmul(prune(a, "e4m3", "strip"), b, type="e4m3", config="a100")
