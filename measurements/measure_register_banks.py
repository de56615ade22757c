"""In which cycles instructions read the two banks of the register file: short sequences of integer, float and matrix
instructions with registers and stall counts of our own, between idle cycles and two reads of the clock.

    python measure_register_banks.py build  # after `measure_loops.py build` of all
    python measure_register_banks.py run    # register_banks.csv.gz; needs cupy

`tcsim validate --group registers` reads configs/measurements/h100_registers.csv.gz, which is every eighth of the
sequences of seven predecessors of this script. They made the same kinds in another order, with other random ones: five
in six are the same here, but a run of this script does not keep the same ones. One warp; the code runs twice, so that
the second time it is there; three launches. Left out: the few sequences that took other cycles in another launch, and
those that `told` leaves out. Columns: `sequence`, each instruction with the cycles until the next issues at the
soonest; `cycles`: by how much later than the stall counts say an instruction issues behind all, as in
`measure_short_sequences.py`.

`lop3 60 62r 64`: registers of the operands; 255 is RZ, r the compiler's `.reuse`. `full f32@b9,ra`: B is in register 9,
and A is kept for the next matrix instruction; A, B and metadata are in 4, 8 and 2 where no a, b or e says otherwise.
Sequences in which instructions read what others write are in `measure_result_forwarding.py`.
"""

from __future__ import annotations

import csv
import gzip
import io
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path

import measure_short_sequences as pieces  # type: ignore[import-not-found]
import sass
from machine_code_patch import command, halves
from measure_short_sequences import FORMS as MATRIX
from measure_short_sequences import Piece

THREE = {
    "lop3": r"LOP3\.LUT R\d+, R\d+, R\d+, R\d+, 0x6a",
    "iadd3": r"IADD3 R\d+, R\d+, R\d+, R\d+$",
    "imad": r"IMAD R\d+, R\d+, R\d+, R\d+$",
    "ffma": r"FFMA R\d+, R\d+, R\d+, R\d+$",
}  # operands
KINDS = THREE | {"fadd": r"FADD R\d+, R\d+, R\d+$"}
FIELDS = {"a": (0, 24), "b": (0, 32), "e": (0, 40), "c": (1, 0)}  # of a register: half of the code, first bit
REUSE = {"a": 58, "b": 59, "c": 60}  # bits of the upper half
FIRST, REGISTERS, RESULTS, TURN = 60, 20, 80, 8  # registers that instructions read, and those that they write in turn
KEPT, LAUNCHES, ZERO = 8, 3, 255  # one sequence of so many; RZ
LONGEST = 42  # instructions of a sequence, and what `Room.end` adds

Banks = tuple[int | None, ...]  # of the operands: 0 even, 1 odd, None RZ
EACH: list[Banks] = list(product((0, 1), repeat=3))
ANY: list[Banks] = list(product((0, 1, None), repeat=3))
SINGLE: list[Banks] = [(*[None] * at, bank, *[None] * (2 - at)) for bank, at in product((0, 1), range(3))]
PAIRED: list[Banks] = [(0, 0, None), (0, None, 0), (None, 0, 0)]
PROBES: list[Banks] = [(0, 0, 0), (1, 1, 1), *PAIRED]
BESIDE: list[tuple[str, Banks]] = [
    *(("add", (bank,)) for bank in (0, 1)),
    *(("fadd", banks) for banks in ((0, 0), (0, 1), (1, 1))),
    *(("lop3", banks) for banks in ((0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 1, 1))),
    ("ffma", (0, 1, 1)),
    ("imad", (0, 0, 1)),
    *(("compare", banks) for banks in ((0, 0), (0, 1), (1, 1), (0, None))),
]


def named(kind: str, banks: Banks, number: int = 0) -> str:
    """An instruction with operands in these banks; one of another number has other registers."""
    registers, seen = list[int](), [0, 0]
    for bank in banks:
        if bank is None:
            registers.append(ZERO)
            continue
        registers.append(FIRST + 2 * ((3 * number + seen[bank]) % (REGISTERS // 2)) + bank)
        seen[bank] += 1
    return " ".join((kind, *map(str, registers)))


def row(kinds: Sequence[str], operands: Iterable[Banks], step: int = 1) -> Piece:
    """Instructions of these kinds in turn, so many cycles apart."""
    return asked((step * i, named(kinds[i % len(kinds)], banks, i)) for i, banks in enumerate(operands))


def asked(events: Iterable[tuple[int, str]]) -> Piece:
    """A sequence, asked when what is behind it issues."""
    return Piece(tuple(events), "issue")


def alone() -> Iterator[Piece]:
    """One instruction, and up to eight with operands in the same banks, or in two ways in turn."""
    for banks in EACH:
        for count in range(1, 9):
            yield row(("lop3", "imad"), [banks] * count)
            yield row(("ffma",), [banks] * count)
    for pair, count in product(product((0, 1), repeat=2), range(1, 9)):
        yield row(("fadd",), [pair] * count)
    for first, second, count in product(EACH, EACH, (2, 4)):
        yield row(("lop3", "imad"), [first, second] * count)


def pairs() -> Iterator[Piece]:
    """Two instructions, one or two cycles apart."""
    kinds = (("lop3", "imad"), ("imad", "lop3"), ("ffma",), ("lop3", "ffma"), ("ffma", "iadd3"))
    for names, first, second, step in product(kinds, ANY, ANY, (1, 2)):
        yield row(names, (first, second), step)


def triples() -> Iterator[Piece]:
    """Three, four and five instructions in a row."""
    for names in (("lop3", "imad", "ffma"), ("lop3", "ffma")):
        for banks in product(EACH, repeat=3):
            yield row(names, banks)
    two: list[Banks] = list(product((0, 1), repeat=2))
    for banks in product(two, EACH, EACH):
        yield row(("fadd", "ffma", "ffma"), banks)
    yield from (row(("fadd",), adds) for adds in product(two, repeat=3))
    for banks in (*product(ANY, repeat=3), *product(EACH, repeat=4)):
        yield row(("ffma",), banks)
    few: list[Banks] = [*SINGLE[:4], (None, None, None)]
    for count in range(1, 5):
        for *before, probe in product(*[few] * count, [(0, 0, 0), *PAIRED]):
            yield row(("ffma",), [*before, probe])
    for kind, banks in product(("ffma", "lop3", "imad"), product([*PAIRED, *SINGLE[:3]], repeat=3)):
        yield row((kind,), [*banks, (0, 0, 0), (0, 0, 0)], 2)


def with_register(slot: int, register: str, others: Iterable[int]) -> str:
    """An `ffma` with a register in a slot, and others in the rest."""
    registers = [*map(str, others)]
    registers.insert(slot, register)
    return " ".join(("ffma", *registers))


def reuse() -> Iterator[Piece]:
    """A register that one instruction keeps, and another has in the same slot or another, at once or later."""
    probe = "ffma 74 76 78"
    for slot, again in product(range(3), repeat=2):
        for first, second in product(product((0, 1), repeat=2), repeat=2):
            for kept in (60, 61):
                keeps = with_register(slot, f"{kept}r", (62 + first[0], 64 + first[1]))
                has = with_register(again, str(kept), (68 + second[0], 70 + second[1]))
                yield asked(enumerate((keeps, has, probe)))
                for between in ("ffma 255 255 255", "ffma 255 255 81"):
                    yield asked(enumerate((keeps, between, has, probe)))
                yield asked(((0, keeps), (1, "ffma 80 82 84"), (5, has), (6, probe)))
    for slot, others, gap, mark in product(range(3), ((61, 63), (62, 63), (62, 64)), range(1, 9), ("r", "")):
        keeps, has = with_register(slot, f"60{mark}", others), with_register(slot, "60", (66, 68))
        yield asked(((0, keeps), (gap, has), (gap + 1, probe)))
    middles = ["fadd 61 63", "fadd 62 63", "ffma 61 63 65", "ffma 62 64 66", "ffma 255 255 255", "ffma 60r 255 255"]
    middles += ["add 61", "add 62", "compare 61 255", "compare 61 62", "lop3 61 63 65", "imad 255 255 61"]
    middles += ["sp full f32", "small f32", "ffma 255 61 63", "ffma 61 255 63", "ffma 61 63 255"]
    middles += [with_register(slot, str(one), (ZERO, ZERO)) for slot in range(3) for one in (60, 61, 62)]
    for slot, middle, gap in product(range(3), middles, (1, 2, 3)):
        keeps, has = with_register(slot, "60r", (61, 63)), with_register(slot, "60", (76, 68))
        yield asked(((0, keeps), (gap, middle), (gap + 3, has), (gap + 4, probe)))


def duplicates() -> Iterator[Piece]:
    """A register in two operands of an instruction, or in two instructions."""
    same = ("60 60 62", "60 62 60", "62 60 60", "60 60 60", "60 61 60", "60 60 61", "61 60 60")
    for kind, registers, behind in product(KINDS, same, ("60 62 64", "60 61 62", "61 60 62", "61 63 60")):
        operands = registers.split()[: 3 if kind in THREE else 2]
        yield asked(enumerate((" ".join((kind, *operands)), f"ffma {behind}", f"ffma {behind}")))
    before = ("ffma 70 72 74", "ffma 70 72 75", "ffma 70 73 74", "ffma 71 72 74", "ffma 70 73 75", "fadd 255 74")
    middle = [
        "66 66 68",
        "66 68 66",
        "68 66 66",
        "66 66 66",
        "66 66 69",
        "66 69 66",
        "69 66 66",
        "66 68 69",
        "66 69 68",
    ]
    middle += ["69 66 68", "66 68 64", "70 66 68", "66 72 68", "66 68 74", "70 72 74", "70 66 69", "66 70 69"]
    middle += ["66 69 74", "74 66 69", "70 72 69"]
    behind_all = ("ffma 76 78 60", "ffma 76 78 61", "ffma 76 77 60", "ffma 77 76 78", "fadd 255 76", "ffma 76 79 79")
    for first, registers, last in product(before, middle, behind_all):
        yield asked(enumerate((first, f"ffma {registers}", last)))
        yield asked(enumerate((first, first, f"ffma {registers}", last)))


def beside() -> Iterator[Piece]:
    """One or two instructions before and behind a matrix instruction, with B and metadata in either bank; often others
    follow it."""
    for matrix, (form, every) in MATRIX.items():
        variants = [matrix, *[f"{matrix}@b9"] * (form.nb == 1), *[f"{matrix}@e3"] * form.sparse]
        for variant, distance, banks in product(variants, range(1, 13), ANY[:-1]):
            yield asked(((0, variant), (distance, named("ffma", banks))))
        for distance, (kind, banks) in product(range(1, every + 1), BESIDE):
            later = int(distance == every)
            stream = [(i * every + later, matrix) for i in (1, 2)]
            yield asked(((0, matrix), (distance, named(kind, banks)), *stream))
        for distance, first, second in product(range(1, min(every - 1, 4)), BESIDE[:9], BESIDE[:9]):
            kind = "imad" if first[0] == second[0] == "lop3" else second[0]
            two = (distance, named(*first)), (distance + 1, named(kind, second[1], 1))
            yield asked(((0, matrix), *two, (every, matrix), (2 * every, matrix)))
        for distance, one, gap, other in product(range(1, 8), SINGLE, (1, 2), SINGLE[:3]):
            yield asked(((0, matrix), (distance, named("ffma", one)), (distance + gap, named("ffma", other, 1))))
        for banks, distance in product(ANY[:-1], (1, 2, 3)):
            yield asked(((0, named("ffma", banks)), (distance, matrix), (distance + every, matrix)))
            probe = named("ffma", (0, 0, 0), 1)
            yield asked(((0, named("ffma", banks)), (distance, matrix), (distance + 1, probe)))
        for banks, distance, count in product(PROBES[:2], (1, 2, 3), (2, 3)):
            stream = [(distance + 1 + i * every, matrix) for i in range(count)]
            yield asked(((0, named("ffma", banks)), (1, named("ffma", banks, 1)), *stream))


def two_matrix() -> Iterator[Piece]:
    """Two matrix instructions, alike and unlike, and what is behind or between them."""
    for matrix, (_, every) in MATRIX.items():
        for gap, distance, banks in product((0, 1, 2), range(1, 10), (*SINGLE, *PROBES[:3], (1, 1, None))):
            yield asked(((0, matrix), (every + gap, matrix), (every + gap + distance, named("ffma", banks))))
        for between, banks, behind, probe in product(range(1, every), SINGLE, range(1, 10, 2), PROBES[:2]):
            two = (between, named("ffma", banks)), (every, matrix)
            yield asked(((0, matrix), *two, (every + behind, named("ffma", probe, 1))))
    some = [BESIDE[i] for i in (0, 1, 3, 11, 12, 13)]
    for first, second in product(MATRIX, repeat=2):
        before, every = MATRIX[first][1], MATRIX[second][1]
        for distance, (kind, banks) in product(range(1, min(every, 4)), some):
            start = (0, first), (before, second), (before + distance, named(kind, banks))
            for after, step in ((second, every), (first, before)):
                yield asked((*start, (before + every, after), (before + every + step, second)))
            third = (0, first), (before, first), (2 * before, second), (2 * before + distance, named(kind, banks))
            yield asked((*third, (2 * before + every, second), (2 * before + 2 * every, first)))


def matrix_reuse() -> Iterator[Piece]:
    """A matrix instruction that keeps A or B, and another that has the same, or another form of it."""
    some: list[Banks] = [(0, None, None), (1, None, None), (0, 0, None), (1, 1, None), (0, 0, 0)]
    middles = [with_register(slot, str(one), (ZERO, ZERO)) for slot in (0, 1) for one in (60, 61)]
    for matrix, (_, every) in MATRIX.items():
        for mark in ("", "@ra", "@rb", "@ra,rb"):
            for gap, distance, banks in product((every, every + 3), range(1, 9), some):
                yield asked(((0, matrix + mark), (gap, matrix), (gap + distance, named("ffma", banks))))
            for middle, banks, distance in product((*middles, "ffma 255 255 61", "fadd 61 60"), some[:3], range(1, 5)):
                two = (every - 1, middle), (every, matrix)
                yield asked(((0, matrix + mark), *two, (every + distance, named("ffma", banks, 1))))
        for other, mark in product(("sp full f32", "small f32"), ("@ra", "@rb")):
            for distance, banks in product((1, 2, 3), some):
                yield asked(((0, other + mark), (9, matrix), (9 + distance, named("ffma", banks))))


def at_random() -> Iterator[Piece]:
    """Random sequences without matrix instructions and with them, of few registers and of many."""
    source = random.Random(11)
    for number in range(6500):
        pool = [FIRST + source.randrange(REGISTERS) for _ in range(source.choice((3, 5, 8, 16)))]
        names = source.choices(list(MATRIX), k=source.choice((1, 1, 2, 3))) if number % 5 < 2 else []
        yield asked(random_events(source, pool, source.choice((0, 0, 0.3, 0.6)), names))


def random_events(source: random.Random, pool: list[int], kept: float, matrix: list[str]) -> Iterator[tuple[int, str]]:
    at = free = 0
    share = source.choice((0.3, 0.5, 0.7)) if matrix else 0
    for _ in range(source.randint(4, 14)):
        if source.random() < share:
            name = source.choice(matrix)
            at = max(at, free) if source.random() < 0.8 else at
            free = at + MATRIX[name][1]
        elif matrix and source.random() < 0.2:
            name = named("compare", source.choice(((0, 0), (0, 1), (1, 1))))
        else:
            name = _random_operation(source, pool, kept)
        yield at, name
        at += source.choice((1, 1, 1, 2, 3))


def _random_operation(source: random.Random, pool: list[int], kept: float) -> str:
    kind = source.choice(list(KINDS))
    three = kind in THREE
    operands = []
    for slot in range(2 + three):
        zero = slot != 1 + three and source.random() < 0.2
        operands.append(str(ZERO if zero else source.choice(pool)))
        operands[-1] += "r" * (not zero and three and source.random() < kept)
    return " ".join((kind, *operands))


def told(piece: Piece) -> bool:
    """Whether it is known what a sequence asks. Left out are those whose last instruction, which has the longest stall
    count, keeps an operand: many issued later than `simulator/timing/operands.py` has it, for a reason not found; and
    those with an `fadd` that keeps one: the bits here are those of the first and the second operand, but `fadd` reads
    its second as the third."""
    floats = [name for _, name in piece.events if name.startswith("fadd")]
    return not any(_keeps(name) for name in (*floats, piece.events[-1][1]))


def _keeps(name: str) -> bool:
    """Whether an integer or float instruction keeps an operand."""
    return any(word.endswith("r") for word in name.split(" ")[1:])


def everything() -> Iterator[Piece]:
    """All sequences; two generators may give the same one."""
    for make in (alone, pairs, triples, reuse, duplicates, beside, two_matrix, matrix_reuse, at_random):
        yield from filter(told, make())


class Room(pieces.Room):
    """The room of `measure_short_sequences.py`, with more instructions, and registers by their names."""

    def __init__(self, folder: Path, nvdisasm: str) -> None:
        super().__init__(folder, nvdisasm)
        for name in ("operation", "inserts"):
            listings = sass.listings(folder / f"{name}.cubin", nvdisasm).values()
            known = [x for lines in listings for x in lines if isinstance(x, sass.Instruction)]
            for x, (kind, pattern) in product(known, KINDS.items()):
                if re.match(pattern, x.text):
                    self.words.setdefault(kind, halves(x))

    def instruction(self, name: str, number: int, stall: int) -> tuple[int, int]:
        """The `number`th instruction of a sequence."""
        base, _, marks = name.partition("@")
        if base in MATRIX:
            code = super().instruction(base, number, stall)
            return self.changed(code, [(x.lstrip("r")[0], x) for x in marks.split(",") if x])
        kind, *registers = name.split(" ")
        low, high = pieces.coded(self.words[kind], stall)
        if kind != "compare":
            low = low & ~(0xFF << 16) | (RESULTS + number % TURN) << 16
        return self.changed((low, high), [*zip("abc", registers, strict=False)])

    def changed(self, code: tuple[int, int], operands: list[tuple[str, str]]) -> tuple[int, int]:
        """The code with other registers of operands, or with operands that are kept."""
        words = list(code)
        for letter, text in operands:
            if number := re.search(r"\d+", text):
                half, bit = FIELDS[letter]
                words[half] = words[half] & ~(0xFF << bit) | int(number[0]) << bit
            if "r" in text:
                words[1] |= 1 << REUSE[letter]
        return words[0], words[1]


def build(folder: Path, ptxas: str, nvdisasm: str) -> None:
    pieces.template_cubin(folder, ptxas)
    pieces.assemble(Room(folder, nvdisasm), everything(), LONGEST, folder / "banks")


def measured(path: Path) -> tuple[str, dict[int, set[int]]]:
    """The GPU, and the cycles that each sequence of the modules at `path` took in all launches."""
    import measure_loops
    import numpy as np

    device = measure_loops.Device()
    return device.name, pieces.clocked(device, path, np.zeros(pieces.TABLE // 2, np.uint32), LAUNCHES)


def run(folder: Path, results: Path, date: str) -> None:
    name, cycles = measured(folder / "banks")
    alike = [(piece, *cycles[n]) for n, piece in enumerate(everything()) if len(cycles[n]) == 1]
    print(len(cycles) - len(alike), "of", len(cycles), "sequences took other cycles in another launch")
    write(results / "register_banks.csv.gz", alike[::KEPT], f"{name}, {date}")


def write(path: Path, found: Iterable[tuple[Piece, int]], head: str) -> None:
    """Writes sequences and their cycles."""
    text = io.StringIO()
    text.write(f"# {head}; one warp on one SM; three launches, all alike\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("sequence", "cycles"))
    writer.writerows((pieces.steps(piece), cycles) for piece, cycles in found)
    with gzip.GzipFile(path, "wb", mtime=0) as raw:
        raw.write(text.getvalue().encode())


if __name__ == "__main__":
    command(__doc__, build, run, ("ptxas", "nvdisasm"))
