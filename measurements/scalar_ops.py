"""What a GPU gives for lop3, bfi, fma.rn.f32 and shfl.sync.bfly: golden data for the executors of scalar instructions.

    python -m measurements.scalar_ops run --output DIR     # needs nvcc and a GPU; seconds; numpy, not tcsim
    python -m measurements.scalar_ops golden --output DIR  # tests/golden/scalar_ops_h100.npz from what `run` wrote

`run` writes the inputs, compiles `scalar_ops.cu` and executes it. Recorded on one H100 80GB HBM3,
driver 580.159.04, nvcc 13.0.88,
2026-11-22.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent / "tests" / "golden" / "scalar_ops_h100.npz"
Words = NDArray[np.uint32]

LOP3_TRIPLES = 32
BFI_CASES = 1024
FMA_CASES = 4096
SHUFFLES = 96  # warps: (lane mask, clamp and segment mask)
_FLOATS = np.array(
    [0.0, -0.0, 1.0, -1.0, 1.5, np.inf, -np.inf, np.nan, 2.0**-126, 2.0**-149, -(2.0**-149), 3.4028235e38, 2.0**-75,
    1 + 2.0**-23],
    np.float32,
)  # fmt: skip


def inputs() -> dict[str, Words]:
    """The operands of every case: lop3 [triple, 3], bfi [case, 4], fma [case, 3],
    shuffle values and operands [warp, lane]."""
    rng = np.random.default_rng(20261122)
    every = np.array([[0xF0F0F0F0, 0xCCCCCCCC, 0xAAAAAAAA]], np.uint32)  # each combination of three bits
    lop3 = np.concatenate([every, rng.integers(0, 1 << 32, (LOP3_TRIPLES - 1, 3), np.uint32)])
    bfi = rng.integers(0, 1 << 32, (BFI_CASES, 4), np.uint32)
    edges = np.array([0, 1, 31, 32, 33, 63, 64, 255, 256, 257, 0xFFFFFFFF], np.uint32)
    bfi[:, 2:] = np.where(
        rng.random((BFI_CASES, 2)) < 0.5, rng.integers(0, 33, (BFI_CASES, 2)), rng.choice(edges, (BFI_CASES, 2))
    )
    fma = rng.integers(0, 1 << 32, (FMA_CASES, 3), np.uint32)
    near = (rng.standard_normal((FMA_CASES, 3)) * 2.0 ** rng.integers(-70, 70, (FMA_CASES, 3))).astype(np.float32)
    fma[: FMA_CASES // 2] = near[: FMA_CASES // 2].view(np.uint32)
    special = slice(FMA_CASES // 2, FMA_CASES // 2 + FMA_CASES // 4)
    fma[special] = rng.choice(_FLOATS, (FMA_CASES // 4, 3)).view(np.uint32)
    cancel = slice(0, FMA_CASES // 8)  # c = -(a * b) rounded: what is left is the rounding error
    a, b = (fma[cancel, i].view(np.float32) for i in range(2))
    with np.errstate(all="ignore"):
        fma[cancel, 2] = (-(a * b)).view(np.uint32)
    values = rng.integers(0, 1 << 32, (SHUFFLES, 32), np.uint32)
    lane_masks = np.broadcast_to(rng.integers(0, 64, (SHUFFLES, 1)), (SHUFFLES, 32)).astype(np.uint32)
    lane_masks[SHUFFLES // 2 :] = rng.integers(0, 32, (SHUFFLES - SHUFFLES // 2, 32))
    clamps = np.broadcast_to(
        rng.choice([0x1F, 0x1C1F, 0x181F, 0x1E1F, 0x1C03, 0x0F, 0x00, 0x1F1F], (SHUFFLES, 1)), (SHUFFLES, 32)
    )
    return {
        "lop3": lop3,
        "bfi": bfi,
        "fma": fma,
        "values": values,
        "lane_masks": lane_masks,
        "clamps": clamps.astype(np.uint32),
    }


def shapes() -> dict[str, tuple[int, ...]]:
    """The results: lop3 [table, triple], bfi [case], fma [case], shuffled values and predicates [warp, lane]."""
    return {
        "lop3_out": (256, LOP3_TRIPLES), "bfi_out": (BFI_CASES,), "fma_out": (FMA_CASES,), "shuffled": (SHUFFLES, 32),
        "predicates": (SHUFFLES, 32),
    }  # fmt: skip


def run(output: Path) -> None:
    """Writes the inputs, compiles the program and executes it on the GPU."""
    output.mkdir(parents=True, exist_ok=True)
    np.concatenate([array.ravel() for array in inputs().values()]).tofile(output / "scalar_ops.in")
    program = output / "scalar_ops"
    sizes = [f"-D{name}={value}" for name, value in
             (("TRIPLES", LOP3_TRIPLES), ("BFI", BFI_CASES), ("FMA", FMA_CASES), ("SHUFFLES", SHUFFLES))]  # fmt: skip
    subprocess.run(["nvcc", "-arch=sm_90a", "-O1", *sizes, "-o", str(program), str(HERE / "scalar_ops.cu")], check=True)
    subprocess.run([str(program), str(output / "scalar_ops.in"), str(output / "scalar_ops.out")], check=True)
    program.unlink()


def golden(output: Path) -> None:
    """Puts inputs and results into one file."""
    words = np.fromfile(output / "scalar_ops.out", np.uint32)
    results: dict[str, Words] = {}
    position = 0
    for name, shape in shapes().items():
        results[name] = words[position : position + int(np.prod(shape))].reshape(shape)
        position += int(np.prod(shape))
    assert position == len(words)
    results["predicates"] = results["predicates"].astype(np.uint8)
    np.savez_compressed(GOLDEN, **inputs(), **results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "golden"))
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    {"run": run, "golden": golden}[options.action](options.output)


if __name__ == "__main__":
    main()
