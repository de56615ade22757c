"""Faults of the tensor core unit that other operands emulate, run on an H100 or H200: tests/golden/unit_faults.npz.

    python -m measurements.unit_faults build                # draws the faults; kernels and inputs; needs nvcc, no GPU
    python3 -m measurements.unit_faults run --output DIR    # needs the GPU and numpy, not tcsim; seconds
    cp DIR/unit_faults.npz tests/golden/
    python -m tests.golden.compare_unit_faults              # against the simulator

From the root of the repository. `measurements.unit_emulation` draws the faults and says what emulates them. Each fault
is two warps of a launch: one with the operands that emulate it, one with the operands as they are. `run` takes the
program that `build` compiled, so that 8-bit floats are the sequences of that nvcc; without it, it compiles it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from isa.forms.mma import MmaForm
    from measurements.unit_emulation import Emulated, Subject

HERE = Path(__file__).resolve().parent
BUILD = HERE / "build" / "unit_faults"
SOURCE, PROGRAM, INPUTS = "unit_faults.cu", "unit_faults", "inputs.npz"
Words = NDArray[np.uint32]

MAIN = r"""
struct Job { void (*kernel)(const unsigned*, unsigned*, int); int count, in, out; };

static void check(cudaError_t error) {
    if (error != cudaSuccess) { std::fprintf(stderr, "%s\n", cudaGetErrorString(error)); std::exit(1); }
}

int main(int, char** names) {
    FILE *input = std::fopen(names[1], "rb"), *output = std::fopen(names[2], "wb");
    if (!input || !output) { std::fprintf(stderr, "files\n"); return 1; }
    for (const Job& job : JOBS) {
        size_t in = size_t(job.count) * job.in * 32, out = size_t(job.count) * job.out * 32;
        std::vector<unsigned> words(in), first(out), second(out);
        if (std::fread(words.data(), 4, in, input) != in) { std::fprintf(stderr, "inputs end early\n"); return 1; }
        unsigned *from, *to;
        check(cudaMalloc(&from, 4 * in));
        check(cudaMalloc(&to, 4 * out));
        check(cudaMemcpy(from, words.data(), 4 * in, cudaMemcpyHostToDevice));
        for (auto* found : {&first, &second}) {
            check(cudaMemset(to, 0xEE, 4 * out));
            job.kernel<<<(job.count + 3) / 4, 128>>>(from, to, job.count);
            check(cudaGetLastError());
            check(cudaDeviceSynchronize());
            check(cudaMemcpy(found->data(), to, 4 * out, cudaMemcpyDeviceToHost));
        }
        if (first != second) { std::fprintf(stderr, "another launch gave other bits\n"); return 1; }
        if (std::fwrite(first.data(), 4, out, output) != out) return 1;
        cudaFree(from);
        cudaFree(to);
    }
    return std::fclose(output);
}
"""

# ------------------------------------------------------------------------------------------------------- build


def kernel(number: int, form: MmaForm, selector: int) -> str:
    """A kernel of which each warp executes the instruction once: registers [warp, word, lane] of A, B, C (and metadata)
    -> D."""
    words = {letter: getattr(form, letter).registers for letter in "abcd"}
    real = {letter: getattr(form, f"{letter}_type").name == "f32" for letter in "cd"}
    holes, inputs = [], []
    place = 0
    for letter in "dabc":
        names = [f"%{place + i}" for i in range(words[letter])]
        holes.append("{" + ", ".join(names) + "}")
        place += len(names)
    outputs = [f'"={"f" if real["d"] else "r"}"(d{i})' for i in range(words["d"])]
    first = 0
    for letter in "abc":
        for _ in range(words[letter]):
            value = f"p[{32 * first}]"
            kind = "f" if real.get(letter) else "r"
            inputs.append(f'"{kind}"({f"__uint_as_float({value})" if kind == "f" else value})')
            first += 1
    if form.sparse:
        inputs.append(f'"r"(p[{32 * first}])')
        first += 1
        holes += [f"%{place}", str(selector)]
    stores = [f"q[{32 * i}] = {f'__float_as_uint(d{i})' if real['d'] else f'd{i}'};" for i in range(words["d"])]
    kind = "float" if real["d"] else "unsigned"
    lines = [
        f"// {form.opcode}, selector {selector}",
        f"__global__ void form_{number}(const unsigned* in, unsigned* out, int count) {{",
        "    int warp = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;",
        "    if (warp >= count) return;",
        f"    const unsigned* p = in + size_t(warp) * {32 * first} + lane;",
        f"    unsigned* q = out + size_t(warp) * {32 * words['d']} + lane;",
        f"    {kind} {', '.join(f'd{i}' for i in range(words['d']))};",
        f'    asm volatile("{form.opcode} {", ".join(holes)};" : {", ".join(outputs)} : {", ".join(inputs)});',
        *(f"    {store}" for store in stores),
        "}",
    ]
    return "\n".join(lines) + "\n"


def registers(subject: Subject, one: Emulated) -> tuple[Words, Words]:
    """What the two warps of a fault load, [word, lane]: as it is, and what emulates the fault."""
    form, case = subject.form, one.fault["case"]
    plain = [subject.registers[name][case] for name in ("a", "b", "c", "e") if name in subject.registers]
    other = [form.a.scatter(one.operands["a"]), *plain[1:3]]
    if form.sparse:
        other.append(form.metadata.scatter(one.operands["codes"], subject.selector, plain[3][0])[None])
    return np.concatenate(plain), np.concatenate(other)


def build(folder: Path, nvcc: str) -> None:
    """unit_faults.cu, the program, and inputs.npz: all that `run` needs."""
    from measurements.unit_emulation import CASES, OPERANDS, SEED, TARGET, emulations, subjects
    from simulator.faults.table import MODELS, SITES

    folder.mkdir(parents=True, exist_ok=True)
    listed = list(subjects())
    numbers = {(subject.form.opcode, subject.selector): number for number, subject in enumerate(listed)}
    jobs: list[list[Words]] = [[] for _ in listed]
    faults: list[dict[str, Any]] = []
    warps: list[tuple[int, int, int, int]] = []  # job and warp of both
    counts, after = [], []
    for subject in listed:
        found = list(emulations(subject))
        counts.append(len(found))
        for one in found:
            warp = []
            for selector, words in zip((subject.selector, one.selector), registers(subject, one), strict=True):
                job = numbers[subject.form.opcode, selector]
                warp += [job, len(jobs[job])]
                jobs[job].append(words)
            faults.append(one.fault)
            warps.append((warp[0], warp[1], warp[2], warp[3]))
            after.append(one.after)
    assert all(jobs)
    shapes = [[len(job), len(job[0]), s.form.d.registers] for job, s in zip(jobs, listed, strict=True)]
    source = "#include <cstdio>\n#include <cstdlib>\n#include <vector>\n\n"
    source += "\n".join(kernel(n, s.form, s.selector) for n, s in enumerate(listed))
    table = ",\n".join(f"    {{form_{n}, {', '.join(map(str, shape))}}}" for n, shape in enumerate(shapes))
    source += MAIN.replace("static void check", f"static const Job JOBS[] = {{\n{table}\n}};\n\nstatic void check", 1)
    (folder / SOURCE).write_text(source)
    compile_program(folder, nvcc)
    owners = np.repeat(np.arange(len(listed)), counts).tolist()
    elements = [elements_of(listed[owner], fault) for owner, fault in zip(owners, faults, strict=True)]
    arrays: dict[str, NDArray[Any]] = {name: np.array([], np.uint32) for name in OPERANDS}
    for name in OPERANDS:
        parts = [subject.registers[name].ravel() for subject in listed if name in subject.registers]
        arrays[name] = np.concatenate(parts)
    columns = sorted({name for fault in faults for name in fault})
    for column in columns:
        given = [fault.get(column, -1 if column == "lane2" else 0) for fault in faults]
        names = {"site": SITES, "model": MODELS}.get(column)
        arrays[f"fault_{column}"] = np.array([names.index(x) for x in given] if names else given, np.int64)
    arrays |= {"count": np.array(counts), "elements": np.array([len(x) for x in elements])}
    private: dict[str, NDArray[Any]] = {
        "warps": np.array(warps), "after": np.array(after, np.uint32), "shapes": np.array(shapes),
        "words": np.concatenate([np.stack(job).ravel() for job in jobs]),
        "pick": np.concatenate(elements),
    }  # fmt: skip
    version = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout.split(" V")[-1]
    about = {
        "target": TARGET, "seed": SEED, "cases": CASES, "models": MODELS, "sites": SITES, "columns": columns,
        "nvcc": version.split()[0], "subjects": [[s.form.opcode, s.selector] for s in listed],
    }  # fmt: skip
    private |= {f"kept_{name}": array for name, array in arrays.items()}
    np.savez_compressed(folder / INPUTS, about=np.array(json.dumps(about)), **private)  # type: ignore[arg-type]
    print(f"{len(faults):,} faults of {len(listed)} forms and selectors")


def elements_of(subject: Subject, fault: dict[str, Any]) -> NDArray[np.int64]:
    """Where the elements of D are that are kept: word of D, lowest bit, width; the struck one, or all of D."""
    form = subject.form
    positions = np.array([fault["lane"]]) if "lane" in fault else np.arange(form.m * form.n)
    row, column = np.divmod(positions, form.n)
    lane, register, element = (grid[row, column] for grid in form.d.mapping.grid)
    bits = form.d_type.bits
    return np.stack([32 * register + lane, bits * element, np.full(len(row), bits)], axis=1)


def compile_program(folder: Path, nvcc: str) -> None:
    """Compiles the source for sm_90a, which an H100 and an H200 run."""
    command = [nvcc, "-O1", "-gencode", "arch=compute_90a,code=sm_90a", "-o", PROGRAM, SOURCE]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)


# --------------------------------------------------------------------------------------------------- on the GPU


def run(folder: Path, output: Path, date: str, nvcc: str, afresh: bool) -> None:
    """unit_faults.npz, all that the comparison needs."""
    output.mkdir(parents=True, exist_ok=True)
    program = (folder / PROGRAM).resolve()
    if afresh or not program.is_file():
        compile_program(folder, nvcc)
    if not os.access(program, os.X_OK):
        program.chmod(0o755)
    with np.load(folder / INPUTS) as data:
        given = {name: data[name] for name in data.files}
    files = output / "inputs.bin", output / "outputs.bin"
    given["words"].astype("<u4").tofile(files[0])
    subprocess.run([str(program), *map(str, files)], check=True)
    found = np.fromfile(files[1], "<u4")
    sizes = [int(count) * int(out) * 32 for count, _, out in given["shapes"]]
    if len(found) != sum(sizes):
        raise RuntimeError(f"{len(found)} words of results in place of {sum(sizes)}")
    parts = np.split(found, np.cumsum(sizes)[:-1])
    results = [part.reshape(int(shape[0]), -1) for part, shape in zip(parts, given["shapes"], strict=True)]
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    gpu, driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0].split(", ")
    about = json.loads(str(given["about"])) | {"gpu": gpu, "driver": driver, "date": date}
    arrays = {name.removeprefix("kept_"): array for name, array in given.items() if name.startswith("kept_")}
    arrays |= picked(results, given, arrays["elements"])
    np.savez_compressed(output / "unit_faults.npz", about=np.array(json.dumps(about)), **arrays)  # type: ignore[arg-type]
    for file in files:
        file.unlink()
    print(f"{gpu}, driver {driver}: {len(given['warps']):,} faults, every launch twice with the same bits")


def picked(results: list[Words], given: dict[str, NDArray[Any]], counts: NDArray[Any]) -> dict[str, Words]:
    """Elements of D without the fault (`clean`) and with it (`struck`), those of all faults after one another."""
    found: dict[str, list[Words]] = {"clean": [], "struck": []}
    first = 0
    for (job, warp, other, beside), (kept, inverted), count in zip(
        given["warps"].tolist(), given["after"].tolist(), counts.tolist(), strict=True
    ):
        word, low, bits = given["pick"][first : first + count].T
        first += count
        masks = (np.uint64(1) << bits.astype(np.uint64)) - np.uint64(1)
        for name, d in (("clean", results[job][warp]), ("struck", results[other][beside])):
            elements = (d[word].astype(np.uint64) >> low.astype(np.uint64) & masks).astype(np.uint32)
            found[name].append((elements & np.uint32(kept)) ^ np.uint32(inverted) if name == "struck" else elements)
    return {name: np.concatenate(parts) for name, parts in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("build", "run"))
    parser.add_argument("--build", type=Path, default=BUILD)
    parser.add_argument("--output", type=Path, default=BUILD / "output")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument(
        "--compile", action="store_true", help="run: compile the program, for a driver older than CUDA 13"
    )
    parser.add_argument("--date", default=datetime.date.today().isoformat(), help="run: written to the results")
    options = parser.parse_args()
    if options.step == "build":
        build(options.build, options.nvcc)
    else:
        run(options.build, options.output, options.date, options.nvcc, options.compile)


if __name__ == "__main__":
    main()
