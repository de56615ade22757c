"""What a GPU gives for random programs of products and sums that have no rounding, which ptxas contracts.

    python -m measurements.contraction build --output DIR    # contraction.cubin; needs ptxas
    python -m measurements.contraction run --output DIR      # contraction_h200.npz; needs a GPU and its driver

Recorded on one H200, ptxas 13.0.88, sm_90a, 2026-11-23; copied to tests/golden/contraction_h200.npz. Each program runs
in 64 threads, each on inputs of its own.
"""

from __future__ import annotations

import argparse
import ctypes
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

INPUTS, OUTPUTS, THREADS, PROGRAMS = 6, 24, 64, 40
TYPES = ("f32", "ftz.f32", "f64", "f16", "f16x2", "bf16x2")
HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
_BITS = {"f64": 64, "f16": 16}


class Program(NamedTuple):
    """A kernel of one type, and how many results each of its threads stores."""

    name: str
    bits: int
    text: str
    outputs: int


def programs() -> Iterator[Program]:
    """The programs: a quarter of them with a branch that some instructions stand behind."""
    for kind in TYPES:
        for number in range(PROGRAMS):
            yield _program(kind, number, random.Random(f"{kind} {number}"))


def _program(kind: str, number: int, chosen: random.Random) -> Program:
    bits = _BITS.get(kind, 32)
    values = [f"%v{index}" for index in range(INPUTS)]
    lines, written = [], []
    count = chosen.randrange(4, 20)
    parted = chosen.randrange(2, count) if number % 4 == 3 else -1
    for index in range(count):
        name = chosen.choice(["mul", "mul", "mul", "add", "add", "sub", "neg", "fma", "mov", "mul.rn", "add.rn"])
        sources = [chosen.choice(values[-8:]) for _ in range({"neg": 1, "mov": 1, "fma": 3}.get(name, 2))]
        opcode = {"mov": f"mov.b{bits}", "fma": f"fma.rn.{kind}"}.get(name, f"{name}.{kind}")
        if index == parted:
            lines.append("@%p1 bra BEHIND;")
        lines.append(f"{opcode} %v{INPUTS + index}, {', '.join(sources)};")
        values.append(f"%v{INPUTS + index}")
        written.append((values[-1], set(sources)))
    read = {source for _, sources in written for source in sources}
    last = [name for name, _ in written if name not in read or chosen.random() < 0.1][:OUTPUTS]
    stores = [f"st.global.b{bits} [%rd2+{bits // 8 * place}], {name};" for place, name in enumerate(last)]
    loads = [f"ld.global.b{bits} %v{index}, [%rd1+{bits // 8 * index}];" for index in range(INPUTS)]
    body = "\n".join([*loads, *lines, *stores])
    name = f"k_{kind.replace('.', '_')}_{number}"
    text = f""".visible .entry {name}(.param .u64 in, .param .u64 out)
{{
.reg .b64 %rd<4>; .reg .b32 %r<2>; .reg .pred %p<2>; .reg .b{bits} %v<{INPUTS + count}>;
ld.param.u64 %rd1, [in];
ld.param.u64 %rd2, [out];
mov.u32 %r1, %tid.x;
setp.gt.u32 %p1, %r1, {THREADS};
mul.wide.u32 %rd3, %r1, {bits // 8 * INPUTS};
add.u64 %rd1, %rd1, %rd3;
mul.wide.u32 %rd3, %r1, {bits // 8 * OUTPUTS};
add.u64 %rd2, %rd2, %rd3;
{body}
BEHIND:
ret;
}}
"""
    return Program(name, bits, text, len(last))


def inputs(bits: int, kind: str) -> NDArray[np.unsignedinteger]:
    """Patterns [thread, input]: numbers around 1, of either sign."""
    numbers = np.random.default_rng(20261123).normal(0, 1.2, (THREADS, INPUTS))
    if kind.startswith("bf16"):
        half = (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint32)
        return np.asarray(half | np.roll(half, 1, 1) << 16, np.uint32)
    if kind == "f16x2":
        half = numbers.astype(np.float16).view(np.uint16).astype(np.uint32)
        return np.asarray(half | np.roll(half, 1, 1) << 16, np.uint32)
    return numbers.astype(f"f{bits // 8}").view(f"u{bits // 8}")


def kind_of(program: Program) -> str:
    """The type of a program, as instructions call it."""
    return program.name.split("_", 1)[1].rpartition("_")[0].replace("_", ".")


def build(folder: Path) -> None:
    """Writes contraction.cubin."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "contraction.ptx").write_text(HEAD + "".join(program.text for program in programs()))
    command = ["ptxas", "-arch", "sm_90a", str(folder / "contraction.ptx"), "-o", str(folder / "contraction.cubin")]
    subprocess.run(command, check=True)


def run(folder: Path) -> None:
    """Executes the programs and writes what they give."""
    from measurements.opcodes import opened

    ask, module = opened(folder / "contraction.cubin")
    given, got = ctypes.c_uint64(), ctypes.c_uint64()
    for place in (given, got):
        ask("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(1 << 20))
    results = {}
    for program in programs():
        data, entry = inputs(program.bits, kind_of(program)), ctypes.c_void_p()
        out = np.zeros((THREADS, OUTPUTS), f"u{program.bits // 8}")
        ask("cuMemcpyHtoD_v2", given, data.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(data.nbytes))
        ask("cuMemcpyHtoD_v2", got, out.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(out.nbytes))
        ask("cuModuleGetFunction", ctypes.byref(entry), module, program.name.encode())
        pointers = (ctypes.c_void_p * 2)(*(ctypes.cast(ctypes.pointer(each), ctypes.c_void_p) for each in (given, got)))
        ask("cuLaunchKernel", entry, *map(ctypes.c_uint, (1, 1, 1, THREADS, 1, 1, 0)), None, pointers, None)
        ask("cuCtxSynchronize")
        ask("cuMemcpyDtoH_v2", out.ctypes.data_as(ctypes.c_void_p), got, ctypes.c_size_t(out.nbytes))
        results[program.name] = out[:, : program.outputs]
    np.savez_compressed(folder / "contraction_h200.npz", **results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("build", "run"))
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    {"build": build, "run": run}[chosen.what](chosen.output)
