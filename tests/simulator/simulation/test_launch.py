"""Launches of PTX kernels: the bytes that an H100 or H200 gave, what goes wrong named with its line, and the same
result however the CTAs are spread."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import simulator
from simulator.program.capture import CaptureError, read_capture
from tests.golden.compare_launches import CAPTURED
from tests.support.cases import examples, exhaustive, over
from tests.support.paths import GOLDEN

Tcsim = Callable[..., tuple[int, str, str]]
LAUNCHES = GOLDEN / "launches"
HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"


def kernel(body: str, parameters: str = ".param .u64 D") -> simulator.Function:
    text = (
        f"{HEAD}.visible .entry k({parameters}) {{\n.reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<8>;\n{body}\n}}\n"
    )
    return simulator.Module(text).get_function("k")


@over("path", CAPTURED, ids=lambda path: path.stem)
def test_the_bytes_of_the_chip(path: Path) -> None:
    report = simulator.launch(path, workers=1)
    assert report.differences is not None
    assert not report.differences, "\n".join(map(str, report.differences))
    counted = read_capture(path).counters.get("warp_instructions")
    if counted:  # machine code has other instructions than PTX, but not many times as many
        assert 0.2 * counted < report.warp_instructions < 5 * counted


def test_many_processes_and_one_give_the_same() -> None:
    path = LAUNCHES / "f16_ragged.json"
    one, two = (simulator.launch(path, workers=workers) for workers in (1, 2))
    assert one.as_dict() == two.as_dict()
    assert all(np.array_equal(one.arrays[name], two.arrays[name]) for name in one.arrays)


def test_figures_of_a_launch_multiply_to_the_whole() -> None:
    """What as_dict and JSON have is not rounded: multiply-adds a cycle and SM are all of them, times are cycles."""
    chip = simulator.load_config("h100_sxm")
    report = simulator.launch(LAUNCHES / "f16_ragged.json", config="h100_sxm", workers=1)
    found = json.loads(json.dumps(report.as_dict()))
    assert found["fma"] > 0
    whole = found["throughput_fma_per_clk_sm"] * found["cycles"] * chip.chip.sms
    assert whole == pytest.approx(found["fma"], rel=1e-12)
    assert found["time_us"] * chip.chip.clock_mhz == pytest.approx(found["cycles"], rel=1e-12)


def test_arrays_are_written_in_place() -> None:
    function = kernel(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r1, %r2, %r3, %r1;"
        "ld.param.u64 %rd1, [D]; ld.param.u32 %r2, [n];"
        "setp.ge.u32 %p1, %r1, %r2; @%p1 ret; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2;"
        "ld.param.f32 %r3, [s]; ld.global.f32 %r4, [%rd1]; mul.f32 %r4, %r4, %r3; st.global.f32 [%rd1], %r4; ret;",
        ".param .u64 D, .param .u32 n, .param .f32 s",
    )
    data = np.arange(300, dtype=np.float32)
    report = function((10,), (32,), (data, 290, 0.5), config=None)
    assert np.array_equal(data[:290], np.arange(290, dtype=np.float32) / 2)
    assert np.array_equal(data[290:], np.arange(290, 300, dtype=np.float32))
    assert report.arrays["D"] is data
    assert report.instructions["mul.f32"] == 10


WRONG = {
    "out of bounds": (
        "ld.param.u64 %rd1, [D];\nst.global.u32 [%rd1+128], %r1;\nret;",
        r"line 7: .*CTA \(0, 0, 0\), warp 0.*'D'",
    ),
    "misaligned": ("ld.param.u64 %rd1, [D];\nld.global.u32 %r1, [%rd1+2];\nret;", "line 7: .*align"),
    "endless": ("loop:\nbra loop;\nret;", "line 7: .*budget"),
    "deadlock": ("setp.eq.u32 %p1, %r1, 0;\n@!%p1 ret;\nbar.sync 1, 64;\nret;", "line 8: .*deadlock"),
    "trap": ("mov.u32 %r1, %tid.x;\ntrap;\nret;", "line 7: .*stops itself"),
    "unknown instruction": ("mov.u64 %rd1, 0;\nmbarrier.inval.b64 [%rd1];\nret;", "line 7: .*mbarrier.inval"),
}


@over("case", sorted(WRONG))
def test_what_goes_wrong_is_named(case: str) -> None:
    body, message = WRONG[case]
    with pytest.raises(simulator.LaunchError, match=f"(?s){message}"):
        kernel(body)(1, 32, (np.zeros(32, np.uint32),), budget=10_000)


@over(
    "arguments, message",
    [
        (((1,), (32,), ()), "1 parameter"),
        (((1,), (2048,), (np.zeros(4, np.uint8),)), "1024"),
        (((1,), (0,), (np.zeros(4, np.uint8),)), "block"),
        (((1,), (32,), (np.zeros((4, 4), np.uint8).T[1:],)), "contiguous"),
        (((1,), (32,), ("text",)), "'D'"),
        (((1,), (32,), (np.zeros(4, np.uint8),), 300_000), "shared"),
    ],
)
def test_arguments_that_do_not_fit(arguments: tuple[object, ...], message: str) -> None:
    grid, block, values, *shared = arguments
    with pytest.raises(simulator.LaunchError, match=message):
        kernel("ret;")(grid, block, values, shared_mem=shared[0] if shared else 0)  # type: ignore[arg-type]


def test_threads_part_and_meet_again() -> None:
    function = kernel(
        "mov.u32 %r1, %laneid; and.b32 %r2, %r1, 3; mov.u32 %r3, 0; mov.u32 %r4, 0;"
        "loop: add.u32 %r3, %r3, %r1; add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, %r2; @%p1 bra loop;"
        "activemask.b32 %r5; vote.sync.ballot.b32 %r6, %p1, 0xffffffff; redux.sync.add.u32 %r7, %r3, 0xffffffff;"
        "ld.param.u64 %rd1, [D]; mul.wide.u32 %rd2, %r1, 16; add.u64 %rd1, %rd1, %rd2;"
        "st.global.v4.u32 [%rd1], {%r3, %r5, %r6, %r7}; ret;"
    )
    out = np.zeros((32, 4), np.uint32)
    function(1, 32, (out,))
    lane = np.arange(32)
    turns = np.maximum(lane & 3, 1)
    assert np.array_equal(out[:, 0], lane * turns)
    assert (out[:, 1] == 0xFFFFFFFF).all()
    assert not out[:, 2].any()
    assert (out[:, 3] == (lane * turns).sum()).all()


@exhaustive
def test_barriers_that_reduce_and_arrivals() -> None:
    """bar.red gives every thread the count, and the conjunction or disjunction, of what all gave; threads that arrive
    go on, and those that wait go on after them."""
    function = kernel(
        "mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 3; setp.eq.u32 %p1, %r2, 0; bar.red.popc.u32 %r3, 0, %p1;"
        "setp.lt.u32 %p2, %r1, 100; bar.red.and.pred %p3, 1, %p2; barrier.red.aligned.or.pred %p4, 2, !%p2;"
        "selp.u32 %r4, 1, 0, %p3; selp.u32 %r5, 2, 0, %p4; add.u32 %r6, %r4, %r5;"
        "setp.ge.u32 %p5, %r1, 64; @%p5 bra WAITING; bar.arrive 3, 128; bra DONE;\n"
        "WAITING: bar.sync 3, 128; bar.red.popc.u32 %r8, 4, 64, %p2; add.u32 %r6, %r6, %r8;\n"
        "DONE: shl.b32 %r9, %r1, 3; cvt.u64.u32 %rd2, %r9; ld.param.u64 %rd1, [D]; add.u64 %rd3, %rd1, %rd2;"
        "st.global.v2.u32 [%rd3], {%r3, %r6}; ret;"
    )
    data = np.zeros((128, 2), np.uint32)
    function((1,), (128,), (data,))
    assert (data[:, 0] == 32).all()
    assert data[:, 1].tolist() == [2] * 64 + [2 + 36] * 64


def test_an_election_among_the_threads_of_a_mask() -> None:
    """The lowest of them leads; those that have exited are not waited for, and a lane outside its mask ends the run."""
    text = (
        "mov.u32 %r1, %tid.x; setp.gt.u32 %p1, %r1, 28; @%p1 bra OUT; mov.u32 %r4, 99; setp.ge.u32 %p2, %r1, {};"
        "@%p2 elect.sync %r4|%p3, 0xfffffe00; @%p2 bar.warp.sync 0xfffffe00; mul.wide.u32 %rd2, %r1, 4;"
        "ld.param.u64 %rd1, [D]; add.u64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r4;\nOUT: ret;"
    )
    data = np.zeros(32, np.uint32)
    kernel(text.format(9))((1,), (32,), (data,))
    assert data.tolist() == [99] * 9 + [9] * 20 + [0] * 3
    with pytest.raises(simulator.LaunchError, match=r"lane 8: .*must be in that mask"):
        kernel(text.format(8))((1,), (32,), (data,))


def test_a_shuffle_from_a_thread_that_has_exited() -> None:
    """Kernels do that at ragged ends, with the mask of the threads that are there; an H200 gave 0."""
    function = kernel(
        "mov.u32 %r1, %tid.x; setp.gt.u32 %p1, %r1, 12; @%p1 bra OUT; activemask.b32 %r2; add.u32 %r3, %r1, 7;"
        "shfl.sync.bfly.b32 %r4, %r3, 1, 31, %r2; mul.wide.u32 %rd2, %r1, 4; ld.param.u64 %rd1, [D];"
        "add.u64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r4;\nOUT: ret;"
    )
    data = np.zeros(32, np.uint32)
    report = function((1,), (32,), (data,))
    assert data[:13].tolist() == [(lane ^ 1) + 7 if lane < 12 else 0 for lane in range(13)]
    assert report.undefined == {"shuffle-from-inactive-thread": 1}
    with pytest.raises(simulator.LaunchError, match="a shuffle reads from"):
        function((1,), (32,), (data,), undefined="raise")


def test_the_ragged_launch_with_every_number_of_rows_in_lock_step(monkeypatch: pytest.MonkeyPatch) -> None:
    for rows in (1, 7, 64)[: examples(3, 2)]:
        monkeypatch.setattr("simulator.simulation.launch.batches.ROWS", rows)
        assert not simulator.launch(LAUNCHES / "f16_one_cta.json", workers=1).differences


def test_a_capture_that_cannot_be_read(tmp_path: Path) -> None:
    whole = json.loads((LAUNCHES / "direct_one_warp.json").read_text())
    (tmp_path / whole["ptx"]).write_bytes((LAUNCHES / whole["ptx"]).read_bytes())
    for change, message in (
        ({"grid": [0, 1, 1]}, "grid"),
        ({"params": [{"buffer": "nothing"}]}, "nothing"),
        ({"ptx": "missing.ptx"}, "missing.ptx"),
        ({"data": "missing.npz"}, "missing.npz"),
    ):
        path = tmp_path / "capture.json"
        path.write_text(json.dumps({**whole, "data": None, **change}))
        with pytest.raises(CaptureError, match=message):
            simulator.launch(path)


def test_launch_on_the_command_line(tcsim: Tcsim, tmp_path: Path) -> None:
    code, out, err = tcsim("launch", str(LAUNCHES / "direct_one_warp.json"))
    assert code == 0
    assert "every byte as in the capture" in out
    source = tmp_path / "scale.ptx"
    source.write_text(
        f"{HEAD}.visible .entry scale(.param .u64 A, .param .u64 D) {{\n.reg .b32 %r<4>; .reg .b64 %rd<6>;\n"
        "mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4; ld.param.u64 %rd2, [A]; ld.param.u64 %rd3, [D];\n"
        "add.u64 %rd2, %rd2, %rd1; add.u64 %rd3, %rd3, %rd1; ld.global.f32 %r2, [%rd2]; add.f32 %r2, %r2, %r2;\n"
        "st.global.f32 [%rd3], %r2; ret;\n}\n"
    )
    np.save(tmp_path / "a.npy", np.arange(32, dtype=np.float32))
    given = ("launch", str(source), "--grid", "1", "--block", "32", "--arg", f"A={tmp_path / 'a.npy'}")
    code, out, err = tcsim(*given, "--arg", "D=out:float32:32", "--output", str(tmp_path / "d.npz"))
    assert code == 0, err
    assert np.array_equal(np.load(tmp_path / "d.npz")["D"], 2 * np.arange(32, dtype=np.float32))
    code, out, err = tcsim(*given, "--arg", "D=out:float32:16", "--output", str(tmp_path / "e.npz"))
    assert code == 2
    assert "'D'" in err
    assert "line 8" in err
    assert not (tmp_path / "e.npz").exists()


def test_decode_names_what_a_launch_cannot_execute(tcsim: Tcsim, tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    head = HEAD.replace("sm_90a", "sm_100a")
    path.write_text(
        f"{head}.visible .entry k() {{\n.reg .b32 %r<4>;\nmov.u32 %r1, 0;\ntcgen05.wait::ld.sync.aligned;\n"
        "bfind.u7 %r1, %r1;\nret;\n}\n"
    )
    code, out, _ = tcsim("decode", path)
    assert code == 0
    assert f"{path}:7: ok" in out
    assert f"{path}:8: a launch stops here: bfind.u7 %r1, %r1: " in out
    _, out, _ = tcsim("decode", path, "--format", "json")
    assert [stop["line"] for stop in json.loads(out)["not_executed"]] == [8]


BROKEN = ".visible .entry bad() {\n.reg .b32 %r<2>;\nmov.u32 %r1, %r7;\nret;\n}\n"


def test_a_kernel_beside_one_that_cannot_be_read_runs(tcsim: Tcsim, tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(f"{HEAD}{BROKEN}.visible .entry good() {{\nret;\n}}\n")
    line = ("launch", str(path), "--grid", "1", "--block", "32")
    assert tcsim(*line, "--entry", "good")[0] == 0
    code, out, err = tcsim(*line, "--entry", "bad")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "line 6: " in err
    assert "%r7" in err


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (HEAD + BROKEN + ".entry k() { ret; }\n", 6),
        (HEAD + ".entry k() { ret; }\nmov.u32 %r1, %r2;\n", 5),
        (HEAD + ".entry k() {\n.reg .b32 %r<2>;\nmov.u32 %r1, %r7;\nret; }\n", 6),
        (HEAD + ".entry k() {\nbra L;\nret; }\n", 5),
        (HEAD + ".entry k() {\nret;\n", 4),
        (".version 8.0\n.entry k() {\nret;\n}\n", 1),
        (HEAD + ".global .u64 x[1] = {y};\n.entry k() {\nret;\n}\n", 4),
    ],
)
def test_decode_says_what_of_a_module_a_launch_cannot_read(tcsim: Tcsim, tmp_path: Path, text: str, line: int) -> None:
    """It said "0 wrong", and exit code 0, of a module that no launch could read."""
    path = tmp_path / "k.ptx"
    path.write_text(text)
    code, out, err = tcsim("decode", path)
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith(f"tcsim: {path}:{line}: a launch cannot read this: ")
    assert out.endswith("1 that a launch cannot read\n")
    code, out, _ = tcsim("decode", path, "--format", "json")
    assert code == 1
    assert [each["line"] for each in json.loads(out)["unreadable"]] == [line]
    code, _, again = tcsim("launch", path, "--entry", "bad" if "bad" in text else "k", "--grid", "1", "--block", "32")
    assert (code, again.count("\n")) == (2, 1)
    assert f"line {line}: {err.partition('this: ')[2]}" in again


def test_decode_of_instructions_that_are_no_module(tcsim: Tcsim, tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text("bar.sync 0;\nmov.u32 %r1, %r7;\n")
    assert tcsim("decode", path)[0] == 0


def test_what_stands_beside_registers_of_a_fragment() -> None:
    """Row sums with an all-ones B: sinks in D, decimal constants in C, an integer in B (two f16), as SageAttention has
    them; and where the system's part of shared memory lies."""
    body = """mov.u32 %r0, %tid.x; mov.u32 %r1, 0x3c003c00; mov.f32 %f0, 0f3F800000; mov.f32 %f2, 0f40000000;
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, _, %f2, _}, {%r1, %r1, %r1, %r1}, {%r1, 0x3c003c00},
        {%f0, 0., %f2, 0.};
    mov.u32 %r2, %reserved_smem_offset_begin; mov.u32 %r3, %reserved_smem_offset_end;
    ld.param.u64 %rd0, [D]; mul.wide.u32 %rd1, %r0, 16; add.s64 %rd0, %rd0, %rd1;
    st.global.v4.b32 [%rd0], {%f0, %f2, %r2, %r3}; ret;"""
    function = kernel(".reg .f32 %f<8>;" + body)
    result = np.zeros((32, 4), np.uint32)
    function(1, 32, (result,))
    assert (result == (np.float32(17).view(np.uint32), np.float32(18).view(np.uint32), 0, 1024)).all()


def test_what_ptxas_takes_computes_what_it_says() -> None:
    """Negated predicates as sources, sinks in vectors and pairs, WARP_SZ, special registers in narrow moves and
    conversions, and decimal constants in vectors, of which the low word of the f64 is kept."""
    function = kernel(
        ".reg .b16 %rs<2>; ld.param.u64 %rd0, [D]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 32;"
        "add.s64 %rd0, %rd0, %rd1; setp.lt.u32 _|%p0, %r0, 8; selp.u32 %r1, 5, 6, !%p0; not.pred %p1, !%p0;"
        "and.pred %p1, !%p1, 1; selp.u32 %r2, 3, 4, %p1; add.u32 %r3, %r0, WARP_SZ; mov.u16 %rs0, %tid.x;"
        "cvt.u32.u16 %r4, %rs0; cvt.u32.u16 %r5, %laneid; st.global.v4.b32 [%rd0], {%r1, %r2, %r3, 0.1};"
        "ld.global.v2.b32 {_, %r6}, [%rd0]; st.global.v4.u32 [%rd0+16], {%r4, %r5, %r6, 7}; ret;"
    )
    out = np.zeros((32, 8), np.uint32)
    function(1, 32, (out,))
    lane = np.arange(32)
    expected = (
        np.where(lane < 8, 5, 6), np.where(lane < 8, 3, 4), lane + 32, 0x9999999A + 0 * lane, lane, lane,
        np.where(lane < 8, 3, 4), 7 + 0 * lane,
    )  # fmt: skip
    assert np.array_equal(out, np.stack(expected, axis=1))
