"""Kernels with tensor cores of Ampere: tiles by plain loads and by cp.async, swizzles, sparse products, epilogues."""

from __future__ import annotations

import itertools

import numpy as np

from tests.golden.sanitizer.case import Array, Case, Launch

Generator = np.random.Generator


def halves(rng: Generator, *shape: int) -> Array:
    """Integers from -3 to 3 as float16: products and sums of hundreds of them are exact in float32."""
    return rng.integers(-3, 4, shape).astype(np.float16)


def product(a: Array, b: Array) -> Array:
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float32)


def compressed(rng: Generator, rows: int, k: int) -> tuple[Array, Array, Array]:
    """A 2:4 sparse matrix: (dense, the values that are kept float16 [row, k / 2], codes uint8 [row, k / 4])."""
    pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
    kept = pairs[rng.integers(0, 6, (rows, k // 4))]
    values = halves(rng, rows, k // 4, 2)
    dense = np.zeros((rows, k // 4, 4), np.float16)
    np.put_along_axis(dense, kept, values, 2)
    codes = (kept[..., 0] | kept[..., 1] << 2).astype(np.uint8)
    return dense.reshape(rows, k), values.reshape(rows, k // 2), codes


def _gemm_stages(rng: Generator) -> Launch:
    a, b = halves(rng, 64, 96), halves(rng, 96, 64)
    return Launch(("a", "b", "c"), {"a": a, "b": b}, {"c": product(a, b)})


def _gemm_swizzle(rng: Generator) -> Launch:
    a, b = halves(rng, 64, 128), halves(rng, 128, 64)
    return Launch(("a", "b", "c"), {"a": a, "b": b}, {"c": product(a, b)})


def _gemm_sparse(rng: Generator) -> Launch:
    dense, values, codes = compressed(rng, 32, 128)
    b = halves(rng, 128, 32)
    # a word is for row g (low half) and g + 8 (high half) and four of the eight codes of 32 columns
    nibbles = codes.reshape(2, 2, 8, 4, 2, 4).astype(np.uint32) << np.arange(0, 16, 4, dtype=np.uint32)
    words = nibbles.sum(-1).astype(np.uint32)
    e = (words[:, 0] | words[:, 1] << 16).transpose(0, 2, 1, 3)
    return Launch(("a", "e", "b", "c"), {"a": values, "e": e, "b": b}, {"c": product(dense, b)})


def _warp_epilogue(rng: Generator) -> Launch:
    a, b = halves(rng, 8, 16, 16), halves(rng, 32, 16)
    return Launch(("a", "b", "c"), {"a": a, "b": b}, {"c": product(a, b.T).astype(np.float16)})


def _stmatrix_epilogue(rng: Generator) -> Launch:
    c = halves(rng, 4, 16, 16)
    x = c.reshape(4, 2, 8, 2, 4, 2).transpose(0, 3, 1, 2, 4, 5)  # matrix, row, pair of columns
    words = np.ascontiguousarray(x).view(np.uint32).reshape(4, 4, 32)
    return Launch(("x", "c"), {"x": words}, {"c": c})


def _double_buffer(rng: Generator) -> Launch:
    a, b = (rng.integers(-8, 9, shape).astype(np.float32) for shape in ((20, 40), (40, 27)))
    sizes = (("s32", 20), ("s32", 27), ("s32", 40))
    return Launch(("a", "b", "c", *sizes), {"a": a, "b": b}, {"c": a @ b})


def _ragged_rows(rng: Generator) -> Launch:
    lengths = np.array([5, 0, 70, 33, 1, 12, 40, 9, 64, 3])
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    columns = rng.integers(0, 50, offsets[-1]).astype(np.int32)
    values, x = (rng.integers(-8, 9, n).astype(np.float32) for n in (offsets[-1], 50))
    y = np.array([(values[i:j] * x[columns[i:j]]).sum() for i, j in itertools.pairwise(offsets)], np.float32)
    before = {"offsets": offsets, "columns": columns, "values": values, "x": x}
    return Launch(("offsets", "columns", "values", "x", "y", ("s32", 10)), before, {"y": y})


CASES = (
    Case(
        "double_buffer", "a product by plain loads, two buffers in turn, ragged edges", (2, 2), (16, 16), _double_buffer
    ),
    Case("ragged_rows", "a warp a row, rows of any length (CSR)", (3,), (128,), _ragged_rows),
    Case("gemm_stages", "three stages of `cp.async`, `wait_group 1` in the loop", (2, 2), (128,), _gemm_stages),
    Case("gemm_mbarriers", "`cp.async.mbarrier.arrive.noinc`, two stages", (2, 2), (128,), _gemm_stages),
    Case("gemm_swizzle", "tiles whose 16-byte parts change places by the row", (2,), (128,), _gemm_swizzle),
    Case(
        "gemm_sparse",
        "a 2:4 sparse product (`mma.sp`), metadata from global memory, two stages",
        (2,),
        (128,),
        _gemm_sparse,
    ),
    Case(
        "warp_epilogue",
        "each warp turns accumulators into rows through its own shared memory",
        (2,),
        (128,),
        _warp_epilogue,
    ),
    Case("stmatrix_epilogue", "`stmatrix`, `__syncwarp`, and again", (1,), (64,), _stmatrix_epilogue, "sm_90"),
)
