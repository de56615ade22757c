"""Loops of unlike matrix instructions in warps that leave a barrier together, their code fetched before.

    python measure_loops_behind_barrier.py build  # after `measure_loops.py build` of the groups
    python measure_loops_behind_barrier.py run    # results/abreast.csv; needs cupy

In `measure_loops.py` the first iteration waits for its instructions, so that warps come to the second one apart, and by
how much is known but for some cycles; two warps of a sub-core keep one rhythm or another for it. Here the machine code
of each loop, as ptxas wrote it, stands in a template and runs twice behind a barrier; the second time is measured.

Columns: cycles of an iteration from two loop counts, best of `LAUNCHES` launches each, and by how many cycles the
slowest launch of the larger count took longer. Loops that count otherwise than with UIADD3 and ISETP are left out.
"""

from __future__ import annotations

import csv
import json
import re
import struct
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import machine_code_patch
import mixed
import sass
from clock_template import template
from machine_code_patch import Word, command, control, guarded, halves, machine_code, replaced

SLOTS, COUNTS, LAUNCHES = 160, (40, 168), 5
WARPS = (1, 8, 12, 16, 24, 32)
LIVE = range(12, 48)  # so that the template has 64 registers, and 32 warps find room
RUNS, BEGIN, LAST = 58, 59, 57  # registers for the loop count and the clock before; the last that a loop may use
COUNTER = 10  # the uniform register of the loop's counter
KNOWN = {"HMMA", "IMMA", "UIADD3", "ISETP", "NOP", "BRA", "MOV", "IMAD"}


class Room:
    """Where the code goes in the template, and the instructions that it needs.

    Attributes:
        raw: the cubin.
        offset, slots: where the code begins, and how many instructions it can have.
        begin, end: the registers from which the template stores the clocks before and behind the code.
    """

    def __init__(self, cubin: Path, nvdisasm: str) -> None:
        lines = [x for x in sass.listings(cubin, nvdisasm)["template"] if isinstance(x, sass.Instruction)]
        begin = next(i for i, x in enumerate(lines) if x.opcode.startswith("BAR")) + 1
        over = next(i for i, x in enumerate(lines) if i > begin and x.text.startswith("VIADD"))
        inside = lines[begin + 1 : over]
        self.raw, self.slots = bytearray(cubin.read_bytes()), len(inside)
        self.offset = self.raw.index(machine_code(map(halves, inside)))
        stored = [int(n) for x in lines for n in re.findall(r"STG\S* .*\], R(\d+)", x.text)][:4]
        self.end, self.begin = stored[1], stored[3]
        self.clock, self.add, self.jump = halves(lines[begin]), halves(lines[over]), halves(_first(lines, "BRA"))

    def number(self, register: int, number: int) -> Word:
        """Sets a register to a number; its place in the code is where `run` writes loop counts."""
        return self.add[0] & 0xFFFF | register << 16 | 255 << 24 | number << 32, control(self.add[1], 15, yields=True)

    def now(self, register: int) -> Word:
        """Reads the clock. What stands behind a barrier may issue before the barrier holds its warp; so the run begins
        with the last warp that does."""
        return _to(self.clock[0], register), control(self.clock[1], 15, yields=True)

    def code(self, body: list[sass.Instruction], reset: Word) -> bytes:
        """The loop, with its counter in a register of the uniform datapath that nothing else uses."""
        words = [self.number(RUNS, 0), (_to(reset[0], COUNTER), control(reset[1], 15, yields=True)), self.now(BEGIN)]
        return machine_code(self.ended([*words, *self.loop(body)]))

    def ended(self, words: list[Word]) -> list[Word]:
        """The code with its end: the clock, and a branch to where the template goes on."""
        move = self.number(self.begin, 0)
        words = [*words, self.now(self.end), (move[0] & ~(0xFF << 24) | BEGIN << 24, move[1])]
        assert len(words) < self.slots, f"{len(words)} instructions, room for {self.slots}"
        low, high = machine_code_patch.branch(self.jump, self.slots - len(words) - 1)
        return [*words, (guarded(low), high)]

    def back(self, x: sass.Instruction, over: int) -> Word:
        """A loop's branch over so many instructions, less than none, by the predicate of the template's branch."""
        low, high = machine_code_patch.branch((guarded(self.jump[0], 1), self.jump[1]), over)
        return low, control(high, x.stall, x.yields)

    def loop(self, body: list[sass.Instruction]) -> list[Word]:
        words: list[Word] = []
        for x in body:
            lower, upper = x.lower, waits(x)
            name = x.opcode.split(".")[0]
            if name == "UIADD3":
                lower = _to(lower, COUNTER) & ~(0xFF << 24) | COUNTER << 24
            elif name == "ISETP":
                lower = lower & ~(0xFF << 24) & ~(0x3F << 32) | RUNS << 24 | COUNTER << 32
                upper = into_branch(upper)
            elif name == "BRA":
                lower, upper = self.back(x, -len(words) - 1)
            words.append((lower, upper))
        return words


def waits(x: sass.Instruction) -> int:
    """The upper half with wait, hint and `.reuse`, without scoreboards."""
    return control(x.upper, x.stall, x.yields) | x.upper & 15 << 58


def into_branch(upper: int) -> int:
    """The upper half of a comparison into the predicate of the template's branch."""
    return upper & ~(7 << 17) | 1 << 17


def _to(lower: int, register: int) -> int:
    """The lower half of an instruction that writes another register."""
    return lower & ~(0xFF << 16) | register << 16


def _first(lines: list[sass.Instruction], name: str) -> sass.Instruction:
    return next(x for x in lines if x.opcode.split(".")[0] == name)


def fits(body: list[sass.Instruction]) -> bool:
    """Whether the template has room for a loop, and it counts as expected."""
    names = [x.opcode.split(".")[0] for x in body]
    highest = max(int(n) for x in body for n in re.findall(r"\bR(\d+)", x.text))
    return set(names) <= KNOWN and names.count("UIADD3") == names.count("ISETP") == 1 and highest <= LAST


def build(folder: Path, ptxas: str, nvdisasm: str) -> None:
    source, cubin = folder / "loops_behind_barrier_template.ptx", folder / "loops_behind_barrier_template.cubin"
    source.write_text(template(4, LIVE, SLOTS))
    subprocess.run([ptxas, "-arch=sm_90a", "-o", str(cubin), str(source)], check=True)
    room, loops, left = Room(cubin, nvdisasm), {}, []
    for group in mixed.RANDOM:
        for name, lines in sass.listings(folder / f"{group}.cubin", nvdisasm).items():
            body = sass.loops(lines)[0]
            resets = [
                halves(x) for x in lines if isinstance(x, sass.Instruction) and x.text.startswith("UMOV UR4, URZ")
            ]
            if fits(body) and resets:
                loops[name] = room.code(body, resets[0]).hex()
            else:
                left.append(name)
    data = {"offset": room.offset, "loops": loops, "left": left}
    cubin.write_bytes(room.raw)
    (folder / "loops_behind_barrier.json").write_text(json.dumps(data))
    print(len(loops), "loops; left out:", *left)


def measured(
    device: Any, cubin: Path, data: dict[str, Any], codes: dict[str, str], warps: Iterable[int], counts: tuple[int, int]
) -> Iterator[tuple[str, int, float, int]]:
    """Of each code, the first word of which sets the loop count, and for each number of warps: its name, the warps, the
    cycles of an iteration, and by how many the slowest launch of the larger count took longer than the best."""
    cupy, template = device.cupy, cubin.read_bytes()
    source, target = cupy.zeros(1 << 18, dtype=cupy.uint32), cupy.zeros(1 << 16, dtype=cupy.uint32)

    def cycles(kernel: Any, number: int) -> int:
        kernel((1,), (32 * number,), (target, source))
        clocks = cupy.asnumpy(target)[: 256 * number].reshape(-1, 256)[:, :4].astype("uint32")
        return int((clocks[:, 1] - clocks[:, 3].max()).max())

    for name, code in codes.items():
        kernels = []
        for count in counts:
            raw = bytearray(bytes.fromhex(code))
            raw[4:8] = struct.pack("<I", count)
            module = cupy.cuda.function.Module()
            module.load(replaced(template, bytes(raw), data))
            kernels.append(module.get_function("template"))
        for number in warps:
            few, many = ([cycles(kernel, number) for _ in range(LAUNCHES)] for kernel in kernels)
            iteration = (min(many) - min(few)) / (counts[1] - counts[0])
            yield name, number, round(iteration, 3), max(many) - min(many)


def write(path: Path, note: str, counts: tuple[int, int], columns: list[str], rows: list[list[Any]]) -> None:
    """Writes results; `note`: the GPU and the date."""
    with path.open("w", newline="") as file:
        file.write(f"# {note}; best of {LAUNCHES} launches, loop counts {counts[0]} and {counts[1]}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    print(len(rows), "rows")


def run(folder: Path, results: Path, date: str) -> None:
    import measure_loops

    device, data = measure_loops.Device(), json.loads((folder / "loops_behind_barrier.json").read_text())
    rows = [
        list(row)
        for row in measured(device, folder / "loops_behind_barrier_template.cubin", data, data["loops"], WARPS, COUNTS)
    ]
    columns = ["program", "warps", "cycles_per_iteration", "slowest_minus_best"]
    write(results / "abreast.csv", f"{device.name}, {date}", COUNTS, columns, rows)


if __name__ == "__main__":
    command(__doc__, build, run, ("ptxas", "nvdisasm"))
