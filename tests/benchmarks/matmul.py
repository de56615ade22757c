"""`exact_gemm` of f16 with a 2:4-sparse A against numpy's float64 product of the same size: `python -m
tests.benchmarks.matmul [--size N]`."""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

import isa
from simulator.arithmetic.exact_gemm import exact_gemm
from tests.golden import reference

ROUNDS = 5
SAMPLES = 1000


def operands(size: int) -> tuple[NDArray[np.float16], NDArray[np.float16]]:
    """Normal numbers, A pruned 2:4 by magnitude."""
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((size, size), np.float32).astype(np.float16) for _ in range(2))
    for start in range(0, size, 256):
        rows = a[start : start + 256]
        rows *= isa.prune(rows.astype(np.float64), isa.TWO_OF_FOUR)
    return a, b


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def wrong_samples(a: NDArray[np.float16], b: NDArray[np.float16], found: NDArray[np.float32]) -> int:
    """How many of the sampled elements differ from the sum of fractions, rounded once."""
    rng = np.random.default_rng(2)
    places = rng.integers(0, found.shape[0], SAMPLES), rng.integers(0, found.shape[1], SAMPLES)
    f32, wrong = isa.ELEMENT_TYPES["f32"], 0
    for i, j in zip(*places, strict=True):
        total = Fraction(0)
        for x, y in zip(a[i].tolist(), b[:, j].tolist(), strict=True):
            if x and y:
                total += Fraction(x) * Fraction(y)
        wanted = reference.write(total, f32, nearest=True) | (total < 0) << 31
        wrong += wanted != int(found[i, j].view(np.uint32))
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=4096, help="M = N = K, a multiple of 4 (default 4096)")
    size = parser.parse_args().size
    a, b = operands(size)
    x, y = a.astype(np.float64), b.astype(np.float64)
    exact_gemm(a[:256], b)
    times = [(seconds(lambda: x @ y), seconds(lambda: exact_gemm(a, b))) for _ in range(ROUNDS)]
    plain, exact = (statistics.median(column) for column in zip(*times, strict=True))
    ratios = [ours / numpys for numpys, ours in times]
    print(f"{size} x {size} x {size}, f16, A 2:4-sparse, {ROUNDS} rounds in turn")
    print(f"  numpy's float64 product      {plain:8.3f} s  median")
    print(f"  exact, rounded once to f32   {exact:8.3f} s  median")
    print(
        f"  ratio                        {statistics.median(ratios):8.2f}    median, {min(ratios):.2f} lowest, "
        f"{max(ratios):.2f} highest"
    )
    print(
        f"  most memory of the process   {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:8.2f} GiB, "
        f"operands of both included"
    )
    print(
        f"  checked against fractions    {SAMPLES:8,}    sampled elements, "
        f"{wrong_samples(a, b, exact_gemm(a, b))} wrong"
    )


if __name__ == "__main__":
    main()
