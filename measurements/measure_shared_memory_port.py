"""What accesses to shared memory and integer instructions cost a stream of matrix instructions, cycle by cycle: the
loop of a cubin is rewritten, as `measure_mma_distances.py` does, with the stall counts in question.

    python measure_shared_memory_port.py build  # the cubin and the loops (no GPU needed)
    python measure_shared_memory_port.py run    # results/shared_memory_port.csv (needs cupy; 5 seconds)

Kinds: `stream`: 9 matrix instructions, one an interval; `third`: every third has an access or an integer instruction
`at` cycles behind it; `free`: matrix instructions and `count` accesses in turn, waits of one cycle; `sub-cores`: 24
accesses of 128 bytes a register and `count` matrix instructions spread among them, on one to four sub-cores; `loads`:
24 loads, after each `count` of the one in `matrix` one of the one in `other`. `cycles` is an iteration's, with the
loop's end; what an instruction costs is the difference to `stream`.
"""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sass
from machine_code_patch import branch_back, command, control, halves, machine_code

COUNTS = (8, 72)
PAD = [("NOP", 15)] * 3
MATRIX = {  # opcode, registers of A and B, of the accumulator, sparse; its name in machine code; interval
    "sp full f32": ("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", 4, 4, 4, True),
    "sp small f32": ("mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 2, 2, 4, True),
    "full f32": ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 4, 2, 4, False),
    "small f32": ("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 2, 1, 4, False),
    "sp full f16": ("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16", 4, 4, 2, True),
    "sp small f16": ("mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", 2, 2, 2, True),
    "full f16": ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", 4, 2, 2, False),
    "sp full s32": ("mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32", 4, 4, 4, True),
    "sp small s32": ("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 2, 2, 4, True),
    "full s32": ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 4, 2, 4, False),
    "small s32": ("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", 2, 1, 4, False),
}
ENCODED = {
    "sp full f32": "HMMA.SP.16832.F32",
    "sp small f32": "HMMA.SP.16816.F32",
    "full f32": "HMMA.16816.F32",
    "small f32": "HMMA.1688.F32",
    "sp full f16": "HMMA.SP.16832.F16",
    "sp small f16": "HMMA.SP.16816.F16",
    "full f16": "HMMA.16816.F16",
    "sp full s32": "IMMA.SP.16864",
    "sp small s32": "IMMA.SP.16832",
    "full s32": "IMMA.16832",
    "small s32": "IMMA.16816",
}
INTERVAL = {name: 4 + 2 * ("full" in name) + 2 * name.startswith("sp") for name in MATRIX}
OTHERS = {  # in PTX, with what it writes and reads; its name in machine code
    "st.b32": ("st.volatile.shared.b32 [%0], %1;", "", '"r"(words), "r"(y[8])', "STS [", -1),
    "st.v4": (
        "st.volatile.shared.v4.b32 [%0], {%1, %2, %3, %4};",
        "",
        '"r"(at), "r"(y[8]), "r"(y[9]), "r"(y[10]), "r"(y[11])',
        "STS.128",
        0,
    ),
    "ld.b32": ("ld.volatile.shared.b32 %0, [%1];", '"=r"(z[0])', '"r"(words)', "LDS R", 0),
    "ld.v4": (
        "ld.volatile.shared.v4.b32 {%0, %1, %2, %3}, [%4];",
        '"=r"(z[4]), "=r"(z[5]), "=r"(z[6]), "=r"(z[7])',
        '"r"(at)',
        "LDS.128",
        0,
    ),
    "ldmatrix.x1": ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];", '"=r"(z[8])', '"r"(at)', "LDSM.16.M88 ", 0),
    "add": ("add.s32 %0, %0, 5;", '"+r"(z[9])', "", "VIADD", 0),
}
LOADS = {name: OTHERS[name] for name in ("ld.b32", "ld.v4")} | {  # likewise, of the kind `loads`
    "ld.v2": (
        "ld.volatile.shared.v2.b32 {%0, %1}, [%2];",
        '"=r"(z[10]), "=r"(z[11])',
        '"r"(pairs)',
        "LDS.64",
        0,
    ),
    "ldmatrix.x2": (
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];",
        '"=r"(z[10]), "=r"(z[11])',
        '"r"(at)',
        "LDSM.16.M88.2 ",
        0,
    ),
    "ldmatrix.x4": (
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];",
        '"=r"(z[4]), "=r"(z[5]), "=r"(z[6]), "=r"(z[7])',
        '"r"(at)',
        "LDSM.16.M88.4 ",
        0,
    ),
}
HEAD = """#include <cstdint>
extern __shared__ __align__(1024) char memory[];
"""
SOURCE = """extern "C" __global__ void __launch_bounds__(512)
{kernel}(uint64_t *out, const unsigned *values, int count, int cores) {{
    unsigned lane = threadIdx.x & 31, warp = threadIdx.x / 32, at, words{more};
    unsigned base = (unsigned)__cvta_generic_to_shared(memory);
    asm volatile("mov.b32 %0, %1;" : "=r"(at) : "r"(base + 16 * lane));
    asm volatile("mov.b32 %0, %1;" : "=r"(words) : "r"(base + 4 * lane));{start}
    unsigned x[32] = {{}}, y[12], z[12] = {{}}, e = values[lane];
    z[9] = lane, count += values[lane + 50];
    for (int i = 0; i < 12; ++i) y[i] = ((const volatile unsigned *)values)[i];
    if (!(cores >> warp % 4 & 1)) return;
    __syncthreads();
    uint64_t begin, end;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(begin)::"memory");
#pragma unroll 1
    for (int i = 0; i < count; ++i) {{
{body}
    }}
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(end)::"memory");
    unsigned sum = 0;
    for (int i = 0; i < 32; ++i) sum += x[i];
    for (int i = 0; i < 12; ++i) sum += z[i];
    if (lane == 0) out[2 * warp] = begin, out[2 * warp + 1] = end;
    if (sum == 12345) out[100] = sum;
}}
"""
Item = tuple[str, int]  # an instruction and its stall count


def matrix(name: str, number: int) -> str:
    """One matrix instruction; its operands are y[0] to y[7], its accumulator one of eight."""
    opcode, a, b, d, sparse = MATRIX[name]
    places = iter(range(32))
    groups = [", ".join(f"%{next(places)}" for _ in range(n)) for n in (d, a, b)]
    rest = f", %{next(places)}, 0x0" if sparse else ""
    text = f"{opcode} {{{groups[0]}}}, {{{groups[1]}}}, {{{groups[2]}}}, {{{groups[0]}}}{rest};"
    outputs = ", ".join(f'"+r"(x[{4 * (number % 8) + i}])' for i in range(d))
    read = [f'"r"(y[{i}])' for i in (*range(a), *range(4, 4 + b))] + (['"r"(e)'] if sparse else [])
    return f'asm volatile("{text}" : {outputs} : {", ".join(read)});'


def template() -> str:
    """Two kernels: the loop of one has every matrix instruction in question, what comes among them, and room; the other
    has loads, and room."""
    room = [matrix(name, number) for name in MATRIX for number in range(8)]
    among, loads = (
        [f'asm volatile("{text}" : {out} : {read} : "memory");' for text, out, read, *_ in table.values()]
        for table in (OTHERS, LOADS)
    )
    pairs = '\n    asm volatile("mov.b32 %0, %1;" : "=r"(pairs) : "r"(base + 8 * lane));'
    first = SOURCE.format(kernel="loop", more="", start="", body="\n".join(room + among))
    return HEAD + first + SOURCE.format(kernel="loads", more=", pairs", start=pairs, body="\n".join(room + loads))


def experiments() -> Iterator[tuple[dict[str, Any], tuple[int, ...], tuple[int, ...], list[Item]]]:
    """Labels, numbers of warps, masks of sub-cores, sequence."""
    for name, every in INTERVAL.items():
        yield {"kind": "stream", "matrix": name}, (1, 16), (15,), [(name, every)] * 9 + PAD
        for other in OTHERS:
            for at in range(1, every):
                body = [
                    x for i in range(9) for x in (((name, at), (other, every - at)) if i % 3 == 1 else ((name, every),))
                ]
                yield {"kind": "third", "matrix": name, "other": other, "at": at}, (1, 16), (15,), body + PAD
            for count in (1, 2):
                body = [x for _ in range(12) for x in ((name, 1), *[(other, 1)] * count)]
                yield {"kind": "free", "matrix": name, "other": other, "count": count}, (1,), (15,), body + PAD
    for other in ("st.v4", "ld.v4"):
        for name in ("sp full f32", "small f32", "full f32"):
            for count in (0, 1, 2, 4, 8, 12, 24):
                body = []
                for i in range(24):
                    body += [(other, 2)] + [(name, 2)] * ((i + 1) * count // 24 - i * count // 24)
                labels = {"kind": "sub-cores", "matrix": name, "other": other, "count": count}
                yield labels, (4, 8, 16), (1, 3, 5, 7, 15), body + PAD
    yield from loads()


def loads() -> Iterator[tuple[dict[str, Any], tuple[int, ...], tuple[int, ...], list[Item]]]:
    """Streams of loads with others among them, likewise."""
    pairs = [("ldmatrix.x4", other) for other in ("ld.v4", "ld.v2", "ld.b32", "ldmatrix.x4")]
    pairs += [("ldmatrix.x2", "ld.v4"), ("ld.v4", "ldmatrix.x4"), ("ld.v4", "ld.v2"), ("ld.v4", "ld.v4")]
    for stream, other in pairs:
        for count in (1, 2, 3, 5, 7, 11, 23) if stream != other else (1,):
            body = ([(stream, 2)] * count + [(other, 2)]) * (24 // (count + 1))
            labels = {"kind": "loads", "matrix": stream, "other": other, "count": count}
            yield labels, (4, 8, 12, 16), (1, 3, 15), body + PAD


def build(folder: Path, nvcc: str, nvdisasm: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    source, cubin = folder / "shared_memory_port.cu", folder / "shared_memory_port.cubin"
    source.write_text(template())
    subprocess.run([nvcc, "-w", "-arch=sm_90a", "-O3", "-cubin", "-o", str(cubin), str(source)], check=True)
    found = sass.listings(cubin, nvdisasm)
    kernels = {name: machine(found[name], others) for name, others in (("loop", OTHERS), ("loads", LOADS))}
    loops = []
    for labels, warps, cores, body in experiments():
        kernel = "loads" if labels["kind"] == "loads" else "loop"
        loops.append([kernel, labels, warps, cores, encoded(body, *kernels[kernel])])
    code = cubin.read_bytes()
    offsets = {name: code.index(machine_code(map(halves, loop))) for name, (*_, loop) in kernels.items()}
    (folder / "shared_memory_port.json").write_text(json.dumps({"offsets": offsets, "loops": loops}))
    print(len(loops), "loops")


def machine(listing: list[Any], others: dict[str, Any]) -> tuple[dict[str, list[tuple[int, int]]], Any, list[Any]]:
    """The encodings of the instructions of a template by name, the ends of its loop, and the loop."""
    (loop,) = sass.loops(listing)

    def found(text: str, place: int = 0) -> tuple[int, int]:
        return halves([x for x in loop if x.text.startswith(text)][place])

    known = {name: [halves(x) for x in loop if x.text.startswith(text)] for name, text in ENCODED.items()}
    known |= {name: [found(text, place)] for name, (*_, text, place) in others.items()}
    if "add" in others:
        known["add"] = [next(halves(x) for x in loop if x.text.startswith("VIADD") and x.text.endswith(", 0x5"))]
    known["NOP"] = [next(halves(x) for x in listing if isinstance(x, sass.Instruction) and x.text == "NOP")]
    counter = next(x for x in loop if x.text.startswith("ISETP")).text.split(", ")[2]
    return known, (found(f"VIADD {counter}"), found("ISETP"), found("@!P0 BRA")), loop


def encoded(body: list[Item], known: dict[str, list[tuple[int, int]]], ends: Any, loop: list[Any]) -> str:
    """The loop in hexadecimal: counter, comparison, body, branch."""
    (add, compare, branch), used = ends, dict.fromkeys(known, 0)
    words = [(add[0], control(add[1], 12)), (compare[0], control(compare[1], 13))]
    for name, stall in body:
        low, high = known[name][used[name] % len(known[name])]
        used[name] += 1
        words.append((low, control(high, stall)))
    words.append(branch_back(branch, len(words)))
    assert len(words) <= len(loop)
    return machine_code(words).hex()


def run(folder: Path, results: Path, date: str) -> None:
    import cupy
    import numpy as np

    data, cubin = (
        json.loads((folder / "shared_memory_port.json").read_text()),
        (folder / "shared_memory_port.cubin").read_bytes(),
    )
    out, values = cupy.zeros(128, dtype=cupy.uint64), cupy.zeros(128, dtype=cupy.uint32)
    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    columns = ("kind", "matrix", "other", "at", "count", "warps", "sub_cores", "cycles")
    with (results / "shared_memory_port.csv").open("w", newline="") as file:
        file.write(
            f"# {device}, {date}; one CTA on one SM; cycles of an iteration, best of 4 launches for each count\n"
        )
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        for name, labels, numbers, masks, text in data["loops"]:
            raw, offset = bytes.fromhex(text), data["offsets"][name]
            module = cupy.cuda.function.Module()
            module.load(cubin[:offset] + raw + cubin[offset + len(raw) :])
            kernel = module.get_function(name)
            for warps in numbers:
                for mask in masks:
                    best = []
                    for count in COUNTS:
                        found = []
                        for _ in range(4):
                            arguments = (out, values, np.int32(count), np.int32(mask))
                            kernel((1,), (32 * warps,), arguments, shared_mem=32768)
                            clocks = out[: 2 * warps].get().astype(np.int64).reshape(-1, 2)
                            clocks = clocks[[w for w in range(warps) if mask >> w % 4 & 1]]
                            found.append(clocks[:, 1].max() - clocks[:, 0].min())
                        best.append(min(found))
                    cycles = round((best[1] - best[0]) / (COUNTS[1] - COUNTS[0]), 2)
                    cores = "".join(str(core) for core in range(4) if mask >> core & 1)
                    writer.writerow({**labels, "warps": warps, "sub_cores": cores, "cycles": cycles})


if __name__ == "__main__":
    command(__doc__, build, run, ("nvcc", "nvdisasm"))
