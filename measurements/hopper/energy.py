"""Measures the energy of wgmma and of tensor copies on a GPU, as `measurements/energy` does of mma.

    python -m measurements.hopper.energy build FOLDER             # PTX, cubins and contents; needs ptxas, no GPU
    python -m measurements.hopper.energy run FOLDER OUT.csv       # on a GPU: each row for most of a second, 45 s in all
    python -m measurements.hopper.energy table [IN.csv]           # what a config has of it
    python -m measurements.hopper.energy compare                  # clocks of GEMMs at the power limit: told, measured

Power is the slope of NVML's energy counter behind the first 0.3 s of a run, and a kernel that sleeps gives the rest at
the same clock. Groups of four wgmma take two sets of A and B from shared memory, then the same with A's sign changed,
so that sums stay small; A in registers is the same each time, with its sign changed for two of four. A row that meets
the power limit is run again on half of the SMs.
"""

from __future__ import annotations

import argparse
import csv
import ctypes as c
import itertools
import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from measurements.hopper.clusters import Multicast
from measurements.hopper.copies import Copies
from measurements.hopper.kernels import HEADER, SHARED, Kernel, loop
from measurements.hopper.products import A_AT, B_AT, Stream
from measurements.hopper.products import SHARED as FILLED

RESULTS = Path(__file__).parent / "results"
SMS = 132
DATA_AT = 1 << 20  # in `out`: what fills shared memory, then 32 bytes for the registers of each thread
THREAD = 32
TURNS = 8  # boxes that a CTA reads before it begins again
EACH, SKIPPED = 0.9, 0.3  # seconds of a run, and of its begin that are not taken
FASTEST = 1980  # MHz
FULL_MHZ = 1965  # at less a run has met the power limit
SLEEPING = Kernel("sleeping", 128, loop(["nanosleep.u32 1000;"]), SMS)


@dataclass(frozen=True)
class Filled(Stream):
    """A loop whose operands come from `out`."""

    def contents(self) -> Sequence[str]:
        """As in `Stream`: copied from global memory."""
        return (
            "shl.b32 %x0, %thread, 2; mov.u32 %x3, %ntid.x; shl.b32 %x3, %x3, 2;",
            f"COPY: setp.ge.u32 %q0, %x0, {FILLED}; @%q0 bra COPIED;",
            f"cvt.u64.u32 %t3, %x0; add.u64 %t3, %t3, %out; ld.global.u32 %x1, [%t3+{DATA_AT}];",
            "add.u32 %x2, %x0, %smem; st.shared.b32 [%x2], %x1; add.u32 %x0, %x0, %x3; bra COPY; COPIED:",
            f"bar.sync 0; mul.wide.u32 %t3, %thread, {THREAD}; add.u64 %t3, %t3, %out;",
            *(f"ld.global.u32 %a{i}, [%t3+{DATA_AT + FILLED + 4 * i}];" for i in range(4)),
            f"ld.global.u32 %e, [%t3+{DATA_AT + FILLED + 16}];",
        )

    def sign(self, number: int) -> int:
        """As in `Stream`."""
        return -1 if self.registers and number % 4 > 1 else 1

    def data(self, content: str) -> Any:
        """uint8: shared memory as it is read, swizzled, and the registers of each thread."""
        from measurements.energy.forms import BITS, encode, pack

        random = np.random.default_rng(self.n)
        atoms, each = (2 if self.sparse else 1), 32 // BITS[self.kind]

        def draw(*shape: int) -> Any:
            return random.standard_normal(shape) * (content != "zeros")

        def image(values: Any) -> Any:
            """Rows of 128 bytes, whose 16 bytes are where the swizzle has them."""
            rows = pack(encode(values + 0.0, self.kind), self.kind).astype(np.uint32).view(np.uint8).reshape(-1, 8, 16)
            place = np.arange(8) ^ np.arange(len(rows))[:, None] % 8
            return np.take_along_axis(rows, place[..., None], 1).reshape(-1)

        half = 128 * 8 // BITS[self.kind] // 2
        a, b = draw(64 * self.warpgroups, half), draw(self.n, half * atoms)
        halves = (b, b) if atoms == 1 else (b[:, :half], b[:, half:])
        found = np.zeros(FILLED + 512 * THREAD, np.uint8)
        image_a = image(np.concatenate([a, -a], 1))
        image_b = image(np.concatenate(halves, 1))
        found[A_AT : A_AT + len(image_a)] = image_a
        for atom in range(atoms):
            found[B_AT + atom * len(image_b) :][: len(image_b)] = image_b
        legal = np.array([4, 14] if self.kind == "tf32" else [4, 8, 12, 9, 13, 14], np.uint32)
        nibbles = legal[random.integers(0, len(legal), (512, 8))] << (4 * np.arange(8, dtype=np.uint32))
        registers = np.zeros((512, THREAD // 4), np.uint32)
        registers[:, :4] = pack(encode(draw(512, 4, each), self.kind), self.kind)[..., 0]
        registers[:, 4] = np.bitwise_or.reduce(nibbles, 1)
        found[FILLED:] = registers.reshape(-1).view(np.uint8)
        return found


@dataclass(frozen=True)
class Row:
    """A measurement: a kernel with contents, on so many CTAs at first; what an iteration of a CTA makes."""

    kernel: Kernel
    content: str
    ctas: int
    made: int
    what: str
    stream: Filled | None = None

    @property
    def key(self) -> str:
        """Of its contents."""
        return f"{self.kernel.name}|{self.content}"


def rows() -> Iterator[Row]:
    """All of them."""
    found = [Filled("f16", n, sparse=sparse) for sparse in (False, True) for n in (64, 128, 256)]
    found += [Filled("f16", n, registers=True) for n in (64, 256)]
    found += [Filled("f16", 256, sparse=True, registers=True), Filled("f16", 128, warpgroups=2)]
    for kind, d in (("bf16", "f32"), ("e4m3", "f32"), ("s8", "s32"), ("tf32", "f32")):
        found += [Filled(kind, 256, d, sparse) for sparse in (False, True)]
    for stream in found:
        for content in ("zeros", "random"):
            if stream.kind == "bf16" and content == "zeros":
                continue
            made = stream.unrolled * stream.warpgroups
            yield Row(stream.kernel(), content, SMS // 2, made, "instructions", stream)
    copies, multicast = Copies(128, 128, 4, "128B", ctas=SMS), Multicast(128, 2, 4, SMS)
    for content in ("zeros", "random"):
        for one, size, boxes in ((copies, copies.size, SMS), (multicast, multicast.rows * 128, SMS // 2)):
            for kernel in (one.kernel(), apart(one.kernel(), 128 * boxes)):
                yield Row(kernel, content, SMS, size, "bytes")


def apart(kernel: Kernel, step: int) -> Kernel:
    """The same loop of copies with lines of its own for each CTA (or cluster), for ever: after `TURNS` boxes it goes
    back to where it began. As it is, all read the same lines once they have been through the tensor."""
    _, *box = kernel.maps[0]
    span = step * TURNS
    text = re.sub(r"(setp\.ge\.u32 %q3, %row, )\d+;", rf"\g<1>{span};", "\n".join(kernel.lines))
    text = text.replace("@%q3 mov.u32 %row, 0;", f"@%q3 sub.u32 %row, %row, {span};")
    return replace(kernel, name=f"{kernel.name}_apart", lines=tuple(text.split("\n")), maps=((span, *box),))


def build(folder: Path) -> None:
    """Writes and assembles the kernels, and what they work on."""
    folder.mkdir(parents=True, exist_ok=True)
    kernels = {row.kernel.name: row.kernel for row in rows()} | {SLEEPING.name: SLEEPING}
    source = folder / "energy.ptx"
    source.write_text(HEADER + "".join(kernel.text() for kernel in kernels.values()))
    said = subprocess.run(
        ["ptxas", "-arch=sm_90a", "-o", str(folder / "energy.cubin"), str(source)], check=True, capture_output=True
    )
    assert b"serialized" not in said.stderr + said.stdout, said
    contents = {row.key: row.stream.data(row.content) for row in rows() if row.stream}
    np.savez_compressed(folder / "contents.npz", **contents)


class Bench:
    """GPU 0, its counters, and where results go."""

    def __init__(self, folder: Path, result: Path) -> None:
        from measurements.energy.measure import Nvml
        from measurements.hopper.measure import Gpu

        self.gpu, self.nvml, self.folder, self.result = Gpu(), Nvml(), folder, result
        self.contents = np.load(folder / "contents.npz")
        self.serial = 0

    def launch(self, kernel: Kernel, ctas: int, loops: int) -> float:
        """Seconds of a launch."""
        function = self.gpu.function(str(self.folder / "energy.cubin"), kernel.name)
        maps = [(c.c_uint8 * 128)() for _ in range(4)]
        for held, one in zip(maps, kernel.maps, strict=False):
            c.memmove(held, self.gpu.map(*one), 128)
        arguments = [c.c_uint64(self.gpu.out), c.c_uint32(loops), *maps]
        pointers = (c.c_void_p * len(arguments))(*[c.cast(c.byref(each), c.c_void_p) for each in arguments])
        shape = (ctas, 1, 1, kernel.threads, 1, 1, SHARED - 1024, None, pointers, None)
        begin = time.perf_counter()
        self.gpu.driver.call("cuLaunchKernel", function, *shape)
        self.gpu.driver.call("cuCtxSynchronize")
        return time.perf_counter() - begin

    def fill(self, row: Row) -> None:
        """What the kernel works on."""
        if row.stream is not None:
            self.gpu.driver.write(self.gpu.out + DATA_AT, self.contents[row.key])
        elif row.what == "bytes":
            size = TURNS * SMS * 128 * 128
            random = np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8)
            self.gpu.driver.write(self.gpu.pool, random if row.content == "random" else random * 0)

    def measure(self, row: Row, ctas: int) -> dict[str, Any]:
        """A run."""
        from measurements.energy.measure import Watch

        self.fill(row)
        loops = 512
        self.launch(row.kernel, ctas, loops)
        while (spent := self.launch(row.kernel, ctas, loops)) < 0.02:
            loops *= 4
        loops = int(loops * EACH / spent)
        watch = Watch(self.nvml)
        watch.start()
        time.sleep(0.01)
        begin = time.perf_counter()
        self.launch(row.kernel, ctas, loops)
        end = time.perf_counter()
        time.sleep(0.02)
        watch.over = True
        watch.join()
        inside = [(t, e) for t, e in watch.changes if begin + SKIPPED < t <= end]
        states = [s for t, s in watch.states if begin + SKIPPED < t <= end] or [watch.states[-1][1]]
        power = (inside[-1][1] - inside[0][1]) / 1e3 / (inside[-1][0] - inside[0][0]) if len(inside) > 1 else np.nan
        self.serial += 1
        return {
            "order": self.serial, "kernel": row.kernel.name, "content": row.content, "ctas": ctas, "what": row.what,
            "count": loops * row.made * ctas, "seconds": round(end - begin, 5), "power_w": round(power, 2),
            "samples": len(inside), "sm_mhz": round(float(np.mean([s["sm_mhz"] for s in states])), 1),
            "celsius": round(float(np.mean([s["celsius"] for s in states])), 1),
            "throttle": int(np.bitwise_or.reduce([s["throttle"] for s in states])),
        }  # fmt: skip

    def all(self, seconds: float, seed: int, sms: int, only: str) -> None:
        """Rows in random order until the time is up, with rest at the begin, at the end, and after every ten.

        Args:
            sms: that multiply random numbers at first.
            only: a pattern of names.
        """
        until, random = time.monotonic() + seconds, np.random.default_rng(seed)
        asked, rest = [row for row in rows() if re.search(only, row.kernel.name)], Row(SLEEPING, "", SMS, 0, "")
        order: list[Row] = []
        for number, index in enumerate(random.permutation(len(asked))):
            order += [*([rest] if number % 10 == 0 else []), asked[index]]
        fields: list[str] = []
        for row in [*order, rest]:
            ctas = sms if row.stream is not None and row.content == "random" else row.ctas
            while time.monotonic() < until:
                found = self.measure(row, ctas)
                with self.result.open("a", newline="") as file:
                    writer = csv.writer(file, lineterminator="\n")
                    if not fields:
                        fields = list(found)
                        writer.writerow(fields)
                    writer.writerow(found.values())
                print(*found.values(), flush=True)
                if found["sm_mhz"] >= FULL_MHZ or ctas < SMS // 4:
                    break
                ctas //= 2


def energies(source: Path) -> dict[tuple[str, str], tuple[float, float]]:
    """Energy of an instruction in nJ, or of a byte, for each kernel and contents, rest taken off: its mean and how far
    repeats are apart. Rest is the median of a pass's rows of a sleeping kernel."""
    with source.open() as file:
        read = list(csv.DictReader(line for line in file if not line.startswith("#")))
    sleeping = defaultdict(list)
    for row in read:
        if row["kernel"] == SLEEPING.name:
            sleeping[row["pass"]].append(float(row["power_w"]))
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in read:
        if int(row["count"]) and float(row["sm_mhz"]) >= FULL_MHZ:
            spent = (float(row["power_w"]) - float(np.median(sleeping[row["pass"]]))) * float(row["seconds"])
            found[row["kernel"], row["content"]].append(spent / int(row["count"]) * 1e9)
    return {key: (float(np.mean(each)), max(each) - min(each)) for key, each in found.items()}


def table(source: Path) -> None:
    """Prints every energy, and what a config has of them: what A from shared memory adds, from dense f16 of two widths,
    and from N = 256 what 8 columns take beside it. Sums for narrower products say how good these are."""
    found = energies(source)
    for (name, content), (mean, apart) in sorted(found.items()):
        print(f"{name:45} {content:7} {mean:10.4f} nJ, repeats {100 * apart / mean:.1f} % apart")

    def nj(kind: str, n: int, sparse: bool, content: str, registers: bool = False) -> float:
        return found[Filled(kind, n, "s32" if kind == "s8" else "f32", sparse, registers).name, content][0]

    def from_shared(n: int, content: str) -> float:
        return nj("f16", n, False, content) - nj("f16", n, False, content, True)

    for content in ("zeros", "random"):
        shared = (from_shared(64, content) + from_shared(256, content)) / 2
        print(f"{content}: A from shared memory {shared:.2f} nJ")
        for sparse, kind in itertools.product((False, True), ("f16", "bf16", "e4m3", "s8", "tf32")):
            if (kind, content) != ("bf16", "zeros"):
                columns = (nj(kind, 256, sparse, content) - shared) / 32
                print(f"  {'sparse' if sparse else 'dense'} {kind}: 8 columns {columns:.3f} nJ", end="")
                for n in (64, 128) if kind == "f16" else ():
                    error = (shared + n / 8 * columns) / nj(kind, n, sparse, content) - 1
                    print(f", N = {n} {error:+.1%}", end="")
                print()


def compare() -> None:
    """Prints the clock that the model tells of the largest GEMMs of results/gemm.csv, run again and again, and the one
    that they had, launched alone by ncu."""
    from measurements.hopper.gemm import name_of, tiles
    from simulator.chip.config import load_config
    from simulator.studies.gemm.estimate import estimate

    named = {name_of(tile): tile for tile in tiles()}
    errors, chip = [], load_config("h200", {"chip.clock_mhz": FASTEST})
    print(f"{'kernel':45} {'size':16} {'W told':>7} {'MHz told':>8} {'measured':>8}")
    with (RESULTS / "gemm.csv").open() as file:
        for row in csv.DictReader(file):
            m, n, k = (int(row[size]) for size in "mnk")
            if m * n * k < 8192**3:
                continue
            found = estimate(named[row["kernel"]], m, n, k, chip)
            told = found.limited_clock_mhz or FASTEST
            measured = float(row["median_cycles"]) / float(row["median_ns"]) * 1e3
            errors.append(100 * (told / measured - 1))
            print(f"{row['kernel']:45} {f'{m}x{n}x{k}':16} {found.power_w:7,.0f} {told:8,.0f} {measured:8,.0f}")
    print(f"{len(errors)} GEMMs: mean error {np.mean(np.abs(errors)):.1f} %, {np.mean(errors):+.1f} % on average")


def main() -> None:
    """Builds, runs, or prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("build", "run", "table", "compare"))
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--seconds", type=float, default=60, help="no row begins later")
    parser.add_argument("--seed", type=int, default=22, help="of the order of the rows")
    parser.add_argument("--sms", type=int, default=SMS // 2, help="that multiply random numbers at first")
    parser.add_argument("--only", default="", help="a pattern of names")
    options = parser.parse_args()
    if options.what == "build":
        build(*options.files)
    elif options.what == "run":
        Bench(*options.files).all(options.seconds, options.seed, options.sms, options.only)
    elif options.what == "table":
        table(*(options.files or [RESULTS / "energy.csv"]))
    else:
        compare()


if __name__ == "__main__":
    main()
