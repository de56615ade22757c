"""Kernels about threads of one CTA: reductions, scans, tiles, shuffles."""

from __future__ import annotations

import numpy as np

from tests.golden.sanitizer.case import Array, Case, Launch

Generator = np.random.Generator


def _ints(rng: Generator, *shape: int, low: int = -50, high: int = 50) -> Array:
    return rng.integers(low, high, shape).astype(np.int32)


def _floats(rng: Generator, *shape: int, low: int = -8, high: int = 9) -> Array:
    """Small integers as float32: sums of them are exact, whatever their order."""
    return rng.integers(low, high, shape).astype(np.float32)


def _warp_reduce(rng: Generator) -> Launch:
    x = _ints(rng, 256)
    return Launch(("x", "sums"), {"x": x}, {"sums": x.reshape(8, 32).sum(1, dtype=np.int32)})


def _block_reduce(rng: Generator) -> Launch:
    x = _ints(rng, 2, 256)
    return Launch(("x", "sums"), {"x": x}, {"sums": x.sum(1, dtype=np.int32)})


def _warp_tail(rng: Generator) -> Launch:
    x = _ints(rng, 2, 128)
    return Launch(("x", "sums"), {"x": x}, {"sums": x.sum(1, dtype=np.int32)})


def _warp_sums(rng: Generator) -> Launch:
    x = _ints(rng, 2, 6, 32)
    warps = x.sum(2, keepdims=True)
    return Launch(
        ("x", "y"), {"x": x}, {"y": np.broadcast_to(warps.sum(1, keepdims=True) - warps, x.shape).astype(np.int32)}
    )


def _shuffle_halves(rng: Generator) -> Launch:
    x = _ints(rng, 4, 32)
    y = x.copy()
    y[:, :16] = x[:, :16].sum(1, keepdims=True)
    y[:, 16:] = np.cumsum(x[:, 16:], 1)
    votes = ((y & 1).astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(1).astype(np.uint32)
    return Launch(("x", "y", "votes"), {"x": x}, {"y": y, "votes": votes})


def _warp_aggregate(rng: Generator) -> Launch:
    keys = _ints(rng, 300, low=0, high=9)
    return Launch(
        ("keys", "counts", ("s32", 300)), {"keys": keys}, {"counts": np.bincount(keys, minlength=9).astype(np.int32)}
    )


def _histogram(rng: Generator) -> Launch:
    x = rng.integers(0, 256, 1000).astype(np.uint8)
    return Launch(
        ("x", "counts", ("s32", 1000)), {"x": x}, {"counts": np.bincount(x % 64, minlength=64).astype(np.uint32)}
    )


def _scan_two_buffers(rng: Generator) -> Launch:
    x = _ints(rng, 2, 128)
    return Launch(("x", "y"), {"x": x}, {"y": np.cumsum(x, 1, dtype=np.int32)})


def _scan_warps(rng: Generator) -> Launch:
    x = _ints(rng, 2, 256)
    sums = np.cumsum(x, 1, dtype=np.int32)
    return Launch(("x", "y", "total"), {"x": x}, {"y": sums - x, "total": sums[:, -1].copy()})


def _transpose(rng: Generator) -> Launch:
    x = _floats(rng, 50, 70)
    return Launch(("x", "y", ("s32", 50), ("s32", 70)), {"x": x}, {"y": x.T.copy()})


def _softmax_like(rng: Generator) -> Launch:
    x = _floats(rng, 3, 300)
    y = x - x.max(1, keepdims=True)
    return Launch(("x", "y", "sums", ("s32", 300)), {"x": x}, {"y": y, "sums": y.sum(1)})


def _layer_norm(rng: Generator) -> Launch:
    x = _floats(rng, 8, 128) * 128
    scale = _floats(rng, 128)
    return Launch(("x", "scale", "y"), {"x": x, "scale": scale}, {"y": (x - x.mean(1, keepdims=True)) * scale})


def _bytes_beside(rng: Generator) -> Launch:
    x = rng.integers(0, 2**32, 256).astype(np.uint32)
    words = (x & 0xFF).astype(np.uint8).view(np.uint32)
    halves = np.zeros(256, np.uint16)
    halves[np.arange(256) * 77 % 256] = x >> 16
    return Launch(("x", "y"), {"x": x}, {"y": np.concatenate([words[::-1], halves.view(np.uint32)])})


def _vectors_and_scalars(rng: Generator) -> Launch:
    x = _floats(rng, 256)
    y = x.reshape(64, 4)[::-1] + np.array([1, 2, 3, 4], np.float32)
    return Launch(("x", "y"), {"x": x}, {"y": y.reshape(-1)})


def _union_reuse(rng: Generator) -> Launch:
    x = _ints(rng, 2, 128)
    i = np.arange(128)
    z = x[:, 127 - i] + x[:, i ^ 32]
    y = np.zeros((2, 128), np.float32)
    y[:, i * 5 % 128] = 0.5 * z
    return Launch(("x", "y", "z"), {"x": x}, {"y": y, "z": z})


def _dynamic_parts(rng: Generator) -> Launch:
    x = _ints(rng, 100)
    other = x[::-1]
    return Launch(("x", "y", ("s32", 100)), {"x": x}, {"y": np.where(other & 1, other, -other)})


def _local_arrays(rng: Generator) -> Launch:
    x = _ints(rng, 64, 9, low=0)
    y = np.full((64, 4), -1, np.int32)
    for k in range(4):
        y[:, k] = np.where((x & 3) == k, x >> 2, -1).max(1)
    return Launch(("x", "y", ("s32", 9)), {"x": x}, {"y": y})


def _divergent_loop(rng: Generator) -> Launch:
    turns = _ints(rng, 4, 32, low=0, high=7)
    y = np.zeros((4, 32), np.int32)
    for warp in range(4):
        for t in range(int(turns[warp].max())):
            lanes = np.flatnonzero(turns[warp] > t)
            y[warp, lanes[1:]] += lanes[:-1].astype(np.int32) + t
    return Launch(("turns", "y"), {"turns": turns}, {"y": y})


def _zero_padding(rng: Generator) -> Launch:
    x = _floats(rng, 300)
    padded = np.concatenate([x, np.zeros(84, np.float32)])
    weights = (np.arange(384)[None] % 128 + np.arange(128)[:, None]) % 3
    return Launch(("x", "y", ("s32", 300)), {"x": x}, {"y": (padded * weights).sum(1).astype(np.float32)})


def _early_exit(rng: Generator) -> Launch:
    x = _ints(rng, 70)
    y = np.concatenate([x, np.zeros(26, np.int32)])[::-1][:70].copy()
    return Launch(("x", "y", ("s32", 70)), {"x": x}, {"y": y})


def _stencil2d(rng: Generator) -> Launch:
    x = _floats(rng, 19, 45)
    wide = np.pad(x, 1)
    y = 4 * x - wide[:-2, 1:-1] - wide[2:, 1:-1] - wide[1:-1, :-2] - wide[1:-1, 2:]
    return Launch(("x", "y", ("s32", 19), ("s32", 45)), {"x": x}, {"y": y})


def _cg_tiles(rng: Generator) -> Launch:
    x = _ints(rng, 2, 8, 16)
    y = np.broadcast_to(x.sum(2, keepdims=True), x.shape).astype(np.int32)
    return Launch(("x", "y", "odd"), {"x": x}, {"y": y, "odd": np.array([(x & 1).sum()], np.int32)})


def _frontier(rng: Generator) -> Launch:
    counts = rng.integers(0, 5, 64)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    edges = rng.integers(0, 100, starts[-1]).astype(np.int32)
    found = edges[edges % 3 != 0]
    depth = np.zeros(100, np.int32)
    depth[found] = 1
    after = {"depth": depth, "pushed": np.array([len(found)], np.int32)}
    return Launch(("starts", "edges", "depth", "pushed"), {"starts": starts, "edges": edges}, after)


CASES = (
    Case(
        "warp_reduce",
        "a tree in shared memory within a warp, `__syncwarp` between reads and writes",
        (2,),
        (128,),
        _warp_reduce,
    ),
    Case("block_reduce", "a tree in shared memory, `__syncthreads` in a loop", (2,), (256,), _block_reduce),
    Case("warp_tail", "the last steps of a block's sum are one warp's", (2,), (128,), _warp_tail),
    Case(
        "warp_sums", "an array is cleared by one warp and filled by others, a barrier between", (2,), (192,), _warp_sums
    ),
    Case("shuffle_halves", "halves of a warp part and shuffle by their own masks", (2,), (64,), _shuffle_halves),
    Case(
        "warp_aggregate",
        "one atomic operation for the lanes with one key (`__match_any_sync`)",
        (3,),
        (128,),
        _warp_aggregate,
    ),
    Case(
        "histogram",
        "atomic operations on shared memory between barriers, then on global memory",
        (2,),
        (128,),
        _histogram,
    ),
    Case("scan_two_buffers", "sums after Hillis and Steele, two buffers in turn", (2,), (128,), _scan_two_buffers),
    Case("scan_warps", "shuffles within warps, shared memory among them", (2,), (256,), _scan_warps),
    Case("transpose", "padded tiles, ragged edges", (3, 2), (32, 8), _transpose),
    Case("softmax_like", "two reductions through the same shared memory", (3,), (128,), _softmax_like),
    Case("layer_norm", "lane 0 broadcasts a mean through shared memory", (2,), (128,), _layer_norm),
    Case("bytes_beside", "lanes store bytes and half words of the same word", (1,), (256,), _bytes_beside),
    Case(
        "vectors_and_scalars",
        "scalar and vector accesses to the same memory, barriers between",
        (1,),
        (64,),
        _vectors_and_scalars,
    ),
    Case("union_reuse", "shared memory is used as another type behind a barrier", (2,), (128,), _union_reuse),
    Case("dynamic_parts", "dynamic shared memory cut into two arrays", (1,), (64,), _dynamic_parts, dynamic_shared=500),
    Case("local_arrays", "an array in local memory, indexed by data", (1,), (64,), _local_arrays),
    Case("divergent_loop", "lanes of a turn meet by a mask from a vote", (2,), (64,), _divergent_loop),
    Case("zero_padding", "a tile that is filled in part, and its rest with zeros", (1,), (128,), _zero_padding),
    Case("early_exit", "whole warps return before a barrier", (1,), (128,), _early_exit),
    Case("stencil2d", "a halo in shared memory, ragged edges", (2, 3), (32, 8), _stencil2d),
    Case("cg_tiles", "tiles and coalesced threads of cooperative groups", (2,), (128,), _cg_tiles),
    Case("frontier", "slots of a queue by an atomic operation, stores of equal values", (1,), (64,), _frontier),
)
