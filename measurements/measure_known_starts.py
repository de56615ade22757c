"""What an iteration takes of loops of emulated matrix instructions behind a known start.

    python measure_known_starts.py build  # the cubin and its loops; no GPU
    python measure_known_starts.py run    # results/known_starts.json.gz and moved; needs cupy

`build` needs the root of the repository in PYTHONPATH. The loops are those of `measure_loops.py`, behind a barrier as
in `measure_loop_clocks.py`: it is known how far apart warps begin, how many instructions each has issued before, and in
which order the sub-cores have used shared memory and returned from a routine (`stepped.in_order`).

In the results, of each loop: `forms`, `code` and `loop` as in `measure_loop_clocks.py`; and `cycles`, by number of
warps: those of an iteration, the difference of two runs; for each warp when it begins; and by how much three launches
differ, of which the fastest is kept. Of the loops `CLOCKED`, on eight warps, also `clocks` as in
`measure_loop_clocks.py`, in the places of copies of registers.

`moved_loops.json.gz` has `cycles` of the same loops `moved` by some instructions in memory: where what is in front of
them takes the address that it loads from out of a register, ptxas needs fewer. Loops whose own code differs then are
left out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import measure_loop_clocks as stepped
import programs as p
import sass
from machine_code_patch import command

WARPS = (5, 8, 12, 16, 24, 28)
COUNTS = (8, 72)
CLOCKED, CLOCKED_ON = ("mma_spo_m16n8k64_s32_s4_s4_c2_none",), 8  # here matrix instructions wait for returns
ITERATIONS = (1, 2, 3)  # in which clocks are read
LAUNCHES = 3
REGISTERS = 65536  # of an SM
NUMBER_OF_REGISTERS = 4  # what the driver calls that of a kernel

Around = Callable[[p.Program], p.Around]


def wanted() -> list[p.Program]:
    return [x for x in p.all_programs() if x.labels.get("emulated")]


def build(folder: Path, ptxas: str, nvdisasm: str) -> None:
    build_started(folder, ptxas, nvdisasm)
    build_moved(folder, ptxas, nvdisasm)


def built(cubin: Path, around: Around, ptxas: str, nvdisasm: str) -> Iterator[tuple[stepped.Loop, dict[str, Any]]]:
    """Writes a cubin of all loops; each of them, and what `run` needs of it."""
    raw = stepped.assembled(cubin, stepped.module(wanted(), around), ptxas, len(wanted()))
    listings = sass.listings(cubin, nvdisasm)
    words = stepped.words_of(listings)
    for program in wanted():
        loop = stepped.Loop(program.name, raw, listings[program.name], *words)
        rows, first, _ = loop.rows()
        yield loop, stepped.described(loop, rows, first, [])


def build_started(folder: Path, ptxas: str, nvdisasm: str) -> None:
    """The cubin of the loops, and that with clocks in some."""
    cubin = folder / "known_starts.cubin"
    loops, clocked = list[dict[str, Any]](), list[dict[str, Any]]()
    for loop, described in built(cubin, stepped.in_order, ptxas, nvdisasm):
        loops.append(described)
        if loop.name in CLOCKED:
            addresses = [row[-1] for row in described["code"]]
            places = [i for i in loop.places() if stepped.COPY.fullmatch(loop.code[i].text)]
            clocked.append({**described, "codes": [(addresses.index(at), loop.words(at)) for at in places]})
    larger = bytearray(cubin.read_bytes())
    for name in CLOCKED:
        stepped.registers(larger, name)
    (folder / "clocked.cubin").write_bytes(larger)
    (folder / "clocked.json").write_text(json.dumps(clocked))
    (folder / "known_starts.json").write_text(json.dumps(loops))


def build_moved(folder: Path, ptxas: str, nvdisasm: str) -> None:
    """The cubin of the loops at other addresses, and by how many instructions each has moved."""
    loops, known = list[dict[str, Any]](), json.loads((folder / "known_starts.json").read_text())
    around = partial(stepped.in_order, address="%base")
    for (_, loop), before in zip(built(folder / "moved_loops.cubin", around, ptxas, nvdisasm), known, strict=True):
        moved = loop["code"][0][-1] - before["code"][0][-1]
        if [[*row[:-1], row[-1] - moved] for row in loop["code"]] == before["code"]:
            loops.append({**loop, "moved": moved})
        else:
            print(loop["name"], "is left out: its code is another one")
    (folder / "moved_loops.json").write_text(json.dumps(loops))


def run(folder: Path, results: Path, date: str) -> None:
    bench, rows = stepped.Bench(folder, "known_starts"), []
    clocked = stepped.Bench(folder, "clocked")
    codes = {loop["name"]: loop["codes"] for loop in clocked.loops}
    for loop, memory, cycles in measured(bench):
        clocks: list[list[Any]] = []
        for row, words in codes.get(loop["name"], []):
            kernel = clocked.kernel(loop, words)
            clocks += ([row, count, *clocked.times(kernel, memory, CLOCKED_ON, count)] for count in ITERATIONS)
        rows.append({**loop, "clocks": clocks, "cycles": cycles})
    bench.write(results, date, rows)
    bench = stepped.Bench(folder, "moved_loops")
    found = [(loop, cycles) for loop, _, cycles in measured(bench)]
    rows = [{"name": loop["name"], "moved": loop["moved"], "cycles": cycles} for loop, cycles in found]
    bench.write(results, date, rows)


def measured(bench: stepped.Bench) -> Iterator[tuple[dict[str, Any], list[Any], dict[int, list[Any]]]]:
    """Each loop of a cubin, what its kernel finds in memory, and its cycles by number of warps."""
    programs = {x.name: x for x in wanted()}
    for loop in bench.loops:
        memory, kernel = bench.memory(programs[loop["name"]]), bench.kernel(loop)
        registers = bench.device.cupy.cuda.driver.funcGetAttribute(NUMBER_OF_REGISTERS, kernel.ptr)
        threads, cycles = REGISTERS // ((registers + 7) // 8 * 8), {}
        for warps in (warps for warps in WARPS if bench.threads(warps) <= threads):
            found = [bench.iteration(kernel, memory, warps, COUNTS) for _ in range(LAUNCHES)]
            spread = max(each for each, _ in found) - min(each for each, _ in found)
            cycles[warps] = [*min(found), spread]
        yield loop, memory, cycles


if __name__ == "__main__":
    command(__doc__, build, run, ("ptxas", "nvdisasm"))
