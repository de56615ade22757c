"""What traces have for asynchronous instructions: 64-bit registers, predicates, guards, Tensor Memory in .load and
.store, pairs, the log."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import isa
import simulator
from isa import UndefinedBehavior
from isa.forms.table import plain_forms
from simulator import ConfigError, TraceError
from simulator.execute.events import Event
from simulator.program import load
from simulator.simulation.observer import Observer
from simulator.simulation.session import Session
from simulator.state.registers import Numbering, Place, Sort, register_place
from tests.support.cases import over
from tests.support.small_traces import run_body, save

HEAD = ".trace 1\n.target sm_100a\n"
RNG = np.random.default_rng(11)
M64, M32 = 2**64, 2**32
Wide = NDArray[np.uint64]


def wide(*shape: int) -> Wide:
    """Random 64-bit registers with many edges among them."""
    edges = RNG.choice(
        np.array([0, 1, 31, 63, 64, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1], np.uint64), shape
    )
    return np.where(RNG.random(shape) < 0.4, edges, RNG.integers(0, 2**64, shape, np.uint64, endpoint=False)).astype(
        np.uint64
    )


run = partial(run_body, HEAD, None)


# Registers


def test_names_and_numbers() -> None:
    assert register_place("%rd12") == Place(Sort.WIDE, 12)
    assert [register_place(name) for name in ("%rd", "%rd01", "%f1", "rd1", "%rx1", "%p-1", "%r\u0661")] == [None] * 7
    numbering = Numbering(3, 2, 4, 1)
    names = [f"%r{i}" for i in range(3)] + ["%rd0", "%rd1"] + [f"%p{i}" for i in range(4)] + ["%rs0"]
    assert numbering.numbers(names) == tuple(range(10))
    assert [numbering.name(number) for number in range(10)] == names
    assert [Numbering(0, 2, 0, 1).name(number) for number in range(3)] == ["%rd0", "%rd1", "%rs0"]
    assert numbering.numbers(["%rd1", "%laneid", "%rd1", "%r0"]) == (4, 0)


def signed(x: int, bits: int = 64) -> int:
    return x - (1 << bits) if x >> bits - 1 else x


WIDE: list[tuple[str, Callable[[int, int], int]]] = [
    ("mov.b64 %rd2, %rd0;", lambda a, b: a),
    ("mov.u64 %rd2, 0xfedcba9876543210;", lambda a, b: 0xFEDCBA9876543210),
    ("mov.s64 %rd2, -2;", lambda a, b: -2),
    ("add.s64 %rd2, %rd0, %rd1;", lambda a, b: a + b),
    ("add.u64 %rd2, %rd0, 2;", lambda a, b: a + 2),
    ("add.s64 %rd2, %rd0, -2;", lambda a, b: a - 2),
    ("sub.u64 %rd2, %rd0, %rd1;", lambda a, b: a - b),
    ("and.b64 %rd2, %rd0, 0x3FFF;", lambda a, b: a & 0x3FFF),
    ("or.b64 %rd2, %rd0, %rd1;", lambda a, b: a | b),
    ("xor.b64 %rd2, %rd0, %rd1;", lambda a, b: a ^ b),
    ("not.b64 %rd2, %rd0;", lambda a, b: ~a),
    ("shl.b64 %rd2, %rd0, 14;", lambda a, b: a << 14),
    ("shl.b64 %rd2, %rd0, 64;", lambda a, b: 0),
    ("cvt.u32.u64 %r0, %rd1; shl.b64 %rd2, %rd0, %r0;", lambda a, b: a << b % M32 if b % M32 < 64 else 0),
    ("cvt.u32.u64 %r0, %rd1; shr.u64 %rd2, %rd0, %r0;", lambda a, b: a >> b % M32 if b % M32 < 64 else 0),
    ("cvt.u32.u64 %r0, %rd1; shr.s64 %rd2, %rd0, %r0;", lambda a, b: signed(a) >> min(b % M32, 63)),
    ("shr.b64 %rd2, %rd0, 4;", lambda a, b: a >> 4),
    ("cvt.u32.u64 %r0, %rd0; cvt.u64.u32 %rd2, %r0;", lambda a, b: a % M32),
    ("cvt.u32.u64 %r0, %rd0; cvt.s64.s32 %rd2, %r0;", lambda a, b: signed(a % M32, 32)),
    ("cvt.u32.u64 %r0, %rd0; cvt.u32.u64 %r1, %rd1; mul.wide.u32 %rd2, %r0, %r1;", lambda a, b: (a % M32) * (b % M32)),
    (
        "cvt.u32.u64 %r0, %rd0; cvt.u32.u64 %r1, %rd1; mul.wide.s32 %rd2, %r0, %r1;",
        lambda a, b: signed(a % M32, 32) * signed(b % M32, 32),
    ),
    (
        "cvt.u32.u64 %r0, %rd0; cvt.u16.u32 %rs0, %r0; cvt.u32.u16 %r1, %rs0; cvt.u64.u32 %rd2, %r1;",
        lambda a, b: a % 2**16,
    ),
    ("mov.u16 %rs1, 0x12345; cvt.u32.u16 %r1, %rs1; cvt.u64.u32 %rd2, %r1;", lambda a, b: 0x2345),
    ("setp.lt.u64 %p0, %rd0, %rd1; selp.b64 %rd2, %rd0, %rd1, %p0;", min),
    ("setp.gt.s64 %p0, %rd0, %rd1; selp.u64 %rd2, %rd0, %rd1, %p0;", lambda a, b: max(a, b, key=signed)),
    ("mov.u64 %rd2, 5; setp.hs.u64 %p0, %rd0, %rd1; @%p0 mov.u64 %rd2, 7;", lambda a, b: 7 if a >= b else 5),
    (
        "mov.u64 %rd2, 5; setp.eq.b64 %p0, %rd0, %rd1; @!%p0 add.s64 %rd2, %rd0, %rd2;",
        lambda a, b: 5 if a == b else a + 5,
    ),
]


@over(("text", "function"), WIDE, ids=[text for text, _ in WIDE])
def test_wide_instructions(tmp_path: Path, text: str, function: Callable[[int, int], int]) -> None:
    given = wide(3, 2, 32)
    given[:, 1, ::5] = given[:, 0, ::5]
    given[:, 1, 1::5] %= np.uint64(70)  # amounts on both sides of 63
    report = run(tmp_path, text, warps=3, top='.load %rd0, "data.npz", "x";', end='.store "d", %rd2, 1;', x=given)
    assert report.arrays["d"].dtype == np.uint64
    wanted = [[function(int(given[w, 0, lane]), int(given[w, 1, lane])) % M64 for lane in range(32)] for w in range(3)]
    assert report.arrays["d"][:, 0].tolist() == wanted


COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lo": lambda a, b: a < b,
    "ls": lambda a, b: a <= b,
    "hi": lambda a, b: a > b,
    "hs": lambda a, b: a >= b,
}


WHOLE = re.compile(r"setp\.\w+\.[bsu](32|64)")  # comparisons of integers that traces have


@over("opcode", [opcode for opcode in plain_forms() if WHOLE.fullmatch(opcode)])
def test_comparisons(tmp_path: Path, opcode: str) -> None:
    _, order, kind = opcode.split(".")
    bits = int(kind[1:])
    given = wide(1, 2, 32) if bits == 64 else wide(1, 2, 32).astype(np.uint32)
    given[:, 1, ::4] = given[:, 0, ::4]
    name = "%rd" if bits == 64 else "%r"
    body = f"{opcode} %p3, {name}0, {name}1; not.pred %p4, %p3;"
    report = run(tmp_path, body, top=f'.load {name}0, "data.npz", "x";', end='.store "p", %p3, 2;', x=given)
    cast = (lambda x: signed(x, bits)) if kind[0] == "s" else int
    wanted = [COMPARISONS[order](cast(int(given[0, 0, lane])), cast(int(given[0, 1, lane]))) for lane in range(32)]
    assert report.arrays["p"][0, 0].tolist() == wanted
    assert report.arrays["p"][0, 1].tolist() == [not value for value in wanted]


def test_predicates(tmp_path: Path) -> None:
    """Loaded, joined, moved, stored; bool [warps, registers, 32]."""
    given = RNG.random((2, 2, 32)) < 0.5
    body = (
        "and.pred %p2, %p0, %p1; or.pred %p3, %p0, %p1; xor.pred %p4, %p0, %p1; mov.pred %p5, %p1; mov.pred "
        "%p6, 1; and.pred %p7, %p6, 0;"
    )
    found = run(tmp_path, body, warps=2, top='.load %p0, "data.npz", "p";', end='.store "p", %p0, 8;', p=given).arrays[
        "p"
    ]
    a, b = given[:, 0], given[:, 1]
    for register, wanted in enumerate((a, b, a & b, a | b, a ^ b, b, np.ones_like(a), np.zeros_like(a))):
        np.testing.assert_array_equal(found[:, register], wanted)


def test_halves_of_a_wide_register(tmp_path: Path) -> None:
    """mov.b64 between a 64-bit register and a vector: the first element is the low half."""
    given = wide(2, 1, 32)
    body = "mov.b64 {%r0, %r1}, %rd0; mov.b64 %rd1, {%r1, %r0}; mov.b64 {_, %r2}, %rd1; mov.b64 %rd2, {%r0, 7};"
    end = '.store "halves", %r0, 3;\n.store "wide", %rd1, 2;'
    report = run(tmp_path, body, warps=2, top='.load %rd0, "data.npz", "x";', end=end, x=given)
    low, high = given[:, 0] & np.uint64(M32 - 1), given[:, 0] >> np.uint64(32)
    np.testing.assert_array_equal(report.arrays["halves"], np.stack([low, high, low], axis=1).astype(np.uint32))
    np.testing.assert_array_equal(
        report.arrays["wide"], np.stack([high | low << np.uint64(32), low | np.uint64(7 << 32)], axis=1)
    )


def test_election(tmp_path: Path) -> None:
    body = "elect.sync %r0|%p0, 0xffffffff; elect.sync _|%p1, 0xffffffff;"
    report = run(tmp_path, body, warps=2, end='.store "r", %r0, 1;\n.store "p", %p0, 2;')
    assert report.arrays["r"].tolist() == [[[0] * 32]] * 2
    assert [np.flatnonzero(row).tolist() for row in report.arrays["p"][1]] == [[0], [0]]
    with pytest.raises(UndefinedBehavior, match=r"warp-mask: .*thread 0 is not in its membermask"):
        run(tmp_path, "elect.sync _|%p0, 0;")


@pytest.mark.parametrize("vector", [1, 2])
def test_wide_loads_and_stores(tmp_path: Path, vector: int) -> None:
    data = wide(32, vector)
    where = (RNG.permutation(32) * 8 * vector).astype(np.uint32)
    names = "%rd0" if vector == 1 else "{%rd0, %rd1}"
    shape = "b64" if vector == 1 else "v2.u64"
    body = f"ld.shared.{shape} {names}, [%r0]; cvt.u64.u32 %rd5, %r0; st.shared.{shape} [%rd5+{256 * vector}], {names};"
    top = '.load %r0, "data.npz", "where";\n.load shared[0], "data.npz", "data";'
    end = f'.store "r", %rd0, {vector};\n.store "s", shared[{256 * vector}], {256 * vector};'
    report = run(tmp_path, body, shared=512 * vector, top=top, end=end, where=where[None], data=data)
    for lane in range(32):
        assert report.arrays["r"][0, :, lane].tolist() == data[where[lane] // (8 * vector)].tolist()
    assert report.arrays["s"].tobytes() == data.tobytes()


def test_unwritten_registers_of_every_sort(tmp_path: Path) -> None:
    body = (
        "mov.u32 %r0, 1;\nadd.s64 %rd1, %rd3, 1;\nand.pred %p1, %p2, %p2;\ncvt.u32.u16 %r1, %rs4;\n@%p5 "
        "mov.u32 %r2, %r7;"
    )
    report = run(tmp_path, body)
    assert [warning.split(" is read")[0] for warning in report.warnings[:-1]] == [
        "line 7: %rd3",
        "line 8: %p2",
        "line 9: %rs4",
        "line 10: %p5",
    ]
    assert report.undefined["read-before-write"] == 4, "%r7 is not read, since %p5 is false"


# Guards


def test_guarded_memory(tmp_path: Path) -> None:
    """Idle lanes neither read nor write, whatever their addresses say; where they meet, the highest active lane
    wins."""
    active = np.zeros((2, 1, 32), np.bool_)
    active[0, 0, [3, 9, 20]] = True
    addresses = np.full((2, 1, 32), 10**9, np.uint32)
    addresses[0, 0, [3, 9, 20]] = [4, 8, 4]
    top = '.load %p0, "data.npz", "p";\n.load %r0, "data.npz", "a";'
    body = "mov.u32 %r1, %laneid; mov.u32 %r2, 77; @%p0 st.shared.u32 [%r0], %r1; @%p0 ld.shared.u32 %r2, [%r0];"
    report = run(
        tmp_path,
        body,
        warps=2,
        shared=16,
        top=top,
        end='.store "r", %r2, 1;\n.store "s", shared[0], 16;',
        p=active,
        a=addresses,
    )
    assert report.arrays["s"].view("<u4").tolist() == [0, 20, 9, 0]
    wanted = np.full((2, 32), 77)
    wanted[0, [3, 9, 20]] = [20, 9, 20]
    assert report.arrays["r"][:, 0].tolist() == wanted.tolist()
    assert report.memory.accesses == 2
    assert report.memory.bytes == 2 * 3 * 4
    assert (report.memory.wavefronts, report.memory.conflicts) == (2, 0)


def test_guarded_wavefronts_in_loops(tmp_path: Path) -> None:
    """A guard that changes from run to run: time and counts follow it."""
    body = """mov.u32 %r0, %laneid; shl.b32 %r1, %r0, 7; mov.u32 %r2, 0;
    .repeat 4 { setp.lt.u32 %p0, %r0, %r2; @%p0 ld.shared.u32 %r3, [%r1]; add.u32 %r2, %r2, 1; }"""
    text = f"{HEAD}.warps 1\n.shared 4096\n.warp 0 {{ {body} }}\n"
    timed = simulator.run(save(tmp_path, text), "b200")
    assert (timed.memory.accesses, timed.memory.bytes, timed.memory.wavefronts, timed.memory.conflicts) == (
        3,
        4 * 6,
        1 + 2 + 3,
        3,
    )
    assert timed.cycles == simulator.run(tmp_path / "x.trace", "b200", skip=False).cycles


def test_guarded_barriers(tmp_path: Path) -> None:
    """Warps whose guard is false pass by; one whose threads disagree is an error."""
    body = "mov.u32 %r0, %warpid; setp.lt.u32 %p0, %r0, 2; @%p0 bar.sync 1, 64; mov.u32 %r1, 5;"
    assert run(tmp_path, body, warps=3, end='.store "r", %r1, 1;').arrays["r"].tolist() == [[[5] * 32]] * 3
    with pytest.raises(
        TraceError, match=r"'bar.sync' in 7 of the 32 threads of warp 0; legal: all threads of a warp, or none"
    ):
        run(tmp_path, "mov.u32 %r0, %laneid; setp.lt.u32 %p0, %r0, 7; @%p0 bar.sync 0;")
    mma = (
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r6}, {%r0, %r1, "
        "%r2, %r3};"
    )
    with pytest.raises(TraceError, match=r"in 7 of the 32 threads of warp 0"):
        run(tmp_path, f"mov.u32 %r0, %laneid; setp.lt.u32 %p0, %r0, 7; @%p0 {mma}")


def test_guards_that_have_no_time(tmp_path: Path) -> None:
    for instruction in (
        "bar.sync 0;",
        (
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r6}, {%r0, %r1, "
            "%r2, %r3};"
        ),
    ):
        path = save(tmp_path, f"{HEAD}.warps 1\n.warp 0 {{\n @%p0 {instruction} }}\n")
        with pytest.raises(ConfigError, match=r"line 5 of x.trace: there is no time for .* behind @%p0"):
            simulator.run(path, "b200")
        assert simulator.run(path, "none").cycles == 0


def test_f64(tmp_path: Path) -> None:
    """64-bit registers serve the f64 instructions too."""
    form = isa.mma_form("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64")
    a, b, c = (RNG.standard_normal((1, n, 32)) for n in (1, 1, 2))
    top = "".join(f'.load %rd{i}, "data.npz", "{name}";\n' for i, name in ((2, "a"), (3, "b"), (4, "c")))
    body = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%rd0, %rd1}, {%rd2}, {%rd3}, {%rd4, %rd5};"
    bits = {name: array.view(np.uint64) for name, array in (("a", a), ("b", b), ("c", c))}
    found = run(tmp_path, body, top=top, end='.store "d", %rd0, 2;', **bits).arrays["d"]  # type: ignore[arg-type]
    np.testing.assert_array_equal(found, simulator.mma(form.opcode, bits["a"], bits["b"], bits["c"], target="sm_100a"))  # type: ignore[arg-type]


# Text that is wrong

W1 = f"{HEAD}.warps 2\n"
BAD: list[tuple[str, str, tuple[str, ...]]] = [
    (
        "64 bits in a 32-bit place",
        f"{W1}.warp 0 {{ add.u32 %r1, »%rd1, 1; }}",
        ("operand a cannot be %rd1, a 64-bit register", "32-bit register, %r0"),
    ),
    (
        "32 bits in a 64-bit place",
        f"{W1}.warp 0 {{ add.s64 %rd1, »%r1, 1; }}",
        ("operand a cannot be %r1, a 32-bit register", "%rd0"),
    ),
    ("a shift by 64 bits", f"{W1}.warp 0 {{ shl.b64 %rd1, %rd2, »%rd3; }}", ("operand b", "32-bit register, %r0")),
    ("no predicate", f"{W1}.warp 0 {{ setp.eq.u32 »%r0, %r1, 0; }}", ("operand d cannot be %r0", "%p0")),
    ("a vector of 32 bits", f"{W1}.warp 0 {{ ld.shared.v2.b64 {{%rd0, »%r1}}, [%r0]; }}", ("%r1",)),
    ("%rd255", f"{W1}.warp 0 {{ mov.u64 »%rd255, 1; }}", ("'%rd255' is not a register", "%rd0 to %rd254")),
    ("%p255 as a guard", f"{W1}.warp 0 {{ @»%p255 mov.u64 %rd0, 1; }}", ("'%p255' is not a register", "%p0 to %p254")),
    ("a name as a guard", f"{W1}.warp 0 {{ @»leader mov.u64 %rd0, 1; }}", ("'leader' is not a register",)),
    (
        "%rd in an idesc",
        f"{W1}.warp 0 {{ tcgen05.mma.cta_group::1.kind::f16 [%r0], %rd0, %rd1, »%rd2, 1; }}",
        ("idesc",),
    ),
    ("a variable", f"{W1}.warp 0 {{ mbarrier.init.shared.b64 [»bar], 1; }}", ("'bar' is not a register",)),
    (
        "a rank outside of mov",
        f"{W1}.warp 0 {{ add.u32 %r0, »%cluster_ctarank, 1; }}",
        ("operand a cannot be the special register %cluster_ctarank", "mov copies special registers"),
    ),
    (
        "two groups",
        f"{W1}.warp 0 {{ tcgen05.shift.cta_group::1.down [%r0];\n tcgen05.shift».cta_group::2.down [%r0]; }}",
        ("of line 4",),
    ),
    (".cta 2", f"{W1}.cta »2 {{ .warp 0 {{ }} }}", ("a CTA number is '2'", "0 to 1")),
    (".cta 1-0", f"{W1}.cta »1-0 {{ .warp 0 {{ }} }}", ("'1-0' is not a range of CTAs",)),
    (".cta 0,0", f"{W1}.cta »0,0 {{ .warp 0 {{ }} }}", ("CTA 0 is named twice",)),
    (".cta without numbers", f"{W1}».cta {{ .warp 0 {{ }} }}", ("malformed .cta", ".cta 0-1 {")),
    (".cta in .cta", f"{W1}.cta 0 {{ ».cta 1 {{ }} }}", (".cta inside a .cta block",)),
    (".cta in .warp", f"{W1}.warp 0 {{ ».cta 1 {{ }} }}", (".cta inside a .warp block",)),
    ("an instruction in .cta", f"{W1}.cta 0 {{ »mov.u32 %r0, 1; }}", ("outside of a .warp block",)),
    (".repeat in .cta", f"{W1}.cta 0 {{ ».repeat 2 {{ mov.u32 %r0, 1; }} }}", (".repeat outside",)),
    (".load in .cta", f'{W1}.cta 0 {{ ».load %r0, "a", "b"; }}', (".load inside a .cta block",)),
    ("an open .cta", f"{W1}».cta 0 {{ .warp 0 {{ }}", ("the file ends inside .cta",)),
    (
        "a warp twice in a CTA",
        f"{W1}.cta 0-1 {{ .warp 0 {{ }} }}\n.cta 1 {{ .warp »0 {{ }} }}",
        ("warp 0 of CTA 1 has a program already (line 4)",),
    ),
    (
        "CTA 0 is the one without .cta",
        f"{W1}.warp 0 {{ }}\n.cta 0-1 {{ .warp »0 {{ }} }}",
        ("warp 0 of CTA 0 has a program already (line 4)",),
    ),
    ("a .load for no CTA", f'{W1}».load cta1.%r0, "a", "b";\n.warp 0 {{ }}', ("CTA 1 has no program", ".cta 0-1")),
    ("a .store of CTA 2", f'{W1}.store "x", cta»2.%r0, 1;\n', ("the number of a CTA is '2'", "0 to 1")),
    ("a .store of too many columns", f'{W1}.store "x", tmem[500], »13;\n', ("number of columns is '13'", "1 to 12")),
    (
        "a column that is not there",
        f'{W1}.load tmem»[512], "a", "b";\n',
        ("column of Tensor Memory is '512'", "0 to 511"),
    ),
    ("a .store of too many registers", f'{W1}.store "x", %rd250, »6;\n', ("number of registers is '6'", "1 to 5")),
    ("a .load of %f0", f'{W1}».load %f0, "a", "b";\n', ("malformed .load",)),
]


@over(("marked", "expected"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_trace(tmp_path: Path, marked: str, expected: tuple[str, ...]) -> None:
    before = marked[: marked.index("»")]
    path = save(tmp_path, marked.replace("»", ""))
    with pytest.raises(TraceError) as caught:
        simulator.run(path, None)
    error = caught.value
    assert (error.line, error.column) == (before.count("\n") + 1, len(before) - before.rfind("\n")), str(error)
    assert "\n" not in str(error)
    for word in expected:
        assert word in str(error), str(error)


@pytest.mark.parametrize(
    ("place", "array", "words"),
    [
        ("%rd0", np.zeros((1, 32), np.uint32), ("uint32", "uint64 [registers, 32]")),
        ("%p0", np.zeros((1, 32), np.uint8), ("uint8", "bool [registers, 32]")),
        ("%rs0", np.zeros((1, 32), np.uint32), ("uint16 [registers, 32]",)),
        ("tmem[0]", np.zeros((128, 1), np.uint64), ("uint64", "uint32 [128, columns]")),
        ("tmem[0]", np.zeros((64, 1), np.uint32), ("[64, 1]", "uint32 [128, columns]")),
        ("tmem[500]", np.zeros((128, 13), np.uint32), ("13 columns, from tmem[500] on", "at most 12")),
        ("%rd254", np.zeros((2, 32), np.uint64), ("2 registers, from %rd254 on", "at most 1")),
    ],
)
def test_wrong_arrays(tmp_path: Path, place: str, array: NDArray[np.generic], words: tuple[str, ...]) -> None:
    path = save(tmp_path, f'{W1}.load {place}, "data.npz", "a";\n.warp 0 {{ mov.u32 %r0, 1; }}', a=array)
    with pytest.raises(TraceError) as caught:
        simulator.run(path, None)
    assert caught.value.line == 4
    assert all(word in str(caught.value) for word in words), str(caught.value)


# Tensor Memory and its instructions

LEADER = "mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0; mov.u32 %r1, 0; mov.u32 %r2, %warpid;"
ALLOC = (
    "setp.eq.u32 %p1, %r2, 0; @%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32; "
    "bar.sync 0; ld.shared.u32 %r3, [%r1];"
)
FREE = "bar.sync 0; @%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 32;"


def test_tensor_memory_round_trip(tmp_path: Path) -> None:
    """Allocated, loaded before the run, read, written by the warps, stored after it."""
    cells, mine = RNG.integers(0, 2**32, (128, 8), np.uint32), RNG.integers(0, 2**32, (4, 4, 32), np.uint32)
    body = f"""{LEADER}{ALLOC}
    shl.b32 %r4, %r2, 21; add.u32 %r4, %r4, %r3;
    tcgen05.ld.sync.aligned.32x32b.x8.b32 {{%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}}, [%r4];
    tcgen05.wait::ld.sync.aligned;
    tcgen05.st.sync.aligned.32x32b.x4.b32 [%r4+16], {{%r20, %r21, %r22, %r23}};
    tcgen05.wait::st.sync.aligned;
    {FREE}"""
    top = '.load tmem[0], "data.npz", "cells";\n.load %r20, "data.npz", "mine";'
    end = '.store "read", %r10, 8;\n.store "cells", tmem[0], 20;'
    report = run(tmp_path, body, warps=4, shared=64, top=top, end=end, cells=cells, mine=mine)
    np.testing.assert_array_equal(report.arrays["read"], cells.reshape(4, 32, 8).transpose(0, 2, 1))
    found = report.arrays["cells"]
    assert (found.dtype, found.shape) == (np.uint32, (128, 20))
    np.testing.assert_array_equal(found[:, :8], cells)
    np.testing.assert_array_equal(found[:, 16:].reshape(4, 32, 4), mine.transpose(0, 2, 1))
    assert not found[:, 8:16].any()


MMA = f"""{HEAD}.warps 4
.shared 8192
.load shared[1024], "data.npz", "a";
.load shared[5120], "data.npz", "b";
.load %rd0, "data.npz", "descriptors";
.warp 0-3 {{
    {LEADER}
    @%p0 mbarrier.init.shared::cta.b64 [%r1+8], 1;
    {ALLOC}
    mov.u32 %r5, {(1 << 4) | (1 << 17) | (8 << 24)};
    .repeat 2 {{
        @%p0 tcgen05.mma.cta_group::1.kind::f16 [%r3], %rd0, %rd1, %r5, %p2;
        mov.pred %p2, 1;
    }}
    @%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r1+8];
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r1+8], 0;
    tcgen05.fence::after_thread_sync;
    shl.b32 %r4, %r2, 21; add.u32 %r4, %r4, %r3;
    tcgen05.ld.sync.aligned.32x32b.x8.b32 {{%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}}, [%r4];
    tcgen05.wait::ld.sync.aligned;
    {FREE}
}}
.store "d", %r10, 8;
"""


def operands() -> tuple[NDArray[np.float16], NDArray[np.float16], dict[str, NDArray[np.generic]]]:
    """A [128, 16] and B [16, 8] of small numbers, and what the trace loads: core matrices of 8 rows x 16 bytes, next
    along K after 128 bytes."""
    a, b = RNG.integers(-8, 9, (128, 16)).astype(np.float16), RNG.integers(-8, 9, (16, 8)).astype(np.float16)
    images = [matrix.reshape(-1, 8, 2, 8).transpose(0, 2, 1, 3) for matrix in (a, b.T)]  # [rows / 8, k / 8, row, k]
    words = [(at >> 4) | (128 >> 4) << 16 | (256 >> 4) << 32 | 1 << 46 for at in (1024, 5120)]
    descriptors = np.repeat(np.array(words, np.uint64)[:, None], 32, axis=1)
    return a, b, {"a": images[0], "b": images[1], "descriptors": descriptors}


def test_mma(tmp_path: Path) -> None:
    """Descriptors in 64-bit registers, enable-input-d in a predicate, a commit that a wait waits for: D = 2 A B, and
    its time."""
    a, b, arrays = operands()
    path = save(tmp_path, MMA, **arrays)
    report = simulator.run(path, None, undefined="raise")
    found = report.arrays["d"].view(np.float32).transpose(0, 2, 1).reshape(128, 8)
    np.testing.assert_array_equal(found, 2 * a.astype(np.float32) @ b.astype(np.float32))
    timed = simulator.run(path, "b200")
    np.testing.assert_array_equal(timed.arrays["d"], report.arrays["d"])
    assert timed.cycles > 0
    assert timed.matrix_instructions == report.matrix_instructions == 2
    assert timed.throughput.fma_per_clk_sm == pytest.approx(2 * 128 * 8 * 16 / timed.cycles)
    assert sum(timed.instructions.values()) == sum(report.instructions.values())
    with pytest.raises(TraceError, match="not available on sm_90a, the chip of config h100_sxm"):
        simulator.run(path)


class Log(Observer):
    """Keeps every event."""

    wants_accesses = True

    def __init__(self) -> None:
        self.events: list[Event] = []

    def accessed(self, event: Event) -> None:
        self.events.append(event)


def test_log(tmp_path: Path) -> None:
    """What a checker gets: who did what to which bytes, in order."""
    _, _, arrays = operands()
    trace = load(save(tmp_path, MMA, **arrays))
    log, session = Log(), Session(trace)
    session.run(log)
    kinds = [event.kind.split(".cta_group")[0].split(".shared")[0] for event in log.events]
    assert kinds.count("tcgen05.mma") == 2
    first = next(event for event in log.events if event.kind.startswith("mbarrier.init"))
    assert (first.cta, first.threads, first.line) == (0, ((0, 1),), 10)
    assert [(region.space, region.cells.tolist()) for region in first.writes] == [("mbarrier", [8])]
    commit = next(i for i, kind in enumerate(kinds) if kind == "tcgen05.commit")
    waits = [i for i, kind in enumerate(kinds) if kind == "mbarrier.try_wait.parity"]
    assert len(waits) == 4
    lines = (tmp_path / "x.trace").read_text().splitlines()
    assert all("try_wait" in lines[log.events[i].line - 1] for i in waits), (
        "the line is that of the wait, whatever was executed meanwhile"
    )
    assert min(waits) > commit > max(i for i, kind in enumerate(kinds) if kind == "tcgen05.mma")
    assert sorted(log.events[i].threads[0] for i in waits) == [(warp, 2**32 - 1) for warp in range(4)]
    barrier = [event for event in log.events if event.kind == "bar.sync"]
    assert sorted(event.threads[0][0] for event in barrier) == sorted([0, 1, 2, 3] * 2)
    assert not session.run().machine.wants_accesses


def test_alloc_waits_for_room(tmp_path: Path) -> None:
    """Two warps want all columns: the second goes on when the first has given them back; without that, a deadlock says
    so."""
    text = f"""{HEAD}.warps 2
.shared 64
.warp 0 {{ tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 512; bar.sync 0; mov.u32 %r9, 5;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 0, 512; }}
.warp 1 {{ bar.sync 0; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0+4], 512; mov.u32 %r9, 6;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 0, 512; }}
.store "r", %r9, 1;
"""
    assert simulator.run(save(tmp_path, text), None).arrays["r"][:, 0, 0].tolist() == [5, 6]
    with pytest.raises(simulator.DeadlockError, match="warps 1 wait in line 6 for 512 columns of Tensor Memory"):
        simulator.run(
            save(
                tmp_path, text.replace("mov.u32 %r9, 5;\n    tcgen05.dealloc.cta_group::1.sync.aligned.b32 0, 512;", "")
            ),
            None,
        )


def test_an_error_after_a_wait_has_its_place(tmp_path: Path) -> None:
    """The permit to allocate is gone when there is room at last."""
    text = f"""{HEAD}.warps 3
.shared 64
.warp 0 {{ tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 512; bar.sync 0; bar.sync 1, 64;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; tcgen05.dealloc.cta_group::1.sync.aligned.b32 0, 512; }}
.warp 1 {{ bar.sync 0;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0+4], 512; }}
.warp 2 {{ bar.sync 0; bar.sync 1, 64; }}
"""
    path = save(tmp_path, text)
    with pytest.raises(UndefinedBehavior, match="tmem-alloc-after-relinquish") as caught:
        simulator.run(path, None)
    assert caught.value.where.startswith(f"{path}:8: ")


def test_undefined_names_the_line(tmp_path: Path) -> None:
    path = save(tmp_path, f"{W1}.warp 0 {{\n\n tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r0}}, [%r3]; }}\n")
    with pytest.raises(UndefinedBehavior, match="tmem-not-allocated") as caught:
        simulator.run(path, None)
    assert caught.value.where.startswith(f"{path}:6: ")
