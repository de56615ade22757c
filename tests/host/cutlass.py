"""Builds CUTLASS's examples 48 and 62 (dense and sparse GEMMs of Hopper), 83, 84a and 84b (sparse GEMMs of Blackwell)
and runs them on the simulated GPU:

    python -m tests.host.cutlass SOURCES [--build FOLDER] [--only TEXT] [--measure | --mutants N]

SOURCES is a CUTLASS 4.2 tree, or cutlass_library/source of the package nvidia-cutlass. Needs nvcc 13 and curand's
headers (the package nvidia-curand; CURAND_INCLUDE names their folder where nvcc does not find them).
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.host.mutants import install, score

Size = tuple[int, int, int]  # m, n, k


@dataclass(frozen=True)
class Example:
    """One of CUTLASS's examples, and what it is run with.

    Attributes:
        name: of its source and of the program.
        config: the chip that it runs on.
        target: what it is compiled for.
        sms: the fewest SMs that its clusters need.
        sizes: three; the last one is no multiple of the tile.
        measured: for --measure.
        mutated: for --mutants.
        folder: of the source, where that has another name.
    """

    name: str
    config: str
    target: str
    sms: int
    sizes: tuple[Size, Size, Size]
    measured: Size
    mutated: Size
    folder: str = ""

    @property
    def source(self) -> str:
        """The path of its source in CUTLASS's examples."""
        return f"{self.folder or self.name}/{self.name}.cu"


_HOPPER: tuple[Size, Size, Size] = ((128, 128, 64), (256, 256, 256), (200, 136, 192))
_NARROW = "84_blackwell_narrow_precision_sparse_gemm"
EXAMPLES = (
    Example("48_hopper_warp_specialized_gemm", "h100_sxm", "90a", 8, _HOPPER, (1024, 1024, 1024), (128, 128, 128)),
    Example("62_hopper_sparse_gemm", "h100_sxm", "90a", 2, _HOPPER, (1024, 1024, 1024), (128, 128, 128)),
    Example(
        "83_blackwell_sparse_gemm", "b200", "100a", 2,
        ((256, 256, 256), (512, 512, 512), (200, 136, 192)), (512, 512, 512), (256, 128, 128),
    ),
    Example(
        "84a_blackwell_nvfp4_bf16_sparse_gemm", "b200", "100a", 2,
        ((256, 256, 256), (1024, 512, 768), (200, 136, 512)), (512, 512, 512), (256, 128, 512), _NARROW,
    ),
    Example(
        "84b_blackwell_mixed_mxfp8_bf16_sparse_gemm", "b200", "100a", 2,
        ((256, 256, 256), (512, 640, 1024), (200, 136, 512)), (512, 512, 512), (256, 128, 512), _NARROW,
    ),
)  # fmt: skip


def build(sources: Path, example: Example, folder: Path) -> Path:
    """An example's program, compiled where it is not there yet (one to two minutes)."""
    program = folder / example.name
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        includes = [sources / "include", sources / "tools/util/include", sources / "examples/common"]
        if os.environ.get("CURAND_INCLUDE"):
            includes.append(Path(os.environ["CURAND_INCLUDE"]))
        target = f"compute_{example.target}"
        subprocess.run(
            [
                "nvcc", "-std=c++17", "-O1", "-cudart", "shared", "--expt-relaxed-constexpr",
                "-gencode", f"arch={target},code={target}",
                f"-DCUTLASS_ARCH_MMA_SM{example.target.removesuffix('a')}_SUPPORTED=1",
                *(f"-I{path}" for path in includes),
                "-o", str(program), str(sources / "examples" / example.source),
            ],
            check=True,
        )  # fmt: skip
    return program


def passed(program: Path, example: Example, size: Size, sms: int = 0) -> tuple[bool, float, float, str]:
    """Whether an example found its own result right, seconds, seconds of processors, and what the simulator refused.

    Args:
        sms: of the chip; 0: as many as it has.
    """
    m, n, k = size
    exec_ = [sys.executable, "-m", "simulator", "exec", "--verbose", "--config", example.config]
    exec_ += [f"--sms={sms}"] * (sms > 0)
    began, used = time.perf_counter(), _processor_seconds()
    # No iterations: the product runs once, for the comparison with the reference of the example.
    command = [str(program), f"--m={m}", f"--n={n}", f"--k={k}", "--iterations=0"]
    done = subprocess.run([*exec_, "--", *command], capture_output=True, text=True, check=False)
    seconds, used = time.perf_counter() - began, _processor_seconds() - used
    lines = done.stderr.strip().splitlines()
    said = [line for line in lines if line.startswith("tcsim: ") and "; legal: " in line] or lines[-1:]
    right = done.returncode == 0 and "Disposition: Passed" in done.stdout
    return right, seconds, used, "" if right or not said else said[0]


def _processor_seconds() -> float:
    """Of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Runs the examples at every size; returns 0 where all passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path)
    parser.add_argument("--build", type=Path, default=Path("out/cutlass"))
    parser.add_argument("--only", default="", help="examples whose names have this text")
    parser.add_argument("--measure", action="store_true", help="only one size, for the seconds that it takes")
    parser.add_argument("--mutants", type=int, metavar="N", help="disturb N things in each, one at a time")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes for mutants")
    options = parser.parse_args()
    bad = 0
    if options.mutants:
        install()
    for example in EXAMPLES:
        if options.only not in example.name:
            continue
        program = build(options.sources, example, options.build)
        if options.mutants:
            print(example.name)
            m, n, k = example.mutated
            sizes = [f"--m={m}", f"--n={n}", f"--k={k}", "--beta=1", "--iterations=0"]
            bad += score([str(program), *sizes], example.config, example.sms, options.mutants, workers=options.workers)
            continue
        for size in (example.measured,) if options.measure else example.sizes:
            right, seconds, used, why = passed(program, example, size)
            bad += not right
            verdict = "Passed" if right else "Failed"
            shown = f"{example.name} {'x'.join(map(str, size))}: {verdict}"
            print(f"{shown} in {seconds:.1f} s ({used:.1f} s of processors) {why[-300:]}", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
