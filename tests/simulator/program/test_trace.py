"""Traces: every directive and instruction against numpy, races and barriers, and a clear error with its place for
everything that is wrong."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import simulator
from isa import UndefinedBehavior
from simulator import DeadlockError, TraceError, load_config
from simulator.program import load
from simulator.program.blocks import Repeat, Step
from tests.support.cases import over
from tests.support.small_traces import run_body, save

HEAD = ".trace 1\n.target sm_90a\n"
RNG = np.random.default_rng(3)
Words = NDArray[np.uint32]
MMA_SP = "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"


run = partial(run_body, HEAD, "h100_sxm")


def words(*shape: int) -> Words:
    """Random registers, with many edges of signed and unsigned numbers among them."""
    edges = RNG.choice(np.array([0, 1, 31, 32, 33, 2**31 - 1, 2**31, 2**32 - 1], np.uint32), shape)
    return np.where(RNG.random(shape) < 0.4, edges, RNG.integers(0, 2**32, shape, np.uint32)).astype(np.uint32)


# What a trace may say


def test_every_directive(tmp_path: Path) -> None:
    a, tile = words(3, 32), RNG.integers(0, 256, 64, np.uint8)
    text = """// a comment before the version
.trace 1       // version
.target sm_90a // semicolons are optional here
.warps 4;
.shared 0x100
.load %r2, "data.npz", "a"; // registers
.load shared[16], "data.npz", "tile";

.warp 0-1, 3 {
    mov.u32 %r0, 5;
    .repeat 3 { add.u32 %r0, %r0, 1; .repeat 2 {
        add.u32 %r1, %r1, %r0; } }
}
.warp 2 { mov.u32 %r0, %r2; }
.store "r", %r0, 5;
.store "bytes // no comment", shared[8], 0x40;
"""
    report = simulator.run(save(tmp_path, text, a=a, tile=tile))
    r = report.arrays["r"]
    assert (str(r.dtype), r.shape) == ("uint32", (4, 5, 32))
    np.testing.assert_array_equal(r[:, 2:], np.broadcast_to(a, (4, 3, 32)))
    assert r[[0, 1, 3], 0].tolist() == [[8] * 32] * 3
    assert r[[0, 1, 3], 1].tolist() == [[2 * (6 + 7 + 8)] * 32] * 3
    np.testing.assert_array_equal(r[2, 0], a[0])
    stored = report.arrays["bytes // no comment"]
    assert (str(stored.dtype), stored.shape) == ("uint8", (64,))
    assert stored.tolist() == [0] * 8 + tile[:56].tolist()
    assert report.instructions == {"add.u32": 3 * (3 + 6), "mov.u32": 4}
    assert (report.warps, report.target) == (4, "sm_90a")


def test_structure(tmp_path: Path) -> None:
    trace = load(
        save(
            tmp_path,
            f"{HEAD}.warps 8\n.warp 1,4-5 "
            f"{{ .repeat 2 {{ .repeat 0x3 {{ bar.sync 0; }} mov.b32 %r7, 1; }} }}\n.warp 0 {{ }}\n",
        )
    )
    first, second = trace.blocks
    assert (first.warps, first.line, second.warps, second.body) == ((1, 4, 5), 4, (0,), ())
    assert (trace.warps, trace.shared_bytes, trace.registers, str(trace.target)) == (8, 0, 8, "sm_90a")
    (outer,) = first.body
    assert isinstance(outer, Repeat)
    inner, step = outer.body
    assert isinstance(inner, Repeat)
    assert isinstance(step, Step)
    assert (outer.count, inner.count, len(list(trace.steps()))) == (2, 3, 2)


def test_instruction_over_lines(tmp_path: Path) -> None:
    body = (
        "mov.u32 %r0, // first\n 7;\n  add.u32\n%r1,\n\n%r0, // comment ; with a semicolon\n\t-3 ; mov.u32 "
        "%r2, 1; mov.u32 %r3,\n2;"
    )
    report = run(tmp_path, body, end='.store "r", %r0, 4;')
    assert report.arrays["r"][0, :, 0].tolist() == [7, 4, 1, 2]
    assert [step.line for step in load(tmp_path / "x.trace").steps()] == [6, 8, 12, 12]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("compressed", [False, True])
def test_gzip_and_line_ends(tmp_path: Path, ending: str, compressed: bool) -> None:
    text = f'{HEAD}.warps 1\n.warp 0 {{\nmov.u32 %r0, 9;\n}}\n.store "r", %r0, 1;'.replace("\n", ending).encode()
    path = tmp_path / "any.name"
    path.write_bytes(gzip.compress(text) if compressed else text)
    assert simulator.run(path).arrays["r"].tolist() == [[[9] * 32]]


def test_load_of_registers(tmp_path: Path) -> None:
    shared, own = words(2, 32), words(3, 4, 32)
    top = '.load %r1, "data.npz", "shared";\n.load %r8, "data.npz", "own";'
    np.savez(tmp_path / "data.npz", shared=shared, own=own)
    path = tmp_path / "x.trace"
    path.write_text(f'{HEAD}.warps 3\n{top}\n.warp 0-2 {{ mov.u32 %r0, 1; }}\n.store "all", %r1, 11;\n')
    found = simulator.run(path).arrays["all"]
    np.testing.assert_array_equal(found[:, :2], np.broadcast_to(shared, (3, 2, 32)))
    np.testing.assert_array_equal(found[:, 7:], own)
    assert not found[:, 2:7].any()


@pytest.mark.parametrize("dtype", ["<u1", "<i2", ">u4", "<f4", "<f8", ">f2"])
def test_load_of_shared(tmp_path: Path, dtype: str) -> None:
    """Bytes in C order, little endian, whatever the order in the file."""
    array = np.arange(12).reshape(3, 4).astype(dtype)
    report = run(
        tmp_path,
        "",
        shared=256,
        top='.load shared[32], "data.npz", "t";',
        end='.store "s", shared[0], 256;',
        t=np.asfortranarray(array),
    )
    wanted = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
    assert report.arrays["s"].tobytes() == bytes(32) + wanted + bytes(224 - len(wanted))


# Integer instructions

M32 = 2**32


def signed(x: int) -> int:
    return x - M32 if x >> 31 else x


INTEGER: list[tuple[str, Callable[[int, int, int], int]]] = [
    ("mov.b32 %r4, %r0;", lambda a, b, c: a),
    ("mov.u32 %r4, %r1;", lambda a, b, c: b),
    ("mov.s32 %r4, -5;", lambda a, b, c: -5),
    ("mov.f32 %r4, 0f3f800000;", lambda a, b, c: 0x3F800000),
    ("add.s32 %r4, %r0, %r1;", lambda a, b, c: a + b),
    ("add.u32 %r4, %r0, -1;", lambda a, b, c: a - 1),
    ("add.u32 %r4, %r0, 0x1ffffffff;", lambda a, b, c: a - 1),
    ("sub.s32 %r4, %r0, %r1;", lambda a, b, c: a - b),
    ("sub.u32 %r4, 3, %r1;", lambda a, b, c: 3 - b),
    ("mul.lo.s32 %r4, %r0, %r1;", lambda a, b, c: signed(a) * signed(b)),
    ("mul.lo.u32 %r4, %r0, %r1;", lambda a, b, c: a * b),
    ("mad.lo.s32 %r4, %r0, %r1, %r2;", lambda a, b, c: a * b + c),
    ("mad.lo.u32 %r4, %r0, 7, %r2;", lambda a, b, c: 7 * a + c),
    ("and.b32 %r4, %r0, %r1;", lambda a, b, c: a & b),
    ("or.b32 %r4, %r0, %r1;", lambda a, b, c: a | b),
    ("xor.b32 %r4, %r0, -1;", lambda a, b, c: ~a),
    ("shl.b32 %r4, %r0, %r1;", lambda a, b, c: a << b if b < 32 else 0),
    ("shl.b32 %r4, %r0, 33;", lambda a, b, c: 0),
    ("shr.b32 %r4, %r0, %r1;", lambda a, b, c: a >> b if b < 32 else 0),
    ("shr.u32 %r4, %r0, %r1;", lambda a, b, c: a >> b if b < 32 else 0),
    ("shr.s32 %r4, %r0, %r1;", lambda a, b, c: signed(a) >> min(b, 31)),
    ("shr.s32 %r4, %r0, 99;", lambda a, b, c: signed(a) >> 31),
    ("shr.s32 %r4, %r0, -1;", lambda a, b, c: signed(a) >> 31),
    ("add.u32 %r0, %r0, %r0;mov.u32 %r4, %r0;", lambda a, b, c: 2 * a),
]


@over(("text", "function"), INTEGER, ids=[text for text, _ in INTEGER])
def test_integer_instructions(tmp_path: Path, text: str, function: Callable[[int, int, int], int]) -> None:
    given = words(4, 3, 32)
    given[:, 1, ::3] %= 40  # shift amounts on both sides of 31
    report = run(tmp_path, text, warps=4, top='.load %r0, "data.npz", "x";', end='.store "d", %r4, 1;', x=given)
    wanted = [[function(*map(int, given[w, :, lane])) % M32 for lane in range(32)] for w in range(4)]
    assert report.arrays["d"][:, 0].tolist() == wanted


def test_special_registers(tmp_path: Path) -> None:
    names = ("%laneid", "%warpid", "%nwarpid", "%tid.x", "%ntid.x")
    body = "".join(f"mov.u32 %r{i}, {name};" for i, name in enumerate(names))
    found = run(tmp_path, body, warps=5, end='.store "s", %r0, 5;').arrays["s"]
    most = load_config("h100_sxm").sm.warps
    for warp in range(5):
        for lane in range(32):
            assert found[warp, :, lane].tolist() == [lane, warp, most, 32 * warp + lane, 160]


# Shared memory


@over("vector", [1, 2, 4])
@over("kind", ["b32", "u32", "s32", "f32", "b16", "u16", "s16", "b8", "u8", "s8"])
def test_loads_and_stores(tmp_path: Path, kind: str, vector: int) -> None:
    """A copy through registers, lanes in a scattered order: `ld` extends by the type, `st` cuts."""
    size = int(kind[1:]) // 8
    data = RNG.integers(0, 256, 2048, np.uint8)
    where = (RNG.permutation(32) * size * vector).astype(np.uint32)
    registers = [f"%r{2 + i}" for i in range(vector)]
    operand = "{" + ", ".join(registers) + "}" if vector > 1 else registers[0]
    shape = f"{'' if vector == 1 else f'v{vector}.'}{kind}"
    body = f"ld.shared.{shape} {operand}, [%r0+512]; st.shared::cta.{shape} [%r0+1024], {operand};"
    top = '.load %r0, "data.npz", "where";\n.load shared[0], "data.npz", "data";'
    end = f'.store "r", %r2, {vector};\n.store "s", shared[0], 2048;'
    report = run(tmp_path, body, shared=2048, top=top, end=end, where=where[None], data=data)
    for lane in range(32):
        for i in range(vector):
            place = 512 + int(where[lane]) + size * i
            value = int.from_bytes(data[place : place + size].tobytes(), "little", signed=kind[0] == "s")
            assert report.arrays["r"][0, i, lane] == value % M32
    total = 32 * size * vector
    assert report.arrays["s"].tolist() == [
        *data[:1024].tolist(),
        *data[512 : 512 + total].tolist(),
        *data[1024 + total :].tolist(),
    ]
    assert not report.undefined


def test_address_arithmetic(tmp_path: Path) -> None:
    """[register], [register + offset] either way, [constant]; addresses wrap at 32 bits."""
    data = np.arange(64, dtype=np.uint32)
    body = "mov.u32 %r0, 64; mov.u32 %r1, -4;" + "".join(
        f"ld.shared.b32 %r{2 + i}, {address};"
        for i, address in enumerate(("[%r0]", "[%r0+8]", "[%r0+-8]", "[%r1+8]", "[%r0+2*4]"))
    )
    report = run(tmp_path, body, shared=256, top='.load shared[0], "data.npz", "d";', end='.store "r", %r2, 5;', d=data)
    assert report.arrays["r"][0, :, 7].tolist() == [16, 18, 14, 1, 18]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix(tmp_path: Path, count: int, transposed: bool) -> None:
    """Lanes 8j .. 8j+7 hold the addresses of the rows of matrix j; lane i gets elements 2 * (i % 4) and the next of row
    i / 4."""
    halves = RNG.permutation(2**16)[:1024].astype(np.uint16)
    rows = RNG.permutation(128)[: 8 * count]
    addresses = np.full(32, 10**6, np.uint32)  # lanes that are not asked may hold anything
    addresses[: 8 * count] = rows * 16
    registers = ", ".join(f"%r{1 + j}" for j in range(count))
    body = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16 {{{registers}}}, [%r0];"
    top = '.load %r0, "data.npz", "a";\n.load shared[0], "data.npz", "h";'
    report = run(tmp_path, body, shared=2048, top=top, end=f'.store "r", %r1, {count};', a=addresses[None], h=halves)
    for j in range(count):
        matrix = np.array([halves[8 * row : 8 * row + 8] for row in rows[8 * j : 8 * j + 8]])
        matrix = matrix.T if transposed else matrix
        for lane in range(32):
            low, high = matrix[lane // 4, 2 * (lane % 4) : 2 * (lane % 4) + 2].tolist()
            assert report.arrays["r"][0, j, lane] == low | high << 16


# Barriers and races


def test_barrier_orders_blocks(tmp_path: Path) -> None:
    """A producer and a consumer, there and back, in a loop."""
    text = f"""{HEAD}.warps 2
.shared 4
.warp 0 {{ .repeat 5 {{ ld.shared.u32 %r0, [%r9]; add.u32 %r0, %r0, 1; st.shared.u32 [%r9], %r0; bar.sync 0;
bar.sync 0; }} }}
.warp 1 {{ .repeat 5 {{ bar.sync 0; ld.shared.u32 %r0, [%r9]; mul.lo.u32 %r0, %r0, 3; st.shared.u32 [%r9], %r0;
bar.sync 0; }} }}
.store "s", shared[0], 4;
"""
    report = simulator.run(save(tmp_path, text))
    value = 0
    for _ in range(5):
        value = 3 * (value + 1)
    assert int.from_bytes(report.arrays["s"].tobytes(), "little") == value
    assert "shared-memory-race" not in report.undefined


def test_named_and_counted_barriers(tmp_path: Path) -> None:
    """Two pairs of warps at barriers of their own; then all at another."""
    text = f"""{HEAD}.warps 4
.shared 64
.warp 0,2 {{ mov.u32 %r0, %warpid; shl.b32 %r1, %r0, 2; st.shared.u32 [%r1], %r0; barrier.sync 3, 64;
ld.shared.u32 %r2, [%r3]; bar.sync 0; }}
.warp 1 {{ bar.sync 15, 64; mov.u32 %r4, 8; ld.shared.u32 %r2, [%r4]; bar.cta.sync 0; }}
.warp 3 {{ mov.u32 %r0, 77; mov.u32 %r1, 12; st.shared.u32 [%r1], %r0; bar.sync 15, 64; bar.sync 0;
ld.shared.u32 %r2, [%r1]; }}
.store "r", %r2, 1;
"""
    report = simulator.run(save(tmp_path, text))
    assert report.arrays["r"][[0, 2, 3], 0, 0].tolist() == [0, 0, 77]
    assert report.undefined["shared-memory-race"] > 0, "warp 1 reads what warp 2 wrote without a barrier between them"
    ordered = simulator.run(
        save(tmp_path, text.replace("mov.u32 %r4, 8;", "bar.sync 0; mov.u32 %r4, 8;").replace("bar.cta.sync 0;", ""))
    )
    assert ordered.arrays["r"][:, 0, 0].tolist() == [0, 2, 0, 77]
    assert "shared-memory-race" not in ordered.undefined


STORE, LOAD = "st.shared.u32 [%r8], %r9;", "ld.shared.u32 %r9, [%r8];"


@over(
    ("first", "second", "races"),
    [
        (STORE, LOAD, True),
        (LOAD, STORE, True),
        (STORE, STORE, True),
        (LOAD, LOAD, False),
        (STORE + "bar.sync 0;", "bar.sync 0;" + LOAD, False),
        (LOAD + "bar.sync 0;", "bar.sync 0;" + STORE, False),
        ("bar.sync 0;" + STORE, "bar.sync 0;" + LOAD, True),
        (STORE + "bar.sync 0;", LOAD + "bar.sync 0;", True),
        (STORE + "bar.sync 1, 64;", "bar.sync 1, 64;" + LOAD, False),
        ("st.shared.u8 [%r8+3], %r9;", "ld.shared.u8 %r9, [%r8+2];", False),
        ("st.shared.u8 [%r8+3], %r9;", LOAD, True),
    ],
)
def test_races(tmp_path: Path, first: str, second: str, races: bool) -> None:
    setup = "mov.u32 %r8, 16; mov.u32 %r9, %warpid;"
    text = f"{HEAD}.warps 2\n.shared 64\n.warp 0 {{ {setup} {first} }}\n.warp 1 {{ {setup} {second} }}\n"
    path = save(tmp_path, text)
    assert (simulator.run(path).undefined.get("shared-memory-race", 0) > 0) == races
    if races:
        with pytest.raises(UndefinedBehavior, match="shared-memory-race") as caught:
            simulator.run(path, undefined="raise")
        assert str(path) in caught.value.where
    else:
        simulator.run(path, undefined="raise")


@over(
    ("store", "races"),
    [
        ("st.shared.u8 [%r8], %r9;", True),
        ("st.shared.u8 [%r9], %r9;", False),
        ("st.shared.u8 [%r8], %r8;", False),
        ("st.shared.u8 [%r8], %r8; ld.shared.u8 %r9, [%r8];", True),
    ],
)
def test_race_within_a_block(tmp_path: Path, store: str, races: bool) -> None:
    """All warps of a block store to one byte, to bytes of their own, and the same value to one byte."""
    report = run(tmp_path, f"mov.u32 %r8, 0; mov.u32 %r9, %warpid; {store}", warps=3, shared=16)
    assert ("shared-memory-race" in report.undefined) == races


def test_unwritten_register(tmp_path: Path) -> None:
    """A warning that names line and register, and a count; no error."""
    report = run(tmp_path, "mov.u32 %r0, 1;\nadd.u32 %r1, %r0, %r5;\nadd.u32 %r1, %r1, %r5;", warps=2)
    (warning,) = report.warnings
    assert "line 7" in warning
    assert "%r5" in warning
    assert "2 warps" in warning
    assert report.undefined["read-before-write"] == 2
    clean = run(tmp_path, "add.u32 %r1, %r0, %r5;", top='.load %r0, "data.npz", "x";', x=words(6, 32))
    assert clean.warnings == []
    assert "read-before-write" not in clean.undefined


def test_unwritten_address_and_accumulator(tmp_path: Path) -> None:
    mma = (
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r4, %r5, %r6, %r7}, {%r0, %r0, %r0, %r0}, {%r0, "
        "%r0}, {%r4, %r5, %r6, %r7};"
    )
    body = f"ld.shared.u32 %r0, [%r1]; {mma}"
    warnings = " ".join(run(tmp_path, body, shared=64).warnings)
    for register in ("%r1 ", "%r4 ", "%r5 ", "%r6 ", "%r7 "):
        assert register in warnings
    assert "%r0 " not in warnings


# Bad files: (text, line, column or None, words). '»' marks the place of the error; line and column are taken from it.

W1 = f"{HEAD}.warps 1\n"
V2, V4 = "{%r0, %r1}", "{%r0, %r1, %r2, %r3}"
BAD: list[tuple[str, str, tuple[str, ...]]] = [
    ("unknown instruction", f"{W1}.warp 0 {{\n  »foo.bar %r0;\n}}", ("unknown instruction 'foo'",)),
    ("second on the line", f"{W1}.warp 0 {{ mov.u32 %r0, 1; »movx.u32 %r0, 1; }}", ("unknown instruction 'movx'",)),
    ("wrong qualifier", f"{W1}.warp 0 {{\n  ld.»locale.b32 %r0, [%r1];\n}}", (".locale", "ld.local.b32")),
    (
        "wrong register count",
        f"{W1}.warp 0 {{\n\t{MMA_SP} {V4}, »{V2}, {V4}, {V4}, %r9, 0;\n}}",
        ("operand a has 2 registers", "4 registers"),
    ),
    (
        "on a further line",
        f"{W1}.warp 0 {{\n{MMA_SP}\n  {V4}, {V4},\n  »{V2}, {V4}, %r9, 0;\n}}",
        ("operand b has 2 registers",),
    ),
    ("selector", f"{W1}.warp 0 {{\n{MMA_SP} {V4}, {V4}, {V4}, {V4}, %r9,\n »7;\n}}", ("selector 7 is out of range",)),
    (
        "target of the trace",
        f".trace 1\n.target sm_75\n.warps 1\n.warp 0 {{\n »{MMA_SP} {V4}, {V4}, {V4}, {V4}, %r9, 0; }}",
        ("sm_75", "sm_80"),
    ),
    ("ends in a statement", f"{W1}.warp 0 {{\n  »mov.u32 %r0, 1\n", ("ends inside the statement", "mov.u32")),
    ("no semicolon before a brace", f"{W1}.warp 0 {{\n  mov.u32 %r0, 1 »}}\n mov.u32 %r1, 1; }}", ("'}'",)),
    ("ends in .repeat", f"{W1}.warp 0 {{\n  ».repeat 4 {{\n    mov.u32 %r0, 1;\n", (".repeat", "'}'")),
    ("ends in .warp", f"{W1}».warp 0 {{\n  .repeat 4 {{ mov.u32 %r0, 1; }}\n", (".warp", "'}'")),
    ("one } too many", f"{W1}.warp 0 {{ mov.u32 %r0, 1; }}\n»}}\n", ("closes nothing",)),
    (
        "two programs for a warp",
        ".trace 1\n.target sm_90a\n.warps 4\n.warp 0-2 { }\n.warp »2 { }",
        ("warp 2 has a program", "line 4"),
    ),
    ("a warp twice in a list", ".trace 1\n.target sm_90a\n.warps 4\n.warp »0-2,1 { }", ("warp 1 has a program",)),
    ("warp number", f"{W1}.warp »1 {{ }}", ("warp number is '1'", "0 to 0")),
    ("warp range", ".trace 1\n.target sm_90a\n.warps 4\n.warp »3-1 { }", ("'3-1' is not a range",)),
    ("a number over two lines", ".trace 1\n.target sm_90a\n.warps 4\n.warp »0\n1, 3 { }", ("warp number is '0 1'",)),
    ("no warps in .warp", f"{W1}».warp {{ }}", ("malformed .warp",)),
    ("no .warps", f"{HEAD}».warp 0 {{ }}", (".warps is missing",)),
    ("no .target", ".trace 1\n.warps 1\n».warp 0 { }", (".target is missing",)),
    ("no version", "».target sm_90a\n", ("begins with its version", ".trace 1")),
    ("version 2", ".trace »2\n", ("version '2'", "legal: 1")),
    ("no number of version", ".trace»\n.target sm_90a", ("version ''",)),
    ("unknown target", ".trace 1\n.target »sm_91\n", ("unknown target 'sm_91'", "sm_90")),
    ("0 warps", f"{HEAD}.warps »0\n", ("number of warps is '0'", "1 to 32")),
    ("33 warps", f"{HEAD}.warps »33\n", ("number of warps is '33'",)),
    ("warps in words", f"{HEAD}.warps »many\n", ("number of warps is 'many'",)),
    ("shared memory of 1 MB", f"{W1}.shared »1048576\n", ("size of shared memory", "0 to 232448")),
    ("negative shared memory", f"{W1}.shared »-1\n", ("size of shared memory",)),
    ("twice .warps", f"{W1}».warps 2\n", (".warps is given twice",)),
    ("late .shared", f"{W1}.warp 0 {{ }}\n».shared 64\n", (".shared after",)),
    ("unknown directive", f"{W1}».loop 4 {{\n mov.u32 %r0, 1; }}", ("unknown directive '.loop'", ".repeat")),
    ("misspelt directive", f"{W1}.warp 0 {{\n ».repaet 4; }}", (".repaet",)),
    ("directive in a block", f"{W1}.warp 0 {{\n ».shared 64\n }}", (".shared inside a .warp block",)),
    (".warp in .warp", ".trace 1\n.target sm_90a\n.warps 4\n.warp 0 {\n ».warp 1 { } }", (".warp inside",)),
    (".repeat outside", f"{W1}».repeat 3 {{ }}", (".repeat outside",)),
    ("instruction outside", f"{W1}»mov.u32 %r0, 1;\n", ("outside of a .warp block",)),
    (".repeat 0", f"{W1}.warp 0 {{ .repeat »0 {{ mov.u32 %r0, 1; }} }}", ("number of repetitions is '0'",)),
    (".repeat x", f"{W1}.warp 0 {{ .repeat »x {{ mov.u32 %r0, 1; }} }}", ("number of repetitions is 'x'",)),
    (".repeat 10^13", f"{W1}.warp 0 {{ .repeat »10000000000000 {{ mov.u32 %r0, 1; }} }}", ("number of repetitions",)),
    (".repeat without a count", f"{W1}.warp 0 {{ ».repeat {{ mov.u32 %r0, 1; }} }}", ("malformed .repeat",)),
    ("empty .repeat", f"{W1}.warp 0 {{ .repeat 3 {{ »}} }}", ("has no instructions",)),
    ("%r255", f"{W1}.warp 0 {{ mov.u32 »%r255, 1; }}", ("'%r255' is not a register", "%r0 to %r254")),
    ("%r01", f"{W1}.warp 0 {{ mov.u32 »%r01, 1; }}", ("'%r01' is not a register",)),
    ("%f1", f"{W1}.warp 0 {{ mov.f32 %r0, »%f1; }}", ("'%f1' is not a register",)),
    (
        "%rs1 for %r1",
        f"{W1}.warp 0 {{ ld.shared.b32 »%rs1, [%r0]; }}",
        ("operand d cannot be %rs1, a 16-bit register", "32-bit register, %r0"),
    ),
    ("like the name of another", f"{W1}.warp 0 {{ add.u32 %r25, %r2, »%r256; }}", ("'%r256' is not a register",)),
    ("a name that begins like one", f"{W1}.warp 0 {{ add.u32 %r2, »%rx2, %rx; }}", ("'%rx2' is not a register",)),
    (
        "a guard that is no predicate",
        f"{W1}.warp 0 {{ @»%r0 mov.u32 %r0, 1; }}",
        ("operand guard cannot be %r0, a 32-bit register", "predicate, %p0"),
    ),
    ("barrier in a register", f"{W1}.warp 0 {{ »bar.sync %r0; }}", ("must be constants",)),
    ("barrier of 48 threads", f"{W1}.warp 0 {{ bar.sync 0, »48; }}", ("48", "multiple of 32")),
    ("barrier of 0 threads", f"{W1}.warp 0 {{ »bar.sync 0, 0; }}", ("0 threads",)),
    ("malformed .load", f"{W1}».load %r0 data;\n", ("malformed .load", '.load %r0, "file.npz", "key"')),
    (".load to register 255", f'{W1}.load »%r255, "a", "b";\n', ("register number", "0 to 254")),
    ("malformed .store", f"{W1}».store %r0, 4;\n", ("malformed .store",)),
    (".store of too many", f'{W1}.store "x", %r250, »6;\n', ("number of registers is '6'", "1 to 5")),
    (
        ".store beyond shared memory",
        f'{W1}.shared 64\n.store "x", shared[32], »33;\n',
        ("number of bytes is '33'", "1 to 32"),
    ),
    ("two stores of a name", f'{W1}.store "x", %r0, 1;\n».store "x", %r1, 1;\n', ("two .store statements named 'x'",)),
]


@over(("marked", "expected"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_trace(tmp_path: Path, marked: str, expected: tuple[str, ...]) -> None:
    before = marked[: marked.index("»")]
    place = (before.count("\n") + 1, len(before) - before.rfind("\n"))
    path = save(tmp_path, marked.replace("»", ""))
    with pytest.raises(TraceError) as caught:
        simulator.run(path)
    error = caught.value
    assert (error.line, error.column) == place, str(error)
    assert str(error).startswith(f"{path}:{place[0]}:{place[1]}: ")
    assert "\n" not in str(error)
    for word in expected:
        assert word in str(error)


@pytest.mark.parametrize("marked", ["add.u32 %r1, »%r, 2;", "add.u32 %r10, %r1, »add;"])
def test_place_of_a_register(tmp_path: Path, marked: str) -> None:
    with pytest.raises(TraceError) as caught:
        run(tmp_path, marked.replace("»", ""))
    assert caught.value.column == marked.index("»") + 1


WHOLE: list[tuple[str, bytes, int, tuple[str, ...]]] = [
    ("empty", b"", 1, ("empty", ".trace 1")),
    ("only comments", b"// nothing\n\n", 1, ("empty",)),
    ("no program", W1.encode(), 0, ("no .warp block",)),
    ("not UTF-8", f"{W1}// caf\u00e9 \n".encode("latin-1"), 4, ("0xe9", "UTF-8")),
    ("binary", bytes(range(128, 256)), 1, ("0x80", "UTF-8")),
    ("control characters", bytes(range(32)), 1, ("ends inside the statement",)),
    ("nothing of a gzip", b"\x1f\x8b", 0, ("gzip", "whole gzip file")),
    ("no gzip after all", b"\x1f\x8bhello, this is no gzip file", 0, ("gzip",)),
    (
        "cut gzip",
        gzip.compress(f"{W1}.warp 0 {{\n{'mov.u32 %r0, 1;' * 5000} }}".encode())[:-30],
        0,
        ("gzip", "cut short"),
    ),
    ("gzip with a wrong sum", gzip.compress(f"{W1}.warp 0 {{ }}\n".encode())[:-8] + bytes(8), 0, ("gzip",)),
]


@over(("data", "line", "expected"), [row[1:] for row in WHOLE], ids=[row[0] for row in WHOLE])
def test_bad_file(tmp_path: Path, data: bytes, line: int, expected: tuple[str, ...]) -> None:
    path = tmp_path / "x.trace"
    path.write_bytes(data)
    with pytest.raises(TraceError) as caught:
        simulator.run(path)
    if "gzip" not in expected:
        assert caught.value.line == line
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    for word in expected:
        assert word in str(caught.value)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none.trace", tmp_path):
        with pytest.raises(TraceError, match=r"no such trace|is a directory") as caught:
            simulator.run(path)
        assert str(path) in str(caught.value)


def bad_load(path: Path, place: str, *, file: str = "data.npz", key: str = "a", shared: int = 64) -> TraceError:
    text = f'{HEAD}.warps 2\n.shared {shared}\n\n.load {place}, "{file}", "{key}";\n.warp 0 {{ mov.u32 %r1, %r0; }}\n'
    with pytest.raises(TraceError) as caught:
        simulator.run(save(path, text))
    assert caught.value.line == 6
    assert str(caught.value).startswith(f"{path / 'x.trace'}:6")
    return caught.value


def test_missing_npz_and_key(tmp_path: Path) -> None:
    assert "'none.npz' is not there" in str(bad_load(tmp_path, "%r0", file="none.npz"))
    np.savez(tmp_path / "data.npz", b=np.zeros(1), c=np.zeros(1))
    error = str(bad_load(tmp_path, "%r0"))
    assert "no array 'a'" in error
    assert "b, c" in error


@over(
    ("array", "words"),
    [
        (np.zeros((2, 32), np.int32), ("int32", "[2, 32]", "uint32")),
        (np.zeros((2, 32), np.uint64), ("uint64",)),
        (np.zeros((2, 32), np.float32), ("float32",)),
        (np.zeros((2, 16), np.uint32), ("[2, 16]", "[registers, 32]")),
        (np.zeros(32, np.uint32), ("[32]", "[registers, 32]")),
        (np.zeros((3, 2, 32), np.uint32), ("[3, 2, 32]", "[2, registers, 32]")),
        (np.zeros((0, 32), np.uint32), ("[0, 32]",)),
        (np.zeros((1, 2, 2, 32), np.uint32), ("[1, 2, 2, 32]",)),
        (np.zeros((), np.uint32), ("[]",)),
        (np.zeros((256, 32), np.uint32), ("256 registers", "at most 255")),
    ],
)
def test_wrong_arrays_for_registers(tmp_path: Path, array: NDArray[np.generic], words: tuple[str, ...]) -> None:
    np.savez(tmp_path / "data.npz", a=array)
    error = str(bad_load(tmp_path, "%r0"))
    assert all(word in error for word in words), error


def test_wrong_arrays_for_shared(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", a=np.zeros(65, np.uint8), text=np.array(["x"]), complex=np.zeros(2, np.complex64))
    assert "65 bytes" in str(bad_load(tmp_path, "shared[0]"))
    assert "at most 63" in str(bad_load(tmp_path, "shared[1]"))
    assert "type <U1" in str(bad_load(tmp_path, "shared[0]", key="text"))
    assert "complex64" in str(bad_load(tmp_path, "shared[0]", key="complex"))


def test_files_that_are_no_npz(tmp_path: Path) -> None:
    data = tmp_path / "data.npz"
    np.savez(data, a=np.array([{}, []], dtype=object))
    assert "Python objects" in str(bad_load(tmp_path, "%r0"))
    for content in (b"", b"PK\x03\x04", b"hello", b"\x93NUMPY\x01\x00", b"\x93NUMPY\x01\x00\x10\x00{'descr': '<u4'}"):
        data.write_bytes(content)
        assert "npz" in str(bad_load(tmp_path, "%r0"))
    with data.open("wb") as file:
        np.save(file, np.zeros((2, 32), np.uint32))
    assert "not an npz archive" in str(bad_load(tmp_path, "%r0"))
    np.savez_compressed(data, a=words(40, 32))
    whole = data.read_bytes()
    for length in (len(whole) - 1, len(whole) - 60, len(whole) // 2, 30):
        data.write_bytes(whole[:length])
        assert "npz" in str(bad_load(tmp_path, "%r0"))
    data.write_bytes(whole[:200] + bytes(50) + whole[250:])
    assert "npz" in str(bad_load(tmp_path, "%r0"))
    data.unlink()
    data.mkdir()
    assert "npz" in str(bad_load(tmp_path, "%r0"))


# What goes wrong while running


@over(
    ("access", "words"),
    [
        ("ld.shared.b32 %r0, [%r1+60];", ()),
        ("ld.shared.b32 %r0, [%r1+64];", ("4 bytes at shared[64]", "outside of the 64 bytes", "0 to 60")),
        ("ld.shared.b32 %r0, [%r1+-4];", ("4 bytes at shared[4294967292]", "outside")),
        ("st.shared.v4.b32 [%r1+52], {%r0, %r0, %r0, %r0};", ("16 bytes at shared[52]", "outside", "0 to 48")),
        ("ld.shared.u8 %r0, [%r1+64];", ("1 bytes at shared[64]", "outside")),
        ("ld.shared.b32 %r0, [%r1+2];", ("misaligned", "4 bytes at shared[2]", "multiple of 4")),
        ("st.shared.u16 [%r1+1], %r0;", ("misaligned", "multiple of 2")),
        ("ld.shared.v2.b32 {%r0, %r2}, [%r1+4];", ("misaligned", "8 bytes at shared[4]", "multiple of 8")),
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r1+8];", ("misaligned", "16 bytes", "multiple of 16")),
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r1+64];", ("16 bytes at shared[64]", "outside")),
    ],
)
def test_accesses_out_of_bounds(tmp_path: Path, access: str, words: tuple[str, ...]) -> None:
    body = f"mov.u32 %r1, 0;\n\n  {access}"
    if not words:
        run(tmp_path, body, shared=64)
        return
    with pytest.raises(TraceError) as caught:
        run(tmp_path, body, shared=64)
    assert caught.value.line == 9
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("programs", "waiting"),
    [
        (("bar.sync 0;", "mov.u32 %r0, 1;"), ("warps 0 wait at barrier 0", "1 of 2 warps")),
        (("bar.sync 0;", "bar.sync 1;"), ("warps 0 wait at barrier 0", "warps 1 wait at barrier 1", "0 of 2 warps")),
        (("bar.sync 4, 96;", "bar.sync 4, 96;"), ("warps 0, 1 wait at barrier 4", "0 of 2 warps")),
        ((".repeat 3 { bar.sync 0; }", ".repeat 2 { bar.sync 0; }"), ("warps 0 wait at barrier 0", "1 of 2 warps")),
        (("bar.sync 2, 64; bar.sync 0;", "bar.sync 0; bar.sync 2, 64;"), ("barrier 0", "barrier 2")),
    ],
)
def test_deadlocks(tmp_path: Path, programs: tuple[str, str], waiting: tuple[str, ...]) -> None:
    """The message says who waits for what, whether or not the values are computed."""
    text = f"{HEAD}.warps 2\n.warp 0 {{ {programs[0]} }}\n.warp 1 {{ {programs[1]} }}\n"
    for arithmetic in ("chip", "none"):
        with pytest.raises(DeadlockError) as caught:
            simulator.run(save(tmp_path, text), arithmetic=arithmetic)
        assert str(caught.value).startswith("deadlock")
        assert all(word in str(caught.value) for word in waiting), str(caught.value)


def test_deadlock_of_a_warp_without_a_program(tmp_path: Path) -> None:
    with pytest.raises(DeadlockError, match="have no program"):
        simulator.run(save(tmp_path, f"{HEAD}.warps 2\n.warp 0 {{ bar.sync 0; }}\n"))


@pytest.mark.parametrize(
    ("config", "text", "words"),
    [
        (
            "a100",
            f"{HEAD.replace('90a', '80')}.warps 1\n.shared 170000\n.warp 0 {{ }}\n",
            ("170,000 bytes of shared memory", "166,912"),
        ),
        ("h100_sxm", f"{HEAD}.warps 32\n.warp 0 {{ mov.u32 %r254, 1; }}\n", ("261,120 registers", "65,536")),
    ],
)
def test_too_large_for_the_chip(tmp_path: Path, config: str, text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(TraceError) as caught:
        simulator.run(save(tmp_path, text), config)
    assert all(word in str(caught.value) for word in (config, *words)), str(caught.value)


def test_too_many_warps_for_the_chip(tmp_path: Path) -> None:
    h100 = load_config("h100_sxm")
    small = replace(h100, sm=replace(h100.sm, warps=4))
    with pytest.raises(TraceError, match="needs 8 warps, but h100_sxm gives a CTA 4"):
        simulator.run(save(tmp_path, f"{HEAD}.warps 8\n.warp 0 {{ }}\n"), small)


def test_form_that_the_chip_lacks(tmp_path: Path) -> None:
    fp8 = f"mma.sp.sync.aligned.m16n8k64.row.col.f32.e4m3.e4m3.f32 {V4}, {V4}, {V4}, {V4}, %r9, 0;"
    with pytest.raises(TraceError, match="not available on sm_80") as caught:
        simulator.run(save(tmp_path, f"{W1}.warp 0 {{\n{fp8} }}"), "a100")
    assert caught.value.line == 5


@pytest.mark.parametrize(("argument", "value"), [("arithmetic", "fast"), ("undefined", "ignore")])
def test_bad_arguments(tmp_path: Path, argument: str, value: str) -> None:
    path = save(tmp_path, f"{W1}.warp 0 {{ }}")
    with pytest.raises(ValueError, match=value) as caught:
        simulator.run(path, **{argument: value})  # type: ignore[arg-type]
    assert "legal" in str(caught.value)


def test_undefined_metadata(tmp_path: Path) -> None:
    """Counted by default, raised on request, with file and line."""
    body = f"mov.u32 %r9, 0;\n{MMA_SP} {V4}, {V4}, {V4}, {V4}, %r9, 0;"
    top = '.load %r0, "data.npz", "z";'
    assert run(tmp_path, body, top=top, z=np.zeros((9, 32), np.uint32)).undefined == {"invalid-metadata": 1}
    path = tmp_path / "x.trace"
    with pytest.raises(UndefinedBehavior, match="invalid-metadata") as caught:
        simulator.run(path, undefined="raise")
    assert f"{path}:7" in caught.value.where


def test_lax_selector_stops(tmp_path: Path) -> None:
    """A selector that ptxas lets through stops a chip, so it stops here under either policy."""
    path = save(tmp_path, f"{W1}.warp 0 {{\n{MMA_SP} {V4}, {V4}, {V4}, {V4}, %r9, 2; }}")
    for policy in ("hardware", "raise"):
        with pytest.raises(UndefinedBehavior, match="selector-out-of-range"):
            simulator.run(path, undefined=policy)
