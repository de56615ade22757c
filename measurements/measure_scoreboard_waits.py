"""Which warp of a sub-core goes first if one waits for a scoreboard: a clock behind matrix instructions.

    python measure_scoreboard_waits.py build  # after `measure_loops.py build` of memory, operation
    python measure_scoreboard_waits.py run    # scoreboard_waits.csv.gz; needs cupy

Each warp runs straight code of its own, as in `measure_shared_memory_iterations.py`: accesses and matrix instructions
with waits of our own. Two or three warps of one sub-core; the others have nothing to do and wait at the next barrier
before these begin, so that nothing else issues. All runs four times, the last one counts: then the code is there.

Columns: `kind`; `warps`, of each its number, the cycle of its first clock and its body, as in
shared_memory_iterations.csv.gz; `clocks`, of each warp those of the body from the first clock of all on (the body
begins 30 cycles behind that of its warp).

`stream`: one warp multiplies; another waits with a matrix instruction or a clock for a load just before.
`phase`: the same with other instructions between, at every distance from the matrix instructions of the other warp.
`random`: random accesses and matrix instructions, of which all warps or all but one wait.
`kept`: one warp multiplies and keeps A or B; the other adds or compares, which reads registers in their slots.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import measure_shared_memory_iterations as iterations  # type: ignore[import-not-found]
import measure_short_sequences as pieces  # type: ignore[import-not-found]
from machine_code_patch import Word, command, machine_code, replaced
from measure_shared_memory_iterations import FORMS, steps
from measure_short_sequences import coded

CLOCKS, SLOTS, ROUNDS = 50, 2000, 4
PAUSE = 22  # NOPs of 15 cycles, in which warps that have nothing to do come to the next barrier
LOADS = ("ld.b32", "ld.b32", "ldmatrix.x4", "ld.v4", "ldmatrix.x1", "ld.v2")
LONG = "sp full f32 8"
BETWEEN = (  # what waits, with what comes before
    f"ld.b32 2 | {LONG} &0", f"ld.b32 4 | {LONG} &0", f"ld.b32 4 | ld.b32 2 | {LONG} &0",
    f"ld.b32 4 | ld.b32 2 | {LONG} &1", f"ld.v4 4 | ld.v4 2 | {LONG} &0", f"ld.v4 4 | ld.v4 2 | {LONG} &1",
    f"ld.b32 2 | clock 2 | {LONG} &0", f"ld.b32 2 | nop 6 | {LONG} &0", f"{LONG} | ld.b32 2 | {LONG} &0",
    f"{LONG} | ld.b32 4 | ld.b32 2 | {LONG} &0", f"ldmatrix.x4 4 | ldmatrix.x4 2 | {LONG} &0",
    f"ldmatrix.x4 4 | ldmatrix.x4 2 | {LONG} &1", f"ld.b32 1 | nop 1 | {LONG} &0", f"ld.b32 2 | {LONG} | {LONG} &0",
)  # fmt: skip


class Own(NamedTuple):
    """What a warp does: its number, the cycles after which it begins, and its body."""

    warp: int
    after: int
    body: str


class Scene(NamedTuple):
    kind: str
    warps: tuple[Own, ...]

    @property
    def size(self) -> int:
        """Warps of the CTA: two of each sub-core, or three of the first."""
        return 8 if max(own.warp for own in self.warps) < 8 else 9


def scenes() -> Iterator[Scene]:
    """All that is measured."""
    source = random.Random(2)
    for form, every in FORMS.items():
        for number in range(110):
            load, waits = source.choice(LOADS), (f"{form} {every} &{{}} | ", "")[number % 2]
            parts = []
            for place in range(7):
                gap = source.randint(2, 14)
                parts.append(f"{load} 2 | {waits.format(place)}clock {gap}{'' if waits else f' &{place}'}")
            begins = source.randint(0, 30), source.randint(0, 30)
            yield Scene("stream", (Own(0, begins[0], " | ".join(parts)), Own(4, begins[1], stream(form, every, 30))))
    for text in BETWEEN:
        for distance in range(9):
            waiting = f"nop 10 | nop 10 | nop {1 + distance} | nop 10 | nop 10 | {text} | clock 2"
            other = stream("sp full f32", 8, 24)
            yield Scene("phase", (Own(0, 0, waiting), Own(4, 9, other)))
            yield Scene("phase", (Own(0, 9, other), Own(4, 0, waiting)))
    source = random.Random(1)
    for number in range(700):
        several = (0, 4) if number < 550 else (0, 4, 8)
        form, loads = source.choice([*FORMS] + ["sp full f32"] * 3), source.sample(LOADS, source.choice((1, 2)))
        often, whole = source.choice((0.2, 0.4, 0.7)), source.choice((0.6, 1, 1))
        warps = []
        for place, warp in enumerate(several):
            own = loads if place or number % 3 else []
            size = 36 if len(several) == 2 else 26
            warps.append(Own(warp, source.randint(0, 30), mixture(source, form, own, often, whole, size)))
        yield Scene("random", tuple(warps))
    for form, every in FORMS.items():
        for kept in ("", "@a", "@b", "@ab"):
            keeping = " | ".join([f"{form}{kept} {every}"] * 14 + [f"{form} {every}", "clock 2"])
            for other in ("add 5", "add 15", "compare 7", "compare 15"):
                for begins in ((0, 9), (0, 3), (12, 0)):
                    warps = [Own(0, begins[0], keeping), Own(4, begins[1], " | ".join([other] * 14 + ["clock 15"]))]
                    yield Scene("kept", tuple(warps))


def stream(form: str, every: int, count: int) -> str:
    return " | ".join([f"{form} {every}"] * count + ["clock 15"])


def mixture(source: random.Random, form: str, loads: list[str], often: float, whole: float, size: int) -> str:
    """Random accesses and matrix instructions, of which four in five wait for an access while there is one; behind
    each with probability `often` a clock; with probability `whole` each has the wait that its pipe takes."""
    every, parts, waiting, made = FORMS[form], list[str](), list[int](), 0
    while len(parts) < size:
        for _ in range(source.choice((0, 1, 1, 2, 3)) if loads else 0):
            parts.append(f"{source.choice(loads)} {source.choice((2, 4, 4))}")
            waiting.append(made)
            made += 1
        for _ in range(source.choice((1, 1, 2, 3, 4))):
            wait = ""
            if waiting and source.random() < 0.8:
                place = source.choice(waiting)
                wait, waiting = f" &{place}", [later for later in waiting if later > place]
            parts.append(f"{form} {every if source.random() < whole else source.choice((2, 3, every - 1))}{wait}")
            if source.random() < often:
                parts.append(f"clock {source.choice((1, 2)) if not waiting else 2}")
    return " | ".join([*parts, "clock 15 &" if made else "clock 15"])


class Room(iterations.Room):  # type: ignore[misc]
    """Where the code goes, and the instructions that it needs."""

    def __init__(self, folder: Path, nvdisasm: str) -> None:
        super().__init__(folder, nvdisasm, "scoreboard_waits.cubin")

    def part(self, own: Own | None) -> list[Word]:
        """What a warp does from the barrier on."""
        code = [*self.idle(1, 63), self.barrier]
        if own is None:
            return [*code, *self.idle(1)]
        lead = [*self.idle(PAUSE + own.after // 15), coded(self.words["nop"], 1 + own.after % 15)]
        return [*code, *lead, *self.body(own.body)]

    def module(self, scene: Scene) -> bytes:
        """The code of a scene: short, so that it stays in the nearest cache."""
        chain, end = list[tuple[int, Own | None]](), 0  # parts, each of the warps up to before one
        for own in scene.warps:
            chain += [(own.warp, None)] * (own.warp > end) + [(own.warp + 1, own)]
            end = own.warp + 1
        chain += [(scene.size, None)] * (end < scene.size)
        parts = [self.part(own) for _, own in chain]
        code = self.prologue()
        begin = len(code) + 2 * (len(parts) - 1) + 1
        starts = [begin + sum(len(part) + 1 for part in parts[:place]) for place in range(len(parts) + 1)]
        for (limit, _), start in zip(chain[:-1], starts, strict=False):
            code.append(self.below(32 * limit))
            code.append(self.over(start - len(code) - 1))
        code.append(self.over(starts[-2] - len(code) - 1, always=True))
        for part in parts:
            code += part
            code.append(self.over(starts[-1] - len(code) - 1, always=True))
        code += [*self.idle(1, 63), coded(self.words["thread"], 15), *self.idle(2)]
        code.append(self.over(self.slots - len(code) - 1, always=True))
        assert len(code) < self.slots, f"{len(code)} instructions, room for {self.slots}"
        return machine_code(code)


def build(folder: Path, ptxas: str, nvdisasm: str) -> None:
    source, cubin = folder / "scoreboard_waits.ptx", folder / "scoreboard_waits.cubin"
    source.write_text(pieces.template(CLOCKS, SLOTS, ROUNDS, apart=True))
    subprocess.run([ptxas, "-arch=sm_90a", "-o", str(cubin), str(source)], check=True)
    room = Room(folder, nvdisasm)
    modules = [room.module(scene).hex() for scene in scenes()]
    cubin.write_bytes(room.raw)
    data = {"offset": room.offset, "stored": [place for place, *_ in room.clocks], "modules": modules}
    (folder / "scoreboard_waits.json.gz").write_bytes(gzip.compress(json.dumps(data).encode()))
    print(len(modules), "scenes")


def outcome(scene: Scene, clocks: list[list[int]]) -> str:
    """A row of the table; `clocks`: of each warp."""
    first = min(own[0] for own in clocks)
    warps = "; ".join(f"{own.warp}+{its[0] - first}: {own.body}" for own, its in zip(scene.warps, clocks, strict=True))
    return f"{scene.kind},{warps},{'; '.join('/'.join(str(clock - first) for clock in its[1:]) for its in clocks)}\n"


def run(folder: Path, results: Path, date: str) -> None:
    import measure_loops

    device = measure_loops.Device()
    cupy = device.cupy
    data = json.loads(gzip.decompress((folder / "scoreboard_waits.json.gz").read_bytes()))
    cubin = (folder / "scoreboard_waits.cubin").read_bytes()
    source, target = cupy.asarray(pieces.table()), cupy.zeros(1 << 16, dtype=cupy.uint32)
    found = []
    for scene, raw in zip(scenes(), data["modules"], strict=True):
        module = cupy.cuda.function.Module()
        module.load(replaced(cubin, bytes.fromhex(raw), data))
        module.get_function("template")((1,), (32 * scene.size,), (target, source))
        clocks = cupy.asnumpy(target)[: 256 * scene.size].reshape(-1, 256)[:, data["stored"]].astype("int64")
        counts = [1 + sum(name == "clock" for name, *_ in steps(own.body)) for own in scene.warps]
        own = [clocks[own.warp, :count].tolist() for own, count in zip(scene.warps, counts, strict=True)]
        found.append(outcome(scene, own))
    with gzip.GzipFile(results / "scoreboard_waits.csv.gz", "wb", mtime=0) as raw_file:
        raw_file.write(f"# {device.name}, {date}; one CTA on one SM\nkind,warps,clocks\n{''.join(found)}".encode())
    print(len(found), "rows")


if __name__ == "__main__":
    command(__doc__, build, run, ("ptxas", "nvdisasm"))
