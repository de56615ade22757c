"""What an instruction that is no operation costs where the tensor pipe is never idle: loops whose machine code was
rewritten, as an H100 ran them (measurements/measure_issue_slots.py)."""

import pytest

import isa
from simulator.chip.config import load_config
from simulator.compiler.operation_parts import Overhead
from simulator.compiler.timed_code import TimedOperation, operations_of
from simulator.studies.validation.streams import Loop, repeated, stream
from simulator.tables import read_rows
from simulator.timing.run import simulate
from tests.support.paths import ROOT

H100 = load_config("h100_sxm")
SPARSE = "mma.sp::ordered_metadata.sync.aligned.m16n8k{}.row.col.{}"
FORMS = {
    "spk16_f16_f16": SPARSE.format(16, "f16.f16.f16.f16"),
    "spk32_f16_f16": SPARSE.format(32, "f16.f16.f16.f16"),
    "spk32_f32_f16": SPARSE.format(32, "f32.f16.f16.f32"),
    "spk64_s32_s8": SPARSE.format(64, "s32.s8.s8.s32"),
    "k8_f16_f16": "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16",
    "k8_f32_f16": "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
    "k16_f16_f16": "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
}
WARPS, LENGTH, EVERY = 32, 24, 4
COUNTS = (16, 48)


def cycles(form: str, kind: str = "none", stall: int = 0, hint: int = 0, before: str = "") -> float:
    """Cycles of an iteration in which such an instruction stands behind every fourth matrix instruction."""
    loop = Loop.of(H100, stream(isa.mma_form(FORMS[form]), 10, LENGTH))
    operations = list(operations_of(loop.code))[:LENGTH]
    for place, operation in enumerate(operations):
        operation.stall, operation.yields, operation.overhead = operation.interval, False, ()
        operation.operands = tuple(one._replace(kept=False) for one in operation.operands)  # the code has no `.reuse`
        if kind != "none" and place % EVERY == 0:
            first = (Overhead(1, bool(int(before))),) if before else ()
            operation.overhead = (*first, Overhead(stall, bool(hint), kind == "ISETP"))
            operation.stall = stall + 1 + hint  # an instruction with the hint takes two cycles, at least
    end(operations[-1])
    few, many = (simulate(H100, [repeated(loop.code, range(WARPS), count)], WARPS).cycles for count in COUNTS)
    return (many - few) / (COUNTS[1] - COUNTS[0])


def end(operation: TimedOperation) -> None:
    """The counter and the branch of the loop."""
    operation.stall, operation.overhead = 30, (*operation.overhead, Overhead(20, True))


@pytest.mark.exhaustive
def test_costs_of_instructions_in_a_busy_pipe() -> None:
    """Against 966 measured costs. An instruction that its warp can issue just when the pipe takes the next matrix
    instruction takes the slot of that one, unless the instruction before had the yield hint; a comparison finds the
    register ports taken for some cycles behind the matrix instruction of any warp."""
    rows = [
        row for row in read_rows(ROOT / "measurements" / "results" / "issue_slots.csv") if row["warps"] == str(WARPS)
    ]
    measured = {row["form"]: float(row["cycles"]) for row in rows if row["kind"] == "none"}
    simulated = {form: cycles(form) for form in measured}
    errors: dict[str, list[float]] = {"others": [], "comparisons": [], "comparisons, ports never free": []}
    for row in rows:
        kind, form, stall, before = row["kind"], row["form"], int(row["stall"] or 0), row["before"]
        held = not before or (stall >= 3 if before == "1" else stall <= 12)  # longer waits hold with the hint alone
        if row["every"] == str(EVERY) and held:
            found = cycles(form, kind, stall, int(row["hint"]), before) - simulated[form]
            error = abs(found - float(row["cycles"]) + measured[form]) / (LENGTH // EVERY * WARPS // 4)
            name = ", ports never free" if form == "k8_f32_f16" else ""
            errors[f"comparisons{name}" if kind == "ISETP" else "others"].append(error)
    assert {name: len(found) for name, found in errors.items()} == {
        "others": 588,
        "comparisons": 324,
        "comparisons, ports never free": 54,
    }
    means = {name: sum(found) / len(found) for name, found in errors.items()}
    assert means["others"] < 0.12  # of costs of up to 1.1
    assert means["comparisons"] < 0.17  # of up to 4.2, 0.6 on average
    assert means["comparisons, ports never free"] < 0.4  # of up to 3.8, 1.9 on average
