"""The rules of the tensor pipe against an H100: distances of matrix instructions that no wait protects
(measurements/measure_mma_distances.py)."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence

import pytest

import isa
from isa import MmaForm
from isa.forms.record import Unit
from simulator.chip.config import load_config
from simulator.compiler.compile import compile_code
from simulator.compiler.matrix import matrix
from simulator.compiler.timed_code import TimedCode, TimedOperation
from simulator.machine.observer import Stall, TimingObserver, Waits
from simulator.program.blocks import Block
from simulator.program.lowering import linearise
from simulator.studies.validation import programs
from simulator.timing.run import simulate
from tests.support.cases import step
from tests.support.paths import ROOT

H100 = load_config("h100_sxm")
MEASURED = ROOT / "measurements" / "results" / "mma_distances.csv"


def rows(kind: str) -> list[dict[str, str]]:
    with MEASURED.open() as file:
        return [row for row in csv.DictReader(line for line in file if not line.startswith("#")) if row["kind"] == kind]


def form(name: str) -> MmaForm:
    """spk16_f32_f16: mma.sp m16n8k16, accumulator f32, A and B f16."""
    found = re.fullmatch(r"(sp)?k(\d+)_(\w+)_(\w+)", name)
    assert found is not None
    sparse, k, accumulator, kind = found.groups()
    start = "mma.sp::ordered_metadata" if sparse else "mma"
    return isa.mma_form(f"{start}.sync.aligned.m16n8k{k}.row.col.{accumulator}.{kind}.{kind}.{accumulator}")


def operation(name: str) -> TimedOperation:
    return matrix(form(name), H100, (), (), 0)


class Last(TimingObserver):
    """Remembers the cycle of the last issue."""

    cycle = 0

    def issue(
        self, warp: int, core: int, operation: TimedOperation, now: int, stalls: Sequence[Stall], waits: Waits
    ) -> None:
        self.cycle = now


def engine(*names: str) -> int:
    """Cycles by which what follows the last instruction, a cycle later, comes late."""
    items, last = [*(operation(name) for name in names), TimedOperation(Unit.ALU, 1, 1, (), (), 0)], Last()
    code = TimedCode((0,), list(items), [() for _ in items], {}, scheduled=True)
    simulate(H100, [code], 1, observer=last)
    return last.cycle - 1


NOTHING = float(rows("nothing")[0]["cycles"])


def test_pairs() -> None:
    """When the second of two instructions can issue: 144 pairs of classes."""
    for row in rows("pair"):
        assert engine(row["first"], row["second"]) == round(float(row["cycles"]) - NOTHING - 1), row


def test_all_triples() -> None:
    """What the first leaves behind for the third: 1,728 triples of classes, by default each fifth."""
    wrong = [
        row
        for row in rows("triple")[:: step(5)]
        if engine(row["first"], row["second"], row["third"]) != round(float(row["cycles"]) - NOTHING - 1)
    ]
    assert wrong == []


def test_registers_make_no_difference() -> None:
    """Any register numbers for A, B and the accumulator: the same cycles."""
    by_form: dict[str, set[str]] = {}
    for row in rows("registers"):
        by_form.setdefault(row["first"], set()).add(row["cycles"])
    assert len(by_form) == 12
    assert all(len(found) == 1 for found in by_form.values())


def test_programs_are_in_three_sets() -> None:
    found = programs.programs()
    assert [sum(p["set"] == name for p in found) for name in ("given", "random", "held out")] == [40, 240, 80]


def test_a_program_by_itself() -> None:
    """A loop of the file through the same functions as a trace: 24 sparse TF32 instructions of the smaller K."""
    first = programs.programs()[0]
    assert programs.cycles(H100, tuple(first["body"]), 1) == pytest.approx(first["cycles"]["1"], rel=0.001)
    block = Block((0,), tuple(first["body"]), 1)
    assert len(compile_code(linearise(block), H100, {}).items) == len(first["body"])
