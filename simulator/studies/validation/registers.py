"""Validates in which cycles instructions read the two banks of the register file, to the cycle: short sequences of
machine code that one warp runs alone on an SM.

Each row is a sequence of integer, float and matrix instructions on registers of chosen banks, in which every one names
the cycles until the next may issue: by how many cycles an instruction issues late that stands far behind all.

`lop3 60 62r 64`: the registers of the operands; 255 is RZ, r the compiler's `.reuse`. `full f32@b9,ra`: B is in
register 9, and A is kept; a, b and e are the registers of A, B and metadata, 4, 8 and 2 where they are not named; with
c255 its C is RZ. Integer and float instructions write the registers 80 to 87 in turn, by their place in the sequence;
others may read them there.

Not among the rows, because they are not understood: sequences whose last instruction is an integer or float one that
keeps an operand, and those with an `fadd` that does. The engine would be right in 83 % and 95 % of these.
"""

from __future__ import annotations

import csv
import gzip
from functools import cache

from isa import mma_form
from isa.forms.record import Unit
from simulator.chip.config import Config
from simulator.compiler.matrix import matrix
from simulator.compiler.operation_parts import Arithmetic
from simulator.compiler.register_banks import remove_c, set_banks
from simulator.compiler.timed_code import TimedOperation
from simulator.resources import folder
from simulator.studies.validation import pieces
from simulator.studies.validation.group import Group, Row
from simulator.studies.validation.slots import as_operands

SHORT = 24  # of how many sequences the short form takes one
UNITS = {
    "lop3": Unit.ALU,
    "iadd3": Unit.ALU,
    "compare": Unit.ALU,
    "add": Unit.FMA,
    "imad": Unit.FMA,
    "ffma": Unit.FMA,
    "fadd": Unit.FMA,
}
FLOATS = ("ffma", "fadd")
SLOTS = {"fadd": (0, 2)}  # of the operands that are named; of others 0, 1, 2
ZERO = 255  # RZ, which is in no bank
RESULTS = range(80, 88)  # registers that integer and float instructions write, in turn


@cache
def sequences() -> tuple[tuple[pieces.Events, int], ...]:
    """The measured sequences: instructions, and the cycles by which what follows issues late."""
    with gzip.open(folder("configs") / "measurements" / "h100_registers.csv.gz", "rt") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return tuple((pieces.events(row["sequence"]), int(row["cycles"])) for row in rows)


def is_matrix(name: str) -> bool:
    """Whether the instruction of this name is a matrix instruction."""
    return name.partition("@")[0] in pieces.FORMS


def operation(config: Config, name: str) -> TimedOperation:
    """The instruction of this name; it waits for no register."""
    if is_matrix(name):
        return _matrix_operation(config, name)
    kind, *named = name.split()
    timed = TimedOperation(UNITS[kind], config.alu.latency, config.alu.interval, (), (), 0)
    timed.arithmetic = Arithmetic(halves=kind in FLOATS, writes=kind != "compare")
    slots = [
        [slot, int(register.rstrip("r")), int(register.endswith("r"))]
        for slot, register in zip(SLOTS.get(kind, (0, 1, 2)), named, strict=False)
    ]
    slots = [slot for slot in slots if slot[1] != ZERO]
    timed.operands = as_operands(slots, RESULTS)
    return timed


def _matrix_operation(config: Config, name: str) -> TimedOperation:
    kind, _, marks = name.partition("@")
    changed = {mark[0]: int(mark[1:]) for mark in marks.split(",") if mark and mark[0] != "r"}
    registers = {"a": 4, "b": 8, "e": 2} | changed
    timed = matrix(mma_form(pieces.FORMS[kind]), config, (), (), 0)
    set_banks(timed, registers["a"], registers["b"], registers["e"])
    if changed.get("c") == ZERO:
        remove_c(timed)
    kept = marks.split(",")
    timed.operands = as_operands([[slot, registers[x], int(f"r{x}" in kept)] for slot, x in enumerate("ab")])
    return timed


def late(config: Config, known: dict[str, TimedOperation], events: pieces.Events) -> int:
    """By how many cycles what follows a sequence issues late, as the engine has it; `known` keeps operations."""
    items = []
    for place, (name, gap) in enumerate(events):
        if name not in known:
            known[name] = operation(config, name)
        arithmetic = known[name].arithmetic
        result = arithmetic is not None and arithmetic.writes and not name.startswith("add")
        writes = (RESULTS[place % len(RESULTS)],) if result else ()
        items.append(known[name].changed(stall=gap or pieces.FAR, writes=writes))
    nothing = TimedOperation(Unit.FMA, config.alu.latency, config.alu.interval, (), (), 0)
    span = nothing.latency + sum(gap for _, gap in events) + pieces.FAR
    return pieces.elapsed(config, [*items, nothing]) - span


def rows(config: Config, short: bool) -> list[Row]:
    """Every sequence; in the short form one of 24."""
    config, known = pieces.one_sub_core(config), dict[str, TimedOperation]()
    found = []
    for events, measured in sequences()[:: SHORT if short else 1]:
        span = sum(gap for _, gap in events) + pieces.FAR
        label = " | ".join(f"{name} {gap}" if gap else name for name, gap in events)
        kind = "matrix" if any(is_matrix(name) for name, _ in events) else "alone"
        labels = (("kind", kind), ("length", len(events)))
        found.append(Row(label, labels, span + measured, span + late(config, known, events)))
    return found


GROUPS = {
    "h100_sxm": (
        Group(
            "registers",
            "short sequences of integer, float and matrix instructions on two banks of registers, one warp: cycles",
            "measured: H100 80GB, 2026-11-26, and H200 (the same SM), 2026-11-27, "
            "measurements/measure_register_banks.py",
            rows,
            ("kind",),
            absolute=True,
            seconds=3.5,
        ),
    )
}
