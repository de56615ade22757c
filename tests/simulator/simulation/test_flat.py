"""Loops whose turns need not be executed one by one give what turn by turn gives: the same wavefronts, facts, undefined
cases, warnings, errors and cycles."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pytest

import isa
import simulator
from simulator.compiler.timed_code import Periodic
from simulator.execute import dispatch
from simulator.execute.affine import Foresight, NotForetoldError, Term, centred, steps_of
from simulator.execute.compare import _ORDERS  # the orders of comparisons
from simulator.resources import folder
from simulator.simulation.executions import Executions
from simulator.simulation.group import Group
from simulator.simulation.interpreter import Executed, Interpreter
from simulator.simulation.session import Session
from simulator.state import SharedMemory
from tests.simulator.simulation.test_tcgen05_trace import ALLOC, FREE, HEAD, LEADER
from tests.support.cases import PROGRAMS, examples, exhaustive
from tests.support.random_programs import RandomProgram

MATRIX = (
    "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
    "{%r20, %r21, %r22, %r23}, {%r24, %r25}, {%r26, %r27}, {%r20, %r21, %r22, %r23}, %r28, 0x0;"
)


class Outcome(NamedTuple):
    """What a run gave: its error, what was noted of each operation, warnings and undefined cases."""

    error: str
    notes: dict[tuple[object, ...], list[object]]
    warnings: list[str]
    undefined: Counter[str]
    executed: Executed | None


def _notes(groups: list[Group]) -> dict[tuple[object, ...], list[object]]:
    return {
        (group.code.cta, tuple(group.warps.tolist()), name, index): list(executions)
        for group in groups
        for name in ("wavefronts", "lanes", "facts")
        for index, executions in getattr(group, name).items()
        if executions.count
    }


def outcome(session: Session, *, flat: bool, lean: bool) -> Outcome:
    """Runs a program without its results."""
    machines = session.copies()
    for machine in machines:
        machine.arithmetic = "none"
    interpreter = Interpreter(session.program, machines, flat=flat, lean=lean)
    try:
        interpreter.run()
    except simulator.Error as error:
        return Outcome(str(error), _notes(interpreter.groups), [], Counter(), None)
    executed = interpreter.executed()
    return Outcome("", _notes(interpreter.groups), executed.warnings, executed.undefined, executed)


def compare(session: Session) -> tuple[Outcome, Outcome]:
    """Runs a program turn by turn, with turns left out, and for its time alone; all must agree. Returns the last
    two."""
    plain, flat, lean = (
        outcome(session, flat=flat, lean=lean) for flat, lean in ((False, False), (True, False), (True, True))
    )
    assert plain.error == flat.error == lean.error
    if plain.executed is not None:
        assert plain.notes == flat.notes
        assert plain.notes == lean.notes
        assert (plain.warnings, plain.undefined) == (flat.warnings, flat.undefined)
        assert flat.executed is not None
        assert plain.executed.work == flat.executed.work
        if session.config is not None:
            runs = [(each.executed, skip) for each in (plain, flat, lean) for skip in (True, False)]
            assert len({session.time(executed, skip=skip).cycles for executed, skip in runs}) == 1
    return flat, lean


def _trace(body: str, *, warps: int = 2, shared: int = 4096, outside: int = 0, top: str = "") -> str:
    return (
        f".trace 1\n.target sm_90a\n.warps {warps}\n.shared {shared}\n"
        + (f".global {outside}\n" if outside else "")
        + f"{top}\n.warp 0-{warps - 1} {{\n{body}\n}}\n"
    )


@exhaustive
def test_random_programs() -> None:
    """Programs of random loops, guards, barriers and strides give the same, whatever is left out; of some something
    is."""
    skipped = 0
    for seed in range(examples(42, 5)):
        flat, lean = compare(Session(RandomProgram(seed, 120).text(), "h100_sxm"))
        skipped += sum(each.executed.skipped for each in (flat, lean) if each.executed is not None)
    assert skipped > 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(PROGRAMS // 25))
def test_random_programs_exhaustive(part: int) -> None:
    """With longer loops; TCSIM_PROGRAMS=1000 makes a thousand, which takes some ten minutes."""
    for seed in range(1000 + part * 25, 1025 + part * 25):
        compare(Session(RandomProgram(seed).text(), "h100_sxm"))


BODIES = {
    "constant": "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r2, %r3, %r4, %r5}, [%r1]; " + MATRIX,
    "toggle": "xor.b32 %r1, %r1, 2048; ld.shared.b32 %r2, [%r1];",
    "masked counter": (
        "and.b32 %r2, %r3, 3; mad.lo.u32 %r2, %r2, 132, %r1; add.u32 %r3, %r3, 1; ld.shared.b32 %r4, [%r2];"
    ),
    "rotating": (
        "mad.lo.u32 %r2, %r3, 128, %r1; add.u32 %r3, %r3, 1; setp.eq.u32 %p0, %r3, 3; @%p0 mov.b32 %r3, 0; "
        "st.shared.b32 [%r2], %r4;"
    ),
    "global stride": "ld.global.b32 %r2, [%rd1]; add.u64 %rd1, %rd1, 32;",
    "copies": (
        "cp.async.cg.shared.global [%r1], [%rd1], 16; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0; "
        "add.u64 %rd1, %rd1, 256;"
    ),
    "guard that ends": "setp.lt.u32 %p0, %r3, 70; add.u32 %r3, %r3, 1; @%p0 ld.shared.b32 %r2, [%r1];",
    "long field": "and.b32 %r2, %r3, 1023; shr.u32 %r2, %r2, 7; shl.b32 %r2, %r2, 4; add.u32 %r3, %r3, 1; "
    "add.u32 %r2, %r2, %r1; ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r2];",
    "metadata from memory": "ld.shared.b32 %r28, [%r1]; xor.b32 %r1, %r1, 1024; " + MATRIX,
}


@exhaustive
@pytest.mark.parametrize("name", BODIES)
def test_loops(name: str) -> None:
    """Loops of each kind are found to repeat, alone and within another loop."""
    start = "mov.u32 %r1, %tid.x; shl.b32 %r1, %r1, 4; mul.wide.u32 %rd1, %r1, 1;"
    body = BODIES[name]
    for loop in (f".repeat 150 {{ {body} }}", f".repeat 40 {{ .repeat 3 {{ {body} }} mov.b32 %r9, 0; }}"):
        session = Session(_trace(f"{start} {loop}", outside=1 << 17), "h100_sxm")
        flat, lean = compare(session)
        assert flat.executed is not None
        assert lean.executed is not None
        assert flat.executed.skipped > 30, name
        assert lean.executed.skipped > 30, name


def test_addresses_from_memory() -> None:
    """Turns are not left out while memory changes that addresses come from, also where it changes late."""
    counter = (
        "mov.u32 %r6, %laneid; shl.b32 %r6, %r6, 2; mov.u32 %r1, %tid.x; shl.b32 %r1, %r1, 2; .repeat 60 { "
        "ld.shared.b32 %r2, [%r1]; add.u32 %r3, %r2, %r6; st.shared.b32 [%r1], %r3; and.b32 %r4, %r3, 1020; "
        "ld.shared.b32 %r5, [%r4+2048]; }"
    )
    flat, _ = compare(Session(_trace(counter, warps=1), "h100_sxm"))
    assert len(set(flat.notes[0, (0,), "wavefronts", 8])) > 1
    swept = (
        "mov.u32 %r6, %laneid; shl.b32 %r6, %r6, 7; mov.b32 %r9, 1024; st.shared.b32 [%r9], 1; mov.b32 %r1, 0; "
        "mov.b32 %r7, 0; .repeat 300 { st.shared.b32 [%r1], %r7; add.u32 %r1, %r1, 4; ld.shared.b32 %r2, [%r9]; "
        "mul.lo.u32 %r3, %r2, %r6; ld.shared.b32 %r5, [%r3]; }"
    )
    flat, _ = compare(Session(_trace(swept, warps=1), "h100_sxm"))
    assert Counter(flat.notes[0, (0,), "wavefronts", 10]) == {(32,): 256, (1,): 44}
    outside = (
        "mov.u32 %r6, %laneid; shl.b32 %r6, %r6, 7; mov.b64 %rd1, 0; mov.b64 %rd9, 25600; mov.b32 %r9, 1; "
        "st.global.b32 [%rd9], %r9; .repeat 300 { ld.global.b32 %r2, [%rd1]; add.u64 %rd1, %rd1, 128; "
        "mul.lo.u32 %r3, %r2, %r6; ld.shared.b32 %r5, [%r3]; }"
    )
    flat, _ = compare(Session(_trace(outside, warps=1, outside=1 << 16), "h100_sxm"))
    assert Counter(flat.notes[0, (0,), "wavefronts", 9]) == {(32,): 1, (1,): 299}


def test_mask_behind_a_comparison() -> None:
    """A mask that keeps all that moves, where a comparison turns soon."""
    body = (
        "mov.b32 %r3, 0; .repeat 100 { add.u32 %r3, %r3, 4; setp.lt.u32 %p0, %r3, 40; and.b32 %r2, %r3, 0xFFFFFFFC; "
        "@%p0 ld.shared.b32 %r4, [%r2]; }"
    )
    compare(Session(_trace(body), "h100_sxm"))


def test_order_of_accesses() -> None:
    """What decides which accesses race is the same after each turn of a loop, and not the same before a barrier and
    after it."""
    memory, warps = SharedMemory(64, 3), np.array([0, 1])
    places, words = np.array([[0], [4]]), np.zeros((2, 1, 4), np.uint8)
    digests = []
    for _ in range(4):
        memory.write(places, words, warps)
        digests.append(memory.order())
        memory.synchronise(warps)
        digests.append(memory.order())
    assert digests[2:4] == digests[4:6] == digests[6:8]
    assert digests[2] != digests[3]
    memory.read(places[::-1], 4, warps)
    assert memory.order() not in digests


def test_unlike_warps() -> None:
    """Warps whose loops have unlike periods and lengths, which meet at a barrier."""
    text = _trace(
        "mov.u32 %r1, %laneid; shl.b32 %r1, %r1, 2; .repeat 60 { xor.b32 %r1, %r1, 1024; ld.shared.b32 %r2, [%r1]; "
        "bar.sync 0; } bar.sync 0;",
        warps=3,
    ).replace(".warp 0-2", ".warp 0-1") + (
        ".warp 2 { mov.b32 %r3, 0; .repeat 60 { and.b32 %r4, %r3, 3; mul.lo.u32 %r4, %r4, 128; add.u32 %r3, %r3, 1; "
        "ld.shared.b32 %r2, [%r4]; bar.sync 0; } bar.sync 0; }\n"
    )
    flat, _ = compare(Session(text, "h100_sxm"))
    assert flat.executed is not None
    assert flat.executed.skipped > 100


@pytest.mark.parametrize("lean", [False, True])
def test_error_after_many_turns(lean: bool) -> None:
    """An access that leaves memory in turn 900,000 is reported as it would be turn by turn."""
    body = (
        "mov.b32 %r1, 0; .repeat 1000000 { setp.ge.u32 %p0, %r1, 900000; @%p0 ld.shared.b32 %r2, [%r1+4096]; "
        "add.u32 %r1, %r1, 1; ld.global.b32 %r3, [%rd0]; add.u64 %rd0, %rd0, 4; }"
    )
    found = outcome(Session(_trace(body, outside=1 << 22)), flat=True, lean=lean)
    assert "access to 4 bytes at shared[904096], outside of the 4096 bytes" in found.error
    found = outcome(Session(_trace(body, outside=4 * 800_000)), flat=True, lean=lean)
    assert "access to 4 bytes at global[3200000], outside of the 3200000 bytes" in found.error


def test_million_turns() -> None:
    """A loop takes no longer and no more memory for more turns; the cycles grow as they must."""
    body = "mov.u32 %r1, %tid.x; shl.b32 %r1, %r1, 4; .repeat {} {{ {} }}"
    few, many = (
        simulator.run(_trace(body.format(turns, BODIES["constant"])), arithmetic="none") for turns in (1000, 1_000_000)
    )
    per_turn = (many.cycles - few.cycles) / 999_000
    assert per_turn == round(per_turn)
    assert many.memory.wavefronts == 1000 * few.memory.wavefronts
    assert many.undefined["invalid-metadata"] == 1000 * few.undefined["invalid-metadata"] == 2_000_000


PIPELINE = """
.trace 1
.target sm_90a
.warps 3
.shared 8192
.global 4194304
.warp 0 {
    mov.u32 %r1, %laneid; setp.eq.u32 %p0, %r1, 0; mov.b32 %r2, 0; mov.b32 %r6, 1; mov.b64 %rd1, 0;
    mov.b32 %r20, 4096; mov.b32 %r21, 4104;
    @%p0 mbarrier.init.shared.b64 [%r20], 1;
    @%p0 mbarrier.init.shared.b64 [%r21], 64;
    bar.sync 0;
    .repeat 61 {
        mbarrier.try_wait.parity.shared.b64 %p1, [%r21], %r6;
        xor.b32 %r6, %r6, 1;
        @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r20], 2048;
        @%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 2048, [%r20];
        add.u64 %rd1, %rd1, 2048;
        xor.b32 %r2, %r2, 2048;
    }
}
.warp 1-2 {
    mov.b32 %r5, 0; mov.u32 %r7, %laneid; shl.b32 %r7, %r7, 4; mov.b32 %r20, 4096; mov.b32 %r21, 4104;
    bar.sync 0;
    .repeat TURNS {
        mbarrier.try_wait.parity.shared.b64 %p1, [%r20], %r5;
        xor.b32 %r5, %r5, 1;
        ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r7];
        xor.b32 %r7, %r7, 2048;
        mbarrier.arrive.shared.b64 _, [%r21];
    }
}
"""


def test_mbarriers() -> None:
    """Warps that wait for each other's mbarriers and for bulk copies; a deadlock names the phase that it waits for."""
    flat, lean = compare(Session(PIPELINE.replace("TURNS", "61"), "h100_sxm"))
    for each in (flat, lean):
        assert each.executed is not None
        assert each.executed.skipped > 100
    stuck, _ = compare(Session(PIPELINE.replace("TURNS", "62"), "h100_sxm"))
    assert "phase 61 of the mbarrier at shared[4096]" in stuck.error


TENSOR_MEMORY = f"""{HEAD}.warps 4
.shared 8192
.warp 0-3 {{
    {LEADER}
    @%p0 mbarrier.init.shared::cta.b64 [%r1+8], 1;
    {ALLOC}
    mov.u32 %r5, {(1 << 4) | (1 << 17) | (8 << 24)}; mov.b32 %r8, 0;
    mov.b64 %rd0, {(1024 >> 4) | (128 >> 4) << 16 | (256 >> 4) << 32 | 1 << 46}; mov.b64 %rd1, %rd0;
    shl.b32 %r4, %r2, 21; add.u32 %r4, %r4, %r3;
    .repeat 60 {{
        @%p0 tcgen05.mma.cta_group::1.kind::f16 [%r3], %rd0, %rd1, %r5, %p2;
        @%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r1+8];
        mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r1+8], %r8;
        xor.b32 %r8, %r8, 1;
        tcgen05.fence::after_thread_sync;
        tcgen05.ld.sync.aligned.32x32b.x8.b32 {{%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}}, [%r4];
        tcgen05.wait::ld.sync.aligned; tcgen05.fence::before_thread_sync; bar.sync 0;
    }}
    {FREE}
}}
"""


def test_tensor_memory() -> None:
    """tcgen05 instructions, whose commits warps wait for, and which may lack the last one."""
    flat, lean = compare(Session(TENSOR_MEMORY, "b200"))
    for each in (flat, lean):
        assert each.executed is not None
        assert each.executed.skipped > 150
    stuck, _ = compare(Session(TENSOR_MEMORY.replace("bar.sync 0;\n    }", "}"), "b200"))
    assert "phase 60 of the mbarrier at shared[8], which lacks 1 of 1 arrivals" in stuck.error


SHIPPED = sorted(str(path.relative_to(folder("traces")).with_suffix("")) for path in folder("traces").rglob("*.trace"))


@pytest.mark.parametrize(
    "trace", [pytest.param(t, marks=() if t in ("digits/f16", "digits/s8_tcgen05") else exhaustive) for t in SHIPPED]
)
def test_shipped_traces(trace: str) -> None:
    """The traces that come with tcsim give the same."""
    compare(Session(trace, "b200" if "tcgen05" in trace else "h100_sxm"))


# What it rests on


def _random_values(random: np.random.Generator, bits: int) -> np.ndarray[Any, Any]:
    """Values of all sizes, with edges."""
    values = random.integers(0, 1 << min(bits, 60), (1, 32), np.uint64) >> random.integers(0, bits, (1, 32), np.uint64)
    edges = np.array([0, 1, (1 << (bits - 1)) - 1, 1 << (bits - 1), (1 << bits) - 1], np.uint64)
    return np.where(random.random((1, 32)) < random.choice([0, 0, 0.1]), random.choice(edges, (1, 32)), values)


AFFINE = [
    "mov.b32 %r0, %r1;", "add.u32 %r0, %r1, %r2;", "sub.s32 %r0, %r1, %r2;", "mul.lo.u32 %r0, %r1, %r2;",
    "mul.wide.u32 %rd0, %r1, %r2;", "mul.wide.s32 %rd0, %r1, %r2;", "mad.lo.u32 %r0, %r1, %r2, %r3;",
    "shl.b32 %r0, %r1, %r2;", "shr.u32 %r0, %r1, %r2;", "shr.s32 %r0, %r1, %r2;", "and.b32 %r0, %r1, %r2;",
    "or.b32 %r0, %r1, %r2;", "xor.b32 %r0, %r1, %r2;", "not.b32 %r0, %r1;", "cvt.u64.u32 %rd0, %r1;",
    "cvt.s64.s32 %rd0, %r1;", "cvt.u32.u64 %r0, %rd1;", "cvt.u16.u32 %rs0, %r1;", "cvt.u32.u16 %r0, %rs1;",
    "add.u64 %rd0, %rd1, %rd2;", "sub.u64 %rd0, %rd1, %rd2;", "shl.b64 %rd0, %rd1, %r2;", "shr.u64 %rd0, %rd1, %r2;",
    "shr.s64 %rd0, %rd1, %r2;", "and.b64 %rd0, %rd1, %rd2;", "selp.b32 %r0, %r1, %r2, %p3;",
    *(f"setp.{order}.{kind} %p0, {registers};" for order in _ORDERS
      for kind, registers in (("u32", "%r1, %r2"), ("s32", "%r1, %r2"), ("u64", "%rd1, %rd2"), ("s64", "%rd1, %rd2"))
      if kind[0] == "u" or order not in ("lo", "ls", "hi", "hs")),
]  # fmt: skip


@exhaustive
@pytest.mark.parametrize("text", AFFINE)
def test_affine_rules(text: str) -> None:
    """What a rule foretells is what the instruction gives in each turn for which it says so."""
    instruction = isa.decode(text)
    random, form, foretold = np.random.default_rng(len(text)), instruction.form, 0
    operation = Session(_trace(text, warps=1))
    for _ in range(examples(150, 40)):
        foresight, terms = Foresight(), {}
        for role in form.roles:
            if role.output:
                continue
            values = _random_values(random, role.width)
            if role.width == 32 and "sh" in text and role.name == "b":
                values = np.full((1, 32), random.integers(0, 34), np.uint64)
            sizes = (0, 0, 1, 2, 4, 48, 4096, -1, -16, -4096)
            steps = np.full((1, 32), random.choice(sizes), np.int64) if role.width > 1 else np.zeros((1, 32), np.int64)
            kind = {1: np.bool_, 16: np.uint16, 32: np.uint32, 64: np.uint64}[role.width]
            terms[role.name] = Term(values.astype(kind), steps, role.width)
        bits = form.role("d").width
        try:
            steps = steps_of(form, foresight, terms, bits)
        except NotForetoldError:
            continue
        foretold += 1
        first = None
        last = min(foresight.turns, 1 << 40) - 1
        for turn in sorted({0, *(min(turn, last) for turn in (1, 2, 3, 63, 64, 1000, last - 1, last) if turn > 0)}):
            machine = operation.fresh()[0]
            for role in form.roles:
                if not role.output:
                    term, place = terms[role.name], int(str(instruction[role.name])[-1])
                    moved = term.values.astype(np.uint64) + (term.steps * turn).view(np.uint64)
                    bank = next(b for b in machine.registers.banks if b.dtype == term.values.dtype)
                    bank[:, place] = moved.astype(bank.dtype)
            dispatch.executor(instruction)(machine, np.array([0]))
            bank = next(b for b in machine.registers.banks if b.dtype.itemsize * 8 == max(bits, 8) and b.shape[1])
            given = centred(bank[:, 0].astype(np.uint64), bits) if bits > 1 else bank[:, 0].astype(np.int64)
            first = given if first is None else first
            expected = first + steps * turn
            assert np.array_equal(given, centred(expected, bits) if bits > 1 else expected), (text, turn)
    assert foretold


def test_executions() -> None:
    """What is kept of executions says what each of them gave, however it came and wherever it repeats."""
    random = np.random.default_rng(1)
    for _ in range(examples(100)):
        executions, expected = Executions[int](), list[int]()
        for _ in range(int(random.integers(1, 8))):
            if expected and random.random() < 0.4:
                count, times = int(random.integers(1, min(len(expected), 6) + 1)), int(random.integers(1, 5))
                executions.repeat(executions.last(count), times)
                expected += expected[-count:] * times
            block = random.integers(0, 3, int(random.integers(1, 4))).tolist()
            for number in block * int(random.choice([1, 3, 400])):
                executions.append(number)
                expected.append(number)
        entries, prefix = executions.periodic()
        repeated = Periodic(entries, prefix)
        assert [entries[repeated.position(i)] for i in range(len(expected))] == expected == list(executions)
        assert executions.totals() == Counter(expected)
        assert executions.count == len(expected)
