"""Validates what a few accesses to shared memory, matrix and integer instructions cost each other, to the cycle: short
sequences of machine code that one warp runs alone on an SM.

Each row is a sequence, in which every instruction names the cycles until the next may issue, and perhaps its registers
(`st.b32%97/89`: address, value), operands that it keeps (`full f32@a`) or no C (`full f32@z`), and what was asked: when
the value of its last access is there (`value`), or when a store has read its registers (`registers`), from its issue on
as the sequence has it; or when an instruction issues that stands far behind all (`issue`), from the first one's issue.
"""

from __future__ import annotations

import csv
import lzma
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache

from isa import Instruction, decode, mma_form
from isa.forms.record import Unit
from simulator.chip.config import Config
from simulator.chip.sequences import Row as Machine
from simulator.compiler.compile import compile_code, machine_operation
from simulator.compiler.operation_parts import Arithmetic, Operand
from simulator.compiler.register_banks import odd_banks, remove_c
from simulator.compiler.timed_code import Periodic, TimedCode, TimedLoop, TimedOperation, nesting
from simulator.program.blocks import Block, Step
from simulator.program.lowering import linearise
from simulator.resources import folder
from simulator.studies.validation.group import Group, Row
from simulator.studies.validation.streams import instruction
from simulator.timing.run import simulate

FAR = 90  # cycles from the last instruction to the one that tells when all have issued
SHORT = 24  # of how many sequences the short form takes one
SPARSE, DENSE = "mma.sp::ordered_metadata.sync.aligned.", "mma.sync.aligned."
MATRIX = {
    "sp full f32": SPARSE + "m16n8k32.row.col.f32.f16.f16.f32",
    "full f32": DENSE + "m16n8k16.row.col.f32.f16.f16.f32",
    "sp small f32": SPARSE + "m16n8k16.row.col.f32.f16.f16.f32",
    "small f32": DENSE + "m16n8k8.row.col.f32.f16.f16.f32",
    "sp full s32": SPARSE + "m16n8k64.row.col.s32.s8.s8.s32",
}
FORMS = MATRIX | {
    "small f16": DENSE + "m16n8k8.row.col.f16.f16.f16.f16",
    "full f16": DENSE + "m16n8k16.row.col.f16.f16.f16.f16",
    "sp small f16": SPARSE + "m16n8k16.row.col.f16.f16.f16.f16",
    "sp full f16": SPARSE + "m16n8k32.row.col.f16.f16.f16.f16",
    "small s32": DENSE + "m16n8k16.row.col.s32.s8.s8.s32",
    "full s32": DENSE + "m16n8k32.row.col.s32.s8.s8.s32",
    "sp small s32": SPARSE + "m16n8k32.row.col.s32.s8.s8.s32",
}
INTEGERS = {"add": "add.s32 %r13, %r14, %r15;", "compare": "add.s32 %r13, %r14, %r15;"}
ACCESSES = {  # and wavefronts
    "ld.b32": ("ld.shared.b32 %r16, [%r96];", 1),
    "ld.v2": ("ld.shared.v2.b32 {%r16, %r17}, [%r97];", 2),
    "ld.v4": ("ld.shared.v4.b32 {%r16, %r17, %r18, %r19}, [%r98];", 4),
    "ldmatrix.x1": ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r16}, [%r98];", 1),
    "ldmatrix.x2": ("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r16, %r17}, [%r98];", 2),
    "ldmatrix.x4": ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r16, %r17, %r18, %r19}, [%r98];", 4),
    "st.b32": ("st.shared.b32 [%r96], %r88;", 1),
    "st.v2": ("st.shared.v2.b32 [%r97], {%r88, %r89};", 2),
    "st.v4": ("st.shared.v4.b32 [%r98], {%r88, %r89, %r90, %r91};", 4),
}
SHUFFLES = {"shuffle": (88,), "shuffle.idx": (88, 91)}  # and the registers that they read
VALUES, REGISTER = 60, 120  # first register of the values, and the address of a store, the sequence's last access

Events = tuple[tuple[str, int], ...]  # instructions, and the cycles until the next may issue


@cache
def sequences() -> tuple[tuple[Events, str, int], ...]:
    """The measured sequences: instructions, what was asked, cycles."""
    with lzma.open(folder("configs") / "measurements" / "h100_pieces.csv.xz", "rt") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return tuple((events(row["sequence"]), row["asked"], int(row["cycles"])) for row in rows)


def events(text: str) -> Events:
    """A sequence as the tables of measurements write it, `add 2 | full f32 -`; the last gap counts as 0."""
    parts = [step.rsplit(" ", 1) for step in text.split(" | ")]
    return tuple((name, 0 if gap == "-" else int(gap)) for name, gap in parts)


def operation(config: Config, instruction: Instruction, waves: int = 0) -> TimedOperation:
    """An instruction as this chip times it, an access with so many wavefronts; it waits for no register."""
    code = linearise(Block((0,), (Step(instruction, 0),), 0))
    item = compile_code(code, config, {0: {0: Periodic((waves,))}} if waves else {}).items[0]
    assert isinstance(item, TimedOperation)
    return item.changed(reads=(), writes=item.writes if waves else ())


def operations(config: Config) -> dict[str, TimedOperation]:
    """The instructions by their names; two accesses of the warp may follow each other at once."""
    assert config.sequences is not None
    matrix = {name: operation(config, matrix_instruction(opcode)) for name, opcode in FORMS.items()}
    integers = {name: operation(config, decode(text, target="sm_90a")) for name, text in INTEGERS.items()}
    integers["add"] = integers["add"].changed(unit=Unit.FMA, operands=(Operand(0, 91),))
    integers["compare"] = integers["compare"].changed(
        operands=(Operand(0, 91), Operand(1, 92)), arithmetic=Arithmetic()
    )
    accesses = {
        name: operation(config, decode(text, target="sm_90a"), waves) for name, (text, waves) in ACCESSES.items()
    }
    accesses |= {
        name: machine_operation(Machine("shuffle", (), ()), config, reads, (0,), 1, (0,))
        for name, reads in SHUFFLES.items()
    }
    return matrix | integers | {name: access.changed(reads=(), interval=1) for name, access in accesses.items()}


def named(known: Mapping[str, TimedOperation], name: str) -> TimedOperation:
    """The instruction of that name, with its registers, and a matrix instruction with the operands that it keeps, or
    without C."""
    if name in known:
        return known[name]
    name, _, keeps = name.partition("@")
    name, _, registers = name.partition("%")
    operation = known[name]
    if registers:
        address, *values = map(int, registers.split("/"))
        assert operation.access is not None
        operation = operation.changed(access=replace(operation.access, banks=odd_banks((*values, address))))
    if not keeps:
        return operation
    kept = tuple(one._replace(kept=x in keeps) for one, x in zip(operation.operands, "ab", strict=False))
    operation = operation.changed(operands=kept)
    if "z" in keeps:
        remove_c(operation)
    return operation


def matrix_instruction(opcode: str) -> Instruction:
    """A matrix instruction on some registers."""
    return instruction(mma_form(opcode), {"a": 4, "b": 8, "e": 12, "c": 0, "d": 0})


def cycles(config: Config, known: Mapping[str, TimedOperation], events: Events, asked: str) -> int:
    """What the engine says of a sequence, asked as it was measured."""
    nothing = known["add"].changed(operands=(), arithmetic=Arithmetic())
    items = [named(known, name) for name, _ in events]
    last = max((place for place, item in enumerate(items) if item.unit is Unit.SHARED), default=0)
    items = [
        item.changed(stall=gap or FAR, writes=_values(place, len(item.writes)))
        for place, (item, (_, gap)) in enumerate(zip(items, events, strict=True))
    ]
    since = 0
    if asked != "issue":
        since, load = sum(gap for _, gap in events[:last]), asked == "value"
        items[last] = items[last].changed(reads=(REGISTER,))
        items[-1].stall = 2
        items.append(nothing.changed(reads=items[last].writes[:1], writes=() if load else (REGISTER,), stall=FAR))
    items.append(nothing.changed(stall=1))
    behind = known["add"].latency + (FAR if asked != "issue" else 0)
    return elapsed(config, items) - behind - since


def elapsed(config: Config, items: Iterable[TimedOperation]) -> int:
    """The cycles of one warp alone, whose waits stand in its code."""
    every: list[TimedOperation | TimedLoop] = [*items]
    return simulate(config, [TimedCode((0,), every, nesting(every), {}, scheduled=True)], 1).cycles


def _values(place: int, count: int) -> tuple[int, ...]:
    """The registers that the load at this place of a sequence writes: each has its own."""
    return tuple(range(VALUES + 4 * place, VALUES + 4 * place + count))


def one_sub_core(config: Config) -> Config:
    """The chip without the sub-cores that one warp leaves idle."""
    return replace(config, sm=replace(config.sm, sub_cores=1))


def rows(config: Config, short: bool) -> list[Row]:
    """Every sequence; in the short form one of 24."""
    config = one_sub_core(config)
    known = operations(config)
    found = []
    for events, asked, measured in sequences()[:: SHORT if short else 1]:
        span = sum(gap for _, gap in events) + FAR if asked == "issue" else 0
        label = " | ".join(f"{name} {gap}" if gap else name for name, gap in events)
        simulated = cycles(config, known, events, asked)
        found.append(Row(label, (("asked", asked), ("length", len(events))), span + measured, simulated))
    return found


GROUPS = {
    "h100_sxm": (
        Group(
            "pieces",
            "short sequences of accesses, matrix and integer instructions, one warp: cycles",
            "measured: H200 (the same SM) and, 22,148 of them, H100 80GB, 2026-11-26, "
            "measurements/measure_short_sequences.py",
            rows,
            ("asked",),
            absolute=True,
            seconds=12,
        ),
    )
}
