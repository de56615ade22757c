"""Instructions that a chip does not have: the sequences in their place, and what a run makes of them."""

from __future__ import annotations

from dataclasses import replace

import isa
from isa import decode
from isa.forms.record import Unit
from simulator.chip.config import load_config
from simulator.compiler.compile import compile_code
from simulator.compiler.sequences.expand import expand
from simulator.compiler.timed_code import StallReason, TimedCode, TimedLoop, TimedOperation
from simulator.program.blocks import Block, Repeat, Step
from simulator.program.lowering import linearise
from simulator.studies.validation.emulated import GROUPS, body, kind, measured
from simulator.studies.validation.programs import cycles
from simulator.timing.recorder import Recorder
from simulator.timing.result import Timing
from simulator.timing.run import simulate
from tests.support.cases import alike, examples, exhaustive, over

H100 = load_config("h100_sxm")
RULES = H100.sequences
assert RULES is not None
EMULATED = [form for form in isa.mma_forms().values() if form.supports(H100.target) and RULES.find(form)]
DENSE = isa.mma_form("mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e4m3.f32")
CALLED = isa.mma_form("mma.sync.aligned.m8n8k32.row.col.s32.u4.u4.s32")
SPARSE = isa.mma_form("mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.f32.e4m3.e4m3.f32")


def code(form: isa.MmaForm, chains: int, fresh: str, copies: int, warps: int = 1, runs: int = 3) -> TimedCode:
    block = Block(tuple(range(warps)), (Repeat(runs, body(form, chains, fresh, copies), 1),), 1)
    return compile_code(linearise(block), H100, {})


def run(timed: TimedCode, warps: int, skip: bool = True, recorder: Recorder | None = None) -> Timing:
    return simulate(H100, [timed], warps, skip=skip, observer=recorder)


def operations(timed: TimedCode) -> list[TimedOperation]:
    return [item for item in timed.items if isinstance(item, TimedOperation)]


def test_every_emulated_form_has_a_sequence() -> None:
    """Those that the chip does not have, and no others; single bits and m8n8k4 of f16 have no time."""
    timed = [f for f in isa.mma_forms().values() if f.supports(H100.target) and f.blocks == 1 and f.a_type.name != "b1"]
    lacking = {f.opcode for f in timed if not f.native(H100.target)}
    assert {form.opcode for form in EMULATED} == lacking
    assert all(H100.tensor_class(form) is None for form in EMULATED)


@over("form", EMULATED, ids=lambda form: form.opcode)
def test_expansion_has_every_row_in_order_of_dependency(form: isa.MmaForm) -> None:
    """Every row is there, its values are made before they are used, and one operation counts as the instruction."""
    assert RULES is not None
    sequence = RULES.find(form)
    assert sequence is not None
    block = Block((0,), tuple(body(form, 1, "none", 1)), 1)
    before = compile_code(linearise(block), H100, {})
    found = operations(expand(before, H100))
    moves = len(found) - len(sequence.rows)
    counts = {role.name: role.count for role in form.roles}
    assert moves == (
        counts["a"] + counts["b"] + counts["c"] + counts["d"] + counts.get("e", 0) + 1 if sequence.called else 0
    )
    made = set(before.items[0].reads) if isinstance(before.items[0], TimedOperation) else set()
    for op in found:
        assert set(op.reads) <= made, form.opcode
        made |= set(op.writes)
    written = {register for op in found for register in op.writes}
    assert isinstance(before.items[0], TimedOperation)
    assert set(before.items[0].writes) <= written
    assert [op.part is not None and op.part.further for op in found] == [False, *[True] * (len(found) - 1)]
    assert {op.place for op in found} == {0}


def test_registers_of_values_from_in_front_of_a_loop_last_as_long_as_the_loop() -> None:
    """Two products with an A of their own each: both are converted in front of the loop, and each run reads both, so
    what the loop writes has other registers."""
    texts = [
        line
        for a, d in ((0, 20), (2, 24))
        for line in (
            "add.s32 %r8, %r8, %r9;",
            f"{DENSE.opcode} {vector(d, 4)}, {vector(a, 2)}, {{%r8}}, {vector(d, 4)};",
        )
    ]
    steps = tuple(Step(decode(text), number + 1) for number, text in enumerate(texts))
    timed = expand(compile_code(linearise(Block((0,), (Repeat(3, steps, 1),), 1)), H100, {}), H100)
    (end,) = timed.ends.values()
    ahead, inside = timed.items[: end.start], timed.items[end.start : timed.items.index(end)]
    converted = {register for op in ahead if isinstance(op, TimedOperation) for register in op.writes}
    written = {register for op in inside if isinstance(op, TimedOperation) for register in op.writes}
    assert len(converted) == 8
    assert not converted & written


def vector(first: int, count: int) -> str:
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


def test_expansion_of_dense_8_bit_floats_by_hand() -> None:
    """m16n8k16 of 8-bit floats: six conversions, each of a register's halves, two products in a chain, four additions
    of C."""
    block = Block((0,), tuple(body(DENSE, 1, "none", 1)), 1)
    found = operations(expand(compile_code(linearise(block), H100, {}), H100))
    assert [op.unit for op in found] == [Unit.ALU] * 6 + [Unit.TENSOR] * 2 + [Unit.FMA] * 4
    low, high = found[6], found[7]
    assert set(low.writes) <= set(high.reads)
    assert [op.writes for op in found[8:]] == [(20,), (21,), (22,), (23,)]
    # Conversions every 2 cycles; 7 to the product, 16 to the next, 16 to an addition, 4 additions, 4 until the last is
    # done.
    registers, issue = replace(H100.registers, halves=False), replace(H100.issue, width=2)
    config = replace(H100, registers=registers, issue=issue)  # registers are there at issue
    alone = simulate(config, [compile_code(linearise(block), config, {})], 1)
    assert alone.cycles == 2 * 5 + 7 + 16 + 16 + 3 + 4


@exhaustive
@over("form", [DENSE, CALLED, SPARSE], ids=lambda form: form.opcode)
@over("warps", [6, 1], distinct=alike)
@over("fresh", ["none", "all"])
def test_stalls_sum_to_cycles_with_and_without_skipping(form: isa.MmaForm, warps: int, fresh: str) -> None:
    """Stalls sum, an instruction is issued once in each run, and skipped repetitions count as those that are
    simulated."""
    runs, copies = examples(40, 10), 3
    ledgers = []
    timings = []
    for skip in (True, False):
        recorder = Recorder()
        timing = run(code(form, 2, fresh, copies, warps, runs), warps, skip, recorder)
        ledgers.append(recorder.ledgers())
        timings.append(timing)
        for waits in timing.waits.values():
            assert sum(waits) == timing.cycles
            assert waits[StallReason.ISSUED] == runs * len(body(form, 2, fresh, copies))
    assert timings[0].cycles == timings[1].cycles
    assert timings[0].waits == timings[1].waits
    assert ledgers[0] == ledgers[1]
    assert sum(row[StallReason.ISSUED] for row in ledgers[0][0]) == runs * warps * len(body(form, 2, fresh, copies))


def test_loop_invariant_values_leave_the_loop() -> None:
    """With A and B as they are, only the products and additions of a sequence are left in a loop."""
    timed = expand(code(DENSE, 1, "none", 2), H100)
    end = next(item for item in timed.items if isinstance(item, TimedLoop))
    inside = [op for op in timed.items[end.start :] if isinstance(op, TimedOperation)]
    assert end.start == 6 + 2  # the products, too, without C; they are the same for both copies
    assert all(op.unit is Unit.FMA for op in inside)


def test_a_call_that_adds_to_the_last_result_moves_nothing() -> None:
    """One accumulator: each call finds all operands where the last has left them; two: C and D move."""
    for chains, moves in ((1, 0), (2, 2 + 2)):
        found = operations(expand(code(CALLED, chains, "none", 4), H100))
        calls = sum(op.unit is Unit.CONTROL for op in found) / 2
        rows = sum(len(RULES.find(CALLED).rows) + 1 for _ in range(4)) if RULES else 0  # type: ignore[misc, union-attr]
        assert calls == 4
        assert len(found) - rows == 4 * moves


def test_expansion_leaves_other_instructions_unchanged() -> None:
    line = (
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, {%r8, "
        "%r9}, {%r0, %r1, %r2, %r3};"
    )
    timed = compile_code(linearise(Block((0,), (Step(decode(line, target="sm_90a"), 1),), 1)), H100, {})
    assert expand(timed, H100) is timed


def test_emulated_streams_take_the_measured_cycles() -> None:
    """One warp, one stream of each kind, within the errors that docs/timing.md gives."""
    allowed = {"8-bit float": 0.36, "4-bit": 0.15}
    rows = {(row["program"], row["warps"]): row for row in measured()}
    for program in (
        "mma_mma_m16n8k32_f32_e4m3_e4m3_c1_all",
        "mma_mma_m16n8k32_s32_u4_u4_c2_none",
        "mma_spo_m16n8k64_s32_s4_s4_c2_none",
    ):
        row = rows[program, "1"]
        form = isa.mma_form(row["instruction"])
        found = cycles(H100, body(form, int(row["chains"]), row["fresh"], int(row["instructions"])), 1)
        limit = next(value for name, value in allowed.items() if kind(form).endswith(name))
        assert abs(found / float(row["cycles_per_iteration"]) - 1) < limit, program
    assert {row["instruction"] for row in measured()} <= {form.opcode for form in EMULATED}
    assert [group.name for group in GROUPS["h100_sxm"]] == ["emulated"]
