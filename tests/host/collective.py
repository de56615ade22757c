"""Builds matrix products with tcgen05.mma through CUTLASS's collective builder and runs them on the simulated GPU; each
checks its own result on the host (collective.cu):

    python -m tests.host.collective SOURCES [--build FOLDER] [--only TEXT] [--compile | --size M,N,K | --table]

SOURCES is as in tests.host.cutlass. Needs nvcc 13; a program takes a minute to compile, and half a minute to run. Each
run leaves a record beside the program: whether its product was right, and what its instructions were, as the simulator
decoded them. `--table` runs nothing: it prints the table of docs/cutlass.md from these records.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator import host
from tests.host.observed import observed
from tests.host.said import said

Size = tuple[int, int, int]
SOURCE = Path(__file__).parent / "collective.cu"
SIZES = ((256, 256, 512), (328, 272, 768))  # m, n, k; the second is no multiple of a tile in m and n
_TYPES = {
    "f16": "cutlass::half_t", "bf16": "cutlass::bfloat16_t", "tf32": "cutlass::tfloat32_t", "f32": "float",
    "s8": "int8_t", "s32": "int32_t", "e4m3": "cutlass::float_e4m3_t", "e5m2": "cutlass::float_e5m2_t",
    "e3m2": "cutlass::float_e3m2_t", "e2m3": "cutlass::float_e2m3_t", "e2m1": "cutlass::float_e2m1_t",
}  # fmt: skip
_SCALED = {  # the type with its scale factors, and the name of schedules
    "mxf8f6f4": ("cutlass::mx_float{bits}_t<{type}>", "Mxf8f6f4"),
    "mxf4": ("cutlass::mx_float{bits}_t<{type}>", "Mxf4"),
    "mxf4nvf4": ("cutlass::nv_float{bits}_t<{type}>", "Nvf4"),
}
_BITS = {"e4m3": 8, "e5m2": 8, "e3m2": 6, "e2m3": 6, "e2m1": 4}


@dataclass(frozen=True)
class Program:
    """A product: kind of the instruction, types, M and N of the instruction, K of a tile, and CTAs of a cluster.

    Attributes:
        ctas: of an instruction (cta_group).
        major: major-ness of A and B: "kk" (both along K) to "mn".
    """

    kind: str
    a: str
    b: str
    m: int
    n: int
    tile_k: int
    ctas: int = 1
    sparse: bool = True
    d: str = "f32"
    accumulator: str = "f32"
    cluster: tuple[int, int] = (0, 0)
    major: str = "kk"

    @property
    def name(self) -> str:
        """For files and tables."""
        types = f"{self.a}.{self.b}.{self.accumulator}"
        more = "" if self.major == "kk" else f".{self.major}"
        more += f".cluster{self.cluster[0]}x{self.cluster[1]}" if self.cluster[0] else ""
        sparse = "sp." if self.sparse else ""
        return f"{sparse}{self.kind}.{types}.m{self.m}n{self.n}.cta{self.ctas}{more}"

    def macros(self) -> dict[str, str]:
        """What collective.cu asks."""
        scaled = self.kind in _SCALED
        types = []
        for name in (self.a, self.b):
            plain = _TYPES[name]
            types.append(_SCALED[self.kind][0].format(bits=_BITS[name], type=plain) if scaled else plain)
        schedule = f"{self.ctas}Sm{_SCALED[self.kind][1] if scaled else ''}Sm100"
        cluster = self.cluster if self.cluster[0] else (self.ctas, 1)
        return {
            "A": types[0], "B": types[1], "D": _TYPES[self.d], "ACC": _TYPES[self.accumulator],
            "A_LAYOUT": f"cutlass::layout::{'RowMajor' if self.major[0] == 'k' else 'ColumnMajor'}",
            "B_LAYOUT": f"cutlass::layout::{'ColumnMajor' if self.major[1] == 'k' else 'RowMajor'}",
            "MMA_M": str(self.m), "MMA_N": str(self.n), "TILE_K": str(self.tile_k),
            "CLUSTER_M": str(cluster[0]), "CLUSTER_N": str(cluster[1]), "SPARSE": str(int(self.sparse)),
            "SCALED": str(int(scaled)), "UNPACKED": str(int(self.kind in ("f8f6f4", "mxf8f6f4"))),
            "MAINLOOP": f"Kernel{'Sparse' if self.sparse else ''}TmaWarpSpecialized{schedule}",
            "EPILOGUE": f"TmaWarpSpecialized{self.ctas}Sm",
        }  # fmt: skip


PROGRAMS = (  # CUTLASS has no sparse ones of 64 rows a CTA, and wants tiles of K = 256 for a sparse A below 8 bits
    Program("f16", "f16", "f16", 128, 128, 128),
    Program("f16", "f16", "f16", 256, 128, 64, 2),
    Program("f16", "f16", "f16", 128, 64, 128, 1, d="f16", accumulator="f16"),
    Program("f16", "bf16", "bf16", 256, 256, 64, 2, cluster=(4, 2)),
    Program("f16", "bf16", "bf16", 128, 32, 128, 1, major="mn"),
    Program("tf32", "tf32", "tf32", 128, 64, 64),
    Program("tf32", "tf32", "tf32", 256, 64, 64, 2),
    Program("i8", "s8", "s8", 128, 128, 128, d="s32", accumulator="s32"),
    Program("i8", "s8", "s8", 256, 128, 128, 2, d="s32", accumulator="s32"),
    Program("f8f6f4", "e4m3", "e5m2", 128, 128, 128),
    Program("f8f6f4", "e3m2", "e2m3", 128, 96, 256),
    Program("f8f6f4", "e2m1", "e4m3", 256, 128, 256, 2),
    Program("f8f6f4", "e5m2", "e2m1", 256, 64, 128, 2),
    Program("mxf8f6f4", "e4m3", "e2m1", 128, 128, 256),
    Program("mxf8f6f4", "e5m2", "e3m2", 256, 128, 256, 2),
    Program("mxf8f6f4", "e2m3", "e4m3", 128, 256, 256),
    Program("mxf4", "e2m1", "e2m1", 128, 128, 256),
    Program("mxf4", "e2m1", "e2m1", 256, 128, 256, 2),
    Program("mxf4nvf4", "e2m1", "e2m1", 128, 128, 256),
    Program("mxf4nvf4", "e2m1", "e2m1", 256, 256, 256, 2),
    Program("f16", "f16", "f16", 64, 128, 64, sparse=False),
    Program("f16", "f16", "f16", 128, 192, 64, 2, sparse=False),
    Program("i8", "s8", "s8", 64, 64, 128, sparse=False, d="s32", accumulator="s32"),
    Program("f16", "bf16", "bf16", 256, 128, 64, 2, sparse=False, cluster=(2, 2)),
    Program("tf32", "tf32", "tf32", 128, 64, 32, 2, sparse=False),
    Program("i8", "s8", "s8", 256, 64, 128, 2, sparse=False, d="s32", accumulator="s32"),
    Program("f8f6f4", "e4m3", "e3m2", 128, 128, 128, sparse=False),
    Program("mxf8f6f4", "e5m2", "e2m1", 256, 128, 128, 2, sparse=False),
    Program("mxf4nvf4", "e2m1", "e2m1", 128, 128, 256, sparse=False),
    Program("mxf4", "e2m1", "e2m1", 256, 128, 256, 2, sparse=False),
)  # fmt: skip


class CompileError(ValueError):
    """What the compiler says first."""


def build(sources: Path, program: Program, folder: Path) -> Path:
    """A program, compiled where it is not there yet."""
    binary = folder / program.name
    if not binary.exists():
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{program.name}"
        done = subprocess.run(
            [
                "nvcc", "-std=c++17", "-O0", "-cudart", "shared", "--expt-relaxed-constexpr",
                "-gencode", "arch=compute_100a,code=compute_100a", "-DCUTLASS_ARCH_MMA_SM100_SUPPORTED=1",
                "-DNDEBUG",  # as CUTLASS is built: with 4-bit elements its compressor fails an assertion of its own
                *(f"-DUSE_{name}={value}" for name, value in program.macros().items()),
                f"-I{sources / 'include'}", f"-I{sources / 'tools/util/include'}", "-o", str(draft), str(SOURCE),
            ],
            check=False, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr]
            raise CompileError(errors[0][:300])
        draft.rename(binary)
    return binary


def run(binary: Path, size: Size) -> tuple[bool, float, str]:
    """Runs a program in this process, and keeps a record beside it: whether it found its result right, the seconds that
    it took, and its last words."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        words = Path(folder) / "said"
        with said(words), observed() as seen:
            code = host.run([binary, *map(str, size)], config="b200", workers=1).code
        lines = words.read_text(errors="replace").strip().splitlines() or ["nothing said"]
    right, seconds = code == 0 and lines[-1].startswith("Passed"), time.perf_counter() - began
    refused = next((line for line in lines if line.startswith("tcsim: ")), "")
    record = {"passed": right, "seconds": round(seconds, 1), "said": lines[-1], "refused": refused, **seen.as_json()}
    record_of(binary, size).write_text(json.dumps(record))
    return right, seconds, refused or lines[-1]


def record_of(binary: Path, size: Size) -> Path:
    """The file that keeps what a run has shown."""
    return binary.with_name(f"{binary.name}.{'x'.join(map(str, size))}.json")


HEAD = (
    "| program | kind | A, B, D | M x N x K | cta_group | layout of D | A, B along | swizzles "
    "| K of a tile | selectors | metadata by | factors by | vector, ids | instructions |"
)


def table(folder: Path) -> str:
    """The table of docs/cutlass.md, from the records of all programs and sizes, and the programs that are not in it."""
    rows, missing = [HEAD, re.sub(r"[^|]+", " --- ", HEAD)], []
    for program in PROGRAMS:
        records = [_record(folder / program.name, size) for size in SIZES]
        if all(record.get("passed") for record in records):
            rows.append(_row(program, records))
        else:
            missing.append(program.name + " (wrong)" * any(record.get("passed") is False for record in records))
    return "\n".join([*rows, *(["", f"Not run yet: {', '.join(missing)}."] if missing else [])])


def _record(binary: Path, size: Size) -> dict[str, Any]:
    """What a run has kept; nothing if there was none."""
    path = record_of(binary, size)
    return json.loads(path.read_text()) if path.exists() else {}


def _row(program: Program, records: list[dict[str, Any]]) -> str:
    """The row of one program: of all its sizes together."""
    fields: dict[str, list[Any]] = {}
    for record in records:
        for name, values in record["fields"].items():
            kept = fields.setdefault(name, [])
            kept += [value for value in values if value not in kept]

    def shown(name: str) -> str:
        return ", ".join(str(value) for value in fields.get(name, ()))

    ids = " ".join(str(tuple(value)) for value in fields.get("ids", ()))
    cells = [
        program.name,
        f"{shown('kind')}{', sparse' if fields['sparse'] == [True] else ''}",
        shown("types"),
        f"{shown('m')} x {shown('n')} x {shown('k')}",
        shown("cta_group"),
        shown("layout"),
        shown("major"),
        f"{shown('a')}, {shown('swizzle_b')}",
        str(program.tile_k),
        shown("selector"),
        shown("metadata"),
        shown("factors"),
        f"{shown('vector')} of {shown('scale_type')}, {ids}" if ids else "",
        " + ".join(str(record["instructions"]) for record in records),
    ]
    return "| " + " | ".join(cells) + " |"


def chosen(only: str) -> Iterator[Program]:
    """The programs whose name has this text."""
    return (program for program in PROGRAMS if only in program.name)


def main() -> int:
    """Compiles and runs; returns 0 where all passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path)
    parser.add_argument("--build", type=Path, default=Path("out/collective"))
    parser.add_argument("--only", default="")
    parser.add_argument("--compile", action="store_true", help="do not run")
    parser.add_argument("--size", type=lambda text: tuple(map(int, text.split(","))), help="M,N,K instead of two sizes")
    parser.add_argument("--table", action="store_true", help="print what ran before as a table")
    options = parser.parse_args()
    if options.table:
        print(table(options.build))
        return 0
    bad = count = 0
    for program in chosen(options.only):
        try:
            binary = build(options.sources, program, options.build)
        except CompileError as error:
            print(f"{program.name}: {error}", flush=True)
            bad += 1
            continue
        for size in () if options.compile else (options.size,) if options.size else SIZES:
            right, seconds, words = run(binary, size)
            bad += not right
            count += 1
            print(f"{program.name} {'x'.join(map(str, size))}: {words} ({seconds:.0f} s)", flush=True)
    print(f"all {count} runs: {bad} failed")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
