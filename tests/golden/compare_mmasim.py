"""Compare the simulator's dense arithmetic with MMA-Sim's, bit for bit, for every floating-point instruction of
NVIDIA's that MMA-Sim models.

    python -m tests.golden.compare_mmasim                                     the dot products recorded in
    tests/golden/mmasim.npz
    python -m tests.golden.compare_mmasim --mmasim VENV/bin/python            10,000 cases of each instruction, made
    while it runs
    python -m tests.golden.compare_mmasim --mmasim PYTHON --cases 1000 --only "wgmma|"

VENV is an environment with MMA-Sim 2.1.1 (see make_mmasim.py). A case is an instruction: a tile of at most 16 x 8 of
its results. Prints a table; exit status 1 if a result differs, 2 if MMA-Sim cannot be run. NaN of f64 counts as equal
to any other NaN of f64: MMA-Sim does not model which.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.arithmetic.product import product
from tests.golden.mmasim_cases import Instruction

ROOT = Path(__file__).resolve().parents[2]
RECORDED = Path(__file__).with_name("mmasim.npz")
MUTATIONS = "mutations"  # the entry of the recorded file that is no instruction

Cases = NDArray[np.void]


def simulate(instruction: Instruction, cases: Cases, target: str) -> NDArray[np.unsignedinteger[Any]]:
    """What the simulator gives for the cases: patterns [case, m, n]."""
    wide = np.uint64 if instruction.a_type.bits == 64 else np.uint32
    operands = (cases[name].astype(wide) for name in "abc")
    scales = {name: cases[name].astype(np.uint32) for name in ("scale_a", "scale_b")} if instruction.scale_type else {}
    return product(
        *operands,
        family=instruction.family,
        target=target,
        a_type=instruction.a_type,
        b_type=instruction.b_type,
        d_type=instruction.d_type,
        c_type=instruction.c_type,
        shape=instruction.shape if instruction.family == "mma" else "",
        scale_type=instruction.scale_type,
        **scales,
    )


def differing(instruction: Instruction, cases: Cases, target: str) -> NDArray[np.bool_]:
    """Where the simulator's results are not the recorded ones: [case, m, n]."""
    found, wanted = simulate(instruction, cases, target), cases["d"]
    different: NDArray[np.bool_] = found != wanted
    if instruction.d_type.bits == 64:
        different &= ~(np.isnan(found.view(np.float64)) & np.isnan(wanted.view(np.float64)))
    return different


def repeated(instruction: Instruction, cases: Cases, columns: int) -> Cases:
    """Dot products [case, 1, 1] as cases of one row and so many equal columns."""
    wide = np.zeros(len(cases), instruction.record(1, columns))
    for name in cases.dtype.names or ():
        wide[name] = cases[name]
    return wide


def recorded(path: Path | None = None) -> Iterator[tuple[Instruction, Cases]]:
    """Instructions and their cases in a file (those of the repository, unless told otherwise)."""
    with np.load(path or RECORDED) as data:
        for key in data.files:
            if key != MUTATIONS:
                yield Instruction.parse(key), data[key]


def made(python: Path, cases: int, only: str) -> Iterator[tuple[Instruction, Cases]]:
    """Instructions and their cases as MMA-Sim makes them in another process; RuntimeError if it fails."""
    with tempfile.TemporaryDirectory(prefix="mmasim") as name:
        folder = Path(name)
        command = [
            str(python),
            "-m",
            "tests.golden.make_mmasim",
            "--folder",
            name,
            "--cases",
            str(cases),
            "--only",
            only,
        ]
        with subprocess.Popen(command, cwd=ROOT) as maker:
            try:
                while True:
                    ended = maker.poll() is not None  # before looking: what it wrote last is there then
                    files = sorted(folder.glob("*[0-9].npz"))
                    for path in files:
                        yield from recorded(path)
                        path.unlink()
                    if ended and not files:
                        break
                    time.sleep(0 if files else 0.05)
            finally:
                maker.terminate()
        if maker.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with status {maker.returncode}")


def table(found: Iterator[tuple[Instruction, Cases]]) -> tuple[int, int]:
    """Print a line for each instruction and target; return how many instructions there were and how many results
    differ."""
    print(f"{'instruction':86} {'target':8} {'cases':>7} {'results':>10} {'differing':>9}")
    sums = np.zeros(4, np.int64)
    for instruction, cases in found:
        sums[0] += 1
        for target in instruction.targets:
            different = differing(instruction, cases, target)
            print(
                f"{str(instruction).replace('|', ' '):86} {target:8} {len(cases):7} {different.size:10} "
                f"{int(different.sum()):9}",
                flush=True,
            )
            sums[1:] += len(cases), different.size, different.sum()
    print(f"{f'all {sums[0]} instructions':86} {'':8} {sums[1]:7} {sums[2]:10} {sums[3]:9}")
    return int(sums[0]), int(sums[3])


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="compare_mmasim.py", description="Compare the simulator's dense arithmetic with MMA-Sim's."
    )
    parser.add_argument(
        "--mmasim", type=Path, metavar="PYTHON", help="Python of an environment with MMA-Sim: make fresh cases"
    )
    parser.add_argument("--cases", type=int, default=10_000, help="of each instruction (default 10000)")
    parser.add_argument("--only", default="", help="instructions whose label, family|architecture|spec, contains this")
    options = parser.parse_args(given)
    try:
        if options.mmasim:
            count, wrong = table(made(options.mmasim, options.cases, options.only))
        else:
            count, wrong = table((i, cases) for i, cases in recorded() if options.only in str(i))
    except (OSError, RuntimeError) as error:
        print(f"compare_mmasim.py: {error}", file=sys.stderr)
        return 2
    if not count:
        print(f"compare_mmasim.py: no instruction has {options.only!r} in its label", file=sys.stderr)
        return 2
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
