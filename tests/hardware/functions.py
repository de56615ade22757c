"""Measures the tables of `simulator.arithmetic.functions`: what a GPU gives for every significand.

    python -m tests.hardware.functions build --output DIR    # functions.cubin; needs ptxas
    python -m tests.hardware.functions run --output DIR      # NAME.xz for each table; needs a GPU and its driver

Recorded on one H200, ptxas 13.0.88, 2026-11-23; copied to simulator/arithmetic/tables. The 8,192 arguments of
tests/golden/functions_h200.npz are a part of the 131,072 that were compared.
"""

from __future__ import annotations

import argparse
import ctypes
import lzma
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.hardware.opcodes import opened

Function = Callable[[NDArray[np.float64]], NDArray[np.float64]]
# name of the table: instruction, the pattern of the first argument, how many follow, the exact function
TABLES: dict[str, tuple[str, int, int, Function]] = {
    "ex2": ("ex2", 0x3F800000, 1 << 23, np.exp2),
    "ex2_negative": ("ex2", 0xBF800000, 1 << 23, np.exp2),
    "rcp": ("rcp", 0x3F800000, 1 << 23, lambda x: 1 / x),
    "rsqrt": ("rsqrt", 0x3F800000, 1 << 24, lambda x: 1 / np.sqrt(x)),
    "sqrt": ("sqrt", 0x3F800000, 1 << 24, np.sqrt),
}
_THREADS = 256
_KERNEL = """.visible .entry {name}(.param .u32 first, .param .u64 out)
{{
.reg .b32 %r<6>; .reg .f32 %f<3>; .reg .b64 %rd<3>;
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x;
mad.lo.u32 %r1, %r2, 256, %r1;
ld.param.u32 %r3, [first];
add.u32 %r3, %r3, %r1;
mov.b32 %f1, %r3;
{name}.approx.f32 %f2, %f1;
ld.param.u64 %rd1, [out];
mul.wide.u32 %rd2, %r1, 4;
add.u64 %rd1, %rd1, %rd2;
st.global.f32 [%rd1], %f2;
ret;
}}
"""


def build(folder: Path) -> None:
    """Writes functions.cubin."""
    folder.mkdir(parents=True, exist_ok=True)
    names = dict.fromkeys(name for name, *_ in TABLES.values())
    text = ".version 8.6\n.target sm_90a\n.address_size 64\n" + "".join(_KERNEL.format(name=name) for name in names)
    (folder / "functions.ptx").write_text(text)
    command = ["ptxas", "-arch", "sm_90a", str(folder / "functions.ptx"), "-o", str(folder / "functions.cubin")]
    subprocess.run(command, check=True)


def run(folder: Path) -> None:
    """Executes the functions for all arguments and writes the tables."""
    ask, module = opened(folder / "functions.cubin")
    place = ctypes.c_uint64()
    ask("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(4 << 24))
    for table, (name, first, count, exact) in TABLES.items():
        entry, given = ctypes.c_void_p(), [ctypes.c_uint32(first), place]
        ask("cuModuleGetFunction", ctypes.byref(entry), module, name.encode())
        pointers = (ctypes.c_void_p * 2)(*(ctypes.cast(ctypes.pointer(each), ctypes.c_void_p) for each in given))
        size = map(ctypes.c_uint, (count // _THREADS, 1, 1, _THREADS, 1, 1, 0))
        ask("cuLaunchKernel", entry, *size, None, pointers, None)
        ask("cuCtxSynchronize")
        words = np.empty(count, np.uint32)
        ask("cuMemcpyDtoH_v2", words.ctypes.data_as(ctypes.c_void_p), place, ctypes.c_size_t(words.nbytes))
        (folder / f"{table}.xz").write_bytes(lzma.compress(packed(words, first, exact), preset=9))


def packed(words: NDArray[np.uint32], first: int, exact: Function) -> bytes:
    """The distances of results from the nearest numbers, -2 to 1 as 0 to 3, four in a byte."""
    arguments = (np.arange(len(words), dtype=np.uint32) + np.uint32(first)).view(np.float32).astype(np.float64)
    nearest = exact(arguments).astype(np.float32).view(np.uint32)
    distance = words.astype(np.int64) - nearest.astype(np.int64) + 2
    if distance.min() < 0 or distance.max() > 3:
        raise SystemExit(f"distances from {distance.min() - 2} to {distance.max() - 2}: a table holds -2 to 1")
    four: Any = distance.astype(np.uint8).reshape(-1, 4) << np.array([0, 2, 4, 6], np.uint8)
    whole: bytes = np.bitwise_or.reduce(four, axis=1).astype(np.uint8).tobytes()
    return whole


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("build", "run"))
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    {"build": build, "run": run}[chosen.what](chosen.output)
