"""Measures the approximate functions, and finds the coefficients of `simulator.arithmetic.interpolation` from that.

    python -m measurements.functions build --output DIR    # functions.cubin; needs ptxas
    python -m measurements.functions run --output DIR      # NAME.npy for each sweep; needs a GPU and its driver
    python -m measurements.functions fit --output DIR      # functions.csv, from the sweeps; half a minute

A sweep is what the chip gives for every significand of a binade; of sine for every 2^-25 of the first quarter of a
turn. `fit` looks for integers c0, c1 and c2 of each segment that give every result of a sweep, or ends with the segment
that has none. Recorded on H100 and H200, ptxas 13.0.88, November 2026; functions.csv is copied to
simulator/arithmetic/tables. tests/golden/functions_h100.npz holds further arguments, tests/simulator/arithmetic/
test_functions.py the checksums of the sweeps.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import subprocess
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from measurements.opcodes import opened
from simulator.arithmetic.interpolation import UNIT, squares, width

Words = NDArray[np.uint32]
Whole = NDArray[np.int64]
_BINADE = 1 << 23
TANH = {-8: 0, -7: 0, -6: 0, -5: 1, -4: 1, -3: 2, -2: 2, -1: 2, 0: 3, 1: 4, 2: 3}  # exponent: segments, as power of two
# sweep: instruction, the pattern of the first of 2^23 arguments (of sine they are `angles`)
SWEEPS: dict[str, tuple[str, int]] = {
    "lg2": ("lg2", 0x3F800000),
    "lg2_below_1": ("lg2", 0x3F000000),
    "sin": ("sin", 0),
    "ex2": ("ex2", 0x3F800000),
    "rcp": ("rcp", 0x3F800000),
    "rsqrt": ("rsqrt", 0x3F800000),
    "rsqrt_odd": ("rsqrt", 0x40000000),
    "sqrt": ("sqrt", 0x3F800000),
    "sqrt_odd": ("sqrt", 0x40000000),
    **{f"tanh{exponent}": ("tanh", exponent + 127 << 23) for exponent in TANH},
}
_KERNEL = """.visible .entry {name}(.param .u64 in, .param .u64 out)
{{
.reg .b32 %r<4>; .reg .f32 %f<3>; .reg .b64 %rd<4>;
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x;
mad.lo.u32 %r1, %r2, 256, %r1;
mul.wide.u32 %rd1, %r1, 4;
ld.param.u64 %rd2, [in];
add.u64 %rd2, %rd2, %rd1;
ld.global.f32 %f1, [%rd2];
{name}.approx.f32 %f2, %f1;
ld.param.u64 %rd3, [out];
add.u64 %rd3, %rd3, %rd1;
st.global.f32 [%rd3], %f2;
ret;
}}
"""


def build(folder: Path) -> None:
    """Writes functions.cubin."""
    folder.mkdir(parents=True, exist_ok=True)
    names = dict.fromkeys(name for name, _ in SWEEPS.values())
    text = ".version 8.6\n.target sm_90a\n.address_size 64\n" + "".join(_KERNEL.format(name=name) for name in names)
    (folder / "functions.ptx").write_text(text)
    command = ["ptxas", "-arch", "sm_90a", str(folder / "functions.ptx"), "-o", str(folder / "functions.cubin")]
    subprocess.run(command, check=True)


def arguments(sweep: str) -> Words:
    """The arguments of a sweep, as patterns."""
    first = np.uint32(SWEEPS[sweep][1])
    return angles() if sweep == "sin" else np.arange(_BINADE, dtype=np.uint32) + first


def angles() -> Words:
    """For every 2^-25 of the first quarter of a turn an angle that the chip's product with 1 / (2 pi), rounded toward
    zero, brings there."""
    wanted = np.arange(_BINADE)
    middle = ((wanted + 0.5) * (2 * np.pi / 2**25)).astype(np.float32).view(np.uint32)
    found = middle.copy()
    for offset in (1, -1, 0):
        tried = (middle.astype(np.int64) + offset).astype(np.uint32)
        turns = tried.view(np.float32).astype(np.float64) * float(np.uint32(0x3E22F983).view(np.float32))
        half, exponent = np.frexp(turns)
        reached = np.floor(np.ldexp(np.trunc(np.ldexp(half, 24)), exponent - 24 + 25)).astype(np.int64)
        found = np.where(reached == wanted, tried, found)
    return found


def run(folder: Path) -> None:
    """Executes the sweeps."""
    ask, module = opened(folder / "functions.cubin")
    places = [ctypes.c_uint64(), ctypes.c_uint64()]
    size = ctypes.c_size_t(4 * _BINADE)
    for place in places:
        ask("cuMemAlloc_v2", ctypes.byref(place), size)
    pointers = (ctypes.c_void_p * 2)(*(ctypes.cast(ctypes.pointer(place), ctypes.c_void_p) for place in places))
    for sweep, (name, _) in SWEEPS.items():
        entry, words = ctypes.c_void_p(), arguments(sweep)
        ask("cuModuleGetFunction", ctypes.byref(entry), module, name.encode())
        ask("cuMemcpyHtoD_v2", places[0], words.ctypes.data_as(ctypes.c_void_p), size)
        ask("cuLaunchKernel", entry, *map(ctypes.c_uint, (_BINADE // 256, 1, 1, 256, 1, 1, 0)), None, pointers, None)
        ask("cuCtxSynchronize")
        ask("cuMemcpyDtoH_v2", words.ctypes.data_as(ctypes.c_void_p), places[1], size)
        np.save(folder / f"{sweep}.npy", words)


def fit(folder: Path) -> None:
    """Writes functions.csv."""
    with (folder / "functions.csv").open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["function", "c0", "c1", "c2"])
        for name in ("lg2", "sin", "ex2", "rcp", "rsqrt", "rsqrt_odd", "sqrt", "sqrt_odd"):
            writer.writerows((name, *row) for row in segments(name, *bounds(name, folder)))
        for exponent, parts in TANH.items():
            low, high = (side[:: 1 << 6 - parts] for side in bounds(f"tanh{exponent}", folder))
            writer.writerows(("tanh", *row) for row in segments("tanh", low, high))


def bounds(sweep: str, folder: Path) -> tuple[Whole, Whole]:
    """The least and the most, in units of 2^-40, that is truncated to each result. Special values are left open."""
    low, high = _bounds(np.load(folder / f"{sweep}.npy").view(np.float32), 2.0**-36 if sweep == "lg2" else 0)
    if sweep == "lg2":  # the logarithm from below is that of the same significand, less 1
        least, most = _bounds(-np.load(folder / "lg2_below_1.npy").view(np.float32), 2.0**-36)
        low, high = np.maximum(low, (1 << UNIT) - most), np.minimum(high, (1 << UNIT) - least)
    if sweep == "ex2":  # of arguments from 1
        low, high = low >> 1, high >> 1
    if sweep in ("lg2", "rsqrt"):  # of 1: exact
        low[0], high[0] = -(1 << UNIT), 2 << UNIT
    return low, high


def _bounds(results: NDArray[np.float32], least: float) -> tuple[Whole, Whole]:
    step = np.maximum(np.spacing(results).astype(np.float64), least)
    low = np.rint(results.astype(np.float64) * 2.0**UNIT).astype(np.int64)
    return low, np.maximum(low, np.rint((results + step) * 2.0**UNIT).astype(np.int64) - 1)


def segments(name: str, low: Whole, high: Whole) -> list[tuple[int, int, int]]:
    """The coefficients of each segment."""
    bits = width(name)
    x, square = np.arange(1 << bits), squares(bits)
    rows = []
    for number, (least, most) in enumerate(zip(low.reshape(-1, 1 << bits), high.reshape(-1, 1 << bits), strict=True)):
        known = most - least < 1 << 24
        terms = np.stack([np.ones(len(x)), x, square], axis=1)[known]
        near = np.linalg.lstsq(terms, (least + most)[known] / 2 - least[known][0], rcond=None)[0]
        found = next((row for row in _candidates(*near[1:], least, most, x, square)), None)
        if found is None:
            raise SystemExit(f"{name}, segment {number}: no coefficients give these results")
        rows.append(found)
    return rows


def _candidates(c1: float, c2: float, least: Whole, most: Whole, x: Whole, square: Whole):  # type: ignore[no-untyped-def]
    """Coefficients near these, with as many trailing zeros as can be."""
    for unit in (16, 8, 4, 2, 1):
        for one, two in product((0, -unit, unit), (0, -unit, unit, -2 * unit, 2 * unit)):
            slope, bend = round(c1 / unit) * unit + one, round(c2 / unit) * unit + two
            given = slope * x + bend * square
            low, high = int((least - given).max()), int((most - given).min())
            if low <= high:
                zeros = next(zeros for zeros in range(UNIT, -1, -1) if -(-low >> zeros) << zeros <= high)
                yield -(-low >> zeros) << zeros, slope, bend


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("build", "run", "fit"))
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    {"build": build, "run": run, "fit": fit}[chosen.what](chosen.output)
