"""Builds CUTLASS's examples 48 and 62 (dense and sparse GEMMs of Hopper) and runs them on the simulated GPU:

    python -m tests.host.cutlass SOURCES [--build FOLDER] [--measure | --mutants N]

SOURCES is a CUTLASS 4.2 tree, or cutlass_library/source of the package nvidia-cutlass. Needs nvcc 13 and curand's
headers (the package nvidia-curand; CURAND_INCLUDE names their folder where nvcc does not find them).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.host.mutants import install, score

EXAMPLES = ("48_hopper_warp_specialized_gemm", "62_hopper_sparse_gemm")
SIZES = ((128, 128, 64), (256, 256, 256), (200, 136, 192))  # m, n, k; the last one is no multiple of the tile
MEASURED = (1024, 1024, 1024)
MUTATED = (128, 128, 128)
FEWEST_SMS = (8, 2)  # that the clusters of each example need


def build(sources: Path, name: str, folder: Path) -> Path:
    """An example's program, compiled where it is not there yet (one to two minutes)."""
    program = folder / name
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        includes = [sources / "include", sources / "tools/util/include", sources / "examples/common"]
        if os.environ.get("CURAND_INCLUDE"):
            includes.append(Path(os.environ["CURAND_INCLUDE"]))
        subprocess.run(
            [
                "nvcc", "-std=c++17", "-O1", "-cudart", "shared", "--expt-relaxed-constexpr",
                "-gencode", "arch=compute_90a,code=compute_90a", "-DCUTLASS_ARCH_MMA_SM90_SUPPORTED=1",
                *(f"-I{path}" for path in includes),
                "-o", str(program), str(sources / "examples" / name / f"{name}.cu"),
            ],
            check=True,
        )  # fmt: skip
    return program


def passed(program: Path, size: tuple[int, int, int], sms: int = 132) -> tuple[bool, float, str]:
    """Whether an example found its own result right, seconds, and what the simulator refused."""
    m, n, k = size
    exec_ = [sys.executable, "-m", "simulator", "exec", "--verbose", f"--sms={sms}", "--"]
    began = time.perf_counter()
    # No iterations: the product runs once, for the comparison with the reference of the example.
    example = [str(program), f"--m={m}", f"--n={n}", f"--k={k}", "--iterations=0"]
    done = subprocess.run([*exec_, *example], capture_output=True, text=True, check=False)
    lines = done.stderr.strip().splitlines()
    said = [line for line in lines if line.startswith("tcsim: ") and "; legal: " in line] or lines[-1:]
    right = done.returncode == 0 and "Disposition: Passed" in done.stdout
    return right, time.perf_counter() - began, "" if right or not said else said[0]


def main() -> int:
    """Runs both examples at every size; returns 0 where all passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path)
    parser.add_argument("--build", type=Path, default=Path("out/cutlass"))
    parser.add_argument("--measure", action="store_true", help="only 1024^3, for the seconds that it takes")
    parser.add_argument("--mutants", type=int, metavar="N", help="disturb N things in each, one at a time")
    options = parser.parse_args()
    bad = 0
    if options.mutants:
        install()
    for name, sms in zip(EXAMPLES, FEWEST_SMS, strict=True):
        program = build(options.sources, name, options.build)
        if options.mutants:
            print(name)
            m, n, k = MUTATED
            sizes = [f"--m={m}", f"--n={n}", f"--k={k}", "--beta=1", "--iterations=0"]
            bad += score([str(program), *sizes], sms, options.mutants)
            continue
        for size in (MEASURED,) if options.measure else SIZES:
            right, seconds, why = passed(program, size)
            bad += not right
            print(
                f"{name} {'x'.join(map(str, size))}: {'Passed' if right else 'Failed'} in {seconds:.1f} s {why[-300:]}"
            )
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
