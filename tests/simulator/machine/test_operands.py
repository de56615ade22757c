"""How instructions read the two banks of the register file, to the cycle: against an H100
(configs/measurements/h100_registers.csv.gz, written by measurements/measure_register_banks.py), and against a plain
model."""

from __future__ import annotations

import csv
import gzip
import random
from functools import cache

import pytest

import isa
from simulator.chip.config import load_config
from simulator.compiler import matrix as matrices
from simulator.compiler.register_banks import set_banks
from simulator.compiler.timed_code import TimedOperation
from simulator.studies.validation import pieces, registers
from tests.support import reading, straight_code
from tests.support.cases import examples, exhaustive, step
from tests.support.paths import ROOT

H100 = load_config("h100_sxm")
KNOWN: dict[str, TimedOperation] = {}
STEP = 10  # of how many measured sequences one is run
SOONEST = 5  # cycles until an instruction can read the result of one of another pipe
INTERVALS = {"small": 4, "full": 6, "sp small": 6, "sp full": 8}
ACCUMULATORS = ("f32", "f16", "s32")
FORMS = [f"{form} {accumulators}" for form in INTERVALS for accumulators in ACCUMULATORS]


def late(text: str) -> int:
    """By how many cycles what is behind this sequence issues late."""
    return registers.late(H100, KNOWN, pieces.events(text))


def repeats_a_register(name: str) -> bool:
    """Whether an instruction has the same register in two operands."""
    named = [word.rstrip("r") for word in name.split()[1:] if word != "255"]
    return not registers.is_matrix(name) and len(set(named)) < len(named)


@cache
def measured() -> list[tuple[pieces.Events, int]]:
    """Some sequences, and how far the engine is off."""
    some = registers.sequences()[::STEP]
    return [(events, registers.late(H100, KNOWN, events) - cycles) for events, cycles in some]


def test_sequences_take_the_cycles_of_the_chip() -> None:
    """99.5 % exactly; a register twice in an instruction costs a cycle more at times, which no rule says."""
    found = measured()
    assert len(found) > 1000
    assert sum(off == 0 for _, off in found) >= 0.995 * len(found)


@exhaustive
def test_results_are_read_when_the_chip_reads_them() -> None:
    """Sequences that read what others write, and whose matrix instructions have no C
    (measurements/measure_result_forwarding.py): all but a few of those in which an instruction names a register
    twice."""
    with gzip.open(ROOT / "measurements" / "results" / "result_forwarding.csv.gz", "rt") as file:
        rows = [*csv.DictReader(line for line in file if not line.startswith("#"))]
    some = rows[:: len(rows) // examples(len(rows), 1500)]
    off = [row["sequence"] for row in some if late(row["sequence"]) != int(row["cycles"])]
    assert len(off) <= 0.0025 * len(some)
    twice = [text for text in off if any(map(repeats_a_register, (name for name, _ in pieces.events(text))))]
    assert len(off) - len(twice) <= 0.0005 * len(some)


def test_without_matrix_instructions_only_a_register_twice_is_off() -> None:
    off = [events for events, cycles in measured() if cycles]
    alone = [events for events in off if not any(registers.is_matrix(name) for name, _ in events)]
    assert [events for events in alone if not any(repeats_a_register(name) for name, _ in events)] == []


def test_a_bank_gives_a_register_a_cycle() -> None:
    """Floats, or integers of two pipes in turn, could issue every cycle."""
    for count in range(1, 9):
        # two registers of one bank: every 2 cycles
        assert late(" | ".join(["fadd 60 62 1"] * (count - 1) + ["fadd 60 62 -"])) == count - 1
        # one of each bank: every cycle
        assert late(" | ".join(["fadd 60 61 1"] * (count - 1) + ["fadd 60 61 -"])) == 0
        # three of one bank: every 3 cycles
        turns = [("lop3 61 63 65", "imad 67 69 71")[i % 2] for i in range(count)]
        assert late(" 1 | ".join(turns) + " -") == 2 * (count - 1)
        # and where they issue every 3 cycles, nothing is late
        assert late(" 3 | ".join(turns) + " -") == 0


def test_reuse_saves_a_read() -> None:
    """Of the next instruction that has an operand in the same slot and bank, if that is the register."""
    assert late("ffma 60 62 64 1 | ffma 60 66 68 1 | ffma 70 72 74 -") == 4
    assert late("ffma 60r 62 64 1 | ffma 60 66 68 1 | ffma 70 72 74 -") == 3
    assert late("ffma 60r 62 64 1 | ffma 66 60 68 1 | ffma 70 72 74 -") == 4  # another slot
    # kept until then, whatever is between
    assert late("ffma 60 62 64 1 | ffma 255 255 81 1 | ffma 60 68 70 1 | ffma 74 76 78 -") == 3
    assert late("ffma 60r 62 64 1 | ffma 255 255 81 1 | ffma 60 68 70 1 | ffma 74 76 78 -") == 2


def test_reuse_is_lost_to_a_hinted_nop_of_another_warp() -> None:
    """What an instruction keeps is read again if another warp issues a NOP with the yield hint before the next one has
    issued, and not for a NOP without: as routines of emulated instructions on two warps showed, clock by clock, on an
    H200 (docs/findings.md, In the history: called.py)."""

    def clock(reuse: str, hinted: bool, at: int) -> int:
        """When the clock is read behind instructions of a warp, of which the first issues in cycle 100, beside a NOP of
        another warp."""
        names = ((f"ffma 60{reuse} 62 64", 2), ("ffma 60 66 68", 1), ("ffma 70 72 74", 9))
        code = [registers.operation(H100, name).changed(stall=wait) for name, wait in names]
        code.append(straight_code.END.changed(line=straight_code.CLOCK, arithmetic=straight_code.READ))
        nop = straight_code.KNOWN["nothing"].changed(line=0, stall=2, yields=hinted)
        return straight_code.read_clocks({0: code, 4: [nop]}, [100, 0, 0, 0, at])[0][0]

    assert [clock("r", True, at) - clock("", True, at) for at in (50, 101, 150)] == [-1, 0, -1]
    assert [clock("r", False, at) - clock("", False, at) for at in (50, 101, 150)] == [-1, -1, -1]


def test_a_sparse_matrix_instruction_takes_both_banks_for_six_cycles() -> None:
    """An addition that issues a cycle behind it could read its register in the first of these cycles, and at the latest
    in the third: it holds up all behind it for four."""
    for register in (60, 61):
        gaps = {gap: late(f"sp full f32 {gap} | add {register} -") for gap in range(1, 8)}
        assert gaps == {1: 4, 2: 3, 3: 2, 4: 1, 5: 0, 6: 0, 7: 0}


def test_b_of_one_register_takes_one_bank() -> None:
    """Small dense ones have one register of B: readers of the other bank come between."""
    for b, register, cycles in ((8, 60, 2), (8, 61, 0), (9, 60, 0), (9, 61, 2)):
        assert late(f"small f32@b{b} 1 | ffma {register} 255 255 -") == cycles


def test_banks_are_those_of_the_registers_that_were_named_last() -> None:
    """A loop of machine code names other registers than its trace: nothing of the trace's banks is left."""
    for form in pieces.FORMS.values():
        once, twice = (matrices.matrix(isa.mma_form(form), H100, (), (), 0) for _ in range(2))
        set_banks(twice, 5, 9, 3)
        assert twice.read_cycles != once.read_cycles or not isa.mma_form(form).sparse
        for timed in (once, twice):
            set_banks(timed, 4, 8, 2)
        assert twice.read_cycles == once.read_cycles


def test_results_hold_up_writers_alone() -> None:
    """In the eighth and ninth cycle behind the smaller K, tenth and eleventh behind the larger one, nothing that writes
    a register leaves the stages; a comparison, which writes a predicate, does."""
    for form, first in (("small f32", 6), ("sp full f32", 8)):
        gaps = [late(f"{form} {gap} | ffma 60 255 255 -") for gap in range(first - 1, first + 3)]
        assert gaps == [0, 2, 1, 0]
        assert [late(f"{form} {gap} | compare 60 255 -") for gap in range(first - 1, first + 3)] == [0, 0, 0, 0]


def test_no_c_takes_no_cycle() -> None:
    """A matrix instruction whose C is RZ leaves its cycles to others; results hold writers up as before."""
    for form, last in (("small f32", 4), ("sp full f32", 6)):
        assert [late(f"{form}{mark} {last - 3} | ffma 60 62 64 -") for mark in ("", "@c255")] == [4, 2]
        assert late(f"{form}@c255 {last + 2} | ffma 60 255 255 -") == 2


def test_a_result_is_given_before_it_is_in_the_register_file() -> None:
    """The file has it 9 cycles behind issue; until then the last stage alone. Where a matrix instruction takes the
    bank in that stage, the next chance is the file."""
    for gap in range(4, 9):
        assert late(f"iadd3 60 61 62 {gap} | lop3 80 255 255 -") == 0
        assert late(f"iadd3 60 61 62 {gap} | lop3 80 255 255 1 | sp full f32 -") == {7: 1, 8: 0}.get(gap, 6)
    two = "iadd3 60 61 62 1 | ffma 255 255 255 {} | iadd3 60 61 62 4 | lop3 80 82 255 -"
    assert [late(two.format(gap)) for gap in (1, 2)] == [2, 0]  # the older has just come to the file


def sequence(source: random.Random, forms: list[str], keeps: bool) -> pieces.Events:
    """A random sequence with some of these matrix instructions, or none; `keeps`: whether they keep A or B."""
    pool = [source.choice((255, *range(60, 80))) for _ in range(source.choice((3, 5, 8, 16)))]
    kept, share, events = source.choice((0, 0.3, 0.6)), source.choice((0.3, 0.5, 0.7)) if forms else 0, []
    at, written = 0, dict[int, int]()  # results that others may read, and from when on the compiler would let them
    for number in range(source.randint(3, 14)):
        if source.random() < share:
            name, gap = matrix(source, source.choice(forms), keeps), source.choice((1, 2, 3, 4, 6, 8))
        else:
            kind = source.choice(("lop3", "iadd3", "imad", "ffma", "fadd", "compare", "add"))
            count = {"fadd": 2, "compare": 2, "add": 1}.get(kind, 3)
            known = [register for register, since in written.items() if since <= at]
            chosen = [source.choice(known if known and source.random() < 0.4 else pool) for _ in range(count)]
            marks = ("r" if register != 255 and source.random() < kept else "" for register in chosen)
            name = " ".join((kind, *(f"{register}{mark}" for register, mark in zip(chosen, marks, strict=True))))
            gap = source.choice((1, 1, 1, 2, 3))
            if kind not in ("compare", "add"):
                written[registers.RESULTS[number % len(registers.RESULTS)]] = at + SOONEST
        events.append((name, gap))
        at += gap
    return (*events[:-1], (events[-1][0], 0))


def matrix(source: random.Random, form: str, keeps: bool) -> str:
    """A matrix instruction with metadata in either bank, B as well where it is one register, A or B kept, or no C."""
    marks = [f"e{source.choice((2, 3))}"] * form.startswith("sp") + [f"b{source.choice((8, 9))}"] * (
        form[:5] == "small"
    )
    marks += [mark for mark in ("ra", "rb") if keeps and source.random() < 0.3]
    marks += ["c255"] * (source.random() < 0.3)
    return "@".join((form, ",".join(marks))) if marks else form


def assert_alike(events: pieces.Events) -> None:
    assert registers.late(H100, {}, events) == reading.late(H100, events, pieces.FAR), events


@pytest.mark.exhaustive
def test_like_a_plain_model() -> None:
    """Random sequences without matrix instructions, of one form that keeps operands, and of forms with the same
    accumulators."""
    source = random.Random(7)
    for number in range(examples(10000, 1200)):
        of = source.choice(ACCUMULATORS)
        forms = [[], [source.choice(FORMS)], [form for form in FORMS if form.endswith(of)]][number % 3]
        assert_alike(sequence(source, forms, keeps=len(forms) == 1))


@exhaustive
def test_like_a_plain_model_with_forms_of_all_kinds() -> None:
    source = random.Random(8)
    for _ in range(examples(5000, 150)):
        assert_alike(sequence(source, source.sample(FORMS, 3), keeps=True))


def plain(events: pieces.Events) -> int:
    """By how many cycles the plain model has an instruction late behind a sequence with accesses."""
    registers_of = {"add": "add 91", "compare": "compare 91 92"}
    return reading.late(H100, tuple((registers_of.get(name, name), gap) for name, gap in events), pieces.FAR)


@pytest.mark.exhaustive
def test_accesses_like_a_plain_model() -> None:
    source, known = random.Random(9), pieces.operations(H100)
    kinds = sorted({*pieces.MATRIX, *pieces.ACCESSES, *pieces.INTEGERS})
    for _ in range(examples(5000, 150)):
        events = [(source.choice(kinds), source.choice((1, 1, 2, 2, 3, 4, 6, 8))) for _ in range(source.randint(3, 9))]
        events[-1] = (events[-1][0], 0)
        far = sum(gap for _, gap in events) + pieces.FAR
        assert pieces.cycles(H100, known, tuple(events), "issue") - far == plain(tuple(events)), events


@pytest.mark.exhaustive
def test_the_plain_model_has_accesses_as_the_chip() -> None:
    kinds = {*pieces.MATRIX, *pieces.ACCESSES, *pieces.INTEGERS}
    rows = [row for row in pieces.sequences() if row[1] == "issue" and kinds.issuperset(name for name, _ in row[0])]
    some = rows[:: 1 if examples(2, 1) == 2 else 12]
    assert len(some) > 1000
    assert sum(plain(events) != measured for events, _, measured in some) <= 1


@exhaustive
def test_the_plain_model_is_that_of_the_chip() -> None:
    """What the engine is compared with: 99.5 % exact itself."""
    some = registers.sequences()[:: STEP * step(4)]
    off = sum(reading.late(H100, events, pieces.FAR) != cycles for events, cycles in some)
    assert off <= 0.005 * len(some)
