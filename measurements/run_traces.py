"""Runs traces on an NVIDIA GPU and compares the results with the simulator's, bit for bit.

    python run_traces.py build   [--build DIR] [--ptxas PTXAS] [--random N]      kernels and data (no GPU; needs tcsim)
    python run_traces.py run     [--build DIR] [--output DIR] [--launches N]     every kernel on one SM (GPU and cupy;
    needs no tcsim)
    python run_traces.py compare [--build DIR] [--output DIR] [--date DATE]      differing bits; writes
    results/traces.csv
    python run_traces.py golden  [--build DIR] [--output DIR]                    writes digits_h100.npz and
    random_traces.npz of tests/golden

The traces: the five of traces/digits, random ones (`random_trace`), and one that reads the special registers. `run`
starts a process of its own again and again, since a kernel that faults takes everything after it in its process with
it.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent
GOLDEN = HERE.parent / "tests" / "golden"
DIGITS = ("f16", "bf16", "tf32", "s8", "e4m3")
RANDOM = 120
KEPT = 40
"""Random traces in the golden file."""

LANES = 32
Words = NDArray[np.uint32]


# ---------------------------------------------------------------------------------------------- random traces: their
# data

COMMON = 1024
"""Bytes of shared memory that all warps read and none writes."""
REGION = 1024
"""Bytes after it for each warp."""

HALVES = (
    0x0000,
    0x8000,
    0x0001,
    0x83FF,
    0x0400,
    0x3C00,
    0xBC00,
    0x7BFF,
    0xFBFF,
    0x7C00,
    0xFC00,
    0x7E01,
    0x3555,
    0x7C01,
    0x8001,
    0x4248,
)
"""f16: zeros, subnormals, ones, largest, infinities, NaNs."""


@dataclass(frozen=True)
class Pool:
    """Registers `first` .. `first + count - 1` that begin with one kind of number."""

    first: int
    count: int
    kind: str

    def pick(self, rng: random.Random, count: int) -> list[int]:
        """Distinct registers, half of the time neighbours."""
        if rng.random() < 0.5:
            start = rng.randrange(self.first, self.first + self.count - count + 1)
            return list(range(start, start + count))
        return rng.sample(range(self.first, self.first + self.count), count)


ADDRESSES = Pool(0, 6, "zero")
F16, BF16, F32, INTEGERS = Pool(6, 10, "f16"), Pool(16, 8, "bf16"), Pool(24, 8, "f32"), Pool(32, 8, "raw")
METADATA = Pool(40, 4, "metadata")
ACCUMULATORS = {"f32": Pool(44, 8, "f32"), "f16": Pool(52, 4, "f16"), "s32": Pool(56, 6, "raw")}
POOLS = (ADDRESSES, F16, BF16, F32, INTEGERS, METADATA, *ACCUMULATORS.values())
REGISTERS = 62


def hashed(seed: int, count: int) -> Words:
    """`count` words that depend on the seed alone, on any machine: splitmix64."""
    with np.errstate(over="ignore"):
        z = (np.arange(count, dtype=np.uint64) + np.uint64(seed * 1_000_003 + 1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z >> np.uint64(32)).astype(np.uint32)


def shaped(words: Words, kind: str) -> Words:
    """Random words turned into numbers of one kind; a few of them special."""
    low, high = words & 0xFFFF, words >> 16
    if kind == "zero":
        return np.zeros_like(words)
    if kind == "f16":
        pair = [
            np.where(h % 61 == 0, np.array(HALVES, np.uint32)[h // 61 % 16], (h & 0x83FF) | ((h >> 10) % 13 + 9) << 10)
            for h in (low, high)
        ]
        return (pair[0] | pair[1] << 16).astype(np.uint32)
    if kind == "bf16":
        pair = [(h & 0x807F) | ((h >> 7) % 17 + 119) << 7 for h in (low, high)]
        return (pair[0] | pair[1] << 16).astype(np.uint32)
    if kind == "f32":
        return ((words & 0x807FFFFF) | ((words >> 23) % 17 + 119) << 23).astype(np.uint32)
    if (
        kind == "metadata"
    ):  # the first registers of the pool defined for 2:4, some of them for 1:2, the others whatever the hash says
        codes = np.array([0x4, 0x8, 0x9, 0xC, 0xD, 0xE, 0x4, 0xE], np.uint32)
        defined = np.zeros_like(words)
        for nibble in range(8):
            defined |= codes[words >> np.uint32(4 * nibble) & 7] << np.uint32(4 * nibble)
        whole = np.where(words & 1, np.uint32(0x44E4EE4E), np.uint32(0xE44E4E44))
        return np.concatenate([defined[..., :1, :], whole[..., 1:2, :], words[..., 2:, :]], axis=-2).astype(np.uint32)
    return words


def random_inputs(seed: int, warps: int) -> dict[str, NDArray[Any]]:
    """The data file of `random_trace(seed)`: "registers" uint32 [warps, REGISTERS, 32] and "shared" uint8 [bytes]."""
    raw = hashed(seed, warps * REGISTERS * LANES).reshape(warps, REGISTERS, LANES)
    registers = np.concatenate([shaped(raw[:, p.first : p.first + p.count], p.kind) for p in POOLS], axis=1)
    memory = hashed(seed + (1 << 20), shared_bytes(warps) // 4)
    part = len(memory) // 4  # raw, f16, bf16, f32 in turn
    memory = np.concatenate(
        [memory[:part]]
        + [shaped(memory[i * part : (i + 1) * part], kind) for i, kind in ((1, "f16"), (2, "bf16"), (3, "f32"))]
    )
    return {"registers": registers, "shared": memory.astype("<u4").view(np.uint8)}


def regions(warps: int) -> int:
    """Regions of shared memory: a power of two, so that a phase can hand them round with `and`."""
    return 1 << (warps - 1).bit_length()


def shared_bytes(warps: int) -> int:
    return COMMON + REGION * regions(warps)


# ----------------------------------------------------------------------------------------------- random traces: their
# text


def random_trace(seed: int) -> tuple[int, str]:
    """Number of warps and text of a trace without races, the same for the same seed.

    Its phases are separated by barriers. In each, a warp has a region of shared memory to itself and shares one that
    nobody writes. Blocks of warps run different instructions in the same phases.
    """
    return _Generator(seed).trace()


EMULATED = ("s4", "u4", "e4m3", "e5m2")


@dataclass
class _Generator:
    seed: int
    rng: random.Random = field(init=False)
    forms: dict[bool, list[Any]] = field(init=False)
    warps: int = field(init=False)

    def __post_init__(self) -> None:
        from isa.forms.mma import mma_forms
        from isa.targets import parse_target

        self.rng = random.Random(self.seed)
        self.warps = self.rng.choice((1, 1, 2, 2, 2, 3, 4, 4, 5, 8))
        available = [f for f in mma_forms().values() if f.supports(parse_target("sm_90a"))]
        self.forms = {sparse: [f for f in available if f.sparse == sparse] for sparse in (False, True)}

    def trace(self) -> tuple[int, str]:
        rng, warps = self.rng, self.warps
        owners: list[list[int]] = [list(range(warps))]
        if warps > 1 and rng.random() < 0.5:
            some = sorted(rng.sample(range(warps), rng.randrange(1, warps)))
            owners = [some, [w for w in range(warps) if w not in some]]
        programs: list[list[str]] = [[] for _ in owners]
        for _ in range(rng.randrange(1, 4)):
            self.section(programs, owners, rng.choice((1, 1, 2, 3)))
        text = [
            f"// random_trace({self.seed})",
            ".trace 1",
            ".target sm_90a",
            f".warps {warps}",
            f".shared {shared_bytes(warps)}",
        ]
        text += ['.load %r0, "inputs.npz", "registers";', '.load shared[0], "inputs.npz", "shared";']
        for owner, program in zip(owners, programs, strict=True):
            text += [f".warp {', '.join(map(str, owner))} {{", *program, "}"]
        text += [f'.store "registers", %r0, {REGISTERS};', f'.store "shared", shared[0], {shared_bytes(warps)};']
        return warps, "\n".join(text) + "\n"

    def section(self, programs: list[list[str]], owners: list[list[int]], phases: int) -> None:
        """Some phases, perhaps repeated; a barrier of all warps after each."""
        times = self.rng.choice((0, 0, 2, 3))
        for program in programs:
            program.extend([f".repeat {times} {{"] if times else [])
        for _ in range(phases):
            shift, number = self.rng.randrange(8), self.rng.choice((0, 0, 0, 3, 15))
            count = self.rng.choice(("", f", {32 * self.warps}"))
            for program, owner in zip(programs, owners, strict=True):
                program.extend(self.phase(shift, owner))
                spelling = self.rng.choice(
                    ("bar.sync", "bar.sync", "bar.cta.sync", "barrier.sync", "barrier.cta.sync.aligned")
                )
                program.append(f"{spelling} {number}{count};")
        for program in programs:
            program.extend(["}"] if times else [])

    def phase(self, shift: int, owner: list[int]) -> list[str]:
        lines = [
            "mov.u32 %r0, %tid.x;",
            "shr.u32 %r0, %r0, 5;",
            f"add.u32 %r0, %r0, {shift};",
            f"and.b32 %r0, %r0, {regions(self.warps) - 1};",
        ]
        lines += [f"mul.lo.u32 %r0, %r0, {REGION};", f"add.u32 %r0, %r0, {COMMON};"]
        return lines + list(self.body(self.rng.randrange(5, 13), 0, owner))

    def body(self, length: int, depth: int, owner: list[int]) -> Iterator[str]:
        kinds: tuple[tuple[Callable[[], list[str]], int], ...] = (
            (self.sparse, 34),
            (self.dense, 8),
            (self.ldmatrix, 12),
            (self.load, 13),
            (self.store, 11),
            (self.arithmetic, 20),
        )
        while length > 0:
            if depth < 2 and length > 2 and self.rng.random() < 0.12:
                inner = self.rng.randrange(1, length)
                yield f".repeat {self.rng.randrange(1, 5)} {{"
                yield from self.body(inner, depth + 1, owner)
                yield "}"
                length -= inner
            elif self.rng.random() < 0.03:
                yield f"bar.sync {1 + (owner[0] > 0)}, {32 * len(owner)};"  # the warps of this block alone
                length -= 1
            else:
                yield from self.rng.choices([k for k, _ in kinds], [w for _, w in kinds])[0]()
                length -= 1

    # matrix instructions

    def operand(self, type_name: str, count: int) -> list[int]:
        own = {"f16": F16, "bf16": BF16, "tf32": F32}.get(type_name, INTEGERS)
        pool = own if self.rng.random() < 0.85 else self.rng.choice((F16, BF16, F32, INTEGERS))
        return pool.pick(self.rng, count)

    def form(self, sparse: bool) -> Any:
        emulated = self.rng.random() < 0.06
        types = [f for f in self.forms[sparse] if ({f.a_type.name, f.b_type.name} & set(EMULATED) != set()) == emulated]
        wanted = self.rng.choice(sorted({f.a_type.name for f in types}))
        return self.rng.choice([f for f in types if f.a_type.name == wanted])

    def matrix(self, form: Any) -> list[str]:
        pool = ACCUMULATORS[form.d_type.name]
        d = pool.pick(self.rng, form.d.registers)
        c = (
            d
            if self.rng.random() < 0.6
            else (pool if self.rng.random() < 0.9 else F32).pick(self.rng, form.c.registers)
        )
        if form.a_type.name in EMULATED and set(c) & set(d):
            # ptxas 13.0 writes wrong code for 8-bit floats whose D and C share registers in another order (README.md)
            c = d
        a, b = self.operand(form.a_type.name, form.a.registers), self.operand(form.b_type.name, form.b.registers)
        return [f"{form.opcode} {vector(d)}, {vector(a)}, {vector(b)}, {vector(c)}"]

    def dense(self) -> list[str]:
        return [self.matrix(self.form(False))[0] + ";"]

    def sparse(self) -> list[str]:
        form = self.form(True)
        selector = self.rng.randrange(form.metadata.selectors)
        return [f"{self.matrix(form)[0]}, %r{METADATA.pick(self.rng, 1)[0]}, {selector:#x};"]

    # shared memory

    def data(self) -> Pool:
        return self.rng.choice((F16, BF16, F32, INTEGERS, INTEGERS))

    def random_address(self, size: int, register: int) -> tuple[list[str], str]:
        """Any aligned address that the warp may read, another in each lane."""
        rng = self.rng
        source = self.data().pick(rng, 1)[0]
        own = rng.random() < 0.7
        span = REGION if own else COMMON
        half = rng.random() < 0.4
        mask = (span // (2 if half else 1) - 1) & ~(size - 1)
        if rng.random() < 0.3:
            mask &= rng.choice((0, 48, 112, 240, 0x3C0)) | (size * 3)
        lines = [f"and.b32 %r{register}, %r{source}, {mask & ~(size - 1)};"]
        if own:
            lines.append(f"add.s32 %r{register}, %r{register}, %r0;")
        if not half:
            return lines, f"[%r{register}]"
        offset = rng.randrange(span // 2 // size) * size
        if rng.random() < 0.3 and own:
            lines.append(f"add.u32 %r{register}, %r{register}, {span // 2};")
            return lines, f"[%r{register}+{-offset}]"
        return lines, f"[%r{register}+{offset}]"

    def ldmatrix(self) -> list[str]:
        count = self.rng.choice((1, 2, 4))
        trans, space = self.rng.choice(("", ".trans")), self.rng.choice((".shared", ".shared", ".shared::cta"))
        lines, address = self.random_address(16, self.rng.randrange(1, 4))
        return [
            *lines,
            (
                f"ldmatrix.sync.aligned.m8n8.x{count}{trans}{space}.b16 {vector(self.data().pick(self.rng, count))}, "
                f"{address};"
            ),
        ]

    def access(self) -> tuple[str, int, int]:
        """Qualifiers of a load or store, its bytes, its registers."""
        kind, count = (
            self.rng.choice(("b32", "u32", "s32", "f32", "b16", "u16", "s16", "b8", "u8", "s8")),
            self.rng.choice((1, 1, 2, 4)),
        )
        space = self.rng.choice(("shared", "shared", "shared::cta"))
        return f"{space}{f'.v{count}' if count > 1 else ''}.{kind}", int(kind[1:]) // 8 * count, count

    def load(self) -> list[str]:
        qualifiers, size, count = self.access()
        lines, address = self.random_address(size, self.rng.randrange(1, 4))
        if self.rng.random() < 0.15 and size == 4 * count:
            pool = ACCUMULATORS[self.rng.choice(("f32", "s32"))]
        else:
            pool = self.data()
        registers = pool.pick(self.rng, count)
        return [*lines, f"ld.{qualifiers} {vector(registers) if count > 1 else f'%r{registers[0]}'}, {address};"]

    def store(self) -> list[str]:
        """Every lane to a place of its own in the warp's region."""
        rng = self.rng
        qualifiers, size, count = self.access()
        stride = size * rng.randrange(1, 32 // size + 1)
        offset = size * rng.randrange((REGION - 32 * stride) // size + 1)
        pool = rng.choice((F16, BF16, F32, INTEGERS, *ACCUMULATORS.values()))
        registers = pool.pick(rng, count)
        r = rng.randrange(4, 6)
        return [
            f"mov.u32 %r{r}, %laneid;",
            f"xor.b32 %r{r}, %r{r}, {rng.randrange(32)};",
            f"mad.lo.u32 %r{r}, %r{r}, {stride}, %r0;",
            f"st.{qualifiers} [%r{r}+{offset}], {vector(registers) if count > 1 else f'%r{registers[0]}'};",
        ]

    # arithmetic

    def arithmetic(self) -> list[str]:
        rng = self.rng
        opcode = rng.choice(
            (
                "mov.b32",
                "mov.f32",
                "mov.u32",
                "mov.s32",
                "add.s32",
                "add.u32",
                "sub.s32",
                "sub.u32",
                "mul.lo.s32",
                "mul.lo.u32",
                "mad.lo.s32",
                "mad.lo.u32",
                "shl.b32",
                "shr.b32",
                "shr.u32",
                "shr.s32",
                "and.b32",
                "or.b32",
                "xor.b32",
            )
        )
        sources = 1 if opcode.startswith("mov") else 3 if opcode.startswith("mad") else 2
        shift = opcode.startswith("sh")
        values = []
        for place in range(sources):
            constant = rng.random() < (0.7 if shift and place == 1 else 0.25) and opcode != "mov.f32"
            number = (
                rng.choice((rng.randrange(40), rng.randrange(-(1 << 31), 1 << 31)))
                if not (shift and place == 1)
                else rng.randrange(36)
            )
            pool = rng.choice((F16, BF16, F32, INTEGERS, METADATA, *ACCUMULATORS.values()))
            values.append(str(number) if constant else f"%r{pool.pick(rng, 1)[0]}")
        target = rng.choice((INTEGERS, INTEGERS, F16, BF16, F32, METADATA, ACCUMULATORS["s32"]))
        return [f"{opcode} %r{target.pick(rng, 1)[0]}, {', '.join(values)};"]


def vector(registers: Sequence[int]) -> str:
    return "{" + ", ".join(f"%r{r}" for r in registers) + "}"


SPECIAL = """// Special registers
.trace 1
.target sm_90a
.warps 5
.warp 0-4 {
mov.u32 %r0, %laneid;
mov.u32 %r1, %warpid;
mov.u32 %r2, %tid.x;
mov.u32 %r3, %ntid.x;
mov.u32 %r4, %nwarpid;
}
.store "registers", %r0, 5;
"""


# -----------------------------------------------------------------------------------------------------------------
# steps


def build(folder: Path, ptxas: str, randoms: int) -> None:
    """Writes every trace with its data, kernel and what the kernel starts from; manifest.json lists them."""
    sys.path.insert(0, str(REPOSITORY))
    folder.mkdir(parents=True, exist_ok=True)
    manifest = []
    for name in DIGITS:
        manifest.append(assemble(folder, f"digits_{name}", REPOSITORY / "traces" / "digits" / f"{name}.trace", ptxas))
    source = folder / "special" / "special.trace"
    source.parent.mkdir(exist_ok=True)
    source.write_text(SPECIAL)
    manifest.append(assemble(folder, "special", source, ptxas))
    for seed in range(randoms):
        warps, text = random_trace(seed)
        write_random(folder / f"random_{seed:03}", seed, warps, text)
        manifest.append(assemble(folder, f"random_{seed:03}", folder / f"random_{seed:03}" / "random.trace", ptxas))
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    print(len(manifest), "kernels,", sum(path.stat().st_size for path in folder.glob("*.*")) >> 10, "KB")


def write_random(folder: Path, seed: int, warps: int, text: str) -> Path:
    """A random trace with its data in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "inputs.npz", **random_inputs(seed, warps))  # type: ignore[arg-type]
    (folder / "random.trace").write_text(text)
    return folder / "random.trace"


def assemble(folder: Path, name: str, path: Path, ptxas: str) -> dict[str, Any]:
    """One kernel; returns its line of the manifest."""
    import trace_kernel as kernel

    from simulator.program import load

    trace = load(path)
    (folder / f"{name}.ptx").write_text(kernel.ptx_module(trace, timed=name.startswith("digits")))
    command = [ptxas, "-arch=sm_90a", "-o", str(folder / f"{name}.cubin"), str(folder / f"{name}.ptx")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name}.ptx: {done.stdout}{done.stderr}")
    initial, image = kernel.initial_state(trace)
    np.savez_compressed(folder / f"{name}.npz", initial=initial, image=image)
    loops = kernel.repeats(trace)
    top = [i for i, loop in enumerate(loops) if loop in trace.blocks[0].body]
    return {
        "name": name,
        "trace": path.relative_to(folder).as_posix()
        if path.is_relative_to(folder)
        else path.relative_to(REPOSITORY).as_posix(),
        "warps": trace.warps,
        "counts": [loop.count for loop in loops],
        "timed_loop": top[0] if len(trace.blocks) == 1 and len(top) == 1 and name.startswith("digits") else None,
        "stored": kernel.stored_registers(trace),
        "shared_bytes": trace.shared_bytes,
        "base": kernel.SHARED_BASE,
        "stores": [
            {"name": s.name, "register": s.register, "shared": s.shared, "count": s.count} for s in trace.stores
        ],
    }


def run(build_folder: Path, output: Path, launches: int) -> None:
    """Every kernel, in a new process after each that failed; outputs.npz, cycles.json."""
    manifest = json.loads((build_folder / "manifest.json").read_text())
    parts = output / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    for old in parts.iterdir():
        old.unlink()
    start, failed = 0, {}
    while start < len(manifest):
        command = [
            sys.executable,
            str(Path(__file__).resolve()),
            "worker",
            "--build",
            str(build_folder),
            "--output",
            str(output),
        ]
        done = subprocess.run(
            [*command, "--start", str(start), "--launches", str(launches)], check=False, capture_output=True, text=True
        )
        here = start
        while start < len(manifest) and (parts / f"{manifest[start]['name']}.json").is_file():
            start += 1
        if start < len(manifest):
            failed[manifest[start]["name"]] = (done.stderr.strip().splitlines() or ["no message"])[-1]
            print("FAILED", manifest[start]["name"], failed[manifest[start]["name"]], flush=True)
            start += 1
        print(f"{here} to {start} of {len(manifest)}", flush=True)
    arrays: dict[str, NDArray[Any]] = {}
    cycles: dict[str, Any] = {}
    for path in sorted(parts.glob("*.npz")):
        with np.load(path) as data:
            arrays |= {f"{path.stem}/{key}": data[key] for key in data.files}
        cycles[path.stem] = json.loads(path.with_suffix(".json").read_text())
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    gpu, driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0].split(", ")
    np.savez_compressed(output / "outputs.npz", **arrays)
    summary = {"gpu": gpu, "driver": driver, "launches": launches, "failed": failed, "cycles": cycles}
    (output / "cycles.json").write_text(json.dumps(summary, indent=1) + "\n")
    for path in parts.iterdir():
        path.unlink()
    parts.rmdir()
    print(gpu, driver, len(cycles), "ran,", len(failed), "failed")
    for name, row in cycles.items():
        if name.startswith("digits"):
            print(name, row)


def worker(build_folder: Path, output: Path, start: int, launches: int) -> None:
    """The kernels from `start` on, one file of results after the other."""
    import cupy

    for entry in json.loads((build_folder / "manifest.json").read_text())[start:]:
        arrays, row = launch(cupy, build_folder, entry, launches)
        np.savez(output / "parts" / f"{entry['name']}.npz", **arrays)
        (output / "parts" / f"{entry['name']}.json").write_text(json.dumps(row))


def launch(cupy: Any, folder: Path, entry: dict[str, Any], launches: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Results of one kernel by the names of `.store`, and its cycles."""
    warps, stored = entry["warps"], entry["stored"]
    with np.load(folder / f"{entry['name']}.npz") as data:
        initial, image = cupy.asarray(data["initial"]), cupy.asarray(data["image"])
    kernel = cupy.RawModule(path=str(folder / f"{entry['name']}.cubin")).get_function("trace")
    kernel.max_dynamic_shared_size_bytes = image.nbytes
    base = cupy.zeros(2, cupy.uint32)

    def once(counts: list[int]) -> tuple[Any, Any, int]:
        registers, shared = (
            cupy.zeros((warps, max(len(stored), 1), LANES), cupy.uint32),
            cupy.zeros(image.size, cupy.uint32),
        )
        clocks, words = cupy.zeros((warps, 2), cupy.uint64), cupy.asarray(np.array([*counts, 0], np.uint32))
        kernel(
            (1,), (LANES * warps,), (initial, image, words, registers, shared, clocks, base), shared_mem=image.nbytes
        )
        times = cupy.asnumpy(clocks)
        return cupy.asnumpy(registers), cupy.asnumpy(shared), int(times[:, 1].max() - times[:, 0].min())

    results: list[tuple[Any, Any, int]] = [once(entry["counts"]) for _ in range(launches)]
    registers, shared, _ = results[0]
    row: dict[str, Any] = {
        "cycles": [r[2] for r in results],
        "same": all(np.array_equal(r[0], registers) and np.array_equal(r[1], shared) for r in results),
        "changing": sorted(
            {stored[int(i)] for r in results for i in np.argwhere((r[0] != registers).any(axis=(0, 2)))[:, 0]}
        )
        if stored
        else [],
        "base": int(base[0]),
        "registers": kernel.num_regs,
    }
    assert row["base"] == entry["base"], (
        f"shared memory starts at {row['base']}, the kernel was built for {entry['base']}"
    )
    if entry["timed_loop"] is not None:
        loop, low = entry["timed_loop"], list(entry["counts"])
        low[loop] = max(low[loop] // 4, 1)
        row["low"] = {
            "count": low[loop],
            "of": entry["counts"][loop],
            "cycles": [once(low)[2] for _ in range(launches)],
        }
    arrays = {}
    for store in entry["stores"]:
        if store["register"] is None:
            arrays[store["name"]] = shared.astype("<u4").view(np.uint8)[
                store["shared"] : store["shared"] + store["count"]
            ]
        else:
            first = stored.index(store["register"])
            arrays[store["name"]] = registers[:, first : first + store["count"]]
    return arrays, row


def simulated(build_folder: Path, entry: dict[str, Any]) -> Any:
    """The simulator's report of one trace of the manifest."""
    sys.path.insert(0, str(REPOSITORY))
    import simulator

    return simulator.run(trace_path(build_folder, entry), "h100_sxm", compare=0)


def trace_path(build_folder: Path, entry: dict[str, Any]) -> Path:
    return (REPOSITORY if entry["trace"].startswith("traces/") else build_folder) / str(entry["trace"])


def simulated_cycles(build_folder: Path, entry: dict[str, Any], count: int) -> int:
    """Cycles with another count of the timed loop, which is the only one of its count in the file."""
    import simulator

    text = (
        trace_path(build_folder, entry)
        .read_text()
        .replace(f".repeat {entry['counts'][entry['timed_loop']]} {{", f".repeat {count} {{")
    )
    shorter = build_folder / "shorter" / trace_path(build_folder, entry).name
    shorter.parent.mkdir(exist_ok=True)
    shorter.write_text(text)
    data = trace_path(build_folder, entry).with_suffix(".npz")
    shutil.copy(data, shorter.parent / data.name)
    return int(simulator.run(shorter, "h100_sxm", arithmetic="none").cycles)


def compare(build_folder: Path, output: Path, date: str) -> int:
    """Prints differing bits, and measured against simulated cycles; writes traces.csv."""
    measured = json.loads((output / "cycles.json").read_text())
    lines: list[dict[str, Any]] = []
    same = words = 0
    with np.load(output / "outputs.npz") as device:
        manifest = json.loads((build_folder / "manifest.json").read_text())
        for entry in manifest:
            name = entry["name"]
            if name in measured["failed"]:
                print(f"{name}: no result from the GPU: {measured['failed'][name]}")
                continue
            report, row = simulated(build_folder, entry), measured["cycles"][name]
            bits = 0
            for store, ours in report.arrays.items():
                different = np.ascontiguousarray(ours ^ device[f"{name}/{store}"])
                bits += int(np.bitwise_count(different).sum())
                words += different.nbytes
                if different.any():
                    print(f"{name}/{store}: first differences at {np.argwhere(different)[:6].tolist()}")
            same += not bits
            if not row["same"]:
                print(f"{name}: launches disagree in registers {row['changing']}")
            best, low = min(row["cycles"]), row.get("low")
            if bits or low:
                print(f"{name}: {bits} bits differ")
            if low:
                per_iteration = round((best - min(low["cycles"])) / (low["of"] - low["count"]), 2)
                ours_per_iteration = (report.cycles - simulated_cycles(build_folder, entry, low["count"])) / (
                    low["of"] - low["count"]
                )
                error = f"{report.cycles / best - 1:+.1%}, an iteration {ours_per_iteration / per_iteration - 1:+.1%}"
                print(
                    f"{name}: cycles measured {best} simulated {report.cycles}, iteration {per_iteration} and "
                    f"{ours_per_iteration:.2f}: {error}"
                )
                line: dict[str, Any] = {
                    "trace": "digits/" + name.removeprefix("digits_"),
                    "warps": entry["warps"],
                    "cycles": best,
                }
                line |= {
                    "slowest_minus_best_launch": max(row["cycles"]) - best,
                    "cycles_per_iteration": per_iteration,
                    "iterations": low["of"],
                    "registers": row["registers"],
                }
                lines.append({**line, "gpu": measured["gpu"], "driver": measured["driver"], "date": date})
    print(f"{same} of {len(manifest)} traces the same in all bits ({words:,} bytes compared)")
    with (HERE / "results" / "traces.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    return int(same < len(manifest))


def golden(build_folder: Path, output: Path) -> None:
    """What the GPU gave, into tests/golden. Random traces: the text, and every result XOR what was there before, which
    is mostly zeros."""
    with np.load(output / "outputs.npz") as device:
        digits = {key.removeprefix("digits_"): device[key] for key in device.files if key.startswith("digits_")}
        randoms: dict[str, NDArray[Any]] = {}
        for seed in range(KEPT):
            name = f"random_{seed:03}"
            if f"{name}/registers" not in device.files:
                continue
            registers, shared = device[f"{name}/registers"], device[f"{name}/shared"]
            before = random_inputs(seed, len(registers))
            randoms[f"{name}/text"] = np.frombuffer((build_folder / name / "random.trace").read_bytes(), np.uint8)
            randoms[f"{name}/registers"], randoms[f"{name}/shared"] = (
                registers ^ before["registers"],
                shared ^ before["shared"],
            )
    np.savez_compressed(GOLDEN / "digits_h100.npz", **digits)
    np.savez_compressed(GOLDEN / "random_traces.npz", **randoms)
    for name in ("digits_h100.npz", "random_traces.npz"):
        print(name, (GOLDEN / name).stat().st_size)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("build", "run", "worker", "compare", "golden"))
    parser.add_argument("--build", type=Path, default=HERE / "build" / "traces")
    parser.add_argument("--output", type=Path, default=HERE / "build" / "traces" / "output")
    parser.add_argument("--ptxas", default="ptxas")
    parser.add_argument("--random", type=int, default=RANDOM)
    parser.add_argument("--launches", type=int, default=7)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--date", default="2026-11-21")
    options = parser.parse_args()
    match options.step:
        case "build":
            build(options.build, options.ptxas, options.random)
        case "run":
            run(options.build, options.output, options.launches)
        case "worker":
            worker(options.build, options.output, options.start, options.launches)
        case "compare":
            return compare(options.build, options.output, options.date)
        case _:
            golden(options.build, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
