"""Which operands the compiler keeps for the next matrix instruction, against the `.reuse` flags of its machine code."""

from __future__ import annotations

import csv

from isa.forms.record import Unit
from simulator.chip.config import load_config
from simulator.compiler.timed_code import operations_of
from simulator.studies.validation.programs import programs
from simulator.studies.validation.streams import Loop
from tests.support.cases import exhaustive
from tests.support.paths import TESTS

H100 = load_config("h100_sxm")


def recorded() -> dict[str, str]:
    with (TESTS / "golden" / "kept_operands.csv").open() as file:
        return {
            row["program"]: row["kept"] for row in csv.DictReader(line for line in file if not line.startswith("#"))
        }


def compared(step: int) -> tuple[int, int, int]:
    """How many loops, of every so many, are recorded, have all flags of the machine code, and how many flags differ."""
    known, count, equal, flags = recorded(), 0, 0, 0
    for program in programs(step):
        if program["name"] not in known:
            continue
        loop = Loop.of(H100, tuple(program["body"]))
        matrix = [op for op in operations_of(loop.code) if op.unit is Unit.TENSOR]
        kept = "".join(str(sum(x.kept << slot for slot, x in enumerate(op.operands))) for op in matrix)
        count += 1
        equal += kept == known[program["name"]]
        flags += sum(a != b for a, b in zip(kept, known[program["name"]], strict=True))
    return count, equal, flags


def test_kept_operands_of_some_loops() -> None:
    count, equal, _ = compared(25)
    assert count > 40
    assert equal > 0.97 * count


@exhaustive
def test_kept_operands_are_those_of_ptxas() -> None:
    """All flags of 1,154 of 1,160 loops; in the others an instruction stands between that a trace does not have."""
    assert compared(1) == (1160, 1154, 6)
