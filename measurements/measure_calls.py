"""A clock in the place of each instruction of a routine, in turn, and of the loop that calls it: emulated 4-bit forms.

    python measure_calls.py build  # the cubin and its codes; no GPU
    python measure_calls.py run    # results/calls.json.gz; needs cupy

`build` needs the root of the repository in PYTHONPATH. The loops are those of `measure_loops.py` behind a known start,
as in `measure_loop_clocks.py`; each calls one routine several times in an iteration. A clock in the routine is read in
every call, and the loop saves what has been read in one of them, in the place of its next copy of a register.

In the results, of each loop: `forms`, `code`, `loop` and `clocks` as in `measure_loop_clocks.py`, with the routine in
the place of each call, for one iteration; `cycles`, by number of warps: those of an iteration, the difference of two
runs, and, for each of these warps, when it begins."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import measure_loop_clocks as stepped
import programs as p
import sass
from machine_code_patch import MARK, Word, command

SPARE = 10  # registers that a kernel keeps for clocks
STEP = 5  # of how many instructions of a routine one has a clock in its place, but for the first few
FIRST = 6
WARPS = (5, 8, 12, 16, 24)
COUNTS = (8, 72)
LEFT = ("HMMA", "IMMA", "NOP", "CALL", "RET", "BRA", "MOV", "VIADD", "IADD3", "ISETP", "PLOP3")  # no clock there
PLACES = [f"%dd{i}" for i in range(SPARE)]


def around(program: p.Program) -> p.Around:
    """A known start, and registers in which clocks are kept."""
    known = stepped.in_order(program)
    loads = "".join(f"ld.volatile.global.b32 {x}, [%in+{128 * i}];" for i, x in enumerate(PLACES))
    stores = "".join(
        f"setp.eq.u32 %hit, {x}, {i + 1}; @%hit st.volatile.global.b32 [%sink], {x};" for i, x in enumerate(PLACES)
    )
    return replace(
        known,
        registers=f"{known.registers} .reg .b32 %dd<{SPARE}>;",
        before=loads + known.before,
        behind=known.behind + stores,
    )


def wanted() -> list[p.Program]:
    return [x for x in p.all_programs() if x.group == "mma" and x.labels["emulated"] and re.search("_[su]4_", x.name)]


class Loop(stepped.Loop):
    """A loop that calls a routine.

    Attributes:
        spare: registers that nothing else uses: the clock is read into the first, and saved in the third.
        copies: behind each call the copy of a register whose place a saved clock can take; None where there is none.
    """

    def __init__(self, name: str, raw: bytes, lines: list[sass.Instruction | str], clock: Word, move: Word) -> None:
        super().__init__(name, raw, lines, clock, move)
        loaded = [re.match(r"LDG\.E\.STRONG\.SYS R(\d+),", x.text) for x in self.code[: self.start]]
        kept = sorted(int(found[1]) for found in loaded if found)
        pair = next(r for r in kept if not r % 2 and r + 1 in kept)
        self.spare = [pair, pair + 1, next(r for r in kept if r not in (pair, pair + 1))]
        calls = [i for i in range(self.first, self.last) if self.code[i].opcode.startswith("CALL")]
        self.copies = [
            next((i for i in range(one + 1, other) if stepped.COPY.fullmatch(self.code[i].text)), None)
            for one, other in pairwise([*calls, self.last])
        ]

    def places(self) -> list[int]:
        free = [x for x in self.routine if not self.code[x].opcode.startswith(LEFT) and not self.returns(self.code[x])]
        found = [x for number, x in enumerate(free) if number < FIRST or number % STEP == 0]
        return [*(x for x in range(self.first, self.last) if stepped.COPY.fullmatch(self.code[x].text)), *found]

    def returns(self, x: sass.Instruction) -> bool:
        """Whether an instruction writes a register that the routine returns by."""
        by = int(re.findall(r"R(\d+)", self.code[self.routine[-1]].text)[0])
        written = re.findall(r"R(\d+)", x.text.split(x.opcode, 1)[1].split(",")[0])
        return any(int(r) in (by, by + 1) for r in written)

    def copied(self, place: int, written: int, read: int) -> tuple[int, Word]:
        """A copy of a register in the place of an instruction."""
        low, high = self.move
        upper = high & ~0xFF & ~MARK | read | self.code[place].upper & MARK
        return place, (low & ~(0xFF << 16) | written << 16, upper)

    def codes(self) -> Iterator[tuple[int, list[tuple[int, Word]]]]:
        """Where in the body a clock is, and what differs with it."""
        clock, _, saved = self.spare
        target = int(re.findall(r"R(\d+)", self.code[self.stop].text)[0])
        for place in self.places():
            low, high = self.clock
            word = low & ~(0xFF << 16) | clock << 16, high & ~MARK | self.code[place].upper & MARK & ~(0xF << 58)
            rows = [row for row, i in enumerate(self.body) if i == place]
            for row, copy in zip(rows, self.copies, strict=False):
                if place not in self.routine or (copy is None and row == rows[-1]):
                    yield row, [(place, word), self.copied(self.stop, target, clock)]
                elif copy is not None:
                    yield row, [(place, word), self.copied(copy, saved, clock), self.copied(self.stop, target, saved)]

    def rows(self) -> tuple[list[list[Any]], int, list[int]]:
        from measurements import machine_code as ours

        head = list[list[Any]]()
        for i in range(self.start, self.first):
            x = self.code[i]
            assert i == self.start or not ours.kind_of(x) or x.opcode.startswith(("IMAD.MOV", "MOV")), x
            head.append(["nothing" if head else "clock", x.cycles, [], [], [int(x.yields)], [], [], i])
        rows = ours.rows([(self.code[i], i) for i in self.body])
        for before, row in pairwise(rows):
            row[-1] += before[-1]
        every = [*head, *rows]
        return every, len(head), [row[-1] for row in every]


def build(folder: Path, ptxas: str, nvdisasm: str) -> None:
    cubin = folder / "calls.cubin"
    raw = stepped.assembled(cubin, stepped.module(wanted(), around), ptxas, len(wanted()))
    listings = sass.listings(cubin, nvdisasm)
    loops = []
    for program in wanted():
        try:
            loop = Loop(program.name, raw, listings[program.name], *stepped.words_of(listings))
        except StopIteration:
            print(program.name, "is left out: it keeps no pair of registers")
            continue
        rows, first, addresses = loop.rows()
        codes = []
        for place, words in loop.codes():
            address = loop.body[place]
            kept = [i for i, x in enumerate(addresses) if i >= first and x == address]
            if kept:
                codes.append((kept[loop.body[:place].count(address)], words))
        loops.append(stepped.described(loop, rows, first, codes))
    (folder / "calls.json").write_text(json.dumps(loops))


def run(folder: Path, results: Path, date: str) -> None:
    bench, programs, rows = stepped.Bench(folder, "calls"), {x.name: x for x in wanted()}, []
    for loop in bench.loops:
        memory, plain = bench.memory(programs[loop["name"]]), bench.kernel(loop)
        clocks = [
            [row, 1, *bench.times(bench.kernel(loop, words), memory, stepped.WARPS, 1)] for row, words in loop["codes"]
        ]
        cycles = {warps: bench.iteration(plain, memory, warps, COUNTS) for warps in WARPS}
        rows.append({**loop, "clocks": clocks, "cycles": cycles})
    bench.write(results, date, rows)


if __name__ == "__main__":
    command(__doc__, build, run, ("ptxas", "nvdisasm"))
