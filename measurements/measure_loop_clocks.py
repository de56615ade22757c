"""A clock in the place of each instruction of a loop, in turn: emulated dense FP8 in two warps of a sub-core.

    python measure_loop_clocks.py build  # the cubin and its codes; no GPU
    python measure_loop_clocks.py run    # results/loop_clocks.json.gz; needs cupy

`build` needs the root of the repository in PYTHONPATH. The loops are those of `measure_loops.py`, behind a barrier at
which their warps wait while another warp of each sub-core issues NOPs: whenever its count comes to 15 those of all are
halved, to 0 in the end. Ten NOPs later a warp reads the clock, and the loop begins. All that happens twice, and the
second time is kept. So it is known how far apart warps begin and how many instructions each has issued before.

In the results, of each loop: `forms` of its matrix instructions; `code`, rows as in machine_code.py from the first
clock on (kinds `clock` and `nothing` for what that leaves out there), of which the loop begins with number `loop`;
`clocks`: [row, iterations, when each warp has read its first clock, when it has read the one in the place of the row
for the last time].
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import programs as p
import sass
from machine_code_patch import MARK, Word, command, control, halves, machine_code

EVENT, NOP = 0x100007801, 0x7918  # lower halves of `pmevent 0` and of a NOP
PAUSE, ISSUED, LOOPS, ROUNDS = 10, 6, 32, 2  # NOPs before the clock, and in the loop of other warps, and its iterations
SUB_CORES, WARPS = 4, 5
APART = 8  # loops by which the warp of a sub-core ends later than that of the one before, where their order is known
ITERATIONS = (1, 2, 3)
REGISTER, REGISTERS = 100, 104  # the one that a clock is read into, and how many a kernel then has
REGINFO = (0x2F04, ".nv.info")  # where a cubin has the number of a kernel's registers once more
COPY = re.compile(r"IMAD\.MOV\.U32 R(\d+), RZ, RZ, R\d+")
LEFT = ("HMMA", "NOP", "CS2R", "BAR", "BSSY", "BRA", "VIADD", "IADD3", "ISETP")  # no clock in their places
NAMES = [
    f"mma_mma_m16n8k{k}_{accumulator}_e4m3_e4m3_c{chains}_{new}"
    for k in (16, 32)
    for accumulator in ("f16", "f32")
    for chains in (1, 2, 4)
    for new in ("b", "all")
]


def beside(number: int, loops: str = str(LOOPS), last: str = "") -> str:
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


AROUND = around("".join(map(beside, range(ROUNDS))))


def in_order(program: p.Program, address: str = "memory") -> p.Around:
    """A known start before which each sub-core has loaded from shared memory and, where ptxas writes calls for the
    program's matrix instructions, returned from one, in the order of the sub-cores: so it is known whose last access,
    and return, is how old. The warps that do so end with it, lest they issue beside those that are measured.
    `address`: the register or variable with the address that they load from."""
    last = f"ld.volatile.shared.b32 %i, [{address}]; setp.eq.u32 %hit, %i, 0x12345679;"
    if program.labels.get("emulated") and re.search("_[su]4_", program.name):
        statement = program.parts[0].body[0]
        result = re.findall(r"%r\d+", statement)[0]
        last += f"{statement} setp.eq.or.u32 %hit, {result}, 0x12345679, %hit;"
    last += "@%hit st.volatile.global.b32 [%sink], %i;"
    before = f"and.b32 %round, %warp, 3; mad.lo.u32 %round, %round, {APART}, {LOOPS};"
    return around(before + "".join(beside(n, "%round", last + " ret;" * (n == ROUNDS - 1)) for n in range(ROUNDS)))


def module(programs: Iterable[p.Program], around: Callable[[p.Program], p.Around]) -> str:
    """The PTX of kernels that each have something of their own around the loop."""
    return p.HEADER + "\n".join(p.ptx_kernel(program, around(program)) for program in programs) + "\n"


def wanted() -> list[p.Program]:
    found = {x.name: x for x in p.all_programs()}
    return [found[name] for name in NAMES]


def paused(raw: bytes, kernels: int = len(NAMES)) -> bytes:
    """The cubin with NOPs of 15 cycles in the place of events."""
    event, nop = EVENT.to_bytes(8, "little"), machine_code([(NOP, control(0, 15, yields=True))])
    words = [raw[at : at + 16] for at in range(0, len(raw), 16)]
    assert sum(word[:8] == event for word in words) == kernels * (PAUSE + ROUNDS * ISSUED)
    return b"".join(nop if word[:8] == event else word for word in words)


def assembled(cubin: Path, text: str, ptxas: str, kernels: int = len(NAMES)) -> bytes:
    """Writes the PTX of so many kernels beside their cubin, and that with NOPs in the place of events."""
    source = cubin.with_suffix(".ptx")
    cubin.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(text)
    subprocess.run([ptxas, "-arch=sm_90a", "-o", str(cubin), str(source)], check=True, capture_output=True)
    raw = paused(cubin.read_bytes(), kernels)
    cubin.write_bytes(raw)
    return raw


class Loop:
    """A loop in the cubin, and the codes with a clock in it.

    Attributes:
        code: the kernel's instructions; of these `start` reads the first clock and `stop` the last, the loop goes from
            `first` to `last`.
        routine: those of the routine that it calls, if it calls one.
        body: those of the loop, with the routine in the place of each call.
        offset: where the kernel's machine code is.
    """

    def __init__(self, name: str, raw: bytes, lines: list[sass.Instruction | str], clock: Word, move: Word) -> None:
        self.name, self.clock, self.move = name, clock, move
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

    def places(self) -> list[int]:
        """The instructions of the loop that a clock can take the place of."""
        found = []
        for i in range(self.first, self.last):
            x = self.code[i]
            if x.written is None and x.freed is None and not x.opcode.startswith(LEFT):
                found.append(i)
        return found

    def words(self, place: int) -> list[tuple[int, Word]]:
        """What differs with a clock there: it reads it into a register, and the last clock gives that one's value."""
        low, high = self.clock
        clock = low & ~(0xFF << 16) | REGISTER << 16, high & ~MARK | self.code[place].upper & MARK & ~(0xF << 58)
        target = int(re.findall(r"R(\d+)", self.code[self.stop].text)[0])
        low, high = self.move
        move = low & ~(0xFF << 16) | target << 16, high & ~0xFF & ~MARK | REGISTER | self.code[self.stop].upper & MARK
        return [(place, clock), (self.stop, move)]

    def rows(self) -> tuple[list[list[Any]], int, list[int]]:
        """Rows from the first clock on, how many are in front of the loop, and the address of each."""
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
        every = [*head, *made[0], *made[1]]
        return every, len(head) + len(made[0]), [row[-1] for row in every]


def words_of(listings: dict[str, list[sass.Instruction | str]]) -> tuple[Word, Word]:
    """The words of a read of the clock and of a copy of a register."""
    every = [x for lines in listings.values() for x in lines if isinstance(x, sass.Instruction)]
    clock = next(halves(x) for x in every if re.match(r"CS2R(\.32)? R\d+, SR_CLOCKLO", x.text))
    return clock, next(halves(x) for x in every if COPY.fullmatch(x.text))


def described(loop: Loop, rows: list[list[Any]], first: int, codes: list[tuple[int, Any]]) -> dict[str, Any]:
    """What `run` needs of a loop: its rows, of which it begins with number `first`, and what differs in the codes with
    a clock in the place of a row."""
    forms = list(dict.fromkeys(row[0] for row in rows if row[0].startswith("mma")))
    for row in rows:
        row[0] = forms.index(row[0]) if row[0] in forms else row[0]
    print(loop.name, len(rows), "rows,", len(codes), "clocks")
    return {"name": loop.name, "forms": forms, "code": rows, "loop": first, "offset": loop.offset, "codes": codes}


def registers(raw: bytearray, name: str) -> None:
    """Gives a kernel of a cubin more registers: in the section of its code, and in the list of all kernels'."""
    at, size, count = (int.from_bytes(raw[i : i + n], "little") for i, n in ((0x28, 8), (0x3A, 2), (0x3C, 2)))
    heads = [at + size * number for number in range(count)]

    def number(place: int, length: int) -> int:
        return int.from_bytes(raw[place : place + length], "little")

    strings = number(heads[number(0x3E, 2)] + 24, 8)

    def title(head: int) -> str:
        begin = strings + number(head, 4)
        return raw[begin : raw.index(0, begin)].decode()

    (code,) = (head for head in heads if title(head) == f".text.{name}")
    symbol = number(code + 44, 4) & 0xFFFFFF
    raw[code + 44 : code + 48] = (symbol | REGISTERS << 24).to_bytes(4, "little")
    (listed,) = (head for head in heads if title(head) == REGINFO[1])
    place, end = (number(listed + 24, 8) + more for more in (0, number(listed + 32, 8)))
    while place < end:
        if number(place, 2) == REGINFO[0] and number(place + 4, 4) == symbol:
            raw[place + 8 : place + 12] = REGISTERS.to_bytes(4, "little")
        place += 4 + (number(place + 2, 2) if raw[place] == 4 else 0)


def build(folder: Path, ptxas: str, nvdisasm: str) -> None:
    cubin = folder / "loop_clocks.cubin"
    raw = bytearray(assembled(cubin, p.ptx_module(wanted(), AROUND), ptxas))
    listings = sass.listings(cubin, nvdisasm)
    loops = []
    for name in NAMES:
        loop = Loop(name, bytes(raw), listings[name], *words_of(listings))
        rows, first, addresses = loop.rows()
        loops.append(described(loop, rows, first, [(addresses.index(at), loop.words(at)) for at in loop.places()]))
        registers(raw, name)
    cubin.write_bytes(raw)
    (folder / "loop_clocks.json").write_text(json.dumps(loops))


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

    def kernel(self, loop: dict[str, Any], words: Iterable[tuple[int, Word]] = ()) -> Any:
        """A loop's kernel with other words in some places."""
        code = bytearray(self.cubin)
        for place, word in words:
            at = loop["offset"] + 16 * place
            code[at : at + 16] = machine_code([word])
        module = self.device.cupy.cuda.function.Module()
        module.load(bytes(code))
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
        kept = [{key: value for key, value in row.items() if key not in ("offset", "codes")} for row in rows]
        head = json.dumps({"gpu": self.device.name, "date": date})[:-1]
        lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in kept)
        text = f'{head}, "loops": [\n{lines}\n]}}\n'
        (results / f"{self.name}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        print(len(rows), "loops,", sum(len(row.get("clocks", ())) for row in rows), "clocks")


def run(folder: Path, results: Path, date: str) -> None:
    bench, programs, rows = Bench(folder, "loop_clocks"), {x.name: x for x in wanted()}, []
    for loop in bench.loops:
        memory, clocks = bench.memory(programs[loop["name"]]), []
        for row, words in loop["codes"]:
            kernel = bench.kernel(loop, words)
            clocks += [[row, count, *bench.times(kernel, memory, WARPS, count)] for count in ITERATIONS]
        rows.append({**loop, "clocks": clocks})
    bench.write(results, date, rows)


if __name__ == "__main__":
    command(__doc__, build, run, ("ptxas", "nvdisasm"))
