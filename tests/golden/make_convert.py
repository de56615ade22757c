"""What others say about conversions: NVIDIA's host code for them, and ptxas about which exist.

    python make_convert.py host  [--nvcc NVCC] [--output FILE.npz]        convert_cuda_host.npz; 4 minutes; needs nvcc
    and a C++ compiler
    python make_convert.py ptxas [--ptxas PTXAS] [--output FILE.json.gz]  convert_ptxas.json.gz; 1 minute

convert_cuda_host.npz: what convert_host.cu prints, that is the functions of cuda_fp4.h, cuda_fp6.h, cuda_fp8.h,
cuda_fp16.h and cuda_bf16.h as they run on the host. `runs|TARGET.f32.ROUNDING[.satfinite]|starts` and `|values`: the
f32 patterns, of all 2^32, at which the result changes, and the result there. `list|TARGET.SOURCE.ROUNDING[.satfinite]`:
the results for all patterns of the source, or for `convert_device.inputs` of f64 and s32. All uint32 and stored as
differences modulo 2^32; `load` undoes them.

convert_ptxas.json.gz: `accepted`: for each of `candidates()` that ptxas takes for some target, the first PTX version
that has it for each.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

if __package__:
    from tests.golden.convert_device import inputs
else:
    from convert_device import inputs  # type: ignore[no-redef]

HERE = Path(__file__).resolve().parent
_SUFFIXED = tuple(f"{number}{suffix}" for number in (100, 103, 110, 120, 121) for suffix in ("", "a", "f"))
TARGETS = ("75", "80", "86", "87", "88", "89", "90", "90a", *_SUFFIXED)  # all that ptxas 13.0 knows
VERSIONS = (
    "6.3",
    "6.4",
    "6.5",
    "7.0",
    "7.1",
    "7.2",
    "7.4",
    "7.6",
    "7.8",
    "8.0",
    "8.1",
    "8.3",
    "8.5",
    "8.6",
    "8.7",
    "8.8",
    "9.0",
)


def load(path: Path) -> dict[str, np.ndarray]:
    """The arrays of convert_cuda_host.npz (or of what convert_device.py records), with differences summed up again."""
    with np.load(path) as file:
        return {name: file[name] if name == "about" else np.cumsum(file[name], dtype=np.uint32) for name in file.files}


def host(nvcc: str, output: Path) -> None:
    version = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[-2]
    arrays = {"about": np.frombuffer(version.encode(), np.uint8)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program, results = folder / "convert_host", folder / "results"
        results.mkdir()
        subprocess.run([nvcc, "-O2", "-std=c++17", "-o", str(program), str(HERE / "convert_host.cu")], check=True)
        inputs("f64").tofile(folder / "f64")
        inputs("s32").tofile(folder / "s32")
        subprocess.run([str(program), str(results), str(folder / "f64"), str(folder / "s32")], check=True)
        for file in sorted(results.iterdir()):
            kind, _, conversion = file.name.partition(".")
            data = np.fromfile(file, np.uint32)
            if kind == "runs":
                arrays[f"runs|{conversion}|starts"] = np.diff(data[0::2], prepend=np.uint32(0))
                arrays[f"runs|{conversion}|values"] = np.diff(data[1::2], prepend=np.uint32(0))
            else:
                arrays[f"list|{conversion}"] = np.diff(data, prepend=np.uint32(0))
    temporary = output.with_suffix(".tmp.npz")
    np.savez_compressed(temporary, **arrays)  # type: ignore[arg-type]
    temporary.replace(output)
    print(output, output.stat().st_size, "bytes,", len(arrays), "arrays")


_DECLARATIONS = (
    ".reg .f32 %f<4>; .reg .f64 %d<4>; .reg .b16 %h<4>; .reg .b32 %r<4>; .reg .s8 %s<4>; .reg .u8 "
    "%u<4>; .reg .b8 %b<4>;"
)
_REGISTERS = {
    "f32": "f",
    "f64": "d",
    "tf32": "r",
    "s32": "r",
    "f16x2": "r",
    "bf16x2": "r",
    "s8": "s",
    "u8": "u",
    "e2m1x2": "b",
}  # others: 16 bits
_WIDE, _WHOLE = ("f16", "bf16", "tf32", "f32", "f64"), ("s8", "u8", "s32")
_NARROW = ("e4m3x2", "e5m2x2", "e3m2x2", "e2m3x2", "e2m1x2", "ue8m0x2", "ue4m3x2")
_ROUNDINGS = ("", ".rn", ".rz", ".rm", ".rp", ".rna")
_MODIFIERS = ("", ".satfinite", ".relu", ".satfinite.relu")


def candidates() -> Iterator[str]:
    """Every cvt that could exist: all pairs of types, roundings and modifiers."""
    for source, target in itertools.permutations(_WIDE + _WHOLE, 2):
        if target not in _WHOLE:
            endings = itertools.product(_ROUNDINGS, _MODIFIERS)
        else:
            endings = itertools.product(
                ("",) if source in _WHOLE else ("", ".rni", ".rzi", ".rmi", ".rpi"), ("", ".sat")
            )
        yield from (f"cvt{r}{m}.{target}.{source}" for r, m in endings)
    pairs = [(t, "f32") for t in (*_NARROW, "f16x2", "bf16x2")]
    pairs += [pair for t, s in itertools.product(_NARROW, ("f16x2", "bf16x2")) for pair in ((t, s), (s, t))]
    yield from (f"cvt{r}{m}.{t}.{s}" for t, s in pairs for r, m in itertools.product(_ROUNDINGS, _MODIFIERS))


def statement(opcode: str) -> str:
    """The opcode with registers of the right kinds."""
    *_, target, source = opcode.split(".")
    to, of = (_REGISTERS.get(name, "h") for name in (target, source))
    second = f", %{of}3" if source == "f32" and target.endswith("x2") else ""
    return f"{opcode} %{to}1, %{of}2{second};"


def judge(opcodes: Sequence[str], target: str, version: str, ptxas: str = "ptxas") -> set[str] | None:
    """Those that ptxas takes for a target in a PTX version; None if that version does not have the target."""
    head = f".version {version}\n.target sm_{target}\n.address_size 64\n.visible .entry k() {{\n{_DECLARATIONS}\n"
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "x.ptx"

        def errors(chosen: Sequence[str]) -> tuple[int, str]:
            source.write_text(head + "\n".join(statement(opcode) for opcode in chosen) + "\n}\n")
            done = subprocess.run(
                [ptxas, f"-arch=sm_{target}", "-o", "/dev/null", str(source)],
                capture_output=True,
                text=True,
                check=False,
            )
            return done.returncode, done.stdout + done.stderr

        _, text = errors(opcodes)
        lines = {int(line) for line in re.findall(r"line (\d+); error", text)}
        if 2 in lines or "does not support .target" in text:
            return None
        first = head.count("\n") + 1
        taken = [opcode for i, opcode in enumerate(opcodes) if i + first not in lines]
        code, text = errors(taken)  # a later phase of ptxas may find more
        if code:
            raise SystemExit(f"sm_{target}, PTX {version}: {text}")
        return set(taken)


def verdicts(ptxas: str, output: Path) -> None:
    opcodes = list(candidates())
    accepted: dict[str, dict[str, str]] = {}
    for target in TARGETS:
        for version in VERSIONS:
            for opcode in sorted(judge(opcodes, target, version, ptxas) or ()):
                accepted.setdefault(opcode, {}).setdefault(target, version)
    about = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[-2]
    data = json.dumps(
        {"ptxas": about, "targets": TARGETS, "versions": VERSIONS, "candidates": len(opcodes), "accepted": accepted},
        sort_keys=True,
    )
    temporary = output.with_suffix(".tmp")
    temporary.write_bytes(gzip.compress(data.encode(), mtime=0))
    temporary.replace(output)
    print(output, output.stat().st_size, "bytes,", len(opcodes), "candidates,", len(accepted), "accepted")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("host", "ptxas"))
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--ptxas", default="ptxas")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.step == "host":
        host(options.nvcc, options.output or HERE / "convert_cuda_host.npz")
    else:
        verdicts(options.ptxas, options.output or HERE / "convert_ptxas.json.gz")


if __name__ == "__main__":
    main()
