"""What a GPU gives for each instruction between registers: golden data for every row that a lane or a warp executes.

    python -m measurements.opcodes build --output DIR    # texts and modules; needs ptxas
    python opcodes.py run --output DIR                     # needs a GPU and its driver; seconds; numpy, not tcsim
    python -m measurements.opcodes golden --output DIR   # tests/golden/opcodes_h200.csv.gz from what `run` wrote

Each instruction is executed by 16 CTAs of 128 threads, each on operands of its own (`operands`: random bits, small
numbers, and the edges of every type), 2,048 times in all. What it gives is multiplied by an odd number that is another
one for each thread, and summed: 32 bits for each of the four warps of a CTA, so a single wrong bit changes a sum.
Approximate functions are left out: docs/kernels.md says how far they are off. Recorded on one H200, ptxas 13.0.88,
sm_90a, 2026-11-23.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import gzip
import io
import random
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden" / "opcodes_h200.csv.gz"
TARGET = "sm_90a"
THREADS, CTAS, WARPS, OPERANDS = 128, 16, 4, 3
IN_KERNEL = 200  # instructions of a kernel
_LEFT_OUT = ("approx", "full", "createpolicy", "prefetch", "cvta", "isspacep", "nanosleep", "activemask", "pmevent",
             "elect", "mapa", "bar", "griddepcontrol", "membar", "applypriority", "discard", "movmatrix")  # fmt: skip
_NAMES = {1: "%p", 16: "%rs", 32: "%r", 64: "%rd"}

# The edges of types, as patterns
_EDGES = {
    16: [0, 0x8000, 1, 0x7FFF, 0xFFFF, 0x3C00, 0xBC00, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x0400, 0x03FF, 0x3F80, 0x7F80,
         0x7F7F, 0xFF80],
    32: [0, 0x80000000, 1, 0x7FFFFFFF, 0xFFFFFFFF, 0x3F800000, 0xBF800000, 0x7F7FFFFF, 0x7F800000, 0xFF800000,
         0x7FC00000, 0x00800000, 0x007FFFFF, 0x3F000000, 0x4B000001, 0x4F000000, 0xCF000000, 0x5F000000, 0x33800000],
    64: [0, 1 << 63, 1, (1 << 63) - 1, (1 << 64) - 1, 0x3FF0000000000000, 0xBFF0000000000000, 0x7FEFFFFFFFFFFFFF,
         0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0x0010000000000000, 0x000FFFFFFFFFFFFF,
         0x41E0000000000000, 0xC1E0000000000000, 0x43E0000000000000, 0x3CA0000000000000],
}  # fmt: skip


def operands() -> NDArray[np.uint64]:
    """uint64 [CTA, thread, operand]: a quarter random bits, a quarter small numbers, a quarter edges of types of 16, 32
    or 64 bits, a quarter floats of ordinary size."""
    rng = np.random.default_rng(20261123)
    shape = (CTAS, THREADS, OPERANDS)
    kinds: list[NDArray[np.uint64]] = [rng.integers(0, 1 << 64, shape, np.uint64)]
    kinds.append(rng.integers(-70, 70, shape).astype(np.int64).view(np.uint64))
    packed = [
        np.ascontiguousarray(rng.choice(np.array(_EDGES[bits], f"u{bits // 8}"), (*shape, 64 // bits)))
        .view(np.uint64)[..., 0]
        for bits in (16, 32, 64)
    ]  # fmt: skip
    kinds.append(np.choose(rng.integers(0, 3, shape), packed))
    size = (rng.standard_normal(shape) * 2.0 ** rng.integers(-9, 9, shape)).astype(np.float32)
    f16 = np.repeat(size.astype(np.float16).view(np.uint16)[..., None], 4, -1).view(np.uint64)[..., 0]
    f32 = np.repeat(size.view(np.uint32)[..., None], 2, -1).view(np.uint64)[..., 0]
    kinds.append(np.choose(rng.integers(0, 3, shape), [f16, f32, size.astype(np.float64).view(np.uint64)]))
    return np.choose(rng.integers(0, 4, shape), kinds)


# Texts


def texts() -> Iterator[tuple[str, str]]:
    """(opcode, instruction) of each form that the target has; some with a constant in place of the last register."""
    from isa.forms.record import Shape
    from isa.forms.table import KERNEL_ROWS, PLAIN_ROWS
    from isa.targets import parse_target
    from tests.support.row_texts import sampled_forms

    generator, chip = random.Random(20261123), parse_target(TARGET)
    seen = set()
    for row in (*PLAIN_ROWS, *KERNEL_ROWS):
        forms = list(row.forms()) if row.name != "set" and not row.name.startswith(("ld", "st", "atom", "red")) else ()
        for form in forms or sampled_forms(row, generator):
            left = any(part in form.opcode for part in _LEFT_OUT) or form.opcode.startswith(("ld", "st", "cp"))
            left = left or bool(re.match(r"fma\.r[zmp].*bf16", form.opcode))  # ptxas 13.0 drops these roundings
            left = left or any(role.widths in ((8,), (128,)) or role.width == 128 for role in form.roles)
            shapes = {role.shape for role in form.roles}
            if left or form.access or form.opcode in seen or not form.supports(chip) or Shape.ADDRESS in shapes:
                continue
            seen.add(form.opcode)
            plain = ", ".join(_operands(form, None, chip))
            constant = ", ".join(_operands(form, generator, chip))
            yield form.opcode, f"{form.opcode} {plain};"
            if constant != plain and generator.random() < 0.3:
                yield form.opcode, f"{form.opcode} {constant};"


def _operands(form: Any, generator: random.Random | None, chip: Any) -> Iterator[str]:
    """Registers by position: the inputs are 1 to 3 in registers of every width, the results 8 and 9; 4 to 6 are the
    inputs with the lowest bit set, which integers are divided by. With a generator, a constant stands last where it
    may."""
    from isa.forms.record import Shape

    lacking = {name for name, limit in form.narrowed if chip not in limit}
    number, divides = 0, form.opcode.startswith(("div", "rem"))
    roles = [role for role in form.roles if role.name not in lacking]
    for role in roles:
        name = _NAMES[(role.widths or (role.width,))[0]]
        if role.output:
            pair = {Shape.PAIR: "|%p8", Shape.REGISTER_OR_PAIR: "|%p8"}.get(role.shape, "")
            yield f"{name}9{pair}"
        elif role.name == "membermask":
            yield "0xFFFFFFFF"
        elif role.shape is Shape.IMMEDIATE:
            yield str((generator or random.Random(form.opcode)).randrange(role.limit or 256))
        else:
            number += 1
            whole = "integer" in role.constants and name != "%p" and not role.special
            if generator is not None and whole and role is roles[-1] and number > 1:
                yield str(generator.choice((1, 2, 5, 31, 100)) % (role.limit or 1000))
            else:
                yield f"{name}{5 if divides and number == 2 else (number - 1) % 3 + 1}"


# Modules

_HEAD = """.version 8.6
.target sm_90a
.address_size 64
"""
_BEGIN = """.visible .entry k{number}(.param .u64 in, .param .u64 out)
{{
.reg .pred %p<10>; .reg .b16 %rs<10>; .reg .b32 %r<20>; .reg .b64 %rd<20>;
ld.param.u64 %rd10, [in];
ld.param.u64 %rd11, [out];
mov.u32 %r10, %tid.x;
shr.u32 %r11, %r10, 5;
mul.wide.u32 %rd12, %r11, 4;
add.u64 %rd11, %rd11, %rd12;
mov.u32 %r12, %ctaid.x;
mad.lo.u32 %r13, %r12, 128, %r10;
mul.wide.u32 %rd13, %r13, 24;
add.u64 %rd14, %rd10, %rd13;
shl.b32 %r14, %r13, 1;
add.u32 %r14, %r14, 1;
mul.lo.u32 %r14, %r14, 0x9E3779B1;
{inputs}"""
_INPUT = """ld.global.u64 %rd{n}, [%rd14+{offset}];
cvt.u32.u64 %r{n}, %rd{n};
cvt.u16.u64 %rs{n}, %rd{n};
and.b32 %r15, %r{n}, 1;
setp.eq.u32 %p{n}, %r15, 1;
or.b64 %rd{odd}, %rd{n}, 1;
or.b32 %r{odd}, %r{n}, 1;
or.b16 %rs{odd}, %rs{n}, 1;
"""
_END = """ret;
}
"""


def kernel(number: int, instructions: list[str]) -> str:
    """The kernel k`number`, which executes each instruction and adds up what it gives."""
    inputs = "".join(_INPUT.format(n=n, offset=8 * (n - 1), odd=n + 3) for n in (1, 2, 3))
    lines = [_BEGIN.format(number=number, inputs=inputs)]
    for place, text in enumerate(instructions):
        lines += [*_carried(text), text, *(line.format(at=4 * WARPS * place) for line in _summed(text))]
    return "\n".join(lines) + "\n" + _END


def _carried(text: str) -> list[str]:
    """What sets the carry flag for an instruction that reads it."""
    return ["add.cc.u32 %r16, %r1, %r2;"] if text.startswith(("addc", "subc", "madc")) else []


def _summed(text: str) -> list[str]:
    """Adds what the instruction gave, in the register 9 of one width, and perhaps in the predicate 8, to its sum."""
    results = text.split(" ", 1)[1].split(",", maxsplit=1)[0].rstrip(";").split("|")
    lines = []
    for result in results:
        words = {
            "%p9": ["selp.u32 %r17, 0x5bd1e995, 1, %p9;"],
            "%p8": ["selp.u32 %r17, 0x1b873593, 3, %p8;"],
            "%rs9": ["mov.b32 %r17, {{%rs9, %rs9}};"],
            "%r9": ["mov.u32 %r17, %r9;"],
            "%rd9": ["mov.b64 {{%r17, %r18}}, %rd9;", "mad.lo.u32 %r17, %r18, 0x85ebca6b, %r17;"],
        }[result]
        lines += [*words, "mul.lo.u32 %r17, %r17, %r14;", "red.global.add.u32 [%rd11+{at}], %r17;"]
    return lines


def module(instructions: list[str]) -> str:
    """A module of kernels of IN_KERNEL instructions each."""
    parts = [instructions[at : at + IN_KERNEL] for at in range(0, len(instructions), IN_KERNEL)]
    return _HEAD + "".join(kernel(number, part) for number, part in enumerate(parts))


# Golden data


def read_golden() -> list[tuple[str, str, list[int]]]:
    """(opcode, instruction, the sums of the four warps) of each recorded instruction."""
    with gzip.open(GOLDEN, "rt", newline="") as stream:
        return [(opcode, text, [int(word, 16) for word in words]) for opcode, text, *words in csv.reader(stream)]


def build(folder: Path) -> None:
    """Writes texts.csv, opcodes.ptx, opcodes.cubin and operands.npy."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = list(texts())
    with (folder / "texts.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)
    (folder / "opcodes.ptx").write_text(module([text for _, text in rows]))
    np.save(folder / "operands.npy", operands())
    cubin = str(folder / "opcodes.cubin")
    subprocess.run(["ptxas", "-arch", TARGET, str(folder / "opcodes.ptx"), "-o", cubin], check=True)


def run(folder: Path) -> None:
    """Executes the cubin and writes sums.npy: uint32 [instruction, warp]."""
    count = len(list(csv.reader((folder / "texts.csv").open())))
    ask, loaded = opened(folder / "opcodes.cubin")
    given = np.load(folder / "operands.npy")
    sums = np.zeros((-(-count // IN_KERNEL), IN_KERNEL, WARPS), np.uint32)
    places = [ctypes.c_uint64(), ctypes.c_uint64()]
    for place, array in zip(places, (given, sums[0]), strict=True):
        ask("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(array.nbytes))
    ask("cuMemcpyHtoD_v2", places[0], given.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(given.nbytes))
    pointers = (ctypes.c_void_p * 2)(*(ctypes.cast(ctypes.pointer(place), ctypes.c_void_p) for place in places))
    for number, part in enumerate(sums):
        size, data = ctypes.c_size_t(part.nbytes), part.ctypes.data_as(ctypes.c_void_p)
        entry = ctypes.c_void_p()
        ask("cuMemcpyHtoD_v2", places[1], data, size)
        ask("cuModuleGetFunction", ctypes.byref(entry), loaded, f"k{number}".encode())
        ask("cuLaunchKernel", entry, *map(ctypes.c_uint, (CTAS, 1, 1, THREADS, 1, 1, 0)), None, pointers, None)
        ask("cuCtxSynchronize")
        ask("cuMemcpyDtoH_v2", data, places[1], size)
    np.save(folder / "sums.npy", sums.reshape(-1, WARPS)[:count])


def opened(cubin: Path) -> tuple[Callable[..., None], ctypes.c_void_p]:
    """Loads a cubin on the first GPU: a function that calls one of the driver (and ends the program with its name if
    that fails), and the module."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def ask(name: str, *arguments: Any) -> None:
        status = getattr(cuda, name)(*arguments)
        if status:
            raise SystemExit(f"{name}: error {status}")

    device, context, loaded = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    ask("cuInit", 0)
    ask("cuDeviceGet", ctypes.byref(device), 0)
    ask("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    ask("cuCtxSetCurrent", context)
    ask("cuModuleLoadData", ctypes.byref(loaded), cubin.read_bytes())
    return ask, loaded


def golden(folder: Path) -> None:
    """Writes the golden file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row, sums in zip(csv.reader((folder / "texts.csv").open()), np.load(folder / "sums.npy"), strict=True):
        writer.writerow([*row, *(f"{word:08x}" for word in sums)])
    GOLDEN.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("build", "run", "golden"))
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    {"build": build, "run": run, "golden": golden}[given.what](given.output)
