"""What a few accesses, matrix and integer instructions cost each other, alone on an SM: short sequences of machine code
with stall counts of our own, between idle cycles and two reads of the clock.

An instruction can have other registers, `st.b32%97/89` (address, value), and a matrix instruction can keep A or B,
`full f32@a`, or add to nothing (C is RZ), `full f32@z`.

    python measure_short_sequences.py build  # after `measure_loops.py build` of memory, operation
    python measure_short_sequences.py run    # short_sequences.csv.xz; needs cupy

`tcsim validate --group pieces` reads the result as configs/measurements/h100_pieces.csv.xz. One warp; the code runs
twice, so that the second time it is there; four launches, on all sub-cores: every sequence took the same cycles in all
of them. Columns: `sequence`, each instruction with the cycles until the next issues at the soonest (those of the last
are not said); `asked`; `cycles`.

`value`, `registers`: from the issue of the last access, as the stall counts have it, until its value is there, or until
    a store has read its registers: when an instruction issues that waits for that scoreboard.
`issue`: by how much later than the stall counts say an instruction issues behind all (75 cycles later, so that nothing
    else holds it up).
"""

from __future__ import annotations

import json
import lzma
import random
import re
import subprocess
from collections.abc import Iterable, Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import machine_code_patch
import mixed
import programs as p
import sass
from clock_template import Clocked, timed_part
from machine_code_patch import Word, command, guarded, halves, machine_code, replaced

MATRIX = {
    "sp full f32": (p.SPARSE_FULL, 8),
    "full f32": (p.DENSE_FULL, 6),
    "sp small f32": (p.SPARSE_SMALL, 6),
    "small f32": (p.DENSE_SMALL, 4),
    "sp full s32": (p.Form(16, 8, 64, "s32", "s8", "s8", sparse=True), 8),
}  # and cycles between two of them
FORMS = MATRIX | {
    "sp full f16": (p.Form(16, 8, 32, "f16", "f16", "f16", sparse=True), 8),
    "full f16": (p.Form(16, 8, 16, "f16", "f16", "f16"), 6),
    "sp small f16": (p.Form(16, 8, 16, "f16", "f16", "f16", sparse=True), 6),
    "small f16": (p.Form(16, 8, 8, "f16", "f16", "f16"), 4),
    "full s32": (p.Form(16, 8, 32, "s32", "s8", "s8"), 6),
    "sp small s32": (p.Form(16, 8, 32, "s32", "s8", "s8", sparse=True), 6),
    "small s32": (p.Form(16, 8, 16, "s32", "s8", "s8"), 4),
}
ACCESSES = {
    "ld.b32": r"LDS R",
    "ld.v2": r"LDS\.64 R",
    "ld.v4": r"LDS\.128 R",
    "ldmatrix.x1": r"LDSM\.16\.M88 R",
    "ldmatrix.x2": r"LDSM\.16\.M88\.2 R",
    "ldmatrix.x4": r"LDSM\.16\.M88\.4 R",
    "st.b32": r"STS \[",
    "st.v2": r"STS\.64 \[",
    "st.v4": r"STS\.128 \[",
}
SHUFFLES = {
    "shuffle": r"SHFL\.DOWN PT, R\d+, R\d+, 0x1, 0x1f$",
    "shuffle.idx": r"SHFL\.IDX PT, R\d+, R\d+, R\d+, 0x1f$",
}
INTEGERS = {"add": r"VIADD R\d+, R\d+, 0x1$", "compare": r"ISETP\.LT\.U32\.AND P0, PT, R"}
BYTES = {"b32": 4, "v2": 8}  # between the addresses of lanes; 16 for the others
FIRST, CLOCKS, SLOTS = 104, 140, 520  # the sequences use registers below FIRST
ZERO = 255  # RZ
LANE, BASE, TABLE = 227, 1024, 16384  # a free register; where shared memory and the table of registers in it begin
ADDRESSES = {4: 96, 8: 97, 16: 98}  # registers that hold multiples of the lane
KEPT, HINTED = ("@a", "@b", "@ab"), 12  # and the shortest wait with the yield hint, which lets what is kept be lost
IDLE, LAUNCHES, RANDOM = 75, 4, 5200
LONGEST = 36  # instructions of a sequence with its clocks
ALONE = (15, True)


class Piece(NamedTuple):
    """A sequence: instructions and when each issues at the soonest, and what is asked."""

    events: tuple[tuple[int, str], ...]
    asked: str


def pieces() -> Iterator[Piece]:
    """An access before and behind a matrix instruction, and among four; all sequences of three, and random ones; then
    `others`."""
    for access in ACCESSES:
        asked = "registers" if access.startswith("st") else "value"
        yield Piece(((0, access),), asked)
        for matrix, (_, every) in MATRIX.items():
            for at in (*range(-12, 0), *range(1, 9)):
                yield Piece(tuple(sorted([(0, access), (at, matrix)])), asked)
            for behind in range(1, every):
                stream = [(i * every, matrix) for i in range(4)]
                yield Piece(tuple(sorted([*stream, (every + behind, access)])), asked)
    three = ("sp full f32", "full f32", "add", "compare", "ld.b32", "ldmatrix.x4", "st.b32", "st.v4")
    for names in product(three, repeat=3):
        for first, second in product((1, 2, 4), repeat=2):
            yield Piece(tuple(zip((0, first, first + second), names, strict=True)), "issue")
    source, others = random.Random(7), sorted({*ACCESSES, *MATRIX} - {*three})
    for _ in range(RANDOM):
        yield Piece(tuple(_random(source, [*three, "sp full f32", "sp full f32", *others])), "issue")
    yield from further()
    yield from keeping()
    yield from adding_to_nothing()


def further() -> Iterator[Piece]:
    """When the port reads which register: accesses and shuffles with registers of both banks before an instruction that
    meets them, two of them, and each class of matrix instructions before and behind them, and keeping its operands."""
    probe, longest = "small f32", 15
    banks = {"ld.b32": ("", "%97"), "st.b32": ("", "%96/89", "%97/88", "%97/89"), "shuffle": ("", "%89")}
    for access in ("ld.b32", "ld.v4", "ldmatrix.x1", "st.b32", "st.v2", "st.v4", "shuffle", "shuffle.idx"):
        for places, other in product(banks.get(access, ("",)), (probe, "sp full f32", "compare")):
            yield from (_at((access + places, behind), (other, 0)) for behind in range(1, longest))
    for one, two in product(("ld.b32", "st.b32", "st.v4", "shuffle", "shuffle.idx"), repeat=2):
        for between, behind in product(range(1, 9), range(1, 15)):
            yield _at((one, between), (two, behind), (probe, 0))
    for form, access in product(FORMS, ("ld.b32", "st.b32", "st.v4", "shuffle")):
        every = FORMS[form][1]
        for between, behind in product(range(1, 9), range(1, longest)):
            yield _at((form, between), (access, behind), (probe, 0))
        for behind in range(1, longest):
            yield _at((access, behind), (form, 0))
            yield _at((access, behind), (form, every), (probe, 0))
            if access[:2] != "st":
                yield _at((access, behind), (form, 0), asked="value")
                yield _at((form, behind), (access, 0), asked="value")
    for form, access in product(MATRIX, ("ld.b32", "st.b32", "st.v4")):
        for between, behind in product((1, 3, 5), range(4, 14)):
            yield _at((f"{form}@a", between), (access, behind), (form, 0))


def keeping() -> Iterator[Piece]:
    """Matrix instructions that find A, B or both kept, among accesses, as long as the warp may keep them; and random
    sequences, of which the last value or the last registers of a store are asked."""
    asked = {"ld.b32": "value", "ldmatrix.x4": "value", "st.b32": "registers", "st.v4": "registers"}
    for form, keeps in product(FORMS, KEPT):
        first, every = form + keeps, FORMS[form][1]
        for access, what in asked.items():
            for behind in range(1, 9):
                yield _at((first, every), (form, behind), (access, 0), asked=what)
            for ahead in range(1, 6):
                yield _at((first, every + 2), (access, ahead), (form, 0), asked=what)
        for access, between, behind in product(("ld.b32", "st.v4"), range(1, 5), range(1, 10)):
            yield _at((first, every), (form, between), (access, behind), ("small f32", 0))
    for form, keeps in product(MATRIX, KEPT):
        first, every = form + keeps, FORMS[form][1]
        for (access, what), behind in product(asked.items(), range(1, 6)):
            yield _at((first, every), (first, every), (form, behind), (access, 0), asked=what)
            yield _at((first, every + 3), (form, behind), (access, 0), asked=what)
    for form, keeps in product(FORMS, KEPT):
        first, every = form + keeps, FORMS[form][1]
        for gap, behind in product(range(every, HINTED), range(1, 4)):
            yield _at((first, gap), (form, behind), ("ld.b32", 0), asked="value")
            yield _at((first, gap), (form, behind), ("compare", 0))
        for gap, behind in product(range(every, HINTED + 3, 3), range(1, 4)):
            yield _at((first, 3), ("ld.b32", gap - 3), (form, behind), ("ld.b32", 0), asked="value")
            yield _at((first, 3), ("compare", gap - 3), (form, behind), ("ld.b32", 0), asked="value")
    source = random.Random(11)
    kinds = ["sp full f32", "full f32", *MATRIX, "add", "compare", *ACCESSES, "ld.b32", "ldmatrix.x4"]
    for _ in range(RANDOM):
        events = [*_random(source, kinds)]
        matrices = [place for place, (_, name) in enumerate(events) if name in MATRIX]
        for place in matrices[:-1]:  # none is kept for what comes behind a sequence
            events[place] = events[place][0], events[place][1] + source.choice(KEPT)
        accesses = [name for _, name in events if name in ACCESSES]
        ask = source.choice(("issue", "end", "end")) if accesses else "issue"
        yield Piece(tuple(events), asked.get(accesses[-1][:2] + ".b32", "value") if ask == "end" else ask)


def adding_to_nothing() -> Iterator[Piece]:
    """Matrix instructions whose C is RZ, before and behind accesses, alone and with operands that are kept; and random
    sequences."""
    asked = {"ld.b32": "value", "ldmatrix.x4": "value", "st.b32": "registers", "st.v4": "registers"}
    for form in FORMS:
        zero, every = form + "@z", FORMS[form][1]
        for access, between, behind in product(("ld.b32", "st.v4", "shuffle"), range(1, 9), range(1, 15)):
            yield _at((zero, between), (access, behind), ("small f32", 0))
        for (access, what), between in product(asked.items(), range(1, 13)):
            yield _at((zero, between), (access, 0), asked=what)
            yield _at((access, between), (zero, 0), asked=what)
        for (access, what), behind, keeps in product(asked.items(), range(1, 9), ("@az", "@bz", "@abz")):
            yield _at((form + keeps, every), (zero, behind), (access, 0), asked=what)
    source = random.Random(17)
    kinds = ["sp full f32", "full f32", *FORMS, "add", "compare", *ACCESSES, "ld.b32", "shuffle", "shuffle.idx"]
    for _ in range(2000):
        events = [(at, name + "@z" * (name in FORMS and source.random() < 0.6)) for at, name in _random(source, kinds)]
        accesses = [name for _, name in events if name in ACCESSES or name in SHUFFLES]
        ask = source.choice(("issue", "end", "end")) if accesses else "issue"
        yield Piece(tuple(events), asked.get(accesses[-1][:2] + ".b32", "value") if ask == "end" else ask)


def _at(*steps: tuple[str, int], asked: str = "issue") -> Piece:
    """Instructions, each with the cycles until the next."""
    times = [0]
    for _, gap in steps[:-1]:
        times.append(times[-1] + gap)
    return Piece(tuple(zip(times, (name for name, _ in steps), strict=True)), asked)


def _random(source: random.Random, kinds: list[str]) -> Iterator[tuple[int, str]]:
    at = free = 0
    for _ in range(source.choice((4, 5, 6, 7, 8))):
        kind = source.choice(kinds)
        if kind in FORMS:
            at = max(at, free) if source.random() < 0.5 else at
            free = at + FORMS[kind][1]
        yield at, kind
        at += source.choice((1, 1, 2, 2, 3, 4, 4, 5, 8))


def template(clocks: int = CLOCKS, slots: int = SLOTS, rounds: int = 2, *, apart: bool = False) -> str:
    """A kernel with room for the code, clocks in registers and a store of them, and a table in shared memory that the
    code loads its registers from. With `apart` each warp stores clocks of its own, 1,024 bytes apart."""
    lines = [
        ".visible .entry template(.param .u64 out, .param .u64 table) {",
        f".shared .align 1024 .b8 memory[{2 * TABLE}];",
        f".reg .b32 %r<100>, %c<{clocks}>, %t<9>; .reg .b64 %q<5>; .reg .pred %p<5>;",
        "ld.param.u64 %q1, [table]; mov.u32 %t0, %tid.x; mul.wide.u32 %q2, %t0, 4; add.u64 %q1, %q1, %q2;",
        "mov.u32 %t4, memory; mov.u32 %t5, %ntid.x; mov.u32 %t6, %tid.x; ld.param.u64 %q3, [table];",
        "FILL: mul.wide.u32 %q2, %t6, 4; add.u64 %q2, %q3, %q2; ld.global.b32 %t7, [%q2]; shl.b32 %t8, %t6, 2;",
        f"add.u32 %t8, %t8, %t4; st.shared.b32 [%t8], %t7; add.u32 %t6, %t6, %t5; setp.lt.u32 %p3, %t6, {TABLE // 2};",
        "@%p3 bra FILL;",
        *(f"ld.global.b32 %r{i}, [%q1+{4 * i}];" for i in range(100)),
        *timed_part(clocks, range(20, 96), slots, rounds),
        "shr.u32 %t3, %t0, 5; mul.wide.u32 %q2, %t3, 1024; add.u64 %q3, %q3, %q2;" * apart,
        *(f"st.global.b32 [%q3+{4 * i}], %c{i};" for i in range(clocks)),
        *(f"st.global.b32 [%q3+{4 * (clocks + i)}], %r{i};" for i in range(20, 96)),
        "DONE: ret; }",
        ".visible .entry words(.param .u64 out) { .shared .align 1024 .b8 few[4096]; .reg .b32 %a<9>; .reg .b64 %q1;",
        "ld.param.u64 %q1, [out]; mov.u32 %a0, %laneid; mov.u32 %a4, %tid.x; shl.b32 %a1, %a0, 2;",
        "st.shared.b32 [%a1+512], %a4; bar.sync 0; ld.shared.b32 %a2, [%a1+256]; st.global.b32 [%q1], %a2; ret; }",
    ]
    return p.HEADER + "\n".join(lines) + "\n"


def coded(word: Word, stall: int, *, wrote: int = 7, read: int = 7, awaits: int = 0) -> Word:
    """An instruction with other control bits: its stall, the scoreboards that it frees, and those that it waits for."""
    upper = word[1] & ~machine_code_patch.MARK & ~(15 << 58)
    return word[0], upper | stall << 41 | (stall < HINTED) << 45 | wrote << 46 | read << 49 | awaits << 52


class Room(Clocked):
    """Where the code goes, and the instructions that it needs."""

    def __init__(self, folder: Path, nvdisasm: str, cubin: str = "short_sequences.cubin", lane: int = LANE) -> None:
        super().__init__(folder / cubin, nvdisasm, FIRST, LANE)
        self.lane = lane
        few = sass.listings(folder / cubin, nvdisasm)["words"]
        others = {"lane": ".*SR_LANEID", "shift": r"SHF\.L", "load": "LDS"}
        self.words = {"nop": halves(self.word("NOP$")), "thread": halves(self.word("S2R R0, SR_TID.X$"))}
        self.words |= {
            name: next(halves(x) for x in few if isinstance(x, sass.Instruction) and re.match(pattern, x.text))
            for name, pattern in others.items()
        }
        machine_code_patch.build(folder, "ptxas", nvdisasm)
        forms = json.loads((folder / "mma_template.json").read_text())["forms"]
        self.words |= {name: tuple(forms[mixed.short(form)]) for name, (form, _) in FORMS.items()}
        cubins = (sass.listings(folder / f"{name}.cubin", nvdisasm) for name in ("memory", "operation"))
        known = [x for listings in cubins for lines in listings.values() for x in lines]
        for name, pattern in (ACCESSES | INTEGERS | SHUFFLES).items():
            matches = (x for x in known if isinstance(x, sass.Instruction) and re.match(pattern, x.text))
            self.words[name] = halves(next(matches))

    def instruction(self, name: str, number: int, stall: int) -> Word:
        """The `number`th instruction of a sequence."""
        name, _, keeps = name.partition("@")
        name, _, places = name.partition("%")
        given = [int(place) for place in places.split("/") if place]
        low, high = self.words[name]
        if name in FORMS:
            d = 12 + 4 * (number % 10)
            low = low & ~(0xFFFFFF << 16) | d << 16 | 4 << 24 | 8 << 32
            low = low & ~(0xFF << 40) | 2 << 40 if name.startswith("sp") else low
            low, high = coded((low, high & ~0xFF | d), stall)
            high = high | ZERO if "z" in keeps else high
            return low, high | ("a" in keeps) << 58 | ("b" in keeps) << 59
        if name in INTEGERS:
            mask, place = (0xFFFF << 16, 90 << 16 | 91 << 24) if name == "add" else (0xFFFF << 24, 91 << 24 | 92 << 32)
            return coded((low & ~mask | place, high), stall)
        if name in SHUFFLES:
            low = low & ~(0xFFFF << 16) | (60 + 4 * (number % 8)) << 16 | (given or [88])[0] << 24
            low = low & ~(0xFF << 32) | 91 << 32 if name == "shuffle.idx" else low
            return coded((low, high), stall, wrote=number % 6)
        address, offset = ADDRESSES[BYTES.get(name.split(".")[1], 16)], 512 * (number % 4) << 40
        address, value = (*given, *(address, 88)[len(given) :])
        if name.startswith("st"):
            low = low & ~(0xFFFF << 24) & ~(0xFFFFFF << 40) | address << 24 | value << 32 | offset
            return coded((low, high), stall, read=number % 6)
        low = low & ~(0xFFFF << 16) & ~(0xFFFFFF << 40) | (60 + 4 * (number % 8)) << 16 | address << 24 | offset
        return coded((low, high), stall, wrote=number % 6)

    def clock(self, number: int, stall: int) -> Word:
        low, high = halves(self.clocks[number][2])
        return coded((guarded(low), high), stall)

    def idle(self, number: int, awaits: int = 0) -> list[Word]:
        return [coded(self.words["nop"], 15, awaits=awaits), *[coded(self.words["nop"], 15)] * (number - 1)]

    def prologue(self) -> list[Word]:
        """The registers of addresses, from the table."""
        low = self.words["load"][0] & ~(0xFFFF << 16) & ~(0xFFFFFF << 40) | self.lane << 24
        loads = [(low | r << 16 | (BASE + TABLE + 128 * r) << 40, self.words["load"][1]) for r in ADDRESSES.values()]
        lane, shift = (self.words[name][0] & ~(0xFFFF << 16) | self.lane << 16 for name in ("lane", "shift"))
        return [
            coded((lane, self.words["lane"][1]), 2, wrote=0),
            coded((shift | self.lane << 24, self.words["shift"][1]), 8, awaits=1),
            *(coded(load, 4, wrote=0) for load in loads),
            *self.idle(1, 1),
        ]

    def end(self, code: list[Word]) -> bytes:
        code = [*code, *self.idle(1, 63), coded(self.words["thread"], 15), *self.idle(10)]
        return machine_code(code + [coded(self.words["nop"], 1)] * (self.slots - len(code)))

    def piece(self, piece: Piece, clock: int) -> tuple[list[Word], int]:
        """The code of a sequence, and the cycles between its clocks as the stall counts have it, to where what is asked
        begins."""
        times = [at for at, _ in piece.events]
        gaps = [after - at for at, after in zip(times, [*times[1:], times[-1] + 2], strict=True)]
        code = [*self.idle(3, 63), self.clock(clock, 15), *self.idle(1)]
        last = max((i for i, (_, name) in enumerate(piece.events) if _shared(name)), default=0)
        for number, ((_, name), gap) in enumerate(zip(piece.events, gaps, strict=True)):
            final = piece.asked == "issue" and number == len(gaps) - 1
            code.append(self.instruction(name, number, 15 if final else gap))
        if piece.asked == "issue":
            return [*code, *self.idle(IDLE // 15), self.clock(clock + 1, 2)], 45 + IDLE + times[-1] - times[0]
        code.append(coded(self.words["nop"], 1, awaits=1 << last % 6))
        return [*code, self.clock(clock + 1, 2)], 31 + times[last] - times[0]


def _shared(name: str) -> bool:
    """Whether an instruction has a scoreboard that tells of it."""
    return name.partition("%")[0] in {**ACCESSES, **SHUFFLES}


def template_cubin(folder: Path, ptxas: str) -> None:
    """Compiles the kernel that makes room for the sequences."""
    (folder / "short_sequences.ptx").write_text(template())
    subprocess.run(
        [ptxas, "-arch=sm_90a", "-o", str(folder / "short_sequences.cubin"), str(folder / "short_sequences.ptx")],
        check=True,
    )


def assemble(room: Room, sequences: Iterable[Piece], longest: int, path: Path) -> None:
    """Fills modules with sequences, none of more than `longest` instructions, and writes them as `path`.json."""
    modules, code, found = [], room.prologue(), list[Word]()
    for number, piece in enumerate(sequences):
        if 2 * len(found) + 2 > len(room.clocks) or len(code) + longest > room.slots:
            modules.append({"raw": room.end(code).hex(), "pieces": found})
            code, found = room.prologue(), []
        words, cycles = room.piece(piece, 2 * len(found))
        code, found = [*code, *words], [*found, (number, cycles)]
    modules.append({"raw": room.end(code).hex(), "pieces": found})
    path.with_suffix(".cubin").write_bytes(room.raw)
    data = {"offset": room.offset, "stored": [place for place, *_ in room.clocks], "modules": modules}
    path.with_suffix(".json").write_text(json.dumps(data))
    print(number + 1, "sequences,", len(modules), "modules")


def table() -> Any:
    """What the registers of addresses are loaded from: multiples of the lane."""
    import numpy as np

    words = np.zeros(TABLE // 2, np.uint32)
    for step, register in ADDRESSES.items():
        words[TABLE // 4 + 32 * register :][:32] = BASE + step * np.arange(32)
    return words


def clocked(device: Any, path: Path, table: Any, launches: int) -> dict[int, set[int]]:
    """The cycles that each sequence of the modules at `path` took beyond those known, in all launches."""
    cupy = device.cupy
    data, cubin = json.loads(path.with_suffix(".json").read_text()), path.with_suffix(".cubin").read_bytes()
    source, target = cupy.asarray(table), cupy.zeros(1 << 10, dtype=cupy.uint32)
    cycles: dict[int, set[int]] = {}
    for entry in data["modules"]:
        module = cupy.cuda.function.Module()
        module.load(replaced(cubin, bytes.fromhex(entry["raw"]), data))
        for _ in range(launches):
            module.get_function("template")((1,), (32,), (target, source))
            clocks = cupy.asnumpy(target)[data["stored"]].astype(int)
            for place, (number, known) in enumerate(entry["pieces"]):
                cycles.setdefault(number, set()).add(int(clocks[2 * place + 1] - clocks[2 * place]) - known)
    return cycles


def steps(piece: Piece) -> str:
    """A sequence as a table writes it: each instruction with the cycles until the next issues at the soonest."""
    gaps = [str(after - at) for (at, _), (after, _) in pairwise(piece.events)]
    return " | ".join(" ".join(x) for x in zip((name for _, name in piece.events), [*gaps, "-"], strict=True))


def build(folder: Path, ptxas: str, nvdisasm: str) -> None:
    template_cubin(folder, ptxas)
    assemble(Room(folder, nvdisasm), pieces(), LONGEST, folder / "pieces")


def run(folder: Path, results: Path, date: str) -> None:
    import measure_loops

    device = measure_loops.Device()
    cycles = clocked(device, folder / "pieces", table(), LAUNCHES)
    assert all(len(found) == 1 for found in cycles.values()), "a sequence took other cycles in another launch"
    write(
        results / "short_sequences.csv.xz",
        [(piece, *cycles[n]) for n, piece in enumerate(pieces())],
        f"{device.name}, {date}",
    )


def write(path: Path, found: list[tuple[Any, ...]], head: str) -> None:
    """Writes sequences and their cycles."""
    with lzma.open(path, "wb", preset=9 | lzma.PRESET_EXTREME) as raw:
        lines = [f"# {head}; one warp on one SM; {LAUNCHES} launches, all alike\n", "sequence,asked,cycles\n"]
        lines += (f"{steps(piece)},{piece.asked},{cycles}\n" for piece, cycles in found)
        raw.write("".join(lines).encode())


if __name__ == "__main__":
    command(__doc__, build, run, ("ptxas", "nvdisasm"))
