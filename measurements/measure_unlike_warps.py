"""Two or three warps of a sub-core that run unlike code: which of them issues when several can, and what happens to the
waits of one while the other holds up the reading of registers.

    python measure_unlike_warps.py build  # the cubin and its loops; no GPU
    python measure_unlike_warps.py run    # results/unlike_warps.csv; needs cupy

Each warp of a sub-core runs a loop of its own: reads of the clock with waits of so many cycles (all with the yield
hint, or none), or a matrix instruction, an integer one a cycle behind it, and a read of the clock. The last run's
clocks are kept. Loops are run so many times that last runs lie at the same time; behind them the warps go on with the
same code, so that nothing changes. Reads of the clock take the pipe of integers for two cycles.

Columns: `kind`, `code` (of each warp: c9 is a clock with a wait of 9 cycles, h with the hint), `what`, `count`.

`order`: several warps can issue in the same cycle, and the pipe was free before: the one that issued last goes on
    (`again`), or the one whose last instruction is the oldest comes (`oldest`), or another.
`still`: cycles from one clock to the next of a warp that waits, beyond its wait: four more if the integer instruction
    of the other warp, for whose registers a matrix instruction leaves no cycle, holds all up in the meantime.
"""

from __future__ import annotations

import csv
import json
import re
import struct
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations_with_replacement, pairwise
from pathlib import Path
from typing import Any

import machine_code_patch
import mixed
import programs as p
from clock_template import Coded, template
from machine_code_patch import command, control, guarded, halves, machine_code, replaced

CLOCKS, SLOTS, FIRST = 86, 300, 28  # the loops use registers below FIRST
COUNTER, OTHER, RUNS, MORE, LAUNCHES = 24, 26, 10, 30, 2
MATRIX = p.Form(16, 8, 64, "s32", "s8", "s8", sparse=True)  # its reads delay no clock that comes behind the next
Item = tuple[str, int, bool]  # kind, cycles until the next instruction, yield hint
Code = tuple[str, ...]  # of each warp of a sub-core: c9, c9h, or compare-9: a matrix instruction, a comparison, ...


def codes() -> Iterator[tuple[str, Code]]:
    """All kinds of loops."""
    for hint in ("", "h"):
        for a, b in combinations_with_replacement((5, 6, 7, 8, 9, 10, 11), 2):
            yield "order", (f"c{a}{hint}", f"c{b}{hint}")
        for waits in ((7, 9, 11), (5, 7, 9), (7, 8, 9), (9, 10, 11), (8, 9, 11), (6, 7, 11), (9, 9, 11), (7, 7, 9)):
            yield "order", tuple(f"c{wait}{hint}" for wait in waits)
    for kind, behind, wait in ((k, b, w) for k in ("compare", "add") for b in (9, 10, 11) for w in (13, 15)):
        yield "still", (f"c{wait}h", f"{kind}-{behind}")


def items(code: str) -> list[Item]:
    """The loop of a warp."""
    if found := re.fullmatch(r"c(\d+)(h?)", code):
        return [("clock", int(found[1]), bool(found[2]))] * (40 if int(found[1]) < 12 else 24)
    kind, behind = code.split("-")
    return [("matrix", 1, False), (kind, int(behind), False), ("clock", 10, False)] * 14


class Room(Coded):
    """Where the code goes, and the instructions that it needs."""

    def __init__(self, folder: Path, ptxas: str, nvdisasm: str) -> None:
        super().__init__(folder / "unlike_warps.cubin", nvdisasm, FIRST)
        machine_code_patch.build(folder, ptxas, nvdisasm)
        self.matrix = tuple(json.loads((folder / "mma_template.json").read_text())["forms"][mixed.short(MATRIX)])

    def loop(self, code: list[Item], kept: bool) -> list[tuple[int, int]]:
        """The instructions of a loop whose clocks are kept, or not; the number of runs stands in the comparison."""
        words, number = [], 0
        for kind, wait, hint in code:
            if kind == "clock":
                low, high = halves(self.clocks[number][2])
                low = low & ~(0xFF << 16) | (self.clocks[number][1] if kept else OTHER) << 16
                words.append((guarded(low), control(high, wait, hint)))
                number += 1
            elif kind == "matrix":
                low, high = self.matrix
                low = low & ~(0xFFFFFF << 16) & ~(0xFF << 40) | 12 << 16 | 4 << 24 | 8 << 32 | 2 << 40
                words.append((low, control(high & ~0xFF | 12, wait)))
            else:
                words.append(self.compare(COUNTER, 7, wait) if kind == "compare" else self.add(20, 22, 1, wait))
        words += [self.add(COUNTER, COUNTER, 1, 6), self.compare(COUNTER, 0, 13)]
        return [*words, machine_code_patch.branch_back(self.jump, len(words))]

    def code(self, each: Code) -> tuple[bytes, list[list[int]]]:
        """The code of all warps, and for each warp where the numbers of runs of its two loops stand."""
        parts = [[self.loop(items(code), kept) for kept in (True, False)] for code in each]
        sizes = [2 + sum(map(len, part)) for part in parts]  # a counter before, a branch behind
        starts = [2 * len(each) - 1 + sum(sizes[:place]) for place in range(len(each) + 1)]
        words = []
        for place in range(1, len(each)):
            words += [self.compare(0, 128 * place, 13), self.over(starts[place - 1] - 2 * place)]
        words.append(self.over(starts[-2] - 2 * len(each) + 1, always=True))
        marks = []
        for part in parts:
            words.append(self.add(COUNTER, 255, 0, 12))
            ends = [len(words) + len(part[0]) - 2, len(words) + len(part[0]) + len(part[1]) - 2]
            marks.append(ends)
            words += [*part[0], *part[1]]
            words.append(self.over(starts[-1] - len(words) - 1, always=True))
        words += [
            (self.thread[0], control(self.thread[1], 15, True)),
            *[(self.nop[0], control(self.nop[1], 15, True))] * 4,
        ]
        words.append(self.over(self.slots - len(words) - 1, always=True))
        return machine_code(words), marks


def build(folder: Path, ptxas: str, nvdisasm: str) -> None:
    (folder / "unlike_warps.ptx").write_text(template(CLOCKS, range(12, 24), SLOTS, 4))
    subprocess.run(
        [ptxas, "-arch=sm_90a", "-o", str(folder / "unlike_warps.cubin"), str(folder / "unlike_warps.ptx")], check=True
    )
    room = Room(folder, ptxas, nvdisasm)
    found = []
    for kind, each in codes():
        raw, marks = room.code(each)
        found.append({"kind": kind, "code": each, "raw": raw.hex(), "marks": marks})
    data = {"offset": room.offset, "stored": [place for place, *_ in room.clocks], "loops": found}
    (folder / "unlike_warps.cubin").write_bytes(room.raw)
    (folder / "unlike_warps.json").write_text(json.dumps(data))
    print(len(found), "loops")


def length(code: str) -> int:
    """Cycles of a run of a warp's loop, about."""
    return sum(wait for _, wait, _ in items(code)) + 31


def counts(each: Code) -> Iterator[tuple[int, ...]]:
    """Numbers of runs with which the last ones lie at about the same time."""
    lengths = [length(code) for code in each]
    for first, shift in ((first, shift) for first in (RUNS, RUNS + 1) for shift in range(-3, 5)):
        rest = [
            round(first * lengths[0] / other) + (shift if n == 0 else 3 * shift % 7 - 3)
            for n, other in enumerate(lengths[1:])
        ]
        yield first, *(max(count, 2) for count in rest)


def orders(each: Code, clocks: list[list[int]]) -> Iterator[str]:
    """What happened where several warps could issue, all of them in last runs."""
    waits = [items(code)[0][1] for code in each]
    begin, end = max(c[0] for c in clocks), min(c[-1] for c in clocks)
    last: list[int | None] = [None] * len(each)
    before = -1
    for now, warp in sorted((cycle, warp) for warp, own in enumerate(clocks) for cycle in own):
        known = [cycle for cycle in last if cycle is not None]
        if len(known) == len(each) and begin < now <= end and now > max(known) + 2:
            able = [w for w, (cycle, wait) in enumerate(zip(known, waits, strict=True)) if cycle + wait <= now]
            if len(able) > 1:
                oldest = min(able, key=lambda w: known[w])
                yield "again" if warp == before else "oldest" if warp == oldest else "another"
        last[warp], before = now, warp


def stills(each: Code, clocks: list[list[int]]) -> Iterator[str]:
    """Cycles beyond the wait of the first warp."""
    begin, end = (f(c[n] for c in clocks) for f, n in ((max, 0), (min, -1)))
    for one, other in pairwise(clocks[0]):
        if begin < one and other < end:
            yield str(other - one - items(each[0])[0][1])


def measured(device: Any, data: dict[str, Any], cubin: bytes, loop: dict[str, Any]) -> Iterator[list[list[int]]]:
    """The clocks of each warp of each sub-core, for all numbers of runs."""
    cupy, each = device.cupy, loop["code"]
    source, target = cupy.zeros(1 << 18, dtype=cupy.uint32), cupy.zeros(1 << 15, dtype=cupy.uint32)
    sizes = [sum(kind == "clock" for kind, *_ in items(code)) for code in each]
    for runs in counts(tuple(each)):
        raw = bytearray(bytes.fromhex(loop["raw"]))
        for places, count in zip(loop["marks"], runs, strict=True):
            for place, number in zip(places, (count, count + MORE), strict=True):
                raw[16 * place + 4 : 16 * place + 8] = struct.pack("<I", number)
        module = cupy.cuda.function.Module()
        module.load(replaced(cubin, bytes(raw), data))
        for launch in range(LAUNCHES + 1):  # the first one fetches the code
            module.get_function("template")((1,), (128 * len(each),), (target, source))
            if launch:
                clocks = cupy.asnumpy(target)[: 1024 * len(each)].reshape(-1, 256)[:, data["stored"]].astype(int)
                for core in range(4):
                    yield [clocks[core + 4 * w, :size].tolist() for w, size in enumerate(sizes)]


def run(folder: Path, results: Path, date: str) -> None:
    import measure_loops

    device = measure_loops.Device()
    data, cubin = json.loads((folder / "unlike_warps.json").read_text()), (folder / "unlike_warps.cubin").read_bytes()
    found = Counter[tuple[str, str, str]]()
    for loop in data["loops"]:
        told = orders if loop["kind"] == "order" else stills
        for clocks in measured(device, data, cubin, loop):
            found.update((loop["kind"], " ".join(loop["code"]), what) for what in told(tuple(loop["code"]), clocks))
    write(
        results / "unlike_warps.csv",
        found,
        f"{device.name}, {date}; {LAUNCHES} launches, 4 sub-cores, 16 numbers of runs",
    )


def write(path: Path, found: Counter[tuple[str, str, str]], note: str) -> None:
    rows: Iterable[tuple[str, str, str]] = sorted(found)
    with path.open("w", newline="") as file:
        file.write(f"# {note}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["kind", "code", "what", "count"])
        writer.writerows([*row, found[row]] for row in rows)


if __name__ == "__main__":
    command(__doc__, build, run, ("ptxas", "nvdisasm"))
