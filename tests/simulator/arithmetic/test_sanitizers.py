"""The compiled kernel and the compiled front of the timing model under AddressSanitizer and UndefinedBehaviorSanitizer,
on a sample of all that they do: no access out of bounds, no undefined operation, and the same bits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cases import exhaustive
from tests.support.paths import ROOT

SANITIZERS = "-fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all"
FLAGS = f"-g -O1 {SANITIZERS} -DTCSIM_PLAIN"
BUILD = f"""
from simulator.arithmetic.compiled import build
build.FLAGS = (*(flag for flag in build.FLAGS if flag != "-O3"), *"{FLAGS}".split())
build.build()
from simulator.machine import build
build.FLAGS = ("-O1", "-fwrapv", *"{SANITIZERS}".split())
build.build()
"""
SAMPLE = """
import numpy as np
import simulator
from simulator.arithmetic.compiled import kernel_name
from tests.golden import compare, compare_mmasim
from simulator.machine.engine import compiled_front
from tests.simulator.machine.test_front import check_random, check_values
assert kernel_name() == "compiled", simulator.__file__
assert compiled_front() is not None
assert compare.main(["tests/golden"]) == 0  # every mma.sp and mma form of an H100
assert compare_mmasim.main([]) == 0         # every sum of every chip
rng = np.random.default_rng(0)
for size in (1, 7, 33):                     # exact sums, of shapes that are no whole vectors
    a, b = rng.standard_normal((size, size + 2)), rng.standard_normal((size + 2, size + 1))
    simulator.exact_gemm(a.astype(np.float16), b.astype(np.float16))
for config, trace in (("h100_sxm", "digits/s8"), ("h100_sxm", "digits/f16"), ("b200", "digits/f16_tcgen05")):
    assert simulator.run(trace, config).cycles > 1000
for seed in range(270, 280):                # stores, and matrix instructions that leave gaps behind them (276)
    check_random(seed)
assert sum(map(check_values, range(80_000, 80_200))) > 60  # chips with values at, near and between their bounds
print("sanitized")
"""


def sanitizer() -> str:
    """The path of the runtime that must be loaded first; skips where the compiler has none."""
    compiler = shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("no gcc")
    path = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout
    if not Path(path.strip()).is_absolute():
        pytest.skip("no runtime of AddressSanitizer")
    return path.strip()


@exhaustive
def test_the_compiled_kernel_under_sanitizers(tmp_path: Path) -> None:
    """In a copy of the packages, so that the kernel of the others stays."""
    runtime = sanitizer()
    for name in ("isa", "simulator"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("configs", "traces", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "CC": "gcc"}
    environment.pop("TCSIM_KERNEL", None)

    def python(program: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-c", program]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment | more, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        return done

    python(BUILD)
    done = python(SAMPLE, LD_PRELOAD=runtime, ASAN_OPTIONS="detect_leaks=0", OMP_NUM_THREADS="1")
    assert done.stdout.endswith("sanitized\n")
    assert "runtime error" not in done.stderr
