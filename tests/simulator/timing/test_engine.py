"""The timing engine: rules that can be worked out by hand, a second scheduler that steps cycle by cycle, and skipping
that changes nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import isa
import simulator
from isa.forms.record import Unit
from simulator.chip.config import Config, load_config
from simulator.chip.tables import POLICIES, Issue, Loop, Schedule, TensorClass
from simulator.compiler.compile import compile_code
from simulator.compiler.timed_code import StallReason, TimedCode, TimedLoop, TimedOperation, by_warp
from simulator.program import load
from simulator.program.lowering import Code, LoopEnd, Operation, linearise
from simulator.state.shared import wavefronts
from simulator.timing.result import Timing
from simulator.timing.run import simulate
from tests.support.cases import case_of, examples, exhaustive, over

H100 = load_config("h100_sxm")
NO_RULES = Schedule(10**9, 1, 0)  # one instruction can wait as long as it wants, and loops have no counter
# the end of a loop costs nothing, and warps take turns
TURNS = Issue("greedy-round-robin", greedy=5)
FREE_LOOPS = replace(H100, loop=Loop(0, 0, False), schedule=NO_RULES, issue=TURNS)
SUPPORTED = [form for form in isa.mma_forms().values() if form.supports(H100.target)]
FORMS = [form for form in SUPPORTED if H100.tensor_class(form)]  # test_which_forms_have_no_time says which these are
HEAD = ".trace 1\n.target sm_90a\n"
FULL_K = "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"


def vector(first: int, count: int) -> str:
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


def mma_text(form: isa.MmaForm, d: int, a: int, b: int, c: int, e: int = 0) -> str:
    """The instruction with consecutive registers from these on."""
    counts = [role.count for role in form.roles[:4]]
    operands = [vector(first, count) for first, count in zip((d, a, b, c), counts, strict=True)]
    return f"{form.opcode} {', '.join(operands)}{f', %r{e}, 0' if form.sparse else ''};"


def class_of(form: isa.MmaForm, config: Config = H100) -> TensorClass:
    found = config.tensor_class(form)
    assert found is not None
    return found


SPARSE = isa.mma_form(FULL_K)
SLOW, FAST = class_of(SPARSE), class_of(isa.mma_form("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


def write(folder: Path, text: str) -> Path:
    path = folder / "case.trace"
    path.write_text(text)
    return path


def cycles(folder: Path, body: str, config: Config = H100, warps: int = 1) -> int:
    """Cycles of a program that all warps run, checked with and without skipping."""
    path = write(folder, f"{HEAD}.warps {warps}\n.shared 16384\n.warp 0-{warps - 1} {{\n{body}\n}}\n")
    found = simulator.run(path, config, arithmetic="none").cycles
    assert simulator.run(path, config, arithmetic="none", skip=False).cycles == found
    return found


# Uniform streams


def stream(folder: Path, form: isa.MmaForm, chains: int, warps: int, repeats: int, config: Config) -> simulator.Report:
    """`chains` independent accumulators in each warp, each updated once an iteration."""
    body = "\n".join(mma_text(form, 20 + 4 * i, 0, 8, 20 + 4 * i, 16) for i in range(chains))
    path = write(folder, f"{HEAD}.warps {warps}\n.warp 0-{warps - 1} {{ .repeat {repeats} {{\n{body}\n}} }}\n")
    return simulator.run(path, config, arithmetic="none")


def check_stream(folder: Path, form: isa.MmaForm, chains: int, warps: int, config: Config) -> None:
    """Cycles of an iteration are max(latency, warps of a sub-core * chains * interval); a blocking form has no chains
    side by side."""
    found = class_of(form, config)
    latency = found.latency * (chains if found.blocking else 1)
    wanted = max(latency, -(-warps // config.sm.sub_cores) * chains * found.interval)
    few, many = (stream(folder, form, chains, warps, n, config) for n in (40, 240))
    assert many.cycles - few.cycles == 200 * wanted, (form.opcode, chains, warps)
    for report in (few, many):
        assert all(sum(row.values()) == report.cycles for row in report.waits.values())
        assert all(
            row["issued"] == row_issued
            for row in report.waits.values()
            for row_issued in [report.matrix_instructions // warps]
        )
        assert all(0 <= share <= 1 for share in report.utilisation.values())
    busy = max(share for unit, share in many.utilisation.items() if unit.endswith("tensor"))
    assert busy == pytest.approx(-(-warps // 4) * chains * found.interval * 240 / many.cycles)


CLASSES = list({class_of(form).name: form for form in reversed(FORMS)}.values())[::-1]
STREAMS = list(product([1, 2, 3, 5], [1, 3, 4, 5, 8, 16, 32]))


def test_the_streams_are_of_every_class() -> None:
    assert {class_of(form).name for form in CLASSES} == {c.name for c in H100.tensor}


@over(
    ("number", "form"),
    enumerate(CLASSES),
    ids=lambda value: getattr(value, "opcode", value),
    distinct=lambda _, form: class_of(form).name,
)
def test_streams(folder: Path, number: int, form: isa.MmaForm) -> None:
    """Every class, every number of chains, every number of warps."""
    check_stream(folder, form, *STREAMS[5 * number % len(STREAMS)], FREE_LOOPS)


@exhaustive
@pytest.mark.parametrize("warps", [1, 3, 4, 5, 8, 16, 32])
def test_every_stream(folder: Path, warps: int) -> None:
    for form, chains in product(CLASSES, [1, 2, 3, 5]):
        with case_of(form.opcode, chains):
            check_stream(folder, form, chains, warps, FREE_LOOPS)


@over(
    "form",
    FORMS,
    ids=lambda form: form.opcode,
    distinct=lambda form: (class_of(form).name, form.roles),
)
def test_every_form(folder: Path, form: isa.MmaForm) -> None:
    check_stream(folder, form, 2, 8, FREE_LOOPS)


@pytest.mark.parametrize(("warps", "wanted"), [(1, 4 * 8 + 3), (4, 4 * 8 + 3), (5, 8 * 8), (8, 8 * 8)])
def test_stalls(folder: Path, warps: int, wanted: int) -> None:
    """A warp that its own instruction holds for the interval: alone on its sub-core it pays for the loop's end, with
    another it does not."""
    config = replace(
        FREE_LOOPS, loop=Loop(3, 0, False), tensor=tuple(replace(c, stall=c.interval) for c in FREE_LOOPS.tensor)
    )
    few, many = (stream(folder, SPARSE, 4, warps, n, config).cycles for n in (40, 240))
    assert class_of(SPARSE).interval == 8
    assert many - few == 200 * wanted


@pytest.mark.parametrize("name", ["h100_sxm", "a100", "rtx3070ti", "rtx3090", "rtx4090"])
def test_which_forms_have_no_time(name: str) -> None:
    """Those that nobody measured: f64, single bits, and m8n8k4 of f16, which is a routine on both chips. All others
    have one."""
    config = load_config(name)
    for form in (f for f in isa.mma_forms().values() if f.supports(config.target)):
        unmeasured = form.a_type.name in ("f64", "b1") or form.blocks > 1
        if not config.tensor_cycles(form):
            assert unmeasured, form.opcode
        elif config.tensor_class(form) is not None:
            assert sum(c.matches(form) for c in config.tensor) >= 1
    assert {form.sparse for form in FORMS} == {True, False}


UNTIMED = [form for form in SUPPORTED if not H100.tensor_cycles(form) and form.a_type.register_bits == 32]


@over("form", UNTIMED, ids=lambda form: form.opcode)
def test_a_form_without_a_time_is_one_clear_error(folder: Path, form: isa.MmaForm) -> None:
    path = write(folder, f"{HEAD}.warps 1\n.warp 0 {{\nmov.u32 %r0, 1;\n{mma_text(form, 20, 0, 8, 20)}\n}}\n")
    with pytest.raises(
        simulator.ConfigError, match=f"line 6: no .*tensor.* class matches '{re.escape(form.opcode)}'"
    ) as caught:
        simulator.run(path, H100)
    assert f"inputs with {form.a_type}" in str(caught.value)
    assert str(caught.value).count("\n") == 0


# By hand. s: mma.sp of full k, d: mma of small k.


def s(d: int, a: int = 100, c: int = 120) -> str:
    return mma_text(SPARSE, d, a, 110, c, 130)


def d(first: int, a: int = 100, c: int = 120) -> str:
    return mma_text(isa.mma_form("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"), first, a, 110, c)


ALU, SHARED = H100.alu, H100.shared
L, G = SLOW.latency, FAST.latency
MOV, LOAD = "mov.u32 %r{}, {};", "ld.shared.b32 %r{}, [%r{}];"
HANDMADE: list[tuple[str, str, int]] = [
    ("one", s(0), L),
    ("two that share the pipe", s(0) + s(4), SLOW.interval + L),
    ("three that share the pipe", s(0) + d(4) + d(8), max(L, SLOW.interval + FAST.interval + G)),
    ("read after write of C", s(0) + s(4, c=0), 2 * L),
    ("read after write of A", s(0) + s(4, a=0), 2 * L),
    ("read after write of the last register", s(0) + d(8, c=3), L + G),
    ("no dependency on the neighbour", s(0) + d(8, c=4), max(L, SLOW.interval + G)),
    ("accumulating", s(0, c=0) + s(0, c=0) + s(0, c=0), 3 * L),
    ("write after write, the second is faster", s(0) + MOV.format(0, 1), L + 1),
    ("write after write, the second is slower", MOV.format(0, 1) + s(0), 1 + L),
    ("write after write between matrix instructions", s(0) + d(0), L + 1),
    ("write after read needs no wait", s(0, a=4) + MOV.format(4, 1), max(L, 1 + ALU.latency)),
    ("integer to integer", MOV.format(0, 1) + "or.b32 %r1, %r0, 1;", 2 * ALU.latency),
    ("integer pipe", MOV.format(0, 1) + MOV.format(1, 1), ALU.interval + ALU.latency),
    ("integer to matrix", MOV.format(0, 1) + s(4, a=0), ALU.tensor_latency + L),
    ("integer to address", MOV.format(0, 64) + LOAD.format(1, 0), ALU.address_latency + SHARED.latency),
    ("matrix to integer", s(0) + "add.s32 %r1, %r0, 1;", L + ALU.latency),
    ("load to integer", LOAD.format(0, 1) + "add.s32 %r1, %r0, 1;", SHARED.latency + ALU.latency),
    ("load to matrix", LOAD.format(0, 1) + s(4, a=0), SHARED.latency + L),
    ("load to address", LOAD.format(0, 1) + LOAD.format(2, 0), 2 * SHARED.latency),
    ("two loads", LOAD.format(0, 9) + LOAD.format(1, 9), SHARED.warp_interval + SHARED.latency),
    (
        "integer to the address of a load that overwrites it",
        MOV.format(0, 64) + LOAD.format(0, 0),
        ALU.address_latency + SHARED.overlap_latency + SHARED.latency,
    ),
    (
        "integer to integer in the other pipe",
        "and.b32 %r0, %r1, %r1;" + "add.s32 %r2, %r0, %r0;" + "add.s32 %r3, %r2, %r2;",
        3 * ALU.latency + 2 * ALU.change_latency,
    ),
    (
        "integer to integer in the same pipe",
        "and.b32 %r0, %r1, %r1;" + "or.b32 %r2, %r0, %r0;" + "mad.lo.s32 %r3, %r4, %r4, %r4;",
        ALU.latency + ALU.interval + ALU.latency,
    ),
    (
        "write after read of an address",
        LOAD.format(0, 9) + MOV.format(9, 1) + MOV.format(7, 1) * 5,
        SHARED.port_cycles + SHARED.operand_latency + 5 * ALU.interval + ALU.latency,
    ),
    (
        "write after read of a stored value",
        "st.shared.v4.b32 [%r9], {%r0, %r1, %r2, %r3};" + MOV.format(3, 1),
        5 * SHARED.port_cycles + SHARED.operand_latency + ALU.latency,
    ),
    ("write after write of a loaded value", LOAD.format(0, 9) + MOV.format(0, 1), SHARED.latency + ALU.latency),
    (
        "a store holds back the tensor pipe no more than a load",
        "st.shared.v4.b32 [%r9], {%r0, %r1, %r2, %r3};" + s(20),
        1 + L,
    ),
    ("a load is held up by a matrix instruction behind it", LOAD.format(40, 9) + s(20), SHARED.latency + 5),
    (
        "a load after a store",
        "st.shared.v4.b32 [%r9], {%r0, %r1, %r2, %r3};" + LOAD.format(40, 9),
        4 * SHARED.port_cycles + SHARED.store_latency + 4 * SHARED.wavefront_interval + SHARED.latency,
    ),  # four lines of 128 bytes: addresses are equal
    ("a load nobody waits for", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r9];", SHARED.latency),
    (
        "a barrier of one warp",
        "bar.sync 0;" + MOV.format(0, 1),
        H100.barrier.arrival + H100.barrier.latency + ALU.latency,
    ),
    ("nothing", "", 0),
]


@over(("body", "wanted"), [row[1:] for row in HANDMADE], ids=[row[0] for row in HANDMADE])
def test_by_hand(folder: Path, body: str, wanted: int) -> None:
    assert cycles(folder, body) == wanted


@pytest.mark.parametrize("warps", [1, 2, 4, 7, 8, 16, 32])
def test_barrier(folder: Path, warps: int) -> None:
    """As measured: w warps that arrive together pass after 12 + 2 w cycles."""
    last = -(-warps // 4) - 1  # warps of a sub-core issue one after the other behind the barrier
    assert (
        cycles(folder, "bar.sync 0; mov.u32 %r0, 1;", warps=warps) == 12 + 2 * warps + last * ALU.interval + ALU.latency
    )


def test_sub_cores_do_not_share_pipes(folder: Path) -> None:
    for warps in (1, 2, 3, 4):
        assert cycles(folder, s(0) + s(4), warps=warps) == SLOW.interval + L
    assert cycles(folder, s(0) + s(4), warps=5) == 3 * SLOW.interval + L


def test_one_issue_a_cycle(folder: Path) -> None:
    """Two warps of a sub-core want different pipes in the same cycle: one waits."""
    path = write(folder, f"{HEAD}.warps 5\n.warp 0 {{ {s(0)} }}\n.warp 4 {{ mov.u32 %r0, 1; }}\n")
    report = simulator.run(path, H100, arithmetic="none")
    assert (report.waits[4]["issue"], report.waits[4]["issued"]) == (1, 1)
    assert report.waits[0]["issue"] == 0
    assert report.cycles == L


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        (Loop(0, 0, False), 2),  # two issues, one a cycle
        (Loop(3, 0, False), 5),  # and three more cycles
        (Loop(0, 28, False), 28),
        (Loop(0, 0, True), 1 + L),  # the second issues a cycle after the first, and is waited for
        (Loop(2, 0, True), 1 + L),  # the branch takes part of that time
        (Loop(L + 7, 0, True), 2 + L + 7),
        (Loop(2, 28, True), 28),
    ],
)
def test_loop_ends(folder: Path, rule: Loop, wanted: int) -> None:
    """Cycles of an iteration of two independent matrix instructions, on a pipe that takes one a cycle, by rule."""
    config = replace(H100, loop=rule, schedule=NO_RULES, tensor=tuple(replace(c, interval=1) for c in H100.tensor))
    few, many = (cycles(folder, f".repeat {n} {{ {s(0)} {s(4)} }}", config) for n in (10, 30))
    assert many - few == 20 * wanted


UNLIKE = [
    # the last two instructions, and the cycles between them on the H100
    ("f32 before f16", ("k8", "f32", "f16"), ("k8", "f16", "f16"), 4 + 1),
    ("f16 before f32", ("k8", "f16", "f16"), ("k8", "f32", "f16"), 4),
    ("f32 before s32", ("k16", "f32", "f16"), ("k32", "s32", "s8"), 6 + 3),
    ("f16 before s32", ("k16", "f16", "f16"), ("k16", "s32", "s8"), 6 + 2),
    ("s32 before f32", ("k32", "s32", "s8"), ("k16", "f32", "f16"), 6),
    ("f32 before the long sparse f16", ("k16", "f32", "f16"), ("spk32", "f16", "f16"), 6),
    ("dense before sparse", ("k16", "f32", "f16"), ("spk32", "f32", "f16"), 6),
    ("sparse before dense", ("spk32", "f32", "f16"), ("k16", "f32", "f16"), 8),
]


def native(shape: tuple[str, str, str], first: int) -> str:
    k, accumulator, kind = shape
    name = f"mma{'.sp::ordered_metadata' if k.startswith('sp') else ''}.sync.aligned.m16n8k{k.lstrip('spk')}"
    return mma_text(
        isa.mma_form(f"{name}.row.col.{accumulator}.{kind}.{kind}.{accumulator}"), first, 100, 110, first, 130
    )


@pytest.mark.parametrize(("one", "other", "wanted"), [row[1:] for row in UNLIKE], ids=[row[0] for row in UNLIKE])
def test_unlike_instructions(folder: Path, one: tuple[str, str, str], other: tuple[str, str, str], wanted: int) -> None:
    """As measured on the H100 (measurements/results/mma_distances.csv): when the second issues; what comes after a late
    start, waits."""
    alone = cycles(folder, native(other, 8))
    assert cycles(folder, native(one, 0) + native(other, 8)) - alone == wanted
    late = not one[0].startswith("sp") and other[0].startswith("sp") and wanted in (4, 6)
    interval = class_of(isa.mma_form(native(other, 8).split()[0])).interval
    assert cycles(folder, native(one, 0) + native(other, 8) + native(other, 16)) - alone == wanted + interval + late


def test_waits_beyond_fifteen_cycles(folder: Path) -> None:
    """A chain of the smaller K wants 16 cycles between two: a stall of 15 and a NOP, which takes two."""
    for count in (2, 3, 5):
        assert cycles(folder, d(0, c=0) * count) == 17 * (count - 1) + G
    assert cycles(folder, d(0, c=0) + d(4, c=4) + d(0, c=0) + d(4, c=4)) == 16 + 4 + G  # 12 of them are left


def test_the_counter_of_a_loop(folder: Path) -> None:
    """The comparison comes 7 cycles after the start; behind a sparse f32 instruction of the smaller K it costs what is
    left of its three cycles. In a loop of instructions on which little depends the addition comes first and takes a
    cycle, and then the comparison meets nothing (59 cycles were measured: random_186 and random_229)."""

    def iteration(accumulators: str, length: int, chains: int) -> float:
        body = "".join(native(("spk16", accumulators, "f16"), 4 * (i % chains)) for i in range(length))
        few, many = (cycles(folder, f".repeat {n} {{ {body} }}") for n in (10, 30))
        return (many - few) / 20

    assert [iteration(kind, 12, 4) for kind in ("f32", "f16")] == [11 * 6 + 2 + 16, 11 * 6 + 16]
    assert [iteration(kind, 8, 8) for kind in ("f32", "f16")] == [7 * 6 + 16 + 1] * 2


def test_nested_loops_are_loops(folder: Path) -> None:
    """A nest, unrolled by hand into its straight line, takes the same time where ends of loops are free."""
    nest = f".repeat 3 {{ {s(0, c=0)} .repeat 4 {{ {d(4, c=4)} {s(8, a=4)} }} {d(0, c=8)} }}"
    line = (s(0, c=0) + (d(4, c=4) + s(8, a=4)) * 4 + d(0, c=8)) * 3
    assert cycles(folder, nest, FREE_LOOPS) == cycles(folder, line, FREE_LOOPS)


# Shared memory


def wavefronts_by_hand(addresses: list[int], width: int) -> int:
    """Groups of lanes that move 128 bytes at most; each as long as the bank with the most different words."""
    group = min(len(addresses), 128 // max(width, 4))
    total = 0
    for first in range(0, len(addresses), group):
        banks: dict[int, set[int]] = {}
        for address in addresses[first : first + group]:
            for byte in range(address, address + width):
                banks.setdefault(byte // 4 % 32, set()).add(byte // 4)
        total += max(map(len, banks.values()))
    return total


@given(
    st.sampled_from([1, 2, 4, 8, 16]),
    st.sampled_from([8, 16, 32]),
    st.integers(0, 2**32 - 1),
    st.sampled_from([16, 256, 8192]),
)
@settings(max_examples=examples(150), deadline=None)
def test_wavefronts(width: int, lanes: int, seed: int, span: int) -> None:
    addresses = np.random.default_rng(seed).integers(0, max(span // width, 1), (3, lanes)) * width
    assert wavefronts(addresses, width).tolist() == [wavefronts_by_hand(row.tolist(), width) for row in addresses]


@over(
    ("stride", "opcode", "wanted"),
    [(4 * way, "ld.shared.b32", way) for way in (1, 2, 4, 8, 16, 32)]
    + [
        (0, "ld.shared.b32", 1),
        (12, "ld.shared.b32", 1),
        (1, "ld.shared.u8", 1),
        (2, "ld.shared.u16", 1),
        (8, "ld.shared.v2.b32", 2),
    ]
    + [
        (16, "ld.shared.v4.b32", 4),
        (0, "ld.shared.v4.b32", 4),
        (128, "ld.shared.v4.b32", 32),
        (256, "ld.shared.v2.b32", 32),
    ]
    + [(16, "ldmatrix.sync.aligned.m8n8.x4.shared.b16", 4), (16, "ldmatrix.sync.aligned.m8n8.x1.shared.b16", 1)]
    + [
        (128, "ldmatrix.sync.aligned.m8n8.x2.shared.b16", 16),
        (32, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", 8),
    ],
)
def test_bank_conflicts(folder: Path, stride: int, opcode: str, wanted: int) -> None:
    """A load by lanes `stride` bytes apart takes the wavefronts that the banks say: in latency, in the port, in the
    report."""
    count = next((int(q[1:]) for q in opcode.split(".") if q in ("v2", "v4", "x1", "x2", "x4")), 1)
    operand = vector(4, count) if count > 1 or "matrix" in opcode else "%r4"
    setup = f"mov.u32 %r0, %laneid; mul.lo.u32 %r0, %r0, {stride}; bar.sync 0;"
    load = f"{opcode} {operand}, [%r0];"
    base, one = (cycles(folder, setup + text) for text in ("mov.u32 %r1, 1;", load))
    latency = SHARED.latency + (SHARED.register_latency * (count - 1) if opcode.startswith("ld.") else 0)
    assert one - base == latency + SHARED.wavefront_interval * (wanted - 1) - ALU.latency
    apart = cycles(folder, setup + load + load.replace(operand, vector(12, count) if operand[0] == "{" else "%r12"))
    assert apart - one == max(SHARED.warp_interval, SHARED.wavefront_interval * wanted)
    path = write(folder, f"{HEAD}.warps 1\n.shared 16384\n.warp 0 {{ {setup} {load} }}\n")
    memory = simulator.run(path, H100).memory
    size = 128 * count if "matrix" in opcode else 32 * count * int(opcode.rsplit(".", 1)[1][1:]) // 8
    assert (memory.accesses, memory.bytes, memory.wavefronts, memory.conflicts) == (
        1,
        size,
        wanted,
        max(wanted - -(-size // 128), 0),
    )


def test_shared_memory_is_one_server(folder: Path) -> None:
    """Four sub-cores load 8 wavefronts each: the SM serves one a cycle, and each warp needs two cycles for each of its
    own."""
    body = "mov.u32 %r0, %laneid; mul.lo.u32 %r0, %r0, 32; bar.sync 0; ld.shared.b32 %r1, [%r0];"
    one, two, four = (cycles(folder, body, warps=warps) - H100.barrier.arrival * warps for warps in (1, 2, 4))
    assert two - one == 1
    assert four - one == 4 * 8 * SHARED.cycles - SHARED.wavefront_interval * 8 + 1


def test_a_sub_core_lets_a_number_of_accesses_wait(folder: Path) -> None:
    """Loads of 32 wavefronts that nobody waits for, then an instruction: it waits for those for which there is no room,
    while the second is served, the SM's queue is full, one has been through the port and others wait for it."""
    setup = "mov.u32 %r0, %laneid; mul.lo.u32 %r0, %r0, 128; bar.sync 0;"
    room = 2 + SHARED.waiting + 1 + SHARED.queue
    loads = [f"ld.shared.b32 %r{number + 1}, [%r0];" for number in range(room + 3)]

    def issued(count: int) -> int:
        path = write(
            folder, f"{HEAD}.warps 1\n.shared 16384\n.warp 0 {{ {setup} {''.join(loads[:count])} mov.u32 %r99, 1; }}\n"
        )
        return simulator.run(path, H100, arithmetic="none").waits[0]["shared"]

    each, between = 32 * SHARED.wavefront_interval, SHARED.warp_interval - 1
    waits = np.diff([issued(room - 1 + more) for more in range(5)]).tolist()
    assert waits[0] == between  # but for the first of these, whose time depends on when the first access began
    assert between < waits[1] < each
    assert waits[2:] == [each - 1, each - 1]


# A second opinion: every cycle, every sub-core, every warp


@dataclass
class Thread:
    """A warp of the reference scheduler."""

    number: int
    code: Code
    config: Config
    pc: int = 0
    loops: dict[int, int] = field(default_factory=dict)
    started: dict[int, int] = field(default_factory=dict)
    ready: dict[int, tuple[int, str]] = field(default_factory=dict)
    gate: int = 0
    waits: bool = False
    behind: int = 0
    stalls: dict[int, int] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        return self.pc >= len(self.code.items)

    @property
    def operation(self) -> Operation:
        item = self.code.items[self.pc]
        assert isinstance(item, Operation)
        return item


def unit_of(op: Operation) -> str:
    return op.instruction.form.time.table


def latency_of(op: Operation, config: Config) -> int:
    form = op.instruction.form
    if isinstance(form, isa.MmaForm):
        return class_of(form, config).latency
    if form.time.table == "alu":
        return config.alu.latency
    return config.shared.latency + (config.shared.register_latency * (form.elements - 1) if form.name == "ld" else 0)


def unit_interval(op: Operation, config: Config) -> int:
    form = op.instruction.form
    if isinstance(form, isa.MmaForm):
        return class_of(form, config).interval
    return config.alu.interval if form.time.table == "alu" else 1


def more(producer: Operation, consumer: str, config: Config) -> int:
    """What an integer result takes longer to a consumer other than integer instructions."""
    alu = config.alu
    late = {"tensor": alu.tensor_latency, "shared": alu.address_latency}.get(consumer, alu.latency) - alu.latency
    return late if unit_of(producer) == "alu" else 0


def least(op: Operation, config: Config) -> int:
    form = op.instruction.form
    return class_of(form, config).stall if isinstance(form, isa.MmaForm) else 1


def distance(first: Operation, second: Operation, late: int, config: Config) -> int:
    """Cycles that the compiler leaves between two instructions of a block, by themselves."""
    found = least(first, config)
    if unit_of(first) not in ("tensor", "alu"):
        return found
    if unit_of(first) == unit_of(second):
        found = max(found, unit_interval(first, config))
    if set(first.writes) & set(second.reads):
        found = max(
            found,
            latency_of(first, config) + more(first, unit_of(second), config) + (late if unit_of(first) == "alu" else 0),
        )
    if set(first.writes) & set(second.writes):
        found = max(found, latency_of(first, config) - latency_of(second, config) + 1)
    form = first.instruction.form
    return (
        max(found, latency_of(first, config))
        if isinstance(form, isa.MmaForm) and class_of(form, config).blocking
        else found
    )


def compiled(code: Code, config: Config, timed: list[TimedOperation | TimedLoop]) -> dict[int, int]:
    """The wait after each item, from the distances between all pairs of a block. Without the counter of loops."""
    starts = {item.start for item in code.items if isinstance(item, LoopEnd)}
    stalls: dict[int, int] = {}
    block: list[tuple[int, Operation, int]] = []
    rule = config.schedule

    def close(branch: bool) -> None:
        if not block:
            return
        place, op, at = block[-1]
        end = free = at + least(op, config)
        if config.loop.drain:
            hidden = {r: max(t for _, o, t in block if r in o.writes) for _, o, _ in block for r in o.writes}
            for _, o, t in block:
                if unit_of(o) in ("tensor", "alu") and any(hidden[r] == t for r in o.writes):
                    end = max(end, t + latency_of(o, config))
        form = op.instruction.form
        if isinstance(form, isa.MmaForm) and class_of(form, config).blocking:
            end = max(end, at + latency_of(op, config))
        stalls[place] = max(end, free + config.loop.cycles if branch else 0) - at
        block.clear()

    for place, item in enumerate(code.items):
        if place in starts:
            close(False)
        if isinstance(item, LoopEnd):
            close(True)
            continue
        at, operation = 0, timed[place]
        assert isinstance(operation, TimedOperation)
        for before, (_, op, t) in enumerate(block):
            overwritten = {r for _, o, _ in block[before + 1 :] for r in o.writes}
            kept = replace(op, writes=tuple(r for r in op.writes if r not in overwritten))
            at = max(at, t + distance(kept, item, operation.forwarding_penalty, config))
        if block:
            last, op, t = block[-1]
            slots = [t]
            while at - slots[-1] > rule.stall:
                slots.append(slots[-1] + rule.stall)
                at = max(at, slots[-1] + rule.nop)
            stalls[last] = at - t
        block.append((place, item, at))
    close(False)
    return stalls


@dataclass
class Stepped:
    """What the reference says."""

    cycles: int
    issued: list[int]
    busy: list[list[int]]
    shared_busy: int


def step_by_cycle(config: Config, codes: list[Code], warps: int) -> Stepped:
    """Plain loops over cycles, sub-cores and warps of programs that access no memory; no events, nothing skipped."""
    threads = [Thread(w, code, config) for code in codes for w in code.warps if code.items]
    threads.sort(key=lambda thread: thread.number)
    count = config.sm.sub_cores
    cores = [[t for t in threads if t.number % count == i] for i in range(count)]
    timed = {id(code): compile_code(code, config, {}).items for code in codes}
    for thread in threads:
        thread.stalls = compiled(thread.code, config, timed[id(thread.code)])
    free = [{"tensor": 0, "alu": 0, "barrier": 0} for _ in cores]
    pipes: list[tuple[TensorClass, int] | None] = [None] * count  # the last matrix instruction, and when it issued
    turn = [0] * count  # the warp that issued last, or is looked at first
    result = Stepped(0, [0] * count, [[0, 0] for _ in cores], 0)
    unit = 0
    arrived: dict[int, list[Thread]] = {}
    now = 0
    while not all(thread.done for thread in threads):
        for number, core in enumerate(cores):
            able = [
                not (t.done or t.waits or t.gate > now)
                and operands_ready(t, now, timed[id(t.code)])
                and free[number][unit_of(t.operation)] + turnaround(pipes[number], t.operation, config) <= now
                for t in core
            ]
            if not any(able):
                continue
            if config.issue.policy == "oldest":
                place = able.index(True)
            elif config.issue.policy == "greedy-oldest":
                place = turn[number] if able[turn[number]] else able.index(True)
                turn[number] = place
            else:
                place = next(
                    p % len(core) for p in range(turn[number], turn[number] + len(core)) if able[p % len(core)]
                )
                turn[number] = (place + 1) % len(core)
            thread = core[place]
            op = thread.operation
            result.issued[number] += 1
            end = now + 1
            thread.gate = now + thread.stalls[thread.pc]
            match unit_of(op):
                case "barrier":
                    assert op.barrier is not None
                    queue = arrived.setdefault(op.barrier[0], [])
                    queue.append(thread)
                    thread.waits = True
                    following = thread.code.items[thread.pc + 1 : thread.pc + 2]
                    ends = any(isinstance(item, LoopEnd) for item in following)  # then the branch is behind it
                    stall = thread.stalls[thread.pc]
                    thread.behind = max(stall - config.barrier.stall, min(stall - 1, config.loop.cycles)) * ends
                    unit = max(unit, now) + config.barrier.arrival
                    if len(queue) == (op.barrier[1] or warps):
                        for released in queue:
                            released.waits = False
                            free_from = unit + config.barrier.latency + released.behind
                            released.gate = max(released.gate, free_from)
                        queue.clear()
                case name:
                    form = op.instruction.form
                    found = class_of(form, config) if isinstance(form, isa.MmaForm) else None
                    interval = found.interval if found else config.alu.interval
                    if found:
                        pipes[number] = (found, now)
                    free[number][name] = now + interval
                    result.busy[number][name == "alu"] += interval
                    end = now + latency_of(op, config)
            result.cycles = max(result.cycles, end)
            thread.ready |= dict.fromkeys(op.writes, (end, unit_of(op)))
            move_on(thread)
        now += 1
        assert now < 10**6
    return result


def turnaround(last: tuple[TensorClass, int] | None, op: Operation, config: Config) -> int:
    form = op.instruction.form
    return (
        max(last[0].result_until - class_of(form, config).result_from, 0)
        if last and isinstance(form, isa.MmaForm)
        else 0
    )


def operands_ready(thread: Thread, now: int, timed: list[TimedOperation | TimedLoop]) -> bool:
    """Reads: the value is there. Writes: this result comes after the one before."""
    op, config, operation = thread.operation, thread.config, timed[thread.pc]
    assert isinstance(operation, TimedOperation)
    more = config.alu.tensor_latency - config.alu.latency if unit_of(op) == "tensor" else 0
    for register in op.reads:
        at, producer = thread.ready.get(register, (0, ""))
        if at + (more + operation.forwarding_penalty if producer == "alu" else 0) > now:
            return False
    for register in op.writes:
        at, _ = thread.ready.get(register, (0, ""))
        if at >= now + latency_of(op, config):
            return False
    return True


def move_on(thread: Thread) -> None:
    thread.pc += 1
    while not thread.done and isinstance(end := thread.code.items[thread.pc], LoopEnd):
        thread.gate = max(thread.gate, thread.started.get(end.loop, 0) + thread.config.loop.minimum)
        thread.started[end.loop] = thread.gate
        thread.loops[end.loop] = thread.loops.get(end.loop, 0) + 1
        if thread.loops[end.loop] < end.count:
            thread.pc = end.start
        else:
            thread.loops[end.loop] = 0
            thread.pc += 1


# Random programs

Costs = dict[tuple[int, int], list[list[int]]]
OPCODES = (
    FULL_K,
    "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
    "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32",
    "mma.sp.sync.aligned.m16n8k64.row.col.f32.e4m3.e4m3.f32",
)
REGISTERS = st.integers(0, 10)


@st.composite
def instructions(draw: st.DrawFn) -> str:
    r = [draw(REGISTERS) for _ in range(5)]
    match draw(st.integers(0, 9)):
        case 0 | 1 | 2 | 3:
            return mma_text(isa.mma_form(draw(st.sampled_from(OPCODES))), *r)
        case 4:
            return (
                f"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {{_, %r{r[0]}, _, _}}, {vector(r[1], 2)}, "
                f"{vector(r[2], 1)}, {vector(r[3], 4)};"
            )
        case 5:
            count = draw(st.sampled_from([1, 2, 4]))
            return f"ldmatrix.sync.aligned.m8n8.x{count}.shared.b16 {vector(r[0], count)}, [%r{r[1]}];"
        case 6:
            return draw(
                st.sampled_from(
                    [f"ld.shared.b32 %r{r[0]}, [%r{r[1]}];", f"ld.shared.v4.b32 {vector(r[0], 4)}, [%r{r[1]}];"]
                )
            )
        case 7:
            return f"st.shared.b32 [%r{r[0]}], %r{r[1]};"
        case 8:
            return f"mad.lo.u32 %r{r[0]}, %r{r[1]}, %r{r[2]}, %r{r[3]};"
    return f"mov.u32 %r{r[0]}, %r{r[1]};"


@st.composite
def bodies(draw: st.DrawFn, most: int, depth: int = 2) -> str:
    """Instructions and loops, nested."""
    parts = []
    for _ in range(draw(st.integers(1, 4))):
        if depth and draw(st.integers(0, 2)) == 0:
            parts.append(f".repeat {draw(st.integers(1, most))} {{\n{draw(bodies(max(most // 4, 2), depth - 1))}\n}}")
        else:
            parts.append(draw(instructions()))
    return "\n".join(parts)


@st.composite
def programs(draw: st.DrawFn, most: int) -> str:
    """Blocks of different warps, which meet at barriers, in loops too."""
    warps = draw(st.integers(1, 9))
    cut = sorted({0, warps, *(draw(st.integers(0, warps)) for _ in range(2))})
    blocks = list(pairwise(cut))
    texts = [""] * len(blocks)
    for _ in range(draw(st.integers(1, 2))):
        shape = draw(st.integers(0, 3))
        outer = draw(st.integers(2, most))
        for i, (first, last) in enumerate(blocks):
            if shape == 0 and draw(st.booleans()):  # a straight line, or one tight loop: some warps end early
                few = "\n".join(draw(st.lists(instructions(), min_size=1, max_size=2)))
                texts[i] += few if draw(st.booleans()) else f".repeat {outer * 4} {{\n{few}\n}}\n"
                continue
            body = draw(bodies(most if shape == 0 else max(most // 4, 2), 2 if shape == 0 else 1))
            if shape >= 2 and last - first == 2:
                body += f"\nbar.sync {1 + i}, 64;"
            texts[i] += (
                body + "\n"
                if shape == 0
                else f".repeat {outer} {{\n{body}\n{'bar.sync 0;' if shape == 1 else ''}\n}}\n"
            )
            if shape == 3:
                texts[i] += "bar.sync 0;\n"
    joined = "".join(
        f".warp {first}-{last - 1} {{\n{text}}}\n" for (first, last), text in zip(blocks, texts, strict=True)
    )
    return f"{HEAD}.warps {warps}\n{joined}"


LOOPS = (H100.loop, Loop(0, 0, False), Loop(2, 0, False), Loop(1, 40, False), Loop(3, 0, True))


@dataclass(frozen=True)
class Variant:
    """The H100 with another policy, rule of loops and number of sub-cores, and with stalls of matrix instructions;
    short to print."""

    policy: str
    loop: Loop
    sub_cores: int
    stall: int = 1
    greedy: int = 5
    counter: bool = True

    @property
    def config(self) -> Config:
        schedule = H100.schedule if self.counter else replace(H100.schedule, compare=0)
        tensor = tuple(replace(c, stall=self.stall) for c in H100.tensor)
        chip = replace(H100, tensor=tensor, sm=replace(H100.sm, sub_cores=self.sub_cores))
        issue = Issue(self.policy, greedy=self.greedy)
        return replace(chip, schedule=schedule, issue=issue, loop=self.loop)


VARIANTS = st.builds(
    Variant,
    st.sampled_from(POLICIES),
    st.sampled_from(LOOPS),
    st.sampled_from([1, 4]),
    st.sampled_from([1, 1, 6, 11]),
    st.sampled_from([2, 5, 1, 12, 1000]),
)


def prepared(folder: Path, text: str, seed: int, vary: bool) -> tuple[list[Code], int, Costs, int]:
    """Codes of a text, and made-up wavefronts for its accesses: one number, one for each warp, or another in each
    execution."""
    trace = load(write(folder, text))
    codes = [linearise(block) for block in trace.blocks]
    rng = np.random.default_rng(seed)
    costs: Costs = {}
    total = 0
    for code in codes:
        for op in code.operations:
            total += op.executions * len(code.warps)
            if unit_of(op) == "shared":
                rows = op.executions if vary and rng.random() < 0.5 and op.executions < 10_000 else 1
                costs[id(code), op.index] = rng.integers(1, 9, (rows, len(code.warps))).tolist()
    return codes, trace.warps, costs, total


def simulated(config: Config, codes: list[Code], warps: int, costs: Costs, *, skip: bool) -> Timing:
    timed = []
    for code in codes:
        tables = {
            op.index: by_warp(code.warps, np.array(costs[id(code), op.index]))
            for op in code.operations
            if unit_of(op) == "shared"
        }
        timed.append(compile_code(code, config, tables))
    return simulate(config, timed, warps, skip=skip)


def check_sums(timing: Timing) -> None:
    for row in timing.waits.values():
        assert sum(row) == timing.cycles
        assert min(row) >= 0
    for issued, busy in zip(timing.issued, timing.busy, strict=True):
        assert issued <= timing.cycles
        assert busy[Unit.TENSOR] <= timing.cycles
        assert busy[Unit.ALU] <= timing.cycles
    assert timing.shared_busy <= timing.cycles


SLOW_CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
QUIET = settings(max_examples=examples(100, 6), deadline=None, suppress_health_check=SLOW_CHECKS)


def check_skipping(folder: Path, text: str, config: Config, seed: int, vary: bool) -> None:
    codes, warps, costs, total = prepared(folder, text, seed, vary)
    if total > 20_000:
        return
    fast, slow = (simulated(config, codes, warps, costs, skip=skip) for skip in (True, False))
    assert slow.skipped == 0
    assert replace(fast, skipped=0) == slow
    check_sums(fast)
    assert simulated(config, codes, warps, costs, skip=True) == fast


HALVES = (
    "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "
    "{%r5, %r6}, {%r8, %r9}, {%r0, %r1}, {%r7, %r8}, %r3, 0;"
)
BYTES = "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r9, %r10}, {%r9}, {%r3}, {%r10, %r11};"
MEETING = f"""{HEAD}.warps 9
.warp 0-0 {{ .repeat 8 {{ st.shared.b32 [%r1], %r7; {HALVES} bar.sync 0; }} }}
.warp 1-1 {{ .repeat 8 {{ bar.sync 0; }} }}
.warp 2-8 {{ .repeat 8 {{ {BYTES} bar.sync 0; }} }}
"""


def test_a_barrier_lets_warps_go_on_when_all_before_it_is_over(folder: Path) -> None:
    """The last warp to arrive is of another sub-core: what stood still before the barrier in those that it lets go does
    not make their wait longer, whenever that is worked out."""
    check_skipping(folder, MEETING, Variant("greedy-round-robin", Loop(0, 0, False), 4, stall=11).config, 0, False)


ALL = "{%r0, %r1, %r2, %r3}"
LARGE = f"mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {ALL}, {ALL}, {ALL}, {ALL}, %r0, 0;"
TINY = f"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {{_, %r0, _, _}}, {{%r0, %r1}}, {{%r0}}, {ALL};"
EMULATED = f"mma.sp.sync.aligned.m16n8k64.row.col.f32.e4m3.e4m3.f32 {ALL}, {ALL}, {ALL}, {ALL}, %r0, 0;"
LAST = f".repeat 2 {{ {LARGE} bar.sync 0; }}"
UNLIKE_WAITS = f"""{HEAD}.warps 5
.warp 0-1 {{ .repeat 4 {{ {TINY} .repeat 2 {{ {LARGE} }} bar.sync 0; }} {LAST} }}
.warp 2-2 {{ .repeat 4 {{ mad.lo.u32 %r0, %r0, %r0, %r0; bar.sync 0; }} {LAST} }}
.warp 3-4 {{ .repeat 4 {{ {LARGE} bar.sync 0; }} {LAST} }}
"""  # the first wait of warp 2 is one for operands in part, the others are not
AT_ONCE = f"""{HEAD}.warps 8
.warp 0-7 {{ .repeat 2 {{
.repeat 5 {{
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r1, %r2, %r3, %r4}}, [%r1];
mad.lo.u32 %r0, %r0, %r0, %r0;
mov.u32 %r0, %r0;
}}
.repeat 1 {{ {EMULATED} }}
bar.sync 0;
}} }}
"""  # with costs that no chip has, a wavefront for four registers
SPARED = f"""{HEAD}.warps 3
.warp 0-0 {{ {LARGE} .repeat 2 {{ .repeat 6 {{ {TINY} {TINY} {TINY} {LARGE} }} bar.sync 0; }} }}
.warp 1-2 {{ {LARGE} .repeat 2 {{ {EMULATED} bar.sync 0; }} }}
"""  # registers hold the sub-core up in the cycle before a NOP with the yield hint


@example(UNLIKE_WAITS, Variant("greedy-round-robin", H100.loop, 1, 1, 2), 0, False)
@example(AT_ONCE, Variant("greedy-oldest", H100.loop, 4, 1, 2), 70770, False)
@example(SPARED, Variant("oldest", H100.loop, 1, 1, 2), 0, False)
@given(programs(60), VARIANTS, st.integers(0, 2**32 - 1), st.booleans())
@QUIET
def test_skipping_changes_nothing(folder: Path, text: str, variant: Variant, seed: int, vary: bool) -> None:
    check_skipping(folder, text, variant.config, seed, vary)


@given(st.lists(instructions(), min_size=1, max_size=3), st.lists(instructions(), min_size=1, max_size=2), VARIANTS)
@settings(QUIET, max_examples=examples(40))
def test_skipping_with_stragglers(folder: Path, line: list[str], loop: list[str], variant: Variant) -> None:
    """Warps that are through with their program, but whose results are still to come, while others loop."""
    text = f"{HEAD}.warps 2\n.warp 0 {{ {' '.join(line)} }}\n.warp 1 {{ .repeat 200 {{ {' '.join(loop)} }} }}\n"
    check_skipping(folder, text, variant.config, 0, False)


def test_results_that_come_during_a_skip(folder: Path) -> None:
    """The last result of a warp that has ended does not move with the repetitions of another."""
    slow = isa.mma_form("mma.sp.sync.aligned.m16n8k64.row.col.f32.e4m3.e4m3.f32")
    text = (
        f"{HEAD}.warps 2\n.warp 0 {{ {mma_text(slow, 0, 4, 8, 0, 12)} }}\n.warp 1 "
        f"{{ .repeat 1000 {{ mov.u32 %r0, 1; }} }}\n"
    )
    path = write(folder, text)
    wanted = 999 * H100.loop.minimum + ALU.latency
    assert [simulator.run(path, H100, arithmetic="none", skip=skip).cycles for skip in (False, True)] == [
        wanted,
        wanted,
    ]


SMALL = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {_, %r0, _, _}, {%r4, %r5}, {%r6}, {%r8, %r9, %r10, %r11};"


def plain(variant: Variant) -> Config:
    """The variant's chip without counters of loops, and without what an instruction does to the pipes of others."""
    config = replace(variant, counter=False).config
    tensor = tuple(replace(row, port=0) for row in config.tensor)
    schedule = replace(config.schedule, stall=1000)  # any wait fits one instruction, so that no NOP takes a cycle more
    return replace(config, tensor=tensor, pipe=replace(config.pipe, gap=0), schedule=schedule)


UNHINTED = ("oldest", "greedy-oldest", "round-robin")


@given(programs(6), VARIANTS, st.sampled_from(UNHINTED))
@example(
    f"{HEAD}.warps 2\n.warp 0-0 {{ {MOV.format(0, 1)} }}\n.warp 1-1 {{ {SMALL * 2} }}\n",
    Variant("oldest", H100.loop, 1),
    "oldest",
)
@settings(QUIET, max_examples=examples(80))
def test_against_cycle_by_cycle(folder: Path, text: str, variant: Variant, policy: str) -> None:
    """Issue, waits, pipes, loops and barriers. Shared memory and policies with yield hints are held to the chip."""
    config = plain(replace(variant, policy=policy))
    text = text.replace("f32.e4m3.e4m3.f32", "s32.s8.s8.s32")  # the model here knows no sequences (test_sequences.py)
    text = re.sub(r"(ldmatrix|ld\.shared|st\.shared)[^;]*;", "mov.u32 %r1, %r2;", text)
    codes, warps, costs, total = prepared(folder, text, 0, False)
    if total > 1500:
        return
    wanted = step_by_cycle(config, codes, warps)
    with mock.patch.object(Config, "reading_stages", 0):  # registers are there at issue, as in the model
        found = simulated(config, codes, warps, costs, skip=False)
    assert Stepped(found.cycles, found.issued, found.busy, found.shared_busy) == wanted


def report_of(folder: Path, body: str, warps: int = 8) -> simulator.Report:
    return simulator.run(
        write(folder, f"{HEAD}.warps {warps}\n.warp 0-{warps - 1} {{\n{body}\n}}\n"), H100, arithmetic="none"
    )


def test_starts() -> None:
    """Each warp begins in the cycle that stands at its number, also where others have no program."""
    item = TimedOperation(Unit.ALU, 4, 1, (), (), 0)
    code = TimedCode((0, 4), [item], [()], {}, scheduled=True)
    found = simulate(H100, [code], 8, starts=[100, 0, 0, 0, 10, 0, 0, 0])
    assert found.cycles == 104
    assert found.waits[4][StallReason.FINISHED] == 104 - 11
    with pytest.raises(ValueError, match="2 starts for 8 warps: one for each, or none"):
        simulate(H100, [code], 8, starts=[100, 10])


NESTS = [
    ".repeat {} {{ {} }}",
    ".repeat {} {{ .repeat 2 {{ {} }} }}",
    ".repeat {} {{ {} .repeat 3 {{ {} }} }}",
    ".repeat {} {{ .repeat 7 {{ {} }} }}",
    pytest.param(".repeat {} {{ .repeat 1000 {{ {} }} {} }}", marks=pytest.mark.exhaustive),
]


@pytest.mark.parametrize("shape", NESTS)
def test_huge_counts(folder: Path, shape: str) -> None:
    """A billion iterations take no longer to simulate than a thousand, and are exactly a million times further on."""
    body = s(0, c=0) + d(4, c=4)
    small, more, huge = (report_of(folder, shape.format(n, body, body)) for n in (1000, 2000, 10**9))
    assert report_of(folder, shape.format(10**9, body, body)) == huge
    assert huge.skipped_cycles > 0.999 * huge.cycles
    times = 10**6 - 1
    assert huge.cycles == small.cycles + times * (more.cycles - small.cycles)
    for warp, row in huge.waits.items():
        assert sum(row.values()) == huge.cycles
        assert row == {cause: n + times * (more.waits[warp][cause] - n) for cause, n in small.waits[warp].items()}
    assert huge.instructions == {opcode: n * 10**6 for opcode, n in small.instructions.items()}
    assert all(0 <= share <= 1 for share in huge.utilisation.values())


@pytest.mark.parametrize("inner", [2, 3, 7, 100])
def test_outer_loops_skip(folder: Path, inner: int) -> None:
    """Nearly all of a nest is skipped, however often its inner loop runs."""
    report = report_of(folder, f".repeat 300 {{ .repeat {inner} {{ {s(0, c=0)} }} {d(4, c=4)} }}")
    assert report.skipped_cycles > 0.9 * report.cycles


def test_determinism(folder: Path) -> None:
    """Equal inputs, equal reports, whatever ran before."""
    body = f".repeat 50 {{ {s(0, c=0)} mov.u32 %r9, %laneid; bar.sync 0; }}"
    first = report_of(folder, body)
    report_of(folder, d(0))
    assert report_of(folder, body) == first
