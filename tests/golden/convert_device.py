"""Records what `cvt` gives on an NVIDIA GPU, for the types of this project: convert_h100.npz.

    python convert_device.py build [--folder DIR] [--arch sm_90a] [--ptxas PTXAS]   convert.ptx and convert.cubin (no
    GPU needed)
    python convert_device.py run   [--folder DIR] [--output FILE.npz] [--date D]     needs numpy and libcuda.so.1 only

Two kinds of kernels. `runs`: an instruction with an f32 source is evaluated for all 2^32 patterns; recorded are the
patterns at which the result differs from that of the pattern before, and the result there. `list`: an instruction is
evaluated for a list of inputs (all patterns of a 16-bit source; for f64 and s32 the list of `inputs`, which tests build
again). Arrays of the result: `runs|INSTRUCTION|starts` (uint32) and `|values` (uint32); `list|INSTRUCTION` (uint32, or
two uint16 in one word); `about` (JSON: GPU, driver, date, and for x2 instructions how often the upper half differed
from the lower one for the same input). All but `about` are stored as differences modulo 2^32; `make_convert.load`
undoes them.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import subprocess
from functools import cache
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
CAPACITY = 1 << 21  # runs of one instruction; tf32 has 2^20
BLOCKS, THREADS = 1 << 19, 512  # 2^28 patterns a launch


def run_instructions() -> list[str]:
    """Instructions with an f32 source whose result has few enough different values."""
    names = []
    for target in ("f16", "bf16"):
        names += [f"cvt.{r}.{target}.f32" for r in ("rn", "rz", "rm", "rp")]
        names += [f"cvt.{r}{m}.{target}.f32" for r in ("rn", "rz") for m in (".relu", ".satfinite", ".relu.satfinite")]
    names += [f"cvt.{m}.tf32.f32" for m in ("rna", "rna.satfinite", "rn", "rz", "rn.relu", "rz.relu")]
    names += [f"cvt.rn.satfinite{m}.{target}x2.f32" for target in ("e4m3", "e5m2") for m in ("", ".relu")]
    names += [f"cvt.{r}.{target}.f32" for target in ("s8", "u8") for r in ("rni", "rzi", "rmi", "rpi")]
    return names


def list_instructions() -> list[str]:
    """Instructions with other sources, and those with an f32 source and too many different results."""
    rounds = ("rn", "rz", "rm", "rp")
    names = [
        "cvt.f32.f16",
        "cvt.f32.bf16",
        "cvt.rn.bf16.f16",
        "cvt.rz.bf16.f16",
        *(f"cvt.{r}.f16.bf16" for r in rounds),
    ]
    names += [f"cvt.rn.satfinite{m}.{target}x2.f16x2" for target in ("e4m3", "e5m2") for m in ("", ".relu")]
    names += [f"cvt.rn{m}.f16x2.{source}x2" for source in ("e4m3", "e5m2") for m in ("", ".relu")]
    names += [
        f"cvt.{r}.{target}.{source}"
        for source in ("f16", "bf16")
        for target in ("s8", "u8", "s32")
        for r in ("rni", "rzi", "rmi", "rpi")
    ]
    names += [f"cvt.{r}.{target}.f64" for target in ("f32", "f16", "bf16") for r in rounds]
    names += [f"cvt.{r}.{target}.f64" for target in ("s8", "u8", "s32") for r in ("rni", "rzi")]
    names += [f"cvt.{r}.s32.f32" for r in ("rni", "rzi", "rmi", "rpi")]
    names += [f"cvt.{r}.{target}.s32" for target in ("f32", "f16", "bf16") for r in rounds]
    names += [f"cvt.rn.{target}.{source}" for target in ("f32", "f16", "bf16") for source in ("s8", "u8")]
    return names


@cache
def inputs(source: str) -> np.ndarray:
    """The list of inputs of a `list` kernel: uint32, or uint64 patterns of f64. Always the same; ordered, so that
    results compress well."""
    rng = np.random.default_rng(20261121)
    if source in ("f16", "bf16"):
        return np.arange(1 << 16, dtype=np.uint32)
    if source == "f16x2":
        low = np.arange(1 << 16, dtype=np.uint32)
        return low | (low[::-1] << np.uint32(16))
    if source in ("e4m3x2", "e5m2x2"):
        return np.arange(1 << 16, dtype=np.uint32)
    if source in ("s8", "u8"):
        return np.arange(1 << 8, dtype=np.uint32)
    if source == "s32":
        near = np.arange(-70000, 70000, dtype=np.int64)
        powers = (1 << np.arange(31, dtype=np.int64))[:, None]
        steps = np.concatenate([[0], *(np.array([k, -k]) for k in (1, 2, 3))])
        ties = (powers + (powers >> np.arange(1, 26)[:, None, None]) * np.arange(1, 8, 2)[:, None, None, None]).reshape(
            -1, 1
        ) + steps
        values = np.concatenate([near, ties.ravel(), -ties.ravel(), rng.integers(-(1 << 31), 1 << 31, 1 << 15)])
        return np.unique((np.clip(values, -(1 << 31), (1 << 31) - 1) & 0xFFFFFFFF).astype(np.uint32))
    if source == "f32":
        exponents = rng.integers(120, 162, 1 << 16).astype(np.uint32) << np.uint32(23)
        cut = np.uint32(1) << rng.integers(0, 24, 1 << 16).astype(np.uint32)
        digits = rng.integers(0, 1 << 23, 1 << 16).astype(np.uint32) & ~(cut - np.uint32(1))
        sign = rng.integers(0, 2, 1 << 16).astype(np.uint32) << np.uint32(31)
        corner = [0x4F000000, 0x4EFFFFFF, 0x4F000001, 0x3F000000, 0x3F000001]  # 2^31, 0.5
        corners = np.array([0, 1, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF, *corner], np.uint32)
        return np.unique(np.concatenate([sign | exponents | digits, corners, corners | np.uint32(1 << 31)]))
    assert source == "f64"
    narrow = [(15, 10, 24), (127, 7, 12), (127, 23, 12)]  # bias, fraction bits, exponents per significand sampled
    found = []
    for bias, fraction, count in narrow:
        n = 1 << 9
        edges = (np.full(n, bias), np.full(n, -bias), np.full(n, 1 - bias))
        exponent = np.concatenate([rng.integers(-bias - fraction - 3, bias + 3, n * count), *edges])
        digits = 1.0 + rng.integers(0, 1 << min(fraction, 20), len(exponent)) / (1 << min(fraction, 20))
        place = np.exp2(-rng.integers(0, 3, len(exponent)).astype(np.float64) - fraction)
        value = np.ldexp(digits + rng.integers(-1, 2, len(exponent)) * place, exponent.astype(np.int64))
        found += [value, np.nextafter(value, np.inf), np.nextafter(value, 0.0)]
    whole = rng.integers(-1024, 1024, 1 << 12) / 4.0
    edge = 2.0**31 + np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    corners = np.array([0.0, np.inf, np.nan, 5e-324, 1e-300, 1e300, *edge, 65519.999999999, 65520.0])
    values = np.concatenate([*found, whole, corners])
    return np.unique(np.concatenate([values, -values]).view(np.uint64))


_REGISTERS = {"f32": "f", "f64": "d", "f16": "h", "bf16": "h", "e4m3x2": "h", "e5m2x2": "h"}  # others: 32-bit, r


def _register(type_: str, other: str) -> str:
    """Kind of register: f, d, b (8 bits), h (16 bits) or r. ptxas 13.0 takes 8-bit integers beside bf16 in 8-bit
    registers only."""
    return "b" if (type_, other) in (("s8", "bf16"), ("u8", "bf16")) else _REGISTERS.get(type_, "r")


def _evaluate(instruction: str, source: str, result: str, *, upper: bool = False) -> list[str]:
    """PTX that computes the 32-bit word `result` from `source` (%rN or %rdN) through the registers %f0 %d0 %h0 %r90."""
    *_, to, of = instruction.split(".")
    operand = {"f": "%f0", "d": "%d0", "h": "%h0", "b": "%b0", "r": "%r90"}[_register(of, to)]
    target = {"f": "%f1", "d": "%d1", "h": "%h1", "b": "%b1", "r": "%r91"}[_register(to, of)]
    read = {"f": "mov.b32", "d": "mov.b64", "h": "cvt.u16.u32", "b": "cvt.u8.u32", "r": "mov.b32"}[
        _register(of, to)
    ] + f" {operand}, {source};"
    write = {"f": "mov.b32", "h": "cvt.u32.u16", "b": "cvt.u32.u8", "r": "mov.b32"}[
        _register(to, of)
    ] + f" {result}, {target};"
    if of == "f32" and to.endswith("x2"):
        operand = f"{operand}, %f9" if upper else f"%f9, {operand}"
    lines = [read, f"{instruction} {target}, {operand};", write]
    if of == "f32" and to.endswith("x2"):
        lines.append(f"shr.u32 {result}, {result}, 8;" if upper else f"and.b32 {result}, {result}, 255;")
    return lines


_HEAD = """.reg .pred %p<4>; .reg .b8 %b<4>; .reg .b16 %h<4>; .reg .b32 %r<100>; .reg .b64 %rd<20>;
.reg .f32 %f<10>; .reg .f64 %d<4>;
    mov.f32 %f9, 0f00000000;
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
"""


def _runs_kernel(name: str, instruction: str) -> str:
    """Parameters: base pattern, counters (runs, differing halves), where runs go (pattern, result). Results of 16 bits:
    upper half zero."""
    body = [
        *_evaluate(instruction, "%r5", "%r10"),
        "add.u32 %r6, %r5, 4294967295;",
        *_evaluate(instruction, "%r6", "%r11"),
    ]
    if ".e" in instruction:
        body += [
            *_evaluate(instruction, "%r5", "%r12", upper=True),
            "setp.ne.u32 %p2, %r10, %r12;",
            "@%p2 atom.global.add.u32 %r20, [%rd1+4], 1;",
        ]
    lines = "\n    ".join(body)
    return f""".visible .entry {name}(.param .u32 base, .param .u64 counters, .param .u64 found) {{
    {_HEAD}    ld.param.u32 %r7, [base]; ld.param.u64 %rd1, [counters]; ld.param.u64 %rd2, [found];
    add.u32 %r5, %r4, %r7;
    {lines}
    setp.ne.u32 %p0, %r10, %r11; setp.eq.u32 %p1, %r5, 0; or.pred %p0, %p0, %p1;
    @!%p0 ret;
    atom.global.add.u32 %r21, [%rd1], 1;
    setp.ge.u32 %p3, %r21, {CAPACITY};
    @%p3 ret;
    mul.wide.u32 %rd3, %r21, 8; add.u64 %rd3, %rd3, %rd2;
    st.global.v2.u32 [%rd3], {{%r5, %r10}};
    ret;
}}
"""


def _list_kernel(name: str, instruction: str) -> str:
    wide = instruction.endswith(".f64")
    load = "mul.wide.u32 %rd3, %r4, 8; add.u64 %rd3, %rd3, %rd1; ld.global.u64 %rd5, [%rd3];" if wide else (
        "mul.wide.u32 %rd3, %r4, 4; add.u64 %rd3, %rd3, %rd1; ld.global.u32 %r5, [%rd3];")  # fmt: skip
    lines = "\n    ".join(_evaluate(instruction, "%rd5" if wide else "%r5", "%r10"))
    return f""".visible .entry {name}(.param .u32 count, .param .u64 given, .param .u64 results) {{
    {_HEAD}    ld.param.u32 %r7, [count]; ld.param.u64 %rd1, [given]; ld.param.u64 %rd2, [results];
    setp.ge.u32 %p0, %r4, %r7;
    @%p0 ret;
    {load}
    {lines}
    mul.wide.u32 %rd4, %r4, 4; add.u64 %rd4, %rd4, %rd2;
    st.global.u32 [%rd4], %r10;
    ret;
}}
"""


def kernel_name(kind: str, instruction: str) -> str:
    return f"{kind}_{instruction.replace('.', '_')}"


def build(folder: Path, arch: str, ptxas: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    kernels = [_runs_kernel(kernel_name("runs", i), i) for i in run_instructions()]
    kernels += [_list_kernel(kernel_name("list", i), i) for i in list_instructions()]
    source = folder / "convert.ptx"
    source.write_text(f".version 9.0\n.target {arch}\n.address_size 64\n" + "\n".join(kernels))
    subprocess.run([ptxas, f"-arch={arch}", "-o", str(folder / "convert.cubin"), str(source)], check=True)


class Device:
    """The first GPU through the driver's C interface."""

    def __init__(self, cubin: bytes) -> None:
        self.lib = ctypes.CDLL("libcuda.so.1")
        device, context, self.module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self("cuInit", 0)
        self("cuDeviceGet", ctypes.byref(device), 0)
        name, version = ctypes.create_string_buffer(100), ctypes.c_int()
        self("cuDeviceGetName", name, 100, device)
        self("cuDriverGetVersion", ctypes.byref(version))
        self.name = f"{name.value.decode()}, CUDA driver interface {version.value}"
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self("cuCtxSetCurrent", context)
        self("cuModuleLoadData", ctypes.byref(self.module), cubin)

    def __call__(self, function: str, *arguments: object) -> None:
        code = getattr(self.lib, function)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorString(code, ctypes.byref(text))
            raise SystemExit(f"{function}: error {code}: {(text.value or b'').decode()}")

    def allocate(self, size: int) -> ctypes.c_uint64:
        pointer = ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def put(self, pointer: ctypes.c_uint64, array: np.ndarray) -> None:
        self("cuMemcpyHtoD_v2", pointer, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes))

    def get(self, pointer: ctypes.c_uint64, array: np.ndarray) -> np.ndarray:
        self("cuMemcpyDtoH_v2", array.ctypes.data_as(ctypes.c_void_p), pointer, ctypes.c_size_t(array.nbytes))
        return array

    def launch(self, kernel: str, blocks: int, threads: int, *parameters: ctypes._SimpleCData) -> None:  # type: ignore[type-arg]
        function = ctypes.c_void_p()
        self("cuModuleGetFunction", ctypes.byref(function), self.module, kernel.encode())
        pointers = (ctypes.c_void_p * len(parameters))(
            *(ctypes.cast(ctypes.byref(p), ctypes.c_void_p) for p in parameters)
        )
        self("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, pointers, None)
        self("cuCtxSynchronize")


def run(folder: Path, output: Path, date: str) -> None:
    device = Device((folder / "convert.cubin").read_bytes())
    counters, found = device.allocate(8), device.allocate(8 * CAPACITY)
    arrays: dict[str, np.ndarray] = {}
    differing: dict[str, int] = {}
    for instruction in run_instructions():
        device.put(counters, np.zeros(2, np.uint32))
        for base in range(0, 1 << 32, BLOCKS * THREADS):
            device.launch(kernel_name("runs", instruction), BLOCKS, THREADS, ctypes.c_uint32(base), counters, found)
        count, halves = (int(n) for n in device.get(counters, np.zeros(2, np.uint32)))
        if count > CAPACITY:
            raise SystemExit(f"{instruction}: {count} runs, more than {CAPACITY}")
        pairs = device.get(found, np.zeros((count, 2), np.uint32))
        pairs = pairs[np.argsort(pairs[:, 0])]
        arrays[f"runs|{instruction}|starts"] = np.diff(pairs[:, 0], prepend=np.uint32(0))
        arrays[f"runs|{instruction}|values"] = np.diff(pairs[:, 1], prepend=np.uint32(0))
        if ".e" in instruction:
            differing[instruction] = halves
        print(instruction, count, "runs", halves, "differing halves", flush=True)
    for instruction in list_instructions():
        given = inputs(instruction.split(".")[-1])
        memory, results = device.allocate(given.nbytes), device.allocate(4 * len(given))
        device.put(memory, given)
        device.launch(
            kernel_name("list", instruction), -(-len(given) // 256), 256, ctypes.c_uint32(len(given)), memory, results
        )
        arrays[f"list|{instruction}"] = np.diff(
            device.get(results, np.zeros(len(given), np.uint32)), prepend=np.uint32(0)
        )
        print(instruction, len(given), "inputs", flush=True)
    about = {"gpu": device.name, "date": date, "differing_halves": differing, "numpy": np.__version__}
    words = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez_compressed(output, about=words, **arrays)  # type: ignore[arg-type]
    print(output, output.stat().st_size, "bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("build", "run"))
    parser.add_argument("--folder", type=Path, default=HERE)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--ptxas", default="ptxas")
    parser.add_argument("--output", type=Path, default=HERE / "convert_h100.npz")
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    options = parser.parse_args()
    if options.step == "build":
        build(options.folder, options.arch, options.ptxas)
    else:
        run(options.folder, options.output, options.date)


if __name__ == "__main__":
    main()
