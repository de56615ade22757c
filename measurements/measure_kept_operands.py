"""When a warp of a sub-core loses the operands of matrix instructions that it keeps: beside another warp that adds or
compares, which reads registers in their slots.

    python measure_kept_operands.py build  # after `measure_loops.py build` of memory, operation
    python measure_kept_operands.py run    # results/kept_operands.csv.gz; needs cupy

Each warp runs straight code of its own, as in `measure_shared_memory_iterations.py`, with waits of our own. Two warps
of one sub-core; the others have nothing to do and wait at the next barrier before these begin, so that nothing else
issues. All runs four times, the last one counts: then the code is there.

Columns: `warps`, of each its number, the cycle of its first clock and its body, as in
shared_memory_iterations.csv.gz; `clocks`, of each warp those of the body from the first clock of all on (the body
begins 30 cycles behind that of its warp).
"""

from __future__ import annotations

import gzip
import json
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


class Own(NamedTuple):
    """What a warp does: its number, the cycles after which it begins, and its body."""

    warp: int
    after: int
    body: str


class Scene(NamedTuple):
    warps: tuple[Own, ...]

    @property
    def size(self) -> int:
        """Warps of the CTA: two of each sub-core."""
        return 8


def scenes() -> Iterator[Scene]:
    """All that is measured."""
    for form, every in FORMS.items():
        for kept in ("", "@a", "@b", "@ab"):
            keeping = " | ".join([f"{form}{kept} {every}"] * 14 + [f"{form} {every}", "clock 2"])
            for other in ("add 5", "add 15", "compare 7", "compare 15"):
                for begins in ((0, 9), (0, 3), (12, 0)):
                    beside = " | ".join([other] * 14 + ["clock 15"])
                    yield Scene((Own(0, begins[0], keeping), Own(4, begins[1], beside)))


class Room(iterations.Room):  # type: ignore[misc]
    """Where the code goes, and the instructions that it needs."""

    def __init__(self, folder: Path, nvdisasm: str) -> None:
        super().__init__(folder, nvdisasm, "kept_operands.cubin")

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
    source, cubin = folder / "kept_operands.ptx", folder / "kept_operands.cubin"
    source.write_text(pieces.template(CLOCKS, SLOTS, ROUNDS, apart=True))
    subprocess.run([ptxas, "-arch=sm_90a", "-o", str(cubin), str(source)], check=True)
    room = Room(folder, nvdisasm)
    modules = [room.module(scene).hex() for scene in scenes()]
    cubin.write_bytes(room.raw)
    data = {"offset": room.offset, "stored": [place for place, *_ in room.clocks], "modules": modules}
    (folder / "kept_operands.json.gz").write_bytes(gzip.compress(json.dumps(data).encode()))
    print(len(modules), "scenes")


def outcome(scene: Scene, clocks: list[list[int]]) -> str:
    """A row of the table; `clocks`: of each warp."""
    first = min(own[0] for own in clocks)
    warps = "; ".join(f"{own.warp}+{its[0] - first}: {own.body}" for own, its in zip(scene.warps, clocks, strict=True))
    return f"{warps},{'; '.join('/'.join(str(clock - first) for clock in its[1:]) for its in clocks)}\n"


def run(folder: Path, results: Path, date: str) -> None:
    import measure_loops

    device = measure_loops.Device()
    cupy = device.cupy
    data = json.loads(gzip.decompress((folder / "kept_operands.json.gz").read_bytes()))
    cubin = (folder / "kept_operands.cubin").read_bytes()
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
    with gzip.GzipFile(results / "kept_operands.csv.gz", "wb", mtime=0) as raw_file:
        raw_file.write(f"# {device.name}, {date}; one CTA on one SM\nwarps,clocks\n{''.join(found)}".encode())
    print(len(found), "rows")


if __name__ == "__main__":
    command(__doc__, build, run, ("ptxas", "nvdisasm"))
