"""How warps that load, store and compute again and again come together or apart: a clock behind each iteration.

    python measure_shared_memory_iterations.py build  # after `measure_loops.py build` of memory, operation
    python measure_shared_memory_iterations.py run    # shared_memory_iterations.csv.gz; needs cupy

Each warp runs straight code: a body some times over, of accesses and matrix instructions with waits of our own, some
cycles after it has left a barrier with the others, as in `measure_shared_memory_order.py`. All runs four times, the
last one counts.

Columns: `body`, each step with the cycles until the next may issue, behind `&` the accesses whose scoreboards it waits
for (`&0.2`: the first and the third of the body; `&` alone: all); `begins`, of each warp its number and the cycle of
its first clock; `clocks`, of each warp those of the body, iteration by iteration, from the first clock of all on (the
first access issues 30 cycles behind that of its warp); `alike`, 1 if all warps run the same code, not each its own.

A clock writes a register, so that behind a matrix instruction it waits like any other that does. Code that is not in
the nearest cache yet costs a few cycles in one iteration or another: up to 18 in the first. So compare iterations from
the third on, and of scenes that run once only the order of values and what lies between them.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import measure_shared_memory_order as turns  # type: ignore[import-not-found]
import measure_short_sequences as pieces  # type: ignore[import-not-found]
from machine_code_patch import Word, command, replaced
from measure_short_sequences import coded

CLOCKS, SLOTS, ROUNDS = 50, 6200, 4
WARPS, LEAD, BOARDS, TIMES = 12, 4, 6, 8
KEPT = 2  # of so many scenes of `streams` and `mixtures` one is measured
LOADS = ("ld.v4", "ld.v2", "ld.b32", "ld.b32%97", "ld.b32%98", "ldmatrix.x4", "ldmatrix.x2", "ldmatrix.x1")
STORES = ("st.b32", "st.v2", "st.v4")
FORMS = {"sp full f32": 8, "full f32": 6, "sp small f32": 6, "small f32": 4}  # and cycles between two of them
FOUR, FIVE, EIGHT = (0, 1, 2, 3), (0, 1, 2, 3, 4), tuple(range(8))
ALTERNATING = (  # bodies of two and three warps of a sub-core
    (
        "ldmatrix.x1 4 | ldmatrix.x1 4 | ldmatrix.x1 4 | ldmatrix.x1 4 | ldmatrix.x1 2 | sp full f32 8 &0"
        " | sp full f32 8 | sp full f32 8 | sp full f32 8 | sp full f32 9 | clock 15 &"
    ),
    (
        "sp full f32 1 | ld.v2 4 | ld.v2 3 | sp full f32 1 | ld.v2 7 | sp full f32 8 | sp full f32 1 | ld.v2 4"
        " | ld.v2 3 | sp full f32 9 &3 | clock 15 &"
    ),
    (
        "sp small f32 1 | ld.v2 4 | ldmatrix.x1 1 | sp small f32 3 | ldmatrix.x1 3 | sp small f32 1 | ldmatrix.x2 4"
        " | ldmatrix.x2 2 | sp small f32 3 &3 | clock 15 &"
    ),
    (
        "sp small f32 1 | ldmatrix.x1 3 | sp small f32 6 | sp small f32 1 | ldmatrix.x1 5 | sp small f32 6 &0"
        " | sp small f32 6 | sp small f32 1 &1 | clock 15 &"
    ),
    "ld.b32 2 | sp full f32 8 &0 | sp full f32 8 | sp full f32 8 | clock 15 &",
    "ld.b32 2 | full f32 6 &0 | full f32 6 | full f32 6 | full f32 6 | full f32 6 | clock 4 &",
    "ld.b32 2 | small f32 4 &0 | small f32 4 | small f32 4 | small f32 4 | small f32 4 | clock 4 &",
    (
        "ldmatrix.x4 4 | ldmatrix.x4 4 | ldmatrix.x4 2 | sp small f32 6 &0 | sp small f32 6 | sp small f32 6"
        " | sp small f32 6 | sp small f32 6 | clock 9 &"
    ),
    "full f32 3 | full f32 3 | full f32 3 | full f32 6 | full f32 1 | full f32 6 | ld.b32%98 4 | clock 4 &",
    "full f32 6 | full f32 6 | full f32 6 | full f32 6 | full f32 6 | clock 15",
    "full f32 1 | full f32 1 | full f32 1 | full f32 1 | full f32 1 | clock 15",
    "full f32 7 | full f32 7 | full f32 7 | full f32 7 | full f32 7 | clock 15",
    "sp full f32 8 | sp full f32 8 | sp full f32 8 | sp full f32 8 | nop 15 | nop 15 | clock 15",
    (
        "ldmatrix.x1 4 | ldmatrix.x1 4 | sp full f32 8 | sp full f32 8 | sp full f32 8 | sp full f32 8 | nop 15"
        " | nop 15 | clock 15"
    ),
)
Begins = tuple[tuple[int, int], ...]  # of each warp its number, and the cycles after which it begins
Step = tuple[str, int, tuple[int, ...]]  # name, cycles until the next, accesses of the body that it waits for


class Scene(NamedTuple):
    """Warps that all run the same body, so many times over."""

    body: str
    times: int
    warps: Begins
    alike: bool = False


def is_access(name: str) -> bool:
    return name.startswith(("ld", "st."))


def steps(body: str) -> list[Step]:
    """The steps of a body."""
    parts = [part.partition("&") for part in body.split(" | ")]
    names = [text.strip().rsplit(" ", 1) for text, _, _ in parts]
    every = tuple(range(sum(is_access(name) for name, _ in names)))
    waits = (tuple(map(int, places.split("."))) if places else every * bool(mark) for _, mark, places in parts)
    return [(name, int(gap), wait) for (name, gap), wait in zip(names, waits, strict=True)]


def begins(source: random.Random, warps: tuple[int, ...], spread: int) -> Begins:
    return tuple((warp, source.randint(0, spread)) for warp in warps)


def scenes() -> Iterator[Scene]:
    """All that is measured."""
    source = random.Random(5)
    yield from [*streams(source), *mixtures(source)][::KEPT]
    source = random.Random(9)
    yield from values(source)
    yield from alternating(source)


def streams(source: random.Random) -> Iterator[Scene]:
    """Accesses of one kind, and a pause behind the last value."""
    layouts = ((FOUR, 1), (FOUR, 6), (FOUR, 20), ((0, 1), 6), ((0, 1, 2), 6))
    of_loads = ((0, 4), 6), ((0, 4), 40), ((0, 4, 1), 20), (FIVE, 30), (EIGHT, 14), (EIGHT, 60)
    of_stores = ((0, 4), 20), (FIVE, 30), (EIGHT, 14)
    for kind in (*LOADS, *STORES):
        load = kind in LOADS
        for count, gap in ((8, 4), (8, 2), (4, 4), (2, 4)) if load else ((8, 4), (4, 4), (2, 4)):
            for pause in (4, 15):
                body = f"{kind} {gap} | " * (count - 1) + f"{kind} 2 | clock {pause} &"
                for layout, spread in (*layouts, *of_loads) if load else (((0,), 0), *layouts, *of_stores):
                    yield Scene(body, TIMES, begins(source, layout, spread))


def mixtures(source: random.Random) -> Iterator[Scene]:
    """Random accesses, then matrix instructions behind some, then both at random."""
    for _ in range(700):
        several = source.sample(LOADS, source.choice((1, 2, 3)))
        several += source.sample(STORES, source.choice((0, 0, 1)))
        count = source.randint(2, 10)
        parts = [f"{source.choice(several)} {source.choice((2, 3, 4, 4, 4, 9))}" for _ in range(count)]
        if source.random() < 0.5:
            parts.append(f"clock {source.choice((2, 6, 12))} &{source.randrange(count)}")
        parts.append(f"clock {source.choice((4, 9, 15))} &")
        layout = source.choice((FOUR, FOUR, (0, 1, 2), (0, 4), (0, 4), (0, 4, 8), FIVE, EIGHT))
        yield Scene(" | ".join(parts), TIMES, begins(source, layout, source.choice((2, 8, 30))))
    plain = ((5, 5, "ldmatrix.x1", 15), (2, 4, "ld.v2", 15), (1, 5, "ld.b32", 4), (3, 8, "ldmatrix.x4", 9))
    for form, every in FORMS.items():
        for count, matrices, kind, pause in plain:
            body = f"{kind} 4 | " * (count - 1) + f"{kind} 2 | {form} {every} &0 | "
            body += f"{form} {every} | " * (matrices - 1) + f"clock {pause} &"
            for layout in ((0,), (0, 4), (0, 4), (0, 4), (0, 4, 8), (0, 4, 8), FOUR, EIGHT):
                yield Scene(body, TIMES, begins(source, layout, source.choice((2, 10, 40))))
    for _ in range(400):
        several = source.sample(LOADS, source.choice((1, 2, 3))) + source.sample(STORES, source.choice((0, 0, 1)))
        form, every = source.choice([*FORMS.items()])
        parts, made = [], 0
        for _ in range(source.randint(3, 8)):
            if source.random() < 0.4:
                wait = f" &{source.randrange(made)}" if made and source.random() < 0.5 else ""
                parts.append(f"{form} {source.choice((1, 3, every, every))}{wait}")
            else:
                parts.append(f"{source.choice(several)} {source.choice((2, 4, 4))}")
                made += 1
        if made:
            parts.append(f"clock {source.choice((4, 9, 15))} &")
            layout = source.choice(((0,), (0, 4), (0, 4), (0, 4, 8), FOUR, FIVE, EIGHT))
            yield Scene(" | ".join(parts), TIMES, begins(source, layout, source.choice((2, 8, 30))))


def values(source: random.Random) -> Iterator[Scene]:
    """When each value of a few loads is there, each asked alone, so that no other clock is in the way."""

    def each(loads: tuple[tuple[str, int], ...], layout: tuple[int, ...], starts: tuple[int, ...]) -> Iterator[Scene]:
        for place in range(len(loads)):
            parts = [*(f"{name} {gap}" for name, gap in loads), f"clock 9 &{place}", "clock 15 &"]
            yield Scene(" | ".join(parts), 1, tuple(zip(layout, starts, strict=True)))

    like_1008 = (("ld.v4", 4), ("ld.v4", 4), ("ld.v4", 5), ("ldmatrix.x1", 4), ("ldmatrix.x1", 2))
    for starts in ((0, 2, 4, 6), (6, 0, 2, 4), (0, 0, 0, 0), (0, 1, 2, 3), (0, 8, 16, 24), (0, 9, 3, 5)):
        yield from each(like_1008, FOUR, starts)
    for warps in (1, 2, 3):
        yield from each(like_1008, FOUR[:warps], (0, 2, 4)[:warps])
    for kind in LOADS:
        for gap in (2, 4):
            for starts in ((0, 0, 0, 0), (0, 1, 2, 3), (0, 2, 4, 6), (0, 5, 9, 2), (0, 17, 30, 33)):
                yield from each(((kind, gap),) * 6, FOUR, starts)
            for pair in ((0, 0), (0, 3), (0, 6), (0, 11)):
                yield from each(((kind, gap),) * 6, (0, 1), pair)
                yield from each(((kind, gap),) * 6, (0, 4), pair)
    for _ in range(90):
        several = ("ld.v4", source.choice(LOADS)) if source.random() < 0.6 else source.sample(LOADS, 2)
        loads = tuple((source.choice(several), source.choice((2, 4, 4, 5))) for _ in range(source.randint(3, 6)))
        layout = source.choice((FOUR, FOUR, FOUR, (0, 1), (0, 1, 2)))
        yield from each(loads, layout, tuple(source.randint(0, 9) for _ in layout))


def alternating(source: random.Random) -> Iterator[Scene]:
    """Two and three warps of a sub-core that take turns at the pipe of matrix instructions."""
    for body in ALTERNATING:
        for layout in ((0,), (0, 4), (0, 4), (0, 4), (0, 4, 8), (0, 4, 8), EIGHT):
            starts = begins(source, layout, source.choice((2, 10, 40)))
            for alike in (False, True):
                yield Scene(body, TIMES, starts, alike)


class Room(turns.Room):
    """Where the code goes, and the instructions that it needs."""

    def __init__(self, folder: Path, nvdisasm: str, cubin: str = "shared_memory_iterations.cubin") -> None:
        super().__init__(folder, nvdisasm, cubin)

    def lead(self, after: int | None) -> list[Word]:
        """What a warp does first: it leaves the barrier, and waits so many cycles."""
        code = [*self.idle(3, 63), self.barrier, *self.idle(LEAD)]
        if after is None:
            return code
        return [*code, *self.idle(1) * (after // 15), coded(self.words["nop"], 1 + after % 15)]

    def body(self, text: str, times: int = 1) -> list[Word]:
        """The code of a warp from its first clock on: a body, so many times."""
        code, clock = [self.clock(0, 15), *self.idle(1)], 1
        for _ in range(times):
            access = 0
            for number, (name, gap, waits) in enumerate(steps(text)):
                if name == "clock":
                    low, high = coded(self.clock(clock, gap), gap)
                    clock += 1
                elif name == "nop":
                    low, high = coded(self.words["nop"], gap)
                else:
                    low, high = self.instruction(name, access if is_access(name) else number, gap)
                    access += is_access(name)
                boards = sum(1 << board for board in {place % BOARDS for place in waits})
                code.append((low, high | boards << 52))
        assert clock <= len(self.clocks), f"{clock} clocks, room for {len(self.clocks)}"
        return code

    def module(self, scene: Scene) -> bytes:
        """The code of a scene: the warps' own, then what all run, if they are alike."""
        after, body = dict(scene.warps), self.body(scene.body, scene.times)
        own, shared = ([], body) if scene.alike else (body, [])
        parts = [
            [*self.prologue(), *self.lead(after.get(warp)), *(own if warp in after else ())] for warp in range(WARPS)
        ]
        return self.by_warp(parts, shared, {*range(WARPS)} - {*after})


def build(folder: Path, ptxas: str, nvdisasm: str) -> None:
    source, cubin = folder / "shared_memory_iterations.ptx", folder / "shared_memory_iterations.cubin"
    source.write_text(pieces.template(CLOCKS, SLOTS, ROUNDS, apart=True))
    subprocess.run([ptxas, "-arch=sm_90a", "-o", str(cubin), str(source)], check=True)
    room = Room(folder, nvdisasm)
    modules = [{"raw": room.module(scene).hex(), "scene": scene} for scene in scenes()]
    cubin.write_bytes(room.raw)
    data = {"offset": room.offset, "stored": [place for place, *_ in room.clocks], "modules": modules}
    (folder / "shared_memory_iterations.json.gz").write_bytes(gzip.compress(json.dumps(data).encode()))
    print(len(modules), "scenes")


def outcome(scene: Scene, clocks: list[list[int]]) -> str:
    """A row of the table; `clocks`: of each warp."""
    first = min(own[0] for own in clocks)
    began = "; ".join(f"{warp}+{own[0] - first}" for (warp, _), own in zip(scene.warps, clocks, strict=True))
    ends = "; ".join("/".join(str(clock - first) for clock in own[1:]) for own in clocks)
    return f"{scene.body},{began},{ends},{int(scene.alike)}\n"


def run(folder: Path, results: Path, date: str) -> None:
    import measure_loops

    device = measure_loops.Device()
    cupy = device.cupy
    data = json.loads(gzip.decompress((folder / "shared_memory_iterations.json.gz").read_bytes()))
    cubin = (folder / "shared_memory_iterations.cubin").read_bytes()
    source, target = cupy.asarray(pieces.table()), cupy.zeros(1 << 16, dtype=cupy.uint32)
    found = []
    for entry in data["modules"]:
        scene = Scene(*entry["scene"])
        module = cupy.cuda.function.Module()
        module.load(replaced(cubin, bytes.fromhex(entry["raw"]), data))
        module.get_function("template")((1,), (32 * WARPS,), (target, source))
        clocks = cupy.asnumpy(target)[: 256 * WARPS].reshape(-1, 256)[:, data["stored"]].astype("int64")
        count = 1 + scene.times * sum(name == "clock" for name, *_ in steps(scene.body))
        found.append(outcome(scene, [clocks[warp, :count].tolist() for warp, _ in scene.warps]))
    with gzip.GzipFile(results / "shared_memory_iterations.csv.gz", "wb", mtime=0) as raw:
        raw.write(f"# {device.name}, {date}; one CTA on one SM\nbody,begins,clocks,alike\n{''.join(found)}".encode())
    print(len(found), "rows")


if __name__ == "__main__":
    command(__doc__, build, run, ("ptxas", "nvdisasm"))
