"""Kernels of Hopper and Blackwell: bulk copies, mbarriers, clusters, wgmma, tcgen05."""

from __future__ import annotations

import numpy as np

from tests.golden.sanitizer.case import Array, Case, Launch
from tests.golden.sanitizer.tensor import compressed, halves, product

Generator = np.random.Generator


def _ints(rng: Generator, *shape: int) -> Array:
    return rng.integers(-50, 50, shape).astype(np.int32)


def _blocks(matrix: Array) -> Array:
    """A matrix [row, k] as blocks of 8 rows of 8 elements: [8 of k, 8 rows, row, element]."""
    rows, k = matrix.shape
    return np.ascontiguousarray(matrix.reshape(rows // 8, 8, k // 8, 8).transpose(2, 0, 1, 3))


def _bulk_pipeline(rng: Generator) -> Launch:
    x = _ints(rng, 6, 128)
    return Launch(("x", "y", ("s32", 6)), {"x": x}, {"y": x[:, ::-1] * 2})


def _bulk_stores(rng: Generator) -> Launch:
    x = _ints(rng, 5, 128)
    y = x[:, ::-1] + np.arange(5, dtype=np.int32)[:, None]
    return Launch(("x", "y", ("s32", 5)), {"x": x}, {"y": y})


def _elected_rows(rng: Generator) -> Launch:
    x = _ints(rng, 8, 32)
    return Launch(("x", "y"), {"x": x}, {"y": x[:, ::-1] * 3})


def _cluster_sums(rng: Generator) -> Launch:
    x = _ints(rng, 2, 2, 2, 32)  # cluster, CTA, warp, lane
    warps = x.sum(3)
    y = 2 * x + (warps[:, ::-1].sum(2)[..., None] + warps[:, :, ::-1])[..., None]
    return Launch(("x", "y"), {"x": x}, {"y": y.astype(np.int32)})


def _cluster_stores(rng: Generator) -> Launch:
    x = _ints(rng, 2, 2, 64)
    inbox = x[:, ::-1, ::-1]
    return Launch(("x", "y"), {"x": x}, {"y": inbox + inbox[..., np.arange(64) ^ 1]})


def _remote_arrive(rng: Generator) -> Launch:
    x = _ints(rng, 2, 2, 32)
    return Launch(("x", "y"), {"x": x}, {"y": x[:, 1, ::-1] * 5})


def _multicast_rows(rng: Generator) -> Launch:
    x = _ints(rng, 3, 128)
    y = x[:, None, ::-1] + np.arange(2, dtype=np.int32)[None, :, None]
    return Launch(("x", "y", ("s32", 3)), {"x": x}, {"y": y})


def _wgmma_pipeline(rng: Generator) -> Launch:
    tiles = 5
    a, b = halves(rng, tiles, 64, 16), halves(rng, tiles, 8, 16)
    before = {"a": np.stack([_blocks(each) for each in a]), "b": np.stack([_blocks(each) for each in b])}
    c = sum(product(left, right.T) for left, right in zip(a, b, strict=True))
    return Launch(("a", "b", "c", ("s32", tiles)), before, {"c": np.asarray(c)})


def _wgmma_stores(rng: Generator) -> Launch:
    tiles = 3
    a, b = halves(rng, tiles, 2, 64, 16), halves(rng, tiles, 8, 16)
    before = {
        "a": np.stack([_blocks(each) for pair in a for each in pair]),
        "b": np.stack([_blocks(each) for each in b]),
    }
    begin = np.tile(np.array([[1, 2], [3, 4]], np.float32).repeat(8, 0), (8, 4))
    c = begin + sum(product(left.reshape(128, 16), right.T) for left, right in zip(a, b, strict=True))
    return Launch(("a", "b", "c", ("s32", tiles)), before, {"c": c.astype(np.float32)})


def _wgmma_sparse(rng: Generator) -> Launch:
    tiles = 3
    dense, values, codes = compressed(rng, 64, 32 * tiles)
    b = halves(rng, tiles, 8, 32)
    nibbles = codes.reshape(4, 2, 8, tiles, 2, 4).astype(np.uint32) << np.arange(0, 16, 4, dtype=np.uint32)
    words = nibbles.sum(-1).astype(np.uint32)
    e = (words[:, 0] | words[:, 1] << 16).transpose(2, 0, 1, 3)  # tile, warp, row of 8, half of k
    a = np.stack([_blocks(values[:, 16 * t : 16 * t + 16]) for t in range(tiles)])
    c = sum(product(dense[:, 32 * t : 32 * t + 32], b[t].T) for t in range(tiles))
    before = {"a": a, "e": np.ascontiguousarray(e), "b": np.stack([_blocks(each) for each in b])}
    return Launch(("a", "e", "b", "c", ("s32", tiles)), before, {"c": np.asarray(c)})


def _tcgen05_product(rng: Generator) -> Launch:
    tiles = 3
    a, b = halves(rng, tiles, 128, 16), halves(rng, tiles, 16, 16)
    before = {"a": np.stack([_blocks(each) for each in a]), "b": np.stack([_blocks(each) for each in b])}
    c = sum(product(left, right.T) for left, right in zip(a, b, strict=True))
    return Launch(("a", "b", "c", ("s32", tiles)), before, {"c": np.asarray(c)})


CASES = (
    Case(
        "bulk_pipeline",
        "rows by `cp.async.bulk`, mbarriers for full and empty stages",
        (1,),
        (160,),
        _bulk_pipeline,
        "sm_90",
    ),
    Case("bulk_stores", "rows by bulk stores, two buffers, `wait_group.read`", (1,), (128,), _bulk_stores, "sm_90"),
    Case(
        "elected_rows", "`elect.sync`: a chosen lane stores the row of its warp", (2,), (128,), _elected_rows, "sm_90"
    ),
    Case(
        "cluster_sums",
        "shared memory of the other CTA, `barrier.cluster` in two parts",
        (4,),
        (64,),
        _cluster_sums,
        "sm_90",
    ),
    Case(
        "cluster_stores",
        "stores into the other CTA, a fence and a relaxed arrival",
        (4,),
        (64,),
        _cluster_stores,
        "sm_90",
    ),
    Case("remote_arrive", "an arrival on an mbarrier of the other CTA", (4,), (32,), _remote_arrive, "sm_90"),
    Case("multicast_rows", "one copy for both CTAs of a pair", (2,), (128,), _multicast_rows, "sm_90a"),
    Case(
        "wgmma_pipeline",
        "warp specialisation with `setmaxnreg`, one `wgmma` in flight",
        (1,),
        (256,),
        _wgmma_pipeline,
        "sm_90a",
    ),
    Case(
        "wgmma_stores",
        "tiles by ordinary stores, `fence.proxy.async`, two warpgroups",
        (1,),
        (256,),
        _wgmma_stores,
        "sm_90a",
    ),
    Case(
        "wgmma_sparse",
        "`wgmma.sp`, stores into one buffer while a product reads the other",
        (1,),
        (128,),
        _wgmma_sparse,
        "sm_90a",
    ),
    Case(
        "tcgen05_product",
        "`tcgen05.mma`, commit, mbarrier, fences, `tcgen05.ld`",
        (1,),
        (128,),
        _tcgen05_product,
        "sm_100a",
    ),
)
