"""What an iteration takes of loops of emulated matrix instructions behind a known start.

    python started.py build [--build DIR] [--ptxas PTXAS] [--nvdisasm NVDISASM]   the cubin and its loops; no GPU
    python started.py run   [--build DIR] [--results DIR] [--date D]              results/started.json.gz; needs cupy

`build` needs the root of the repository in PYTHONPATH. The loops are those of `measure.py`, behind a barrier as in
`stepped.py`: it is known how far apart warps begin, how many instructions each has issued before, and in which order
the sub-cores have used shared memory and returned from a routine (`stepped.in_order`).

In the results, of each loop: `forms`, `code` and `loop` as in `stepped.py`; and `cycles`, by number of warps: those of
an iteration, the difference of two runs; for each warp when it begins; and by how much three launches differ, of which
the fastest is kept. Of the loops `CLOCKED`, on eight warps, also `clocks` as in `stepped.py`, in the places of copies
of registers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import programs as p
import sass
import stepped
from patched import command

WARPS = (5, 8, 12, 16, 24, 28)
COUNTS = (8, 72)
CLOCKED, CLOCKED_ON = ("mma_spo_m16n8k64_s32_s4_s4_c2_none",), 8  # here matrix instructions wait for returns
ITERATIONS = (1, 2, 3)  # in which clocks are read
LAUNCHES = 3
REGISTERS = 65536  # of an SM
NUMBER_OF_REGISTERS = 4  # what the driver calls that of a kernel


def wanted() -> list[p.Program]:
    return [x for x in p.all_programs() if x.labels.get("emulated")]


def build(folder: Path, ptxas: str, nvdisasm: str) -> None:
    cubin = folder / "started.cubin"
    raw = stepped.assembled(cubin, stepped.module(wanted(), stepped.in_order), ptxas, len(wanted()))
    listings = sass.listings(cubin, nvdisasm)
    words, loops, clocked, larger = stepped.words_of(listings), [], [], bytearray(raw)
    for program in wanted():
        loop = stepped.Loop(program.name, raw, listings[program.name], *words)
        rows, first, addresses = loop.rows()
        loops.append(stepped.described(loop, rows, first, []))
        if program.name in CLOCKED:
            places = [i for i in loop.places() if stepped.COPY.fullmatch(loop.code[i].text)]
            clocked.append({**loops[-1], "codes": [(addresses.index(at), loop.words(at)) for at in places]})
            stepped.registers(larger, program.name)
    (folder / "clocked.cubin").write_bytes(larger)
    (folder / "clocked.json").write_text(json.dumps(clocked))
    (folder / "started.json").write_text(json.dumps(loops))


def run(folder: Path, results: Path, date: str) -> None:
    bench, programs, rows = stepped.Bench(folder, "started"), {x.name: x for x in wanted()}, []
    clocked = stepped.Bench(folder, "clocked")
    codes = {loop["name"]: loop["codes"] for loop in clocked.loops}
    for loop in bench.loops:
        memory, kernel = bench.memory(programs[loop["name"]]), bench.kernel(loop)
        registers = bench.device.cupy.cuda.driver.funcGetAttribute(NUMBER_OF_REGISTERS, kernel.ptr)
        threads, cycles = REGISTERS // ((registers + 7) // 8 * 8), {}
        for warps in (warps for warps in WARPS if bench.threads(warps) <= threads):
            found = [bench.iteration(kernel, memory, warps, COUNTS) for _ in range(LAUNCHES)]
            spread = max(each for each, _ in found) - min(each for each, _ in found)
            cycles[warps] = [*min(found), spread]
        clocks: list[list[Any]] = []
        for row, words in codes.get(loop["name"], []):
            kernel = clocked.kernel(loop, words)
            clocks += ([row, count, *clocked.times(kernel, memory, CLOCKED_ON, count)] for count in ITERATIONS)
        rows.append({**loop, "clocks": clocks, "cycles": cycles})
    bench.write(results, date, rows)


if __name__ == "__main__":
    command(__doc__, build, run, ("ptxas", "nvdisasm"))
