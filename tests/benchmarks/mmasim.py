"""Matrix instructions a second on one core, against MMA-Sim (integers: against numpy), measured in turn in one run.

    python -m tests.benchmarks.mmasim --mmasim VENV/bin/python [--only TEXT] [--seconds 0.2]

VENV is an environment with MMA-Sim 2.1.1 (see tests/golden/make_mmasim.py); without --mmasim only the integers are
compared. MMA-Sim has no sparse
instructions: a sparse one is compared with the dense one that has as many products. It runs in another process, with
    one torch thread, in its
fastest way (`dpa()` on 64, 256 or 1024 instructions at once, the fastest in each round); so does the simulator
(`execute_mma` on 4,096 at once, TCSIM_THREADS=1). Only one of them runs at a time; rounds alternate, so that other work
on the machine hits both.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import isa
from isa.forms.mma import mma_forms
from simulator.arithmetic import decode, kernel_name
from simulator.execute.mma import Scales, execute_mma

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 7
CASES = 4096
BATCHES = (64, 256, 1024)
SLOWER = 1.5  # ways that take this many times as long as the best one, in a first try, are not tried again
ORDERED = "mma.sp::ordered_metadata.sync.aligned."
DENSE = "mma.sync.aligned."


class Row(NamedTuple):
    """One of our instructions, and an instruction of MMA-Sim's with as many products (or "numpy")."""

    target: str
    opcode: str
    architecture: str
    spec: str


ROWS = (
    Row("sm_90a", ORDERED + "m16n8k32.row.col.f32.f16.f16.f32", "Hopper", "m16n8k16.f32.f16.f16.f32"),
    Row("sm_90a", DENSE + "m16n8k16.row.col.f32.f16.f16.f32", "Hopper", "m16n8k16.f32.f16.f16.f32"),
    Row("sm_90a", ORDERED + "m16n8k32.row.col.f16.f16.f16.f16", "Hopper", "m16n8k16.f16.f16.f16.f16"),
    Row("sm_90a", ORDERED + "m16n8k32.row.col.f32.bf16.bf16.f32", "Hopper", "m16n8k16.f32.bf16.bf16.f32"),
    Row("sm_90a", ORDERED + "m16n8k16.row.col.f32.tf32.tf32.f32", "Hopper", "m16n8k8.f32.tf32.tf32.f32"),
    Row("sm_80", ORDERED + "m16n8k32.row.col.f32.f16.f16.f32", "Ampere", "m16n8k16.f32.f16.f16.f32"),
    Row("sm_80", DENSE + "m16n8k16.row.col.f32.f16.f16.f32", "Ampere", "m16n8k16.f32.f16.f16.f32"),
    Row("sm_89", ORDERED + "m16n8k64.row.col.f32.e4m3.e4m3.f32", "Ada Lovelace", "m16n8k32.f32.e4m3.e4m3.f32"),
    Row("sm_120a", ORDERED + "m16n8k64.row.col.f32.e4m3.e4m3.f32", "RTX Blackwell", "m16n8k32.f32.e4m3.e4m3.f32"),
    Row("sm_120a", DENSE + "m16n8k32.row.col.f32.e4m3.e4m3.f32", "RTX Blackwell", "m16n8k32.f32.e4m3.e4m3.f32"),
    Row(
        "sm_120a",
        DENSE + "m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32",
        "RTX Blackwell",
        "m16n8k32.kind::f8f6f4.f32.e3m2.e2m1.f32",
    ),
    Row(
        "sm_120a",
        DENSE + "m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0",
        "RTX Blackwell",
        "m16n8k32.kind::mxf8f6f4.block32.f32.e4m3.e4m3.f32.ue8m0",
    ),
    Row(
        "sm_120a",
        ORDERED + "m16n8k64.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0",
        "RTX Blackwell",
        "m16n8k32.kind::mxf8f6f4.block32.f32.e4m3.e4m3.f32.ue8m0",
    ),
    Row(
        "sm_120a",
        DENSE + "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
        "RTX Blackwell",
        "m16n8k64.kind::mxf4nvf4.block16.f32.e2m1.e2m1.f32.ue4m3",
    ),
    Row(
        "sm_120a",
        ORDERED + "m16n8k128.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
        "RTX Blackwell",
        "m16n8k64.kind::mxf4nvf4.block16.f32.e2m1.e2m1.f32.ue4m3",
    ),
    Row("sm_90a", DENSE + "m16n8k16.row.col.f64.f64.f64.f64", "Hopper", "m16n8k16.f64.f64.f64.f64"),
    Row("sm_80", DENSE + "m8n8k4.row.col.f64.f64.f64.f64", "Ampere", "m8n8k4.f64.f64.f64.f64"),
    Row("sm_90a", DENSE + "m16n8k32.row.col.s32.s8.s8.s32", "numpy", "int32"),
    Row("sm_90a", ORDERED + "m16n8k64.row.col.s32.s8.s8.s32", "numpy", "int32"),
)


class Rate(NamedTuple):
    """Instructions a second, a number for each round."""

    ours: list[float]
    other: list[float]

    @property
    def ratios(self) -> list[float]:
        return [ours / other for ours, other in zip(self.ours, self.other, strict=True)]


class Server:
    """MMA-Sim in a process of its own."""

    def __init__(self, python: Path) -> None:
        command = [str(python), "-m", "tests.benchmarks.mmasim_server"]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.versions = self._line().removeprefix("ready ")

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"MMA-Sim's process ended with status {self._process.wait()}")
        return line

    def seconds(self, row: Row, batch: int, calls: int) -> float:
        """How long it took for `calls` times `batch` instructions."""
        assert self._process.stdin is not None
        print(f"{row.architecture}|{row.spec}|{batch}|{calls}", file=self._process.stdin, flush=True)
        return float(self._line())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def operands(form: isa.MmaForm) -> tuple[tuple[Any, ...], Scales | None]:
    """Random operands of `execute_mma`: numbers about 1, ascending metadata; (a, b, c, e) and block scales."""
    rng = np.random.default_rng(1)

    def drawn(fragment: Any) -> Any:
        element = fragment.type
        shape = (CASES, *fragment.shape)
        if element.bits == 64:
            return rng.standard_normal(shape).view(np.uint64)
        if not element.is_float:
            return rng.integers(0, 1 << element.bits, shape, np.uint32)
        if element.bits < 16:
            every = np.arange(1 << element.bits, dtype=np.uint32)
            return rng.choice(every[np.isfinite(decode(every, element).value)], shape)
        if element.name == "f16":
            return rng.standard_normal(shape).astype(np.float16).view(np.uint16).astype(np.uint32)
        return rng.standard_normal(shape).astype(np.float32).view(np.uint32) >> np.uint32(32 - element.bits)

    codes = None
    if form.sparse:
        codes = form.metadata.scatter(
            rng.choice(np.array(form.metadata.codes, np.uint32), (CASES, *form.metadata.shape)), 0
        )
    scales = None
    if form.row.scale:  # every byte a factor about 1
        scales = Scales(
            *(
                rng.integers(0, 4, (CASES, 32), np.uint32) * np.uint32(0x01010101) + np.uint32(0x36363636)
                for _ in range(2)
            )
        )
    return (form.a.scatter(drawn(form.a)), form.b.scatter(drawn(form.b)), form.c.scatter(drawn(form.c)), codes), scales


def ours(form: isa.MmaForm, target: str) -> Callable[[], Any]:
    """A call of `execute_mma` on CASES instructions."""
    given, scales = operands(form)
    parsed = isa.parse_target(target)
    return lambda: execute_mma(form, *given, 0, target=parsed, scales=scales)


def numpy_calls(form: isa.MmaForm) -> list[Callable[[], Any]]:
    """numpy's ways to the same number of int32 products and sums, without the selection of a sparse instruction, for
    CASES of them."""
    rng = np.random.default_rng(1)
    a, b = (
        rng.integers(-128, 128, (CASES, *shape), np.int32)
        for shape in ((form.m, form.k_stored), (form.k_stored, form.n))
    )
    c = rng.integers(-(1 << 31), 1 << 31, (CASES, form.m, form.n), np.int32)
    return [lambda: np.einsum("cmk,ckn->cmn", a, b) + c, lambda: a @ b + c]


def seconds(call: Callable[[], Any], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return time.perf_counter() - start


def calls_for(wanted: float, once: float) -> int:
    return max(1, round(wanted / max(once, 1e-6)))


def measure(row: Row, form: isa.MmaForm, server: Server | None, wanted: float) -> Rate:
    """Both in turn, ROUNDS times, about `wanted` seconds each (MMA-Sim: for each size of batch)."""
    mine = ours(form, row.target)
    mine()
    many = calls_for(wanted, seconds(mine, 1))
    ways: list[tuple[int, Callable[[int], float]]] = []  # instructions of a call; seconds of so many calls
    if row.architecture == "numpy":
        for call in numpy_calls(form):
            ways.append((CASES, lambda calls, call=call: seconds(call, calls)))  # type: ignore[misc]
    elif server is not None:
        for batch in BATCHES:
            ways.append((batch, lambda calls, batch=batch: server.seconds(row, batch, calls)))  # type: ignore[misc]
    for _, way in ways:
        way(1)
    once = [(way(1) / work, work, way) for work, way in ways]
    best = min(each for each, _, _ in once)
    planned = [(work, way, calls_for(wanted, each * work)) for each, work, way in once if each < SLOWER * best]
    rate = Rate([], [])
    for _ in range(ROUNDS):
        rate.ours.append(CASES * many / seconds(mine, many))
        rate.other.append(max(work * calls / way(calls) for work, way, calls in planned))
    return rate


def chosen(only: str, mmasim: bool) -> Iterator[tuple[Row, isa.MmaForm]]:
    """The rows to measure; those whose instruction is not executed are named on stderr."""
    for row in ROWS:
        if only not in f"{row.target} {row.opcode} {row.architecture} {row.spec}" or (
            row.architecture != "numpy" and not mmasim
        ):
            continue
        if row.opcode in mma_forms():
            yield row, mma_forms()[row.opcode]
        else:
            print(f"left out: no form {row.opcode}", file=sys.stderr)


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="mmasim.py", description="Matrix instructions a second, against MMA-Sim.")
    parser.add_argument("--mmasim", type=Path, metavar="PYTHON", help="Python of an environment with MMA-Sim")
    parser.add_argument("--only", default="", help="rows that contain this")
    parser.add_argument("--seconds", type=float, default=0.2, help="of each measurement (default 0.2)")
    options = parser.parse_args(given)
    os.environ["TCSIM_THREADS"] = "1"
    try:
        server = Server(options.mmasim) if options.mmasim else None
    except (OSError, RuntimeError) as error:
        print(f"mmasim.py: {error}", file=sys.stderr)
        return 2
    print(
        f"kernel: {kernel_name()}; numpy {np.__version__}; {server.versions if server else 'no MMA-Sim'}; {processor()}"
    )
    columns = ("ours/s", "other/s", "ratio", "lowest", "highest", "ns/product")
    print(
        f"{'instruction, on one core':90} {'against':71} {columns[0]:>11} {columns[1]:>11} "
        f"{' '.join(f'{c:>7}' for c in columns[2:])}"
    )
    for row, form in chosen(options.only, server is not None):
        rate = measure(row, form, server, options.seconds)
        ratios = rate.ratios
        products = form.m * form.n * form.k_stored
        mine, other = statistics.median(rate.ours), statistics.median(rate.other)
        name = f"{row.target} {row.opcode}"
        for usual in (".sync.aligned", ".row.col", "::ordered_metadata"):
            name = name.replace(usual, "")
        print(
            f"{name:90} {row.architecture + ' ' + row.spec:71} {mine:11,.0f} {other:11,.0f} "
            f"{statistics.median(ratios):7.1f} {min(ratios):7.1f} "
            f"{max(ratios):7.1f} {1e9 / mine / products:10.2f}",
            flush=True,
        )
    if server:
        server.close()
    return 0


def processor() -> str:
    """The machine's processor, where the system says."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


if __name__ == "__main__":
    sys.exit(main())
