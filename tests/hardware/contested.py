"""Two to four warps of a sub-core that all want the pipe of integers: which of them issues next, by the hints.

    python contested.py build [--build DIR] [--ptxas PTXAS] [--nvdisasm NVDISASM]  the cubin and its loops; no GPU
    python contested.py run   [--build DIR] [--results DIR] [--date D]             results/contested.csv; needs cupy

All warps run the same loop of reads of the clock, which take the pipe for two cycles and wait for one. So a warp could
always go on, and the clocks show each time which one did. The last run's clocks are kept; behind it the warps go on
with the same code.

Columns: `code` (hint-6: every sixth clock has the yield hint, hint-0: none; gap-6: likewise, and behind 18 of them a
pause of 22 cycles without hints), `warps` of a sub-core; `hint`: whether the last instruction had the hint; `others`
that could issue, of which so many had the hint (`hinted`); `waited`: cycles since the last instruction of the oldest of
these; `what`: the last one goes `on`, or the one comes whose last instruction had no hint (`eager`), or of those that
had it the `oldest`, the `next` oldest or a `younger` one; `count`.
"""

from __future__ import annotations

import csv
import json
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import patched
from clocked import Clocked, template
from patched import command, control, guarded, halves, machine_code, replaced

CLOCKS, SLOTS, FIRST = 88, 300, 48  # so that the template has at most 128 registers, and 16 warps find room
COUNTER, OTHER = 24, 26
LENGTH, RUN, PAUSE = 54, 18, (11, 11)
WARPS, RUNS, MORE, LAUNCHES = (2, 3, 4), (8, 9, 14, 21), 6, 2
CODES = tuple(f"hint-{n}" for n in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16)) + tuple(f"gap-{n}" for n in (3, 6, 9))
Item = tuple[int, bool, int]  # cycles until the next clock, yield hint, and cycles of a pause behind it
Decision = tuple[str, int, int, int, int, int, str]


def items(code: str) -> list[Item]:
    """The loop's clocks."""
    kind, every = code.split("-")
    found = []
    for place in range(LENGTH):
        hint = int(every) > 0 and place % int(every) == int(every) - 1
        pause = sum(PAUSE) if kind == "gap" and place % RUN == RUN - 1 else 0
        found.append((max(1, 2 * hint) + pause, hint and not pause, pause))
    return found


class Room(Clocked):
    """Where the code goes, and the instructions that it needs."""

    def __init__(self, cubin: Path, nvdisasm: str) -> None:
        super().__init__(cubin, nvdisasm, FIRST)
        self.nop, self.thread = halves(self.word("NOP$")), halves(self.word(r"S2R R0, SR_TID\.X$"))
        self.test, self.jump = halves(self.word(r"ISETP\.LT\.U32\.AND P1, PT, R\d+, 0x")), halves(self.word("@P1 BRA"))
        self.sum = halves(self.word(r"VIADD R\d+, R\d+, 0x1$"))

    def add(self, register: int, number: int, wait: int) -> tuple[int, int]:
        return self.sum[0] & 0xFFFF | COUNTER << 16 | register << 24 | number << 32, control(
            self.sum[1], wait, wait > 11
        )

    def loop(self, code: str, kept: bool) -> list[tuple[int, int]]:
        """The instructions of a loop whose clocks are kept, or not; the number of runs stands in the comparison."""
        words = []
        for place, (_, hint, pause) in enumerate(items(code)):
            low, high = halves(self.clocks[place][2])
            low = low & ~(0xFF << 16) | (self.clocks[place][1] if kept else OTHER) << 16
            words.append((guarded(low), control(high, 1, hint)))
            words += [(self.nop[0], control(self.nop[1], wait)) for wait in PAUSE[: pause and len(PAUSE)]]
        words += [self.add(COUNTER, 1, 6), (self.test[0] & 0xFFFFFF | COUNTER << 24, control(self.test[1], 13, True))]
        return [*words, patched.branch_back(self.jump, len(words))]

    def code(self, code: str) -> tuple[bytes, list[int]]:
        """The code, and where the numbers of runs of its two loops stand."""
        loops = [self.loop(code, kept) for kept in (True, False)]
        words = [self.add(255, 0, 12), *loops[0], *loops[1]]
        marks = [len(loops[0]) - 1, len(loops[0]) + len(loops[1]) - 1]
        words += [(self.thread[0], control(self.thread[1], 15, True))]
        words += [(self.nop[0], control(self.nop[1], 15, True))] * 4
        low, high = patched.branch(self.jump, self.slots - len(words) - 1)
        return machine_code([*words, (guarded(low), high)]), marks


def build(folder: Path, ptxas: str, nvdisasm: str) -> None:
    source, cubin = folder / "contested.ptx", folder / "contested.cubin"
    source.write_text(template(CLOCKS, range(12, 24), SLOTS))
    subprocess.run([ptxas, "-arch=sm_90a", "-o", str(cubin), str(source)], check=True)
    room = Room(cubin, nvdisasm)
    found = []
    for code in CODES:
        raw, marks = room.code(code)
        found.append({"code": code, "raw": raw.hex(), "marks": marks})
    data = {"offset": room.offset, "stored": [place for place, *_ in room.clocks], "loops": found}
    cubin.write_bytes(room.raw)
    (folder / "contested.json").write_text(json.dumps(data))
    print(len(found), "loops")


def decisions(code: str, clocks: list[list[int]]) -> Iterator[Decision]:
    """What happened whenever the warp that read the clock last could have read it again, and others could, too."""
    body, warps = items(code), len(clocks)
    done, before = [0] * warps, (-1, -1)
    for now, warp in sorted((cycle, warp) for warp, own in enumerate(clocks) for cycle in own):
        last, then = before[1], before[0]
        if last >= 0 and now == then + 2 and min(done) and max(done) < LENGTH and not body[done[last] - 1][2]:
            ages = {w: now - clocks[w][done[w] - 1] for w in range(warps) if w != last}
            able = [w for w in ages if body[done[w] - 1][0] <= ages[w]]
            if able and warp in (last, *able):
                hinted = sorted((w for w in able if body[done[w] - 1][1]), key=lambda w: -ages[w])
                names = dict(zip(hinted, ("oldest", "next", "younger"), strict=False)) | {last: "on"}
                waited = max((ages[w] for w in hinted), default=0)
                hint = int(body[done[last] - 1][1])
                yield code, warps, hint, len(able), len(hinted), waited, names.get(warp, "eager")
        done[warp], before = done[warp] + 1, (now, warp)


def run(folder: Path, results: Path, date: str) -> None:
    import measure

    device = measure.Device()
    cupy = device.cupy
    data, cubin = json.loads((folder / "contested.json").read_text()), (folder / "contested.cubin").read_bytes()
    source, target = cupy.zeros(1 << 18, dtype=cupy.uint32), cupy.zeros(1 << 15, dtype=cupy.uint32)
    found = Counter[Decision]()

    def measured(loop: dict[str, Any], runs: int, warps: int) -> Iterator[list[list[int]]]:
        raw = bytearray(bytes.fromhex(loop["raw"]))
        for place, number in zip(loop["marks"], (runs, runs + MORE), strict=True):
            raw[16 * place + 4 : 16 * place + 8] = struct.pack("<I", number)
        module = cupy.cuda.function.Module()
        module.load(replaced(cubin, bytes(raw), data))
        for launch in range(LAUNCHES + 1):  # the first one fetches the code
            module.get_function("template")((1,), (128 * warps,), (target, source))
            if launch:
                kept = data["stored"][:LENGTH]
                clocks = cupy.asnumpy(target)[: 1024 * warps].reshape(-1, 256)[:, kept].astype(int)
                for core in range(4):
                    yield [clocks[core + 4 * warp].tolist() for warp in range(warps)]

    for loop in data["loops"]:
        for runs in RUNS:
            for warps in WARPS:
                for clocks in measured(loop, runs, warps):
                    found.update(decisions(loop["code"], clocks))
    with (results / "contested.csv").open("w", newline="") as file:
        file.write(f"# {device.name}, {date}; {LAUNCHES} launches, 4 sub-cores, {len(RUNS)} numbers of runs\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["code", "warps", "hint", "others", "hinted", "waited", "what", "count"])
        writer.writerows([*row, found[row]] for row in sorted(found))
    print(sum(found.values()), "decisions")


if __name__ == "__main__":
    command(__doc__, build, run, ("ptxas", "nvdisasm"))
