"""Which of two warps of a sub-core issues the next matrix instruction, seen directly: loops of groups `random`, `held`
and `fresh` as straight code, copy behind copy, with a read of the clock behind every matrix instruction.

    python measure_mma_issue_order.py build  # after `measure_loops.py build` of the groups
    python measure_mma_issue_order.py run    # results/mma_issue_order.csv; needs cupy

The code runs twice, so that the second time it is there; warps leave a barrier together. The read takes one cycle of
the wait of its matrix instruction, and its hint. It takes ports of the register file, too: f32 instructions come up to
1.5 cycles later for it. Control codes are those of ptxas, without `.reuse`.

A decision is a matrix instruction for which both warps could have issued theirs, as far as their waits tell. Columns:
`last`, `other`: whether the last instruction of the warp that issued the last matrix instruction, and of the other, had
the yield hint; `interval` of that matrix instruction; `ago`: cycles since that warp's last instruction, the read of the
clock included; `again`, `turned`: how often that warp went on, and how often the other came.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import sass
from clock_template import Clocked, template
from machine_code_patch import command, control, machine_code, replaced

GROUPS = ("random", "held", "fresh")
CLOCKS, SLOTS, LAUNCHES, COPIES, LOOPS = 186, 300, 5, 10, 120
FIRST = 70  # the loops use registers below
KNOWN = {"HMMA", "IMMA", "UIADD3", "ISETP", "NOP", "BRA", "MOV", "IMAD"}
Event = tuple[int, int, int]  # cycle, warp, number of its matrix instruction


class Room(Clocked):
    """Where the code goes, and the instructions that it needs, from the template's machine code."""

    def __init__(self, cubin: Path, nvdisasm: str) -> None:
        super().__init__(cubin, nvdisasm, FIRST)
        self.nop, self.lane = self.word("NOP$"), self.word("S2R R0, SR_TID.X$")
        self.branch = self.word("@P1 BRA")

    def code(self, body: list[sass.Instruction]) -> tuple[bytes, int]:
        """Copies of a loop with their clocks, and how many clocks; branches go to the next instruction, and the counter
        is a register of the uniform datapath that nothing else uses."""
        matrix = sum("MMA" in x.text for x in body)
        copies = min(COPIES, len(self.clocks) // matrix, (self.slots - 12) // (len(body) + matrix))
        words: list[tuple[int, int]] = []
        read = 0
        for x in body * copies:
            lower, upper = x.lower, control(x.upper, x.stall, x.yields)
            name = x.opcode.split(".")[0]
            if name == "UIADD3":
                lower = lower & ~(0xFFFF << 16) | 10 << 16 | 10 << 24
            elif name == "ISETP":  # of the round, so that the loop's registers stay
                lower = lower & ~(0xFF << 24) & ~(0x3F << 32) | self.rounds << 24 | 10 << 32
                upper = upper & ~(7 << 17) | 1 << 17  # clocks have the other predicate
            elif name == "BRA":
                lower = self.branch.lower & ~(0xFF << 16) & (1 << 34) - 1 & ~(0xF << 12) | 7 << 12
                upper = control(self.branch.upper, x.stall, x.yields) & ~0x3FFFF
            elif "MMA" in name:
                words.append((lower, control(x.upper, 1, False)))
                clock = self.clocks[read][2]
                lower, upper = clock.lower, control(clock.upper, max(x.stall - 1, 1), x.yields)
                read += 1
            words.append((lower, upper))
        words.append((self.lane.lower, control(self.lane.upper, 15, True)))
        words += [(self.nop.lower, control(self.nop.upper, 15, True))] * 10
        words += [(self.nop.lower, control(self.nop.upper, 1, False))] * (self.slots - len(words))
        return machine_code(words), read


def build(folder: Path, ptxas: str, nvdisasm: str) -> None:
    source, cubin = folder / "mma_issue_order.ptx", folder / "mma_issue_order.cubin"
    source.write_text(template(CLOCKS, range(20, 68), SLOTS))
    subprocess.run([ptxas, "-arch=sm_90a", "-o", str(cubin), str(source)], check=True)
    room, loops = Room(cubin, nvdisasm), {}
    for group in GROUPS:
        for name, lines in sass.listings(folder / f"{group}.cubin", nvdisasm).items():
            body = sass.loops(lines)[0]
            highest = max(int(n) for x in body for n in re.findall(r"\bR(\d+)", x.text))
            if highest < FIRST and {x.opcode.split(".")[0] for x in body} <= KNOWN:
                raw, clocks = room.code(body)
                rows = [["MMA" in x.text, x.opcode, x.stall, x.yields] for x in body]
                loops[name] = {"raw": raw.hex(), "clocks": clocks, "body": rows}
    step = max(1, len(loops) // LOOPS)
    data = {
        "offset": room.offset,
        "begin": room.begin,
        "stored": [number for number, *_ in room.clocks],
        "loops": dict(list(loops.items())[::step]),
    }
    cubin.write_bytes(room.raw)
    (folder / "mma_issue_order.json").write_text(json.dumps(data))
    print(len(data["loops"]), "loops")


def interval(opcode: str) -> int:
    """Cycles for which a matrix instruction takes the pipe."""
    sparse, shape = ".SP." in opcode, re.search(r"\.(\d+)\.", opcode)
    assert shape is not None
    larger = {"16832": sparse or "S8" in opcode, "16816": not sparse and "S8" not in opcode, "16864": True}
    if "TF32" in opcode:
        larger = {"1688": not sparse, "16816": sparse}
    return 4 + 2 * sparse + 2 * larger.get(shape.group(1), False)


def issues(body: list[Any], clocks: list[int]) -> tuple[list[tuple[int, bool, bool]], list[int]]:
    """All instructions of a warp as (cycle, hint, whether a matrix instruction), from its clocks, and from when on each
    matrix instruction waits for nothing but the pipe."""
    found, since, ready, number = [], [0], 0, 0
    count = sum(matrix for matrix, *_ in body)
    for matrix, _, stall, yields in body * (len(clocks) // count):
        wait = max(stall, 2 if yields else 1)
        if matrix:
            cycle = clocks[number]
            found += [(cycle - 1, False, True), (cycle, yields, False)]
            number, ready = number + 1, cycle + max(stall - 1, 2 if yields else 1)
            since.append(ready)
        elif number:
            found.append((ready, yields, False))
            ready += wait
            since[-1] = ready
    return found, since


def decisions(body: list[Any], two: list[list[int]]) -> Counter[tuple[int, int, int, int, bool]]:
    """How often, by hint of the last warp, of the other, interval and cycles, the last one issued again."""
    count = sum(matrix for matrix, *_ in body)
    opcodes = [opcode for matrix, opcode, *_ in body if matrix]
    known = [issues(body, clocks) for clocks in two]
    order: list[Event] = sorted((cycle - 1, w, n) for w, clocks in enumerate(two) for n, cycle in enumerate(clocks))
    done, result = [0, 0], Counter[tuple[int, int, int, int, bool]]()
    for (_, last, number), (now, chosen, _) in pairwise(order):
        done[last] = number + 1
        if min(done) and max(done) < len(two[0]) and all(known[w][1][done[w]] <= now for w in (0, 1)):
            before = [max((x for x in known[w][0] if x[0] < now), key=lambda x: x[0]) for w in (last, 1 - last)]
            own = interval(opcodes[number % count])
            result[int(before[0][1]), int(before[1][1]), own, min(now - before[0][0], 9), chosen == last] += 1
    return result


def run(folder: Path, results: Path, date: str) -> None:
    import measure_loops

    device = measure_loops.Device()
    cupy = device.cupy
    data, cubin = (
        json.loads((folder / "mma_issue_order.json").read_text()),
        (folder / "mma_issue_order.cubin").read_bytes(),
    )
    source, target = cupy.zeros(1 << 18, dtype=cupy.uint32), cupy.zeros(1 << 15, dtype=cupy.uint32)
    counts = Counter[tuple[int, int, int, int, bool]]()
    for loop in data["loops"].values():
        stored = data["stored"][: loop["clocks"]]
        module = cupy.cuda.function.Module()
        module.load(replaced(cubin, bytes.fromhex(loop["raw"]), data))
        kernel = module.get_function("template")
        for launch in range(LAUNCHES + 1):
            kernel((1,), (256,), (target, source))
            clocks = cupy.asnumpy(target)[: 8 * 256].reshape(8, 256)[:, stored].astype(int)
            for core in range(4 if launch else 0):  # the first one fetches the code
                two = clocks[[core, core + 4]]
                counts += decisions(loop["body"], (two - two.min()).tolist())
    with (results / "mma_issue_order.csv").open("w", newline="") as file:
        file.write(f"# {device.name}, {date}; {len(data['loops'])} loops, {LAUNCHES} launches, 4 sub-cores\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["last", "other", "interval", "ago", "again", "turned"])
        for key in sorted({key[:4] for key in counts}):
            writer.writerow([*key, counts[*key, True], counts[*key, False]])


if __name__ == "__main__":
    command(__doc__, build, run, ("ptxas", "nvdisasm"))
