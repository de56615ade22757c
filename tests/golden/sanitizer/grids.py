"""Kernels about warps and CTAs that wait for one another: flags, locks, named barriers, passes over a whole grid."""

from __future__ import annotations

import numpy as np

from tests.golden.sanitizer.case import Array, Case, Launch

Generator = np.random.Generator


def _ints(rng: Generator, *shape: int, low: int = -50, high: int = 50) -> Array:
    return rng.integers(low, high, shape).astype(np.int32)


def _lookback_packed(rng: Generator) -> Launch:
    x = _ints(rng, 6, 64, low=0)
    sums = np.cumsum(x, dtype=np.int32).reshape(6, 64)
    states = (np.uint64(2) << np.uint64(32)) | sums[:, -1].astype(np.uint64)
    after = {"y": sums - x, "states": states, "ticket": np.array([6], np.uint32)}
    return Launch(("x", "y", "states", "ticket"), {"x": x}, after)


def _lookback_fence(rng: Generator) -> Launch:
    x = _ints(rng, 6, 64, low=0, high=2)
    totals = (x != 0).sum(1)
    prefixes = np.cumsum(totals).astype(np.int32)
    y = np.repeat(prefixes[:, None], 64, 1)
    return Launch(
        ("x", "y", "flags", "prefixes"), {"x": x}, {"y": y, "flags": np.ones(6, np.int32), "prefixes": prefixes}
    )


def _last_block(rng: Generator) -> Launch:
    x = _ints(rng, 5, 64)
    partial = x.sum(1, dtype=np.int32)
    after = {"partial": partial, "sum": partial.sum(keepdims=True, dtype=np.int32), "count": np.zeros(1, np.uint32)}
    return Launch(("x", "partial", "sum", "count"), {"x": x}, after)


def _grid_barrier(rng: Generator) -> Launch:
    x = _ints(rng, 256)
    b = (x[::-1] + 1) * 2
    a = np.roll(b, -64) + 3
    return Launch(("x", "a", "b", "count"), {"x": x}, {"a": a, "b": b, "count": np.array([8], np.uint32)})


def _serial_lock(rng: Generator) -> Launch:
    x = _ints(rng, 2, 4, 128)
    c = ((x[:, 0] * 2 + x[:, 1]) * 2 + x[:, 2]) * 2 + x[:, 3]
    return Launch(("x", "c", "locks"), {"x": x}, {"c": c, "locks": np.zeros(2, np.uint32)})


def _semaphore(rng: Generator) -> Launch:
    x = _ints(rng, 4, 2, 64)
    sums = np.cumsum(x, 0, dtype=np.int32)
    after = {"partial": sums[2].copy(), "d": sums[3].copy(), "semaphores": np.zeros(2, np.uint32)}
    return Launch(("x", "partial", "d", "semaphores"), {"x": x}, after)


def _stream_k(rng: Generator) -> Launch:
    tiles, per_tile, per_cta = 3, 7, 3
    x = _ints(rng, tiles * per_tile, 64)
    room, flags = np.zeros((7, 64), np.int32), np.zeros(7, np.uint32)
    for cta in range(7):
        first, stop = cta * per_cta, (cta + 1) * per_cta
        tile = first // per_tile
        if first != tile * per_tile:
            room[cta] = x[first : min(stop, (tile + 1) * per_tile)].sum(0)
            flags[cta] = 1
    after = {"d": x.reshape(tiles, per_tile, 64).sum(1, dtype=np.int32), "room": room, "flags": flags}
    numbers = (("s32", tiles), ("s32", per_tile), ("s32", per_cta))
    return Launch(("x", "d", "room", "flags", *numbers), {"x": x}, after)


def _spin_lock(rng: Generator) -> Launch:
    x = _ints(rng, 7)
    records = np.array([7, x.sum(), max(0, x.max())], np.int32)
    return Launch(("x", "records", "lock"), {"x": x}, {"records": records, "lock": np.zeros(1, np.int32)})


def _named_one(rng: Generator) -> Launch:
    x = _ints(rng, 5, 32)
    return Launch(("x", "y", ("s32", 5)), {"x": x}, {"y": x[:, ::-1].copy()})


def _named_two(rng: Generator) -> Launch:
    x = _ints(rng, 5, 64)
    return Launch(("x", "y", ("s32", 5)), {"x": x}, {"y": np.roll(x * 3, -33, 1)})


def _warp_pairs(rng: Generator) -> Launch:
    x = _ints(rng, 2, 4, 64)
    y = x.copy()
    for pair in range(4):
        for _ in range(pair + 1):
            y[:, pair] += y[:, pair, ::-1].copy()
    return Launch(("x", "y"), {"x": x}, {"y": y})


def _three_of_four(rng: Generator) -> Launch:
    x = _ints(rng, 128)
    part = np.zeros(128, np.int32)
    part[:96] = ((x[:96] + x[32:]) * 2)[::-1]
    part[96:] = x[96:] * 5
    return Launch(("x", "y"), {"x": x}, {"y": np.roll(part, -50)})


def _block_votes(rng: Generator) -> Launch:
    x = _ints(rng, 64)
    part = np.roll(x[::-1] + int((x > 0).sum()), 7)
    votes = np.array([(x > 0).sum(), (x == 3).any(), (x < 100).all()], np.int32)
    return Launch(("x", "y", "votes"), {"x": x}, {"y": part[np.arange(64) ^ 1], "votes": votes})


def _flag_release(rng: Generator) -> Launch:
    x = _ints(rng, 32)
    return Launch(("x", "y"), {"x": x}, {"y": x[::-1] * 7})


def _flag_volatile(rng: Generator) -> Launch:
    x = _ints(rng, 32)
    data = np.concatenate([x + 9, x - 9])
    return Launch(("x", "y"), {"x": x}, {"y": np.concatenate([data[31::-1], data[32:]])})


def _same_value(rng: Generator) -> Launch:
    x = _ints(rng, 2, 128, low=5, high=9)
    x[1] = 6
    y = x.copy()
    y[1] = 0
    return Launch(("x", "y", "found"), {"x": x}, {"y": y, "found": np.ones(1, np.int32)})


def _atomic_last(rng: Generator) -> Launch:
    x = _ints(rng, 5, 32)
    after = {"partial": x * 3, "sum": (x * 3).sum(0, dtype=np.int32), "count": np.array([5], np.uint32)}
    return Launch(("x", "partial", "sum", "count"), {"x": x}, after)


def _work_queue(rng: Generator) -> Launch:
    x = _ints(rng, 7, 64)
    y = x[:, ::-1] + np.arange(7, dtype=np.int32)[:, None]
    return Launch(("x", "y", "next", ("u32", 7)), {"x": x}, {"y": y, "next": np.array([10], np.uint32)})


def _ping_pong(rng: Generator) -> Launch:
    x = _ints(rng, 6, 64, low=-9, high=9)
    state = np.zeros(64, np.int32)
    for each in x:
        state = 2 * state[np.arange(64) ^ 32] + each
    return Launch(("x", "y", ("s32", 3)), {"x": x}, {"y": state})


CASES = (
    Case(
        "lookback_packed",
        "sums over all CTAs in one pass; state and sum in one word of 64 bits",
        (6,),
        (64,),
        _lookback_packed,
    ),
    Case("lookback_fence", "a value, `__threadfence` and a volatile flag between CTAs", (6,), (64,), _lookback_fence),
    Case("last_block", "the CTA that comes last adds up what all left (`atomicInc`)", (5,), (64,), _last_block),
    Case(
        "grid_barrier",
        "a barrier of all CTAs in global memory, cooperative launch",
        (4,),
        (64,),
        _grid_barrier,
        cooperative=True,
    ),
    Case(
        "serial_lock",
        "CTAs in turn add to a tile: a lock that counts (`ld.acquire`, `fence.acq_rel`, `red.relaxed`)",
        (4, 2),
        (128,),
        _serial_lock,
    ),
    Case("semaphore", "slices of k in turn; all threads vote while one fetches", (4, 2), (64,), _semaphore),
    Case("stream_k", "who begins a tile waits for the parts of others", (7,), (64,), _stream_k),
    Case("spin_lock", "`atomicCAS` and `atomicExch` with `__threadfence`, plain words inside", (7,), (32,), _spin_lock),
    Case("named_one", "a warp produces, a warp consumes: `bar.arrive` and `bar.sync`", (1,), (64,), _named_one),
    Case("named_two", "two buffers, each with barriers for full and empty", (1,), (128,), _named_two),
    Case("warp_pairs", "each pair of warps has a barrier of its own", (2,), (256,), _warp_pairs),
    Case("three_of_four", "a barrier of 96 of 128 threads", (1,), (128,), _three_of_four),
    Case("block_votes", "`__syncthreads_count`, `_or`, `_and` as barriers", (1,), (64,), _block_votes),
    Case(
        "flag_release",
        "a flag in shared memory, release and acquire at the scope of the CTA",
        (1,),
        (64,),
        _flag_release,
    ),
    Case("flag_volatile", "a volatile flag in shared memory and `__threadfence_block`", (1,), (64,), _flag_volatile),
    Case("same_value", "many threads store the same value to one word", (2,), (128,), _same_value),
    Case("atomic_last", "an atomic operation of libcu++ that releases and acquires", (5,), (32,), _atomic_last),
    Case("work_queue", "tiles from a counter, told by thread 0 in shared memory", (3,), (64,), _work_queue),
    Case("ping_pong", "two groups of warps take turns by named barriers", (1,), (128,), _ping_pong),
)
