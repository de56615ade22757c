"""What an iteration takes of loops of emulated matrix instructions behind a known start.

    python measure_known_starts.py build  # the cubin and its loops; no GPU
    python measure_known_starts.py run    # results/known_starts.json.gz; needs cupy

`build` needs the root of the repository in PYTHONPATH. The loops are those of `measure_loops.py`, behind a barrier at
which their warps wait while another warp of each sub-core issues NOPs: whenever its count comes to 15 those of all are
halved, to 0 in the end. Ten NOPs later a warp reads the clock, and the loop begins. All that happens twice, and the
second time is kept. So it is known how far apart warps begin, how many instructions each has issued before, and in
which order the sub-cores have used shared memory and returned from a routine (`in_order`).

In the results, of each loop: `forms` of its matrix instructions; `code`, rows as in machine_code.py from the first
clock on (kinds `clock` and `nothing` for what that leaves out there), of which the loop begins with number `loop`; and
`cycles`, by number of warps: those of an iteration, the difference of two runs; for each warp when it begins; and by
how much three launches differ, of which the fastest is kept.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import programs as p
import sass
from all_programs import all_programs
from machine_code_patch import command, control, halves, machine_code

WARPS = (5, 8, 12, 16, 24, 28)
COUNTS = (8, 72)
LAUNCHES = 3
REGISTERS = 65536  # of an SM
NUMBER_OF_REGISTERS = 4  # what the driver calls that of a kernel
EVENT, NOP = 0x100007801, 0x7918  # lower halves of `pmevent 0` and of a NOP
PAUSE, ISSUED, LOOPS, ROUNDS = 10, 6, 32, 2  # NOPs before the clock, and in the loop of other warps, and its iterations
SUB_CORES = 4
APART = 8  # loops by which the warp of a sub-core ends later than that of the one before, where their order is known


def beside(number: int, loops: str, last: str) -> str:
    """What warps do in a round that are not measured: some issue NOPs, in so many loops, and do something at last,
    while all others wait."""
    return f"""
    bar.sync 0;
    @!%issues bra.uni QUIET{number};
    mov.u32 %i, 0;
ISSUE{number}:
    .pragma "nounroll";
    {"pmevent 0; " * ISSUED}
    add.u32 %i, %i, 1; setp.lt.u32 %hit, %i, {loops}; @%hit bra.uni ISSUE{number};
    {last}
QUIET{number}:
    bar.sync 0;"""


def around(others: str) -> p.Around:
    """What a kernel has around its loop; `others`: what the warps do that are not measured."""
    return p.Around(
        parameters=", .param .u32 p_warps",
        registers=".reg .pred %measured, %issues; .reg .b32 %round, %ours;",
        before=f"""
    ld.param.u32 %ours, [p_warps]; setp.lt.u32 %measured, %warp, %ours;
    shr.u32 %threads, %threads, 5; sub.u32 %threads, %threads, {SUB_CORES}; setp.ge.u32 %issues, %warp, %threads;
    @%measured bra.uni MEASURED;
    {others}
    ret;
MEASURED:
    mov.u32 %round, 0;
ROUND:
    bar.sync 0;
    bar.sync 0;
    {"pmevent 0; " * PAUSE}""",
        behind=f"""
    add.u32 %round, %round, 1; setp.lt.u32 %hit, %round, {ROUNDS}; @%hit bra.uni ROUND;""",
    )


def in_order(program: p.Program) -> p.Around:
    """A known start before which each sub-core has loaded from shared memory and, where ptxas writes calls for the
    program's matrix instructions, returned from one, in the order of the sub-cores: so it is known whose last access,
    and return, is how old. The warps that do so end with it, lest they issue beside those that are measured."""
    last = "ld.volatile.shared.b32 %i, [memory]; setp.eq.u32 %hit, %i, 0x12345679;"
    if program.labels.get("emulated") and re.search("_[su]4_", program.name):
        statement = program.parts[0].body[0]
        result = re.findall(r"%r\d+", statement)[0]
        last += f"{statement} setp.eq.or.u32 %hit, {result}, 0x12345679, %hit;"
    last += "@%hit st.volatile.global.b32 [%sink], %i;"
    before = f"and.b32 %round, %warp, 3; mad.lo.u32 %round, %round, {APART}, {LOOPS};"
    return around(before + "".join(beside(n, "%round", last + " ret;" * (n == ROUNDS - 1)) for n in range(ROUNDS)))


def module(programs: Iterable[p.Program]) -> str:
    """The PTX of kernels that each have a start of their own around the loop."""
    return p.HEADER + "\n".join(p.ptx_kernel(program, in_order(program)) for program in programs) + "\n"


def paused(raw: bytes, kernels: int) -> bytes:
    """The cubin with NOPs of 15 cycles in the place of events."""
    event, nop = EVENT.to_bytes(8, "little"), machine_code([(NOP, control(0, 15, yields=True))])
    words = [raw[at : at + 16] for at in range(0, len(raw), 16)]
    assert sum(word[:8] == event for word in words) == kernels * (PAUSE + ROUNDS * ISSUED)
    return b"".join(nop if word[:8] == event else word for word in words)


def assembled(cubin: Path, text: str, ptxas: str, kernels: int) -> bytes:
    """Writes the PTX of so many kernels beside their cubin, and that with NOPs in the place of events."""
    source = cubin.with_suffix(".ptx")
    cubin.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(text)
    subprocess.run([ptxas, "-arch=sm_90a", "-o", str(cubin), str(source)], check=True, capture_output=True)
    raw = paused(cubin.read_bytes(), kernels)
    cubin.write_bytes(raw)
    return raw


class Loop:
    """A loop in the cubin.

    Attributes:
        code: the kernel's instructions; of these `start` reads the first clock and `stop` the last, the loop goes from
            `first` to `last`.
        routine: those of the routine that it calls, if it calls one.
        body: those of the loop, with the routine in the place of each call.
        offset: where the kernel's machine code is.
    """

    def __init__(self, name: str, raw: bytes, lines: list[sass.Instruction | str]) -> None:
        self.name = name
        self.code = [x for x in lines if isinstance(x, sass.Instruction)]
        self.start, self.stop = (i for i, x in enumerate(self.code) if "SR_CLOCK" in x.text)
        (loop,) = sass.loops(lines[lines.index(self.code[self.start]) : lines.index(self.code[self.stop])])[:1]
        self.first, self.last = (next(i for i, x in enumerate(self.code) if x is loop[at]) for at in (0, -1))
        self.offset = raw.index(machine_code(map(halves, self.code)))
        begin = 1 + max(i for i, x in enumerate(self.code) if x.opcode == "EXIT")
        end = next((i for i in range(begin, len(self.code)) if self.code[i].opcode.startswith("RET")), begin - 1)
        self.routine = list(range(begin, end + 1))
        self.body = list[int]()
        for i in range(self.first, self.last + 1):
            self.body += [i, *self.routine] if self.code[i].opcode.startswith("CALL") else [i]

    def rows(self) -> tuple[list[list[Any]], int]:
        """Rows from the first clock on, and how many are in front of the loop."""
        from measurements import machine_code as ours

        head = list[list[Any]]()
        for i in range(self.start, self.first):
            x = self.code[i]
            if i > self.start and ours.kind_of(x):
                break
            head.append(["nothing" if head else "clock", x.cycles, [], [], [int(x.yields)], [], [], i])
        parts = [range(self.start + len(head), self.first), self.body]
        made = [ours.rows([(self.code[i], i) for i in part]) if part else [] for part in parts]
        for rows in made:
            for before, row in pairwise(rows):
                row[-1] += before[-1]
        return [*head, *made[0], *made[1]], len(head) + len(made[0])


def described(loop: Loop) -> dict[str, Any]:
    """What `run` needs of a loop: its rows, and the number of that with which it begins."""
    rows, first = loop.rows()
    forms = list(dict.fromkeys(row[0] for row in rows if row[0].startswith("mma")))
    for row in rows:
        row[0] = forms.index(row[0]) if row[0] in forms else row[0]
    print(loop.name, len(rows), "rows")
    return {"name": loop.name, "forms": forms, "code": rows, "loop": first, "offset": loop.offset}


class Bench:
    """The GPU, and the loops of a cubin that `build` has written.

    Attributes:
        loops: what is known of each.
    """

    def __init__(self, folder: Path, name: str) -> None:
        import measure_loops

        self.device, self.name = measure_loops.Device(), name
        self.cubin = (folder / f"{name}.cubin").read_bytes()
        self.loops: list[dict[str, Any]] = json.loads((folder / f"{name}.json").read_text())
        self.base = int(json.loads((Path(__file__).parent / "results" / "device.json").read_text())["shared_base"])

    def kernel(self, loop: dict[str, Any]) -> Any:
        """A loop's kernel."""
        module = self.device.cupy.cuda.function.Module()
        module.load(self.cubin)
        return module.get_function(loop["name"])

    def memory(self, program: p.Program) -> list[Any]:
        """What a kernel's registers and shared memory hold before it."""
        found = p.register_table(program, self.base), p.image(program.image, self.base)
        return [self.device.cupy.asarray(each) for each in found]

    def times(self, kernel: Any, memory: list[Any], warps: int, count: int) -> tuple[list[int], list[int]]:
        """When each warp has read its first clock, and the other, in cycles since the first has begun."""
        import numpy as np

        number, clocks, threads = self.device.cupy.uint32, self.device.clocks, self.threads(warps)
        for _ in range(2):  # the first launch fetches the code
            kernel((1,), (threads,), (*memory, self.device.sink, *clocks, number(count), number(warps)))
            begun, read = self.device.cupy.asnumpy(clocks)[:, :warps].astype(np.int64) & 0xFFFFFFFF
        first = begun.min()
        return (begun - first).tolist(), ((read - first) & 0xFFFFFFFF).tolist()

    def threads(self, warps: int) -> int:
        """How many threads a launch has in which so many warps are measured."""
        return 32 * (-(-warps // SUB_CORES) + 1) * SUB_CORES

    def iteration(self, kernel: Any, memory: list[Any], warps: int, counts: tuple[int, int]) -> tuple[float, list[int]]:
        """The cycles of an iteration, from two runs, and when each warp begins in the longer one."""
        few, many = (self.times(kernel, memory, warps, count) for count in counts)
        return (max(many[1]) - max(few[1])) / (counts[1] - counts[0]), many[0]

    def write(self, results: Path, date: str, rows: list[dict[str, Any]]) -> None:
        """Writes what has been measured of each loop, without what only `run` needs."""
        kept = [{key: value for key, value in row.items() if key != "offset"} for row in rows]
        head = json.dumps({"gpu": self.device.name, "date": date})[:-1]
        lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in kept)
        text = f'{head}, "loops": [\n{lines}\n]}}\n'
        (results / f"{self.name}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        print(len(rows), "loops")


def wanted() -> list[p.Program]:
    return [x for x in all_programs() if x.labels.get("emulated")]


def build(folder: Path, ptxas: str, nvdisasm: str) -> None:
    """Writes the cubin of all loops, and what `run` needs of each."""
    cubin = folder / "known_starts.cubin"
    raw = assembled(cubin, module(wanted()), ptxas, len(wanted()))
    listings = sass.listings(cubin, nvdisasm)
    loops = [described(Loop(program.name, raw, listings[program.name])) for program in wanted()]
    (folder / "known_starts.json").write_text(json.dumps(loops))


def run(folder: Path, results: Path, date: str) -> None:
    bench = Bench(folder, "known_starts")
    bench.write(results, date, [{**loop, "cycles": cycles} for loop, cycles in measured(bench)])


def measured(bench: Bench) -> Iterator[tuple[dict[str, Any], dict[int, list[Any]]]]:
    """Each loop of a cubin, and its cycles by number of warps."""
    programs = {x.name: x for x in wanted()}
    for loop in bench.loops:
        memory, kernel = bench.memory(programs[loop["name"]]), bench.kernel(loop)
        registers = bench.device.cupy.cuda.driver.funcGetAttribute(NUMBER_OF_REGISTERS, kernel.ptr)
        threads, cycles = REGISTERS // ((registers + 7) // 8 * 8), {}
        for warps in (warps for warps in WARPS if bench.threads(warps) <= threads):
            found = [bench.iteration(kernel, memory, warps, COUNTS) for _ in range(LAUNCHES)]
            spread = max(each for each, _ in found) - min(each for each, _ in found)
            cycles[warps] = [*min(found), spread]
        yield loop, cycles


if __name__ == "__main__":
    command(__doc__, build, run, ("ptxas", "nvdisasm"))
