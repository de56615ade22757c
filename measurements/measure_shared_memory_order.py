"""In which order an SM serves accesses to shared memory of several warps and sub-cores, and how many wait where, to the
cycle.

    python measure_shared_memory_order.py build  # after `measure_loops.py build` of memory, operation
    python measure_shared_memory_order.py run    # shared_memory_order.csv.gz; needs cupy

Each warp runs a sequence of machine code of its own, as in `measure_short_sequences.py`, some cycles after it has left
a barrier with the others. All runs four times, the last one counts: then the code is there. `tcsim validate --group
turns` reads the result as configs/measurements/h100_turns.csv.gz.

Columns: `asked`; `accesses`, of each warp its number, the cycle in which its first access issues, and its accesses with
the cycles until the next may issue; `cycles`, of each warp. Of every fourth scene the table has what came of one
launch; in another one warps may leave the barrier in another order. Values of two accesses of a warp are told apart if
they come two cycles apart, and reading the clock costs up to three cycles where warps of a sub-core do so together.

`values`: when the value of each access is there, or its registers have been read; six accesses at most.
`issued`: when the last access has issued; up to 30.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import measure_short_sequences as pieces  # type: ignore[import-not-found]
from machine_code_patch import ALWAYS, Word, branch, command, control, guarded, halves, machine_code, replaced
from measure_short_sequences import coded

CLOCKS, SLOTS, ROUNDS = 60, 6200, 4
WARPS, ACCESSES, LEAD = 12, 6, 4
KEPT = 4  # of so many scenes the table has one
TOGETHER = 3  # scenes of a module, so that it stays in the instruction cache
LANE = 100  # a free register
BEFORE = 30  # cycles from the first clock to the first access
KINDS = ("ld.b32", "ld.b32%97", "ld.b32%98", "ld.v2", "ld.v4", "ldmatrix.x1", "ldmatrix.x2", "ldmatrix.x4")
STORES = ("st.b32", "st.v2", "st.v4")
LAYOUTS = (
    (0,), (0, 1), (0, 2), (0, 4), (0, 1, 2), (0, 1, 2, 3), (0, 4, 1), (0, 4, 1, 5), (0, 1, 2, 3, 4), tuple(range(8)),
    (0, 4, 8), tuple(range(12)), (0, 4, 8, 1, 5, 9),
)  # fmt: skip
SPREADS = ((0, 2), (3, 2), (9, 2), (3, 3), (12, 3), (20, 5), (30, 9))  # begins at random below, cycles between accesses


class Own(NamedTuple):
    """What a warp does: its number, the cycles after which it begins, and its accesses, each with the cycles until the
    next."""

    warp: int
    after: int
    accesses: tuple[tuple[str, int], ...]


class Scene(NamedTuple):
    """What is asked of some warps."""

    asked: str
    warps: tuple[Own, ...]


def scenes() -> Iterator[Scene]:
    """Warps that all do the same, random ones, and long runs of accesses, of which is asked when they have issued."""
    source = random.Random(11)
    for kind in KINDS:
        for layout in LAYOUTS:
            for spread, gap in SPREADS:
                yield Scene(
                    "values", tuple(Own(w, source.randint(0, spread), ((kind, gap),) * ACCESSES) for w in layout)
                )
    for stores in ((), STORES):
        for _ in range(500):
            found = []
            for warp in source.choice(LAYOUTS[1:]):
                kinds = (*source.sample(KINDS, source.choice((1, 2, 4))), *source.sample(stores, len(stores) // 2))
                accesses = [
                    (source.choice(kinds), source.choice((2, 2, 3, 5, 9))) for _ in range(source.randint(1, ACCESSES))
                ]
                found.append(Own(warp, source.randint(0, 14), tuple(accesses)))
            yield Scene("values", tuple(found))
    for layout in ((0,), (0, 4), (0, 4, 8), (0, 1), (0, 1, 2, 3), tuple(range(8)), (0, 1, 2, 3, 4)):
        for kind in ("ld.b32", "ld.b32%98", "ld.v4", "ldmatrix.x4", "st.b32", "st.v4"):
            for count in range(8, 31, 2):
                yield Scene("issued", tuple(Own(warp, 0, ((kind, 1),) * count) for warp in layout))


class Room(pieces.Room):
    """Where the code goes, and the instructions that it needs."""

    def __init__(self, folder: Path, nvdisasm: str, cubin: str = "shared_memory_order.cubin") -> None:
        super().__init__(folder, nvdisasm, cubin, LANE)
        self.test = halves(self.word(r"ISETP\.LT\.U32\.AND P\d, PT, R\d+, 0x"))
        self.jump, self.barrier = halves(self.word(r"@P\d BRA")), halves(self.word("BAR"))

    def below(self, number: int) -> Word:
        """Sets predicate 1 where the thread's number is less than this."""
        low = self.test[0] & 0xFFFFFF | number << 32
        return low, control(self.test[1] & ~(7 << 17) | 1 << 17, 13, True)

    def over(self, forward: int, *, always: bool = False) -> Word:
        """A branch over so many instructions; by predicate 1 unless `always`."""
        low, high = branch(self.jump, forward)
        return guarded(low, ALWAYS if always else 1), high

    def sequence(self, own: Own | None, asked: str, clock: int) -> list[Word]:
        """The code of a warp, with its barrier: its accesses, and a read of the clock when each has its value, or
        one."""
        code = [*self.idle(3, 63), self.barrier, *self.idle(LEAD)]
        if own is None:
            return code
        code += [coded(self.words["nop"], 1 + own.after), self.clock(clock, 15), *self.idle(1)]
        code += [self.instruction(name, number, gap) for number, (name, gap) in enumerate(own.accesses)]
        for number in range(len(own.accesses) if asked == "values" else 1):
            code.append(coded(self.clock(clock + 1 + number, 1), 1, awaits=1 << number if asked == "values" else 0))
        return code

    def module(self, found: list[Scene]) -> bytes:
        """The code of some scenes, one after the other: each warp has its own."""
        parts = []
        for warp in range(WARPS):
            part = self.prologue()
            for place, scene in enumerate(found):
                own = next((own for own in scene.warps if own.warp == warp), None)
                part += self.sequence(own, scene.asked, (1 + ACCESSES) * place)
            parts.append(part)
        return self.by_warp(parts)

    def by_warp(self, parts: list[list[Word]], shared: Sequence[Word] = (), without: Collection[int] = ()) -> bytes:
        """The code of all warps: each has a part of its own; then all but those `without` run what is shared."""
        sizes = [len(part) + 1 for part in parts]
        starts = [2 * WARPS - 1 + sum(sizes[:place]) for place in range(WARPS + 1)]
        words: list[Word] = []
        for warp in range(WARPS - 1):
            words.append(self.below(32 * warp + 32))
            words.append(self.over(starts[warp] - len(words) - 1))
        words.append(self.over(starts[-2] - len(words) - 1, always=True))
        for warp, part in enumerate(parts):
            words += part
            end = starts[-1] + (len(shared) if warp in without else 0)
            words.append(self.over(end - len(words) - 1, always=True))
        words += [*shared, *self.idle(1, 63), coded(self.words["thread"], 15), *self.idle(10)]
        assert len(words) < self.slots, f"{len(words)} instructions, room for {self.slots}"
        words.append(self.over(self.slots - len(words) - 1, always=True))
        return machine_code(words)


def build(folder: Path, ptxas: str, nvdisasm: str) -> None:
    source, cubin = folder / "shared_memory_order.ptx", folder / "shared_memory_order.cubin"
    source.write_text(pieces.template(CLOCKS, SLOTS, ROUNDS, apart=True))
    subprocess.run([ptxas, "-arch=sm_90a", "-o", str(cubin), str(source)], check=True)
    room, wanted, modules = Room(folder, nvdisasm), list(scenes()), []
    for begin in range(0, len(wanted), TOGETHER):
        part = wanted[begin : begin + TOGETHER]
        raw = room.module([*part, part[0]])  # the last one waits for its code
        modules.append({"raw": raw.hex(), "scenes": [*range(begin, begin + len(part))]})
    cubin.write_bytes(room.raw)
    data = {"offset": room.offset, "stored": [place for place, *_ in room.clocks], "modules": modules}
    (folder / "shared_memory_order.json.gz").write_bytes(gzip.compress(json.dumps(data).encode()))
    print(len(wanted), "scenes,", len(modules), "modules")


def outcome(scene: Scene, clocks: list[list[int]]) -> str:
    """A row of the table; `clocks`: of each warp."""
    first = min(own[0] for own in clocks)
    accesses, cycles = [], []
    for own, found in zip(scene.warps, clocks, strict=True):
        steps = " | ".join(f"{name} {gap}" for name, gap in own.accesses)
        accesses.append(f"{own.warp}+{found[0] - first}: {steps}")
        count = len(own.accesses) if scene.asked == "values" else 1
        cycles.append("/".join(str(clock - first - BEFORE) for clock in found[1 : 1 + count]))
    return f"{scene.asked},{'; '.join(accesses)},{'; '.join(cycles)}\n"


def run(folder: Path, results: Path, date: str) -> None:
    import measure_loops

    device, every = measure_loops.Device(), list(scenes())
    cupy = device.cupy
    data = json.loads(gzip.decompress((folder / "shared_memory_order.json.gz").read_bytes()))
    cubin = (folder / "shared_memory_order.cubin").read_bytes()
    source, target = cupy.asarray(pieces.table()), cupy.zeros(1 << 16, dtype=cupy.uint32)
    found = []
    for entry in data["modules"]:
        module = cupy.cuda.function.Module()
        module.load(replaced(cubin, bytes.fromhex(entry["raw"]), data))
        module.get_function("template")((1,), (32 * WARPS,), (target, source))
        clocks = cupy.asnumpy(target)[: 256 * WARPS].reshape(-1, 256)[:, data["stored"]].astype("int64")
        for place, number in enumerate(entry["scenes"]):
            part = slice((1 + ACCESSES) * place, (1 + ACCESSES) * (place + 1))
            if number % KEPT == 0:
                warps = every[number].warps
                found.append(outcome(every[number], [clocks[own.warp, part].tolist() for own in warps]))
    with gzip.GzipFile(results / "shared_memory_order.csv.gz", "wb", mtime=0) as raw:
        raw.write(f"# {device.name}, {date}; one CTA on one SM\nasked,accesses,cycles\n{''.join(found)}".encode())
    print(len(found), "rows")


if __name__ == "__main__":
    command(__doc__, build, run, ("ptxas", "nvdisasm"))
