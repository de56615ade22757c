"""Validates streams of instructions that an H100 emulates: those with 8-bit floats and 4-bit integers, for which ptxas
writes sequences of other instructions.

A loop has some copies of one instruction, on 1, 2 or 4 accumulators in turn. Where ptxas would compute parts of a
sequence only once, some operands change before each copy ("b", "all"). In the measurement and in the simulation alike,
cycles of an iteration are the difference of two runs with different loop counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from isa import decode, mma_form
from isa.forms.mma import MmaForm
from simulator.chip.config import Config
from simulator.program.blocks import Step
from simulator.resources import folder
from simulator.studies.validation.group import Group, Row
from simulator.studies.validation.machine_code import loops
from simulator.studies.validation.programs import by_warps, load
from simulator.studies.validation.streams import Loop
from simulator.tables import read_rows

TARGET = "sm_90a"
FIRST = {"a": 0, "b": 8, "e": 16}  # registers of the measured programs
ZERO, ACCUMULATORS = 17, 20
SHORT = 12  # of how many streams the short form takes one


def measured() -> list[dict[str, Any]]:
    """The rows of the measurement."""
    return list(read_rows(folder("configs") / "measurements" / "h100_emulated.csv"))


def body(form: MmaForm, chains: int, fresh: str, copies: int) -> tuple[Step, ...]:
    """The body of a loop; before each copy, operands change by an addition of zero."""
    counts = {role.name: role.count for role in form.roles}
    changing = {"none": "", "b": "b", "all": "aeb"}[fresh]
    adds = [FIRST[name] + i for name in changing for i in range(counts.get(name, 0))]
    lines = []
    for copy in range(copies):
        lines += [f"add.s32 %r{r}, %r{r}, %r{ZERO};" for r in adds]
        place = FIRST | dict.fromkeys("cd", ACCUMULATORS + counts["d"] * (copy % chains))
        operands = [
            "0x0"
            if role.name == "f"
            else f"%r{place['e']}"
            if role.name == "e"
            else _vector(place[role.name], role.count)
            for role in form.roles
        ]
        lines.append(f"{form.opcode} {', '.join(operands)};")
    return tuple(Step(decode(line, target=TARGET), i + 1) for i, line in enumerate(lines))


def _vector(first: int, count: int) -> str:
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


def kind(form: MmaForm) -> str:
    """The kind of sequence that ptxas writes for a form; forms of one kind have sequences that are alike."""
    sparse = "sparse" if form.sparse else "dense"
    return f"{sparse} {'4-bit' if form.a_type.bits == 4 else '8-bit float'}"


def rows(config: Config, short: bool) -> list[Row]:
    """Every stream on every number of warps; in the short form a part of the streams."""
    programs: dict[str, list[dict[str, Any]]] = {}
    for row in measured():
        programs.setdefault(row["program"], []).append(row)
    begins = {loop["name"]: loop["begins"] for loop in loops()[1]}
    parts = list(programs.items())[:: SHORT if short else 1]
    return [found for name, rows in parts for found in _stream(config, rows, begins[name])]


def _stream(config: Config, rows: list[dict[str, Any]], begins: Mapping[str, Sequence[int]]) -> Iterator[Row]:
    """A stream on every number of warps, which begin as measured; the rows of its measurement differ in that alone."""
    first, form, chains = rows[0], mma_form(rows[0]["instruction"]), int(rows[0]["chains"])
    steps = body(form, chains, first["fresh"], int(first["instructions"]))
    about = (("kind", kind(form)), ("fresh", first["fresh"]), ("chains", chains))
    cycles = {row["warps"]: float(row["cycles_per_iteration"]) for row in rows}
    for warps, known, simulated in by_warps(Loop.of(config, steps), cycles, begins):
        yield Row(first["program"], (*about, ("load", load(warps)), ("warps", warps)), known, simulated)


GROUPS = {
    "h100_sxm": (
        Group(
            "emulated",
            "streams of instructions for which ptxas writes sequences, cycles of an iteration",
            "measured: H100 80GB, 2026-11-25, measurements (mma.csv)",
            rows,
            ("kind", "fresh", "load"),
            seconds=32,
        ),
    )
}
